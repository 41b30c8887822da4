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
use std::time::Duration;

use id_gen_core::planted::Fault;
use pgrx::pg_sys;

use crate::error::{Error, Reason};
use crate::os::process::PerProcess;
use crate::pg::{reload, server, transaction};
use crate::settings::parameters;

/// A parameter, and its value in this process.
type Value = (String, String);

/// The longest wait for a reload that may never come.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Why the file's values were discarded when the library was loaded, and [`reload::time`] then.
static DISCARDED: PerProcess<Option<(Reason, pg_sys::TimestampTz)>> = PerProcess::new(None);

/// Names of ours that were set before the library was loaded. Which of them are of parameters is known afterwards: PostgreSQL
/// itself removes the others, with a warning, and they have replaced nothing.
static SET_BEFORE: PerProcess<Vec<(String, pg_sys::GucSource::Type)>> = PerProcess::new(Vec::new());

/// In a parallel worker that loads the library: the file's values, before it takes over its leader's.
static OF_FILE: PerProcess<Option<Vec<Value>>> = PerProcess::new(None);

/// Finds out whether the file's values will be discarded. Must be called before the parameters are defined.
pub fn before_definition() {
    let is_parallel = transaction::is_parallel() && !server::is_starting_parallel_worker();
    if !is_parallel {
        let is_set = |it: &&pg_sys::config_generic| it.reset_source > pg_sys::GucSource::PGC_S_ARGV;
        let set = own().filter(is_set).map(|it| (name_of(it), it.reset_source));
        SET_BEFORE.with(|before| *before = set.collect());
        return;
    }
    // Where there is no value, the default is the server's.
    if own().next().is_some() && !Fault::DefaultsInParallel.is_planted() {
        // The session reads the file again before its next statement.
        reload::request();
        DISCARDED.with(|discarded| *discarded = Some((Reason::LoadedInParallel, reload::time())));
    }
}

/// Keeps the values of the file where others are about to replace them. Must be called once the parameters are defined.
pub fn after_definition() {
    let mut set = SET_BEFORE.with(std::mem::take).into_iter();
    if let Some((name, source)) = set.find(|(name, _)| is_defined(name)) {
        let reason = Reason::PlaceholderSetting(name, source);
        DISCARDED.with(|discarded| *discarded = Some((reason, reload::time())));
    }
    if server::is_starting_parallel_worker() {
        OF_FILE.with(|of_file| *of_file = Some(values()));
    }
}

/// Whether the settings of this process are the server's.
///
/// # Errors
/// Why they are not.
pub fn check() -> Result<(), Error> {
    let discarded = DISCARDED.with(|discarded| {
        let (reason, since) = discarded.as_ref()?;
        (*since == reload::time()).then(|| reason.clone())
    });
    match discarded {
        Some(Reason::LoadedInParallel) if !transaction::is_parallel() => {
            return Err(Reason::NotReloaded.into());
        }
        Some(reason) => return Err(reason.into()),
        None => {}
    }
    let of_file = OF_FILE.with(|of_file| of_file.clone());
    match of_file {
        Some(of_file) if of_file != values() => Err(Reason::OtherThanLeader.into()),
        _ => Ok(()),
    }
}

/// Lets this session have the settings of a reload that is on its way, also in the middle of a statement, for a command that
/// goes by them: waits for it, at most for `id_gen.max_wait` or 1 s, if a configuration file was changed since this session
/// read it. A file that was changed need not be reloaded soon, or at all.
///
/// # Errors
/// If its settings are not the server's even so.
pub fn catch_up() -> Result<(), Error> {
    catch_up_within(max_wait().min(LONGEST_WAIT))
}

/// As [`catch_up`], for the settings that stay in force until the server restarts: waits for 1 s at most, however long calls
/// may wait for the clock. The file may have been changed without a reload.
///
/// # Errors
/// As for [`catch_up`].
pub fn catch_up_for_good() -> Result<(), Error> {
    catch_up_within(LONGEST_WAIT)
}

fn catch_up_within(longest: Duration) -> Result<(), Error> {
    let is_awaited = || !reload::is_pending() && reload::are_files_newer(reload::time_us());
    reload::wait_while(is_awaited, longest);
    // PostgreSQL sets no parameters during a parallel operation.
    if reload::is_pending() && !transaction::is_parallel() {
        reload::read_file();
    }
    check()
}

fn max_wait() -> Duration {
    Duration::from_millis(parameters::current().max_wait_ms.into())
}

/// Whether there is a parameter of ours of this name.
pub fn is_defined(name: &str) -> bool {
    own().any(|parameter| name_of(parameter).eq_ignore_ascii_case(name))
}

/// The parameters by names of ours that this process has.
fn own() -> impl Iterator<Item = &'static pg_sys::config_generic> {
    let (parameters, count) = all();
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: PostgreSQL gives an array of so many pointers to its parameters, in memory that it frees later than any
    // caller here looks at it.
    let parameters = unsafe { std::slice::from_raw_parts(parameters, count) };
    // SAFETY: parameters last as long as nobody defines one, which no caller here does meanwhile.
    parameters.iter().map(|&parameter| unsafe { &*parameter }).filter(|it| is_own(&name_of(it)))
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
fn is_own(name: &str) -> bool {
    const PREFIX: &str = "id_gen.";
    name.get(..PREFIX.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX))
}

fn values() -> Vec<Value> {
    own()
        .map(|parameter| {
            // SAFETY: the name of a parameter that there is, so no error is raised; the text is copied before the next call.
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
