//! Transactions and snapshots of PostgreSQL's, as safe calls.

use std::ffi::CStr;

use id_gen_core::horizon::{Prepared, Snapshot};
use pgrx::pg_sys;

use crate::pg::server;

/// The transaction ID of this process's transaction, which gets one if it has none. Like all here, it does not wrap
/// around.
pub fn own_id() -> u64 {
    // SAFETY: for a process in a transaction, as all that run SQL and commit are. It may raise an error: none is left.
    unsafe { pg_sys::GetTopFullTransactionId() }.value
}

/// The number of the transaction within this session: another one in every transaction.
#[inline(always)]
pub fn number() -> u32 {
    // SAFETY: this process's own place, set while it starts.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (*pg_sys::MyProc).lxid;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return (*pg_sys::MyProc).vxid.lxid;
    }
}

/// The number of the command within this transaction: another one in each statement of a client or a function, and in each
/// expression that PL/pgSQL evaluates, after [`begin_command`].
#[inline(always)]
pub fn command() -> u32 {
    unsafe extern "C-unwind" {
        /// PostgreSQL's function without pgrx's guard. It raises no error for a number that is not used.
        fn GetCurrentCommandId(used: bool) -> pg_sys::CommandId;
    }
    // SAFETY: reads a variable of this process.
    unsafe { GetCurrentCommandId(false) }
}

/// Has what follows this command be another one for PostgreSQL, which counts only those that write rows.
pub fn begin_command() -> u32 {
    // SAFETY: not in a parallel worker, where it raises an error.
    unsafe { pg_sys::GetCurrentCommandId(true) }
}

/// The next transaction ID that anybody gets.
fn next_id() -> u64 {
    // SAFETY: only reads shared memory.
    unsafe { pg_sys::ReadNextFullTransactionId() }.value
}

/// Whether a transaction has neither committed nor been rolled back, as every snapshot taken from now on will show. One
/// that is prepared has not. May raise an error of PostgreSQL's.
pub fn is_in_progress(transaction: u64) -> bool {
    // PostgreSQL hands out no more than 2^31 beyond the oldest one that is in progress, and tells no more of them apart.
    const TOLD_APART: u64 = 1 << 31;
    if next_id().saturating_sub(transaction) >= TOLD_APART {
        return false;
    }
    // SAFETY: any number may be asked for.
    unsafe { pg_sys::TransactionIdIsInProgress(pg_sys::TransactionId::from(transaction as u32)) }
}

/// The transactions that are prepared, and perhaps some that were: those that PostgreSQL found when it started are among
/// them. Nothing is known of their IDs.
pub fn prepared() -> Vec<Prepared> {
    let next = next_id();
    let places = 0..server::max_prepared_transactions();
    // SAFETY: so many places are in PostgreSQL's shared memory. What is read of one that another process fills in
    // meanwhile may be old or new.
    let places = places.map(|index| unsafe {
        let place = pg_sys::PreparedXactProcs.add(index);
        let transaction = (&raw const (*place).xid).read_volatile().into_inner();
        (transaction, (&raw const (*place).databaseId).read_volatile().to_u32())
    });
    let taken = places.filter(|&(transaction, _)| transaction != 0);
    taken
        .map(|(transaction, database)| {
            // The last one of that number: none of those to come is prepared.
            let behind = (next as u32).wrapping_sub(transaction);
            let transaction = next.saturating_sub(behind.into());
            Prepared { transaction, first_id: i64::MIN, database }
        })
        .collect()
}

/// Runs a call under a snapshot that sees what has been committed up to now, in REPEATABLE READ and above under that of the
/// transaction.
pub fn under_new_snapshot<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: in a transaction, as every function that SQL calls. It is popped below, or by the end of the transaction that an
    // error brings.
    unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot()) };
    let result = call();
    // SAFETY: the snapshot that was pushed above; whatever the call has pushed it has popped.
    unsafe { pg_sys::PopActiveSnapshot() };
    result
}

/// Runs a call in a transaction of its own, in a process that is in none.
pub fn run<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: for processes that are connected to shared memory, as all that run SQL and the keeper are.
    unsafe { pg_sys::StartTransactionCommand() };
    let result = call();
    // SAFETY: as above.
    unsafe { pg_sys::CommitTransactionCommand() };
    result
}

/// Waits for every other transaction of this database that has called this, and lets later ones wait until the end of this one.
/// Nobody else waits for it, except for a session that drops this extension.
pub fn hold_extension(name: &CStr) {
    // SAFETY: the name is a string; without the extension nothing would be locked that is there. Waiting can be canceled.
    unsafe {
        let extension = pg_sys::get_extension_oid(name.as_ptr(), true);
        let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
        pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode);
    }
}

