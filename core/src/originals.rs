//! The servers whose data directory this one is a copy of: what they generate must not be generated here.
//!
//! A copy that has another worker ID than its original is a server of its own, and writes a reservation of its own. So that it
//! stays known as a copy, the reservation names each original until a superuser says that its worker ID is this server's.

use crate::fleet::Number;
use crate::layout::Layout;

/// How many originals a directory can have: it is a copy of a copy, and each has generated with another number.
pub const MOST: usize = 16;

/// A server that may still generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// The layout of its IDs.
    pub layout: Layout,
    /// The worker and datacenter ID in its IDs.
    pub number: Number,
}

impl Original {
    /// Whether IDs of a number in a layout may be those of the original.
    pub fn may_make(&self, layout: &Layout, number: Number) -> bool {
        let node_bits = |layout: &Layout, Number { datacenter, worker }| {
            layout.node_bits(datacenter.into(), worker.into())
        };
        let (Ok(its), Ok(own)) = (node_bits(&self.layout, self.number), node_bits(layout, number))
        else {
            return true;
        };
        let shared = self.layout.node_mask() & layout.node_mask();
        self.number == number || (its ^ own) & shared == 0
    }
}

/// All originals of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Originals([Option<Original>; MOST]);

impl Originals {
    /// The originals of a directory that is not a copy: none.
    pub const NONE: Originals = Originals([None; MOST]);

    /// The originals, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Original> {
        self.0.iter().flatten()
    }

    /// These, and one more; `None` if there is no room.
    pub fn with(mut self, original: Original) -> Option<Originals> {
        if !self.iter().any(|known| *known == original) {
            *self.0.iter_mut().find(|place| place.is_none())? = Some(original);
        }
        Some(self)
    }

    /// The original whose IDs a number in a layout may be. `is_accepted` says that the number is this server's in that
    /// layout, whatever originals have in other layouts.
    pub fn of_same_ids(&self, own: Original, is_accepted: bool) -> Option<&Original> {
        let may_make = |it: &Original| !is_accepted && it.may_make(&own.layout, own.number);
        self.iter().find(|it| **it == own || may_make(it))
    }
}
