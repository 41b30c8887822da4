//! Tickets in shared memory: for each sequence that is in use the range that all sessions take numbers of, and the next.
//!
//! **One truth.** Nothing that is held lies above the last value on the sequence's page. What this server has written there
//! last stands beside what is held; if the page says anything else, what is held is dropped, and numbers follow the page.
//!
//! **Locking.** [`Owned`] is read and written under the lock of the table alone, never across a wait, a write or anything
//! that can fail. Sessions read [`Place`] without it, and take numbers of the current range without it
//! ([`id_gen_core::ticket::current`]). Whoever holds the lock opens and closes ranges, and makes places others': each
//! place has a *generation*, another one for each sequence that it is for and whenever its ranges are dropped. The lock of
//! a sequence's page comes before that of the table: what a page says is compared while it is locked.

use std::cell::UnsafeCell;
use std::cmp::Reverse;
use std::sync::atomic::{
    AtomicI64, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use id_gen_core::planted::Fault;
use id_gen_core::ticket::shared::{self, Answer, Used, Wanted};
use id_gen_core::ticket::{Counter, Current, Pace, Run, Steps};
use id_gen_core::time::NS_PER_S;
use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::lwlock::{CacheAligned, LwLock};
use crate::pg::sequence::{self, NAME, OnPage, SequenceFile, WritablePage};
use crate::pg::server;
use crate::pg::wait_event::WaitEvent;
use crate::pg::wal::Lsn;

/// How many sequences can be in use at a time.
pub const PLACES: usize = 128;
/// How long a session that waits for the registry sleeps before it looks by itself.
const NAP_MS: i64 = 20;

/// Which sequence a place is for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The sequence; zero: the place is free.
    pub sequence: u32,
    /// Its file, and with that its database.
    pub file: SequenceFile,
}

/// What a sequence is called, in the encoding of its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The database.
    pub database: [u8; NAME],
    /// The schema.
    pub schema: [u8; NAME],
    /// The sequence.
    pub sequence: [u8; NAME],
}

/// A place as sessions read it without the lock.
#[repr(C)]
pub struct Place {
    seldom: CacheAligned<Seldom>,
    often: CacheAligned<Often>,
}

/// What is written seldom.
struct Seldom {
    /// What this server has written on the sequence's page last: the place in the log, and the last value. Written while the
    /// page is locked for one process alone, and read while it is locked.
    written_at: AtomicU64,
    written: AtomicI64,
    /// Another number for each sequence that the place is for, and each time that its ranges are dropped.
    generation: AtomicU64,
    /// Up to where the log is to be flushed on a synchronous standby before a session that waits for such uses numbers of
    /// the current range; zero: it is.
    unconfirmed: AtomicU64,
}

/// What is written with every number, or nearly.
struct Often {
    current: Current,
    /// When numbers were last asked for, on the monotonic clock.
    used_at_ns: AtomicU64,
}

/// A range that is to be used next.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    run: Run,
    /// Where the log says so, of one that is on the sequence's page: one that a registry gave is yet to be.
    counted: Option<Lsn>,
}

/// What a place's sessions want of the registry.
#[derive(Clone, Copy, Debug)]
struct Want {
    count: u32,
    used: Option<Used>,
    /// Whether the registry is being asked.
    is_asked: bool,
}

/// What the registrar is to ask the registry for.
pub struct WantedOf {
    /// For which place.
    pub held: Held,
    /// What.
    pub wanted: Wanted,
}

/// What the holder of the lock knows of a place.
struct Owned {
    key: Key,
    names: Names,
    steps: Steps,
    ahead: Option<Ahead>,
    pace: Pace,
    /// When the place was made this sequence's, on the monotonic clock.
    since_ns: u64,
    /// What is wanted of the registry.
    want: Option<Want>,
    /// Under which epoch the registry gave what the place holds.
    epoch: Option<u64>,
    /// The last number of the last range that a registry gave and the sequence counted over: known also when `ALTER SEQUENCE`
    /// has taken the mark from the page.
    given: Option<i64>,
    /// How many answers the registry has given, and the last one that was no range.
    answers: u64,
    refused: Option<Answer>,
    /// How many numbers the current range was opened with.
    current_count: u32,
    counts: TicketCounts,
}

