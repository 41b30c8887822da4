//! Telling a clock that runs from a clock that was moved.
//!
//! A wall clock says what time it is, a monotonic clock how much time has passed; NTP slews both
//! alike, so their difference changes only when somebody sets the wall clock. [`Watch`] remembers
//! one reading of both and judges later ones against it. The caller holds whatever lock protects
//! the watch.

use crate::layout::{NS_PER_MS, NS_PER_US};

/// One look at both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reading {
    /// Wall clock, nanoseconds since the Unix epoch.
    pub wall_ns: u64,
    /// Monotonic clock, nanoseconds since some fixed moment.
    pub mono_ns: u64,
}

/// Unix nanoseconds in milliseconds, rounded down.
#[inline]
pub const fn unix_ms(unix_ns: u64) -> i64 {
    // A millionth of any u64 fits.
    (unix_ns / NS_PER_MS).cast_signed()
}

/// A time in Unix microseconds, rounded down.
#[inline]
pub const fn unix_us(unix_ns: u64) -> i64 {
    // A thousandth of any u64 fits.
    (unix_ns / NS_PER_US).cast_signed()
}

impl Reading {
    /// The wall clock in Unix milliseconds.
    pub fn wall_ms(self) -> i64 {
        unix_ms(self.wall_ns)
    }
}

/// What a look at the clocks told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// By how many nanoseconds somebody set the wall clock since the look before, negative for
    /// back; zero if it just ran.
    pub stepped_ns: i64,
    /// By how many nanoseconds the wall clock is past everything believed so far, if that is more
    /// than is allowed: not believed until it comes back or an operator accepts it.
    pub jumped_ns: Option<u64>,
}

/// Differences up to this are the time between reading one clock and the other, not a step: 10 ms.
pub const NOISE_NS: u64 = 10_000_000;

/// A claim looks at the monotonic clock only when the wall clock has gained this much on the last
/// reading that was believed, or runs behind it: 100 ms.
const RECHECK_NS: u64 = 100_000_000;

/// What is known of the clocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Watch {
    /// The reading furthest ahead of those believed. A clock that is set back and later put right
    /// is judged by it, so putting it right is no jump.
    believed: Reading,
    /// The latest reading, believed or not: each step is told once.
    latest: Reading,
}

impl Watch {
    /// Starts watching from a reading that is believed.
    pub const fn new(reading: Reading) -> Watch {
        Watch { believed: reading, latest: reading }
    }

    /// The reading furthest ahead of those believed.
    pub const fn believed(&self) -> Reading {
        self.believed
    }

    /// Whether a wall clock reading is worth a look at the monotonic clock too. It stays so while
    /// the clock runs behind what is believed, and after a jump until that is settled.
    #[inline]
    pub const fn is_due(&self, wall_ns: u64) -> bool {
        wall_ns.wrapping_sub(self.believed.wall_ns) > RECHECK_NS
    }

    /// Judges a reading of both clocks.
    pub fn judge(&mut self, reading: Reading, max_jump_ns: u64) -> Verdict {
        let step = gain_ns(self.latest, reading);
        let stepped_ns = if step.unsigned_abs() > NOISE_NS { step } else { 0 };
        self.latest = reading;
        let gain = gain_ns(self.believed, reading);
        let allowed = i64::try_from(max_jump_ns.max(NOISE_NS)).unwrap_or(i64::MAX);
        if gain > allowed {
            return Verdict { stepped_ns, jumped_ns: Some(gain.unsigned_abs()) };
        }
        if gain >= -NOISE_NS.cast_signed() {
            self.believed = reading;
        }
        Verdict { stepped_ns, jumped_ns: None }
    }
}

/// By how much the wall clock went further than the monotonic one between two readings.
fn gain_ns(from: Reading, to: Reading) -> i64 {
    let wall = i128::from(to.wall_ns) - i128::from(from.wall_ns);
    let mono = i128::from(to.mono_ns) - i128::from(from.mono_ns);
    let gain = wall - mono;
    i64::try_from(gain).unwrap_or(if gain < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const MAX_JUMP: u64 = 600 * S;

    fn at(wall_s: u64, mono_s: u64) -> Reading {
        Reading { wall_ns: wall_s * S, mono_ns: mono_s * S }
    }

    fn steady() -> Verdict {
        Verdict::default()
    }

    #[test]
    fn a_running_clock_is_steady_over_any_idle_time() {
        let mut watch = Watch::new(at(1_000_000, 10));
        assert_eq!(watch.judge(at(1_000_001, 11), MAX_JUMP), steady());
        assert_eq!(watch.judge(at(2_000_000, 1_000_010), MAX_JUMP), steady());
    }

    #[test]
    fn a_step_back_is_told_once_and_putting_it_right_is_no_jump() {
        let mut watch = Watch::new(at(1_000_000, 10));
        let back = watch.judge(at(996_401, 11), MAX_JUMP);
        assert_eq!(back, Verdict { stepped_ns: -3600 * S.cast_signed(), jumped_ns: None });
        assert!(watch.is_due(996_401 * S));
        assert_eq!(watch.judge(at(996_402, 12), MAX_JUMP), steady());
        let right = watch.judge(at(1_000_003, 13), MAX_JUMP);
        assert_eq!(right, Verdict { stepped_ns: 3600 * S.cast_signed(), jumped_ns: None });
    }

    #[test]
    fn a_jump_is_refused_until_the_clock_comes_back() {
        let mut watch = Watch::new(at(1_000_000, 10));
        let jump = watch.judge(at(1_003_601, 11), MAX_JUMP);
        assert_eq!(jump.jumped_ns, Some(3600 * S));
        assert!(watch.is_due(1_003_601 * S), "a jump that was told must not be believed next time");
        assert_eq!(watch.judge(at(1_003_602, 12), MAX_JUMP).jumped_ns, Some(3600 * S));
        let back = watch.judge(at(1_000_003, 13), MAX_JUMP);
        assert_eq!(back, Verdict { stepped_ns: -3600 * S.cast_signed(), jumped_ns: None });
    }

    #[test]
    fn a_jump_that_is_allowed_is_believed() {
        let mut watch = Watch::new(at(1_000_000, 10));
        let step = watch.judge(at(1_000_301, 11), MAX_JUMP);
        assert_eq!(step, Verdict { stepped_ns: 300 * S.cast_signed(), jumped_ns: None });
        assert_eq!(watch.judge(at(1_000_302, 12), MAX_JUMP), steady());
    }

    #[test]
    fn extreme_readings_do_not_overflow() {
        let far = Reading { wall_ns: u64::MAX, mono_ns: 0 };
        assert_eq!(Watch::new(at(0, 10)).judge(far, MAX_JUMP).jumped_ns, Some(i64::MAX as u64));
        let mut watch = Watch::new(far);
        assert_eq!(watch.judge(at(0, 10), u64::MAX).stepped_ns, i64::MIN);
    }
}
