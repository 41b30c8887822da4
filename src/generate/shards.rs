//! IDs of shards: the next one, and which shards this server has.
//!
//! A shard's positions lie in shared memory, and each call moves them on by itself, without the lock. When that is denied
//! the slow path does what it takes, as for the server's own number ([`crate::generate::claim`]).
//!
//! A shard is taken in this order: the fleet's registry, if there is one; the file; and only then the place is opened, in a
//! fleet after a wait, if the registry is unchanged then. The registrar opens all places by one look at the registry; a call
//! that comes first, or finds that the shard has to be written again, asks itself. A shard is given back in the order place, file,
//! registry. At every point in between, no other server may have it.
//!
//! The registry is asked without any lock of shared memory, so a shard may be given back, forgotten or taken again before the
//! answer comes. Whoever asks notes when, and in which epoch of the place ([`id_gen_core::shards`]), and compares both before
//! it owns or opens the shard: an answer to a question from before the end of the wait opens nothing.
//!
//! **Locking.** Whoever takes a shard or gives it back holds PostgreSQL's lock of it from before the registry is asked until
//! it has answered, and the reservation's lock while it plans and writes the file.

use id_gen_core::fleet::Number;
use id_gen_core::fleet::shard::{Had, Member, Outcome, Purpose, Returned, Wanted};
use id_gen_core::frontier::{SequenceStart, end_ms, tick_end};
use id_gen_core::layout::{Field, Layout};
use id_gen_core::lead::{LeadLimit, bulk_threshold};
use id_gen_core::originals::Original;
use id_gen_core::planted::Fault;
use id_gen_core::shards::{ClaimTerms, Denied, Owned, Place};
use id_gen_core::tsc::TscInterval;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::durable;
use crate::durable::shard_file::{self, Found};
use crate::error::fleet::{Trouble, TroubleKind};
use crate::error::shards::{Change, ShardRefusal};
use crate::error::{Error, Reason};
use crate::fleet::{commands, numbers, queue};
use crate::generate::backend::{self, Backend};
use crate::generate::wait::{self, Wait};
use crate::generate::{clocks, keeper, reserve, startup, test_server};
use crate::os::process::PerProcess;
use crate::os::tsc::TscStart;
use crate::os::{clock, test_stream, tsc};
use crate::pg::{reload, shard_lock};
use crate::shared::shard_basis::Asked;
use crate::shared::shard_list::{self, read_file, write_file};
use crate::shared::shards::{ABOVE_MARGIN_MS, Basis, FileState, PLACES};
use crate::shared::{SharedState, State};

/// A claim compares the clocks when the wall clock has gained so much on the last trusted reading, as for the server's own
/// number: 100 ms.
const RECHECK_NS: u64 = 100_000_000;

/// What this process knows of what holds for all shards.
struct Local {
    backend: Backend,
    layout: &'static Layout,
    /// [`SharedState::generation`] and [`reload::time`] when the rest was read.
    generation: u64,
    reload_time: pg_sys::TimestampTz,
    datacenter: u32,
    lead: LeadLimit,
    sequence_start: SequenceStart,
    /// The wall clock when it was last compared with the monotonic one.
    trusted_ns: u64,
    /// What the clock showed last, and how long it does not show the next tick.
    now_tick: u64,
    within_tick: TscInterval,
}

static LOCAL: PerProcess<Option<Local>> = PerProcess::new(None);

impl Local {
    /// Whether the settings are those in force, and the clock may be relied on.
    #[inline(always)]
    fn is_up_to_date(&mut self) -> bool {
        self.reload_time == reload::time()
            && self.generation == self.backend.shared.generation()
            && (self.within_tick.contains(tsc::read()) || self.read_clock())
    }

    #[inline(never)]
    fn read_clock(&mut self) -> bool {
        if test_stream::stream().is_some() {
            // It moves with each ID, which may have to be written down first.
            return false;
        }
        let start = TscStart::now();
        let now_ns = clock::wall_ns();
        self.within_tick = TscInterval::default();
        if now_ns.wrapping_sub(self.trusted_ns) > RECHECK_NS {
            return false;
        }
        let Ok(tick) = self.layout.clock_tick(now_ns) else { return false };
        self.now_tick = tick;
        let end_ns = self.layout.tick_start_ns(tick).saturating_add(self.layout.tick_ns());
        self.within_tick = start.interval(end_ns.saturating_sub(now_ns));
        true
    }

