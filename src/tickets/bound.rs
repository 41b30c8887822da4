//! Which sequence a call is about: looked up and locked once in a transaction, and again whenever PostgreSQL says that
//! something of it, or of the roles, has changed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pgrx::pg_sys;

use crate::error::{Error, ticket};
use crate::pg::sequence::{self, NoNumbers, OnPage, Sequence};
use crate::pg::server;
use crate::shared::tickets::{Key, Names};

use id_gen_core::planted::Fault;
use id_gen_core::ticket::Steps;

/// Whether something has changed since sequences were looked up.
static STALE: AtomicBool = AtomicBool::new(false);

/// A sequence that the role of the session may take numbers of.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Tells it from all others.
    pub key: Key,
    /// What it is called.
    pub names: Names,
    /// Its numbers.
    pub steps: Steps,
    /// What its page says.
    pub on_page: OnPage,
}

/// Whether what was looked up may hold no more.
#[inline(always)]
pub fn is_stale() -> bool {
    STALE.load(Relaxed)
}

/// What is looked up from here on holds.
pub fn begin_anew() {
    STALE.store(false, Relaxed);
}

/// What was looked up holds no more.
pub fn forget() {
    STALE.store(true, Relaxed);
}

/// Has PostgreSQL tell this process of changes. To be called once.
pub fn follow_changes() {
    // SAFETY: the functions match the callbacks' types, and only set a variable.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), pg_sys::Datum::null());
        for cache in [
            pg_sys::SysCacheIdentifier::SEQRELID,
            pg_sys::SysCacheIdentifier::AUTHOID,
            pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM,
            pg_sys::SysCacheIdentifier::DATABASEOID,
        ] {
            let cache = cache as _;
            pg_sys::CacheRegisterSyscacheCallback(cache, Some(row_changed), pg_sys::Datum::null());
        }
    }
}

unsafe extern "C-unwind" fn relation_changed(_argument: pg_sys::Datum, _relation: pg_sys::Oid) {
    STALE.store(true, Relaxed);
}

#[cfg(not(feature = "pg19"))]
type CacheId = i32;
#[cfg(feature = "pg19")]
type CacheId = pg_sys::SysCacheIdentifier::Type;

unsafe extern "C-unwind" fn row_changed(_argument: pg_sys::Datum, _cache: CacheId, _hash: u32) {
    STALE.store(true, Relaxed);
}

/// The role whose privileges count now.
#[inline(always)]
pub fn role() -> u32 {
    unsafe extern "C-unwind" {
        /// PostgreSQL's function without pgrx's guard. It raises no error.
        fn GetUserId() -> pg_sys::Oid;
    }
    // SAFETY: reads a variable of this process.
    unsafe { GetUserId() }.to_u32()
}

/// Locks a sequence for this transaction, and looks it up.
///
/// # Errors
/// If it is no sequence that tickets can be of, or the role may not take numbers of it.
pub fn bind(oid: pg_sys::Oid) -> Result<Bound, Error> {
    sequence::lock(oid);
    open(oid, |found| {
        // SAFETY: reads a variable of this process.
        let role = unsafe { pg_sys::GetUserId() };
        if !sequence::may_take(oid, role) {
            let role = server::role_name(role);
            return Err(ticket::denied(&found.typed_name(), "USAGE", &role).into());
        }
        check(found)?;
        let on_page = found.on_page().map_err(|none| refusal(found, &none))?;
        let mut key = Key {
            database: server::database(),
            database_written_by: sequence::database_written_by(),
            sequence: oid.to_u32(),
            file: found.file_number(),
            definition: found.written_by,
        };
        if Fault::TicketsShareDatabases.is_planted() {
            (key.database, key.database_written_by) = (0, 0);
        }
        if Fault::TicketsIgnoreRestart.is_planted() {
            key.file = 0;
        }
        Ok(Bound { key, names: names(found), steps: found.definition.steps, on_page })
    })
}

/// Opens a sequence that this transaction has locked, for the length of a call.
///
/// # Errors
/// If it is no sequence that tickets can be of, or what comes of the call.
pub fn open<R>(
    oid: pg_sys::Oid,
    body: impl FnOnce(&Sequence) -> Result<R, Error>,
) -> Result<R, Error> {
    sequence::open(oid, |found| match found {
        Ok(found) => body(found),
        Err((unfit, name)) => Err(ticket::unfit(unfit, &name).into()),
    })
}

pub fn names(of: &Sequence) -> Names {
    let (schema, sequence) = of.names();
    Names { database: sequence::database_name(), schema, sequence }
}

pub fn check(of: &Sequence) -> Result<(), Error> {
    if of.definition.steps.step <= 0 {
        return Err(ticket::counts_down(&of.typed_name(), &of.definition).into());
    }
    if of.cycles {
        return Err(ticket::cycles(&of.typed_name()).into());
    }
    Ok(())
}

/// Why a sequence has no numbers, in words.
pub fn refusal(sequence: &Sequence, none: &NoNumbers) -> Error {
    let name = sequence.typed_name();
    match none {
        NoNumbers::Ended => ticket::ended(&name, &sequence.definition),
        NoNumbers::NotAbove(counter) => {
            let key = names(sequence).in_registry();
            ticket::behind(&name, &key, counter.last_value, None)
        }
        NoNumbers::OfFleet(last_value) => ticket::of_fleet(&name, *last_value),
        NoNumbers::Damaged(what) => ticket::damaged(&name, what),
    }
    .into()
}
