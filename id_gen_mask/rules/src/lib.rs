//! IDs under a key, so that what others see tells neither time nor order nor count: a permutation of all numbers of 64
//! or 128 bits for each key and domain, and back.
//!
//! It is FF1 of NIST SP 800-38G with AES-256, radix 2, over the bits of the number from the highest to the lowest, with
//! the domain's name as the tweak. Keys have versions, and are read from a text with a key in each line; new IDs are
//! masked with the key of the highest version. Key bytes are erased from memory where this code has put them.

#![forbid(unsafe_code)]

use std::rc::Rc;

use aes::Aes256Enc;
use aes::cipher::{
    BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, Key as CipherKey, KeyInit,
    KeySizeUser,
};
use fpe::ff1::{FF1, NumeralString, Operations};
use thiserror::Error;
use zeroize::Zeroizing;

use id_gen_core::digits::Fault;
use id_gen_core::text::{Format, LONGEST as LONGEST_NUMBER};

/// Bytes of the largest text that is read as keys.
pub const LARGEST_KEY_FILE: usize = 64 << 10;
/// Bytes of the longest name of a domain.
pub const LONGEST_DOMAIN: usize = 255;
/// The highest version of a key.
pub const LAST_VERSION: u16 = i16::MAX.cast_unsigned();

const KEY_BYTES: usize = 32;
const HEX_DIGITS: usize = 2 * KEY_BYTES;
/// FF1 works on bits.
const RADIX: u32 = 2;
/// Digits of the highest version.
const VERSION_DIGITS: usize = 5;
/// Base 58 has no underscore, and no digit of it is a version's first.
const SEPARATOR: u8 = b'_';
const FORMAT: Format = Format::Base58;
/// Bytes of the longest masked text.
pub const LONGEST_TEXT: usize = VERSION_DIGITS + 1 + FORMAT.width(u128::BITS);

/// Why a text holds no keys. It tells lines and lengths, and nothing of what is in a line: that may be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyFault {
    /// There is none.
    #[error("the file has no keys")]
    Empty,
    /// It is too long.
    #[error("the file has more than {LARGEST_KEY_FILE} bytes")]
    TooLarge,
    /// A line has too few or too many words.
    #[error("line {0} must be a version, a space and a key")]
    Words(usize),
    /// A line begins with no version.
    #[error("line {0} must begin with a version from 1 to {LAST_VERSION}")]
    Version(usize),
    /// A key is too short or too long.
    #[error("the key in line {line} has {found} characters; it must have {HEX_DIGITS}")]
    Length {
        /// The line.
        line: usize,
        /// What its key has.
        found: usize,
    },
    /// A key is not in hexadecimal.
    #[error("the key in line {0} is not hexadecimal")]
    NoHex(usize),
    /// Two lines have one version.
    #[error("line {line} has the same version as line {first}")]
    Duplicate {
        /// The second line.
        line: usize,
        /// The first.
        first: usize,
    },
}

/// A name that is no domain: its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the domain has {0} bytes; it must have 1 to {LONGEST_DOMAIN}")]
pub struct DomainFault(pub usize);

/// Why a text is no masked ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TextFault {
    /// It does not begin as it must.
    #[error(
        "it does not begin with a key version (1 to 32767, without leading zeros) and an underscore"
    )]
    Version,
    /// What follows can't be read.
    #[error("the part after the underscore is invalid: {0}")]
    Number(Fault),
}

/// The cipher, which FF1 clones in every round: shared, the round keys are not copied each time.
#[derive(Clone)]
struct Cipher(Rc<Aes256Enc>);

impl BlockSizeUser for Cipher {
    type BlockSize = <Aes256Enc as BlockSizeUser>::BlockSize;
}

impl KeySizeUser for Cipher {
    type KeySize = <Aes256Enc as KeySizeUser>::KeySize;
}

impl KeyInit for Cipher {
    fn new(key: &CipherKey<Cipher>) -> Cipher {
        Cipher(Rc::new(Aes256Enc::new(key)))
    }
}

impl BlockCipherEncrypt for Cipher {
    #[inline]
    fn encrypt_with_backend(&self, body: impl BlockCipherEncClosure<BlockSize = Self::BlockSize>) {
        self.0.encrypt_with_backend(body);
    }
}

/// A number as FF1 takes it: a string of bits, the highest first.
pub struct Bits<T>(T);

