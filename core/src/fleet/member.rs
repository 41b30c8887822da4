//! One server's part in a fleet, as a state machine without input or output: what it asks the registry, and what the answers
//! allow.
//!
//! | state | what it asks | what comes next |
//! | --- | --- | --- |
//! | `Outside` | all grants | `Looking`; `Candidate` once the clock is confirmed, if a number is free |
//! | `Looking` | all grants, at each renewal interval | as for `Outside`; a refusal if the clock is ahead; a new identity if another server has this one |
//! | `Candidate` | to replace the value that it read of a number | `Holding`, which waits at first; `Outside` if another server was faster |
//! | `Holding`, in sync | to renew the grant; while it waits, all grants | the same; `Outside` if its number was taken or released; `AnnouncingRestore` if that was before its end; registry restored if the value is older |
//! | `Holding`, outcome unknown | its own grant | in sync; as above |
//! | `Holding`, registry restored | the floor to be raised; then to acquire its number again | in sync, and waits |
//! | `AnnouncingRestore` | the floor to be raised | `Outside`; `Left` if it is to leave |
//! | `Leaving` | to release the grant | `Left` |
//! | `Left` | nothing | |
//!
//! [`Member::next`] says what to ask now, and the caller reports the result: [`Member::answered`], or [`Member::unanswered`] if
//! there was none within the time-out. [`Member::active_grant`] says which IDs may be generated. There are two ways to one:
//!
//! - A **renewal** replaces exactly the value that was acknowledged last, and is acknowledged before so much time has passed since
//!   the request for that one as a grant reaches ahead. No other server can have held the number meanwhile: IDs continue.
//! - Everything else is an **acquisition** (`acquisition.rs`): a number taken, one's own taken again after a restart, a renewal
//!   that was late, one's own value written again into a registry that was restored. IDs start above everything that any other
//!   holder may have generated, and after a wait (`wait.rs`).
//!
//! Before its first acquisition a server **looks** at the grants for a while (`look.rs`). `core/tests/member_cases.txt` plays all
//! of this, case by case.
//!
//! **Order.** Of an active grant that has changed, the caller makes [`ActiveGrant::first_ms`] durable as its reservation before
//! it lets a claim use that: a crash would otherwise start below it.

mod acquisition;
mod interface;
mod look;
mod numbers;
mod wait;

pub use interface::{ActiveGrant, Event, LocalInputs, Phase, StoredNumber, Witness};
pub use numbers::Numbers;

use acquisition::{Write, WriteKind};
use look::Look;
use wait::Wait;

use crate::fleet::grant::{Grant, GrantState, Holder, Number, Terms};
use crate::fleet::registry::{Answer, Request};

/// A server in a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    terms: Terms,
    /// The numbers that it may take.
    numbers: Numbers,
    holder: Holder,
    /// The number held last, if this process has not held one yet.
    stored: Option<StoredNumber>,
    witness: Option<Witness>,
    state: State,
    /// Other servers or an administrator have confirmed the clock.
    clock_is_confirmed: bool,
    /// Until when it may ask for its first number as the server that made the fleet, on the clock of the boot.
    founds_until_boot_ms: Option<u64>,
    /// Writes that may have taken place, because no answer came.
    unacknowledged: Vec<Write>,
    in_flight: Option<InFlightRequest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// It holds no number.
    Outside,
    /// It compares listings before its first acquisition.
    Looking(Look),
    /// It is about to take this number.
    Candidate(Candidate),
    /// It holds a number.
    Holding(HeldNumber),
    /// It lost its number before the end of its grant: the registry was restored, which all servers must learn.
    AnnouncingRestore { leaves: bool },
    /// It is about to release its number.
    Leaving(HeldNumber),
    /// It holds no number any more; the one that it released, if it did.
    Left(Option<HeldNumber>),
}

/// A number that is to be taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Candidate {
    number: Number,
    /// The registry's value of it.
    found: Option<Grant>,
    floor_ms: i64,
    /// This boot of the machine held it until just now.
    continues: bool,
}

/// A number with the grant that was acknowledged last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HeldNumber {
    number: Number,
    grant: Grant,
    /// Time of the request for that grant, on the clock of [`LocalInputs::boot_ms`].
    asked_boot_ms: u64,
    /// As [`ActiveGrant::first_ms`].
    first_ms: i64,
    /// As [`ActiveGrant::others_ms`].
    others_ms: i64,
    /// The wait after the acquisition, until it is over.
    wait: Option<Wait>,
    sync: SyncState,
}

