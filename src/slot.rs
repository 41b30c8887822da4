//! What one process owns in the shared segment: the rest of its block, and what it counts.
//!
//! **Locking.** A slot is written by its process alone, without a lock; others read it, and may see
//! a block that is just being dropped or filled: sums over slots are good to one block each.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use id_gen_core::block::Block;
use id_gen_core::layout::{Layout, NS_PER_MS};

/// What slots count, added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// IDs handed to callers.
    pub issued: u64,
    /// Positions claimed, handed out or not.
    pub granted: u64,
    /// Claims.
    pub claims: u64,
    /// Claims that had to wait.
    pub waits: u64,
    /// Time waited.
    pub waited_ns: u64,
}

/// What one process owns.
#[repr(C, align(128))]
pub struct Slot {
    /// The rest of its block.
    pub block: Block,
    /// Size of the last block it asked for.
    pub block_size: AtomicU64,
    /// What it claimed while the clock showed the tick that ends at `taken_until_ns`.
    taken: AtomicU64,
    /// When that tick ends or ended, in nanoseconds since the Unix epoch, and how long it lasts.
    taken_until_ns: AtomicU64,
    taken_tick_ns: AtomicU64,
    /// Positions claimed, handed out or not.
    pub granted: AtomicU64,
    /// Positions claimed and dropped unused.
    pub dropped: AtomicU64,
    /// Claims.
    pub claims: AtomicU64,
    /// Claims that had to wait.
    pub waits: AtomicU64,
    /// Time waited.
    pub waited_ns: AtomicU64,
    /// The process, or zero.
    pub pid: AtomicI32,
}

impl Slot {
    /// Adds to a counter that only its owner writes.
    #[inline]
    pub fn add(counter: &AtomicU64, amount: u64) {
        if cfg!(feature = "uncounted") {
            return;
        }
        // The owner is the only writer, so this needs no locked instruction.
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// How many positions this process has claimed in the tick that the clock shows. What it holds of them, and claims that
    /// were refused since, make no difference.
    pub fn taken_in_tick(&self, now_ns: u64) -> u64 {
        // A clock past the end wraps around to far before it.
        let left_ns = self.taken_until_ns.load(Relaxed).wrapping_sub(now_ns);
        let same_tick = left_ns != 0 && left_ns <= self.taken_tick_ns.load(Relaxed);
        if same_tick { self.taken.load(Relaxed) } else { 0 }
    }

    /// Notes a claim that was made while the clock showed this tick.
    pub fn note_taken(&self, layout: &Layout, now_tick: u64, count: u64) {
        let tick_ns = layout.tick_ns();
        // A claim's clock is past 1970 and before the layout's end, so this does not wrap.
        let start_ms = layout.tick_start_ms(now_tick).cast_unsigned();
        let until_ns = start_ms.wrapping_mul(NS_PER_MS).wrapping_add(tick_ns);
        let before = if self.taken_until_ns.load(Relaxed) == until_ns {
            self.taken.load(Relaxed)
        } else {
            0
        };
        self.taken.store(before.saturating_add(count), Relaxed);
        self.taken_until_ns.store(until_ns, Relaxed);
        self.taken_tick_ns.store(tick_ns, Relaxed);
    }

    /// Drops the rest of the block.
    pub fn drop_block(&self) {
        Slot::add(&self.dropped, self.block.left());
        self.block.clear();
    }

    /// The slot's counts.
    pub fn counts(&self) -> Counts {
        let unused = self.dropped.load(Relaxed).wrapping_add(self.block.left());
        let granted = self.granted.load(Relaxed);
        Counts {
            issued: granted.saturating_sub(unused),
            granted,
            claims: self.claims.load(Relaxed),
            waits: self.waits.load(Relaxed),
            waited_ns: self.waited_ns.load(Relaxed),
        }
    }

    /// Makes the slot new for its next process.
    pub fn reset(&self, pid: i32) {
        self.block.clear();
        for counter in [
            &self.block_size,
            &self.taken,
            &self.taken_until_ns,
            &self.taken_tick_ns,
            &self.granted,
            &self.dropped,
            &self.claims,
            &self.waits,
            &self.waited_ns,
        ] {
            counter.store(0, Relaxed);
        }
        self.pid.store(pid, Relaxed);
    }
}

impl Counts {
    /// Both together.
    pub fn plus(self, other: Counts) -> Counts {
        self.each(other, u64::saturating_add)
    }

    /// What this has beyond the other.
    pub fn minus(self, other: Counts) -> Counts {
        self.each(other, u64::saturating_sub)
    }

    /// The larger of each.
    pub fn at_least(self, other: Counts) -> Counts {
        self.each(other, u64::max)
    }

    fn each(self, other: Counts, of: fn(u64, u64) -> u64) -> Counts {
        Counts {
            issued: of(self.issued, other.issued),
            granted: of(self.granted, other.granted),
            claims: of(self.claims, other.claims),
            waits: of(self.waits, other.waits),
            waited_ns: of(self.waited_ns, other.waited_ns),
        }
    }
}
