//! Telling a clock that runs from a clock that was moved.
//!
//! A wall clock says what time it is, a monotonic clock how much time has passed; NTP slews both
//! alike, so their difference changes only when somebody sets the wall clock. [`ClockMonitor`] remembers
//! one reading of both and checks later ones against it. The caller holds whatever lock protects
//! the monitor.

use std::fmt;

use crate::planted::Fault;
use crate::time::{NS_PER_MS, format_duration, unix_ms};

/// Both clocks, read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClockReading {
    /// Wall clock, nanoseconds since the Unix epoch.
    pub wall_ns: u64,
    /// Monotonic clock, nanoseconds since some fixed moment.
    pub mono_ns: u64,
}

impl ClockReading {
    /// The wall clock in Unix milliseconds.
    pub fn wall_ms(self) -> i64 {
        unix_ms(self.wall_ns)
    }
}

/// What checking a reading found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCheck {
    /// By how many nanoseconds somebody set the wall clock since the reading before, negative
    /// for back; zero if it just ran.
    pub stepped_ns: i64,
    /// By how many nanoseconds the wall clock is past everything trusted so far, if that is more
    /// than is allowed: not trusted until it comes back or an administrator accepts it.
    pub jumped_ns: Option<u64>,
}

/// Differences up to this are the time between reading one clock and the other, not a step: 10 ms.
pub const NOISE_NS: u64 = 10_000_000;

/// A claim reads the monotonic clock only when the wall clock has gained this much on the last
/// trusted reading, or is behind it: 100 ms.
const RECHECK_NS: u64 = 100_000_000;

/// What is known of the clocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClockMonitor {
    /// The trusted reading that is furthest ahead. A clock that is set back and later put right
    /// is checked against it, so putting it right is no jump.
    trusted: ClockReading,
    /// The latest reading, trusted or not: each step is reported once.
    latest: ClockReading,
}

impl ClockMonitor {
    /// Starts from a reading that is trusted.
    pub const fn new(reading: ClockReading) -> ClockMonitor {
        ClockMonitor { trusted: reading, latest: reading }
    }

    /// The trusted reading that is furthest ahead.
    pub const fn trusted(&self) -> ClockReading {
        self.trusted
    }

    /// The wall clock as far as it is trusted: of one that jumped, what the monotonic clock has added to the trusted reading.
    pub fn trusted_ns(&self, reading: ClockReading, max_jump_ns: u64) -> u64 {
        if gain_ns(self.trusted, reading) <= allowed_ns(max_jump_ns) {
            return reading.wall_ns;
        }
        let passed_ns = reading.mono_ns.saturating_sub(self.trusted.mono_ns);
        self.trusted.wall_ns.saturating_add(passed_ns)
    }

    /// By how many nanoseconds the wall clock is behind what the monotonic clock has added to the trusted reading.
    pub fn behind_ns(&self, reading: ClockReading) -> u64 {
        gain_ns(self.trusted, reading).min(0).unsigned_abs()
    }

    /// Whether a reading of the wall clock has to be checked against the monotonic clock. It stays so
    /// while the clock is behind what is trusted, and after a jump until that is settled.
    #[inline]
    pub const fn is_due(&self, wall_ns: u64) -> bool {
        wall_ns.wrapping_sub(self.trusted.wall_ns) > RECHECK_NS
    }

    /// Checks a reading of both clocks.
    pub fn check(&mut self, reading: ClockReading, max_jump_ns: u64) -> ClockCheck {
        let step = gain_ns(self.latest, reading);
        let stepped_ns = if step.unsigned_abs() > NOISE_NS { step } else { 0 };
        self.latest = reading;
        let gain = gain_ns(self.trusted, reading);
        if gain > allowed_ns(max_jump_ns) && !Fault::ClockJumpTrusted.is_planted() {
            return ClockCheck { stepped_ns, jumped_ns: Some(gain.unsigned_abs()) };
        }
        if gain >= -NOISE_NS.cast_signed() {
            self.trusted = reading;
        }
        ClockCheck { stepped_ns, jumped_ns: None }
    }
}

/// Steps of the clock that no line of the log reports yet. Steps in opposite directions are kept apart: their sum may be
/// zero although the clock was set.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnloggedSteps {
    steps: u64,
    back_ns: u64,
    forward_ns: u64,
}

impl UnloggedSteps {
    /// Adds a step as [`ClockCheck::stepped_ns`] has it; zero is none.
    pub fn note(&mut self, stepped_ns: i64) {
        let total_ns = match stepped_ns {
            0 => return,
            ..0 => &mut self.back_ns,
            1.. => &mut self.forward_ns,
        };
        *total_ns = total_ns.saturating_add(stepped_ns.unsigned_abs());
        self.steps += 1;
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.steps == 0
    }
}

