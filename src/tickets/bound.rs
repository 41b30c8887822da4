//! Which sequence a call is about: looked up and locked once in a transaction, and again whenever PostgreSQL says that
//! something of it, or of the roles, has changed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pgrx::pg_sys;

use crate::error::{Error, ticket};
use crate::pg::sequence::{self, Sequence};
use crate::pg::server;
use crate::shared::tickets::{Found, Held, Key, Names, Tickets};

/// Whether something has changed since sequences were looked up.
static STALE: AtomicBool = AtomicBool::new(false);

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

/// The number of the command within this transaction: another one in each statement of a client or a function, and in each
/// expression that PL/pgSQL evaluates, after [`begin_command`].
#[inline(always)]
pub fn command() -> u32 {
    unsafe extern "C-unwind" {
        /// PostgreSQL's function without pgrx's guard. It raises no error for a number that is not used.
        fn GetCurrentCommandId(used: bool) -> pg_sys::CommandId;
    }
    // SAFETY: reads a variable of this process.
    unsafe { GetCurrentCommandId(false) }
}

/// Has what follows this command be another one for PostgreSQL, which counts only those that write rows.
pub fn begin_command() -> u32 {
    // SAFETY: not in a parallel worker, where it raises an error.
    unsafe { pg_sys::GetCurrentCommandId(true) }
}

/// Locks a sequence for this transaction, and finds its place: `known`, if that is still of this key. What it holds is dropped
/// if somebody has set the sequence.
///
/// # Errors
/// If it is no sequence that tickets can be of, or the role may not take numbers of it.
pub fn bind(
    tickets: &Tickets,
    oid: pg_sys::Oid,
    known: Option<(Key, Held)>,
) -> Result<(Key, Held), Error> {
    sequence::lock(oid);
    open(oid, |found| {
        // SAFETY: reads a variable of this process.
        let role = unsafe { pg_sys::GetUserId() };
        if !sequence::may_take(oid, role) {
            let role = server::role_name(role);
            return Err(ticket::denied(&found.typed_name(), &role).into());
        }
        check(found)?;
        let key = Key { sequence: oid.to_u32(), file: found.file() };
        let held = match known {
            // Something may have changed also while the lock was waited for, such as the name.
            Some((known, held)) if known == key && !is_stale() => held,
            _ => place(tickets, found, key),
        };
        let page = found.page().map_err(|what| ticket::damaged(&found.typed_name(), &what))?;
        // If what is held is dropped, whoever asks for a number finds it so.
        tickets.follow(held, &page.says());
        drop(page);
        tickets.place(held.index).note_use();
        Ok((key, held))
    })
}

/// The place of a sequence. Another one's numbers are handed back if that can be, and dropped if it cannot.
fn place(tickets: &Tickets, of: &Sequence, key: Key) -> Held {
    let names = names(of);
    loop {
        match tickets.find(key, &names, &of.definition.steps) {
            Found::Place(held) => return held,
            Found::Evict(held, Key { sequence, file }) => {
                if tickets.forget_databases(|database| sequence::is_gone(database, 0)) {
                    continue;
                }
                let _evicted = Evicted(tickets, held);
                if file.database == server::database() {
                    sequence::open_if_free(sequence.into(), file, |evicted| {
                        if let Ok(page) = evicted.writable_page() {
                            tickets.hand_back(held, &page);
                        }
                    });
                }
            }
        }
    }
}

/// Drops what is left of a place, also where the page of its sequence can't be read.
struct Evicted<'a>(&'a Tickets, Held);

impl Drop for Evicted<'_> {
    fn drop(&mut self) {
        self.0.evict(self.1);
    }
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

/// What a sequence is called.
pub fn names(of: &Sequence) -> Names {
    let (schema, sequence) = of.names();
    Names { database: sequence::database_name(), schema, sequence }
}

/// Whether tickets can be of a sequence as it is declared.
///
/// # Errors
/// If they can't.
pub fn check(of: &Sequence) -> Result<(), Error> {
    if of.definition.steps.step <= 0 {
        return Err(ticket::counts_down(&of.typed_name(), &of.definition).into());
    }
    if of.cycles {
        return Err(ticket::cycles(&of.typed_name()).into());
    }
    Ok(())
}
