//! Tickets in shared memory: for each sequence that is in use the range that all sessions take numbers of, and the next.
//!
//! **Locking.** [`Owned`] is read and written under the lock of the table alone, never across a wait, a write or anything
//! that can fail. Sessions read [`Place`] without it, and take numbers of the current range without it
//! ([`id_gen_core::ticket::current`]). Whoever holds the lock opens and closes ranges, and makes places others': each
//! place has a *generation*, another one for each sequence that it is for and whenever its ranges are dropped. What was
//! taken under an older generation is neither handed out nor given back.
//!
//! Correctness does not depend on who fetches a range: each is taken from the sequence or the registry, atomically, and
//! belongs to who took it. The *lease* only keeps sessions from fetching all at once.

use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use id_gen_core::planted::Fault;
use id_gen_core::ticket::aside::KEY_WORDS;
use id_gen_core::ticket::shared::{self, Answer, Used, Wanted};
use id_gen_core::ticket::{Aside, Counter, Current, GivenBack, Pace, Run, Steps, Taken};
use id_gen_core::time::{NS_PER_MS, NS_PER_S};
use pgrx::pg_sys;

use crate::os::clock;
use crate::pg::lwlock::{CacheAligned, LwLock};
use crate::pg::sequence::{self, Heed, NAME, OnPage, Origin};
use crate::pg::server;
use crate::pg::wait_event::WaitEvent;
use crate::pg::wal::Lsn;

/// How many sequences can be in use at a time; of more, those used least recently lose their ranges, which are gaps.
pub const PLACES: usize = 128;
/// For how long a session that fetches a range is trusted to be about to have it.
const LEASE_NS: u64 = 20 * NS_PER_MS;
/// How long a session that waits for one sleeps before it looks by itself.
pub const NAP_MS: i64 = 20;

/// Which sequence a place is for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The database.
    pub database: u32,
    /// Tells it from one that had its number before.
    pub database_written_by: u32,
    /// The sequence; zero: the place is free.
    pub sequence: u32,
    /// The number of its file, which changes when it is set back.
    pub file: u32,
    /// Tells its definition from those before.
    pub definition: u32,
}

/// Where the numbers are that a clean stop puts aside for the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AsideIs {
    /// On disk, since the last stop.
    OnDisk,
    /// In the places, for sessions to use.
    InPlaces,
    /// On disk again, for the next start: this server is stopping.
    PutAside,
}

impl Key {
    /// Of no sequence.
    pub const NONE: Key =
        Key { database: 0, database_written_by: 0, sequence: 0, file: 0, definition: 0 };
}

impl Key {
    const fn words(&self) -> [u32; KEY_WORDS] {
        let Key { database, database_written_by, sequence, file, definition } = *self;
        [database, database_written_by, sequence, file, definition]
    }

    const fn of_words(words: [u32; KEY_WORDS]) -> Key {
        let [database, database_written_by, sequence, file, definition] = words;
        Key { database, database_written_by, sequence, file, definition }
    }
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
    /// Another number for each sequence that the place is for, and each time that its ranges are dropped.
    generation: AtomicU64,
    /// Up to where the log is to be flushed on a synchronous standby before a session that waits for such uses numbers of
    /// the current range; zero: it is.
    unconfirmed: AtomicU64,
    /// Whether numbers were given back.
    has_given_back: AtomicBool,
}

/// What is written with every number, or nearly.
struct Often {
    current: Current,
    /// When a transaction last began to take numbers, on the monotonic clock.
    used_at_ns: AtomicU64,
}

/// A range that is to be used next.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    run: Run,
    /// Where the log says so, of one that the sequence has counted over: one that a registry gave has to be first.
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
pub struct Owned {
    key: Key,
    names: Names,
    steps: Steps,
    ahead: Option<Ahead>,
    given_back: GivenBack,
    pace: Pace,
    /// When the place was made this sequence's, on the monotonic clock.
    since_ns: u64,
    /// What is wanted of the registry.
    want: Option<Want>,
    /// Under which epoch the registry gave what the place holds.
    epoch: Option<u64>,
    /// How many answers the registry has given, and the last one that was no range.
    answers: u64,
    refused: Option<Answer>,
    /// How many numbers the current range was opened with.
    current_count: u32,
    /// The last number of that range.
    begun_last: Option<i64>,
    /// Where the log has the last range that was taken of the sequence.
    taken_at: Lsn,
    /// What the sequence's page said, and where the log had it, when it was seen last that somebody else had written it.
    heeded: Option<(Counter, Lsn)>,
    /// Until when a session is trusted to be fetching a range.
    leased_until_ns: u64,
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
    /// The last value that tickets have written on the sequence's page, or the last number that was returned before it was
    /// set; none after what was held was dropped for another reason.
    pub last: Option<i64>,
}

