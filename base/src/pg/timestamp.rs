//! PostgreSQL's timestamps and Unix times, from one to the other.

use id_gen_core::time::US_PER_MS;
use pgrx::pg_sys;

/// PostgreSQL's timestamps count microseconds from 2000-01-01 (`POSTGRES_EPOCH_JDATE`,
/// `datatype/timestamp.h`): this many after the Unix epoch.
const POSTGRES_EPOCH_UNIX_US: i64 = 946_684_800_000_000;

/// A timestamp in Unix microseconds. PostgreSQL's finite timestamps end in the year 294276, far
/// from the ends of `i64`; its two infinities, which are those ends, stay outside every layout.
#[inline(always)]
pub const fn unix_us(timestamp: pg_sys::TimestampTz) -> i64 {
    timestamp.wrapping_add(POSTGRES_EPOCH_UNIX_US)
}

/// Unix microseconds as a timestamp. Every layout ends by the year 9999.
#[inline(always)]
pub const fn from_unix_us(unix_us: i64) -> pg_sys::TimestampTz {
    unix_us.wrapping_sub(POSTGRES_EPOCH_UNIX_US)
}

/// PostgreSQL's finite timestamps in Unix milliseconds: from `MIN_TIMESTAMP` to before `END_TIMESTAMP`.
const FIRST_UNIX_MS: i64 = -210_866_803_200_000;
const END_UNIX_MS: i64 = 9_224_318_016_000_000;

/// Unix milliseconds as a timestamp: an infinite one if no finite one is so far away.
#[inline(always)]
pub const fn from_unix_ms(unix_ms: i64) -> pg_sys::TimestampTz {
    match unix_ms {
        ..FIRST_UNIX_MS => i64::MIN,
        FIRST_UNIX_MS..END_UNIX_MS => {
            (unix_ms - POSTGRES_EPOCH_UNIX_US / US_PER_MS).wrapping_mul(US_PER_MS)
        }
        END_UNIX_MS.. => i64::MAX,
    }
}

/// Whether a timestamp is neither `infinity` nor `-infinity`.
pub const fn is_finite(timestamp: pg_sys::TimestampTz) -> bool {
    !matches!(timestamp, i64::MIN | i64::MAX)
}

/// A timestamp in Unix milliseconds, rounded down; `None` if it is infinite.
pub fn unix_ms(timestamp: pg_sys::TimestampTz) -> Option<i64> {
    // The last 29 years that a timestamp can say are beyond what Unix microseconds can: still late.
    let unix_us = timestamp.saturating_add(POSTGRES_EPOCH_UNIX_US);
    is_finite(timestamp).then(|| unix_us.div_euclid(US_PER_MS))
}
