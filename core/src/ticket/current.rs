//! The range that all sessions take numbers of, without a lock.
//!
//! One word says which range it is and how many of its numbers are taken; a session takes some with one
//! compare-and-swap of it. What the range consists of lies beside the word and is written only while the word is
//! closed, by the holder of the lock of the places. The fences make sure that a session which has read any of it
//! anew finds the word changed.
//!
//! A range has a number of its own, so a session that was stopped between reading and swapping finds another word. The
//! number comes again after 2^32 ranges were opened or closed in one place meanwhile.

#[cfg(feature = "model-checking")]
use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, fence};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(feature = "model-checking"))]
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, fence};

use crate::ticket::steps::{self, Run};

/// How many numbers a range may have.
pub const LARGEST: u32 = 1 << 31;

/// As many as are taken of a range that is closed.
const CLOSED: u32 = u32::MAX;

/// The range that is in use.
#[repr(C)]
#[derive(Debug)]
pub struct Current {
    /// The range's number, and how many of its numbers are taken.
    word: AtomicU64,
    first: AtomicI64,
    step: AtomicI64,
    count: AtomicU32,
    /// For whom the place was when the range was opened.
    owner: AtomicU64,
}

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The numbers.
    pub run: Run,
    /// From one to the next.
    pub step: i64,
    /// The range that they are of.
    pub range: u32,
}

const fn word(range: u32, taken: u32) -> u64 {
    (range as u64) << 32 | taken as u64
}

const fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Default for Current {
    fn default() -> Current {
        Current {
            word: AtomicU64::new(word(0, CLOSED)),
            first: AtomicI64::new(0),
            step: AtomicI64::new(0),
            count: AtomicU32::new(0),
            owner: AtomicU64::new(0),
        }
    }
}

impl Current {
    /// Takes up to so many numbers; `None` if none is left, or the range is not this owner's.
    #[inline(always)]
    pub fn take(&self, owner: u64, wanted: u32) -> Option<Taken> {
        // `Acquire`: what the range consists of is as new as the word, or newer.
        let mut old = self.word.load(Acquire);
        loop {
            let (range, taken) = parts(old);
            let (first, step) = (self.first.load(Relaxed), self.step.load(Relaxed));
            let (count, of) = (self.count.load(Relaxed), self.owner.load(Relaxed));
            // Pairs with the fence in `open`: if any of these is newer than the word, the swap fails.
            fence(Acquire);
            if taken >= count || of != owner {
                return None;
            }
            let count = wanted.min(count - taken);
            match self.word.compare_exchange(old, word(range, taken + count), AcqRel, Acquire) {
                Ok(_) => {
                    let run = Run { first: steps::at(first, step, taken), count };
                    return Some(Taken { run, step, range });
                }
                Err(found) => old = found,
            }
        }
    }

    /// Takes numbers back if they are the last that were taken. For the holder of the lock, with the owner that
    /// they were taken for.
    pub fn take_back(&self, run: Run) -> bool {
        let old = self.word.load(Acquire);
        let (range, taken) = parts(old);
        let (first, step) = (self.first.load(Relaxed), self.step.load(Relaxed));
        if taken == CLOSED || taken < run.count {
            return false;
        }
        let before = taken - run.count;
        if taken > self.count.load(Relaxed) || steps::at(first, step, before) != run.first {
            return false;
        }
        self.word.compare_exchange(old, word(range, before), AcqRel, Relaxed).is_ok()
    }

    /// What is not taken. For the holder of the lock; sessions take on.
    pub fn left(&self) -> Option<Run> {
        let (_, taken) = parts(self.word.load(Acquire));
        let (count, first) = (self.count.load(Relaxed), self.first.load(Relaxed));
        if taken >= count {
            return None;
        }
        let step = self.step.load(Relaxed);
        Some(Run { first: steps::at(first, step, taken), count: count - taken })
    }

    /// How many numbers were taken of the range that is open.
    pub fn taken(&self) -> u32 {
        let (_, taken) = parts(self.word.load(Acquire));
        if taken == CLOSED { 0 } else { taken }
    }

    /// Closes the range, and returns what was not taken of it. For the holder of the lock.
    pub fn close(&self) -> Option<Run> {
        let mut old = self.word.load(Acquire);
        loop {
            let (range, taken) = parts(old);
            let new = word(range.wrapping_add(1), CLOSED);
            match self.word.compare_exchange(old, new, AcqRel, Acquire) {
                Ok(_) => {
                    let (count, first) = (self.count.load(Relaxed), self.first.load(Relaxed));
                    if taken >= count {
                        return None;
                    }
                    let step = self.step.load(Relaxed);
                    let first = steps::at(first, step, taken);
                    return Some(Run { first, count: count - taken });
                }
                Err(found) => old = found,
            }
        }
    }

    /// Opens a range for an owner. For the holder of the lock, who has closed the one before.
    pub fn open(&self, owner: u64, run: Run, step: i64) {
        let (range, _) = parts(self.word.load(Relaxed));
        // Whoever sees anything that follows also finds the last range closed.
        fence(Release);
        self.first.store(run.first, Relaxed);
        self.step.store(step, Relaxed);
        self.count.store(run.count.min(LARGEST), Relaxed);
        self.owner.store(owner, Relaxed);
        self.word.store(word(range.wrapping_add(1), 0), Release);
    }
}

#[cfg(all(test, not(feature = "model-checking")))]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_last_is_taken_back() {
        let current = Current::default();
        assert_eq!(current.take(0, 1), None);
        current.open(7, Run { first: 100, count: 10 }, 5);
        assert_eq!(current.take(8, 1), None);
        let one = current.take(7, 4).unwrap();
        assert_eq!(one.run, Run { first: 100, count: 4 });
        let two = current.take(7, 2).unwrap();
        assert_eq!(two.run, Run { first: 120, count: 2 });
        assert!(!current.take_back(Run { first: 110, count: 2 }));
        assert!(current.take_back(Run { first: 125, count: 1 }));
        assert_eq!(current.left(), Some(Run { first: 125, count: 5 }));
        assert_eq!(current.close(), Some(Run { first: 125, count: 5 }));
        assert!(!current.take_back(Run { first: 120, count: 1 }));
        assert_eq!(current.take(7, 1), None);
        assert_eq!(current.close(), None);
    }

    #[test]
    fn a_range_ends() {
        let current = Current::default();
        current.open(1, Run { first: 1, count: 3 }, 1);
        assert_eq!(current.take(1, 2).unwrap().run.count, 2);
        assert_eq!(current.take(1, 2).unwrap().run, Run { first: 3, count: 1 });
        assert_eq!(current.take(1, 2), None);
        assert_eq!(current.taken(), 3);
    }
}
