//! Positions of shards: numbers within an ID that a caller names, each with positions of its own.
//!
//! A [`Place`] has the next position of one shard, which sessions move on by compare-and-swap, without a lock. Like the
//! frontier of the server's own number ([`crate::frontier`]) it only moves up, and stays below the clock's lead and below
//! what is reserved: a [`Ceiling`], which all shards of a server share with its own number.
//!
//! Two steps take something from sessions that may just be between their reading and their writing:
//!
//! - A place is *closed* when its shard goes to another server. That swaps the position for a mark, and so tells the last
//!   one exactly: a session that comes later finds the mark, or its compare-and-swap fails.
//! - A ceiling is *lowered* when what is unused of the reservation is given back. Each open place is then moved on by one
//!   position, so that whoever had read the old ceiling fails, and finds the new one when it tries again.
//!
//! Each closing begins another *epoch* of the place, also where it is closed already. Whoever asks a fleet's registry for a
//! shard, or writes that it has it, reads the epoch before and compares it under the lock afterwards: what was taken away
//! meanwhile is neither opened nor owned.
//!
//! Both steps rest on a place never going back to a position that it had: a place that is opened again starts above the last
//! one, and belongs to one shard for as long as the memory lives.
//!
//! **Locking.** Places are added, opened and closed, and ceilings moved, by whoever holds the lock of the state. Claims,
//! and looking at places, need no lock.

#[cfg(feature = "model-checking")]
use loom::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(feature = "model-checking"))]
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::fleet::Number;
use crate::frontier::{Frontier, SequenceStart};
use crate::layout::Layout;
use crate::lead::LeadLimit;

/// The position of a place that is closed. No layout has it.
const CLOSED: u64 = u64::MAX;

/// Bits that a worker number takes in a [`Place`]'s key.
const WORKER_BITS: u32 = crate::layout::MAX_NUMBER_BITS;

/// How many shards a server has room for: as many as the layout `instagram` has.
pub const MOST_SHARDS: usize = 8192;

/// First position that no shard may hand out.
#[derive(Debug)]
pub struct Ceiling(AtomicU64);

impl Ceiling {
    /// A ceiling at a position.
    pub fn new(end: u64) -> Ceiling {
        Ceiling(AtomicU64::new(end))
    }

    /// The position.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Lets shards use what was made durable.
    pub fn raise(&self, end: u64) {
        self.0.store(self.end().max(end), Relaxed);
    }

    /// Takes from shards what lies above their last positions, or above a position that is higher: what is below the
    /// result may be in use, and nothing at or above it. Returns that.
    pub fn lower<'a>(&self, above: u64, places: impl Iterator<Item = &'a Place> + Clone) -> u64 {
        // Before each place is moved on: who finds a place moved on finds this, too.
        self.0.store(0, Relaxed);
        let end = places.map(Place::move_on).fold(above, u64::max);
        self.0.store(end, Relaxed);
        end
    }
}

/// What a claim goes by, besides its place.
#[derive(Clone, Copy, Debug)]
pub struct ClaimTerms {
    /// What the clock shows.
    pub now_tick: u64,
    /// How far IDs may lead it.
    pub lead: LeadLimit,
    /// Where a fresh tick starts.
    pub sequence_start: SequenceStart,
}

/// Why a claim got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The shard is another server's by now.
    Closed,
    /// The position is too far ahead of the clock.
    Ahead(u64),
    /// The position has to be reserved first.
    Unreserved(u64),
    /// The layout's last tick is used up.
    Exhausted,
}

/// What belongs to one shard, on a cache line of its own. All-zero bytes are a place that is free.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Place {
    /// The lowest position never handed out, or [`CLOSED`].
    position: AtomicU64,
    /// Which shard; zero for none. Written once.
    key: AtomicU64,
    /// The position when the place was last closed.
    closed_at: AtomicU64,
    /// IDs handed out.
    issued: AtomicU64,
    /// The lower half of their number at earlier moments, the older one first.
    sampled: [AtomicU32; 2],
    /// How often the place was closed.
    epoch: AtomicU32,
    /// The tag of the registry's value ([`Owned::tag`]).
    tag: AtomicU32,
    /// Since when this server has the shard, in Unix milliseconds, and in the lowest bit whether its fleet says so; zero if
    /// it does not have it.
    since: AtomicU64,
    /// The Unix millisecond that no ID of the shard made here is before, since the server took it.
    first_ms: AtomicU64,
}

