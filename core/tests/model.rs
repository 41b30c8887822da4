//! A model checker over the real rules of claiming and reserving: every order of claims, keeper
//! steps, clock steps, stops and crashes in a small world, searched exhaustively.
//!
//! The world has a layout of two IDs a tick, two sessions, one writer of the reservation, and a
//! disk that keeps what was last written. A crash forgets everything but the disk. In a world with a
//! standby, that takes the primary's place at any moment, without its disk, but with all that was in
//! the log: what the primary did later than that is lost with it, and so might as well not have been. In a world with a
//! copy, that takes the server's place on the same timeline: with an older file, and with all that was in the log. In a
//! world that observes, IDs come from elsewhere, too. Three properties must hold in every state that can be reached: no position is
//! handed out twice, none at or above what is durably reserved, and none that is not above all that was observed before.
//!
//! The same search over rules with one step in the wrong place must find a duplicate; otherwise
//! the checker proves nothing.

use id_gen_core::allocator::Allocator;
use id_gen_core::clock::{ClockMonitor, ClockReading};
use id_gen_core::directory::{Directory, Origin};
use id_gen_core::frontier::{ClaimSize, Run, SequenceStart};
use id_gen_core::identity::Identity;
use id_gen_core::kept_file::Place;
use id_gen_core::layout::{Field, Layout};
use id_gen_core::lead::LeadLimit;
use id_gen_core::observe::{Denied, first_above};
use id_gen_core::originals::{Claim, Originals};
use id_gen_core::replicated::{Bound, Replayed};
use id_gen_core::reservation::Record;
use id_gen_core::startup::{self, Assignment, StartPoint, StartupContext, StoredRecord};
use stateright::{Checker, HasDiscoveries, Model, Property};

const TICK_MS: u32 = 1000;
const SESSIONS: usize = 2;
const LAST_TICK: u64 = 15;
const MAX_LEAD_TICKS: LeadLimit = LeadLimit::of_ticks(1);
const MAX_LEAD_MS: u32 = TICK_MS;
const DIRECTORY: Directory = Directory { inode: 1, created_ns: None };
const NODE: Identity = Identity { worker: Some(0), ..Identity::NONE };

/// Which step is out of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Claims may use a reservation before it is on disk.
    ExtendBeforeWrite,
    /// A smaller bound is on disk before claims know of it.
    WriteBeforeRelease,
    /// A start begins at the clock, whatever is on disk.
    IgnoreDisk,
    /// The allocator starts one tick below what was reserved.
    BeginTooLow,
    /// The bound that is written follows a clock that was set back.
    FollowClockBack,
    /// Claims may use a reservation before it is in the log.
    ExtendBeforeLog,
    /// A promoted standby begins at its clock, and a copy at its file, whatever they replayed.
    IgnoreReplayed,
    /// What is observed counts before the reservation covers it.
    ObserveUnreserved,
    /// Sessions go on with blocks from before what was observed.
    KeepBlocks,
    /// What is below the frontier counts as observed, and what is at it.
    AllAboveFrontier,
    /// The frontier is raised to what is observed, not above it.
    ObserveTooLow,
}

/// How large a world to search.
#[derive(Clone, Copy, Debug)]
struct World {
    layout: Layout,
    fault: Fault,
    /// Ticks that the clock may reach.
    ticks: u64,
    crashes: u8,
    steps_back: u8,
    failovers: u8,
    copies: u8,
    observations: u8,
}

/// The position in the log of the bound that was inserted last.
const LAST_LOGGED: u64 = 1;

/// The reservation's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Disk {
    until_ms: i64,
    /// Whether it was written after the bound that was inserted last in the log.
    after_log: bool,
}

/// What the writer of the reservation is about to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Writer {
    Idle,
    /// A larger bound is planned, not yet on disk.
    Extending(i64),
    /// It is on disk, not yet in the log.
    Extended(i64),
    /// It is in the log, and claims do not know yet.
    Logged(i64),
    /// What is unused has been given back; the smaller bound is not yet on disk.
    Released(i64),
    /// It is on disk, not yet in the log.
    ReleasedOnDisk(i64),
}

