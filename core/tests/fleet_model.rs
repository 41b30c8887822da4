//! A model checker over the real protocol of the fleet: every order of steps of a few servers and one registry,
//! with faults, searched exhaustively within bounds.
//!
//! Each world has some servers, numbers and faults. A server runs the real [`Member`] and makes IDs as far as
//! its right reaches. Requests are answered at once, or lost, delayed and applied out of order as far as the
//! world's faults go. What is looked for is one number and one time, guessed at the start, for which two IDs
//! are made: that keeps what was made out of the state.

use std::fmt::Debug;

use id_gen_core::fleet::grant::{Grant, GrantState, Holder, Number, Terms};
use id_gen_core::fleet::member::{
    Event, LocalInputs, Member, Numbers, Phase, StoredNumber, Witness,
};
use id_gen_core::fleet::registry::{Answer, Listing, Registry, Request, ask};
use id_gen_core::presets;
use stateright::{Checker, Chooser, Expectation, HasDiscoveries, Model, Property, UniformChooser};

/// Unix milliseconds and the clock of the boot, for one tick of the model.
const TICK_MS: i64 = 1_000;

/// A registry that can go back in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Double {
    floor_ms: i64,
    grants: Vec<Option<Grant>>,
}

impl Double {
    fn numbers(&self) -> Vec<(Number, Grant)> {
        let held = self.grants.iter().enumerate();
        held.filter_map(|(index, grant)| Some((number(index), grant.clone()?))).collect()
    }
}

fn number(index: usize) -> Number {
    Number { datacenter: 0, worker: u32::try_from(index).unwrap() }
}

impl Registry for Double {
    type Error = std::convert::Infallible;

    fn list(&mut self) -> Result<Listing, Self::Error> {
        Ok(Listing { floor_ms: self.floor_ms, grants: self.numbers(), shards: Vec::new() })
    }

    fn floor_ms(&mut self) -> Result<i64, Self::Error> {
        Ok(self.floor_ms)
    }

    fn raise_floor(&mut self, floor_ms: i64) -> Result<i64, Self::Error> {
        self.floor_ms = self.floor_ms.max(floor_ms);
        Ok(self.floor_ms)
    }

    fn read(&mut self, number: Number) -> Result<Option<Grant>, Self::Error> {
        Ok(self.grants[number.worker as usize].clone())
    }

    fn swap(
        &mut self,
        number: Number,
        expected: Option<&Grant>,
        new: &Grant,
    ) -> Result<Result<(), Option<Grant>>, Self::Error> {
        let grant = &mut self.grants[number.worker as usize];
        if grant.as_ref() != expected {
            return Ok(Err(grant.clone()));
        }
        *grant = Some(new.clone());
        Ok(Ok(()))
    }
}

/// What is on a server's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Disk {
    server_id: u128,
    kept: Option<StoredNumber>,
    reserved_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    member: Member,
    /// The next ID's tick, unless the clock is past it.
    frontier: i64,
    /// The highest bound that the registry acknowledged to this process, for the number it has now.
    acknowledged_ms: i64,
    fenced: bool,
    paused: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    disk: Option<Disk>,
    witness: Option<Witness>,
    process: Option<Process>,
    /// How far its clock is ahead of the others.
    ahead: i64,
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    /// Who waits for an answer; nobody any more after a time-out.
    from: Option<usize>,
    request: Request,
    answer: Option<Answer>,
}

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Faults {
    starts: u8,
    crashes: u8,
    stops: u8,
    /// Requests that are not answered at once.
    slow: u8,
    backups: u8,
    restores: u8,
    wipes: u8,
    disk_copies: u8,
    disk_rollbacks: u8,
    live_clones: u8,
    reboots: u8,
    releases: u8,
    pauses: u8,
    clock_steps: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: i64,
    registry: Double,
    backup: [Option<Double>; 2],
    servers: Vec<Server>,
    snapshot: Option<Disk>,
    messages: Vec<Message>,
    left: Faults,
    /// How many random numbers are known.
    randoms: u128,
    /// The last identity that was created.
    server_ids: u128,
    /// The last tick.
    end: i64,
    /// The tick of which two IDs are looked for.
    target: i64,
    made: bool,
    /// From here on a clone of a running server is known to be found out.
    clone_limit_ms: i64,
    twice: bool,
    beyond: bool,
    after_fence: bool,
    /// The first server has lost its number.
    robbed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Tick,
    Start(usize),
    /// A request that is answered at once; where numbers are equally good, it chooses this one.
    Ask(usize, usize),
    Send(usize),
    Apply(usize),
    Deliver(usize),
    TimeOut(usize),
    Make(usize),
    Crash(usize),
    Stop(usize),
    Pause(usize),
    Resume(usize),
    Backup(usize),
    Restore(usize),
    Wipe,
    CopyDisk(usize, usize),
    Snapshot(usize),
    RollBack(usize),
    LiveClone(usize, usize),
    Reboot(usize),
    Release(usize),
    StepClock(usize, i64),
}

