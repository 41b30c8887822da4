//! Reading the operating system's clocks. The rules about time are in `id_gen_core`; no other file
//! asks what time it is. On a server for tests, the wall clock is its own ([`crate::os::test_stream`]).

use std::time::Duration;

use id_gen_core::clock::ClockReading;
use id_gen_core::time::{NS_PER_S, format_ms, unix_ms};

use crate::os::test_stream;

/// The two clocks count as read at one moment if no more than this passes in between: 1 ms.
const TOGETHER_NS: u64 = 1_000_000;
/// How often to try for that on a machine that keeps interrupting.
const TRIES: usize = 10;

#[inline(always)]
fn time_of(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to. The call fails only for a clock the system
    // lacks, and then leaves the zero.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time
}

/// Whole seconds, and nanoseconds below one.
#[inline(always)]
fn read(clock: libc::clockid_t) -> (u64, u32) {
    let time = time_of(clock);
    // Times before 1970 read as zero, which every layout refuses.
    (u64::try_from(time.tv_sec).unwrap_or(0), time.tv_nsec as u32)
}

#[inline(always)]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let (seconds, ns) = read(clock);
    seconds.wrapping_mul(NS_PER_S).wrapping_add(u64::from(ns))
}

/// Wall clock, nanoseconds since the Unix epoch.
#[inline(always)]
pub fn wall_ns() -> u64 {
    match test_stream::stream() {
        None => machine_ns(),
        Some(stream) => stream.now_ns(),
    }
}

/// The machine's wall clock, also on a server for tests.
#[inline(always)]
pub fn machine_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// Whether the wall clock shows a time before 1970, which the other functions read as zero.
pub fn is_before_1970() -> bool {
    test_stream::stream().is_none() && time_of(libc::CLOCK_REALTIME).tv_sec < 0
}

/// The wall clock as messages show it.
pub fn wall_text() -> String {
    if is_before_1970() {
        format_ms(time_of(libc::CLOCK_REALTIME).tv_sec.saturating_mul(1_000))
    } else {
        format_ms(unix_ms(wall_ns()))
    }
}

/// Wall clock, time since the Unix epoch.
#[inline(always)]
pub fn since_epoch() -> Duration {
    match test_stream::stream() {
        None => machine_since_epoch(),
        Some(stream) => Duration::from_nanos(stream.now_ns()),
    }
}

/// The machine's wall clock, time since the Unix epoch, also on a server for tests.
#[inline(always)]
pub fn machine_since_epoch() -> Duration {
    let (seconds, ns) = read(libc::CLOCK_REALTIME);
    Duration::new(seconds, ns)
}

/// Monotonic clock, nanoseconds since some moment that is the same for all processes. It does not
/// stand still while the machine sleeps.
pub fn mono_ns() -> u64 {
    read_ns(libc::CLOCK_BOOTTIME)
}

/// A monotonic clock that nobody slews, nanoseconds since some moment: what the rate of the
/// time-stamp counter is measured with.
pub fn raw_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// Both clocks at one moment; those of a server for tests keep step with each other.
pub fn both() -> ClockReading {
    match test_stream::stream() {
        None => machine_both(),
        Some(stream) => {
            let now_ns = stream.now_ns();
            ClockReading { wall_ns: now_ns, mono_ns: now_ns }
        }
    }
}

/// The machine's clocks at one moment, also on a server for tests.
pub fn machine_both() -> ClockReading {
    let mut before_ns = mono_ns();
    for _ in 0..TRIES {
        let wall_ns = machine_ns();
        let after_ns = mono_ns();
        if after_ns.wrapping_sub(before_ns) <= TOGETHER_NS {
            return ClockReading { wall_ns, mono_ns: after_ns };
        }
        before_ns = after_ns;
    }
    ClockReading { wall_ns: machine_ns(), mono_ns: mono_ns() }
}

/// Whether a time service keeps the kernel's clock synchronized, as the kernel reports it; `None`
/// where it does not.
pub fn is_synchronized() -> Option<bool> {
    // SAFETY: all-zero bytes are a valid `timex`, and one that asks to change nothing.
    let mut state = unsafe { std::mem::zeroed::<libc::timex>() };
    // SAFETY: a valid place to write to.
    if unsafe { libc::adjtimex(&raw mut state) } < 0 {
        return None;
    }
    Some(state.status & libc::STA_UNSYNC == 0)
}
