//! Knowing that a moment has not passed yet from a counter that is cheaper to read than the clock.
//!
//! A processor's cycle counter goes at a steady pace. A [`Meter`] learns that pace by comparing the
//! counter with the monotonic clock twice, some time apart; from then on a [`Span`] tells by the
//! counter alone whether it still goes on. A span errs on the short side: whoever finds it over
//! asks the clock. A counter that jumps, back or forth, ends it.

/// The pace is measured over so much time at least: 20 ms, in which the time it takes to read clock
/// and counter is one in a hundred thousand.
const MEASURED_NS: u64 = 20_000_000;
/// No span is longer than this, so that a clock that was set is noticed soon: 1 ms.
pub const LONGEST_NS: u64 = 1_000_000;
/// Spans are shorter than measured by one part in this many. Clocks are slewed by up to one part in
/// 2,000 (`MAXFREQ`, `linux/timex.h`), also between the measurement and later.
const MARGIN: f64 = 1_000.0;
/// Counters that are slower or faster than this are none that this was made for, per nanosecond.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// One look at the counter and the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The counter.
    pub count: u64,
    /// The clock.
    pub mono_ns: u64,
}

/// What is known of a counter's pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meter {
    /// Nothing yet.
    New,
    /// The first look has been taken.
    Begun(Look),
    /// So many counts a nanosecond.
    Known(f64),
    /// It is of no use.
    Useless,
}

/// A stretch of time, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    since: u64,
    /// Zero for one that is over from the beginning.
    length: u64,
}

impl Meter {
    /// Learns from a look at both.
    pub fn learn(&mut self, look: Look) {
        *self = match *self {
            Meter::New => Meter::Begun(look),
            Meter::Begun(first) => {
                let ns = look.mono_ns.saturating_sub(first.mono_ns);
                if ns < MEASURED_NS {
                    return;
                }
                let pace = look.count.wrapping_sub(first.count) as f64 / ns as f64;
                if PLAUSIBLE.contains(&pace) { Meter::Known(pace) } else { Meter::Useless }
            }
            known => known,
        };
    }

    /// Whether it has to learn more before it gives spans.
    pub const fn is_learning(&self) -> bool {
        matches!(self, Meter::New | Meter::Begun(_))
    }

    /// A span from a count, for so long or [`LONGEST_NS`].
    pub fn span(&self, since: u64, ns: u64) -> Span {
        let Meter::Known(pace) = *self else { return Span::default() };
        let length = ns.min(LONGEST_NS) as f64 * pace * (1.0 - 1.0 / MARGIN);
        Span { since, length: length as u64 }
    }
}

impl Span {
    /// Whether it has a length at all, so that it is worth reading the counter.
    #[inline(always)]
    pub const fn is_some(&self) -> bool {
        self.length != 0
    }

    /// Whether it still goes on at this count.
    #[inline(always)]
    pub const fn goes_on(&self, count: u64) -> bool {
        count.wrapping_sub(self.since) < self.length
    }
}
