//! A snowflake and the number of a namespace as one UUIDv8 (RFC 9562, section 5.8), and back: for columns of type
//! `uuid` that hold IDs of several tables, tenants or systems.
//!
//! From the highest bit: 48 bits of the snowflake, the version, 12 more, the variant, its last 4 bits, and 58 bits of
//! namespace. So they sort as the snowflakes do.

use crate::uuid;

/// Bits of a namespace's number.
pub const NAMESPACE_BITS: u32 = 58;

/// Largest number of a namespace.
pub const LAST_NAMESPACE: i64 = (1 << NAMESPACE_BITS) - 1;

/// The UUID of 64 bits and a namespace from 0 to [`LAST_NAMESPACE`].
#[inline]
pub const fn of(id: u64, namespace: u64) -> [u8; 16] {
    let id = id as u128;
    let (high, middle, low) = (id >> 16, id >> 4 & 0xFFF, id & 0xF);
    uuid::stamped(high << 80 | middle << 64 | low << NAMESPACE_BITS | namespace as u128, 8)
}

/// The 64 bits of a UUIDv8 that are not its namespace.
#[inline]
pub const fn id(uuid: &[u8; 16]) -> u64 {
    let bits = u128::from_be_bytes(*uuid);
    let (high, middle, low) = (bits >> 80, bits >> 64 & 0xFFF, bits >> NAMESPACE_BITS & 0xF);
    (high << 16 | middle << 4 | low) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uuid::version;

    #[test]
    fn both_ways_and_in_order() {
        let last = LAST_NAMESPACE.cast_unsigned();
        let ids = [0, 1, 15, 16, 0xFFFF, 0x1_0000, 0x1234_5678_9ABC_DEF0, u64::MAX];
        let made = ids.map(|id| of(id, last));
        for (uuid, made_of) in made.iter().zip(ids) {
            assert_eq!(version(uuid), Some(8));
            assert_eq!((id(uuid), id(&of(made_of, 0))), (made_of, made_of));
            let namespaces =
                [uuid, &of(made_of, 0)].map(|it| u128::from_be_bytes(*it) as u64 & last);
            assert_eq!(namespaces, [last, 0]);
        }
        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(of(1, last) < of(2, 0));
    }
}
