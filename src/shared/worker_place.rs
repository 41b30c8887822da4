//! The place in shared memory of a background worker of which a server runs one: whether it runs, since
//! when it has done nothing, how to wake it, and where none runs, why, and whether to ask for one.
//!
//! **Locking.** None: atomics. The place belongs to the process whose PID is in it, and all but what a session
//! notes when it asks for the worker is written by that one.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use id_gen_core::time::NS_PER_S;
use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::server;

/// How long after a worker found no place among `max_worker_processes` it is tried again: 10 s, so that
/// sessions without it do not also wait for PostgreSQL's lock all the time.
const RETRY_NS: u64 = 10 * NS_PER_S;
/// How long the postmaster is trusted to start a worker, or to start it again: 5 min. One that does not come has
/// said why in the log, as one from a library of another version does, and would only say it again.
const AWAITED_NS: u64 = 300 * NS_PER_S;
/// A worker is there within so long after it was asked for, on a server that can start it: 10 s.
const STARTING_NS: u64 = 10 * NS_PER_S;

/// Where a running worker is registered.
#[derive(Default)]
pub struct WorkerPlace {
    /// Null while none runs.
    latch: AtomicPtr<pg_sys::Latch>,
    /// The worker that has the place; 0: none.
    pid: AtomicI32,
    /// When it last began a round, on the monotonic clock.
    heartbeat_mono_ns: AtomicU64,
    /// When a session last asked for it, or it last ended and is to come back, on the monotonic clock; 0: never.
    awaited_mono_ns: AtomicU64,
    /// Whether there was no free worker process when it was last asked for.
    refused: AtomicBool,
}

/// A worker that runs.
pub struct RunningWorker {
    /// Its process.
    pub pid: i32,
    /// How long ago it began its last round.
    pub heartbeat_age_ns: u64,
}

/// Why no worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No session has asked for it since the server started.
    NotNeeded,
    /// It is about to.
    Starting,
    /// There was no free worker process.
    Refused,
    /// It ended, or ended before it came here.
    Ended,
}

impl WorkerPlace {
    /// Takes the place for this process, until it ends. Returns whether it was free.
    pub fn take(&'static self) -> bool {
        let pid = server::pid();
        // What the last one wrote when it left comes before what this one writes.
        if self.pid.compare_exchange(0, pid, Acquire, Relaxed).is_err() {
            return false;
        }
        self.heartbeat();
        self.refused.store(false, Relaxed);
        // Who finds the latch finds it as this process has set it up.
        self.latch.store(server::latch(), Release);
        let place = pg_sys::Datum::from(std::ptr::from_ref(self));
        // SAFETY: `vacate` matches the callback's type, and gets a place that lives as long as the
        // process.
        unsafe { pg_sys::before_shmem_exit(Some(vacate), place) };
        true
    }

    /// Notes that this process, which has the place, is about to end: it does nothing for others any more.
    pub fn leave(&self) {
        self.awaited_mono_ns.store(clock::mono_ns(), Relaxed);
        self.latch.store(std::ptr::null_mut(), Relaxed);
    }

    /// Notes that the worker begins a round.
    pub fn heartbeat(&self) {
        self.heartbeat_mono_ns.store(clock::mono_ns(), Relaxed);
    }

    /// Whether a worker runs.
    pub fn is_running(&self) -> bool {
        !self.latch.load(Relaxed).is_null()
    }

    /// The worker, if one runs.
    pub fn running(&self) -> Option<RunningWorker> {
        self.is_running().then(|| RunningWorker {
            pid: self.pid.load(Relaxed),
            heartbeat_age_ns: clock::mono_ns().saturating_sub(self.heartbeat_mono_ns.load(Relaxed)),
        })
    }

    /// Why no worker runs.
    pub fn missing(&self) -> Missing {
        let awaited_ns = self.awaited_mono_ns.load(Relaxed);
        if self.refused.load(Relaxed) {
            Missing::Refused
        } else if awaited_ns == 0 {
            Missing::NotNeeded
        } else if clock::mono_ns().saturating_sub(awaited_ns) < STARTING_NS {
            Missing::Starting
        } else {
            Missing::Ended
        }
    }

    /// Wakes the worker, if one runs, before its next round is due.
    pub fn wake(&self) {
        let latch = self.latch.load(Acquire);
        if !latch.is_null() {
            // SAFETY: a latch in PostgreSQL's shared memory, there as long as the server runs. If
            // its process has ended, the wake-up reaches nobody, or a process that looks again.
            unsafe { SetLatch(latch) };
        }
    }

    /// Whether the caller is to have the worker started now, because none runs and none is awaited. Of
    /// several that ask at the same time one is told so; it says with [`WorkerPlace::note_start`] what came of it.
    pub fn is_start_due(&self) -> bool {
        if self.is_running() {
            return false;
        }
        let (awaited_ns, now_ns) = (self.awaited_mono_ns.load(Relaxed), clock::mono_ns());
        let patience_ns = if self.refused.load(Relaxed) { RETRY_NS } else { AWAITED_NS };
        let due = awaited_ns == 0 || now_ns.saturating_sub(awaited_ns) >= patience_ns;
        due && self.awaited_mono_ns.compare_exchange(awaited_ns, now_ns, Relaxed, Relaxed).is_ok()
    }

    /// Notes whether the worker could be started. Returns whether it is the first time that it could not.
    pub fn note_start(&self, started: bool) -> bool {
        !self.refused.swap(!started, Relaxed) && !started
    }
}

/// Gives the place back when its process ends, before dynamic shared memory is unmapped. A process
/// that does not come here makes PostgreSQL build all shared memory again.
unsafe extern "C-unwind" fn vacate(_code: i32, place: pg_sys::Datum) {
    // SAFETY: `take` passed the place on, in memory that is still mapped.
    let place = unsafe { &*place.cast_mut_ptr::<WorkerPlace>() };
    place.leave();
    place.pid.store(0, Release);
}

unsafe extern "C-unwind" {
    /// PostgreSQL's function without pgrx's guard. It raises no error.
    fn SetLatch(latch: *mut pg_sys::Latch);
}
