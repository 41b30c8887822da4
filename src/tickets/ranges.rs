//! From a used-up range to the next: the slow path of a number.
//!
//! **Order.** A range is counted on the sequence's page, and the log of that is flushed, on a synchronous standby too
//! where the session's commits wait for one, before any of its numbers is handed out. So neither a crash nor a failover
//! repeats a number. The next range is fetched when one is begun: its flush, by the log's own process, costs nobody a wait.
//! Sessions that find no range at the same time wait for each other at the page, and all but the first find one there.
//!
//! **Locking.** No lock is held while anything is read, flushed or waited for; the page is locked while it is written.

use id_gen_core::planted::Fault;
use id_gen_core::ticket::shared::{NoRange, Set};
use id_gen_core::time::NS_PER_MS;
use pgrx::pg_sys;

use crate::error::{Error, Message, ticket};
use crate::fleet::commands;
use crate::os::clock;
use crate::pg::wait_event::WaitEvent;
use crate::pg::{sequence, server, wal};
use crate::shared::SharedState;
use crate::shared::tickets::{Held, Next, Place, Task, Tickets};
use crate::tickets::bound;

/// How long a session that waits for the registry sleeps before it looks again.
const LOOK_AGAIN_MS: u64 = 5;

/// Takes the next number of a sequence that this transaction has locked; `None` if its place is another's by now, or what it
/// held was dropped.
///
/// # Errors
/// If there is none.
pub fn take(shared: &SharedState, oid: pg_sys::Oid, held: Held) -> Result<Option<i64>, Error> {
    let tickets = &shared.tickets;
    let count_refusal = |error| {
        tickets.count(held, |counts| counts.refusals += 1);
        error
    };
    // Since when this call waits for the registry, on the monotonic clock.
    let mut since_ns = None;
    loop {
        if let Some(number) = tickets.place(held.index).take(held.generation) {
            return Ok(Some(number));
        }
        match tickets.task(held) {
            Task::Find => return Ok(None),
            Task::Take => {}
            Task::Begin(lsn) => begin(shared, oid, held, lsn)?,
            Task::Fetch => {
                let fetched = fetch(shared, oid, held, since_ns);
                if let Some(number) = fetched.map_err(count_refusal)? {
                    return Ok(Some(number));
                }
            }
            Task::Await => {
                if since_ns.is_none() {
                    tickets.count(held, |counts| counts.waits += 1);
                }
                let since_ns = *since_ns.get_or_insert_with(clock::mono_ns);
                await_registry(shared, since_ns).map_err(count_refusal)?;
            }
        }
    }
}

/// Begins the next range, and fetches the one after it.
fn begin(shared: &SharedState, oid: pg_sys::Oid, held: Held, lsn: wal::Lsn) -> Result<(), Error> {
    if !Fault::RangeNotFlushed.is_planted() {
        make_durable(lsn)?;
    }
    // Also where this session waits for a standby, it may have none yet, right after a reload.
    let unconfirmed = !wal::is_on_standby(lsn);
    if shared.tickets.begin(held, lsn, unconfirmed) {
        // If there is no other range, whoever needs it is told so.
        let _ = fetch(shared, oid, held, None);
    }
    Ok(())
}

/// Has the sequence count over its next range, or the registry asked for one. A sequence that is not in the log yet is its
/// transaction's alone: its numbers are handed out one by one, without a range. `since_ns`: since when the call waits for the
/// registry, if it does.
///
/// # Errors
/// If there is none.
fn fetch(
    shared: &SharedState,
    oid: pg_sys::Oid,
    held: Held,
    since_ns: Option<u64>,
) -> Result<Option<i64>, Error> {
    // The longest way to a range begins here, so this is a place to be cancelled.
    pgrx::check_for_interrupts!();
    let tickets = &shared.tickets;
    let sequence = bound::open(oid)?;
    let (steps, is_logged) = (sequence.definition.steps, sequence.is_logged());
    let most = if is_logged { u32::MAX } else { 1 };
    let page = sequence.writable_page().map_err(|what| bound::damaged(&sequence, what))?;
    let says = page.says();
    match tickets.next_range(held, &says, since_ns, most) {
        Next::Nothing => {}
        Next::Count { run, is_of_fleet } => {
            let written = page.write(steps.ending(run), is_of_fleet);
            let is_single = !is_logged && !is_of_fleet;
            if !is_single {
                tickets.counted(held, run, written);
            }
            drop(page);
            wal::flush_soon(written.lsn);
            return Ok(is_single.then_some(run.first));
        }
        Next::Ask => {
            drop(page);
            shared.registrar.wake();
        }
        Next::Refuse(why) => {
            drop(page);
            let (name, key) = (sequence.typed_name(), sequence.names().in_registry());
            let last_value = says.counter.last_value;
            return Err(ticket::refused(&name, &key, &sequence.definition, last_value, why).into());
        }
    }
    Ok(None)
}

/// Waits for what the registry says, or for a while.
///
/// # Errors
/// If `id_gen.max_wait` is over.
fn await_registry(shared: &SharedState, since_ns: u64) -> Result<(), Error> {
    let (max_wait_ms, trouble) = {
        let state = shared.lock();
        (state.settings.max_wait_ms, state.membership.trouble)
    };
    if clock::mono_ns().saturating_sub(since_ns) >= u64::from(max_wait_ms) * NS_PER_MS {
        let runs = shared.registrar.is_running();
        return Err(ticket::no_answer(max_wait_ms, trouble.as_ref(), runs).into());
    }
    WaitEvent::Registry.wait_on_latch(LOOK_AGAIN_MS);
    Ok(())
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

/// Has the fleet's registry give the ranges of a sequence to all servers of the fleet, above what this server has counted and
/// above a number: the next number that it gives, and what to tell of other servers, which may have ranges from before.
///
/// # Errors
/// If the role does not own the sequence, or the registry has no answer.
pub fn share(
    tickets: &Tickets,
    oid: pg_sys::Oid,
    above: Option<i64>,
) -> Result<(i64, Option<Message>), Error> {
    sequence::lock(oid);
    let sequence = bound::open(oid)?;
    let (name, key) = (sequence.typed_name(), sequence.names().in_registry());
    if !sequence.is_own() {
        return Err(ticket::not_owner(&name).into());
    }
    let definition = sequence.definition;
    let counter = bound::page(&sequence)?.says().counter;
    // No connection is waited for while it is open.
    drop(sequence);
    let refused = |why| ticket::refused(&name, &key, &definition, counter.last_value, why);
    let next = definition.steps.next(counter).ok_or_else(|| refused(NoRange::Ended))?;
    let set = commands::set_ticket(key.clone(), definition.steps.step, next, above)?;
    tickets.drop_of(|it| it.is_of(server::database(), oid.to_u32()));
    let Set { next, is_new } = set.map_err(refused)?;
    Ok((next, (!is_new).then(|| ticket::set_again(&name))))
}