/// All places.
#[repr(C)]
pub struct Tickets {
    lock: LwLock<Table>,
    changed: CacheAligned<UnsafeCell<pg_sys::ConditionVariable>>,
    /// Which fleet's registry gives ranges; zero: none does, and they come from the sequences.
    registry: AtomicU64,
    /// Where what a clean stop puts aside is, as an [`AsideIs`].
    aside_is: AtomicU8,
    /// How often a sequence lost its ranges to another, for want of a place.
    evictions: AtomicU64,
    places: [Place; PLACES],
}

// SAFETY: a condition variable is made for sharing, and so is all else.
unsafe impl Sync for Tickets {}

/// What is under the lock.
pub struct Table {
    /// The last generation of any place.
    generation: u64,
    /// Which place was asked for last.
    asked_last: usize,
    owned: [Owned; PLACES],
}

/// A place as it was found for a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub index: usize,
    /// Its generation then; zero: none.
    pub generation: u64,
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
    /// Fetch a range.
    Fetch(Fetch),
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
    /// Wait for the one who fetches.
    Wait,
}

/// A range that is to be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// How large it should be.
    pub size: u32,
    /// The last number of the range that was begun last.
    pub after: Option<i64>,
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
    /// Of a sequence that nobody has looked at since the start.
    const UNKNOWN: Names = Names { database: [0; NAME], schema: [0; NAME], sequence: [0; NAME] };

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

    /// How many numbers are left above all that were fetched; none if none was.
    pub fn beyond(&self) -> Option<u64> {
        let next = self.counts.last?.checked_add(self.steps.step);
        Some(next.map_or(0, |next| self.steps.left_from(next)))
    }

    /// How many seconds it takes, at the usual rate, until no number is left; none if none is used.
    pub fn seconds_left(&self) -> Option<f64> {
        let rate = self.usual_per_second();
        let left = self.beyond()?.saturating_add(self.left);
        (rate > 0.0).then(|| left as f64 / rate)
    }
}

impl Owned {
    /// Whether it was put back after a restart, and nobody has looked at the sequence since.
    const fn is_unseen(&self) -> bool {
        self.key.sequence != 0 && self.names.sequence[0] == 0
    }

    fn is_unseen_of(&self, key: &Key) -> bool {
        self.key == *key && self.is_unseen()
    }

    /// Whether the page is as it was when it was looked at last. Where the log has it tells, also where `nextval()` has come
    /// to the end of what it had logged; nothing tells of a page that is not logged but what it says.
    fn has_heeded(&self, page: &OnPage) -> bool {
        self.heeded.is_some_and(|(counter, lsn)| {
            lsn == page.lsn && (lsn != Lsn::default() || counter == page.counter)
        })
    }

    const FREE: Owned = Owned {
        key: Key::NONE,
        names: Names::UNKNOWN,
        steps: Steps { step: 0, min: 0, max: 0 },
        ahead: None,
        given_back: GivenBack::EMPTY,
        pace: Pace::NEW,
        since_ns: 0,
        want: None,
        epoch: None,
        answers: 0,
        refused: None,
        current_count: 0,
        begun_last: None,
        taken_at: Lsn(0),
        heeded: None,
        leased_until_ns: 0,
        counts: TicketCounts {
            ranges: 0,
            numbers: 0,
            dropped: 0,
            waits: 0,
            refusals: 0,
            last: None,
        },
    };
}

impl Place {
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

    /// Whether numbers were given back, which are to be taken first.
    #[inline(always)]
    pub fn has_given_back(&self) -> bool {
        self.seldom.0.has_given_back.load(Relaxed)
    }

