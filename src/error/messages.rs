//! The catalogue of errors: each with its SQLSTATE, the fact in one line, the figures in DETAIL and the
//! way out in HINT. Logic returns an [`Error`]; only [`crate::error::report`] raises it.

use id_gen_base::call::error::unread_catalogs;
use id_gen_base::error::{FileError, Message, Report as _, layout, sentence};
use id_gen_base::settings::known::Unknown;
use id_gen_core::directory::Directory;
use id_gen_core::fleet::Number;
use id_gen_core::fleet::member::Phase;
use id_gen_core::identity::IdentityError;
use id_gen_core::kept_file::Damage;
use id_gen_core::layout::{Field, Layout, LayoutError, RangeError};
use id_gen_core::lead::Lead;
use id_gen_core::reservation::{RESERVATION_FILE, UPGRADE_FILE};
use id_gen_core::startup::StartupError;
use id_gen_core::time::{NS_PER_MS, format_duration, format_ms};
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::fleet::{self, Trouble};
use crate::error::shards::ShardRefusal;
use crate::error::{hint, test_server};
use crate::os::clock;
use crate::pg::logged_page;

/// Why a call fails. One pointer, so that a result that holds an ID costs nothing more for it.
#[derive(Clone, Debug)]
pub struct Error(Box<Reason>);

impl Error {
    /// The reason.
    pub const fn reason(&self) -> &Reason {
        &self.0
    }

    /// The error in PostgreSQL's parts.
    pub fn message(&self) -> Message {
        self.0.message()
    }
}

impl From<Reason> for Error {
    #[cold]
    fn from(reason: Reason) -> Error {
        Error(Box::new(reason))
    }
}

impl From<ShardRefusal> for Error {
    fn from(refusal: ShardRefusal) -> Error {
        Reason::Shard(refusal).into()
    }
}

impl From<test_server::Trouble> for Error {
    #[cold]
    fn from(trouble: test_server::Trouble) -> Error {
        Reason::TestServer(trouble).into()
    }
}

impl From<Message> for Error {
    #[cold]
    fn from(message: Message) -> Error {
        Reason::OfKind(message).into()
    }
}

impl From<Unknown> for Error {
    fn from(unknown: Unknown) -> Error {
        Reason::Settings(unknown).into()
    }
}

impl From<pgrx::spi::Error> for Error {
    fn from(error: pgrx::spi::Error) -> Error {
        unread_catalogs(&error).into()
    }
}

impl From<getrandom::Error> for Error {
    fn from(error: getrandom::Error) -> Error {
        Reason::NoRandomness(error.to_string()).into()
    }
}

