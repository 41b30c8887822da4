//! Using the processor's time-stamp counter (TSC), which is cheaper to read than the clock, to tell
//! how much time has passed.
//!
//! The counter runs at a constant rate. A [`TscCalibration`] measures the rate by comparing the
//! counter with the monotonic clock twice, some time apart. From then on a [`TscInterval`] tells by
//! the counter alone whether it is over, and a [`TscExtrapolation`] what value a rising quantity
//! has. Before each of them counter and clock are compared again. Where they disagree, or were not
//! compared for long, the calibration starts again: the machine may have been suspended, or the
//! kernel may have found the counter to be unsteady. An interval errs on the short side, and whoever
//! finds it over reads the clock; an extrapolation errs on the low side. A counter that jumps, back or
//! forth, ends both.

/// Reading a clock, the counter and a clock again takes less, if nothing interrupts it: 1 µs.
pub const UNINTERRUPTED_NS: u64 = 1_000;
/// The rate is measured over so much time at least: 20 ms, of which the time that a sample may take is
/// one part in 20,000.
const MEASURED_NS: u64 = 20_000_000;
/// Samples further apart than this are not compared: 1 s. In a suspended machine the counter may go on
/// while the clock stands still, or the other way round.
const FAR_NS: u64 = 1_000_000_000;
/// Counter and clock agree if they differ by no more than one part in this many, and the time that two
/// samples may take.
const AGREEMENT: f64 = 2_000.0;
/// No interval is longer than this, so that a clock that was set is noticed soon: 1 ms.
pub const LONGEST_NS: u64 = 1_000_000;
/// Intervals are shorter than measured by one part in this many. A clock in step is slewed by up to one
/// part in 2,000 (`MAXFREQ`, `linux/timex.h`). One that a time service corrects fast may run at a rate
/// that differs by one part in 10 (`ADJ_TICK`, adjtimex(2)): then an interval is wrong by as much, a
/// tenth of a millisecond.
const MARGIN: f64 = 1_000.0;
/// Counters run at rates between these, per nanosecond: processors' nominal frequencies, 100 MHz to
/// 10 GHz. A slower one stands still; a faster one was read before and after a suspension.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.1..=10.0;

/// The counter, read between two readings of a monotonic clock that nobody slews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscSample {
    /// The clock just before.
    pub before_ns: u64,
    /// The counter.
    pub count: u64,
    /// The clock just after.
    pub after_ns: u64,
}

impl TscSample {
    /// Whether nothing came in between, so that the counter and the clocks belong together.
    fn is_uninterrupted(&self) -> bool {
        self.after_ns.saturating_sub(self.before_ns) <= UNINTERRUPTED_NS
    }

    fn ns_since(&self, earlier: &TscSample) -> u64 {
        self.before_ns.saturating_sub(earlier.before_ns)
    }

    fn counts_since(&self, earlier: &TscSample) -> f64 {
        self.count.wrapping_sub(earlier.count) as f64
    }

    /// Whether the counter has gone as far as the clock since an earlier sample.
    fn agrees(&self, earlier: &TscSample, counts_per_ns: f64) -> bool {
        let expected = self.ns_since(earlier) as f64 * counts_per_ns;
        let allowed = expected / AGREEMENT + (2 * UNINTERRUPTED_NS) as f64 * counts_per_ns;
        (self.counts_since(earlier) - expected).abs() <= allowed
    }
}

/// What is known of the counter's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TscCalibration {
    /// Nothing yet.
    New,
    /// The first sample was taken.
    Started(TscSample),
    /// The rate is known, and counter and clock agreed at the last sample.
    Known {
        /// The rate.
        counts_per_ns: f64,
        /// The last sample.
        last: TscSample,
    },
    /// The counter is not usable.
    Unusable,
}

/// A stretch of time, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TscInterval {
    since: u64,
    /// Zero for an interval that is always over.
    length: u64,
}

