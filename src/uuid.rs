//! SQL functions of the UUIDv7 family. They need no shared memory. Their SQL is in `sql/uuid.sql`
//! and `sql/uuid_extract.sql`.

use id_gen_core::meter::Ramp;
use id_gen_core::uuid1;
use id_gen_core::uuid7::{self, Generator, Moment};
use pgrx::pg_sys;

use crate::fmgr::{self, Call, UuidPlace, int8, sql_function};
use crate::process::PerProcess;
use crate::refusal::Refusal;
use crate::timestamp::{POSTGRES_EPOCH_UNIX_US, timestamp, unix_ms};
use crate::{clock, cycles, random};

static GENERATOR: PerProcess<Generator> = PerProcess::new(Generator::new());

/// The time in steps, as long as the cycle counter tells it.
static STEP: PerProcess<Ramp> = PerProcess::new(Ramp::NONE);

/// The time in steps: never ahead of the clock, and behind it by two microseconds at most.
#[inline(always)]
fn step() -> u64 {
    let told = STEP.with(|step| if step.is_some() { step.at(cycles::read()) } else { None });
    told.unwrap_or_else(step_by_clock)
}

/// As [`step`], where the clock has to tell; notes it for the next millisecond.
#[inline(never)]
fn step_by_clock() -> u64 {
    let begun = cycles::Moment::now();
    let now = clock::since_epoch();
    let (whole, part) = uuid7::steps(now);
    STEP.with(|step| *step = begun.rising(whole, part, uuid7::STEPS_PER_NS));
    whole
}

/// The time is told before the random bits, which the processor then fetches meanwhile.
#[inline(always)]
fn moment<E>(random: impl FnOnce() -> Result<u64, E>) -> Result<Moment, E> {
    let step = step();
    let random = random()?;
    Ok(GENERATOR.with(|generator| generator.next(step, random)))
}

sql_function! {
    /// `uuidv7() → uuid`
    fn uuidv7(_call)
    fast {
        // Taken before the time is told, which the processor does only when it has done all else.
        let place = UuidPlace::new();
        let moment = moment(|| random::seeded_bits().ok_or(())).ok()?;
        Some(place.put(moment.uuid()))
    }
    { moment(random::bits).map(|moment| fmgr::uuid(moment.uuid())) }
}

sql_function! {
    /// `uuidv7(shift interval) → uuid`
    fn uuidv7_shifted(call) {
        let moment = moment(random::bits)?;
        let now = timestamp(moment.unix_ms().cast_signed());
        // SAFETY: PostgreSQL's own `timestamptz + interval`, called with its argument types.
        let shifted = unsafe {
            pgrx::direct_function_call_as_datum(
                pg_sys::timestamptz_pl_interval,
                &[Some(int8(now)), call.arg(0)],
            )
        };
        let Some(shifted) = shifted else { return Ok(call.null()) };
        let unix_ms = uuid_ms((shifted.value() as u64).cast_signed())?;
        Ok(fmgr::uuid(moment.uuid_at(unix_ms)))
    }
}

sql_function! {
    /// `uuidv7_min(ts timestamptz) → uuid`
    fn uuidv7_min(call) { bound(call, uuid7::min_of) }
}

sql_function! {
    /// `uuidv7_max(ts timestamptz) → uuid`
    fn uuidv7_max(call) { bound(call, uuid7::max_of) }
}

fn bound(call: &Call, of_ms: fn(u64) -> [u8; 16]) -> Result<pg_sys::Datum, Refusal> {
    let unix_ms = uuid_ms(call.int8(0).unwrap_or(0))?;
    Ok(fmgr::uuid(of_ms(unix_ms)))
}

/// A timestamp as the milliseconds of a UUIDv7.
fn uuid_ms(timestamp: pg_sys::TimestampTz) -> Result<u64, Refusal> {
    u64::try_from(unix_ms(timestamp)?)
        .ok()
        .filter(|&unix_ms| unix_ms <= uuid7::LAST_MS)
        .ok_or(Refusal::UuidInstant)
}

sql_function! {
    /// `uuidv7_timestamp(uuid) → timestamptz`, NULL for other versions.
    fn uuidv7_timestamp(call) {
        let uuid = call.uuid(0).unwrap_or_default();
        match uuid7::version(&uuid) {
            Some(7) => Ok(int8(timestamp(uuid7::unix_ms(&uuid)))),
            _ => Ok(call.null()),
        }
    }
}

sql_function! {
    /// `uuid_extract_version(uuid) → smallint`, NULL for variants other than RFC 9562's.
    fn uuid_extract_version(call) {
        match uuid7::version(&call.uuid(0).unwrap_or_default()) {
            Some(version) => Ok(pg_sys::Datum::from(i16::from(version))),
            None => Ok(call.null()),
        }
    }
}

sql_function! {
    /// `uuid_extract_timestamp(uuid) → timestamptz`, NULL for versions other than 1 and 7.
    fn uuid_extract_timestamp(call) {
        let uuid = call.uuid(0).unwrap_or_default();
        match uuid7::version(&uuid) {
            Some(1) => Ok(int8(uuid1::unix_us(&uuid) - POSTGRES_EPOCH_UNIX_US)),
            Some(7) => Ok(int8(timestamp(uuid7::unix_ms(&uuid)))),
            _ => Ok(call.null()),
        }
    }
}