/// The reasons for which a call fails.
#[derive(Clone, Debug)]
pub enum Reason {
    /// The library was not preloaded, so there is no shared memory.
    #[cfg(not(feature = "named_dsm"))]
    NotPreloaded,
    /// The settings of this process are not the server's.
    Settings(Unknown),
    /// The server's settings have changed since this statement began.
    ReloadPending,
    /// The server's settings may have changed since this process began.
    ReloadsIgnored,
    /// The shared memory was set up by another version of the library.
    OtherVersion,
    /// The server is a standby or still recovering.
    Recovery,
    /// `id_gen.worker_id` is not set.
    WorkerUnset(Layout),
    /// It is not set, and the server was in a fleet.
    LeftFleet(Layout),
    /// `id_gen.worker_id` or `id_gen.datacenter_id` does not fit the layout.
    NumberOutOfRange(RangeError, Layout),
    /// `id_gen.layout` holds no usable layout.
    InvalidLayoutSetting {
        /// What it holds.
        text: String,
        /// What is wrong with it.
        error: LayoutError,
        /// The layout of this server's last IDs, if it has made any.
        last: Option<Layout>,
    },
    /// The server was started with a text that is no layout; the setting was corrected since.
    LayoutNeedsRestart,
    /// A layout argument is no layout.
    InvalidLayout(LayoutError),
    /// IDs are as far ahead of the clock as they may be.
    Ahead {
        /// How far the next ID would be ahead.
        lead: Lead,
        /// How long the call waited.
        max_wait_ms: u32,
        /// The shard of a fleet, if the ID would be one of a shard.
        shard: Option<Number>,
    },
    /// More IDs were requested at once than there can be without a wait.
    TooManyAtOnce {
        /// The requested number of IDs.
        count: i32,
        /// The largest number that a call can return.
        most: u64,
        /// How far IDs may be ahead of the clock.
        max_lead_ms: u32,
        /// How long the call may wait.
        max_wait_ms: u32,
        /// How long it would have to be allowed to wait.
        needed_wait_ms: u32,
    },
    /// The clock went forward further than is trusted.
    Jumped {
        /// By how much.
        by_ns: u64,
        /// By how much it may.
        max_jump_ms: u32,
    },
    /// The clock shows a time before the layout's epoch.
    BeforeEpoch {
        /// The layout.
        layout: Layout,
        /// The layout of this server's last IDs, if it has made any.
        last: Option<Layout>,
    },
    /// The clock is past the layout's time field.
    Exhausted(Layout),
    /// All times of the layout are reserved, although the clock is not past them.
    AllReserved(Layout),
    /// No ID can be made before an administrator decides; for this layout.
    Startup(StartupError, Layout),
    /// A copy cannot be accepted, because its layout was changed, too; for this layout.
    CopyOfOtherLayout(StartupError, Layout),
    /// The reservation's file is damaged.
    Damaged(Damage),
    /// What was replayed of another server's reservation is damaged.
    ReplayedDamaged,
    /// The same cannot be read.
    ReplayedUnreadable(FileError),
    /// The reservation's file can't be read.
    Unreadable(FileError),
    /// The reservation's file can't be written.
    Unwritten(FileError),
    /// The file of this server's number in its fleet can't be written.
    NumberUnwritten(FileError),
    /// What the memory of this boot says of this server's number can't be written or removed.
    WitnessUnwritten(FileError),
    /// This server has no number of its fleet.
    NoGrant {
        /// How far it is.
        phase: Option<Phase>,
        /// What is wrong.
        trouble: Option<Trouble>,
        /// Whether anybody asks the registry.
        registrar_runs: bool,
    },
    /// This server's number may be used for IDs of a later time alone.
    NotBegun {
        /// The Unix millisecond of the first.
        first_ms: i64,
        /// The worker and datacenter ID, if that time was set when this server acquired them.
        of_others: Option<Number>,
    },
    /// This server's grant is used up.
    GrantUsedUp {
        /// The Unix millisecond that it reaches to.
        until_ms: i64,
        /// What is wrong.
        trouble: Option<Trouble>,
    },
    /// A command about the fleet can't be carried out.
    Fleet(Trouble),
    /// The server is for tests, or its data directory, and should not be.
    TestServer(test_server::Trouble),
    /// There is no fleet.
    NoRegistry,
    /// There is no registrar to ask it.
    NoRegistrar,
    /// A fleet can't be made with these terms.
    InvalidTerms(String),
    /// There is a fleet of this name already.
    FleetExists(String),
    /// A number that nobody holds, as it was asked for.
    NotHeld {
        /// The worker number.
        worker: i32,
        /// The datacenter number.
        datacenter: i32,
    },
    /// A shard that no server of the fleet ever had, as it was asked for.
    ShardUnknown {
        /// The shard.
        shard: i32,
        /// The datacenter number.
        datacenter: i32,
    },
    /// The number's grant was renewed meanwhile.
    Renewed(Number),
    /// The registry that was named is not this server's.
    NotThisRegistry {
        /// The registry that the statement names.
        name: String,
        /// The registry that this server asks.
        found: String,
    },
    /// The wall clock is behind what this server trusts.
    ClockBehind {
        /// By how many milliseconds.
        behind_ms: u64,
    },
    /// During `pg_upgrade`: its note can't be written.
    UpgradeUnwritten(FileError),
    /// The note of an upgrade can't be read.
    UpgradeUnreadable(FileError),
    /// No room is left for what a transaction that is being prepared has pending.
    TooManyPrepared,
    /// An ID that is observed is too far ahead of the clock.
    ObservedAhead {
        /// The ID.
        id: i64,
        /// How far it is ahead.
        ahead_ms: i64,
        /// How far it may be, beside a tick.
        max_lead_ms: u32,
        /// The layout's tick.
        tick_ms: u32,
    },
    /// An ID that is observed is above all that this server's grant allows.
    ObservedBeyondGrant {
        /// The ID.
        id: i64,
        /// The Unix millisecond that the grant reaches to.
        until_ms: i64,
    },
    /// An ID from elsewhere is none of this server's layout.
    OtherLayout(RangeError, Layout),
    /// An ID that is observed is NULL.
    NullId,
    /// A parallel worker generates.
    GenerateInParallel,
    /// The horizon is asked for while the session has parallel workers.
    HorizonInParallel,
    /// This trigger function is called otherwise than for each row that is inserted or updated.
    NoRowTrigger(&'static str),
    /// The table of a trigger with this function has no column of this name for snowflakes.
    NoIdColumn {
        /// The function.
        function: &'static str,
        /// Name of the table.
        table: String,
        /// The column.
        column: String,
    },
    /// An ID comes after readers may have passed it.
    BelowHorizon {
        /// The ID.
        id: i64,
        /// The highest horizon that was read.
        floor: i64,
    },
    /// An ID, number or instant that does not fit its layout.
    Range(RangeError, Layout),
    /// A timestamp that is `infinity` or `-infinity`.
    Infinite,
    /// An instant that a UUIDv7 or a ULID can't carry.
    UuidInstant {
        /// Which of them.
        kind: &'static str,
    },
    /// A time that no UUIDv6 can carry.
    Uuid6Instant,
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
    /// `id_gen_copy_accept` without the confirmation.
    CopyNotConfirmed,
    /// A requirement on a layout that is not positive.
    NotPositive {
        /// The argument.
        name: &'static str,
        /// What it is.
        value: i64,
    },
    /// A requirement on a layout that is NULL; its argument.
    NullRequirement(&'static str),
    /// A set-returning function in a place that takes no set.
    NoSet,
    /// A process that has no slot, because it is not made to run SQL.
    NoSlot,
    /// A column that holds no numbers, and so no snowflakes.
    NoNumbers {
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
    },
    /// An ID of a shard can't be made, or a shard not be taken or given back.
    Shard(ShardRefusal),
    /// An ID of some kind can't be read or made: in the words of that kind's functions.
    OfKind(Message),
    /// The operating system gave no random seed.
    NoRandomness(String),
}

/// What refusals to generate are counted by, as the log names them, in the order of the columns
/// `refused_*` of `id_gen_stat`.
pub const REFUSAL_COUNTERS: [&str; REFUSAL_COUNTER_COUNT] = [
    "worker or datacenter ID",
    "layout",
    "lead over the clock",
    "clock jumped forward",
    "clock before the epoch",
    "layout has run out",
    "reservation cannot be used",
    "reservation cannot be written",
];
/// How many there are.
pub const REFUSAL_COUNTER_COUNT: usize = 8;

impl Reason {
    /// Where a refusal to generate is counted; `None` for a mistake in the call itself.
    pub const fn counter(&self) -> Option<usize> {
        match self {
            Reason::WorkerUnset(_)
            | Reason::LeftFleet(_)
            | Reason::NumberOutOfRange(..)
            | Reason::NoGrant { .. }
            | Reason::NotBegun { .. }
            | Reason::ObservedBeyondGrant { .. }
            | Reason::GrantUsedUp { .. } => Some(0),
            Reason::Shard(refusal) if refusal.is_counted() => Some(0),
            Reason::InvalidLayoutSetting { .. } | Reason::LayoutNeedsRestart => Some(1),
            Reason::Ahead { .. } | Reason::TooManyAtOnce { .. } | Reason::ObservedAhead { .. } => {
                Some(2)
            }
            Reason::Jumped { .. } => Some(3),
            Reason::BeforeEpoch { .. } => Some(4),
            Reason::Exhausted(_) | Reason::AllReserved(_) => Some(5),
            Reason::Startup(..)
            | Reason::CopyOfOtherLayout(..)
            | Reason::TestServer(_)
            | Reason::Damaged(_)
            | Reason::ReplayedDamaged
            | Reason::ReplayedUnreadable(_)
            | Reason::Unreadable(_)
            | Reason::UpgradeUnreadable(_) => Some(6),
            Reason::Unwritten(_) | Reason::WitnessUnwritten(_) => Some(7),
            _ => None,
        }
    }

    /// Whether it is a setting of the server's numbers that forbids it to generate.
    pub const fn is_of_number_setting(&self) -> bool {
        matches!(self, Reason::WorkerUnset(_) | Reason::LeftFleet(_) | Reason::NumberOutOfRange(..))
    }

    /// Whether the server's number is in the way, because a shard or the original of this copy has it, too.
    pub const fn is_of_others_number(&self) -> bool {
        matches!(
            self,
            Reason::Startup(StartupError::CopiedBefore { .. }, _)
                | Reason::Shard(
                    ShardRefusal::OwnNumberIsShard { .. } | ShardRefusal::OwnNumberUnsure(_)
                )
        )
    }

    /// Why a server can't generate with its numbers.
    pub const fn identity(error: IdentityError, layout: &Layout) -> Reason {
        match error {
            IdentityError::Unset => Reason::WorkerUnset(*layout),
            IdentityError::Range(error) => Reason::NumberOutOfRange(error, *layout),
        }
    }

    fn message(&self) -> Message {
        match self {
            #[cfg(not(feature = "named_dsm"))]
            Reason::NotPreloaded => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "id_gen must be loaded through shared_preload_libraries",
            )
            .detail("The function needs shared memory, which is allocated when the server starts.")
            .hint(hint::preload()),
            Reason::Settings(unknown) => unknown.message(),
            Reason::ReloadPending => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the server's settings were reloaded during this statement",
            )
            .detail("This session has the old settings until its parallel operation ends, so it cannot set up the shared memory of id_gen.")
            .hint("Run the statement again."),
            Reason::ReloadsIgnored => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "settings of id_gen are unknown in this background worker",
            )
            .detail("Reloads do not reach this process, so it cannot set up the shared memory of id_gen.")
            .hint(format!("Call a function of id_gen in a client's session first: SELECT id_gen_status(); or preload the library. {}", hint::preload())),
            Reason::OtherVersion => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this session has loaded another version of id_gen than the running server",
            )
            .detail("The shared memory of id_gen was set up by the version installed when the server started.")
            .hint("Restart the server, so that all sessions load the installed version."),
            Reason::Recovery => Message::new(
                Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
                "cannot generate snowflakes during recovery",
            )
            .detail("This server is a standby; only the primary generates IDs with its worker ID.")
            .hint("Run the statement on the primary. uuidv7() and the decoding functions also work on a standby."),
            Reason::WorkerUnset(layout) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "id_gen.worker_id is not set",
            )
            .detail("Each server needs a unique worker ID; otherwise two servers could generate the same ID.")
            .hint(format!(
                "To generate, {}",
                hint::assign_worker_id(layout.max_number(Field::Worker), hint::UNUSED)
            )),
            Reason::LeftFleet(layout) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "id_gen.worker_id is not set",
            )
            .detail("The server had a worker ID from a fleet, but id_gen.registry is no longer set. The fleet may assign that worker ID to another server.")
            .hint(format!(
                "Set id_gen.registry again; or, to leave the fleet, {}",
                hint::assign_worker_id(layout.max_number(Field::Worker), hint::UNUSED_BY_FLEET)
            )),
            Reason::NumberOutOfRange(error, layout) => identity_message(error, layout),
            Reason::NoGrant { phase, trouble, registrar_runs } => {
                fleet::no_grant(*phase, trouble.as_ref(), *registrar_runs)
            }
            Reason::NotBegun { first_ms, of_others } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server's worker ID cannot be used yet",
            )
            .detail(format!(
                "Snowflakes start at {}. {}",
                format_ms(*first_ms),
                match of_others {
                    Some(_) => "Until then, another server may still use the worker ID.",
                    None => "This server may already have generated IDs of earlier times.",
                }
            ))
            .hint(format!(
                "Wait until that time. To see the current state: SELECT * FROM id_gen_status(); {}",
                of_others.map_or_else(hint::take_back, hint::take_back_of_number)
            )),
            Reason::GrantUsedUp { until_ms, trouble } => {
                fleet::grant_used_up(*until_ms, trouble.as_ref())
            }
            Reason::Fleet(trouble) => trouble.message(),
            Reason::TestServer(trouble) => trouble.message(),
            Reason::NoRegistry => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server does not belong to a fleet",
            )
            .detail("The setting id_gen.registry is empty.")
            .hint("To join a fleet, set the address of its registry (etcd://host:port or postgresql://user@host/database): ALTER SYSTEM SET id_gen.registry = '<address>'; SELECT pg_reload_conf();"),
            Reason::NoRegistrar => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server's registrar process is not running",
            )
            .detail("The registrar is a background worker; only it sends requests to the fleet's registry.")
            .hint(hint::more_worker_processes()),
            Reason::InvalidTerms(error) => {
                Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "invalid options for a fleet")
                    .detail(sentence(error))
                    .hint("To use the defaults: SELECT id_gen_fleet_create();")
            }
            Reason::FleetExists(terms) => {
                Message::new(Code::ERRCODE_DUPLICATE_OBJECT, "the fleet already exists")
                    .detail(format!("It has {terms}"))
                    .hint("To join it, a server only needs id_gen.registry. To create another fleet, set another name: ALTER SYSTEM SET id_gen.fleet_name = 'other'; SELECT pg_reload_conf();")
            }
            Reason::NotHeld { worker, datacenter } => Message::new(
                Code::ERRCODE_UNDEFINED_OBJECT,
                "no server of the fleet holds this worker ID",
            )
            .detail(format!("The worker ID is {worker}, the datacenter ID is {datacenter}."))
            .hint("To list the worker IDs: SELECT * FROM id_gen_fleet_members();"),
            Reason::ShardUnknown { shard, datacenter } => Message::new(
                Code::ERRCODE_UNDEFINED_OBJECT,
                "the fleet has no such shard",
            )
            .detail(format!("The shard is {shard}, the datacenter ID is {datacenter}."))
            .hint("To list the shards: SELECT * FROM id_gen_fleet_shards();"),
            Reason::Renewed(Number { datacenter, worker }) => Message::new(
                Code::ERRCODE_OBJECT_IN_USE,
                "the worker ID is in use",
            )
            .detail(format!("A server just renewed its grant of worker ID {worker} in datacenter {datacenter}."))
            .hint("Stop that server, then run the statement again on another server of the fleet. To see which server it is: SELECT * FROM id_gen_fleet_members();"),
            Reason::NotThisRegistry { name, found } => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the registry of this server is not \"{name}\""),
            )
            .detail(format!("It is \"{found}\"."))
            .hint("Run the statement on a server whose id_gen.registry is set to the registry that the fleet was moved to."),
            Reason::ClockBehind { behind_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server's clock is behind",
            )
            .detail(format!("It was set back by {}. IDs of the time in between may be in use.", format_duration(*behind_ms)))
            .hint("Run the statement on a server of the fleet whose clock was not set back. If this server's clock is correct now, a superuser can accept it: SELECT id_gen_clock_accept();"),
            Reason::WitnessUnwritten(error) => Message::new(
                error.sqlstate(),
                format!("could not write the file \"id_gen.*\" of this server in \"/dev/shm\": {}", error.text()),
            )
            .detail("The file records the last generated ID for a restart. An older file could not be removed.")
            .hint("Allow the server's operating-system user to write to /dev/shm, or remove that user's file \"id_gen.*\" there."),
            Reason::NumberUnwritten(error) => Message::new(
                error.sqlstate(),
                format!("could not store this server's worker ID: {}", error.text()),
            )
            .detail("Otherwise the server would acquire another worker ID after a restart.")
            .hint("Free disk space and allow the server to write to the directory \"id_gen\" of its data directory."),
            Reason::InvalidLayoutSetting { text, error, last } => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"id_gen.layout\": \"{text}\""),
            )
            .detail(sentence(error))
            .hint(hint::usable_layout(last.as_ref())),
            Reason::LayoutNeedsRestart => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the server was started with an invalid id_gen.layout",
            )
            .detail("It has been set to a valid layout since; a running server keeps the layout it was started with.")
            .hint("Restart the server."),
            Reason::InvalidLayout(error) => layout::invalid_layout(error),
            Reason::Ahead { lead, max_wait_ms, shard } => {
                let Lead { lead_ms, max_lead_ms, reserve_ms } = lead;
                let less = match reserve_ms {
                    0 => String::new(),
                    _ => format!(" ({} less for batches)", format_duration((*reserve_ms).into())),
                };
                // In one unit, so that a difference from id_gen.max_lead shows.
                let ahead = match lead_ms {
                    ..10_000 => format!("{lead_ms} ms"),
                    _ => format_duration((*lead_ms).cast_unsigned()),
                };
                Message::new(
                    Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                    "no snowflake is available yet",
                )
                .detail(format!(
                    "The next one would be {ahead} ahead of the clock; id_gen.max_lead allows {}{less}. The call waited for {} (id_gen.max_wait).",
                    format_duration((*max_lead_ms).into()),
                    format_duration((*max_wait_ms).into())
                ))
                .hint(hint::ahead(lead, *shard))
            }
            Reason::TooManyAtOnce { count, most, max_lead_ms, max_wait_ms, needed_wait_ms } => Message::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "too many snowflakes for one call",
            )
            .detail(format!(
                "The call requested {count}. Without a wait there are at most {most} (id_gen.max_lead is {}), and a wait of {} does not suffice for more (id_gen.max_wait).",
                format_duration((*max_lead_ms).into()),
                format_duration((*max_wait_ms).into())
            ))
            .hint(format!(
                "Request at most {most} in one call; or allow calls to wait: ALTER SYSTEM SET id_gen.max_wait = '{needed_wait_ms}ms'; SELECT pg_reload_conf();"
            )),
            Reason::Jumped { by_ns, max_jump_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the clock jumped forward",
            )
            .detail(format!(
                "The wall clock advanced {} more than the monotonic clock, which exceeds id_gen.max_clock_jump ({}).",
                format_duration(by_ns / NS_PER_MS),
                format_duration((*max_jump_ms).into())
            ))
            .hint("Correct the clock. If the current time is correct, a superuser can accept it: SELECT id_gen_clock_accept();"),
            Reason::BeforeEpoch { layout, last } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the clock shows a time before the layout's epoch",
            )
            .detail(format!(
                "The clock shows {}; the layout starts at {}.",
                clock::wall_text(),
                format_ms(layout.epoch_ms())
            ))
            .hint(hint::before_epoch(layout, last.as_ref())),
            Reason::Exhausted(layout) => Message::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                "the layout is exhausted",
            )
            .detail(format!("Its time field ended at {}.", format_ms(layout.runs_out_ms())))
            .hint(format!(
                "If the clock is wrong, correct it. If id_gen.layout was changed, restore the old layout and restart the server. {}",
                hint::successor(layout, layout.runs_out_ms())
            )),
            Reason::AllReserved(layout) => Message::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                "the layout is exhausted",
            )
            .detail(format!(
                "All times up to its end, {}, are reserved, although the clock has not reached it.",
                format_ms(layout.runs_out_ms())
            ))
            .hint(hint::take_back()),
            Reason::Startup(error, layout) => startup_message(error, layout, ACCEPT_LAYOUT),
            Reason::CopyOfOtherLayout(error, layout) => startup_message(error, layout, &reset_above_stored()),
            Reason::Damaged(damage) => {
                Message::new(Code::ERRCODE_DATA_CORRUPTED, format!("file \"{RESERVATION_FILE}\" is damaged"))
                    .detail(format!("{} It records the time up to which this server has reserved snowflakes.", sentence(damage)))
                    .hint(match damage {
                        Damage::Newer { .. } => "Install the version of id_gen that wrote it, or a newer one, and restart the server.".to_owned(),
                        _ => hint::reset(),
                    })
            }
            Reason::ReplayedDamaged => Message::new(
                Code::ERRCODE_DATA_CORRUPTED,
                format!("file \"{}\" is damaged", logged_page::PAGE_FILE),
            )
            .detail("It records the time up to which the former primary had reserved snowflakes.")
            .hint(hint::reset()),
            Reason::ReplayedUnreadable(error) => Message::new(
                error.sqlstate(),
                format!("could not read file \"{}\": {}", logged_page::PAGE_FILE, error.text()),
            )
            .detail("It records the time up to which the former primary had reserved snowflakes.")
            .hint(hint::make_readable(error, "that file in the data directory")),
            Reason::Unreadable(error) => Message::new(
                error.sqlstate(),
                format!("could not read file \"{RESERVATION_FILE}\": {}", error.text()),
            )
            .detail("It records the time up to which this server has reserved snowflakes.")
            .hint(hint::make_readable(error, "that file in the data directory")),
            Reason::Unwritten(error) => Message::new(
                error.sqlstate(),
                format!("could not write file \"{RESERVATION_FILE}\": {}", error.text()),
            )
            .detail("Snowflakes cannot be generated before their time is reserved in this file.")
            .hint("Free disk space, or allow the server's operating-system user to write to directory \"id_gen\" in the data directory. The next call retries."),
            Reason::UpgradeUnwritten(error) => Message::new(
                error.sqlstate(),
                format!("could not write file \"{UPGRADE_FILE}\": {}", error.text()),
            )
            .detail("It records the time of pg_upgrade, so that new snowflakes are above the old ones.")
            .hint("Free disk space, or allow the server's operating-system user to write to directory \"id_gen\" in the data directory, and run pg_upgrade again."),
            Reason::UpgradeUnreadable(error) => Message::new(
                error.sqlstate(),
                format!("could not read file \"{UPGRADE_FILE}\": {}", error.text()),
            )
            .detail("It records the time of pg_upgrade, so that new snowflakes are above the old ones.")
            .hint(hint::make_readable(error, "that file in the data directory")),
            Reason::TooManyPrepared => Message::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "too many prepared transactions with snowflakes",
            )
            .detail("Each is remembered until it is committed or rolled back, because the commit horizon must not pass its IDs.")
            .hint("Commit or roll back old prepared transactions; to list them: SELECT gid FROM pg_prepared_xacts; or raise max_prepared_transactions and restart the server."),
            Reason::GenerateInParallel => Message::new(
                Code::ERRCODE_INVALID_TRANSACTION_STATE,
                "cannot generate snowflakes in a parallel worker",
            )
            .detail("A parallel query calls the function through another one that is marked PARALLEL SAFE.")
            .hint("Declare the function parallel restricted: ALTER FUNCTION name PARALLEL RESTRICTED;"),
            Reason::HorizonInParallel => Message::new(
                Code::ERRCODE_INVALID_TRANSACTION_STATE,
                "cannot read the commit horizon during a parallel operation",
            )
            .detail("A parallel query calls the function through another one that is not marked PARALLEL UNSAFE.")
            .hint("Declare the function parallel unsafe: ALTER FUNCTION name PARALLEL UNSAFE;"),
            Reason::NoRowTrigger(function) => Message::new(
                Code::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                format!("function {function} must be called by a row trigger for INSERT or UPDATE"),
            )
            .hint(format!("For example: {}", hint::row_trigger(function))),
            Reason::NoIdColumn { function, table, column } => Message::new(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("table \"{table}\" has no column \"{column}\" of type bigint"),
            )
            .detail(format!("The argument of {function}() names the column with the snowflakes (default: \"id\")."))
            .hint(format!("Pass the name of the column, as in: {}", hint::row_trigger(function))),
            Reason::ObservedAhead { id, ahead_ms, max_lead_ms, tick_ms } => Message::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("snowflake {id} is too far ahead of the clock"),
            )
            .detail(format!(
                "In this server's layout, its time is {} in the future; id_gen.max_lead allows {} and one tick ({}).",
                format_duration(ahead_ms.unsigned_abs()),
                format_duration((*max_lead_ms).into()),
                format_duration((*tick_ms).into())
            ))
            .hint(hint::observed_ahead(*id, *ahead_ms)),
            Reason::ObservedBeyondGrant { id, until_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("snowflake {id} is beyond this server's grant"),
            )
            .detail(format!("The grant ends at {}. It is renewed every few seconds while the registry is available.", format_ms(*until_ms)))
            .hint("Call again in a few seconds. To see the current state: SELECT * FROM id_gen_status();"),
            Reason::NullId => Message::new(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "id must not be null",
            )
            .hint("Skip rows without an ID, as in: SELECT snowflake_advance(id) FROM message WHERE id IS NOT NULL;"),
            Reason::BelowHorizon { id, floor } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("snowflake {id} is below the commit horizon"),
            )
            .detail(format!("Readers may have read up to {floor}, and would miss this row."))
            .hint("Generate the ID in the transaction that stores it: SELECT snowflake_next();"),
            Reason::Range(error, layout) => layout::out_of_range(error, layout),
            Reason::OtherLayout(error, layout) => {
                let hint = "Pass an ID of this server's layout. To list the layouts: SELECT name, layout FROM snowflake_layouts();";
                Message { hint: hint.to_owned(), ..layout::out_of_range(error, layout) }
            }
            Reason::Infinite => Message::new(
                Code::ERRCODE_DATETIME_FIELD_OVERFLOW,
                "timestamp must be finite",
            )
            .hint("Use a timestamp within the range of the layout, or omit the condition."),
            Reason::UuidInstant { kind } => Message::new(
                Code::ERRCODE_DATETIME_FIELD_OVERFLOW,
                format!("timestamp is out of range for {kind}"),
            )
            .detail(format!(
                "Timestamps of {kind} are from 1970-01-01T00:00:00Z to the year 10889."
            ))
            .hint("Use a time within that range."),
            Reason::Uuid6Instant => Message::new(
                Code::ERRCODE_DATETIME_FIELD_OVERFLOW,
                "timestamp is out of range for UUID version 6",
            )
            .detail("Timestamps of UUID version 6 are from 1582-10-15T00:00:00Z to the year 5236.")
            .hint("Use a time within that range."),
            Reason::BadCount(count) => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "count must be greater than zero",
            )
            .detail(format!("The count is {count}."))
            .hint("Request 1 or more."),
            Reason::ArrayTooLarge { count, max } => Message::new(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "count exceeds the largest array",
            )
            .detail(format!("The count is {count}; an array holds at most {max}."))
            .hint(format!("Use SELECT snowflake_next_batch({count}), which needs no array.")),
            Reason::NullCount => {
                Message::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, "count must not be null")
                    .hint("Request 1 or more.")
            }
            Reason::NullTime => {
                Message::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, "\"above\" must not be null")
                    .hint("Pass the time of the newest ID in use, or now().")
            }
            Reason::CopyNotConfirmed => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "is_only_one must be true",
            )
            .detail("It confirms that the original of this data directory is gone, and that no other copy of it generates snowflakes with the same worker ID.")
            .hint(hint::ACCEPT_COPY),
            Reason::NotPositive { name, value } => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{name} must be greater than zero"),
            )
            .detail(format!("The value of {name} is {value}."))
            .hint(hint::REQUIREMENTS),
            Reason::NullRequirement(name) => {
                Message::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, format!("{name} must not be null"))
                    .hint(hint::REQUIREMENTS)
            }
            Reason::NoSet => Message::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "set-valued function called in context that cannot accept a set",
            )
            .hint("Call it in FROM, as in: SELECT * FROM snowflake_layouts();"),
            Reason::NoSlot => Message::new(
                Code::ERRCODE_INTERNAL_ERROR,
                "this process has no slot in id_gen's shared memory",
            )
            .detail("There is one for each session and background worker that the server allowed when the shared memory was created.")
            .hint("Run the statement in a client's session."),
            Reason::NoNumbers { column, type_name } => Message::new(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column} holds no snowflakes"),
            )
            .detail(format!("Its type is {type_name}; snowflakes are bigint."))
            .hint("Pass a column of snowflakes, as in: SELECT * FROM id_gen_check('customer', 'id');"),
            Reason::Shard(refusal) => refusal.message(),
            Reason::OfKind(message) => message.clone(),
            Reason::NoRandomness(error) => Message::new(
                Code::ERRCODE_INTERNAL_ERROR,
                format!("could not get random bits from the operating system: {error}"),
            )
            .hint("Allow the server's processes to call getrandom(2). The next call retries."),
        }
    }
}

