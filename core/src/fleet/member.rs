//! One server's part in a fleet: what it asks the registry, and what the answers allow.
//!
//! A [`Member`] is a state machine without input or output. [`Member::next`] says what to ask now, and the
//! caller reports what came of it: [`Member::answered`], or [`Member::unanswered`] if nothing did within the
//! time-out. [`Member::right`] says which IDs may be made. There are two ways to a right:
//!
//! - A **renewal** replaces exactly the value that was acknowledged last, and is acknowledged before so much
//!   time has passed since the request for that one as a grant reaches ahead. Nobody else can have held the
//!   number meanwhile: IDs go on where they are.
//! - Everything else is an **acquisition**: a number taken, one's own taken again after a restart, a renewal
//!   that was late, one's own value written again into a registry that was restored. IDs start above
//!   everything that any other holder may have made.
//!
//! Before its first acquisition a server **looks** at the grants for a while. Those that are renewed meanwhile confirm its
//! clock, or show that it is ahead. If one of its own identity is renewed, the server runs on a block-level copy of another
//! server's disk, and gets a new identity; the original keeps its number.
//!
//! **Order.** Of a right that has changed, the caller makes [`Right::first_ms`] durable as its reservation
//! before it lets a claim use the right: a crash would otherwise start below it.

use std::collections::BTreeMap;

use crate::fleet::grant::{Grant, GrantState, Holder, Number, Terms};
use crate::fleet::registry::{Answer, Listing, Request};
use crate::layout::Layout;
use crate::originals::{Original, Originals};
use crate::planted::Fault;

/// What a server knows without the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// The wall clock, as far as it is trusted, in Unix milliseconds.
    pub wall_ms: i64,
    /// A clock that goes on while the machine is suspended, in milliseconds (`CLOCK_BOOTTIME`).
    pub boot_ms: u64,
    /// The time of the next ID, unless the clock is past it, in Unix milliseconds.
    pub frontier_ms: i64,
    /// Up to which Unix millisecond IDs are durably reserved.
    pub reserved_ms: i64,
}

/// The number that a server held last, by its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// The number.
    pub number: Number,
    /// The nonce of its acquisition.
    pub nonce: u128,
}

/// What memory that lives as long as the machine's boot says of it: a copy of the disk does not have it, and a
/// disk that was rolled back does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    /// The tag of the value that was acknowledged last.
    pub tag: u128,
    /// When the write was asked for that was acknowledged last, on the clock of [`Local::boot_ms`].
    pub asked_boot_ms: u64,
    /// Up to which Unix millisecond IDs were reserved.
    pub reserved_ms: i64,
}

/// Which IDs a server may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    /// With which number.
    pub number: Number,
    /// Of no Unix millisecond before this.
    pub first_ms: i64,
    /// Part of [`Right::first_ms`] that other servers require; the rest is what this server reserved itself, which an
    /// administrator may reset.
    pub others_ms: i64,
    /// Of no Unix millisecond from this on.
    pub until_ms: i64,
}

/// How far a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It holds no number.
    Outside,
    /// It is about to take one.
    Acquiring,
    /// The grant of its last number has not ended, or another server has its identity and renews that grant.
    StillHeld {
        /// The number.
        number: Number,
        /// End of the grant in Unix milliseconds, by the clock of any server.
        until_ms: i64,
    },
    /// It has one, and waits for the news that the registry was restored.
    Waiting {
        /// In Unix milliseconds, when the wait is over if no veteran is seen before.
        until_ms: i64,
    },
    /// It has one.
    Holding,
    /// The registry was restored, or an answer is missing.
    Unsettled,
    /// It is giving its number back.
    Leaving,
    /// It has given its number back, or had none.
    Left,
}

/// What happened, for the log and the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Nothing worth telling.
    Quiet,
    /// The grant was renewed.
    Renewed,
    /// A number was acquired.
    Acquired(Number),
    /// The number was taken by another server, or released: nothing more is made with it.
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

/// A server in a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    terms: Terms,
    /// Numbers that may be taken: of one datacenter, from the first worker to the last.
    numbers: Numbers,
    holder: Holder,
    /// The number held last, of which nothing was made by this process yet.
    kept: Option<Kept>,
    witness: Option<Witness>,
    state: State,
    /// Other servers or an administrator have confirmed the clock.
    clock_is_confirmed: bool,
    /// Until when it may ask for its first number as the server that made the fleet, on the clock of the boot.
    founds_until_boot_ms: Option<u64>,
    /// Writes that may have taken place: no answer came.
    open: Vec<Write>,
    /// The request that is on its way.
    asked: Option<Asked>,
}

/// The numbers that a server may take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// The layout of this server.
    pub layout: Layout,
    /// Of this datacenter.
    pub datacenter: u32,
    /// The first worker number.
    pub first: u32,
    /// The last worker number.
    pub last: u32,
    /// The servers that this one is a copy of, if there are any: no number is allowed that is theirs outside of the fleet.
    pub originals: Option<Box<Originals>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// It holds no number.
    Outside,
    /// It looks at the grants before its first acquisition.
    Looking(Look),
    /// It will try to take this number, of which this was read.
    Choosing(Choice),
    /// It holds a number.
    Holding(Held),
    /// It was fenced before its bound, so the registry was restored, which is still to be told.
    Telling { leaves: bool },
    /// It is about to give its number back.
    Leaving(Held),
    /// It is done, and has given this back.
    Left(Option<Held>),
}

/// The grants that a server has seen since it started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Look {
    /// End of the look, on the clock of [`Local::boot_ms`].
    ends_boot_ms: u64,
    /// Time of the next listing, on the same clock.
    again_boot_ms: u64,
    /// Grants that are held and were not written by this process.
    held: Vec<Seen>,
    /// One of them that has this server's identity and has not ended.
    own: Option<OwnSeen>,
}

impl Look {
    /// Numbers of renewed grants that confirm this server's clock, and that do not.
    fn votes(&self) -> (usize, usize) {
        let count = |vote| self.held.iter().filter(|seen| seen.agrees == Some(vote)).count();
        (count(true), count(false))
    }
}

/// A grant that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    number: Number,
    tag: u128,
    until_ms: i64,
    /// `None` until it is renewed; then, whether it had not ended by this server's clock.
    agrees: Option<bool>,
}

/// A held grant with the server's own identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OwnSeen {
    number: Number,
    tag: u128,
    until_ms: i64,
    /// Number of changes since the look began.
    changes: u32,
    /// A server with a correct clock may have set the bound.
    ends: bool,
}

/// Number of changes that show that another process renews a grant. The first can be a late write of this server's last process,
/// which sends one request at a time.
const CHANGES_OF_ANOTHER: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Choice {
    number: Number,
    found: Option<Grant>,
    floor_ms: i64,
    /// The same boot held it until just now.
    continues: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    number: Number,
    /// What was acknowledged last.
    grant: Grant,
    /// When that was asked for.
    asked_boot_ms: u64,
    first_ms: i64,
    /// As [`Right::others_ms`].
    others_ms: i64,
    /// The wait after it was acquired, as long as that takes.
    wait: Option<Wait>,
    doubt: Doubt,
}

