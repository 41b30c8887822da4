//! Plays `member_cases.txt`: what a server asks its fleet's registry, and what it does with the answers, as text that is read
//! without Rust. With `REWRITE=1` in the environment the outputs are written anew, to be compared by whoever reads the change.

use std::fmt::Write;

use id_gen_core::fleet::grant::{Grant, GrantState, Holder, Number, Terms};
use id_gen_core::fleet::member::{
    Event, LocalInputs, Member, Numbers, Phase, StoredNumber, Witness,
};
use id_gen_core::fleet::registry::{Answer, Listing, Request};
use id_gen_core::presets;

const CASES: &str = include_str!("member_cases.txt");
/// The Unix millisecond that all times of the cases count from, and the same on the clock of the boot.
const BEGIN_MS: i64 = 1_000_000;
/// A server asks for less than this at one moment, or it would never end.
const MOST_REQUESTS: usize = 8;

/// A server, and the registry that it asks.
struct World {
    member: Option<Member>,
    registry: Listing,
    saved: Listing,
    /// Time since the begin.
    now_ms: i64,
    clock_ahead_ms: i64,
    frontier_ms: i64,
    reserved_ms: i64,
    /// The last number that counted as random: larger than any that a command names.
    random: u128,
}

#[test]
fn the_cases_come_out_as_written() {
    let played: Vec<String> = CASES.split("\n\n").map(play).collect();
    let played = played.join("\n\n") + "\n";
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/member_cases.txt"), &played)
            .unwrap();
    }
    for (number, (was, is)) in CASES.lines().zip(played.lines()).enumerate() {
        assert_eq!(was, is, "line {} of member_cases.txt", number + 1);
    }
    assert_eq!(CASES.lines().count(), played.lines().count());
}

/// Plays the commands of a case, and returns it with what comes of each.
fn play(case: &str) -> String {
    let mut world = World::new();
    let mut played = Vec::new();
    for line in case.trim_end().lines() {
        let Some(command) = line.strip_prefix("> ") else {
            if line.starts_with('#') || line.is_empty() {
                played.push(line.to_owned());
            }
            continue;
        };
        played.push(line.to_owned());
        played.extend(world.run(command).lines().map(|output| format!("    {output}")));
    }
    played.join("\n")
}

impl World {
    fn new() -> World {
        World {
            member: None,
            registry: Listing { floor_ms: i64::MIN, ..Listing::default() },
            saved: Listing::default(),
            now_ms: 0,
            clock_ahead_ms: 0,
            frontier_ms: BEGIN_MS,
            reserved_ms: BEGIN_MS,
            random: 1_000_000,
        }
    }

    fn run(&mut self, command: &str) -> String {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let words: Vec<&str> = rest.split(' ').filter(|word| !word.is_empty()).collect();
        let value =
            |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        match name {
            "server" => {
                let kept = value("kept").map(|kept| {
                    let (worker, nonce) = kept.split_once(':').expect("kept=WORKER:NONCE");
                    StoredNumber { number: number(worker), nonce: nonce.parse().unwrap() }
                });
                let witness = value("witness").map(|tag| Witness {
                    tag: tag.parse().unwrap(),
                    asked_boot_ms: self.boot_ms(value("asked").map_or(0, millis)),
                    reserved_ms: i64::MIN,
                });
                let holder = holder(value("id").map_or(0, |id| id.parse().unwrap()));
                self.reserved_ms = BEGIN_MS + value("reserved").map_or(0, millis);
                let numbers = numbers(value("numbers").unwrap_or("5-6"));
                self.member = Some(Member::new(Terms::DEFAULT, numbers, holder, kept, witness));
                String::new()
            }
            "grant" => {
                self.set_grant(number(words[0]), &value, &words);
                String::new()
            }
            "shard" => {
                self.registry.shards.push(number(words[0]));
                self.registry.shards.sort();
                String::new()
            }
            "floor" => {
                self.registry.floor_ms = BEGIN_MS + millis(words[0]);
                String::new()
            }
            "frontier" => {
                self.frontier_ms = BEGIN_MS + millis(words[0]);
                String::new()
            }
            "clock" => {
                self.clock_ahead_ms = millis(words[0]);
                String::new()
            }
            "save" => {
                self.saved = self.registry.clone();
                String::new()
            }
            "restore" => {
                self.registry = self.saved.clone();
                String::new()
            }
            "at" => {
                self.now_ms = millis(words[0]);
                self.ask(words.contains(&"lost"))
            }
            "until" => self.until_used(words.get(2).map(|worker| number(worker))),
            _ => self.tell(command),
        }
    }

