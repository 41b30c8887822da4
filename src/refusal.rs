//! Every error, in one place: its SQLSTATE, the fact in one line, the figures in DETAIL, the way
//! out in HINT. Logic returns a [`Refusal`]; only the edge raises it.

use std::ffi::{CStr, CString};
use std::io::ErrorKind;

use id_gen_core::clock::unix_ms;
use id_gen_core::layout::{Field, Layout, LayoutError, RangeError, show_ms};
use id_gen_core::opening::Obstacle;
use id_gen_core::reservation::{Damage, FILE};
use id_gen_core::{plan, presets, uuid7};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::reservation::{self, UPGRADED};
use crate::settings::{self, Settings};
use crate::{clock, log};

/// Why a call is refused.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The library was not preloaded, so there is no shared segment.
    #[cfg(not(feature = "registry"))]
    NotPreloaded,
    /// This session can't see what the server has set this parameter to.
    Hidden(String),
    /// The server's settings have changed since this statement began.
    ReloadPending,
    /// The server's settings may have changed since this process began.
    IgnoresReloads,
    /// The shared segment was made by another version of the library.
    OtherVersion,
    /// The server is a standby or still recovering.
    Recovery,
    /// `id_gen.worker_id` is not set.
    WorkerUnset,
    /// `id_gen.worker_id` or `id_gen.datacenter_id` does not fit the layout.
    Node(RangeError, Layout),
    /// `id_gen.layout` holds no usable layout.
    BadServerLayout {
        /// What it holds.
        text: String,
        /// What is wrong with it.
        error: LayoutError,
    },
    /// The server was started with a text that is no layout; it has been mended since.
    LayoutWaits,
    /// A layout argument is no layout.
    BadLayout(LayoutError),
    /// IDs are as far ahead of the clock as they may be.
    Ahead {
        /// How far ahead the next ID would be.
        lead_ms: i64,
        /// How much less a request for many may be, which leaves that to others.
        left_ms: u32,
        /// How far it may be.
        max_lead_ms: u32,
        /// How long the call waited.
        max_wait_ms: u32,
    },
    /// The clock went forward further than is believed.
    Jumped {
        /// By how much.
        by_ns: u64,
        /// By how much it may.
        max_jump_ms: u32,
    },
    /// The clock shows a time before the layout's epoch.
    BeforeEpoch(Layout),
    /// The clock is past the layout's time field.
    Exhausted(Layout),
    /// All times that the layout has were promised before, although the clock is not past them.
    AllPromised(Layout),
    /// The line of IDs can't begin before somebody decides; for this layout.
    Obstacle(Obstacle, Box<Layout>),
    /// The reservation's file is damaged.
    Damaged(Damage),
    /// The reservation's file can't be read.
    Unreadable(FileError),
    /// The reservation's file can't be written.
    Unwritten(FileError),
    /// During `pg_upgrade`: the file that tells of it can't be written.
    UpgradeUnwritten(FileError),
    /// An ID, number or instant that does not fit its layout.
    Range(RangeError, Layout),
    /// `infinity` and the like.
    Infinite,
    /// An instant that UUIDv7 can't carry.
    UuidInstant,
    /// A count that is not positive.
    BadCount(i32),
    /// A count beyond what an array holds.
    ArrayTooLarge {
        /// What was asked for.
        count: i32,
        /// The most there can be.
        max: i32,
    },
    /// A count that is NULL.
    NullCount,
    /// A time that is NULL.
    NullTime,
    /// A part of what is wished of a layout that is not positive.
    BadWish {
        /// The argument.
        name: &'static str,
        /// What it is.
        value: i64,
    },
    /// A part of what is wished of a layout that is NULL; its argument.
    NullWish(&'static str),
    /// A set-returning function in a place that takes no set.
    NoSet,
    /// More processes than slots: this process has none.
    NoSlot,
    /// The operating system gave no random seed.
    NoRandomness(String),
}

