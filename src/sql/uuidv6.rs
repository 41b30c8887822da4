//! SQL functions of UUIDv6 and UUIDv1, which have the same time, clock sequence and node in another order.

use id_gen_core::ordered::Payload;
use id_gen_core::uuid;
use id_gen_core::uuid6::{self, Generator};
use pgrx::pg_sys;

use crate::error::{Error, Reason};
use crate::generate::test_server;
use crate::os::process::PerProcess;
use crate::os::{clock, random};
use crate::pg::fmgr::{self, Call, int8};
use crate::pg::timestamp;
use crate::sql::function::sql_function;

/// Both versions are of one order.
static GENERATOR: PerProcess<Generator> = PerProcess::new(Generator::new());

fn payload() -> Result<Payload, Error> {
    test_server::begin()?;
    let step = uuid6::intervals(clock::since_epoch());
    let random = random::bits()?;
    Ok(GENERATOR.with(|generator| generator.next(step, random)))
}

sql_function! {
    /// `uuidv6() → uuid`
    fn uuidv6(_call) { Ok(fmgr::uuid(uuid6::of(payload()?))) }
}

sql_function! {
    /// `uuidv1() → uuid`
    fn uuidv1(_call) { Ok(fmgr::uuid(uuid6::of_version_1(payload()?))) }
}

sql_function! {
    /// `uuidv6_timestamp(id uuid) → timestamptz`, NULL for other versions.
    fn uuidv6_timestamp(call) {
        let uuid = call.uuid(0).unwrap_or_default();
        match uuid::version(&uuid) {
            Some(6) => Ok(int8(timestamp::from_unix_us(uuid6::unix_us(&uuid)))),
            _ => Ok(call.null()),
        }
    }
}

sql_function! {
    /// `uuidv6_min(ts timestamptz) → uuid`
    fn uuidv6_min(call) { bound(call, uuid6::min_of) }
}

sql_function! {
    /// `uuidv6_max(ts timestamptz) → uuid`
    fn uuidv6_max(call) { bound(call, uuid6::max_of) }
}

fn bound(call: &Call, of_us: fn(i64) -> [u8; 16]) -> Result<pg_sys::Datum, Error> {
    let instant = call.int8(0).unwrap_or(0);
    let unix_us = timestamp::unix_us(instant);
    if !timestamp::is_finite(instant) || !(uuid6::FIRST_US..=uuid6::LAST_US).contains(&unix_us) {
        return Err(Reason::Uuid6Instant.into());
    }
    Ok(fmgr::uuid(of_us(unix_us)))
}
