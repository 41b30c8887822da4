//! What PostgreSQL tells a process about itself and its server.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::pg::timestamp;

/// Whether the postmaster is loading `shared_preload_libraries`.
pub fn is_preloading() -> bool {
    // SAFETY: a variable of this process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Whether the server was started by `pg_upgrade`.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: set when the server started.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Whether a process of this server may have a background worker started: not in single-user mode, which
/// has no postmaster, and not during `pg_upgrade`.
pub fn can_start_workers() -> bool {
    // SAFETY: set when the process started.
    unsafe { pg_sys::IsUnderPostmaster && !pg_sys::IsBinaryUpgrade }
}

/// The role whose privileges count now.
#[inline(always)]
pub fn role() -> pg_sys::Oid {
    unsafe extern "C-unwind" {
        /// PostgreSQL's function without pgrx's guard. It raises no error.
        fn GetUserId() -> pg_sys::Oid;
    }
    // SAFETY: reads a variable of this process.
    unsafe { GetUserId() }
}

/// A role's name as one types it.
pub fn role_name(role: pg_sys::Oid) -> String {
    // SAFETY: a string that PostgreSQL allocates, or null where the role is gone.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        if name.is_null() {
            return "CURRENT_USER".to_owned();
        }
        CStr::from_ptr(pg_sys::quote_identifier(name)).to_string_lossy().into_owned()
    }
}

/// The role that this session logged in as, as an SQL identifier.
pub fn login_role() -> String {
    // SAFETY: a variable of this process.
    role_name(unsafe { pg_sys::GetAuthenticatedUserId() })
}

/// This session's database, as an SQL identifier.
pub fn database_name() -> String {
    // SAFETY: a string that PostgreSQL allocates; a session's database stays.
    unsafe {
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        CStr::from_ptr(pg_sys::quote_identifier(name)).to_string_lossy().into_owned()
    }
}

/// Whether the server is a standby or still recovers.
pub fn is_in_recovery() -> bool {
    // SAFETY: callable by any process that can run SQL.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether this process is a parallel worker that takes over its leader's state.
pub fn is_starting_parallel_worker() -> bool {
    // SAFETY: a variable of this process.
    unsafe { pg_sys::InitializingParallelWorker }
}

/// Whether this process is a parallel worker, whose leader ends its transaction.
pub fn is_parallel_worker() -> bool {
    // SAFETY: set when the process started.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// Whether this session executes `ALTER SYSTEM`, which is always a statement of its own.
pub fn is_in_alter_system() -> bool {
    // SAFETY: null, or the portal of the statement that this session executes.
    unsafe { pg_sys::ActivePortal.as_ref() }
        .is_some_and(|portal| portal.commandTag == pg_sys::CommandTag::CMDTAG_ALTER_SYSTEM)
}

/// This process's PID.
pub fn pid() -> i32 {
    // SAFETY: set at process start.
    unsafe { pg_sys::MyProcPid }
}

/// The latch that wakes this process.
pub fn latch() -> *mut pg_sys::Latch {
    // SAFETY: set at process start.
    unsafe { pg_sys::MyLatch }
}

/// Wakes this process itself: its next wait ends at once, and it looks again at what it waits for.
pub fn wake_up() {
    // SAFETY: this process's own latch.
    unsafe { pg_sys::SetLatch(latch()) };
}

/// This process's number among those that can run SQL: unique while it lives, below
/// [`max_backends`].
pub fn process_number() -> Option<usize> {
    // SAFETY: set at process start, before any SQL runs.
    let number = unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        {
            pg_sys::MyProc.as_ref().map_or(-1, |process| process.pgprocno)
        }
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        {
            pg_sys::MyProcNumber
        }
    };
    usize::try_from(number).ok()
}

/// How many processes can run SQL at the same time.
pub fn max_backends() -> usize {
    // SAFETY: computed by PostgreSQL before it calls the hooks that ask, and before any SQL runs.
    usize::try_from(unsafe { pg_sys::MaxBackends }).unwrap_or(0)
}

/// The setting `max_prepared_transactions`.
pub fn max_prepared_transactions() -> usize {
    // SAFETY: fixed when the server started.
    usize::try_from(unsafe { pg_sys::max_prepared_xacts }).unwrap_or(0)
}

/// The database that this process is connected to; zero if to none.
pub fn database() -> u32 {
    // SAFETY: set while the process starts.
    unsafe { pg_sys::MyDatabaseId }.to_u32()
}

/// The setting `max_worker_processes`.
pub fn max_worker_processes() -> i32 {
    // SAFETY: fixed when the server started.
    unsafe { pg_sys::max_worker_processes }
}

/// The setting `shared_preload_libraries`.
pub fn preload_libraries() -> String {
    // SAFETY: a string that PostgreSQL set up at start, or null.
    let list = unsafe {
        let list = pg_sys::shared_preload_libraries_string;
        if list.is_null() { c"" } else { CStr::from_ptr(list) }
    };
    list.to_string_lossy().trim().to_owned()
}

/// The version that runs, as in `server_version_num`: the library may have been built for another minor release.
pub fn version() -> i32 {
    // SAFETY: the setting exists, and its value is a string as long as the process runs.
    let number = unsafe {
        CStr::from_ptr(pg_sys::GetConfigOption(c"server_version_num".as_ptr(), false, false))
    };
    number.to_string_lossy().parse().unwrap_or_default()
}

/// When the postmaster was started, in Unix microseconds; `None` while it is still starting.
pub fn start_us() -> Option<i64> {
    // SAFETY: set by the postmaster before it starts any process, and inherited.
    let started = unsafe { pg_sys::PgStartTime };
    (started != 0).then(|| timestamp::unix_us(started))
}

/// When the current transaction began.
pub fn transaction_start() -> pg_sys::TimestampTz {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::GetCurrentTransactionStartTimestamp() }
}