    /// How far ahead of the clock a claim may be: of a session that takes more than its share of the tick, or has been found
    /// to load in bulk before, less far.
    #[inline(always)]
    fn limit(&self, bulk: bool) -> LeadLimit {
        let Local { layout, now_tick, backend: Backend { slot, .. }, .. } = *self;
        let bulk = bulk || slot.taken_in_tick(now_tick) >= bulk_threshold(layout);
        if bulk { self.lead.for_bulk(layout) } else { self.lead }
    }

    /// Takes the next position of a shard, while the clock shows the tick that it showed last.
    #[inline(always)]
    fn claim(&self, number: Number, place: &Place, bulk: bool) -> Result<u64, Denied> {
        let Backend { shared, slot } = self.backend;
        let Local { layout, now_tick, .. } = *self;
        let (datacenter, worker) = (number.datacenter.into(), number.worker.into());
        let node_bits = layout.node_bits(datacenter, worker).map_err(|_| Denied::Closed)?;
        let lead = self.limit(bulk);
        let terms = ClaimTerms { now_tick, lead, sequence_start: self.sequence_start };
        let mut begins = false;
        let claimed = place.claim(layout, &terms, shared.shards().ceiling(), |position| {
            begins |= slot.publish(layout.id_at(position, node_bits));
        });
        match claimed {
            Ok(position) => {
                slot.note_claim(now_tick, 1);
                Ok(layout.id_at(position, node_bits))
            }
            Err(denied) => {
                if begins {
                    slot.pending.clear();
                }
                Err(denied)
            }
        }
    }
}

/// The next ID of a shard, if that is granted at once. Nothing here raises an error or logs, so it needs no guard.
#[inline(always)]
pub fn next_id_at_once(worker: i32) -> Option<u64> {
    LOCAL.with(|local| {
        let local = local.as_mut()?;
        if !local.is_up_to_date() {
            return None;
        }
        let number = Number { datacenter: local.datacenter, worker: u32::try_from(worker).ok()? };
        let place = local.backend.shared.shards().places().find(number)?;
        local.claim(number, place, false).ok()
    })
}

/// The next ID of a shard.
///
/// # Errors
/// This server does not have the shard, or whatever forbids it to make IDs now.
pub fn next_id(worker: i32) -> Result<u64, Error> {
    let backend = backend::attach()?;
    test_server::before_snowflake()?;
    let outcome = next_of(backend, worker);
    if let Err(error) = &outcome {
        backend.shared.events.0.count_refusal(error.reason());
    }
    outcome
}

fn next_of(backend: Backend, worker: i32) -> Result<u64, Error> {
    let shared = backend.shared;
    let layout = shared.layout()?;
    let worker = number_in(layout, worker)?;
    let mut wait: Option<Wait> = None;
    let mut bulk = false;
    loop {
        check_for_interrupts!();
        let number = refresh(backend)?.with_worker(worker);
        let Some(place) = shared.shards().places().find(number).filter(|place| place.is_open())
        else {
            open(shared, layout, number)?;
            continue;
        };
        let attempt = LOCAL.with(|local| {
            local.as_ref().map_or(Err(Denied::Closed), |local| local.claim(number, place, bulk))
        });
        match attempt {
            Ok(id) => return Ok(id),
            Err(Denied::Closed) => {}
            Err(Denied::Exhausted) => {
                durable::clock_tick(layout, clock::wall_ns())?;
                return Err(Reason::AllReserved(*layout).into());
            }
            Err(Denied::Unreserved(position)) => {
                shared.check_grant_at(layout, position)?;
                keeper::start_if_missing(shared);
                wait.get_or_insert_with(|| Wait::new(backend));
                reserve::extend(shared, &shared.write_lock.lock())?;
            }
            Err(Denied::Ahead(position)) => {
                // What the claim was denied by, so that it is granted after the wait.
                let limit = LOCAL.with(|local| local.as_ref().map(|local| local.limit(bulk)));
                let limit = limit.unwrap_or(LeadLimit::of_ticks(0));
                bulk = limit.reserve() > 0;
                let wait = wait.get_or_insert_with(|| Wait::new(backend));
                wait.until_due(layout, limit, position, Some(number))?;
            }
        }
    }
}

/// The datacenter of a server's shards.
struct Datacenter(u32);

