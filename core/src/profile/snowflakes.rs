//! What a column of snowflakes tells.

use crate::profile::bursts::Bursts;
use crate::profile::duplicates::Duplicates;
use crate::profile::kind::{Candidates, Kind, Plausibility};
use crate::profile::nodes::{Node, Nodes};
use crate::profile::pace::Pace;
use crate::profile::remainders::Remainders;
use crate::profile::rounding::Rounding;
use crate::profile::span::Span;
use crate::profile::timeline::Timeline;

/// Numbers of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// How many.
    pub count: u64,
    /// The smallest; without meaning where there are none.
    pub min: i64,
    /// The largest; without meaning where there are none.
    pub max: i64,
}

impl Range {
    const EMPTY: Range = Range { count: 0, min: i64::MAX, max: i64::MIN };

    #[inline]
    fn note(&mut self, number: i64) {
        self.count += 1;
        self.min = self.min.min(number);
        self.max = self.max.max(number);
    }
}

/// The rows in the order in which they are stored.
#[derive(Clone, Debug)]
pub struct Scan {
    plausibility: Plausibility,
    table: u32,
    seen_snowflake: bool,
    /// Snowflakes that were made by now.
    pub snowflakes: Range,
    /// Their times.
    pub span: Span,
    /// Numbers of a sequence.
    pub plain: Range,
    /// How many of them come after a snowflake in their table.
    pub plain_after: u64,
    /// Of a time that has not come.
    pub future: Range,
    /// Their times.
    pub future_span: Span,
    /// What the layout has no bits for.
    pub out_of_range: Range,
    /// Which presets the last two kinds fit.
    pub candidates: Candidates,
    /// The workers of snowflakes made by now.
    pub nodes: Nodes,
    /// The times of snowflakes made by now.
    pub timeline: Timeline,
    /// The remainders of snowflakes made by now.
    pub remainders: Remainders,
    /// Whether snowflakes made by now lost their last digits.
    pub rounding: Rounding,
}

impl Scan {
    /// Nothing noted yet.
    pub fn new(plausibility: Plausibility) -> Scan {
        Scan {
            plausibility,
            table: 0,
            seen_snowflake: false,
            snowflakes: Range::EMPTY,
            span: Span::EMPTY,
            plain: Range::EMPTY,
            plain_after: 0,
            future: Range::EMPTY,
            future_span: Span::EMPTY,
            out_of_range: Range::EMPTY,
            candidates: Candidates::new(&plausibility.layout, plausibility.latest_ms),
            nodes: Nodes::default(),
            timeline: Timeline::new(),
            remainders: Remainders::default(),
            rounding: Rounding::new(&plausibility.layout),
        }
    }

    /// The rows of another table follow.
    pub fn begin_table(&mut self) {
        self.table = self.table.wrapping_add(1);
        self.seen_snowflake = false;
    }

    /// The next row.
    #[inline]
    pub fn note(&mut self, number: i64) {
        let layout = &self.plausibility.layout;
        match self.plausibility.kind(number) {
            Kind::Snowflake(parts) => {
                let made_ms = layout.tick_start_ms(parts.tick);
                self.snowflakes.note(number);
                self.span.note(made_ms);
                self.nodes.note(self.table, Node::from(&parts), made_ms);
                self.timeline.note(made_ms);
                self.remainders.note(number.cast_unsigned());
                self.rounding.note(number);
                self.seen_snowflake = true;
            }
            Kind::Plain => {
                self.plain.note(number);
                self.plain_after += u64::from(self.seen_snowflake);
            }
            Kind::Future(parts) => {
                self.future.note(number);
                self.future_span.note(layout.tick_start_ms(parts.tick));
                self.candidates.note(number);
            }
            Kind::OutOfRange => {
                self.out_of_range.note(number);
                self.candidates.note(number);
            }
        }
    }

    /// The largest number of all, if there is one.
    pub fn largest(&self) -> Option<i64> {
        [self.snowflakes, self.plain, self.future, self.out_of_range]
            .into_iter()
            .filter(|range| range.count > 0)
            .map(|range| range.max)
            .max()
    }
}

/// The rows in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Sorted {
    plausibility: Plausibility,
    /// Numbers that occur more than once.
    pub duplicates: Duplicates<i64>,
    /// Ticks that were used to their end, of snowflakes made by now.
    pub bursts: Bursts,
    /// How fast and how steadily snowflakes were made.
    pub pace: Pace,
}

impl Sorted {
    /// Nothing noted yet.
    pub fn new(plausibility: Plausibility) -> Sorted {
        Sorted {
            plausibility,
            duplicates: Duplicates::default(),
            bursts: Bursts::new(&plausibility.layout),
            pace: Pace::default(),
        }
    }

    /// The next number.
    #[inline]
    pub fn note(&mut self, number: i64) {
        self.duplicates.note(number);
        if let Kind::Snowflake(parts) = self.plausibility.kind(number) {
            self.bursts.note(&parts);
            self.pace.note(self.plausibility.layout.tick_start_ms(parts.tick));
        }
    }
}
