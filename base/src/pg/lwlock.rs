//! PostgreSQL's lightweight locks (`storage/lwlock.h`) as Rust values: a lock holds what it guards.
//!
//! **Locking.** Always exclusive. PostgreSQL lets no interrupt through to a process that holds such a
//! lock, and releases it if the process ends with an error. Nothing that may raise an error of
//! PostgreSQL's runs while one is held.
//!
//! A background worker that leaves SIGTERM to PostgreSQL's own handler up to 18 (`bgworker_die`), or to one
//! like it, ends in the middle of whatever it does, also between taking a lock and noting that it holds it;
//! nobody would release that lock ever again. So background workers block the signal while they take or
//! release a lock, and as long as they hold one that [`LwLock::lock`] took, whose value must not be left half
//! changed.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::ops::{Deref, DerefMut};

use pgrx::pg_sys;

use crate::pg::server;

/// A value on cache lines of its own (128 bytes: what PostgreSQL assumes, and two lines of a
/// processor that fetches them in pairs), so that writing it slows nobody who reads its neighbours.
#[repr(C, align(128))]
#[derive(Default)]
pub struct CacheAligned<T>(pub T);

/// A value in shared memory, and the lock that guards it, each on cache lines of its own: whoever waits for
/// the lock writes to its line, and takes that from its holder, but not the value.
#[repr(C)]
pub struct LwLock<T> {
    lock: CacheAligned<UnsafeCell<pg_sys::LWLock>>,
    value: CacheAligned<UnsafeCell<T>>,
}

// SAFETY: the value is reached through the lock alone, which is made for sharing.
unsafe impl<T: Send> Sync for LwLock<T> {}

unsafe extern "C-unwind" {
    /// PostgreSQL's function without pgrx's guard, which costs more than the lock. It raises an error
    /// only in a process that holds 200 such locks already (`MAX_SIMUL_LWLOCKS`, `lwlock.c`), which
    /// none that calls a function does.
    fn LWLockAcquire(lock: *mut pg_sys::LWLock, mode: pg_sys::LWLockMode::Type) -> bool;
    /// As above.
    fn LWLockAcquireOrWait(lock: *mut pg_sys::LWLock, mode: pg_sys::LWLockMode::Type) -> bool;
    /// As above: it raises an error only for a lock that is not held.
    fn LWLockRelease(lock: *mut pg_sys::LWLock);
}

/// A free number for a group of locks. From PostgreSQL 19 on it has its name for all processes at once,
/// and PostgreSQL raises an error if other libraries have taken all names (256, `lwlock.c`); before, each process
/// names it (`register_name`), and there is no limit.
pub fn new_tranche(name: &'static CStr) -> i32 {
    #[cfg(feature = "pg19")]
    // SAFETY: a constant name, shorter than NAMEDATALEN, which PostgreSQL copies.
    return unsafe { pg_sys::LWLockNewTrancheId(name.as_ptr()) };
    #[cfg(not(feature = "pg19"))]
    {
        let _ = name;
        // SAFETY: takes no argument, and only counts.
        unsafe { pg_sys::LWLockNewTrancheId() }
    }
}

impl<T> LwLock<T> {
    /// A value, whose lock still has to be initialized where it lies.
    pub fn uninitialized(value: T) -> LwLock<T> {
        LwLock {
            // SAFETY: a plain C structure, for which all-zero bytes are valid.
            lock: CacheAligned(UnsafeCell::new(unsafe { std::mem::zeroed() })),
            value: CacheAligned(UnsafeCell::new(value)),
        }
    }

    /// Initializes the lock. To be called once, before any other process knows of it.
    pub fn initialize(&self, tranche: i32) {
        // SAFETY: a place for a lock, which nobody uses yet.
        unsafe { pg_sys::LWLockInitialize(self.lock.0.get(), tranche) };
    }

