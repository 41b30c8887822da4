//! How large the next range should be: as many numbers as are used in a few seconds.

use crate::time::NS_PER_S;

/// For how long a range should last: 2 s. What a crash loses of the two ranges that a server holds is so what it uses
/// within 4 s at most.
const LASTS_NS: u64 = 2 * NS_PER_S;
/// The most numbers of a range: at 5 million numbers a second, there are ten ranges.
pub const LARGEST: u32 = 1 << 19;
/// A range is at most so many times as large as the one before it, so that a server never holds many more numbers than
/// it has used.
const GROWTH: u32 = 2;

/// How fast numbers are used.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// When the range in use was begun, on the monotonic clock; 0: none was.
    begun_ns: u64,
    /// How long the one before it lasted, and how many numbers it had; 0: there was none.
    lasted_ns: u64,
    had: u32,
    /// How large the next range should be; 0: nothing was used yet.
    size: u32,
}

impl Pace {
    /// A range is begun, and these numbers were used of the one before.
    pub fn begin(&mut self, now_ns: u64, used: u32) {
        if self.begun_ns > 0 {
            self.lasted_ns = now_ns.saturating_sub(self.begun_ns).max(1);
            self.had = used;
            let wanted = u128::from(used) * u128::from(LASTS_NS) / u128::from(self.lasted_ns);
            let largest = self.size().saturating_mul(GROWTH).min(LARGEST);
            self.size = u32::try_from(wanted).unwrap_or(LARGEST).clamp(1, largest);
        }
        self.begun_ns = now_ns.max(1);
    }

    /// How many numbers the next range should have.
    pub fn size(&self) -> u32 {
        self.size.max(1)
    }

    /// Numbers that are used per second, while so many were used of the range that is in use.
    pub fn per_second(&self, now_ns: u64, taken: u32) -> f64 {
        if self.begun_ns == 0 {
            return 0.0;
        }
        let ns = now_ns.saturating_sub(self.begun_ns).saturating_add(self.lasted_ns).max(1);
        (f64::from(self.had) + f64::from(taken)) * NS_PER_S as f64 / ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_with_the_rate_and_shrink_again() {
        let mut pace = Pace::default();
        assert_eq!(pace.size(), 1);
        pace.begin(NS_PER_S, 0);
        assert_eq!(pace.size(), 1);
        let mut now_ns = NS_PER_S;
        for doublings in 1..=25 {
            now_ns += 1000;
            pace.begin(now_ns, pace.size());
            assert_eq!(pace.size(), LARGEST.min(1 << doublings));
        }
        pace.begin(now_ns + 3600 * NS_PER_S, LARGEST);
        assert_eq!(pace.size(), 291);
        pace.begin(now_ns + 7200 * NS_PER_S, 10);
        assert_eq!(pace.size(), 1);
    }

    #[test]
    fn the_rate_is_that_of_two_ranges() {
        let mut pace = Pace::default();
        assert!(pace.per_second(5, 7) < f64::EPSILON);
        pace.begin(NS_PER_S, 0);
        pace.begin(3 * NS_PER_S, 100);
        assert!((pace.per_second(5 * NS_PER_S, 20) - 30.0).abs() < 1e-9);
    }
}
