//! SQL functions of IDs as short text, and back.

use id_gen_core::digits::Fault;
use id_gen_core::text::{Format, LONGEST};
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{Error, Message, sentence};
use crate::pg::fmgr::{self, Call, int8};
use crate::pg::text::excerpt;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_encode(id bigint, format text) → text`
    fn id_encode_bigint(call)
    fast { encode_fast(call, bigint(call)?, i64::BITS) }
    { encode(call, bigint(call).unwrap_or_default(), i64::BITS) }
}

sql_function! {
    /// `id_encode(id uuid, format text) → text`
    fn id_encode_uuid(call)
    fast { encode_fast(call, uuid(call)?, u128::BITS) }
    { encode(call, uuid(call).unwrap_or_default(), u128::BITS) }
}

sql_function! {
    /// `id_decode_bigint(id text, format text) → bigint`
    fn id_decode_bigint(call)
    fast { decode_fast(call, i64::BITS).map(as_bigint) }
    { decode(call, "bigint", i64::BITS).map(as_bigint) }
}

sql_function! {
    /// `id_decode_uuid(id text, format text) → uuid`
    fn id_decode_uuid(call)
    fast { decode_fast(call, u128::BITS).map(as_uuid) }
    { decode(call, "uuid", u128::BITS).map(as_uuid) }
}

fn bigint(call: &Call) -> Option<u128> {
    call.int8(0).map(|id| id.cast_unsigned().into())
}

fn uuid(call: &Call) -> Option<u128> {
    call.uuid(0).map(u128::from_be_bytes)
}

fn as_bigint(number: u128) -> pg_sys::Datum {
    int8((number as u64).cast_signed())
}

fn as_uuid(number: u128) -> pg_sys::Datum {
    fmgr::uuid(number.to_be_bytes())
}

/// The format that the second argument names.
fn format(call: &Call) -> Result<(&'static str, Format), Error> {
    let name = call.bytes(1).unwrap_or_default();
    Format::named(name).ok_or_else(|| unknown_format(name).into())
}

/// Where the format's name is stored as it is, and known.
#[inline(always)]
fn encode_fast(call: &Call, number: u128, bits: u32) -> Option<pg_sys::Datum> {
    let (_, format) = Format::named(call.stored_bytes(1)?)?;
    Some(fmgr::text(format.write(number, bits, &mut [0; LONGEST])))
}

fn encode(call: &Call, number: u128, bits: u32) -> Result<pg_sys::Datum, Error> {
    let (_, format) = format(call)?;
    Ok(fmgr::text(format.write(number, bits, &mut [0; LONGEST])))
}

/// Where both are stored as they are, and can be read.
#[inline(always)]
fn decode_fast(call: &Call, bits: u32) -> Option<u128> {
    let (_, format) = Format::named(call.stored_bytes(1)?)?;
    format.read(call.stored_bytes(0)?, bits).ok()
}

fn decode(call: &Call, type_name: &'static str, bits: u32) -> Result<u128, Error> {
    let ((name, format), text) = (format(call)?, call.bytes(0).unwrap_or_default());
    format.read(text, bits).map_err(|fault| unreadable(text, name, type_name, &fault).into())
}

fn unknown_format(format: &[u8]) -> Message {
    let format = excerpt(format);
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, format!("format \"{format}\" is unknown"))
        .detail("The formats are crockford, base32hex, base36, base58 and base62.")
        .hint("Type for example: SELECT id_encode(1, 'base58');")
}

fn unreadable(text: &[u8], format: &str, type_name: &str, fault: &Fault) -> Message {
    let text = excerpt(text);
    let example = if type_name == "uuid" { "gen_random_uuid()" } else { "1" };
    let case = match format {
        "crockford" | "base32hex" => " Lower case is made upper by upper().",
        "base36" => " Upper case is made lower by lower().",
        _ => "",
    };
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for {type_name} in {format}: \"{text}\""),
    )
    .detail(sentence(fault))
    .hint(format!(
        "Only what id_encode writes is read, such as: SELECT id_encode({example}, '{format}');{case}"
    ))
}
