//! SQL functions of masked IDs: what others see of a `bigint` or a `uuid`, as such or as text that names the key, and
//! back. The domain's name counts as the bytes that the database has.

use id_gen_base::call::id::Id;
use id_gen_base::error::{Message, sentence};
use id_gen_base::pg::fmgr::{self, Call};
use id_gen_base::pg::text::excerpt;
use id_gen_base::sql_function;
use id_gen_mask_rules::{
    self as rules, Domain, DomainFault, Key, KeyRing, LONGEST_TEXT, TextFault,
};
use pgrx::prelude::PgSqlErrorCode as Code;
use pgrx::prelude::*;

use crate::error::Error;
use crate::keys;

sql_function! {
    /// `id_mask(id bigint, domain text [, key_version integer]) → bigint`
    fn id_mask_bigint(call)
    fast { permute_fast(call, u64::masked) }
    { permute(call, u64::masked) }
}

sql_function! {
    /// `id_unmask(masked bigint, domain text [, key_version integer]) → bigint`
    fn id_unmask_bigint(call)
    fast { permute_fast(call, u64::unmasked) }
    { permute(call, u64::unmasked) }
}

sql_function! {
    /// `id_mask(id uuid, domain text [, key_version integer]) → uuid`
    fn id_mask_uuid(call)
    fast { permute_fast(call, u128::masked) }
    { permute(call, u128::masked) }
}

sql_function! {
    /// `id_unmask(masked uuid, domain text [, key_version integer]) → uuid`
    fn id_unmask_uuid(call)
    fast { permute_fast(call, u128::unmasked) }
    { permute(call, u128::unmasked) }
}

sql_function! {
    /// `id_mask_text(id bigint, domain text) → text`
    fn id_mask_text_bigint(call)
    fast { mask_text_fast::<u64>(call) }
    { mask_text::<u64>(call) }
}

sql_function! {
    /// `id_mask_text(id uuid, domain text) → text`
    fn id_mask_text_uuid(call)
    fast { mask_text_fast::<u128>(call) }
    { mask_text::<u128>(call) }
}

sql_function! {
    /// `id_unmask_text_bigint(masked text, domain text) → bigint`
    fn id_unmask_text_bigint(call)
    fast { unmask_text_fast::<u64>(call) }
    { unmask_text::<u64>(call) }
}

sql_function! {
    /// `id_unmask_text_uuid(masked text, domain text) → uuid`
    fn id_unmask_text_uuid(call)
    fast { unmask_text_fast::<u128>(call) }
    { unmask_text::<u128>(call) }
}

sql_function! {
    /// `id_mask_keys() → SETOF record`, the current key first.
    fn id_mask_keys(call) {
        let versions = keys::with(|ring| {
            let current = ring.current().version();
            let of_key = |key: &Key| (key.version(), key.version() == current);
            ring.newest_first().map(of_key).collect::<Vec<_>>()
        })?;
        Ok(call.rows(versions.into_iter().map(|(version, is_current)| {
            [i32::from(version).into_datum(), is_current.into_datum()]
        })))
    }
}

