//! The look at the grants before the first acquisition, and the number that a server chooses.
//!
//! A server that cannot show that it held its number until just now compares listings for a while. Grants of other servers that
//! are renewed meanwhile confirm its clock, or show that it is ahead. If the grant of its own identity is renewed, the server
//! runs on a block-level copy of another server's disk: it gets a new identity, and the original keeps its number.

use std::collections::BTreeMap;

use super::{Candidate, Event, LocalInputs, Member, State};
use crate::fleet::grant::{Grant, GrantState, Number};
use crate::fleet::registry::Listing;
use crate::planted::Fault;

/// The grants that a server has seen since it started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Look {
    /// End of the look, on the clock of [`LocalInputs::boot_ms`].
    ends_boot_ms: u64,
    /// Time of the next listing, on the same clock.
    pub(super) again_boot_ms: u64,
    /// Grants that are held and were not written by this process.
    pub(super) held: Vec<Seen>,
    /// One of them that has this server's identity and has not ended.
    pub(super) own: Option<Own>,
}

/// A grant that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    number: Number,
    pub(super) tag: u128,
    until_ms: i64,
    /// `None` until it is renewed; then, whether it had not ended by this server's clock.
    agrees: Option<bool>,
}

/// A held grant with the server's own identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Own {
    pub(super) number: Number,
    pub(super) tag: u128,
    pub(super) until_ms: i64,
    /// Number of changes since it was found.
    changes: u32,
    /// Time at which it was found or changed last, on the clock of [`LocalInputs::boot_ms`].
    changed_boot_ms: u64,
}

/// Number of changes that show that another process renews a grant. The first can be a late write of this server's last process,
/// which sends one request at a time.
const CHANGES_OF_ANOTHER: u32 = 2;

/// Among how many numbers that were never held a server chooses: enough that servers which start together rarely choose the same.
const CHOICES: usize = 64;

impl Look {
    /// Numbers of renewed grants that confirm this server's clock, and that do not.
    fn votes(&self) -> (usize, usize) {
        let count = |vote| self.held.iter().filter(|seen| seen.agrees == Some(vote)).count();
        (count(true), count(false))
    }
}

impl Member {
    /// Chooses a number from a listing, or looks on.
    pub(super) fn choose(
        &mut self,
        listing: Listing,
        local: &LocalInputs,
        choose: impl FnOnce(usize) -> usize,
    ) -> Event {
        let Listing { floor_ms, grants, shards } = listing;
        let floor_ms = self.terms.believable_ms(floor_ms, local.wall_ms);
        let is_shard = |number: &Number| shards.binary_search(number).is_ok();
        let may_take = |(number, grant): &&(Number, Grant)| {
            !is_shard(number) && self.may_take_again(*number, grant, local)
        };
        let own = grants.iter().find(may_take);
        let continues = own.is_some_and(|(_, grant)| self.continues(grant, local));
        if !continues && let Some(event) = self.look(&grants, local) {
            return event;
        }
        let (number, found) = match own {
            Some((number, grant)) => (*number, Some(grant)),
            None => {
                let free = self.free_numbers(&grants, is_shard, local.wall_ms);
                if free.is_empty() {
                    return Event::NoFreeNumber;
                }
                free[choose(free.len()).min(free.len() - 1)]
            }
        };
        // What it writes now, the others judge by.
        self.clock_is_confirmed = true;
        let found = found.cloned();
        self.state = State::Candidate(Candidate { number, found, floor_ms, continues });
        Event::Quiet
    }

