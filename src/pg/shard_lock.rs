//! PostgreSQL's lock of a shard: of sessions that take one shard, or give it back, one at a time asks the fleet's registry.
//!
//! It is an ordinary lock of an object, so that `pg_locks` shows who waits for whom, and the end of a transaction that failed,
//! or of a process, releases it.

use id_gen_core::fleet::Number;
use pgrx::pg_sys;

/// Waits for the lock. An error of PostgreSQL's ends the wait.
pub fn lock(shard: Number) {
    let (class, object, part) = tag(shard);
    // SAFETY: called in a transaction, without a lock of shared memory.
    unsafe { pg_sys::LockSharedObject(class, object, part, pg_sys::ExclusiveLock as _) };
}

/// Takes the lock, if nobody has it.
pub fn try_lock(shard: Number) -> bool {
    let (class, object, part) = tag(shard);
    let lock = pg_sys::LOCKTAG {
        locktag_field1: pg_sys::InvalidOid.to_u32(),
        locktag_field2: class.to_u32(),
        locktag_field3: object.to_u32(),
        locktag_field4: part,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    // SAFETY: as above; a lock of the transaction, without a wait.
    let found =
        unsafe { pg_sys::LockAcquire(&raw const lock, pg_sys::ExclusiveLock as _, false, true) };
    found != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Releases the lock before the transaction ends, which may take many shards.
pub fn unlock(shard: Number) {
    let (class, object, part) = tag(shard);
    // SAFETY: as above.
    unsafe { pg_sys::UnlockSharedObject(class, object, part, pg_sys::ExclusiveLock as _) };
}

/// No object of all databases is an extension, so PostgreSQL itself locks none of these.
fn tag(Number { datacenter, worker }: Number) -> (pg_sys::Oid, pg_sys::Oid, u16) {
    (pg_sys::ExtensionRelationId, worker.into(), datacenter as u16)
}
