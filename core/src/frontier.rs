//! The frontier rule: which positions may be handed out now.
//!
//! The positions of a worker, `tick << sequence_bits | sequence`, are one increasing sequence of
//! integers. The **frontier** is the lowest position never handed out, and only moves up. A claim
//! takes positions from the frontier or from the clock's own tick, whichever is higher, and stays
//! below every [`Bound`]: what the clock and the allowed lead permit, and what is reserved.
//!
//! This rule covers what makes snowflakes hard. When a tick is full, the frontier moves into the next
//! one. When the clock is set back, the frontier is ahead of it: claims go on while the lead allows,
//! and then the caller has to wait. The caller holds the lock that protects the frontier; nothing
//! here blocks.

use crate::layout::Layout;
use crate::lead::LeadLimit;
use crate::planted::Fault;

/// Where the sequence of a fresh tick starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStart {
    /// At zero. On a quiet server nearly every ID then ends in the same bits.
    Zero,
    /// Somewhere in the lowest 1/64 of the sequence, another place for each tick, so that
    /// `id % n` fills `n` shards evenly at low traffic.
    Spread,
}

/// Share of a tick's sequence that [`SequenceStart::Spread`] may skip: one in 2^6.
const SPREAD_SHARE_BITS: u32 = 6;

/// What a claim has to stay below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The clock and the lead that is allowed over it.
    Clock,
    /// The reservation: what is durably recorded as possibly in use.
    Reservation,
}

/// What limits a claim, apart from the frontier itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How far IDs may lead the clock.
    pub lead: LeadLimit,
    /// First position that is not reserved; [`UNRESERVED`] where nothing has to be.
    pub reserved_end: u64,
    /// Where a fresh tick starts.
    pub sequence_start: SequenceStart,
}

/// A [`Limits::reserved_end`] that does not limit anything.
pub const UNRESERVED: u64 = u64::MAX;

impl Limits {
    /// Each bound with the first position that it does not allow. A claim that is above several
    /// gets the first in this order.
    #[inline]
    fn bounds(&self, layout: &Layout, now_tick: u64) -> [(Bound, u64); 2] {
        [(Bound::Clock, self.lead.end(layout, now_tick)), (Bound::Reservation, self.reserved_end)]
    }
}

/// How many positions a claim asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimSize {
    /// Up to this many, all of one tick: what a backend holds for its next calls.
    Block(u64),
    /// The next part of a batch: `remaining` if they fit in `chunk`, otherwise at least `chunk`,
    /// rounded up to whole ticks, so that parts of a batch meet only where the tick changes.
    Batch {
        /// What is still to come of the batch.
        remaining: u64,
        /// About how many to claim at a time.
        chunk: u64,
    },
}

impl ClaimSize {
    #[inline]
    fn count(self, layout: &Layout, start: u64) -> u64 {
        match self {
            ClaimSize::Block(count) => count.min(tick_end(layout, start) - start),
            ClaimSize::Batch { remaining, chunk } if remaining <= chunk => remaining,
            ClaimSize::Batch { remaining, chunk } => {
                let last = start.saturating_add(chunk.saturating_sub(1));
                remaining.min(tick_end(layout, last) - start)
            }
        }
    }
}

/// First position after the tick of a position.
#[inline]
pub const fn tick_end(layout: &Layout, position: u64) -> u64 {
    layout.first_position(layout.tick_of(position) + 1)
}

/// The Unix millisecond that all IDs are before which lie below a position, to the end of their tick; [`i64::MIN`] if there
/// are none.
pub fn end_ms(layout: &Layout, end: u64) -> i64 {
    end.checked_sub(1)
        .map_or(i64::MIN, |last| layout.tick_start_ms(layout.tick_of(tick_end(layout, last))))
}

/// Positions handed out together: `start` and the following `count - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The first position.
    pub start: u64,
    /// How many; at least one.
    pub count: u64,
}

impl Run {
    /// First position after the run.
    #[inline]
    pub const fn end(self) -> u64 {
        self.start + self.count
    }

    /// Splits off the part of the run that lies within its first tick.
    #[inline]
    pub fn split_tick(self, layout: &Layout) -> (Run, Option<Run>) {
        let end = tick_end(layout, self.start);
        if self.end() <= end {
            return (self, None);
        }
        let first = Run { start: self.start, count: end - self.start };
        (first, Some(Run { start: end, count: self.end() - end }))
    }
}

/// Why a claim got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// A bound has to move up first.
    Reached {
        /// Which one.
        bound: Bound,
        /// The position that the claim would have started at.
        position: u64,
    },
    /// The layout's last tick is used up.
    Exhausted,
}

/// The lowest position never handed out.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frontier(u64);

impl Frontier {
    /// A frontier at a position: zero for a worker that never issued an ID, otherwise a position
    /// that all its IDs are known to be below.
    pub const fn new(position: u64) -> Frontier {
        Frontier(position)
    }

    /// The lowest position never handed out.
    #[inline]
    pub const fn position(self) -> u64 {
        self.0
    }

    /// Moves the frontier up to a position, never down.
    pub fn raise(&mut self, position: u64) {
        self.0 = self.0.max(position);
    }

    /// Hands out as many positions as asked for or fewer, at least one, while the clock shows
    /// `now_tick`. A claim that gets fewer because of the clock ends with its tick.
    ///
    /// # Errors
    /// [`ClaimError`] says what has to happen first; the frontier is then unchanged.
    #[inline]
    pub fn claim(
        &mut self,
        layout: &Layout,
        now_tick: u64,
        size: ClaimSize,
        limits: &Limits,
    ) -> Result<Run, ClaimError> {
        let start = self.next_start(layout, now_tick, limits.sequence_start);
        if start >= layout.first_position(layout.ticks()) {
            return Err(ClaimError::Exhausted);
        }
        let mut end = u64::MAX;
        for (bound, position) in limits.bounds(layout, now_tick) {
            if start >= position {
                return Err(ClaimError::Reached { bound, position: start });
            }
            end = end.min(position);
        }
        let count = size.count(layout, start).max(1).min(end - start);
        self.0 = start + count;
        Ok(Run { start, count })
    }

    #[inline]
    pub(crate) fn next_start(self, layout: &Layout, now_tick: u64, how: SequenceStart) -> u64 {
        let tick_start = layout.first_position(now_tick);
        let is_left = Fault::ClockBackFollowed.is_planted()
            && layout.tick_of(self.0) > now_tick + 4_000 / u64::from(layout.tick_ms());
        if self.0 > tick_start && !is_left {
            return self.0;
        }
        match how {
            SequenceStart::Zero => tick_start,
            SequenceStart::Spread => tick_start + spread_offset(now_tick, layout.per_tick()),
        }
    }
}

/// A place in the lowest 1/64 of a sequence that looks random from tick to tick but needs no state:
/// the tick times 2^64 over the golden ratio (Fibonacci hashing, Knuth, TAOCP volume 3, 6.4), whose
/// high bits change with every tick.
#[inline]
const fn spread_offset(tick: u64, per_tick: u64) -> u64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let places = per_tick >> SPREAD_SHARE_BITS;
    if places == 0 {
        return 0;
    }
    (tick.wrapping_mul(GOLDEN) >> 32) & (places - 1)
}
