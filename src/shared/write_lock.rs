//! The right to write the reservation, which one process holds at a time.
//!
//! **Locking.** A lightweight lock of its own, so that sessions claim on while the disk works, and so
//! that PostgreSQL releases it also when FATAL in a signal handler ends its holder. Nobody queues for it,
//! because such a wait could not be interrupted: a process that finds it taken sleeps on a condition
//! variable. It is taken before the lock of the state, never after.

use std::cell::UnsafeCell;
use std::time::Duration;

use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::lwlock::{CacheAligned, LwLock, LwLockGuard};
use crate::pg::wait_event::WaitEvent;

/// How often a process that waits for the lock tries again by itself.
const RETRY_MS: i64 = 1_000;

/// The lock, and where processes wait for it.
#[repr(C)]
pub struct WriteLock {
    lock: LwLock<()>,
    released: CacheAligned<UnsafeCell<pg_sys::ConditionVariable>>,
}

// SAFETY: a condition variable is made for sharing.
unsafe impl Sync for WriteLock {}

/// The right to write the reservation, until this value is dropped. Nothing that may raise an error of
/// PostgreSQL's runs meanwhile.
pub struct WriteGuard<'a> {
    of: &'a WriteLock,
    held: Option<LwLockGuard<'a, ()>>,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.held = None;
        // SAFETY: initialized before it was published.
        unsafe { pg_sys::ConditionVariableBroadcast(self.of.released.0.get()) };
    }
}

impl WriteLock {
    /// A lock that still has to be initialized where it lies.
    pub fn uninitialized() -> WriteLock {
        // SAFETY: a plain C structure, for which all-zero bytes are valid.
        let released = CacheAligned(UnsafeCell::new(unsafe { std::mem::zeroed() }));
        WriteLock { lock: LwLock::uninitialized(()), released }
    }

    /// Initializes the lock. To be called once, before any other process knows of it.
    pub fn initialize(&self, tranche: i32) {
        self.lock.initialize(tranche);
        // SAFETY: a place for a condition variable, which nobody uses yet.
        unsafe { pg_sys::ConditionVariableInit(self.released.0.get()) };
    }

    /// Waits for the lock, and takes it. Interrupts end the wait.
    pub fn lock(&self) -> WriteGuard<'_> {
        loop {
            if let Some(guard) = self.lock_within(Duration::MAX) {
                return guard;
            }
        }
    }

    /// As [`WriteLock::lock`], but gives up after so long.
    pub fn lock_within(&self, patience: Duration) -> Option<WriteGuard<'_>> {
        if let Some(guard) = self.try_lock() {
            return Some(guard);
        }
        let since_ns = clock::mono_ns();
        let waited = || Duration::from_nanos(clock::mono_ns().saturating_sub(since_ns));
        let (released, event) = (self.released.0.get(), WaitEvent::Reservation.info());
        // SAFETY: initialized before it was published; an error leaves the wait to PostgreSQL to clean
        // up.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(released) };
        let guard = loop {
            let guard = self.try_lock();
            if guard.is_some() || waited() >= patience {
                break guard;
            }
            // SAFETY: as above.
            unsafe { pg_sys::ConditionVariableTimedSleep(released, RETRY_MS, event) };
        };
        // SAFETY: as above.
        unsafe { pg_sys::ConditionVariableCancelSleep() };
        guard
    }

    /// Takes the lock, if nobody holds it.
    pub fn try_lock(&self) -> Option<WriteGuard<'_>> {
        // To ask for the number of the event may raise an error, so not while the lock is held.
        WaitEvent::Reservation.info();
        self.lock.try_lock().map(|held| WriteGuard { of: self, held: Some(held) })
    }
}
