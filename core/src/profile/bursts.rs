//! Ticks that a worker has used to their end, found where IDs come in order.
//!
//! A tick does not have to begin with the first number of its sequence, so it counts as used up if its last number was
//! stored and at least half of its IDs.

use crate::layout::{Field, Layout, Parts};
use crate::profile::nodes::Node;

/// The most workers that are told apart within one tick.
const MAX_NODES: usize = 256;

/// What one worker made in one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickCount {
    /// Whose.
    pub node: Node,
    /// Which.
    pub tick: u64,
    /// How many IDs.
    pub count: u64,
}

/// What was found so far.
#[derive(Clone, Debug)]
pub struct Bursts {
    capacity: u64,
    last_sequence: u32,
    tick: u64,
    /// The workers of the tick at hand, and whether each has made its last ID.
    in_tick: Vec<(TickCount, bool)>,
    fullest: Option<TickCount>,
    used_up: u64,
    run: u64,
    run_end: u64,
    longest_run: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstCounts {
    /// The fullest tick of one worker; `None` if no ID was noted.
    pub fullest: Option<TickCount>,
    /// How many ticks of a worker were used up.
    pub used_up: u64,
    /// How many ticks in a row had a worker that used them up, at most.
    pub longest_run: u64,
}

impl Bursts {
    /// Nothing noted yet.
    pub fn new(layout: &Layout) -> Bursts {
        Bursts {
            capacity: layout.per_tick(),
            last_sequence: layout.max_number(Field::Sequence),
            tick: 0,
            in_tick: Vec::new(),
            fullest: None,
            used_up: 0,
            run: 0,
            run_end: 0,
            longest_run: 0,
        }
    }

    /// The next ID. Its tick is never before that of the one before it.
    #[inline]
    pub fn note(&mut self, parts: &Parts) {
        if parts.tick != self.tick {
            self.end_tick();
            self.tick = parts.tick;
        }
        let node = Node::from(parts);
        let is_last = parts.sequence == self.last_sequence;
        // In most layouts, IDs of one worker follow each other within a tick.
        if let Some((count, reached)) =
            self.in_tick.iter_mut().rfind(|(count, _)| count.node == node)
        {
            count.count += 1;
            *reached |= is_last;
        } else if self.in_tick.len() < MAX_NODES {
            self.in_tick.push((TickCount { node, tick: parts.tick, count: 1 }, is_last));
        }
    }

    /// What came of it.
    pub fn counts(&mut self) -> BurstCounts {
        self.end_tick();
        BurstCounts { fullest: self.fullest, used_up: self.used_up, longest_run: self.longest_run }
    }

    fn end_tick(&mut self) {
        let mut any_used_up = false;
        for (count, reached) in self.in_tick.drain(..) {
            if self.fullest.is_none_or(|fullest| fullest.count < count.count) {
                self.fullest = Some(count);
            }
            if reached && count.count >= self.capacity.div_ceil(2) {
                self.used_up += 1;
                any_used_up = true;
            }
        }
        if any_used_up {
            self.run = if self.run > 0 && self.run_end + 1 == self.tick { self.run + 1 } else { 1 };
            self.run_end = self.tick;
            self.longest_run = self.longest_run.max(self.run);
        }
    }
}
