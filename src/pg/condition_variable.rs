//! PostgreSQL's condition variables (`storage/condition_variable.h`): processes wait on one until something in shared
//! memory has changed.

use std::cell::UnsafeCell;
use std::time::Duration;

use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::wait_event::WaitEvent;

/// A condition variable in shared memory.
pub struct ConditionVariable(UnsafeCell<pg_sys::ConditionVariable>);

// SAFETY: PostgreSQL's functions lock it, and nothing else reads or writes it.
unsafe impl Sync for ConditionVariable {}

impl ConditionVariable {
    /// One that still has to be initialized where it lies.
    pub fn uninitialized() -> ConditionVariable {
        // SAFETY: a plain C structure, for which all-zero bytes are valid.
        ConditionVariable(UnsafeCell::new(unsafe { std::mem::zeroed() }))
    }

    /// To be called once, before any other process knows of it.
    pub fn initialize(&self) {
        // SAFETY: a place for a condition variable, which nobody uses yet.
        unsafe { pg_sys::ConditionVariableInit(self.0.get()) };
    }

    /// Wakes everybody who waits.
    pub fn wake_all(&self) {
        // SAFETY: it was initialized before it was published.
        unsafe { pg_sys::ConditionVariableBroadcast(self.0.get()) };
    }

    /// Waits until the function has a result: it is asked at the beginning, whenever somebody was woken, and after each
    /// `interval`. `None` if the time is over. Cancelling the query, a timeout and the end of the session interrupt the wait.
    pub fn wait_for<T>(
        &self,
        event: WaitEvent,
        patience: Duration,
        interval: Duration,
        mut result: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let since_ns = clock::mono_ns();
        let place = self.0.get();
        // SAFETY: it was initialized before it was published. If the wait ends with an error, PostgreSQL itself takes this
        // process from the list of those who wait.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(place) };
        let found = loop {
            let found = result();
            let waited = Duration::from_nanos(clock::mono_ns().saturating_sub(since_ns));
            let left = patience.saturating_sub(waited);
            if found.is_some() || left.is_zero() {
                break found;
            }
            let ms = i64::try_from(left.min(interval).as_millis()).unwrap_or(i64::MAX);
            // SAFETY: as above.
            unsafe {
                pg_sys::ConditionVariableTimedSleep(place, ms.saturating_add(1), event.info());
            }
        };
        // SAFETY: as above.
        unsafe { pg_sys::ConditionVariableCancelSleep() };
        found
    }
}
