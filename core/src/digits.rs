//! Numbers as text of a fixed width: digits of some radix, the most significant first, none left out. So of two texts
//! the larger is that of the larger number, as long as the symbols are in the order of their values; all here are, by
//! their bytes.
//!
//! Reading is strict: it takes what is written and nothing else, neither another case nor a symbol that looks alike, so
//! that a number has one text and a text one number.

use thiserror::Error;

/// Why a text can't be read. Places count bytes from 1, as texts that can be read are ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It is too short or too long.
    #[error("it has {} instead of {expected}", characters(*.found))]
    Length {
        /// Its characters.
        found: usize,
        /// What they must be.
        expected: usize,
    },
    /// A byte of it is no digit.
    #[error("{}", no_digit(*.place, *.byte))]
    Symbol {
        /// Its place.
        place: usize,
        /// What it is.
        byte: u8,
    },
    /// The number is larger than what it stands for.
    #[error("its value has more than {0} bits")]
    TooLarge(u32),
}

/// Why a text of another length than expected can't be read. Only characters of ASCII are as many as their bytes.
pub fn wrong_length(text: &[u8], expected: usize) -> Fault {
    match text.iter().position(|byte| !byte.is_ascii()) {
        Some(place) => Fault::Symbol { place: place + 1, byte: text[place] },
        None => Fault::Length { found: text.len(), expected },
    }
}

/// A number of characters.
pub fn characters(count: usize) -> String {
    format!("{count} character{}", if count == 1 { "" } else { "s" })
}

/// Only what can be seen is shown.
fn no_digit(place: usize, byte: u8) -> String {
    match byte {
        b' ' => format!("character {place} is a space"),
        _ if byte.is_ascii_graphic() => {
            format!("character {place}, \"{}\", is not a valid digit", char::from(byte))
        }
        _ => format!("byte {place} is not a printable ASCII character"),
    }
}

/// Says of a byte that it is no digit.
const NONE: u8 = u8::MAX;

/// The digits of one radix.
pub struct Digits<const RADIX: usize> {
    symbols: [u8; RADIX],
    /// The value of each byte.
    values: [u8; 256],
}

impl<const RADIX: usize> Digits<RADIX> {
    /// How many digits a machine word holds: as many are worked on at a time.
    const CHUNK: usize = {
        let (mut digits, mut power) = (0, 1_u64);
        while let Some(next) = power.checked_mul(RADIX as u64) {
            power = next;
            digits += 1;
        }
        digits
    };
    const CHUNK_VALUES: u64 = (RADIX as u64).pow(Self::CHUNK as u32);

    /// How many digits every number of so many bits fits in.
    const WIDTHS: [usize; u128::BITS as usize + 1] = {
        let mut widths = [1; u128::BITS as usize + 1];
        let (mut width, mut most, mut bits) = (1, RADIX as u128 - 1, 1);
        while bits < widths.len() {
            while most < u128::MAX >> (u128::BITS as usize - bits) {
                most = most.saturating_mul(RADIX as u128).saturating_add(RADIX as u128 - 1);
                width += 1;
            }
            widths[bits] = width;
            bits += 1;
        }
        widths
    };

    /// Digits with these symbols, in the order of their values.
    pub const fn new(symbols: &[u8; RADIX]) -> Digits<RADIX> {
        let mut values = [NONE; 256];
        let mut value = 0;
        while value < RADIX {
            values[symbols[value] as usize] = value as u8;
            value += 1;
        }
        Digits { symbols: *symbols, values }
    }

    /// How many digits every number of so many bits fits in.
    #[inline(always)]
    pub const fn width(bits: u32) -> usize {
        Self::WIDTHS[bits as usize]
    }

    /// Fills the whole of `text`, which has to be as wide as the number may get.
    #[inline(always)]
    pub fn write(&self, mut number: u128, text: &mut [u8]) {
        for chunk in text.rchunks_mut(Self::CHUNK) {
            let mut part;
            (number, part) = Self::split(number);
            for symbol in chunk.iter_mut().rev() {
                *symbol = self.symbols[(part % RADIX as u64) as usize];
                part /= RADIX as u64;
            }
        }
    }