impl Datacenter {
    const fn with_worker(&self, worker: u32) -> Number {
        Number { datacenter: self.0, worker }
    }
}

fn number_in(layout: &Layout, worker: i32) -> Result<u32, Error> {
    let max = layout.max_number(Field::Worker);
    layout
        .number(Field::Worker, worker.into())
        .map_err(|_| ShardRefusal::OutOfRange { shard: worker, max }.into())
}

/// Reads settings and clocks anew, once the server has started to make IDs.
///
/// # Errors
/// If it can't, or the clock is not to be trusted.
fn refresh(backend: Backend) -> Result<Datacenter, Error> {
    let shared = backend.shared;
    let layout = shared.layout()?;
    wait::for_grant(backend);
    if shared.lock().shard_basis().is_none() {
        // As in the keeper, what the server reserved before would count as generated with the number that it gets.
        check_declared(shared, layout)?;
        shared.check_number(layout)?;
        return Err(ShardRefusal::NotHolding.into());
    }
    start(shared)?;
    let now_ns = clocks::check(shared)?;
    let now_tick = durable::clock_tick(layout, now_ns)?;
    let state = shared.lock();
    let datacenter = state.typed_datacenter();
    let local = Local {
        backend,
        layout,
        generation: shared.generation(),
        reload_time: reload::time(),
        datacenter,
        lead: state.rules.lead,
        sequence_start: state.rules.sequence_start,
        trusted_ns: state.allocator.map_or(0, |it| it.monitor.trusted().wall_ns),
        now_tick,
        within_tick: TscInterval::default(),
    };
    drop(state);
    LOCAL.with(|kept| *kept = Some(local));
    Ok(Datacenter(datacenter))
}

/// Sees to it that the server has started to make IDs, and so knows of its shards: as long as it does not, it must not
/// write the file.
fn start(shared: &SharedState) -> Result<(), Error> {
    if shared.lock().allocator.is_none() {
        startup::start_undecided(shared)?;
    }
    let state = shared.lock().shards.file;
    if state == FileState::Unreadable {
        let guard = shared.write_lock.lock();
        read_file(shared, shared.layout()?, &guard).map_err(ShardRefusal::Unreadable)?;
    }
    Ok(())
}

/// Why the file can't be relied on, if it can't.
fn check_file(shared: &SharedState) -> Result<(), Error> {
    match shared.lock().shards.file {
        FileState::Unusable(damage) => Err(ShardRefusal::Unusable(damage).into()),
        _ => Ok(()),
    }
}

/// Opens the place of a shard, if this server has it and may use it now.
fn open(shared: &SharedState, layout: &Layout, number: Number) -> Result<(), Error> {
    check_file(shared)?;
    let place = shared.shards().places().find(number);
    let Some((place, owned)) = place.and_then(|place| Some((place, place.owned()?))) else {
        let state = shared.lock();
        check_own_number(shared, &state, number)?;
        let in_fleet = state.settings.has_registry;
        return Err(ShardRefusal::NotHere { number, in_fleet }.into());
    };
    layout
        .node_bits(number.datacenter.into(), number.worker.into())
        .map_err(|error| Reason::Range(error, *layout))?;
    let basis = {
        let mut state = shared.lock();
        if state.shard_basis() == Some(Basis::Declared) && !owned.in_fleet {
            shared.open_declared(&mut state, layout);
        }
        state.shard_basis()
    };
    match basis {
        Some(Basis::Declared) if owned.in_fleet => Err(ShardRefusal::OfFleet(number).into()),
        Some(Basis::Declared) => Ok(()),
        Some(Basis::Fleet(_)) | None => {
            check_declared(shared, layout)?;
            check_usable(shared, number, &owned)?;
            // One session asks, and opens the place for all.
            if !queue::await_turn(shared, || place.is_open(), || shard_lock::try_lock(number))? {
                return Ok(());
            }
            // After an error the end of the transaction releases the lock.
            let asked = Asked::now(&mut shared.lock(), number, place);
            // Whoever had the turn before may have taken it, or given it back.
            if let Some(owned) = place.owned() {
                check_usable(shared, number, &owned)?;
                let given = ask_fleet(shared, layout, number, Wanted::confirmed(owned.tag))?;
                if given.is_taken {
                    // With another number than it had when it took the shard, or by a write without an answer.
                    own(shared, layout, &asked, &given, 0)?;
                } else {
                    let Given { basis, first_ms, tag, .. } = given;
                    let had = Had { number, first_ms, tag };
                    shared.open_confirmed(&mut shared.lock(), layout, basis, &asked, &had);
                }
            }
            shard_lock::unlock(number);
            shared.requests.changed.wake_all();
            Ok(())
        }
    }
}