impl Default for Place {
    fn default() -> Place {
        let zero = || AtomicU64::new(0);
        Place {
            position: zero(),
            key: zero(),
            closed_at: zero(),
            issued: zero(),
            sampled: [AtomicU32::new(0), AtomicU32::new(0)],
            epoch: AtomicU32::new(0),
            tag: AtomicU32::new(0),
            since: zero(),
            first_ms: zero(),
        }
    }
}

const fn key_of(number: Number) -> u64 {
    ((number.datacenter as u64) << WORKER_BITS | number.worker as u64) + 1
}

impl Place {
    /// Hands out the next position while the clock shows the tick of the terms. `publish` gets each position that is about
    /// to be tried: what the transaction may commit has to be known before anybody can get a higher one.
    ///
    /// # Errors
    /// [`Denied`] says what has to happen first.
    #[inline(always)]
    pub fn claim(
        &self,
        layout: &Layout,
        terms: &ClaimTerms,
        ceiling: &Ceiling,
        mut publish: impl FnMut(u64),
    ) -> Result<u64, Denied> {
        // `Acquire`, here and below: the ceiling is as new as the position, or newer.
        let mut position = self.position.load(Acquire);
        loop {
            if position == CLOSED {
                return Err(Denied::Closed);
            }
            let start =
                Frontier::new(position).next_start(layout, terms.now_tick, terms.sequence_start);
            if start >= layout.first_position(layout.ticks()) {
                return Err(Denied::Exhausted);
            }
            if start >= terms.lead.end(layout, terms.now_tick) {
                return Err(Denied::Ahead(start));
            }
            if start >= ceiling.end() {
                return Err(Denied::Unreserved(start));
            }
            publish(start);
            match self.position.compare_exchange(position, start + 1, AcqRel, Acquire) {
                Ok(_) => {
                    self.issued.fetch_add(1, Relaxed);
                    return Ok(start);
                }
                Err(found) => position = found,
            }
        }
    }

    /// Which shard this is.
    pub fn number(&self) -> Option<Number> {
        let key = self.key.load(Acquire).checked_sub(1)?;
        let worker = key & ((1 << WORKER_BITS) - 1);
        Some(Number { datacenter: (key >> WORKER_BITS) as u32, worker: worker as u32 })
    }

