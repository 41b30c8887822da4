//! Observing an ID from elsewhere: whatever is made after it is larger, so that effects sort after their causes
//! (Lamport's rule; bounded by the lead over the clock, as in a hybrid logical clock).
//!
//! The rule works on the frontier alone. An ID is observed when the frontier is at or above the lowest position of this
//! server whose ID is larger, when all that a restart or a successor goes on from is, too, and when no session holds a
//! block from before. So it outlives a crash: IDs begin again above the reservation.
//!
//! The caller holds the lock that protects the allocator, and has checked the clocks under the same hold of it; nothing
//! here blocks. A denial other than [`Denied::Unreserved`] leaves everything as it was.

use crate::allocator::Allocator;
use crate::identity::Identity;
use crate::layout::Layout;
use crate::lead::LeadLimit;

/// Why an ID is not observed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The frontier is above it; the reservation has to be extended to there.
    Unreserved,
    /// It is up to one tick further ahead than is allowed: it can be observed when the clock shows this tick.
    Early {
        /// The tick.
        due_tick: u64,
    },
    /// It is further ahead of the clock.
    TooFarAhead,
    /// No ID above it may be made with this server's grant, which ends at this Unix millisecond.
    BeyondGrant {
        /// The bound of the grant.
        until_ms: i64,
    },
}

/// The lowest position of the node with these bits whose ID is larger than an ID of any node. Something of that ID's tick
/// then counts as handed out, so that a server which goes on with other bits does so in the next one.
pub fn first_above(layout: &Layout, id: u64, node_bits: u64) -> u64 {
    let first = layout.first_position(layout.tick_of(layout.position_of(id)));
    let lowest = layout.id_at(first, node_bits);
    let place = match id.checked_sub(lowest) {
        Some(above) => above / layout.stride() + 1,
        None => 0,
    };
    first + place.clamp(1, layout.per_tick())
}

impl Allocator {
    /// Whether every position to be handed out, after a crash too, is at or above this one.
    pub fn is_above(&self, position: u64) -> bool {
        position <= self.frontier().position().min(self.reserved_end())
    }

    /// Raises the frontier above an ID, to [`first_above`] of it. While the clock shows `now_tick` an ID may be as far
    /// ahead as those of this server; one that is in the tick after that will be soon.
    ///
    /// # Errors
    /// [`Denied`] says what has to happen first.
    pub fn observe(
        &mut self,
        layout: &Layout,
        identity: &Identity,
        position: u64,
        now_tick: u64,
        lead: LeadLimit,
    ) -> Result<(), Denied> {
        if !self.is_above(position) {
            if position > lead.end(layout, now_tick) {
                let due_tick = lead.due_tick(layout, position - 1);
                let is_next = due_tick <= now_tick + 1;
                return Err(if is_next { Denied::Early { due_tick } } else { Denied::TooFarAhead });
            }
            if let Some(until_ms) = identity.valid_until_ms
                && position > layout.first_position(layout.tick_from(until_ms))
            {
                return Err(Denied::BeyondGrant { until_ms });
            }
        }
        // To begin in the clock's own tick takes none of its positions, and is above all ticks before it: so what others
        // made before this tick need not be looked at again.
        self.raise(position.max(layout.first_position(now_tick)));
        if self.is_above(position) { Ok(()) } else { Err(Denied::Unreserved) }
    }