#[derive(Clone, Debug)]
struct World {
    servers: usize,
    /// How many have a disk at the start.
    installed: usize,
    numbers: usize,
    terms: Terms,
    ticks: i64,
    /// The first tick that may be looked for.
    from: i64,
    faults: Faults,
    /// How far the clock of every other server is ahead.
    apart: i64,
    /// Whether servers that are not paused renew in time.
    prompt: bool,
    /// Whether every state must lead back to IDs on all servers.
    recovers: bool,
    /// The first server must keep its number.
    stays: bool,
    /// Whether the first server made the fleet, and knows that when it starts for the first time.
    founder: bool,
    /// Whether all that are installed run at the beginning, as veterans where there is a number for each.
    settled: bool,
    /// Whether servers wait after an acquisition, or somebody says at once that the registry was not restored.
    waits: bool,
}

/// Every wait is over within a tick, but for that of a server which sees no veteran.
const SHORT: Terms =
    Terms { ahead_ms: 2_000, max_lead_ms: 0, clock_difference_ms: 0, renewal_ms: 0, timeout_ms: 0 };

/// Here a grant reaches further than the wait after an acquisition, as it does by default.
const USUAL: Terms = Terms { ahead_ms: 3_000, renewal_ms: 1_000, timeout_ms: 0, ..SHORT };

impl World {
    fn new(terms: Terms, ticks: i64, faults: Faults) -> World {
        World {
            servers: 2,
            installed: 2,
            numbers: 1,
            terms,
            ticks,
            from: 1 + terms.forgotten_ms() / TICK_MS,
            faults: Faults { starts: faults.starts + 2, ..faults },
            apart: 0,
            prompt: false,
            recovers: false,
            stays: false,
            founder: false,
            settled: false,
            waits: true,
        }
    }

    fn numbers(&self) -> Numbers {
        let last = u32::try_from(self.numbers).unwrap() - 1;
        let layout = presets::by_name(presets::DEFAULT).unwrap().layout;
        Numbers { layout, datacenter: 0, first: 0, last, originals: None }
    }

