//! The clock and the random bits of a server for tests, where this is one: a stream in shared memory
//! ([`id_gen_core::test_server`]) in place of the machine's own.
//!
//! Processes learn of it when they attach to that memory, and never leave it.

use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use id_gen_core::test_server::TestStream;

static STREAM: AtomicPtr<TestStream> = AtomicPtr::new(std::ptr::null_mut());

/// The stream, on a server for tests.
#[inline(always)]
pub fn stream() -> Option<&'static TestStream> {
    // SAFETY: null, or set below to what lives as long as the process.
    unsafe { STREAM.load(Relaxed).as_ref() }
}

/// From here on this process has its time and its random bits from there.
pub fn install(stream: &'static TestStream) {
    STREAM.store(std::ptr::from_ref(stream).cast_mut(), Relaxed);
}