/// The database cluster, as `pg_control` knows it.
pub fn system_identifier() -> u64 {
    // SAFETY: only reads shared memory.
    unsafe { pg_sys::GetSystemIdentifier() }
}

/// Whether the server is being stopped, as its own file says to those outside.
pub fn is_stopping() -> bool {
    const STATUS_LINE: usize = 8; // LOCK_FILE_LINE_PM_STATUS
    let file = std::fs::read_to_string("postmaster.pid").unwrap_or_default();
    file.lines().nth(STATUS_LINE - 1).is_some_and(|status| status.trim() == "stopping")
}

/// Whether a process is left that runs SQL in a database, and that a server which is stopping waits for.
pub fn has_sessions() -> bool {
    processes(|walsender| walsender.is_none())
}

/// Whether a process is left that could run SQL in a database: not one that sends the log to a standby or a subscriber, which
/// lasts until the server has stopped.
pub fn may_run_sql() -> bool {
    processes(|walsender| {
        walsender.is_none_or(|state| state == pg_sys::WalSndState::WALSNDSTATE_STARTUP)
    })
}

/// Whether a process of a database is like this, by its state if it is a walsender.
fn processes(is_meant: impl Fn(Option<pg_sys::WalSndState::Type>) -> bool) -> bool {
    // SAFETY: PostgreSQL's shared memory, there as long as the server runs. What is read of a process that starts or ends
    // meanwhile may be old or new.
    unsafe {
        let senders = (*pg_sys::WalSndCtl).walsnds.as_ptr();
        let walsender = |pid: i32| {
            (0..usize::try_from(pg_sys::max_wal_senders).unwrap_or(0))
                .map(|index| senders.add(index))
                .find(|&sender| (&raw const (*sender).pid).read_volatile() == pid)
                .map(|sender| (&raw const (*sender).state).read_volatile())
        };
        (0..(*pg_sys::ProcGlobal).allProcCount as usize).any(|index| {
            let process = (*pg_sys::ProcGlobal).allProcs.add(index);
            let pid = (&raw const (*process).pid).read_volatile();
            let database = (&raw const (*process).databaseId).read_volatile();
            // The place of a process that has ended may still say what it was.
            let lives = || pg_sys::BackendPidGetProc(pid) == process;
            pid != 0 && database != pg_sys::InvalidOid && lives() && is_meant(walsender(pid))
        })
    }
}

/// The timeline that the server writes on. Only for a server that has left recovery, whose timeline
/// does not change any more.
pub fn timeline() -> u32 {
    // SAFETY: only reads shared memory.
    unsafe { pg_sys::GetWALInsertionTimeLine() }
}

/// The timeline that the server writes on, or, on a standby, replays.
pub fn timeline_or_replayed() -> u32 {
    if !is_in_recovery() {
        return timeline();
    }
    let mut timeline = 0;
    // SAFETY: only reads shared memory, and writes to a valid place.
    unsafe { pg_sys::GetXLogReplayRecPtr(&raw mut timeline) };
    timeline
}

/// Loads the library with which a standby follows its primary, and libpq with it. Raises an error of PostgreSQL's if an
/// installation lacks it.
pub fn load_libpq() {
    // SAFETY: a constant name, of a library that is part of every server and only registers its functions.
    unsafe { pg_sys::load_file(c"libpqwalreceiver".as_ptr(), false) };
}

/// Whether the role of this session may see settings that only superusers see otherwise; not outside of a transaction.
pub fn may_read_all_settings() -> bool {
    // SAFETY: variables of this process, and, in a transaction alone, a look at the roles.
    unsafe {
        pg_sys::IsTransactionState()
            && pg_sys::has_privs_of_role(
                pg_sys::GetUserId(),
                pg_sys::Oid::from(pg_sys::ROLE_PG_READ_ALL_SETTINGS),
            )
    }
}

/// The port that the server listens on.
pub fn port() -> u16 {
    // SAFETY: fixed when the server started.
    u16::try_from(unsafe { pg_sys::PostPortNumber }).unwrap_or(0)
}

/// The time of the last commit that this server replayed, in Unix milliseconds, if it replayed one.
pub fn last_replayed_ms() -> Option<i64> {
    // SAFETY: only reads shared memory.
    let replayed = unsafe { pg_sys::GetLatestXTime() };
    (replayed != 0).then(|| timestamp::unix_ms(replayed)).flatten()
}
