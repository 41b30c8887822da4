//! Text of the database, which has an encoding of its own there and is UTF-8 here.

use std::ffi::{CStr, CString, c_char};

use pgrx::prelude::*;

/// Text that comes from the database, or goes there.
pub struct Text(pub String);

impl FromDatum for Text {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Text> {
        if is_null {
            return None;
        }
        // SAFETY: the caller's promise: a text, passed by reference to a varlena, which may be compressed. What
        // PostgreSQL converts it to is a string that it has allocated, or the same bytes.
        unsafe {
            let varlena = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            let bytes = pgrx::varlena::varlena_to_byte_slice(varlena);
            let utf8 = pg_sys::pg_enc::PG_UTF8 as i32;
            let from: *const c_char = bytes.as_ptr().cast();
            let converted = pg_sys::pg_server_to_any(from, bytes.len() as i32, utf8).cast_const();
            let bytes =
                if converted == from { bytes } else { CStr::from_ptr(converted).to_bytes() };
            Some(Text(String::from_utf8_lossy(bytes).into_owned()))
        }
    }
}

impl IntoDatum for Text {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let in_server = in_server_encoding(self.0);
        // SAFETY: a string; it is copied into memory of PostgreSQL's.
        Some(unsafe { pg_sys::cstring_to_text(in_server.as_ptr()) }.into())
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TEXTOID
    }
}

/// A string as the database has it, such as a query. One with a zero byte, which nothing of the database's has, is empty.
pub fn in_server_encoding(text: String) -> CString {
    let text = CString::new(text).unwrap_or_default();
    let length = text.as_bytes().len() as i32;
    let utf8 = pg_sys::pg_enc::PG_UTF8 as i32;
    // SAFETY: a string of that length. What it is converted to is one that PostgreSQL has allocated, or the same.
    unsafe {
        let converted = pg_sys::pg_any_to_server(text.as_ptr(), length, utf8).cast_const();
        if converted == text.as_ptr() { text } else { CStr::from_ptr(converted).to_owned() }
    }
}

/// Text as a literal, whatever `standard_conforming_strings` says.
pub fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// Text for an error, which has to be of the database's encoding: in one other than UTF-8, what is beyond ASCII is shown
/// as "?".
pub fn in_error(text: &str) -> String {
    // SAFETY: reads a variable of this process.
    if unsafe { pg_sys::GetDatabaseEncoding() } == pg_sys::pg_enc::PG_UTF8 as i32 {
        return text.to_owned();
    }
    text.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect()
}

/// Bytes of the database's as text for an error: not too much of them, and in an encoding other than UTF-8 what is
/// beyond ASCII is shown as "?".
pub fn excerpt(bytes: &[u8]) -> String {
    const MOST_CHARACTERS: usize = 100;
    let most_bytes = bytes.len().min(MOST_CHARACTERS * char::MAX_LEN_UTF8);
    let text = String::from_utf8_lossy(&bytes[..most_bytes]);
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{} ...", in_error(&text[..end])),
        None => in_error(&text),
    }
}

/// A name as one types it.
pub fn quoted(name: &str) -> String {
    let in_server = in_server_encoding(name.to_owned());
    // SAFETY: a string; what comes back is the same, or one that PostgreSQL has allocated, which is read before anything can
    // free it.
    let typed = unsafe { CStr::from_ptr(pg_sys::quote_identifier(in_server.as_ptr())) };
    // Quotes are ASCII in every encoding that a server has, so the name within stays as it was given.
    if typed.to_bytes().len() == in_server.as_bytes().len() {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
