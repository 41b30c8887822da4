//! The values that a server writes, and from where to where it may generate IDs once they are acknowledged.

use super::{
    Candidate, Event, HeldNumber, InFlightRequest, LocalInputs, Member, State, SyncState, Wait,
};
use crate::fleet::grant::{Grant, GrantState, Number};
use crate::fleet::registry::Request;
use crate::planted::Fault;

/// A write of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Write {
    pub(super) number: Number,
    pub(super) expected: Option<Grant>,
    pub(super) new: Grant,
    pub(super) asked_boot_ms: u64,
    pub(super) kind: WriteKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WriteKind {
    Renewal,
    /// IDs continue above the reservation.
    Continuation,
    /// With the floor as it was read before.
    Acquisition {
        floor_ms: i64,
    },
    Release,
}

impl Member {
    /// To take a number.
    pub(super) fn acquire(
        &self,
        candidate: &Candidate,
        local: &LocalInputs,
        nonce: u128,
        tag: u128,
    ) -> (Request, InFlightRequest) {
        let Candidate { number, ref found, floor_ms, continues } = *candidate;
        let old_until_ms = bound_of(found.as_ref());
        let (kind, first_ms) = match continues {
            true => (WriteKind::Continuation, self.reserved_ms(local)),
            false => {
                let first_ms = self.first_ms(local, old_until_ms, floor_ms);
                (WriteKind::Acquisition { floor_ms }, first_ms)
            }
        };
        // Where only one number is allowed, this server may have used it before it joined the fleet. The registry does not know of
        // those IDs, so the next holder learns of them from the bound.
        let made_until_ms = if self.numbers.is_one() { self.reserved_ms(local) } else { i64::MIN };
        let grant = self.new_grant(nonce, tag, local, first_ms, old_until_ms.max(made_until_ms));
        let watches_since_ms = match (found, self.witness) {
            (Some(found), Some(witness)) if continues => {
                self.watches_since_ms(found.watches_since_ms, witness.asked_boot_ms, local)
            }
            _ if self.founds(local) => Some(Grant::FOUNDER_MS),
            _ => grant.watches_since_ms,
        };
        let predecessor = tag_of(found.as_ref());
        let new = Grant { predecessor, watches_since_ms, ..grant };
        write(number, found.clone(), new, local, kind)
    }

    /// To take its own number again in a registry that was restored.
    pub(super) fn acquire_anew(
        &self,
        held: &HeldNumber,
        found: Option<&Grant>,
        local: &LocalInputs,
        nonce: u128,
        tag: u128,
    ) -> (Request, InFlightRequest) {
        let old_until_ms = bound_of(found).max(held.grant.until_ms);
        let grant = self.new_grant(nonce, tag, local, local.frontier_ms, old_until_ms);
        let new = Grant { predecessor: tag_of(found), ..grant };
        let kind = WriteKind::Acquisition { floor_ms: self.forgotten_until_ms(local) };
        write(held.number, found.cloned(), new, local, kind)
    }

    /// To renew the grant.
    pub(super) fn renew(
        &self,
        held: &HeldNumber,
        local: &LocalInputs,
        tag: u128,
    ) -> (Request, InFlightRequest) {
        let Grant { nonce, until_ms, predecessor, watches_since_ms, .. } = held.grant;
        let frontier_ms = local.frontier_ms.max(held.first_ms);
        let grant = self.new_grant(nonce, tag, local, frontier_ms, until_ms);
        let watches_since_ms = self.watches_since_ms(watches_since_ms, held.asked_boot_ms, local);
        let new = Grant { predecessor, watches_since_ms, ..grant };
        write(held.number, Some(held.grant.clone()), new, local, WriteKind::Renewal)
    }

    /// To release the number. The bound stays: as long as it is ahead, this server can come back without a wait.
    pub(super) fn release(
        &self,
        held: &HeldNumber,
        local: &LocalInputs,
        tag: u128,
    ) -> (Request, InFlightRequest) {
        let new = Grant { tag, state: GrantState::Released, ..held.grant.clone() };
        write(held.number, Some(held.grant.clone()), new, local, WriteKind::Release)
    }

    /// To raise the floor, which tells all servers that the registry was restored.
    pub(super) fn announce_restore(&self, local: &LocalInputs) -> (Request, InFlightRequest) {
        let floor_ms = self.forgotten_until_ms(local);
        (Request::RaiseFloor { floor_ms }, InFlightRequest::RaiseFloor)
    }

