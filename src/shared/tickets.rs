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
//!
//! **A place's range** goes one way: *wanted* of the registry, if there is one, and *given* by it; *counted* on the page of
//! the sequence, so that it is ahead; *current*; used up. [`Task`] is the next step.

use std::cmp::Reverse;
use std::sync::atomic::{
    AtomicI64, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use id_gen_core::planted::Fault;
use id_gen_core::ticket::shared::{self, Answer, NoRange, Range, Used, Wanted};
use id_gen_core::ticket::{Current, Pace, Run, Steps};
use id_gen_core::time::NS_PER_S;

use crate::os::clock;
use crate::pg::lwlock::{CacheAligned, LwLock};
use crate::pg::sequence::{self, Names, OnPage, SequenceFile, WritablePage};
use crate::pg::wal::Lsn;

/// How many sequences can be in use at a time.
pub const PLACES: usize = 128;

/// Which sequence a place is for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The sequence; zero: the place is free.
    pub sequence: u32,
    /// Its file, and with that its database.
    pub file: SequenceFile,
}

/// A place as sessions read it without the lock.
#[repr(C)]
#[derive(Default)]
pub struct Place {
    seldom: CacheAligned<Seldom>,
    often: CacheAligned<Often>,
}

/// What is written seldom.
#[derive(Default)]
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
#[derive(Default)]
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
    used: Option<Used>,
    /// Whether the registry is being asked.
    is_asked: bool,
}

/// What the holder of the lock knows of a place.
#[derive(Default)]
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
    /// The registry's last answer if that was no range, and when it came, on the monotonic clock.
    refused: Option<(NoRange, u64)>,
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
    /// Which fleet's registry gives ranges; zero: none does, and they come from the sequences.
    registry: AtomicU64,
    /// How often a sequence lost its place to another while it had numbers.
    pub evictions: AtomicU64,
    places: [Place; PLACES],
}

/// What is under the lock.
struct Table {
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

/// What a session that found no number is to do.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// The place is not for its sequence any more: find another.
    Find,
    /// Try again: there are numbers.
    Take,
    /// Make the log durable up to here and begin the next range.
    Begin(Lsn),
    /// Lock the page, and do what [`Tickets::next_range`] says.
    Fetch,
    /// Wait for the registry's answer.
    Await,
}

/// What a session that has locked a sequence's page is to do.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// Nothing: somebody else has done it, or the place is not for its sequence any more.
    Nothing,
    /// Have the sequence count over these numbers.
    Count {
        /// The numbers, which lie above what the page says.
        run: Run,
        /// Whether a registry gave them, which the page is to say.
        is_of_fleet: bool,
    },
    /// Wake the registrar: the registry is to be asked.
    Ask,
    /// Tell that there are no numbers.
    Refuse(NoRange),
}

/// What nobody has taken of a sequence that has lost its place.
pub struct Unused {
    /// Which sequence it is, with its file.
    pub key: Key,
    /// Which numbers the sequence has.
    pub steps: Steps,
    /// The first of them that was not taken; nor was any that follows.
    next: i64,
    /// What this server had written on the page last.
    written: (Lsn, i64),
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
    pub refused: Option<NoRange>,
    /// Since when the rest is counted, in nanoseconds.
    pub age_ns: u64,
    /// Statistics.
    pub counts: TicketCounts,
}

impl Key {
    /// Whether it is this sequence, whichever file that has.
    pub const fn is_of(&self, database: u32, sequence: u32) -> bool {
        self.file.database == database && self.sequence == sequence
    }
}

impl Names {
    /// The ticket's name in a registry.
    pub fn in_registry(&self) -> String {
        let bytes =
            |name: &[u8]| name.iter().copied().take_while(|byte| *byte != 0).collect::<Vec<u8>>();
        shared::name(&bytes(&self.database), &bytes(&self.schema), &bytes(&self.sequence))
    }
}

impl Unused {
    /// Sets the sequence back to the last number that was taken, so that what is left of its ranges leaves no gap: if its page is
    /// as this server has written it last, and not for a registry. If the log of that is lost, the page is higher, which is one.
    pub fn hand_back(&self, page: &WritablePage) {
        let says = page.says();
        let is_same = says.is_written(self.written) || Fault::HandsBackUnseen.is_planted();
        if is_same && !says.is_of_fleet {
            let too_much = i64::from(Fault::HandsBackTooMuch.is_planted()) * self.steps.step;
            page.write(self.steps.before(self.next - too_much), false);
        }
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
    fn is_wanting(&self) -> bool {
        self.want.is_some_and(|want| !want.is_asked)
    }
}

impl Place {
    /// What this server has written on the page last.
    fn written(&self) -> (Lsn, i64) {
        let Seldom { written_at, written, .. } = &self.seldom.0;
        (Lsn(written_at.load(Relaxed)), written.load(Relaxed))
    }

