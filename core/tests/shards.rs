//! Laws of shards: nothing twice, whatever moves, stops and starts again; and a full table says so.

use id_gen_core::fleet::Number;
use id_gen_core::frontier::SequenceStart;
use id_gen_core::layout::{Field, Layout};
use id_gen_core::lead::LeadLimit;
use id_gen_core::shards::{Ceiling, ClaimTerms, Denied, Owned, Place, Places};
use proptest::prelude::*;
use std::collections::HashSet;

/// Eight IDs a tick, so that overflow is reached at once.
fn tiny() -> Layout {
    Layout::new(0, 1, false, &[(Field::Time, 20), (Field::Worker, 2), (Field::Sequence, 3)])
        .unwrap()
}

/// Runs something that needs no other thread, with the atomics of the checker.
fn alone(body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.max_branches = 1_000_000;
    model.check(body);
}

const SHARD: Number = Number { datacenter: 0, worker: 3 };

fn places(count: usize) -> Vec<Place> {
    (0..count).map(|_| Place::default()).collect()
}

fn terms(now_tick: u64) -> ClaimTerms {
    let lead = LeadLimit::of_ticks(2);
    ClaimTerms { now_tick, lead, sequence_start: SequenceStart::Zero }
}

#[test]
fn a_place_is_found_by_its_number_until_the_table_is_full() {
    alone(|| {
        let table = places(4);
        let places = Places(&table);
        let number = |datacenter, worker| Number { datacenter, worker };
        let numbers = [number(0, 1), number(0, 5), number(1, 1), number(0, u32::MAX >> 1)];
        let mut added = Vec::new();
        for number in numbers {
            assert!(places.find(number).is_none());
            let place = places.find_or_add(number, |index| added.push(index)).unwrap();
            assert_eq!(place.number(), Some(number));
            assert!(!place.is_open() && place.owned().is_none());
        }
        added.sort_unstable();
        assert_eq!(added, [0, 1, 2, 3]);
        for number in numbers {
            assert_eq!(places.find(number).and_then(Place::number), Some(number));
            assert!(places.find_or_add(number, |_| panic!("it has its place")).is_some());
        }
        assert!(places.find(number(0, 2)).is_none());
        assert!(places.find_or_add(number(0, 2), |_| {}).is_none(), "full");
    });
}

#[test]
fn each_bound_is_told_with_the_position() {
    alone(|| {
        let (layout, table) = (tiny(), places(1));
        let place = Places(&table).find_or_add(SHARD, |_| {}).unwrap();
        let ceiling = Ceiling::new(8 * 101 + 2);
        let claim = |tick| place.claim(&layout, &terms(tick), &ceiling, |_| {});
        assert_eq!(claim(100), Err(Denied::Closed));
        place.open(0);
        assert_eq!(claim(100), Ok(800));
        place.raise(8 * 101);
        assert_eq!((claim(100), claim(100)), (Ok(808), Ok(809)));
        assert_eq!(claim(100), Err(Denied::Unreserved(810)));
        ceiling.raise(u64::MAX);
        place.raise(8 * 103);
        assert_eq!(claim(100), Err(Denied::Ahead(824)));
        assert_eq!(claim(101), Ok(824));
        assert_eq!(claim(layout.ticks()), Err(Denied::Exhausted));
        assert_eq!(place.issued(), (4, 4));
        place.sample();
        place.sample();
        assert_eq!(place.issued(), (4, 0));
    });
}

#[test]
fn a_server_has_a_shard_or_not() {
    alone(|| {
        let table = places(1);
        let place = Places(&table).find_or_add(SHARD, |_| {}).unwrap();
        let owned = Owned { since_ms: 5, first_ms: -7, in_fleet: true, tag: 9 };
        place.set_owned(Some(owned));
        assert_eq!(place.owned(), Some(owned));
        place.set_owned(None);
        assert_eq!(place.owned(), None);
    });
}

