//! What one process knows: its slot, and the fast path of one ID.

use std::sync::atomic::Ordering;

use id_gen_core::planted::Fault;
use id_gen_core::tsc::TscInterval;
use pgrx::pg_sys;

use crate::error::test_server::Trouble;
use crate::error::{Error, Reason};
use crate::fleet::registrar;
use crate::generate::{keeper, transactions};
use crate::os::process::PerProcess;
use crate::os::tsc::TscStart;
use crate::os::{clock, tsc};
use crate::pg::{reload, server};
use crate::shared::{Reader, SharedState, Slot, memory};

/// A process that has its slot.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The shared state.
    pub shared: &'static SharedState,
    /// This process's slot.
    pub slot: &'static Slot,
}

/// What else this process knows.
struct Local {
    backend: Backend,
    /// Until this is over, the clock has not left the tick that it showed when the block was last
    /// compared with it. A clock that was set meanwhile is noticed when it is over, after a
    /// millisecond at most.
    within_tick: TscInterval,
    /// The same for a block that sessions share, of this number.
    shared_within_tick: (u64, TscInterval),
    /// [`reload::time`] of the settings that this process has compared with those in force.
    reload_time: pg_sys::TimestampTz,
}

impl Local {
    /// Of a process that knows its slot and nothing else.
    fn new(backend: Backend, reload_time: pg_sys::TimestampTz) -> Local {
        Local {
            backend,
            within_tick: TscInterval::default(),
            shared_within_tick: (0, TscInterval::default()),
            reload_time,
        }
    }
}

/// The time of a reload that never was.
const NO_RELOAD: pg_sys::TimestampTz = pg_sys::TimestampTz::MIN;

static LOCAL: PerProcess<Option<Local>> = PerProcess::new(None);

/// The next ID of this process's block, if it has one that is still good. No lock, no system call,
/// no allocation, nothing that can fail; and no clock, where the time-stamp counter tells that the
/// tick is not over.
#[inline(always)]
pub fn take() -> Option<u64> {
    LOCAL.with(|local| {
        let local = local.as_mut()?;
        let Backend { shared, slot } = local.backend;
        if slot.block.is_empty() || local.reload_time != reload::time() {
            return None;
        }
        let tick = local.within_tick;
        if tick.is_some() && tick.contains(tsc::read()) {
            return slot.block.take_within_tick(shared.generation());
        }
        local.take_by_clock()
    })
}

impl Local {
    /// As [`take`], where the clock has to tell; notes for how long it need not be read again.
    #[inline(never)]
    fn take_by_clock(&mut self) -> Option<u64> {
        let Backend { shared, slot } = self.backend;
        let start = TscStart::now();
        let now_ns = clock::wall_ns();
        self.within_tick = start.interval(slot.block.left_ns(now_ns));
        slot.block.take(now_ns, shared.generation())
    }
}

/// The next ID of the block that sessions share, if one is open and still good, and this process, whose
/// settings are up to date, holds no other. As [`take`], but for one word that all sessions write.
#[inline(always)]
pub fn take_shared(Backend { shared, slot }: Backend) -> Option<u64> {
    let terms = shared.block.terms()?;
    if !slot.block.is_empty() {
        return None;
    }
    LOCAL.with(|local| {
        let (number, interval) = &mut local.as_mut()?.shared_within_tick;
        if *number != terms.number || !interval.contains(tsc::read()) {
            let start = TscStart::now();
            let left_ns = terms.left_ns(clock::wall_ns());
            (*number, *interval) = (terms.number, start.interval(left_ns));
            if left_ns == 0 {
                return None;
            }
        }
        // Before it takes an ID, a transaction has to be pending with it or a lower one, as the block's first one is.
        let begins = !Fault::SharedBlockNotPending.is_planted() && slot.publish(terms.first_id());
        let id = shared.block.take(&terms);
        match id {
            Some(_) => slot.note_claim(terms.now_tick, 1),
            None if begins => slot.pending.clear(),
            None => {}
        }
        id
    })
}

/// How far this session has claimed, and under which generation: what a set compares between its
/// rows. `(0, 0)` before the first claim.
#[inline]
pub fn progress() -> (u64, u64) {
    LOCAL.with(|local| match local {
        Some(Local { backend: Backend { shared, slot }, .. }) => {
            (slot.claims.load(Ordering::Relaxed), shared.generation())
        }
        None => (0, 0),
    })
}

/// This process with its slot, and with the settings in force up to date.
///
/// # Errors
/// Whatever forbids this process to generate at all.
#[inline]
pub fn attach() -> Result<Backend, Error> {
    up_to_date().map_or_else(attach_or_adopt, Ok)
}

/// This process with its slot, if it has one.
fn attached() -> Option<Backend> {
    LOCAL.with(|local| local.as_ref().map(|local| local.backend))
}

/// As [`attach`], if there is nothing to do.
#[inline]
pub fn up_to_date() -> Option<Backend> {
    LOCAL.with(|local| {
        local
            .as_ref()
            .filter(|local| local.reload_time == reload::time())
            .map(|local| local.backend)
    })
}

/// As [`attach`], the first time, or after a reload.
#[cold]
fn attach_or_adopt() -> Result<Backend, Error> {
    let reload_time = reload::time();
    let backend = attached().map_or_else(first_attach, Ok)?;
    backend.shared.adopt_settings(Reader::Session);
    keeper::start_if_missing(backend.shared);
    registrar::start_if_missing(backend.shared);
    LOCAL.with(|local| *local = Some(Local::new(backend, reload_time)));
    Ok(backend)
}

fn first_attach() -> Result<Backend, Error> {
    // Its leader commits the rows, so what it published would be pending with nobody.
    if server::is_parallel_worker() && !Fault::ParallelWorkersGenerate.is_planted() {
        return Err(Reason::GenerateInParallel.into());
    }
    let shared = memory::attach()?;
    // Also a standby needs a number, for the day of its promotion.
    registrar::start_if_missing(shared);
    // A server that has left recovery never goes back to it, so once is enough.
    if server::is_in_recovery() {
        let for_tests = shared.test_start().map(|_| Trouble::Standby.into());
        return Err(for_tests.unwrap_or_else(|| Reason::Recovery.into()));
    }
    let slot = shared.take_slot()?;
    // SAFETY: `detach` matches the callback's type and reaches only this process's own slot.
    unsafe { pg_sys::before_shmem_exit(Some(detach), pg_sys::Datum::null()) };
    transactions::follow(shared, slot);
    let backend = Backend { shared, slot };
    // Before anything that may be canceled, as the start of a worker: the next call must not register these again.
    LOCAL.with(|local| *local = Some(Local::new(backend, NO_RELOAD)));
    Ok(backend)
}

/// Leaves the slot when the process ends, before dynamic shared memory is unmapped; its counts stay
/// until the next process takes it. What is pending stays until PostgreSQL has rolled back the transaction, which comes
/// next: it may have committed already, although no snapshot shows that.
unsafe extern "C-unwind" fn detach(_code: i32, _arg: pg_sys::Datum) {
    LOCAL.with(|local| {
        if let Some(Local { backend: Backend { slot, .. }, .. }) = local.take() {
            slot.pid.store(0, Ordering::Relaxed);
        }
    });
}
