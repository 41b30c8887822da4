//! SQL functions of ULIDs, as `uuid` and as text.

use id_gen_core::digits::Fault;
use id_gen_core::ulid;
use id_gen_core::uuid7::Generator;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{Message, sentence};
use crate::os::process::PerProcess;
use crate::os::random;
use crate::pg::fmgr::{self, UuidPlace, int8};
use crate::pg::{text, timestamp};
use crate::sql::function::sql_function;
use crate::sql::uuidv7::{begin, step, uuid_bound};

/// An order of their own, by a UUIDv7's steps.
static GENERATOR: PerProcess<Generator> = PerProcess::new(Generator::new());

sql_function! {
    /// `ulid() → uuid`
    fn ulid(_call)
    fast {
        let place = UuidPlace::allocate();
        let (random, further) = (random::seeded_bits()?, random::seeded_bits()?);
        let payload = GENERATOR.with(|generator| generator.next(step(), random));
        Some(place.put(ulid::of(payload, further)))
    }
    {
        begin()?;
        let (random, further) = (random::bits()?, random::bits()?);
        let payload = GENERATOR.with(|generator| generator.next(step(), random));
        Ok(fmgr::uuid(ulid::of(payload, further)))
    }
}

sql_function! {
    /// `ulid_encode(id uuid) → text`
    fn ulid_encode(call)
    fast { Some(fmgr::text(&ulid::encode(call.uuid(0)?))) }
    { Ok(call.null()) }
}

sql_function! {
    /// `ulid_decode(id text) → uuid`
    fn ulid_decode(call)
    fast { Some(fmgr::uuid(ulid::decode(call.stored_bytes(0)?).ok()?)) }
    {
        let text = call.bytes(0).unwrap_or_default();
        match ulid::decode(text) {
            Ok(ulid) => Ok(fmgr::uuid(ulid)),
            Err(fault) => Err(no_ulid(text, &fault).into()),
        }
    }
}

fn no_ulid(text: &[u8], fault: &Fault) -> Message {
    let text = text::excerpt(text);
    Message::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for ULID: \"{text}\""),
    )
    .detail(sentence(fault))
    .hint("A ULID has 26 characters (0 to 9 and A to Z without I, L, O and U, the first at most 7). For lower case, use upper(): SELECT ulid_decode(upper('01arz3ndektsv4rrffq69g5fav'));")
}

sql_function! {
    /// `ulid_timestamp(id uuid) → timestamptz`
    fn ulid_timestamp(call) {
        let ulid = call.uuid(0).unwrap_or_default();
        Ok(int8(timestamp::from_unix_ms(ulid::unix_ms(&ulid))))
    }
}

sql_function! {
    /// `ulid_min(ts timestamptz) → uuid`
    fn ulid_min(call) { uuid_bound(call, "ULID", ulid::min_of) }
}

sql_function! {
    /// `ulid_max(ts timestamptz) → uuid`
    fn ulid_max(call) { uuid_bound(call, "ULID", ulid::max_of) }
}
