//! The keeper: a background worker that moves the reservation ahead of need about once a second, so
//! that normally no session waits for the disk. It also reads the clocks when nobody generates, and puts
//! the settings of a reload in force.
//!
//! It starts when recovery ends, so never on a standby, and the postmaster starts it again if it
//! ends. Nothing depends on it: without it, claims extend the reservation themselves. When it is
//! told to stop it gives the unused part of the reservation back, so that after a clean restart
//! nobody has to wait for the clock; a claim that comes later reserves for itself again.

use std::time::Duration;

use pgrx::bgworkers::{
    BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, SignalWakeFlags,
};
use pgrx::prelude::*;

use crate::durable::replicated::Replayed;
use crate::error::{Error, Reason, log_limit, report};
use crate::generate::startup::Decision;
use crate::generate::{clocks, reserve, startup};
use crate::pg::server;
use crate::settings;
use crate::shared::{Reader, SharedState, memory};

const NAME: &str = "id_gen keeper";
const ROUND: Duration = Duration::from_secs(1);
const RESTART: Duration = Duration::from_secs(1);
/// How long a keeper that was told to stop waits for another process's write.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Asks the postmaster to run the keeper, if the library is being preloaded. Not during `pg_upgrade`:
/// where IDs go on is decided after it, and known before it.
pub fn request() {
    if server::is_preloading() && !server::is_binary_upgrade() {
        BackgroundWorkerBuilder::new(NAME)
            .set_type(NAME)
            .set_library("id_gen")
            .set_function("id_gen_keeper")
            .enable_spi_access()
            .set_start_time(BgWorkerStartTime::RecoveryFinished)
            .set_restart_time(Some(RESTART))
            .load();
    }
}

/// The main function of the background worker.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn id_gen_keeper(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    // To no database: this makes it a row of pg_stat_activity.
    BackgroundWorker::connect_worker_to_spi(None, None);
    let Some(shared) = memory::attached() else { return };
    shared.keeper.register();
    shared.adopt_settings(Reader::Keeper);
    let mut log = IncidentLog::default();
    loop {
        log.note(round(shared));
        let go_on = BackgroundWorker::wait_latch(Some(ROUND));
        // SAFETY: this process's own latch; whatever sets it from here on ends the next wait.
        unsafe { pg_sys::ResetLatch(server::latch()) };
        if !go_on {
            break;
        }
        if BackgroundWorker::sighup_received() {
            // SAFETY: between rounds, as PostgreSQL's own workers do.
            unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
            shared.adopt_settings(Reader::Keeper);
            log_pending_layout(shared);
        }
    }
    shared.keeper.unregister();
    // Whoever writes now holds the lock for the length of a write. If that does not end, the unused part
    // stays reserved, which costs a wait after the next start and never the stop of the server.
    let released = shared
        .write_lock
        .lock_within(LAST_WRITE)
        .map_or(Ok(()), |guard| reserve::release(shared, &guard));
    log.note(released);
    // The postmaster never starts a worker again that ended with status 0, not even one that was only terminated.
    // SAFETY: ends this process, which holds nothing any more.
    unsafe { pg_sys::proc_exit(1) }
}

fn round(shared: &'static SharedState) -> Result<(), Error> {
    shared.keeper.heartbeat();
    log_limit::log_overdue();
    shared.layout()?;
    let started = {
        let state = shared.lock();
        if state.rules.node_bits.is_none() {
            // Nobody generates here: nothing to reserve, and nothing to complain about.
            return Ok(());
        }
        state.allocator.is_some()
    };
    let checked = clocks::check(shared);
    let replayed = if started { Replayed::IGNORED } else { Replayed::read()? };
    // Another process that writes does what this one would.
    if let Some(guard) = shared.write_lock.try_lock() {
        if started {
            // After a jump the reservation stays where it is, since nobody claims.
            reserve::extend(shared, &guard)?;
        } else {
            startup::start(shared, replayed, &guard, Decision::None)?;
        }
    }
    // A jump is worth a line.
    checked.map(|_| ())
}

/// Logs that a new layout waits for a restart, and what will be wrong with it then.
fn log_pending_layout(shared: &SharedState) {
    if let Ok(wanted) = settings::layout()
        && shared.layout_if_valid() != Some(&wanted)
    {
        report::log_line(settings::RESTART_NOTICE);
        if let Err(error) = startup::try_layout(shared, wanted) {
            report::log(&error, PgLogLevel::WARNING);
        }
    }
}

/// What went wrong last, so that it is logged once and not every second.
#[derive(Default)]
struct IncidentLog(Option<std::mem::Discriminant<Reason>>);

impl IncidentLog {
    fn note(&mut self, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => self.0 = None,
            Err(error) => {
                let kind = std::mem::discriminant(error.reason());
                if self.0.replace(kind) != Some(kind) {
                    report::log(&error, PgLogLevel::LOG);
                }
            }
        }
    }
}
