//! The keeper: a background worker that moves the reservation ahead of need about once a second, so
//! that normally no session waits for the disk. It also reads the clocks when nobody generates, and puts
//! the settings of a reload in force.
//!
//! It starts when recovery ends, so never on a standby: with the server, or where the library is not
//! preloaded, with the first session that generates ([`workers`]). The postmaster starts it again if it
//! ends. Nothing depends on it: without it, claims extend the reservation themselves. When it is
//! told to stop it gives the unused part of the reservation back, so that after a clean restart
//! nobody has to wait for the clock; a claim that comes later reserves for itself again. It also hands
//! back the numbers of tickets that nobody has.

use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;

use crate::durable::replicated;
use crate::error::{Error, log_limit, report};
use crate::fleet::registrar;
use crate::generate::startup::Decision;
use crate::generate::{clocks, reserve, startup, test_server, ticket_stop};
use crate::pg::worker::Worker;
use crate::pg::{reload, server};
use crate::settings;
use crate::shared::{Reader, SharedState, memory, shard_list, workers};

/// The keeper, to the postmaster.
pub const WORKER: Worker =
    Worker { name: "id_gen keeper", function: "id_gen_keeper", on_standby: false };
const ROUND: Duration = Duration::from_secs(1);
/// How long a keeper that was told to stop waits for another process's write.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Has the keeper started, if it is missing where sessions start it; see [`workers::start_if_missing`].
pub fn start_if_missing(shared: &SharedState) {
    workers::start_if_missing(&WORKER, &shared.keeper, memory::is_preloaded());
}

/// The main function of the background worker.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn id_gen_keeper(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    // To no database: this makes it a row of pg_stat_activity.
    BackgroundWorker::connect_worker_to_spi(None, None);
    let Some(shared) = workers::begin(|shared| &shared.keeper) else { return };
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
            reload::read_file();
            shared.adopt_settings(Reader::Keeper);
            log_reload(shared);
        }
    }
    shared.keeper.leave();
    // Whoever writes now holds the lock for the length of a write. If that does not end, the unused part
    // stays reserved, which costs a wait after the next start and never the stop of the server.
    let released = shared.write_lock.lock_within(LAST_WRITE).map_or(Ok(()), |guard| {
        let written = match shared.layout() {
            Ok(layout) => shard_list::write_again(shared, layout, &guard),
            Err(_) => Ok(()),
        };
        let released = reserve::release(shared, &guard);
        released.and(written.map_err(Error::from))
    });
    log.note(released.map(|()| Found::NothingWrong));
    ticket_stop::hand_back(&shared.tickets);
    // The postmaster never starts a worker again that ended with status 0, not even one that was only terminated.
    // SAFETY: ends this process, which holds nothing any more.
    unsafe { pg_sys::proc_exit(1) }
}

/// The findings of a round, unless something is wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    NothingWrong,
    /// Another process did the work meanwhile, and knows how it went.
    Nothing,
}

fn round(shared: &'static SharedState) -> Result<Found, Error> {
    shared.keeper.heartbeat();
    registrar::start_if_missing(shared);
    log_limit::log_overdue();
    let layout = shared.layout()?;
    if shared.test_start().is_some() {
        // Only its sessions reserve: what they generate may not depend on when a round comes.
        return test_server::check(shared).map(|()| Found::NothingWrong);
    }
    let (number, has_number, started, has_basis) = {
        let state = shared.lock();
        let has_basis = state.shard_basis().is_some();
        let (has_number, started) = (state.rules.node_bits.is_some(), state.allocator.is_some());
        (state.identity.number(), has_number, started, has_basis)
    };
    // One that is refused is worth a line; none at all is nothing to complain about.
    let refused = number.map_or(Ok(()), |_| shared.check_number(layout));
    // A member starts with the number that it gets: what it reserved before would count as generated with that.
    let has_shards = (started || has_basis) && shard_list::may_exist(shared);
    if !has_number && !has_shards {
        // Nobody generates here: nothing to reserve.
        return refused.map(|()| Found::NothingWrong);
    }
    let checked = clocks::check(shared);
    let replayed = if started { None } else { replicated::read()? };
    // Another process that writes does what this one would.
    let Some(guard) = shared.write_lock.try_lock() else {
        return checked.map(|_| Found::Nothing);
    };
    if started {
        // After a jump the reservation stays where it is, since nobody claims.
        reserve::extend(shared, &guard)?;
        shard_list::write_again(shared, layout, &guard)?;
    } else {
        startup::start(shared, replayed, &guard, Decision::None)?;
    }
    // A jump is worth a line.
    checked.and(refused).map(|()| Found::NothingWrong)
}

/// Logs that what a running server keeps was changed by a reload, and waits for a restart, with what will be wrong with a
/// new layout then.
fn log_reload(shared: &SharedState) {
    if settings::test_start() != shared.test_start() {
        report::log_line(settings::TEST_START_NOTICE);
    }
    if let Ok(wanted) = settings::layout()
        && shared.layout_if_valid() != Some(&wanted)
    {
        report::log_line(settings::RESTART_NOTICE);
        if let Err(error) = startup::try_layout(shared, wanted) {
            report::log(&error, PgLogLevel::WARNING);
        }
    }
}

/// The primary message of what went wrong last, so that it is logged once and not every second: its figures, in
/// DETAIL, may differ each time.
#[derive(Default)]
struct IncidentLog(Option<String>);

impl IncidentLog {
    fn note(&mut self, outcome: Result<Found, Error>) {
        match outcome {
            Ok(Found::NothingWrong) => self.0 = None,
            Ok(Found::Nothing) => {}
            Err(error) => {
                let primary = error.message().primary;
                if self.0.as_ref() != Some(&primary) {
                    self.0 = Some(primary);
                    report::log(&error, PgLogLevel::LOG);
                }
            }
        }
    }
}
