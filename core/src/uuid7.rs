//! UUIDv7 (RFC 9562, section 5.7), strictly increasing within one generator.
//!
//! From the highest bit: 48 bits of Unix milliseconds, the version, 12 bits of sub-millisecond
//! fraction (section 6.2, method 3), the variant, 62 random bits. The fraction counts *steps* of
//! 1/4096 ms, about 244 ns. Within a step, and where the clock moved back, [`ordered`] keeps the order.
//!
//! Time and random bits are arguments.

use std::time::Duration;

use crate::ordered::{self, Payload};
use crate::time::NS_PER_MS;
use crate::uuid::VARIANT;

/// Bits of the sub-millisecond fraction.
pub(crate) const FRACTION_BITS: u32 = 12;
/// Bits of the random part.
pub(crate) const RANDOM_BITS: u32 = 62;
const RANDOM_MASK: u64 = (1 << RANDOM_BITS) - 1;
const VERSION: u64 = 7;

/// Last millisecond that a UUIDv7 can carry: 48 bits.
pub const LAST_MS: u64 = (1 << 48) - 1;

/// Last millisecond of an order over the whole server, in the year 2527: moments have 64 bits.
pub const LAST_ORDERED_MS: u64 = u64::MAX >> (FRACTION_BITS + FINER_BITS);

/// Makes payloads in order, of steps as [`steps`] gives them.
pub type Generator = ordered::Generator<RANDOM_BITS>;

/// Unix time in milliseconds.
#[inline(always)]
pub const fn unix_ms_of(payload: Payload) -> u64 {
    payload.step >> FRACTION_BITS
}

/// The UUID of a payload.
#[inline(always)]
pub const fn of(payload: Payload) -> [u8; 16] {
    moved(payload, unix_ms_of(payload))
}

/// The UUID of a payload moved to another millisecond. Only 48 bits of it are used.
#[inline(always)]
pub const fn moved(payload: Payload, unix_ms: u64) -> [u8; 16] {
    build(unix_ms, payload.step & ((1 << FRACTION_BITS) - 1), payload.random)
}

/// Bits that a moment of an order over the whole server has beyond a step: its unit is 2^-20 ms, about a nanosecond, so
/// that a thousand million a second lead no clock. They are the highest of the random part.
pub(crate) const FINER_BITS: u32 = 8;
pub(crate) const UNGUESSED_BITS: u32 = RANDOM_BITS - FINER_BITS;

/// A time since the Unix epoch as a moment of an order over the whole server. 64 bits last until the year 2527.
#[inline(always)]
pub const fn moment(since_epoch: Duration) -> u64 {
    let (whole, part) = steps(since_epoch);
    whole << FINER_BITS | (part >> (u32::BITS - FINER_BITS)) as u64
}

/// The Unix millisecond of a moment.
pub const fn ms_of_moment(moment: u64) -> i64 {
    (moment >> (FRACTION_BITS + FINER_BITS)) as i64
}

/// The UUID of a moment that no other has, with 54 random bits.
#[inline(always)]
pub const fn of_moment(moment: u64, random: u64) -> [u8; 16] {
    let finer = moment & ((1 << FINER_BITS) - 1);
    let random = finer << UNGUESSED_BITS | random >> (u64::BITS - UNGUESSED_BITS);
    of(Payload { step: moment >> FINER_BITS, random })
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
    fn a_moment_is_a_256th_of_a_step() {
        let at_ns = |ns| moment(Duration::from_nanos(ns));
        assert_eq!(at_ns(0), 0);
        assert_eq!(at_ns(999_999), (1 << 20) - 2);
        assert_eq!(at_ns(1_000_000), 1 << 20);
        let made = [1, 2, 256, 257, 1 << 20].map(|moment| of_moment(moment, u64::MAX));
        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(of_moment(1, u64::MAX) < of_moment(2, 0));
        assert_eq!(super::unix_ms(&of_moment(5 << 20, 0)), 5);
        assert_eq!(ms_of_moment(5 << 20), 5);
        assert_eq!(version(&of_moment(u64::MAX, u64::MAX)), Some(7));
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
