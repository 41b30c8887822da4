//! SQL functions of random IDs, which are text, and of how likely it is that two are alike.

use id_gen_core::digits::characters;
use id_gen_core::random_id::{self, Alphabet, AlphabetFault};
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{Error, Message, sentence};
use crate::generate::test_server;
use crate::os::random;
use crate::pg::fmgr::{self, Call, TextPlace};
use crate::pg::text::excerpt;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_random(prefix text, size integer, alphabet text) → text`
    fn id_random(call) {
        let prefix = call.bytes(0).unwrap_or_default();
        let (size, alphabet) = (size(call, 1)?, alphabet(call, 2)?);
        test_server::begin()?;
        let mut place = TextPlace::new(prefix.len() + size);
        let (head, rest) = place.bytes().split_at_mut(prefix.len());
        head.copy_from_slice(prefix);
        alphabet.fill(rest, random::bits)?;
        Ok(place.put())
    }
}

sql_function! {
    /// `id_random_parse(id text, prefix text, size integer, alphabet text) → text`
    fn id_random_parse(call) {
        let text = call.bytes(0).unwrap_or_default();
        let prefix = call.bytes(1).unwrap_or_default();
        let (expected, alphabet) = (size(call, 2)?, alphabet(call, 3)?);
        let Some(random) = text.strip_prefix(prefix) else {
            return Err(no_random_id(text, format!("It does not begin with \"{}\".", excerpt(prefix))).into());
        };
        if let Some(place) = alphabet.foreign(random) {
            let fault = format!("After the prefix, byte {place} is not in the alphabet.");
            return Err(no_random_id(text, fault).into());
        }
        if random.len() != expected {
            let found = characters(random.len());
            let fault = format!("After the prefix, it has {found} instead of {expected}.");
            return Err(no_random_id(text, fault).into());
        }
        Ok(fmgr::text(random))
    }
}

sql_function! {
    /// `id_random_collision_probability(ids double precision, size integer, alphabet text) → double precision`
    fn id_random_collision_probability(call) {
        let ids = call.float8(0).unwrap_or(0.0);
        if ids.is_nan() || ids < 0.0 {
            return Err(bad_ids(ids).into());
        }
        let bits = alphabet(call, 2)?.bits(size(call, 1)?);
        Ok(fmgr::float8(random_id::collision_chance(ids, bits)))
    }
}

fn size(call: &Call, index: usize) -> Result<usize, Error> {
    let size = call.int4(index).unwrap_or(0);
    usize::try_from(size)
        .ok()
        .filter(|size| (1..=random_id::LONGEST).contains(size))
        .ok_or_else(|| bad_size(size).into())
}

fn alphabet(call: &Call, index: usize) -> Result<Alphabet<'_>, Error> {
    Alphabet::new(call.bytes(index).unwrap_or_default())
        .map_err(|fault| bad_alphabet(&fault).into())
}

fn no_random_id(text: &[u8], fault: String) -> Message {
    let text = excerpt(text);
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for random ID: \"{text}\""),
    )
    .detail(fault)
    .hint("Pass the prefix, size and alphabet that the ID was generated with, as in: SELECT id_random_parse('BIZ0123456789ABCDEF0123', 'BIZ', 20, '0123456789ABCDEF');")
}

fn bad_size(size: i32) -> Message {
    let longest = random_id::LONGEST;
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "size is out of range")
        .detail(format!("The size is {size}; it must be from 1 to {longest}."))
        .hint("For example: SELECT id_random('BIZ', 20, '0123456789ABCDEF');")
}

fn bad_alphabet(fault: &AlphabetFault) -> Message {
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "invalid alphabet")
        .detail(sentence(fault))
        .hint("Use 2 to 94 different printable ASCII characters, as in: SELECT id_random('BIZ', 20, '0123456789ABCDEF');")
}

fn bad_ids(ids: f64) -> Message {
    Message::new(Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "number of IDs is out of range")
        .detail(format!("The number is {ids}; it must be 0 or greater."))
        .hint("For example: SELECT id_random_collision_probability(1e9);")
}
