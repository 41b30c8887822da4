//! Where the shared segment comes from, and how a process finds it.
//!
//! A preloaded library asks for it in PostgreSQL's main shared memory while the server starts, and
//! every process inherits its address. On PostgreSQL 17 and later a library that was not preloaded
//! makes or finds it through the registry of dynamic shared memory, the first time a process needs
//! it. Both give one segment for the whole server, for as long as it runs, anew after a crash.
//!
//! **Locking.** The postmaster makes the segment before any other process exists; the registry holds
//! a lock of its own while it is made.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::refusal::Refusal;
use crate::shared::{self, Segment};

static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(std::ptr::null_mut());

/// The shared segment, if this process has it.
#[inline(always)]
pub fn segment() -> Option<&'static Segment> {
    // SAFETY: null, or set below to memory that lives as long as the process.
    unsafe { SEGMENT.load(Ordering::Relaxed).as_ref() }
}

/// The shared segment, found or made if this process does not have it yet.
///
/// # Errors
/// If there is none to be had here, or it belongs to another version of this library.
pub fn attach() -> Result<&'static Segment, Refusal> {
    if let Some(segment) = segment() {
        return Ok(segment);
    }
    let segment = registered()?;
    segment.meet()?;
    SEGMENT.store(std::ptr::from_ref(segment).cast_mut(), Ordering::Relaxed);
    Ok(segment)
}

#[cfg(not(feature = "registry"))]
fn registered() -> Result<&'static Segment, Refusal> {
    Err(Refusal::NotPreloaded)
}

#[cfg(feature = "registry")]
fn registered() -> Result<&'static Segment, Refusal> {
    let mut found = false;
    // SAFETY: the registry gives memory of that size, on a cache line, and has it made once, by the
    // first who asks. It stays mapped until this process ends.
    unsafe {
        let size = shared::size(slot_count());
        let name = shared::NAME.as_ptr();
        let memory = pg_sys::GetNamedDSMSegment(name, size, Some(on_create), &raw mut found);
        Ok(&*memory.cast::<Segment>())
    }
}

#[cfg(feature = "registry")]
#[pg_guard]
unsafe extern "C-unwind" fn on_create(memory: *mut std::ffi::c_void) {
    // SAFETY: new memory of the size that `registered` asked for.
    unsafe { shared::create(memory, slot_count()) };
}

/// Whether the postmaster loaded the library, so that every process has inherited it.
static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Whether the library was loaded when the server started.
pub fn is_preloaded() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}

/// Asks for the segment, if the library is being preloaded.
pub fn request() {
    // SAFETY: reads a state variable of this process.
    if !unsafe { pg_sys::process_shared_preload_libraries_in_progress } {
        return;
    }
    PRELOADED.store(true, Ordering::Relaxed);
    // SAFETY: the postmaster has one thread, and both hooks chain to the one found before.
    unsafe {
        PREVIOUS_REQUEST_HOOK = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(on_request);
        PREVIOUS_STARTUP_HOOK = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(on_startup);
    }
}

static mut PREVIOUS_REQUEST_HOOK: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP_HOOK: pg_sys::shmem_startup_hook_type = None;

/// Processes that can run SQL at the same time; the same for all of a server.
fn slot_count() -> usize {
    // SAFETY: computed by PostgreSQL before it calls the hooks that ask, and before any SQL runs.
    usize::try_from(unsafe { pg_sys::MaxBackends }).unwrap_or(0)
}

#[pg_guard]
unsafe extern "C-unwind" fn on_request() {
    // SAFETY: the place PostgreSQL provides for this call.
    unsafe {
        if let Some(previous) = PREVIOUS_REQUEST_HOOK {
            previous();
        }
        pg_sys::RequestAddinShmemSpace(shared::size(slot_count()));
    }
}

/// Runs in the postmaster when it starts and again after every crash.
#[pg_guard]
unsafe extern "C-unwind" fn on_startup() {
    // SAFETY: the place PostgreSQL provides for this call; no other process exists yet.
    unsafe {
        if let Some(previous) = PREVIOUS_STARTUP_HOOK {
            previous();
        }
        let slot_count = slot_count();
        let size = shared::size(slot_count);
        let mut found = false;
        let memory = pg_sys::ShmemInitStruct(shared::NAME.as_ptr(), size, &raw mut found);
        if !found {
            shared::create(memory, slot_count);
        }
        let segment: *mut Segment = memory.cast();
        if let Err(refusal) = (*segment).meet() {
            refusal.raise();
        }
        SEGMENT.store(segment, Ordering::Relaxed);
    }
}
