//! TypeIDs (<https://github.com/jetify-com/typeid/tree/main/spec>, version 0.3.0): a prefix that says of which type an
//! ID is, an underscore, and a UUID as 26 characters of Crockford's base 32 in lower case.

use thiserror::Error;

use crate::digits::{Digits, Fault};

/// Characters of the UUID.
pub const SUFFIX: usize = 26;
/// Characters of the longest prefix.
pub const LONGEST_PREFIX: usize = 63;
/// Characters of the longest TypeID.
pub const LONGEST: usize = LONGEST_PREFIX + 1 + SUFFIX;

static LOWER_CROCKFORD: Digits<32> = Digits::new(b"0123456789abcdefghjkmnpqrstvwxyz");

/// Why a text is no TypeID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TypeIdFault {
    /// The prefix breaks its rules.
    #[error(
        "the prefix must have at most 63 characters, a to z and underscores, and begin and end with a letter"
    )]
    Prefix,
    /// An empty prefix is followed by an underscore.
    #[error("a TypeID without a prefix must not begin with an underscore")]
    Separator,
    /// The suffix can't be read.
    #[error("the suffix is invalid: {0}")]
    Suffix(Fault),
}

/// Whether a prefix keeps to the rules. An empty one does.
#[inline]
pub fn is_prefix(prefix: &[u8]) -> bool {
    let is_letter = |letter: &u8| letter.is_ascii_lowercase();
    prefix.len() <= LONGEST_PREFIX
        && prefix.first().is_none_or(is_letter)
        && prefix.last().is_none_or(is_letter)
        && prefix.iter().all(|letter| is_letter(letter) || *letter == b'_')
}

/// The TypeID of a UUID and a prefix that keeps to the rules; what of `place` it took.
#[inline]
pub fn encode<'place>(
    prefix: &[u8],
    uuid: [u8; 16],
    place: &'place mut [u8; LONGEST],
) -> &'place [u8] {
    let start = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
    let text = &mut place[..start + SUFFIX];
    let (head, suffix) = text.split_at_mut(start);
    if let Some((underscore, room)) = head.split_last_mut() {
        room.copy_from_slice(prefix);
        *underscore = b'_';
    }
    LOWER_CROCKFORD.write(u128::from_be_bytes(uuid), suffix);
    text
}

/// The prefix and the UUID of a TypeID.
///
/// # Errors
/// If the text is none.
#[inline]
pub fn decode(text: &[u8]) -> Result<(&[u8], [u8; 16]), TypeIdFault> {
    let (head, suffix) = text.split_at(text.len().saturating_sub(SUFFIX));
    let prefix = match head.split_last() {
        None => head,
        Some((b'_', prefix)) if !prefix.is_empty() => prefix,
        _ => return Err(fault(text)),
    };
    match LOWER_CROCKFORD.read(suffix, u128::BITS) {
        Ok(uuid) if is_prefix(prefix) => Ok((prefix, uuid.to_be_bytes())),
        _ => Err(fault(text)),
    }
}

/// What is wrong with a text that can't be read, as one sees it who looks for the last underscore.
#[cold]
fn fault(text: &[u8]) -> TypeIdFault {
    let (prefix, suffix) = match text.iter().rposition(|&byte| byte == b'_') {
        Some(0) => return TypeIdFault::Separator,
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (&text[..0], text),
    };
    match LOWER_CROCKFORD.read(suffix, u128::BITS) {
        Err(fault) if is_prefix(prefix) => TypeIdFault::Suffix(fault),
        _ => TypeIdFault::Prefix,
    }
}
