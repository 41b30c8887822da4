//! Whether the settings of this process are those of the server.
//!
//! They are not:
//!
//! - **behind a placeholder.** Until a library is loaded, anybody may set parameters of its names, for a role, a database
//!   or a connection: PostgreSQL keeps them as placeholders. When the library then defines the parameters, PostgreSQL
//!   discards such values, and the configuration file's, which they had replaced, are gone as well;
//! - **where the library is loaded during a parallel operation.** PostgreSQL sets no parameter then, so the file's values
//!   are discarded when the parameters are defined;
//! - **in a parallel worker of such a session**, or of one that has yet to read a reload. A worker takes over its leader's
//!   values, but has those of the file before, as the postmaster last read them.
//!
//! What is left looks like a default. Such a process must neither tell others what the server's settings are nor decode by
//! its own, until a reload gives it the file's values. A server that preloads the library loads it before anybody can set
//! anything, and before any parallel operation.

use std::ffi::CStr;

use id_gen_core::planted::Fault;
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{Message, Report};
use crate::os::process::PerProcess;
use crate::pg::{reload, server, transaction};

/// A parameter, and its value in this process.
type Value = (String, String);

/// The settings of this process are not the server's.
#[derive(Clone, Debug)]
pub struct Unknown {
    reason: Reason,
    library: &'static str,
    load: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Reason {
    /// A placeholder of this name, which was set there, has replaced the server's setting in this session.
    Placeholder(String, pg_sys::GucSource::Type),
    /// The library was loaded during a parallel operation, so this process has no settings of the file.
    LoadedInParallel,
    /// The same, and the session has not read the file since.
    NotReloaded,
    /// A parallel worker whose leader has other settings than the server.
    OtherThanLeader,
}

/// The parameters of a library, in the process that loads it.
pub struct OwnSettings {
    /// The library's name, by which the names of its parameters begin.
    library: &'static str,
    /// A statement that loads the library, if there is one that everybody may run.
    load: Option<&'static str>,
    /// Names that were set before the library was loaded. Which of them are of parameters is known afterwards: PostgreSQL
    /// itself removes the others, with a warning, and they have replaced nothing.
    set_before: PerProcess<Vec<(String, pg_sys::GucSource::Type)>>,
    /// Why the file's values were discarded when the library was loaded, and [`reload::time`] then.
    discarded: PerProcess<Option<(Reason, pg_sys::TimestampTz)>>,
    /// In a parallel worker that loads the library: the file's values, before it takes over its leader's.
    of_file: PerProcess<Option<Vec<Value>>>,
}

impl OwnSettings {
    /// Those of a library.
    pub const fn new(library: &'static str, load: Option<&'static str>) -> OwnSettings {
        OwnSettings {
            library,
            load,
            set_before: PerProcess::new(Vec::new()),
            discarded: PerProcess::new(None),
            of_file: PerProcess::new(None),
        }
    }

    /// Finds out whether the file's values will be discarded. Must be called before the parameters are defined.
    pub fn before_definition(&self) {
        let is_parallel = transaction::is_parallel() && !server::is_starting_parallel_worker();
        if !is_parallel {
            let is_set =
                |it: &&pg_sys::config_generic| it.reset_source > pg_sys::GucSource::PGC_S_ARGV;
            let set = self.own().filter(is_set).map(|it| (name_of(it), it.reset_source)).collect();
            self.set_before.with(|set_before| *set_before = set);
            return;
        }
        // Where there is no value, the default is the server's.
        if self.own().next().is_some() && !Fault::DefaultsInParallel.is_planted() {
            // The session reads the file again before its next statement.
            reload::request();
            self.discard(Reason::LoadedInParallel);
        }
    }

    /// Keeps the values of the file where others are about to replace them. Must be called once the parameters are
    /// defined.
    pub fn after_definition(&self) {
        let mut set_before = self.set_before.with(std::mem::take).into_iter();
        if let Some((name, source)) = set_before.find(|(name, _)| self.has(name)) {
            self.discard(Reason::Placeholder(name, source));
        }
        if server::is_starting_parallel_worker() {
            self.of_file.with(|of_file| *of_file = Some(self.values()));
        }
    }

    fn discard(&self, reason: Reason) {
        self.discarded.with(|discarded| *discarded = Some((reason, reload::time())));
    }

    /// Whether the settings of this process are the server's.
    ///
    /// # Errors
    /// Why they are not.
    pub fn check(&self) -> Result<(), Unknown> {
        let discarded = self.discarded.with(|discarded| {
            let (reason, since) = discarded.as_ref()?;
            (*since == reload::time()).then(|| reason.clone())
        });
        let is_of_leader = || {
            let of_file = self.of_file.with(|of_file| of_file.clone());
            of_file.is_some_and(|of_file| of_file != self.values())
        };
        let reason = match discarded {
            Some(Reason::LoadedInParallel) if !transaction::is_parallel() => Reason::NotReloaded,
            Some(reason) => reason,
            None if is_of_leader() => Reason::OtherThanLeader,
            None => return Ok(()),
        };
        Err(Unknown { reason, library: self.library, load: self.load })
    }

