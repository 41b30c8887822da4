//! Random IDs: a prefix, and so many characters of an alphabet, each as likely as any other; and how likely it is that
//! two of them are alike.

use thiserror::Error;

use crate::digits::characters;

/// Characters of the longest random part.
pub const LONGEST: usize = 1024;

/// Symbols of the largest alphabet: all characters of ASCII that can be seen.
const MOST_SYMBOLS: usize = 94;

/// Why an alphabet can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AlphabetFault {
    /// Too few or too many symbols.
    #[error("the alphabet has {}; it must have 2 to 94", characters(*.0))]
    Size(usize),
    /// A byte is not to be seen, or beyond ASCII.
    #[error("byte {0} of the alphabet is not a printable ASCII character")]
    Symbol(usize),
    /// A character is there twice.
    #[error("the alphabet contains \"{0}\" twice")]
    Twice(char),
}

/// The symbols of random IDs.
#[derive(Clone, Copy, Debug)]
pub struct Alphabet<'text> {
    symbols: &'text [u8],
    /// A bit for each character of ASCII that is one of them.
    known: u128,
}

impl<'text> Alphabet<'text> {
    /// Checks symbols.
    ///
    /// # Errors
    /// If they are no alphabet.
    #[inline]
    pub fn new(symbols: &'text [u8]) -> Result<Alphabet<'text>, AlphabetFault> {
        let mut known = 0_u128;
        for (place, symbol) in symbols.iter().enumerate() {
            if !symbol.is_ascii_graphic() {
                return Err(AlphabetFault::Symbol(place + 1));
            }
            let bit = 1 << symbol;
            if known & bit != 0 {
                return Err(AlphabetFault::Twice(char::from(*symbol)));
            }
            known |= bit;
        }
        if !(2..=MOST_SYMBOLS).contains(&symbols.len()) {
            return Err(AlphabetFault::Size(symbols.len()));
        }
        Ok(Alphabet { symbols, known })
    }

    /// Fills `text` with random symbols, out of 64 random bits at a time.
    ///
    /// # Errors
    /// Those of `random`.
    #[inline]
    pub fn fill<E>(
        &self,
        text: &mut [u8],
        mut random: impl FnMut() -> Result<u64, E>,
    ) -> Result<(), E> {
        // Lemire's method: the high word of a product is the symbol; where the low word is below `uneven`, that symbol
        // would come more often than others (https://arxiv.org/abs/1805.10941).
        let count = self.symbols.len() as u32;
        let uneven = count.wrapping_neg() % count;
        let mut rest = text.iter_mut();
        let Some(mut place) = rest.next() else { return Ok(()) };
        loop {
            let bits = random()?;
            for word in [bits as u32, (bits >> u32::BITS) as u32] {
                let product = u64::from(word) * u64::from(count);
                if product as u32 >= uneven {
                    *place = self.symbols[(product >> u32::BITS) as usize];
                    match rest.next() {
                        Some(next) => place = next,
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// The place, from 1, of the first byte of a text that is none of the symbols.
    pub fn foreign(&self, text: &[u8]) -> Option<usize> {
        let is_known = |byte: &u8| byte.is_ascii() && self.known & (1 << byte) != 0;
        text.iter().position(|byte| !is_known(byte)).map(|place| place + 1)
    }

    /// Random bits of so many symbols.
    pub fn bits(&self, size: usize) -> f64 {
        size as f64 * (self.symbols.len() as f64).log2()
    }
}

/// How likely it is that among so many IDs of so many random bits two are alike: the birthday bound,
/// 1 - e^(-n(n-1) / 2^(bits+1)), close to the truth where IDs are many fewer than there can be, and 1 where they are more.
pub fn collision_chance(ids: f64, bits: f64) -> f64 {
    if ids <= 1.0 {
        return 0.0;
    }
    if ids.is_infinite() || ids > bits.exp2() {
        return 1.0;
    }
    // The logarithms: the product may be more than a number holds, and so may the power.
    let pairs = ids.log2() + (ids - 1.0).log2() - (bits + 1.0);
    -(-pairs.exp2()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn every_symbol_comes_as_often_as_any_other() {
        let alphabet = Alphabet::new(b"abcdefghijk").unwrap();
        let mut state = 1_u64;
        let mut text = vec![0; 1_100_000];
        let random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Ok::<_, Infallible>((state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9))
        };
        let Ok(()) = alphabet.fill(&mut text, random);
        for &symbol in alphabet.symbols {
            let count = text.iter().filter(|&&byte| byte == symbol).count();
            assert!(
                (98_000..102_000).contains(&count),
                "{} came {count} times",
                char::from(symbol)
            );
        }
        assert_eq!(alphabet.foreign(&text), None);
        assert_eq!(alphabet.foreign(b"abl"), Some(3));
        assert_eq!(alphabet.foreign("é".as_bytes()), Some(1));
    }

    /// A word below the bound is thrown away: with three symbols, of 2^32 words one.
    #[test]
    fn an_uneven_word_is_not_used() {
        let alphabet = Alphabet::new(b"abc").unwrap();
        let mut text = [0; 1];
        let mut words = [0_u64, u64::MAX].into_iter();
        assert_eq!(alphabet.fill(&mut text, || words.next().ok_or(())), Ok(()));
        assert_eq!(text, *b"c");
        assert_eq!(words.next(), None);
    }

    #[test]
    fn alphabets_that_are_none() {
        assert_eq!(Alphabet::new(b"a").unwrap_err(), AlphabetFault::Size(1));
        assert_eq!(Alphabet::new(b"").unwrap_err(), AlphabetFault::Size(0));
        assert_eq!(Alphabet::new(b"aba").unwrap_err(), AlphabetFault::Twice('a'));
        assert_eq!(Alphabet::new(b"a b").unwrap_err(), AlphabetFault::Symbol(2));
        assert_eq!(Alphabet::new("aé".as_bytes()).unwrap_err(), AlphabetFault::Symbol(2));
        let visible: Vec<u8> = (b'!'..=b'~').collect();
        assert_eq!(visible.len(), MOST_SYMBOLS);
        assert!(Alphabet::new(&visible).is_ok());
    }

    #[test]
    fn birthdays() {
        // Of 23 people two have the same birthday with a chance of a half, by the bound.
        let days = 365_f64.log2();
        assert!((collision_chance(23.0, days) - 0.5).abs() < 0.001);
        assert_eq!(collision_chance(1.0, 80.0), 0.0);
        // More IDs than there can be are alike for certain.
        assert_eq!((collision_chance(3.0, 1.0), collision_chance(2.0, 0.0)), (1.0, 1.0));
        // Nothing overflows.
        assert_eq!(collision_chance(f64::INFINITY, 4096.0), 1.0);
        assert!((collision_chance(2_f64.powi(600), 1200.0) - 0.3934).abs() < 0.001);
        assert_eq!(collision_chance(1e300, 6144.0), 0.0);
        // Where the chance is tiny, no digit of it is lost.
        let chance = collision_chance(1e6, 122.0);
        assert!((chance / (1e12 / 2_f64.powi(123)) - 1.0).abs() < 1e-5);
    }
}
