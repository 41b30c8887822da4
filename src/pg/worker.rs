//! Background workers of this library.
//!
//! Each is described once, as a [`Worker`]. The postmaster is asked to run it while it preloads the library
//! ([`Worker::request`]), or by any of its processes later ([`Worker::start`]). Both are the same to the worker, and to
//! the postmaster, which starts it again whenever it ends with a status other than 0, and after a crash.
//!
//! **Locking.** `RegisterDynamicBackgroundWorker` takes a lock of PostgreSQL's, so [`Worker::start`] is called
//! while none of ours is held.

use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};

use crate::pg::server;

const LIBRARY: &str = "id_gen";
const RESTART: Duration = Duration::from_secs(1);

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

    /// Has a running server start the worker, soon and in addition to those that run. Returns whether
    /// one of `max_worker_processes` was free. Any process of a postmaster can ask, in a transaction or
    /// not; what becomes of the transaction does not matter.
    pub fn start(&self) -> bool {
        self.description().load_dynamic().is_ok()
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
