//! The examples of TypeID's specification, version 0.3.0
//! (<https://github.com/jetify-com/typeid/tree/main/spec>, `valid.yml` and `invalid.yml`).

use id_gen_core::digits::Fault;
use id_gen_core::typeid::{self, LONGEST, TypeIdFault};

#[test]
fn valid_ones_are_read_and_written() {
    for (text, prefix, uuid) in [
        ("00000000000000000000000000", "", 0),
        ("00000000000000000000000001", "", 1),
        ("0000000000000000000000000a", "", 10),
        ("0000000000000000000000000g", "", 16),
        ("00000000000000000000000010", "", 32),
        ("7zzzzzzzzzzzzzzzzzzzzzzzzz", "", u128::MAX),
        ("prefix_0123456789abcdefghjkmnpqrs", "prefix", 0x0110C853_1D09_52D8_D73E_1194E95B5F19),
        ("prefix_01h455vb4pex5vsknk084sn02q", "prefix", 0x01890A5D_AC96_774B_BCCE_B302099A8057),
        ("pre_fix_00000000000000000000000000", "pre_fix", 0),
    ] {
        let uuid = u128::to_be_bytes(uuid);
        assert_eq!(typeid::decode(text.as_bytes()), Ok((prefix.as_bytes(), uuid)), "{text}");
        assert!(typeid::is_prefix(prefix.as_bytes()));
        let mut place = [0; LONGEST];
        assert_eq!(typeid::encode(prefix.as_bytes(), uuid, &mut place), text.as_bytes());
    }
}

#[test]
fn invalid_ones_are_refused() {
    let length = |found| TypeIdFault::Suffix(Fault::Length { found, expected: 26 });
    let symbol = |place, byte| TypeIdFault::Suffix(Fault::Symbol { place, byte });
    for (text, fault) in [
        ("PREFIX_00000000000000000000000000", TypeIdFault::Prefix),
        ("12345_00000000000000000000000000", TypeIdFault::Prefix),
        ("pre.fix_00000000000000000000000000", TypeIdFault::Prefix),
        ("préfix_00000000000000000000000000", TypeIdFault::Prefix),
        ("  prefix_00000000000000000000000000", TypeIdFault::Prefix),
        (
            "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl_00000000000000000000000000",
            TypeIdFault::Prefix,
        ),
        ("_00000000000000000000000000", TypeIdFault::Separator),
        ("_", TypeIdFault::Separator),
        ("", length(0)),
        ("prefix_1234567890123456789012345", length(25)),
        ("prefix_123456789012345678901234567", length(27)),
        ("prefix_1234567890123456789012345 ", symbol(26, b' ')),
        ("prefix_0123456789ABCDEFGHJKMNPQRS", symbol(11, b'A')),
        ("prefix_123456789-123456789-123456", symbol(10, b'-')),
        ("prefix_ooooooiiiiiiuuuuuuulllllll", symbol(1, b'o')),
        ("prefix_i23456789ol23456789oi23456", symbol(1, b'i')),
        ("prefix_123456789-0123456789-0123456", length(28)),
        ("prefix_8zzzzzzzzzzzzzzzzzzzzzzzzz", TypeIdFault::Suffix(Fault::TooLarge(128))),
        ("_prefix_00000000000000000000000000", TypeIdFault::Prefix),
        ("prefix__00000000000000000000000000", TypeIdFault::Prefix),
    ] {
        assert_eq!(typeid::decode(text.as_bytes()), Err(fault), "{text}");
    }
}