/// What a crash forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Memory {
    allocator: Allocator,
    held: [Option<Run>; SESSIONS],
    writer: Writer,
    /// An ID up to which nothing has to be done to observe one.
    all_above: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    clock: u64,
    /// The file, if anything was ever written.
    disk: Option<Disk>,
    /// The file of a copy, once there is one.
    copy: Option<Disk>,
    /// The bound last inserted in the log.
    logged_until_ms: Option<i64>,
    /// What the last start found of it: every one but the first replays the log.
    replayed_until_ms: Option<i64>,
    memory: Option<Memory>,
    /// One bit for each position handed out.
    given: u64,
    /// Everything that is handed out has to be at or above this position.
    observed_end: u64,
    twice: bool,
    unreserved: bool,
    not_above: bool,
    crashes: u8,
    steps_back: u8,
    failovers: u8,
    copies: u8,
    observations: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Tick,
    StepBack,
    Start,
    Claim(usize),
    Take(usize),
    PlanExtension,
    PlanRelease,
    Write,
    Log,
    Extend,
    Crash,
    FailOver,
    /// A base backup reads the file.
    CopyFile,
    /// The server is gone for good, and the copy takes its place.
    StartCopy,
    /// An ID so many positions after the first of the clock's tick comes from elsewhere.
    Observe(u64),
}

impl World {
    fn new(fault: Fault, ticks: u64, crashes: u8, steps_back: u8) -> World {
        let fields = [(Field::Time, 4), (Field::Sequence, 1)];
        let layout = Layout::new(0, TICK_MS, false, &fields).unwrap();
        assert!(ticks < LAST_TICK, "the world ends before its layout does");
        let (failovers, copies, observations) = (0, 0, 0);
        World { layout, fault, ticks, crashes, steps_back, failovers, copies, observations }
    }

    /// A small world in which the standby takes the primary's place once.
    fn with_standby(fault: Fault) -> World {
        World { failovers: 1, ..World::new(fault, 5, 0, 1) }
    }

    /// A small world in which a copy takes the server's place once.
    fn with_copy(fault: Fault) -> World {
        World { copies: 1, ..World::new(fault, 5, 0, 1) }
    }

    /// A small world to which an ID comes from elsewhere, over a crash or a standby that takes the primary's place.
    fn observing(fault: Fault, crashes: u8, failovers: u8) -> World {
        World { observations: 1, failovers, ..World::new(fault, 4, crashes, 0) }
    }

    /// A smaller one to which two come, while the clock is set back.
    fn observing_twice(fault: Fault) -> World {
        World { observations: 2, ..World::new(fault, 3, 0, 1) }
    }

    /// An ID of another server: it may be as far ahead as IDs of this one.
    fn observe(&self, state: &mut State, memory: &mut Memory, position: u64) -> Option<()> {
        let id = self.layout.id_at(position, 0);
        let is_observed = id <= memory.all_above;
        let above = first_above(&self.layout, id, 0);
        let above = if self.fault == Fault::ObserveTooLow { position } else { above };
        let mut allocator = memory.allocator;
        let observed = allocator.observe(&self.layout, &NODE, above, state.clock, MAX_LEAD_TICKS);
        if !is_observed {
            memory.allocator = allocator;
        }
        match observed {
            _ if is_observed => {}
            Ok(()) => {}
            // The caller extends the reservation, and comes again.
            Err(Denied::Unreserved) if self.fault != Fault::ObserveUnreserved => return Some(()),
            Err(Denied::Unreserved) => {}
            Err(_) => return None,
        }
        if !is_observed {
            let all_above = allocator.all_above(&self.layout).max(id);
            memory.all_above = match self.fault {
                // Of what is not reserved, a crash may make more.
                Fault::AllAboveFrontier => allocator.frontier().position().max(id),
                _ => memory.all_above.max(all_above),
            };
            if self.fault != Fault::KeepBlocks {
                memory.held = [None; SESSIONS];
            }
        }
        state.observations += 1;
        state.observed_end = state.observed_end.max(position + 1);
        Some(())
    }