/// What happened since the place is for its sequence.
#[derive(Clone, Copy, Debug, Default)]
pub struct TicketCounts {
    /// Ranges that were fetched.
    pub ranges: u64,
    /// Numbers of ranges that are used up.
    pub numbers: u64,
    /// Numbers that were dropped.
    pub dropped: u64,
    /// Calls that had to wait for a range.
    pub waits: u64,
    /// Calls that were refused.
    pub refusals: u64,
}

/// All places.
#[repr(C)]
pub struct Tickets {
    lock: LwLock<Table>,
    changed: CacheAligned<UnsafeCell<pg_sys::ConditionVariable>>,
    /// Which fleet's registry gives ranges; zero: none does, and they come from the sequences.
    registry: AtomicU64,
    /// How often a sequence lost its place to another while it had numbers.
    evictions: AtomicU64,
    places: [Place; PLACES],
}

// SAFETY: a condition variable is made for sharing, and so is all else.
unsafe impl Sync for Tickets {}

/// What is under the lock.
struct Table {
    /// The last generation of any place.
    generation: u64,
    /// Which place was asked for last.
    asked_last: usize,
    owned: [Owned; PLACES],
}

/// A place as it was found for a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub index: usize,
    /// Its generation then.
    pub generation: u64,
}

/// What came of looking for a sequence's place.
pub enum Found {
    /// It has this one.
    Place(Held),
    /// All are taken; this one is to be handed back first.
    Evict(Held, Key),
}

/// What a session that found no number is to do.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// The place is not for its sequence any more: find another.
    Find,
    /// Try again: there are numbers.
    Take,
    /// Make the log durable up to here and begin the next range.
    Begin(Lsn),
    /// Fetch a range of this size.
    Fetch(u32),
    /// Have the sequence count over this range, which a registry gave.
    Count(Run),
    /// Wait for the registry's answer.
    Await {
        /// How many numbers it should be asked for, if it is not yet.
        ask: Option<u32>,
        /// How many answers it has given so far, and the last one that was no range.
        answers: u64,
        /// That one.
        refused: Option<Answer>,
    },
}

/// What the view of tickets shows of one.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Which sequence it is.
    pub key: Key,
    /// What it is called.
    pub names: Names,
    /// Its numbers.
    pub steps: Steps,
    /// The next number of the current range, or of the next one.
    pub next: Option<i64>,
    /// The last number that this server holds or held.
    pub last: Option<i64>,
    /// Numbers that this server holds and sessions have not taken.
    pub left: u64,
    /// Numbers that sessions have taken.
    pub taken: u64,
    /// How large the next range will be.
    pub size: u32,
    /// Numbers used per second lately.
    pub per_second: f64,
    /// Why the registry gives no range, if it was asked last and gave none.
    pub refused: Option<Answer>,
    /// Since when the rest is counted, in nanoseconds.
    pub age_ns: u64,
    /// Statistics.
    pub counts: TicketCounts,
}

impl Names {
    /// The ticket's name in a registry.
    pub fn in_registry(&self) -> String {
        let bytes = |name: &[u8; NAME]| {
            name.iter().copied().take_while(|byte| *byte != 0).collect::<Vec<u8>>()
        };
        shared::name(&bytes(&self.database), &bytes(&self.schema), &bytes(&self.sequence))
    }
}

impl Snapshot {
    /// Numbers used per second since they are counted, or in the last hour if that is less.
    pub fn usual_per_second(&self) -> f64 {
        const AT_LEAST_S: f64 = 3600.0;
        let age_s = self.age_ns as f64 / NS_PER_S as f64;
        self.taken as f64 / age_s.max(AT_LEAST_S)
    }

