//! What a column of UUIDs tells.

use crate::profile::clock_order::ClockOrder;
use crate::profile::duplicates::Duplicates;
use crate::profile::pace::Pace;
use crate::profile::span::Span;
use crate::profile::timeline::Timeline;
use crate::uuid;
use crate::uuid7;

/// The version of UUIDs that say when they were made, and sort by it.
pub const VERSION_WITH_TIME: u8 = 7;

const NIL: [u8; 16] = [0; 16];
const MAX: [u8; 16] = [0xFF; 16];

/// The rows in the order in which they are stored.
#[derive(Clone, Debug)]
pub struct Scan {
    latest_ms: i64,
    table: u32,
    /// How many there are of each version.
    pub versions: [u64; 16],
    /// How many are of another variant than RFC 9562's.
    pub other_variant: u64,
    /// How many are all zeros.
    pub nil: u64,
    /// How many are all ones.
    pub max: u64,
    /// Version 7 made by now.
    pub span: Span,
    /// Version 7 of a time that has not come.
    pub future: Span,
    /// The times of version 7 made by now.
    pub timeline: Timeline,
    /// Whether clocks seem to have been set back, of version 7 made by now.
    pub order: ClockOrder,
}

impl Scan {
    /// With the last Unix millisecond that a UUID may be of.
    pub fn new(latest_ms: i64) -> Scan {
        Scan {
            latest_ms,
            table: 0,
            versions: [0; 16],
            other_variant: 0,
            nil: 0,
            max: 0,
            span: Span::EMPTY,
            future: Span::EMPTY,
            timeline: Timeline::new(),
            order: ClockOrder::default(),
        }
    }

    /// The rows of another table follow.
    pub fn begin_table(&mut self) {
        self.table = self.table.wrapping_add(1);
    }

    /// The next row.
    #[inline]
    pub fn note(&mut self, uuid: &[u8; 16]) {
        let Some(version) = uuid::version(uuid) else {
            let count = match *uuid {
                NIL => &mut self.nil,
                MAX => &mut self.max,
                _ => &mut self.other_variant,
            };
            *count += 1;
            return;
        };
        self.versions[usize::from(version & 0xF)] += 1;
        if version != VERSION_WITH_TIME {
            return;
        }
        let made_ms = uuid7::unix_ms(uuid);
        if made_ms > self.latest_ms {
            self.future.note(made_ms);
            return;
        }
        self.span.note(made_ms);
        self.timeline.note(made_ms);
        self.order.note(self.table, made_ms);
    }
}

/// The rows in the order of their values.
#[derive(Clone, Debug)]
pub struct Sorted {
    latest_ms: i64,
    /// Values that occur more than once.
    pub duplicates: Duplicates<[u8; 16]>,
    /// How fast and how steadily those of version 7 were made.
    pub pace: Pace,
}

impl Sorted {
    /// With the last Unix millisecond that a UUID may be of.
    pub fn new(latest_ms: i64) -> Sorted {
        Sorted { latest_ms, duplicates: Duplicates::default(), pace: Pace::default() }
    }

    /// The next value.
    #[inline]
    pub fn note(&mut self, uuid: [u8; 16]) {
        self.duplicates.note(uuid);
        if uuid::version(&uuid) == Some(VERSION_WITH_TIME) {
            let made_ms = uuid7::unix_ms(&uuid);
            if made_ms <= self.latest_ms {
                self.pace.note(made_ms);
            }
        }
    }
}
