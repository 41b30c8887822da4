//! What one session holds of each ticket, and the fast path of one number.
//!
//! A session takes one number at a time. A statement that takes many of them takes them in runs, each up to twice as long
//! as the one before, at most [`LONGEST_RUN`]. What is left of a run goes back when the transaction ends, however it ends,
//! so that it leaves no gap, unless the process is killed.

use std::ffi::c_void;

use id_gen_core::planted::Fault;
use id_gen_core::ticket::Run;
use pgrx::pg_sys;

use crate::error::{Error, ticket};
use crate::fleet::registrar;
use crate::generate::{keeper, ticket_aside};
use crate::os::process::PerProcess;
use crate::pg::transaction::{self, End, Handler};
use crate::pg::{reload, sequence, server, wal};
use crate::shared::tickets::{Held, Key, Tickets};
use crate::shared::{Reader, SharedState, memory};
use crate::tickets::bound::{self, Bound};
use crate::tickets::ranges::{self, Got};

/// The most numbers that a session takes at once.
const LONGEST_RUN: u32 = 64;
/// How many tickets a session keeps in mind. One that uses more in turn looks them up again.
const ENTRIES: usize = 64;

/// What a session knows of a ticket.
#[derive(Clone, Copy)]
struct Entry {
    /// The sequence; zero: none.
    oid: u32,
    /// In which transaction it was looked up, and for which role.
    transaction: u32,
    role: u32,
    /// Whether something may have changed since its place was found, such as its name.
    is_stale: bool,
    held: Held,
    key: Key,
    step: i64,
    /// What is left of the run.
    next: i64,
    left: u32,
    /// The number that this session got last.
    last: Option<i64>,
}

const NO_ENTRY: Entry = Entry {
    oid: 0,
    transaction: 0,
    role: 0,
    is_stale: false,
    held: Held { index: 0, generation: 0 },
    key: Key::NONE,
    step: 0,
    next: 0,
    left: 0,
    last: None,
};

struct Session {
    shared: Option<&'static SharedState>,
    /// [`reload::time`] of the settings that this process has compared with those in force.
    reload_time: pg_sys::TimestampTz,
    /// Which entries have the rest of a run: a bit for each.
    holding: u64,
    entries: [Entry; ENTRIES],
}

static SESSION: PerProcess<Session> = PerProcess::new(Session {
    shared: None,
    reload_time: 0,
    holding: 0,
    entries: [NO_ENTRY; ENTRIES],
});

const fn slot_of(oid: u32) -> usize {
    oid as usize % ENTRIES
}

/// Whether this is a call site's first call in a statement: until then it keeps a null pointer. Each statement looks at the
/// sequence, which somebody may have set.
#[inline(always)]
fn is_first_call(kept: *mut c_void) -> bool {
    kept.is_null()
}

/// Notes that the sequence was looked at.
fn note_look(kept: &mut *mut c_void) {
    if is_first_call(*kept) {
        *kept = std::ptr::without_provenance_mut(1);
    }
}

/// How many numbers to take next, by how often this call site had to take some: kept in the pointer itself, from 1 on.
#[inline(always)]
fn grow(kept: &mut *mut c_void) -> u32 {
    let times = kept.addr();
    let run = 1 << times.saturating_sub(2);
    if run >= LONGEST_RUN {
        return LONGEST_RUN;
    }
    *kept = std::ptr::without_provenance_mut(times + 1);
    run
}

impl Entry {
    #[inline(always)]
    fn is_good(&self, oid: u32) -> bool {
        self.oid == oid
            && self.transaction == sequence::transaction()
            && self.role == bound::role()
            && !bound::is_stale()
    }

    #[inline(always)]
    fn hand_out(&mut self) -> i64 {
        let number = self.next;
        self.left -= 1;
        // Beyond the last number of a run there may be none.
        self.next = number.wrapping_add(self.step);
        self.last = Some(number);
        number
    }
}

