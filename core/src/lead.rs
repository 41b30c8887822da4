//! The rule that says which positions are too far ahead of the clock.
//!
//! IDs may lead the clock by `id_gen.max_lead`, in whole ticks. Sessions that load in bulk leave the
//! last part of that to others: a tick, or where no lead is allowed a small part of one. The clock
//! gives as much again with every tick, so only sessions that load in bulk wait for each other.
//!
//! Everything that has to know whether an ID is too far ahead asks here: the claim
//! ([`LeadLimit::end`]), the wait ([`LeadLimit::due_tick`]), status and checks ([`Lead`]).

use crate::layout::Layout;
use crate::planted::Fault;

/// The largest `id_gen.max_lead`: a day, so that a server whose clock was hours ahead can go on.
pub const LARGEST_MAX_LEAD_MS: u32 = 86_400_000;

/// A session that takes more than this share of a tick within that tick loads in bulk: one in 64.
const BULK_SHARE: u64 = 64;
/// Share of a tick that bulk requests leave where no lead is allowed: one in 256.
const RESERVE_WITHOUT_LEAD: u64 = 256;
/// Share of the lead from which on little is left of it.
const HIGH_SHARE: f64 = 0.8;

/// How many IDs a session may take within a tick of the clock before its requests count as bulk.
/// Fewer sessions than 64 together take less in this way than a tick has.
#[inline]
pub const fn bulk_threshold(layout: &Layout) -> u64 {
    let share = layout.per_tick() / BULK_SHARE;
    if share == 0 { 1 } else { share }
}

/// How far ahead of the clock a request may get positions.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadLimit {
    ticks: u64,
    /// Positions below the end that the request leaves to others.
    reserve: u64,
}

impl LeadLimit {
    /// IDs may lead the clock by so many ticks.
    pub const fn of_ticks(ticks: u64) -> LeadLimit {
        LeadLimit { ticks, reserve: 0 }
    }

    /// IDs may lead the clock by so many milliseconds, rounded down to ticks.
    pub const fn of_ms(layout: &Layout, max_lead_ms: u32) -> LeadLimit {
        LeadLimit::of_ticks((max_lead_ms / layout.tick_ms()) as u64)
    }

    /// The same limit for a request that loads in bulk.
    #[inline]
    pub const fn for_bulk(self, layout: &Layout) -> LeadLimit {
        let per_tick = layout.per_tick();
        let reserve = if self.ticks == 0 { per_tick / RESERVE_WITHOUT_LEAD } else { per_tick };
        LeadLimit { reserve, ..self }
    }

    /// Positions that the request leaves to others.
    pub const fn reserve(self) -> u64 {
        self.reserve
    }

    /// What the request leaves to others in milliseconds, in whole ticks.
    pub const fn reserve_ms(self, layout: &Layout) -> u32 {
        (self.reserve / layout.per_tick()) as u32 * layout.tick_ms()
    }

    /// The first position that is too far ahead while the clock shows this tick.
    /// Where the lead reaches the layout's end, nothing is left to others: no later tick of the clock would
    /// give it to a request that waits for it.
    #[inline]
    pub const fn end(self, layout: &Layout, now_tick: u64) -> u64 {
        let end_tick = now_tick.saturating_add(self.ticks).saturating_add(1);
        if end_tick >= layout.ticks() {
            return layout.first_position(layout.ticks());
        }
        layout.first_position(end_tick).saturating_sub(self.reserve)
    }

    /// The first tick of the clock at which a position is not too far ahead.
    pub fn due_tick(self, layout: &Layout, position: u64) -> u64 {
        layout.tick_of(position.saturating_add(self.reserve)).saturating_sub(self.ticks)
    }
}

/// The lead of a server's next ID over its clock, beside what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// How far the next ID is ahead of the clock, in milliseconds.
    pub lead_ms: i64,
    /// How far it may be.
    pub max_lead_ms: u32,
    /// How much of that a bulk request leaves to others; zero for any other request.
    pub reserve_ms: u32,
}

/// How much of the allowed lead is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadLevel {
    /// Enough is left.
    Normal,
    /// Little is left.
    High,
    /// More than is allowed: calls wait.
    Exceeded,
}

