//! The shared segment: one for all databases and sessions of a server.
//!
//! **What lives where.** A [`Segment`] holds what every session shares; behind it lies an array of
//! [`Slot`]s, one for each process that can run SQL.
//!
//! **Locking.** [`State`] is read and written under the segment's LWLock alone, always exclusive,
//! never across a wait, a log line or anything that can fail. The generation is written under the
//! lock and read without it, and so is what is counted rarely. What is fixed when the segment is
//! made needs no lock. The reservation is written by the holder of the write token, a second LWLock:
//! PostgreSQL releases it as it does its own, also when FATAL in a signal handler ends its holder.
//! Nobody queues for it, because such a wait could not be interrupted: who finds it taken sleeps on a
//! condition variable. The token is taken before the lock, never the other way round.
//!
//! **Addresses.** Where the segment lies ([`crate::memory`]) may differ from process to process, so
//! it holds none of its own.
//!
//! **Crashes.** A crash of any process makes PostgreSQL build all shared memory anew, this segment
//! included.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use id_gen_core::clock::{Reading, Watch};
use id_gen_core::histogram::{self, BUCKETS};
use id_gen_core::layout::{Layout, NS_PER_MS};
use id_gen_core::line::Line;
use id_gen_core::pace::{Pace, Sample};
use pgrx::pg_sys;

use crate::log::TELL_AGAIN_NS;
use crate::refusal::{CAUSES, Refusal};
use crate::settings::{self, Settings};
use crate::slot::{Counts, Slot};
use crate::{clock, hidden, reservation, wait};

/// The segment's name among PostgreSQL's, and its lock's.
pub const NAME: &CStr = c"id_gen";

/// Changes with whatever changes in what follows. On a server where the library is not preloaded,
/// sessions of two versions may meet in one segment after an upgrade.
const VERSION: u64 = 4;

/// How often a process that waits for the write token looks by itself.
const LOOK_AGAIN_MS: i64 = 1_000;

/// A value on cache lines of its own (128 bytes: what PostgreSQL assumes, and two lines of a
/// processor that fetches them in pairs), so that writing it slows nobody who reads its neighbours.
#[repr(C, align(128))]
pub struct Padded<T>(pub T);

/// What all processes share.
#[repr(C)]
pub struct Segment {
    /// [`VERSION`] of the library that made it.
    version: u64,
    /// Read for every ID, written seldom.
    fixed: Padded<Fixed>,
    lock: Padded<UnsafeCell<pg_sys::LWLock>>,
    /// Guarded by `lock`.
    state: Padded<UnsafeCell<State>>,
    /// The write token.
    writer: Padded<UnsafeCell<pg_sys::LWLock>>,
    /// Where processes wait for it.
    written: Padded<UnsafeCell<pg_sys::ConditionVariable>>,
    /// The latch of the keeper, or null.
    keeper: AtomicPtr<pg_sys::Latch>,
    /// Its process.
    keeper_pid: AtomicI32,
    /// When it last began a round, on the monotonic clock.
    keeper_beat_mono_ns: AtomicU64,
    /// Refusals to generate, by [`Refusal::cause`].
    pub refusals: Padded<[AtomicU64; CAUSES]>,
    /// Which of them are in the log.
    pub told: Padded<[Told; CAUSES]>,
    /// Waits, by [`histogram::bucket`].
    pub waits: Padded<[AtomicU64; BUCKETS]>,
}

/// How much of what may happen often is in the log.
#[derive(Default)]
pub struct Told {
    /// When a line was last written, on the monotonic clock; zero for never.
    pub at_mono_ns: AtomicU64,
    /// What has happened since without one.
    pub untold: AtomicU64,
}

/// The keeper, seen from outside.
pub struct Keeper {
    /// Its process.
    pub pid: i32,
    /// How long ago it began its last round.
    pub beat_age_ns: u64,
}

// SAFETY: `state` is reached through `lock` alone, `lock`, `writer` and `written` are made for sharing,
// the rest is atomic or never changes once the segment is published.
unsafe impl Sync for Segment {}