    /// How many seconds it takes, at the usual rate, until no number is left; none if none is used.
    pub fn seconds_left(&self) -> Option<f64> {
        let rate = self.usual_per_second();
        let next = self.last?.checked_add(self.steps.step);
        let left = next.map_or(0, |next| self.steps.left_from(next)).saturating_add(self.left);
        (rate > 0.0).then(|| left as f64 / rate)
    }
}

impl Owned {
    const FREE: Owned = Owned {
        key: Key { sequence: 0, file: SequenceFile::NONE },
        names: Names { database: [0; NAME], schema: [0; NAME], sequence: [0; NAME] },
        steps: Steps { step: 0, min: 0, max: 0 },
        ahead: None,
        pace: Pace::NEW,
        since_ns: 0,
        want: None,
        epoch: None,
        given: None,
        answers: 0,
        refused: None,
        current_count: 0,
        counts: TicketCounts { ranges: 0, numbers: 0, dropped: 0, waits: 0, refusals: 0 },
    };

    const fn is_of(&self, database: u32, sequence: u32) -> bool {
        self.key.file.database == database && self.key.sequence == sequence
    }
}

impl Place {
    /// Whether its sequence's page, which is locked, is as this server has written it last. Each record has a place in the log of
    /// its own; `nextval()` changes the last value without one.
    fn has_written(&self, page: &OnPage) -> bool {
        let Seldom { written_at, written, .. } = &self.seldom.0;
        page.counter.is_called
            && (page.lsn.0, page.counter.last_value)
                == (written_at.load(Relaxed), written.load(Relaxed))
    }

    fn note_written(&self, lsn: Lsn, last_value: i64) {
        self.seldom.0.written_at.store(lsn.0, Relaxed);
        self.seldom.0.written.store(last_value, Relaxed);
    }

    /// Its generation now.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.seldom.0.generation.load(Acquire)
    }

    /// Up to where a synchronous standby has to have the log before numbers of the current range are used by a session that
    /// waits for such.
    #[inline(always)]
    pub fn unconfirmed(&self) -> Lsn {
        Lsn(self.seldom.0.unconfirmed.load(Relaxed))
    }

    /// The standby has it.
    pub fn confirm(&self, lsn: Lsn) {
        // If another range has begun meanwhile, that one is yet to be confirmed.
        let _ = self.seldom.0.unconfirmed.compare_exchange(lsn.0, 0, Relaxed, Relaxed);
    }

    /// Takes the next number of the current range, if the place is still of this generation.
    #[inline(always)]
    pub fn take(&self, generation: u64) -> Option<i64> {
        self.often.0.current.take(generation)
    }

    /// Notes that numbers are asked for.
    pub fn note_use(&self) {
        self.often.0.used_at_ns.store(clock::mono_ns(), Relaxed);
    }
}

impl Tickets {
    /// Places whose lock still has to be initialized where it lies.
    pub fn uninitialized() -> Tickets {
        let place = || Place {
            seldom: CacheAligned(Seldom {
                written_at: AtomicU64::new(0),
                written: AtomicI64::new(0),
                generation: AtomicU64::new(0),
                unconfirmed: AtomicU64::new(0),
            }),
            often: CacheAligned(Often {
                current: Current::default(),
                used_at_ns: AtomicU64::new(0),
            }),
        };
        Tickets {
            lock: LwLock::uninitialized(Table {
                generation: 0,
                asked_last: 0,
                owned: [Owned::FREE; PLACES],
            }),
            // SAFETY: a plain C structure, for which all-zero bytes are valid.
            changed: CacheAligned(UnsafeCell::new(unsafe { std::mem::zeroed() })),
            registry: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            places: std::array::from_fn(|_| place()),
        }
    }

    /// Initializes the lock. To be called once, before any other process knows of it.
    pub fn initialize(&self, tranche: i32) {
        self.lock.initialize(tranche);
        // SAFETY: a place for a condition variable, which nobody uses yet.
        unsafe { pg_sys::ConditionVariableInit(self.changed.0.get()) };
    }

    /// A place.
    #[inline(always)]
    pub fn place(&self, index: usize) -> &Place {
        &self.places[index % PLACES]
    }