    /// Whether sessions may claim.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.position.load(Acquire) != CLOSED
    }

    /// The lowest position never handed out here.
    pub fn end(&self) -> u64 {
        match self.position.load(Acquire) {
            CLOSED => self.closed_at.load(Relaxed),
            position => position,
        }
    }

    /// Moves a place on by one position, if it is open; returns [`Place::end`] before that.
    fn move_on(&self) -> u64 {
        if self.is_open() { self.position.fetch_add(1, AcqRel) } else { self.end() }
    }

    /// Lets sessions claim from a position on, or above the last one if that is higher. For a place that is closed.
    pub fn open(&self, first: u64) {
        if !self.is_open() {
            let last = self.closed_at.load(Relaxed);
            self.position.store(first.max(last + 1), Release);
        }
    }

    /// Which epoch of the place this is: another one whenever it was closed.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    /// Takes the shard from sessions, and from all that was asked for before; returns the lowest position never handed out.
    pub fn close(&self) -> u64 {
        self.epoch.store(self.epoch().wrapping_add(1), Relaxed);
        match self.position.swap(CLOSED, AcqRel) {
            CLOSED => self.end(),
            last => {
                self.closed_at.store(last, Relaxed);
                last
            }
        }
    }

    /// Notes, of a place that is closed, that positions below this may be in use, whoever used them.
    pub fn raise_closed(&self, end: u64) {
        self.closed_at.store(self.closed_at.load(Relaxed).max(end), Relaxed);
    }

    /// Forgets, of a place that is closed, what lies above a position: an administrator's decision.
    pub fn forget_above(&self, end: u64) {
        self.closed_at.store(self.closed_at.load(Relaxed).min(end), Relaxed);
    }

    /// Sees to it that from now on nothing is handed out below a position.
    pub fn raise(&self, position: u64) {
        // The mark of a closed place is above all.
        self.position.fetch_max(position, AcqRel);
    }

    /// Since when this server has the shard, and from which Unix millisecond on; `None` if it does not have it.
    pub fn owned(&self) -> Option<Owned> {
        let since = self.since.load(Relaxed);
        let first_ms = self.first_ms.load(Relaxed).cast_signed();
        let (since_ms, in_fleet) = ((since >> 1).cast_signed(), since & 1 == 1);
        let tag = self.tag.load(Relaxed);
        (since != 0).then_some(Owned { since_ms, first_ms, in_fleet, tag })
    }

    /// Notes that this server has the shard, or no longer.
    pub fn set_owned(&self, owned: Option<Owned>) {
        let words = owned.map(|Owned { since_ms, first_ms, in_fleet, tag }| {
            let since = since_ms.max(1).cast_unsigned() << 1 | u64::from(in_fleet);
            (since, first_ms.cast_unsigned(), tag)
        });
        let (since, first_ms, tag) = words.unwrap_or_default();
        self.first_ms.store(first_ms, Relaxed);
        self.tag.store(tag, Relaxed);
        self.since.store(since, Relaxed);
    }

    /// IDs handed out: all, and since the older sample.
    pub fn issued(&self) -> (u64, u64) {
        let issued = self.issued.load(Relaxed);
        (issued, (issued as u32).wrapping_sub(self.sampled[0].load(Relaxed)).into())
    }

    /// Takes a sample of what was handed out.
    pub fn sample(&self) {
        self.sampled[0].store(self.sampled[1].load(Relaxed), Relaxed);
        self.sampled[1].store(self.issued.load(Relaxed) as u32, Relaxed);
    }
}

/// Since when a server has a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// When it took it, in Unix milliseconds.
    pub since_ms: i64,
    /// No ID that it makes of the shard is before this Unix millisecond.
    pub first_ms: i64,
    /// Whether its fleet's registry says so, or an administrator declared it.
    pub in_fleet: bool,
    /// The tag of the registry's value that was acknowledged to this server last; zero if there is none.
    pub tag: u32,
}

/// Places of shards, found by their number. A power of two of them, so that the shards of a layout that has no more lie
/// in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a>(pub &'a [Place]);

impl<'a> Places<'a> {
    /// The places in the order of the search for a number.
    #[inline(always)]
    fn search(self, number: Number) -> impl Iterator<Item = &'a Place> {
        const SPREAD: u32 = 0x9E37_79B9;
        let first = number.worker.wrapping_add(number.datacenter.wrapping_mul(SPREAD)) as usize;
        let (places, mask) = (self.0, self.0.len().wrapping_sub(1));
        (0..places.len()).filter_map(move |step| places.get(first.wrapping_add(step) & mask))
    }

    /// The place of a shard, if it has one.
    #[inline(always)]
    pub fn find(self, number: Number) -> Option<&'a Place> {
        let key = key_of(number);
        for place in self.search(number) {
            match place.key.load(Acquire) {
                0 => return None,
                found if found == key => return Some(place),
                _ => {}
            }
        }
        None
    }

    /// The place of a shard; one that has none gets a free one, closed. `None` if none is free. Calls `added` with the
    /// index of one that was free. For the holder of the lock.
    pub fn find_or_add(self, number: Number, added: impl FnOnce(usize)) -> Option<&'a Place> {
        let key = key_of(number);
        let place =
            self.search(number).find(|place| [0, key].contains(&place.key.load(Relaxed)))?;
        if place.key.load(Relaxed) == 0 {
            place.position.store(CLOSED, Relaxed);
            // Whoever finds the key finds the place closed, or opened later.
            place.key.store(key, Release);
            added(self.0.iter().position(|each| std::ptr::eq(each, place))?);
        }
        Some(place)
    }
}