struct Fixed {
    /// Changes whenever blocks already handed out must not be used any more.
    generation: AtomicU64,
    /// The layout of this server until it restarts; `None` if its text is no layout. Written under
    /// the lock, once, when the segment is founded.
    layout: UnsafeCell<Option<Layout>>,
    slot_count: usize,
}

/// What only the holder of the lock may touch. What a claim reads and writes comes first, so that it
/// fits [`CLAIM_ROOM`].
#[repr(C)]
pub struct State {
    /// The positions of this server; `None` until the first use has read the reservation.
    pub line: Option<Line>,
    /// The settings in force for all processes.
    pub settings: Settings,
    /// Largest lead of an ID over the clock so far.
    pub largest_lead_ticks: u64,
    /// Highest place within a tick that was claimed so far.
    pub highest_sequence: u64,
    /// Steps of the clock that no log line has told yet, added up.
    untold_step_ns: i64,
    /// When the last such line was written, on the monotonic clock.
    told_at_mono_ns: u64,
    /// Whether a process has put the server's settings in here: see [`Segment::meet`].
    founded: bool,
    /// Whether the last write failed.
    pub write_failing: bool,
    /// Reservations written, how many failed, and the slowest.
    pub writes: u64,
    /// See `writes`.
    pub failed_writes: u64,
    /// See `writes`.
    pub slowest_write_ns: u64,
    /// When `settings` were read from the configuration file, on the monotonic clock.
    pub settings_read_mono_ns: u64,
    /// Times the clock was set back, and by how much at most.
    pub steps_back: u64,
    /// See `steps_back`.
    pub largest_step_back_ns: u64,
    /// Times the clock was set forward.
    pub steps_forward: u64,
    /// Counts of processes whose slots have gone to others.
    retired: Counts,
    /// All counts as last looked at: what was once shown does not go down.
    seen: Counts,
    /// All counts when they were last reset.
    base: Counts,
    /// When that was, or when the segment was made, in Unix nanoseconds.
    pub reset_at_ns: u64,
    /// How fast IDs were made lately.
    pace: Pace,
}

/// The cache lines that a claim finds its state on: the two that a [`Padded`] value begins with. They
/// come from another processor whenever that one claimed last.
const CLAIM_ROOM: usize = align_of::<Padded<()>>();
const _: () = assert!(offset_of!(State, writes) <= CLAIM_ROOM);

/// Who has read the settings anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The keeper.
    Keeper,
    /// A process that generates.
    Session,
}

/// The right to write the reservation, which one process holds at a time. PostgreSQL lets no interrupt
/// through to who holds it, and takes it back if its process ends all the same. Nothing that may raise an
/// error of PostgreSQL's runs meanwhile.
pub struct Writing<'a>(&'a Segment);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // SAFETY: this value exists only while this process holds the lock. Both were initialized before
        // the segment was published.
        unsafe {
            LWLockRelease(self.0.writer.0.get());
            pg_sys::ConditionVariableBroadcast(self.0.written.0.get());
        }
    }
}

impl State {
    /// The largest forward step that is believed.
    pub fn max_jump_ns(&self) -> u64 {
        u64::from(self.settings.max_jump_ms) * NS_PER_MS
    }

    /// Looks at both clocks. Counts a step, and refuses a jump.
    ///
    /// # Errors
    /// [`Refusal::Jumped`].
    pub fn look_at_clocks(&mut self) -> Result<Reading, Refusal> {
        let reading = clock::both();
        let max_jump_ns = self.max_jump_ns();
        let Some(line) = &mut self.line else { return Ok(reading) };
        let verdict = line.watch.judge(reading, max_jump_ns);
        match verdict.stepped_ns.signum() {
            -1 => {
                self.steps_back += 1;
                let by_ns = verdict.stepped_ns.unsigned_abs();
                self.largest_step_back_ns = self.largest_step_back_ns.max(by_ns);
            }
            1 => self.steps_forward += 1,
            _ => {}
        }
        self.untold_step_ns = self.untold_step_ns.saturating_add(verdict.stepped_ns);
        match verdict.jumped_ns {
            Some(by_ns) => Err(Refusal::Jumped { by_ns, max_jump_ms: self.settings.max_jump_ms }),
            None => Ok(reading),
        }
    }