    /// What an administrator or the server itself tells the state machine.
    fn tell(&mut self, command: &str) -> String {
        let boot_ms = self.boot_ms(self.now_ms);
        let member = self.member.as_mut().expect("a server");
        match command.split_once(' ').unwrap_or((command, "")) {
            ("accept", "the clock") => member.confirm_clock(),
            ("end", "the wait") => member.end_wait(),
            ("reset", "the reservation") => member.forget_reserved(),
            ("doubt", "the registry") => member.doubt_registry(),
            ("leave", "") => member.leave(),
            ("it", "made the fleet") => member.found_fleet(boot_ms),
            ("identity", id) => member.replace_identity(id.parse().unwrap()),
            ("allow", range) => {
                let goes_on = member.set_numbers(numbers(range));
                return if goes_on { "goes on" } else { "has to start anew" }.to_owned();
            }
            _ => panic!("no such command: {command}"),
        }
        String::new()
    }

    /// Asks what is due, answers at once, and says what came of it.
    fn ask(&mut self, is_lost: bool) -> String {
        let mut output = String::new();
        for _ in 0..MOST_REQUESTS {
            let local = self.local();
            let random = &mut self.random;
            let member = self.member.as_mut().expect("a server");
            let request = member.next(&local, || {
                *random += 1;
                *random
            });
            let Some(request) = request else {
                writeln!(output, "{}", self.state()).unwrap();
                return output;
            };
            write!(output, "asks: {}", self.describe(&request)).unwrap();
            let answer = self.answer(&request);
            let member = self.member.as_mut().expect("a server");
            if is_lost && matches!(request, Request::Swap { .. }) {
                member.unanswered();
                writeln!(output, "; no answer\n{}", self.state()).unwrap();
                return output;
            }
            if matches!(answer, Answer::Found(_)) && matches!(request, Request::Swap { .. }) {
                output += "; is another";
            }
            let event = member.answered(answer, &local, |_| 0);
            writeln!(output, "{}", told(event)).unwrap();
            if matches!(event, Event::ClockAhead { .. } | Event::Copied | Event::NoFreeNumber) {
                writeln!(output, "{}", self.state()).unwrap();
                return output;
            }
        }
        panic!("it asks again and again:\n{output}")
    }

    /// Goes on until the server may use its number; another one renews its grant meanwhile.
    fn until_used(&mut self, renews: Option<Number>) -> String {
        while self.now_ms <= 200_000 {
            self.ask(false);
            let member = self.member.as_ref().expect("a server");
            if member.active_grant().is_some() {
                return format!("after {}: {}", time(self.now_ms), self.state());
            }
            for (number, grant) in &mut self.registry.grants {
                if Some(*number) == renews {
                    grant.tag += 1;
                }
            }
            self.now_ms += 500;
        }
        panic!("it waits for ever")
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let Listing { floor_ms, grants, .. } = &mut self.registry;
        match request {
            Request::List => Answer::Listing(self.registry.clone()),
            Request::RaiseFloor { floor_ms: wanted_ms } => {
                *floor_ms = (*floor_ms).max(*wanted_ms);
                Answer::Floor { floor_ms: *floor_ms }
            }
            Request::Read(number) => Answer::Found(grant_of(grants, *number).cloned()),
            Request::Swap { number, expected, new } => {
                let found = grant_of(grants, *number);
                if found != expected.as_ref() {
                    return Answer::Found(found.cloned());
                }
                put(grants, *number, new.clone());
                Answer::Swapped
            }
        }
    }

