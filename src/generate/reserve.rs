//! Moving the reservation: what is on disk before claims may use it, and given back when nobody does.
//!
//! **Locking.** Whoever is here holds the reservation's lock. The state's lock is held to plan a write
//! and to let claims use what was written, never during the write.

use id_gen_core::allocator::Reservation;
use id_gen_core::directory::Directory;
use id_gen_core::fleet::Number;
use id_gen_core::fleet::member::Witness;
use id_gen_core::identity::Identity;
use id_gen_core::layout::Layout;
use id_gen_core::originals::{Claim, Original};
use id_gen_core::planted::Fault;
use id_gen_core::replicated::Bound;
use id_gen_core::reservation::{Record, RecordedNode};
use id_gen_core::startup::UNKNOWN_BOOT;

use crate::durable::{self, number_file};
use crate::error::Error;
use crate::os::clock;
use crate::pg::{server, wal};
use crate::shared::{SharedState, WriteGuard};

/// Extends the reservation as far as it should reach, if it does not already. Logs its bound again after each checkpoint.
///
/// # Errors
/// If the file can't be written.
pub fn extend(shared: &SharedState, guard: &WriteGuard<'_>) -> Result<(), Error> {
    let layout = *shared.layout()?;
    shared.sample();
    shared.sample_shards();
    let redo = wal::redo();
    let (identity, next) = {
        let state = shared.lock();
        let Some(allocator) = &state.allocator else { return Ok(()) };
        let (now, max_lead_ms) = (clock::both(), state.settings.max_lead_ms);
        let max_jump_ns = state.max_jump_ns();
        // Far enough for whatever is furthest: the server's own number, or one of its shards.
        let mut furthest = *allocator;
        furthest.raise(shared.shards().end());
        let mut next =
            furthest.next_reservation(&layout, &state.identity, now, max_lead_ms, max_jump_ns);
        let is_logged = state.logged_to.is_none_or(|logged_to| logged_to > redo);
        if next.until_ms <= allocator.reserved_until_ms(&layout) && is_logged {
            shared.shards().ceiling().raise(allocator.reserved_end());
            return Ok(());
        }
        next.until_ms = next.until_ms.max(shared.shards_reserved_until_ms(&state, &layout));
        (state.identity, next)
    };
    if !Fault::ReservationNotExtended.is_planted() {
        write(shared, guard, layout, &identity, next)?;
    }
    let mut state = shared.lock();
    // What was written names the server's numbers. If they have changed since, nothing is reserved for
    // the new ones, and whoever needs an ID comes back here.
    let until_ms = state.identity.bounded_ms(next.until_ms);
    if state.identity.goes_on_as(&identity)
        && let Some(allocator) = &mut state.allocator
    {
        allocator.extend(&layout, until_ms);
        shared.shards().ceiling().raise(allocator.reserved_end());
    }
    Ok(())
}

/// Gives back what is reserved and not used, so that the next start need not wait for it.
///
/// # Errors
/// If the file can't be written; the larger bound then stays on disk, which is safe.
pub fn release(shared: &SharedState, guard: &WriteGuard<'_>) -> Result<(), Error> {
    let layout = *shared.layout()?;
    let (identity, rest) = {
        let mut state = shared.lock();
        let identity = state.identity;
        // From here on a claim has to extend the reservation first, and so to wait for this write. Shards that went to
        // other servers count: they may come back.
        let made_end = shared.lower_shards(&mut state);
        let Some(allocator) = &mut state.allocator else { return Ok(()) };
        let until_ms = allocator.release_above(&layout, made_end);
        (identity, Reservation { until_ms, clock: allocator.monitor.trusted() })
    };
    write(shared, guard, layout, &identity, rest)
}

/// Makes a reservation durable, counts the write, and tells the standbys.
///
/// # Errors
/// If the file can't be written.
pub fn write(
    shared: &SharedState,
    _guard: &WriteGuard<'_>,
    layout: Layout,
    identity: &Identity,
    reservation: Reservation,
) -> Result<(), Error> {
    let is_for_tests = shared.test_start().is_some();
    let (number, originals) = {
        let state = shared.lock();
        (shared.number_to_record(&state, identity), state.originals)
    };
    let is_accepted =
        number.is_some_and(|it| originals.is_accepted(Original { layout, number: it }));
    // No session claims before recovery is over, and the keeper starts after it.
    let record = |place| Record {
        place,
        layout,
        until_ms: reservation.until_ms,
        // Of no boot, so that the clock of a server for tests is not compared with the machine's later.
        boot: if is_for_tests { UNKNOWN_BOOT } else { durable::boot() },
        clock: reservation.clock,
        server_start_us: server::start_us(),
        node: number.map(|Number { datacenter, worker }| RecordedNode {
            worker,
            datacenter,
            granted_until_ms: identity.granted_until_ms(),
        }),
        // No bound is logged between this and the write: whoever logs one holds this lock.
        log_position: wal::flushed().0,
        originals,
    };
    let since_ns = clock::mono_ns();
    let written = durable::write(record)
        .and_then(|()| write_witness(shared, reservation.until_ms))
        .and_then(|()| durable::directory());
    let took_ns = clock::mono_ns().saturating_sub(since_ns);
    {
        let mut state = shared.lock();
        state.count_write(took_ns, written.is_ok());
        if written.is_ok() {
            // A number that was granted for a time is another server's later.
            state.recorded = number.filter(|_| identity.valid_until_ms.is_none());
        }
    }
    let directory = written?.unwrap_or(Directory::NOWHERE);
    // Before claims may use it, so that no commit with such an ID is replayed without it. Where the bound
    // was lowered, they could not use the rest any more before this.
    let logged_to = durable::replicated::write(&Bound {
        system_identifier: server::system_identifier(),
        until_ms: reservation.until_ms,
        layout,
        number,
        claim: match identity.granted_until_ms() {
            _ if is_accepted => Claim::Accepted,
            Some(_) => Claim::Granted,
            None => Claim::Assigned,
        },
        directory,
    });
    shared.lock().logged_to = logged_to;
    Ok(())
}

/// The memory of this boot has to know of the reservation before claims use it: the disk may be rolled back.
fn write_witness(shared: &SharedState, until_ms: i64) -> Result<(), Error> {
    let Some(witness) = shared.lock().membership.witness else { return Ok(()) };
    let reserved_ms = witness.reserved_ms.max(until_ms);
    number_file::write_witness(Some(&Witness { reserved_ms, ..witness }))
}