    fn ask(&self, state: &mut State, server: usize, choice: usize) -> Option<()> {
        let request = self.request(state, server)?;
        let answer = match ask(&mut state.registry, &request) {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        self.deliver(state, server, answer, choice)
    }

    fn request(&self, state: &mut State, server: usize) -> Option<Request> {
        let local = state.local(server)?;
        let process = state.servers[server].process.as_mut()?;
        let randoms = &mut state.randoms;
        process.member.next(&local, || {
            *randoms += 1;
            *randoms
        })
    }

    fn deliver(
        &self,
        state: &mut State,
        server: usize,
        answer: Answer,
        choice: usize,
    ) -> Option<()> {
        let local = state.local(server)?;
        let Server { disk, process, .. } = &mut state.servers[server];
        let process = process.as_mut()?;
        let before = process.member.active_grant().map(|grant| grant.number);
        let event = process.member.answered(answer, &local, |_| choice);
        match event {
            Event::Fenced(_) => {
                process.fenced = true;
                state.robbed |= server == 0;
            }
            Event::Acquired(_) => process.fenced = false,
            _ => {}
        }
        if let (Event::Copied, Some(disk)) = (event, disk) {
            state.server_ids += 1;
            process.member.replace_identity(state.server_ids);
            (disk.server_id, disk.kept) = (state.server_ids, None);
        }
        if !self.waits {
            process.member.end_wait();
        }
        if let Some(grant) = process.member.active_grant() {
            if before != Some(grant.number) {
                process.acknowledged_ms = grant.until_ms;
            }
            process.acknowledged_ms = process.acknowledged_ms.max(grant.until_ms);
            process.frontier = process.frontier.max(grant.first_ms.div_euclid(TICK_MS));
        }
        state.persist(server);
        state.end_if_left(server);
        Some(())
    }

    /// The state in which all that are installed have run for long, if the world begins so; its ticks count from there.
    fn settle(&self, state: State) -> State {
        if !self.settled {
            return state;
        }
        let (target, left) = (state.target, state.left);
        let faults = Faults { starts: 9, ..NO_FAULTS };
        let mut state = State { left: faults, target: i64::MAX, ..state };
        let quiet = World { ticks: i64::MAX, prompt: false, ..self.clone() };
        for server in 0..self.installed {
            state = quiet.next_state(&state, Action::Start(server)).expect("it starts");
        }
        let is_veteran = |grant: &Grant, now: i64| self.terms.is_veteran(grant, now * TICK_MS);
        while !state.registry.grants.iter().flatten().all(|grant| is_veteran(grant, state.now))
            || state.now < 3
        {
            for server in (0..self.installed).chain(0..self.installed) {
                state = quiet.next_state(&state, Action::Ask(server, server)).unwrap_or(state);
            }
            state.now += 1;
        }
        State { target: target + state.now - 1, end: self.ticks + state.now - 1, left, ..state }
    }

    /// Whether time may pass: where servers are prompt, not before each has done what is due.
    fn may_tick(&self, state: &State) -> bool {
        !self.prompt
            || state.servers.iter().all(|server| {
                server.process.as_ref().is_none_or(|process| {
                    let holds = matches!(
                        process.member.phase(),
                        Phase::Holding | Phase::Waiting { .. } | Phase::Unsettled
                    );
                    let due =
                        process.member.next_at_boot_ms().is_none_or(|at| at <= state.boot_ms());
                    process.paused || !holds || !due
                })
            })
    }

    /// Whether there is more to ask at once.
    fn is_under_way(&self, phase: Phase) -> bool {
        let waits = matches!(phase, Phase::Waiting { .. }) && !self.waits;
        waits || matches!(phase, Phase::Acquiring | Phase::Unsettled | Phase::Leaving)
    }

    fn make(&self, state: &mut State, server: usize, only_target: bool) -> Option<()> {
        let local = state.local(server)?;
        let process = state.servers[server].process.as_mut()?;
        let grant = process.member.active_grant()?;
        if process.paused {
            return None;
        }
        let tick = process.frontier.max(local.wall_ms / TICK_MS);
        // Where IDs have no lead over clocks that all run alike, others than those looked for change nothing.
        if only_target && tick != state.target {
            return None;
        }
        let time_ms = tick * TICK_MS;
        if time_ms >= grant.until_ms || time_ms > local.wall_ms + i64::from(self.terms.max_lead_ms)
        {
            return None;
        }
        state.beyond |= time_ms >= process.acknowledged_ms;
        state.after_fence |= process.fenced;
        process.frontier = tick + 1;
        if grant.number == number(0) && tick == state.target {
            state.twice |= state.made && time_ms >= state.clone_limit_ms;
            state.made = true;
        }
        state.persist(server)
    }

    /// Whether all servers that run make IDs again, if no more faults happen.
    fn recovers(&self, state: &State) -> bool {
        let mut state = state.clone();
        state.messages.clear();
        for server in &mut state.servers {
            if let Some(process) = &mut server.process {
                process.paused = false;
                process.member.unanswered();
            }
        }
        let mut waiting: Vec<usize> =
            (0..self.servers).filter(|&server| state.servers[server].process.is_some()).collect();
        for _ in 0..30 {
            waiting.retain(|&server| {
                for _ in 0..6 {
                    if self.make(&mut state, server, false).is_some() {
                        return false;
                    }
                    if self.ask(&mut state, server, 0).is_none() {
                        break;
                    }
                }
                // One that was about to stop is done.
                state.servers[server].process.is_some()
            });
            if waiting.is_empty() {
                return true;
            }
            state.now += 1;
            // Those that make IDs keep their numbers alive.
            for server in 0..self.servers {
                if !waiting.contains(&server) {
                    self.ask(&mut state, server, 0);
                }
            }
        }
        false
    }
}

impl State {
    fn boot_ms(&self) -> u64 {
        u64::try_from(self.now * TICK_MS).unwrap()
    }

    fn phase(&self, server: usize) -> Option<Phase> {
        self.servers[server].process.as_ref().map(|process| process.member.phase())
    }

    fn local(&self, server: usize) -> Option<LocalInputs> {
        let (boot_ms, server) = (self.boot_ms(), &self.servers[server]);
        let disk = server.disk?;
        let process = server.process.as_ref()?;
        Some(LocalInputs {
            wall_ms: (self.now + server.ahead) * TICK_MS,
            boot_ms,
            frontier_ms: process.frontier * TICK_MS,
            reserved_ms: disk.reserved_ms,
        })
    }

    /// What a server makes durable before it goes on.
    fn persist(&mut self, server: usize) -> Option<()> {
        let Server { disk: Some(disk), witness, process: Some(process), .. } =
            &mut self.servers[server]
        else {
            return Some(());
        };
        // A number that was lost stays there: it says only which is taken first.
        disk.kept = process.member.to_store().or(disk.kept);
        if process.member.active_grant().is_some() {
            disk.reserved_ms = disk.reserved_ms.max(process.frontier * TICK_MS);
        }
        let phase = process.member.phase();
        if !matches!(phase, Phase::Outside | Phase::Acquiring | Phase::StillHeld { .. }) {
            *witness = process.member.to_witness(disk.reserved_ms);
        }
        Some(())
    }

