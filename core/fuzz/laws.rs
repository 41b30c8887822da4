//! What holds for any bytes at all, however they came about. The fuzz targets look for bytes that
//! break a law; `core/tests/corpus.rs` tries the ones that have been found interesting so far.

use std::time::Duration;

use id_gen_core::layout::{Field, Layout, Parts};
use id_gen_core::random_id::Alphabet;
use id_gen_core::reservation::Record;
use id_gen_core::text::{FORMATS, Format, LONGEST};
use id_gen_core::{inspect, typeid, ulid, uuid, uuid6, uuid7};

/// A number, then a layout text. Whatever text is a layout has one spelling, takes every ID apart and
/// together again, and knows which instants it holds.
pub fn layout(input: &[u8]) {
    let (number, text) = number(input);
    let Ok(layout) = String::from_utf8_lossy(text).parse::<Layout>() else { return };
    assert_eq!(layout.to_string().parse(), Ok(layout));

    match layout.from_bigint(number.cast_signed()) {
        Ok(id) => {
            let parts = layout.unpack(id);
            assert_eq!(layout.pack(parts), id);
            assert_eq!(Layout::to_bigint(id), number.cast_signed());
            assert!(layout.min_of(parts.tick) <= id && id <= layout.max_of(parts.tick));
            assert_eq!(layout.tick_at(layout.created_us(id)), Ok(parts.tick));
            for (field, value) in numbers(parts) {
                assert_eq!(layout.number(field, value.into()), Ok(value));
            }
            assert!(!inspect::inspect(&layout, id).is_empty());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    for instant in [number.cast_signed(), layout.epoch_ms().saturating_add_unsigned(number)] {
        if let Ok(tick) = layout.tick_at(instant) {
            let (lowest, highest) = (layout.min_of(tick), layout.max_of(tick));
            assert!(lowest <= highest);
            assert!(layout.created_us(lowest) <= instant);
            assert_eq!(layout.created_us(lowest), layout.created_us(highest));
        }
        assert!(layout.tick_from(instant) <= layout.ticks());
    }
    let _ = layout.check_at(number.cast_signed());
}

/// The file of the reservation. Whatever reads as a record is written so that it reads as the same.
pub fn record(input: &[u8]) {
    if let Ok(record) = Record::decode(input) {
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
    // Few inputs have the right checksum, so the lines also come with the one they need.
    let mut closed = input.to_vec();
    closed.extend_from_slice(format!("crc32 {:08x}\n", crc32(input)).as_bytes());
    if let Ok(record) = Record::decode(&closed) {
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
}

/// A number, then the bytes of a UUID.
pub fn uuid(input: &[u8]) {
    let (number, rest) = number(input);
    let Some(&uuid) = rest.first_chunk::<16>() else { return };
    let unix_ms = uuid7::unix_ms(&uuid);
    let ms = unix_ms.cast_unsigned();
    assert!(ms <= uuid7::LAST_MS);
    assert!(uuid7::min_of(ms) < uuid7::max_of(ms));
    if uuid::version(&uuid) == Some(7) {
        assert!(uuid7::min_of(ms) <= uuid && uuid <= uuid7::max_of(ms));
    }
    let _ = (uuid6::unix_us(&uuid), uuid6::unix_us_of_version_1(&uuid));

    let mut generator = uuid7::Generator::new();
    let mut before = [0; 16];
    for (random, ms) in [(number, ms), (!number, ms), (u64::MAX, ms / 2), (0, ms)] {
        let made = uuid7::of(generator.next(uuid7::steps(Duration::from_millis(ms)).0, random));
        assert_eq!(uuid::version(&made), Some(7));
        assert!(made > before);
        before = made;
    }
}

/// A text. Whatever reads as an ID, in any form, is written so that it is the same text.
pub fn codec(input: &[u8]) {
    if let Ok(id) = ulid::decode(input) {
        assert_eq!(ulid::encode(id), input);
    }
    if let Ok((prefix, id)) = typeid::decode(input) {
        assert_eq!(typeid::encode(prefix, id, &mut [0; typeid::LONGEST]), input);
    }
    for (name, format) in FORMATS {
        assert_eq!(Format::named(name.as_bytes()), Some((name, format)));
        for bits in [u64::BITS, u128::BITS] {
            let mut place = [0; LONGEST];
            if let Ok(number) = format.read(input, bits) {
                assert_eq!(format.write(number, bits, &mut place), input);
            }
            // Few inputs are of a width that can be read, so the bytes also come as a number.
            let number = input.iter().fold(0_u128, |number, &byte| number << 8 | u128::from(byte));
            let number = number & (u128::MAX >> (u128::BITS - bits));
            let text = format.write(number, bits, &mut place).to_vec();
            assert_eq!(format.read(&text, bits), Ok(number));
        }
    }
    if let Ok(alphabet) = Alphabet::new(input) {
        assert_eq!(alphabet.foreign(input), None);
    }
}

/// The first eight bytes as a number, zeros in place of missing ones, and the rest.
fn number(input: &[u8]) -> (u64, &[u8]) {
    let (head, rest) = input.split_at(input.len().min(8));
    let mut bytes = [0; 8];
    bytes[..head.len()].copy_from_slice(head);
    (u64::from_be_bytes(bytes), rest)
}

fn numbers(parts: Parts) -> [(Field, u32); 3] {
    [
        (Field::Datacenter, parts.datacenter),
        (Field::Worker, parts.worker),
        (Field::Sequence, parts.sequence),
    ]
}

/// CRC-32 as in zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