/// Refuses shards in a fleet as long as this server has any that were declared.
fn check_declared(shared: &SharedState, layout: &Layout) -> Result<(), Error> {
    if !shared.lock().settings.has_registry {
        return Ok(());
    }
    match shard_list::declared(shared, layout).map_err(ShardRefusal::Unreadable)? {
        shards if shards.is_empty() => Ok(()),
        shards => Err(Reason::Fleet(Trouble::declared(&shards)).into()),
    }
}

/// Refuses a shard that this server has just taken in its fleet.
fn check_usable(shared: &SharedState, number: Number, owned: &Owned) -> Result<(), Error> {
    match waits_until_ms(shared, owned) {
        Some(until_ms) => Err(ShardRefusal::NotYet { number, until_ms }.into()),
        None => Ok(()),
    }
}

/// Until when a shard that this server has just taken in its fleet is waited with.
pub fn waits_until_ms(shared: &SharedState, owned: &Owned) -> Option<i64> {
    let mut state = shared.lock();
    let now_ms = state.trusted_ms(None);
    shared.shard_waits_until_ms(&state, owned, now_ms)
}

/// A shard that this server has.
struct Given {
    /// The basis on which it has the shard.
    basis: Basis,
    /// Unix millisecond of its first ID, at the earliest.
    first_ms: i64,
    /// Whether it did not have it before.
    is_taken: bool,
    /// The tag of the registry's value, as it is written down ([`Owned::tag`]).
    tag: u32,
}

/// Asks the fleet's registry for a shard.
fn ask_fleet(
    shared: &SharedState,
    layout: &Layout,
    number: Number,
    wanted: Wanted,
) -> Result<Given, Error> {
    let member = member(shared, layout)?;
    let basis = Basis::Fleet(member.nonce);
    match commands::take_shard(number, &member, wanted)? {
        Outcome::Has { first_ms, tag } => Ok(Given { basis, first_ms, is_taken: false, tag }),
        Outcome::Taken { first_ms, tag } => Ok(Given { basis, first_ms, is_taken: true, tag }),
        Outcome::Elsewhere(value) => Err(ShardRefusal::Elsewhere(number, value).into()),
        Outcome::NotOver { worker, until_ms } => {
            Err(ShardRefusal::NotOver { number, worker, until_ms }.into())
        }
        Outcome::Unknown if wanted.purpose == Purpose::TakeKnown => {
            Err(ShardRefusal::OfOriginal(number).into())
        }
        Outcome::Unknown => Err(ShardRefusal::Unknown(number).into()),
        Outcome::NotHolding => Err(ShardRefusal::NotHolding.into()),
        Outcome::Contended => Err(ShardRefusal::Contended.into()),
        Outcome::Granted => Err(ShardRefusal::MayBeGranted {
            number,
            granted: true,
            own: None,
            max: layout.max_number(Field::Worker),
        }
        .into()),
    }
}

/// This server as a member of its fleet.
fn member(shared: &SharedState, layout: &Layout) -> Result<Member, Error> {
    let membership = shared.lock().membership;
    if let Some(member) = numbers::own_member(&membership) {
        return Ok(member);
    }
    shared.check_number(layout)?;
    Err(ShardRefusal::NotHolding.into())
}

/// What came of taking a shard.
pub struct Taken {
    /// The number that the ID names which it was to go above, if that is another shard's.
    pub other_number: Option<Number>,
    /// Unix millisecond from which on its IDs can be made.
    pub usable_ms: i64,
}

