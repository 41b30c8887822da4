//! Background workers of which a server runs one: how each begins, and how a session has it started where
//! the library is not preloaded.
//!
//! There, the first session that needs the worker asks for it ([`start_if_missing`]). Of several that notice
//! at the same time one does, and of several workers that come all the same, as when the postmaster starts
//! one again after a crash while a session asks for one, the first takes the place ([`begin`]), and the others end for
//! good.
//!
//! To add a worker: describe it as a [`Worker`], and request that in `_PG_init`; give it a [`WorkerPlace`] in
//! the shared state; let its main function [`begin`]; and call [`start_if_missing`] where calls are slow for want of it.
//!
//! **Locking.** Nobody holds a lock while a worker is started: PostgreSQL takes one of its own.

use pgrx::prelude::*;

use crate::error::{Reason, report};
use crate::pg::worker::Worker;
use crate::pg::{reload, server};

use crate::shared::memory;
use crate::shared::state::SharedState;
use crate::shared::worker_place::WorkerPlace;

/// Has a worker started, if none runs and none is awaited. One that was requested while the library was preloaded is the
/// postmaster's business alone. Where it can't be started, calls go on without it, and the log says so once.
///
/// The caller has made sure that the server is not in recovery.
pub fn start_if_missing(worker: &Worker, place: &WorkerPlace, requested: bool) {
    if place.is_running() || requested || !server::can_start_workers() {
        return;
    }
    if place.is_start_due() && place.note_start(worker.start()) {
        let name = worker.name;
        report::log_line(format!(
            "id_gen: no worker process is free for \"{name}\"; see id_gen_check()"
        ));
    }
}

/// What the main function of a worker begins with, once it has its handlers of signals: attaches to the
/// shared memory and takes the worker's place in it. `None` if that is not to be had: the worker then
/// returns at once, which ends it with status 0, so that it is not started again and again.
pub fn begin(
    place_of: fn(&'static SharedState) -> &'static WorkerPlace,
) -> Option<&'static SharedState> {
    let shared = loop {
        // PostgreSQL ignores SIGHUP in a worker until it has its handlers: what a reload since the fork has
        // changed is known to nobody but the file. The same where the file has just changed once more.
        reload::read_file();
        match memory::attach() {
            Ok(shared) => break shared,
            Err(error) if matches!(error.reason(), Reason::ReloadPending) => {}
            Err(error) => {
                report::log(&error, PgLogLevel::LOG);
                return None;
            }
        }
    };
    place_of(shared).take().then_some(shared)
}
