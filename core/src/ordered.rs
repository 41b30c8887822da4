//! What is in order within one generator although it is random: a time, and a random part that goes up by a random
//! amount while the time stands still (RFC 9562, section 6.2, method 2). So the time stays true, also when the clock
//! was set back, and the next one can't be guessed from the last.
//!
//! A generator belongs to one thread. Where several processes share an order, they share the last time alone: see
//! [`next_in_order`].

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::planted::Fault;

/// Bits of the random amount added within a step: 2^40 guesses for the next one, and 2^21 or more a step before the
/// random part is likely to be used up.
const INCREMENT_BITS: u32 = 40;
const INCREMENT_MASK: u64 = (1 << INCREMENT_BITS) - 1;

/// What a generator remembers: the last time and random part it used, of so many bits, 63 at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generator<const RANDOM_BITS: u32> {
    step: u64,
    random: u64,
}

/// The time and the random part of one ID, in order within its generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The time, in what the generator was given.
    pub step: u64,
    /// The random part.
    pub random: u64,
}

impl<const RANDOM_BITS: u32> Generator<RANDOM_BITS> {
    const RANDOM_MASK: u64 = (1 << RANDOM_BITS) - 1;

    /// A generator that has made nothing yet.
    pub const fn new() -> Self {
        Generator { step: 0, random: 0 }
    }

    /// The next payload, larger than every one before it. `step` is the time in whole units; `random` must be 64 fresh
    /// random bits.
    #[inline(always)]
    pub fn next(&mut self, step: u64, random: u64) -> Payload {
        if Fault::UuidsFollowClockBack.is_planted() {
            self.step = self.step.min(step);
        }
        // In a loop about every second call comes in a new step: no branch could be predicted.
        self.random = select_unpredictable(
            step > self.step,
            random & Self::RANDOM_MASK,
            self.random + (random & INCREMENT_MASK) + 1,
        );
        self.step = self.step.max(step);
        if self.random > Self::RANDOM_MASK {
            // Used up: one step on, and the bits not used for the increment start it.
            self.step += 1;
            self.random = random >> INCREMENT_BITS;
        }
        Payload { step: self.step, random: self.random }
    }
}

/// The next time of an order that several processes share, larger than every one before it: `now`, or one unit after
/// the last, which is `last`. Nobody waits for anybody. Where the clock was set back, the order goes on from the last
/// time by single units, so the times lead the clock until that has caught up.
#[inline(always)]
pub fn next_in_order(last: &AtomicU64, now: u64) -> u64 {
    // One word: whoever reads it has the newest value of it, and nothing else depends on it.
    let mut before = last.load(Ordering::Relaxed);
    loop {
        let next = now.max(before.wrapping_add(u64::from(!Fault::OrderedUuidsRepeat.is_planted())));
        match last.compare_exchange_weak(before, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return next,
            Err(newer) => before = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_random_part_goes_one_step_on() {
        let mut generator = Generator::<62> { step: 4096, random: Generator::<62>::RANDOM_MASK };
        let payload = generator.next(0, u64::MAX);
        assert_eq!(payload, Payload { step: 4097, random: u64::MAX >> INCREMENT_BITS });
    }

    #[test]
    fn an_order_goes_on_where_the_clock_was_set_back() {
        let last = AtomicU64::new(0);
        let given = [10, 10, 3, 12, 11].map(|now| next_in_order(&last, now));
        assert_eq!(given, [10, 11, 12, 13, 14]);
    }

    #[test]
    fn threads_share_an_order() {
        const EACH: u64 = 100_000;
        let last = AtomicU64::new(0);
        let given = std::thread::scope(|scope| {
            let take = |now| -> Vec<u64> {
                (0..EACH).map(|i| next_in_order(&last, now + i / 7)).collect()
            };
            let threads = [0, 5, 500].map(|now| scope.spawn(move || take(now)));
            threads.map(|thread| thread.join().unwrap_or_default())
        });
        assert!(given.iter().all(|times| times.is_sorted_by(|a, b| a < b)));
        let mut all = given.concat();
        all.sort_unstable();
        assert_eq!(all.len() as u64, 3 * EACH);
        assert!(all.is_sorted_by(|a, b| a < b));
    }
}
