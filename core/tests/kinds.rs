//! Kinds of IDs against crates that others wrote: what those read of ours and write themselves is the same.

use std::time::Duration;

use data_encoding::BASE32HEX_NOPAD;
use id_gen_core::ordered::Payload;
use id_gen_core::text::{Format, LONGEST};
use id_gen_core::{ulid, uuid_named, uuid4, uuid6, uuid7, uuid8};
use proptest::prelude::*;
use rusty_ulid::Ulid;
use uuid::{Uuid, Variant};

const NS_PER_S: u64 = 1_000_000_000;
/// The year 2100, which every kind can hold.
const LAST_NS: u64 = 4_102_444_800 * NS_PER_S;

fn written(format: Format, number: u128, bits: u32) -> String {
    String::from_utf8(format.write(number, bits, &mut [0; LONGEST]).to_vec()).unwrap()
}

/// What another wrote without the zeros that ours has in front.
fn padded(text: &str, zero: char, width: usize) -> String {
    format!("{}{text}", String::from(zero).repeat(width - text.len()))
}

/// Numbers of every size, not only of the largest.
fn any_number() -> impl Strategy<Value = u128> {
    (any::<u128>(), 0..u128::BITS).prop_map(|(number, by)| number >> by)
}

fn assert_both_ways(format: Format, number: u128, text: &dyn Fn(u128, u32) -> String) {
    for (number, bits) in [(number, u128::BITS), (number as u64 as u128, u64::BITS)] {
        let ours = written(format, number, bits);
        assert_eq!(ours, text(number, bits), "{number} in {format:?}");
        assert_eq!(format.read(ours.as_bytes(), bits), Ok(number));
    }
}

