//! On which basis this server has its shards, and when their places are open.
//!
//! A place of a shard that this server has is open only on the *basis* that it has it on: as declared on a server without a
//! fleet, or for one acquisition of its number of a fleet. When the basis changes, all places are closed.
//!
//! **Locking.** Places are opened, closed, lowered and given away under the lock of the state.

use id_gen_core::fleet::Number;
use id_gen_core::fleet::shard::Had;
use id_gen_core::frontier::{end_ms, tick_end};
use id_gen_core::identity::Identity;
use id_gen_core::layout::{Field, Layout};
use id_gen_core::observe::first_above;
use id_gen_core::planted::Fault;
use id_gen_core::shards::{Owned, Place};

use crate::error::shards::ShardRefusal;
use crate::shared::shards::{Basis, FileState, Look};
use crate::shared::state::{SharedState, State};

/// Shards of a fleet that an answer of the registry may open.
#[derive(Debug)]
pub struct ToOpen<'a> {
    /// The question, if it is asked now.
    pub look: Look,
    /// Unix millisecond at which it is to be asked, such as the end of a wait.
    pub due_ms: i64,
    /// The shards whose wait is over.
    pub asked: Vec<Asked<'a>>,
}

/// A shard that the registry is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The number of the shard.
    pub number: Number,
    /// The place in shared memory that has its position.
    pub place: &'a Place,
    /// [`Place::epoch`] before the question.
    pub epoch: u32,
    /// Unix millisecond before the question, by the trusted clock.
    pub at_ms: i64,
}

impl<'a> Asked<'a> {
    /// A question that is asked after this.
    pub fn now(state: &mut State, number: Number, place: &'a Place) -> Asked<'a> {
        Asked { number, place, epoch: place.epoch(), at_ms: state.trusted_ms(None) }
    }
}

impl State {
    /// The basis on which this server could have shards now; `None` while its fleet has not acknowledged its number.
    pub fn shard_basis(&self) -> Option<Basis> {
        if !self.settings.has_registry {
            return Some(Basis::Declared);
        }
        self.membership.active_grant.and(self.membership.nonce).map(Basis::Fleet)
    }

    /// When the registry was asked last for all shards, by a question for the same.
    fn looked_ms(&self, look: Look) -> Option<i64> {
        let same = |looked: &Look| (looked.basis, looked.closings) == (look.basis, look.closings);
        self.shards.looked.filter(same).map(|looked| looked.at_ms)
    }

    /// Which number a shard has: the datacenter is the server's.
    pub fn shard_number(&self, worker: u32) -> Number {
        Number { datacenter: self.typed_datacenter(), worker }
    }
}

impl SharedState {
    /// Closes all places, if the basis on which they are open holds no more.
    pub fn follow_basis(&self, state: &mut State) {
        let basis = state.shard_basis();
        if state.shards.basis.is_some() && state.shards.basis != basis {
            self.close_shards(state);
        }
    }

    /// Closes all places.
    pub fn close_shards(&self, state: &mut State) {
        state.shards.basis = None;
        state.shards.closings += 1;
        self.shards().in_use().for_each(|place| {
            place.close();
        });
        self.lower_shards(state);
    }

    /// Why this server may not make IDs of its own with a number, because of its shards.
    pub fn refused_as_own(&self, state: &State, number: Number) -> Option<ShardRefusal> {
        match state.shards.file {
            FileState::Unusable(_) | FileState::Unreadable
                if state.shards.trusted_number != Some(number) =>
            {
                Some(ShardRefusal::OwnNumberUnsure(number.worker))
            }
            _ => self.shards().owns(number).then(|| ShardRefusal::OwnNumberIsShard {
                number,
                max: self.largest_typed_number(state),
            }),
        }
    }

    /// The largest worker ID that an administrator can assign; `None` where a registry grants it.
    pub fn largest_typed_number(&self, state: &State) -> Option<u32> {
        let is_typed = !state.settings.has_registry;
        self.layout_if_valid().filter(|_| is_typed).map(|layout| layout.max_number(Field::Worker))
    }

