//! From a used-up range to the next: the slow path of a number.
//!
//! **Order.** A range is taken from the sequence, on its page, and the log of that is flushed, on a synchronous standby too
//! where the session's commits wait for one, before any of its numbers is handed out. So neither a crash nor a failover
//! repeats a number. The next range is taken when one is begun: its flush, by the log's own process, costs nobody a wait.
//! Sessions that find no range at the same time wait for each other at the page, and all but the first find one there.
//!
//! **Locking.** No lock is held while anything is read, flushed or waited for; the page is locked while it is written.

use id_gen_core::planted::Fault;
use id_gen_core::ticket::Run;
use id_gen_core::ticket::shared::{Answer, Set};
use id_gen_core::time::NS_PER_MS;
use pgrx::pg_sys;

use crate::error::{Error, Message, ticket};
use crate::fleet::commands;
use crate::os::clock;
use crate::pg::sequence::{self, OnPage, Sequence};
use crate::pg::{server, wal};
use crate::shared::SharedState;
use crate::shared::tickets::{Held, Place, Task, Tickets};
use crate::tickets::bound;

/// In how many ranges at least what is left of a sequence is taken.
const LEAST_RANGES: u64 = 32;

/// Takes the next number of a sequence that this transaction has locked; `None` if its place is another's by now, or what it
/// held was dropped.
///
/// # Errors
/// If there is none.
pub fn take(shared: &SharedState, oid: pg_sys::Oid, held: Held) -> Result<Option<i64>, Error> {
    let tickets = &shared.tickets;
    let mut patience = None;
    loop {
        if let Some(number) = tickets.place(held.index).take(held.generation) {
            return Ok(Some(number));
        }
        match tickets.task(held) {
            Task::Find => return Ok(None),
            Task::Take => {}
            Task::Begin(lsn) => begin(shared, oid, held, lsn)?,
            Task::Count(run) => counting(tickets, held, count_over(tickets, oid, held, run))?,
            Task::Await { ask, answers, refused } => {
                let waited =
                    await_registry(shared, oid, held, &mut patience, (ask, answers, refused));
                counting(tickets, held, waited)?;
            }
            Task::Fetch(size) => {
                if let Some(number) = counting(tickets, held, fetch(tickets, oid, held, size))? {
                    return Ok(Some(number));
                }
            }
        }
    }
}

/// Counts a call that is refused.
fn counting<R>(tickets: &Tickets, held: Held, result: Result<R, Error>) -> Result<R, Error> {
    if result.is_err() {
        tickets.count(held, |counts| counts.refusals += 1);
    }
    result
}

/// Begins the next range, and takes the one after it from the sequence.
fn begin(shared: &SharedState, oid: pg_sys::Oid, held: Held, lsn: wal::Lsn) -> Result<(), Error> {
    let tickets = &shared.tickets;
    if !Fault::RangeNotFlushed.is_planted() {
        make_durable(lsn)?;
    }
    // Also where this session waits for a standby, it may have none yet, right after a reload.
    let unconfirmed = !wal::is_on_standby(lsn);
    if let Some(size) = tickets.begin(held, lsn, unconfirmed) {
        if tickets.has_registry() {
            tickets.want(held, size, &says(oid)?);
            shared.registrar.wake();
        } else {
            // If there is no other range, whoever needs it is told so.
            let _ = fetch(tickets, oid, held, size);
        }
    }
    Ok(())
}

/// Takes a range from the sequence, for later. A sequence that is not in the log yet is its transaction's alone: its numbers
/// are handed out one by one, without a range.
fn fetch(tickets: &Tickets, oid: pg_sys::Oid, held: Held, size: u32) -> Result<Option<i64>, Error> {
    // The longest way to a range begins here, so this is a place to be cancelled.
    pgrx::check_for_interrupts!();
    let fetched = bound::open(oid, |sequence| {
        let steps = sequence.definition.steps;
        let page = writable_page(sequence)?;
        let says = page.says();
        if !tickets.follow(held, &says) || !tickets.lacks_next(held) {
            return Ok((None, wal::Lsn::default()));
        }
        // Near its end a sequence is not used up by what is taken ahead.
        let most = |next| u32::try_from(steps.left_from(next) / LEAST_RANGES).unwrap_or(u32::MAX);
        let wanted = |next| if sequence.is_logged() { size.min(most(next)).max(1) } else { 1 };
        let run = steps.next(says.counter).and_then(|next| steps.run(next, wanted(next)));
        let Some(run) = run.filter(|_| !says.is_of_fleet) else {
            drop(page);
            let name = sequence.typed_name();
            return Err(Error::from(if says.is_of_fleet {
                ticket::of_fleet(&name, says.counter.last_value)
            } else {
                ticket::ended(&name, &sequence.definition)
            }));
        };
        let counter = steps.ending(run);
        let lsn = page.write(counter, false);
        if !sequence.is_logged() {
            return Ok((Some(run.first), lsn));
        }
        tickets.counted(held, run, OnPage { counter, is_of_fleet: false, lsn });
        Ok((None, lsn))
    });
    let (number, lsn) = fetched?;
    wal::flush_soon(lsn);
    Ok(number)
}