    /// Takes up to so many numbers of the current range, if the place is still of this generation.
    #[inline(always)]
    pub fn take(&self, generation: u64, wanted: u32) -> Option<Taken> {
        self.often.0.current.take(generation, wanted)
    }

    /// Notes that a transaction begins to take numbers.
    pub fn note_use(&self) {
        self.often.0.used_at_ns.store(clock::mono_ns(), Relaxed);
    }
}

impl Tickets {
    /// Places whose lock still has to be initialized where it lies.
    pub fn uninitialized() -> Tickets {
        let place = || Place {
            seldom: CacheAligned(Seldom {
                generation: AtomicU64::new(0),
                unconfirmed: AtomicU64::new(0),
                has_given_back: AtomicBool::new(false),
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
            aside_is: AtomicU8::new(AsideIs::OnDisk as u8),
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

    /// The place of a sequence. If it has none it gets one: a free one, or one that holds no range, or the one used least
    /// recently, whose ranges are gaps then.
    pub fn find(&self, key: Key, names: &Names, steps: &Steps) -> Held {
        let mut table = self.lock.lock();
        let index = match table.owned.iter().position(|owned| owned.key == key) {
            Some(index) => {
                if table.owned[index].names != *names && self.has_registry() {
                    // What is held came from another ticket of the registry's.
                    self.drop_ranges(&mut table, index);
                }
                table.owned[index].names = *names;
                index
            }
            None => {
                // What it was before it was set back or declared anew is of no use any more: whoever has done that has kept
                // all others out meanwhile. If its file is the same, its numbers go on above those that were taken.
                let mut taken = (None, Lsn::default());
                for index in 0..PLACES {
                    let Owned { key: found, counts, taken_at, .. } = table.owned[index];
                    let Key { database, database_written_by: written_by, sequence, file, .. } =
                        found;
                    if (database, sequence) == (key.database, key.sequence) {
                        if (file, written_by) == (key.file, key.database_written_by) {
                            taken = (counts.last, taken_at);
                        }
                        self.drop_ranges(&mut table, index);
                        table.owned[index] = Owned::FREE;
                    }
                }
                let index = self.victim(&table);
                if table.owned[index].key.sequence != 0 && self.holds(&table, index) {
                    self.evictions.fetch_add(1, Relaxed);
                }
                self.drop_ranges(&mut table, index);
                let since_ns = clock::mono_ns();
                let (last, taken_at) = taken;
                let counts = TicketCounts { last, ..Owned::FREE.counts };
                let steps = *steps;
                table.owned[index] =
                    Owned { key, names: *names, steps, since_ns, counts, taken_at, ..Owned::FREE };
                index
            }
        };
        Held { index, generation: self.places[index].generation() }
    }

    /// How often a sequence lost its ranges to another.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    fn holds(&self, table: &Table, index: usize) -> bool {
        let owned = &table.owned[index];
        owned.ahead.is_some()
            || !owned.given_back.is_empty()
            || self.places[index].often.0.current.left().is_some()
    }

    fn victim(&self, table: &Table) -> usize {
        let rank = |index: &usize| {
            let used_at_ns = self.places[*index].often.0.used_at_ns.load(Relaxed);
            (table.owned[*index].key.sequence != 0, self.holds(table, *index), used_at_ns)
        };
        (0..PLACES).min_by_key(rank).unwrap_or(0)
    }

    /// Drops what a place holds, and what sessions hold of it. Returns the numbers that would have come next: neither these nor
    /// larger ones were returned to anybody.
    fn drop_ranges(&self, table: &mut Table, index: usize) -> Option<Run> {
        let place = &self.places[index];
        table.generation += 1;
        let owned = &mut table.owned[index];
        let runs = (place.often.0.current.close(), owned.ahead.take().map(|ahead| ahead.run));
        let left = runs.0.map_or(0, |run| u64::from(run.count));
        let ahead = runs.1.map_or(0, |run| u64::from(run.count));
        let taken = u64::from(owned.current_count).saturating_sub(left);
        owned.counts.numbers = owned.counts.numbers.saturating_add(taken);
        owned.counts.dropped += left + ahead + owned.given_back.numbers();
        let last_given_back = owned.given_back.runs().last().copied();
        owned.given_back.clear();
        // After a clean restart they are all that is held.
        let ends = |run: &Run| Some(owned.steps.last_of(*run)) == owned.counts.last;
        let coming = runs.0.or(runs.1).or(last_given_back.filter(ends));
        owned.current_count = 0;
        owned.leased_until_ns = 0;
        (owned.want, owned.epoch, owned.refused) = (None, None, None);
        owned.counts.last = None;
        // What is unconfirmed stays: a session that has just taken numbers is about to ask for it.
        let Seldom { generation, has_given_back, .. } = &place.seldom.0;
        has_given_back.store(false, Relaxed);
        generation.store(table.generation, Release);
        coming
    }

    /// Whether what is put aside is here.
    pub fn aside_is(&self, here: AsideIs) -> bool {
        self.aside_is.load(Acquire) == here as u8
    }

    /// Notes where what is put aside is. For the holder of the lock of its file.
    pub fn note_aside(&self, is: AsideIs) {
        self.aside_is.store(is as u8, Release);
    }

    /// Takes all numbers that no session has, to be put aside. Sessions find no range any more, and fetch new ones. Those
    /// that a registry gave are left as they are.
    pub fn put_aside(&self) -> Vec<Aside> {
        let mut asides = Vec::with_capacity(PLACES);
        if self.has_registry() {
            return asides;
        }
        let mut table = self.lock.lock();
        for (index, place) in self.places.iter().enumerate() {
            let owned = &mut table.owned[index];
            if owned.key.sequence == 0 {
                continue;
            }
            let steps = owned.steps;
            let left = place.often.0.current.close();
            owned.current_count =
                owned.current_count.saturating_sub(left.map_or(0, |run| run.count));
            let ahead = owned.ahead.take();
            let mut numbers = owned.given_back;
            for run in [left, ahead.map(|ahead| ahead.run)].into_iter().flatten() {
                owned.counts.dropped += u64::from(numbers.add(&steps, run));
            }
            owned.given_back.clear();
            let (key, last, Lsn(lsn)) = (owned.key.words(), owned.counts.last, owned.taken_at);
            self.drop_ranges(&mut table, index);
            if let Some(last) = last.filter(|_| !numbers.is_empty()) {
                asides.push(Aside { key, steps, last, lsn, numbers });
            }
        }
        asides
    }

    /// Puts back what was put aside, for sequences that nobody has asked for since.
    pub fn put_back(&self, asides: &[Aside]) {
        if self.has_registry() {
            return;
        }
        let since_ns = clock::mono_ns();
        let mut table = self.lock.lock();
        for Aside { key, steps, last, lsn, numbers } in asides {
            let key = Key::of_words(*key);
            let is_its = |owned: &Owned| {
                (owned.key.database, owned.key.sequence) == (key.database, key.sequence)
            };
            let free = table.owned.iter().position(|owned| owned.key.sequence == 0);
            let Some(index) = free.filter(|_| !table.owned.iter().any(is_its)) else { continue };
            let (numbers, last) = (*numbers, Some(*last));
            // Taken before, and given back.
            let counts = TicketCounts { numbers: numbers.numbers(), last, ..Owned::FREE.counts };
            table.generation += 1;
            table.owned[index] = Owned {
                key,
                steps: *steps,
                given_back: numbers,
                taken_at: Lsn(*lsn),
                since_ns,
                counts,
                ..Owned::FREE
            };
            let seldom = &self.places[index].seldom.0;
            seldom.has_given_back.store(true, Relaxed);
            seldom.generation.store(table.generation, Release);
        }
    }

    /// How far a sequence was, and where the log says so, of which numbers were put back and nobody has looked since.
    pub fn put_back_of(&self, key: &Key) -> Option<(i64, Lsn)> {
        let table = self.lock.lock();
        let owned = table.owned.iter().find(|owned| owned.is_unseen_of(key))?;
        owned.counts.last.map(|last| (last, owned.taken_at))
    }

    /// Of a sequence whose numbers were put back and nobody has looked at: where the log has it by now; or they are dropped.
    pub fn check_put_back(&self, key: &Key, written: Option<Lsn>) {
        let mut table = self.lock.lock();
        let Some(index) = table.owned.iter().position(|owned| owned.is_unseen_of(key)) else {
            return;
        };
        if let Some(lsn) = written {
            table.owned[index].taken_at = lsn;
        } else {
            self.drop_ranges(&mut table, index);
            table.owned[index] = Owned::FREE;
        }
    }

    /// Lets sessions use them, once the log is flushed up to here.
    pub fn settle_put_back(&self, key: &Key, names: &Names, flushed: Lsn) {
        let mut table = self.lock.lock();
        if let Some(index) = table.owned.iter().position(|owned| owned.is_unseen_of(key)) {
            table.owned[index].names = *names;
            self.places[index].seldom.0.unconfirmed.store(flushed.0, Relaxed);
        }
    }

    /// What is to become of the page of a sequence. To be asked while the page is locked.
    ///
    /// What is held stays only if tickets have written the page last. After `nextval()`, `setval()` and all else it is dropped:
    /// the page does not say how often the sequence was set before. Numbers then follow the page, which is raised first if it
    /// lies below numbers that were returned.
    pub fn heed(&self, held: Held, page: &OnPage) -> Heed {
        if page.origin.is_tickets() || Fault::TicketsIgnoreSetval.is_planted() {
            return Heed::Keep;
        }
        let origin = if self.has_registry() { Origin::Fleet } else { Origin::Server };
        let mut table = self.lock.lock();
        let Some((_, owned)) = self.owned(&mut table, held) else { return Heed::Follow };
        let Owned { steps, counts: TicketCounts { last, .. }, .. } = *owned;
        let is_known = owned.has_heeded(page);
        owned.heeded = Some((page.counter, page.lsn));
        if is_known {
            return Heed::Keep;
        }
        if Fault::TicketsKeptAtSameNext.is_planted()
            && let Some(coming) = self.places[held.index].often.0.current.left()
            && steps.next(page.counter) == Some(coming.first)
        {
            return Heed::Keep;
        }
        let returned = match self.drop_ranges(&mut table, held.index) {
            Some(coming) => coming.first.checked_sub(steps.step),
            None => last,
        };
        let is_number = |last: &i64| steps.contain(Counter { last_value: *last, is_called: true });
        let returned = returned.filter(is_number);
        let owned = &mut table.owned[held.index];
        owned.counts.last = returned;
        let next = steps.next(page.counter);
        match returned {
            Some(_) if Fault::TicketsFollowBelow.is_planted() => Heed::Follow,
            Some(last) if next.is_some_and(|next| next <= last) => {
                owned.heeded = None;
                Heed::Raise(last, origin)
            }
            _ => Heed::Follow,
        }
    }

    /// Drops what this server holds of a sequence.
    pub fn discard(&self, database: u32, sequence: u32) {
        let mut table = self.lock.lock();
        for index in 0..PLACES {
            let Key { database: of, sequence: is, .. } = table.owned[index].key;
            if (of, is) == (database, sequence) {
                self.drop_ranges(&mut table, index);
            }
        }
        drop(table);
        self.wake();
    }

    /// Takes up to so many of the numbers that were given back and come after this one.
    pub fn take_given_back(&self, held: Held, after: Option<i64>, wanted: u32) -> Option<Run> {
        let mut table = self.lock.lock();
        let (place, owned) = self.owned(&mut table, held)?;
        let steps = owned.steps;
        let run = owned.given_back.take(&steps, after, wanted);
        place.seldom.0.has_given_back.store(!owned.given_back.is_empty(), Relaxed);
        run
    }

    /// Gives numbers back that were taken and not handed out.
    pub fn give_back(&self, held: Held, run: Run) {
        let mut table = self.lock.lock();
        let Some((place, owned)) = self.owned(&mut table, held) else { return };
        let steps = owned.steps;
        let current = &place.often.0.current;
        let mut run = Some(run);
        // What touches what is left of the range becomes part of it again, and so may what was given back before.
        while let Some(back) = run {
            if !current.take_back(back) {
                owned.counts.dropped += u64::from(owned.given_back.add(&steps, back));
                break;
            }
            run = owned.given_back.take_before(&steps, back.first);
        }
        place.seldom.0.has_given_back.store(!owned.given_back.is_empty(), Relaxed);
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
        if let Some(Ahead { counted: Some(lsn), .. }) = owned.ahead {
            return Task::Begin(lsn);
        }
        if owned.ahead.is_none() && self.has_registry() {
            let Owned { answers, refused, .. } = *owned;
            let ask = owned.want.is_none().then(|| owned.pace.size());
            return Task::Await { ask, answers, refused };
        }
        let now_ns = clock::mono_ns();
        if now_ns < owned.leased_until_ns {
            return Task::Wait;
        }
        owned.leased_until_ns = now_ns + LEASE_NS;
        match owned.ahead {
            Some(ahead) => Task::Count(ahead.run),
            None => Task::Fetch(Fetch { size: owned.pace.size(), after: owned.begun_last }),
        }
    }

    /// A range was fetched. Where another session has fetched one meanwhile, the lower one comes first; where it has begun
    /// that too, this one comes too late, and is lost: numbers would go down again.
    pub fn deposit(&self, held: Held, fetch: Fetch, run: Run, lsn: Lsn) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held) {
            let steps = owned.steps;
            owned.leased_until_ns = 0;
            owned.heeded = None;
            owned.counts.ranges += 1;
            let last = Some(steps.last_of(run));
            // The one that the log has last, not the largest: the sequence may have been set back. Nothing of a sequence is
            // in the log that is as new as its transaction, where `wal_level` is minimal.
            if lsn > owned.taken_at || (lsn == owned.taken_at && last > owned.counts.last) {
                (owned.counts.last, owned.taken_at) = (last, lsn);
            }
            let fetched = Ahead { run, counted: Some(lsn) };
            let has_begun_another = owned.begun_last != fetch.after;
            match owned.ahead {
                _ if has_begun_another && owned.begun_last > Some(run.first) => {
                    owned.counts.dropped += u64::from(run.count);
                }
                None => owned.ahead = Some(fetched),
                Some(ahead) if run.first < ahead.run.first => {
                    owned.ahead = Some(fetched);
                    Self::keep_spare(owned, ahead);
                }
                Some(_) => Self::keep_spare(owned, fetched),
            }
        }
        drop(table);
        self.wake();
    }

    /// A range too many: durable no sooner than the log is, so it is not kept for use but lost, unless it joins on to the one
    /// that comes next.
    fn keep_spare(owned: &mut Owned, spare: Ahead) {
        let steps = owned.steps;
        if let Some(ahead) = &mut owned.ahead
            && steps.after(ahead.run) == Some(spare.run.first)
            && let Some(count) = ahead.run.count.checked_add(spare.run.count)
        {
            ahead.run.count = count;
            ahead.counted = ahead.counted.max(spare.counted);
            return;
        }
        owned.counts.dropped += u64::from(spare.run.count);
    }

    /// Begins the next range, if it is still the one whose log is durable up to here; `unconfirmed` where a synchronous
    /// standby may not have it yet. Returns what to fetch ahead, if the caller is to do so.
    pub fn begin(&self, held: Held, lsn: Lsn, unconfirmed: bool) -> Option<Fetch> {
        let mut table = self.lock.lock();
        let (place, owned) = self.owned(&mut table, held)?;
        if place.often.0.current.left().is_some() {
            return None;
        }
        let ahead =
            owned.ahead.take_if(|ahead| ahead.counted.is_some_and(|counted| counted <= lsn))?;
        let steps = owned.steps;
        let current = &place.often.0.current;
        if let Some(left) = current.close() {
            // Given back just now.
            owned.given_back.add(&steps, left);
            place.seldom.0.has_given_back.store(true, Relaxed);
        }
        let now_ns = clock::mono_ns();
        owned.pace.begin(now_ns, owned.current_count);
        owned.counts.numbers = owned.counts.numbers.saturating_add(owned.current_count.into());
        owned.current_count = ahead.run.count;
        let unconfirmed = if unconfirmed { lsn.0 } else { 0 };
        place.seldom.0.unconfirmed.store(unconfirmed, Relaxed);
        current.open(held.generation, ahead.run, steps.step);
        owned.leased_until_ns = now_ns + LEASE_NS;
        owned.begun_last = Some(steps.last_of(ahead.run));
        let fetch = Fetch { size: owned.pace.size(), after: owned.begun_last };
        drop(table);
        self.wake();
        Some(fetch)
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

    /// Drops all ranges of all sequences.
    pub fn drop_all(&self) {
        let mut table = self.lock.lock();
        for index in 0..PLACES {
            if table.owned[index].key.sequence != 0 {
                self.drop_ranges(&mut table, index);
            }
        }
        drop(table);
        self.wake();
    }

    /// Has the registry asked for so many numbers above what is used, unless it is already.
    pub fn want(&self, held: Held, count: u32, used: Option<Used>) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held)
            && owned.ahead.is_none()
        {
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
        let held = Held { index: next, generation: self.places[next].generation() };
        drop(table);
        let name = names.in_registry();
        Some(WantedOf { held, wanted: Wanted { name, steps, count, used } })
    }

    /// Whether the registry is to be asked for something.
    pub fn wants(&self) -> bool {
        let table = self.lock.lock();
        table.owned.iter().any(|owned| owned.want.is_some_and(|want| !want.is_asked))
    }

    /// No answer came: what was wanted is still.
    pub fn unanswered(&self, held: Held) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held)
            && let Some(want) = &mut owned.want
        {
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

    /// The sequence has counted over a range that a registry gave.
    pub fn counted(&self, held: Held, run: Run, lsn: Lsn) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held)
            && let Some(ahead) = &mut owned.ahead
            && ahead.run == run
        {
            ahead.counted = Some(lsn);
            owned.counts.last = Some(owned.steps.last_of(run));
            (owned.heeded, owned.leased_until_ns) = (None, 0);
        }
        drop(table);
        self.wake();
    }

    /// Counts a call that was refused, or one that has waited.
    pub fn count(&self, held: Held, count: impl FnOnce(&mut TicketCounts)) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held) {
            count(&mut owned.counts);
            owned.leased_until_ns = 0;
        }
    }

    /// Counts a call that waits for a range.
    pub fn count_wait(&self, held: Held) {
        let mut table = self.lock.lock();
        if let Some((_, owned)) = self.owned(&mut table, held) {
            owned.counts.waits += 1;
        }
    }

    /// Sleeps until something has changed, or for a while. Interrupts end the wait.
    pub fn nap(&self, event: WaitEvent) {
        let changed = self.changed.0.get();
        // SAFETY: initialized before it was published; an error leaves the wait to PostgreSQL to clean up.
        unsafe {
            pg_sys::ConditionVariablePrepareToSleep(changed);
            pg_sys::ConditionVariableTimedSleep(changed, NAP_MS, event.info());
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
            if owned.key.sequence == 0 || owned.is_unseen() {
                continue;
            }
            let current = &place.often.0.current;
            let left = current.left();
            let ahead = owned.ahead.map(|ahead| ahead.run);
            let taken = u64::from(owned.current_count)
                .saturating_sub(left.map_or(0, |run| u64::from(run.count)));
            let back = owned.given_back.runs().first();
            let runs = [left.as_ref(), ahead.as_ref()];
            let held = runs.into_iter().flatten().map(|run| u64::from(run.count)).sum::<u64>();
            let next = [back, left.as_ref(), ahead.as_ref()].into_iter().flatten().next();
            found.push(Snapshot {
                key: owned.key,
                names: owned.names,
                steps: owned.steps,
                next: next.map(|run| run.first),
                left: held + owned.given_back.numbers(),
                taken: (owned.counts.numbers + taken).saturating_sub(owned.given_back.numbers()),
                size: owned.pace.size(),
                per_second: owned.pace.per_second(now_ns, u32::try_from(taken).unwrap_or(u32::MAX)),
                refused: owned.refused,
                age_ns: now_ns.saturating_sub(owned.since_ns),
                counts: owned.counts,
            });
        }
        drop(table);
        found.retain(|ticket| !sequence::is_gone(ticket.key.database, ticket.key.sequence));
        found
    }
}
