//! The first claim of a server: reads what the last run reserved, decides where IDs may go on, and makes
//! the first reservation. And starting again, when an administrator says so.
//!
//! **Locking.** Whoever starts holds the reservation's lock; see [`crate::generate::reserve`].

use id_gen_core::allocator::Allocator;
use id_gen_core::fleet::Number;
use id_gen_core::identity::{Identity, IdentitySource};
use id_gen_core::layout::Layout;
use id_gen_core::planted::Fault;
use id_gen_core::replicated::Replayed;
use id_gen_core::reservation::Record;
use id_gen_core::startup::{
    self, Assignment, Granted, StartPoint, StartupContext, StartupError, StoredRecord,
};

use crate::durable::{self, replicated};
use crate::error::{Error, Reason};
use crate::generate::{reserve, test_server};

use crate::os::test_stream;
use crate::pg::transaction;
use crate::shared::{SharedState, State, WriteGuard, shard_list};

/// What an administrator decided about a server that may not start by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: start if it is safe.
    None,
    /// IDs of the new layout may repeat or go below those of the old one.
    AcceptLayout,
    /// This directory is a copy, and the only one that is in use with its worker ID: neither its original nor another copy is.
    AcceptCopy,
    /// Start again above the clock, and above this time, whatever is on disk.
    Reset {
        /// Unix milliseconds.
        above_ms: i64,
    },
}

/// How a server started; all times in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// No ID is of an earlier time.
    pub first_ms: i64,
    /// When the clock shows this, calls get IDs.
    pub ready_ms: i64,
    /// Up to which time IDs had been reserved before, as far as is known.
    pub reserved_until_ms: Option<i64>,
    /// That this directory is a copy, if it was reset although its worker ID may be the original's.
    pub reset_copy: Option<StartupError>,
}

/// Starts to make IDs once it may write the reservation, if that is safe without a decision.
///
/// # Errors
/// As for [`start`]; or what was replayed is damaged.
pub fn start_undecided(shared: &SharedState) -> Result<(), Error> {
    let replayed = replicated::read()?;
    start(shared, replayed, &shared.write_lock.lock(), Decision::None).map(|_| ())
}

