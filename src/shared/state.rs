//! The shared state of a server, and how it is initialized.
//!
//! **What lies where.** A [`SharedState`] holds what every session shares; behind it lies an array of
//! [`Slot`]s, one for each process that can run SQL, behind that one of [`Prepared`] transactions, and then the
//! [`ShardSpace`].
//!
//! **Locking.** [`State`] is read and written under its lock alone, never across a wait, a log line or
//! anything that can fail. Whoever takes the lock closes the shared block first, so that what it finds is the
//! whole truth. The generation is written under the lock and read without it. The layout and
//! the number of slots never change after the state is initialized, and need no lock.
//!
//! **Addresses.** Where the memory lies ([`crate::shared::memory`]) may differ from process to process,
//! so it holds no addresses of its own.
//!
//! **Crashes.** A crash of any process makes PostgreSQL build all shared memory again, this state
//! included.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use id_gen_core::allocator::Allocator;
use id_gen_core::clock::{ClockMonitor, ClockReading, UnloggedSteps};
use id_gen_core::fleet::Number;
use id_gen_core::fleet::member::Phase;
use id_gen_core::frontier::{Run, SequenceStart, end_ms};
use id_gen_core::horizon::{self, Floor, Look, Outdated, Prepared, PreparedTable};
use id_gen_core::identity::{Identity, IdentityError, IdentitySource};
use id_gen_core::layout::Layout;
use id_gen_core::lead::LeadLimit;
use id_gen_core::originals::{Original, Originals};
use id_gen_core::planted::Fault;
use id_gen_core::rate_limit::RateLimit;
use id_gen_core::rate_window::{RateWindow, Sample};
use id_gen_core::shards::Place;
use id_gen_core::shared_block::SharedBlock;
use id_gen_core::startup::{self, StartupError};
use id_gen_core::test_server::{TestStart, TestStream};
use id_gen_core::time::{NS_PER_MS, format_ms, unix_ms};
use id_gen_core::uuid7;

use crate::durable::{self, number_file};
use crate::error::fleet::TroubleKind;
use crate::error::log_limit::{self, RateLimits};
use crate::error::{Error, Reason, report};
use crate::os::{clock, test_stream};
use crate::pg::lwlock::{self, CacheAligned, LwLock, LwLockGuard};
use crate::pg::wal::Lsn;
use crate::pg::{reload, server};
use crate::settings::{self, Settings, known};
use crate::shared::counters::{Counters, Counts, Events};
use crate::shared::membership::Membership;
use crate::shared::requests::Requests;
use crate::shared::shards::{ShardSpace, ShardState};
use crate::shared::slot::Slot;
use crate::shared::tickets::{PLACES, Tickets};
use crate::shared::worker_place::WorkerPlace;
use crate::shared::write_lock::WriteLock;

/// The state's name among PostgreSQL's shared memory, and its locks'.
pub const NAME: &CStr = c"id_gen";

/// Changes with the meaning of what follows and with the [`SharedBlock`]; a field more or less of the rest
/// changes [`VERSION`] by itself.
const FORMAT: usize = 22;

/// On a server where the library is not preloaded, sessions of two versions may attach to one state
/// after an upgrade.
const VERSION: usize = (((FORMAT << 16 | size_of::<State>()) << 16) | size_of::<Events>()) << 16
    | offset_of!(Slot, pid);

/// What all processes share.
#[repr(C)]
pub struct SharedState {
    /// [`VERSION`] of the library that made it.
    version: usize,
    /// Read for every ID, written seldom.
    fixed: CacheAligned<Fixed>,
    /// What sessions share of the current tick, where their IDs are in strict order. While it is open, nobody
    /// who holds the lock of the state relies on the allocator.
    pub block: SharedBlock,
    state: LwLock<State>,
    /// Who may write the reservation.
    pub write_lock: WriteLock,
    /// The keeper's place.
    pub keeper: WorkerPlace,
    /// The registrar's place.
    pub registrar: WorkerPlace,
    /// Refusals and waits.
    pub events: CacheAligned<Events>,
    log_limits: CacheAligned<RateLimits>,
    /// Everything that is handed out is above this ID: what was observed, and what is below anything since. Written under
    /// the lock, and only up, unless the server starts again; read without it.
    all_above: CacheAligned<AtomicU64>,
    /// The time and the random bits of a server for tests.
    pub test_stream: CacheAligned<TestStream>,
    /// The moment of the last UUID in strict order over the whole server: [`id_gen_core::ordered::next_in_order`].
    pub last_moment: CacheAligned<AtomicU64>,
    /// Ranges of numbers, by sequence.
    pub tickets: Tickets,
    /// What sessions ask of the fleet's registry.
    pub requests: Requests,
}

// SAFETY: the layout is written once, under the lock, before any process reads it; all else is made for
// sharing.
unsafe impl Sync for SharedState {}

struct Fixed {
    /// Changes whenever blocks already handed out must not be used any more.
    generation: AtomicU64,
    /// The layout of this server until it restarts; `None` if the setting holds none. Written under the
    /// lock, once, when the state is initialized.
    layout: UnsafeCell<Option<Layout>>,
    /// When the IDs of a server for tests begin; `None` on any other. Written as the layout is.
    test_start: UnsafeCell<Option<TestStart>>,
    slot_count: usize,
    prepared_room: usize,
    /// Where the [`ShardSpace`] lies, from the beginning of the state on.
    shards_offset: usize,
}

