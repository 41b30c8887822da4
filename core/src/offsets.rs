//! Sequences of several servers whose numbers never meet: of `n` nodes, node `k` makes the numbers that leave the
//! remainder of `k` when they are divided by `n`, so that of two nodes one has 1, 3, 5, … and the other 2, 4, 6, …
//!
//! [`Class`] is that set of numbers. [`Sequence::placed`] is the rule of where a sequence goes on in it: at the first
//! number of the class above everything that this sequence has handed out, that its columns hold, and that the
//! administrator named as the highest number of all nodes. [`Sequence::fenced`] is the rule of the bound that keeps
//! nodes which still work by the old division below everything that is handed out by the new one; with it the number of
//! nodes can grow while they run, in any order (`core/tests/offsets.rs` tries the orders).

use std::fmt;

/// The most servers that sequences are divided among. The steps for so many are a list that a person still reads.
pub const MOST_NODES: u32 = 1000;

/// The numbers of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    node: u32,
    nodes: u32,
}

impl Class {
    /// The numbers of node `node` of `nodes`, counted from 1; `None` if there is no such node.
    pub fn new(node: i64, nodes: i64) -> Option<Class> {
        let nodes = u32::try_from(nodes).ok()?;
        let node = u32::try_from(node).ok().filter(|node| (1..=nodes).contains(node))?;
        Some(Class { node, nodes })
    }

    /// The one that a number belongs to, of so many nodes.
    pub fn of(number: i64, nodes: u32) -> Class {
        let remainder = number.rem_euclid(i64::from(nodes.max(1))) as u32;
        Class { node: if remainder == 0 { nodes.max(1) } else { remainder }, nodes: nodes.max(1) }
    }

    /// The node, from 1.
    pub const fn node(self) -> u32 {
        self.node
    }

    /// How many nodes there are: the increment of their sequences.
    pub const fn nodes(self) -> u32 {
        self.nodes
    }

    /// Whether a number is one of the node's.
    pub fn holds(self, number: i64) -> bool {
        Class::of(number, self.nodes) == self
    }

    /// The lowest of its numbers that is not below this one; `None` beyond 64 bits.
    pub fn first_from(self, least: i64) -> Option<i64> {
        let missing = (i64::from(self.node) - least.rem_euclid(i64::from(self.nodes)))
            .rem_euclid(i64::from(self.nodes));
        least.checked_add(missing)
    }

    /// How many of its numbers there are from one of them up to a limit.
    pub fn count(self, first: i64, limit: i64) -> u64 {
        if first > limit { 0 } else { limit.abs_diff(first) / u64::from(self.nodes) + 1 }
    }
}

/// A sequence as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// What is added from one number to the next.
    pub increment: i64,
    /// The smallest number that it may have.
    pub min: i64,
    /// The largest number that it may have.
    pub max: i64,
    /// The largest number that the types of the sequence and of its columns hold.
    pub widest: i64,
    /// Where `TRUNCATE … RESTART IDENTITY` lets it begin again.
    pub start: i64,
    /// Whether it begins again behind its end.
    pub cycle: bool,
    /// The last number that it has handed out, or, if none, the next one.
    pub last: i64,
    /// Whether it has handed out one.
    pub is_called: bool,
    /// The largest number in its columns.
    pub stored: Option<i64>,
}

/// Where a sequence goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its next number.
    pub first: i64,
    /// How many numbers it has from there on.
    pub left: u64,
    /// Whether its largest number is the bound of a fence, which ends.
    pub unfenced: bool,
}

/// Why a sequence can't be one of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It counts down.
    Descending,
    /// It begins again behind its end, and so repeats numbers.
    Cycles,
    /// It has handed out a number by another division beyond the bound that was named for all nodes.
    Beyond {
        /// The number.
        highest: i64,
        /// The bound.
        above: i64,
    },
    /// There is no number left for the node.
    UsedUp {
        /// What it would have to begin above.
        highest: Option<i64>,
        /// The largest number that it may have.
        limit: i64,
    },
    /// It has a largest number of its own, which a fence would replace.
    Bounded(i64),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Descending => f.write_str("its increment is negative"),
            Obstacle::Cycles => f.write_str("it has the option CYCLE, which repeats numbers"),
            Obstacle::Beyond { highest, above } => {
                write!(f, "it has already reached {highest}, which is above {above}")
            }
            Obstacle::UsedUp { highest: Some(highest), limit } => {
                write!(f, "no number above {highest} is left (maximum {limit})")
            }
            Obstacle::UsedUp { highest: None, limit } => {
                write!(f, "no number is left (maximum {limit})")
            }
            Obstacle::Bounded(max) => write!(f, "it already has a maximum, {max}"),
        }
    }
}

/// What is wrong with a sequence that should be that of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It counts by another number than that of the nodes.
    Increment(i64),
    /// It makes the numbers of another node.
    OtherNode(u32),
    /// Begun again, it would make those of another node.
    StartOfOtherNode(u32),
    /// It begins again behind its end.
    Cycles,
    /// A row has a number of the node's above the last one: the sequence will come to it.
    Ahead(i64),
    /// So many numbers are left, less than a tenth of all.
    NearlyUsedUp(u64),
    /// None is left up to this limit.
    UsedUp(i64),
}