    /// Where the real rules let a allocator begin, given what is on disk.
    fn start(&self, state: &State) -> StartPoint {
        let clock = ClockReading::default();
        let context = StartupContext {
            system_identifier: 1,
            timeline: 1 + u32::from(state.failovers),
            layout: self.layout,
            boot: 1,
            clock,
            last_replayed_ms: None,
            replayed: state.replayed_until_ms.filter(|_| self.fault != Fault::IgnoreReplayed).map(
                |until_ms| Replayed {
                    bound: Bound {
                        claim: Claim::Assigned,
                        system_identifier: 1,
                        until_ms,
                        layout: self.layout,
                        number: None,
                        directory: DIRECTORY,
                    },
                    log_position: LAST_LOGGED,
                    timeline: 1 + u32::from(state.failovers),
                },
            ),
            max_lead_ms: 0,
            upgraded_ms: None,
            origin: None,
            assignment: Assignment::Registry,
            is_for_tests: false,
            is_only_copy: false,
        };
        let stored = match state.disk {
            Some(Disk { until_ms, after_log }) if self.fault != Fault::IgnoreDisk => {
                StoredRecord::Found(Record {
                    place: Place {
                        system_identifier: 1,
                        timeline: context.timeline,
                        origin: Origin { directory: DIRECTORY, file: None },
                    },
                    layout: self.layout,
                    until_ms: until_ms
                        - if self.fault == Fault::BeginTooLow { i64::from(TICK_MS) } else { 0 },
                    boot: 1,
                    clock,
                    server_start_us: None,
                    node: None,
                    log_position: if after_log { LAST_LOGGED } else { LAST_LOGGED - 1 },
                    originals: Originals::NONE,
                })
            }
            _ => StoredRecord::Absent,
        };
        let start = startup::start_point(&stored, &context).unwrap();
        // The model steps the clock itself.
        StartPoint { monitor: ClockMonitor::default(), ..start }
    }

    fn next_reserved_until_ms(&self, state: &State, allocator: &Allocator) -> i64 {
        let now_ms = self.layout.tick_start_ms(state.clock);
        let until_ms =
            allocator.next_reserved_until_ms(&self.layout, &NODE, Some(now_ms), MAX_LEAD_MS);
        match self.fault {
            Fault::FollowClockBack => until_ms.min(now_ms + i64::from(MAX_LEAD_MS)),
            _ => until_ms,
        }
    }

    fn claim(&self, state: &mut State, memory: &mut Memory, session: usize) -> Option<()> {
        let run = memory
            .allocator
            .claim(
                &self.layout,
                state.clock,
                ClaimSize::Block(2),
                MAX_LEAD_TICKS,
                SequenceStart::Zero,
            )
            .ok()?;
        let reserved = state
            .disk
            .map_or(0, |disk| self.layout.first_position(self.layout.tick_from(disk.until_ms)));
        state.unreserved |= run.end() > reserved;
        memory.held[session] = Some(run);
        Some(())
    }
}

impl State {
    /// A file is written.
    fn write(&mut self, until_ms: i64) {
        self.disk = Some(Disk { until_ms, after_log: true });
    }

    /// A bound is inserted in the log, after every file that was written before.
    fn log(&mut self, until_ms: i64) {
        self.logged_until_ms = Some(until_ms);
        for file in [&mut self.disk, &mut self.copy].into_iter().flatten() {
            file.after_log = false;
        }
    }