/// What only the holder of the lock may touch. What every claim writes comes first, on one
/// [`CACHE_LINE`].
#[repr(C)]
pub struct State {
    /// The largest values of claims so far.
    pub peaks: Peaks,
    /// Whether a session may hold more than the ID that it asked for, under the present generation.
    pub blocks_held: bool,
    /// What the shared block was opened with, as long as it is open: not noted in the allocator.
    shared_run: Option<SharedRun>,
    /// The positions of this server; `None` until the first use has read the reservation.
    pub allocator: Option<Allocator>,
    /// The clocks as they were trusted until then.
    early_clocks: Option<ClockMonitor>,
    /// Whether an administrator has accepted them, so that they count for more than what the last run knew.
    early_clocks_accepted: bool,
    /// What a claim needs to know of settings and identity.
    pub rules: ClaimRules,
    /// The settings in force for all processes.
    pub settings: Settings,
    /// Who this server is within its IDs.
    pub identity: Identity,
    /// Who it would be without a fleet.
    typed: Identity,
    /// Its place in its fleet.
    pub membership: Membership,
    /// The servers that this one is a copy of, and with whose numbers it generates nothing. Known with the first allocator.
    pub originals: Originals,
    /// The number in the reservation, if it is this server's in this layout.
    pub recorded: Option<Number>,
    /// The fleet that a session of this server has made, or was about to make, and when, on the clock of the boot.
    pub made_fleet: Option<(u128, u64)>,
    /// The fleet that a superuser has said this server belongs to, whatever fleet it belonged to before.
    pub accepted_fleet: Option<u128>,
    /// How often an administrator has ended the wait after an acquisition.
    pub ended_waits: u64,
    /// Number of times that an administrator has accepted the clock.
    pub clock_acceptances: u64,
    /// How often an administrator has reported here that the registry was restored.
    pub restores: u64,
    /// When settings and identity were read from the configuration file, on the monotonic clock.
    settings_read_mono_ns: u64,
    /// The same on the wall clock, as it was then, in Unix microseconds: what a file's time is compared with.
    settings_read_us: i64,
    /// Whether a process has put the server's settings in here: see [`SharedState::attach`].
    initialized: bool,
    /// Whether the last write of the reservation failed.
    pub write_failing: bool,
    /// Where the record of the last bound ends in the write-ahead log, if it was logged.
    pub logged_to: Option<Lsn>,
    /// Steps of the clock that no log line reports yet.
    unlogged_steps: UnloggedSteps,
    step_log_limit: RateLimit,
    /// Below every ID that may still be admitted: no horizon was above it. Known with the first allocator.
    pub floor: Floor,
    /// How many times an administrator has made the server start again: what was read of the horizon before holds no more.
    resets: u64,
    /// How many prepared transactions are in the table, all that were prepared before the first allocator among them.
    prepared_count: usize,
    /// What holds for all shards.
    pub shards: ShardState,
    /// Statistics.
    pub counters: Counters,
}

/// What sessions take of without the lock.
#[repr(C)]
#[derive(Clone, Copy)]
struct SharedRun {
    start: u64,
    now_tick: u64,
}

/// What a claim writes comes from another processor whenever that one claimed last. Of the allocator, a
/// claim writes the frontier, which comes first in it. What follows is written seldom, so that every
/// processor has a copy of it.
const CACHE_LINE: usize = 64;
const _: () = assert!(offset_of!(State, allocator) + 2 * size_of::<u64>() <= CACHE_LINE);

/// What a claim needs to know of settings and identity, worked out when they are put in force.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ClaimRules {
    /// The node's bits in every ID; `None` if this server can't generate with its numbers.
    pub node_bits: Option<u64>,
    /// How far IDs may lead the clock.
    pub lead: LeadLimit,
    /// Largest block of a backend.
    pub max_block: u64,
    /// Where a fresh tick starts.
    pub sequence_start: SequenceStart,
}

impl ClaimRules {
    fn new(layout: Option<&Layout>, identity: &Identity, settings: &Settings) -> ClaimRules {
        // On a server for tests each ID has its own time, so no session holds one from before.
        let holds_blocks = test_stream::stream().is_none();
        let least: u64 = if Fault::MaxBlockIgnored.is_planted() { 64 } else { 1 };
        ClaimRules {
            node_bits: layout.and_then(|layout| identity.node_bits(layout).ok()),
            lead: layout.map_or(LeadLimit::of_ticks(0), |layout| {
                LeadLimit::of_ms(layout, settings.max_lead_ms)
            }),
            max_block: if holds_blocks { least.max(settings.max_block.into()) } else { 1 },
            sequence_start: settings.sequence_start,
        }
    }
}

/// The largest values of claims since the last reset.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Peaks {
    /// Largest lead of an ID over the clock.
    pub lead_ticks: u64,
    /// Highest place within a tick.
    pub sequence: u64,
}

impl Peaks {
    /// Notes the last position of a claim that was made while the clock showed `now_tick`.
    #[inline]
    pub fn note(&mut self, layout: &Layout, now_tick: u64, last: u64) {
        if cfg!(feature = "uncounted") {
            return;
        }
        let last_tick = layout.tick_of(last);
        self.lead_ticks = self.lead_ticks.max(last_tick.saturating_sub(now_tick));
        self.sequence = self.sequence.max(last - layout.first_position(last_tick));
    }
}

/// What a look at the horizon brings.
#[derive(Debug)]
pub enum HorizonRead {
    /// It is read.
    Done {
        /// The horizon, if one is known.
        horizon: Option<i64>,
        /// How many times the server was made to start again.
        resets: u64,
    },
    /// These transactions were prepared; some may have ended.
    Check(Vec<Prepared>),
    /// The server has not started to make IDs.
    NotStarted,
}

/// Who has read the settings again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The keeper.
    Keeper,
    /// A process that generates.
    Session,
}

impl State {
    /// Whether a superuser has said of a fleet that this server belongs to it: by a statement, or by making it.
    pub fn is_accepted(&self, fleet: u128) -> bool {
        let is_made = self.made_fleet.is_some_and(|made| made.0 == fleet);
        is_made || self.accepted_fleet == Some(fleet)
    }

    /// The largest forward step of the clock that is trusted.
    pub fn max_jump_ns(&self) -> u64 {
        u64::from(self.settings.max_jump_ms) * NS_PER_MS
    }

