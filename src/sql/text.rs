//! SQL functions of IDs as short text, and back.

use id_gen_base::call::id::Id;
use id_gen_core::digits::Fault;
use id_gen_core::text::{Format, LONGEST};
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{Error, Message, sentence};
use crate::pg::fmgr::{self, Call};
use crate::pg::text::excerpt;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_encode(id bigint, format text) → text`
    fn id_encode_bigint(call)
    fast { encode_fast::<u64>(call) }
    { encode::<u64>(call) }
}

sql_function! {
    /// `id_encode(id uuid, format text) → text`
    fn id_encode_uuid(call)
    fast { encode_fast::<u128>(call) }
    { encode::<u128>(call) }
}

sql_function! {
    /// `id_decode_bigint(id text, format text) → bigint`
    fn id_decode_bigint(call)
    fast { decode_fast::<u64>(call) }
    { decode::<u64>(call) }
}

sql_function! {
    /// `id_decode_uuid(id text, format text) → uuid`
    fn id_decode_uuid(call)
    fast { decode_fast::<u128>(call) }
    { decode::<u128>(call) }
}

/// The format that the second argument names.
fn format(call: &Call) -> Result<(&'static str, Format), Error> {
    let name = call.bytes(1).unwrap_or_default();
    Format::named(name).ok_or_else(|| unknown_format(name).into())
}

/// Where the format's name is stored as it is, and known.
#[inline(always)]
fn encode_fast<T: Id>(call: &Call) -> Option<pg_sys::Datum> {
    let (_, format) = Format::named(call.stored_bytes(1)?)?;
    Some(encoded(T::argument(call)?, format))
}

fn encode<T: Id>(call: &Call) -> Result<pg_sys::Datum, Error> {
    let (_, format) = format(call)?;
    Ok(encoded(T::argument(call).unwrap_or_default(), format))
}

#[inline(always)]
fn encoded<T: Id>(id: T, format: Format) -> pg_sys::Datum {
    fmgr::text(format.write(id.into(), T::BITS, &mut [0; LONGEST]))
}

/// Where both are stored as they are, and can be read.
#[inline(always)]
fn decode_fast<T: Id>(call: &Call) -> Option<pg_sys::Datum> {
    let (_, format) = Format::named(call.stored_bytes(1)?)?;
    let number = format.read(call.stored_bytes(0)?, T::BITS).ok()?;
    Some(T::of_number(number).datum())
}

fn decode<T: Id>(call: &Call) -> Result<pg_sys::Datum, Error> {
    let (format, text) = (format(call)?, call.bytes(0).unwrap_or_default());
    match format.1.read(text, T::BITS) {
        Ok(number) => Ok(T::of_number(number).datum()),
        Err(fault) => Err(unreadable::<T>(text, format, &fault).into()),
    }
}

fn unknown_format(format: &[u8]) -> Message {
    let format = excerpt(format);
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, format!("format \"{format}\" is unknown"))
        .detail("The formats are crockford, base32hex, base36, base58 and base62.")
        .hint("For example: SELECT id_encode(1, 'base58');")
}

fn unreadable<T: Id>(text: &[u8], (format, digits): (&str, Format), fault: &Fault) -> Message {
    let (text, type_name, example) = (excerpt(text), T::TYPE_NAME, T::EXAMPLE);
    let case = match digits {
        Format::Crockford | Format::Base32Hex => " For lower case, use upper().",
        Format::Base36 => " For upper case, use lower().",
        Format::Base58 | Format::Base62 => "",
    };
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for {type_name} in {format}: \"{text}\""),
    )
    .detail(sentence(fault))
    .hint(format!(
        "Pass a text from id_encode with the same format, as in: SELECT id_encode({example}, '{format}');{case}"
    ))
}