fn identity_message(error: &RangeError, layout: &Layout) -> Message {
    let RangeError::Number { field, value, max } = *error else {
        return layout::out_of_range(error, layout);
    };
    let setting =
        if field == Field::Datacenter { "id_gen.datacenter_id" } else { "id_gen.worker_id" };
    let fact = Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("{setting} is out of range for the layout"),
    );
    if max == 0 {
        return fact
            .detail(format!("{setting} is {value}; layout \"{layout}\" has no such field."))
            .hint(without_field(field, layout));
    }
    fact
        .detail(format!("{setting} is {value}; layout \"{layout}\" allows 0 to {max}."))
        .hint(if field == Field::Datacenter {
            format!("Set the ID of this server's datacenter, from 0 to {max}, in which no other server has its worker ID: ALTER SYSTEM SET {setting} = <datacenter ID>; SELECT pg_reload_conf();")
        } else {
            format!("To generate, {}", hint::assign_worker_id(max, hint::UNUSED))
        })
}

/// Where the layout has no field for a number. What is left has to tell the servers apart.
fn without_field(field: Field, layout: &Layout) -> String {
    let [datacenters, workers] =
        [Field::Datacenter, Field::Worker].map(|field| layout.max_number(field));
    match field {
        Field::Datacenter if workers > 0 => format!(
            "Set it to 0, and a worker ID from 0 to {workers} that no other server has: ALTER SYSTEM SET id_gen.datacenter_id = 0; ALTER SYSTEM SET id_gen.worker_id = <worker ID>; SELECT pg_reload_conf();"
        ),
        _ if datacenters > 0 => format!(
            "Set it to 0, and a datacenter ID from 0 to {datacenters} that no other server has: ALTER SYSTEM SET id_gen.worker_id = 0; ALTER SYSTEM SET id_gen.datacenter_id = <datacenter ID>; SELECT pg_reload_conf();"
        ),
        _ => "Only one server can use a layout without these fields. Choose another layout from: SELECT * FROM id_gen_recommend(<IDs per second>, <servers>, <years>);".to_owned(),
    }
}