    /// Reads both clocks and checks them. Counts a step, and refuses a jump.
    ///
    /// # Errors
    /// By how many nanoseconds the clock jumped.
    pub fn check_clocks(&mut self) -> Result<ClockReading, u64> {
        let reading = clock::both();
        let max_jump_ns = self.max_jump_ns();
        let monitor = match &mut self.allocator {
            Some(allocator) => &mut allocator.monitor,
            None => self.early_clocks.get_or_insert(ClockMonitor::new(reading)),
        };
        let checked = monitor.check(reading, max_jump_ns);
        let totals = &mut self.counters.totals;
        match checked.stepped_ns.signum() {
            -1 => {
                totals.steps_back += 1;
                let by_ns = checked.stepped_ns.unsigned_abs();
                totals.largest_step_back_ns = totals.largest_step_back_ns.max(by_ns);
            }
            1 => totals.steps_forward += 1,
            _ => {}
        }
        self.unlogged_steps.note(checked.stepped_ns);
        checked.jumped_ns.map_or(Ok(reading), Err)
    }

    /// As [`State::check_clocks`], but nothing is noted or counted: for whoever only looks.
    ///
    /// # Errors
    /// By how many nanoseconds the clock jumped.
    pub fn look_at_clocks(&self) -> Result<ClockReading, u64> {
        let reading = clock::both();
        let monitor = self.allocator.map(|allocator| allocator.monitor).or(self.early_clocks);
        let jumped_ns = monitor.and_then(|mut it| it.check(reading, self.max_jump_ns()).jumped_ns);
        jumped_ns.map_or(Ok(reading), Err)
    }

    /// The clocks that an administrator has accepted before this server started to generate.
    pub fn accepted_clocks(&self) -> Option<ClockMonitor> {
        self.early_clocks.filter(|_| self.early_clocks_accepted)
    }

    /// Puts in force what this server generates with from now on.
    pub fn put_allocator(&mut self, allocator: Allocator) {
        self.allocator = Some(allocator);
        // It has taken over what was accepted.
        self.early_clocks_accepted = false;
    }

    /// The clock that bounds in a registry are made of and other servers' bounds are compared with, in Unix milliseconds: the
    /// wall clock, or one that goes on from where that was trusted last. Before this server has started to make IDs,
    /// `before_start` says where that was, or where it was when a process first asked.
    pub fn trusted_ms(&mut self, before_start: Option<ClockMonitor>) -> i64 {
        let reading = clock::both();
        if Fault::DistrustedClockWritten.is_planted() {
            return reading.wall_ms();
        }
        let monitor = self.monitor(before_start);
        unix_ms(monitor.map_or(reading.wall_ns, |it| it.trusted_ns(reading, self.max_jump_ns())))
    }

    fn monitor(&mut self, before_start: Option<ClockMonitor>) -> Option<ClockMonitor> {
        if let Some(allocator) = &self.allocator {
            return Some(allocator.monitor);
        }
        // If the clock jumped, what was trusted before stays.
        self.check_clocks().ok();
        self.accepted_clocks().or(before_start).or(self.early_clocks)
    }

    /// How many times an administrator has made the server start again.
    pub const fn resets(&self) -> u64 {
        self.resets
    }

    /// The latest time that the clocks allow for, in Unix milliseconds, and by how many milliseconds the wall clock is behind
    /// it: that was set back, or was ahead before. `before_start` as for [`State::trusted_ms`].
    pub fn latest_ms(&mut self, before_start: Option<ClockMonitor>) -> (i64, u64) {
        let reading = clock::both();
        let behind_ns = self.monitor(before_start).map_or(0, |it| it.behind_ns(reading));
        let behind_ms = behind_ns / NS_PER_MS;
        (self.trusted_ms(before_start).saturating_add_unsigned(behind_ms), behind_ms)
    }

    /// The error about a clock that jumped.
    pub fn jumped(&self, by_ns: u64) -> Error {
        Reason::Jumped { by_ns, max_jump_ms: self.settings.max_jump_ms }.into()
    }

    /// Steps of the clock that are to be logged now: the first at once, then those of some seconds together, so that a
    /// clock which is set again and again does not fill the log.
    pub fn take_unlogged_steps(&mut self) -> Option<UnloggedSteps> {
        if self.unlogged_steps.is_empty() {
            return None;
        }
        self.step_log_limit.admit(clock::mono_ns())?;
        Some(std::mem::take(&mut self.unlogged_steps))
    }

    /// Who this server is by its settings and by what the registry granted.
    fn next_identity(&self) -> Identity {
        match (self.settings.has_registry, &self.membership.active_grant) {
            (false, _) => self.typed,
            (true, Some(grant)) => Identity::granted(grant),
            (true, None) => self.joining_identity().unwrap_or(Identity::WITHOUT_GRANT),
        }
    }

    /// Who this server is while it joins a fleet with the number that it has. Until that is granted it goes on as before:
    /// unless another server holds the number, and, once the registry was asked for it, to the bound that was asked for or
    /// acknowledged alone. From there on another server may take it, whether an answer came or not.
    fn joining_identity(&self) -> Option<Identity> {
        let Identity { worker, datacenter, source, first_ms, .. } = self.identity;
        let own = Number { datacenter, worker: worker? };
        let is_taken = self.membership.trouble.is_some_and(|it| it.kind == TroubleKind::Taken);
        match (source, self.membership.acknowledged.or(self.membership.requested)) {
            _ if first_ms.is_some() || is_taken => None,
            (_, Some((number, until_ms))) if number == own => Some(Identity {
                source: IdentitySource::Registry,
                valid_until_ms: Some(until_ms),
                ..self.identity
            }),
            (IdentitySource::Setting, _) if self.identity.same_node(&self.typed) => {
                Some(self.typed)
            }
            _ => None,
        }
    }

    /// The datacenter number that is typed, which all of this server's IDs have.
    pub const fn typed_datacenter(&self) -> u32 {
        self.typed.datacenter
    }

    /// The number that an administrator assigned, also where a registry has not granted it, or will not.
    pub fn typed_number(&self) -> Option<Number> {
        self.typed.number()
    }

    /// The Unix millisecond of the first ID with a granted number, as long as none was made.
    pub fn not_begun(&self, layout: &Layout) -> Option<Reason> {
        self.not_begun_of(layout, self.allocator.as_ref()?)
    }

