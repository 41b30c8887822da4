//! The totals behind the statistics.
//!
//! Nothing is counted for a single ID: what was issued is what was claimed, less what was dropped and
//! what is left of blocks. Sessions count in their slots, and what happens seldom is counted here.
//!
//! **Locking.** [`Counters`] are guarded by the lock of the state; [`Events`] are atomics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use id_gen_core::histogram::{self, BUCKETS};
use id_gen_core::rate_window::{RateWindow, Sample};

use crate::error::{REFUSAL_COUNTER_COUNT, Reason};
use crate::os::clock;

/// What happens seldom, counted since the last reset: a new statistic is a field here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Times that the clock was set back.
    pub steps_back: u64,
    /// By how much at most.
    pub largest_step_back_ns: u64,
    /// Times that the clock was set forward.
    pub steps_forward: u64,
    /// Writes of the reservation.
    pub reservation_writes: u64,
    /// How many of them failed.
    pub reservation_failures: u64,
    /// How long the slowest took.
    pub slowest_reservation_write_ns: u64,
}

/// What slots count, added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// IDs handed to callers.
    pub issued: u64,
    /// Positions claimed, handed out or not.
    pub granted: u64,
    /// Claims.
    pub claims: u64,
    /// Claims that had to wait.
    pub waits: u64,
    /// Time waited.
    pub waited_ns: u64,
}

impl Counts {
    fn plus(self, other: Counts) -> Counts {
        self.each(other, u64::saturating_add)
    }

    fn minus(self, other: Counts) -> Counts {
        self.each(other, u64::saturating_sub)
    }

    /// The larger of each.
    fn at_least(self, other: Counts) -> Counts {
        self.each(other, u64::max)
    }

    fn each(self, other: Counts, of: fn(u64, u64) -> u64) -> Counts {
        Counts {
            issued: of(self.issued, other.issued),
            granted: of(self.granted, other.granted),
            claims: of(self.claims, other.claims),
            waits: of(self.waits, other.waits),
            waited_ns: of(self.waited_ns, other.waited_ns),
        }
    }
}

/// What the lock guards.
pub struct Counters {
    /// Since the last reset.
    pub totals: Totals,
    /// When that was, or when the state was made, in Unix nanoseconds.
    pub reset_at_ns: u64,
    /// Counts of processes whose slots have gone to others.
    retired: Counts,
    /// All counts as last read: what was once shown does not go down.
    seen: Counts,
    /// All counts when they were last reset.
    base: Counts,
    window: RateWindow,
}

impl Counters {
    /// Counters that begin now.
    pub fn new() -> Counters {
        Counters {
            totals: Totals::default(),
            reset_at_ns: clock::machine_ns(),
            retired: Counts::default(),
            seen: Counts::default(),
            base: Counts::default(),
            window: RateWindow::default(),
        }
    }

    /// Keeps the counts of a slot that goes to another process.
    pub fn retire(&mut self, counts: Counts) {
        self.retired = self.retired.plus(counts);
    }

    /// What was counted since the last reset, with the counts of all slots. Slots are read while their
    /// owners write them; under the lock, none goes to another process meanwhile.
    pub fn since_reset(&mut self, slots: impl Iterator<Item = Counts>) -> Counts {
        self.all(slots).minus(self.base)
    }

    fn all(&mut self, slots: impl Iterator<Item = Counts>) -> Counts {
        self.seen = self.seen.at_least(slots.fold(self.retired, Counts::plus));
        self.seen
    }

    /// Resets the counts.
    pub fn reset(&mut self, slots: impl Iterator<Item = Counts>) {
        self.base = self.all(slots);
        self.totals = Totals::default();
        self.reset_at_ns = clock::machine_ns();
    }

    /// Takes a sample of the counts, if one is due.
    pub fn sample(&mut self, slots: impl Iterator<Item = Counts>) {
        let mono_ns = clock::mono_ns();
        if self.window.is_due(mono_ns) {
            let sample = self.sample_at(mono_ns, slots);
            self.window.add(sample);
        }
    }

    /// The samples so far, and one of now to compare them with.
    pub fn rates(&mut self, slots: impl Iterator<Item = Counts>) -> (RateWindow, Sample) {
        let now = self.sample_at(clock::mono_ns(), slots);
        (self.window, now)
    }

    fn sample_at(&mut self, mono_ns: u64, slots: impl Iterator<Item = Counts>) -> Sample {
        let Counts { issued, granted, .. } = self.all(slots);
        Sample { mono_ns, issued, granted }
    }
}

/// What is counted without the lock.
#[derive(Default)]
pub struct Events {
    /// By [`Reason::counter`].
    refusals: [AtomicU64; REFUSAL_COUNTER_COUNT],
    /// By [`histogram::bucket`].
    waits: [AtomicU64; BUCKETS],
}

impl Events {
    /// Counts a refusal to generate.
    pub fn count_refusal(&self, reason: &Reason) {
        if let Some(counter) = reason.counter() {
            self.refusals[counter].fetch_add(1, Relaxed);
        }
    }

    /// Counts a wait.
    pub fn count_wait(&self, ns: u64) {
        self.waits[histogram::bucket(ns)].fetch_add(1, Relaxed);
    }

    /// Refusals, in the order of [`crate::error::REFUSAL_COUNTERS`].
    pub fn refusals(&self) -> [u64; REFUSAL_COUNTER_COUNT] {
        self.refusals.each_ref().map(|count| count.load(Relaxed))
    }

    /// Waits, in the order of their buckets.
    pub fn waits(&self) -> [u64; BUCKETS] {
        self.waits.each_ref().map(|count| count.load(Relaxed))
    }

    /// Resets the counts.
    pub fn reset(&self) {
        for counter in self.refusals.iter().chain(&self.waits) {
            counter.store(0, Relaxed);
        }
    }
}
