//! When what was inserted into the write-ahead log outlives a crash, and a failover to a synchronous standby.

use std::time::Duration;

use id_gen_base::pg::server;
use id_gen_core::startup::FIRST_TIMELINE;
use pgrx::pg_sys;

/// A place in the log: what was inserted up to here. Zero: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lsn(pub u64);

/// Up to where the log outlives a crash. Only for a server that has left recovery.
pub fn flushed() -> Lsn {
    // SAFETY: only reads shared memory, and tells no timeline where none is asked for.
    Lsn(unsafe { pg_sys::GetFlushRecPtr(std::ptr::null_mut()) })
}

/// The place in the log where a replay would begin now: the last checkpoint.
pub fn redo() -> Lsn {
    // SAFETY: only reads shared memory.
    Lsn(unsafe { pg_sys::GetRedoRecPtr() })
}

/// The timeline on which a record was logged that ends here and was replayed by this server. May raise an error of
/// PostgreSQL's: the history of the timelines can't be read. Only for a server that has left recovery.
pub fn timeline_of(end: Lsn) -> u32 {
    let timeline = server::timeline();
    if timeline == FIRST_TIMELINE {
        return timeline;
    }
    // SAFETY: both allocate in the current memory context, and the list is used before that is reset. Every place is in the
    // history of a server's own timeline, whose first entry has no beginning and whose last one has no end.
    unsafe {
        pg_sys::tliOfPointInHistory(end.0.saturating_sub(1), pg_sys::readTimeLineHistory(timeline))
    }
}

/// The wait for a standby was cancelled.
#[derive(Clone, Copy, Debug)]
pub struct Cancelled;

/// Has the log flushed up to here, soon, by the process that does so in the background.
pub fn flush_soon(lsn: Lsn) {
    if lsn.0 > 0 {
        // SAFETY: only notes in shared memory how far to flush, and wakes that process.
        unsafe { pg_sys::XLogSetAsyncXactLSN(lsn.0) };
    }
}

/// Flushes the log up to here. May raise an error of PostgreSQL's: the disk is full.
pub fn flush(lsn: Lsn) {
    if lsn.0 > 0 {
        // SAFETY: for a process that may write to the log.
        unsafe { pg_sys::XLogFlush(lsn.0) };
    }
}

/// Whether this session's commits wait for synchronous standbys.
pub fn waits_for_standby() -> bool {
    // SAFETY: variables of this process.
    unsafe {
        pg_sys::max_wal_senders > 0
            && pg_sys::synchronous_commit
                > pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_LOCAL_FLUSH as i32
            && !pg_sys::SyncRepStandbyNames.is_null()
            && *pg_sys::SyncRepStandbyNames != 0
    }
}

/// Whether a synchronous standby has flushed the log up to here.
pub fn is_on_standby(lsn: Lsn) -> bool {
    lsn <= reached(FLUSHED)
}

/// Whether they wait until such a standby has flushed the log, and not only written it.
fn waits_for_flush() -> bool {
    // SAFETY: a variable of this process.
    let level = unsafe { pg_sys::synchronous_commit };
    waits_for_standby() && level != pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_WRITE as i32
}

/// Flushes the log up to here, and waits until a synchronous standby has done so too, where this session's commits wait
/// for one. May raise an error of PostgreSQL's: the disk is full. No lock may be held.
///
/// # Errors
/// If the wait was cancelled.
pub fn make_durable(lsn: Lsn) -> Result<(), Cancelled> {
    flush(lsn);
    if lsn.0 == 0 || !waits_for_standby() || has_standby(lsn) {
        return Ok(());
    }
    // SAFETY: the wait looks for interrupts itself and has them held off as in a commit, as it demands; what it raises
    // (it warns) it raises before or after its wait.
    unsafe {
        pg_sys::InterruptHoldoffCount += 1;
        pg_sys::SyncRepWaitForLSN(lsn.0, false);
        pg_sys::InterruptHoldoffCount -= 1;
    }
    pgrx::check_for_interrupts!();
    // PostgreSQL ends the wait also where it is cancelled, and then tells that to the client alone. Where no standby is needed any
    // more, it ends the waits a moment before it notes that.
    for _ in 0..A_MOMENT_MS {
        if has_standby(lsn) || !standbys_are_in_force() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Cancelled)
}

/// Far more than PostgreSQL takes between the two, which are in one critical section.
const A_MOMENT_MS: u32 = 100;

const WRITTEN: usize = 0; // SYNC_REP_WAIT_WRITE
const FLUSHED: usize = 1; // SYNC_REP_WAIT_FLUSH

/// Up to where synchronous standbys have written or flushed the log.
fn reached(mode: usize) -> Lsn {
    // SAFETY: PostgreSQL's shared memory, there as long as the server runs; the walsenders write these words as a whole.
    Lsn(unsafe { (&raw const (*pg_sys::WalSndCtl).lsn[mode]).read_volatile() })
}

/// Whether a synchronous standby has flushed the log up to here, or written it where that is enough for this session.
fn has_standby(lsn: Lsn) -> bool {
    lsn <= reached(if waits_for_flush() { FLUSHED } else { WRITTEN })
}

/// Whether the server has taken note that commits are to wait for standbys. What this session knows of the setting may be
/// older: it reads that between statements.
fn standbys_are_in_force() -> bool {
    // SAFETY: as above.
    let status = unsafe {
        (&raw const (*pg_sys::WalSndCtl).sync_standbys_status).cast::<u8>().read_volatile()
    };
    status & standbys_defined(server::version()) != 0
}

/// `SYNC_STANDBY_DEFINED` of this PostgreSQL: minor releases of before May 2025 had a truth value in its place.
const fn standbys_defined(version: i32) -> u8 {
    match version {
        150_013..160_000 | 160_009..170_000 | 170_005.. => 2,
        _ => 1,
    }
}
