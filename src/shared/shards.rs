//! What belongs to shards in shared memory: a place for each that this server has or had since it started, and the one
//! ceiling of all.
//!
//! **Locking.** Places are added under the lock of the state. To claim, and to look at places, takes no lock
//! ([`id_gen_core::shards`]).

use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};

use id_gen_core::fleet::Number;
use id_gen_core::kept_file::Damage;
use id_gen_core::shards::{Ceiling, MOST_SHARDS, Place, Places};
use id_gen_core::time::NS_PER_S;

use crate::os::clock;
use crate::pg::lwlock::CacheAligned;

/// How many places there are.
pub const PLACES: usize = MOST_SHARDS;
/// How much further ahead of the clock than IDs may be that may be which a shard is to go above: 10 s, for clocks that
/// differ, and for what was added to be on the safe side.
pub const ABOVE_MARGIN_MS: i64 = 10_000;
/// How far samples of what was made are apart: 30 s.
const SAMPLED_EVERY_NS: u64 = 30 * NS_PER_S;

/// What lies in shared memory. All-zero bytes are a space without shards.
#[repr(C)]
pub struct ShardSpace {
    ceiling: CacheAligned<Ceiling>,
    /// How many places are in use.
    count: AtomicUsize,
    /// When samples were taken, on the monotonic clock, the older one first.
    sampled_mono_ns: [AtomicU64; 2],
    /// Which places are in use, in the order in which they came to be.
    order: [AtomicU16; PLACES],
    places: [Place; PLACES],
}

/// On which basis this server has its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// As an administrator declared.
    Declared,
    /// For the acquisition with this nonce.
    Fleet(u128),
}

/// A question for all shards of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The basis on which the server can have shards.
    pub basis: Basis,
    /// [`ShardState::closings`] before the question.
    pub closings: u64,
    /// Unix millisecond before the question, by the trusted clock.
    pub at_ms: i64,
}

/// What is known of the file of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It was not read yet.
    Unread,
    /// What it said is in the places.
    Read,
    /// It was about another directory or timeline: this server starts without shards.
    Foreign,
    /// It cannot be used.
    Unusable(Damage),
    /// It cannot be read.
    Unreadable,
}

/// What the lock guards.
#[derive(Clone, Copy, Debug)]
pub struct ShardState {
    /// The basis on which places are open.
    pub basis: Option<Basis>,
    /// The file.
    pub file: FileState,
    /// Below this is all that shards have made before their ceiling was lowered last.
    pub made_end: u64,
    /// The number that this server was known to have as its own before it started.
    pub trusted_number: Option<Number>,
    /// No shard starts below this: up to there this server may have made IDs of any before it started.
    pub start: u64,
    /// Below this are the IDs of all shards that were forgotten with a file that could not be used: whatever number becomes
    /// this server's own may have been one of them.
    pub forgotten_end: u64,
    /// When the registry was asked last for all shards of this server. A place that its answer could have opened and that is
    /// closed is of a shard that this server does not have.
    pub looked: Option<Look>,
    /// How often all places were closed.
    pub closings: u64,
    /// Whether the last write of the file failed, so that it may say other than the places: it is to be written again.
    pub unwritten: bool,
}

impl ShardState {
    /// Nothing is known yet.
    pub const NEW: ShardState = ShardState {
        basis: None,
        file: FileState::Unread,
        made_end: 0,
        trusted_number: None,
        start: 0,
        forgotten_end: 0,
        looked: None,
        closings: 0,
        unwritten: false,
    };
}

impl ShardSpace {
    /// The ceiling of all shards.
    #[inline(always)]
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling.0
    }

    /// The places, by number.
    #[inline(always)]
    pub fn places(&self) -> Places<'_> {
        Places(&self.places)
    }

    /// The places that are in use.
    pub fn in_use(&self) -> impl Iterator<Item = &Place> + Clone {
        let count = self.count.load(Ordering::Acquire).min(PLACES);
        let order = self.order.iter().take(count);
        order.filter_map(|index| self.places.get(usize::from(index.load(Ordering::Relaxed))))
    }

    /// Whether any place is open.
    pub fn is_any_open(&self) -> bool {
        self.in_use().any(Place::is_open)
    }

    /// Whether this server has any shard.
    pub fn is_any_owned(&self) -> bool {
        self.in_use().any(|place| place.owned().is_some())
    }

    /// Whether this server has the shard of this number.
    pub fn owns(&self, number: Number) -> bool {
        self.places().find(number).is_some_and(|place| place.owned().is_some())
    }

    /// The place of a shard, made if it has none; `None` if there is no more room. For the holder of the lock.
    pub fn place(&self, number: Number) -> Option<&Place> {
        self.places().find_or_add(number, |index| {
            let count = self.count.load(Ordering::Relaxed);
            if let (Some(next), Ok(index)) = (self.order.get(count), u16::try_from(index)) {
                next.store(index, Ordering::Relaxed);
                self.count.store(count + 1, Ordering::Release);
            }
        })
    }

    /// The highest position that was never handed out by a shard.
    pub fn end(&self) -> u64 {
        self.in_use().map(Place::end).fold(0, u64::max)
    }

    /// Takes samples of what was made, if that is due. For the holder of the lock.
    pub fn sample(&self) {
        let now_ns = clock::mono_ns();
        let [older, newer] = &self.sampled_mono_ns;
        let newer_ns = newer.load(Ordering::Relaxed);
        if now_ns.saturating_sub(newer_ns) >= SAMPLED_EVERY_NS {
            older.store(newer_ns, Ordering::Relaxed);
            newer.store(now_ns, Ordering::Relaxed);
            self.in_use().for_each(Place::sample);
        }
    }

    /// How many IDs of a shard are made in a second, lately.
    pub fn rate(&self, place: &Place) -> Option<f64> {
        let since_ns = self.sampled_mono_ns[0].load(Ordering::Relaxed);
        let (_, lately) = place.issued();
        let passed_ns = clock::mono_ns().saturating_sub(since_ns);
        (since_ns > 0 && passed_ns > 0).then(|| lately as f64 * NS_PER_S as f64 / passed_ns as f64)
    }
}