    fn give(&mut self, position: u64) {
        let bit = 1 << position;
        self.twice |= self.given & bit != 0;
        self.given |= bit;
        self.not_above |= position < self.observed_end;
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            clock: 2,
            disk: None,
            copy: None,
            logged_until_ms: None,
            replayed_until_ms: None,
            memory: None,
            given: 0,
            observed_end: 0,
            twice: false,
            unreserved: false,
            not_above: false,
            crashes: 0,
            steps_back: 0,
            failovers: 0,
            copies: 0,
            observations: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Tick, Action::StepBack]);
        if state.memory.is_none() {
            actions.push(Action::Start);
            return;
        }
        for session in 0..SESSIONS {
            actions.extend([Action::Claim(session), Action::Take(session)]);
        }
        actions.extend([
            Action::PlanExtension,
            Action::PlanRelease,
            Action::Write,
            Action::Log,
            Action::Extend,
            Action::Crash,
        ]);
        if state.failovers < self.failovers {
            actions.push(Action::FailOver);
        }
        if state.copies < self.copies {
            let next = if state.copy.is_none() { Action::CopyFile } else { Action::StartCopy };
            actions.push(next);
        }
        if state.observations < self.observations {
            // Of the clock's tick, of the next, which is as far ahead as is allowed, and beyond.
            actions.extend([1, 3, 4].map(Action::Observe));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = *last;
        let layout = &self.layout;
        match action {
            Action::Tick => {
                state.clock += 1;
                return (state.clock <= self.ticks).then_some(state);
            }
            Action::StepBack => {
                state.steps_back += 1;
                state.clock = state.clock.checked_sub(2)?;
                return (state.steps_back <= self.steps_back).then_some(state);
            }
            Action::Start => {
                let allocator = Allocator::new(layout, &self.start(&state));
                // A server that starts makes its first reservation, whatever it found.
                let writer = Writer::Extending(self.next_reserved_until_ms(&state, &allocator));
                state.memory =
                    Some(Memory { allocator, held: [None; SESSIONS], writer, all_above: 0 });
                return Some(state);
            }
            Action::Crash => {
                // What was logged may be lost with it.
                state.crashes += 1;
                state.memory = None;
                return (state.crashes <= self.crashes).then_some(state);
            }
            Action::FailOver => {
                state.failovers += 1;
                state.memory = None;
                state.disk = None;
                state.replayed_until_ms = state.logged_until_ms;
                return Some(state);
            }
            Action::CopyFile => {
                state.copy = Some(state.disk?);
                return Some(state);
            }
            Action::StartCopy => {
                state.copies += 1;
                state.memory = None;
                state.disk = state.copy.take();
                state.replayed_until_ms = state.logged_until_ms;
                return Some(state);
            }
            _ => {}
        }
        let mut memory = state.memory?;
        match (action, memory.writer) {
            (Action::Observe(ahead), _) => {
                let position = layout.first_position(state.clock) + ahead;
                self.observe(&mut state, &mut memory, position)?;
            }
            (Action::Claim(session), _) if memory.held[session].is_none() => {
                self.claim(&mut state, &mut memory, session)?;
            }
            (Action::Take(session), _) => {
                let run = memory.held[session]?;
                state.give(run.start);
                memory.held[session] =
                    (run.count > 1).then_some(Run { start: run.start + 1, count: run.count - 1 });
            }
            (Action::PlanExtension, Writer::Idle) => {
                let until_ms = self.next_reserved_until_ms(&state, &memory.allocator);
                if until_ms <= memory.allocator.reserved_until_ms(layout) {
                    return None;
                }
                if self.fault == Fault::ExtendBeforeWrite {
                    memory.allocator.extend(layout, until_ms);
                }
                memory.writer = Writer::Extending(until_ms);
            }
            (Action::PlanRelease, Writer::Idle) => {
                let until_ms = if self.fault == Fault::WriteBeforeRelease {
                    let mut copy = memory.allocator;
                    copy.release(layout)
                } else {
                    memory.allocator.release(layout)
                };
                memory.writer = Writer::Released(until_ms);
            }
            (Action::Write, Writer::Extending(until_ms)) => {
                state.write(until_ms);
                memory.writer = Writer::Extended(until_ms);
                if self.fault == Fault::ExtendBeforeLog {
                    memory.allocator.extend(layout, until_ms);
                }
            }
            (Action::Write, Writer::Released(until_ms)) => {
                state.write(until_ms);
                memory.writer = Writer::ReleasedOnDisk(until_ms);
            }
            (Action::Log, Writer::Extended(until_ms)) => {
                state.log(until_ms);
                memory.writer = Writer::Logged(until_ms);
            }
            (Action::Log, Writer::ReleasedOnDisk(until_ms)) => {
                state.log(until_ms);
                memory.writer = Writer::Idle;
            }
            (Action::Extend, Writer::Logged(until_ms)) => {
                memory.allocator.extend(layout, until_ms);
                memory.writer = Writer::Idle;
            }
            _ => return None,
        }
        // Sessions are alike: without their order there are half as many states.
        memory.held.sort_unstable_by_key(|run| run.map(|run| (run.start, run.count)));
        state.memory = Some(memory);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("no position twice", |_, state: &State| !state.twice),
            Property::always("none that is not reserved", |_, state: &State| !state.unreserved),
            Property::always("all above what was observed", |_, state: &State| !state.not_above),
            // Without these, the search might have missed what it is for.
            Property::sometimes("IDs after a crash", |_, state: &State| {
                state.crashes + state.failovers + state.copies > 0
                    && state.memory.is_some_and(|memory| memory.held.iter().any(Option::is_some))
            }),
            Property::sometimes("a lead over the clock", |world, state: &State| {
                64 - state.given.leading_zeros() > 2 * (state.clock + 1) as u32
                    && world.ticks > state.clock
            }),
        ]
    }
}

