//! ULIDs (<https://github.com/ulid/spec>): 48 bits of Unix milliseconds and 80 bits that are random, as 128 bits in a
//! `uuid`, or as 26 characters of Crockford's base 32 in upper case.
//!
//! The first 12 of the 80 bits are the fraction of the millisecond, as in our UUIDv7, so that ULIDs of different
//! sessions are in order to a step of 244 ns, and an index is filled at its end. The other 68 are random, kept in order
//! within a session.

use crate::digits::Fault;
use crate::ordered::Payload;
use crate::text::CROCKFORD;
use crate::uuid7;

/// Characters of a ULID as text.
pub const CHARACTERS: usize = 26;

const TIME_BITS: u32 = 48;
const REST_BITS: u32 = u128::BITS - TIME_BITS;
/// Bits beyond the random part of a payload of a UUIDv7's.
pub(crate) const FURTHER_BITS: u32 = 6;

/// The ULID of a payload made of a UUIDv7's steps, and of further random bits.
#[inline(always)]
pub const fn of(payload: Payload, further: u64) -> [u8; 16] {
    let further = further >> (u64::BITS - FURTHER_BITS);
    let random = (payload.random as u128) << FURTHER_BITS | further as u128;
    ((payload.step as u128) << (uuid7::RANDOM_BITS + FURTHER_BITS) | random).to_be_bytes()
}

/// The Unix millisecond in the first 48 bits.
pub const fn unix_ms(ulid: &[u8; 16]) -> i64 {
    (u128::from_be_bytes(*ulid) >> REST_BITS) as i64
}

/// Smallest ULID of a millisecond.
pub const fn min_of(unix_ms: u64) -> [u8; 16] {
    ((unix_ms as u128) << REST_BITS).to_be_bytes()
}

/// Largest ULID of a millisecond.
pub const fn max_of(unix_ms: u64) -> [u8; 16] {
    ((unix_ms as u128) << REST_BITS | ((1 << REST_BITS) - 1)).to_be_bytes()
}

/// A ULID as text.
#[inline]
pub fn encode(ulid: [u8; 16]) -> [u8; CHARACTERS] {
    let mut text = [0; CHARACTERS];
    CROCKFORD.write(u128::from_be_bytes(ulid), &mut text);
    text
}

/// The ULID of a text, in upper case as it is written.
///
/// # Errors
/// If the text is no such ULID.
#[inline]
pub fn decode(text: &[u8]) -> Result<[u8; 16], Fault> {
    CROCKFORD.read(text, u128::BITS).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_specification_says() {
        assert_eq!(unix_ms(&decode(b"01ARYZ6S41TSV4RRFFQ69G5FAV").unwrap()), 1_469_918_176_385);
        assert_eq!(decode(b"7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), Ok([0xFF; 16]));
        assert_eq!(decode(b"80000000000000000000000000"), Err(Fault::TooLarge(128)));
        assert_eq!(encode(max_of(uuid7::LAST_MS)), *b"7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert_eq!(encode(min_of(0)), [b'0'; 26]);
    }

    #[test]
    fn a_ulid_has_the_time_of_its_payload() {
        let step = 1_469_918_176_385 << 12 | 0xABC;
        let made = [(0, 0), (0, u64::MAX), (1, 0), ((1 << 62) - 1, u64::MAX)]
            .map(|(random, further)| of(Payload { step, random }, further));
        assert!(made.is_sorted_by(|a, b| a < b));
        for ulid in made {
            assert_eq!(unix_ms(&ulid), 1_469_918_176_385);
            assert!(min_of(1_469_918_176_385) <= ulid && ulid <= max_of(1_469_918_176_385));
        }
    }
}
