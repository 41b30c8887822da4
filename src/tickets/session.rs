//! What one session knows of each ticket, and the fast path of a number.
//!
//! A session holds no numbers: it takes each from the range that all sessions share. It remembers which sequence has which
//! place, and looks at the sequence once in a command, since somebody may have set it.

use std::ffi::c_void;

use pgrx::pg_sys;

use crate::error::{Error, ticket};
use crate::fleet::registrar;
use crate::generate::keeper;
use crate::os::process::PerProcess;
use crate::pg::{reload, sequence, server, transaction, wal};
use crate::shared::tickets::{Held, Key};
use crate::shared::{Reader, SharedState, memory};
use crate::tickets::{bound, ranges};

/// How many tickets a session keeps in mind. One that uses more in turn looks them up again.
const ENTRIES: usize = 64;

/// What a session knows of a ticket.
#[derive(Clone, Copy)]
struct Entry {
    /// The sequence; zero: none.
    oid: u32,
    /// In which transaction and command it was looked at, and for which role.
    transaction: u32,
    command: u32,
    role: u32,
    /// Its place.
    known: Option<(Key, Held)>,
    /// When it was looked at, as a number of looks.
    looked: u64,
}

const NO_ENTRY: Entry =
    Entry { oid: 0, transaction: 0, command: 0, role: 0, known: None, looked: 0 };

struct Session {
    shared: Option<&'static SharedState>,
    /// [`reload::time`] of the settings that this process has compared with those in force.
    reload_time: pg_sys::TimestampTz,
    looks: u64,
    /// A number that the fast path has taken, and up to where a standby is to have the log first.
    taken: Option<(i64, wal::Lsn)>,
    entries: [Entry; ENTRIES],
}

static SESSION: PerProcess<Session> = PerProcess::new(Session {
    shared: None,
    reload_time: 0,
    looks: 0,
    taken: None,
    entries: [NO_ENTRY; ENTRIES],
});

impl Entry {
    #[inline(always)]
    fn is_good(&self, oid: u32) -> bool {
        self.oid == oid
            && self.transaction == sequence::transaction()
            && self.command == bound::command()
            && self.role == bound::role()
            && !bound::is_stale()
    }
}

/// Which entry a call site has looked at: kept in the pointer itself, from 1 on.
#[inline(always)]
fn entry_of(kept: *mut c_void) -> Option<usize> {
    kept.addr().checked_sub(1).map(|index| index % ENTRIES)
}

/// The next number, if this session can have it without any ado: no lock, no system call, no allocation, nothing that can
/// fail.
#[inline(always)]
pub fn take(oid: pg_sys::Oid, kept: &mut *mut c_void) -> Option<i64> {
    SESSION.with(|session| {
        let entry = &session.entries[entry_of(*kept)?];
        if !entry.is_good(oid.to_u32()) || is_read_only() {
            return None;
        }
        let (_, held) = entry.known?;
        let place = session.shared?.tickets.place(held.index);
        let number = place.take(held.generation)?;
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
        return Err(ticket::read_only("ticket_next()", server::is_in_recovery()).into());
    }
    if transaction::is_parallel() {
        return Err(ticket::parallel("ticket_next()").into());
    }
    loop {
        let held = bind(shared, oid, kept)?;
        let place = shared.tickets.place(held.index);
        if let Some((number, unconfirmed)) = taken {
            ranges::confirm(place, unconfirmed)?;
            return Ok(number);
        }
        if let Some(number) = ranges::take(shared, oid, held)? {
            // The range may be one whose beginner did not wait for a standby.
            ranges::confirm(place, place.unconfirmed())?;
            return Ok(number);
        }
        bound::forget();
    }
}

/// The place of a sequence, looked at anew unless what is known of it holds.
fn bind(shared: &SharedState, oid: pg_sys::Oid, kept: &mut *mut c_void) -> Result<Held, Error> {
    if bound::is_stale() {
        bound::begin_anew();
        SESSION.with(|session| {
            for entry in &mut session.entries {
                (entry.transaction, entry.known) = (0, None);
            }
        });
    }
    let is_current = |held: &Held| shared.tickets.place(held.index).generation() == held.generation;
    let (index, entry) = SESSION.with(|session| {
        let is_its = |entry: &Entry| entry.oid == oid.to_u32();
        let entries = &session.entries;
        let index = entries.iter().position(is_its).unwrap_or_else(|| {
            let oldest = (0..ENTRIES).min_by_key(|&index| entries[index].looked);
            oldest.unwrap_or_default()
        });
        (index, entries[index])
    });
    let known = entry.known.filter(|(_, held)| entry.oid == oid.to_u32() && is_current(held));
    if let Some((_, held)) = known
        && entry_of(*kept) == Some(index)
        && entry.is_good(oid.to_u32())
    {
        return Ok(held);
    }
    let bound @ (_, held) = bound::bind(&shared.tickets, oid, known)?;
    SESSION.with(|session| {
        session.looks += 1;
        session.entries[index] = Entry {
            oid: oid.to_u32(),
            transaction: sequence::transaction(),
            command: bound::begin_command(),
            role: bound::role(),
            known: Some(bound),
            looked: session.looks,
        };
    });
    *kept = std::ptr::without_provenance_mut(index + 1);
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
        bound::follow_changes();
    }
    SESSION.with(|session| (session.shared, session.reload_time) = (Some(shared), reload_time));
    Ok(shared)
}
