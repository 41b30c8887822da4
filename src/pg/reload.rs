//! When this process read the configuration file, and whether it is about to, or never will again.

use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::{server, timestamp};

/// When PostgreSQL last loaded the configuration file in this process; changes with every reload.
#[inline(always)]
pub fn time() -> pg_sys::TimestampTz {
    // SAFETY: a plain variable of this process, written between statements only.
    unsafe { pg_sys::PgReloadTime }
}

/// The same on the monotonic clock, which unlike [`time`] compares between processes whatever the
/// wall clock does.
pub fn time_mono_ns() -> u64 {
    let now = clock::machine_both();
    let read_at_us = timestamp::unix_us(time());
    let age_ns = i128::from(now.wall_ns) - i128::from(read_at_us) * 1000;
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
    // SAFETY: between rounds, as PostgreSQL's own workers do.
    unsafe {
        (&raw mut pg_sys::ConfigReloadPending).write_volatile(0);
        pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
    }
}

/// Whether no reload reaches this process: a background worker that has set up no handler for the
/// signal, and that does not take its leader's settings.
pub fn is_ignored() -> bool {
    // SAFETY: a variable of this process.
    let reads_file = unsafe { !pg_sys::IsUnderPostmaster } || server::is_parallel_worker();
    // The postmaster and a single-user server read the file themselves, whatever their caller ignores.
    if reads_file || server::is_starting_parallel_worker() {
        return false;
    }
    // SAFETY: all-zero bytes are a valid `sigaction`, and the call only asks.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
