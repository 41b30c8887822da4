//! The range that all sessions take numbers of, without a lock.
//!
//! One word says which range it is and how many of its numbers are taken; a session takes the next one with one
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
const LARGEST: u32 = 1 << 31;

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
    /// Takes the next number; `None` if none is left, or the range is not this owner's.
    #[inline(always)]
    pub fn take(&self, owner: u64) -> Option<i64> {
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
            match self.word.compare_exchange(old, word(range, taken + 1), AcqRel, Acquire) {
                Ok(_) => return Some(steps::at(first, step, taken)),
                Err(found) => old = found,
            }
        }
    }

    /// What is not taken. For the holder of the lock; sessions take on.
    pub fn left(&self) -> Option<Run> {
        self.left_of(parts(self.word.load(Acquire)).1)
    }

    fn left_of(&self, taken: u32) -> Option<Run> {
        let left = self.count.load(Relaxed).checked_sub(taken).filter(|&left| left > 0)?;
        let (first, step) = (self.first.load(Relaxed), self.step.load(Relaxed));
        Some(Run { first: steps::at(first, step, taken), count: left })
    }

    /// Closes the range, and returns what was not taken of it. For the holder of the lock.
    pub fn close(&self) -> Option<Run> {
        let mut old = self.word.load(Acquire);
        loop {
            let (range, taken) = parts(old);
            let new = word(range.wrapping_add(1), CLOSED);
            match self.word.compare_exchange(old, new, AcqRel, Acquire) {
                Ok(_) => return self.left_of(taken),
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
    fn a_range_is_its_owners_and_ends() {
        let current = Current::default();
        assert_eq!(current.take(0), None);
        assert_eq!(current.close(), None);
        current.open(7, Run { first: 100, count: 3 }, 5);
        assert_eq!(current.take(8), None);
        assert_eq!((current.take(7), current.take(7)), (Some(100), Some(105)));
        assert_eq!(current.left(), Some(Run { first: 110, count: 1 }));
        assert_eq!(current.close(), Some(Run { first: 110, count: 1 }));
        assert_eq!((current.take(7), current.left(), current.close()), (None, None, None));
        current.open(7, Run { first: 1, count: 1 }, 1);
        assert_eq!((current.take(7), current.take(7)), (Some(1), None));
        assert_eq!((current.left(), current.close()), (None, None));
    }
}