    fn end_if_left(&mut self, server: usize) {
        if self.phase(server) == Some(Phase::Left) {
            self.servers[server].process = None;
        }
    }

    fn each_random(&mut self, show: &mut dyn FnMut(&mut u128)) {
        let mut grant = |grant: &mut Grant| {
            show(&mut grant.nonce);
            show(&mut grant.tag);
            grant.predecessor.iter_mut().for_each(&mut *show);
        };
        let doubles = self.backup.iter_mut().flatten().chain([&mut self.registry]);
        for double in doubles {
            double.grants.iter_mut().flatten().for_each(&mut grant);
        }
        for message in &mut self.messages {
            if let Request::Swap { expected, new, .. } = &mut message.request {
                expected.iter_mut().for_each(&mut grant);
                grant(new);
            }
            match &mut message.answer {
                Some(Answer::Found(found)) => found.iter_mut().for_each(&mut grant),
                Some(Answer::Listing(listing)) => {
                    listing.grants.iter_mut().for_each(|(_, found)| grant(found));
                }
                _ => {}
            }
        }
        let disks = self.servers.iter_mut().filter_map(|server| server.disk.as_mut());
        for disk in disks.chain(self.snapshot.as_mut()) {
            disk.kept.iter_mut().for_each(|kept| show(&mut kept.nonce));
        }
        for server in &mut self.servers {
            server.witness.iter_mut().for_each(|witness| show(&mut witness.tag));
            if let Some(process) = &mut server.process {
                process.member.each_random(show);
            }
        }
    }