    /// A step that is to be told now: the first at once, then at most one every few seconds, so
    /// that a clock which is set again and again does not fill the log.
    pub fn take_untold_step(&mut self) -> Option<i64> {
        if self.untold_step_ns == 0 {
            return None;
        }
        let now_ns = clock::mono_ns();
        if self.told_at_mono_ns != 0 && now_ns - self.told_at_mono_ns < TELL_AGAIN_NS {
            return None;
        }
        self.told_at_mono_ns = now_ns;
        Some(std::mem::take(&mut self.untold_step_ns))
    }

    /// Counts a write of the reservation.
    pub fn count_write(&mut self, took_ns: u64, succeeded: bool) {
        self.writes += 1;
        self.failed_writes += u64::from(!succeeded);
        self.slowest_write_ns = self.slowest_write_ns.max(took_ns);
        self.write_failing = !succeeded;
    }

    /// Counts a claim that ends in this position, so far ahead of the clock.
    #[inline]
    pub fn count_claim(&mut self, lead_ticks: u64, sequence: u64) {
        if cfg!(feature = "uncounted") {
            return;
        }
        self.largest_lead_ticks = self.largest_lead_ticks.max(lead_ticks);
        self.highest_sequence = self.highest_sequence.max(sequence);
    }
}

unsafe extern "C-unwind" {
    /// PostgreSQL's lock without pgrx's guard, which costs more than the lock. It raises an error
    /// only in a process that holds 200 such locks already (`MAX_SIMUL_LWLOCKS`, `lwlock.c`), which
    /// none that calls a function does.
    fn LWLockAcquire(lock: *mut pg_sys::LWLock, mode: pg_sys::LWLockMode::Type) -> bool;
    /// As above: it raises an error only for a lock that is not held.
    fn LWLockRelease(lock: *mut pg_sys::LWLock);
}

/// The segment's lock, held. Nothing that may raise an error of PostgreSQL's runs meanwhile.
pub struct Locked<'a>(&'a Segment);

impl Deref for Locked<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        // SAFETY: the lock is held, exclusively, for as long as this value lives.
        unsafe { &*self.0.state.0.get() }
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above.
        unsafe { &mut *self.0.state.0.get() }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this value exists only while this process holds the lock.
        unsafe { LWLockRelease(self.0.lock.0.get()) };
    }
}

impl Segment {
    /// What every process does once before it uses the segment. The first that knows the server's
    /// settings founds it: they are in force from then on. A crash is no restart: the layout that was in
    /// force before it stays.
    ///
    /// # Errors
    /// If the segment was made by a library of another version, or is not founded and this process
    /// can't do it.
    pub fn meet(&self) -> Result<(), Refusal> {
        if self.version != VERSION {
            return Err(Refusal::OtherVersion);
        }
        // SAFETY: the lock was initialized before the segment was published; the name is a constant.
        unsafe {
            let tranche_id = i32::from((*self.lock.0.get()).tranche);
            pg_sys::LWLockRegisterTranche(tranche_id, NAME.as_ptr());
        }
        if !self.lock().founded {
            if let Some(name) = hidden::parameter() {
                return Err(Refusal::Hidden(name));
            }
            if settings::reload_pending() {
                return Err(Refusal::ReloadPending);
            }
            if settings::ignores_reloads() {
                return Err(Refusal::IgnoresReloads);
            }
            let layout = settings::layout_in_force()
                .or_else(|| reservation::layout_of_this_run().map(Some))
                .unwrap_or_else(|| settings::layout().ok());
            let mut state = self.lock();
            if !state.founded {
                state.settings = settings::current();
                state.settings_read_mono_ns = settings::read_at_mono_ns();
                // SAFETY: this process holds the lock, and none has come past this place before.
                unsafe { *self.fixed.0.layout.get() = layout };
                state.founded = true;
            }
        }
        settings::set_layout_in_force(self.fast_layout().copied());
        Ok(())
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        // SAFETY: the lock was initialized before the segment was published.
        unsafe { LWLockAcquire(self.lock.0.get(), pg_sys::LWLockMode::LW_EXCLUSIVE) };
        Locked(self)
    }