/// What the operating system said of a file.
#[derive(Clone, Debug)]
pub struct FileError {
    kind: ErrorKind,
    text: String,
}

impl From<&std::io::Error> for FileError {
    fn from(error: &std::io::Error) -> FileError {
        FileError { kind: error.kind(), text: error.to_string() }
    }
}

impl FileError {
    /// As PostgreSQL's `errcode_for_file_access()`.
    const fn sqlstate(&self) -> PgSqlErrorCode {
        match self.kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => PgSqlErrorCode::ERRCODE_DISK_FULL,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE
            }
            _ => PgSqlErrorCode::ERRCODE_IO_ERROR,
        }
    }
}

/// The causes of refusing to generate, counted one by one, as the log names them.
pub const CAUSE_NAMES: [&str; CAUSES] = [
    "worker or datacenter number",
    "layout",
    "lead over the clock",
    "clock jumped forward",
    "clock before the epoch",
    "layout has run out",
    "reservation cannot be used",
    "reservation cannot be written",
];
/// How many there are.
pub const CAUSES: usize = 8;

/// Where errors raised here come from, as PostgreSQL reports it.
pub const FILE_NAME: &str = file!();

impl Refusal {
    /// Where a refusal to generate is counted; `None` for a mistake in the call itself.
    pub const fn cause(&self) -> Option<usize> {
        match self {
            Refusal::WorkerUnset | Refusal::Node(..) => Some(0),
            Refusal::BadServerLayout { .. } | Refusal::LayoutWaits => Some(1),
            Refusal::Ahead { .. } => Some(2),
            Refusal::Jumped { .. } => Some(3),
            Refusal::BeforeEpoch(_) => Some(4),
            Refusal::Exhausted(_) | Refusal::AllPromised(_) => Some(5),
            Refusal::Obstacle(..) | Refusal::Damaged(_) | Refusal::Unreadable(_) => Some(6),
            Refusal::Unwritten(_) => Some(7),
            _ => None,
        }
    }

    /// Raises the error.
    pub fn raise(self) -> ! {
        self.raise_from(pg_sys::InvalidOid)
    }

    /// Raises the error out of one of our functions, whose schema is named in what to type if it has
    /// to be.
    pub fn raise_from(self, function: pg_sys::Oid) -> ! {
        log::note_raised(self.cause());
        let words = self.words();
        let hint = to_type(&words.hint, function);
        Words { hint, ..words }.into_report().report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }

    /// Writes the same words to the log without raising anything.
    pub fn log(self, level: PgLogLevel) {
        self.words().into_report().report(level);
    }

    /// Hands the words to the code that refuses a setting's value, with a hint for who types one.
    pub fn explain_to_guc(self) {
        let Words { sqlstate, primary, detail, .. } = self.words();
        let hint = format!(
            "Name a preset ({}) or write a layout text such as \"{}\".",
            usable_presets(),
            example_layout()
        );
        let keep = |text: String| {
            let text = CString::new(text).unwrap_or_default();
            // SAFETY: a valid C string; the copy lives until PostgreSQL has reported it.
            unsafe { pg_sys::pstrdup(text.as_ptr()) }
        };
        // SAFETY: variables of this process that a check hook is meant to set.
        unsafe {
            pg_sys::GUC_check_errcode(sqlstate as i32);
            pg_sys::GUC_check_errmsg_string = keep(primary);
            if let Some(detail) = detail {
                pg_sys::GUC_check_errdetail_string = keep(detail);
            }
            pg_sys::GUC_check_errhint_string = keep(hint);
        }
    }

