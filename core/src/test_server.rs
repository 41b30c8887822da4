//! Servers for tests: the same statements give the same IDs in each run.
//!
//! Such a server has a clock that begins at a fixed time and moves by one step with each ID, and random bits that are a
//! function of that time and of how many were drawn. Both are one stream for all of its processes. Where a run ends is
//! durable ahead of use, as a bound, like a reservation: the next run begins there, so it repeats nothing, neither after
//! a stop nor after a crash. The bound is also the mark by which the data directory is known as one for tests.
//!
//! The clock stays below the real one. So an ID of a test is never one that a real server is about to make.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use jiff::Timestamp;

use crate::time::NS_PER_MS;

/// The file, below the data directory.
pub const MARK_FILE: &str = "id_gen/test";

/// How far the clock moves with each ID: 1 ms, so that nearly all have a time of their own.
pub const STEP_NS: u64 = NS_PER_MS;
/// How far the bound is moved ahead: 1 h.
const AHEAD_NS: u64 = 3_600_000 * NS_PER_MS;
/// How far it stays ahead, for IDs that lead the clock: 1 min.
const LEAST_AHEAD_NS: u64 = 60_000 * NS_PER_MS;

/// When a server for tests begins, as the setting says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestStart {
    /// At this Unix millisecond.
    At(i64),
    /// The setting holds no time.
    Invalid,
}

impl TestStart {
    /// What a text says; `None` if it is empty, on a server that is not for tests.
    pub fn parse(text: &str) -> Option<TestStart> {
        match text.trim() {
            "" => None,
            text => Some(match text.parse::<Timestamp>() {
                Ok(time) if time.as_millisecond() > 0 => TestStart::At(time.as_millisecond()),
                _ => TestStart::Invalid,
            }),
        }
    }
}

/// The time and the random bits of a server for tests, in shared memory.
#[repr(C)]
#[derive(Debug, Default)]
pub struct TestStream {
    now_ns: AtomicU64,
    /// No ID of this time or later may be made before a larger bound is durable; zero at first.
    bound_ns: AtomicU64,
    seed: AtomicU64,
    draws: AtomicU64,
}

impl TestStream {
    /// Begins at this Unix millisecond: the first ID is of it.
    pub fn begin(&self, start_ms: i64) {
        let start_ns = u64::try_from(start_ms).unwrap_or(0).saturating_mul(NS_PER_MS);
        self.now_ns.store(start_ns.saturating_sub(STEP_NS), Relaxed);
        self.seed.store(mixed(start_ns), Relaxed);
        self.draws.store(0, Relaxed);
        self.bound_ns.store(0, Relaxed);
    }

    /// The clock.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Relaxed)
    }

    /// Moves the clock by a step, for the next ID.
    pub fn step(&self) {
        self.now_ns.fetch_add(STEP_NS, Relaxed);
    }

    /// Moves the clock up to a time: what a wait comes to.
    pub fn advance_to(&self, ns: u64) {
        self.now_ns.fetch_max(ns, Relaxed);
    }

    /// Whether nothing was made durable since the server started.
    pub fn is_new(&self) -> bool {
        self.bound_ns.load(Relaxed) == 0
    }

    /// The bound that has to be durable before an ID of the present time is made, in Unix milliseconds, if it is not.
    pub fn next_bound_ms(&self) -> Option<i64> {
        let now_ns = self.now_ns();
        if now_ns + LEAST_AHEAD_NS <= self.bound_ns.load(Relaxed) {
            return None;
        }
        Some((now_ns.saturating_add(AHEAD_NS) / NS_PER_MS).cast_signed())
    }

    /// Notes a bound that is durable.
    pub fn put_bound(&self, until_ms: i64) {
        let bound_ns = u64::try_from(until_ms).unwrap_or(0).saturating_mul(NS_PER_MS);
        self.bound_ns.fetch_max(bound_ns, Relaxed);
    }

    /// The next 64 bits.
    pub fn draw(&self) -> u64 {
        let number = self.draws.fetch_add(1, Relaxed);
        mixed(self.seed.load(Relaxed).wrapping_add(number.wrapping_mul(GOLDEN)))
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's output (Steele, Lea and Flood, 2014): one to one, so no two draws of a run are alike.
const fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(GOLDEN);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The database cluster.
    pub system_identifier: u64,
    /// No ID of this Unix millisecond or later was made for tests.
    pub until_ms: i64,
}