    /// Renames random numbers in the order in which they are met.
    fn rename(&mut self) {
        let mut known: Vec<u128> = Vec::new();
        self.each_random(&mut |random| {
            let index = known.iter().position(|known| known == random).unwrap_or_else(|| {
                known.push(*random);
                known.len() - 1
            });
            *random = index as u128 + 1;
        });
        self.randoms = known.len() as u128;
    }
}

fn spend(left: &mut u8) -> Option<()> {
    *left = left.checked_sub(1)?;
    Some(())
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let disk = |index| Disk { server_id: index as u128 + 1, ..Disk::default() };
        let server = |index| Server {
            disk: (index < self.installed).then(|| disk(index)),
            ahead: if index % 2 == 1 { self.apart } else { 0 },
            ..Server::default()
        };
        let state = |target| State {
            now: 1,
            registry: Double { floor_ms: 0, grants: vec![None; self.numbers] },
            backup: [None, None],
            servers: (0..self.servers).map(server).collect(),
            snapshot: None,
            messages: Vec::new(),
            left: self.faults,
            randoms: 0,
            server_ids: self.servers as u128,
            end: self.ticks,
            target,
            made: false,
            clone_limit_ms: 0,
            twice: false,
            beyond: false,
            after_fence: false,
            robbed: false,
        };
        (self.from..=self.ticks).map(|target| self.settle(state(target))).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        for server in 0..self.servers {
            actions.extend((0..self.numbers).map(|choice| Action::Ask(server, choice)));
            actions.extend([
                Action::Start(server),
                Action::Send(server),
                Action::TimeOut(server),
                Action::Make(server),
                Action::Crash(server),
                Action::Stop(server),
                Action::Pause(server),
                Action::Resume(server),
                Action::Snapshot(server),
                Action::RollBack(server),
                Action::Reboot(server),
                Action::StepClock(server, 3),
                Action::StepClock(server, -3),
            ]);
            for other in (0..self.servers).filter(|&other| other != server) {
                actions.extend([Action::CopyDisk(server, other), Action::LiveClone(server, other)]);
            }
        }
        for message in 0..state.messages.len() {
            actions.extend([Action::Apply(message), Action::Deliver(message)]);
        }
        actions.extend([
            Action::Backup(0),
            Action::Backup(1),
            Action::Restore(0),
            Action::Restore(1),
        ]);
        actions.push(Action::Wipe);
        actions.extend((0..self.numbers).map(Action::Release));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let highest = last.now + last.servers.iter().map(|server| server.ahead).max().unwrap_or(0);
        let past = highest > last.target && !self.recovers && self.faults.clock_steps == 0;
        if last.twice || last.beyond || last.after_fence || past {
            return None;
        }
        let mut state = last.clone();
        let left = &mut state.left;
        match action {
            Action::Tick => {
                state.now += 1;
                if state.now > state.end || !self.may_tick(last) {
                    return None;
                }
            }
            Action::Start(server) => {
                spend(&mut left.starts)?;
                let Server { disk, witness, process, .. } = &mut state.servers[server];
                if process.is_some() {
                    return None;
                }
                let Disk { kept, server_id, .. } = (*disk)?;
                let (terms, numbers) = (self.terms, self.numbers());
                let holder = Holder { server_id, ..Holder::default() };
                let mut member = Member::new(terms, numbers, holder, kept, *witness);
                let is_first = kept.is_none() && last.randoms == 0;
                if self.founder && server == 0 && is_first {
                    member.found_fleet(0);
                }
                *process = Some(Process {
                    member,
                    frontier: 0,
                    acknowledged_ms: 0,
                    fenced: false,
                    paused: false,
                });
            }
            Action::Ask(server, choice) => {
                if state.servers[server].process.as_ref()?.paused {
                    return None;
                }
                // One request after the other, until the server has what it wants: that somebody comes in
                // between takes a slow request.
                self.ask(&mut state, server, choice)?;
                while state.phase(server).is_some_and(|phase| self.is_under_way(phase)) {
                    if self.ask(&mut state, server, choice).is_none() {
                        break;
                    }
                }
            }
            Action::Send(server) => {
                spend(&mut left.slow)?;
                let request = self.request(&mut state, server)?;
                state.messages.push(Message { from: Some(server), request, answer: None });
            }
            Action::Apply(index) => {
                let message = &mut state.messages[index];
                if message.answer.is_some() {
                    return None;
                }
                let answer = match ask(&mut state.registry, &message.request) {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                };
                if message.from.is_some() {
                    message.answer = Some(answer);
                } else {
                    state.messages.remove(index);
                }
            }
            Action::Deliver(index) => {
                let Message { from: Some(from), answer: Some(answer), .. } =
                    state.messages.remove(index)
                else {
                    return None;
                };
                self.deliver(&mut state, from, answer, 0)?;
            }
            Action::TimeOut(server) => {
                let index =
                    state.messages.iter().position(|message| message.from == Some(server))?;
                let message = &mut state.messages[index];
                message.from = None;
                if message.answer.is_some() || !matches!(message.request, Request::Swap { .. }) {
                    state.messages.remove(index);
                }
                state.servers[server].process.as_mut()?.member.unanswered();
                state.persist(server)?;
            }
            Action::Make(server) => {
                let only_target = self.terms.max_lead_ms == 0 && self.faults.clock_steps == 0;
                self.make(&mut state, server, only_target)?;
            }
            Action::Crash(server) => {
                spend(&mut left.crashes)?;
                state.servers[server].process.take()?;
                state.forget_answers(server);
            }
            Action::Stop(server) => {
                spend(&mut left.stops)?;
                state.forget_answers(server);
                let process = state.servers[server].process.as_mut()?;
                process.member.leave();
                state.persist(server)?;
                state.end_if_left(server);
            }
            Action::Pause(server) => {
                spend(&mut left.pauses)?;
                state.servers[server].process.as_mut()?.paused = true;
            }
            Action::Resume(server) => {
                let process = state.servers[server].process.as_mut()?;
                if !std::mem::take(&mut process.paused) {
                    return None;
                }
            }
            Action::Backup(index) => {
                spend(&mut left.backups)?;
                state.backup[index] = Some(state.registry.clone());
            }
            Action::Restore(index) => {
                spend(&mut left.restores)?;
                state.registry = state.backup[index].clone()?;
            }
            Action::Wipe => {
                spend(&mut left.wipes)?;
                state.registry.grants.fill(None);
            }
            Action::CopyDisk(from, to) => {
                spend(&mut left.disk_copies)?;
                if state.servers[to].process.is_some() {
                    return None;
                }
                let disk = state.servers[from].disk?;
                state.servers[to].disk = Some(disk);
                state.servers[to].witness = None;
            }
            Action::Snapshot(server) => {
                if left.disk_rollbacks == 0 || state.snapshot.is_some() {
                    return None;
                }
                state.snapshot = Some(state.servers[server].disk?);
            }
            Action::RollBack(server) => {
                spend(&mut left.disk_rollbacks)?;
                if state.servers[server].process.is_some() {
                    return None;
                }
                state.servers[server].disk = Some(state.snapshot?);
            }
            Action::LiveClone(from, to) => {
                spend(&mut left.live_clones)?;
                if state.servers[to].process.is_some() {
                    return None;
                }
                let twin = state.servers[from].clone();
                let process = twin.process.as_ref()?;
                let sent = state.messages.iter().filter_map(|message| match &message.request {
                    Request::Swap { new, .. } => Some(new.until_ms),
                    _ => None,
                });
                // What it was granted, and what it has asked for, whether that is on its way or in the registry.
                let granted = process.member.grant().map(|(_, grant)| grant);
                let known = state.registry.grants.iter().flatten().chain(granted);
                let limit_ms = sent.chain(known.map(|grant| grant.until_ms)).max();
                state.clone_limit_ms = state.clone_limit_ms.max(limit_ms.unwrap_or(0));
                state.servers[to] = twin;
                // Its answers come to one of the two.
                state.servers[to].process.as_mut()?.member.unanswered();
            }
            Action::Reboot(server) => {
                spend(&mut left.reboots)?;
                if state.servers[server].process.is_some() {
                    return None;
                }
                state.servers[server].witness.take()?;
            }
            Action::Release(index) => {
                spend(&mut left.releases)?;
                state.randoms += 1;
                let grant = state.registry.grants[index].as_mut()?;
                if grant.state == GrantState::Released {
                    return None;
                }
                (grant.state, grant.tag) = (GrantState::Released, state.randoms);
            }
            Action::StepClock(server, by) => {
                spend(&mut left.clock_steps)?;
                state.servers[server].ahead += by;
            }
        }
        state.rename();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut properties = vec![
            Property::always("no ID twice", |_, state: &State| !state.twice),
            Property::always("below a bound that was acknowledged", |_, state: &State| {
                !state.beyond
            }),
            Property::always("nothing after a fence", |_, state: &State| !state.after_fence),
            Property::sometimes("an ID is made", |_, state: &State| state.made),
        ];
        if self.stays {
            properties
                .push(Property::always("the original stays", |_, state: &State| !state.robbed));
        }
        if self.recovers {
            properties
                .push(Property::always("all go on", |world: &World, state| world.recovers(state)));
        }
        properties
    }
}