macro_rules! bits {
    ($number:ty, $half:ty) => {
        impl NumeralString for Bits<$number> {
            type Ops = Bits<$half>;

            fn is_valid(&self, radix: u32) -> bool {
                radix == RADIX
            }

            fn numeral_count(&self) -> usize {
                <$number>::BITS as usize
            }

            fn split(&self) -> (Bits<$half>, Bits<$half>) {
                (Bits((self.0 >> <$half>::BITS) as $half), Bits(self.0 as $half))
            }

            fn concat(high: Bits<$half>, low: Bits<$half>) -> Self {
                Bits(<$number>::from(high.0) << <$half>::BITS | <$number>::from(low.0))
            }
        }

        /// Sums are of as many bits as the half has, so they wrap.
        impl Operations for Bits<$half> {
            type Bytes = [u8; size_of::<$half>()];

            fn numeral_count(&self) -> usize {
                <$half>::BITS as usize
            }

            fn to_be_bytes(&self, _radix: u32, _bytes: usize) -> Self::Bytes {
                self.0.to_be_bytes()
            }

            fn add_mod_exp(self, other: impl Iterator<Item = u8>, _: u32, _: usize) -> Self {
                Bits(self.0.wrapping_add(lowest(other) as $half))
            }

            fn sub_mod_exp(self, other: impl Iterator<Item = u8>, _: u32, _: usize) -> Self {
                Bits(self.0.wrapping_sub(lowest(other) as $half))
            }
        }
    };
}

/// The lowest bits of a number that is given as bytes, the highest first.
#[inline]
fn lowest(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0, |number, byte| number << u8::BITS | u64::from(byte))
}

bits!(u64, u32);
bits!(u128, u64);

/// The name of a domain. An ID is masked otherwise in each.
#[derive(Clone, Copy, Debug)]
pub struct Domain<'name>(&'name [u8]);

impl<'name> Domain<'name> {
    /// The domain of a name, which counts by its bytes.
    ///
    /// # Errors
    /// If the name is empty or too long.
    #[inline]
    pub const fn new(name: &'name [u8]) -> Result<Domain<'name>, DomainFault> {
        match name.len() {
            1..=LONGEST_DOMAIN => Ok(Domain(name)),
            length => Err(DomainFault(length)),
        }
    }
}

/// A key, ready for use.
pub struct Key {
    version: u16,
    ff1: FF1<Cipher>,
}

impl Key {
    fn new(version: u16, bytes: &[u8; KEY_BYTES]) -> Key {
        Key { version, ff1: FF1::new(bytes, RADIX).expect("FF1 has a radix 2") }
    }

    /// Its version.
    #[inline]
    pub const fn version(&self) -> u16 {
        self.version
    }

