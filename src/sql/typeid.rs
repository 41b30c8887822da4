//! SQL functions of TypeIDs, which are text.

use id_gen_core::typeid::{self, TypeIdFault};
use id_gen_core::uuid7;
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{Error, Message, sentence};
use crate::os::random;
use crate::pg::fmgr::{self, Call, int8};
use crate::pg::text::excerpt;
use crate::sql::function::sql_function;
use crate::sql::uuidv7::{begin, payload, timestamp_of};

sql_function! {
    /// `typeid(prefix text) → text`
    fn typeid(call)
    fast {
        let prefix = call.stored_bytes(0).filter(|prefix| typeid::is_prefix(prefix))?;
        let uuid = uuid7::of(payload(|| random::seeded_bits().ok_or(())).ok()?);
        Some(encoded(prefix, uuid))
    }
    {
        begin()?;
        let prefix = prefix(call, 0)?;
        Ok(encoded(prefix, uuid7::of(payload(random::bits)?)))
    }
}

sql_function! {
    /// `typeid_encode(id uuid, prefix text) → text`
    fn typeid_encode(call)
    fast {
        let prefix = call.stored_bytes(1).filter(|prefix| typeid::is_prefix(prefix))?;
        Some(encoded(prefix, call.uuid(0)?))
    }
    {
        let prefix = prefix(call, 1)?;
        Ok(encoded(prefix, call.uuid(0).unwrap_or_default()))
    }
}

sql_function! {
    /// `typeid_decode(id text, prefix text) → uuid`
    fn typeid_decode(call)
    fast {
        let (found, uuid) = typeid::decode(call.stored_bytes(0)?).ok()?;
        (found == call.stored_bytes(1)?).then(|| fmgr::uuid(uuid))
    }
    {
        let (found, uuid) = decoded(call)?;
        let expected = prefix(call, 1)?;
        if found != expected {
            return Err(other_prefix(call.bytes(0).unwrap_or_default(), found, expected).into());
        }
        Ok(fmgr::uuid(uuid))
    }
}

sql_function! {
    /// `typeid_prefix(id text) → text`
    fn typeid_prefix(call) { Ok(fmgr::text(decoded(call)?.0)) }
}

sql_function! {
    /// `typeid_timestamp(id text) → timestamptz`, NULL for a UUID of another version.
    fn typeid_timestamp(call) {
        let (_, uuid) = decoded(call)?;
        Ok(timestamp_of(&uuid).map_or_else(|| call.null(), int8))
    }
}

#[inline(always)]
fn encoded(prefix: &[u8], uuid: [u8; 16]) -> pg_sys::Datum {
    fmgr::text(typeid::encode(prefix, uuid, &mut [0; typeid::LONGEST]))
}

/// A prefix that is an argument.
fn prefix(call: &Call, index: usize) -> Result<&[u8], Error> {
    let prefix = call.bytes(index).unwrap_or_default();
    if typeid::is_prefix(prefix) { Ok(prefix) } else { Err(no_prefix(prefix).into()) }
}

/// The TypeID that is the first argument.
fn decoded(call: &Call) -> Result<(&[u8], [u8; 16]), Error> {
    let text = call.bytes(0).unwrap_or_default();
    typeid::decode(text).map_err(|fault| no_typeid(text, &fault).into())
}

fn no_typeid(text: &[u8], fault: &TypeIdFault) -> Message {
    let text = excerpt(text);
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for TypeID: \"{text}\""),
    )
    .detail(sentence(fault))
    .hint("A TypeID is a prefix, an underscore, and 26 characters (0 to 9 and a to z without i, l, o and u, the first at most 7), as in: SELECT typeid_encode(gen_random_uuid(), 'user'); For upper case, use lower().")
}

fn other_prefix(text: &[u8], found: &[u8], expected: &[u8]) -> Message {
    let [text, found, expected] = [text, found, expected].map(excerpt);
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("TypeID has prefix \"{found}\" instead of \"{expected}\""),
    )
    .detail("The prefix gives the type of the ID.")
    .hint(format!("To decode it with this prefix: SELECT typeid_decode('{text}', '{found}');"))
}

fn no_prefix(prefix: &[u8]) -> Message {
    let prefix = excerpt(prefix);
    Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("invalid TypeID prefix: \"{prefix}\""),
    )
    .detail("A prefix has at most 63 characters, a to z and underscores, and begins and ends with a letter. It can be empty.")
    .hint("For example: SELECT typeid('user');")
}