/// Version, variant and time of one of our UUIDs, and what is left of its last half.
fn fields(uuid: [u8; 16], version: usize) -> (Duration, u64) {
    let uuid = Uuid::from_bytes(uuid);
    assert_eq!((uuid.get_version_num(), uuid.get_variant()), (version, Variant::RFC4122));
    let (seconds, nanoseconds) = uuid.get_timestamp().map_or((0, 0), |time| time.to_unix());
    (Duration::new(seconds, nanoseconds), uuid.as_u64_pair().1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn base62(number in any_number()) {
        // That crate's order of the digits is ours, too.
        let text = |number, bits| padded(&base62::encode(number), '0', Format::Base62.width(bits));
        assert_both_ways(Format::Base62, number, &text);
        prop_assert_eq!(base62::decode(written(Format::Base62, number, 128)), Ok(number));
    }

    #[test]
    fn base58(number in any_number()) {
        // It keeps a digit for each zero byte in front, which a number has not.
        let text = |number: u128, bits| {
            let bytes = number.to_be_bytes();
            let significant = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
            let text = bs58::encode(&bytes[significant..]).into_string();
            padded(&text, '1', Format::Base58.width(bits))
        };
        assert_both_ways(Format::Base58, number, &text);
    }

    #[test]
    fn base36(number in any_number()) {
        let text = written(Format::Base36, number, u128::BITS);
        prop_assert_eq!(u128::from_str_radix(&text, 36), Ok(number));
        prop_assert_eq!(text.to_lowercase(), text);
        let text = written(Format::Base36, number as u64 as u128, u64::BITS);
        prop_assert_eq!(u64::from_str_radix(&text, 36), Ok(number as u64));
    }

    #[test]
    fn base32hex(number in any_number()) {
        let text = |number: u128, bits| {
            let bytes = number.to_be_bytes();
            BASE32HEX_NOPAD.encode(&bytes[bytes.len() - bits as usize / 8..])
        };
        assert_both_ways(Format::Base32Hex, number, &text);
    }

    #[test]
    fn crockford_and_ulid(number in any_number()) {
        let text = Ulid::from(number).to_string();
        prop_assert_eq!(&written(Format::Crockford, number, u128::BITS), &text);
        prop_assert_eq!(&ulid::encode(number.to_be_bytes())[..], text.as_bytes());
        prop_assert_eq!(ulid::decode(text.as_bytes()), Ok(number.to_be_bytes()));
        let time = u64::try_from(ulid::unix_ms(&number.to_be_bytes()));
        prop_assert_eq!(time, Ok(Ulid::from(number).timestamp()));
    }

    /// What a format reads of any text, it writes; so it takes no text that it does not write.
    #[test]
    fn a_text_that_is_read_is_what_is_written(text in "[0-9A-Za-z]{11}|[0-9A-V]{13}|[0-9a-z]{25}|[0-9A-Z]{26}|.{0,30}") {
        for (_, format) in id_gen_core::text::FORMATS {
            for bits in [u64::BITS, u128::BITS] {
                if let Ok(number) = format.read(text.as_bytes(), bits) {
                    prop_assert_eq!(&written(format, number, bits), &text);
                }
            }
        }
    }

    #[test]
    fn version_1_and_6(ns in 0..LAST_NS, random in 0..1_u64 << 61) {
        let now = Duration::from_nanos(ns);
        let payload = Payload { step: uuid6::intervals(now), random };
        let ours = [(uuid6::of_version_1(payload), 1), (uuid6::of(payload), 6)].map(|(uuid, version)| fields(uuid, version));
        // 100 ns are as fine as they are.
        prop_assert_eq!(ours.map(|(time, _)| time), [Duration::from_nanos(ns / 100 * 100); 2]);
        prop_assert_eq!(ours[0].1, ours[1].1);
        let node = Uuid::from_bytes(uuid6::of(payload)).get_node_id().unwrap();
        prop_assert_eq!(node[0] & 1, 1, "the multicast bit");
        prop_assert_eq!(Some(node), Uuid::from_bytes(uuid6::of_version_1(payload)).get_node_id());
        let us = (ns / 1000) as i64;
        prop_assert_eq!(uuid6::unix_us(&uuid6::of(payload)), us);
        prop_assert_eq!(uuid6::unix_us_of_version_1(&uuid6::of_version_1(payload)), us);
    }

    #[test]
    fn bounds_of_version_6(ns in 0..LAST_NS, random in 0..1_u64 << 61, node in any::<u64>()) {
        let step = uuid6::intervals(Duration::from_nanos(ns));
        let us = (ns / 1000) as i64;
        let (min, max) = (uuid6::min_of(us), uuid6::max_of(us));
        let made = uuid6::of(Payload { step, random });
        prop_assert!(min <= made && made <= max);
        // One of another generator, whose clock sequence and node are any bits.
        let (high, _) = Uuid::from_bytes(made).as_u64_pair();
        let other = Uuid::from_u64_pair(high, node >> 2 | 0b10 << 62).into_bytes();
        prop_assert!(min <= other && other <= max);
        prop_assert!(uuid6::max_of(us - 1) < min && max < uuid6::min_of(us + 1));
        for bound in [min, max] {
            let (time, _) = fields(bound, 6);
            prop_assert_eq!(time.as_micros() as i64, us);
        }
    }

    #[test]
    fn version_7(ns in 0..LAST_NS, random in 0..1_u64 << 62) {
        let (step, _) = uuid7::steps(Duration::from_nanos(ns));
        let (time, low) = fields(uuid7::of(Payload { step, random }), 7);
        prop_assert_eq!(time.as_millis(), u128::from(ns / 1_000_000));
        prop_assert_eq!(low, 0b10 << 62 | random);
        let (time, _) = fields(uuid7::of_moment(uuid7::moment(Duration::from_nanos(ns)), random), 7);
        prop_assert_eq!(time.as_millis(), u128::from(ns / 1_000_000));
    }

    #[test]
    fn versions_4_and_8(high in any::<u64>(), low in any::<u64>(), namespace in 0..1_u64 << 58) {
        let random = uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes());
        prop_assert_eq!(Uuid::from_bytes(uuid4::of(high, low)), random.into_uuid());
        fields(uuid4::of(high, low), 4);
        fields(uuid8::of(high, namespace), 8);
    }

    #[test]
    fn versions_3_and_5(namespace in any::<u128>(), name in prop::collection::vec(any::<u8>(), 0..300)) {
        let theirs = Uuid::from_u128(namespace);
        let ours = namespace.to_be_bytes();
        prop_assert_eq!(Uuid::from_bytes(uuid_named::version_3(&ours, &name)), Uuid::new_v3(&theirs, &name));
        prop_assert_eq!(Uuid::from_bytes(uuid_named::version_5(&ours, &name)), Uuid::new_v5(&theirs, &name));
    }
}
