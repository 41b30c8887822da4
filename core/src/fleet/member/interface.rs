//! What a member is told, and what it says of itself.

use super::{HeldNumber, Member, Numbers, State, SyncState};
use crate::fleet::grant::{Grant, Holder, Number, Terms};

/// What a server knows without the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalInputs {
    /// The wall clock, as far as it is trusted, in Unix milliseconds.
    pub wall_ms: i64,
    /// A clock that goes on while the machine is suspended, in milliseconds (`CLOCK_BOOTTIME`).
    pub boot_ms: u64,
    /// The time of the next ID in Unix milliseconds, unless the clock is past it.
    pub frontier_ms: i64,
    /// End of the durable reservation in Unix milliseconds, exclusive.
    pub reserved_ms: i64,
}

/// The number that a server held last, by its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredNumber {
    /// Datacenter and worker ID.
    pub number: Number,
    /// The nonce of its acquisition.
    pub nonce: u128,
}

/// What is known from memory that lives as long as the machine's boot: a copy of the disk does not have it, and a disk that was
/// rolled back does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    /// The tag of the value that was acknowledged last.
    pub tag: u128,
    /// Time of the request for that value, on the clock of [`LocalInputs::boot_ms`].
    pub asked_boot_ms: u64,
    /// End of the reservation in Unix milliseconds, exclusive.
    pub reserved_ms: i64,
}

/// The IDs that a server may generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActiveGrant {
    /// The granted datacenter and worker ID.
    pub number: Number,
    /// First Unix millisecond for which IDs may be generated, inclusive.
    pub first_ms: i64,
    /// Part of [`ActiveGrant::first_ms`] that other servers require; the rest is what this server reserved itself, which an
    /// administrator may reset.
    pub others_ms: i64,
    /// End of the grant in Unix milliseconds, exclusive.
    pub until_ms: i64,
}

/// State of a member, as its administrator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It holds no number.
    Outside,
    /// It is about to take a number.
    Acquiring,
    /// The grant of its last number has not ended, or another server has its identity and renews that grant.
    StillHeld {
        /// The number.
        number: Number,
        /// End of the grant in Unix milliseconds, by the clock of any server.
        until_ms: i64,
    },
    /// It holds a number, and waits for the news that the registry was restored.
    Waiting {
        /// End of the wait in Unix milliseconds, if no veteran is seen before.
        until_ms: i64,
    },
    /// It holds a number.
    Holding,
    /// The registry was restored, or an answer is missing.
    Unsettled,
    /// It is releasing its number.
    Leaving,
    /// It has released its number, or had none.
    Left,
}

/// The result of an answer, for the log and the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Nothing to report.
    Quiet,
    /// The grant was renewed.
    Renewed,
    /// A number was acquired.
    Acquired(Number),
    /// The number was taken by another server, or released: no ID is generated with it any more.
    Fenced(Number),
    /// The registry has gone back in time.
    RegistryRestored,
    /// All numbers are held, or are shards.
    NoFreeNumber,
    /// The clock is ahead of the clocks of most servers that renewed their grants meanwhile.
    ClockAhead {
        /// Number of grants that were renewed to a time before this server's clock.
        against: usize,
        /// Number of grants that were renewed to a later time.
        agree: usize,
    },
    /// Another server uses the same identity, so this one needs a new one ([`Member::replace_identity`]).
    Copied,
}

impl Member {
    /// A server that starts, with what its disk and the memory of its boot say.
    pub fn new(
        terms: Terms,
        numbers: Numbers,
        holder: Holder,
        stored: Option<StoredNumber>,
        witness: Option<Witness>,
    ) -> Member {
        Member {
            terms,
            numbers,
            holder,
            stored,
            witness,
            state: State::Outside,
            clock_is_confirmed: false,
            founds_until_boot_ms: None,
            unacknowledged: Vec::new(),
            in_flight: None,
        }
    }

