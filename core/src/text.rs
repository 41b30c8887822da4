//! IDs as short text that is safe in URLs: a `bigint` or a UUID in one of five alphabets, always of the same width, so
//! that texts sort as the IDs do when they are compared by bytes. A `bigint` is written as 64 bits without a sign, so
//! negative ones, which are those of 64-bit layouts, come after the others.

use crate::digits::{Digits, Fault, wrong_length};

/// Crockford's base 32: no I, L, O, U (<https://www.crockford.com/base32.html>).
pub(crate) static CROCKFORD: Digits<32> = Digits::new(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ");
/// "Extended hex" of RFC 4648, section 7.
static BASE32HEX: Digits<32> = Digits::new(b"0123456789ABCDEFGHIJKLMNOPQRSTUV");
/// As `BigInt.prototype.toString(36)` of JavaScript.
static BASE36: Digits<36> = Digits::new(b"0123456789abcdefghijklmnopqrstuvwxyz");
/// As in Bitcoin's addresses: no 0, I, O, l.
static BASE58: Digits<58> =
    Digits::new(b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz");
/// Digits, then upper case, then lower case: in the order of their bytes.
static BASE62: Digits<62> =
    Digits::new(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

/// Bits of one symbol of a base 32.
const BASE32_BITS: u32 = 5;

/// An alphabet, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Crockford's base 32, of the number; 13 or 26 characters.
    Crockford,
    /// Base 32 of RFC 4648 with the "extended hex" alphabet, of the bytes, without padding; 13 or 26 characters.
    Base32Hex,
    /// The number in base 36, in lower case; 13 or 25 characters.
    Base36,
    /// The number in base 58; 11 or 22 characters.
    Base58,
    /// The number in base 62; 11 or 22 characters.
    Base62,
}

/// All of them, with their names.
pub const FORMATS: [(&str, Format); 5] = [
    ("crockford", Format::Crockford),
    ("base32hex", Format::Base32Hex),
    ("base36", Format::Base36),
    ("base58", Format::Base58),
    ("base62", Format::Base62),
];

/// Characters of the longest text.
pub const LONGEST: usize = 26;

impl Format {
    /// The format of a name, with that name.
    #[inline(always)]
    pub fn named(name: &[u8]) -> Option<(&'static str, Format)> {
        FORMATS.iter().find(|(known, _)| known.as_bytes() == name).copied()
    }

    /// How many characters a number of so many bits is written with.
    #[inline(always)]
    pub const fn width(self, bits: u32) -> usize {
        match self {
            Format::Crockford | Format::Base32Hex => Digits::<32>::width(bits),
            Format::Base36 => Digits::<36>::width(bits),
            Format::Base58 => Digits::<58>::width(bits),
            Format::Base62 => Digits::<62>::width(bits),
        }
    }

    /// Writes a number of so many bits, and returns what of `place` it took.
    #[inline(always)]
    pub fn write(self, value: u128, bits: u32, place: &mut [u8; LONGEST]) -> &[u8] {
        let text = &mut place[..self.width(bits)];
        match self {
            Format::Crockford => CROCKFORD.write(value, text),
            Format::Base32Hex => {
                // The bytes fill symbols from the left, so the last symbol has some bits to spare.
                let spare = text.len() as u32 * BASE32_BITS - bits;
                if let Some((last, rest)) = text.split_last_mut() {
                    let in_last = BASE32_BITS - spare;
                    BASE32HEX.write(value >> in_last, rest);
                    let low = value & ((1 << in_last) - 1);
                    BASE32HEX.write(low << spare, std::slice::from_mut(last));
                }
            }
            Format::Base36 => BASE36.write(value, text),
            Format::Base58 => BASE58.write(value, text),
            Format::Base62 => BASE62.write(value, text),
        }
        text
    }

    /// The number of so many bits that a text stands for.
    ///
    /// # Errors
    /// If [`Format::write`] does not write it.
    #[inline(always)]
    pub fn read(self, text: &[u8], bits: u32) -> Result<u128, Fault> {
        match self {
            Format::Crockford => CROCKFORD.read(text, bits),
            Format::Base32Hex => read_base32hex(text, bits),
            Format::Base36 => BASE36.read(text, bits),
            Format::Base58 => BASE58.read(text, bits),
            Format::Base62 => BASE62.read(text, bits),
        }
    }
}

#[inline(always)]
fn read_base32hex(text: &[u8], bits: u32) -> Result<u128, Fault> {
    let expected = Digits::<32>::width(bits);
    let (last, rest) = match text.split_last() {
        Some(parts) if text.len() == expected => parts,
        _ => return Err(wrong_length(text, expected)),
    };
    let spare = expected as u32 * BASE32_BITS - bits;
    let in_last = BASE32_BITS - spare;
    let high = BASE32HEX.read(rest, bits - in_last)?;
    let low = BASE32HEX
        .read(std::slice::from_ref(last), BASE32_BITS)
        .map_err(|_| Fault::Symbol { place: expected, byte: *last })?;
    if low & ((1 << spare) - 1) != 0 {
        return Err(Fault::TooLarge(bits));
    }
    Ok(high << in_last | low >> spare)
}