    /// Takes the last digits off, a chunk of them.
    #[inline(always)]
    fn split(number: u128) -> (u128, u64) {
        if let Ok(word) = u64::try_from(number) {
            return ((word / Self::CHUNK_VALUES).into(), word % Self::CHUNK_VALUES);
        }
        let values = u128::from(Self::CHUNK_VALUES);
        if RADIX.is_power_of_two() {
            return (number / values, (number % values) as u64);
        }
        // The processor multiplies much quicker than it divides. This quotient is too small by one at the most.
        let quotient = number.carrying_mul(u128::MAX / values, 0).1;
        let rest = number - quotient * values;
        let more = rest >= values;
        (quotient + u128::from(more), (rest - if more { values } else { 0 }) as u64)
    }

    /// The number that a text of `bits` bits stands for.
    ///
    /// # Errors
    /// If [`Digits::write`] does not write it.
    #[inline(always)]
    pub fn read(&self, text: &[u8], bits: u32) -> Result<u128, Fault> {
        let expected = Self::width(bits);
        if text.len() != expected {
            return Err(wrong_length(text, expected));
        }
        let (head, chunks) = text[..expected].split_at(expected % Self::CHUNK);
        let (head, mut seen) = self.read_chunk(head);
        let (mut number, mut overflow) = (u128::from(head), 0);
        for chunk in chunks.chunks_exact(Self::CHUNK) {
            let (part, in_part) = self.read_chunk(chunk);
            let high;
            (number, high) = number.carrying_mul(Self::CHUNK_VALUES.into(), part.into());
            overflow |= high;
            seen |= in_part;
        }
        if seen == NONE {
            return Err(self.foreign(text));
        }
        if overflow != 0 || number.leading_zeros() < u128::BITS - bits {
            return Err(Fault::TooLarge(bits));
        }
        Ok(number)
    }

    /// The number of a chunk, and all bits of its digits' values: [`NONE`] if one is no digit, as it alone has the highest.
    #[inline(always)]
    fn read_chunk(&self, chunk: &[u8]) -> (u64, u8) {
        chunk.iter().fold((0, 0), |(part, seen), &symbol| {
            let value = self.values[usize::from(symbol)];
            (u64::wrapping_mul(part, RADIX as u64).wrapping_add(value.into()), seen | value)
        })
    }

    #[cold]
    fn foreign(&self, text: &[u8]) -> Fault {
        let is_foreign = |(_, byte): &(usize, &u8)| self.values[usize::from(**byte)] == NONE;
        let (index, &byte) = text.iter().enumerate().find(is_foreign).unwrap_or((0, &0));
        Fault::Symbol { place: index + 1, byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Digits<10> = Digits::new(b"0123456789");

    #[test]
    fn a_width_holds_the_largest_number_and_no_more() {
        assert_eq!(Digits::<10>::width(64), u64::MAX.to_string().len());
        assert_eq!(Digits::<10>::width(128), u128::MAX.to_string().len());
        assert_eq!(Digits::<2>::width(128), 128);
        assert_eq!((Digits::<32>::width(64), Digits::<32>::width(128)), (13, 26));
        assert_eq!((Digits::<62>::width(64), Digits::<62>::width(128)), (11, 22));
        assert_eq!(Digits::<10>::width(1), 1);
    }

    #[test]
    fn every_fault_is_told_with_its_place() {
        let mut text = [0; 20];
        TEN.write(u64::MAX.into(), &mut text);
        assert_eq!(&text, b"18446744073709551615");
        assert_eq!(TEN.read(&text, 64), Ok(u64::MAX.into()));
        assert_eq!(TEN.read(b"18446744073709551616", 64), Err(Fault::TooLarge(64)));
        assert_eq!(TEN.read(b"99999999999999999999", 64), Err(Fault::TooLarge(64)));
        assert_eq!(
            TEN.read(b"1844674407370955161a", 64),
            Err(Fault::Symbol { place: 20, byte: b'a' })
        );
        assert_eq!(
            TEN.read(b"/8446744073709551615", 64),
            Err(Fault::Symbol { place: 1, byte: b'/' })
        );
        assert_eq!(TEN.read(b"1", 64), Err(Fault::Length { found: 1, expected: 20 }));
    }
}