/// Takes a shard for this server. It makes no ID of it at or below `above`.
///
/// # Errors
/// Why it can't have it, or what could not be written.
pub fn take(worker: i32, above: Option<i64>) -> Result<Taken, Error> {
    let backend = backend::attach()?;
    let shared = backend.shared;
    let layout = shared.layout()?;
    let worker = number_in(layout, worker)?;
    let number = refresh(backend)?.with_worker(worker);
    check_file(shared)?;
    check_declared(shared, layout)?;
    check_own_number(shared, &shared.lock(), number)?;
    shard_lock::lock(number);
    let (above_end, other_number) = match above {
        Some(above) => check_above(shared, layout, number, above)?,
        None => (0, None),
    };
    let above_end = if Fault::ShardTakeIgnoresAbove.is_planted() { 0 } else { above_end };
    let (place, declared) = {
        let state = shared.lock();
        // That there is no room is found before the registry and the disk are asked.
        let place = shared.shards().place(number).ok_or(ShardRefusal::Full(PLACES))?;
        (place, state.shard_basis() == Some(Basis::Declared))
    };
    let asked = Asked::now(&mut shared.lock(), number, place);
    let given = if declared {
        Given { basis: Basis::Declared, first_ms: i64::MIN, is_taken: false, tag: 0 }
    } else {
        let (own, originals) = {
            let state = shared.lock();
            (state.identity.number(), state.originals)
        };
        commands::check_shard_number(layout, number, own)?;
        let is_of_original = originals.refuse_grant(Original { layout: *layout, number }).is_some();
        // If a member has had it, an administrator has decided that, and the registry knows where its IDs end.
        let needs_known = above.is_none() && is_of_original;
        let purpose = if needs_known { Purpose::TakeKnown } else { Purpose::Take };
        let acknowledged = place.owned().map_or(0, |owned| owned.tag);
        let above_ms = if above_end == 0 { i64::MIN } else { end_ms(layout, above_end) };
        ask_fleet(shared, layout, number, Wanted { purpose, acknowledged, above_ms })?
    };
    if declared && above.is_none() {
        check_is_owned(shared, number)?;
    }
    let usable_ms = own(shared, layout, &asked, &given, above_end)?;
    shard_lock::unlock(number);
    Ok(Taken { other_number, usable_ms })
}

/// Writes down that this server has a shard, above a position, and opens it where it can be used at once. Returns from which
/// Unix millisecond on it can. For the holder of the shard's lock.
fn own(
    shared: &SharedState,
    layout: &Layout,
    &Asked { number, place, epoch, at_ms }: &Asked<'_>,
    given: &Given,
    above_end: u64,
) -> Result<i64, Error> {
    let Given { basis, first_ms, is_taken, tag } = *given;
    let guard = shared.write_lock.lock();
    let unwritten = |error| ShardRefusal::Unwritten { change: Change::Taken(number), error };
    let (owned, entries) = {
        let mut state = shared.lock();
        if state.shard_basis() != Some(basis) {
            return Err(ShardRefusal::NotHolding.into());
        }
        if place.epoch() != epoch {
            return Err(ShardRefusal::Contended.into());
        }
        let before = place.owned();
        let is_open = place.is_open() && state.shards.basis == Some(basis) && !is_taken;
        let first_ms = match before.filter(|_| is_open) {
            // It continues, above all that it has made.
            Some(before) => before.first_ms.max(end_ms(layout, above_end)),
            None => {
                let end = shared.first_of_shard(&state, layout, place).max(above_end);
                first_ms.max(end_ms(layout, end)).max(layout.epoch_ms())
            }
        };
        let since_ms = match before.filter(|_| !is_taken) {
            Some(before) => before.since_ms,
            None => state.trusted_ms(None),
        };
        let owned = Owned { since_ms, first_ms, in_fleet: basis != Basis::Declared, tag };
        place.set_owned(Some(owned));
        let entries = shard_list::entries(shared, &state, layout);
        place.set_owned(before);
        (owned, entries)
    };
    write_file(shared, &entries, &guard).map_err(unwritten)?;
    let mut state = shared.lock();
    place.set_owned(Some(owned));
    let waits_until_ms = shared.shard_waits_until_ms(&state, &owned, at_ms);
    let (now_ms, max_lead_ms) = (state.trusted_ms(None), state.settings.max_lead_ms);
    if state.shard_basis() == Some(basis) && waits_until_ms.is_none() {
        state.shards.basis = Some(basis);
        let first = layout.first_position(layout.tick_from(owned.first_ms));
        shared.open_shard(&mut state, layout, place, first);
    } else if waits_until_ms.is_some() {
        // It was open where an earlier write had no answer: from here on it begins above that.
        place.close();
        shared.lower_shards(&mut state);
    }
    // If the number has become the server's own meanwhile, that makes no IDs from here on.
    shared.put_shards(&mut state);
    if waits_until_ms.is_some() {
        // It asks at the end of the wait.
        shared.registrar.wake();
    }
    Ok(waits_until_ms.unwrap_or(now_ms).max(owned.first_ms - i64::from(max_lead_ms)))
}

