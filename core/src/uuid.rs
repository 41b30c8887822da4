//! What UUIDs of every version have in common (RFC 9562, sections 4.1 and 4.2).

/// The two highest bits of octet 8 in every UUID of RFC 9562.
pub(crate) const VARIANT: u64 = 0b10;

/// The version of a UUID, or `None` if its variant is not RFC 9562's.
pub const fn version(uuid: &[u8; 16]) -> Option<u8> {
    if uuid[8] >> 6 == VARIANT as u8 { Some(uuid[6] >> 4) } else { None }
}

/// Of any 128 bits a UUID of that version: six of them give way to version and variant.
#[inline(always)]
pub(crate) const fn stamped(bits: u128, version: u8) -> [u8; 16] {
    const VERSION_AT: u32 = 76;
    const VARIANT_AT: u32 = 62;
    const STAMPED: u128 = 0xF << VERSION_AT | 0b11 << VARIANT_AT;
    let stamp = (version as u128) << VERSION_AT | (VARIANT as u128) << VARIANT_AT;
    (bits & !STAMPED | stamp).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bits_of_octet_8_say_whether_there_is_a_version() {
        let of = |octet| {
            let mut uuid = [0xFF; 16];
            uuid[8] = octet;
            version(&uuid)
        };
        assert_eq!([0x00, 0x7F, 0xC0, 0xDF, 0xE0, 0xFF].map(of), [None; 6]);
        assert_eq!([0x80, 0xBF].map(of), [Some(0xF); 2]);
    }
}