    /// The place of a sequence. If it has none it gets a free one; or that of another one of its database, or of the database
    /// that has the most, which was used least recently.
    pub fn find(&self, key: Key, names: &Names, steps: &Steps) -> Found {
        let mut table = self.lock.lock();
        let index = match table.owned.iter().position(|owned| owned.key == key) {
            Some(index) => {
                // Its database may have been moved to another tablespace.
                table.owned[index].key = key;
                index
            }
            None => {
                // Its file of before is gone: whoever has declared it anew has kept all others out meanwhile.
                let is_its = |owned: &Owned| owned.is_of(key.file.database, key.sequence);
                let index = match table.owned.iter().position(is_its) {
                    Some(index) => index,
                    None => self.victim(&table, key.file.database),
                };
                let Owned { key: found, .. } = table.owned[index];
                if found.sequence != 0 && !is_its(&table.owned[index]) && self.holds(&table, index)
                {
                    return Found::Evict(self.held(index), found);
                }
                self.drop_ranges(&mut table, index);
                self.places[index].note_written(Lsn(0), 0);
                let owned = &mut table.owned[index];
                if !is_its(owned) {
                    *owned = Owned { names: *names, since_ns: clock::mono_ns(), ..Owned::FREE };
                }
                (owned.key, owned.steps) = (key, *steps);
                index
            }
        };
        if table.owned[index].names != *names {
            if self.has_registry() {
                // What is held came from another ticket of the registry's.
                self.drop_ranges(&mut table, index);
            }
            table.owned[index].names = *names;
        }
        Found::Place(self.held(index))
    }

    fn held(&self, index: usize) -> Held {
        Held { index, generation: self.places[index].generation() }
    }