    /// The number of the server's own that the reservation names: after a restart it is taken for one that is no shard, even
    /// if the file can't be used then. So it has to be one that IDs were made with: the last one.
    pub fn number_to_record(&self, state: &State, identity: &Identity) -> Option<Number> {
        let own = identity.number().and_then(|number| match self.refused_as_own(state, number) {
            None => self.refused_number(state, identity).is_none().then_some(number),
            Some(ShardRefusal::OwnNumberUnsure(_)) => state.shards.trusted_number,
            Some(_) => None,
        });
        let is_none = |number: &Number| self.refused_as_own(state, *number).is_none();
        own.or_else(|| state.recorded.filter(is_none))
    }

    /// From which position on the place of a shard may go on: above all that the server has made with this number, also
    /// while it was its own, and above what a reader of the commit horizon has passed.
    pub fn first_of_shard(&self, state: &State, layout: &Layout, place: &Place) -> u64 {
        let own_end = state.allocator.map_or(0, |allocator| allocator.end_of_tick(layout));
        own_end.max(state.shards.start).max(place.end())
    }

    /// Until when a shard of a fleet is waited with at a moment, because this server has just taken it: no restore of the
    /// registry goes unnoticed meanwhile. Only what the registry is asked afterwards may open the place.
    pub fn shard_waits_until_ms(&self, state: &State, owned: &Owned, at_ms: i64) -> Option<i64> {
        let until_ms = owned.since_ms.saturating_add_unsigned(state.membership.shard_wait_ms);
        (owned.in_fleet && at_ms < until_ms).then_some(until_ms)
    }

    /// The shards that an answer of the registry may open, if it is to be asked for all of them now, and when: on this basis it
    /// was not, or not since the wait with one of them ended.
    pub fn shards_to_open(&self, state: &mut State) -> Option<ToOpen<'_>> {
        let basis = state.shard_basis().filter(|basis| *basis != Basis::Declared)?;
        if state.allocator.is_none() || state.shards.file != FileState::Read {
            return None;
        }
        let now_ms = state.trusted_ms(None);
        let look = Look { basis, closings: state.shards.closings, at_ms: now_ms };
        let looked_ms = state.looked_ms(look).unwrap_or(i64::MIN);
        let closed =
            |place: &&Place| !place.is_open() && place.owned().is_some_and(|it| it.tag != 0);
        let mut found = ToOpen { look, due_ms: i64::MAX, asked: Vec::new() };
        for place in self.shards().in_use().filter(closed) {
            let (Some(number), Some(owned)) = (place.number(), place.owned()) else { continue };
            let until_ms = owned.since_ms.saturating_add_unsigned(state.membership.shard_wait_ms);
            if until_ms > now_ms {
                found.due_ms = found.due_ms.min(until_ms);
                continue;
            }
            if until_ms > looked_ms {
                found.due_ms = now_ms;
            }
            found.asked.push(Asked::now(state, number, place));
        }
        (found.due_ms < i64::MAX).then_some(found)
    }

    /// A shard of this server's list that the registry did not say is this server's, when it was asked for all of them.
    pub fn refused_shard(&self, state: &State) -> Option<Number> {
        let basis = state.shard_basis()?;
        let looked_ms =
            state.looked_ms(Look { basis, closings: state.shards.closings, at_ms: 0 })?;
        let refused = |place: &&Place| {
            let is_over = |owned: Owned| {
                owned.in_fleet && self.shard_waits_until_ms(state, &owned, looked_ms).is_none()
            };
            !place.is_open() && place.owned().is_some_and(is_over)
        };
        self.shards().in_use().find(refused)?.number()
    }

    /// Opens the place of a shard that the registry says is this server's, if nothing has happened to it since that was asked.
    pub fn open_confirmed(
        &self,
        state: &mut State,
        layout: &Layout,
        basis: Basis,
        asked: &Asked<'_>,
        had: &Had,
    ) {
        let place = asked.place;
        let Some(owned) = place.owned().filter(|owned| owned.tag == had.tag) else { return };
        let waits = self.shard_waits_until_ms(state, &owned, asked.at_ms).is_some();
        if state.shard_basis() == Some(basis) && place.epoch() == asked.epoch && !waits {
            state.shards.basis = Some(basis);
            let first_ms = had.first_ms.max(owned.first_ms);
            let first = layout.first_position(layout.tick_from(first_ms));
            self.open_shard(state, layout, place, first);
        }
    }