    /// Gives the lock's tranche a name in this process, which `pg_stat_activity` shows.
    #[cfg(not(feature = "pg19"))]
    pub fn register_name(&self, name: &'static CStr) {
        // SAFETY: the lock was initialized before it was published, and the name is a constant.
        unsafe {
            let tranche = i32::from((*self.lock.0.get()).tranche);
            pg_sys::LWLockRegisterTranche(tranche, name.as_ptr());
        }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> LwLockGuard<'_, T> {
        let blocked = BlockedSigterm::in_background_worker();
        // SAFETY: the lock was initialized before it was published.
        unsafe { LWLockAcquire(self.lock.0.get(), pg_sys::LWLockMode::LW_EXCLUSIVE) };
        LwLockGuard { of: self, blocked }
    }

    /// Takes the lock, if nobody holds it; otherwise waits until it is released, and does not take it.
    pub fn lock_or_wait(&self) -> Option<LwLockGuard<'_, T>> {
        let blocked = BlockedSigterm::in_background_worker();
        // SAFETY: the lock was initialized before it was published.
        unsafe { LWLockAcquireOrWait(self.lock.0.get(), pg_sys::LWLockMode::LW_EXCLUSIVE) }
            .then(|| LwLockGuard { of: self, blocked })
    }

    /// Takes the lock, if nobody holds it. A background worker may be ended while it holds the lock;
    /// PostgreSQL then releases it.
    pub fn try_lock(&self) -> Option<LwLockGuard<'_, T>> {
        let (lock, exclusive) = (self.lock.0.get(), pg_sys::LWLockMode::LW_EXCLUSIVE);
        let _blocked = BlockedSigterm::in_background_worker();
        // SAFETY: the lock was initialized before it was published.
        unsafe { pg_sys::LWLockConditionalAcquire(lock, exclusive) }
            .then(|| LwLockGuard { of: self, blocked: None })
    }
}

/// A lock that this process holds, until this value is dropped.
pub struct LwLockGuard<'a, T> {
    of: &'a LwLock<T>,
    /// Ends after the lock is released.
    blocked: Option<BlockedSigterm>,
}

/// SIGTERM, blocked by this process until this value is dropped. Small, because every lock comes with it.
pub struct BlockedSigterm;

impl BlockedSigterm {
    /// `None` in a process whose handler only notes the signal, and where the signal is blocked already.
    #[inline]
    pub fn in_background_worker() -> Option<BlockedSigterm> {
        // SAFETY: a variable of this process.
        let is_worker = unsafe { !pg_sys::MyBgworkerEntry.is_null() };
        // A parallel worker handles the signal as a session does.
        let ends_in_handler = is_worker && !server::is_parallel_worker();
        if ends_in_handler { BlockedSigterm::block() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn block() -> Option<BlockedSigterm> {
        let previous = change_mask(libc::SIG_BLOCK);
        // SAFETY: a set of signals that the call above has filled in.
        let was_blocked = unsafe { libc::sigismember(&raw const previous, libc::SIGTERM) } == 1;
        (!was_blocked).then_some(BlockedSigterm)
    }
}

impl Drop for BlockedSigterm {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        change_mask(libc::SIG_UNBLOCK);
    }
}

/// Blocks or unblocks SIGTERM, and returns the signals that were blocked before.
fn change_mask(how: c_int) -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid set of signals to write to, and the calls change nothing but the
    // sets and this thread's mask.
    unsafe {
        let mut previous = std::mem::zeroed::<libc::sigset_t>();
        let mut sigterm = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut sigterm);
        libc::sigaddset(&raw mut sigterm, libc::SIGTERM);
        libc::pthread_sigmask(how, &raw const sigterm, &raw mut previous);
        previous
    }
}

impl<T> Deref for LwLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, exclusively, for as long as this value lives.
        unsafe { &*self.of.value.0.get() }
    }
}

impl<T> DerefMut for LwLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.of.value.0.get() }
    }
}

impl<T> Drop for LwLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let _blocked = self.blocked.take().or_else(BlockedSigterm::in_background_worker);
        // SAFETY: this value exists only while this process holds the lock.
        unsafe { LWLockRelease(self.of.lock.0.get()) };
    }
}