impl Lead {
    /// The lead of a position while the clock shows this time: negative where it is behind the clock.
    ///
    /// What the request leaves to others is not always whole ticks: less than one counts as lead where it reaches into the
    /// next tick.
    pub const fn of(
        layout: &Layout,
        limit: LeadLimit,
        position: u64,
        now_ms: i64,
        max_lead_ms: u32,
    ) -> Lead {
        let reserve_ms = limit.reserve_ms(layout);
        let last_tick = layout.tick_of(position.saturating_add(limit.reserve));
        let until_ms = layout.tick_start_ms(last_tick).saturating_sub(reserve_ms as i64);
        Lead { lead_ms: until_ms.saturating_sub(now_ms), max_lead_ms, reserve_ms }
    }

    /// How far the clock has to catch up before the next ID is allowed; zero or less if it is.
    pub const fn excess_ms(&self) -> i64 {
        self.lead_ms.saturating_sub(self.max_lead_ms as i64).saturating_add(self.reserve_ms as i64)
    }

    /// An `id_gen.max_lead`, in seconds, that allows the next ID and as much again: so a statement that wants more IDs than
    /// that is led out by a few of them. As much as there can be where that is less. `None` if no larger one allows it.
    pub fn allowing_max_lead_s(&self) -> Option<i64> {
        let largest_s = i64::from(LARGEST_MAX_LEAD_MS) / 1000;
        let needed_ms = self.lead_ms.saturating_add(self.reserve_ms.into());
        let twice_ms = self.lead_ms.saturating_mul(2);
        let max_lead_s = (needed_ms.max(twice_ms) / 1000 + 1).min(largest_s);
        if Fault::HintTooSmall.is_planted() {
            return Some(max_lead_s / 4);
        }
        let max_lead_ms = max_lead_s * 1000;
        (max_lead_ms >= needed_ms && max_lead_ms > self.max_lead_ms.into()).then_some(max_lead_s)
    }

    /// How much of the allowed lead is used. A lead of one tick is always normal: a full tick
    /// borrows so much of the next one.
    pub fn level(&self, layout: &Layout) -> LeadLevel {
        let high_ms = (f64::from(self.max_lead_ms) * HIGH_SHARE) as i64;
        if self.lead_ms <= high_ms.max(layout.tick_ms().into()) {
            LeadLevel::Normal
        } else if self.lead_ms <= self.max_lead_ms.into() {
            LeadLevel::High
        } else {
            LeadLevel::Exceeded
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn allowing(lead_ms: i64, max_lead_ms: u32, reserve_ms: u32) -> Option<i64> {
        Lead { lead_ms, max_lead_ms, reserve_ms }.allowing_max_lead_s()
    }

    #[test]
    fn what_is_denied_leads_the_clock() {
        for text in ["default", "sonyflake"] {
            let layout = crate::presets::by_name(text).expect("a named layout").layout;
            let tick_ms = layout.tick_ms();
            for max_lead_ms in [0, tick_ms, 5_000] {
                let limit = LeadLimit::of_ms(&layout, max_lead_ms);
                for limit in [limit, limit.for_bulk(&layout)] {
                    let now_tick = 1_000_000;
                    let now_ms = layout.tick_start_ms(now_tick) + i64::from(tick_ms) - 1;
                    let position = limit.end(&layout, now_tick);
                    let lead = Lead::of(&layout, limit, position, now_ms, max_lead_ms);
                    assert_eq!(lead.excess_ms(), 1, "{text}, {max_lead_ms} ms, {limit:?}");
                    assert_eq!(limit.due_tick(&layout, position), now_tick + 1);
                }
            }
        }
    }

    #[test]
    fn an_allowed_lead_leaves_as_much_of_it() {
        assert_eq!(allowing(HOUR_MS, 5_000, 0), Some(7_201));
        assert_eq!(allowing(10, 0, 3_000), Some(4));
    }

    #[test]
    fn where_the_setting_ends_it_allows_the_next_id_or_is_not_offered() {
        assert_eq!(allowing(23 * HOUR_MS, 5_000, 0), Some(24 * 3_600));
        assert_eq!(allowing(23 * HOUR_MS, LARGEST_MAX_LEAD_MS, 0), None);
        assert_eq!(allowing(25 * HOUR_MS, 5_000, 0), None);
        assert_eq!(allowing(i64::MAX, 5_000, u32::MAX), None);
    }
}
