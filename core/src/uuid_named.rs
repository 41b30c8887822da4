//! UUIDs of a namespace and a name: version 3 by MD5, version 5 by SHA-1 (RFC 9562, sections 5.3 and 5.5), and version 8
//! by SHA-256, as the RFC's appendix B.2 shows it. The same namespace and name give the same UUID everywhere; none of
//! them hides a name that can be guessed.

use md5::Md5;
use sha1::Sha1;
use sha2::digest::Output;
use sha2::{Digest, Sha256};

use crate::uuid;

/// The namespaces of RFC 9562, section 6.6, by their names in lower case.
pub const NAMESPACES: [(&str, u128); 4] = [
    ("dns", 0x6BA7B810_9DAD_11D1_80B4_00C04FD430C8),
    ("url", 0x6BA7B811_9DAD_11D1_80B4_00C04FD430C8),
    ("oid", 0x6BA7B812_9DAD_11D1_80B4_00C04FD430C8),
    ("x500", 0x6BA7B814_9DAD_11D1_80B4_00C04FD430C8),
];

/// The namespace with a name, as a UUID.
pub fn namespace(name: &str) -> Option<[u8; 16]> {
    NAMESPACES.iter().find(|(known, _)| *known == name).map(|(_, uuid)| uuid.to_be_bytes())
}

/// The UUIDv3.
pub fn version_3(namespace: &[u8; 16], name: &[u8]) -> [u8; 16] {
    stamped(&hash::<Md5>(namespace, name), 3)
}

/// The UUIDv5.
pub fn version_5(namespace: &[u8; 16], name: &[u8]) -> [u8; 16] {
    stamped(&hash::<Sha1>(namespace, name), 5)
}

/// The UUIDv8.
pub fn version_8(namespace: &[u8; 16], name: &[u8]) -> [u8; 16] {
    stamped(&hash::<Sha256>(namespace, name), 8)
}

fn hash<Hash: Digest>(namespace: &[u8; 16], name: &[u8]) -> Output<Hash> {
    Hash::new().chain_update(namespace).chain_update(name).finalize()
}

/// The first 128 bits of a hash.
fn stamped(hash: &[u8], version: u8) -> [u8; 16] {
    let bits = hash.iter().take(16).fold(0, |bits, &octet| bits << u8::BITS | u128::from(octet));
    uuid::stamped(bits, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9562, appendices A.2, A.4 and B.2.
    #[test]
    fn the_rfc_examples() {
        let (dns, name) = (namespace("dns").unwrap(), b"www.example.com");
        let as_number = |uuid| u128::from_be_bytes(uuid);
        assert_eq!(as_number(version_3(&dns, name)), 0x5DF41881_3AED_3515_88A7_2F4A814CF09E);
        assert_eq!(as_number(version_5(&dns, name)), 0x2ED6657D_E927_568B_95E1_2665A8AEA6A2);
        assert_eq!(as_number(version_8(&dns, name)), 0x5C146B14_3C52_8AFD_938A_375D0DF1FBF6);
    }
}