    /// How often a sequence lost its place to another while it had numbers.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    fn holds(&self, table: &Table, index: usize) -> bool {
        table.owned[index].ahead.is_some() || self.places[index].often.0.current.left().is_some()
    }

    fn victim(&self, table: &Table, own: u32) -> usize {
        let rank = |index: &usize| {
            let Key { sequence, file: SequenceFile { database, .. } } = table.owned[*index].key;
            let used_at_ns = self.places[*index].often.0.used_at_ns.load(Relaxed);
            let is_its = |owned: &&Owned| owned.key.file.database == database;
            let share = table.owned.iter().filter(is_its).count();
            (sequence != 0, Reverse((share, database == own)), used_at_ns)
        };
        (0..PLACES).min_by_key(rank).unwrap_or(0)
    }

    /// Drops what a place holds, so that nobody has it: the first of its numbers. Neither that nor a larger one was taken.
    fn drop_ranges(&self, table: &mut Table, index: usize) -> Option<i64> {
        let place = &self.places[index];
        table.generation += 1;
        let owned = &mut table.owned[index];
        let runs = (place.often.0.current.close(), owned.ahead.take().map(|ahead| ahead.run));
        let count = |run: Option<Run>| run.map_or(0, |run| run.count);
        owned.counts.numbers += u64::from(owned.current_count.saturating_sub(count(runs.0)));
        owned.counts.dropped += u64::from(count(runs.0)) + u64::from(count(runs.1));
        owned.current_count = 0;
        (owned.want, owned.epoch, owned.refused) = (None, None, None);
        // What is unconfirmed stays: a session that has just taken a number is about to ask for it.
        place.seldom.0.generation.store(table.generation, Release);
        runs.0.or(runs.1).map(|run| run.first)
    }

    /// Drops what is held of a sequence if its page, which is locked, is not as this server has written it last; returns whether
    /// the place is still of this generation.
    pub fn follow(&self, held: Held, page: &OnPage) -> bool {
        let place = self.place(held.index);
        if place.has_written(page) || Fault::TicketsIgnoreSetval.is_planted() {
            return place.generation() == held.generation;
        }
        let mut table = self.lock.lock();
        let Some((_, owned)) = self.owned(&mut table, held) else { return false };
        if Fault::TicketsKeptAtSameNext.is_planted()
            && let Some(coming) = self.places[held.index].often.0.current.left()
            && owned.steps.next(page.counter) == Some(coming.first)
        {
            return true;
        }
        // A range of a registry that the sequence is yet to count over is compared when it does.
        let is_counted = owned.ahead.is_some_and(|ahead| ahead.counted.is_some());
        if !is_counted && self.places[held.index].often.0.current.left().is_none() {
            return true;
        }
        self.drop_ranges(&mut table, held.index);
        false
    }

    /// Sets a sequence back to the last number that was taken, so that what is left of its ranges leaves no gap. If the log of
    /// that is lost, its page is higher, which is one.
    pub fn hand_back(&self, held: Held, page: &WritablePage) {
        if let Some(counter) = self.counter_without(held, &page.says()) {
            page.write(counter, false);
        }
    }

    /// Takes what is held of a sequence from sessions, if its page, which is locked, is as this server has written it last:
    /// how far the sequence is then.
    fn counter_without(&self, held: Held, page: &OnPage) -> Option<Counter> {
        let mut table = self.lock.lock();
        let (place, owned) = self.owned(&mut table, held)?;
        let (steps, is_same) = (owned.steps, place.has_written(page));
        let first = self.drop_ranges(&mut table, held.index)?;
        let is_same = is_same || Fault::HandsBackUnseen.is_planted();
        let too_much = i64::from(Fault::HandsBackTooMuch.is_planted()) * steps.step;
        (is_same && !self.has_registry()).then(|| steps.before(first - too_much))
    }

    /// Frees the places of databases that are gone: whether there are any.
    pub fn forget_databases(&self, is_gone: impl Fn(u32) -> bool) -> bool {
        let databases = self.lock.lock().owned.each_ref().map(|owned| owned.key.file.database);
        let gone = databases.map(|database| database != 0 && is_gone(database));
        let mut table = self.lock.lock();
        for index in 0..PLACES {
            if gone[index] && table.owned[index].key.file.database == databases[index] {
                self.drop_ranges(&mut table, index);
                table.owned[index] = Owned::FREE;
            }
        }
        gone.contains(&true)
    }

    /// Drops what a place that another sequence needs still holds.
    pub fn evict(&self, held: Held) {
        let mut table = self.lock.lock();
        if self.owned(&mut table, held).is_some() {
            self.drop_ranges(&mut table, held.index);
        }
        self.evictions.fetch_add(1, Relaxed);
    }

    /// Drops what this server holds of a sequence.
    pub fn drop_of(&self, database: u32, sequence: u32) {
        self.drop_where(|owned| owned.is_of(database, sequence));
    }

    /// Drops all ranges of all sequences.
    pub fn drop_all(&self) {
        self.drop_where(|owned| owned.key.sequence != 0);
    }

    fn drop_where(&self, is_meant: impl Fn(&Owned) -> bool) {
        let mut table = self.lock.lock();
        for index in 0..PLACES {
            if is_meant(&table.owned[index]) {
                self.drop_ranges(&mut table, index);
            }
        }
        drop(table);
        self.wake();
    }

    /// The places of sequences that have numbers, with the sequences' files and steps.
    pub fn holding(&self) -> Vec<(Held, SequenceFile, Steps)> {
        let mut holding = Vec::with_capacity(PLACES);
        let table = self.lock.lock();
        for (index, Owned { key, steps, .. }) in table.owned.iter().enumerate() {
            if key.sequence != 0 && self.holds(&table, index) {
                holding.push((self.held(index), key.file, *steps));
            }
        }
        holding
    }

    fn owned<'a>(&self, table: &'a mut Table, held: Held) -> Option<(&Place, &'a mut Owned)> {
        let place = self.places.get(held.index)?;
        (place.generation() == held.generation).then(|| (place, &mut table.owned[held.index]))
    }

    /// What a session that found no number is to do now.
    pub fn task(&self, held: Held) -> Task {
        let mut table = self.lock.lock();
        let Some((place, owned)) = self.owned(&mut table, held) else { return Task::Find };
        if place.often.0.current.left().is_some() {
            return Task::Take;
        }
        match owned.ahead {
            Some(Ahead { counted: Some(lsn), .. }) => Task::Begin(lsn),
            Some(Ahead { counted: None, run }) => Task::Count(run),
            None if self.has_registry() => {
                let Owned { answers, refused, .. } = *owned;
                let ask = owned.want.is_none().then(|| owned.pace.size());
                Task::Await { ask, answers, refused }
            }
            None => Task::Fetch(owned.pace.size()),
        }
    }

    /// Whether a range is to be fetched still. To be asked while the page is locked: who fetches one has that.
    pub fn lacks_next(&self, held: Held) -> bool {
        let mut table = self.lock.lock();
        self.owned(&mut table, held).is_some_and(|(_, owned)| owned.ahead.is_none())
    }

    /// This server has written this page, which is still locked, for a range that was fetched, or that a registry gave.
    pub fn counted(&self, held: Held, run: Run, written: OnPage) {
        let mut table = self.lock.lock();
        if let Some((place, owned)) = self.owned(&mut table, held) {
            place.note_written(written.lsn, written.counter.last_value);
            if written.is_of_fleet {
                owned.given = Some(written.counter.last_value);
            }
            owned.counts.ranges += u64::from(owned.ahead.is_none());
            owned.ahead = Some(Ahead { run, counted: Some(written.lsn) });
        }
    }

    /// Begins the next range, if it is still the one whose log is durable up to here; `unconfirmed` where a synchronous
    /// standby may not have it yet. Returns the size of the range to fetch ahead, if the caller is to fetch it.
    pub fn begin(&self, held: Held, lsn: Lsn, unconfirmed: bool) -> Option<u32> {
        let mut table = self.lock.lock();
        let (place, owned) = self.owned(&mut table, held)?;
        let current = &place.often.0.current;
        if current.left().is_some() {
            return None;
        }
        let is_durable = |ahead: &mut Ahead| ahead.counted.is_some_and(|counted| counted <= lsn);
        let ahead = owned.ahead.take_if(is_durable)?;
        current.close();
        place.note_use();
        owned.pace.begin(clock::mono_ns(), owned.current_count);
        owned.counts.numbers += u64::from(owned.current_count);
        owned.current_count = ahead.run.count;
        let unconfirmed = if unconfirmed { lsn.0 } else { 0 };
        place.seldom.0.unconfirmed.store(unconfirmed, Relaxed);
        current.open(held.generation, ahead.run, owned.steps.step);
        Some(owned.pace.size())
    }

    /// Whether ranges come from a registry.
    pub fn has_registry(&self) -> bool {
        self.registry.load(Relaxed) != 0
    }

    /// From now on ranges come from this registry, zero: from the sequences. What came from elsewhere is dropped.
    pub fn adopt_registry(&self, registry: u64) {
        if self.registry.swap(registry, Relaxed) != registry {
            self.drop_all();
        }
    }

    /// Has the registry asked for so many numbers above what the page says, unless it is already.
    pub fn want(&self, held: Held, count: u32, page: &OnPage) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held)
            && owned.ahead.is_none()
        {
            let last = page.counter.last_value;
            let by_tickets = page.is_of_fleet || owned.given == Some(last);
            let used = page.counter.is_called.then_some(Used { last, by_tickets });
            owned.want.get_or_insert(Want { count, used, is_asked: false });
        }
    }

    /// What the registry is to be asked for next: places take turns.
    pub fn next_wanted(&self) -> Option<WantedOf> {
        let mut table = self.lock.lock();
        let next = (1..=PLACES)
            .map(|step| (table.asked_last + step) % PLACES)
            .find(|index| table.owned[*index].want.is_some_and(|want| !want.is_asked))?;
        table.asked_last = next;
        let owned = &mut table.owned[next];
        let (names, steps) = (owned.names, owned.steps);
        let want = owned.want.as_mut()?;
        want.is_asked = true;
        let Want { count, used, .. } = *want;
        drop(table);
        let name = names.in_registry();
        Some(WantedOf { held: self.held(next), wanted: Wanted { name, steps, count, used } })
    }

    /// Whether the registry is to be asked for something.
    pub fn wants(&self) -> bool {
        let table = self.lock.lock();
        table.owned.iter().any(|owned| owned.want.is_some_and(|want| !want.is_asked))
    }

    /// No answer came: what was wanted is still.
    pub fn unanswered(&self, held: Held) {
        let mut table = self.lock.lock();
        if let Some((_, Owned { want: Some(want), .. })) = self.owned(&mut table, held) {
            want.is_asked = false;
        }
    }

    /// The registry's answer. If somebody has set the ticket since the last one, what is held is dropped.
    pub fn answered(&self, held: Held, answer: Answer) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held) {
            owned.answers += 1;
            owned.want = None;
            match answer {
                Answer::Range(run, epoch) => {
                    if owned.epoch.is_some_and(|before| before != epoch) {
                        self.drop_ranges(&mut table, held.index);
                    }
                    let owned = &mut table.owned[held.index];
                    owned.counts.ranges += 1;
                    owned.epoch = Some(epoch);
                    owned.refused = None;
                    owned.ahead = Some(Ahead { run, counted: None });
                }
                refused => owned.refused = Some(refused),
            }
        }
        drop(table);
        self.wake();
    }

    /// Counts something.
    pub fn count(&self, held: Held, count: impl FnOnce(&mut TicketCounts)) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held) {
            count(&mut owned.counts);
        }
    }

    /// Sleeps until the registry has answered, or for a while. Interrupts end the wait.
    pub fn nap(&self) {
        let changed = self.changed.0.get();
        // SAFETY: initialized before it was published; an error leaves the wait to PostgreSQL to clean up.
        unsafe {
            pg_sys::ConditionVariablePrepareToSleep(changed);
            pg_sys::ConditionVariableTimedSleep(changed, NAP_MS, WaitEvent::Registry.info());
            pg_sys::ConditionVariableCancelSleep();
        }
    }

    fn wake(&self) {
        // The postmaster, which puts the settings in force first, has no place among the processes; nobody waits then.
        if server::process_number().is_none() {
            return;
        }
        // SAFETY: as above.
        unsafe { pg_sys::ConditionVariableBroadcast(self.changed.0.get()) };
    }

    /// What the view shows: not what was dropped since, although that keeps its place until another takes it.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let mut found = Vec::with_capacity(PLACES);
        let now_ns = clock::mono_ns();
        let table = self.lock.lock();
        for (place, owned) in self.places.iter().zip(&table.owned) {
            if owned.key.sequence == 0 {
                continue;
            }
            let steps = owned.steps;
            let runs = [place.often.0.current.left(), owned.ahead.map(|ahead| ahead.run)];
            let [left, _] = runs.map(|run| run.map_or(0, |run| u64::from(run.count)));
            let taken = u64::from(owned.current_count).saturating_sub(left);
            let held = || runs.iter().flatten();
            let Seldom { written, written_at, .. } = &place.seldom.0;
            let written = (written_at.load(Relaxed) > 0).then(|| written.load(Relaxed));
            found.push(Snapshot {
                key: owned.key,
                names: owned.names,
                steps,
                next: held().next().map(|run| run.first),
                last: held().map(|run| steps.last_of(*run)).chain(written).max(),
                left: held().map(|run| u64::from(run.count)).sum(),
                taken: owned.counts.numbers + taken,
                size: owned.pace.size(),
                per_second: owned.pace.per_second(now_ns, u32::try_from(taken).unwrap_or(u32::MAX)),
                refused: owned.refused,
                age_ns: now_ns.saturating_sub(owned.since_ns),
                counts: owned.counts,
            });
        }
        drop(table);
        found.retain(|ticket| !sequence::is_gone(ticket.key.file.database, ticket.key.sequence));
        found
    }
}