impl TscCalibration {
    /// Learns from a sample, and says whether an interval that starts at it is reliable. An interrupted
    /// sample is ignored: it would make the rate wrong by as long as the process waited for a processor.
    pub fn add_sample(&mut self, sample: TscSample) -> bool {
        if !sample.is_uninterrupted() {
            return false;
        }
        *self = match *self {
            TscCalibration::New => TscCalibration::Started(sample),
            TscCalibration::Started(first) => TscCalibration::measured(first, sample),
            TscCalibration::Known { last, .. } if sample.ns_since(&last) > FAR_NS => {
                TscCalibration::Started(sample)
            }
            TscCalibration::Known { counts_per_ns, last }
                if sample.agrees(&last, counts_per_ns) =>
            {
                TscCalibration::Known { counts_per_ns, last: sample }
            }
            TscCalibration::Known { .. } => TscCalibration::New,
            TscCalibration::Unusable => TscCalibration::Unusable,
        };
        matches!(self, TscCalibration::Known { .. })
    }

    /// What two samples tell.
    fn measured(first: TscSample, sample: TscSample) -> TscCalibration {
        let ns = sample.ns_since(&first);
        if ns < MEASURED_NS {
            return TscCalibration::Started(first);
        }
        let counts_per_ns = sample.counts_since(&first) / ns as f64;
        if ns > FAR_NS || counts_per_ns > *PLAUSIBLE.end() {
            TscCalibration::Started(sample)
        } else if counts_per_ns < *PLAUSIBLE.start() {
            TscCalibration::Unusable
        } else {
            TscCalibration::Known { counts_per_ns, last: sample }
        }
    }

    /// An interval from a count, for so long or [`LONGEST_NS`].
    pub fn interval(&self, since: u64, ns: u64) -> TscInterval {
        let TscCalibration::Known { counts_per_ns, .. } = *self else {
            return TscInterval::default();
        };
        let length = ns.min(LONGEST_NS) as f64 * counts_per_ns * (1.0 - 1.0 / MARGIN);
        TscInterval { since, length: length as u64 }
    }

    /// A value that is `base` and so many 2^-32 parts at a count, and rises by `per_ns`, which is at
    /// most one, for [`LONGEST_NS`].
    pub fn extrapolation(
        &self,
        since: u64,
        base: u64,
        fraction: u32,
        per_ns: f64,
    ) -> TscExtrapolation {
        let TscCalibration::Known { counts_per_ns, .. } = *self else {
            return TscExtrapolation::NONE;
        };
        let slope = per_ns / counts_per_ns * (1.0 - 1.0 / MARGIN) * FRACTION_UNIT;
        TscExtrapolation {
            interval: self.interval(since, LONGEST_NS),
            base,
            fraction: fraction.into(),
            slope: slope as u64,
        }
    }
}

/// 2^32.
const FRACTION_UNIT: f64 = 4_294_967_296.0;

/// A value that rises with time, for the length of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscExtrapolation {
    interval: TscInterval,
    base: u64,
    /// In 2^-32 parts.
    fraction: u64,
    /// In 2^-32 parts a count.
    slope: u64,
}

impl TscExtrapolation {
    /// One that is always over.
    pub const NONE: TscExtrapolation = TscExtrapolation {
        interval: TscInterval { since: 0, length: 0 },
        base: 0,
        fraction: 0,
        slope: 0,
    };

    /// Whether it has a length at all, so that it is worth reading the counter.
    #[inline(always)]
    pub const fn is_some(&self) -> bool {
        self.interval.is_some()
    }

    /// The value at this count, rounded down, if it is not over.
    #[inline(always)]
    pub const fn at(&self, count: u64) -> Option<u64> {
        if !self.interval.contains(count) {
            return None;
        }
        // A millisecond of at most one a nanosecond is below 2^20, so the product fits.
        let passed = count.wrapping_sub(self.interval.since);
        Some(self.base + ((self.fraction + passed * self.slope) >> u32::BITS))
    }
}

impl TscInterval {
    /// Whether it has a length at all, so that it is worth reading the counter.
    #[inline(always)]
    pub const fn is_some(&self) -> bool {
        self.length != 0
    }

    /// Whether it is not over at this count.
    #[inline(always)]
    pub const fn contains(&self, count: u64) -> bool {
        count.wrapping_sub(self.since) < self.length
    }
}