/// The wait after an acquisition, for the news that the registry was restored: whoever finds that out says so, and raises the
/// floor. It takes [`Terms::discovery_ms`] where somebody renews meanwhile who would know ([`Terms::is_veteran`]), and else as
/// long as anybody may go on whom the registry has forgotten ([`Terms::forgotten_ms`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wait {
    since_boot_ms: u64,
    /// From this Unix millisecond on nobody goes on whom the registry has forgotten.
    forgotten_ms: i64,
    /// When the grants were listed last.
    listed_boot_ms: Option<u64>,
    /// The tags that the grants of others had when the wait began.
    tags: Vec<u128>,
    /// Whether it is over without a veteran: this server made the fleet.
    is_of_founder: bool,
    /// Whether an administrator has ended it.
    is_ended: bool,
}

/// What is to be cleared up before the next renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doubt {
    /// Nothing.
    None,
    /// What the registry has: an answer is missing.
    Unread,
    /// The registry was restored, and has this. First that is told to all, then the number is acquired anew.
    Restored { found: Option<Grant>, told: bool },
}

/// A write that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    number: Number,
    expected: Option<Grant>,
    new: Grant,
    asked_boot_ms: u64,
    kind: WriteKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WriteKind {
    Renewal,
    /// IDs go on above the reservation.
    Continuation,
    /// With the floor as it was read before.
    Acquisition {
        floor_ms: i64,
    },
    Return,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked {
    List,
    Read,
    Tell,
    Write(Box<Write>),
}

/// Among how many numbers that nobody ever held a server chooses: enough that servers which start together seldom
/// choose the same.
const CHOICES: usize = 64;

/// How many writes without an answer are remembered. What was forgotten and is found in the registry counts as
/// a registry that was restored, which is safe.
const OPEN_WRITES: usize = 8;

impl Member {
    /// A server that starts, with what its disk and the memory of its boot say.
    pub fn new(
        terms: Terms,
        numbers: Numbers,
        holder: Holder,
        kept: Option<Kept>,
        witness: Option<Witness>,
    ) -> Member {
        Member {
            terms,
            numbers,
            holder,
            kept,
            witness,
            state: State::Outside,
            clock_is_confirmed: false,
            founds_until_boot_ms: None,
            open: Vec::new(),
            asked: None,
        }
    }

    /// Gives this server a new identity.
    pub fn replace_identity(&mut self, server_id: u128) {
        self.holder.server_id = server_id;
        self.kept = None;
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

    /// Takes note that this server asked to make the fleet at this time of the boot, and did: if its first number is the next
    /// that it asks for, and soon, that waits for no veteran, and it is one itself. It knows of every restore since then as a
    /// holder does that renews: any number that was acquired in between is still waited with.
    pub fn found_fleet(&mut self, asked_boot_ms: u64) {
        self.founds_until_boot_ms = Some(asked_boot_ms.saturating_add(self.terms.watch_ms()));
    }

    /// Ends the wait after an acquisition once the registry was read again: an administrator says that it was not restored.
    pub fn end_wait(&mut self) {
        if let State::Holding(Held { wait: Some(wait), .. }) = &mut self.state {
            wait.is_ended = true;
        }
    }

    /// Allows other numbers from now on. Returns whether the server can go on as it is: with a number that is still
    /// allowed, or without one.
    pub fn set_numbers(&mut self, numbers: Numbers) -> bool {
        self.numbers = numbers;
        match &self.state {
            State::Holding(held) => self.numbers.contain(held.number),
            State::Choosing(choice) => self.numbers.contain(choice.number),
            State::Outside
            | State::Looking(_)
            | State::Telling { .. }
            | State::Leaving(_)
            | State::Left(_) => true,
        }
    }

    /// Goes by other terms from now on.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// Tells the others something else of this server from now on: a standby that is promoted has another timeline.
    pub fn set_holder(&mut self, holder: Holder) {
        self.holder = holder;
    }

    /// How long whatever it takes anew is waited with.
    pub fn discovery_ms(&self) -> u64 {
        self.terms.discovery_ms()
    }

    /// This server's [`Holder::server_id`].
    pub fn server_id(&self) -> u128 {
        self.holder.server_id
    }

    /// Takes note that the registry is another one than before: it may have forgotten what was granted, here and to others.
    pub fn doubt_registry(&mut self) {
        self.founds_until_boot_ms = None;
        self.restart_look();
        if let State::Holding(held) = &mut self.state {
            held.doubt = Doubt::Restored { found: Some(held.grant.clone()), told: false };
        }
    }

    /// Takes note that an administrator has reset the reservation: of what this server reserved before, nothing binds it.
    pub fn forget_reserved(&mut self) {
        self.witness = None;
        if let State::Holding(held) = &mut self.state {
            held.first_ms = held.others_ms;
        }
    }

    /// Which IDs may be made now.
    pub fn right(&self) -> Option<Right> {
        match &self.state {
            State::Holding(held) if held.wait.is_none() => Some(Right {
                number: held.number,
                first_ms: held.first_ms,
                others_ms: held.others_ms,
                until_ms: held.grant.until_ms,
            }),
            _ => None,
        }
    }

    /// What the registry acknowledged last, whether it may be used by now or not.
    pub fn grant(&self) -> Option<(Number, &Grant)> {
        match &self.state {
            State::Holding(held) | State::Leaving(held) => Some((held.number, &held.grant)),
            _ => None,
        }
    }

    /// How far this server is.
    pub fn phase(&self) -> Phase {
        match &self.state {
            State::Outside => Phase::Outside,
            State::Looking(Look { own: Some(own), .. }) => {
                let until_ms = self.terms.over_ms(own.until_ms);
                Phase::StillHeld { number: own.number, until_ms }
            }
            State::Looking(_) | State::Choosing(_) => Phase::Acquiring,
            State::Holding(held) if held.doubt != Doubt::None => Phase::Unsettled,
            State::Holding(Held { wait: Some(wait), .. }) => {
                Phase::Waiting { until_ms: self.ends_ms(wait) }
            }
            State::Holding(_) => Phase::Holding,
            State::Telling { .. } => Phase::Unsettled,
            State::Leaving(_) => Phase::Leaving,
            State::Left(_) => Phase::Left,
        }
    }

    /// The number and nonce to be kept on disk; `None` if there are none, where what is there may stay: it says only which
    /// number is taken first.
    pub fn to_keep(&self) -> Option<Kept> {
        match &self.state {
            State::Holding(held) | State::Leaving(held) | State::Left(Some(held)) => {
                Some(Kept { number: held.number, nonce: held.grant.nonce })
            }
            _ => self.kept,
        }
    }

    /// What the memory of the boot should say, where so much is durably reserved; `None` if nothing. A server
    /// that still waits has no witness, or it would go on without the wait after a restart.
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

    /// Gives the number back: from here on there is no right to it. What is on its way is not waited for.
    pub fn leave(&mut self) {
        self.unanswered();
        self.state = match std::mem::replace(&mut self.state, State::Left(None)) {
            State::Holding(held) => State::Leaving(held),
            State::Telling { .. } => State::Telling { leaves: true },
            State::Outside | State::Looking(_) | State::Choosing(_) => State::Left(None),
            leaving @ (State::Leaving(_) | State::Left(_)) => leaving,
        };
    }

    /// When [`Member::next`] has something to ask, on the clock of [`Local::boot_ms`]; `None` while a request is
    /// on its way.
    pub fn next_at_boot_ms(&self) -> Option<u64> {
        if self.asked.is_some() {
            return None;
        }
        match &self.state {
            State::Left(_) => None,
            State::Looking(look) => Some(look.again_boot_ms),
            State::Holding(held) if held.doubt == Doubt::None => {
                let renewal = held.asked_boot_ms.saturating_add(self.terms.renewal_ms.into());
                Some(self.look_boot_ms(held).map_or(renewal, |at| at.min(renewal)))
            }
            _ => Some(0),
        }
    }

    /// The next request, if one is due. `random` gives a number that was never given before.
    pub fn next(&mut self, local: &Local, mut random: impl FnMut() -> u128) -> Option<Request> {
        if self.next_at_boot_ms()? > local.boot_ms {
            return None;
        }
        let (request, asked) = match &self.state {
            State::Left(_) => return None,
            State::Outside | State::Looking(_) => (Request::List, Asked::List),
            State::Telling { .. } => self.tell(local),
            State::Choosing(choice) => self.acquire(choice, local, random(), random()),
            State::Leaving(held) => {
                // The bound stays: as long as it is ahead, this server can come back without a wait.
                let state = GrantState::Released;
                let new = Grant { tag: random(), state, ..held.grant.clone() };
                write(held.number, Some(held.grant.clone()), new, local, WriteKind::Return)
            }
            State::Holding(held) => match &held.doubt {
                Doubt::Unread => (Request::Read(held.number), Asked::Read),
                Doubt::Restored { told: false, .. } => self.tell(local),
                Doubt::Restored { found, told: true } => {
                    let old = [found.as_ref(), Some(&held.grant)].into_iter().flatten();
                    let old_until_ms = old.map(|grant| grant.until_ms).max().unwrap_or(i64::MIN);
                    let grant =
                        self.new_grant(random(), random(), local, local.frontier_ms, old_until_ms);
                    let new = Grant { predecessor: tag_of(found.as_ref()), ..grant };
                    let kind = WriteKind::Acquisition { floor_ms: self.forgotten_until_ms(local) };
                    write(held.number, found.clone(), new, local, kind)
                }
                Doubt::None if self.look_boot_ms(held).is_some_and(|at| at <= local.boot_ms) => {
                    (Request::List, Asked::List)
                }
                Doubt::None => {
                    let frontier_ms = local.frontier_ms.max(held.first_ms);
                    let (nonce, old) = (held.grant.nonce, held.grant.until_ms);
                    let grant = self.new_grant(nonce, random(), local, frontier_ms, old);
                    let since_ms = held.grant.watches_since_ms;
                    let watches_since_ms =
                        self.watches_since_ms(since_ms, held.asked_boot_ms, local);
                    let predecessor = held.grant.predecessor;
                    let new = Grant { predecessor, watches_since_ms, ..grant };
                    let expected = Some(held.grant.clone());
                    write(held.number, expected, new, local, WriteKind::Renewal)
                }
            },
        };
        self.asked = Some(asked);
        Some(request)
    }

    /// Takes note of the answer to the last request, and of no other: a caller that has given up a request with
    /// [`Member::unanswered`] must never deliver its answer. `choose` picks one of so many numbers that are equally good.
    pub fn answered(
        &mut self,
        answer: Answer,
        local: &Local,
        choose: impl FnOnce(usize) -> usize,
    ) -> Event {
        match (self.asked.take(), answer) {
            (Some(Asked::List), Answer::Listing(listing)) => match self.state {
                State::Holding(_) => self.look(&listing, local),
                _ => self.choose(listing, local, choose),
            },
            (Some(Asked::Read), Answer::Found(found)) => self.found(found, local),
            (Some(Asked::Tell), Answer::Floor { .. }) => self.told(),
            (Some(Asked::Write(write)), Answer::Swapped) => self.written(&write, local),
            (Some(Asked::Write(write)), Answer::Found(found)) => self.refused(&write, found, local),
            // Not an answer to this question: as if there was none.
            (asked, _) => {
                self.asked = asked;
                self.unanswered();
                Event::Quiet
            }
        }
    }

    /// Takes note that no answer came, and that none will be waited for any more.
    pub fn unanswered(&mut self) {
        let Some(Asked::Write(write)) = self.asked.take() else { return };
        self.founds_until_boot_ms = None;
        match &mut self.state {
            State::Holding(held) => held.doubt = Doubt::Unread,
            State::Choosing(_) => self.state = State::Outside,
            _ => {}
        }
        if self.open.len() == OPEN_WRITES {
            self.open.remove(0);
        }
        self.open.push(*write);
    }

    /// When the grants are to be listed next during the wait after an acquisition: at its beginning, when it may be over, as
    /// often as grants are renewed from then on, at its end, and when an administrator has ended it.
    fn look_boot_ms(&self, held: &Held) -> Option<u64> {
        let wait = held.wait.as_ref()?;
        let listed_boot_ms = wait.listed_boot_ms.filter(|_| !wait.is_ended);
        let Some(listed_boot_ms) = listed_boot_ms else { return Some(0) };
        let after = |ms: u64| wait.since_boot_ms.saturating_add(ms);
        let ends = [self.terms.discovery_ms(), self.terms.forgotten_ms().unsigned_abs()].map(after);
        let again = listed_boot_ms.saturating_add(self.terms.renewal_ms.max(1).into());
        match ends {
            [first, _] if listed_boot_ms < first => Some(first),
            [_, last] if listed_boot_ms < last => Some(again.min(last)),
            _ => Some(again),
        }
    }

    /// In Unix milliseconds, when a wait is over if no veteran is seen before.
    fn ends_ms(&self, wait: &Wait) -> i64 {
        if !wait.is_of_founder {
            return wait.forgotten_ms;
        }
        let since_ms = wait.forgotten_ms.saturating_sub(self.terms.forgotten_ms());
        since_ms.saturating_add_unsigned(self.terms.discovery_ms())
    }

    /// Since when a holder knows of every restore that renews a grant now, or goes on with it, after a request of so long ago.
    fn watches_since_ms(
        &self,
        before_ms: Option<i64>,
        asked_boot_ms: u64,
        local: &Local,
    ) -> Option<i64> {
        let passed_ms = local.boot_ms.checked_sub(asked_boot_ms);
        let in_time = passed_ms.is_some_and(|passed_ms| passed_ms <= self.terms.watch_ms());
        if in_time { before_ms } else { Some(local.wall_ms) }
    }

    /// The time that no forgotten holder comes to.
    fn forgotten_until_ms(&self, local: &Local) -> i64 {
        local.wall_ms.saturating_add(self.terms.forgotten_ms())
    }

    fn believable_floor_ms(&self, floor_ms: i64, local: &Local) -> i64 {
        self.terms.believable_ms(floor_ms, local.wall_ms)
    }

    fn tell(&self, local: &Local) -> (Request, Asked) {
        (Request::RaiseFloor { floor_ms: self.forgotten_until_ms(local) }, Asked::Tell)
    }

    fn new_grant(
        &self,
        nonce: u128,
        tag: u128,
        local: &Local,
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

    /// Whether it asks for its first number as the server that made the fleet.
    fn founds(&self, local: &Local) -> bool {
        self.founds_until_boot_ms.is_some_and(|until| local.boot_ms < until)
    }

    fn acquire(&self, choice: &Choice, local: &Local, nonce: u128, tag: u128) -> (Request, Asked) {
        let old_until_ms = choice.found.as_ref().map_or(i64::MIN, |grant| grant.until_ms);
        let (kind, first_ms) = if choice.continues {
            (WriteKind::Continuation, self.reserved_ms(local))
        } else {
            let kind = WriteKind::Acquisition { floor_ms: choice.floor_ms };
            (kind, self.first_ms(local, old_until_ms, choice.floor_ms))
        };
        let made_until_ms = self.made_until_ms(local).unwrap_or(i64::MIN);
        let grant = self.new_grant(nonce, tag, local, first_ms, old_until_ms.max(made_until_ms));
        let watches_since_ms = match (&choice.found, self.witness) {
            (Some(found), Some(witness)) if choice.continues => {
                self.watches_since_ms(found.watches_since_ms, witness.asked_boot_ms, local)
            }
            _ if self.founds(local) => Some(Grant::FOUNDER_MS),
            _ => grant.watches_since_ms,
        };
        let predecessor = tag_of(choice.found.as_ref());
        let new = Grant { predecessor, watches_since_ms, ..grant };
        write(choice.number, choice.found.clone(), new, local, kind)
    }

    /// Up to where this server may have made IDs with the number that it acquires, before it was of the fleet: that is so
    /// where only one number is allowed. The registry does not know of them, so whoever takes the number next learns it
    /// from the bound.
    fn made_until_ms(&self, local: &Local) -> Option<i64> {
        self.numbers.is_one().then(|| self.reserved_ms(local))
    }

    /// Where the IDs of an acquisition start.
    fn first_ms(&self, local: &Local, old_until_ms: i64, floor_ms: i64) -> i64 {
        self.others_ms(local, old_until_ms, floor_ms).max(self.reserved_ms(local))
    }

    /// Up to where other servers may make IDs with a number that is acquired.
    fn others_ms(&self, local: &Local, old_until_ms: i64, floor_ms: i64) -> i64 {
        if Fault::HeldNumberTaken.is_planted() {
            return local.wall_ms;
        }
        local.wall_ms.max(old_until_ms).max(floor_ms)
    }

    /// Up to where IDs were reserved, as far as the disk or the memory of the boot tells: the disk may have been
    /// rolled back.
    fn reserved_ms(&self, local: &Local) -> i64 {
        self.witness.map_or(i64::MIN, |witness| witness.reserved_ms).max(local.reserved_ms)
    }

    fn choose(
        &mut self,
        listing: Listing,
        local: &Local,
        choose: impl FnOnce(usize) -> usize,
    ) -> Event {
        let Listing { floor_ms, grants, shards } = listing;
        let floor_ms = self.believable_floor_ms(floor_ms, local);
        let is_shard = |number: &Number| shards.binary_search(number).is_ok();
        let may_take = |(number, grant): &&(Number, Grant)| {
            !is_shard(number) && self.may_take_again(*number, grant, local)
        };
        let own = grants.iter().find(may_take);
        let continues = own.is_some_and(|(_, grant)| self.continues(grant, local));
        if !continues {
            let look = self.looked(&grants, local);
            if look.own.is_some_and(|own| own.changes >= CHANGES_OF_ANOTHER) {
                return Event::Copied;
            }
            self.state = State::Outside;
            let is_long = local.boot_ms >= look.ends_boot_ms;
            if !self.clock_is_confirmed && !self.founds(local) {
                let (agree, against) = look.votes();
                if !is_long && agree + against < look.held.len() {
                    self.state = State::Looking(look);
                    return Event::Quiet;
                }
                if against > agree {
                    return Event::ClockAhead { against, agree };
                }
                self.clock_is_confirmed = true;
            }
            // One that does not end, because a wrong clock has set its bound, is taken again if nobody renews it.
            if look.own.is_some_and(|own| own.ends || !is_long || own.changes > 0) {
                self.state = State::Looking(look);
                return Event::Quiet;
            }
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
        let found = found.cloned();
        // What it writes now, the others judge by.
        self.clock_is_confirmed = true;
        self.state = State::Choosing(Choice { number, found, floor_ms, continues });
        Event::Quiet
    }

    /// The grants seen so far, updated by a listing.
    fn looked(&self, grants: &[(Number, Grant)], local: &Local) -> Look {
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
        let own = held.clone().find(|(_, grant)| {
            (self.is_own(grant) || self.has_same_id(grant))
                && !self.terms.is_over(grant, local.wall_ms)
                && (self.numbers.is_one() || self.is_believable(grant, local))
        });
        let own = own.map(|(number, grant)| {
            let last = before.and_then(|look| look.own).filter(|last| last.number == *number);
            let changes = last.map_or(0, |last| last.changes + u32::from(last.tag != grant.tag));
            let ends = self.is_believable(grant, local);
            OwnSeen { number: *number, tag: grant.tag, until_ms: grant.until_ms, changes, ends }
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
        let own_ends_ms =
            own.map(|own| self.terms.over_ms(own.until_ms).saturating_sub(local.wall_ms));
        let again_boot_ms = [
            Some(after(self.terms.renewal_ms.max(1).into())),
            Some(ends_boot_ms).filter(|ends| *ends > local.boot_ms),
            own_ends_ms.map(|ms| after(ms.max(1).unsigned_abs())),
        ];
        Look {
            ends_boot_ms,
            again_boot_ms: again_boot_ms.into_iter().flatten().min().unwrap_or(0),
            held: held.map(seen).collect(),
            own,
        }
    }

    /// Numbers that may be taken now. Those of which nobody is known to be alive come first, and alone.
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

    /// Whether a number may be taken: whoever held it makes no ID of this time or later.
    fn is_free(&self, grant: &Grant, wall_ms: i64) -> bool {
        let is_over = match grant.state {
            GrantState::Released => grant.until_ms <= wall_ms,
            GrantState::Held => self.terms.is_over(grant, wall_ms),
        };
        is_over || Fault::HeldNumberTaken.is_planted()
    }

    /// Whether this is the number that this server held last, and no other server uses it. One whose bound lies further ahead
    /// than any server with a right clock puts it is left alone: nothing could be made with it. Unless it is the only one.
    fn may_take_again(&self, number: Number, grant: &Grant, local: &Local) -> bool {
        let is_believable = self.is_believable(grant, local);
        let is_nobodys = grant.state == GrantState::Released
            || self.continues(grant, local)
            || self.has_written(grant)
            || self.terms.is_over(grant, local.wall_ms)
            || !is_believable;
        self.is_own(grant)
            && is_nobodys
            && self.numbers.contain(number)
            && (self.numbers.is_one() || is_believable)
    }

    /// Whether a server with a right clock may have set its bound.
    fn is_believable(&self, grant: &Grant, local: &Local) -> bool {
        grant.until_ms == self.believable_floor_ms(grant.until_ms, local)
    }

    /// Whether this server wrote that, as far as its disk and its own writes tell.
    fn is_own(&self, grant: &Grant) -> bool {
        self.kept.is_some_and(|kept| kept.nonce == grant.nonce) || self.has_written(grant)
    }

    fn has_same_id(&self, grant: &Grant) -> bool {
        self.holder.server_id != 0 && self.holder.server_id == grant.holder.server_id
    }

    /// Whether this process wrote the grant.
    fn has_written(&self, grant: &Grant) -> bool {
        self.open.iter().any(|write| write.new == *grant)
    }

    /// Whether this boot of the machine held the number until just now, so that nobody else can have.
    fn continues(&self, grant: &Grant, local: &Local) -> bool {
        self.witness.is_some_and(|witness| {
            witness.tag == grant.tag && self.is_in_time(witness.asked_boot_ms, local)
        })
    }

    /// Whether so little time has passed since a write was asked for that nobody else can have taken the
    /// number.
    fn is_in_time(&self, asked_boot_ms: u64, local: &Local) -> bool {
        let passed_ms = local.boot_ms.checked_sub(asked_boot_ms);
        passed_ms.is_some_and(|passed_ms| passed_ms < u64::from(self.terms.ahead_ms))
    }

    /// A write was acknowledged, or found in the registry.
    fn written(&mut self, write: &Write, local: &Local) -> Event {
        let old_until_ms = write.expected.as_ref().map_or(i64::MIN, |grant| grant.until_ms);
        let floor_ms = match write.kind {
            WriteKind::Acquisition { floor_ms } => Some(floor_ms),
            // The answer may have taken long.
            WriteKind::Continuation => {
                let old = write.expected.as_ref();
                let continues = old.is_some_and(|grant| self.continues(grant, local));
                (!continues).then_some(i64::MIN)
            }
            WriteKind::Return => {
                if let State::Leaving(held) = &self.state {
                    // It is as old as the last renewal: a return gives no time.
                    let grant = write.new.clone();
                    self.state = State::Left(Some(Held { grant, ..held.clone() }));
                }
                return Event::Quiet;
            }
            WriteKind::Renewal => {
                let in_time = match &self.state {
                    State::Holding(held) => self.is_in_time(held.asked_boot_ms, local),
                    _ => false,
                };
                (!in_time).then_some(i64::MIN)
            }
        };
        let before = match &self.state {
            State::Holding(held) => Some(held),
            _ => None,
        };
        let renewed = write.kind == WriteKind::Renewal && floor_ms.is_none();
        let (first_ms, others_ms, wait) = match (floor_ms, before) {
            (Some(floor_ms), _) => {
                let (old_first_ms, old_others_ms) = before.map_or((i64::MIN, i64::MIN), |held| {
                    let until_ms = held.grant.until_ms;
                    (held.first_ms.max(until_ms), held.others_ms.max(until_ms))
                });
                let first_ms = self.first_ms(local, old_until_ms, floor_ms).max(old_first_ms);
                let others_ms = self.others_ms(local, old_until_ms, floor_ms).max(old_others_ms);
                let wait = Wait {
                    since_boot_ms: local.boot_ms,
                    forgotten_ms: self.forgotten_until_ms(local),
                    listed_boot_ms: None,
                    tags: Vec::new(),
                    is_of_founder: self.founds_until_boot_ms.take().is_some()
                        && write.new.watches_since_ms == Some(Grant::FOUNDER_MS),
                    is_ended: false,
                };
                (first_ms, others_ms, Some(wait))
            }
            (None, Some(held)) => (held.first_ms, held.others_ms, held.wait.clone()),
            (None, None) => {
                // The reservation is above what others required of the acquisition that goes on. How far that was is not
                // kept: no further than a right clock sets a bound.
                let reserved_ms = self.reserved_ms(local);
                (reserved_ms, self.terms.believable_ms(reserved_ms, local.wall_ms), None)
            }
        };
        self.open.clear();
        self.kept = None;
        self.state = State::Holding(Held {
            number: write.number,
            grant: write.new.clone(),
            asked_boot_ms: write.asked_boot_ms,
            first_ms,
            others_ms,
            wait,
            doubt: Doubt::None,
        });
        if renewed { Event::Renewed } else { Event::Acquired(write.number) }
    }

    /// A write found another value than was expected.
    fn refused(&mut self, write: &Write, found: Option<Grant>, local: &Local) -> Event {
        // The request came twice, and the second found what the first had written.
        if found.as_ref() == Some(&write.new) {
            return self.written(write, local);
        }
        match &mut self.state {
            // Somebody has been there since the listing.
            State::Choosing(_) => self.state = State::Outside,
            State::Holding(_) => return self.found(found, local),
            State::Leaving(held) => match found {
                // A renewal whose answer was not waited for.
                Some(found) if self.open.iter().any(|write| write.new == found) => {
                    held.grant = found;
                }
                // Whatever is there, it is not ours to give back.
                _ => self.state = State::Left(None),
            },
            State::Outside | State::Looking(_) | State::Telling { .. } | State::Left(_) => {}
        }
        Event::Quiet
    }

    /// What the registry has of the number that is held.
    fn found(&mut self, found: Option<Grant>, local: &Local) -> Event {
        let State::Holding(held) = &mut self.state else { return Event::Quiet };
        if found.as_ref() == Some(&held.grant) {
            held.doubt = Doubt::None;
            return Event::Quiet;
        }
        if let Some(write) = self.open.iter().find(|write| found.as_ref() == Some(&write.new)) {
            // Its answer was lost.
            let write = write.clone();
            return self.written(&write, local);
        }
        // A copy of the running machine has renewed the grant, or this one is back at an earlier state of its memory. A restored
        // registry has an earlier bound.
        let is_of_memory = self.open.len() < OPEN_WRITES
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
                // Nobody takes a number before its bound, unless the registry has forgotten that bound, or the
                // taker has a copy of this server's disk: such a one has seen what was granted here.
                let latest_ms = local.wall_ms.saturating_add(self.terms.clock_difference_ms.into());
                let was_seen = grant.predecessor == Some(held.grant.tag)
                    || self.open.iter().any(|write| grant.predecessor == Some(write.new.tag));
                let early =
                    grant.nonce != held.grant.nonce && held.grant.until_ms > latest_ms && !was_seen;
                self.state = if early { State::Telling { leaves: false } } else { State::Outside };
                self.open.clear();
                self.witness = None;
                // It takes the number again, unless another server renews it.
                self.kept = is_of_memory.then_some(Kept { number, nonce: grant.nonce });
                Event::Fenced(number)
            }
            found => {
                held.doubt = Doubt::Restored { found, told: false };
                Event::RegistryRestored
            }
        }
    }

    fn told(&mut self) -> Event {
        match &mut self.state {
            State::Holding(Held { doubt: Doubt::Restored { told, .. }, .. }) => *told = true,
            State::Telling { leaves: false } => self.state = State::Outside,
            State::Telling { leaves: true } => self.state = State::Left(None),
            _ => {}
        }
        Event::Quiet
    }

    /// What the registry has during the wait after an acquisition, which may be over.
    fn look(&mut self, listing: &Listing, local: &Local) -> Event {
        let State::Holding(held) = &self.state else { return Event::Quiet };
        let own = listing.grants.iter().find(|(number, _)| *number == held.number);
        let own = own.map(|(_, grant)| grant);
        if own != Some(&held.grant) {
            return self.found(own.cloned(), local);
        }
        let others = listing.grants.iter().filter(|(number, _)| *number != held.number);
        let others: Vec<&Grant> = others.map(|(_, grant)| grant).collect();
        let is_veteran = |grant: &&&Grant| self.terms.is_veteran(grant, local.wall_ms);
        let veterans: Vec<u128> = others.iter().filter(is_veteran).map(|grant| grant.tag).collect();
        let floor_ms = self.believable_floor_ms(listing.floor_ms, local);
        let (discovery_ms, forgotten_ms) = (self.terms.discovery_ms(), self.terms.forgotten_ms());
        let State::Holding(Held { wait, first_ms, others_ms, .. }) = &mut self.state else {
            return Event::Quiet;
        };
        let Some(waits) = wait else { return Event::Quiet };
        if waits.listed_boot_ms.is_none() {
            waits.tags = others.iter().map(|grant| grant.tag).collect();
        }
        waits.listed_boot_ms = Some(local.boot_ms);
        let passed_ms = local.boot_ms.saturating_sub(waits.since_boot_ms);
        let sees_veteran = veterans.iter().any(|tag| !waits.tags.contains(tag));
        let ends_ms = if passed_ms >= forgotten_ms.unsigned_abs() {
            floor_ms.max(waits.forgotten_ms)
        } else if waits.is_ended
            || passed_ms >= discovery_ms && (waits.is_of_founder || sees_veteran)
        {
            floor_ms
        } else {
            return Event::Quiet;
        };
        (*first_ms, *others_ms) = ((*first_ms).max(ends_ms), (*others_ms).max(ends_ms));
        *wait = None;
        Event::Quiet
    }
}

#[cfg(feature = "model-checking")]
impl Member {
    /// Shows every random number that this server knows: a model that renames them has fewer states.
    pub fn each_random(&mut self, show: &mut dyn FnMut(&mut u128)) {
        let mut grant = |grant: &mut Grant| {
            show(&mut grant.nonce);
            show(&mut grant.tag);
            grant.predecessor.iter_mut().for_each(&mut *show);
        };
        match &mut self.state {
            State::Choosing(choice) => choice.found.iter_mut().for_each(&mut grant),
            State::Holding(held) | State::Leaving(held) | State::Left(Some(held)) => {
                grant(&mut held.grant);
                if let Doubt::Restored { found, .. } = &mut held.doubt {
                    found.iter_mut().for_each(&mut grant);
                }
            }
            State::Outside | State::Looking(_) | State::Telling { .. } | State::Left(None) => {}
        }
        let asked = match &mut self.asked {
            Some(Asked::Write(write)) => Some(&mut **write),
            _ => None,
        };
        for write in self.open.iter_mut().chain(asked) {
            write.expected.iter_mut().for_each(&mut grant);
            grant(&mut write.new);
        }
        self.kept.iter_mut().for_each(|kept| show(&mut kept.nonce));
        self.witness.iter_mut().for_each(|witness| show(&mut witness.tag));
        match &mut self.state {
            State::Holding(Held { wait: Some(wait), .. }) => wait.tags.iter_mut().for_each(show),
            State::Looking(look) => {
                look.held.iter_mut().for_each(|seen| show(&mut seen.tag));
                look.own.iter_mut().for_each(|own| show(&mut own.tag));
            }
            _ => {}
        }
    }
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

    fn all(&self) -> impl Iterator<Item = Number> {
        self.in_range().filter(|number| !self.may_be_of_others(*number))
    }

    fn in_range(&self) -> impl Iterator<Item = Number> + use<> {
        let datacenter = self.datacenter;
        (self.first..=self.last).map(move |worker| Number { datacenter, worker })
    }
}

fn tag_of(grant: Option<&Grant>) -> Option<u128> {
    grant.map(|grant| grant.tag)
}

fn write(
    number: Number,
    expected: Option<Grant>,
    new: Grant,
    local: &Local,
    kind: WriteKind,
) -> (Request, Asked) {
    let write = Write {
        number,
        expected: expected.clone(),
        new: new.clone(),
        asked_boot_ms: local.boot_ms,
        kind,
    };
    (Request::Swap { number, expected, new }, Asked::Write(Box::new(write)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::originals::Claim;
    use crate::presets;

    const LOCAL: Local = Local { wall_ms: 1_000, boot_ms: 1_000, frontier_ms: 0, reserved_ms: 0 };

    fn outside(kept: Option<Kept>) -> Member {
        let layout = presets::by_name(presets::DEFAULT).unwrap().layout;
        let numbers = Numbers { layout, datacenter: 0, first: 5, last: 6, originals: None };
        Member::new(Terms::DEFAULT, numbers, Holder::default(), kept, None)
    }

    /// What a member says to a listing.
    fn listed(member: &mut Member, listing: &Listing) -> Event {
        member.next(&LOCAL, || 1);
        member.answered(Answer::Listing(listing.clone()), &LOCAL, |_| 0)
    }

    #[test]
    fn a_holder_that_finds_another_registry_tells_it_before_it_acquires_its_number_there() {
        let mut member = outside(None);
        listed(&mut member, &Listing::default());
        assert!(matches!(member.next(&LOCAL, || 2), Some(Request::Swap { .. })));
        assert!(matches!(member.answered(Answer::Swapped, &LOCAL, |_| 0), Event::Acquired(_)));
        member.doubt_registry();
        assert!(matches!(member.next(&LOCAL, || 3), Some(Request::RaiseFloor { .. })));
        member.answered(Answer::Floor { floor_ms: 0 }, &LOCAL, |_| 0);
        let acquired = member.next(&LOCAL, || 4);
        assert!(matches!(acquired, Some(Request::Swap { new, .. }) if new.nonce == 4));
    }

    #[test]
    fn no_number_of_a_server_outside_of_the_fleet_is_acquired_in_whatever_layout_it_has_it() {
        let mut member = outside(None);
        // The bits of its worker ID 5 are those of 10 and 11 in a worker ID that is one bit longer.
        let wide = "epoch=2024-01-01 tick=1ms time:41 worker:11 sequence:11".parse().unwrap();
        let number = |worker| Number { datacenter: 0, worker };
        let original = Original { layout: member.numbers.layout, number: number(5) };
        let originals = Originals::NONE.with(original, Claim::Assigned);
        member.numbers.originals = Some(Box::new(originals));
        assert!(!member.numbers.contain(number(5)) && member.numbers.contain(number(6)));
        (member.numbers.layout, member.numbers.first, member.numbers.last) = (wide, 10, 11);
        assert_eq!(member.numbers.count_of_others(), 2);
        assert_eq!(listed(&mut member, &Listing::default()), Event::NoFreeNumber);
        let accepted = originals.accept(Original { layout: wide, number: number(11) });
        member.numbers.originals = Some(Box::new(accepted));
        assert!(!member.numbers.contain(number(10)) && member.numbers.contain(number(11)));
    }

    #[test]
    fn what_a_wrong_clock_has_reserved_binds_until_the_reservation_is_reset() {
        const YEARS_MS: i64 = 100_000_000_000;
        let local = Local { reserved_ms: YEARS_MS, ..LOCAL };
        let (mut member, listing) = acquired(outside(None), of_other(0), &local);
        member.end_wait();
        listed(&mut member, &listing);
        let first_ms = |member: &Member| member.right().map(|right| right.first_ms);
        assert_eq!(first_ms(&member), Some(YEARS_MS));
        member.forget_reserved();
        let others_ms = LOCAL.wall_ms;
        assert_eq!(first_ms(&member), Some(others_ms), "not below what others may make");
        assert_eq!(member.to_witness(0).map(|it| it.reserved_ms), Some(others_ms));
    }

    fn at(after_ms: u64) -> Local {
        let (wall_ms, boot_ms) = (LOCAL.wall_ms + after_ms as i64, LOCAL.boot_ms + after_ms);
        Local { wall_ms, boot_ms, ..LOCAL }
    }

    /// A member that has acquired its number now, and what the registry has then, with a grant of another server.
    fn acquired(mut member: Member, other: Grant, local: &Local) -> (Member, Listing) {
        listed(&mut member, &Listing::default());
        let Some(Request::Swap { number, new, .. }) = member.next(local, || 2) else {
            panic!("it acquires a number")
        };
        member.answered(Answer::Swapped, local, |_| 0);
        let grants = vec![(number, new), (Number { worker: 900, ..number }, other)];
        (member, Listing { grants, ..Listing::default() })
    }

    /// The first time that the member may use its number, and from which time on, where the registry answers with this each time
    /// that the grants are listed, and takes what is renewed.
    fn used_after(mut member: Member, mut listing: Listing, renews: bool) -> (u64, i64) {
        for after_ms in (0..=200_000).step_by(500) {
            for _ in 0..3 {
                let answer = match member.next(&at(after_ms), || u128::from(after_ms) + 1_000) {
                    Some(Request::List) => Answer::Listing(listing.clone()),
                    Some(Request::Swap { new, .. }) => {
                        listing.grants[0].1 = new;
                        Answer::Swapped
                    }
                    other => {
                        assert_eq!(other, None);
                        break;
                    }
                };
                member.answered(answer, &at(after_ms), |_| 0);
            }
            if let Some(right) = member.right() {
                return (after_ms, right.first_ms - LOCAL.wall_ms);
            }
            if renews {
                listing.grants[1].1.tag += 1;
            }
        }
        panic!("it waits for ever")
    }

    /// A grant of another server that watches since so long before now.
    fn of_other(watched_ms: i64) -> Grant {
        Grant {
            nonce: 900,
            tag: 900,
            until_ms: i64::MAX,
            state: GrantState::Held,
            predecessor: None,
            watches_since_ms: Some(LOCAL.wall_ms - watched_ms),
            holder: Holder::default(),
        }
    }

    #[test]
    fn a_number_waits_for_a_renewal_of_a_veteran_or_until_nobody_is_forgotten() {
        let (short_ms, long_ms) = (Terms::DEFAULT.discovery_ms(), Terms::DEFAULT.forgotten_ms());
        let wait = |watched_ms, renews| {
            let (member, listing) = acquired(outside(None), of_other(watched_ms), &LOCAL);
            used_after(member, listing, renews)
        };
        assert_eq!(wait(long_ms, true), (short_ms, 0));
        let long = (long_ms.unsigned_abs(), long_ms);
        assert_eq!(wait(long_ms, false), long, "a veteran that has ended, or is paused");
        // It becomes one while this one waits.
        let later_ms = 20_000;
        assert_eq!(wait(long_ms - later_ms, true).0, 24_000, "as often as it renews its own");
        assert_eq!(wait(long_ms - later_ms, false), long, "one that ended before it was one");
        assert_eq!(wait(0, true).1, long_ms, "servers that start together");
    }

    #[test]
    fn who_made_the_fleet_waits_for_the_others_alone_and_is_a_veteran_at_once() {
        let mut maker = outside(None);
        maker.found_fleet(LOCAL.boot_ms);
        let (asked, listing) = acquired(maker.clone(), of_other(0), &LOCAL);
        let (_, grant) = asked.grant().expect("it has a number");
        assert!(Terms::DEFAULT.is_veteran(grant, LOCAL.wall_ms));
        assert_eq!(used_after(asked, listing, false), (Terms::DEFAULT.discovery_ms(), 0));
        // Not with the second number that it asks for, nor later, nor once it has doubts.
        let mut unanswered = maker.clone();
        listed(&mut unanswered, &Listing::default());
        unanswered.next(&LOCAL, || 2);
        unanswered.unanswered();
        let (soon, late) = (maker.clone(), at(Terms::DEFAULT.watch_ms()));
        maker.doubt_registry();
        for (member, local) in [(unanswered, LOCAL), (soon, late), (maker, LOCAL)] {
            let (member, _) = acquired(member, of_other(0), &local);
            let (_, grant) = member.grant().expect("it has a number");
            assert!(!Terms::DEFAULT.is_veteran(grant, local.wall_ms));
        }
    }

    #[test]
    fn a_wait_that_an_administrator_ends_reads_what_was_told_meanwhile() {
        let (mut member, mut listing) = acquired(outside(None), of_other(0), &LOCAL);
        member.end_wait();
        listing.floor_ms = LOCAL.wall_ms + 7_000;
        assert_eq!(used_after(member, listing, false), (0, 7_000));
    }

    /// A server that has just started, with the grants that it finds.
    struct Looking {
        member: Member,
        listing: Listing,
    }

    impl Looking {
        fn new(others: impl IntoIterator<Item = (u32, Grant)>) -> Looking {
            let number = |worker| Number { datacenter: 0, worker };
            let grants =
                others.into_iter().map(|(worker, grant)| (number(worker), grant)).collect();
            let mut member = outside(Some(Kept { number: number(6), nonce: 77 }));
            member.holder.server_id = 77;
            Looking { member, listing: Listing { grants, ..Listing::default() } }
        }

        fn renew(&mut self, until_ms: i64) {
            for (_, grant) in &mut self.listing.grants {
                (grant.tag, grant.until_ms) = (grant.tag + 1, until_ms);
            }
        }

        fn list(&mut self, after_ms: u64) -> Event {
            let local = at(after_ms);
            assert_eq!(self.member.next(&local, || 1), Some(Request::List), "after {after_ms}");
            self.member.answered(Answer::Listing(self.listing.clone()), &local, |_| 0)
        }

        fn chosen(&self) -> Option<u32> {
            match &self.member.state {
                State::Choosing(choice) => Some(choice.number.worker),
                _ => None,
            }
        }
    }

    /// A grant that was renewed at the time of the first listing.
    fn just_renewed(nonce: u128, server_id: u128) -> Grant {
        let until_ms = LOCAL.wall_ms + i64::from(Terms::DEFAULT.ahead_ms);
        Grant { nonce, until_ms, holder: Holder { server_id, ..Holder::default() }, ..of_other(0) }
    }

    #[test]
    fn a_clock_that_is_ahead_of_those_that_renew_acquires_nothing() {
        let late_ms = LOCAL.wall_ms - 10_000;
        let others = || {
            let late = |nonce| Grant { until_ms: late_ms - 1_000, ..just_renewed(nonce, nonce) };
            Looking::new([(900, late(1)), (901, late(2))])
        };
        let renewal_ms = Terms::DEFAULT.renewal_ms.into();
        let mut looking = others();
        assert_eq!((looking.list(0), looking.chosen()), (Event::Quiet, None));
        assert_eq!(looking.member.next_at_boot_ms(), Some(at(renewal_ms).boot_ms));
        looking.renew(late_ms);
        assert_eq!(looking.list(renewal_ms), Event::ClockAhead { against: 2, agree: 0 });
        // What was seen once and not again does not count for ever.
        assert_eq!((looking.list(20_000), looking.chosen()), (Event::Quiet, None));
        assert_eq!(looking.list(20_000 + Terms::DEFAULT.discovery_ms()), Event::Quiet);
        assert_eq!(looking.chosen(), Some(5));
        // One that agrees outweighs one that does not.
        let mut looking = others();
        looking.list(0);
        looking.renew(late_ms);
        looking.listing.grants[0].1.until_ms = at(renewal_ms).wall_ms + 1;
        assert_eq!((looking.list(renewal_ms), looking.chosen()), (Event::Quiet, Some(5)));
        // An administrator says that it is right.
        let mut looking = others();
        looking.member.confirm_clock();
        assert_eq!((looking.list(0), looking.chosen()), (Event::Quiet, Some(5)));
    }

    #[test]
    fn a_number_of_its_own_is_taken_again_when_its_grant_is_over_unless_another_renews_it() {
        let own = || Looking::new([(6, just_renewed(77, 77))]);
        let mut looking = own();
        let over_ms = u64::from(Terms::DEFAULT.ahead_ms + Terms::DEFAULT.clock_difference_ms);
        for after_ms in [0, 5_000, 9_000, 14_000] {
            assert_eq!((looking.list(after_ms), looking.chosen()), (Event::Quiet, None));
            assert!(
                matches!(looking.member.phase(), Phase::StillHeld { number, .. } if number.worker == 6)
            );
        }
        // A write of its own last process may land late.
        looking.listing.grants[0].1.tag += 1;
        assert_eq!((looking.list(over_ms - 1), looking.chosen()), (Event::Quiet, None));
        assert_eq!(looking.member.next_at_boot_ms(), Some(at(over_ms).boot_ms));
        assert_eq!((looking.list(over_ms), looking.chosen()), (Event::Quiet, Some(6)));
        let mut looking = own();
        looking.list(0);
        for (after_ms, found) in [(5_000, Event::Quiet), (10_000, Event::Copied)] {
            looking.listing.grants[0].1.tag += 1;
            assert_eq!(looking.list(after_ms), found);
        }
        looking.member.replace_identity(78);
        assert_eq!((looking.list(10_000), looking.chosen()), (Event::Quiet, Some(5)));
    }

    #[test]
    fn a_grant_of_its_identity_is_its_own_whichever_acquisition_it_is_of() {
        let mut looking = Looking::new([(6, just_renewed(1, 77))]);
        looking.list(0);
        assert!(matches!(looking.member.phase(), Phase::StillHeld { .. }));
        for (after_ms, found) in [(5_000, Event::Quiet), (10_000, Event::Copied)] {
            looking.renew(at(after_ms).wall_ms + 30_000);
            assert_eq!(looking.list(after_ms), found);
        }
    }

    #[test]
    fn an_earlier_value_of_its_own_is_a_restored_registry_and_a_later_one_is_looked_at() {
        let (member, listing) = acquired(outside(None), of_other(0), &LOCAL);
        let (number, own) = listing.grants[0].clone();
        for (by_ms, nonce, expected) in [
            (-1, own.nonce, Event::RegistryRestored),
            (0, own.nonce, Event::RegistryRestored),
            (1, own.nonce, Event::Fenced(number)),
            (-1, 901, Event::Fenced(number)),
            (1, 901, Event::Fenced(number)),
        ] {
            let (mut member, mut listing) = (member.clone(), listing.clone());
            let found = &mut listing.grants[0].1;
            (found.tag, found.until_ms, found.nonce) = (555, found.until_ms + by_ms, nonce);
            assert_eq!(listed(&mut member, &listing), expected, "{by_ms} {nonce}");
            // What another server has acquired before its bound, the registry has forgotten.
            let tells = matches!(member.next(&LOCAL, || 9), Some(Request::RaiseFloor { .. }));
            assert_eq!(tells, by_ms < 1 || nonce == 901, "{by_ms} {nonce}");
        }
    }

    #[test]
    fn a_registry_that_goes_back_is_neither_a_copy_nor_a_wrong_clock() {
        let mut looking = Looking::new([(6, just_renewed(77, 77)), (900, just_renewed(1, 1))]);
        let last = looking.listing.clone();
        looking.list(0);
        looking.renew(LOCAL.wall_ms - 1_000);
        assert_eq!(looking.list(5_000), Event::Quiet);
        looking.listing = last;
        assert_eq!(looking.list(10_000), Event::Quiet);
        // Nor is one that was silent for long.
        let mut looking = Looking::new([(900, just_renewed(1, 1))]);
        looking.list(0);
        looking.renew(at(2_000).wall_ms + 30_000);
        assert_eq!((looking.list(60_000), looking.chosen()), (Event::Quiet, None));
    }

    #[test]
    fn who_made_the_fleet_compares_its_clock_with_nobody() {
        let mut looking = Looking::new([(900, just_renewed(1, 1))]);
        looking.member.kept = None;
        looking.member.found_fleet(LOCAL.boot_ms);
        assert_eq!((looking.list(2_100), looking.chosen()), (Event::Quiet, Some(5)));
        // Nor later, when its number was released and another clock is behind.
        looking.member.state = State::Outside;
        looking.listing.grants[0].1.until_ms = 0;
        looking.list(20_000);
        assert_eq!(looking.chosen(), Some(5));
    }

    #[test]
    fn its_only_number_with_a_bound_of_a_wrong_clock_is_taken_unless_another_renews_it() {
        for renews in [false, true] {
            let mut looking = Looking::new([(6, just_renewed(77, 77))]);
            looking.member.numbers.first = 6;
            looking.renew(LOCAL.wall_ms + 90_000);
            looking.list(0);
            if renews {
                looking.renew(LOCAL.wall_ms + 95_000);
            }
            assert_eq!((looking.list(5_000), looking.chosen()), (Event::Quiet, None));
            looking.list(if renews { 10_000 } else { Terms::DEFAULT.discovery_ms() });
            assert_eq!(looking.chosen(), (!renews).then_some(6));
        }
    }

    #[test]
    fn numbers_of_shards_are_not_free_and_its_own_is_not_taken_again() {
        let number = |worker| Number { datacenter: 0, worker };
        let released = Grant {
            nonce: 7,
            tag: 8,
            until_ms: 10,
            state: GrantState::Released,
            predecessor: None,
            watches_since_ms: None,
            holder: Holder::default(),
        };
        let mut listing =
            Listing { floor_ms: i64::MIN, grants: Vec::new(), shards: vec![number(5)] };
        let mut member = outside(None);
        assert_eq!(listed(&mut member, &listing), Event::Quiet);
        assert!(matches!(&member.state, State::Choosing(choice) if choice.number == number(6)));
        listing.shards.push(number(6));
        assert_eq!(listed(&mut outside(None), &listing), Event::NoFreeNumber);
        listing.grants.push((number(5), released));
        let kept = Some(Kept { number: number(5), nonce: 7 });
        assert_eq!(listed(&mut outside(kept), &listing), Event::NoFreeNumber);
        listing.shards.clear();
        let mut member = outside(kept);
        assert_eq!(listed(&mut member, &listing), Event::Quiet);
        assert!(matches!(&member.state, State::Choosing(choice) if choice.number == number(5)));
    }
}