    /// The largest ID that everything is above which is to be handed out, whatever the node's bits are by then.
    pub fn all_above(&self, layout: &Layout) -> u64 {
        let position = self.frontier().position().min(self.reserved_end());
        layout.min_of(layout.tick_of(position)).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockMonitor;
    use crate::presets;
    use crate::startup::StartPoint;

    const MS: i64 = 1;
    const S: i64 = 1000 * MS;

    fn layout(name: &str) -> Layout {
        presets::by_name(name).unwrap().layout
    }

    fn allocator(layout: &Layout, tick: u64, reserved_ms: i64) -> Allocator {
        let first_ms = layout.tick_start_ms(tick);
        let start = StartPoint { first_ms, monitor: ClockMonitor::default() };
        let mut allocator = Allocator::new(layout, &start);
        allocator.extend(layout, first_ms + reserved_ms);
        allocator
    }

    fn node(layout: &Layout, worker: i64) -> (u64, Identity) {
        let identity = Identity { worker: Some(worker as u32), ..Identity::NONE };
        (layout.node_bits(0, worker).unwrap(), identity)
    }

    #[test]
    fn the_lowest_position_above_an_id_is_found_wherever_the_node_is() {
        for preset in presets::all() {
            let layout = &preset.layout;
            let last = layout.per_tick() - 1;
            for own in [0, 1, 2] {
                let (own_bits, _) = node(layout, own);
                for other in [0, 1, 2] {
                    let (bits, _) = node(layout, other);
                    for place in [0, 1, 2, last - 1, last] {
                        let id = layout.id_at(layout.first_position(9) + place, bits);
                        let found = first_above(layout, id, own_bits);
                        assert!(layout.id_at(found, own_bits) > id, "{}", preset.name);
                        let before = found - 1;
                        // One position of the tick always counts as handed out.
                        let is_lowest = layout.id_at(before, own_bits) <= id;
                        assert!(is_lowest || before == layout.first_position(9), "{}", preset.name);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_observed_moves_the_frontier_by_no_more_than_it_takes() {
        let layout = &layout("sonyflake");
        let (bits, identity) = node(layout, 7);
        let mut allocator = allocator(layout, 1000, 10 * S);
        let id = layout.id_at(layout.first_position(1000) + 5, bits);
        let position = first_above(layout, id, bits);
        let lead = LeadLimit::of_ticks(0);
        assert_eq!(allocator.observe(layout, &identity, position, 1000, lead), Ok(()));
        assert_eq!(allocator.frontier().position(), layout.first_position(1000) + 6);
    }

    #[test]
    fn without_a_lead_the_clocks_tick_is_right_and_the_next_one_is_soon() {
        for name in ["default", "sonyflake", "baidu"] {
            let layout = &layout(name);
            let (bits, identity) = node(layout, 1);
            let mut allocator = allocator(layout, 1000, 10 * S);
            let mut observe = |tick, place| {
                let id = layout.id_at(layout.first_position(tick) + place, bits);
                let position = first_above(layout, id, bits);
                allocator.observe(layout, &identity, position, 1000, LeadLimit::of_ticks(0))
            };
            assert_eq!(observe(1000, 0), Ok(()), "{name}");
            let last = layout.per_tick() - 1;
            assert_eq!(observe(1001, 0), Err(Denied::Early { due_tick: 1001 }), "{name}");
            assert_eq!(observe(1001, last), Err(Denied::Early { due_tick: 1001 }), "{name}");
            assert_eq!(observe(1002, 0), Err(Denied::TooFarAhead), "{name}");
            assert_eq!(observe(1000, last), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_denial_leaves_the_frontier_where_it_was() {
        let layout = &layout("default");
        let (bits, identity) = node(layout, 1);
        let mut allocator = allocator(layout, 1000, 10 * S);
        let before = allocator;
        let position = first_above(layout, layout.min_of(9_000), bits);
        let lead = LeadLimit::of_ms(layout, 5000);
        let denied = allocator.observe(layout, &identity, position, 1000, lead);
        assert_eq!(denied, Err(Denied::TooFarAhead));
        let until_ms = layout.tick_start_ms(1500);
        let bounded = Identity { valid_until_ms: Some(until_ms), ..identity };
        let position = first_above(layout, layout.min_of(1600), bits);
        let denied = allocator.observe(layout, &bounded, position, 1000, lead);
        assert_eq!(denied, Err(Denied::BeyondGrant { until_ms }));
        assert_eq!(allocator, before);
    }

    #[test]
    fn nothing_is_observed_before_it_is_reserved() {
        let layout = &layout("default");
        let (bits, identity) = node(layout, 1);
        let mut allocator = allocator(layout, 1000, 3 * S);
        let id = layout.min_of(5500);
        let position = first_above(layout, id, bits);
        let lead = LeadLimit::of_ms(layout, 5000);
        let observed = allocator.observe(layout, &identity, position, 1000, lead);
        assert_eq!(observed, Err(Denied::Unreserved));
        let now_ms = layout.tick_start_ms(1000);
        let until_ms = allocator.next_reserved_until_ms(layout, &identity, Some(now_ms), 5000);
        allocator.extend(layout, until_ms);
        assert_eq!(allocator.observe(layout, &identity, position, 1000, lead), Ok(()));
        assert!(allocator.all_above(layout) < id);
    }
}
