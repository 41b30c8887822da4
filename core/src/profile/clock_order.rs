//! Where time goes back along the rows of a table, in the order in which they are stored.
//!
//! In a table that is only added to, rows come about in the order in which they are stored, so a clock that was set back
//! shows. It is a hint and no more: rows that were updated, or that took the place of deleted ones, are out of order, too,
//! and so are those whose IDs were made long before they were stored.

/// Going back by less is what sessions side by side do: 1 s.
pub const NOTABLE_MS: i64 = 1_000;

/// The steps back of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOrder {
    /// Which table the rows are of.
    table: u32,
    latest_ms: Option<i64>,
    /// How often time went back.
    pub steps: u64,
    /// By how many milliseconds at most.
    pub largest_ms: i64,
    /// The Unix millisecond that it went back from then.
    pub largest_from_ms: i64,
}

impl ClockOrder {
    /// The next row of a table; tables are numbered by the caller, and each begins anew.
    #[inline]
    pub fn note(&mut self, table: u32, unix_ms: i64) {
        let latest_ms = self.latest_ms.filter(|_| self.table == table).unwrap_or(unix_ms);
        let back_ms = latest_ms - unix_ms;
        if back_ms >= NOTABLE_MS {
            self.steps += 1;
            if back_ms > self.largest_ms {
                (self.largest_ms, self.largest_from_ms) = (back_ms, latest_ms);
            }
            // The clock goes on from there, which is no further step.
            self.latest_ms = Some(unix_ms);
        } else {
            self.latest_ms = Some(latest_ms.max(unix_ms));
        }
        self.table = table;
    }
}