/// How a superuser accepts a lower layout.
const ACCEPT_LAYOUT: &str = "run: SELECT id_gen_layout_accept();";
/// How a superuser starts above all IDs, whatever made them: also where a copy of another layout is to be accepted.
fn reset_above_stored() -> String {
    format!(
        "reset the reservation, above the clock and the newest stored ID: {}",
        hint::reset_at_present()
    )
}

fn startup_message(error: &StartupError, layout: &Layout, accept_layout: &str) -> Message {
    match error {
        StartupError::Lost => Message::new(
            Code::ERRCODE_UNDEFINED_FILE,
            format!("file \"{RESERVATION_FILE}\" is missing"),
        )
        .detail("The file records the time up to which snowflakes are reserved. File \"id_gen/issued\" shows that this server has generated snowflakes.")
        .hint(hint::reset()),
        StartupError::OtherSystem { found, number } => {
            copy_of(*number, &format!("in the database cluster with system identifier {found}, not in this one"), layout)
        }
        StartupError::Copied { number, original, copy } => {
            copy_of(*number, &format!("in a directory with {original}; this one has {copy}"), layout)
        }
        StartupError::CopiedBefore { number: Number { worker, datacenter } } => copy_of_numbered(
            &format!("This data directory was copied from a server that is worker {worker} of datacenter {datacenter}."),
            layout,
        ),
        StartupError::PutBack { written, found } => Message::new(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("file \"{RESERVATION_FILE}\" was replaced by an older copy"),
        )
        .detail(format!(
            "{} IDs generated after the copy was made could be generated again.",
            if *written == Directory::NOWHERE {
                "The server had replaced it with a later file.".to_owned()
            } else {
                format!("The server wrote a file with {written}; the file now has {found}.")
            }
        ))
        .hint(hint::START_ABOVE),
        StartupError::ReservedByAnother { number: Some(Number { worker, datacenter }), .. } => copy_of_numbered(
            &format!("The write-ahead log has a reservation that worker {worker} of datacenter {datacenter} wrote in another directory."),
            layout,
        ),
        StartupError::ReservedByAnother { system_identifier, timeline, number: None } => copy_of_unknown(
            format!(
                "The write-ahead log has a reservation of the database cluster with system identifier {system_identifier} on timeline {timeline} that was written in another directory, without a worker ID."
            ),
            layout,
        ),
        StartupError::LayoutBelow { old, highest_old, lowest_new } => Message::new(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "id_gen.layout was changed to one with lower snowflakes",
        )
        .detail(format!(
            "IDs up to {highest_old} may have been generated with layout \"{old}\"; the next one with layout \"{layout}\" would be {lowest_new}."
        ))
        .hint(format!("To keep the previous layout, restart with: ALTER SYSTEM SET id_gen.layout = '{old}'; If no IDs of the previous layout are stored, a superuser can {accept_layout}")),
    }
}

