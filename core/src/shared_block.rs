//! One block for all sessions: IDs of one tick, of which any session takes the next one without the lock.
//!
//! Where IDs have to be in strict order across sessions, no session can hold any for itself. So whoever holds
//! the lock claims the rest of a tick for everybody. Positions are counted by one word, which the processor
//! adds to: the order of the additions is the order of the IDs.
//!
//! Who holds the lock has *closed* the block before it does anything else: whatever the lock protects is then
//! as if there were no such block. Blocks are numbered, and the word holds the number beside the count, so an
//! addition by a session that still goes by an earlier block has no effect but that one position may be
//! skipped. A session reads the terms of a block without a lock; the fences make sure that they are those of
//! the number with which the addition was answered.

#[cfg(feature = "model-checking")]
use loom::sync::atomic::{AtomicU64, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(not(feature = "model-checking"))]
use std::sync::atomic::{AtomicU64, fence};

use crate::block;
use crate::layout::Layout;

/// Bits of the word that count positions. What is left numbers the blocks: one that is opened every
/// microsecond comes by its number again after 203 days.
const COUNT_BITS: u32 = 20;

/// The most positions of a block. As many sessions again may find it used up.
pub const LARGEST: u64 = 1 << (COUNT_BITS - 1);

/// The number of no block: the block is closed.
const CLOSED: u64 = 0;

/// The word that all sessions write, on cache lines of its own.
#[repr(C, align(128))]
#[derive(Debug)]
struct Word(AtomicU64);

/// A block that sessions share.
#[repr(C)]
#[derive(Debug)]
pub struct SharedBlock {
    /// Number of the open block, and how many positions were taken of it.
    word: Word,
    /// [`Terms`], written by the holder of the lock.
    number: AtomicU64,
    first_id: AtomicU64,
    stride: AtomicU64,
    count: AtomicU64,
    now_tick: AtomicU64,
    tick_start_ns: AtomicU64,
    tick_ns: AtomicU64,
    /// The number of the last block that was opened; for the holder of the lock.
    last_number: AtomicU64,
}

/// What a block consists of, and for how long it is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Tells the block from all others.
    pub number: u64,
    first_id: u64,
    stride: u64,
    count: u64,
    /// The tick that the clock showed when the block was claimed.
    pub now_tick: u64,
    tick_start_ns: u64,
    tick_ns: u64,
}

impl Terms {
    /// The lowest ID of the block.
    #[inline(always)]
    pub const fn first_id(&self) -> u64 {
        self.first_id
    }

    /// How many positions the block was opened with.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// How long the tick goes on in which the block was claimed; zero if the clock has left it.
    #[inline]
    pub const fn left_ns(&self, now_ns: u64) -> u64 {
        block::left_of_tick_ns(self.tick_start_ns, self.tick_ns, now_ns)
    }
}

impl Default for SharedBlock {
    fn default() -> SharedBlock {
        let zero = || AtomicU64::new(CLOSED);
        SharedBlock {
            word: Word(zero()),
            number: zero(),
            first_id: zero(),
            stride: zero(),
            count: zero(),
            now_tick: zero(),
            tick_start_ns: zero(),
            tick_ns: zero(),
            last_number: zero(),
        }
    }
}

impl SharedBlock {
    /// The terms of the open block, to be taken of at once.
    #[inline(always)]
    pub fn terms(&self) -> Option<Terms> {
        // `Acquire`: the fields are as new as the number, or newer.
        let number = self.number.load(Acquire);
        if number == CLOSED {
            return None;
        }
        Some(Terms {
            number,
            first_id: self.first_id.load(Relaxed),
            stride: self.stride.load(Relaxed),
            count: self.count.load(Relaxed),
            now_tick: self.now_tick.load(Relaxed),
            tick_start_ns: self.tick_start_ns.load(Relaxed),
            tick_ns: self.tick_ns.load(Relaxed),
        })
    }

    /// Takes the next ID, if the block of these terms is still open and not used up.
    #[inline(always)]
    pub fn take(&self, terms: &Terms) -> Option<u64> {
        // Pairs with the fence in `open`: if a field of the terms is newer than their number, the addition
        // comes after that block was closed, and is answered with another number.
        fence(Acquire);
        // `Release`: who closes the block after this sees all that the session has written before, among that what it
        // has published of its transaction ([`crate::horizon`]).
        let word = self.word.0.fetch_add(1, Release);
        let (number, place) = (word >> COUNT_BITS, word & ((1 << COUNT_BITS) - 1));
        if number != terms.number || place >= terms.count {
            return None;
        }
        Some(terms.first_id.wrapping_add(terms.stride.wrapping_mul(place)))
    }

    /// Whether blocks are shared here, as far as one can tell without the lock.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.last_number.load(Relaxed) != CLOSED
    }

    /// Opens a block of so many positions of one tick, at most [`LARGEST`], from this ID on, claimed while
    /// the clock showed `now_tick`. For the holder of the lock, while the block is closed.
    pub fn open(&self, layout: &Layout, first_id: u64, count: u64, now_tick: u64) {
        let last = self.last_number.load(Relaxed);
        let number = if last + 1 < 1 << (u64::BITS - COUNT_BITS) { last + 1 } else { CLOSED + 1 };
        self.last_number.store(number, Relaxed);
        // Whoever sees anything that follows also finds the last block closed. That may have been done by
        // another process; the lock is what puts it before this fence.
        fence(Release);
        self.first_id.store(first_id, Relaxed);
        self.stride.store(layout.stride(), Relaxed);
        self.count.store(count.min(LARGEST), Relaxed);
        self.now_tick.store(now_tick, Relaxed);
        self.tick_start_ns.store(layout.tick_start_ns(now_tick), Relaxed);
        self.tick_ns.store(layout.tick_ns(), Relaxed);
        self.word.0.store(number << COUNT_BITS, Relaxed);
        self.number.store(number, Release);
    }

    /// Closes the block, and says how many positions were taken of it at most. For the holder of the lock.
    pub fn close(&self) -> u64 {
        let word = self.word.0.swap(CLOSED, Acquire);
        self.number.store(CLOSED, Relaxed);
        (word & ((1 << COUNT_BITS) - 1)).min(self.count.load(Relaxed))
    }
}