    /// The current generation.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.fixed.0.generation.load(Ordering::Acquire)
    }

    /// Puts this process's settings in force for all, if it is the one to do so: that is the keeper,
    /// which reads every reload as soon as any process, or where none runs, whoever read them last.
    /// The pending reload counts, because the time of reading is known through the wall clock alone,
    /// which may have been set back since.
    pub fn adopt_settings(&self, reader: Reader) {
        let mine = settings::current();
        let read_at = settings::read_at_mono_ns();
        let keeper_runs = !self.keeper.load(Ordering::Relaxed).is_null();
        let mut state = self.lock();
        let outdated = || {
            keeper_runs
                || settings::reload_pending()
                || hidden::parameter().is_some()
                || read_at <= state.settings_read_mono_ns
        };
        if reader == Reader::Session && outdated() {
            return;
        }
        state.settings_read_mono_ns = read_at;
        if state.settings != mine {
            if !state.settings.same_node(&mine)
                && let (Some(line), Some(layout)) = (&mut state.line, self.fast_layout())
            {
                line.leave_tick(layout);
            }
            state.settings = mine;
            self.fixed.0.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Ends the line, if there is one, and returns it as it was: nothing is claimed, and no block is used any more, until
    /// one begins anew.
    pub fn close_line(&self) -> Option<Line> {
        let mut state = self.lock();
        self.fixed.0.generation.fetch_add(1, Ordering::Release);
        state.line.take()
    }

    /// Believes the clock as it is now: an operator's answer to [`Refusal::Jumped`].
    pub fn accept_clock(&self) {
        if let Some(line) = &mut self.lock().line {
            line.watch = Watch::new(clock::both());
        }
    }

    /// Waits for the right to write the reservation, and takes it. Interrupts end the wait.
    pub fn begin_writing(&self) -> Writing<'_> {
        loop {
            if let Some(writing) = self.begin_writing_within(Duration::MAX) {
                return writing;
            }
        }
    }

    /// As [`Segment::begin_writing`], but gives up after so long.
    pub fn begin_writing_within(&self, patience: Duration) -> Option<Writing<'_>> {
        if let Some(writing) = self.try_begin_writing() {
            return Some(writing);
        }
        let since_ns = clock::mono_ns();
        let waited = || Duration::from_nanos(clock::mono_ns().saturating_sub(since_ns));
        let (written, event) = (self.written.0.get(), wait::Event::Reservation.info());
        // SAFETY: initialized before the segment was published; an error leaves the wait to
        // PostgreSQL to clean up.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(written) };
        let writing = loop {
            let writing = self.try_begin_writing();
            if writing.is_some() || waited() >= patience {
                break writing;
            }
            // SAFETY: as above.
            unsafe { pg_sys::ConditionVariableTimedSleep(written, LOOK_AGAIN_MS, event) };
        };
        // SAFETY: as above.
        unsafe { pg_sys::ConditionVariableCancelSleep() };
        writing
    }

    /// The right to write the reservation, if nobody else has it.
    pub fn try_begin_writing(&self) -> Option<Writing<'_>> {
        // To ask for the number of the event may raise an error, so not while the token is held.
        wait::Event::Reservation.info();
        let (writer, exclusive) = (self.writer.0.get(), pg_sys::LWLockMode::LW_EXCLUSIVE);
        // SAFETY: the lock was initialized before the segment was published.
        unsafe { pg_sys::LWLockConditionalAcquire(writer, exclusive) }.then(|| Writing(self))
    }

    /// Makes this process the keeper that [`Segment::call_keeper`] wakes, until it ends.
    pub fn become_keeper(&self) {
        self.keeper_beats();
        // SAFETY: set at process start.
        let (pid, latch) = unsafe { (pg_sys::MyProcPid, pg_sys::MyLatch) };
        self.keeper_pid.store(pid, Ordering::Relaxed);
        self.keeper.store(latch, Ordering::Relaxed);
    }

    /// Notes that the keeper begins a round.
    pub fn keeper_beats(&self) {
        self.keeper_beat_mono_ns.store(clock::mono_ns(), Ordering::Relaxed);
    }

    /// The keeper, if one runs.
    pub fn keeper(&self) -> Option<Keeper> {
        if self.keeper.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let beat_ns = self.keeper_beat_mono_ns.load(Ordering::Relaxed);
        Some(Keeper {
            pid: self.keeper_pid.load(Ordering::Relaxed),
            beat_age_ns: clock::mono_ns().saturating_sub(beat_ns),
        })
    }

    /// Leaves that place to the next keeper.
    pub fn leave_keeper(&self) {
        self.keeper.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Wakes the keeper, if there is one, to extend the reservation.
    pub fn call_keeper(&self) {
        let latch = self.keeper.load(Ordering::Relaxed);
        if !latch.is_null() {
            // SAFETY: a latch in PostgreSQL's shared memory, there as long as the server runs. If
            // its process has ended, the wake-up reaches nobody, or a process that looks again.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }

    /// The layout of this server.
    ///
    /// # Errors
    /// If the server was started with a text that is no layout.
    #[inline]
    pub fn layout(&self) -> Result<&Layout, Refusal> {
        self.fast_layout().ok_or_else(bad_layout)
    }

    /// The layout of this server, without a reason if it has none.
    #[inline(always)]
    pub fn fast_layout(&self) -> Option<&Layout> {
        // SAFETY: written once, before any process came past `meet`, and whoever did has taken the
        // lock since.
        unsafe { &*self.fixed.0.layout.get() }.as_ref()
    }

    /// Counts a refusal to generate.
    pub fn count_refusal(&self, refusal: &Refusal) {
        if let Some(cause) = refusal.cause() {
            self.refusals.0[cause].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a wait.
    pub fn count_wait(&self, ns: u64) {
        self.waits.0[histogram::bucket(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a sample of the counts, if one is due.
    pub fn sample(&self) {
        let mono_ns = clock::mono_ns();
        let mut state = self.lock();
        if state.pace.is_due(mono_ns) {
            let sample = self.sample_at(&mut state, mono_ns);
            state.pace.add(sample);
        }
    }

    /// The samples so far, and one of now to compare them with.
    pub fn pace(&self) -> (Pace, Sample) {
        let mono_ns = clock::mono_ns();
        let mut state = self.lock();
        let now = self.sample_at(&mut state, mono_ns);
        (state.pace, now)
    }

    fn sample_at(&self, state: &mut State, mono_ns: u64) -> Sample {
        let Counts { issued, granted, .. } = self.all_counts(state);
        Sample { mono_ns, issued, granted }
    }

    /// What was counted since the last reset.
    pub fn counts(&self) -> Counts {
        let mut state = self.lock();
        self.all_counts(&mut state).minus(state.base)
    }

    /// Counts of all processes since the segment was made. Slots are read while their owners write
    /// them; under the lock, none goes to another process meanwhile.
    fn all_counts(&self, state: &mut State) -> Counts {
        let sum = self.slots().fold(state.retired, |sum, slot| sum.plus(slot.counts()));
        state.seen = state.seen.at_least(sum);
        state.seen
    }

    /// Begins to count anew.
    pub fn reset_counts(&self) {
        let mut state = self.lock();
        state.base = self.all_counts(&mut state);
        state.writes = 0;
        state.failed_writes = 0;
        state.slowest_write_ns = 0;
        state.largest_lead_ticks = 0;
        state.highest_sequence = 0;
        state.steps_back = 0;
        state.largest_step_back_ns = 0;
        state.steps_forward = 0;
        state.reset_at_ns = clock::wall_ns();
        for counter in self.refusals.0.iter().chain(&self.waits.0) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The slots of all processes that can run SQL.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        (0..self.fixed.0.slot_count).filter_map(|index| self.slot(index))
    }

    /// The slot of the process with this number.
    fn slot(&self, index: usize) -> Option<&Slot> {
        if index >= self.fixed.0.slot_count {
            return None;
        }
        // SAFETY: `slot_count` slots follow the segment, as `size` asked for and `create` made.
        Some(unsafe { &*std::ptr::from_ref(self).add(1).cast::<Slot>().add(index) })
    }

    /// Takes the slot of this process, new.
    ///
    /// # Errors
    /// [`Refusal::NoSlot`] in a process that is not made to run SQL.
    pub fn take_slot(&self) -> Result<&Slot, Refusal> {
        let slot = usize::try_from(process_number())
            .ok()
            .and_then(|index| self.slot(index))
            .ok_or(Refusal::NoSlot)?;
        let mut state = self.lock();
        state.retired = state.retired.plus(slot.counts());
        // SAFETY: set once at process start.
        slot.reset(unsafe { pg_sys::MyProcPid });
        Ok(slot)
    }
}

#[cold]
fn bad_layout() -> Refusal {
    let text = settings::layout_text();
    match text.parse::<Layout>() {
        Err(error) => Refusal::BadServerLayout { text, error },
        Ok(_) => Refusal::LayoutWaits,
    }
}

/// This process's number among those that can run SQL: unique while it lives, below `MaxBackends`.
fn process_number() -> i32 {
    // SAFETY: set at process start, before any SQL runs.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        {
            pg_sys::MyProc.as_ref().map_or(-1, |process| process.pgprocno)
        }
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        {
            pg_sys::MyProcNumber
        }
    }
}

/// Bytes that a segment for this many processes takes: the room there is for it, so that another
/// version of this library finds a segment of the size it expects and [`Segment::meet`]
/// can say what is the matter.
pub const fn size(slot_count: usize) -> usize {
    const HEADER_ROOM: usize = 8192;
    const SLOT_ROOM: usize = 256;
    const { assert!(size_of::<Segment>() <= HEADER_ROOM && size_of::<Slot>() <= SLOT_ROOM) };
    HEADER_ROOM + slot_count * SLOT_ROOM
}

/// Makes a new segment. Raises no error: PostgreSQL's registry calls it while it holds a lock.
///
/// # Safety
/// `memory` must be `size(slot_count)` bytes, aligned for a [`Segment`], and nobody else's yet.
pub unsafe fn create(memory: *mut c_void, slot_count: usize) {
    // SAFETY: takes no argument; hands out a number that is free.
    let tranche_id = unsafe { pg_sys::LWLockNewTrancheId() };
    let segment = Segment {
        version: VERSION,
        fixed: Padded(Fixed {
            generation: AtomicU64::new(1),
            layout: UnsafeCell::new(None),
            slot_count,
        }),
        // SAFETY: a plain C structure, initialized in place below.
        lock: Padded(UnsafeCell::new(unsafe { std::mem::zeroed() })),
        state: Padded(UnsafeCell::new(State {
            line: None,
            settings: Settings::NONE,
            largest_lead_ticks: 0,
            highest_sequence: 0,
            untold_step_ns: 0,
            told_at_mono_ns: 0,
            founded: false,
            write_failing: false,
            writes: 0,
            failed_writes: 0,
            slowest_write_ns: 0,
            settings_read_mono_ns: 0,
            steps_back: 0,
            largest_step_back_ns: 0,
            steps_forward: 0,
            retired: Counts::default(),
            seen: Counts::default(),
            base: Counts::default(),
            reset_at_ns: clock::wall_ns(),
            pace: Pace::default(),
        })),
        // SAFETY: as above.
        writer: Padded(UnsafeCell::new(unsafe { std::mem::zeroed() })),
        // SAFETY: as above.
        written: Padded(UnsafeCell::new(unsafe { std::mem::zeroed() })),
        keeper: AtomicPtr::new(std::ptr::null_mut()),
        keeper_pid: AtomicI32::new(0),
        keeper_beat_mono_ns: AtomicU64::new(0),
        refusals: Padded(Default::default()),
        told: Padded(Default::default()),
        waits: Padded(Default::default()),
    };
    // SAFETY: the caller vouches for the memory. All-zero bytes are a valid, empty slot.
    unsafe {
        let place: *mut Segment = memory.cast();
        place.write(segment);
        place.add(1).cast::<Slot>().write_bytes(0, slot_count);
        pg_sys::LWLockInitialize((*place).lock.0.get(), tranche_id);
        pg_sys::LWLockInitialize((*place).writer.0.get(), tranche_id);
        pg_sys::ConditionVariableInit((*place).written.0.get());
    }
}
