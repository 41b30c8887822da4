//! PostgreSQL's timestamps and Unix milliseconds, from one to the other.

use pgrx::pg_sys;

use crate::refusal::Refusal;

/// PostgreSQL's timestamps count microseconds from 2000-01-01 (`POSTGRES_EPOCH_JDATE`,
/// `datatype/timestamp.h`): this many after the Unix epoch.
pub const POSTGRES_EPOCH_UNIX_US: i64 = 946_684_800_000_000;

/// Microseconds in a millisecond.
pub const US_PER_MS: i64 = 1000;

/// A timestamp in Unix milliseconds, rounded down.
///
/// # Errors
/// [`Refusal::Infinite`].
#[inline(always)]
pub fn unix_ms(timestamp: pg_sys::TimestampTz) -> Result<i64, Refusal> {
    if timestamp == i64::MIN || timestamp == i64::MAX {
        return Err(Refusal::Infinite);
    }
    // PostgreSQL's finite timestamps end in the year 294276, far from the ends of i64.
    Ok(timestamp.wrapping_add(POSTGRES_EPOCH_UNIX_US).div_euclid(US_PER_MS))
}

/// Unix milliseconds as a timestamp. Every layout ends by the year 9999, every UUIDv7 by 10889.
#[inline(always)]
pub const fn timestamp(unix_ms: i64) -> pg_sys::TimestampTz {
    unix_ms.wrapping_mul(US_PER_MS).wrapping_sub(POSTGRES_EPOCH_UNIX_US)
}