    /// The same for an allocator that is or would be this server's.
    pub fn not_begun_of(&self, layout: &Layout, allocator: &Allocator) -> Option<Reason> {
        let first_ms = self.identity.first_ms?;
        let first = layout.first_position(layout.tick_from(first_ms));
        let of_others = self.membership.active_grant.filter(|grant| grant.others_ms >= first_ms);
        let reason = Reason::NotBegun { first_ms, of_others: of_others.map(|grant| grant.number) };
        (allocator.frontier().position() <= first).then_some(reason)
    }

    /// Counts a write of the reservation.
    pub fn count_write(&mut self, took_ns: u64, succeeded: bool) {
        let totals = &mut self.counters.totals;
        totals.reservation_writes += 1;
        totals.reservation_failures += u64::from(!succeeded);
        totals.slowest_reservation_write_ns = totals.slowest_reservation_write_ns.max(took_ns);
        self.write_failing = !succeeded;
    }
}

impl SharedState {
    /// What every process does once before it uses the state. The first that knows the server's
    /// settings initializes it: they are in force from then on. A crash is no restart: the layout that
    /// was in force before it stays.
    ///
    /// # Errors
    /// If the state was made by a library of another version, or is not initialized and this process
    /// can't do it.
    pub fn attach(&'static self) -> Result<(), Error> {
        if self.version != VERSION {
            return Err(Reason::OtherVersion.into());
        }
        #[cfg(not(feature = "pg19"))] // which names them for all processes at once
        self.state.register_name(NAME);
        if !self.lock().initialized {
            self.initialize()?;
        }
        log_limit::share(&self.log_limits.0);
        self.share_test_stream();
        settings::set_test_start_in_force(self.test_start());
        settings::set_layout_in_force(self.layout_if_valid().copied());
        Ok(())
    }

    fn initialize(&'static self) -> Result<(), Error> {
        if reload::is_ignored() {
            return Err(Reason::ReloadsIgnored.into());
        }
        if reload::is_signaled() {
            known::catch_up_for_good()?;
        } else {
            known::check()?;
        }
        if reload::is_pending() {
            return Err(Reason::ReloadPending.into());
        }
        let layout = settings::layout_in_force()
            .or_else(|| durable::layout_of_this_run().map(Some))
            .unwrap_or_else(|| settings::layout().ok());
        let test_start = settings::test_start_in_force().unwrap_or_else(settings::test_start);
        let test_until_ms = durable::test_mark::until_ms();
        let mut state = self.lock();
        if !state.initialized {
            // SAFETY: this process holds the lock, and none has come past this place before.
            unsafe {
                *self.fixed.0.layout.get() = layout;
                *self.fixed.0.test_start.get() = test_start;
            }
            if let Some(start) = test_start {
                let start_ms = if let TestStart::At(start_ms) = start { start_ms } else { 0 };
                self.test_stream.0.begin(start_ms.max(test_until_ms.unwrap_or(0)));
                self.share_test_stream();
            }
            state.settings = settings::current();
            state.typed = self.typed_identity();
            self.put_in_force(&mut state);
            state.settings_read_mono_ns = reload::time_mono_ns();
            state.settings_read_us = reload::time_us();
            state.initialized = true;
            drop(state);
            if let Some(start) = test_start {
                report::log_line(match start {
                    TestStart::At(start_ms) => format!(
                        "id_gen: this server is in test mode: its IDs start at {} and are the same in each run",
                        format_ms(start_ms.max(test_until_ms.unwrap_or(0)))
                    ),
                    TestStart::Invalid => "id_gen: this server is in test mode, but id_gen.test_start is not a time; it generates no IDs".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// When the IDs of this server begin, if it is one for tests.
    pub fn test_start(&self) -> Option<TestStart> {
        // SAFETY: as for the layout.
        unsafe { *self.fixed.0.test_start.get() }
    }

    /// On a server for tests, lets this process have its time and its random bits from there.
    fn share_test_stream(&'static self) {
        if self.test_start().is_some() {
            test_stream::install(&self.test_stream.0);
        }
    }

    /// The server's numbers by the settings. One for tests has number 0 without any.
    fn typed_identity(&self) -> Identity {
        let typed = settings::identity();
        match self.test_start() {
            None => typed,
            Some(_) => Identity { worker: typed.worker.or(Some(0)), ..typed },
        }
    }

    /// Puts settings and identity in force as they are now in the state.
    fn put_in_force(&self, state: &mut State) {
        let identity = state.next_identity();
        let (goes_on, is_bounded) =
            (state.identity.goes_on_as(&identity), identity.valid_until_ms.is_some());
        let forgotten_end = state.shards.forgotten_end;
        if let (Some(allocator), Some(layout)) = (&mut state.allocator, self.layout_if_valid()) {
            if !goes_on {
                allocator.change_node(layout, &identity);
                allocator.raise(forgotten_end);
            } else if is_bounded && state.identity.valid_until_ms.is_none() {
                // What is reserved may reach beyond the bound.
                allocator.release(layout);
            }
            // Also of a number that stays: the shard may have gone on until it was given back just now.
            let number = identity.number();
            if let Some(end) = number.and_then(|number| self.end_as_shard(layout, number)) {
                allocator.raise(end);
            }
        }
        state.rules = ClaimRules::new(self.layout_if_valid(), &identity, &state.settings);
        if self.refused_number(state, &identity).is_some() {
            // A shard or another server would generate the same IDs.
            state.rules.node_bits = None;
        }
        state.identity = identity;
        self.tickets.adopt_registry(state.settings.registry_mark);
        self.next_generation();
        self.follow_basis(state);
        if let Some(layout) = self.layout_if_valid()
            && state.shards.basis.is_none()
        {
            self.open_declared(state, layout);
        }
    }

    /// Takes note of a shard that this server has got, or given away: whether it makes IDs of its own may depend on it.
    pub fn put_shards(&self, state: &mut State) {
        self.put_in_force(state);
    }

    /// Takes note of this server's place in its fleet. A bound that only moves on disturbs nobody; any other change of the
    /// right ends all blocks.
    pub fn put_membership(&self, membership: Membership) {
        let mut state = self.lock();
        state.membership = membership;
        let identity = state.next_identity();
        let had_bound = state.identity.valid_until_ms.is_some();
        if state.identity.goes_on_as(&identity) && had_bound == identity.valid_until_ms.is_some() {
            state.identity = identity;
            self.follow_basis(&mut state);
        } else {
            self.put_in_force(&mut state);
        }
        drop(state);
        self.requests.changed.wake_all();
    }

    /// Whether all that this server made with a number that it had before it joined its fleet lies below a Unix
    /// millisecond. True of a number that the fleet gave it, of which it has made nothing yet.
    pub fn has_made_below(&self, number: Number, until_ms: i64) -> bool {
        let state = self.lock();
        let Identity { worker, datacenter, first_ms, .. } = state.identity;
        let joins =
            first_ms.is_none() && (worker, datacenter) == (Some(number.worker), number.datacenter);
        match (&state.allocator, self.layout_if_valid()) {
            (Some(allocator), Some(layout)) if joins => allocator.next_tick_ms(layout) <= until_ms,
            _ => true,
        }
    }

    /// Takes the lock, and closes the shared block.
    #[inline]
    pub fn lock(&self) -> LwLockGuard<'_, State> {
        self.with_closed_block(self.state.lock())
    }

    /// The same, if nobody holds the lock. Otherwise waits until somebody has released it, who may have opened
    /// the block.
    pub fn lock_or_wait(&self) -> Option<LwLockGuard<'_, State>> {
        self.state.lock_or_wait().map(|state| self.with_closed_block(state))
    }

    #[inline]
    fn with_closed_block<'a>(&self, mut state: LwLockGuard<'a, State>) -> LwLockGuard<'a, State> {
        if let Some(shared_run) = state.shared_run {
            self.close_block(&mut state, shared_run);
        }
        state
    }

    /// Opens the shared block, with positions that come after all that the allocator has handed out. It is
    /// closed when the lock is taken again, so nothing may be claimed before this guard is dropped.
    pub fn open_block(&self, state: &mut State, layout: &Layout, run: Run, id: u64, now_tick: u64) {
        state.shared_run = Some(SharedRun { start: run.start, now_tick });
        self.block.open(layout, id, run.count, now_tick);
    }

    fn close_block(&self, state: &mut State, shared_run: SharedRun) {
        state.shared_run = None;
        let taken = self.block.close();
        let (Some(allocator), Some(layout)) = (&mut state.allocator, self.layout_if_valid()) else {
            return;
        };
        if taken > 0 {
            let end = shared_run.start + taken - u64::from(Fault::SharedBlockOneShort.is_planted());
            allocator.raise(end);
            state.peaks.note(layout, shared_run.now_tick, end - 1);
        }
    }

    /// The current generation.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.fixed.0.generation.load(Ordering::Acquire)
    }

