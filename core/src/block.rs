//! The few IDs that one backend holds, so that most calls need neither lock nor arithmetic.
//!
//! A [`Block`] lies within one tick, so its IDs are a start and a constant stride. Its backend
//! alone writes it, without a lock; others may read it to see what is left. It is good only while
//! the clock shows the tick in which it was *claimed* and the generation is unchanged, and is
//! dropped otherwise. That keeps IDs of different backends in order to one tick.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::layout::Layout;
use crate::planted::Fault;

/// IDs of one tick, claimed and not yet handed out.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Block {
    /// The next ID to hand out.
    next_id: AtomicU64,
    /// The ID after the last one of the block; equal to `next_id` when nothing is left.
    end_id: AtomicU64,
    /// Distance between neighbouring IDs.
    stride: AtomicU64,
    /// When the tick in which the block was claimed began, in nanoseconds since the Unix epoch.
    tick_start_ns: AtomicU64,
    /// How long that tick lasts.
    tick_ns: AtomicU64,
    /// The generation under which the block was claimed.
    generation: AtomicU64,
}

impl Block {
    /// Whether nothing is left.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next_id.load(Relaxed) == self.end_id.load(Relaxed)
    }

    /// Takes the next ID, if the block is still good at this time and generation.
    #[inline(always)]
    pub fn take(&self, now_ns: u64, generation: u64) -> Option<u64> {
        let is_over = self.left_ns(now_ns) == 0 && !Fault::BlockOutlivesTick.is_planted();
        if is_over { None } else { self.take_within_tick(generation) }
    }

    /// Takes the next ID of a block whose tick is known not to be over, if the generation is still
    /// its own.
    #[inline(always)]
    pub fn take_within_tick(&self, generation: u64) -> Option<u64> {
        let is_ended = self.generation.load(Relaxed) != generation
            && !Fault::BlockOutlivesGeneration.is_planted();
        if self.is_empty() || is_ended {
            return None;
        }
        let id = self.next_id.load(Relaxed);
        self.next_id.store(id.wrapping_add(self.stride.load(Relaxed)), Relaxed);
        Some(id)
    }

    /// How long the tick goes on in which the block was claimed; zero if the clock has left it.
    #[inline]
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        left_of_tick_ns(self.tick_start_ns.load(Relaxed), self.tick_ns.load(Relaxed), now_ns)
    }

    /// Whether the block was used up within the tick in which it was claimed: the clock still shows
    /// that tick, the generation is unchanged, and nothing is left.
    #[inline(always)]
    pub fn is_used_up(&self, now_ns: u64, generation: u64) -> bool {
        self.is_empty() && self.left_ns(now_ns) > 0 && self.generation.load(Relaxed) == generation
    }

    /// How many IDs are left, good or not.
    #[inline(always)]
    pub fn left(&self) -> u64 {
        // A claim asks this of a block that is mostly used up: no need to divide.
        if self.is_empty() {
            return 0;
        }
        let span = self.end_id.load(Relaxed).wrapping_sub(self.next_id.load(Relaxed));
        span.checked_div(self.stride.load(Relaxed)).unwrap_or(0)
    }

    /// Drops what is left.
    #[inline(always)]
    pub fn clear(&self) {
        self.end_id.store(self.next_id.load(Relaxed), Relaxed);
        self.tick_ns.store(0, Relaxed);
    }

    /// Fills the block with so many IDs of one tick, from this one on, claimed while the clock showed
    /// `now_tick`.
    #[inline(always)]
    pub fn fill(&self, layout: &Layout, first_id: u64, count: u64, now_tick: u64, generation: u64) {
        let stride = layout.stride();
        self.next_id.store(first_id, Relaxed);
        self.end_id.store(first_id.wrapping_add(stride.wrapping_mul(count)), Relaxed);
        self.stride.store(stride, Relaxed);
        self.tick_start_ns.store(layout.tick_start_ns(now_tick), Relaxed);
        self.tick_ns.store(layout.tick_ns(), Relaxed);
        self.generation.store(generation, Relaxed);
    }
}

/// How long a tick goes on; zero if the clock does not show it.
#[inline]
pub(crate) const fn left_of_tick_ns(tick_start_ns: u64, tick_ns: u64, now_ns: u64) -> u64 {
    // A clock before the tick wraps around to far after it.
    tick_ns.saturating_sub(now_ns.wrapping_sub(tick_start_ns))
}

/// How many IDs a backend should claim next.
///
/// A backend that used up a block within the tick of its claim, and within one transaction, is loading in bulk: its next
/// block is twice as large. Any other takes one ID, so that single-row inserts of different backends stay in strict order,
/// and waste none.
#[inline]
pub fn next_size(previous: u64, used_up_within_tick: bool, max_block: u64) -> u64 {
    if used_up_within_tick { previous.saturating_mul(2).clamp(1, max_block) } else { 1 }
}
