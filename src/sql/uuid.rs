//! SQL functions of UUIDs of any version: what they say of themselves, and which of two is the smaller.

use id_gen_core::{uuid, uuid6, uuid7};
use pgrx::pg_sys;

use crate::pg::fmgr::{self, int8};
use crate::pg::timestamp;
use crate::sql::function::sql_function;

sql_function! {
    /// `uuid_extract_version(uuid) → smallint`, NULL for variants other than RFC 9562's.
    fn uuid_extract_version(call) {
        match uuid::version(&call.uuid(0).unwrap_or_default()) {
            Some(version) => Ok(pg_sys::Datum::from(i16::from(version))),
            None => Ok(call.null()),
        }
    }
}

sql_function! {
    /// `uuid_extract_timestamp(uuid) → timestamptz`, NULL for versions other than 1 and 7.
    fn uuid_extract_timestamp(call) {
        let uuid = call.uuid(0).unwrap_or_default();
        match uuid::version(&uuid) {
            Some(1) => Ok(int8(timestamp::from_unix_us(uuid6::unix_us_of_version_1(&uuid)))),
            Some(7) => Ok(int8(timestamp::from_unix_ms(uuid7::unix_ms(&uuid)))),
            _ => Ok(call.null()),
        }
    }
}

sql_function! {
    /// `uuid_smaller(uuid, uuid) → uuid`
    fn uuid_smaller(call)
    fast { Some(fmgr::uuid(call.uuid(0)?.min(call.uuid(1)?))) }
    { Ok(call.null()) }
}

sql_function! {
    /// `uuid_larger(uuid, uuid) → uuid`
    fn uuid_larger(call)
    fast { Some(fmgr::uuid(call.uuid(0)?.max(call.uuid(1)?))) }
    { Ok(call.null()) }
}