fn check_own_number(shared: &SharedState, state: &State, number: Number) -> Result<(), Error> {
    if state.identity.number() == Some(number) {
        let max = shared.largest_typed_number(state);
        return Err(ShardRefusal::IsOwnNumber { number, max }.into());
    }
    Ok(())
}

/// Refuses a shard without a word on how far it is, unless this server has it: outside of a fleet, nobody but an
/// administrator knows what another server has made of it.
fn check_is_owned(shared: &SharedState, number: Number) -> Result<(), ShardRefusal> {
    let owned = shared.shards().places().find(number).and_then(Place::owned);
    match owned {
        Some(Owned { in_fleet: false, .. }) => Ok(()),
        _ => Err(ShardRefusal::AboveNeeded(number)),
    }
}

/// No shard that is taken now begins above this Unix millisecond.
fn furthest_above_ms(state: &mut State) -> i64 {
    let lead_ms = i64::from(state.settings.max_lead_ms);
    state.trusted_ms(None).saturating_add(lead_ms + ABOVE_MARGIN_MS)
}

/// Above which position a shard begins that is to go above an ID; and the number in that, if it is another shard's.
fn check_above(
    shared: &SharedState,
    layout: &Layout,
    number: Number,
    above: i64,
) -> Result<(u64, Option<Number>), Error> {
    let id = layout.from_bigint(above).map_err(|error| Reason::OtherLayout(error, *layout))?;
    let parts = layout.unpack(id);
    let above_ms = layout.tick_start_ms(parts.tick);
    let limit_ms = furthest_above_ms(&mut shared.lock());
    if above_ms > limit_ms {
        let shard = number.worker;
        return Err(ShardRefusal::AboveTooFar { above_ms, limit_ms, shard }.into());
    }
    // The largest or smallest ID of a moment names no shard.
    let named = Number { datacenter: parts.datacenter, worker: parts.worker };
    let (least, most) = (
        Number { datacenter: 0, worker: 0 },
        Number {
            datacenter: layout.max_number(Field::Datacenter),
            worker: layout.max_number(Field::Worker),
        },
    );
    let other = (![number, least, most].contains(&named)).then_some(named);
    Ok((tick_end(layout, layout.position_of(id)), other))
}

/// The result of giving a shard back.
pub struct Released {
    /// At or above all IDs that this server made of it.
    pub last_id: i64,
    /// Whether this server had given it back before, so that another may have generated IDs above.
    pub is_repeated: bool,
}

