//! The processor's cycle counter, where the kernel itself tells the time by it. Reading it costs
//! about half of what reading the clock does.
//!
//! What it is good for, and its pace, is [`id_gen_core::meter`]; this is the only place that reads
//! it.

use id_gen_core::meter::{AT_ONCE_NS, Look, Meter, Ramp, Span};

use crate::clock;
use crate::process::PerProcess;

static METER: PerProcess<Meter> = PerProcess::new(Meter::New);

/// Where the kernel says what it tells the time by. It uses the counter only if that goes at the
/// same pace on all processors and does not stand still, and stops using it if that proves wrong.
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

/// There is none that this knows of.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn read() -> u64 {
    0
}

#[cfg(target_arch = "x86_64")]
fn is_trusted() -> bool {
    std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_trusted() -> bool {
    false
}

/// A moment from which a [`Span`] is to be measured; to be taken before the clock is read that says
/// how long.
pub struct Moment(Option<u64>);

impl Moment {
    /// This moment.
    pub fn now() -> Moment {
        METER.with(|meter| {
            if *meter == Meter::New && !is_trusted() {
                *meter = Meter::Useless;
            }
            if *meter == Meter::Useless {
                return Moment(None);
            }
            let before_ns = clock::raw_ns();
            let count = read();
            let look = Look { before_ns, count, after_ns: clock::raw_ns() };
            Moment(meter.learn(look).then(read))
        })
    }

    /// A value that was `base` and so many 2^-32 parts by the clock, read after this moment and just
    /// before this call, and goes up by `per_ns`. It is behind by what has passed since the clock was
    /// read, so if this process was interrupted meanwhile there is none.
    pub fn rising(self, base: u64, fraction: u32, per_ns: f64) -> Ramp {
        self.0.map_or(Ramp::NONE, |before| {
            let since = read();
            METER.with(|meter| {
                let at_once = meter.span(before, AT_ONCE_NS).goes_on(since);
                if at_once { meter.ramp(since, base, fraction, per_ns) } else { Ramp::NONE }
            })
        })
    }

    /// The span that lasts so long from this moment, or a little less.
    pub fn lasting(self, ns: u64) -> Span {
        self.0.map_or_else(Span::default, |since| METER.with(|meter| meter.span(since, ns)))
    }
}