    fn next_generation(&self) {
        self.fixed.0.generation.fetch_add(1, Ordering::Release);
    }

    /// Puts this process's settings in force for all, if it is the one to do so: that is the keeper,
    /// which reads every reload as soon as any process, or where none runs, whoever read them last.
    /// A pending reload counts as newer, because the time of reading is known through the wall clock
    /// alone, which may have been set back since.
    pub fn adopt_settings(&self, reader: Reader) {
        let (settings, typed) = (settings::current(), self.typed_identity());
        let read_at = reload::time_mono_ns();
        let keeper_runs = self.keeper.is_running();
        let are_known = known::check().is_ok();
        let mut state = self.lock();
        let outdated = || {
            keeper_runs
                || reload::is_pending()
                || !are_known
                || read_at <= state.settings_read_mono_ns
        };
        if reader == Reader::Session && outdated() {
            return;
        }
        state.settings_read_mono_ns = read_at;
        state.settings_read_us = reload::time_us();
        if (state.settings, state.typed) == (settings, typed) {
            return;
        }
        (state.settings, state.typed) = (settings, typed);
        self.put_in_force(&mut state);
    }

    /// When the settings in force were read, in Unix microseconds.
    pub fn settings_read_us(&self) -> i64 {
        self.lock().settings_read_us
    }

    /// An ID that everything is above which is handed out from now on; zero as long as none is known.
    #[inline(always)]
    pub fn all_above(&self) -> u64 {
        self.all_above.0.load(Ordering::Acquire)
    }

    /// Everything that the allocator hands out is above an ID, and after a crash, too: ends the blocks that sessions hold
    /// from before. Whoever then reads [`SharedState::all_above`] comes after that.
    pub fn end_blocks_below(&self, state: &mut State, id: u64) {
        if state.blocks_held {
            state.blocks_held = false;
            self.next_generation();
        }
        let last = self.all_above.0.load(Ordering::Relaxed);
        self.all_above.0.store(last.max(id), Ordering::Release);
    }

    /// Takes the allocator away, if there is one, and returns it: nothing is claimed, and no block is
    /// used any more, until there is another.
    pub fn take_allocator(&self) -> Option<Allocator> {
        let mut state = self.lock();
        self.next_generation();
        // An administrator may let it start again below.
        self.all_above.0.store(0, Ordering::Release);
        self.close_shards(&mut state);
        state.allocator.take()
    }

    /// Trusts the clock as it is now: an administrator's answer to [`Reason::Jumped`], and to UUIDs in strict order that
    /// lead it too far. Returns whether there were such.
    pub fn accept_clock(&self) -> bool {
        let max_lead_ms = {
            let mut state = self.lock();
            // A step that no process has noticed yet is counted, and will be logged, before it is trusted.
            state.check_clocks().ok();
            state.clock_acceptances += 1;
            let accepted = ClockMonitor::new(clock::both());
            if !Fault::AcceptClockForgotten.is_planted() {
                match &mut state.allocator {
                    Some(allocator) => allocator.monitor = accepted,
                    None => {
                        state.early_clocks = Some(accepted);
                        state.early_clocks_accepted = true;
                    }
                }
            }
            state.settings.max_lead_ms
        };
        self.registrar.wake();
        let led = self.ordered_lead_ms() > max_lead_ms.into();
        if led {
            self.last_moment.0.store(0, Ordering::Relaxed);
        }
        led
    }