impl Fault {
    /// Whether it is less than an error.
    pub const fn is_warning(self) -> bool {
        matches!(self, Fault::NearlyUsedUp(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Increment(increment) => {
                write!(f, "its increment is {increment}, so it returns numbers of other nodes")
            }
            Fault::OtherNode(node) => write!(f, "it returns the numbers of node {node}"),
            Fault::StartOfOtherNode(node) => {
                write!(
                    f,
                    "after TRUNCATE ... RESTART IDENTITY, it would return the numbers of node {node}"
                )
            }
            Fault::Cycles => f.write_str("it has the option CYCLE, which repeats numbers"),
            Fault::Ahead(number) => write!(
                f,
                "a row already has {number}: it was inserted manually or on a server with the same node"
            ),
            Fault::NearlyUsedUp(left) => {
                if *left == 1 {
                    f.write_str("1 number is left")
                } else {
                    write!(f, "{left} numbers are left")
                }
            }
            Fault::UsedUp(limit) => write!(f, "no number is left (maximum {limit})"),
        }
    }
}

impl Sequence {
    /// The last number that it has handed out, where it says so.
    pub fn handed_out(&self) -> Option<i64> {
        self.is_called.then_some(self.last)
    }

    /// The highest number that it can have handed out. One that was told where to go on, as every division does, no longer
    /// says what it handed out before, but that was below.
    fn come_to(&self) -> Option<i64> {
        self.handed_out().or_else(|| (self.last > self.min).then(|| self.last - 1))
    }

    /// The highest number that it can have handed out or that its columns hold.
    pub fn highest(&self) -> Option<i64> {
        self.come_to().max(self.stored)
    }

    /// Where it goes on as that of a node, above this number. As the number is a promise that no node goes beyond it by
    /// the division so far, a sequence that did is refused.
    ///
    /// # Errors
    /// If it can't.
    pub fn placed(&self, class: Class, above: Option<i64>) -> Result<Placed, Obstacle> {
        if self.increment < 0 {
            return Err(Obstacle::Descending);
        }
        if self.cycle {
            return Err(Obstacle::Cycles);
        }
        if let (Some(highest), Some(above)) = (self.come_to(), above)
            && highest > above
            && !self.is_of(class)
            && !self.is_new()
        {
            return Err(Obstacle::Beyond { highest, above });
        }
        let unfenced = above == Some(self.max) && self.max < self.widest;
        let limit = if unfenced { self.widest } else { self.max.min(self.widest) };
        let highest = self.highest().max(above);
        let next = match highest {
            Some(highest) => highest.checked_add(1),
            None => Some(self.min),
        };
        // Where setval() has said which number is the next one, it goes on there.
        let least = next.map(|next| if self.is_called { next } else { next.max(self.last) });
        least
            .and_then(|least| class.first_from(least.max(self.min)))
            .filter(|&first| first <= limit)
            .map(|first| Placed { first, left: class.count(first, limit), unfenced })
            .ok_or(Obstacle::UsedUp { highest, limit })
    }

    /// Whether it may be held at or below a number, so that others can begin above. It may if it has not come beyond. A
    /// lower bound holds it already, and stays; a higher one of its own would be lost.
    ///
    /// # Errors
    /// If it may not.
    pub fn fenced(&self, above: i64) -> Result<(), Obstacle> {
        // `MAXVALUE` can be neither below the next number nor below the start.
        let highest = self.highest().max(Some(self.start));
        let highest = highest.max((!self.is_called).then_some(self.last));
        if self.increment < 0 {
            Err(Obstacle::Descending)
        } else if self.cycle {
            Err(Obstacle::Cycles)
        } else if self.max < self.widest && self.max <= above {
            Ok(())
        } else if let Some(highest) = highest.filter(|&highest| highest > above) {
            Err(Obstacle::Beyond { highest, above })
        } else if self.max < self.widest {
            Err(Obstacle::Bounded(self.max))
        } else if above >= self.widest {
            Err(Obstacle::UsedUp { highest: Some(above), limit: self.widest })
        } else {
            Ok(())
        }
    }

    /// What is wrong with it as that of a node; `ahead` is a row's number of the node's above the last one.
    pub fn faults(&self, class: Class, ahead: Option<i64>) -> Vec<Fault> {
        let nodes = class.nodes;
        let mut found = Vec::new();
        if self.increment == i64::from(nodes) {
            if !class.holds(self.last) {
                found.push(Fault::OtherNode(Class::of(self.last, nodes).node));
            }
            if !class.holds(self.start) {
                found.push(Fault::StartOfOtherNode(Class::of(self.start, nodes).node));
            }
        } else {
            found.push(Fault::Increment(self.increment));
        }
        if self.cycle {
            found.push(Fault::Cycles);
        }
        found.extend(ahead.map(Fault::Ahead));
        let limit = self.max.min(self.widest);
        let left = class.count(self.last, limit).saturating_sub(u64::from(self.is_called));
        // One that counts down has to be made another sequence anyway.
        if self.increment < 0 {
            return found;
        }
        if left == 0 {
            found.push(Fault::UsedUp(limit));
        } else if left < class.count(self.min, limit) / 10 {
            found.push(Fault::NearlyUsedUp(left));
        }
        found
    }

    /// Whether it is as `CREATE SEQUENCE` makes it.
    fn is_new(&self) -> bool {
        !self.is_called && self.increment == 1 && self.last == self.start
    }

    /// Whether it makes the numbers of a node.
    fn is_of(&self, class: Class) -> bool {
        self.increment == i64::from(class.nodes) && class.holds(self.last)
    }
}