/// How the clock was set, to follow "the clock was".
impl fmt::Display for UnloggedSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directions = [("back", self.back_ns), ("forward", self.forward_ns)];
        let set: Vec<String> = directions
            .into_iter()
            .filter(|&(_, by_ns)| by_ns > 0)
            .map(|(direction, by_ns)| {
                format!("{direction} by {}", format_duration(by_ns / NS_PER_MS))
            })
            .collect();
        write!(f, "set {}", set.join(" and "))?;
        if self.steps > 1 { write!(f, ", in {} steps", self.steps) } else { Ok(()) }
    }
}

/// How much the wall clock may gain on the monotonic one and be trusted.
fn allowed_ns(max_jump_ns: u64) -> i64 {
    i64::try_from(max_jump_ns.max(NOISE_NS)).unwrap_or(i64::MAX)
}

/// By how much the wall clock went further than the monotonic one between two readings.
fn gain_ns(from: ClockReading, to: ClockReading) -> i64 {
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

    fn at(wall_s: u64, mono_s: u64) -> ClockReading {
        ClockReading { wall_ns: wall_s * S, mono_ns: mono_s * S }
    }

    fn steady() -> ClockCheck {
        ClockCheck::default()
    }

    #[test]
    fn a_clock_that_jumped_is_replaced_by_the_time_that_has_passed() {
        let monitor = ClockMonitor::new(at(1_000_000, 10));
        assert_eq!(monitor.trusted_ns(at(1_000_020, 30), MAX_JUMP), 1_000_020 * S);
        assert_eq!(monitor.trusted_ns(at(1_000_620, 30), MAX_JUMP), 1_000_620 * S);
        assert_eq!(monitor.trusted_ns(at(1_003_620, 30), MAX_JUMP), 1_000_020 * S);
        assert_eq!(monitor.trusted_ns(at(999_000, 30), MAX_JUMP), 999_000 * S, "set back");
    }

    #[test]
    fn a_running_clock_is_steady_over_any_idle_time() {
        let mut monitor = ClockMonitor::new(at(1_000_000, 10));
        assert_eq!(monitor.check(at(1_000_001, 11), MAX_JUMP), steady());
        assert_eq!(monitor.check(at(2_000_000, 1_000_010), MAX_JUMP), steady());
    }

    #[test]
    fn a_step_back_is_reported_once_and_putting_it_right_is_no_jump() {
        let mut monitor = ClockMonitor::new(at(1_000_000, 10));
        let back = monitor.check(at(996_401, 11), MAX_JUMP);
        assert_eq!(back, ClockCheck { stepped_ns: -3600 * S.cast_signed(), jumped_ns: None });
        assert!(monitor.is_due(996_401 * S));
        assert_eq!(monitor.check(at(996_402, 12), MAX_JUMP), steady());
        let right = monitor.check(at(1_000_003, 13), MAX_JUMP);
        assert_eq!(right, ClockCheck { stepped_ns: 3600 * S.cast_signed(), jumped_ns: None });
    }

    #[test]
    fn a_jump_is_refused_until_the_clock_comes_back() {
        let mut monitor = ClockMonitor::new(at(1_000_000, 10));
        let jump = monitor.check(at(1_003_601, 11), MAX_JUMP);
        assert_eq!(jump.jumped_ns, Some(3600 * S));
        assert!(
            monitor.is_due(1_003_601 * S),
            "a jump that was reported must not be trusted next time"
        );
        assert_eq!(monitor.check(at(1_003_602, 12), MAX_JUMP).jumped_ns, Some(3600 * S));
        let back = monitor.check(at(1_000_003, 13), MAX_JUMP);
        assert_eq!(back, ClockCheck { stepped_ns: -3600 * S.cast_signed(), jumped_ns: None });
    }

    #[test]
    fn a_jump_that_is_allowed_is_trusted() {
        let mut monitor = ClockMonitor::new(at(1_000_000, 10));
        let step = monitor.check(at(1_000_301, 11), MAX_JUMP);
        assert_eq!(step, ClockCheck { stepped_ns: 300 * S.cast_signed(), jumped_ns: None });
        assert_eq!(monitor.check(at(1_000_302, 12), MAX_JUMP), steady());
    }

    #[test]
    fn steps_that_cancel_each_other_out_are_told() {
        let mut steps = UnloggedSteps::default();
        steps.note(0);
        assert!(steps.is_empty());
        steps.note(-3_600_000_000_000);
        assert_eq!(steps.to_string(), "set back by 1 h");
        steps.note(3_600_000_000_000);
        assert_eq!(steps.to_string(), "set back by 1 h and forward by 1 h, in 2 steps");
        steps.note(i64::MIN);
        steps.note(i64::MIN);
        steps.note(i64::MIN);
        assert!(!steps.is_empty());
    }

    #[test]
    fn extreme_readings_do_not_overflow() {
        let far = ClockReading { wall_ns: u64::MAX, mono_ns: 0 };
        assert_eq!(
            ClockMonitor::new(at(0, 10)).check(far, MAX_JUMP).jumped_ns,
            Some(i64::MAX as u64)
        );
        let mut monitor = ClockMonitor::new(far);
        assert_eq!(monitor.check(at(0, 10), u64::MAX).stepped_ns, i64::MIN);
    }
}
