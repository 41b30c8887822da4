//! The keeper: a background worker that moves the reservation ahead of need about once a second, so
//! that in ordinary running no session waits for the disk. It also looks at the clocks when nobody
//! generates, and puts the settings of a reload in force.
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

use crate::claim::tell_of_step;
use crate::refusal::Refusal;
use crate::reservation::{self, Decision};
use crate::shared::{Reader, Segment};
use crate::{log, memory};

const NAME: &str = "id_gen keeper";
const ROUND: Duration = Duration::from_secs(1);
const RESTART: Duration = Duration::from_secs(1);
/// How long a keeper that was told to stop waits for another process's write.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Asks the postmaster to run the keeper, if the library is being preloaded. Not during `pg_upgrade`:
/// where IDs go on is decided after it, and known before it.
pub fn request() {
    // SAFETY: reads state variables of this process.
    if unsafe { pg_sys::process_shared_preload_libraries_in_progress && !pg_sys::IsBinaryUpgrade } {
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

/// The keeper's life.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn id_gen_keeper(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    // To no database: this makes it a row of pg_stat_activity.
    BackgroundWorker::connect_worker_to_spi(None, None);
    let Some(segment) = memory::segment() else { return };
    segment.become_keeper();
    segment.adopt_settings(Reader::Keeper);
    let mut trouble = Trouble::default();
    loop {
        trouble.tell(round(segment));
        let go_on = BackgroundWorker::wait_latch(Some(ROUND));
        // SAFETY: this process's own latch; whatever sets it from here on ends the next wait.
        unsafe { pg_sys::ResetLatch(pg_sys::MyLatch) };
        if !go_on {
            break;
        }
        if BackgroundWorker::sighup_received() {
            // SAFETY: between rounds, as PostgreSQL's own workers do.
            unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
            segment.adopt_settings(Reader::Keeper);
            tell_if_layout_waits(segment);
        }
    }
    segment.leave_keeper();
    // Whoever writes now keeps the token for the length of a write. If that does not end, the unused part stays reserved,
    // which costs a wait after the next start and never the stop of the server.
    let withdrawn = segment
        .begin_writing_within(LAST_WRITE)
        .map_or(Ok(()), |writing| reservation::withdraw(segment, &writing));
    trouble.tell(withdrawn);
    // A worker that ends with status 0 is never started again, also if only it was told to stop.
    // SAFETY: ends this process, which holds nothing any more.
    unsafe { pg_sys::proc_exit(1) }
}

fn round(segment: &'static Segment) -> Result<(), Refusal> {
    segment.keeper_beats();
    log::tell_overdue(segment);
    let layout = segment.layout()?;
    let (begun, looked, step) = {
        let mut state = segment.lock();
        if state.settings.node_bits(layout).is_err() {
            // Nobody generates here: nothing to reserve, and nothing to complain about.
            return Ok(());
        }
        (state.line.is_some(), state.look_at_clocks(), state.take_untold_step())
    };
    if let Some(stepped_ns) = step {
        tell_of_step(stepped_ns);
    }
    // Another process that writes does what this one would.
    if let Some(writing) = segment.try_begin_writing() {
        if begun {
            // After a jump the reservation stays where it is, since nobody claims.
            reservation::extend(segment, &writing)?;
        } else {
            reservation::open(segment, &writing, Decision::None)?;
        }
    }
    // A jump is worth a line.
    looked.map(|_| ())
}

fn tell_if_layout_waits(segment: &Segment) {
    if let Ok(wanted) = crate::settings::layout()
        && segment.fast_layout() != Some(&wanted)
    {
        ereport!(
            PgLogLevel::LOG,
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            "parameter \"id_gen.layout\" takes effect when the server is restarted"
        );
        if let Err(refusal) = reservation::try_layout(segment, wanted) {
            refusal.log(PgLogLevel::WARNING);
        }
    }
}

/// What went wrong last, so that it is told once and not every second.
#[derive(Default)]
struct Trouble(Option<std::mem::Discriminant<Refusal>>);

impl Trouble {
    fn tell(&mut self, outcome: Result<(), Refusal>) {
        match outcome {
            Ok(()) => self.0 = None,
            Err(refusal) => {
                let kind = std::mem::discriminant(&refusal);
                if self.0.replace(kind) != Some(kind) {
                    refusal.log(PgLogLevel::LOG);
                }
            }
        }
    }
}
