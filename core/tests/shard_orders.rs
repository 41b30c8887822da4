//! Places of shards under many orders of memory accesses that the language allows, as loom finds them.
//!
//! Sessions claim while the holder of the lock closes the place, lowers what is reserved, or reads the commit horizon.
//! Whatever they see, no position comes twice, none comes at or above what was reserved when it was given, and none is
//! below a horizon that did not know of it.

use id_gen_core::fleet::Number;
use id_gen_core::frontier::SequenceStart;
use id_gen_core::layout::{Field, Layout};
use id_gen_core::lead::LeadLimit;
use id_gen_core::shards::{Ceiling, ClaimTerms, Denied, Place, Places};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

const TERMS: ClaimTerms =
    ClaimTerms { now_tick: 0, lead: LeadLimit::of_ticks(3), sequence_start: SequenceStart::Zero };

fn layout() -> Layout {
    Layout::new(0, 1000, false, &[(Field::Time, 4), (Field::Sequence, 2), (Field::Worker, 4)])
        .unwrap()
}

struct Server {
    places: Vec<Place>,
    ceiling: Ceiling,
}

const SHARD: Number = Number { datacenter: 0, worker: 7 };

impl Server {
    /// A server with one shard, whose positions are reserved up to this one.
    fn new(first: u64, end: u64) -> Arc<Server> {
        let server = Server { places: vec![Place::default()], ceiling: Ceiling::new(end) };
        let place = Places(&server.places).find_or_add(SHARD, |_| {}).unwrap();
        place.open(first);
        Arc::new(server)
    }

    fn place(&self) -> &Place {
        Places(&self.places).find(SHARD).unwrap()
    }

    fn claim(&self) -> Result<u64, Denied> {
        self.place().claim(&layout(), &TERMS, &self.ceiling, |_| {})
    }
}

fn model(interruptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(interruptions);
    model.check(body);
}

fn claiming(server: &Arc<Server>, times: usize) -> thread::JoinHandle<Vec<u64>> {
    let server = Arc::clone(server);
    thread::spawn(move || (0..times).filter_map(|_| server.claim().ok()).collect())
}

#[test]
fn two_sessions_never_get_the_same() {
    model(3, || {
        let server = Server::new(0, 100);
        let sessions = [claiming(&server, 2), claiming(&server, 1)];
        let mut all: Vec<u64> = sessions.into_iter().flat_map(|it| it.join().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

#[test]
fn nothing_is_given_at_or_above_what_a_close_tells() {
    model(3, || {
        let server = Server::new(0, 100);
        let session = claiming(&server, 2);
        let end = server.place().close();
        let given = session.join().unwrap();
        assert!(given.iter().all(|&position| position < end), "{given:?} and {end}");
        assert_eq!(server.claim(), Err(Denied::Closed));
    });
}

/// The shard goes away, and comes back later: who had read the position before must not get one by the old ceiling.
#[test]
fn a_place_that_is_opened_again_has_no_position_that_it_had() {
    model(3, || {
        let server = Server::new(0, 100);
        let session = claiming(&server, 1);
        let end = server.place().close();
        let reserved = server.ceiling.lower(0, server.places.iter());
        assert_eq!(reserved, end);
        server.place().open(end);
        let given = session.join().unwrap();
        assert!(given.iter().all(|&position| position < end), "{given:?} and {end}");
        assert!(matches!(server.claim(), Err(Denied::Unreserved(start)) if start > end));
    });
}

#[test]
fn nothing_is_given_above_what_is_left_of_the_reservation() {
    model(3, || {
        let server = Server::new(0, 100);
        let sessions = [claiming(&server, 1), claiming(&server, 1)];
        // As at a clean stop: what this tells is made durable next.
        let reserved = server.ceiling.lower(0, server.places.iter());
        for session in sessions {
            let given = session.join().unwrap();
            assert!(given.iter().all(|&position| position < reserved), "{given:?} and {reserved}");
        }
        assert!(matches!(server.claim(), Err(Denied::Unreserved(_))));
    });
}

/// What the commit horizon rests on.
#[test]
fn who_has_raised_a_place_sees_what_was_published_before_a_lower_position_was_given() {
    model(3, || {
        const HORIZON: u64 = 8;
        let server = Server::new(0, 100);
        let sessions: Vec<_> = (0..2)
            .map(|_| {
                let (server, pending) = (Arc::clone(&server), Arc::new(AtomicU64::new(u64::MAX)));
                let published = Arc::clone(&pending);
                let claiming = thread::spawn(move || {
                    let publish = |start: u64| {
                        let lowest = start.min(published.load(Relaxed));
                        published.store(lowest, Relaxed);
                    };
                    server.place().claim(&layout(), &TERMS, &server.ceiling, publish).unwrap()
                });
                (claiming, pending)
            })
            .collect();
        server.place().raise(HORIZON);
        let seen: Vec<u64> = sessions.iter().map(|(_, pending)| pending.load(Relaxed)).collect();
        for ((claiming, _), seen) in sessions.into_iter().zip(seen) {
            let given = claiming.join().unwrap();
            assert!(given >= HORIZON || seen <= given, "{given} was not pending: {seen}");
        }
    });
}