/// Starts to make IDs. A server that has started is started again only by [`Decision::Reset`], and by
/// [`Decision::AcceptCopy`] if it is a copy; for any other decision it stays as it is, and the result is `None`.
///
/// # Errors
/// Why it is not safe, or why the file can't be read or written.
pub fn start(
    shared: &SharedState,
    replayed: Option<Replayed>,
    guard: &WriteGuard<'_>,
    decision: Decision,
) -> Result<Option<Started>, Error> {
    test_server::mark(shared, guard)?;
    let layout = *shared.layout()?;
    let resets = matches!(decision, Decision::Reset { .. });
    let accepts_copy = decision == Decision::AcceptCopy;
    let (number, typed, max_lead_ms, max_jump_ns, restarts) = {
        let mut state = shared.lock();
        // A registry may wait for this decision. A server for tests needs none.
        let typed = state.typed_number().filter(|_| test_stream::stream().is_none());
        let is_refused = typed.is_some_and(|it| shared.original_with(&state, it).is_some());
        let restarts = resets || accepts_copy && is_refused;
        if state.allocator.is_some() && !restarts {
            return Ok(None);
        }
        // Starting trusts the clock: whether it may, where it has jumped since, is a decision of its own.
        state.check_clocks().map_err(|by_ns| state.jumped(by_ns))?;
        (OwnNumber::of(&state), typed, state.settings.max_lead_ms, state.max_jump_ns(), restarts)
    };
    durable::settle().map_err(|error| {
        // Counts like the write that would follow.
        shared.lock().count_write(0, false);
        Reason::Unwritten((&error).into())
    })?;
    let identity = number.identity;
    // What is accepted is the number that an administrator assigned.
    let assignment = match typed {
        Some(_) if accepts_copy => Assignment::Manual(typed),
        _ => number.assignment(),
    };
    let context = StartupContext {
        is_only_copy: accepts_copy,
        ..durable::startup_context(layout, max_lead_ms, replayed, assignment)?
    };
    // Where no ID can be made, none may be reserved: a reservation binds whoever comes after.
    durable::clock_tick(&context.layout, context.clock.wall_ns)?;
    // From here on nothing is claimed, so that it is known where the old IDs end, and a smaller bound
    // may be written.
    let old = if restarts { shared.take_allocator() } else { None };
    let (stored, unreadable) = read_stored();
    let copy = original_of(shared, stored.record(), &context);
    // The original may have gone on above what this copy knows of.
    let own = old.as_ref().filter(|_| copy.is_none());
    let mut start = start_point(&stored, unreadable, &context, &number, own, decision)?;
    if accepts_copy && copy.is_some() {
        start.first_ms = start.first_ms.max(startup::above_clocks(&context).first_ms);
    }
    // A reset confirms the number that it warns of.
    let confirmed = context.compared().flatten().filter(|_| resets || accepts_copy);
    // Also those that a file names no more which was lost since the server started.
    let known = shared.lock().originals;
    let put_originals = |confirmed: Option<Number>| {
        let mut state = shared.lock();
        state.originals = startup::originals(stored.record(), &context, known, confirmed);
        state.recorded = confirmed.or_else(|| startup::recorded_number(stored.record(), &context));
        shared.put_shards(&mut state);
    };
    put_originals(confirmed);
    shard_list::load(shared, &layout, guard);
    let first_of_shards_ms = first_of_shards(&stored, &start, &context, resets);
    // What shards made within reach of the clock is not forgotten either.
    let resets_to_ms = resets.then(|| startup::above_clocks(&context).first_ms);
    let reserved_until_ms = match old {
        Some(old) => Some(old.reserved_until_ms(&layout)),
        None => stored.reserved_until_ms().max(startup::replayed_ms(stored.record(), &context)),
    };
    let mut allocator = first_allocator(shared, &layout, &start, &identity, resets_to_ms);
    let mut first =
        allocator.next_reservation(&layout, &identity, context.clock, max_lead_ms, max_jump_ns);
    let of_shards_ms = shared.shards_reserved_until_ms(&shared.lock(), &layout);
    let kept_ms = resets_to_ms.map_or(of_shards_ms, |reach_ms| reach_ms.min(of_shards_ms));
    first.until_ms = first.until_ms.max(kept_ms);
    if let Err(error) = reserve::write(shared, guard, layout, &identity, first) {
        // A decision is in force only once it is durable.
        put_originals(None);
        return Err(error);
    }
    shard_list::begin(shared, &layout, first_of_shards_ms, resets_to_ms, guard);
    if context.upgraded_ms.is_some() {
        durable::upgrade::remove()?;
    }
    // Listed before anything is made: what any of these holds is of an earlier run.
    let prepared = transaction::prepared();
    let mut state = shared.lock();
    allocator.extend(&layout, state.identity.bounded_ms(first.until_ms));
    if !state.identity.goes_on_as(&identity) {
        // As in `reserve::extend`.
        allocator.change_node(&layout, &state.identity);
    }
    shared.start_horizon(&mut state, &layout, &allocator, &prepared, restarts)?;
    state.put_allocator(allocator);
    shared.shards().ceiling().raise(allocator.reserved_end());
    shared.put_shards(&mut state);
    // It asks which shards this server has.
    shared.registrar.wake();
    let first_ms = allocator.frontier_ms(&layout).max(context.clock.wall_ms());
    let ready_ms = first_ms.saturating_sub(max_lead_ms.into());
    let reset_copy = copy.filter(|_| resets);
    Ok(Some(Started { first_ms, ready_ms, reserved_until_ms, reset_copy }))
}

