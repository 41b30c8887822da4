//! What UUIDs of every version have in common (RFC 9562, sections 4.1 and 4.2).

/// The two highest bits of octet 8 in every UUID of RFC 9562.
pub(crate) const VARIANT: u64 = 0b10;

/// The version of a UUID, or `None` if its variant is not RFC 9562's.
pub const fn version(uuid: &[u8; 16]) -> Option<u8> {
    if uuid[8] >> 6 == VARIANT as u8 { Some(uuid[6] >> 4) } else { None }
}
