//! The servers whose data directory this one is a copy of: what they generate must not be generated here.
//!
//! A copy that has another worker ID than its original is a server of its own, and writes a reservation of its own. So that it
//! stays known as a copy, the reservation lists the numbers of its originals, and those that a superuser has confirmed as this
//! server's. Nothing is inferred from the IDs that were generated with a number: a member of a fleet and a server for tests
//! generate without a comparison. A copy of the copy takes all of these for numbers of others.

use crate::fleet::grant::Number;
use crate::layout::Layout;

/// How many numbers are listed.
const MOST: usize = 16;

/// A server that may still generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The server that has a number, and who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// Another server's, to which an administrator assigned it.
    Assigned,
    /// Another server's, to which a registry granted it, so that no other member of its fleet gets it.
    Granted,
    /// This server's: a superuser said so, whatever others have.
    Accepted,
}

/// All listed numbers of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Originals {
    listed: [Option<(Original, Claim)>; MOST],
    /// There are originals that are not listed, so that any number may be one of theirs.
    pub has_more: bool,
}

impl Originals {
    /// Those of a directory that is not a copy: none.
    pub const NONE: Originals = Originals { listed: [None; MOST], has_more: false };

    /// The listed numbers.
    pub fn iter(&self) -> impl Iterator<Item = &(Original, Claim)> {
        self.listed.iter().flatten()
    }

    /// These, and one more. What an administrator assigned is not a registry's to grant, whoever else got it.
    pub fn with(mut self, original: Original, claim: Claim) -> Originals {
        let has_it = |place: &&mut Option<_>| place.is_some_and(|(listed, _)| listed == original);
        if let Some(place) = self.listed.iter_mut().find(has_it) {
            let is_assigned = *place == Some((original, Claim::Assigned));
            let stays = is_assigned && claim == Claim::Granted;
            *place = Some((original, if stays { Claim::Assigned } else { claim }));
        } else if let Some(place) = self.listed.iter_mut().find(|place| place.is_none()) {
            *place = Some((original, claim));
        } else {
            self.has_more = true;
        }
        self
    }

    /// These, and those of others that are not among them.
    pub fn and(self, others: &Originals) -> Originals {
        let has_more = self.has_more || others.has_more;
        let is_new = |other: &&(Original, Claim)| self.iter().all(|(listed, _)| *listed != other.0);
        others
            .iter()
            .filter(is_new)
            .fold(Originals { has_more, ..self }, |all, (original, claim)| {
                all.with(*original, *claim)
            })
    }

    /// These, as a copy of this directory knows them: what was this server's is another's there.
    pub fn of_copy(mut self) -> Originals {
        for (_, claim) in self.listed.iter_mut().flatten() {
            if *claim == Claim::Accepted {
                *claim = Claim::Assigned;
            }
        }
        self
    }

    /// These, once a superuser has said that a number is this server's. One that is nobody else's is not listed.
    pub fn accept(mut self, own: Original) -> Originals {
        if self.refuse(own).is_none() {
            return self;
        }
        let all = self.with(own, Claim::Accepted);
        if all.refuse(own).is_none() {
            return all;
        }
        // No room: one of the others is known no more by its number.
        let is_other =
            |place: &Option<(_, Claim)>| place.is_some_and(|(_, it)| it != Claim::Accepted);
        let place = self.listed.iter().rposition(is_other).unwrap_or(0);
        self.listed[place] = Some((own, Claim::Accepted));
        Originals { has_more: true, ..self }
    }

    /// Whether a superuser has said that a number is this server's.
    pub fn is_accepted(&self, own: Original) -> bool {
        self.iter().any(|it| *it == (own, Claim::Accepted))
    }

    /// The number of another server for which a number in a layout is refused; that number itself, if the other is not listed.
    pub fn refuse(&self, own: Original) -> Option<Number> {
        self.refuse_as(own, |claim| claim != Claim::Accepted, self.has_more)
    }

    /// The number of another server for which a registry must not grant a number in a layout: the registry does not know of
    /// what an administrator assigned.
    pub fn refuse_grant(&self, own: Original) -> Option<Number> {
        self.refuse_as(own, |claim| claim == Claim::Assigned, false)
    }

    fn refuse_as(
        &self,
        own: Original,
        counts: impl Fn(Claim) -> bool,
        unlisted_counts: bool,
    ) -> Option<Number> {
        if self.is_accepted(own) {
            return None;
        }
        let may_make = |(original, claim): &&(Original, Claim)| {
            counts(*claim) && original.may_make(&own.layout, own.number)
        };
        let unlisted = unlisted_counts.then_some(own.number);
        self.iter().find(may_make).map(|(original, _)| original.number).or(unlisted)
    }
}
