//! Asking the registry from a session: each call goes through the request queue ([`crate::shared::requests`]) to the registrar,
//! so no session opens a connection or reads a secret.
//!
//! A session that waits no longer cancels nothing that was sent: the registry may have been changed or not, as after a lost
//! connection.

use std::time::Duration;

use id_gen_core::fleet::store::KeysError;
use id_gen_core::fleet::wire::{self, Remote, Seen};
use pgrx::pg_sys;

use crate::error::test_server::Trouble;
use crate::error::{Error, Reason};
use crate::fleet::connection::{Registry, no_answer};
use crate::fleet::registrar;
use crate::os::clock;
use crate::os::process::PerProcess;
use crate::pg::server;
use crate::pg::wait_event::WaitEvent;
use crate::settings;
use crate::shared::requests::{Found, PIECE_BYTES, Ticket};
use crate::shared::worker_place::Missing;
use crate::shared::{SharedState, memory};

/// How long a session waits for all that it asks at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks whether the registrar has started.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Asks the fleet's registry.
///
/// # Errors
/// If there is none, or no registrar; or why the registry has no answer.
pub fn ask<T>(job: impl FnOnce(&mut Registry) -> Result<T, KeysError>) -> Result<T, Error> {
    settings::known::catch_up()?;
    let settings = settings::registry::current().ok_or(Reason::NoRegistry)?;
    let shared = memory::attach()?;
    if shared.test_start().is_some() {
        return Err(Trouble::Fleet.into());
    }
    let queue = Queue { shared, fingerprint: settings.fingerprint(), since_ns: clock::mono_ns() };
    queue.await_registrar()?;
    let store = Remote::new(move |call: &[u8]| queue.pass(call), Seen::default());
    job(&mut Registry::new(Box::new(store), settings.fleet))
        .map_err(|error| Reason::Fleet((&error).into()).into())
}

/// Waits for a turn to ask, which a session takes that finds nobody else asking the same; `false` where that is done
/// meanwhile.
///
/// # Errors
/// If others take too long.
pub fn await_turn(
    shared: &SharedState,
    is_done: impl Fn() -> bool,
    take: impl Fn() -> bool,
) -> Result<bool, Error> {
    let turn = shared.requests.changed.wait_for(WaitEvent::Registry, PATIENCE, LOOK_AGAIN, || {
        if is_done() { Some(false) } else { take().then_some(true) }
    });
    turn.ok_or_else(|| Reason::Fleet((&KeysError::Store(no_answer())).into()).into())
}

/// Waits for a change that the registrar makes without the registry. Whether it came.
pub fn await_change(shared: &SharedState, has_come: impl Fn() -> bool) -> bool {
    await_change_for(shared, PATIENCE, has_come)
}

/// The same, at most so long.
pub fn await_change_for(
    shared: &SharedState,
    patience: Duration,
    has_come: impl Fn() -> bool,
) -> bool {
    let come = || has_come().then_some(());
    shared.requests.changed.wait_for(WaitEvent::Registry, patience, LOOK_AGAIN, come).is_some()
}

/// The queue, as one command uses it.
struct Queue {
    shared: &'static SharedState,
    fingerprint: u64,
    since_ns: u64,
}

impl Queue {
    fn left(&self) -> Duration {
        let waited_ns = clock::mono_ns().saturating_sub(self.since_ns);
        PATIENCE.saturating_sub(Duration::from_nanos(waited_ns))
    }

    fn wait_for<T>(&self, event: WaitEvent, result: impl FnMut() -> Option<T>) -> Option<T> {
        self.shared.requests.changed.wait_for(event, self.left(), LOOK_AGAIN, result)
    }

    /// Waits until the registrar runs; has it started where that is for sessions to do.
    fn await_registrar(&self) -> Result<(), Error> {
        let registrar = &self.shared.registrar;
        let found = self.wait_for(WaitEvent::WorkerStart, || {
            if registrar.is_running() {
                return Some(true);
            }
            registrar::start_if_missing(self.shared);
            let is_refused = registrar.missing() == Missing::Refused;
            (is_refused || !server::can_start_workers()).then_some(false)
        });
        if found == Some(true) { Ok(()) } else { Err(Reason::NoRegistrar.into()) }
    }

    /// Passes the bytes of a call, and returns those of its answer.
    fn pass(&self, call: &[u8]) -> Vec<u8> {
        if call.len() > PIECE_BYTES {
            return wire::refusal(wire::unexpected(format!("a request has {} bytes", call.len())));
        }
        let SharedState { requests, registrar, .. } = self.shared;
        let ticket = self.wait_for(WaitEvent::Registry, || requests.put(self.fingerprint, call));
        let Some(asked) = ticket.map(|ticket| Asked::new(self.shared, ticket)) else {
            return wire::refusal(no_answer());
        };
        let mut answer = Vec::new();
        loop {
            registrar.wake();
            match self.wait_for(WaitEvent::Registry, || requests.find(asked.ticket)) {
                Some(Found::Piece(bytes, is_last)) => {
                    answer.extend(bytes);
                    if is_last {
                        return answer;
                    }
                }
                Some(Found::Lost) | None => return wire::refusal(no_answer()),
            }
        }
    }
}

/// The request that this process waits for.
static WAITS_FOR: PerProcess<Option<(&'static SharedState, Ticket)>> = PerProcess::new(None);
static FREES_AT_EXIT: PerProcess<bool> = PerProcess::new(false);

/// A request in the queue, which is freed when this value is dropped, or this process ends.
struct Asked {
    ticket: Ticket,
}

impl Asked {
    fn new(shared: &'static SharedState, ticket: Ticket) -> Asked {
        WAITS_FOR.with(|waits_for| *waits_for = Some((shared, ticket)));
        if !FREES_AT_EXIT.with(|frees| std::mem::replace(frees, true)) {
            // SAFETY: the function matches the callback's type.
            unsafe { pg_sys::before_shmem_exit(Some(free_at_exit), pg_sys::Datum::null()) };
        }
        Asked { ticket }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        free();
    }
}

fn free() {
    if let Some((shared, ticket)) = WAITS_FOR.with(Option::take) {
        shared.requests.free(ticket);
    }
}

/// Runs before dynamic shared memory is unmapped.
unsafe extern "C-unwind" fn free_at_exit(_code: i32, _argument: pg_sys::Datum) {
    free();
}