/// Whether parallel workers share this process's transaction, so that it may take no snapshot.
pub fn is_parallel() -> bool {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::IsInParallelMode() }
}

/// The first transaction that any snapshot in use in this process does not see, or an earlier one; `None` if no snapshot
/// is in use.
pub fn first_unseen() -> Option<u32> {
    // SAFETY: this process's own place, which PostgreSQL keeps up to date for others to read.
    let first = unsafe { pg_sys::MyProc.as_ref() }.map_or(0, |process| process.xmin.into_inner());
    (first != 0).then_some(first)
}

/// Tells apart what this process's statements see in one transaction: a hash of the snapshot. Where it lies does not tell,
/// nor how many transactions run: one that is just being prepared counts twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotMark(u64);

/// The mark of the statement's snapshot.
pub fn snapshot_mark() -> Option<SnapshotMark> {
    // SAFETY: null, or valid as long as nobody pops it, which nothing here does.
    unsafe {
        if !pg_sys::ActiveSnapshotSet() {
            return None;
        }
        let snapshot = pg_sys::GetActiveSnapshot().as_ref()?;
        // FNV-1a's prime and start.
        let hash =
            running(snapshot).iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &transaction| {
                (hash ^ u64::from(transaction)).wrapping_mul(0x0100_0000_01b3)
            });
        Some(SnapshotMark(hash ^ u64::from(snapshot.xmax.into_inner())))
    }
}

/// What the statement sees that this process is executing; `None` if that is not a matter of transactions, or was found
/// on a standby, which tells running transactions in another way.
pub fn statement_snapshot() -> Option<Snapshot> {
    // SAFETY: null, or valid as long as nobody pops it, which nothing here does.
    unsafe {
        if !pg_sys::ActiveSnapshotSet() {
            return None;
        }
        read(pg_sys::GetActiveSnapshot())
    }
}

/// What a statement would see that begins now; as above.
pub fn latest_snapshot() -> Option<Snapshot> {
    // SAFETY: for a process in a transaction, as all that run SQL are; it raises an error in parallel mode. What it
    // returns is valid until the next call.
    unsafe { read(pg_sys::GetLatestSnapshot()) }
}

/// # Safety
/// A snapshot of PostgreSQL's.
unsafe fn read(snapshot: pg_sys::Snapshot) -> Option<Snapshot> {
    // SAFETY: the caller vouches for it.
    unsafe {
        let snapshot = snapshot.as_ref()?;
        let is_of_transactions = snapshot.snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC;
        if !is_of_transactions || snapshot.takenDuringRecovery {
            return None;
        }
        Some(Snapshot::new(snapshot.xmax.into_inner(), running(snapshot)))
    }
}

/// # Safety
/// A snapshot of PostgreSQL's.
unsafe fn running(snapshot: &pg_sys::SnapshotData) -> &[u32] {
    match snapshot.xcnt as usize {
        0 => &[],
        // SAFETY: so many transactions are in `xip`, which may be null if there are none.
        count => unsafe { std::slice::from_raw_parts(snapshot.xip.cast::<u32>(), count) },
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is about to be prepared, and may still fail.
    Prepares,
    /// It is prepared, and has ended for this session.
    Prepared,
    /// It has ended: committed or rolled back.
    Ended,
}

/// Has a function called at the end of every transaction of this process. It may raise an error for [`End::Prepares`]
/// alone: where others come, it is too late to fail.
pub fn on_end<F: Handler>() {
    // SAFETY: the function is of the type that PostgreSQL calls, and takes no argument of ours.
    unsafe { pg_sys::RegisterXactCallback(Some(call::<F>), std::ptr::null_mut()) };
}

/// What is called at the end of transactions.
pub trait Handler {
    /// The session's transaction comes to this.
    fn handle(end: End);
}

unsafe extern "C-unwind" fn call<F: Handler>(
    event: pg_sys::XactEvent::Type,
    _argument: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::{
        XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PRE_PREPARE, XACT_EVENT_PREPARE,
    };
    match event {
        // The transaction has left the array of those that run.
        XACT_EVENT_COMMIT | XACT_EVENT_ABORT => F::handle(End::Ended),
        // It runs on, without this process.
        XACT_EVENT_PREPARE => F::handle(End::Prepared),
        XACT_EVENT_PRE_PREPARE => {
            // SAFETY: PostgreSQL calls this on its own thread, in a place where errors are allowed.
            unsafe { pg_sys::panic::pgrx_extern_c_guard(|| F::handle(End::Prepares)) }
        }
        _ => {}
    }
}