fn search(world: World) -> impl Checker<World> {
    world.checker().threads(2).spawn_bfs().join()
}

#[test]
fn no_order_of_steps_gives_a_position_twice() {
    let found = search(World::new(Fault::None, 5, 2, 1));
    println!("{} states", found.unique_state_count());
    found.assert_properties();
}

#[track_caller]
fn finds(fault: Fault, property: &'static str) {
    // Two crashes: the first to lose what a bound stood for, the second to start from it.
    finds_in(World::new(fault, 4, 2, 1), property);
}

#[track_caller]
fn finds_in(world: World, property: &'static str) {
    let fault = world.fault;
    // The rest of the world is of no interest then.
    let found = HasDiscoveries::AllOf([property].into());
    let found = world.checker().threads(2).finish_when(found).spawn_bfs().join();
    assert!(found.discovery(property).is_some(), "{fault:?} should break \"{property}\"");
}

#[test]
fn reserving_before_writing_is_found() {
    finds(Fault::ExtendBeforeWrite, "none that is not reserved");
    finds(Fault::ExtendBeforeWrite, "no position twice");
}

#[test]
fn writing_a_smaller_bound_before_claims_know_is_found() {
    finds(Fault::WriteBeforeRelease, "none that is not reserved");
    finds(Fault::WriteBeforeRelease, "no position twice");
}

#[test]
fn starting_without_the_disk_is_found() {
    finds(Fault::IgnoreDisk, "no position twice");
}

#[test]
fn starting_a_tick_too_low_is_found() {
    finds(Fault::BeginTooLow, "no position twice");
}

#[test]
fn following_a_clock_that_was_set_back_is_found() {
    finds(Fault::FollowClockBack, "no position twice");
}

#[test]
fn no_order_of_steps_repeats_a_position_that_a_standby_replayed() {
    let found = search(World::with_standby(Fault::None));
    println!("{} states", found.unique_state_count());
    found.assert_properties();
}

#[test]
fn using_a_reservation_that_is_not_in_the_log_is_found() {
    finds_in(World::with_standby(Fault::ExtendBeforeLog), "no position twice");
}

#[test]
fn ignoring_what_was_replayed_is_found() {
    finds_in(World::with_standby(Fault::IgnoreReplayed), "no position twice");
}

#[test]
fn no_order_of_steps_repeats_a_position_that_a_copy_replayed() {
    let found = search(World::with_copy(Fault::None));
    println!("{} states", found.unique_state_count());
    found.assert_properties();
}

#[test]
fn ignoring_what_a_copy_replayed_is_found() {
    finds_in(World::with_copy(Fault::IgnoreReplayed), "no position twice");
    finds_in(World::with_copy(Fault::ExtendBeforeLog), "no position twice");
}

#[test]
fn no_order_of_steps_gives_a_position_below_what_was_observed() {
    for (crashes, failovers) in [(1, 0), (0, 1)] {
        let found = search(World::observing(Fault::None, crashes, failovers));
        println!("{} states", found.unique_state_count());
        found.assert_properties();
    }
}

#[test]
fn no_order_of_steps_gives_a_position_below_the_second_that_was_observed() {
    let found = search(World::observing_twice(Fault::None));
    println!("{} states", found.unique_state_count());
    for property in ["no position twice", "all above what was observed"] {
        found.assert_no_discovery(property);
    }
}

#[test]
fn taking_too_much_for_observed_is_found() {
    finds_in(World::observing_twice(Fault::AllAboveFrontier), "all above what was observed");
}

#[test]
fn observing_before_it_is_reserved_is_found() {
    finds_in(World::observing(Fault::ObserveUnreserved, 1, 0), "all above what was observed");
    finds_in(World::observing(Fault::ObserveUnreserved, 0, 1), "all above what was observed");
}

#[test]
fn keeping_blocks_from_before_is_found() {
    finds_in(World::observing(Fault::KeepBlocks, 0, 1), "all above what was observed");
}

#[test]
fn raising_the_frontier_too_low_is_found() {
    finds_in(World::observing(Fault::ObserveTooLow, 0, 1), "all above what was observed");
}