    /// What others see of a number.
    #[inline]
    pub fn mask<T>(&self, number: T, domain: Domain<'_>) -> T
    where
        Bits<T>: NumeralString,
    {
        self.ff1.encrypt(domain.0, &Bits(number)).expect("FF1 takes numbers of 20 bits and more").0
    }

    /// The number that [`Key::mask`] made this of.
    #[inline]
    pub fn unmask<T>(&self, masked: T, domain: Domain<'_>) -> T
    where
        Bits<T>: NumeralString,
    {
        self.ff1.decrypt(domain.0, &Bits(masked)).expect("FF1 takes numbers of 20 bits and more").0
    }
}

/// All keys of a file.
pub struct KeyRing {
    current: Key,
    /// In the order of their versions.
    older: Vec<Key>,
}

impl KeyRing {
    /// The keys of a text: in each line a version and the key in hexadecimal. What follows a `#` is a comment. Versions
    /// are in any order.
    ///
    /// # Errors
    /// If a line is anything else, or there is no key.
    pub fn parse(text: &[u8]) -> Result<KeyRing, KeyFault> {
        if text.len() > LARGEST_KEY_FILE {
            return Err(KeyFault::TooLarge);
        }
        let mut keys: Vec<(usize, Key)> = Vec::new();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let number = index + 1;
            if let Some(key) = key_of_line(number, line)? {
                if let Some(&(first, _)) = keys.iter().find(|(_, it)| it.version == key.version) {
                    return Err(KeyFault::Duplicate { line: number, first });
                }
                keys.push((number, key));
            }
        }
        keys.sort_by_key(|(_, key)| key.version);
        let (_, current) = keys.pop().ok_or(KeyFault::Empty)?;
        Ok(KeyRing { current, older: keys.into_iter().map(|(_, key)| key).collect() })
    }

    /// The key of the highest version.
    #[inline]
    pub const fn current(&self) -> &Key {
        &self.current
    }

    /// The key of a version, if there is one.
    #[inline]
    pub fn of_version(&self, version: i32) -> Option<&Key> {
        self.newest_first().find(|key| i32::from(key.version) == version)
    }

    /// All keys, the current one first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.current).chain(self.older.iter().rev())
    }
}

fn key_of_line(number: usize, line: &[u8]) -> Result<Option<Key>, KeyFault> {
    let end = line.iter().position(|&byte| byte == b'#').unwrap_or(line.len());
    let mut words =
        line[..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let (version, digits) = match (words.next(), words.next(), words.next()) {
        (None, ..) => return Ok(None),
        (Some(version), Some(digits), None) => (version, digits),
        _ => return Err(KeyFault::Words(number)),
    };
    let version = version_of(version).ok_or(KeyFault::Version(number))?;
    if digits.len() != HEX_DIGITS {
        return Err(KeyFault::Length { line: number, found: digits.len() });
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for &digit in pair {
            let value = char::from(digit).to_digit(16).ok_or(KeyFault::NoHex(number))?;
            *byte = *byte << 4 | value as u8;
        }
    }
    Ok(Some(Key::new(version, &bytes)))
}

/// A version as it is written: in decimal, without leading zeros.
fn version_of(digits: &[u8]) -> Option<u16> {
    if digits.len() > VERSION_DIGITS || !matches!(digits, [b'1'..=b'9', ..]) {
        return None;
    }
    let version = digits.iter().try_fold(0_u32, |version, digit| {
        digit.is_ascii_digit().then(|| version * 10 + u32::from(digit - b'0'))
    })?;
    u16::try_from(version).ok().filter(|version| *version <= LAST_VERSION)
}

/// Writes a masked number of so many bits as a text that names its key, and returns what of `place` it took.
#[inline]
pub fn write_text(version: u16, masked: u128, bits: u32, place: &mut [u8; LONGEST_TEXT]) -> &[u8] {
    let (mut digits, mut start, mut left) = ([0; VERSION_DIGITS], VERSION_DIGITS, version);
    while left > 0 {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let mut room = [0; LONGEST_NUMBER];
    let number = FORMAT.write(masked, bits, &mut room);
    let parts = [&digits[start..], &[SEPARATOR], number];
    let mut length = 0;
    for part in parts {
        place[length..length + part.len()].copy_from_slice(part);
        length += part.len();
    }
    &place[..length]
}

/// The version and the masked number of so many bits of a text.
///
/// # Errors
/// If [`write_text`] does not write it.
#[inline]
pub fn read_text(text: &[u8], bits: u32) -> Result<(u16, u128), TextFault> {
    let at = text.iter().position(|&byte| byte == SEPARATOR).ok_or(TextFault::Version)?;
    let version = version_of(&text[..at]).ok_or(TextFault::Version)?;
    let masked = FORMAT.read(&text[at + 1..], bits).map_err(TextFault::Number)?;
    Ok((version, masked))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NIST_KEY: &str = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94";
    const OTHER_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    /// A string of digits of any radix, each in a place of its own.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Digits(Vec<u16>);

    impl Digits {
        fn bits(number: u128, count: u32) -> Digits {
            Digits((0..count).rev().map(|place| (number >> place & 1) as u16).collect())
        }

        fn number(&self, radix: u32) -> u128 {
            self.0.iter().fold(0, |number, &digit| number * u128::from(radix) + u128::from(digit))
        }

        fn of(mut number: u128, radix: u32, count: usize) -> Digits {
            let mut digits = vec![0; count];
            for digit in digits.iter_mut().rev() {
                *digit = (number % u128::from(radix)) as u16;
                number /= u128::from(radix);
            }
            Digits(digits)
        }

        fn sum(
            &self,
            other: impl Iterator<Item = u8>,
            radix: u32,
            count: usize,
            sign: fn(u128, u128, u128) -> u128,
        ) -> Digits {
            let modulus = u128::from(radix).pow(count as u32);
            let other = other.fold(0, |number, byte| (number * 256 + u128::from(byte)) % modulus);
            Digits::of(sign(self.number(radix), other, modulus) % modulus, radix, count)
        }
    }

    impl NumeralString for Digits {
        type Ops = Digits;

        fn is_valid(&self, radix: u32) -> bool {
            self.0.iter().all(|&digit| u32::from(digit) < radix)
        }

        fn numeral_count(&self) -> usize {
            self.0.len()
        }

        fn split(&self) -> (Digits, Digits) {
            let (high, low) = self.0.split_at(self.0.len() / 2);
            (Digits(high.to_vec()), Digits(low.to_vec()))
        }

        fn concat(high: Digits, low: Digits) -> Digits {
            Digits([high.0, low.0].concat())
        }
    }

    impl Operations for Digits {
        type Bytes = Vec<u8>;

        fn numeral_count(&self) -> usize {
            self.0.len()
        }

        fn to_be_bytes(&self, radix: u32, bytes: usize) -> Vec<u8> {
            self.number(radix).to_be_bytes()[16 - bytes..].to_vec()
        }

        fn add_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, m: usize) -> Digits {
            self.sum(other, radix, m, |a, b, _| a + b)
        }

        fn sub_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, m: usize) -> Digits {
            self.sum(other, radix, m, |a, b, modulus| a + modulus - b)
        }
    }

    fn key(digits: &str) -> Key {
        KeyRing::parse(format!("1 {digits}").as_bytes()).unwrap().current
    }

    fn domain(name: &str) -> Domain<'_> {
        Domain::new(name.as_bytes()).unwrap()
    }

