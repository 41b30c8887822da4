//! The keeper as other processes see it: whether it runs, since when it has done nothing, and how to
//! wake it.
//!
//! **Locking.** None: atomics, which the keeper writes.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::Relaxed};

use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::server;

/// Where a running keeper is registered.
#[derive(Default)]
pub struct KeeperLatch {
    /// Null while none runs.
    latch: AtomicPtr<pg_sys::Latch>,
    pid: AtomicI32,
    /// When it last began a round, on the monotonic clock.
    heartbeat_mono_ns: AtomicU64,
}

/// A keeper that runs.
pub struct RunningKeeper {
    /// Its process.
    pub pid: i32,
    /// How long ago it began its last round.
    pub heartbeat_age_ns: u64,
}

impl KeeperLatch {
    /// Registers this process as the keeper, until it ends.
    pub fn register(&self) {
        self.heartbeat();
        self.pid.store(server::pid(), Relaxed);
        self.latch.store(server::latch(), Relaxed);
    }

    /// Leaves the place to the next keeper.
    pub fn unregister(&self) {
        self.latch.store(std::ptr::null_mut(), Relaxed);
    }

    /// Notes that the keeper begins a round.
    pub fn heartbeat(&self) {
        self.heartbeat_mono_ns.store(clock::mono_ns(), Relaxed);
    }

    /// Whether a keeper runs.
    pub fn is_running(&self) -> bool {
        !self.latch.load(Relaxed).is_null()
    }

    /// The keeper, if one runs.
    pub fn running(&self) -> Option<RunningKeeper> {
        self.is_running().then(|| RunningKeeper {
            pid: self.pid.load(Relaxed),
            heartbeat_age_ns: clock::mono_ns().saturating_sub(self.heartbeat_mono_ns.load(Relaxed)),
        })
    }

    /// Wakes the keeper, if one runs, to extend the reservation.
    pub fn wake(&self) {
        let latch = self.latch.load(Relaxed);
        if !latch.is_null() {
            // SAFETY: a latch in PostgreSQL's shared memory, there as long as the server runs. If
            // its process has ended, the wake-up reaches nobody, or a process that looks again.
            unsafe { SetLatch(latch) };
        }
    }
}

unsafe extern "C-unwind" {
    /// PostgreSQL's function without pgrx's guard. It raises no error.
    fn SetLatch(latch: *mut pg_sys::Latch);
}