    /// How far UUIDs in strict order lead the clock, in milliseconds; zero or less if they do not.
    pub fn ordered_lead_ms(&self) -> i64 {
        let last = self.last_moment.0.load(Ordering::Relaxed);
        uuid7::ms_of_moment(last) - unix_ms(clock::wall_ns())
    }

    /// The Unix millisecond of the next ID, unless the clock is past it, of the number or the shard that is furthest ahead; and
    /// the end of the reservation. `None` as long as the server has not started to generate.
    pub fn allocated_ms(&self) -> Option<(i64, i64)> {
        let layout = self.layout_if_valid()?;
        let allocator = self.lock().allocator?;
        let of_shard = |place: &Place| {
            let owned = place.owned()?;
            Some(owned.first_ms.max(end_ms(layout, place.end())))
        };
        let of_shards = self.shards().in_use().filter_map(of_shard);
        let frontier_ms = of_shards.fold(allocator.frontier_ms(layout), i64::max);
        Some((frontier_ms, allocator.reserved_until_ms(layout)))
    }

    /// Whether the registrar is about to acquire a number, as far as it knows.
    pub fn expects_grant(&self) -> bool {
        let state = self.lock();
        let Membership { active_grant, phase, trouble, .. } = &state.membership;
        state.settings.has_registry
            && active_grant.is_none()
            && trouble.is_none()
            && matches!(phase, None | Some(Phase::Outside | Phase::Acquiring))
    }

    /// Whether this server has a number that fits its layout.
    ///
    /// # Errors
    /// Why it can't make IDs.
    pub fn check_number(&self, layout: &Layout) -> Result<(), Error> {
        let (identity, Membership { phase, trouble, .. }, refused) = {
            let state = self.lock();
            let refused = self.refused_number(&state, &state.identity);
            (state.identity, state.membership, refused)
        };
        match identity.node_bits(layout) {
            Ok(_) => refused.map_or(Ok(()), Err),
            Err(IdentityError::Unset) if identity.source == IdentitySource::Registry => {
                if trouble.is_some_and(|it| it.kind == TroubleKind::Reservation) {
                    // The same refusal as without a fleet.
                    durable::read_known(layout)?;
                    durable::replicated::read()?;
                }
                let registrar_runs = self.registrar.is_running();
                Err(Reason::NoGrant { phase, trouble, registrar_runs }.into())
            }
            Err(IdentityError::Unset) if number_file::exists() => {
                Err(Reason::LeftFleet(*layout).into())
            }
            Err(error) => Err(Reason::identity(error, layout).into()),
        }
    }

    /// Why this server may not generate with the numbers that it has, because others may generate the same IDs: its shards, or a
    /// server that it is a copy of.
    pub fn refused_number(&self, state: &State, identity: &Identity) -> Option<Error> {
        let number = identity.number()?;
        if let Some(refused) = self.refused_as_own(state, number) {
            return Some(refused.into());
        }
        let (layout, error) = (self.layout_if_valid()?, self.original_of(state, identity)?);
        let Membership { phase, trouble, .. } = state.membership;
        Some(match identity.source {
            IdentitySource::Setting => Reason::Startup(error, *layout).into(),
            // The registrar gets another one.
            IdentitySource::Registry => {
                let registrar_runs = self.registrar.is_running();
                Reason::NoGrant { phase, trouble, registrar_runs }.into()
            }
        })
    }

    /// That a server which this one is a copy of may generate IDs with the number that this server has. A registry grants a number
    /// to one member only, but others may have it outside of the fleet: a standby gets one before that is known here.
    pub fn original_of(&self, state: &State, identity: &Identity) -> Option<StartupError> {
        // Copies of a server for tests generate the same IDs on purpose.
        let number = identity.number().filter(|_| test_stream::stream().is_none())?;
        match identity.source {
            IdentitySource::Setting => self.original_with(state, number),
            IdentitySource::Registry => {
                let own = Original { layout: *self.layout_if_valid()?, number };
                let number = state.originals.refuse_grant(own)?;
                Some(StartupError::CopiedBefore { number })
            }
        }
    }

    /// That a server which this one is a copy of may generate IDs with a number.
    pub fn original_with(&self, state: &State, number: Number) -> Option<StartupError> {
        let own = Original { layout: *self.layout_if_valid()?, number };
        startup::check_original(&state.originals, Some(own)).err()
    }

    /// Whether there is time left of this server's right to its number.
    ///
    /// # Errors
    /// If all of it is used up.
    pub fn check_grant(&self, layout: &Layout) -> Result<(), Error> {
        self.check_grant_at(layout, 0)
    }

    /// The same for an ID of a shard, at this position or later.
    ///
    /// # Errors
    /// As there.
    pub fn check_grant_at(&self, layout: &Layout, position: u64) -> Result<(), Error> {
        let allocator = self.lock().allocator;
        allocator.map_or(Ok(()), |allocator| self.check_grant_of(layout, &allocator, position))
    }

    /// The same for an allocator that is or would be this server's; the position of a shard's ID, or zero.
    ///
    /// # Errors
    /// If all of it is used up.
    pub fn check_grant_of(
        &self,
        layout: &Layout,
        allocator: &Allocator,
        position: u64,
    ) -> Result<(), Error> {
        let position_ms = layout.tick_start_ms(layout.tick_of(position));
        let state = self.lock();
        let Some(until_ms) = state.identity.valid_until_ms else { return Ok(()) };
        let now_ms = unix_ms(clock::wall_ns());
        let reserved_until_ms = allocator.reserved_until_ms(layout);
        let next_ms = if position > 0 { position_ms } else { allocator.frontier_ms(layout) };
        if reserved_until_ms < until_ms || next_ms.max(now_ms) < until_ms {
            return Ok(());
        }
        if position == 0
            && now_ms < until_ms
            && let Some(reason) = state.not_begun_of(layout, allocator)
        {
            return Err(reason.into());
        }
        let trouble = state.membership.trouble;
        drop(state);
        Err(Reason::GrantUsedUp { until_ms, trouble }.into())
    }

