//! The frontier rule: which positions may be handed out now.
//!
//! Every worker ID owns one line of positions, `tick << sequence_bits | sequence`. The **frontier**
//! is the lowest position never handed out, and it only moves up. A claim takes positions from the
//! larger of the frontier and the clock's own tick, and stops at the **ceiling**: the lower of the
//! clock plus the allowed lead, and the reservation.
//!
//! That one rule covers what makes snowflakes hard. A full tick is the frontier walking into the
//! next one. A clock that moved back is a frontier that is ahead; it goes on while the lead allows
//! and then asks the caller to wait. The caller holds whatever lock protects the frontier; nothing
//! here blocks.

use crate::layout::Layout;

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

/// Share of a tick that a session takes before its requests are bulk: one in 64.
const MODEST_SHARE: u64 = 64;
/// Share of a tick that bulk requests leave where there is no lead: one in 256.
const LEFT_WITHOUT_LEAD: u64 = 256;

/// How many IDs a session may take within a tick of the clock before its requests are bulk. Fewer sessions than
/// [`MODEST_SHARE`] together take less in this way than a tick has.
#[inline]
pub const fn modest_count(layout: &Layout) -> u64 {
    let share = layout.per_tick() / MODEST_SHARE;
    if share == 0 { 1 } else { share }
}

/// How many positions below the clock's ceiling a bulk request leaves to others: a tick, or where no lead is allowed a
/// small part of one. The clock gives as much again with every tick, so whoever loads in bulk makes only others who do so
/// wait.
#[inline]
pub const fn left_by_bulk(layout: &Layout, max_lead_ticks: u64) -> u64 {
    if max_lead_ticks == 0 { layout.per_tick() / LEFT_WITHOUT_LEAD } else { layout.per_tick() }
}

/// What bounds a claim, apart from the frontier itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many ticks IDs may run ahead of the clock; zero waits for the clock.
    pub max_lead_ticks: u64,
    /// How many positions below what the clock allows are left to others: see [`left_by_bulk`].
    pub left: u64,
    /// First position that must not be handed out, whatever the clock says: what has been promised
    /// so far. [`NO_RESERVATION`] where nothing limits it.
    pub reservation: u64,
    /// Where a fresh tick starts.
    pub sequence_start: SequenceStart,
}

/// A reservation that does not limit anything.
pub const NO_RESERVATION: u64 = u64::MAX;

/// How many positions a claim asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
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

impl Want {
    #[inline]
    fn size(self, layout: &Layout, start: u64) -> u64 {
        match self {
            Want::Block(count) => count.min(tick_end(layout, start) - start),
            Want::Batch { remaining, chunk } if remaining <= chunk => remaining,
            Want::Batch { remaining, chunk } => {
                let last = start.saturating_add(chunk.saturating_sub(1));
                remaining.min(tick_end(layout, last) - start)
            }
        }
    }
}

/// First position after the tick of a position.
#[inline]
pub(crate) const fn tick_end(layout: &Layout, position: u64) -> u64 {
    layout.first_position(layout.tick_of(position) + 1)
}

/// Positions handed out together, `start` and the following `count - 1`.
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
pub enum Refusal {
    /// The frontier is as far ahead of the clock as it may be: try again when the clock shows
    /// this tick.
    Ahead {
        /// First tick of the clock at which a claim succeeds.
        until_tick: u64,
    },
    /// The reservation is used up: extend it past this position, then try again.
    Unreserved {
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
    /// A frontier at a position: zero for a worker that never issued an ID, otherwise the position
    /// it is known to have stayed below.
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

    /// Hands out up to as many positions as wanted, at least one, while the clock shows `now_tick`.
    ///
    /// A claim that gets fewer because of the clock ends with its tick.
    ///
    /// # Errors
    /// [`Refusal`] says what has to happen first; the frontier is then unchanged.
    #[inline]
    pub fn claim(
        &mut self,
        layout: &Layout,
        now_tick: u64,
        want: Want,
        limits: &Limits,
    ) -> Result<Run, Refusal> {
        let start = self.next_start(layout, now_tick, limits.sequence_start);
        if start >= layout.first_position(layout.ticks()) {
            return Err(Refusal::Exhausted);
        }
        let last_tick = now_tick.saturating_add(limits.max_lead_ticks).min(layout.ticks() - 1);
        let clock_ceiling = layout.first_position(last_tick + 1).saturating_sub(limits.left);
        if start >= clock_ceiling {
            let last = layout.tick_of(start.saturating_add(limits.left));
            return Err(Refusal::Ahead { until_tick: last.saturating_sub(limits.max_lead_ticks) });
        }
        if start >= limits.reservation {
            return Err(Refusal::Unreserved { position: start });
        }
        let ceiling = clock_ceiling.min(limits.reservation);
        let count = want.size(layout, start).max(1).min(ceiling - start);
        self.0 = start + count;
        Ok(Run { start, count })
    }

    #[inline]
    fn next_start(self, layout: &Layout, now_tick: u64, how: SequenceStart) -> u64 {
        let tick_start = layout.first_position(now_tick);
        if self.0 > tick_start {
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
