//! The numbers that a server may take: of one datacenter, from the first worker ID to the last, without those of servers that it
//! is a copy of.

use crate::fleet::grant::Number;
use crate::layout::Layout;
use crate::originals::{Original, Originals};

/// The numbers that a server may take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// The layout of this server.
    pub layout: Layout,
    /// The datacenter ID.
    pub datacenter: u32,
    /// The first worker ID.
    pub first: u32,
    /// The last worker ID.
    pub last: u32,
    /// The servers that this one is a copy of, if there are any: no number is allowed that is theirs outside of the fleet.
    pub originals: Option<Box<Originals>>,
}

impl Numbers {
    /// Whether this is one of them.
    pub fn contain(&self, number: Number) -> bool {
        number.datacenter == self.datacenter
            && (self.first..=self.last).contains(&number.worker)
            && !self.may_be_of_others(number)
    }

    /// Whether the range is a single number.
    pub const fn is_one(&self) -> bool {
        self.first == self.last
    }

    /// Whether one of [`Numbers::originals`] may generate its IDs.
    fn may_be_of_others(&self, number: Number) -> bool {
        let own = Original { layout: self.layout, number };
        self.originals.as_ref().is_some_and(|originals| originals.refuse_grant(own).is_some())
    }

    /// How many numbers in the range are not allowed because of [`Numbers::originals`].
    pub fn count_of_others(&self) -> usize {
        let may_be_of_others = |number: &Number| self.may_be_of_others(*number);
        self.originals.as_ref().map_or(0, |_| self.in_range().filter(may_be_of_others).count())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Number> {
        self.in_range().filter(|number| !self.may_be_of_others(*number))
    }

    fn in_range(&self) -> impl Iterator<Item = Number> + use<> {
        let datacenter = self.datacenter;
        (self.first..=self.last).map(move |worker| Number { datacenter, worker })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::originals::Claim;
    use crate::presets;

    #[test]
    fn no_number_of_a_server_outside_of_the_fleet_is_allowed_in_whatever_layout_it_has_it() {
        let layout = presets::by_name(presets::DEFAULT).unwrap().layout;
        // The bits of its worker ID 5 are those of 10 and 11 in a worker ID that is one bit longer.
        let wide = "epoch=2024-01-01 tick=1ms time:41 worker:11 sequence:11".parse().unwrap();
        let number = |worker| Number { datacenter: 0, worker };
        let originals =
            Originals::NONE.with(Original { layout, number: number(5) }, Claim::Assigned);
        let numbers = |layout, first, last, originals| {
            let originals = Some(Box::new(originals));
            Numbers { layout, datacenter: 0, first, last, originals }
        };
        let allowed = |numbers: &Numbers| numbers.all().map(|it| it.worker).collect::<Vec<_>>();
        assert_eq!(allowed(&numbers(layout, 5, 6, originals)), [6]);
        let none = numbers(wide, 10, 11, originals);
        assert_eq!((allowed(&none), none.count_of_others()), (vec![], 2));
        let accepted = originals.accept(Original { layout: wide, number: number(11) });
        assert_eq!(allowed(&numbers(wide, 10, 11, accepted)), [11]);
    }
}