    /// Whether there is a parameter of this name among them.
    pub fn has(&self, name: &str) -> bool {
        self.own().any(|parameter| name_of(parameter).eq_ignore_ascii_case(name))
    }

    /// The parameters by names of the library that this process has.
    fn own(&self) -> impl Iterator<Item = &'static pg_sys::config_generic> {
        let (parameters, count) = all();
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: PostgreSQL gives an array of so many pointers to its parameters, in memory that it frees later than any
        // caller here looks at it.
        let parameters = unsafe { std::slice::from_raw_parts(parameters, count) };
        // SAFETY: parameters last as long as nobody defines one, which no caller here does meanwhile.
        let parameters = parameters.iter().map(|&parameter| unsafe { &*parameter });
        parameters.filter(|it| is_of(self.library, &name_of(it)))
    }

    fn values(&self) -> Vec<Value> {
        self.own()
            .map(|parameter| {
                // SAFETY: the name of a parameter that there is, so no error is raised; the text is copied before the
                // next call.
                let value = unsafe { pg_sys::GetConfigOption(parameter.name, true, false) };
                let value = if value.is_null() {
                    String::new()
                } else {
                    // SAFETY: a string of PostgreSQL's.
                    unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned()
                };
                (name_of(parameter), value)
            })
            .collect()
    }
}

impl Report for Unknown {
    fn message(&self) -> Message {
        let Unknown { reason, library, load } = self;
        let load_first = || {
            let then = format!(
                "Call a function of {library} first, then run the statement again in the same session"
            );
            load.map_or_else(|| format!("{then}."), |load| format!("{then}: {load}"))
        };
        match reason {
            Reason::Placeholder(name, source) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("parameter \"{name}\" is overridden in this session"),
            )
            .detail(format!("The role, the database or the connection set it before {library} was loaded."))
            .hint(remove_setting(library, name, *source)),
            Reason::LoadedInParallel => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("settings of {library} are unknown during this parallel operation"),
            )
            .detail("The library was loaded after the operation began, when PostgreSQL cannot set parameters.")
            .hint(load_first()),
            Reason::NotReloaded => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("settings of {library} are unknown in this session"),
            )
            .detail("The session loaded the library during a parallel operation and has not read the configuration file since. An error in the file prevents that.")
            .hint("Connect again. A superuser can list the errors in the file: SELECT sourcefile, sourceline, name, error FROM pg_file_settings WHERE error IS NOT NULL;"),
            Reason::OtherThanLeader => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("settings of {library} in this parallel worker differ from the server's"),
            )
            .detail("Its leader has not read the configuration file since the last reload, or loaded the library during a parallel operation.")
            .hint(load_first()),
        }
    }
}

/// Where a parameter was set before its library was loaded: removes it there.
fn remove_setting(library: &str, name: &str, source: pg_sys::GucSource::Type) -> String {
    use pg_sys::GucSource::{PGC_S_DATABASE, PGC_S_DATABASE_USER, PGC_S_GLOBAL, PGC_S_USER};

    let (role, database) = (server::login_role(), server::database_name());
    let whose = match source {
        PGC_S_GLOBAL => "ROLE ALL".to_owned(),
        PGC_S_DATABASE => format!("DATABASE {database}"),
        PGC_S_USER => format!("ROLE {role}"),
        PGC_S_DATABASE_USER => format!("ROLE {role} IN DATABASE {database}"),
        _ => {
            return format!(
                "Remove {name} from the options of the connection (PGOPTIONS, or options in the connection string), then connect again."
            );
        }
    };
    format!(
        "In a new session, before calling a function of {library}, run: ALTER {whose} RESET {name}; Then connect again. If session_preload_libraries loads {library}, a superuser must first connect with PGOPTIONS='-c session_preload_libraries='."
    )
}

#[cfg(feature = "pg15")]
fn all() -> (*mut *mut pg_sys::config_generic, i32) {
    // SAFETY: reads variables of this process.
    unsafe { (pg_sys::get_guc_variables(), pg_sys::GetNumConfigOptions()) }
}

#[cfg(not(feature = "pg15"))]
fn all() -> (*mut *mut pg_sys::config_generic, i32) {
    let mut count = 0;
    // SAFETY: it allocates the array in the current memory context.
    (unsafe { pg_sys::get_guc_variables(&raw mut count) }, count)
}

fn name_of(parameter: &pg_sys::config_generic) -> String {
    // SAFETY: a string that lasts as long as its parameter.
    unsafe { CStr::from_ptr(parameter.name) }.to_string_lossy().into_owned()
}

/// PostgreSQL compares names of parameters without case (`guc_name_compare`, `guc.c`).
fn is_of(library: &str, name: &str) -> bool {
    name.split_once('.').is_some_and(|(prefix, _)| prefix.eq_ignore_ascii_case(library))
}
