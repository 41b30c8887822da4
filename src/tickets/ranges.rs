//! From a used-up range to the next: the slow path of a number.
//!
//! **Order.** A range is taken from the sequence, on its page, and the log of that is flushed, on a synchronous standby too
//! where the session's commits wait for one, before any of its numbers is handed out. So neither a crash nor a failover
//! repeats a number. The next range is taken when one is begun: its flush, by the log's own process, costs nobody a wait.
//!
//! **Locking.** No lock is held while anything is read, written, flushed or waited for.

use std::convert::Infallible;

use id_gen_core::planted::Fault;
use id_gen_core::ticket::shared::{Answer, Set, Used};
use id_gen_core::ticket::{Counter, Run, Taken};
use id_gen_core::time::NS_PER_MS;
use pgrx::pg_sys;

use crate::error::{Error, Message, ticket};
use crate::fleet::commands;
use crate::os::clock;
use crate::pg::sequence::{self, NoNumbers, OnPage, Sequence};
use crate::pg::wait_event::WaitEvent;
use crate::pg::{server, wal};
use crate::shared::SharedState;
use crate::shared::tickets::{Fetch, Held, Key, Names, Place, Task, Tickets};
use crate::tickets::bound;

/// What came of an attempt.
pub enum Got {
    /// Numbers.
    Numbers(Taken),
    /// The place is another's by now.
    Lost,
}

/// Takes up to so many numbers of a sequence that this transaction has locked; those that were given back and come after
/// `after` first.
///
/// # Errors
/// If there are none.
pub fn take(
    shared: &SharedState,
    oid: pg_sys::Oid,
    held: Held,
    step: i64,
    after: Option<i64>,
    wanted: u32,
) -> Result<Got, Error> {
    let tickets = &shared.tickets;
    let place = tickets.place(held.index);
    let mut waited = false;
    let mut patience = None;
    loop {
        if place.generation() != held.generation {
            return Ok(Got::Lost);
        }
        if place.has_given_back()
            && let Some(run) = tickets.take_given_back(held, after, wanted)
        {
            return Ok(Got::Numbers(Taken { run, step, range: 0 }));
        }
        if let Some(taken) = place.take(held.generation, wanted) {
            return Ok(Got::Numbers(taken));
        }
        match tickets.task(held) {
            Task::Find => return Ok(Got::Lost),
            Task::Take => {}
            Task::Begin(lsn) => begin(shared, oid, held, lsn)?,
            Task::Count(run) => count_over(tickets, oid, held, run)?,
            Task::Await { ask, answers, refused } => {
                if !waited {
                    waited = true;
                    tickets.count_wait(held);
                }
                await_registry(shared, oid, held, &mut patience, (ask, answers, refused))?;
            }
            Task::Fetch(wanted) => {
                if let Err(error) = fetch(tickets, oid, held, wanted) {
                    tickets.count(held, |counts| counts.refusals += 1);
                    return Err(error);
                }
            }
            Task::Wait => {
                if !waited {
                    waited = true;
                    tickets.count_wait(held);
                }
                tickets.nap(WaitEvent::Ticket);
            }
        }
    }
}

/// Begins the next range, and takes the one after it from the sequence.
fn begin(shared: &SharedState, oid: pg_sys::Oid, held: Held, lsn: wal::Lsn) -> Result<(), Error> {
    let tickets = &shared.tickets;
    make_durable(lsn)?;
    let unconfirmed = !wal::waits_for_flush();
    if let Some(next) = tickets.begin(held, lsn, unconfirmed) {
        if tickets.has_registry() {
            tickets.want(held, next.size, next.after.map(Used::of_tickets));
            shared.registrar.wake();
        } else {
            // If there is no other range, whoever needs it is told so.
            let _ = fetch(tickets, oid, held, next);
        }
    }
    Ok(())
}

/// Drops what is held if somebody has set the sequence, as its page says, and raises the page above all numbers that were
/// returned.
///
/// # Errors
/// If its page is damaged.
pub fn heed(
    tickets: &Tickets,
    oid: pg_sys::Oid,
    held: Held,
    on_page: &OnPage,
) -> Result<(), Error> {
    if on_page.origin.is_tickets() {
        return Ok(());
    }
    of_sequence(oid, |sequence| sequence.heed(|page| tickets.heed(held, page)))
}

/// Has the sequence count over a range that the registry gave: what follows on this server, with a registry or without, is
/// above. A range that does not lie above what it has counted is dropped, with all else that is held.
fn count_over(tickets: &Tickets, oid: pg_sys::Oid, held: Held, run: Run) -> Result<(), Error> {
    match of_sequence(oid, |sequence| sequence.raise_over(run, |page| tickets.heed(held, page))) {
        // Nothing that may fail comes between the two.
        Ok(Some((run, lsn))) => tickets.counted(held, run, lsn),
        Ok(None) => {}
        Err(error) => {
            tickets.count(held, |counts| counts.refusals += 1);
            tickets.discard(server::database(), oid.to_u32());
            return Err(error);
        }
    }
    Ok(())
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
    let Patience { answers: before, since_ns } =
        patience.get_or_insert_with(|| Patience { answers, since_ns: clock::mono_ns() });
    if let Some(refused) = refused.filter(|_| answers > *before) {
        tickets.count(held, |counts| counts.refusals += 1);
        return Err(refused_by_registry(oid, refused));
    }
    if let Some(size) = ask {
        let used = of_sequence(oid, |sequence| {
            let OnPage { counter, origin, .. } = sequence.on_page()?;
            let last = counter.last_value;
            Ok(counter.is_called.then_some(Used { last, by_tickets: origin.is_tickets() }))
        })?;
        tickets.want(held, size, used);
        shared.registrar.wake();
    }
    let (max_wait_ms, trouble) = {
        let state = shared.lock();
        (state.settings.max_wait_ms, state.membership.trouble)
    };
    if clock::mono_ns().saturating_sub(*since_ns) >= u64::from(max_wait_ms) * NS_PER_MS {
        tickets.count(held, |counts| counts.refusals += 1);
        let runs = shared.registrar.is_running();
        return Err(ticket::no_answer(max_wait_ms, trouble.as_ref(), runs).into());
    }
    tickets.nap(WaitEvent::Registry);
    Ok(())
}