    /// Compares a listing with those before. Returns an event if no number may be taken yet.
    fn look(&mut self, grants: &[(Number, Grant)], local: &LocalInputs) -> Option<Event> {
        let look = self.seen_so_far(grants, local);
        let own = look.own;
        if own.is_some_and(|own| own.changes >= CHANGES_OF_ANOTHER) {
            return Some(Event::Copied);
        }
        self.state = State::Outside;
        let is_long = local.boot_ms >= look.ends_boot_ms;
        if !self.clock_is_confirmed && !self.founds(local) {
            let (agree, against) = look.votes();
            if !is_long && agree + against < look.held.len() {
                self.state = State::Looking(look);
                return Some(Event::Quiet);
            }
            if against > agree {
                return Some(Event::ClockAhead { against, agree });
            }
            self.clock_is_confirmed = true;
        }
        // One whose end a wrong clock has set does not end: it is taken again if it is not renewed for as long as a look takes.
        let is_quiet = |own: Own| {
            local.boot_ms.saturating_sub(own.changed_boot_ms) >= self.terms.discovery_ms()
        };
        let is_awaited = |own: Own| self.is_believable(own.until_ms, local) || !is_quiet(own);
        if own.is_some_and(is_awaited) {
            self.state = State::Looking(look);
            return Some(Event::Quiet);
        }
        None
    }

    /// The grants seen so far, updated by a listing.
    fn seen_so_far(&self, grants: &[(Number, Grant)], local: &LocalInputs) -> Look {
        // The look starts again after a long silence, or if the registry went back.
        let went_back = |seen: &Seen| {
            let found = grants.iter().find(|(number, _)| *number == seen.number);
            found.is_none_or(|(_, grant)| grant.until_ms < seen.until_ms)
        };
        let before = match &self.state {
            State::Looking(look) => Some(look).filter(|look| {
                let latest_boot_ms = look.again_boot_ms.saturating_add(self.terms.discovery_ms());
                local.boot_ms <= latest_boot_ms && !look.held.iter().any(went_back)
            }),
            _ => None,
        };
        let is_others = |(_, grant): &&(Number, Grant)| {
            grant.state == GrantState::Held
                && !grant.is_unreadable()
                && !self.continues(grant, local)
                && !self.has_written(grant)
        };
        let held = grants.iter().filter(is_others);
        let own = held.clone().find(|(number, grant)| {
            (self.is_own(grant) || self.has_same_id(grant))
                && !self.terms.is_over(grant, local.wall_ms)
                && (self.is_only(*number) || self.is_believable(grant.until_ms, local))
        });
        let own = own.map(|(number, grant)| {
            let Grant { tag, until_ms, .. } = *grant;
            let last = before.and_then(|look| look.own).filter(|last| last.number == *number);
            match last {
                Some(last) if last.tag == tag => Own { until_ms, ..last },
                _ => Own {
                    number: *number,
                    tag,
                    until_ms,
                    changes: last.map_or(0, |last| last.changes + 1),
                    changed_boot_ms: local.boot_ms,
                },
            }
        });
        let seen = |(number, grant): &(Number, Grant)| {
            let Grant { tag, until_ms, .. } = *grant;
            let first = Seen { number: *number, tag, until_ms, agrees: None };
            let Some(before) = before else { return first };
            match before.held.iter().find(|last| last.number == *number) {
                Some(last) if last.tag == tag => *last,
                _ => Seen { agrees: Some(!self.terms.is_over(grant, local.wall_ms)), ..first },
            }
        };
        // The next listing follows after a renewal interval, or earlier when the look or the own grant ends.
        let after = |ms: u64| local.boot_ms.saturating_add(ms);
        let ends_boot_ms =
            before.map_or(after(self.terms.discovery_ms()), |look| look.ends_boot_ms);
        let own_ends_boot_ms = own.map(|own| {
            let left_ms = self.terms.over_ms(own.until_ms).saturating_sub(local.wall_ms);
            after(left_ms.max(1).unsigned_abs())
        });
        let again_boot_ms = [
            Some(after(self.terms.renewal_ms.max(1).into())),
            Some(ends_boot_ms).filter(|ends| *ends > local.boot_ms),
            own_ends_boot_ms,
        ];
        Look {
            ends_boot_ms,
            again_boot_ms: again_boot_ms.into_iter().flatten().min().unwrap_or(0),
            held: held.map(seen).collect(),
            own,
        }
    }