/// A copy of a server that had this number.
fn copy_of(number: Option<Number>, place: &str, layout: &Layout) -> Message {
    let Some(Number { worker, datacenter }) = number else {
        let found = format!("File \"{RESERVATION_FILE}\" was written without a worker ID {place}.");
        return copy_of_unknown(found, layout);
    };
    let found = format!(
        "File \"{RESERVATION_FILE}\" was written by worker {worker} of datacenter {datacenter} {place}."
    );
    copy_of_numbered(&found, layout)
}

fn copy_of_numbered(found: &str, layout: &Layout) -> Message {
    Message::new(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "this data directory is a copy with the worker ID of its original",
    )
    .detail(format!("{found} Both servers would generate the same snowflakes."))
    .hint(format!(
        "If the original or another copy may be used again, {} {}",
        hint::assign_worker_id(layout.max_number(Field::Worker), hint::UNUSED_BY_SHARDS),
        hint::ACCEPT_COPY
    ))
}

/// A copy whose original's worker ID is not known, so that another worker ID alone does not show that they differ.
fn copy_of_unknown(found: String, layout: &Layout) -> Message {
    Message::new(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "this data directory is a copy, and may have the worker ID of its original",
    )
    .detail(format!("{found} If both servers have the same worker ID, they generate the same snowflakes."))
    .hint(format!(
        "If the original or another copy may be used again, {} Once no other server has this worker ID, a superuser can confirm that: SELECT id_gen_copy_accept(is_only_one => true);",
        hint::assign_worker_id(layout.max_number(Field::Worker), hint::UNUSED_BY_SHARDS)
    ))
}