impl State {
    fn forget_answers(&mut self, server: usize) {
        for message in &mut self.messages {
            if message.from == Some(server) {
                message.from = None;
            }
        }
        self.messages.retain(|message| message.from.is_some() || message.answer.is_none());
    }
}

const NO_FAULTS: Faults = Faults {
    starts: 0,
    crashes: 0,
    stops: 0,
    slow: 0,
    backups: 0,
    restores: 0,
    wipes: 0,
    disk_copies: 0,
    disk_rollbacks: 0,
    live_clones: 0,
    reboots: 0,
    releases: 0,
    pauses: 0,
    clock_steps: 0,
};

fn search(world: World) -> impl Checker<World> {
    let checker = world.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let found = checker.spawn_bfs().join();
    println!("{} states, {} deep", found.unique_state_count(), found.max_depth());
    for (property, path) in found.discoveries() {
        if world
            .properties()
            .iter()
            .any(|each| each.name == property && matches!(each.expectation, Expectation::Always))
        {
            println!("{property}: {:?}", path.into_actions());
        }
    }
    found
}

#[track_caller]
fn holds(world: World) {
    search(world).assert_properties();
}

/// A release searches what takes a minute or more; every change walks through a part of it.
#[track_caller]
fn walks_or_holds(world: World) {
    if more() { holds(world) } else { at_random::walk(world) }
}

/// One more of a fault, or of ticks, for a release: minutes instead of seconds.
fn more<N: From<bool>>() -> N {
    std::env::var_os("ID_GEN_RELEASE").is_some().into()
}

/// Without a restored registry nothing is asked of clocks, and nobody has to wait.
mod without_a_restore {
    use super::*;

    fn world(faults: Faults) -> World {
        World { waits: false, from: 2, ..World::new(SHORT, 5, faults) }
    }

    #[test]
    fn late_and_lost_answers() {
        holds(world(Faults { slow: 2 + more::<u8>(), ..NO_FAULTS }));
    }

    #[test]
    fn crashes_and_a_machine_that_starts_again() {
        holds(world(Faults { crashes: 2, starts: 2, slow: more(), reboots: 1, ..NO_FAULTS }));
    }

    #[test]
    fn a_stop_that_hands_the_number_back() {
        holds(world(Faults { stops: 1, starts: 1, slow: 1 + more::<u8>(), ..NO_FAULTS }));
    }

    #[test]
    fn a_disk_that_is_copied() {
        let faults = Faults { disk_copies: 1, crashes: 1, starts: 2, slow: more(), ..NO_FAULTS };
        holds(World { installed: 1, ..world(faults) });
    }

    /// A block-level copy has the identity of its original.
    #[test]
    fn copies_of_disks_that_start_beside_their_original() {
        let faults = Faults { disk_copies: 1, slow: 1, reboots: more(), ..NO_FAULTS };
        let world = World { installed: 1, numbers: 2, ..World::new(USUAL, 9, faults) };
        let world = World { from: 2, waits: false, prompt: true, stays: true, ..world };
        holds(World { settled: true, recovers: true, ..world });
    }

    #[test]
    fn a_disk_that_is_rolled_back() {
        let faults = Faults { disk_rollbacks: 1, crashes: 2, starts: 2, slow: 1, ..NO_FAULTS };
        holds(World { servers: 1, installed: 1, ..world(faults) });
    }

    #[test]
    fn a_running_machine_that_is_cloned() {
        let faults = Faults { live_clones: 1, slow: 1, ..NO_FAULTS };
        holds(World { installed: 1, ..world(faults) });
    }

