//! SQL functions of sqids (<https://sqids.org/spec>): short text for lists of small numbers. They hide nothing: whoever
//! knows the alphabet reads the numbers.
//!
//! Reading is strict: several texts stand for the same numbers, and only the one that is written is read.

use pgrx::prelude::PgSqlErrorCode as Code;
use pgrx::prelude::*;
use sqids::Sqids;

use crate::error::{Error, Message, sentence};
use crate::os::process::PerProcess;
use crate::pg::fmgr::Call;
use crate::pg::text::excerpt;
use crate::sql::function::sql_function;

/// Numbers in the longest list. The work for a list grows with the square of its length.
const MOST_NUMBERS: usize = 100;
/// Symbols of the largest alphabet.
const MOST_SYMBOLS: usize = 128;
/// Bytes of the longest text: so many numbers with the smallest alphabet, which gives each 63 bits and a separator.
const MOST_BYTES: usize = 1 + MOST_NUMBERS * 64;

sql_function! {
    /// `sqids_encode(numbers bigint[], min_length integer, alphabet text) → text`
    fn sqids_encode(call) {
        let numbers = numbers(call)?;
        let text = with_sqids(call, |sqids| sqids.encode(&numbers))?
            .map_err(|error| blocked(&error))?;
        Ok(text.into_datum().unwrap_or(pg_sys::Datum::null()))
    }
}

sql_function! {
    /// `sqids_decode(id text, min_length integer, alphabet text) → bigint[]`
    fn sqids_decode(call) {
        let id = call.bytes(0).unwrap_or_default();
        let numbers = with_sqids(call, |sqids| decode(sqids, id))??;
        Ok(numbers.into_datum().unwrap_or(pg_sys::Datum::null()))
    }
}

/// The numbers that are the first argument.
fn numbers(call: &Call) -> Result<Vec<u64>, Error> {
    let array = call.arg(0).unwrap_or(pg_sys::Datum::null());
    // SAFETY: declared as an array of bigint, and not NULL as the function is strict.
    let Some(array) = (unsafe { Array::<i64>::from_datum(array, false) }) else {
        return Ok(Vec::new());
    };
    // Before anything is allocated for them, as memory that Rust can't get would end the server.
    if array.len() > MOST_NUMBERS {
        return Err(too_many(array.len()).into());
    }
    let number = |(place, number): (usize, Option<i64>)| {
        number
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| bad_number(place + 1, number).into())
    };
    array.iter().enumerate().map(number).collect()
}

/// The numbers of a text.
///
/// # Errors
/// If they are not written so, are too many, or one of them is no `bigint`: other libraries write more.
fn decode(sqids: &Sqids, id: &[u8]) -> Result<Vec<i64>, Message> {
    if id.len() > MOST_BYTES {
        return Err(long_text(id.len()));
    }
    let text = std::str::from_utf8(id).map_err(|_| no_sqid(id))?;
    let numbers = sqids.decode(text);
    if numbers.len() > MOST_NUMBERS {
        return Err(too_many(numbers.len()));
    }
    if !sqids.encode(&numbers).is_ok_and(|written| written == text) {
        return Err(no_sqid(id));
    }
    let bigint = |number| i64::try_from(number).map_err(|_| beyond_bigint(id, number));
    numbers.into_iter().map(bigint).collect()
}

/// An alphabet that is ready for use. Making it so takes a thousand times longer than using it.
struct Ready {
    min_length: u8,
    alphabet: Vec<u8>,
    sqids: Sqids,
}

/// The last that this process used.
static READY: PerProcess<Option<Ready>> = PerProcess::new(None);

/// Does something with the alphabet and the least length that are arguments.
fn with_sqids<R>(call: &Call, body: impl FnOnce(&Sqids) -> R) -> Result<R, Error> {
    let length = call.int4(1).unwrap_or(0);
    let min_length = u8::try_from(length).map_err(|_| bad_length(length))?;
    let alphabet = call.bytes(2).unwrap_or_default();
    READY.with(|last| {
        let fits = |ready: &Ready| ready.min_length == min_length && ready.alphabet == alphabet;
        let ready = match last.take().filter(fits) {
            Some(ready) => ready,
            None => Ready::new(min_length, alphabet)?,
        };
        Ok(body(&last.insert(ready).sqids))
    })
}

impl Ready {
    fn new(min_length: u8, alphabet: &[u8]) -> Result<Ready, Error> {
        // As for the numbers. ASCII has no more, so a longer one has some twice.
        if alphabet.len() > MOST_SYMBOLS {
            return Err(long_alphabet(alphabet.len()).into());
        }
        let sqids = Sqids::builder()
            .alphabet(alphabet.iter().map(|&byte| char::from(byte)).collect())
            .min_length(min_length)
            .build()
            .map_err(|error| bad_alphabet(&error))?;
        Ok(Ready { min_length, alphabet: alphabet.to_owned(), sqids })
    }
}

const EXAMPLE: &str = "For example: SELECT sqids_encode(ARRAY[1, 2, 3]);";

fn no_sqid(text: &[u8]) -> Message {
    let text = excerpt(text);
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for sqid: \"{text}\""),
    )
    .detail("sqids_encode cannot return this text with this alphabet and min_length.")
    .hint("Pass the alphabet and min_length that the sqid was generated with, as in: SELECT sqids_decode('86Rf07');")
}

fn beyond_bigint(text: &[u8], number: u64) -> Message {
    let text = excerpt(text);
    Message::new(
        Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        format!("sqid \"{text}\" contains a number that is out of range for type bigint"),
    )
    .detail(format!("The number is {number}; the largest bigint is {}.", i64::MAX))
    .hint("Decode it in the application that encoded it, and store that number as numeric.")
}

fn long_text(bytes: usize) -> Message {
    Message::new(Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED, "text is too long for a sqid")
        .detail(format!("It has {bytes} bytes; the maximum is {MOST_BYTES}."))
        .hint("Pass a text from sqids_encode, as in: SELECT sqids_decode('86Rf07');")
}

fn bad_number(place: usize, number: Option<i64>) -> Message {
    let number = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
    Message::new(Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range for a sqid")
        .detail(format!("Element {place} is {number}; all must be 0 or more."))
        .hint(EXAMPLE)
}

fn too_many(found: usize) -> Message {
    Message::new(Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED, "too many numbers for a sqid")
        .detail(format!("There are {found} numbers; the maximum is {MOST_NUMBERS}."))
        .hint(EXAMPLE)
}

fn bad_length(length: i32) -> Message {
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "min_length is out of range")
        .detail(format!("min_length is {length}; it must be from 0 to {}.", u8::MAX))
        .hint("For example: SELECT sqids_encode(ARRAY[1], 10);")
}

fn bad_alphabet(error: &sqids::Error) -> Message {
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "invalid sqids alphabet")
        .detail(sentence(error))
        .hint("Omit it, or use at least 3 different ASCII characters, as in: SELECT sqids_encode(ARRAY[1], 0, 'abcdefghijk');")
}

fn long_alphabet(found: usize) -> Message {
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, "invalid sqids alphabet")
        .detail(format!("It has {found} bytes; there are only {MOST_SYMBOLS} ASCII characters."))
        .hint("Use each character once, as in: SELECT sqids_encode(ARRAY[1], 0, 'abcdefghijk');")
}

fn blocked(error: &sqids::Error) -> Message {
    Message::new(
        Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "every sqid of these numbers contains a blocked word",
    )
    .detail(sentence(error))
    .hint("Use a longer alphabet, or omit it to use 62 characters.")
}
