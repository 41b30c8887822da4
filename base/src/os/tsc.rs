//! The processor's time-stamp counter, where the kernel itself tells the time by it. Reading it costs
//! about half of what reading the clock does.
//!
//! What it is good for, and its calibration, is [`id_gen_core::tsc`]; no other file reads it.

use id_gen_core::tsc::{
    TscCalibration, TscExtrapolation, TscInterval, TscSample, UNINTERRUPTED_NS,
};

use crate::os::process::PerProcess;
use crate::os::{clock, test_stream};

static CALIBRATION: PerProcess<TscCalibration> = PerProcess::new(TscCalibration::New);

/// Where the kernel says what it tells the time by. It uses the counter only if that runs at the
/// same rate on all processors and does not stand still, and stops using it if that proves wrong.
#[cfg(target_arch = "x86_64")]
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn read() -> u64 {
    // SAFETY: every processor of this architecture has the instruction. A process that is forbidden
    // to use it could not read the clock either, which uses it too where this is called.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// No counter is used on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn read() -> u64 {
    0
}

#[cfg(target_arch = "x86_64")]
fn is_reliable() -> bool {
    std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_reliable() -> bool {
    false
}

/// Where an interval or an extrapolation starts; to be taken before the clock is read that it belongs
/// to.
pub struct TscStart(Option<u64>);

impl TscStart {
    /// The counter now, if it can be relied on.
    pub fn now() -> TscStart {
        if test_stream::stream().is_some() {
            // It tells nothing of that clock.
            return TscStart(None);
        }
        CALIBRATION.with(|calibration| {
            if *calibration == TscCalibration::New && !is_reliable() {
                *calibration = TscCalibration::Unusable;
            }
            if *calibration == TscCalibration::Unusable {
                return TscStart(None);
            }
            let before_ns = clock::raw_ns();
            let count = read();
            let sample = TscSample { before_ns, count, after_ns: clock::raw_ns() };
            TscStart(calibration.add_sample(sample).then(read))
        })
    }

    /// A value that was `base` and so many 2^-32 parts by the clock, read after this start and just
    /// before this call, and rises by `per_ns`. It is low by what has passed since the clock was
    /// read, so if this process was interrupted meanwhile there is none.
    pub fn extrapolation(self, base: u64, fraction: u32, per_ns: f64) -> TscExtrapolation {
        self.0.map_or(TscExtrapolation::NONE, |before| {
            let since = read();
            CALIBRATION.with(|calibration| {
                if calibration.interval(before, UNINTERRUPTED_NS).contains(since) {
                    calibration.extrapolation(since, base, fraction, per_ns)
                } else {
                    TscExtrapolation::NONE
                }
            })
        })
    }

    /// The interval of so many nanoseconds from this start, or a little less.
    pub fn interval(self, ns: u64) -> TscInterval {
        self.0.map_or_else(TscInterval::default, |since| {
            CALIBRATION.with(|calibration| calibration.interval(since, ns))
        })
    }
}