    #[test]
    fn a_clone_of_a_running_machine_that_starts_again() {
        let faults = Faults { live_clones: 1, crashes: 1, starts: 1, ..NO_FAULTS };
        holds(World { installed: 1, ..world(faults) });
    }

    #[test]
    fn a_number_that_an_administrator_releases() {
        holds(world(Faults { releases: 1, crashes: 1, starts: 1, slow: 1, ..NO_FAULTS }));
    }

    #[test]
    fn clocks_that_are_set() {
        holds(world(Faults { clock_steps: 1, crashes: 1, starts: more(), ..NO_FAULTS }));
    }
}

/// Registries that go back in time.
mod with_a_restore {
    use super::*;

    const RESTORE: Faults = Faults { backups: 1, restores: 1, ..NO_FAULTS };

    #[test]
    fn twice() {
        let faults = Faults { backups: 2, restores: 2, ..NO_FAULTS };
        walks_or_holds(World::new(SHORT, 5 + more::<i64>(), faults));
    }

    #[test]
    fn with_a_crash() {
        let faults = Faults { crashes: 1, starts: 1, slow: more(), ..RESTORE };
        holds(World::new(SHORT, 5, faults));
    }

    #[test]
    fn wiped() {
        let faults = Faults { wipes: 1, crashes: 1, starts: 1, slow: more(), ..NO_FAULTS };
        holds(World::new(SHORT, 5 + more::<i64>(), faults));
    }

    const AND_A_PAUSE: Faults = Faults { pauses: 1, ..RESTORE };
    const AND_A_CRASH: Faults = Faults { crashes: 1, starts: 1, ..RESTORE };

    /// One of three is paused or crashes, one knows, and the third gets the number of the first.
    #[test]
    fn with_a_veteran() {
        for faults in [AND_A_PAUSE, AND_A_CRASH] {
            let world =
                World { servers: 3, installed: 3, numbers: 2, ..World::new(USUAL, 7, faults) };
            walks_or_holds(World { from: 5, prompt: true, settled: true, ..world });
        }
    }

    #[test]
    fn without_a_veteran() {
        let faults = Faults { pauses: 1, crashes: more(), ..RESTORE };
        holds(World { settled: true, prompt: true, from: 8, ..World::new(USUAL, 11, faults) });
    }

    /// The server that made the fleet does not wait for a veteran, and is one.
    #[test]
    fn of_a_fleet_that_was_just_made() {
        for faults in [AND_A_PAUSE, AND_A_CRASH] {
            let world = World { founder: true, numbers: 2, ..World::new(USUAL, 7, faults) };
            walks_or_holds(World { from: 3, prompt: true, ..world });
        }
    }
}

/// Where faults end, all go on.
mod afterwards {
    use super::*;

    fn world(faults: Faults) -> World {
        let world = World::new(USUAL, 4, faults);
        World { numbers: 2, founder: true, recovers: true, prompt: true, from: 2, ..world }
    }

    #[test]
    fn after_a_wipe_and_a_restore() {
        walks_or_holds(world(Faults { wipes: 1, backups: 1, restores: 1, ..NO_FAULTS }));
    }

    #[test]
    fn after_a_release_and_late_answers() {
        let faults = Faults { releases: 1, slow: 1, crashes: more(), starts: more(), ..NO_FAULTS };
        holds(world(faults));
    }
}

/// Walks through worlds that are too large to be searched: every fault, several times, in any order.
mod at_random {
    use super::*;

    /// A fault is chosen less often than a step, or all would happen at the start.
    #[derive(Clone)]
    struct MostlySteps;

    const FAULT_SHARE: usize = 12;

    impl Chooser<World> for MostlySteps {
        type State = <UniformChooser as Chooser<World>>::State;

        fn new_state(&self, seed: u64) -> Self::State {
            Chooser::<World>::new_state(&UniformChooser, seed)
        }

        fn choose_initial_state(&self, random: &mut Self::State, states: &[State]) -> usize {
            Chooser::<World>::choose_initial_state(&UniformChooser, random, states)
        }

        fn choose_action(
            &self,
            random: &mut Self::State,
            state: &State,
            actions: &[Action],
        ) -> usize {
            let mut choose = |from: &[Action]| {
                Chooser::<World>::choose_action(&UniformChooser, random, state, from)
            };
            loop {
                let chosen = choose(actions);
                let is_step = matches!(
                    actions[chosen],
                    Action::Tick
                        | Action::Ask(..)
                        | Action::Start(_)
                        | Action::Make(_)
                        | Action::Resume(_)
                        | Action::Apply(_)
                        | Action::Deliver(_)
                );
                if is_step || choose(&[Action::Tick; FAULT_SHARE]) == 0 {
                    return chosen;
                }
            }
        }
    }

