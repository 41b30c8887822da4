//! UUIDv6 and UUIDv1 (RFC 9562, sections 5.6 and 5.1): the same time, clock sequence and node; version 6 has the time's
//! highest bits first, and so sorts by it.
//!
//! The time counts 100 ns since 1582-10-15, in 60 bits. Clock sequence and node are random for each, as section 5.6
//! wants, with the node's multicast bit set, which no card's address has (section 6.10): 61 random bits, kept in order
//! by [`ordered`]. Time and random bits are arguments.

use std::time::Duration;

use crate::ordered::{self, Payload};
use crate::time::NS_PER_S;
use crate::uuid;

/// 100 ns intervals from 1582-10-15 to the Unix epoch (RFC 9562, section 5.1 and appendix A.1).
const GREGORIAN_TO_UNIX: i64 = 0x01B2_1DD2_1381_4000;
const NS_PER_INTERVAL: u64 = 100;
const INTERVALS_PER_US: i64 = 10;

/// Bits of clock sequence and node, without the multicast bit.
const RANDOM_BITS: u32 = 61;
/// The lowest bit of the node's first octet.
const MULTICAST_AT: u32 = 40;

/// Makes payloads in order, of intervals as [`intervals`] gives them.
pub type Generator = ordered::Generator<RANDOM_BITS>;

/// A time since the Unix epoch in intervals since 1582-10-15. 60 bits last until the year 5236.
#[inline(always)]
pub const fn intervals(since_epoch: Duration) -> u64 {
    let since_unix = since_epoch
        .as_secs()
        .wrapping_mul(NS_PER_S / NS_PER_INTERVAL)
        .wrapping_add(since_epoch.subsec_nanos() as u64 / NS_PER_INTERVAL);
    since_unix.wrapping_add(GREGORIAN_TO_UNIX.cast_unsigned())
}

/// Clock sequence and node of a random part.
const fn low(random: u64) -> u128 {
    let below = random & ((1 << MULTICAST_AT) - 1);
    let above = random >> MULTICAST_AT << (MULTICAST_AT + 1);
    (above | 1 << MULTICAST_AT | below) as u128
}

/// The UUIDv6 of a payload.
#[inline(always)]
pub const fn of(payload: Payload) -> [u8; 16] {
    let time = payload.step as u128;
    let (high, fraction) = (time >> 12, time & 0xFFF);
    uuid::stamped(high << 80 | fraction << 64 | low(payload.random), 6)
}

/// The UUIDv1 of a payload: the time's lowest 32 bits first, then the middle 16, then the highest 12.
#[inline(always)]
pub const fn of_version_1(payload: Payload) -> [u8; 16] {
    let time = payload.step as u128;
    let (first, middle, last) = (time & 0xFFFF_FFFF, time >> 32 & 0xFFFF, time >> 48 & 0xFFF);
    uuid::stamped(first << 96 | middle << 80 | last << 64 | low(payload.random), 1)
}

/// First and last microsecond since the Unix epoch that a UUIDv6 can carry: 1582-10-15 and the year 5236.
pub const FIRST_US: i64 = unix_us_of(0);
/// See [`FIRST_US`].
pub const LAST_US: i64 = unix_us_of((1 << 60) - 1) - 1;

/// Smallest UUIDv6 of a microsecond from [`FIRST_US`] to [`LAST_US`], whoever generated it.
pub const fn min_of(unix_us: i64) -> [u8; 16] {
    bound(unix_us, 0, 0)
}

/// Largest UUIDv6 of such a microsecond.
pub const fn max_of(unix_us: i64) -> [u8; 16] {
    bound(unix_us, INTERVALS_PER_US - 1, u64::MAX)
}

const fn bound(unix_us: i64, interval: i64, low: u64) -> [u8; 16] {
    let time = (unix_us * INTERVALS_PER_US + interval + GREGORIAN_TO_UNIX) as u128;
    uuid::stamped(time >> 12 << 80 | (time & 0xFFF) << 64 | low as u128, 6)
}

/// The time of a UUIDv6 in microseconds since the Unix epoch, rounded down.
pub const fn unix_us(uuid: &[u8; 16]) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *uuid;
    let high = i64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    unix_us_of(high << 12 | i64::from_be_bytes([0, 0, 0, 0, 0, 0, g & 0xF, h]))
}

/// The time of a UUIDv1, likewise.
pub const fn unix_us_of_version_1(uuid: &[u8; 16]) -> i64 {
    let [low_a, low_b, low_c, low_d, mid_a, mid_b, high_a, high_b, ..] = *uuid;
    unix_us_of(i64::from_be_bytes([high_a & 0xF, high_b, mid_a, mid_b, low_a, low_b, low_c, low_d]))
}

const fn unix_us_of(intervals: i64) -> i64 {
    (intervals - GREGORIAN_TO_UNIX).div_euclid(INTERVALS_PER_US)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uuid::version;

    /// RFC 9562, appendices A.1 and A.5: the same time, clock sequence and node.
    #[test]
    fn the_rfc_examples() {
        let version_1 = 0xC232AB00_9414_11EC_B3C8_9F6BDECED846_u128.to_be_bytes();
        let version_6 = 0x1EC9414C_232A_6B00_B3C8_9F6BDECED846_u128.to_be_bytes();
        assert_eq!(unix_us_of_version_1(&version_1), 1_645_557_742_000_000);
        assert_eq!(unix_us(&version_6), 1_645_557_742_000_000);

        let step = intervals(Duration::from_secs(1_645_557_742));
        // Clock sequence 33C8 and node 9F6BDECED846, whose multicast bit is set.
        let random = (0x33C8_9F6B_DECE_D846_u64 >> 41) << 40 | 0x6B_DECE_D846;
        let payload = Payload { step, random };
        assert_eq!(of_version_1(payload), version_1);
        assert_eq!(of(payload), version_6);
    }

    #[test]
    fn the_first_and_last_interval() {
        assert_eq!(unix_us_of_version_1(&[0; 16]), -12_219_292_800_000_000);
        assert_eq!(unix_us(&[0; 16]), -12_219_292_800_000_000);
        assert!(unix_us(&[0xFF; 16]) > 0);
    }

    #[test]
    fn bounds_of_the_first_and_last_microsecond() {
        for unix_us in [FIRST_US, -1, 0, LAST_US] {
            for uuid in [min_of(unix_us), max_of(unix_us)] {
                assert_eq!(version(&uuid), Some(6));
                assert_eq!(super::unix_us(&uuid), unix_us);
            }
            assert!(min_of(unix_us) < max_of(unix_us));
        }
        assert_eq!(min_of(FIRST_US)[..6], [0; 6]);
    }

    #[test]
    fn version_6_sorts_as_its_payloads() {
        let last = (1 << RANDOM_BITS) - 1;
        let payloads =
            [(1, 0), (1, (1 << 40) - 1), (1, 1 << 40), (1, last), (4096, 0), (1 << 59, 0)];
        let made = payloads.map(|(step, random)| of(Payload { step, random }));
        assert!(made.is_sorted_by(|a, b| a < b));
        for uuid in made {
            assert_eq!(version(&uuid), Some(6));
            assert_eq!(uuid[10] & 1, 1, "the multicast bit");
        }
    }
}
