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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Claim {
    /// Another server's, to which a registry granted it, so that no other member of its fleet gets it.
    Granted,
    /// Another server's, to which an administrator assigned it.
    Assigned,
    /// This server's: a superuser said so, whatever others have.
    Accepted,
}

/// All listed numbers of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Originals {
    listed: [Option<(Original, Claim)>; MOST],
    /// The strongest claim of the originals that are not listed, if there are any: any number may be one of theirs.
    pub has_more: Option<Claim>,
}

impl Originals {
    /// Those of a directory that is not a copy: none.
    pub const NONE: Originals = Originals { listed: [None; MOST], has_more: None };

    /// The listed numbers.
    pub fn iter(&self) -> impl Iterator<Item = &(Original, Claim)> {
        self.listed.iter().flatten()
    }

    /// These, and one more. What an administrator assigned is not a registry's to grant, whoever else got it. If there is no
    /// room, the one with the least claim is known no more by its number.
    pub fn with(mut self, original: Original, claim: Claim) -> Originals {
        let has_it = |place: &&mut Option<_>| place.is_some_and(|(listed, _)| listed == original);
        if let Some(place) = self.listed.iter_mut().find(has_it) {
            let is_assigned = *place == Some((original, Claim::Assigned));
            let stays = is_assigned && claim == Claim::Granted;
            *place = Some((original, if stays { Claim::Assigned } else { claim }));
            return self;
        }
        let least = self.listed.iter_mut().min_by_key(|place| place.map(|(_, claim)| claim));
        let forgotten = match least {
            Some(place) if place.is_none_or(|(_, its)| its < claim || claim == Claim::Accepted) => {
                place.replace((original, claim)).map(|(_, its)| its)
            }
            _ => Some(claim),
        };
        // An accepted one may be another server's, too.
        self.has_more = self.has_more.max(forgotten.map(|it| it.min(Claim::Assigned)));
        self
    }

    /// These, and those of others that are not among them.
    pub fn and(self, others: &Originals) -> Originals {
        let has_more = self.has_more.max(others.has_more);
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
    pub fn accept(self, own: Original) -> Originals {
        if self.refuse(own).is_none() { self } else { self.with(own, Claim::Accepted) }
    }

    /// Whether a superuser has said that a number is this server's.
    pub fn is_accepted(&self, own: Original) -> bool {
        self.iter().any(|it| *it == (own, Claim::Accepted))
    }

    /// The number of another server for which a number in a layout is refused; that number itself, if the other is not listed.
    pub fn refuse(&self, own: Original) -> Option<Number> {
        self.refuse_from(Claim::Granted, own)
    }

    /// The number of another server for which a registry must not grant a number in a layout: the registry does not know of
    /// what an administrator assigned.
    pub fn refuse_grant(&self, own: Original) -> Option<Number> {
        self.refuse_from(Claim::Assigned, own)
    }

    /// The same, for others with so much of a claim.
    fn refuse_from(&self, least: Claim, own: Original) -> Option<Number> {
        if self.is_accepted(own) {
            return None;
        }
        let may_make = |(original, claim): &&(Original, Claim)| {
            (least..Claim::Accepted).contains(claim) && original.may_make(&own.layout, own.number)
        };
        let unlisted = self.has_more.filter(|claim| *claim >= least).map(|_| own.number);
        self.iter().find(may_make).map(|(original, _)| original.number).or(unlisted)
    }
}
