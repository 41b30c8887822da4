//! SQL functions of UUIDs made of a namespace and a name. The name counts as the bytes that the database has, as for
//! uuid-ossp's functions.

use id_gen_core::uuid_named;
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{Error, Message};
use crate::pg::fmgr::{self, Call};
use crate::pg::text::excerpt;
use crate::sql::function::sql_function;

sql_function! {
    /// `uuidv3(namespace uuid, name text) → uuid`
    fn uuidv3(call)
    fast { fast(call, uuid_named::version_3) }
    { named(call, uuid_named::version_3) }
}

sql_function! {
    /// `uuidv5(namespace uuid, name text) → uuid`
    fn uuidv5(call)
    fast { fast(call, uuid_named::version_5) }
    { named(call, uuid_named::version_5) }
}

sql_function! {
    /// `uuidv8(namespace uuid, name text) → uuid`
    fn uuidv8(call)
    fast { fast(call, uuid_named::version_8) }
    { named(call, uuid_named::version_8) }
}

sql_function! {
    /// `uuid_namespace(name text) → uuid`
    fn uuid_namespace(call) {
        let name = call.text(0).unwrap_or_default();
        let namespace = uuid_named::namespace(&name).ok_or_else(|| unknown_namespace(&name))?;
        Ok(fmgr::uuid(namespace))
    }
}

fn unknown_namespace(name: &str) -> Message {
    let known = uuid_named::NAMESPACES.map(|(known, _)| known).join(", ");
    Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("UUID namespace \"{}\" does not exist", excerpt(name.as_bytes())),
    )
    .detail(format!("The namespaces of RFC 9562 are: {known}."))
    .hint("Use one of these, or any UUID as your own namespace, as in: SELECT uuidv5('01890a5d-ac96-774b-bcce-b302099a8057', 'name');")
}

type Version = fn(&[u8; 16], &[u8]) -> [u8; 16];

/// For a name that is stored as it is.
#[inline(always)]
fn fast(call: &Call, version: Version) -> Option<pg_sys::Datum> {
    Some(fmgr::uuid(version(&call.uuid(0)?, call.stored_bytes(1)?)))
}

fn named(call: &Call, version: Version) -> Result<pg_sys::Datum, Error> {
    let (namespace, name) = (call.uuid(0).unwrap_or_default(), call.bytes(1).unwrap_or_default());
    Ok(fmgr::uuid(version(&namespace, name)))
}
