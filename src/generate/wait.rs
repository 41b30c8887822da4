//! Waiting without a lock: for the clock to catch up with the IDs, and for settings that are on their way.

use std::time::Duration;

use id_gen_core::fleet::Number;
use id_gen_core::layout::Layout;
use id_gen_core::lead::{Lead, LeadLimit};
use id_gen_core::time::{NS_PER_MS, unix_ms};
use pgrx::prelude::*;

use crate::error::{Error, Reason};
use crate::fleet::{queue, registrar};
use crate::generate::backend::Backend;
use crate::generate::test_server;
use crate::os::{clock, test_stream};
use crate::pg::wait_event::{self, WaitEvent};
use crate::pg::{reload, server};
use crate::shared::worker_place::Missing;
use crate::shared::{SharedState, Slot};

/// Shorter waits are slept through; longer ones wait on the latch, which is precise to 1 ms.
const NAP_NS: u64 = 2 * NS_PER_MS;
/// However long the wait, the clock is read this often: it may be put right meanwhile.
const READ_AGAIN_MS: u64 = 100;

/// The longest wait of a command for a reload.
const LONGEST_RELOAD: Duration = Duration::from_secs(1);

/// A wait, from its first nap to its end; counted however it ends.
pub struct Wait {
    backend: Backend,
    since_mono_ns: u64,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Backend { shared, slot } = self.backend;
        let waited_ns = self.so_far_ns();
        Slot::add(&slot.waits, 1);
        Slot::add(&slot.waited_ns, waited_ns);
        shared.events.0.count_wait(waited_ns);
    }
}

impl Wait {
    /// Begins a wait.
    pub fn new(backend: Backend) -> Wait {
        Wait { backend, since_mono_ns: clock::mono_ns() }
    }

    fn so_far_ns(&self) -> u64 {
        clock::mono_ns().saturating_sub(self.since_mono_ns)
    }

    /// Sleeps until the clock may show the tick at which a position, of a shard if one is named, is not too far ahead, or a
    /// little less to look again. Cancelling the query, a timeout and the end of the session interrupt it.
    ///
    /// # Errors
    /// [`Reason::Ahead`] if `id_gen.max_wait` is over.
    pub fn until_due(
        &self,
        layout: &Layout,
        limit: LeadLimit,
        position: u64,
        shard: Option<Number>,
    ) -> Result<(), Error> {
        let (settings, not_begun) = {
            let state = self.backend.shared.lock();
            // A shard may be further ahead than the start of the server's worker ID.
            let own = state.allocator.map_or(0, |allocator| allocator.frontier().position());
            let not_begun = state.not_begun(layout).filter(|_| shard.is_none() || position <= own);
            (state.settings, not_begun)
        };
        let due_tick = limit.due_tick(layout, position);
        let max_wait_ns = u64::from(settings.max_wait_ms) * NS_PER_MS;
        if let Err(now_ns) = self.until_tick(layout, due_tick, max_wait_ns)? {
            if let Some(reason) = not_begun {
                return Err(reason.into());
            }
            let lead = Lead::of(layout, limit, position, unix_ms(now_ns), settings.max_lead_ms);
            let shard = shard.filter(|_| settings.has_registry);
            return Err(Reason::Ahead { lead, max_wait_ms: settings.max_wait_ms, shard }.into());
        }
        Ok(())
    }

    /// Sleeps until the clock may show a tick, or a little less to look again; interrupted as above.
    ///
    /// The clock of a server for tests moves by so much instead.
    ///
    /// # Errors
    /// What forbids that. Within, what the clock showed, if the wait is over.
    pub fn until_tick(
        &self,
        layout: &Layout,
        tick: u64,
        max_wait_ns: u64,
    ) -> Result<Result<(), u64>, Error> {
        let now_ns = clock::wall_ns();
        let ahead_ns = layout.tick_start_ns(tick).saturating_sub(now_ns);
        if let Some(stream) = test_stream::stream() {
            test_server::wait_until(stream, now_ns + ahead_ns.min(max_wait_ns))?;
            return Ok(if ahead_ns > max_wait_ns { Err(now_ns) } else { Ok(()) });
        }
        let left_ns = max_wait_ns.saturating_sub(self.so_far_ns());
        if left_ns == 0 && ahead_ns > 0 {
            return Ok(Err(now_ns));
        }
        sleep(ahead_ns.min(left_ns));
        Ok(Ok(()))
    }
}

/// Checks that the server has a number that fits its layout. If it has not, and the registrar is about to acquire one, or a
/// configuration file was changed since its settings were read, so that a reload may be on its way: waits for that, at most for
/// `id_gen.max_wait`, and checks again.
///
/// # Errors
/// Why it can't generate.
pub fn for_number(backend: Backend, layout: &Layout) -> Result<(), Error> {
    let shared = backend.shared;
    for_grant(backend);
    let checked = shared.check_number(layout);
    if checked.as_ref().err().is_none_or(|error| !error.reason().is_of_number_setting()) {
        return checked;
    }
    let max_wait = Duration::from_millis(shared.lock().settings.max_wait_ms.into());
    let is_outdated = || reload::are_files_newer(shared.settings_read_us());
    if !is_outdated() || max_wait.is_zero() {
        return checked;
    }
    let _counted = Wait::new(backend);
    wait_event::await_reload_while(is_outdated, max_wait);
    shared.check_number(layout)
}

/// Waits until the registrar has acquired a number, or knows why it cannot, at most for `id_gen.max_wait`: after a start of the
/// server that takes some milliseconds.
pub fn for_grant(backend: Backend) {
    let shared = backend.shared;
    registrar::start_if_missing(shared);
    let max_wait = Duration::from_millis(shared.lock().settings.max_wait_ms.into());
    if !shared.expects_grant() || max_wait.is_zero() {
        return;
    }
    let _counted = Wait::new(backend);
    queue::await_change_for(shared, max_wait, || {
        !shared.expects_grant()
            || shared.registrar.missing() == Missing::Refused
            || !server::can_start_workers()
    });
}

/// Waits until a reload that is on its way has reached the server's settings, for a command that decides by them; 1 s at most,
/// as a file that was changed need not be reloaded.
pub fn for_reload(shared: &SharedState) {
    let is_outdated = || reload::are_files_newer(shared.settings_read_us());
    wait_event::await_reload_while(is_outdated, LONGEST_RELOAD);
}

fn sleep(ns: u64) {
    check_for_interrupts!();
    let event = WaitEvent::Clock;
    if ns < NAP_NS {
        event.during(|| std::thread::sleep(std::time::Duration::from_nanos(ns)));
        return;
    }
    event.wait_on_latch((ns / NS_PER_MS).min(READ_AGAIN_MS));
}
