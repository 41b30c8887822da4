//! Many registrars in one process, against a real etcd: are all grants renewed in time, and how long does that take?
//!
//! ```sh
//! cargo run --release --package id_gen_registry --example registrars -- ENDPOINTS MEMBERS SECONDS
//! ```
//!
//! Each member is the protocol as servers run it, with the default terms and a number of its own in one fleet. They join
//! within one interval between renewals, as servers do that do not start at the same moment, and a few threads, with a
//! connection each, ask for whoever is due. A line of JSON says when all hold a number, another what came of the
//! renewals after that. What drives it from there, and looks at etcd meanwhile, is `benches/registrars.py`.
//!
//! **Locking.** A member is locked by the thread that asks for it; the queue, for as long as it takes to look at it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use id_gen_core::fleet::grant::Holder;
use id_gen_core::fleet::member::{Event, Numbers, Phase};
use id_gen_core::fleet::store::Keys;
use id_gen_core::fleet::{LocalInputs, Member, Meta, Terms, ask};
use id_gen_core::layout::{Field, Layout};
use id_gen_registry::etcd::{Etcd, EtcdOptions};
use serde_json::json;

/// Connections to etcd. A member needs one for some milliseconds every few seconds.
const THREADS: usize = 32;
/// Has more workers than members are asked for.
const LAYOUT: &str = "leaf";
const FLEET: &str = "bench";
/// As for a registrar: after a request of no use.
const RETRY_MS: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let [endpoints, members, seconds] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "type: registrars ENDPOINTS MEMBERS SECONDS")?;
    let options = EtcdOptions {
        endpoints: EtcdOptions::parse_endpoints(&endpoints)?,
        timeout: Duration::from_millis(Terms::DEFAULT.timeout_ms.into()),
        ca_file: None,
        cert_file: None,
        key_file: None,
        user: None,
        password_file: None,
    };
    let bench = Bench::new(members.parse()?, Duration::from_secs(seconds.parse()?))?;
    let meta = Meta { id: bench.random(), layout: LAYOUT.parse()?, terms: Terms::DEFAULT };
    Keys::create(&mut Etcd::new(options.clone())?, FLEET, &meta)?;
    let stores = (0..THREADS)
        .map(|_| {
            let opened = Keys::open(Etcd::new(options.clone())?, FLEET);
            opened.map_err(|(_, error)| Box::<dyn Error>::from(error))
        })
        .collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|threads| {
        for keys in stores {
            threads.spawn(|| bench.work(keys));
        }
    });
    bench.report();
    Ok(())
}

/// All members, and what came of their requests.
struct Bench {
    began: Instant,
    /// How long renewals are watched, once all hold a number.
    watched: Duration,
    members: Vec<Mutex<Registrar>>,
    /// Who is due next, and when, in milliseconds since the beginning.
    queue: Mutex<BinaryHeap<Reverse<(u64, usize)>>>,
    changed: Condvar,
    holding: AtomicUsize,
    randoms: AtomicU64,
    found: Mutex<Found>,
}

/// One of the members.
struct Registrar {
    member: Member,
    /// Since when it has had something to ask; a request without an answer does not end that.
    due_ms: Option<u64>,
}

