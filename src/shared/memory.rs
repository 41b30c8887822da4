//! Where shared memory comes from, and how a process finds it.
//!
//! A preloaded library asks for it in PostgreSQL's main shared memory while the server starts, and
//! every process inherits its address. On PostgreSQL 17 and later a library that was not preloaded
//! makes or finds it by name in dynamic shared memory (`GetNamedDSMSegment`), the first time a process
//! needs it. Both give one state for the whole server, for as long as it runs, and a new one after a crash.
//!
//! **Locking.** The postmaster makes the state before any other process exists; `GetNamedDSMSegment`
//! holds a lock of its own while it is made.

#[cfg(feature = "named_dsm")]
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::{Error, report};
use crate::pg::server;
use crate::shared::state::{self, SharedState};

static STATE: AtomicPtr<SharedState> = AtomicPtr::new(std::ptr::null_mut());

/// The shared state, if this process has attached to it.
#[inline(always)]
pub fn attached() -> Option<&'static SharedState> {
    // SAFETY: null, or set below to memory that lives as long as the process.
    unsafe { STATE.load(Ordering::Relaxed).as_ref() }
}

/// The shared state, found or made if this process has not attached to it yet.
///
/// # Errors
/// If there is none to be had here, or it belongs to another version of this library.
pub fn attach() -> Result<&'static SharedState, Error> {
    if let Some(shared) = attached() {
        return Ok(shared);
    }
    let shared = find_or_make()?;
    shared.attach()?;
    STATE.store(std::ptr::from_ref(shared).cast_mut(), Ordering::Relaxed);
    Ok(shared)
}

/// Room for what is prepared, and for what every session may be about to prepare, though it then fails.
fn prepared_room() -> usize {
    server::max_prepared_transactions() + server::max_backends()
}

#[cfg(not(feature = "named_dsm"))]
fn find_or_make() -> Result<&'static SharedState, Error> {
    Err(crate::error::Reason::NotPreloaded.into())
}

#[cfg(feature = "named_dsm")]
fn find_or_make() -> Result<&'static SharedState, Error> {
    let mut found = false;
    // SAFETY: PostgreSQL gives memory of that size, on a cache line, and has it made once, by the
    // first who asks. It stays mapped until this process ends.
    unsafe {
        let size = state::size(server::max_backends(), prepared_room());
        let name = state::NAME.as_ptr();
        #[cfg(not(feature = "pg19"))]
        let memory = pg_sys::GetNamedDSMSegment(name, size, Some(on_create), &raw mut found);
        #[cfg(feature = "pg19")]
        let memory = {
            let argument = std::ptr::null_mut();
            pg_sys::GetNamedDSMSegment(name, size, Some(on_create_with), &raw mut found, argument)
        };
        Ok(&*memory.cast::<SharedState>())
    }
}

#[cfg(all(feature = "named_dsm", not(feature = "pg19")))]
#[pg_guard]
unsafe extern "C-unwind" fn on_create(memory: *mut c_void) {
    // SAFETY: new memory of the size that `find_or_make` asked for.
    unsafe { state::create(memory, server::max_backends(), prepared_room()) };
}

/// The same, with the argument that PostgreSQL 19 hands through.
#[cfg(feature = "pg19")]
#[pg_guard]
unsafe extern "C-unwind" fn on_create_with(memory: *mut c_void, _argument: *mut c_void) {
    // SAFETY: as above.
    unsafe { state::create(memory, server::max_backends(), prepared_room()) };
}

/// Whether the postmaster loaded the library, so that every process has inherited it.
static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Whether the library was loaded when the server started.
pub fn is_preloaded() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}

/// Asks for the memory, if the library is being preloaded.
pub fn request() {
    if !server::is_preloading() {
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

#[pg_guard]
unsafe extern "C-unwind" fn on_request() {
    // SAFETY: the place PostgreSQL provides for this call.
    unsafe {
        if let Some(previous) = PREVIOUS_REQUEST_HOOK {
            previous();
        }
        pg_sys::RequestAddinShmemSpace(state::size(server::max_backends(), prepared_room()));
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
        let (slot_count, prepared_room) = (server::max_backends(), prepared_room());
        let size = state::size(slot_count, prepared_room);
        let mut found = false;
        let memory = pg_sys::ShmemInitStruct(state::NAME.as_ptr(), size, &raw mut found);
        if !found {
            state::create(memory, slot_count, prepared_room);
        }
        let shared = &*memory.cast::<SharedState>();
        if let Err(error) = shared.attach() {
            report::raise(error);
        }
        STATE.store(memory.cast(), Ordering::Relaxed);
    }
}