    fn set_grant<'a>(
        &mut self,
        number: Number,
        value: &impl Fn(&str) -> Option<&'a str>,
        words: &[&str],
    ) {
        let grants = &mut self.registry.grants;
        let mut grant = grant_of(grants, number).cloned().unwrap_or_else(|| Grant {
            nonce: number.worker.into(),
            tag: number.worker.into(),
            until_ms: BEGIN_MS,
            state: GrantState::Held,
            predecessor: None,
            watches_since_ms: Some(BEGIN_MS),
            holder: holder(number.worker.into()),
        });
        grant.tag += 1;
        let random = |text: &str| text.parse::<u128>().unwrap();
        grant.tag = value("tag").map_or(grant.tag, random);
        grant.nonce = value("nonce").map_or(grant.nonce, random);
        grant.holder = value("id").map_or(grant.holder, |id| holder(random(id)));
        grant.until_ms = value("until").map_or(grant.until_ms, |at| match at {
            "ever" => i64::MAX,
            at => BEGIN_MS + millis(at),
        });
        grant.watches_since_ms =
            value("watches").map_or(grant.watches_since_ms, |at| Some(BEGIN_MS + millis(at)));
        if words.contains(&"released") {
            grant.state = GrantState::Released;
        }
        put(grants, number, grant);
    }

    fn boot_ms(&self, at_ms: i64) -> u64 {
        (BEGIN_MS + at_ms).unsigned_abs()
    }

    fn local(&self) -> LocalInputs {
        LocalInputs {
            wall_ms: BEGIN_MS + self.now_ms + self.clock_ahead_ms,
            boot_ms: self.boot_ms(self.now_ms),
            frontier_ms: self.frontier_ms,
            reserved_ms: self.reserved_ms,
        }
    }

    fn describe(&self, request: &Request) -> String {
        match request {
            Request::List => "all grants".to_owned(),
            Request::RaiseFloor { floor_ms } => format!("the floor to be {}", moment(*floor_ms)),
            Request::Read(number) => format!("the grant of {}", number.worker),
            Request::Swap { number: Number { worker, .. }, expected, new } => {
                let same = expected.as_ref().is_some_and(|old| old.nonce == new.nonce);
                let what = match (new.state, same) {
                    (GrantState::Released, _) => "gives back",
                    (GrantState::Held, true) => "renews",
                    (GrantState::Held, false) => "acquires",
                };
                let is_founder = new.watches_since_ms == Some(Grant::FOUNDER_MS);
                let founder = if is_founder { ", as who made the fleet" } else { "" };
                format!("{what} {worker} until {}{founder}", moment(new.until_ms))
            }
        }
    }

    fn state(&self) -> String {
        let member = self.member.as_ref().expect("a server");
        let state = match member.phase() {
            Phase::Outside => "outside".to_owned(),
            Phase::Acquiring => "acquiring".to_owned(),
            Phase::StillHeld { number, until_ms } => {
                format!("{} is still held until {}", number.worker, moment(until_ms))
            }
            Phase::Waiting { until_ms } => format!("waiting until {}", moment(until_ms)),
            Phase::Holding | Phase::Unsettled => match member.active_grant() {
                Some(grant) => format!(
                    "uses {} from {} to {}",
                    grant.number.worker,
                    moment(grant.first_ms),
                    moment(grant.until_ms)
                ),
                None => "unsettled".to_owned(),
            },
            Phase::Leaving => "leaving".to_owned(),
            Phase::Left => "left".to_owned(),
        };
        let next = member.next_at_boot_ms().map(|at| at.cast_signed() - BEGIN_MS);
        let next = next.filter(|at| *at > self.now_ms);
        let next = next.map_or_else(String::new, |at| format!("; asks again at {}", time(at)));
        format!("is: {state}{next}")
    }
}

fn told(event: Event) -> String {
    match event {
        Event::Quiet => String::new(),
        Event::Renewed => "; renewed".to_owned(),
        Event::Acquired(number) => format!("; acquired {}", number.worker),
        Event::Fenced(number) => format!("; has lost {}", number.worker),
        Event::RegistryRestored => "; the registry was restored".to_owned(),
        Event::NoFreeNumber => "; no number is free".to_owned(),
        Event::ClockAhead { against, agree } => {
            format!("; its clock is ahead: {against} are behind it, {agree} are not")
        }
        Event::Copied => "; another server has its identity".to_owned(),
    }
}

fn holder(server_id: u128) -> Holder {
    Holder { server_id, ..Holder::default() }
}

fn number(worker: &str) -> Number {
    Number { datacenter: 0, worker: worker.parse().unwrap() }
}

fn numbers(range: &str) -> Numbers {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let layout = presets::by_name(presets::DEFAULT).unwrap().layout;
    let (first, last) = (first.parse().unwrap(), last.parse().unwrap());
    Numbers { layout, datacenter: 0, first, last, originals: None }
}

fn grant_of(grants: &[(Number, Grant)], number: Number) -> Option<&Grant> {
    grants.iter().find(|(of, _)| *of == number).map(|(_, grant)| grant)
}

fn put(grants: &mut Vec<(Number, Grant)>, number: Number, grant: Grant) {
    grants.retain(|(of, _)| *of != number);
    grants.push((number, grant));
    grants.sort_by_key(|(number, _)| *number);
}

/// `5s`, `-1s`, `1500ms`, in milliseconds.
fn millis(text: &str) -> i64 {
    match text.strip_suffix("ms") {
        Some(ms) => ms.parse().unwrap(),
        None => text.strip_suffix('s').expect("s or ms").parse::<i64>().unwrap() * 1_000,
    }
}

fn time(ms: i64) -> String {
    if ms % 1_000 == 0 { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

fn moment(unix_ms: i64) -> String {
    if unix_ms == i64::MAX { "ever".to_owned() } else { time(unix_ms.saturating_sub(BEGIN_MS)) }
}