    /// The error in PostgreSQL's parts.
    pub fn words(&self) -> Words {
        use PgSqlErrorCode as Code;
        match self {
            #[cfg(not(feature = "registry"))]
            Refusal::NotPreloaded => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "id_gen must be loaded through shared_preload_libraries to generate snowflakes",
            )
            .detail("Snowflakes of all sessions come from one place in shared memory, which is set up when the server starts.")
            .hint(preload_hint()),
            Refusal::Hidden(name) => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the server's setting of \"{name}\" cannot be seen in this session"),
            )
            .detail("The role, the database or the connection has a setting of its own by that name, made before id_gen was loaded.")
            .hint(format!("Remove it, by ALTER ROLE ... RESET {name} or ALTER DATABASE ... RESET {name}, and connect again.")),
            Refusal::ReloadPending => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the server's settings were reloaded during this statement",
            )
            .detail("The first session that needs them sets up the shared memory of id_gen, and this one has only the old ones.")
            .hint("Run the statement again."),
            Refusal::IgnoresReloads => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this background worker cannot tell the server's settings",
            )
            .detail("The first process that needs them sets up the shared memory of id_gen, and reloads do not reach this one.")
            .hint(format!("Let a client's session be the first: SELECT id_gen_status(); or preload the library. {}", preload_hint())),
            Refusal::OtherVersion => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this session has loaded another version of id_gen than the running server",
            )
            .detail("The shared memory of id_gen was set up by the version installed when the server started.")
            .hint("Restart the server, so that all sessions load the installed version."),
            Refusal::Recovery => Fact::new(
                Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
                "cannot generate snowflakes during recovery",
            )
            .detail("This server is a standby; the IDs of its worker number are the primary's to give.")
            .hint("Run the statement on the primary. uuidv7() and the functions that decode work here too."),
            Refusal::WorkerUnset => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "id_gen.worker_id is not set",
            )
            .detail("Every server needs a number of its own within its IDs, or two servers would make the same ID.")
            .hint("Choose a number that no other server has: ALTER SYSTEM SET id_gen.worker_id = 1; SELECT pg_reload_conf();"),
            Refusal::Node(error, layout) => node_words(error, layout),
            Refusal::BadServerLayout { text, error } => Fact::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"id_gen.layout\": \"{text}\""),
            )
            .detail(sentence(error))
            .hint(layout_hint(None)),
            Refusal::LayoutWaits => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the server was started with an invalid id_gen.layout",
            )
            .detail("It has been set to a valid layout since; a running server keeps the layout it was started with.")
            .hint("Restart the server."),
            Refusal::BadLayout(error @ LayoutError::UnknownName(_)) => {
                Fact::new(Code::ERRCODE_UNDEFINED_OBJECT, error.to_string())
                    .hint(format!("Layouts with a name are {}.", presets::names()))
            }
            Refusal::BadLayout(error) => {
                Fact::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "invalid layout")
                    .detail(sentence(error))
                    .hint(format!("A layout text looks like \"{}\".", example_layout()))
            }
            Refusal::Ahead { lead_ms, left_ms, max_lead_ms, max_wait_ms } => {
                let less = match left_ms {
                    0 => String::new(),
                    _ => format!(", the last {left_ms} ms not to requests for many"),
                };
                let behind_ms = lead_ms - i64::from(*max_lead_ms) + i64::from(*left_ms);
                Fact::new(
                    Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                    "no snowflake is available yet",
                )
                .detail(format!(
                    "The next one would be {lead_ms} ms ahead of the clock; id_gen.max_lead allows {max_lead_ms} ms{less}, and waiting {max_wait_ms} ms (id_gen.max_wait) was not enough."
                ))
                .hint(ahead_hint(behind_ms, lead_ms.saturating_add((*left_ms).into())))
            }
            Refusal::Jumped { by_ns, max_jump_ms } => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the clock jumped forward",
            )
            .detail(format!(
                "It gained {} ms on the monotonic clock, more than id_gen.max_jump ({max_jump_ms} ms); IDs of a wrong time could not be taken back.",
                by_ns / id_gen_core::layout::NS_PER_MS
            ))
            .hint("Put the clock right; or, if it is right now, let a superuser run: SELECT id_gen_accept_clock();"),
            Refusal::BeforeEpoch(layout) => Fact::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the clock shows a time before the layout's epoch",
            )
            .detail(format!("The layout starts at {}.", show_ms(layout.epoch_ms())))
            .hint(format!("Put the clock right; or, if it is right: {}", layout_hint(Some(layout)))),
            Refusal::Exhausted(layout) => Fact::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                "the layout has run out of snowflakes",
            )
            .detail(format!("Its time field ended at {}.", show_ms(layout.runs_out_ms())))
            .hint(format!(
                "If the clock is wrong, put it right. {}",
                successor_hint(layout, layout.runs_out_ms())
            )),
            Refusal::AllPromised(layout) => Fact::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                "the layout has run out of snowflakes",
            )
            .detail(format!(
                "All times up to its end, {}, were promised before, although the clock is not there.",
                show_ms(layout.runs_out_ms())
            ))
            .hint(TAKE_BACK_HINT),
            Refusal::Obstacle(obstacle, layout) => obstacle_words(obstacle, layout),
            Refusal::Damaged(damage) => {
                Fact::new(Code::ERRCODE_DATA_CORRUPTED, format!("file \"{FILE}\" is damaged"))
                    .detail(format!("{} It says up to which time this server has handed out snowflakes.", sentence(damage)))
                    .hint(match damage {
                        Damage::Version(_) => "Install the version of id_gen that wrote it, or a newer one, and restart the server.",
                        _ => RESET_HINT,
                    })
            }
            Refusal::Unreadable(error) => Fact::new(
                error.sqlstate(),
                format!("could not read file \"{FILE}\": {}", error.text),
            )
            .detail("It says up to which time this server has handed out snowflakes.")
            .hint("Let the server's user read that file in the data directory; the next call tries again."),
            Refusal::Unwritten(error) => Fact::new(
                error.sqlstate(),
                format!("could not write file \"{FILE}\": {}", error.text),
            )
            .detail("It has to say up to which time snowflakes may be handed out before they are.")
            .hint("Make room, or let the server's user write to the directory \"id_gen\" in the data directory; the next call tries again."),
            Refusal::UpgradeUnwritten(error) => Fact::new(
                error.sqlstate(),
                format!("could not write file \"{UPGRADED}\": {}", error.text),
            )
            .detail("It has to say when pg_upgrade filled this cluster, so that snowflakes go on above the old ones.")
            .hint("Make room, or let the server's user write to the directory \"id_gen\" in the data directory, and run pg_upgrade again."),
            Refusal::Range(error, layout) => range_words(error, layout),
            Refusal::Infinite => Fact::new(
                Code::ERRCODE_DATETIME_FIELD_OVERFLOW,
                "timestamp must be finite",
            )
            .hint("Use a timestamp within the layout's years, or leave the bound out."),
            Refusal::UuidInstant => Fact::new(
                Code::ERRCODE_DATETIME_FIELD_OVERFLOW,
                "timestamp is out of range for UUID version 7",
            )
            .detail(format!(
                "UUID version 7 carries 1970-01-01T00:00:00Z to {} ms after it, in the year 10889.",
                uuid7::LAST_MS
            ))
            .hint("Use a timestamp or an interval within that range."),
            Refusal::BadCount(count) => Fact::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "count must be greater than zero",
            )
            .detail(format!("The count is {count}."))
            .hint("Ask for 1 or more."),
            Refusal::ArrayTooLarge { count, max } => Fact::new(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "count exceeds the largest array",
            )
            .detail(format!("The count is {count}; an array holds at most {max}."))
            .hint(format!("Use SELECT snowflake_next_batch({count}), which needs no array.")),
            Refusal::NullCount => {
                Fact::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, "count must not be null")
                    .hint("Ask for 1 or more.")
            }
            Refusal::NullTime => {
                Fact::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, "time must not be null")
                    .hint("Pass the time of the newest ID in use, or now().")
            }
            Refusal::BadWish { name, value } => Fact::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{name} must be greater than zero"),
            )
            .detail(format!("The value of {name} is {value}."))
            .hint(WISH_HINT),
            Refusal::NullWish(name) => {
                Fact::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, format!("{name} must not be null"))
                    .hint(WISH_HINT)
            }
            Refusal::NoSet => Fact::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "set-valued function called in context that cannot accept a set",
            )
            .hint("Call it in FROM, as in: SELECT * FROM snowflake_layouts();"),
            Refusal::NoSlot => Fact::new(
                Code::ERRCODE_INTERNAL_ERROR,
                "this process has no place in the shared memory of id_gen",
            )
            .detail("There is one for each session and background worker that the server had room for when that memory was set up.")
            .hint("Run the statement in a client's session."),
            Refusal::NoRandomness(error) => Fact::new(
                Code::ERRCODE_INTERNAL_ERROR,
                format!("could not get random bits from the operating system: {error}"),
            )
            .hint("Let the server's processes call getrandom(2); the next call tries again."),
        }
    }
}

