//! A worker's positions as one state: the frontier, what is reserved, and what is known of the
//! clocks.
//!
//! The order of steps makes it safe over a crash. To extend the reservation,
//! [`Allocator::next_reservation`] says how far it should reach, the caller makes that durable, and
//! only then [`Allocator::extend`] lets claims use it. To release what is unused,
//! [`Allocator::release`] takes it from claims first, and only then the caller writes the smaller
//! bound. The caller holds the lock that protects the allocator during each of these, never while it
//! writes, and has only one writer at a time.

use crate::clock::{ClockMonitor, ClockReading};
use crate::frontier::{
    ClaimError, ClaimSize, Frontier, Limits, Run, SequenceStart, UNRESERVED, tick_end,
};
use crate::identity::Identity;
use crate::layout::Layout;
use crate::lead::LeadLimit;
use crate::planted::Fault;
use crate::startup::StartPoint;

/// How far ahead of need the reservation is written: 3 s, so that a keeper that comes by every
/// second may miss two rounds.
pub const RESERVE_AHEAD_MS: i64 = 3_000;

/// Positions of one worker: those handed out, those reserved, and what time it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocator {
    frontier: Frontier,
    /// First position that is not reserved.
    reserved_end: u64,
    /// A claim that ends above this leaves less than half of what should be reserved ahead of it.
    low_mark: u64,
    /// What is known of the clocks.
    pub monitor: ClockMonitor,
}

/// What a reservation should say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// No ID of this Unix millisecond or later may be handed out under it.
    pub until_ms: i64,
    /// The clocks as last trusted.
    pub clock: ClockReading,
}

impl Allocator {
    /// An allocator at its start point, with nothing reserved.
    pub fn new(layout: &Layout, start: &StartPoint) -> Allocator {
        let first = layout.first_position(layout.tick_from(start.first_ms));
        let (frontier, monitor) = (Frontier::new(first), start.monitor);
        let mut allocator = Allocator { frontier, reserved_end: 0, low_mark: 0, monitor };
        allocator.reserve(layout, first);
        allocator
    }

    /// The lowest position never handed out.
    pub const fn frontier(&self) -> Frontier {
        self.frontier
    }

    /// The Unix millisecond that the frontier stands at: the next ID's, unless the clock is past it.
    pub const fn frontier_ms(&self, layout: &Layout) -> i64 {
        layout.tick_start_ms(layout.tick_of(self.frontier.position()))
    }

    /// The Unix millisecond of the first tick of which nothing was handed out.
    pub fn next_tick_ms(&self, layout: &Layout) -> i64 {
        layout.tick_start_ms(layout.tick_of(self.end_of_tick(layout)))
    }

    /// First position that is not reserved.
    pub const fn reserved_end(&self) -> u64 {
        self.reserved_end
    }