/// An ID that can be masked.
trait Masked: Id {
    fn masked(self, key: &Key, domain: Domain<'_>) -> Self;
    fn unmasked(self, key: &Key, domain: Domain<'_>) -> Self;
}

impl Masked for u64 {
    #[inline(always)]
    fn masked(self, key: &Key, domain: Domain<'_>) -> u64 {
        key.mask(self, domain)
    }

    #[inline(always)]
    fn unmasked(self, key: &Key, domain: Domain<'_>) -> u64 {
        key.unmask(self, domain)
    }
}

impl Masked for u128 {
    #[inline(always)]
    fn masked(self, key: &Key, domain: Domain<'_>) -> u128 {
        key.mask(self, domain)
    }

    #[inline(always)]
    fn unmasked(self, key: &Key, domain: Domain<'_>) -> u128 {
        key.unmask(self, domain)
    }
}

type Permutation<T> = fn(T, &Key, Domain<'_>) -> T;

/// The version that the third argument names, if there is one.
fn version(call: &Call) -> Option<i32> {
    call.int4(2)
}

/// The key of that version, or the current one.
#[inline(always)]
fn key(ring: &KeyRing, version: Option<i32>) -> Option<&Key> {
    match version {
        None => Some(ring.current()),
        Some(version) => ring.of_version(version),
    }
}

/// The second argument, if it is stored as it is.
#[inline(always)]
fn domain_fast(call: &Call) -> Option<Domain<'_>> {
    Domain::new(call.stored_bytes(1)?).ok()
}

fn domain(call: &Call) -> Result<Domain<'_>, Message> {
    Domain::new(call.bytes(1).unwrap_or_default()).map_err(bad_domain)
}

/// Where keys were read, and there is nothing to refuse.
#[inline(always)]
fn permute_fast<T: Id>(call: &Call, permutation: Permutation<T>) -> Option<pg_sys::Datum> {
    let (id, domain) = (T::argument(call)?, domain_fast(call)?);
    let permuted =
        keys::with_loaded(|ring| key(ring, version(call)).map(|key| permutation(id, key, domain)));
    Some(permuted??.datum())
}

fn permute<T: Id>(call: &Call, permutation: Permutation<T>) -> Result<pg_sys::Datum, Error> {
    let (id, domain) = (T::argument(call).unwrap_or_default(), domain(call)?);
    by_version(version(call), |key| permutation(id, key, domain)).map(T::datum)
}

#[inline(always)]
fn mask_text_fast<T: Masked>(call: &Call) -> Option<pg_sys::Datum> {
    let (id, domain) = (T::argument(call)?, domain_fast(call)?);
    let mut place = [0; LONGEST_TEXT];
    let text = keys::with_loaded(|ring| text_of(id, ring.current(), domain, &mut place))?;
    Some(fmgr::text(text))
}

fn mask_text<T: Masked>(call: &Call) -> Result<pg_sys::Datum, Error> {
    let (id, domain) = (T::argument(call).unwrap_or_default(), domain(call)?);
    let mut place = [0; LONGEST_TEXT];
    let text = keys::with(|ring| text_of(id, ring.current(), domain, &mut place))?;
    Ok(fmgr::text(text))
}

/// A masked ID as text, with the version of its key.
#[inline(always)]
fn text_of<'place, T: Masked>(
    id: T,
    key: &Key,
    domain: Domain<'_>,
    place: &'place mut [u8; LONGEST_TEXT],
) -> &'place [u8] {
    rules::write_text(key.version(), id.masked(key, domain).into(), T::BITS, place)
}

#[inline(always)]
fn unmask_text_fast<T: Masked>(call: &Call) -> Option<pg_sys::Datum> {
    let (version, masked) = rules::read_text(call.stored_bytes(0)?, T::BITS).ok()?;
    let domain = domain_fast(call)?;
    let id = keys::with_loaded(|ring| {
        let key = ring.of_version(version.into())?;
        Some(T::of_number(masked).unmasked(key, domain))
    });
    Some(id??.datum())
}

fn unmask_text<T: Masked>(call: &Call) -> Result<pg_sys::Datum, Error> {
    let text = call.bytes(0).unwrap_or_default();
    let (version, masked) =
        rules::read_text(text, T::BITS).map_err(|fault| no_masked_id::<T>(text, &fault))?;
    let domain = domain(call)?;
    let unmask = |key: &Key| T::of_number(masked).unmasked(key, domain);
    by_version(Some(version.into()), unmask).map(T::datum)
}

/// Does something with the key of a version, or with the current one.
fn by_version<R>(version: Option<i32>, body: impl FnOnce(&Key) -> R) -> Result<R, Error> {
    let done = keys::with(|ring| key(ring, version).map(body))?;
    done.ok_or_else(|| unknown_version(version.unwrap_or_default()).into())
}

fn bad_domain(fault: DomainFault) -> Message {
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "invalid mask domain")
        .detail(sentence(&fault))
        .hint("Use the name of the table, as in: SELECT id_mask(1, 'orders');")
}

fn unknown_version(version: i32) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("mask key version {version} does not exist"),
    )
    .detail("The file in id_gen_mask.key_file has no key of this version; IDs can be unmasked only with the key that masked them.")
    .hint("If the file was changed, reload it: SELECT pg_reload_conf(); If its line was removed, restore it first. To list the versions: SELECT * FROM id_mask_keys();")
}

fn no_masked_id<T: Id>(text: &[u8], fault: &TextFault) -> Message {
    let (text, type_name) = (excerpt(text), T::TYPE_NAME);
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for masked {type_name}: \"{text}\""),
    )
    .detail(sentence(fault))
    .hint(format!(
        "Pass a text from id_mask_text, as in: SELECT id_mask_text({}, 'orders');",
        T::EXAMPLE
    ))
}
