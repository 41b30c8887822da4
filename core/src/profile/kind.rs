//! Whether a number can be a snowflake of a layout that was made by now, and what it may be instead.
//!
//! A number says nothing of where it comes from. What is told apart here is what a number can't be: bits above the
//! layout's, a time that has not come. And a small number decodes to a moment after the epoch, when few snowflakes were
//! made, but is what a sequence gives.

use crate::layout::{Layout, Parts};
use crate::presets::{self, Preset};
use crate::profile::span::Span;

/// Numbers below it can come from a sequence: 2^40, about 10^12.
const SEQUENCE_REACHES: u64 = 1 << 40;
/// So long after the epoch a small number is taken for one of a sequence.
const AFTER_EPOCH_MS: i64 = 3_600_000;
/// A layout that is younger is used in its first hours, so small numbers are snowflakes: 1 day.
const YOUNG_MS: i64 = 86_400_000;

/// What a number can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A snowflake that was made by now.
    Snowflake(Parts),
    /// A number of a sequence.
    Plain,
    /// Of a time that has not come.
    Future(Parts),
    /// Bits above the layout's: a negative number, or one that is too large.
    OutOfRange,
}

/// What decides it: a layout and the time.
#[derive(Clone, Copy, Debug)]
pub struct Plausibility {
    /// How IDs are taken apart.
    pub layout: Layout,
    /// The last Unix millisecond that an ID may be of.
    pub latest_ms: i64,
    plain_below: u64,
}

impl Plausibility {
    /// With the last Unix millisecond that an ID may be of: that of the clock, and what IDs may lead it by.
    pub fn new(layout: Layout, latest_ms: i64) -> Plausibility {
        let epoch_ms = layout.epoch_ms();
        let plain_below = if latest_ms.saturating_sub(epoch_ms) < YOUNG_MS {
            0
        } else {
            let tick = layout.tick_from(epoch_ms.saturating_add(AFTER_EPOCH_MS));
            layout.min_of(tick).min(SEQUENCE_REACHES)
        };
        Plausibility { layout, latest_ms, plain_below }
    }

    /// What a number can be.
    #[inline]
    pub fn kind(&self, bigint: i64) -> Kind {
        let Ok(id) = self.layout.from_bigint(bigint) else { return Kind::OutOfRange };
        if id < self.plain_below {
            return Kind::Plain;
        }
        let parts = self.layout.unpack(id);
        if self.layout.tick_start_ms(parts.tick) > self.latest_ms {
            Kind::Future(parts)
        } else {
            Kind::Snowflake(parts)
        }
    }
}

/// Which presets numbers fit that do not fit their own layout.
#[derive(Clone, Debug)]
pub struct Candidates {
    presets: Vec<(&'static Preset, Plausibility, Span)>,
    total: u64,
}

impl Candidates {
    /// All presets but the layout itself, as of that Unix millisecond.
    pub fn new(layout: &Layout, latest_ms: i64) -> Candidates {
        let others = presets::all().iter().filter(|preset| preset.layout != *layout);
        let presets = others
            .map(|preset| (preset, Plausibility::new(preset.layout, latest_ms), Span::EMPTY))
            .collect();
        Candidates { presets, total: 0 }
    }

    /// Notes a number that is none of its own layout.
    pub fn note(&mut self, bigint: i64) {
        self.total += 1;
        for (_, plausibility, span) in &mut self.presets {
            if let Kind::Snowflake(parts) = plausibility.kind(bigint) {
                span.note(plausibility.layout.tick_start_ms(parts.tick));
            }
        }
    }

    /// The presets that all of the numbers fit, with the times that they would be of; those whose last time lies closest to this
    /// Unix millisecond first, because the newest ID of most tables is new.
    pub fn fitting(&self, now_ms: i64) -> Vec<(&'static str, Span)> {
        let mut fitting: Vec<(&'static str, Span)> = self
            .presets
            .iter()
            .filter(|(_, _, span)| span.count == self.total && self.total > 0)
            .map(|&(preset, _, span)| (preset.name, span))
            .collect();
        fitting.sort_by_key(|(_, span)| span.last_ms.abs_diff(now_ms));
        fitting
    }
}
