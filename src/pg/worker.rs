//! Background workers of this library.
//!
//! Each is described once, as a [`Worker`]. The postmaster is asked to run it while it preloads the library
//! ([`Worker::request`]), or by any of its processes later ([`Worker::start`]). Both are the same to the worker, and to
//! the postmaster, which starts it again whenever it ends with a status other than 0, and after a crash.
//!
//! **Locking.** `RegisterDynamicBackgroundWorker` takes a lock of PostgreSQL's, and the postmaster may take its time, so
//! [`Worker::start`] is called while none of ours is held.

use std::time::{Duration, Instant};

use id_gen_base::pg::server;
use pgrx::bgworkers::{
    BackgroundWorkerBuilder, BackgroundWorkerStatus, BgWorkerStartTime, DynamicBackgroundWorker,
};
use pgrx::prelude::*;

use crate::pg::wait_event::WaitEvent;

const LIBRARY: &str = "id_gen";
const RESTART: Duration = Duration::from_secs(1);
/// How long a process waits for the postmaster to fork the worker that it asked for: 2 s.
const FORK: Duration = Duration::from_secs(2);
/// How long it sleeps before it looks again.
const NAP: Duration = Duration::from_millis(1);

/// A background worker.
pub struct Worker {
    /// What `pg_stat_activity` shows as the type of the process, and `ps` in its title.
    pub name: &'static str,
    /// The main function, which this library exports under that name.
    pub function: &'static str,
    /// Whether it runs on a standby too, or only once recovery is over.
    pub on_standby: bool,
}

impl Worker {
    /// Asks for the worker, if the library is being preloaded. Not during `pg_upgrade`: where IDs go on
    /// is decided after it, and known before it.
    pub fn request(&self) {
        if server::is_preloading() && !server::is_binary_upgrade() {
            self.description().load();
        }
    }

    /// Has a running server start the worker, in addition to those that run, and waits until it is forked: a
    /// postmaster that is told to stop before it has come to that never starts it, and what the worker does when it stops
    /// would not be done. Returns whether one of `max_worker_processes` was free. Any process of a postmaster can ask, in
    /// a transaction or not; what becomes of the transaction does not matter.
    pub fn start(&self) -> bool {
        let Ok(worker) = self.description().load_dynamic() else { return false };
        let since = Instant::now();
        while is_yet_to_start(&worker) && since.elapsed() < FORK {
            check_for_interrupts!();
            WaitEvent::WorkerStart.during(|| std::thread::sleep(NAP));
        }
        true
    }

    fn description(&self) -> BackgroundWorkerBuilder {
        BackgroundWorkerBuilder::new(self.name)
            .set_type(self.name)
            .set_library(LIBRARY)
            .set_function(self.function)
            .enable_spi_access()
            .set_start_time(if self.on_standby {
                BgWorkerStartTime::ConsistentState
            } else {
                BgWorkerStartTime::RecoveryFinished
            })
            .set_restart_time(Some(RESTART))
    }
}

fn is_yet_to_start(worker: &DynamicBackgroundWorker) -> bool {
    matches!(worker.pid(), Err(BackgroundWorkerStatus::NotYetStarted))
}
