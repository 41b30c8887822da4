//! Values of the one thread that PostgreSQL runs SQL on.
//!
//! A backend is a process with a single thread of SQL, so what it keeps between calls needs neither
//! a lock nor thread-local storage, which a shared library pays for on every access.

use std::cell::UnsafeCell;

/// A value that only the SQL thread of this process touches.
pub struct PerProcess<T>(UnsafeCell<T>);

// SAFETY: PostgreSQL calls an extension from the main thread of a process alone, and this crate
// starts no thread; a static of this type is therefore never reached from two threads.
unsafe impl<T> Sync for PerProcess<T> {}

impl<T> PerProcess<T> {
    /// Wraps the value that every process starts with.
    pub const fn new(value: T) -> PerProcess<T> {
        PerProcess(UnsafeCell::new(value))
    }

    /// Gives access to the value for the length of a call.
    #[inline(always)]
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: one thread (see above), and no caller of this crate reaches the same static
        // again from within `body`: bodies are short and call nothing that runs SQL.
        body(unsafe { &mut *self.0.get() })
    }
}