    fn assert_vector(key: &str, radix: u32, tweak: &[u8], plain: &[u16], masked: &[u16]) {
        let bytes: Vec<u8> = (0..HEX_DIGITS)
            .step_by(2)
            .map(|at| u8::from_str_radix(&key[at..at + 2], 16).unwrap())
            .collect();
        let ff1 = FF1::<Cipher>::new(&bytes, radix).unwrap();
        let (plain, masked) = (Digits(plain.to_vec()), Digits(masked.to_vec()));
        assert_eq!(ff1.encrypt(tweak, &plain).unwrap(), masked);
        assert_eq!(ff1.decrypt(tweak, &masked).unwrap(), plain);
    }

    /// NIST's FF1samples.pdf, samples 7 to 9: those of AES-256.
    #[test]
    fn samples_of_nist() {
        let ten: Vec<u16> = (0..10).collect();
        assert_vector(NIST_KEY, 10, b"", &ten, &[6, 6, 5, 7, 6, 6, 7, 0, 0, 9]);
        assert_vector(NIST_KEY, 10, b"9876543210", &ten, &[1, 0, 0, 1, 6, 2, 3, 4, 6, 3]);
        let nineteen: Vec<u16> = (0..19).collect();
        let masked = [33, 28, 8, 10, 0, 10, 35, 17, 2, 10, 31, 34, 10, 21, 34, 35, 30, 32, 13];
        assert_vector(NIST_KEY, 36, b"7777pqrs777", &nineteen, &masked);
    }

    /// Zcash's vectors of radix 2 (zcash-test-vectors, ff1.py), the first bit first.
    #[test]
    fn bits_of_zcash() {
        let all_zero = "00001001001101010111011111111100110000011011001111100111011101010110101001000100\
                        11001111";
        let second = "11011010110100011000111100000100110011111101100111010101101000011110010001010111\
                      11011000";
        let bits = |text: &str| text.bytes().map(|bit| u16::from(bit - b'0')).collect::<Vec<_>>();
        assert_vector(NIST_KEY, 2, b"", &[0; 88], &bits(all_zero));
        assert_vector(NIST_KEY, 2, b"", &bits(all_zero), &bits(second));
        let tweak: Vec<u8> = (0..255).collect();
        let alternating: Vec<u16> = (0..88).map(|place| place % 2).collect();
        let masked = "01111101100010000001110101100001000101011010000000111001111001001000101011011110\
                      10100011";
        assert_vector(NIST_KEY, 2, &tweak, &alternating, &bits(masked));
    }

