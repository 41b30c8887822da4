//! Counts for each worker of each datacenter.

use std::collections::HashMap;

use crate::layout::Parts;
use crate::profile::clock_order::ClockOrder;
use crate::profile::span::Span;

/// The most workers that are counted each for itself. What takes more is no layout of the IDs' own, or one whose
/// workers are many by design.
pub const MAX_NODES: usize = 1024;

/// A worker's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Its datacenter.
    pub datacenter: u32,
    /// Itself.
    pub worker: u32,
}

impl From<&Parts> for Node {
    fn from(parts: &Parts) -> Node {
        Node { datacenter: parts.datacenter, worker: parts.worker }
    }
}

/// What one worker made.
#[derive(Clone, Copy, Debug)]
pub struct NodeCounts {
    /// Which one.
    pub node: Node,
    /// How many, and when.
    pub span: Span,
    /// Whether its clock seems to have been set back.
    pub order: ClockOrder,
}

/// Counts for each worker.
#[derive(Clone, Debug)]
pub struct Nodes {
    counts: Vec<NodeCounts>,
    places: HashMap<Node, usize>,
    latest: usize,
    /// Those for which there was no room.
    pub others: Span,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes { counts: Vec::new(), places: HashMap::new(), latest: 0, others: Span::EMPTY }
    }
}

impl Nodes {
    /// Counts an ID of a table's next row.
    #[inline]
    pub fn note(&mut self, table: u32, node: Node, unix_ms: i64) {
        let place = match self.counts.get(self.latest) {
            Some(latest) if latest.node == node => Some(self.latest),
            _ => self.place(node),
        };
        let Some(counts) = place.and_then(|place| self.counts.get_mut(place)) else {
            self.others.note(unix_ms);
            return;
        };
        counts.span.note(unix_ms);
        counts.order.note(table, unix_ms);
    }

    fn place(&mut self, node: Node) -> Option<usize> {
        let place = match self.places.get(&node) {
            Some(&place) => place,
            None if self.counts.len() >= MAX_NODES => return None,
            None => {
                self.places.insert(node, self.counts.len());
                self.counts.push(NodeCounts {
                    node,
                    span: Span::EMPTY,
                    order: ClockOrder::default(),
                });
                self.counts.len() - 1
            }
        };
        self.latest = place;
        Some(place)
    }

    /// What each made, in the order of their numbers.
    pub fn sorted(&self) -> Vec<NodeCounts> {
        let mut sorted = self.counts.clone();
        sorted.sort_by_key(|counts| counts.node);
        sorted
    }
}
