//! PostgreSQL's timestamps and Unix milliseconds, from one to the other.

use id_gen_core::layout::US_PER_MS;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys;

use crate::refusal::Refusal;

/// PostgreSQL's timestamps count microseconds from 2000-01-01 (`POSTGRES_EPOCH_JDATE`,
/// `datatype/timestamp.h`): this many after the Unix epoch.
pub const POSTGRES_EPOCH_UNIX_US: i64 = 946_684_800_000_000;

/// A timestamp in Unix microseconds. PostgreSQL's finite timestamps end in the year 294276, far
/// from the ends of `i64`; its two infinities, which are those ends, stay outside every layout.
#[inline(always)]
pub const fn unix_us(timestamp: pg_sys::TimestampTz) -> i64 {
    timestamp.wrapping_add(POSTGRES_EPOCH_UNIX_US)
}

/// Unix microseconds as a timestamp. Every layout ends by the year 9999.
#[inline(always)]
pub const fn timestamp_us(unix_us: i64) -> pg_sys::TimestampTz {
    unix_us.wrapping_sub(POSTGRES_EPOCH_UNIX_US)
}

/// A timestamp that is not infinite.
///
/// # Errors
/// [`Refusal::Infinite`].
pub const fn finite(timestamp: pg_sys::TimestampTz) -> Result<pg_sys::TimestampTz, Refusal> {
    match timestamp {
        i64::MIN | i64::MAX => Err(Refusal::Infinite),
        _ => Ok(timestamp),
    }
}

/// A timestamp in Unix milliseconds, rounded down.
///
/// # Errors
/// [`Refusal::Infinite`].
pub fn unix_ms(timestamp: pg_sys::TimestampTz) -> Result<i64, Refusal> {
    // The last 29 years that a timestamp can say lie beyond what Unix microseconds can: still late.
    let unix_us = finite(timestamp)?.saturating_add(POSTGRES_EPOCH_UNIX_US);
    Ok(unix_us.div_euclid(US_PER_MS))
}

/// Unix milliseconds as a timestamp. Every layout ends by the year 9999, every UUIDv7 by 10889.
#[inline(always)]
pub const fn timestamp(unix_ms: i64) -> pg_sys::TimestampTz {
    timestamp_us(unix_ms.wrapping_mul(US_PER_MS))
}

/// A timestamp as a column of a row.
pub fn instant(timestamp: pg_sys::TimestampTz) -> Option<TimestampWithTimeZone> {
    TimestampWithTimeZone::try_from(timestamp).ok()
}