/// An error in PostgreSQL's parts.
pub struct Words {
    sqlstate: PgSqlErrorCode,
    /// What is the matter, in one line.
    pub primary: String,
    /// The figures.
    pub detail: Option<String>,
    /// The way out, which every error has.
    pub hint: String,
}

impl Words {
    fn into_report(self) -> ErrorReport {
        let Words { sqlstate, primary, detail, hint } = self;
        let report = ErrorReport::new(sqlstate, primary, "").set_hint(hint);
        match detail {
            Some(detail) => report.set_detail(detail),
            None => report,
        }
    }
}

/// The schema of one of our functions, as one types it, if a session has to type it.
fn schema_to_name(function: pg_sys::Oid) -> Option<String> {
    // SAFETY: called while the function runs, so it exists and catalogs can be read; the name is a
    // string of this call's memory.
    unsafe {
        if function == pg_sys::InvalidOid || pg_sys::FunctionIsVisible(function) {
            return None;
        }
        let schema = pg_sys::get_namespace_name(pg_sys::get_func_namespace(function));
        (!schema.is_null()).then(|| {
            CStr::from_ptr(pg_sys::quote_identifier(schema)).to_string_lossy().into_owned()
        })
    }
}

/// What is to be typed, by who called this function of ours: with our schema, if it has to be typed.
pub fn to_type(statements: &str, function: pg_sys::Oid) -> String {
    schema_to_name(function)
        .map_or_else(|| statements.to_owned(), |schema| name_schema(statements, &schema))
}

