//! When this process read the configuration file, and whether it is about to, or never will again.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use id_gen_core::time::unix_us;
use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::{server, timestamp};

/// Where `ALTER SYSTEM` writes, in the data directory, where every process of a server works.
const AUTO_CONF: &str = "postgresql.auto.conf";

/// When PostgreSQL last loaded the configuration file in this process; changes with every reload.
#[inline(always)]
pub fn time() -> pg_sys::TimestampTz {
    // SAFETY: a plain variable of this process, written between statements only.
    unsafe { pg_sys::PgReloadTime }
}

/// The same in Unix microseconds.
pub fn time_us() -> i64 {
    timestamp::unix_us(time())
}

/// The same on the monotonic clock, which unlike [`time`] compares between processes whatever the
/// wall clock does.
pub fn time_mono_ns() -> u64 {
    let now = clock::machine_both();
    let age_ns = i128::from(now.wall_ns) - i128::from(time_us()) * 1000;
    now.mono_ns.saturating_sub(u64::try_from(age_ns).unwrap_or(0))
}

/// Whether this process was told to reload and has not done so yet, as in the middle of a long
/// statement.
pub fn is_pending() -> bool {
    // SAFETY: set by a signal handler of this process, as a whole.
    unsafe { (&raw const pg_sys::ConfigReloadPending).read_volatile() != 0 }
}

/// Lets this session read the configuration file before its next statement, as if it were told to reload.
pub fn request() {
    // SAFETY: a flag that signal handlers of this process set, too.
    unsafe { (&raw mut pg_sys::ConfigReloadPending).write_volatile(1) };
}

/// Reads the configuration file, in a process that was told to reload.
pub fn read_file() {
    // SAFETY: where nobody relies on settings that stay as they are: between the rounds of a worker, or, as PostgreSQL's
    // autovacuum workers do, in the middle of a transaction.
    unsafe {
        (&raw mut pg_sys::ConfigReloadPending).write_volatile(0);
        pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
    }
}

/// Whether `postgresql.conf` or what `ALTER SYSTEM` writes was changed after a Unix microsecond at which it was read. Included
/// files are not looked at. A file whose time is still to come says nothing: the clock was set.
pub fn are_files_newer(read_us: i64) -> bool {
    let now_us = unix_us(clock::machine_ns());
    // SAFETY: a string that PostgreSQL set up at start, or null.
    let main = unsafe { pg_sys::ConfigFileName.as_ref() }.map(|first| {
        // SAFETY: as above.
        Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(first) }.to_bytes()))
    });
    main.into_iter()
        .chain([Path::new(AUTO_CONF)])
        .filter_map(changed_us)
        .any(|changed_us| changed_us > read_us && changed_us <= now_us)
}

/// When a file was last changed, in Unix microseconds.
fn changed_us(file: &Path) -> Option<i64> {
    let changed = file.metadata().ok()?.modified().ok()?;
    i64::try_from(changed.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}

/// Whether the postmaster tells this process of reloads. A parallel worker takes its leader's settings; the postmaster and a
/// single-user server read the file themselves.
pub fn is_signaled() -> bool {
    // SAFETY: a variable of this process.
    let has_postmaster = unsafe { pg_sys::IsUnderPostmaster };
    has_postmaster && !server::is_parallel_worker() && !server::is_starting_parallel_worker()
}

/// Whether no reload reaches this process: a background worker that has set up no handler for the
/// signal, and that does not take its leader's settings.
pub fn is_ignored() -> bool {
    if !is_signaled() {
        return false;
    }
    // SAFETY: all-zero bytes are a valid `sigaction`, and the call only asks.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