    /// Made with another implementation: FF1 in Python as the standard writes it, on OpenSSL's AES, which gives the
    /// vectors above too.
    #[test]
    fn numbers_of_another_implementation() {
        let (key, long) = (key(NIST_KEY), "x".repeat(LONGEST_DOMAIN));
        for (name, number, masked) in [
            ("orders", 0, 0x6b3d_a3cf_08fc_b701),
            ("orders", 1, 0x0ed2_aaef_7e89_4feb),
            ("orders", u64::MAX, 0xa57d_9942_3581_1816),
            ("invoices", 1, 0x3a57_cad9_838a_8ed7),
            (&long, 0x0123_4567_89ab_cdef, 0xf8b8_33ef_3c37_df2f),
        ] {
            assert_eq!(key.mask(number, domain(name)), masked);
            assert_eq!(key.unmask(masked, domain(name)), number);
        }
        for (name, number, masked) in [
            ("orders", 0, 0x3486_1154_7358_a37f_7ba2_0829_5609_bbfc),
            ("orders", 1, 0x1c0a_ef67_cb1f_059c_a2d8_da80_2d4b_0184),
            ("orders", u128::MAX, 0x0eef_ee81_81ba_73d3_ab4c_6098_bee8_9636),
            ("invoices", 1, 0x9ef1_1ae5_ac30_fa1e_8736_7a72_67db_684a),
            (
                &long,
                0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
                0x3fff_99cc_24a7_07b1_25f5_ea9e_e1c1_9b13,
            ),
        ] {
            assert_eq!(key.mask(number, domain(name)), masked);
            assert_eq!(key.unmask(masked, domain(name)), number);
        }
    }

    proptest! {
        /// Halves as machine words do what digits do, each in a place of its own.
        #[test]
        fn words_are_strings_of_bits(wide: u128, name in "[a-z]{1,40}") {
            let (key, domain, number) = (key(OTHER_KEY), domain(&name), wide as u64);
            let masked = key.ff1.encrypt(domain.0, &Digits::bits(number.into(), u64::BITS)).unwrap();
            prop_assert_eq!(u128::from(key.mask(number, domain)), masked.number(RADIX));
            prop_assert_eq!(key.unmask(key.mask(number, domain), domain), number);
            let masked = key.ff1.encrypt(domain.0, &Digits::bits(wide, u128::BITS)).unwrap();
            prop_assert_eq!(key.mask(wide, domain), masked.number(RADIX));
            prop_assert_eq!(key.unmask(key.mask(wide, domain), domain), wide);
        }

        /// What is read is what is written.
        #[test]
        fn texts_round_trip(masked: u128, version in 1..=LAST_VERSION) {
            for (masked, bits) in [(masked, u128::BITS), (masked >> 64, u64::BITS)] {
                let mut place = [0; LONGEST_TEXT];
                let text = write_text(version, masked, bits, &mut place);
                prop_assert_eq!(read_text(text, bits), Ok((version, masked)));
            }
        }

        #[test]
        fn any_text_that_is_read_is_what_is_written(text in "[0-9_]{0,7}[1-9A-Za-z]{9,13}") {
            if let Ok((version, masked)) = read_text(text.as_bytes(), u64::BITS) {
                let mut place = [0; LONGEST_TEXT];
                prop_assert_eq!(write_text(version, masked, u64::BITS, &mut place), text.as_bytes());
            }
        }

        #[test]
        fn any_bytes_are_keys_or_refused(text: Vec<u8>) {
            prop_assert!(KeyRing::parse(&text).is_err());
        }
    }