    /// The layout of this server.
    ///
    /// # Errors
    /// If the server was started with a setting that is no layout.
    #[inline]
    pub fn layout(&self) -> Result<&Layout, Error> {
        self.layout_if_valid().ok_or_else(no_layout)
    }

    /// The layout of this server, without a reason if it has none.
    #[inline(always)]
    pub fn layout_if_valid(&self) -> Option<&Layout> {
        // SAFETY: written once, before any process came past `attach`, and whoever did has taken the
        // lock since.
        unsafe { &*self.fixed.0.layout.get() }.as_ref()
    }

    /// What was counted since the last reset.
    pub fn counts(&self) -> Counts {
        self.lock().counters.since_reset(self.slot_counts())
    }

    /// Takes a sample of the counts, if one is due.
    pub fn sample(&self) {
        self.lock().counters.sample(self.slot_counts());
    }

    /// The samples so far, and one of now to compare them with.
    pub fn rates(&self) -> (RateWindow, Sample) {
        self.lock().counters.rates(self.slot_counts())
    }

    /// Resets the statistics.
    pub fn reset_counts(&self) {
        let mut state = self.lock();
        state.counters.reset(self.slot_counts());
        state.peaks = Peaks::default();
        self.events.0.reset();
    }

    fn slot_counts(&self) -> impl Iterator<Item = Counts> {
        self.slots().map(Slot::counts)
    }

    /// The slots of all processes that can run SQL.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        (0..self.fixed.0.slot_count).filter_map(|index| self.slot(index))
    }

    /// What belongs to shards.
    #[inline(always)]
    pub fn shards(&self) -> &ShardSpace {
        // SAFETY: it follows what `size` asked for and `create` made before it, where `shards_offset` says.
        unsafe {
            &*std::ptr::from_ref(self).byte_add(self.fixed.0.shards_offset).cast::<ShardSpace>()
        }
    }

    /// The slot of the process with this number.
    fn slot(&self, index: usize) -> Option<&Slot> {
        if index >= self.fixed.0.slot_count {
            return None;
        }
        // SAFETY: `slot_count` slots follow the state, as `size` asked for and `create` made.
        Some(unsafe { &*std::ptr::from_ref(self).add(1).cast::<Slot>().add(index) })
    }

    /// The prepared transactions, for the holder of the lock.
    pub fn prepared<'a>(&self, state: &'a mut State) -> PreparedTable<'a> {
        let Fixed { slot_count, prepared_room, .. } = self.fixed.0;
        // SAFETY: so many entries follow the slots, as `size` asked for and `create` made. Whoever has the state has
        // the lock, and the table borrows the state for as long as it lives.
        let room = unsafe {
            let slots = std::ptr::from_ref(self).add(1).cast::<Slot>();
            let entries = slots.add(slot_count).cast::<Prepared>().cast_mut();
            std::slice::from_raw_parts_mut(entries, prepared_room)
        };
        PreparedTable { count: &mut state.prepared_count, room }
    }

    /// The server starts to make IDs with this allocator; these transactions were prepared before. Or it starts again,
    /// because an administrator says so.
    ///
    /// # Errors
    /// If they are more than the table has room for, which is more than PostgreSQL has.
    pub fn start_horizon(
        &self,
        state: &mut State,
        layout: &Layout,
        allocator: &Allocator,
        prepared: &[Prepared],
        resets: bool,
    ) -> Result<(), Error> {
        if !state.floor.is_known() {
            let mut table = self.prepared(state);
            let full = prepared.iter().any(|&entry| table.add(entry).is_err());
            if full {
                return Err(Reason::TooManyPrepared.into());
            }
        }
        let frontier = allocator.frontier().position();
        let frontier_id = horizon::frontier_id(layout, frontier, state.rules.node_bits);
        if resets {
            state.floor.start_again(frontier_id);
            state.resets += 1;
        } else {
            state.floor.start(frontier_id);
        }
        Ok(())
    }

    /// The horizon of a database now, for a snapshot that is taken later. Which prepared transactions have ended is known
    /// to the caller alone, who hears of them first.
    pub fn read_horizon(&self, database: u32, ended: Option<&[u64]>) -> HorizonRead {
        let Some(layout) = self.layout_if_valid() else { return HorizonRead::NotStarted };
        let mut state = self.lock();
        let mut prepared = self.prepared(&mut state);
        match ended {
            None if !prepared.entries().is_empty() => {
                return HorizonRead::Check(prepared.entries().to_vec());
            }
            ended => prepared.forget_all(ended.unwrap_or_default()),
        }
        let Some(look) = self.look(&mut state, layout) else { return HorizonRead::NotStarted };
        drop(state);
        // There may be thousands of slots, so nobody waits for this.
        let least_pending = self.least_pending(database);
        let mut state = self.lock();
        if let Ok(read) = self.end_look(&mut state, look, least_pending, database) {
            return read;
        }
        // Once only, and now nothing can come in between.
        let Some(look) = self.look(&mut state, layout) else { return HorizonRead::NotStarted };
        let least_pending = self.least_pending(database);
        self.end_look(&mut state, look, least_pending, database).unwrap_or(HorizonRead::NotStarted)
    }

    /// Begins a look at the horizon; `None` before the server has started to make IDs.
    fn look(&self, state: &mut State, layout: &Layout) -> Option<Look> {
        let shards_id = self.raise_open_shards(state, layout);
        let frontier = state.allocator.as_ref()?.frontier().position();
        let frontier_id = horizon::frontier_id(layout, frontier, state.rules.node_bits);
        let frontier_id = shards_id.map_or(frontier_id, |shards_id| frontier_id.min(shards_id));
        Some(state.floor.look(frontier_id))
    }

    /// The lowest ID that a session of a database has pending.
    fn least_pending(&self, database: u32) -> Option<i64> {
        let of_database = |slot: &&Slot| slot.database.load(Ordering::Relaxed) == database;
        self.slots().filter(of_database).filter_map(|slot| slot.pending.first_id()).min()
    }

    /// Ends a look at the horizon.
    fn end_look(
        &self,
        state: &mut State,
        look: Look,
        least_pending: Option<i64>,
        database: u32,
    ) -> Result<HorizonRead, Outdated> {
        let mut floor = state.floor;
        let prepared = self.prepared(state);
        let horizon = floor.horizon(look, least_pending, prepared.entries(), database)?;
        state.floor = floor;
        Ok(HorizonRead::Done { horizon, resets: state.resets })
    }

    /// Where shards are open, sees to it that none of them, nor the server itself, makes an ID of a tick before the clock's
    /// any more; returns the lowest ID of that tick. So readers get past IDs of shards, which are in no order with others,
    /// once the clock is past them.
    fn raise_open_shards(&self, state: &mut State, layout: &Layout) -> Option<i64> {
        if !self.shards().is_any_open() {
            return None;
        }
        let trusted_ns = match state.check_clocks() {
            Ok(reading) => reading.wall_ns,
            Err(_) => state.allocator.as_ref()?.monitor.trusted().wall_ns,
        };
        // No further than what is reserved: after a crash, IDs begin there.
        let reserved = layout.tick_of(self.shards().ceiling().end());
        let tick = layout.clock_tick(trusted_ns).unwrap_or_default().min(reserved);
        let first = layout.first_position(tick);
        state.allocator.as_mut()?.raise(first);
        self.shards().in_use().for_each(|place| place.raise(first));
        Some(Layout::to_bigint(layout.min_of(tick)))
    }

    /// Takes the slot of this process, new.
    ///
    /// # Errors
    /// [`Reason::NoSlot`] in a process that is not made to run SQL.
    pub fn take_slot(&self) -> Result<&Slot, Error> {
        let slot =
            server::process_number().and_then(|index| self.slot(index)).ok_or(Reason::NoSlot)?;
        let mut state = self.lock();
        state.counters.retire(slot.counts());
        slot.reset(server::pid(), server::database());
        Ok(slot)
    }
}