/// Whether the registry's value has to be read or replaced before the next renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SyncState {
    /// No.
    InSync,
    /// It has to be read: an answer is missing.
    OutcomeUnknown,
    /// The registry was restored, and has `found`. All servers are told, then the number is acquired again.
    RegistryRestored { found: Option<Grant>, told: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum InFlightRequest {
    List,
    Read,
    RaiseFloor,
    Write(Box<Write>),
}

/// Number of writes without an answer that are remembered. One that was forgotten and is found in the registry counts as a
/// registry that was restored, which is safe.
const MOST_UNACKNOWLEDGED: usize = 8;

impl Member {
    /// Time at which [`Member::next`] has something to ask, on the clock of [`LocalInputs::boot_ms`]; `None` while a request is
    /// on its way.
    pub fn next_at_boot_ms(&self) -> Option<u64> {
        if self.in_flight.is_some() {
            return None;
        }
        match &self.state {
            State::Left(_) => None,
            State::Looking(look) => Some(look.again_boot_ms),
            State::Holding(held) if held.sync == SyncState::InSync => {
                let renewal = held.asked_boot_ms.saturating_add(self.terms.renewal_ms.into());
                Some(self.listing_boot_ms(held).map_or(renewal, |at| at.min(renewal)))
            }
            _ => Some(0),
        }
    }

    /// The next request, if one is due. `random` returns a different number at each call.
    pub fn next(
        &mut self,
        local: &LocalInputs,
        mut random: impl FnMut() -> u128,
    ) -> Option<Request> {
        if self.next_at_boot_ms()? > local.boot_ms {
            return None;
        }
        let list = (Request::List, InFlightRequest::List);
        let (request, in_flight) = match &self.state {
            State::Outside | State::Looking(_) => list,
            State::Candidate(candidate) => self.acquire(candidate, local, random(), random()),
            State::Holding(held) => match &held.sync {
                SyncState::InSync if self.listing_is_due(held, local) => list,
                SyncState::InSync => self.renew(held, local, random()),
                SyncState::OutcomeUnknown => (Request::Read(held.number), InFlightRequest::Read),
                SyncState::RegistryRestored { told: false, .. } => self.announce_restore(local),
                SyncState::RegistryRestored { found, told: true } => {
                    self.acquire_anew(held, found.as_ref(), local, random(), random())
                }
            },
            State::AnnouncingRestore { .. } => self.announce_restore(local),
            State::Leaving(held) => self.release(held, local, random()),
            State::Left(_) => return None,
        };
        self.in_flight = Some(in_flight);
        Some(request)
    }

    /// Processes the answer to the last request, and to no other: a caller that has given up a request with
    /// [`Member::unanswered`] must never deliver its answer. `choose` picks one of so many numbers that are equally good.
    pub fn answered(
        &mut self,
        answer: Answer,
        local: &LocalInputs,
        choose: impl FnOnce(usize) -> usize,
    ) -> Event {
        match (self.in_flight.take(), answer) {
            (Some(InFlightRequest::List), Answer::Listing(listing)) => match self.state {
                State::Holding(_) => self.listed_in_wait(&listing, local),
                _ => self.choose(listing, local, choose),
            },
            (Some(InFlightRequest::Read), Answer::Found(found)) => self.found(found, local),
            (Some(InFlightRequest::RaiseFloor), Answer::Floor { .. }) => self.restore_announced(),
            (Some(InFlightRequest::Write(write)), Answer::Swapped) => self.written(&write, local),
            (Some(InFlightRequest::Write(write)), Answer::Found(found)) => {
                self.refused(&write, found, local)
            }
            // Not an answer to this question: as if there was none.
            (in_flight, _) => {
                self.in_flight = in_flight;
                self.unanswered();
                Event::Quiet
            }
        }
    }

    /// Records that no answer came, and that none will be waited for any more.
    pub fn unanswered(&mut self) {
        let Some(InFlightRequest::Write(write)) = self.in_flight.take() else { return };
        self.founds_until_boot_ms = None;
        match &mut self.state {
            State::Holding(held) => held.sync = SyncState::OutcomeUnknown,
            State::Candidate(_) => self.state = State::Outside,
            _ => {}
        }
        if self.unacknowledged.len() == MOST_UNACKNOWLEDGED {
            self.unacknowledged.remove(0);
        }
        self.unacknowledged.push(*write);
    }

    /// Processes a write that was acknowledged, or was found in the registry.
    fn written(&mut self, write: &Write, local: &LocalInputs) -> Event {
        if write.kind == WriteKind::Release {
            if let State::Leaving(held) = &self.state {
                // It is as old as the last renewal: a release gives no time.
                let grant = write.new.clone();
                self.state = State::Left(Some(HeldNumber { grant, ..held.clone() }));
            }
            return Event::Quiet;
        }
        let (held, event) = self.held_after(write, local);
        self.founds_until_boot_ms = None;
        self.unacknowledged.clear();
        self.stored = None;
        self.state = State::Holding(held);
        event
    }

    /// Processes a write that found another value than it was to replace.
    fn refused(&mut self, write: &Write, found: Option<Grant>, local: &LocalInputs) -> Event {
        // The request came twice, and the second found what the first had written.
        if found.as_ref() == Some(&write.new) {
            return self.written(write, local);
        }
        match &mut self.state {
            // Another server has written since the listing.
            State::Candidate(_) => self.state = State::Outside,
            State::Holding(_) => return self.found(found, local),
            State::Leaving(held) => match found {
                // A renewal whose answer was not waited for.
                Some(found) if self.unacknowledged.iter().any(|write| write.new == found) => {
                    held.grant = found;
                }
                // It is another server's, and not for this one to release.
                _ => self.state = State::Left(None),
            },
            State::Outside
            | State::Looking(_)
            | State::AnnouncingRestore { .. }
            | State::Left(_) => {}
        }
        Event::Quiet
    }

    /// Compares the number's value in the registry with the one that was acknowledged last.
    fn found(&mut self, found: Option<Grant>, local: &LocalInputs) -> Event {
        let State::Holding(held) = &mut self.state else { return Event::Quiet };
        if found.as_ref() == Some(&held.grant) {
            held.sync = SyncState::InSync;
            return Event::Quiet;
        }
        let mut unacknowledged = self.unacknowledged.iter();
        if let Some(write) = unacknowledged.find(|write| found.as_ref() == Some(&write.new)) {
            // Its answer was lost.
            let write = write.clone();
            return self.written(&write, local);
        }
        // A copy of the running machine has renewed the grant, or this one is back at an earlier state of its memory. A restored
        // registry has an earlier bound.
        let is_of_memory = self.unacknowledged.len() < MOST_UNACKNOWLEDGED
            && found.as_ref().is_some_and(|found| {
                found.nonce == held.grant.nonce
                    && found.tag != held.grant.tag
                    && found.until_ms > held.grant.until_ms
            });
        match found {
            Some(grant)
                if is_of_memory
                    || grant.nonce != held.grant.nonce
                    || grant.state == GrantState::Released =>
            {
                let number = held.number;
                // No server takes a number before its bound, unless the registry has forgotten that bound, or the server runs on
                // a copy of this one's disk: such a one has seen the grant.
                let latest_ms = local.wall_ms.saturating_add(self.terms.clock_difference_ms.into());
                let was_seen = grant.predecessor == Some(held.grant.tag)
                    || self.unacknowledged.iter().any(|it| grant.predecessor == Some(it.new.tag));
                let is_early =
                    grant.nonce != held.grant.nonce && held.grant.until_ms > latest_ms && !was_seen;
                self.state = match is_early {
                    true => State::AnnouncingRestore { leaves: false },
                    false => State::Outside,
                };
                self.unacknowledged.clear();
                self.witness = None;
                // It takes the number again, unless another server renews it.
                self.stored = is_of_memory.then_some(StoredNumber { number, nonce: grant.nonce });
                Event::Fenced(number)
            }
            found => {
                held.sync = SyncState::RegistryRestored { found, told: false };
                Event::RegistryRestored
            }
        }
    }

    fn restore_announced(&mut self) -> Event {
        match &mut self.state {
            State::Holding(HeldNumber {
                sync: SyncState::RegistryRestored { told, .. }, ..
            }) => *told = true,
            State::AnnouncingRestore { leaves: false } => self.state = State::Outside,
            State::AnnouncingRestore { leaves: true } => self.state = State::Left(None),
            _ => {}
        }
        Event::Quiet
    }
}
