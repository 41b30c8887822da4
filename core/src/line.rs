//! A worker's line of positions as one thing: its frontier, what is reserved of it, and the clocks.
//!
//! The order of steps that keeps it safe over a crash is this. [`Line::wanted_until_ms`] says how
//! far the reservation should reach; the caller makes that durable; only then
//! [`Line::promise`] lets claims use it. [`Line::withdraw`] goes the other way: it gives the unused
//! part back first, and only then may the smaller bound be written. The caller holds whatever lock
//! protects the line during each of these, never while it writes, and lets no two writers run at
//! once.

use crate::clock::{Reading, Watch};
use crate::frontier::{Frontier, Limits, Refusal, Run, Want, tick_end};
use crate::layout::Layout;
use crate::opening::Start;

/// How far ahead of need the reservation is written: 3 s, so that a keeper that comes by every
/// second may miss two rounds.
pub const RESERVE_AHEAD_MS: i64 = 3_000;

/// Positions of one worker: those handed out, those reserved, and what time it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    frontier: Frontier,
    /// First position that is not reserved.
    reserved: u64,
    /// What is known of the clocks.
    pub watch: Watch,
}

impl Line {
    /// A line that begins where it may, with nothing reserved.
    pub fn begin(layout: &Layout, start: &Start) -> Line {
        let first = layout.first_position(layout.tick_from(start.first_ms));
        Line { frontier: Frontier::new(first), reserved: first, watch: start.watch }
    }

    /// The lowest position never handed out.
    pub const fn frontier(&self) -> Frontier {
        self.frontier
    }

    /// The time that the frontier stands at, in Unix milliseconds: the next ID's, unless the clock is
    /// past it.
    pub const fn frontier_ms(&self, layout: &Layout) -> i64 {
        layout.tick_start_ms(layout.tick_of(self.frontier.position()))
    }

    /// The time of the first tick of which nothing was handed out, in Unix milliseconds.
    pub fn next_tick_ms(&self, layout: &Layout) -> i64 {
        layout.tick_start_ms(layout.tick_of(self.end_of_tick(layout)))
    }

    /// First position that is not reserved.
    pub const fn reserved(&self) -> u64 {
        self.reserved
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
        want: Want,
        limits: &Limits,
    ) -> Result<Run, Refusal> {
        let reservation = self.reserved.min(limits.reservation);
        self.frontier.claim(layout, now_tick, want, &Limits { reservation, ..*limits })
    }

    /// Until when the reservation should reach: some seconds past the frontier and the clock, but
    /// no further past the clock than claims may come in that time. So it does not grow from one
    /// crash to the next, and a start finds the frontier not far above the lead it is allowed.
    /// While the clock is not believed, nobody claims, and it stays where it is. It never goes back.
    pub fn wanted_until_ms(
        &self,
        layout: &Layout,
        believed_now_ms: Option<i64>,
        max_lead_ms: u32,
    ) -> i64 {
        let promised_ms = self.promised_until_ms(layout);
        let Some(now_ms) = believed_now_ms else { return promised_ms };
        let furthest_ms = now_ms.saturating_add(i64::from(max_lead_ms));
        let ahead_ms =
            now_ms.max(self.frontier_ms(layout)).min(furthest_ms).saturating_add(RESERVE_AHEAD_MS);
        ahead_ms.max(promised_ms)
    }

    /// What a reservation made now should say: until when it reaches, and the clocks as believed.
    /// Claims judge the clocks again for themselves, and count what they see.
    pub fn wanted(
        &self,
        layout: &Layout,
        now: Reading,
        max_lead_ms: u32,
        max_jump_ns: u64,
    ) -> (i64, Reading) {
        let mut watch = self.watch;
        let jumped = watch.judge(now, max_jump_ns).jumped_ns.is_some();
        let believed_ms = (!jumped).then(|| now.wall_ms());
        (self.wanted_until_ms(layout, believed_ms, max_lead_ms), watch.believed())
    }

    /// Whether less than half of what should be reserved ahead of a position is left.
    #[inline]
    pub const fn is_low(&self, layout: &Layout, position: u64) -> bool {
        let half = RESERVE_AHEAD_MS as u64 / 2 / layout.tick_ms() as u64;
        layout.tick_of(self.reserved) < layout.tick_of(position).saturating_add(half)
    }

    /// Until when the reservation reaches, in Unix milliseconds.
    pub const fn promised_until_ms(&self, layout: &Layout) -> i64 {
        layout.tick_start_ms(layout.tick_of(self.reserved))
    }

    /// Lets claims use what has been made durable.
    pub fn promise(&mut self, layout: &Layout, until_ms: i64) {
        self.reserved = self.reserved.max(layout.first_position(layout.tick_from(until_ms)));
    }

    /// Gives back what is reserved and not handed out, and says until when the rest reaches.
    pub fn withdraw(&mut self, layout: &Layout) -> i64 {
        self.reserved = self.reserved.min(self.end_of_tick(layout));
        self.promised_until_ms(layout)
    }

    /// Hands out nothing more of the tick that was begun last. IDs with another node's bits are in
    /// order with those before only from the next tick on.
    pub fn leave_tick(&mut self, layout: &Layout) {
        self.frontier.raise(self.end_of_tick(layout));
    }

    /// First position after the last tick of which something was handed out: none, as long as nothing
    /// was, so that a layout may still change.
    fn end_of_tick(&self, layout: &Layout) -> u64 {
        self.frontier.position().checked_sub(1).map_or(0, |last| tick_end(layout, last))
    }
}