/// What may happen to one shard on two servers.
#[derive(Clone, Debug)]
enum Step {
    Claim { server: usize, count: u8 },
    Clock { server: usize, by: i8 },
    Extend { server: usize },
    Move,
    Lower { server: usize },
    Crash { server: usize },
    CleanRestart { server: usize },
    Horizon { server: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let server = 0..2_usize;
    prop_oneof![
        6 => (server.clone(), 1..20_u8).prop_map(|(server, count)| Step::Claim { server, count }),
        2 => (server.clone(), -3..5_i8).prop_map(|(server, by)| Step::Clock { server, by }),
        3 => server.clone().prop_map(|server| Step::Extend { server }),
        2 => Just(Step::Move),
        1 => server.clone().prop_map(|server| Step::Lower { server }),
        1 => server.clone().prop_map(|server| Step::Crash { server }),
        1 => server.clone().prop_map(|server| Step::CleanRestart { server }),
        1 => server.prop_map(|server| Step::Horizon { server }),
    ]
}

/// One server: what its memory has, and what its disk.
struct Server {
    table: Vec<Place>,
    ceiling: Ceiling,
    now_tick: u64,
    durable_end: u64,
    /// Above which position it took the shard, if it has it.
    durable_above: Option<u64>,
    horizon: u64,
}

impl Server {
    fn new() -> Server {
        let (table, ceiling) = (places(1), Ceiling::new(0));
        Server { table, ceiling, now_tick: 100, durable_end: 0, durable_above: None, horizon: 0 }
    }

    fn place(&self) -> &Place {
        Places(&self.table).find_or_add(SHARD, |_| {}).unwrap()
    }

    fn extend(&mut self) {
        let layout = tiny();
        let ahead = layout.first_position(self.now_tick + 5);
        self.durable_end = self.durable_end.max(ahead);
        self.ceiling.raise(self.durable_end);
    }

    /// Gives back what is unused; the memory first.
    fn lower(&mut self) {
        self.durable_end = self.ceiling.lower(0, self.table.iter()).min(self.durable_end);
    }

    fn restart(&mut self) {
        (self.table, self.ceiling) = (places(1), Ceiling::new(0));
        if let Some(above) = self.durable_above {
            self.place().open(above.max(self.durable_end));
        }
    }

    fn take(&mut self, above: u64) {
        let first = above.max(self.place().end()).max(self.durable_end);
        self.durable_above = Some(first);
        self.place().open(first);
    }

    fn release(&mut self) -> u64 {
        let end = self.place().close().max(self.durable_above.unwrap_or(0));
        self.durable_above = None;
        end
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_position_of_a_shard_comes_twice(steps in prop::collection::vec(step(), 1..60)) {
        alone(move || run(&steps));
    }
}

fn run(steps: &[Step]) {
    let layout = tiny();
    let mut servers = [Server::new(), Server::new()];
    let mut owner = 0;
    servers[owner].take(0);
    let mut seen = HashSet::new();
    for step in steps.iter().cloned() {
        match step {
            Step::Claim { server, count } => {
                let server = &servers[server];
                for _ in 0..count {
                    let claimed = server.place().claim(
                        &layout,
                        &terms(server.now_tick),
                        &server.ceiling,
                        |_| {},
                    );
                    if let Ok(position) = claimed {
                        assert!(seen.insert(position), "{position} twice");
                        assert!(position < server.durable_end);
                        assert!(position >= server.horizon);
                    }
                }
            }
            Step::Clock { server, by } => {
                let server = &mut servers[server];
                server.now_tick = server.now_tick.saturating_add_signed(by.into());
            }
            Step::Extend { server } => servers[server].extend(),
            Step::Move => {
                let above = servers[owner].release();
                owner = 1 - owner;
                servers[owner].take(above);
            }
            Step::Lower { server } => servers[server].lower(),
            Step::Crash { server } => servers[server].restart(),
            Step::CleanRestart { server } => {
                servers[server].lower();
                servers[server].restart();
            }
            Step::Horizon { server } => {
                let server = &mut servers[server];
                let highest = layout.first_position(server.now_tick).min(server.ceiling.end());
                server.horizon = highest.max(server.horizon);
                server.place().raise(server.horizon);
                if !server.place().is_open() {
                    server.horizon = 0;
                }
            }
        }
    }
}