#[cold]
fn no_layout() -> Error {
    match settings::layout() {
        Err(invalid) => durable::invalid_layout(invalid),
        Ok(_) => Reason::LayoutNeedsRestart.into(),
    }
}

/// Bytes that the state for this many processes takes. They are reserved bytes, more than it needs, so
/// that another version of this library finds memory of the size it expects and
/// [`SharedState::attach`] can say what is wrong.
pub const fn size(slot_count: usize, prepared_room: usize) -> usize {
    const STATE_BYTES: usize = 8192 + 1024 * PLACES + 72 * 1024;
    const SLOT_BYTES: usize = 256;
    const SHARD_BYTES: usize = 768 * 1024;
    const { assert!(size_of::<SharedState>() <= STATE_BYTES && size_of::<Slot>() <= SLOT_BYTES) };
    const { assert!(size_of::<ShardSpace>() + align_of::<ShardSpace>() <= SHARD_BYTES) };
    STATE_BYTES + slot_count * SLOT_BYTES + prepared_room * size_of::<Prepared>() + SHARD_BYTES
}

/// Makes a new state. Raises no error: PostgreSQL calls it while it holds a lock.
///
/// # Safety
/// `memory` must be `size(slot_count, prepared_room)` bytes, aligned for a [`SharedState`], and nobody else's yet.
pub unsafe fn create(memory: *mut c_void, slot_count: usize, prepared_room: usize) {
    let slots_end = size_of::<SharedState>() + slot_count * size_of::<Slot>();
    let prepared_end = slots_end + prepared_room * size_of::<Prepared>();
    let shards_offset = prepared_end.next_multiple_of(align_of::<ShardSpace>());
    let shared = SharedState {
        version: VERSION,
        fixed: CacheAligned(Fixed {
            generation: AtomicU64::new(1),
            layout: UnsafeCell::new(None),
            test_start: UnsafeCell::new(None),
            slot_count,
            prepared_room,
            shards_offset,
        }),
        block: SharedBlock::default(),
        state: LwLock::uninitialized(State {
            shared_run: None,
            blocks_held: false,
            allocator: None,
            early_clocks: None,
            early_clocks_accepted: false,
            rules: ClaimRules::new(None, &Identity::NONE, &Settings::NONE),
            peaks: Peaks::default(),
            settings: Settings::NONE,
            identity: Identity::NONE,
            typed: Identity::NONE,
            membership: Membership::default(),
            originals: Originals::NONE,
            recorded: None,
            made_fleet: None,
            accepted_fleet: None,
            ended_waits: 0,
            clock_acceptances: 0,
            restores: 0,
            settings_read_mono_ns: 0,
            settings_read_us: 0,
            initialized: false,
            write_failing: false,
            logged_to: None,
            unlogged_steps: UnloggedSteps::default(),
            step_log_limit: RateLimit::default(),
            floor: Floor::default(),
            resets: 0,
            prepared_count: 0,
            shards: ShardState::NEW,
            counters: Counters::new(),
        }),
        write_lock: WriteLock::uninitialized(),
        keeper: WorkerPlace::default(),
        registrar: WorkerPlace::default(),
        events: CacheAligned(Events::default()),
        log_limits: CacheAligned(RateLimits::default()),
        all_above: CacheAligned(AtomicU64::new(0)),
        test_stream: CacheAligned(TestStream::default()),
        last_moment: CacheAligned(AtomicU64::new(0)),
        tickets: Tickets::uninitialized(),
        requests: Requests::uninitialized(),
    };
    let place: *mut SharedState = memory.cast();
    // SAFETY: the caller vouches for the memory. All-zero bytes are a valid, empty slot, a valid entry, and
    // places without shards.
    let shared = unsafe {
        place.write(shared);
        let slots = place.add(1).cast::<Slot>();
        slots.write_bytes(0, slot_count);
        slots.add(slot_count).cast::<Prepared>().write_bytes(0, prepared_room);
        place.byte_add(shards_offset).cast::<ShardSpace>().write_bytes(0, 1);
        &*place
    };
    let tranche = lwlock::new_tranche(NAME);
    shared.state.initialize(tranche);
    shared.write_lock.initialize(tranche);
    shared.tickets.initialize(tranche);
    shared.requests.initialize(tranche);
}