    /// Gives this server a new identity.
    pub fn replace_identity(&mut self, server_id: u128) {
        self.holder.server_id = server_id;
        self.stored = None;
        self.restart_look();
    }

    fn restart_look(&mut self) {
        if let State::Looking(_) = self.state {
            self.state = State::Outside;
        }
    }

    /// Trusts this server's clock, because an administrator has accepted it.
    pub fn confirm_clock(&mut self) {
        self.clock_is_confirmed = true;
    }

    /// Records that this server asked to make the fleet at this time of the boot, and did: if its first number is the next that
    /// it asks for, and soon, that waits for no veteran, and it is one itself. It knows of every restore since then as a holder
    /// does that renews: any number that was acquired in between is still waited with.
    pub fn found_fleet(&mut self, asked_boot_ms: u64) {
        self.founds_until_boot_ms = Some(asked_boot_ms.saturating_add(self.terms.watch_ms()));
    }

    /// Ends the wait after an acquisition once the registry was read again: an administrator says that it was not restored.
    pub fn end_wait(&mut self) {
        if let State::Holding(HeldNumber { wait: Some(wait), .. }) = &mut self.state {
            wait.is_ended = true;
        }
    }

    /// Allows other numbers from now on. Returns whether the server can go on as it is: with a number that is still allowed, or
    /// without one.
    pub fn set_numbers(&mut self, numbers: Numbers) -> bool {
        self.numbers = numbers;
        match &self.state {
            State::Holding(held) => self.numbers.contain(held.number),
            State::Candidate(candidate) => self.numbers.contain(candidate.number),
            State::Outside
            | State::Looking(_)
            | State::AnnouncingRestore { .. }
            | State::Leaving(_)
            | State::Left(_) => true,
        }
    }

    /// Changes the terms from now on.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// Changes what others read of this server from now on: a standby that is promoted has another timeline.
    pub fn set_holder(&mut self, holder: Holder) {
        self.holder = holder;
    }

    /// Records that the registry is another one than before: it may have forgotten what was granted, here and to others.
    pub fn doubt_registry(&mut self) {
        self.founds_until_boot_ms = None;
        self.restart_look();
        if let State::Holding(held) = &mut self.state {
            let found = Some(held.grant.clone());
            held.sync = SyncState::RegistryRestored { found, told: false };
        }
    }

    /// Records that an administrator has reset the reservation: what this server reserved before binds it no more.
    pub fn forget_reserved(&mut self) {
        self.witness = None;
        if let State::Holding(held) = &mut self.state {
            held.first_ms = held.others_ms;
        }
    }

    /// Gives the number back: from here on no ID is generated with it. What is on its way is not waited for.
    pub fn leave(&mut self) {
        self.unanswered();
        self.state = match std::mem::replace(&mut self.state, State::Left(None)) {
            State::Holding(held) => State::Leaving(held),
            State::AnnouncingRestore { .. } => State::AnnouncingRestore { leaves: true },
            State::Outside | State::Looking(_) | State::Candidate(_) => State::Left(None),
            leaving @ (State::Leaving(_) | State::Left(_)) => leaving,
        };
    }

    /// The wait after an acquisition, in milliseconds ([`Terms::discovery_ms`]).
    pub fn discovery_ms(&self) -> u64 {
        self.terms.discovery_ms()
    }

    /// This server's [`Holder::server_id`].
    pub fn server_id(&self) -> u128 {
        self.holder.server_id
    }

    /// The IDs that may be generated now.
    pub fn active_grant(&self) -> Option<ActiveGrant> {
        match &self.state {
            State::Holding(held) if held.wait.is_none() => Some(ActiveGrant {
                number: held.number,
                first_ms: held.first_ms,
                others_ms: held.others_ms,
                until_ms: held.grant.until_ms,
            }),
            _ => None,
        }
    }