    pub fn walk(world: World) {
        let steps = if more() { 20_000_000 } else { 200_000 };
        let checker = world.checker().threads(2).target_state_count(steps);
        let found = checker.spawn_simulation(1, MostlySteps).join();
        println!("{} states", found.state_count());
        assert!(found.state_count() >= steps, "the walk ended early");
        found.assert_properties();
    }

    fn world(terms: Terms, faults: Faults) -> World {
        let terms = Terms { max_lead_ms: 1_000, clock_difference_ms: 1_000, ..terms };
        let faults = Faults { starts: 9, crashes: 3, slow: 6, stops: 2, reboots: 2, ..faults };
        World {
            servers: 3,
            installed: 3,
            numbers: 2,
            apart: 1,
            prompt: false,
            ..World::new(terms, 24, faults)
        }
    }

    #[test]
    fn three_servers_and_registries_that_are_restored() {
        let faults = Faults { backups: 2, restores: 2, releases: 1, disk_copies: 2, ..NO_FAULTS };
        walk(world(SHORT, faults));
    }

    #[test]
    fn three_servers_and_clocks_that_are_set() {
        let faults =
            Faults { clock_steps: 3, disk_copies: 2, disk_rollbacks: 1, releases: 1, ..NO_FAULTS };
        walk(World { waits: false, ..world(SHORT, faults) });
    }
}

/// Single stories, where a search would be too large or the times too long.
mod stories {
    use super::*;

    fn play(world: &World, actions: impl IntoIterator<Item = Action>) -> State {
        let start = world.init_states().pop().expect("a target");
        actions.into_iter().enumerate().fold(start, |state, (step, action)| {
            world.next_state(&state, action).unwrap_or_else(|| {
                panic!("step {step}, {action:?}, does nothing in {state:?}");
            })
        })
    }

    fn member(state: &State, server: usize) -> &Member {
        &state.servers[server].process.as_ref().expect("a server that runs").member
    }

    const fn ask(server: usize) -> Action {
        Action::Ask(server, 0)
    }

    /// A floor that a server raised whose clock was far ahead.
    #[test]
    fn a_floor_of_another_age_is_not_believed() {
        let world = World { founder: true, from: 30, ..World::new(USUAL, 30, NO_FAULTS) };
        let mut state = world.init_states().remove(0);
        state.registry.floor_ms = 1_000_000_000;
        let actions = [Action::Start(0), ask(0), ask(0), Action::Tick, Action::Tick, ask(0)];
        for action in actions {
            state = world.next_state(&state, action).unwrap();
        }
        let grant = member(&state, 0).active_grant().expect("its wait is over");
        assert_eq!(grant.first_ms, 3_000 + world.terms.forgotten_ms());
    }

    /// A block-level copy that starts while its original holds a number.
    fn copied(pauses: u8) -> (World, Vec<Action>) {
        use Action::{CopyDisk, Start, Tick};
        let faults = Faults { disk_copies: 1, pauses, ..NO_FAULTS };
        let world = World::new(USUAL, 60, faults);
        let world = World { installed: 1, numbers: 2, waits: false, ..world };
        let (original, copy) = (0, 1);
        let begin = [Start(original), ask(original), CopyDisk(original, copy), Start(copy)];
        (world, begin.into_iter().chain([ask(copy), Tick]).collect())
    }

    #[test]
    fn a_copy_of_a_server_that_runs_becomes_another() {
        let (world, mut actions) = copied(0);
        for _ in 0..3 {
            actions.extend([ask(0), ask(1), Action::Tick]);
        }
        let state = play(&world, actions);
        let (number_of_original, grant) = member(&state, 0).grant().expect("it has a number");
        assert_eq!((number_of_original, grant.holder.server_id), (number(0), 1));
        let (number_of_copy, grant) = member(&state, 1).grant().expect("it has another");
        assert_eq!((number_of_copy, grant.holder.server_id), (number(1), 3));
        assert_eq!(state.registry.floor_ms, 0, "nobody has told of a restored registry");
    }

    #[test]
    fn an_original_that_is_paused_for_long_becomes_another_than_its_copy() {
        let (world, mut actions) = copied(1);
        actions.push(Action::Pause(0));
        for _ in 0..4 {
            actions.extend([Action::Tick, ask(1)]);
        }
        actions.extend([Action::Resume(0), ask(0)]);
        for _ in 0..4 {
            actions.extend([Action::Tick, ask(1), ask(0)]);
        }
        let state = play(&world, actions);
        let (number_of_copy, grant) = member(&state, 1).grant().expect("it has that number");
        assert_eq!((number_of_copy, grant.holder.server_id), (number(0), 1));
        assert_eq!(state.servers[0].disk.map(|disk| disk.server_id), Some(3));
        assert_eq!(state.registry.floor_ms, 0, "nobody has told of a restored registry");
    }
}
