//! The numbers that a sequence has: every so many, from its smallest to its largest.

/// The numbers of a sequence that counts up.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// From one number to the next; greater than zero.
    pub step: i64,
    /// The smallest number.
    pub min: i64,
    /// The largest number.
    pub max: i64,
}

/// How far a sequence is, as PostgreSQL keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The last number that was taken, or the first one.
    pub last_value: i64,
    /// Whether that one was taken.
    pub is_called: bool,
}

/// Some numbers that follow each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: i64,
    /// How many they are.
    pub count: u32,
}

impl Steps {
    /// Whether a sequence's last value can be this.
    pub const fn contain(&self, last_value: i64) -> bool {
        self.min <= last_value && last_value <= self.max
    }

    /// The number that comes next; `None` if none is left.
    pub fn next(&self, counter: Counter) -> Option<i64> {
        let next = if counter.is_called {
            counter.last_value.checked_add(self.step)?
        } else {
            counter.last_value
        };
        (next <= self.max).then_some(next)
    }

    /// So many numbers from this one on, or as many as are left; `None` if none is.
    pub fn run(&self, first: i64, wanted: u32) -> Option<Run> {
        let left = self.left_from(first);
        if left == 0 {
            return None;
        }
        let count = u32::try_from(left).map_or(wanted, |left| wanted.min(left));
        (count > 0).then_some(Run { first, count })
    }

    /// The next range: so many numbers, or fewer near the end, where no range has more than a 32nd of what is left: a sequence is
    /// not used up by what is taken ahead. `None` if no number is left.
    pub fn range(&self, counter: Counter, wanted: u32) -> Option<Run> {
        const LEAST_RANGES: u64 = 32;
        let next = self.next(counter)?;
        let most = u32::try_from(self.left_from(next) / LEAST_RANGES).unwrap_or(u32::MAX);
        self.run(next, wanted.min(most).max(1))
    }

    /// How many numbers there are from this one on.
    pub fn left_from(&self, first: i64) -> u64 {
        if first > self.max || self.step <= 0 {
            return 0;
        }
        let distance = i128::from(self.max) - i128::from(first);
        // At most 2^64: of so many, one more or less makes no difference.
        u64::try_from(distance / i128::from(self.step) + 1).unwrap_or(u64::MAX)
    }

    /// The last number of a run.
    pub const fn last_of(&self, run: Run) -> i64 {
        at(run.first, self.step, run.count.saturating_sub(1))
    }

    /// The number after a run, which may be beyond the largest; `None` where no number is so large.
    pub fn after(&self, run: Run) -> Option<i64> {
        self.last_of(run).checked_add(self.step)
    }

    /// How far a sequence is whose last number is that of this run.
    pub const fn ending(&self, run: Run) -> Counter {
        Counter { last_value: self.last_of(run), is_called: true }
    }

    /// How far a sequence is whose next number is this.
    pub const fn before(&self, next: i64) -> Counter {
        match next.checked_sub(self.step) {
            Some(last_value) if last_value >= self.min => Counter { last_value, is_called: true },
            _ => Counter { last_value: next, is_called: false },
        }
    }

    /// Which share of the numbers lies below this one, from 0 to 1.
    pub fn used_below(&self, next: i64) -> f64 {
        let all = (self.max as f64 - self.min as f64).max(1.0);
        ((next as f64 - self.min as f64) / all).clamp(0.0, 1.0)
    }
}

/// The number so many steps after another.
#[inline(always)]
pub(super) const fn at(first: i64, step: i64, place: u32) -> i64 {
    first.wrapping_add(step.wrapping_mul(place as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Steps = Steps { step: 1, min: 1, max: 10 };

    #[test]
    fn a_new_sequence_begins_with_its_last_value() {
        assert_eq!(SMALL.next(Counter { last_value: 1, is_called: false }), Some(1));
        assert_eq!(SMALL.next(Counter { last_value: 1, is_called: true }), Some(2));
        assert_eq!(SMALL.next(Counter { last_value: 10, is_called: true }), None);
    }

    #[test]
    fn what_comes_next_is_what_was_asked_for() {
        for next in 1..=11 {
            let counter = SMALL.before(next);
            assert_eq!(counter.is_called, next > 1);
            assert_eq!(SMALL.next(counter), (next <= 10).then_some(next));
        }
        let all = Steps { step: i64::MAX, min: i64::MIN, max: i64::MAX };
        assert_eq!(all.before(-5), Counter { last_value: -5, is_called: false });
    }

    #[test]
    fn a_run_ends_with_the_largest_number() {
        assert_eq!(SMALL.run(8, 100), Some(Run { first: 8, count: 3 }));
        assert_eq!(SMALL.run(8, 2), Some(Run { first: 8, count: 2 }));
        assert_eq!(SMALL.run(11, 2), None);
        let odd = Steps { step: 4, min: 3, max: 14 };
        assert_eq!(odd.run(3, 100), Some(Run { first: 3, count: 3 }));
        assert_eq!(odd.last_of(Run { first: 3, count: 3 }), 11);
    }

    #[test]
    fn ranges_become_smaller_towards_the_end() {
        let (steps, new) =
            (Steps { max: 100, ..SMALL }, Counter { last_value: 1, is_called: false });
        assert_eq!(steps.range(new, 2), Some(Run { first: 1, count: 2 }));
        assert_eq!(steps.range(new, 50), Some(Run { first: 1, count: 3 }));
        let last = Counter { last_value: 99, is_called: true };
        assert_eq!(steps.range(last, 50), Some(Run { first: 100, count: 1 }));
        assert_eq!(steps.range(Counter { last_value: 100, ..last }, 50), None);
    }

    #[test]
    fn the_largest_numbers_of_all_do_not_overflow() {
        let all = Steps { step: 1, min: i64::MIN, max: i64::MAX };
        assert_eq!(all.next(Counter { last_value: i64::MAX, is_called: true }), None);
        assert_eq!(all.left_from(i64::MIN), u64::MAX);
        assert_eq!(all.run(i64::MAX - 1, 9), Some(Run { first: i64::MAX - 1, count: 2 }));
        assert_eq!(all.after(Run { first: i64::MAX - 1, count: 2 }), None);
        let wide = Steps { step: i64::MAX, min: i64::MIN, max: i64::MAX };
        assert_eq!(wide.run(i64::MIN, 9), Some(Run { first: i64::MIN, count: 3 }));
    }
}
