//! How fast IDs were made in the last minute: a ring of samples, a second apart, and the rates
//! between them.
//!
//! A sample is the value of two counters at a time of the monotonic clock. The caller decides when to
//! take one; one that comes too early is not kept. The caller holds the lock that protects the ring.

/// Samples are at least this far apart: 0.9 s, so that one a second is kept even when it comes a
/// little early.
const APART_NS: u64 = 900_000_000;
/// How many are kept: more than a minute's worth.
const KEPT: usize = 72;

/// Two counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time, on the monotonic clock.
    pub mono_ns: u64,
    /// IDs handed to callers.
    pub issued: u64,
    /// Positions claimed, handed out or not.
    pub granted: u64,
}

/// The latest samples.
#[derive(Clone, Copy, Debug)]
pub struct RateWindow {
    samples: [Sample; KEPT],
    /// How many were ever kept.
    count: usize,
}

impl Default for RateWindow {
    fn default() -> RateWindow {
        RateWindow { samples: [Sample::default(); KEPT], count: 0 }
    }
}

impl RateWindow {
    /// Whether a sample at this time would be kept.
    pub fn is_due(&self, mono_ns: u64) -> bool {
        self.newest_first()
            .next()
            .is_none_or(|latest| mono_ns.saturating_sub(latest.mono_ns) >= APART_NS)
    }

    /// Keeps a sample, if it is due.
    pub fn add(&mut self, sample: Sample) {
        if self.is_due(sample.mono_ns) {
            self.samples[self.count % KEPT] = sample;
            self.count += 1;
        }
    }

    fn newest_first(&self) -> impl Iterator<Item = &Sample> {
        let kept = self.count.min(KEPT);
        (1..=kept).map(|back| &self.samples[(self.count - back) % KEPT])
    }

    /// IDs a second from the newest sample that is at least so old until now; from the oldest, if
    /// none is. `None` before the first sample.
    pub fn rate(&self, now: Sample, window_ns: u64) -> Option<f64> {
        let age_ns = |sample: &Sample| now.mono_ns.saturating_sub(sample.mono_ns);
        let since = self
            .newest_first()
            .find(|sample| age_ns(sample) >= window_ns)
            .or_else(|| self.newest_first().last())?;
        per_second(now.issued.saturating_sub(since.issued), age_ns(since))
    }

    /// Positions a second between the two neighbouring samples of this window where they were most;
    /// from the latest until now, too, if a second has passed. `None` if the window has no two.
    pub fn busiest(&self, now: Sample, window_ns: u64) -> Option<f64> {
        let mut later = now;
        let mut busiest: Option<f64> = None;
        for sample in self.newest_first() {
            if now.mono_ns.saturating_sub(later.mono_ns) > window_ns {
                break;
            }
            let length_ns = later.mono_ns.saturating_sub(sample.mono_ns);
            if length_ns >= APART_NS {
                let granted = later.granted.saturating_sub(sample.granted);
                let rate = per_second(granted, length_ns).unwrap_or(0.0);
                busiest = Some(busiest.map_or(rate, |other| other.max(rate)));
            }
            later = *sample;
        }
        busiest
    }
}

fn per_second(count: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| count as f64 * 1e9 / ns as f64)
}
