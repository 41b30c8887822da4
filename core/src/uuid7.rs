//! UUIDv7 (RFC 9562, section 5.7), strictly increasing within one generator.
//!
//! From the highest bit: 48 bits of Unix milliseconds, the version, 12 bits of sub-millisecond
//! fraction (section 6.2, method 3), the variant, 62 random bits. The fraction counts *steps* of
//! 1/4096 ms, about 244 ns. While the clock has not moved on by a step, or moved back, the random
//! part goes up by a random amount instead (section 6.2, method 2): the time stays true, and the
//! next UUID can't be guessed from the last.
//!
//! Time and random bits are arguments, and a generator belongs to one thread.

use std::hint::select_unpredictable;
use std::time::Duration;

use crate::time::NS_PER_MS;
use crate::uuid::VARIANT;

/// Bits of the sub-millisecond fraction.
const FRACTION_BITS: u32 = 12;
/// Bits of the random part.
const RANDOM_BITS: u32 = 62;
const RANDOM_MASK: u64 = (1 << RANDOM_BITS) - 1;
/// Bits of the random amount added within a step: 2^40 guesses for the next UUID, 2^22 UUIDs a
/// step before the random part is likely to be used up.
const INCREMENT_BITS: u32 = 40;
const INCREMENT_MASK: u64 = (1 << INCREMENT_BITS) - 1;
const VERSION: u64 = 7;

/// Last millisecond that a UUIDv7 can carry: 48 bits.
pub const LAST_MS: u64 = (1 << 48) - 1;

/// What a generator remembers: the last time and random part it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generator {
    step: u64,
    random: u64,
}

/// The time and the random part of one UUID, in order within its generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    step: u64,
    random: u64,
}

impl Generator {
    /// A generator that has made nothing yet.
    pub const fn new() -> Generator {
        Generator { step: 0, random: 0 }
    }

    /// The next payload, larger than every one before it. `step` is the time in whole steps since the
    /// Unix epoch, as [`steps`] gives it; `random` must be 64 fresh random bits.
    #[inline(always)]
    pub fn next(&mut self, step: u64, random: u64) -> Payload {
        // In a loop about every second call comes in a new step: no branch could be predicted.
        self.random = select_unpredictable(
            step > self.step,
            random & RANDOM_MASK,
            self.random + (random & INCREMENT_MASK) + 1,
        );
        self.step = self.step.max(step);
        if self.random > RANDOM_MASK {
            // Used up: one step on, and the bits not used for the increment start it.
            self.step += 1;
            self.random = random >> INCREMENT_BITS;
        }
        Payload { step: self.step, random: self.random }
    }
}

impl Payload {
    /// Unix time in milliseconds.
    #[inline(always)]
    pub const fn unix_ms(self) -> u64 {
        self.step >> FRACTION_BITS
    }

    /// The UUID of this payload.
    #[inline(always)]
    pub const fn uuid(self) -> [u8; 16] {
        self.uuid_at(self.unix_ms())
    }

    /// The UUID of this payload moved to another millisecond. Only 48 bits of it are used.
    #[inline(always)]
    pub const fn uuid_at(self, unix_ms: u64) -> [u8; 16] {
        build(unix_ms, self.step & ((1 << FRACTION_BITS) - 1), self.random)
    }
}

/// Smallest UUIDv7 of a millisecond.
pub const fn min_of(unix_ms: u64) -> [u8; 16] {
    build(unix_ms, 0, 0)
}

/// Largest UUIDv7 of a millisecond.
pub const fn max_of(unix_ms: u64) -> [u8; 16] {
    build(unix_ms, (1 << FRACTION_BITS) - 1, RANDOM_MASK)
}

/// The Unix millisecond in the first 48 bits of a version 7 UUID.
pub const fn unix_ms(uuid: &[u8; 16]) -> i64 {
    let [a, b, c, d, e, f, ..] = *uuid;
    i64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Steps in a nanosecond.
pub const STEPS_PER_NS: f64 = (1 << FRACTION_BITS) as f64 / NS_PER_MS as f64;

/// A time since the Unix epoch in whole steps, and 2^-32 parts of one. Every second has a whole
/// number of steps, so that seconds and nanoseconds, as the operating system gives them, are
/// converted each by itself; the lowest 12 bits of the sum are the fraction of a millisecond, the
/// others milliseconds.
#[inline(always)]
pub const fn steps(since_epoch: Duration) -> (u64, u32) {
    const PER_SECOND: u64 = 1000 << FRACTION_BITS;
    let scaled = (since_epoch.subsec_nanos() as u64) << FRACTION_BITS;
    let whole = since_epoch.as_secs().wrapping_mul(PER_SECOND) + scaled / NS_PER_MS;
    let part = ((scaled % NS_PER_MS) << u32::BITS) / NS_PER_MS;
    (whole, part as u32)
}

#[inline(always)]
const fn build(unix_ms: u64, fraction: u64, random: u64) -> [u8; 16] {
    let high = (unix_ms << 16) | (VERSION << FRACTION_BITS) | fraction;
    let low = (VARIANT << RANDOM_BITS) | random;
    (((high as u128) << 64) | low as u128).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uuid::version;

    /// RFC 9562, appendix A.6.
    #[test]
    fn the_rfc_example() {
        let uuid = (0x017F_22E2_79B0_7CC3_98C4_DC0C_0C07_398F_u128).to_be_bytes();
        assert_eq!(version(&uuid), Some(7));
        assert_eq!(unix_ms(&uuid), 1_645_557_742_000);
        assert_eq!(build(0x017F_22E2_79B0, 0xCC3, 0x18C4_DC0C_0C07_398F), uuid);
    }

    #[test]
    fn bounds_have_the_right_version_and_variant() {
        for unix_ms in [0, 1, 1_645_557_742_000, LAST_MS] {
            for uuid in [min_of(unix_ms), max_of(unix_ms)] {
                assert_eq!(version(&uuid), Some(7));
                assert_eq!(super::unix_ms(&uuid), unix_ms as i64);
            }
        }
        assert_eq!(version(&[0xFF; 16]), None);
    }

    #[test]
    fn a_used_up_random_part_goes_one_step_on() {
        let mut generator =
            Generator { step: steps(Duration::from_millis(1)).0, random: RANDOM_MASK };
        let before = generator;
        let payload = generator.next(0, u64::MAX);
        assert_eq!(payload.step, before.step + 1);
        assert!(payload.uuid() > Payload { step: before.step, random: before.random }.uuid());
    }

    #[test]
    fn a_step_is_a_4096th_of_a_millisecond() {
        let at_ns = |ns| steps(Duration::from_nanos(ns)).0;
        assert_eq!(at_ns(0), 0);
        assert_eq!(at_ns(244), 0);
        assert_eq!(at_ns(245), 1);
        assert_eq!(at_ns(999_999), 4095);
        assert_eq!(at_ns(1_000_000), 4096);
        assert_eq!(at_ns(999_999_999), 4_095_999);
        assert_eq!(at_ns(1_000_000_000), 4_096_000);
    }
}
