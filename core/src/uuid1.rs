//! The time in a UUIDv1 (RFC 9562, section 5.1), for servers whose PostgreSQL can't read it.

/// 100 ns intervals from 1582-10-15, where UUIDv1 starts counting, to the Unix epoch (RFC 9562,
/// section 5.1 and appendix A.1).
const GREGORIAN_TO_UNIX: i64 = 0x01B2_1DD2_1381_4000;
const INTERVALS_PER_US: i64 = 10;

/// The time of a version 1 UUID in microseconds since the Unix epoch, rounded down.
pub const fn unix_us(uuid: &[u8; 16]) -> i64 {
    let [low_a, low_b, low_c, low_d, mid_a, mid_b, high_a, high_b, ..] = *uuid;
    let intervals =
        i64::from_be_bytes([high_a & 0x0F, high_b, mid_a, mid_b, low_a, low_b, low_c, low_d]);
    (intervals - GREGORIAN_TO_UNIX).div_euclid(INTERVALS_PER_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9562, appendix A.1.
    #[test]
    fn the_rfc_example() {
        let uuid = 0xC232_AB00_9414_11EC_B3C8_9F6B_DECE_D846_u128.to_be_bytes();
        assert_eq!(unix_us(&uuid), 1_645_557_742_000_000);
    }

    #[test]
    fn the_first_and_last_interval() {
        assert_eq!(unix_us(&[0; 16]), -12_219_292_800_000_000);
        assert!(unix_us(&[0xFF; 16]) > 0);
    }
}