    /// The number as this server holds it after a write that gives time, and what that was.
    pub(super) fn held_after(&self, write: &Write, local: &LocalInputs) -> (HeldNumber, Event) {
        let before = match &self.state {
            State::Holding(held) => Some(held),
            _ => None,
        };
        // The answer may have taken so long that it was an acquisition.
        let in_time = match write.kind {
            WriteKind::Acquisition { .. } | WriteKind::Release => false,
            WriteKind::Continuation => {
                write.expected.as_ref().is_some_and(|grant| self.continues(grant, local))
            }
            WriteKind::Renewal => {
                before.is_some_and(|held| self.is_in_time(held.asked_boot_ms, local))
            }
        };
        let (first_ms, others_ms, wait) = match (in_time, before) {
            (false, _) => {
                let floor_ms = match write.kind {
                    WriteKind::Acquisition { floor_ms } => floor_ms,
                    _ => i64::MIN,
                };
                let until_ms = before.map_or(i64::MIN, |held| held.grant.until_ms);
                let (first_ms, others_ms) =
                    before.map_or((i64::MIN, i64::MIN), |held| (held.first_ms, held.others_ms));
                let old_until_ms = bound_of(write.expected.as_ref());
                (
                    self.first_ms(local, old_until_ms, floor_ms).max(first_ms).max(until_ms),
                    self.others_ms(local, old_until_ms, floor_ms).max(others_ms).max(until_ms),
                    Some(self.new_wait(&write.new, local)),
                )
            }
            (true, Some(held)) => (held.first_ms, held.others_ms, held.wait.clone()),
            (true, None) => {
                // The reservation is above what others required of the acquisition that continues. How far that was is not
                // stored: no further than a correct clock sets a bound.
                let reserved_ms = self.reserved_ms(local);
                (reserved_ms, self.terms.believable_ms(reserved_ms, local.wall_ms), None)
            }
        };
        let held = HeldNumber {
            number: write.number,
            grant: write.new.clone(),
            asked_boot_ms: write.asked_boot_ms,
            first_ms,
            others_ms,
            wait,
            sync: SyncState::InSync,
        };
        let is_renewal = write.kind == WriteKind::Renewal && in_time;
        (held, if is_renewal { Event::Renewed } else { Event::Acquired(write.number) })
    }

    fn new_wait(&self, acquired: &Grant, local: &LocalInputs) -> Wait {
        Wait {
            since_boot_ms: local.boot_ms,
            forgotten_ms: self.forgotten_until_ms(local),
            listed_boot_ms: None,
            tags: Vec::new(),
            is_of_founder: self.founds_until_boot_ms.is_some()
                && acquired.watches_since_ms == Some(Grant::FOUNDER_MS),
            is_ended: false,
        }
    }

    fn new_grant(
        &self,
        nonce: u128,
        tag: u128,
        local: &LocalInputs,
        frontier_ms: i64,
        old_until_ms: i64,
    ) -> Grant {
        Grant {
            nonce,
            tag,
            until_ms: self.terms.next_until_ms(local.wall_ms, frontier_ms, old_until_ms),
            state: GrantState::Held,
            predecessor: None,
            watches_since_ms: Some(local.wall_ms),
            holder: self.holder.clone(),
        }
    }

    /// Start of the time in which a holder that renews a grant now has asked often enough to know of every restore, where its last
    /// request was at `asked_boot_ms`.
    fn watches_since_ms(
        &self,
        before_ms: Option<i64>,
        asked_boot_ms: u64,
        local: &LocalInputs,
    ) -> Option<i64> {
        let passed_ms = local.boot_ms.checked_sub(asked_boot_ms);
        let in_time = passed_ms.is_some_and(|passed_ms| passed_ms <= self.terms.watch_ms());
        if in_time { before_ms } else { Some(local.wall_ms) }
    }

    /// Whether it asks for its first number as the server that made the fleet.
    pub(super) fn founds(&self, local: &LocalInputs) -> bool {
        self.founds_until_boot_ms.is_some_and(|until| local.boot_ms < until)
    }

    /// Start of the IDs of an acquisition.
    fn first_ms(&self, local: &LocalInputs, old_until_ms: i64, floor_ms: i64) -> i64 {
        self.others_ms(local, old_until_ms, floor_ms).max(self.reserved_ms(local))
    }

    /// End of the IDs that other servers may generate with a number that is acquired.
    fn others_ms(&self, local: &LocalInputs, old_until_ms: i64, floor_ms: i64) -> i64 {
        if Fault::HeldNumberTaken.is_planted() {
            return local.wall_ms;
        }
        local.wall_ms.max(old_until_ms).max(floor_ms)
    }

    /// End of the reservation, by the disk or the memory of the boot: the disk may have been rolled back.
    fn reserved_ms(&self, local: &LocalInputs) -> i64 {
        self.witness.map_or(i64::MIN, |witness| witness.reserved_ms).max(local.reserved_ms)
    }

    /// A time that no holder reaches whom the registry has forgotten.
    fn forgotten_until_ms(&self, local: &LocalInputs) -> i64 {
        local.wall_ms.saturating_add(self.terms.forgotten_ms())
    }
}

fn tag_of(grant: Option<&Grant>) -> Option<u128> {
    grant.map(|grant| grant.tag)
}

fn bound_of(grant: Option<&Grant>) -> i64 {
    grant.map_or(i64::MIN, |grant| grant.until_ms)
}

fn write(
    number: Number,
    expected: Option<Grant>,
    new: Grant,
    local: &LocalInputs,
    kind: WriteKind,
) -> (Request, InFlightRequest) {
    let asked_boot_ms = local.boot_ms;
    let write = Write { number, expected, new, asked_boot_ms, kind };
    let (expected, new) = (write.expected.clone(), write.new.clone());
    (Request::Swap { number, expected, new }, InFlightRequest::Write(Box::new(write)))
}
