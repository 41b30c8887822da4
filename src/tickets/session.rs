//! What one session knows of each ticket, and the fast path of a number.
//!
//! A session holds no numbers: it takes each from the range that all sessions share. It remembers which sequence has which
//! place, and looks at the sequence once in a command, since somebody may have set it; and again whenever PostgreSQL says that
//! something of it, or of the roles, has changed.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pgrx::pg_sys;

use crate::error::{Error, ticket};
use crate::fleet::registrar;
use crate::generate::keeper;
use crate::os::process::PerProcess;
use crate::pg::{reload, sequence, server, transaction, wal};
use crate::shared::tickets::{Held, PLACES};
use crate::shared::{Reader, SharedState, memory};
use crate::tickets::{bound, ranges};

/// What a session knows of a place.
#[derive(Clone, Copy)]
struct Entry {
    /// The sequence that it is for; zero: nothing is known.
    sequence: u32,
    /// Its generation then.
    generation: u64,
    /// In which transaction and command the sequence was looked at, and for which role.
    transaction: u32,
    command: u32,
    role: u32,
}

const NO_ENTRY: Entry = Entry { sequence: 0, generation: 0, transaction: 0, command: 0, role: 0 };

struct Session {
    shared: Option<&'static SharedState>,
    /// [`reload::time`] of the settings that this process has compared with those in force.
    reload_time: pg_sys::TimestampTz,
    /// A number that the fast path has taken, and up to where a standby is to have the log first.
    taken: Option<(i64, wal::Lsn)>,
    entries: [Entry; PLACES],
}

static SESSION: PerProcess<Session> = PerProcess::new(Session {
    shared: None,
    reload_time: 0,
    taken: None,
    entries: [NO_ENTRY; PLACES],
});

/// Whether something has changed since sequences were looked up, so that what is known may hold no more.
static STALE: AtomicBool = AtomicBool::new(false);

impl Entry {
    #[inline(always)]
    fn is_good(&self, oid: pg_sys::Oid) -> bool {
        self.sequence == oid.to_u32()
            && self.transaction == transaction::number()
            && self.command == transaction::command()
            && self.role == server::role().to_u32()
            && !STALE.load(Relaxed)
    }
}

/// The place of the sequence that a call site has looked at last: kept in the pointer itself, from 1 on.
#[inline(always)]
fn place_of(kept: *mut c_void) -> Option<usize> {
    kept.addr().checked_sub(1).map(|index| index % PLACES)
}

/// The next number, if this session can have it without any ado: no lock, no system call, no allocation, nothing that can
/// fail.
#[inline(always)]
pub fn take(oid: pg_sys::Oid, kept: &mut *mut c_void) -> Option<i64> {
    SESSION.with(|session| {
        let index = place_of(*kept)?;
        let entry = &session.entries[index];
        if !entry.is_good(oid) || is_read_only() {
            return None;
        }
        let place = session.shared?.tickets.place(index);
        let number = place.take(entry.generation)?;
        // Asked last: the range may be one that has begun just now.
        let unconfirmed = place.unconfirmed();
        if unconfirmed.0 != 0 && wal::waits_for_standby() {
            session.taken = Some((number, unconfirmed));
            return None;
        }
        Some(number)
    })
}

#[inline(always)]
fn is_read_only() -> bool {
    // SAFETY: a variable of this process.
    unsafe { pg_sys::XactReadOnly }
}

/// The next number, whatever it takes.
///
/// # Errors
/// If there is none for this role, or at all.
pub fn next(oid: pg_sys::Oid, kept: &mut *mut c_void) -> Result<i64, Error> {
    let taken = SESSION.with(|session| session.taken.take());
    let shared = attach()?;
    if is_read_only() {
        return Err(ticket::read_only(server::is_in_recovery()).into());
    }
    if transaction::is_parallel() {
        return Err(ticket::parallel().into());
    }
    loop {
        let held = bind(shared, oid, kept)?;
        let place = shared.tickets.place(held.index);
        let (number, unconfirmed) = match taken {
            Some(taken) => taken,
            // The range may be one whose beginner did not wait for a standby.
            None => match ranges::take(shared, oid, held)? {
                Some(number) => (number, place.unconfirmed()),
                None => continue,
            },
        };
        ranges::confirm(place, unconfirmed)?;
        return Ok(number);
    }
}

/// The place of a sequence. The sequence is looked at unless this call site has done so in this command.
fn bind(shared: &SharedState, oid: pg_sys::Oid, kept: &mut *mut c_void) -> Result<Held, Error> {
    // As it is remembered, if it is still for that sequence.
    let held = |session: &Session, index: usize| {
        let Entry { sequence, generation, .. } = session.entries[index];
        let held = Held { index, generation };
        (sequence == oid.to_u32() && shared.tickets.held(index) == held).then_some(held)
    };
    let looked_at = SESSION.with(|session| {
        let index = place_of(*kept).filter(|index| session.entries[*index].is_good(oid))?;
        held(session, index)
    });
    if let Some(held) = looked_at {
        return Ok(held);
    }
    // With the lock, PostgreSQL says what has changed up to now, such as the name.
    sequence::lock(oid);
    let known = SESSION.with(|session| {
        if STALE.swap(false, Relaxed) {
            session.entries = [NO_ENTRY; PLACES];
        }
        (0..PLACES).find_map(|index| held(session, index))
    });
    let held = bound::bind(&shared.tickets, oid, known)?;
    let entry = Entry {
        sequence: oid.to_u32(),
        generation: held.generation,
        transaction: transaction::number(),
        command: transaction::begin_command(),
        role: server::role().to_u32(),
    };
    SESSION.with(|session| session.entries[held.index] = entry);
    *kept = std::ptr::without_provenance_mut(held.index + 1);
    Ok(held)
}

/// This process with its shared memory, and with the settings in force up to date.
fn attach() -> Result<&'static SharedState, Error> {
    let (known, reload_time) = SESSION.with(|session| (session.shared, session.reload_time));
    if let Some(shared) = known
        && reload_time == reload::time()
    {
        return Ok(shared);
    }
    let reload_time = reload::time();
    let shared = memory::attach()?;
    shared.adopt_settings(Reader::Session);
    registrar::start_if_missing(shared);
    keeper::start_if_missing(shared);
    if known.is_none() {
        follow_changes();
    }
    SESSION.with(|session| (session.shared, session.reload_time) = (Some(shared), reload_time));
    Ok(shared)
}

/// Has PostgreSQL tell this process of changes. To be called once.
fn follow_changes() {
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