    /// How many bits differ between two numbers, on average over neighbours.
    fn mean_distance(masked: &[u128]) -> f64 {
        let differing: u32 = masked.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones()).sum();
        f64::from(differing) / (masked.len() - 1) as f64
    }

    /// Of consecutive IDs, of one ID in two domains, and of one under two keys. The bounds are five standard deviations
    /// of the mean of as many fair coins.
    #[test]
    fn neighbours_have_nothing_in_common() {
        const COUNT: u64 = 10_000;
        let key = key(NIST_KEY);
        let first = 175_928_847_299_117_063;
        let near = |distance: f64, bits: u32| {
            let deviation = (f64::from(bits) / 4.0 / COUNT as f64).sqrt();
            assert!((distance - f64::from(bits) / 2.0).abs() < 5.0 * deviation, "{distance}");
        };
        let ids = first..first + COUNT;
        let masked = ids.clone().map(|id| key.mask(id, domain("orders")).into());
        near(mean_distance(&masked.collect::<Vec<_>>()), 64);
        let masked = ids.clone().map(|id| key.mask(u128::from(id), domain("orders")));
        near(mean_distance(&masked.collect::<Vec<_>>()), 128);
        let other = self::key(OTHER_KEY);
        let pairs = ids.flat_map(|id| {
            [
                key.mask(id, domain("orders")),
                key.mask(id, domain("order")),
                other.mask(id, domain("orders")),
            ]
        });
        near(mean_distance(&pairs.map(u128::from).take(COUNT as usize).collect::<Vec<_>>()), 64);
    }

    #[test]
    fn rising_ids_do_not_rise() {
        let key = key(OTHER_KEY);
        let masked: Vec<u64> = (0..10_000).map(|id| key.mask(id, domain("orders"))).collect();
        let rising = masked.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((4_800..5_200).contains(&rising), "{rising} of 9999");
    }

    #[test]
    fn a_name_of_a_domain_has_bounds() {
        assert_eq!(Domain::new(b"").unwrap_err(), DomainFault(0));
        assert!(Domain::new(&[b'x'; LONGEST_DOMAIN]).is_ok());
        assert_eq!(Domain::new(&[b'x'; LONGEST_DOMAIN + 1]).unwrap_err(), DomainFault(256));
    }

    #[test]
    fn the_highest_version_is_current() {
        let file = format!(
            "# made by hand\n\n 2\t{NIST_KEY} # the second\r\n32767 {OTHER_KEY}\n1 {}\n",
            NIST_KEY.to_lowercase()
        );
        let ring = KeyRing::parse(file.as_bytes()).unwrap();
        assert_eq!(ring.newest_first().map(Key::version).collect::<Vec<_>>(), [32767, 2, 1]);
        assert_eq!(ring.current().version(), 32767);
        for absent in [0, 3, -1, 65537, i32::MAX, i32::MIN] {
            assert!(ring.of_version(absent).is_none());
        }
        let [first, second] = [1, 2].map(|version| ring.of_version(version).unwrap());
        assert_eq!(first.mask(7_u64, domain("a")), second.mask(7, domain("a")));
        assert_ne!(first.mask(7_u64, domain("a")), ring.current().mask(7, domain("a")));
    }

    #[test]
    fn a_file_that_holds_no_keys_is_refused_by_line() {
        let parse = |text: String| KeyRing::parse(text.as_bytes()).map(|_| ()).unwrap_err();
        assert_eq!(parse(String::new()), KeyFault::Empty);
        assert_eq!(parse("# 1 only a comment\n\n".to_owned()), KeyFault::Empty);
        assert_eq!(parse("#".repeat(LARGEST_KEY_FILE + 1)), KeyFault::TooLarge);
        assert_eq!(parse(format!("#\n{NIST_KEY}")), KeyFault::Words(2));
        assert_eq!(parse(format!("1 {NIST_KEY} {NIST_KEY}")), KeyFault::Words(1));
        for version in ["0", "-1", "+1", "01", "32768", "99999", "100000", "1.0", "one", "1_"] {
            assert_eq!(parse(format!("{version} {NIST_KEY}")), KeyFault::Version(1), "{version}");
        }
        let short = &NIST_KEY[1..];
        assert_eq!(parse(format!("1 {short}")), KeyFault::Length { line: 1, found: 63 });
        assert_eq!(parse(format!("1 0x{short}")), KeyFault::Length { line: 1, found: 65 });
        assert_eq!(parse(format!("1 g{short}")), KeyFault::NoHex(1));
        let twice = format!("2 {NIST_KEY}\n1 {NIST_KEY}\n2 {OTHER_KEY}");
        assert_eq!(parse(twice), KeyFault::Duplicate { line: 3, first: 1 });
        assert_eq!(parse(format!("\u{feff}1 {NIST_KEY}")), KeyFault::Version(1));
        assert_eq!(parse(format!("1\0{NIST_KEY}")), KeyFault::Words(1));
    }

    #[test]
    fn only_what_is_written_is_read() {
        let mut place = [0; LONGEST_TEXT];
        assert_eq!(write_text(7, 0, u64::BITS, &mut place), b"7_11111111111");
        assert_eq!(write_text(LAST_VERSION, u128::MAX, u128::BITS, &mut place).len(), LONGEST_TEXT);
        assert_eq!(read_text(b"7_11111111112", 64), Ok((7, 1)));
        for text in [
            "",
            "7",
            "_",
            "711111111111",
            "07_11111111111",
            "+7_11111111111",
            " 7_11111111111",
            "0_11111111111",
            "32768_11111111111",
        ] {
            assert_eq!(read_text(text.as_bytes(), 64), Err(TextFault::Version), "{text}");
        }
        for text in [
            "7_",
            "7_1111111111",
            "7_111111111111",
            "7_1111111111O",
            "7_zzzzzzzzzzz",
            "7__1111111111",
        ] {
            assert!(matches!(read_text(text.as_bytes(), 64), Err(TextFault::Number(_))), "{text}");
        }
    }
}