    fn note_written(&self, (lsn, last_value): (Lsn, i64)) {
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

    /// What sessions have not taken of the current range.
    fn left(&self) -> Option<Run> {
        self.often.0.current.left()
    }

    fn holds(&self, owned: &Owned) -> bool {
        owned.ahead.is_some() || self.left().is_some()
    }

    /// Drops what it holds, so that nobody has it: the first number that could be handed back. Neither that nor a larger one
    /// was taken.
    fn drop_ranges(&self, owned: &mut Owned) -> Option<i64> {
        let (current, ahead) = (self.often.0.current.close(), owned.ahead.take());
        let count = |run: Option<Run>| run.map_or(0, |run| run.count);
        let (left, unused) = (count(current), count(ahead.map(|ahead| ahead.run)));
        owned.counts.numbers += u64::from(owned.current_count.saturating_sub(left));
        owned.counts.dropped += u64::from(left) + u64::from(unused);
        owned.current_count = 0;
        (owned.want, owned.epoch, owned.refused) = (None, None, None);
        // What is unconfirmed stays: a session that has just taken a number is about to ask for it.
        self.seldom.0.generation.store(self.generation() + 1, Release);
        let counted = ahead.filter(|ahead| ahead.counted.is_some()).map(|ahead| ahead.run);
        current.or(counted).map(|run| run.first)
    }
}

impl OnPage {
    /// Whether a page that is locked is as it was written. Each record has a place in the log of its own; `nextval()` changes
    /// the last value without one.
    fn is_written(&self, (lsn, last_value): (Lsn, i64)) -> bool {
        self.counter.is_called && (self.lsn, self.counter.last_value) == (lsn, last_value)
    }
}

impl Tickets {
    /// Places whose lock still has to be initialized where it lies.
    pub fn uninitialized() -> Tickets {
        let owned = std::array::from_fn(|_| Owned::default());
        Tickets {
            lock: LwLock::uninitialized(Table { asked_last: 0, owned }),
            registry: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            places: std::array::from_fn(|_| Place::default()),
        }
    }

    /// Initializes the lock. To be called once, before any other process knows of it.
    pub fn initialize(&self, tranche: i32) {
        self.lock.initialize(tranche);
    }

    /// A place.
    #[inline(always)]
    pub fn place(&self, index: usize) -> &Place {
        &self.places[index % PLACES]
    }

    /// A place as it is now.
    pub fn held(&self, index: usize) -> Held {
        Held { index, generation: self.place(index).generation() }
    }

    /// Runs something with a place, if it is still of this generation.
    fn with<R>(&self, held: Held, act: impl FnOnce(&Place, &mut Owned) -> R) -> Option<R> {
        let mut table = self.lock.lock();
        let owned = table.owned.get_mut(held.index)?;
        let place = &self.places[held.index];
        (place.generation() == held.generation).then(|| act(place, owned))
    }

