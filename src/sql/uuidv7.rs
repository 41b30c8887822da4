//! SQL functions of UUIDv7. All but those in strict order over the server need no shared memory.

use std::time::Duration;

use id_gen_core::ordered::{self, Payload};
use id_gen_core::tsc::TscExtrapolation;
use id_gen_core::uuid;
use id_gen_core::uuid7::{self, Generator};
use pgrx::pg_sys;

use crate::error::{Error, Reason};
use crate::generate::test_server;
use crate::os::process::PerProcess;
use crate::os::tsc::TscStart;
use crate::os::{clock, random, tsc};
use crate::pg::fmgr::{self, Call, UuidPlace, int8};
use crate::pg::timestamp;
use crate::shared::{SharedState, memory};
use crate::sql::function::sql_function;
use crate::sql::snowflake_batch::rows;

/// Its name in errors.
const KIND: &str = "UUID version 7";

static GENERATOR: PerProcess<Generator> = PerProcess::new(Generator::new());

/// The time in steps, as long as the time-stamp counter tells it.
static STEP: PerProcess<TscExtrapolation> = PerProcess::new(TscExtrapolation::NONE);

/// The time in steps: never ahead of the clock, and behind it by two microseconds at most.
#[inline(always)]
pub(super) fn step() -> u64 {
    let extrapolated = STEP.with(|step| if step.is_some() { step.at(tsc::read()) } else { None });
    extrapolated.unwrap_or_else(step_by_clock)
}

/// As [`step`], where the clock has to tell; notes it for the next millisecond.
#[inline(never)]
fn step_by_clock() -> u64 {
    let start = TscStart::now();
    let now = clock::since_epoch();
    let (whole, part) = uuid7::steps(now);
    STEP.with(|step| *step = start.extrapolation(whole, part, uuid7::STEPS_PER_NS));
    whole
}

/// What comes before an ID whose random bits this process may not have seeded yet.
#[inline(always)]
pub(super) fn begin() -> Result<(), Error> {
    if test_server::begin()? {
        // The counter tells nothing of that clock.
        STEP.with(|step| *step = TscExtrapolation::NONE);
    }
    Ok(())
}

/// The time is read before the random bits, which the processor then fetches meanwhile.
#[inline(always)]
pub(super) fn payload<E>(random: impl FnOnce() -> Result<u64, E>) -> Result<Payload, E> {
    let step = step();
    let random = random()?;
    Ok(GENERATOR.with(|generator| generator.next(step, random)))
}

sql_function! {
    /// `uuidv7() → uuid`
    fn uuidv7(_call)
    fast {
        // Taken before the time is read, which the processor does only when it has done all else.
        let place = UuidPlace::allocate();
        let payload = payload(|| random::seeded_bits().ok_or(())).ok()?;
        Some(place.put(uuid7::of(payload)))
    }
    {
        begin()?;
        Ok(fmgr::uuid(uuid7::of(payload(random::bits)?)))
    }
}

sql_function! {
    /// `uuidv7_next_batch(count integer) → SETOF uuid`, a row at a time.
    fn uuidv7_next_batch(call) {
        rows(call, |count| count, |remaining| {
            let Some(rest) = remaining.checked_sub(1) else { return Ok(None) };
            let payload = match payload(|| random::seeded_bits().ok_or(())) {
                Ok(payload) => payload,
                Err(()) => {
                    begin()?;
                    payload(random::bits)?
                }
            };
            *remaining = rest;
            Ok(Some(fmgr::uuid(uuid7::of(payload))))
        })
    }
}

sql_function! {
    /// `uuidv7(shift interval) → uuid`
    fn uuidv7_shifted(call) {
        begin()?;
        let payload = payload(random::bits)?;
        let now = timestamp::from_unix_ms(uuid7::unix_ms_of(payload).cast_signed());
        // SAFETY: PostgreSQL's own `timestamptz + interval`, called with its argument types.
        let shifted = unsafe {
            pgrx::direct_function_call_as_datum(
                pg_sys::timestamptz_pl_interval,
                &[Some(int8(now)), call.arg(0)],
            )
        };
        let Some(shifted) = shifted else { return Ok(call.null()) };
        let unix_ms = uuid_ms((shifted.value() as u64).cast_signed(), KIND)?;
        Ok(fmgr::uuid(uuid7::moved(payload, unix_ms)))
    }
}

sql_function! {
    /// `uuidv7_min(ts timestamptz) → uuid`
    fn uuidv7_min(call) { uuid_bound(call, KIND, uuid7::min_of) }
}

sql_function! {
    /// `uuidv7_max(ts timestamptz) → uuid`
    fn uuidv7_max(call) { uuid_bound(call, KIND, uuid7::max_of) }
}

/// The least or greatest UUID of the millisecond of an argument.
pub(super) fn uuid_bound(
    call: &Call,
    kind: &'static str,
    of_ms: fn(u64) -> [u8; 16],
) -> Result<pg_sys::Datum, Error> {
    let unix_ms = uuid_ms(call.int8(0).unwrap_or(0), kind)?;
    Ok(fmgr::uuid(of_ms(unix_ms)))
}

/// A timestamp as the milliseconds of a UUIDv7.
fn uuid_ms(timestamp: pg_sys::TimestampTz, kind: &'static str) -> Result<u64, Error> {
    timestamp::unix_ms(timestamp)
        .and_then(|unix_ms| u64::try_from(unix_ms).ok())
        .filter(|&unix_ms| unix_ms <= uuid7::LAST_MS)
        .ok_or_else(|| Reason::UuidInstant { kind }.into())
}

sql_function! {
    /// `uuidv7_timestamp(id uuid) → timestamptz`, NULL for other versions.
    fn uuidv7_timestamp(call) {
        let uuid = call.uuid(0).unwrap_or_default();
        Ok(timestamp_of(&uuid).map_or_else(|| call.null(), int8))
    }
}

/// The time of a UUIDv7, if it is one.
pub(super) fn timestamp_of(uuid: &[u8; 16]) -> Option<pg_sys::TimestampTz> {
    (uuid::version(uuid) == Some(7)).then(|| timestamp::from_unix_ms(uuid7::unix_ms(uuid)))
}

sql_function! {
    /// `uuidv7_ordered() → uuid`
    fn uuidv7_ordered(_call)
    fast {
        let shared = memory::attached()?;
        let random = random::seeded_bits()?;
        let place = UuidPlace::allocate();
        // A process that has seeded its random bits is no server's for tests.
        let moment = next_moment(shared, clock::machine_since_epoch());
        Some(place.put(uuid7::of_moment(moment, random)))
    }
    {
        let shared = memory::attach()?;
        begin()?;
        let random = random::bits()?;
        Ok(fmgr::uuid(uuid7::of_moment(next_moment(shared, clock::since_epoch()), random)))
    }
}

/// A moment of this server's that no other call gets.
#[inline(always)]
fn next_moment(shared: &SharedState, now: Duration) -> u64 {
    ordered::next_in_order(&shared.last_moment.0, uuid7::moment(now))
}
