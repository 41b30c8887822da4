//! UUIDv4 (RFC 9562, section 5.4): 122 random bits.

use crate::uuid;

/// The UUID of 128 fresh random bits, of which it takes 122.
#[inline(always)]
pub const fn of(high: u64, low: u64) -> [u8; 16] {
    uuid::stamped((high as u128) << u64::BITS | low as u128, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9562, appendix A.3.
    #[test]
    fn the_rfc_example() {
        let random = 0x919108F7_52D1_3320_5BAC_F847DB4148A8_u128;
        let uuid = 0x919108F7_52D1_4320_9BAC_F847DB4148A8_u128.to_be_bytes();
        assert_eq!(of((random >> 64) as u64, random as u64), uuid);
    }
}