    /// The place of a sequence. If it has none it gets a free one; or that of another one of its database, or of the database
    /// that has the most, which was used least recently.
    ///
    /// # Errors
    /// Which sequence is to be freed of its place before, since it has numbers.
    pub fn find(&self, key: Key, names: &Names, steps: &Steps) -> Result<Held, Key> {
        let mut table = self.lock.lock();
        let is_its = |owned: &Owned| owned.key.is_of(key.file.database, key.sequence);
        let index = table.owned.iter().position(is_its);
        let index = index.unwrap_or_else(|| self.victim(&table, key.file.database));
        let (place, owned) = (&self.places[index], &mut table.owned[index]);
        if !is_its(owned) {
            if place.holds(owned) {
                return Err(owned.key);
            }
            *owned = Owned { since_ns: clock::mono_ns(), ..Owned::default() };
        }
        // A file of before is gone: whoever has declared the sequence anew has kept all others out meanwhile. Under another name
        // it is another ticket of the registry's.
        let is_new = owned.key != key;
        if is_new || (owned.names != *names && self.has_registry()) {
            place.drop_ranges(owned);
        }
        if is_new {
            place.note_written((Lsn(0), 0));
        }
        // Also of the same file: its database may have been moved to another tablespace.
        (owned.key, owned.names, owned.steps) = (key, *names, *steps);
        Ok(self.held(index))
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

    /// Which sequence each place is for.
    pub fn keys(&self) -> [Key; PLACES] {
        self.lock.lock().owned.each_ref().map(|owned| owned.key)
    }

    /// Whether this server holds numbers.
    pub fn holds_any(&self) -> bool {
        let table = self.lock.lock();
        self.places.iter().zip(&table.owned).any(|(place, owned)| place.holds(owned))
    }

    /// Drops what this server holds of these sequences.
    pub fn drop_of(&self, is_meant: impl Fn(&Key) -> bool) {
        let mut table = self.lock.lock();
        for (place, owned) in self.places.iter().zip(&mut table.owned) {
            if is_meant(&owned.key) {
                place.drop_ranges(owned);
            }
        }
    }

    /// Drops all ranges of all sequences.
    pub fn drop_all(&self) {
        self.drop_of(|_| true);
    }

    /// Takes their places from these sequences: what could be handed back.
    pub fn free(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<Unused> {
        let mut all = Vec::with_capacity(PLACES);
        let mut table = self.lock.lock();
        for (place, owned) in self.places.iter().zip(&mut table.owned) {
            let Owned { key, steps, .. } = *owned;
            if is_meant(&key) {
                let next = place.drop_ranges(owned);
                all.extend(next.map(|next| Unused { key, steps, next, written: place.written() }));
                *owned = Owned::default();
            }
        }
        all
    }

    /// Drops what is held of a sequence if its page, which is locked, is not as this server has written it last; returns whether
    /// the place is still of this generation.
    pub fn follow(&self, held: Held, page: &OnPage) -> bool {
        let place = self.place(held.index);
        if page.is_written(place.written()) || Fault::TicketsIgnoreSetval.is_planted() {
            return place.generation() == held.generation;
        }
        let is_kept = self.with(held, |place, owned| {
            let left = place.left();
            if Fault::TicketsKeptAtSameNext.is_planted()
                && left.is_some()
                && owned.steps.next(page.counter) == left.map(|coming| coming.first)
            {
                return true;
            }
            // A range of a registry that the sequence is yet to count over is compared when it does.
            let is_counted = owned.ahead.is_some_and(|ahead| ahead.counted.is_some());
            let holds = is_counted || left.is_some();
            if holds {
                place.drop_ranges(owned);
            }
            !holds
        });
        is_kept == Some(true)
    }

    /// What a session that found no number is to do now.
    pub fn task(&self, held: Held) -> Task {
        let task = self.with(held, |place, owned| match owned.ahead {
            _ if place.left().is_some() => Task::Take,
            Some(Ahead { counted: Some(lsn), .. }) => Task::Begin(lsn),
            None if owned.want.is_some() => Task::Await,
            _ => Task::Fetch,
        });
        task.unwrap_or(Task::Find)
    }

    /// What a session is to do that has locked the page, and takes so many numbers at most. It is told of a refusal if that came
    /// since it waits: `since_ns` on the monotonic clock. Numbers of a registry that do not lie above what the sequence has
    /// counted are dropped.
    pub fn next_range(&self, held: Held, page: &OnPage, since_ns: Option<u64>, most: u32) -> Next {
        if !self.follow(held, page) {
            return Next::Nothing;
        }
        let next = self.with(held, |place, owned| match (owned.ahead, owned.refused) {
            (Some(Ahead { run, counted: None }), _) => {
                if owned.steps.next(page.counter).is_some_and(|next| next <= run.first) {
                    return Next::Count { run, is_of_fleet: true };
                }
                // The registry is asked again, and told what is used.
                place.drop_ranges(owned);
                Next::Nothing
            }
            (Some(_), _) => Next::Nothing,
            (None, _) if !self.has_registry() => {
                match owned.steps.range(page.counter, owned.pace.size().min(most)) {
                    _ if page.is_of_fleet => Next::Refuse(NoRange::LeftFleet),
                    Some(run) => Next::Count { run, is_of_fleet: false },
                    None => Next::Refuse(NoRange::Ended),
                }
            }
            (None, Some((refused, at_ns))) if since_ns.is_some_and(|since| at_ns >= since) => {
                Next::Refuse(refused)
            }
            (None, _) => {
                let last = page.counter.last_value;
                let by_tickets = page.is_of_fleet || owned.given == Some(last);
                let used = page.counter.is_called.then_some(Used { last, by_tickets });
                owned.want.get_or_insert(Want { used, is_asked: false });
                Next::Ask
            }
        });
        next.unwrap_or(Next::Nothing)
    }

    /// This server has written this page, which is still locked, for a range.
    pub fn counted(&self, held: Held, run: Run, written: OnPage) {
        self.with(held, |place, owned| {
            place.note_written((written.lsn, written.counter.last_value));
            if written.is_of_fleet {
                owned.given = Some(written.counter.last_value);
            }
            owned.counts.ranges += u64::from(owned.ahead.is_none());
            owned.ahead = Some(Ahead { run, counted: Some(written.lsn) });
        });
    }

    /// Begins the next range, if it is still the one whose log is durable up to here; `unconfirmed` where a synchronous
    /// standby may not have it yet. Returns whether it has begun, and the caller is to fetch the one after it.
    pub fn begin(&self, held: Held, lsn: Lsn, unconfirmed: bool) -> bool {
        let begun = self.with(held, |place, owned| {
            let current = &place.often.0.current;
            let is_durable =
                |ahead: &mut Ahead| ahead.counted.is_some_and(|counted| counted <= lsn);
            if current.left().is_some() {
                return false;
            }
            let Some(ahead) = owned.ahead.take_if(is_durable) else { return false };
            current.close();
            place.note_use();
            owned.pace.begin(clock::mono_ns(), owned.current_count);
            owned.counts.numbers += u64::from(owned.current_count);
            owned.current_count = ahead.run.count;
            let unconfirmed = if unconfirmed { lsn.0 } else { 0 };
            place.seldom.0.unconfirmed.store(unconfirmed, Relaxed);
            current.open(held.generation, ahead.run, owned.steps.step);
            true
        });
        begun == Some(true)
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

    /// What the registry is to be asked for next: places take turns.
    pub fn next_wanted(&self) -> Option<(Held, Wanted)> {
        let mut table = self.lock.lock();
        let next = (1..=PLACES)
            .map(|step| (table.asked_last + step) % PLACES)
            .find(|index| table.owned[*index].is_wanting())?;
        table.asked_last = next;
        let (held, owned) = (self.held(next), &mut table.owned[next]);
        let (names, steps, count) = (owned.names, owned.steps, owned.pace.size());
        let want = owned.want.as_mut()?;
        want.is_asked = true;
        let used = want.used;
        drop(table);
        Some((held, Wanted { name: names.in_registry(), steps, count, used }))
    }

    /// Whether the registry is to be asked for something.
    pub fn wants(&self) -> bool {
        self.lock.lock().owned.iter().any(Owned::is_wanting)
    }

    /// The registry's answer; without one, what was wanted is still. If somebody has set the ticket since the last one, what is
    /// held is dropped.
    pub fn answered(&self, held: Held, answer: Option<Answer>) {
        self.with(held, |place, owned| match answer {
            Some(Ok(Range { run, epoch })) => {
                if owned.epoch.is_some_and(|before| before != epoch) {
                    place.drop_ranges(owned);
                }
                owned.counts.ranges += 1;
                (owned.want, owned.epoch, owned.refused) = (None, Some(epoch), None);
                owned.ahead = Some(Ahead { run, counted: None });
            }
            Some(Err(refused)) => {
                (owned.want, owned.refused) = (None, Some((refused, clock::mono_ns())));
            }
            None => owned.want.iter_mut().for_each(|want| want.is_asked = false),
        });
    }

    /// Counts something.
    pub fn count(&self, held: Held, count: impl FnOnce(&mut TicketCounts)) {
        self.with(held, |_, owned| count(&mut owned.counts));
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
            let runs = [place.left(), owned.ahead.map(|ahead| ahead.run)];
            let held = || runs.iter().flatten();
            let left = runs[0].map_or(0, |run| run.count);
            let taken = owned.current_count.saturating_sub(left);
            let (written_at, written) = place.written();
            let written = (written_at > Lsn(0)).then_some(written);
            found.push(Snapshot {
                key: owned.key,
                names: owned.names,
                steps,
                next: held().next().map(|run| run.first),
                last: held().map(|run| steps.last_of(*run)).chain(written).max(),
                left: held().map(|run| u64::from(run.count)).sum(),
                taken: owned.counts.numbers + u64::from(taken),
                size: owned.pace.size(),
                per_second: owned.pace.per_second(now_ns, taken),
                refused: owned.refused.map(|(refused, _)| refused),
                age_ns: now_ns.saturating_sub(owned.since_ns),
                counts: owned.counts,
            });
        }
        drop(table);
        found.retain(|ticket| !sequence::is_gone(ticket.key.file.database, ticket.key.sequence));
        found
    }
}