#[derive(Default)]
struct Found {
    /// When all held a number; nothing is counted before.
    all_hold: Option<Instant>,
    /// From when each renewal was due to its acknowledgement.
    renewals: Vec<Duration>,
    /// What was left of the grant that ended soonest, when it was renewed.
    least_left_ms: Option<i64>,
    /// Requests without an answer.
    failures: usize,
    /// Grants that were not renewed in time, and numbers that were lost.
    late: usize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bench {
    fn new(members: usize, watched: Duration) -> Result<Bench, Box<dyn Error>> {
        let layout = LAYOUT.parse::<Layout>()?;
        let last = layout.max_number(Field::Worker);
        let numbers = Numbers { layout, datacenter: 0, first: 0, last, originals: None };
        let join = |index| {
            let holder = Holder { host: format!("host-{index}"), ..Holder::default() };
            let member = Member::new(Terms::DEFAULT, numbers.clone(), holder, None, None);
            Mutex::new(Registrar { member, due_ms: None })
        };
        let renewal_ms = u64::from(Terms::DEFAULT.renewal_ms);
        let spread = (0..members)
            .map(|index| Reverse((renewal_ms * index as u64 / members.max(1) as u64, index)));
        Ok(Bench {
            began: Instant::now(),
            watched,
            members: (0..members).map(join).collect(),
            queue: Mutex::new(spread.collect()),
            changed: Condvar::new(),
            holding: AtomicUsize::new(0),
            randoms: AtomicU64::new(0),
            found: Mutex::default(),
        })
    }

    /// Never the same twice, in this run and in any other.
    fn random(&self) -> u128 {
        unix().as_nanos() << 32 | u128::from(self.randoms.fetch_add(1, Relaxed) as u32)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn local(&self) -> LocalInputs {
        let wall_ms = unix().as_millis() as i64;
        LocalInputs { wall_ms, boot_ms: self.now_ms(), frontier_ms: wall_ms, reserved_ms: i64::MIN }
    }

    /// Asks for whoever is due, until the time is over.
    fn work(&self, mut keys: Keys<Etcd>) {
        while let Some((due_ms, index)) = self.due() {
            let next_ms = self.step(&mut keys, &mut locked(&self.members[index]), due_ms);
            locked(&self.queue).push(Reverse((next_ms, index)));
            self.changed.notify_one();
        }
    }

    /// Waits for the next one that is due; `None` at the end.
    fn due(&self) -> Option<(u64, usize)> {
        let mut queue = locked(&self.queue);
        loop {
            let all_hold = locked(&self.found).all_hold;
            if all_hold.is_some_and(|since| since.elapsed() >= self.watched) {
                return None;
            }
            let now_ms = self.now_ms();
            let wait_ms = match queue.peek() {
                Some(Reverse((due_ms, _))) if *due_ms <= now_ms => {
                    return queue.pop().map(|Reverse(due)| due);
                }
                Some(Reverse((due_ms, _))) => due_ms - now_ms,
                None => RETRY_MS,
            };
            let waited = self.changed.wait_timeout(queue, Duration::from_millis(wait_ms));
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// One request for a member that is due; returns when the next one is.
    fn step(&self, keys: &mut Keys<Etcd>, registrar: &mut Registrar, due_ms: u64) -> u64 {
        let Registrar { member, due_ms: since_ms } = registrar;
        let had_none = member.active_grant().is_none();
        let Some(request) = member.next(&self.local(), || self.random()) else {
            return member.next_at_boot_ms().unwrap_or(u64::MAX);
        };
        let due_ms = *since_ms.get_or_insert(due_ms);
        let left_ms = member.grant().map(|(_, grant)| grant.until_ms);
        let answer = ask(keys, &request);
        let local = self.local();
        let event = answer.map(|answer| {
            member.answered(answer, &local, |count| self.random() as usize % count.max(1))
        });
        if had_none && member.active_grant().is_some() {
            self.holds_one_more();
        }
        if member.phase() == Phase::Holding {
            *since_ms = None;
        }
        let mut found = locked(&self.found);
        match event {
            Err(_) => {
                member.unanswered();
                found.failures += usize::from(found.all_hold.is_some());
                return self.now_ms() + RETRY_MS;
            }
            Ok(_) if found.all_hold.is_none() => {}
            Ok(Event::Renewed) => {
                let took = self.began.elapsed().saturating_sub(Duration::from_millis(due_ms));
                found.renewals.push(took);
                let left_ms = left_ms.map(|until_ms| until_ms - local.wall_ms);
                found.least_left_ms = found.least_left_ms.into_iter().chain(left_ms).min();
            }
            Ok(Event::Quiet) => {}
            Ok(_) => found.late += 1,
        }
        member.next_at_boot_ms().unwrap_or(u64::MAX)
    }

    fn holds_one_more(&self) {
        if self.holding.fetch_add(1, Relaxed) + 1 == self.members.len() {
            let joined_s = self.began.elapsed().as_secs_f64();
            println!("{}", json!({ "members": self.members.len(), "joined_s": joined_s }));
            locked(&self.found).all_hold = Some(Instant::now());
        }
    }

    fn report(&self) {
        let mut found = locked(&self.found);
        found.renewals.sort_unstable();
        let at = |share: f64| {
            let last = found.renewals.len().saturating_sub(1);
            let took = found.renewals.get((last as f64 * share).round() as usize);
            took.map(|took| took.as_secs_f64() * 1e3)
        };
        let holding =
            self.members.iter().filter(|it| locked(it).member.active_grant().is_some()).count();
        println!(
            "{}",
            json!({
                "renewals": found.renewals.len(),
                "median_ms": at(0.5),
                "p99_ms": at(0.99),
                "slowest_ms": at(1.0),
                "least_left_ms": found.least_left_ms,
                "failures": found.failures,
                "late": found.late,
                "holding": holding,
                "seconds": found.all_hold.map(|since| since.elapsed().as_secs_f64()),
            })
        );
    }
}

fn unix() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