/// Names the extension's schema before each of our functions in statements to be typed.
pub fn name_schema(statements: &str, schema: &str) -> String {
    let mut named = statements.to_owned();
    for keyword in ["SELECT ", "FROM "] {
        for family in ["id_gen_", "snowflake_"] {
            named = named
                .replace(&format!("{keyword}{family}"), &format!("{keyword}{schema}.{family}"));
        }
    }
    named
}

/// The words of an error before its hint.
struct Fact {
    sqlstate: PgSqlErrorCode,
    primary: String,
    detail: Option<String>,
}

impl Fact {
    fn new(sqlstate: PgSqlErrorCode, primary: impl Into<String>) -> Fact {
        Fact { sqlstate, primary: primary.into(), detail: None }
    }

    fn detail(self, detail: impl Into<String>) -> Fact {
        Fact { detail: Some(detail.into()), ..self }
    }

    fn hint(self, hint: impl Into<String>) -> Words {
        let Fact { sqlstate, primary, detail } = self;
        Words { sqlstate, primary, detail, hint: hint.into() }
    }
}

fn node_words(error: &RangeError, layout: &Layout) -> Words {
    let (setting, value, max) = match *error {
        RangeError::Number { field: Field::Datacenter, value, max } => {
            ("id_gen.datacenter_id", value, max)
        }
        RangeError::Number { value, max, .. } => ("id_gen.worker_id", value, max),
        _ => return range_words(error, layout),
    };
    let fact = Fact::new(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("{setting} is out of range for the layout"),
    );
    if max == 0 {
        return fact
            .detail(format!("{setting} is {value}; layout \"{layout}\" has no such field."))
            .hint(format!(
                "Set it to 0: ALTER SYSTEM SET {setting} = 0; SELECT pg_reload_conf();"
            ));
    }
    fact
        .detail(format!("{setting} is {value}; layout \"{layout}\" has room for 0 to {max}."))
        .hint(format!(
            "Choose a number up to {max} that no other server has: ALTER SYSTEM SET {setting} = 1; SELECT pg_reload_conf();"
        ))
}

