//! How many IDs were made in each hour; where that makes too many rows, in each day, week, four weeks or year of
//! 52 weeks.
//!
//! Each length is a whole number of the one before and all begin on a Monday in UTC, so that going over to a longer one
//! only adds counts up.

use std::collections::BTreeMap;

/// The most buckets that are kept: the hours of a month.
pub const MAX_BUCKETS: usize = 744;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Lengths of a bucket in milliseconds.
pub const WIDTHS_MS: [i64; 5] = [HOUR_MS, DAY_MS, 7 * DAY_MS, 28 * DAY_MS, 364 * DAY_MS];
/// 1970-01-05, a Monday.
const ORIGIN_MS: i64 = 4 * DAY_MS;

/// Counts for each stretch of time in which there is anything.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    width: usize,
    counts: BTreeMap<i64, u64>,
    /// The bucket that was counted last and what it got since, which is most often the next one, too.
    latest: (i64, u64),
}

impl Timeline {
    /// Nothing counted yet.
    pub fn new() -> Timeline {
        Timeline::default()
    }

    /// Length of a bucket in milliseconds.
    pub const fn width_ms(&self) -> i64 {
        WIDTHS_MS[self.width]
    }

    /// Counts a Unix millisecond.
    #[inline]
    pub fn note(&mut self, unix_ms: i64) {
        let bucket = (unix_ms - ORIGIN_MS).div_euclid(self.width_ms());
        if bucket == self.latest.0 {
            self.latest.1 += 1;
        } else {
            self.flush();
            // Flushing may have made buckets longer.
            self.latest = ((unix_ms - ORIGIN_MS).div_euclid(self.width_ms()), 1);
        }
    }

    /// The first millisecond of each bucket that has anything, and its count, in order.
    pub fn buckets(mut self) -> (i64, Vec<(i64, u64)>) {
        self.flush();
        let width_ms = self.width_ms();
        let start = |(bucket, count)| (bucket * width_ms + ORIGIN_MS, count);
        (width_ms, self.counts.into_iter().map(start).collect())
    }

    fn flush(&mut self) {
        let (bucket, count) = std::mem::take(&mut self.latest);
        if count == 0 {
            return;
        }
        *self.counts.entry(bucket).or_default() += count;
        while self.counts.len() > MAX_BUCKETS && self.width + 1 < WIDTHS_MS.len() {
            let factor = WIDTHS_MS[self.width + 1] / WIDTHS_MS[self.width];
            self.width += 1;
            for (bucket, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(bucket.div_euclid(factor)).or_default() += count;
            }
        }
    }
}