/// Whether a server could start to make IDs of a layout now.
///
/// # Errors
/// What generating would be refused with.
pub fn try_layout(shared: &SharedState, layout: Layout) -> Result<(), Error> {
    let (number, max_lead_ms) = {
        let state = shared.lock();
        (OwnNumber::of(&state), state.settings.max_lead_ms)
    };
    let context =
        durable::startup_context(layout, max_lead_ms, replicated::read()?, number.assignment())?;
    durable::clock_tick(&context.layout, context.clock.wall_ns)?;
    if let Some(own) = number.identity.number() {
        layout
            .node_bits(own.datacenter.into(), own.worker.into())
            .map_err(|error| Reason::NumberOutOfRange(error, layout))?;
    }
    undecided_start(&context, &number).map(|_| ())
}

/// Whether a claim could rely on the reservation now; and from where on it would generate. Where the last write failed, this
/// tries again, as a claim would; otherwise it writes nothing.
///
/// # Errors
/// What the claim would be refused with.
pub fn check_reservation(shared: &SharedState) -> Result<Outlook, Error> {
    let (started, failing) = {
        let state = shared.lock();
        (state.allocator.is_some(), state.write_failing)
    };
    match (started, failing) {
        (_, false) => {}
        (true, true) => reserve::extend(shared, &shared.write_lock.lock())?,
        (false, true) => start_undecided(shared)?,
    }
    outlook(shared)
}

/// From where on a server generates: as it does, or as it would if it started now. A server without an allocator does not
/// begin at its clock, and whoever looks at it learns only here where it does.
#[derive(Clone, Copy)]
pub struct Outlook {
    /// The allocator of the server's own number.
    pub allocator: Allocator,
    /// No shard starts below this position.
    pub first_of_shards: u64,
}

/// From where on a server generates, or would if it started now. Nothing is changed.
///
/// # Errors
/// The reason that keeps it from starting.
pub fn outlook(shared: &SharedState) -> Result<Outlook, Error> {
    let layout = *shared.layout()?;
    let (number, max_lead_ms) = {
        let state = shared.lock();
        if let Some(allocator) = state.allocator {
            return Ok(Outlook { allocator, first_of_shards: state.shards.start });
        }
        (OwnNumber::of(&state), state.settings.max_lead_ms)
    };
    let context =
        durable::startup_context(layout, max_lead_ms, replicated::read()?, number.assignment())?;
    let (stored, start) = undecided_start(&context, &number)?;
    let first_of_shards_ms = first_of_shards(&stored, &start, &context, false);
    let mut allocator = first_allocator(shared, &layout, &start, &number.identity, None);
    if let Some(own) = number.identity.number() {
        allocator.raise(shard_list::end_before_start(shared, &layout, own)?);
    }
    Ok(Outlook {
        allocator,
        first_of_shards: layout.first_position(layout.tick_from(first_of_shards_ms)),
    })
}

/// The allocator that a server starts with, with nothing reserved. The last run may have left the clocks of this boot, which
/// tell whether to trust the clock now, unless an administrator has said so. A reset forgets what was made with the number
/// as that of a shard, above a Unix millisecond.
fn first_allocator(
    shared: &SharedState,
    layout: &Layout,
    start: &StartPoint,
    identity: &Identity,
    resets_to_ms: Option<i64>,
) -> Allocator {
    let accepted = shared.lock().accepted_clocks();
    let monitor = accepted.unwrap_or(start.monitor);
    let mut allocator = Allocator::new(layout, &StartPoint { monitor, ..*start });
    if let Some(end) = identity.number().and_then(|number| shared.end_as_shard(layout, number)) {
        let reach = resets_to_ms.map(|ms| layout.first_position(layout.tick_from(ms)));
        allocator.raise(reach.map_or(end, |reach| reach.min(end)));
    }
    allocator
}

/// That this directory is a copy whose number may be its original's, if that is so, whatever a superuser accepts now.
fn original_of(
    shared: &SharedState,
    record: Option<&Record>,
    context: &StartupContext,
) -> Option<StartupError> {
    let context = StartupContext { is_only_copy: false, ..*context };
    let known = || shared.original_with(&shared.lock(), context.compared().flatten()?);
    // The file may have been lost since the server started.
    startup::check_copy(record, &context).err().or_else(known)
}