    /// Hands out positions: see [`Frontier::claim`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn claim(
        &mut self,
        layout: &Layout,
        now_tick: u64,
        size: ClaimSize,
        lead: LeadLimit,
        sequence_start: SequenceStart,
    ) -> Result<Run, ClaimError> {
        let reserved_end =
            if Fault::ClaimsUnreserved.is_planted() { UNRESERVED } else { self.reserved_end };
        let limits = Limits { lead, reserved_end, sequence_start };
        self.frontier.claim(layout, now_tick, size, &limits)
    }

    /// Notes that everything below a position was handed out.
    pub fn raise(&mut self, position: u64) {
        self.frontier.raise(position);
    }

    /// Until when the reservation should reach: some seconds past the frontier and the clock, but
    /// no further past the clock than claims may come in that time. So it does not grow from one
    /// crash to the next, and a start finds the frontier not far above the lead it is allowed.
    /// While the clock is not trusted nobody claims, and the reservation stays where it is. It never
    /// goes back, and never past the end of the server's right to its number.
    pub fn next_reserved_until_ms(
        &self,
        layout: &Layout,
        identity: &Identity,
        trusted_now_ms: Option<i64>,
        max_lead_ms: u32,
    ) -> i64 {
        let reserved_ms = self.reserved_until_ms(layout);
        let Some(now_ms) = trusted_now_ms else { return reserved_ms };
        let furthest_ms = now_ms.saturating_add(i64::from(max_lead_ms));
        let ahead_ms =
            now_ms.max(self.frontier_ms(layout)).min(furthest_ms).saturating_add(RESERVE_AHEAD_MS);
        identity.bounded_ms(ahead_ms).max(reserved_ms)
    }

    /// The reservation that should be written now. Claims check the clocks again for themselves, and
    /// count what they find.
    pub fn next_reservation(
        &self,
        layout: &Layout,
        identity: &Identity,
        now: ClockReading,
        max_lead_ms: u32,
        max_jump_ns: u64,
    ) -> Reservation {
        let mut monitor = self.monitor;
        let jumped = monitor.check(now, max_jump_ns).jumped_ns.is_some();
        let trusted_ms = (!jumped).then(|| now.wall_ms());
        Reservation {
            until_ms: self.next_reserved_until_ms(layout, identity, trusted_ms, max_lead_ms),
            clock: monitor.trusted(),
        }
    }

    /// Whether less than half of what should be reserved ahead of a position is left.
    #[inline]
    pub const fn is_low(&self, position: u64) -> bool {
        position > self.low_mark
    }

    fn reserve(&mut self, layout: &Layout, end: u64) {
        let half = RESERVE_AHEAD_MS.unsigned_abs() / 2 / u64::from(layout.tick_ms());
        self.reserved_end = end;
        self.low_mark = end.saturating_sub(layout.first_position(half));
    }

    /// The Unix millisecond up to which the reservation reaches.
    pub const fn reserved_until_ms(&self, layout: &Layout) -> i64 {
        layout.tick_start_ms(layout.tick_of(self.reserved_end))
    }

    /// Lets claims use what was made durable.
    pub fn extend(&mut self, layout: &Layout, until_ms: i64) {
        let end = layout.first_position(layout.tick_from(until_ms));
        self.reserve(layout, self.reserved_end.max(end));
    }

    /// Takes from claims what is reserved and not handed out, and says until when the rest reaches.
    pub fn release(&mut self, layout: &Layout) -> i64 {
        self.reserve(layout, self.reserved_end.min(self.end_of_tick(layout)));
        self.reserved_until_ms(layout)
    }

    /// As [`Allocator::release`], where shards have handed out what is below a position: that stays reserved, also where the
    /// rest was released before.
    pub fn release_above(&mut self, layout: &Layout, made_end: u64) -> i64 {
        let made_end = made_end.checked_sub(1).map_or(0, |last| tick_end(layout, last));
        let own_end = match Fault::StopForgetsLastTick.is_planted() {
            true => self.frontier.position(),
            false => self.end_of_tick(layout),
        };
        self.reserve(layout, self.reserved_end.min(own_end).max(made_end));
        self.reserved_until_ms(layout)
    }

    /// Goes on with another node's bits, or with the same that another server may have had meanwhile: from the next
    /// tick, because only then are its IDs above those before, not before [`Identity::first_ms`], and with nothing
    /// reserved, so that the first of them waits until the reservation on disk names the new node.
    pub fn change_node(&mut self, layout: &Layout, identity: &Identity) {
        self.frontier.raise(self.end_of_tick(layout));
        self.release(layout);
        if let Some(first_ms) = identity.first_ms {
            self.frontier.raise(layout.first_position(layout.tick_from(first_ms)));
        }
    }

    /// First position after the last tick of which something was handed out: zero as long as nothing
    /// was, so that a layout may still change.
    pub fn end_of_tick(&self, layout: &Layout) -> u64 {
        self.frontier.position().checked_sub(1).map_or(0, |last| tick_end(layout, last))
    }
}