/// The next number, if this session can have it without any ado: no lock, no system call, no allocation, nothing that can
/// fail.
#[inline(always)]
pub fn take(oid: pg_sys::Oid, kept: &mut *mut c_void) -> Option<i64> {
    SESSION.with(|session| {
        let slot = slot_of(oid.to_u32());
        let entry = &mut session.entries[slot];
        if is_first_call(*kept) || !entry.is_good(oid.to_u32()) || is_read_only() {
            return None;
        }
        let place = session.shared?.tickets.place(entry.held.index);
        if place.generation() != entry.held.generation {
            return None;
        }
        if entry.left == 0 {
            if place.has_given_back() {
                return None;
            }
            let taken = place.take(entry.held.generation, grow(kept))?;
            (entry.next, entry.left, entry.step) = (taken.run.first, taken.run.count, taken.step);
            session.holding |= 1 << slot;
        }
        // Asked last, and for every number: the session may have begun to wait for standbys within a run.
        if place.unconfirmed().0 != 0 && wal::waits_for_standby() {
            return None;
        }
        Some(entry.hand_out())
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
    let shared = attach()?;
    if is_read_only() {
        return Err(ticket::read_only("ticket_next()", server::is_in_recovery()).into());
    }
    if transaction::is_parallel() {
        return Err(ticket::parallel("ticket_next()").into());
    }
    let tickets = &shared.tickets;
    loop {
        let entry = bind(shared, oid, is_first_call(*kept))?;
        note_look(kept);
        let place = tickets.place(entry.held.index);
        ranges::confirm(place)?;
        if entry.left == 0 {
            let (held, step) = (entry.held, entry.step);
            match ranges::take(shared, oid, held, step, entry.last, grow(kept))? {
                Got::Lost => continue,
                Got::Numbers(taken) => hold(oid, held, taken.run),
            }
            // The range may be one whose beginner did not wait for a standby.
            ranges::confirm(place)?;
        }
        let number = SESSION.with(|session| {
            let entry = &mut session.entries[slot_of(oid.to_u32())];
            let is_ours = entry.oid == oid.to_u32() && entry.left > 0;
            (is_ours && place.generation() == entry.held.generation).then(|| entry.hand_out())
        });
        match number {
            Some(number) => return Ok(number),
            None => bound::forget(),
        }
    }
}

/// The session has taken these numbers.
fn hold(oid: pg_sys::Oid, held: Held, run: Run) {
    SESSION.with(|session| {
        let slot = slot_of(oid.to_u32());
        let entry = &mut session.entries[slot];
        if entry.oid == oid.to_u32() && entry.held == held {
            (entry.next, entry.left) = (run.first, run.count);
            session.holding |= 1 << slot;
        }
    });
}

/// The entry of a sequence, looked up anew if `anew`, or unless what is known of it holds.
fn bind(shared: &SharedState, oid: pg_sys::Oid, anew: bool) -> Result<Entry, Error> {
    let tickets = &shared.tickets;
    let slot = slot_of(oid.to_u32());
    if bound::is_stale() {
        bound::begin_anew();
        SESSION.with(|session| {
            for entry in &mut session.entries {
                (entry.transaction, entry.is_stale) = (0, true);
            }
        });
    }
    let known = SESSION.with(|session| session.entries[slot]);
    let is_held = known.held.generation != 0
        && tickets.place(known.held.index).generation() == known.held.generation;
    if !anew && known.is_good(oid.to_u32()) && is_held {
        return Ok(known);
    }
    let Bound { key, names, steps, on_page } = bound::bind(oid)?;
    // Something may have changed also while the lock was waited for.
    let is_stale = known.is_stale || bound::is_stale();
    let goes_on = known.oid == oid.to_u32() && known.key == key && !is_stale && is_held;
    if !goes_on && known.left > 0 {
        give_back(tickets, slot);
    }
    let held = if goes_on {
        known.held
    } else {
        ranges::settle_put_back(tickets, oid, &key, &names)?;
        tickets.find(key, &names, &steps)
    };
    // If what is held is dropped, whoever asks for a number finds it so.
    ranges::heed(tickets, oid, held, &on_page)?;
    tickets.place(held.index).note_use();
    let last = known.last.filter(|_| known.oid == oid.to_u32() && known.key == key);
    Ok(SESSION.with(|session| {
        let entry = &mut session.entries[slot];
        if !goes_on {
            *entry = Entry { step: steps.step, last, ..NO_ENTRY };
        }
        entry.oid = oid.to_u32();
        entry.transaction = sequence::transaction();
        entry.role = bound::role();
        entry.is_stale = false;
        (entry.held, entry.key) = (held, key);
        *entry
    }))
}

/// Gives back what an entry holds.
fn give_back(tickets: &Tickets, slot: usize) {
    let held = SESSION.with(|session| {
        session.holding &= !(1 << slot);
        let entry = &mut session.entries[slot];
        let run = Run { first: entry.next, count: std::mem::take(&mut entry.left) };
        if Fault::TicketGivenBackTooMuch.is_planted() && run.count > 0 {
            return (entry.held, Run { first: run.first - entry.step, count: run.count + 1 });
        }
        (entry.held, run)
    });
    if let (held, run @ Run { count: 1.., .. }) = held {
        tickets.give_back(held, run);
    }
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
        ticket_aside::put_back(shared);
        bound::follow_changes();
        transaction::on_end::<AtEnd>();
    }
    SESSION.with(|session| (session.shared, session.reload_time) = (Some(shared), reload_time));
    Ok(shared)
}

/// Called at the end of this session's transactions.
struct AtEnd;

impl Handler for AtEnd {
    fn handle(end: End) {
        if end == End::Prepares {
            return;
        }
        let Some(shared) = SESSION.with(|session| session.shared) else { return };
        loop {
            let holding = SESSION.with(|session| session.holding);
            if holding == 0 {
                break;
            }
            give_back(&shared.tickets, holding.trailing_zeros() as usize);
        }
    }
}
