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

/// A length of time as a person reads it, in its two largest units: `2 h 5 min`, `17 ms`. From ten seconds on, without
/// milliseconds.
pub fn format_duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    // To the nearest second.
    let mut left = if ms < 10_000 { ms } else { ms.saturating_add(500) / 1_000 * 1_000 };
    let largest = UNITS.iter().position(|&(unit_ms, _)| left >= unit_ms).unwrap_or(4);
    let parts: Vec<String> = UNITS[largest..]
        .iter()
        .take(2)
        .filter_map(|&(unit_ms, name)| {
            let count = left / unit_ms;
            left %= unit_ms;
            (count > 0).then(|| format!("{count} {name}"))
        })
        .collect();
    if parts.is_empty() { "0 ms".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::format_duration;

    #[test]
    fn durations_have_two_units_at_most() {
        let shown = [0, 17, 1_000, 21_332, 600_000, 3_598_317, 3_600_000, 90_061_001, u64::MAX];
        assert_eq!(
            shown.map(format_duration),
            [
                "0 ms",
                "17 ms",
                "1 s",
                "21 s",
                "10 min",
                "59 min 58 s",
                "1 h",
                "1 d 1 h",
                "213503982334 d 14 h"
            ]
        );
    }
}
