//! Units of time, and Unix times as numbers and as text.

use jiff::Timestamp;

/// Nanoseconds in a microsecond.
pub const NS_PER_US: u64 = 1_000;

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// Microseconds in a millisecond.
pub const US_PER_MS: i64 = 1_000;

/// Unix nanoseconds in milliseconds, rounded down.
#[inline]
pub const fn unix_ms(unix_ns: u64) -> i64 {
    // A millionth of any u64 fits.
    (unix_ns / NS_PER_MS).cast_signed()
}

/// Unix nanoseconds in microseconds, rounded down.
#[inline]
pub const fn unix_us(unix_ns: u64) -> i64 {
    // A thousandth of any u64 fits.
    (unix_ns / NS_PER_US).cast_signed()
}

/// A Unix time in milliseconds as RFC 3339 text in UTC, or the number itself outside the years
/// -9999 to 9999.
pub fn format_ms(unix_ms: i64) -> String {
    match Timestamp::from_millisecond(unix_ms) {
        Ok(instant) => instant.to_string(),
        Err(_) => format!("{unix_ms}ms"),
    }
}