fn refused_by_registry(oid: pg_sys::Oid, refused: Answer) -> Error {
    let told: Result<Infallible, Error> = bound::open(oid, |found| {
        let last_value = found.counter().map_or(0, |counter| counter.last_value);
        let key = bound::names(found).in_registry();
        let message =
            ticket::refused(&found.typed_name(), &key, &found.definition, last_value, refused);
        Err(message.into())
    });
    let Err(refusal) = told;
    refusal
}

/// Waits until a standby has what the numbers of the current range rest on, where the session waits for one.
///
/// # Errors
/// If the wait was cancelled.
pub fn confirm(place: &Place) -> Result<(), Error> {
    let lsn = place.unconfirmed();
    if lsn != wal::Lsn::default() && wal::waits_for_standby() {
        make_durable(lsn)?;
        if wal::waits_for_flush() {
            place.confirm(lsn);
        }
    }
    Ok(())
}

fn make_durable(lsn: wal::Lsn) -> Result<(), Error> {
    wal::make_durable(lsn).map_err(|wal::Cancelled| ticket::standby_wait_cancelled().into())
}

/// Lets sessions use what was put back after a restart, if nobody has changed the sequence since it was put aside, and its
/// disk is not an older one. It is written again, so that this holds once.
///
/// # Errors
/// If the sequence can't be read or written.
pub fn settle_put_back(
    tickets: &Tickets,
    oid: pg_sys::Oid,
    key: &Key,
    names: &Names,
) -> Result<(), Error> {
    if tickets.put_back_of(key).is_none() {
        return Ok(());
    }
    // One session at a time has the page. Who comes before this one has flushed the log writes it once more.
    let lsn = of_sequence(oid, |sequence| {
        sequence.write_again(
            |counter, lsn| {
                let (last_value, at) = tickets.put_back_of(key)?;
                let is_same = counter == Counter { last_value, is_called: true } && lsn == at;
                Some(is_same || Fault::AsideUsedTwice.is_planted())
            },
            |written| tickets.check_put_back(key, written),
        )
    })?;
    wal::flush(lsn);
    if lsn != wal::Lsn::default() {
        tickets.settle_put_back(key, names, lsn);
    }
    Ok(())
}

/// Takes a range from the sequence, for later.
fn fetch(tickets: &Tickets, oid: pg_sys::Oid, held: Held, fetch: Fetch) -> Result<(), Error> {
    // The longest way to a range begins here, so this is a place to be cancelled.
    pgrx::check_for_interrupts!();
    let heed = |page: &OnPage| tickets.heed(held, page);
    if let Some((run, lsn)) = of_sequence(oid, |sequence| sequence.advance(fetch.size, heed))? {
        tickets.deposit(held, fetch, run, lsn);
        wal::flush_soon(lsn);
    }
    Ok(())
}

/// Asks the sequence, which is locked, for something.
fn of_sequence<R>(
    oid: pg_sys::Oid,
    ask: impl FnOnce(&Sequence) -> Result<R, NoNumbers>,
) -> Result<R, Error> {
    bound::open(oid, |found| ask(found).map_err(|none| bound::refusal(found, &none)))
}

/// Drops what this server holds of a sequence.
///
/// # Errors
/// If the role may not set the sequence.
pub fn discard(tickets: &Tickets, oid: pg_sys::Oid) -> Result<(), Error> {
    sequence::lock(oid);
    bound::open(oid, |found| {
        // SAFETY: reads a variable of this process.
        let role = unsafe { pg_sys::GetUserId() };
        if !sequence::may_set(oid, role) {
            let role = server::role_name(role);
            return Err(Error::from(ticket::denied(&found.typed_name(), "UPDATE", &role)));
        }
        Ok(())
    })?;
    tickets.discard(server::database(), oid.to_u32());
    Ok(())
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
    let (name, key, definition, next) = bound::open(oid, |found| {
        // SAFETY: reads a variable of this process.
        if !sequence::owns(oid, unsafe { pg_sys::GetUserId() }) {
            return Err(Error::from(ticket::not_owner(&found.typed_name())));
        }
        bound::check(found)?;
        let counter = found.counter().map_err(|none| bound::refusal(found, &none))?;
        let next = found.definition.steps.next(counter);
        let next = next.ok_or_else(|| ticket::ended(&found.typed_name(), &found.definition))?;
        let key = bound::names(found).in_registry();
        Ok((found.typed_name(), key, found.definition, next))
    })?;
    let set = commands::set_ticket(key.clone(), definition.steps.step, next, above)?;
    tickets.discard(server::database(), oid.to_u32());
    match set {
        Set::New(shared) => Ok(Shared { next: shared.next, notice: None }),
        Set::Changed(shared) => {
            Ok(Shared { next: shared.next, notice: Some(ticket::set_again(&name)) })
        }
        Set::Damaged => Err(ticket::damaged_in_registry(&name, &key, next - 1).into()),
        Set::Ended => Err(ticket::ended(&name, &definition).into()),
    }
}