    /// Numbers that may be taken now. Those whose last holder has left, or that had none, come first, and alone.
    fn free_numbers<'a>(
        &self,
        grants: &'a [(Number, Grant)],
        is_shard: impl Fn(&Number) -> bool,
        wall_ms: i64,
    ) -> Vec<(Number, Option<&'a Grant>)> {
        let ever_held: BTreeMap<Number, &Grant> =
            grants.iter().map(|(number, grant)| (*number, grant)).collect();
        let never_held = self.numbers.all();
        let never_held =
            never_held.filter(|number| !ever_held.contains_key(number) && !is_shard(number));
        let mut free: Vec<_> = never_held.take(CHOICES).map(|number| (number, None)).collect();
        let (released, held): (Vec<_>, Vec<_>) = ever_held
            .into_iter()
            .filter(|(number, grant)| self.numbers.contain(*number) && self.is_free(grant, wall_ms))
            .filter(|(number, _)| !is_shard(number))
            .map(|(number, grant)| (number, Some(grant)))
            .partition(|(_, grant)| grant.is_some_and(|it| it.state == GrantState::Released));
        free.extend(released);
        free.sort_by_key(|(number, _)| *number);
        if free.is_empty() { held } else { free }
    }

    /// Whether a number may be taken: its last holder generates no ID of this time or later.
    fn is_free(&self, grant: &Grant, wall_ms: i64) -> bool {
        let is_over = match grant.state {
            GrantState::Released => grant.until_ms <= wall_ms,
            GrantState::Held => self.terms.is_over(grant, wall_ms),
        };
        is_over || Fault::HeldNumberTaken.is_planted()
    }

    /// Whether this is the number that this server held last, and no other server uses it. One whose bound lies further ahead
    /// than any server with a correct clock sets it is left alone, because nothing could be generated with it; unless it is the
    /// only one.
    fn may_take_again(&self, number: Number, grant: &Grant, local: &LocalInputs) -> bool {
        let is_believable = self.is_believable(grant.until_ms, local);
        let is_unused = grant.state == GrantState::Released
            || self.continues(grant, local)
            || self.has_written(grant)
            || self.terms.is_over(grant, local.wall_ms)
            || !is_believable;
        self.is_own(grant)
            && is_unused
            && self.numbers.contain(number)
            && (self.is_only(number) || is_believable)
    }

    /// Whether this is the only number that this server may take.
    fn is_only(&self, number: Number) -> bool {
        self.numbers.is_one() && self.numbers.contain(number)
    }

    /// Whether a server with a correct clock may have set this bound.
    fn is_believable(&self, until_ms: i64, local: &LocalInputs) -> bool {
        until_ms == self.terms.believable_ms(until_ms, local.wall_ms)
    }

    /// Whether this server wrote that, as far as its disk and its own writes tell.
    fn is_own(&self, grant: &Grant) -> bool {
        self.stored.is_some_and(|stored| stored.nonce == grant.nonce) || self.has_written(grant)
    }

    fn has_same_id(&self, grant: &Grant) -> bool {
        self.holder.server_id != 0 && self.holder.server_id == grant.holder.server_id
    }

    /// Whether this process wrote the grant.
    fn has_written(&self, grant: &Grant) -> bool {
        self.unacknowledged.iter().any(|write| write.new == *grant)
    }

    /// Whether this boot of the machine held the number until just now, so that no other server can have held it since.
    pub(super) fn continues(&self, grant: &Grant, local: &LocalInputs) -> bool {
        self.witness.is_some_and(|witness| {
            witness.tag == grant.tag && self.is_in_time(witness.asked_boot_ms, local)
        })
    }

    /// Whether so little time has passed since the request for a grant that no other server can have taken the number.
    pub(super) fn is_in_time(&self, asked_boot_ms: u64, local: &LocalInputs) -> bool {
        let passed_ms = local.boot_ms.checked_sub(asked_boot_ms);
        passed_ms.is_some_and(|passed_ms| passed_ms < u64::from(self.terms.ahead_ms))
    }
}