/// Has the sequence count over a range that the registry gave: what follows on this server, with a registry or without, is
/// above. A range that does not lie above what it has counted is dropped.
fn count_over(tickets: &Tickets, oid: pg_sys::Oid, held: Held, run: Run) -> Result<(), Error> {
    bound::open(oid, |sequence| {
        let steps = sequence.definition.steps;
        let page = writable_page(sequence)?;
        let says = page.says();
        if !tickets.follow(held, &says) {
            return Ok(());
        }
        if steps.next(says.counter).is_none_or(|next| run.first < next) {
            // The registry is asked again, and told what is used.
            tickets.drop_of(server::database(), oid.to_u32());
            return Ok(());
        }
        let counter = steps.ending(run);
        let lsn = page.write(counter, true);
        tickets.counted(held, run, OnPage { counter, is_of_fleet: true, lsn });
        Ok(())
    })
}

fn writable_page(sequence: &Sequence) -> Result<sequence::WritablePage, Error> {
    let damaged = |what: String| ticket::damaged(&sequence.typed_name(), &what).into();
    sequence.writable_page().map_err(damaged)
}

/// What a call that waits for the registry remembers.
struct Patience {
    /// How many answers there were when it began.
    answers: u64,
    since_ns: u64,
}

/// Has the registry asked, and waits for what it says, or for a while.
///
/// # Errors
/// If it has told that there is no range, or `id_gen.max_wait` is over.
fn await_registry(
    shared: &SharedState,
    oid: pg_sys::Oid,
    held: Held,
    patience: &mut Option<Patience>,
    (ask, answers, refused): (Option<u32>, u64, Option<Answer>),
) -> Result<(), Error> {
    let tickets = &shared.tickets;
    if patience.is_none() {
        tickets.count(held, |counts| counts.waits += 1);
    }
    let Patience { answers: before, since_ns } =
        patience.get_or_insert_with(|| Patience { answers, since_ns: clock::mono_ns() });
    if let Some(refused) = refused.filter(|_| answers > *before) {
        return Err(refused_by_registry(oid, refused));
    }
    if let Some(size) = ask {
        tickets.want(held, size, &says(oid)?);
        shared.registrar.wake();
    }
    let (max_wait_ms, trouble) = {
        let state = shared.lock();
        (state.settings.max_wait_ms, state.membership.trouble)
    };
    if clock::mono_ns().saturating_sub(*since_ns) >= u64::from(max_wait_ms) * NS_PER_MS {
        let runs = shared.registrar.is_running();
        return Err(ticket::no_answer(max_wait_ms, trouble.as_ref(), runs).into());
    }
    tickets.nap();
    Ok(())
}

fn refused_by_registry(oid: pg_sys::Oid, refused: Answer) -> Error {
    let refusal = bound::open(oid, |found| {
        let last_value = found.page().map_or(0, |page| page.says().counter.last_value);
        let key = bound::names(found).in_registry();
        let name = found.typed_name();
        Ok(ticket::refused(&name, &key, &found.definition, last_value, refused).into())
    });
    refusal.unwrap_or_else(|error| error)
}

/// What the page of a sequence says.
fn says(oid: pg_sys::Oid) -> Result<OnPage, Error> {
    bound::open(oid, |found| match found.page() {
        Ok(page) => Ok(page.says()),
        Err(what) => Err(ticket::damaged(&found.typed_name(), &what).into()),
    })
}

/// Waits until a standby has what a number of this place rests on, where the session waits for one.
///
/// # Errors
/// If the wait was cancelled.
pub fn confirm(place: &Place, lsn: wal::Lsn) -> Result<(), Error> {
    if lsn != wal::Lsn::default() && wal::waits_for_standby() {
        make_durable(lsn)?;
        if wal::is_on_standby(lsn) {
            place.confirm(lsn);
        }
    }
    Ok(())
}

fn make_durable(lsn: wal::Lsn) -> Result<(), Error> {
    wal::make_durable(lsn).map_err(|wal::Cancelled| ticket::standby_wait_cancelled().into())
}

/// What came of sharing a ticket.
pub struct Shared {
    /// The next number that the fleet's registry gives.
    pub next: i64,
    /// What to tell of other servers, which may have ranges from before.
    pub notice: Option<Message>,
}

/// Has the fleet's registry give the ranges of a sequence to all servers of the fleet, above what this server has counted and
/// above a number.
///
/// # Errors
/// If the role does not own the sequence, or the registry has no answer.
pub fn share(tickets: &Tickets, oid: pg_sys::Oid, above: Option<i64>) -> Result<Shared, Error> {
    sequence::lock(oid);
    let (name, key, definition) = bound::open(oid, |found| {
        // SAFETY: reads a variable of this process.
        if !sequence::owns(oid, unsafe { pg_sys::GetUserId() }) {
            return Err(Error::from(ticket::not_owner(&found.typed_name())));
        }
        bound::check(found)?;
        Ok((found.typed_name(), bound::names(found).in_registry(), found.definition))
    })?;
    let ended = || Error::from(ticket::ended(&name, &definition));
    let next = definition.steps.next(says(oid)?.counter).ok_or_else(ended)?;
    let set = commands::set_ticket(key.clone(), definition.steps.step, next, above)?;
    tickets.drop_of(server::database(), oid.to_u32());
    match set {
        Set::New(shared) => Ok(Shared { next: shared.next, notice: None }),
        Set::Changed(shared) => {
            Ok(Shared { next: shared.next, notice: Some(ticket::set_again(&name)) })
        }
        Set::Damaged => {
            Err(ticket::damaged_in_registry(&name, &key, next.saturating_sub(1)).into())
        }
        Set::Ended => Err(ended()),
    }
}
