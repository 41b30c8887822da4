//! What one process owns in shared memory: the rest of its block, and what it counts.
//!
//! **Locking.** A slot is written by its process alone, without a lock; others read it, and may see
//! a block that is just being dropped or filled: sums over slots are good to one block each. What is pending is
//! published under the lock of the state, as [`id_gen_core::horizon`] says.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use id_gen_core::block::Block;
use id_gen_core::horizon::Pending;
use id_gen_core::layout::Layout;

use crate::shared::counters::Counts;

/// What one process owns.
#[repr(C, align(128))]
pub struct Slot {
    /// The rest of its block.
    pub block: Block,
    /// Size of the last block it asked for.
    pub block_size: AtomicU64,
    /// The tick of the clock in which it claimed last, and how much it claimed in that tick.
    taken_in_tick: AtomicU64,
    taken: AtomicU64,
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
    /// From which ID on its transaction may commit rows.
    pub pending: Pending,
    /// The process, or zero.
    pub pid: AtomicI32,
    /// The database that it is connected to.
    pub database: AtomicU32,
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

    /// How many positions this process has claimed while the clock showed this tick. What it holds of
    /// them makes no difference, nor do claims that were refused.
    #[inline]
    pub fn taken_in_tick(&self, now_tick: u64) -> u64 {
        if self.taken_in_tick.load(Relaxed) == now_tick { self.taken.load(Relaxed) } else { 0 }
    }

    /// Notes a claim that was made while the clock showed this tick.
    #[inline]
    pub fn note_claim(&self, now_tick: u64, count: u64) {
        let taken = self.taken_in_tick(now_tick).saturating_add(count);
        self.taken_in_tick.store(now_tick, Relaxed);
        self.taken.store(taken, Relaxed);
        Slot::add(&self.claims, 1);
        Slot::add(&self.granted, count);
    }

    /// Drops the rest of the block.
    #[inline]
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

    /// Publishes an ID from which on the transaction may commit rows, unless it has published a lower one; whether it is the
    /// first of the transaction.
    #[inline(always)]
    pub fn publish(&self, id: u64) -> bool {
        !cfg!(feature = "without_horizon") && self.pending.publish(Layout::to_bigint(id))
    }

    /// The transaction has ended, and every new snapshot shows how: nothing is pending any more. What is left of the
    /// block is not for the next transaction, nor does that one load in bulk because this one used its block up.
    #[inline]
    pub fn end_transaction(&self) {
        // Who has made no ID since the last transaction holds none.
        if self.pending.first_id().is_some() {
            self.pending.clear();
            self.drop_block();
        }
    }

    /// Makes the slot new for its next process.
    pub fn reset(&self, pid: i32, database: u32) {
        self.block.clear();
        self.pending.clear();
        for counter in [
            &self.block_size,
            &self.taken_in_tick,
            &self.taken,
            &self.granted,
            &self.dropped,
            &self.claims,
            &self.waits,
            &self.waited_ns,
        ] {
            counter.store(0, Relaxed);
        }
        self.database.store(database, Relaxed);
        self.pid.store(pid, Relaxed);
    }
}