/// What to do where the clock has to catch up by so much first, or a lead has to be allowed: names the setting where that
/// goes so far.
pub fn ahead_hint(behind_ms: i64, lead_ms: i64) -> String {
    let wait = if behind_ms > 0 {
        format!("Wait {} s for the clock to catch up", behind_ms / 1000 + 1)
    } else {
        "Ask for fewer".to_owned()
    };
    if lead_ms > settings::MAX_MAX_LEAD_MS.into() {
        return format!("{wait}; if it was set back, put it right. {TAKE_BACK_HINT}");
    }
    format!(
        "{wait}; if it was set back, put it right; or allow the difference: ALTER SYSTEM SET id_gen.max_lead = '{}s'; SELECT pg_reload_conf();",
        lead_ms / 1000 + 1
    )
}

/// What to type to have a layout proposed.
const WISH_HINT: &str = "Say what is needed, as in: SELECT * FROM id_gen_plan(ids_per_second => 10000, servers => 10, years => 30);";

/// What to type when a wrong time was promised.
const TAKE_BACK_HINT: &str = "If no ID in use is of a later time than now, let a superuser begin anew above it: SELECT id_gen_reset_reservation(above => now());";

/// What to type when the past is lost.
const RESET_HINT: &str = "Put the file back; or let a superuser begin anew above the clock, and above the newest ID in use: SELECT id_gen_reset_reservation(above => now());";

fn obstacle_words(obstacle: &Obstacle, layout: &Layout) -> Words {
    match obstacle {
        Obstacle::Lost => Fact::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_FILE,
            format!("file \"{FILE}\" is missing"),
        )
        .detail("This server has issued snowflakes, as \"id_gen/issued\" tells, and the missing file says up to which time.")
        .hint(RESET_HINT),
        Obstacle::OtherSystem { found } => Fact::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("file \"{FILE}\" belongs to another database cluster"),
        )
        .detail(format!("Its system identifier is {found}, not this server's."))
        .hint(RESET_HINT),
        Obstacle::LayoutBelow { old, highest_old, lowest_new } => Fact::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the new id_gen.layout could repeat snowflakes of the old one",
        )
        .detail(format!(
            "This server has issued IDs up to {highest_old} with layout \"{old}\"; the next one with layout \"{layout}\" would be {lowest_new}."
        ))
        .hint("Set id_gen.layout back and restart; or, if that may happen, let a superuser run: SELECT id_gen_accept_layout();"),
    }
}

fn range_words(error: &RangeError, layout: &Layout) -> Words {
    match *error {
        RangeError::Id { bits, .. } => Fact::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            error.to_string(),
        )
        .detail(format!(
            "Layout \"{layout}\" has {bits} bits: 0 to {}.",
            u64::MAX >> (u64::BITS - bits)
        ))
        .hint("Name the layout that the ID was made with: SELECT name, layout FROM snowflake_layouts();"),
        RangeError::Number { field, max: 0, .. } => Fact::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            error.to_string(),
        )
        .detail(format!("Layout \"{layout}\" has no {field} field, so it must be 0."))
        .hint("Pass 0, or name another layout."),
        RangeError::Number { field, max, .. } => Fact::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            error.to_string(),
        )
        .detail(format!("Layout \"{layout}\" has room for a {field} from 0 to {max}."))
        .hint("Pass a number in that range, or name another layout."),
        RangeError::Instant { first_ms, last_ms } => Fact::new(
            PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW,
            error.to_string(),
        )
        .detail(format!(
            "Layout \"{layout}\" carries {} to {}.",
            show_ms(first_ms),
            show_ms(last_ms)
        ))
        .hint("Use a timestamp in that range, or name another layout."),
    }
}