    /// The grant that the registry acknowledged last, whether it may be used by now or not.
    pub fn grant(&self) -> Option<(Number, &Grant)> {
        match &self.state {
            State::Holding(held) | State::Leaving(held) => Some((held.number, &held.grant)),
            _ => None,
        }
    }

    /// The state of this server.
    pub fn phase(&self) -> Phase {
        match &self.state {
            State::Outside => Phase::Outside,
            State::Looking(look) => look.own.map_or(Phase::Acquiring, |own| {
                let until_ms = self.terms.over_ms(own.until_ms);
                Phase::StillHeld { number: own.number, until_ms }
            }),
            State::Candidate(_) => Phase::Acquiring,
            State::Holding(held) if held.sync != SyncState::InSync => Phase::Unsettled,
            State::Holding(HeldNumber { wait: Some(wait), .. }) => {
                Phase::Waiting { until_ms: self.wait_ends_ms(wait) }
            }
            State::Holding(_) => Phase::Holding,
            State::AnnouncingRestore { .. } => Phase::Unsettled,
            State::Leaving(_) => Phase::Leaving,
            State::Left(_) => Phase::Left,
        }
    }

    /// The number to be stored on disk; `None` if there is none, where what is there may stay: it says only which number is
    /// taken first.
    pub fn to_store(&self) -> Option<StoredNumber> {
        match &self.state {
            State::Holding(held) | State::Leaving(held) | State::Left(Some(held)) => {
                Some(StoredNumber { number: held.number, nonce: held.grant.nonce })
            }
            _ => self.stored,
        }
    }

    /// What the memory of the boot should say, where so much is durably reserved; `None` if nothing. A server that still waits
    /// has no witness, or it would go on without the wait after a restart.
    ///
    /// **Order.** At each reservation: first the disk, then the witness, then claims.
    pub fn to_witness(&self, reserved_ms: i64) -> Option<Witness> {
        let (State::Holding(held) | State::Leaving(held) | State::Left(Some(held))) = &self.state
        else {
            return None;
        };
        held.wait.is_none().then(|| Witness {
            tag: held.grant.tag,
            asked_boot_ms: held.asked_boot_ms,
            reserved_ms: reserved_ms.max(held.first_ms),
        })
    }
}

#[cfg(feature = "model-checking")]
impl Member {
    /// Shows every random number that this server knows: a model that renames them has fewer states.
    pub fn each_random(&mut self, show: &mut dyn FnMut(&mut u128)) {
        use super::InFlightRequest;

        let mut grant = |grant: &mut Grant| {
            show(&mut grant.nonce);
            show(&mut grant.tag);
            grant.predecessor.iter_mut().for_each(&mut *show);
        };
        match &mut self.state {
            State::Candidate(candidate) => candidate.found.iter_mut().for_each(&mut grant),
            State::Holding(held) | State::Leaving(held) | State::Left(Some(held)) => {
                grant(&mut held.grant);
                if let SyncState::RegistryRestored { found, .. } = &mut held.sync {
                    found.iter_mut().for_each(&mut grant);
                }
            }
            State::Outside
            | State::Looking(_)
            | State::AnnouncingRestore { .. }
            | State::Left(None) => {}
        }
        let in_flight = match &mut self.in_flight {
            Some(InFlightRequest::Write(write)) => Some(&mut **write),
            _ => None,
        };
        for write in self.unacknowledged.iter_mut().chain(in_flight) {
            write.expected.iter_mut().for_each(&mut grant);
            grant(&mut write.new);
        }
        self.stored.iter_mut().for_each(|stored| show(&mut stored.nonce));
        self.witness.iter_mut().for_each(|witness| show(&mut witness.tag));
        match &mut self.state {
            State::Holding(HeldNumber { wait: Some(wait), .. }) => {
                wait.tags.iter_mut().for_each(show);
            }
            State::Looking(look) => {
                look.held.iter_mut().for_each(|seen| show(&mut seen.tag));
                look.own.iter_mut().for_each(|own| show(&mut own.tag));
            }
            _ => {}
        }
    }
}
