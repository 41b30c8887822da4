//! Knowing that a moment has not passed yet from a counter that is cheaper to read than the clock.
//!
//! A processor's cycle counter goes at a steady pace. A [`Meter`] learns that pace by comparing the
//! counter with the monotonic clock twice, some time apart; from then on a [`Span`] tells by the
//! counter alone whether it still goes on. Before each span the two are compared again, and where
//! they have parted, or nobody has looked for long, the meter begins anew: the machine may have been
//! suspended, or the kernel may have found the counter to be unsteady. A span errs on the short side:
//! whoever finds it over asks the clock. A counter that jumps, back or forth, ends it. A [`Ramp`] is a span in which a
//! value goes up with time, as the time itself does; it errs on the low side.

/// Reading a clock, the counter and a clock again takes less, if nothing comes between: 1 µs.
pub const AT_ONCE_NS: u64 = 1_000;
/// The pace is measured over so much time at least: 20 ms, of which the time that a look may take is
/// one part in 20,000.
const MEASURED_NS: u64 = 20_000_000;
/// Looks further apart than this are not compared: 1 s. In a suspended machine the counter may go on while the clock
/// stands still, or the other way round.
const FAR_NS: u64 = 1_000_000_000;
/// Counter and clock agree if they differ by no more than one part in this many, and the time that two looks may take.
const AGREEMENT: f64 = 2_000.0;
/// No span is longer than this, so that a clock that was set is noticed soon: 1 ms.
pub const LONGEST_NS: u64 = 1_000_000;
/// Spans are shorter than measured by one part in this many. A clock in step is slewed by up to one
/// part in 2,000 (`MAXFREQ`, `linux/timex.h`). One that a time service hurries to put right may go
/// at another pace by one part in 10 (`ADJ_TICK`, adjtimex(2)): then a span is off by as much, a
/// tenth of a millisecond.
const MARGIN: f64 = 1_000.0;
/// Counters go at paces between these, per nanosecond: processors' nominal frequencies, 100 MHz to 10 GHz. One that is
/// slower stands still; one that is faster was read before and after a suspension.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.1..=10.0;

/// One look at the counter, between two at a monotonic clock that nobody slews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The clock just before.
    pub before_ns: u64,
    /// The counter.
    pub count: u64,
    /// The clock just after.
    pub after_ns: u64,
}

impl Look {
    /// Whether nothing came between, so that the counter and the clocks belong together.
    fn is_at_once(&self) -> bool {
        self.after_ns.saturating_sub(self.before_ns) <= AT_ONCE_NS
    }

    fn ns_since(&self, earlier: &Look) -> u64 {
        self.before_ns.saturating_sub(earlier.before_ns)
    }

    fn counts_since(&self, earlier: &Look) -> f64 {
        self.count.wrapping_sub(earlier.count) as f64
    }

    /// Whether the counter has gone as far as the clock since an earlier look.
    fn agrees(&self, earlier: &Look, pace: f64) -> bool {
        let expected = self.ns_since(earlier) as f64 * pace;
        let allowed = expected / AGREEMENT + (2 * AT_ONCE_NS) as f64 * pace;
        (self.counts_since(earlier) - expected).abs() <= allowed
    }
}

/// What is known of a counter's pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meter {
    /// Nothing yet.
    New,
    /// The first look has been taken.
    Begun(Look),
    /// The pace is known, and counter and clock agreed at the last look.
    Known {
        /// So many counts a nanosecond.
        pace: f64,
        /// The last look.
        last: Look,
    },
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
    /// Learns from a look at both, and says whether a span from it may be relied on. A look that was
    /// interrupted teaches nothing: a process that has to wait for a processor in the middle of it
    /// would be wrong about the pace by as much as it waited.
    pub fn learn(&mut self, look: Look) -> bool {
        if !look.is_at_once() {
            return false;
        }
        *self = match *self {
            Meter::New => Meter::Begun(look),
            Meter::Begun(first) => Meter::measured(first, look),
            Meter::Known { last, .. } if look.ns_since(&last) > FAR_NS => Meter::Begun(look),
            Meter::Known { pace, last } if look.agrees(&last, pace) => {
                Meter::Known { pace, last: look }
            }
            Meter::Known { .. } => Meter::New,
            Meter::Useless => Meter::Useless,
        };
        matches!(self, Meter::Known { .. })
    }

    /// What two looks tell.
    fn measured(first: Look, look: Look) -> Meter {
        let ns = look.ns_since(&first);
        if ns < MEASURED_NS {
            return Meter::Begun(first);
        }
        let pace = look.counts_since(&first) / ns as f64;
        if ns > FAR_NS || pace > *PLAUSIBLE.end() {
            Meter::Begun(look)
        } else if pace < *PLAUSIBLE.start() {
            Meter::Useless
        } else {
            Meter::Known { pace, last: look }
        }
    }

    /// A span from a count, for so long or [`LONGEST_NS`].
    pub fn span(&self, since: u64, ns: u64) -> Span {
        let Meter::Known { pace, .. } = *self else { return Span::default() };
        let length = ns.min(LONGEST_NS) as f64 * pace * (1.0 - 1.0 / MARGIN);
        Span { since, length: length as u64 }
    }

    /// A value that is `base` and so many 2^-32 parts at a count, and goes up by `per_ns`, which is
    /// at most one, for [`LONGEST_NS`].
    pub fn ramp(&self, since: u64, base: u64, fraction: u32, per_ns: f64) -> Ramp {
        let span = self.span(since, LONGEST_NS);
        let Meter::Known { pace, .. } = *self else { return Ramp { span, ..Ramp::NONE } };
        let slope = per_ns / pace * (1.0 - 1.0 / MARGIN) * FRACTION_UNIT;
        Ramp { span, base, fraction: fraction.into(), slope: slope as u64 }
    }
}

/// 2^32.
const FRACTION_UNIT: f64 = 4_294_967_296.0;

/// A value that goes up with time, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    span: Span,
    base: u64,
    /// In 2^-32 parts.
    fraction: u64,
    /// In 2^-32 parts a count.
    slope: u64,
}

impl Ramp {
    /// One that is over.
    pub const NONE: Ramp =
        Ramp { span: Span { since: 0, length: 0 }, base: 0, fraction: 0, slope: 0 };

    /// Whether it has a length at all, so that it is worth reading the counter.
    #[inline(always)]
    pub const fn is_some(&self) -> bool {
        self.span.is_some()
    }

    /// The value at this count, rounded down, if it still goes on.
    #[inline(always)]
    pub const fn at(&self, count: u64) -> Option<u64> {
        if !self.span.goes_on(count) {
            return None;
        }
        // A millisecond of at most one a nanosecond is below 2^20, so the product fits.
        let passed = count.wrapping_sub(self.span.since);
        Some(self.base + ((self.fraction + passed * self.slope) >> u32::BITS))
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