/// Gives a shard back.
///
/// # Errors
/// If it does not have it, or what could not be written.
pub fn release(worker: i32) -> Result<Released, Error> {
    let backend = backend::attach()?;
    let shared = backend.shared;
    let layout = shared.layout()?;
    start(shared)?;
    check_file(shared)?;
    // Also of a layout that had more room for numbers.
    let worker = match u32::try_from(worker) {
        Ok(worker) => worker,
        Err(_) => number_in(layout, worker)?,
    };
    let declared = shard_list::declared(shared, layout).map_err(ShardRefusal::Unreadable)?;
    let (number, in_fleet) = {
        let state = shared.lock();
        let number = state.shard_number(worker);
        let number = match shared.shards().owns(number) {
            true => number,
            // Its datacenter may be another than the server's by now.
            false => shared.shard_of_worker(worker).unwrap_or(number),
        };
        let place = shared.shards().places().find(number);
        // A fleet does not know of a declared one, nor, before the others are released, of one that was.
        let in_fleet = match place.and_then(Place::owned) {
            Some(owned) => owned.in_fleet,
            None => {
                let trouble = state.membership.trouble.map(|it| it.kind);
                let are_left = !declared.is_empty() || trouble == Some(TroubleKind::DeclaredShards);
                place.is_none_or(|place| place.end() == 0) || !are_left
            }
        };
        (number, in_fleet && state.settings.has_registry)
    };
    shard_lock::lock(number);
    let member = if in_fleet { Some(member(shared, layout)?) } else { None };
    let guard = shared.write_lock.lock();
    let on_disk = match shard_file::read() {
        Ok(Found::Own(entries)) => entries.into_iter().find(|entry| entry.number == number),
        Ok(_) => None,
        Err(error) => return Err(ShardRefusal::Unreadable(error).into()),
    };
    // Where somebody only tried to take it, the place has no end.
    let known = shared.shards().places().find(number);
    let known = known.filter(|place| place.owned().is_some() || place.end() > 0);
    let nothing = || {
        let own = check_own_number(shared, &shared.lock(), number);
        own.err().unwrap_or_else(|| ShardRefusal::NothingToRelease(number).into())
    };
    if known.is_none() && on_disk.is_none() && !in_fleet {
        return Err(nothing());
    }
    let (end, entries, before) = {
        let mut state = shared.lock();
        let place = shared.shards().place(number).ok_or(ShardRefusal::Full(PLACES))?;
        let before = place.owned().map(|owned| (owned, place.is_open()));
        if !Fault::ReleasedShardOpen.is_planted() {
            place.close();
        }
        let above_ms = on_disk.map_or(i64::MIN, |entry| entry.above_ms);
        place.raise_closed(layout.first_position(layout.tick_from(above_ms)));
        place.raise_closed(state.shards.start);
        place.set_owned(None);
        let entries = shard_list::entries(shared, &state, layout);
        shared.put_shards(&mut state);
        (place.end(), entries, before)
    };
    if let Err(error) = write_file(shared, &entries, &guard) {
        let mut state = shared.lock();
        if let (Some(place), Some((owned, was_open))) =
            (shared.shards().places().find(number), before)
        {
            place.set_owned(Some(owned));
            if was_open && state.shards.basis == state.shard_basis() {
                shared.open_shard(&mut state, layout, place, end);
            }
            shared.put_shards(&mut state);
        }
        return Err(ShardRefusal::Unwritten { change: Change::Released(number), error }.into());
    }
    drop(guard);
    if let Some(member) = member {
        // Without an answer the server does not have the shard any more: it is given back again, or taken again.
        match commands::release_shard(number, &member, end_ms(layout, end))? {
            Returned::NotOver { worker, until_ms } => {
                return Err(ShardRefusal::NotReleased { number, worker, until_ms }.into());
            }
            Returned::NotHolding => return Err(ShardRefusal::NotHolding.into()),
            Returned::NotHad if known.is_none() && on_disk.is_none() => return Err(nothing()),
            Returned::NotHad | Returned::Done => {}
        }
    }
    shard_lock::unlock(number);
    let last_id = shard_list::id_at_end(layout, number, end);
    Ok(Released { last_id, is_repeated: before.is_none() && !in_fleet })
}

/// Forgets all shards, and what was wrong with their file. Returns how many this server had, as far as it knew. If its own
/// number may be one of them, that goes on above where any shard can have begun, also after a crash: the file says so. So
/// does every number that becomes its own, until the server is restarted.
///
/// # Errors
/// If the file can't be written.
pub fn reset() -> Result<usize, Error> {
    let shared = backend::attach()?.shared;
    let layout = shared.layout()?;
    if shared.lock().allocator.is_none() {
        startup::start_undecided(shared)?;
    }
    let guard = shared.write_lock.lock();
    let owned: Vec<(&Place, Owned)> =
        shared.shards().in_use().filter_map(|place| Some((place, place.owned()?))).collect();
    let entries = {
        let mut state = shared.lock();
        let furthest_ms = furthest_above_ms(&mut state);
        let furthest = layout.first_position(layout.tick_from(furthest_ms));
        if matches!(state.shards.file, FileState::Unusable(_) | FileState::Unreadable) {
            state.shards.forgotten_end = state.shards.forgotten_end.max(furthest);
        }
        if let Some(number) = state.identity.number()
            && let Some(ShardRefusal::OwnNumberUnsure(_)) = shared.refused_as_own(&state, number)
        {
            let place = shared.shards().place(number).ok_or(ShardRefusal::Full(PLACES))?;
            place.raise_closed(furthest);
        }
        shared.close_shards(&mut state);
        owned.iter().for_each(|(place, _)| place.set_owned(None));
        shard_list::entries(shared, &state, layout)
    };
    if let Err(error) = write_file(shared, &entries, &guard) {
        let mut state = shared.lock();
        owned.iter().for_each(|(place, owned)| place.set_owned(Some(*owned)));
        shared.put_shards(&mut state);
        return Err(ShardRefusal::Unreadable(error).into());
    }
    let mut state = shared.lock();
    shared.put_shards(&mut state);
    Ok(owned.len())
}