/// An error of `core` as a sentence of DETAIL.
fn sentence(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).chain(std::iter::once('.')).collect()
    })
}

fn example_layout() -> String {
    presets::by_name(presets::DEFAULT).map_or_else(String::new, |preset| preset.layout.to_string())
}

/// What to do about a setting that is no layout, or one that no ID can be made with: the layout of this server's last IDs,
/// if there are any, lets it go on where it was.
pub fn layout_hint(unusable: Option<&Layout>) -> String {
    match reservation::last_layout().filter(|last| Some(last) != unusable) {
        Some(last) => format!(
            "Set the layout of this server's last IDs, then restart the server: ALTER SYSTEM SET id_gen.layout = '{}';",
            presets::naming(&last)
                .map_or_else(|| last.to_string(), |preset| preset.name.to_owned())
        ),
        None => format!(
            "Set a layout, such as the one that goes by default, then restart the server: ALTER SYSTEM SET id_gen.layout = '{}';",
            presets::DEFAULT
        ),
    }
}

/// The names of the presets that IDs can be made with today.
fn usable_presets() -> String {
    let now_ms = unix_ms(clock::wall_ns());
    let usable = presets::all().iter().filter(|preset| preset.layout.check_at(now_ms).is_ok());
    usable.map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

/// What to do where the library is not preloaded.
pub fn preload_hint() -> String {
    format!(
        "Put this line into postgresql.conf and restart the server: shared_preload_libraries = '{}'",
        preload_list()
    )
}

/// What to do about a layout that ends.
pub fn successor_hint(layout: &Layout, now_ms: i64) -> String {
    match plan::successor(layout, now_ms, SUCCESSOR_YEARS) {
        Some(successor) => format!(
            "Take one whose IDs go on above these, then restart the server: ALTER SYSTEM SET id_gen.layout = '{successor}';"
        ),
        None => "No layout of 63 bits has IDs above these. Plan a new key for the tables, with a layout from: SELECT * FROM id_gen_plan(100000, 32, 50);".to_owned(),
    }
}

/// How long the layout that follows one should last at least.
const SUCCESSOR_YEARS: u32 = 30;

/// What to do where one worker's sequence is nearly used up.
pub fn roomier_hint(layout: &Layout, settings: &Settings, now_ms: i64) -> String {
    let in_use = |number: i32| u32::try_from(number).unwrap_or(0);
    let (datacenter, worker) = (in_use(settings.datacenter_id), in_use(settings.worker_id));
    let wanted = layout.per_second().saturating_mul(2);
    match plan::roomier(layout, wanted, now_ms, datacenter, worker) {
        Some(roomier) => format!(
            "Spread the load over more servers; or take a layout with more room on all servers that share a table, then restart: ALTER SYSTEM SET id_gen.layout = '{roomier}';"
        ),
        None => "Spread the load over more servers.".to_owned(),
    }
}

/// What to do where the background worker found no place.
pub fn more_workers_hint() -> String {
    // SAFETY: a setting, fixed when the server started.
    let places = unsafe { pg_sys::max_worker_processes };
    format!(
        "If it does not come back within seconds, there is no place for it; make one and restart the server: ALTER SYSTEM SET max_worker_processes = {};",
        places.saturating_add(1)
    )
}

/// The value of `shared_preload_libraries` with this extension added.
fn preload_list() -> String {
    // SAFETY: a string that PostgreSQL set up at start, or null.
    let list = unsafe {
        let list = pg_sys::shared_preload_libraries_string;
        if list.is_null() { c"" } else { CStr::from_ptr(list) }
    };
    match list.to_string_lossy().trim() {
        "" => "id_gen".to_owned(),
        others => format!("{others}, id_gen"),
    }
}