/// The stored record, and the start point that follows from it.
fn undecided_start(
    context: &StartupContext,
    number: &OwnNumber,
) -> Result<(StoredRecord, StartPoint), Error> {
    let (stored, unreadable) = read_stored();
    let start = start_point(&stored, unreadable, context, number, None, Decision::None)?;
    startup::check_copy(stored.record(), context)
        .map_err(|error| Reason::Startup(error, context.layout))?;
    Ok((stored, start))
}

/// What this server makes IDs with.
struct OwnNumber {
    identity: Identity,
    /// As [`Right::others_ms`](id_gen_core::fleet::Right::others_ms).
    others_ms: i64,
}

impl OwnNumber {
    fn of(state: &State) -> OwnNumber {
        let others_ms = state.membership.active_grant.map_or(i64::MIN, |grant| grant.others_ms);
        OwnNumber { identity: state.identity, others_ms }
    }

    fn assignment(&self) -> Assignment {
        match self.identity.source {
            IdentitySource::Setting => Assignment::Manual(self.identity.number()),
            IdentitySource::Registry => Assignment::Registry,
        }
    }
}

/// The reservation of the last run: lost if it cannot be read, with the reason.
fn read_stored() -> (StoredRecord, Option<Error>) {
    match durable::read() {
        Ok(stored) => (stored, None),
        Err(error) => (StoredRecord::Lost, Some(error)),
    }
}

/// Where IDs go on, or start again.
fn start_point(
    stored: &StoredRecord,
    unreadable: Option<Error>,
    context: &StartupContext,
    &OwnNumber { identity, others_ms }: &OwnNumber,
    old: Option<&Allocator>,
    decision: Decision,
) -> Result<StartPoint, Error> {
    if let Decision::Reset { above_ms } = decision {
        let start = startup::above_clocks(context);
        // Where the old IDs end is known, if there is an allocator: if that is within reach of the
        // clock, the new ones go on there.
        let first_ms =
            old.map_or(start.first_ms, |old| start.first_ms.min(old.next_tick_ms(&context.layout)));
        let above_ms = if Fault::ResetIgnoresAbove.is_planted() { i64::MIN } else { above_ms };
        return Ok(StartPoint { first_ms: first_ms.max(above_ms).max(others_ms), ..start });
    }
    if let Some(error) = unreadable {
        return Err(error);
    }
    let (mut stored, mut context) = (stored.clone(), *context);
    if decision == Decision::AcceptLayout {
        if let StoredRecord::Found(record) = &mut stored {
            record.layout = context.layout;
        }
        if let Some(replayed) = &mut context.replayed {
            replayed.bound.layout = context.layout;
        }
    }
    let context = &context;
    let start = match identity.first_ms.zip(identity.number()) {
        Some((first_ms, number)) => {
            startup::granted_start_point(&stored, context, Granted { number, first_ms })
        }
        None => startup::start_point(&stored, context),
    };
    start.map_err(|error| match error {
        // To accept the layout would fail again, because it is a copy.
        StartupError::LayoutBelow { .. } if decision == Decision::AcceptCopy => {
            Reason::CopyOfOtherLayout(error, context.layout).into()
        }
        error => Reason::Startup(error, context.layout).into(),
    })
}

/// Where IDs of shards may go on, in Unix milliseconds. A number that was granted begins above all that anybody made with
/// it, and says nothing of shards: for them, what was reserved does.
fn first_of_shards(
    stored: &StoredRecord,
    start: &StartPoint,
    context: &StartupContext,
    resets: bool,
) -> i64 {
    if resets {
        return start.first_ms;
    }
    let reserved_ms = stored.reserved_until_ms().unwrap_or(i64::MIN);
    let replayed_ms = startup::replayed_ms(stored.record(), context).unwrap_or(i64::MIN);
    start.first_ms.max(reserved_ms).max(replayed_ms)
}
