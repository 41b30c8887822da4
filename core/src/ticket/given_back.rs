//! Numbers that a session took and did not hand out: kept for the next one, so that they leave no gap.
//!
//! A few runs are kept, those that touch as one. Where there is no room, the shortest is lost, which is a gap.

use crate::ticket::steps::{Run, Steps};

/// How many runs are kept.
pub const ROOM: usize = 16;

/// Runs that were given back, in order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    count: u32,
    runs: [Run; ROOM],
}

impl GivenBack {
    /// Nothing.
    pub const EMPTY: GivenBack = GivenBack { count: 0, runs: [Run { first: 0, count: 0 }; ROOM] };

    /// Whether nothing is kept.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The runs that are kept.
    pub fn runs(&self) -> &[Run] {
        let count = (self.count as usize).min(ROOM);
        &self.runs[..count]
    }

    /// How many numbers are kept.
    pub fn numbers(&self) -> u64 {
        self.runs().iter().map(|run| u64::from(run.count)).sum()
    }

    /// Keeps a run. Returns how many numbers were lost for lack of room.
    pub fn add(&mut self, steps: &Steps, run: Run) -> u32 {
        if run.count == 0 {
            return 0;
        }
        let place = self.runs().partition_point(|kept| kept.first < run.first);
        if place > 0 && self.join(steps, place - 1, run) {
            // The gap between two may be filled by now.
            if let Some(&next) = self.runs().get(place)
                && self.join(steps, place - 1, next)
            {
                self.remove(place);
            }
            return 0;
        }
        if let Some(&next) = self.runs().get(place)
            && steps.after(run) == Some(next.first)
            && let Some(count) = run.count.checked_add(next.count)
        {
            self.runs[place] = Run { first: run.first, count };
            return 0;
        }
        if self.runs().len() < ROOM {
            self.insert(place, run);
            return 0;
        }
        let shortest = self.runs().iter().enumerate().min_by_key(|(_, kept)| kept.count);
        match shortest.map(|(index, kept)| (index, kept.count)) {
            Some((index, count)) if count < run.count => {
                self.remove(index);
                let place = self.runs().partition_point(|kept| kept.first < run.first);
                self.insert(place, run);
                count
            }
            _ => run.count,
        }
    }

    /// Takes up to so many numbers that all come after this one.
    pub fn take(&mut self, steps: &Steps, after: Option<i64>, wanted: u32) -> Option<Run> {
        let index =
            self.runs().iter().position(|kept| after.is_none_or(|after| kept.first > after))?;
        let kept = self.runs[index];
        let taken = Run { first: kept.first, count: kept.count.min(wanted) };
        if taken.count == kept.count {
            self.remove(index);
        } else {
            self.runs[index] =
                Run { first: steps.at(kept.first, taken.count), count: kept.count - taken.count };
        }
        (taken.count > 0).then_some(taken)
    }

    /// The last run, if it ends just before this number, which it then no longer keeps.
    pub fn take_before(&mut self, steps: &Steps, next: i64) -> Option<Run> {
        let index = self.runs().iter().position(|kept| steps.after(*kept) == Some(next))?;
        let run = self.runs[index];
        self.remove(index);
        Some(run)
    }

    /// Loses the runs that begin below a number; all of them, if there is none. Returns how many numbers those are.
    pub fn drop_below(&mut self, next: Option<i64>) -> u64 {
        let before = self.numbers();
        let dropped = next.map_or(self.runs().len(), |next| {
            self.runs().partition_point(|kept| kept.first < next)
        });
        let kept = self.runs().len() - dropped;
        self.runs.copy_within(dropped..dropped + kept, 0);
        self.count = kept as u32;
        before - self.numbers()
    }

    /// Loses all.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    fn join(&mut self, steps: &Steps, index: usize, run: Run) -> bool {
        let kept = self.runs[index];
        let count = kept.count.checked_add(run.count);
        match count {
            Some(count) if steps.after(kept) == Some(run.first) => {
                self.runs[index].count = count;
                true
            }
            _ => false,
        }
    }

    fn insert(&mut self, place: usize, run: Run) {
        let count = self.runs().len();
        self.runs.copy_within(place..count, place + 1);
        self.runs[place] = run;
        self.count += 1;
    }

    fn remove(&mut self, index: usize) {
        let count = self.runs().len();
        self.runs.copy_within(index + 1..count, index);
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Steps = Steps { step: 2, min: 1, max: 1_000_000 };

    fn run(first: i64, count: u32) -> Run {
        Run { first, count }
    }

    #[test]
    fn runs_that_touch_become_one() {
        let mut kept = GivenBack::default();
        assert_eq!(kept.add(&STEPS, run(11, 2)), 0);
        assert_eq!(kept.add(&STEPS, run(21, 1)), 0);
        assert_eq!(kept.add(&STEPS, run(1, 1)), 0);
        assert_eq!(kept.runs(), [run(1, 1), run(11, 2), run(21, 1)]);
        assert_eq!(kept.add(&STEPS, run(15, 3)), 0);
        assert_eq!(kept.runs(), [run(1, 1), run(11, 6)]);
        assert_eq!(kept.add(&STEPS, run(9, 1)), 0);
        assert_eq!(kept.runs(), [run(1, 1), run(9, 7)]);
        assert_eq!(kept.numbers(), 8);
    }

    #[test]
    fn the_lowest_that_come_after_are_taken() {
        let mut kept = GivenBack::default();
        kept.add(&STEPS, run(1, 2));
        kept.add(&STEPS, run(11, 3));
        assert_eq!(kept.take(&STEPS, Some(5), 2), Some(run(11, 2)));
        assert_eq!(kept.take(&STEPS, Some(15), 2), None);
        assert_eq!(kept.take(&STEPS, None, 9), Some(run(1, 2)));
        assert_eq!(kept.take_before(&STEPS, 17), Some(run(15, 1)));
        assert!(kept.is_empty());
    }

    #[test]
    fn runs_that_begin_below_a_number_are_dropped() {
        let mut kept = GivenBack::default();
        kept.add(&STEPS, run(1, 2));
        kept.add(&STEPS, run(11, 3));
        kept.add(&STEPS, run(21, 1));
        assert_eq!(kept.drop_below(Some(1)), 0);
        assert_eq!(kept.drop_below(Some(13)), 5);
        assert_eq!(kept.runs(), [run(21, 1)]);
        assert_eq!(kept.drop_below(None), 1);
        assert!(kept.is_empty());
    }

    #[test]
    fn without_room_the_shortest_is_lost() {
        let mut kept = GivenBack::default();
        for index in 0..ROOM as i64 {
            assert_eq!(kept.add(&STEPS, run(1 + index * 100, 2 + index as u32)), 0);
        }
        assert_eq!(kept.add(&STEPS, run(90_001, 2)), 2);
        assert_eq!(kept.add(&STEPS, run(90_001, 9)), 2);
        assert_eq!(kept.runs().len(), ROOM);
        assert_eq!(kept.runs()[ROOM - 1], run(90_001, 9));
        assert!(kept.runs().is_sorted_by_key(|run| run.first));
    }
}
