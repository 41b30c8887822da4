//! SQL functions of UUIDs made of a namespace and a name. The name counts as the bytes that the database has, as for
//! uuid-ossp's functions.

use id_gen_core::uuid_named;
use pgrx::pg_sys;

use crate::error::Error;
use crate::pg::fmgr::{self, Call};
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
