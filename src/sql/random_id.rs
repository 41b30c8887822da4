//! SQL functions of random IDs, which are text, and of how likely it is that two are alike.

use id_gen_core::random_id::{self, Alphabet};
use pgrx::pg_sys;

use crate::error::Error;
use crate::error::kinds::{KindError, RandomFault};
use crate::os::random;
use crate::pg::fmgr::{self, Call, TextPlace};
use crate::pg::text::excerpt;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_random(prefix text, size integer, alphabet text) → text`
    fn id_random(call) {
        let prefix = call.bytes(0).unwrap_or_default();
        let (size, alphabet) = (size(call, 1)?, alphabet(call, 2)?);
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
        let random = text
            .strip_prefix(prefix)
            .ok_or_else(|| RandomFault::Prefix(excerpt(prefix)))
            .and_then(|random| match (random.len(), alphabet.foreign(random)) {
                (found, _) if found != expected => Err(RandomFault::Length { found, expected }),
                (_, Some(place)) => Err(RandomFault::Symbol(place)),
                _ => Ok(random),
            })
            .map_err(|fault| KindError::Random { text: excerpt(text), fault })?;
        Ok(fmgr::text(random))
    }
}

sql_function! {
    /// `id_random_bits(size integer, alphabet text) → double precision`
    fn id_random_bits(call) { Ok(fmgr::float8(alphabet(call, 1)?.bits(size(call, 0)?))) }
}

sql_function! {
    /// `id_collision(ids double precision, bits double precision) → double precision`
    fn id_collision(call) {
        let ids = call.float8(0).unwrap_or(0.0);
        if ids.is_nan() || ids < 0.0 {
            return Err(KindError::Ids(ids).into());
        }
        Ok(fmgr::float8(random_id::collision_chance(ids, bits(call)?)))
    }
}

sql_function! {
    /// `id_collision_ids(chance double precision, bits double precision) → double precision`
    fn id_collision_ids(call) {
        let chance = call.float8(0).unwrap_or(0.0);
        if !(0.0..1.0).contains(&chance) {
            return Err(KindError::Chance(chance).into());
        }
        Ok(fmgr::float8(random_id::collision_ids(chance, bits(call)?)))
    }
}

fn size(call: &Call, index: usize) -> Result<usize, Error> {
    let size = call.int4(index).unwrap_or(0);
    usize::try_from(size)
        .ok()
        .filter(|size| (1..=random_id::LONGEST).contains(size))
        .ok_or_else(|| KindError::Size(size).into())
}

fn alphabet(call: &Call, index: usize) -> Result<Alphabet<'_>, Error> {
    Alphabet::new(call.bytes(index).unwrap_or_default())
        .map_err(|fault| KindError::Alphabet(fault).into())
}

fn bits(call: &Call) -> Result<f64, Error> {
    let bits = call.float8(1).unwrap_or(0.0);
    if bits.is_nan() || bits < 0.0 { Err(KindError::Bits(bits).into()) } else { Ok(bits) }
}