    /// Waits no longer with shards that were just taken: an administrator says that the registry was not restored.
    pub fn end_waits_with_shards(&self, state: &mut State) {
        let now_ms = state.trusted_ms(None);
        for place in self.shards().in_use() {
            if let Some(owned) = place.owned()
                && let Some(until_ms) = self.shard_waits_until_ms(state, &owned, now_ms)
            {
                let since_ms = owned.since_ms - (until_ms - now_ms);
                place.set_owned(Some(Owned { since_ms, ..owned }));
            }
        }
    }

    /// Opens a place of a shard that this server has, from a position on.
    pub fn open_shard(&self, state: &mut State, layout: &Layout, place: &Place, first: u64) {
        let Some(allocator) = state.allocator else { return };
        let own_end = allocator.end_of_tick(layout);
        let first = match Fault::ShardIgnoresReservation.is_planted() {
            true => first,
            false => first.max(own_end).max(state.shards.start),
        };
        if place.is_open() {
            place.raise(first);
        } else {
            place.open(first);
        }
        self.shards().ceiling().raise(allocator.reserved_end());
    }

    /// Opens the places of all shards that were declared, where that counts.
    pub fn open_declared(&self, state: &mut State, layout: &Layout) {
        if state.shard_basis() != Some(Basis::Declared) || state.allocator.is_none() {
            return;
        }
        state.shards.basis = Some(Basis::Declared);
        for place in self.shards().in_use() {
            if let Some(Owned { first_ms, in_fleet: false, .. }) = place.owned()
                && self.has_room(layout, place)
            {
                let first = layout.first_position(layout.tick_from(first_ms));
                self.open_shard(state, layout, place, first);
            }
        }
    }

    /// Whether the layout has room for the number of a shard.
    pub fn has_room(&self, layout: &Layout, place: &Place) -> bool {
        node_bits(layout, place).is_some()
    }

    /// A shard with this worker number that this server has, whatever its datacenter is.
    pub fn shard_of_worker(&self, worker: u32) -> Option<Number> {
        let owned = self.shards().in_use().filter(|place| place.owned().is_some());
        owned.filter_map(Place::number).find(|number| number.worker == worker)
    }

    /// Gives back what shards have reserved and not used, and says below which position all is that they have made; and
    /// lets them use what this server has reserved again later.
    pub fn lower_shards(&self, state: &mut State) -> u64 {
        let space = self.shards();
        let made_end = space.ceiling().lower(0, space.in_use());
        state.shards.made_end = state.shards.made_end.max(made_end);
        state.shards.made_end
    }

    /// Above which position everything is that a server with this number may make: all that it made as a shard.
    pub fn end_as_shard(&self, layout: &Layout, number: Number) -> Option<u64> {
        let end = self.shards().places().find(number)?.end();
        Some(end.checked_sub(1).map_or(0, |last| tick_end(layout, last)))
    }

    /// Up to which Unix millisecond the file has to say that IDs may be in use, for shards.
    pub fn shards_reserved_until_ms(&self, state: &State, layout: &Layout) -> i64 {
        end_ms(layout, self.shards().ceiling().end().max(state.shards.made_end))
    }

    /// Sees to it that every ID of a shard that is handed out from now on is above an ID. For the holder of the lock, who
    /// has raised the frontier above it: places that are opened later begin above that.
    pub fn raise_shards_above(&self, layout: &Layout, id: u64) {
        for place in self.shards().in_use() {
            if let Some(node_bits) = node_bits(layout, place) {
                place.raise(first_above(layout, id, node_bits));
            }
        }
    }

    /// Takes samples of what shards have made.
    pub fn sample_shards(&self) {
        let _state = self.lock();
        self.shards().sample();
    }
}

/// The bits of a shard's number in its IDs, if the layout has room for it.
fn node_bits(layout: &Layout, place: &Place) -> Option<u64> {
    let Number { datacenter, worker } = place.number()?;
    layout.node_bits(datacenter.into(), worker.into()).ok()
}