const ABOUT: &str =
    "This data directory belongs to a server for tests: its IDs are the same in each run.";

impl Mark {
    /// As the file has it.
    pub fn encode(&self) -> String {
        let Mark { system_identifier, until_ms } = self;
        format!("{ABOUT}\nsystem_identifier {system_identifier}\nuntil_ms {until_ms}\n")
    }

    /// What a file says; `None` if it is no such file.
    pub fn decode(text: &str) -> Option<Mark> {
        let mut lines = text.split('\n');
        if lines.next() != Some(ABOUT) {
            return None;
        }
        let system_identifier = lines.next()?.strip_prefix("system_identifier ")?.parse().ok()?;
        let until_ms = lines.next()?.strip_prefix("until_ms ")?.parse().ok()?;
        let mark = Mark { system_identifier, until_ms };
        // Nothing is missing, and nothing added.
        (mark.encode() == text).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_time_with_its_zone() {
        let start = TestStart::At(1_717_200_000_000);
        for text in ["2024-06-01 00:00:00+00", "2024-06-01T02:00:00+02:00", " 2024-06-01 00:00:00Z"]
        {
            assert_eq!(TestStart::parse(text), Some(start), "{text}");
        }
        for text in ["2024-06-01", "2024-06-01 00:00:00", "soon", "1960-01-01 00:00:00Z", "\u{e9}"]
        {
            assert_eq!(TestStart::parse(text), Some(TestStart::Invalid), "{text}");
        }
        assert_eq!(TestStart::parse(" "), None);
    }

    #[test]
    fn the_first_id_is_of_the_start_and_two_runs_are_alike() {
        let run = |start_ms| {
            let stream = TestStream::default();
            stream.begin(start_ms);
            let times: Vec<u64> = (0..3)
                .map(|_| {
                    stream.step();
                    stream.now_ns()
                })
                .collect();
            (times, [stream.draw(), stream.draw(), stream.draw()])
        };
        assert_eq!(run(1_717_200_000_000), run(1_717_200_000_000));
        let (times, draws) = run(1_717_200_000_000);
        assert_eq!(times[0], 1_717_200_000_000 * NS_PER_MS);
        assert_eq!(times[2], times[0] + 2 * STEP_NS);
        let (_, later) = run(1_717_203_600_000);
        assert!(draws.iter().all(|draw| !later.contains(draw)));
    }

    #[test]
    fn the_bound_stays_ahead_and_is_asked_for_seldom() {
        let stream = TestStream::default();
        stream.begin(1_717_200_000_000);
        assert!(stream.is_new());
        let mut bounds = Vec::new();
        for _ in 0..10_000_000 {
            stream.step();
            if let Some(until_ms) = stream.next_bound_ms() {
                stream.put_bound(until_ms);
                bounds.push(until_ms);
            }
        }
        assert_eq!(bounds.len(), 3);
        assert!(stream.now_ns() < bounds[2].unsigned_abs() * NS_PER_MS);
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_no_other() {
        let mark = Mark { system_identifier: u64::MAX, until_ms: 1_717_203_600_000 };
        let text = mark.encode();
        assert_eq!(Mark::decode(&text), Some(mark));
        for length in 0..text.len() {
            assert_eq!(Mark::decode(&text[..length]), None);
        }
        assert_eq!(Mark::decode(&format!("{text}\n")), None);
    }
}
