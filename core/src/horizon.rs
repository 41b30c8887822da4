//! The commit horizon: an ID below which everything that a database will ever commit is committed already.
//!
//! Transactions commit in another order than their IDs were made, so a reader that goes by `id > last` passes
//! rows that are not there yet. What makes an ID decided is known here: the *frontier* is above every ID that
//! was made, and each transaction that made some is *pending* from its lowest ID on, until it has ended. The
//! smallest of these is the horizon.
//!
//! A transaction publishes its lowest ID before anybody can make a higher one, and is taken back only once all
//! new snapshots see how it ended. A prepared transaction, which no session holds, is in a table until it is
//! no longer in progress. So a snapshot that is taken *after* the horizon was read sees all rows below it. A
//! statement has taken its snapshot before: [`Reader`] finds out which horizon that one is good for.
//!
//! Of what readers passed before the server started nothing is known but that it was below the first frontier: so
//! that is the first [`Floor`] for IDs that come late.
//!
//! **Locking.** The caller holds the lock that protects the frontier while it publishes, admits, begins or ends a
//! [`Look`] at the horizon or changes the table, with two exceptions: before a session takes of the shared block, it may
//! publish the block's first ID without the lock ([`crate::shared_block`] says why that is in time); and between the
//! beginning and the end of a look, a reader looks without the lock at what thousands of sessions have pending. An ID that
//! is made meanwhile is not below the frontier that the look began with, one that is admitted meanwhile makes it begin
//! again, and a transaction that is prepared meanwhile is in the table when the look ends.

use std::collections::VecDeque;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::layout::Layout;
use crate::planted::Fault;

/// The lowest ID of a session's transaction, if it has any. All-zero bytes are one that has none.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Pending(AtomicI64);

/// What is stored in place of an ID is the ID with these bits turned, so that zero stands for none.
const NONE: i64 = i64::MAX;

impl Pending {
    /// The lowest ID, if there is one.
    #[inline]
    pub fn first_id(&self) -> Option<i64> {
        // `Acquire`: a snapshot that is taken when this tells of no transaction sees how the last one ended.
        let turned = self.0.load(Acquire);
        (turned != 0).then_some(turned ^ NONE)
    }

    /// Notes an ID, unless a lower one is noted, and tells whether none was. The first ID need not be the lowest: one
    /// from elsewhere may be above those that the transaction makes after it. The session's own.
    #[inline]
    pub fn publish(&self, id: i64) -> bool {
        let first_id = self.first_id();
        if first_id.is_none_or(|first_id| id < first_id && !Fault::PendingKeepsFirst.is_planted()) {
            self.0.store(id ^ NONE, Release);
        }
        first_id.is_none()
    }

    /// The transaction has ended, and every new snapshot shows it. The session's own.
    #[inline]
    pub fn clear(&self) {
        self.0.store(0, Release);
    }
}

/// A prepared transaction that may still commit IDs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// Its transaction ID, which does not wrap around.
    pub transaction: u64,
    /// Its lowest ID; `i64::MIN` if nothing is known of its IDs, and [`Prepared::NO_ID`] if it has none.
    pub first_id: i64,
    /// The database that it is in.
    pub database: u32,
}

impl Prepared {
    /// Above every horizon.
    pub const NO_ID: i64 = i64::MAX;
}

/// Prepared transactions, in memory that others own.
#[derive(Debug)]
pub struct PreparedTable<'a> {
    /// How many there are.
    pub count: &'a mut usize,
    /// Room for them.
    pub room: &'a mut [Prepared],
}

/// No room is left in a [`PreparedTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl PreparedTable<'_> {
    /// Those in the table.
    pub fn entries(&self) -> &[Prepared] {
        self.room.get(..*self.count).unwrap_or_default()
    }

    /// Adds one. If its transaction is there already, the lower ID holds.
    ///
    /// # Errors
    /// If the table is full.
    pub fn add(&mut self, entry: Prepared) -> Result<(), Full> {
        if let Some(known) = self.known(entry.transaction) {
            known.first_id = known.first_id.min(entry.first_id);
            return Ok(());
        }
        *self.room.get_mut(*self.count).ok_or(Full)? = entry;
        *self.count += 1;
        Ok(())
    }

    fn known(&mut self, transaction: u64) -> Option<&mut Prepared> {
        let known = self.room.get_mut(..*self.count).unwrap_or_default();
        known.iter_mut().find(|entry| entry.transaction == transaction)
    }

    /// Removes one whose transaction is no longer in progress, or has no ID.
    pub fn forget(&mut self, transaction: u64) {
        let place = self.entries().iter().position(|known| known.transaction == transaction);
        if let Some(place) = place {
            *self.count -= 1;
            self.room.swap(place, *self.count);
        }
    }

    /// The same for each of these.
    pub fn forget_all(&mut self, transactions: &[u64]) {
        for &transaction in transactions {
            self.forget(transaction);
        }
    }
}

/// The frontier as an ID: every ID that this server has made is below it, and every ID that it will make is not.
///
/// With a tick's first position another node may take over, so there the ID is the tick's lowest. Behind it, the node
/// stays until the tick is over ([`crate::allocator::Allocator::change_node`]).
#[inline]
pub fn frontier_id(layout: &Layout, position: u64, node_bits: Option<u64>) -> i64 {
    let tick = layout.tick_of(position);
    if tick >= layout.ticks() {
        return i64::MAX;
    }
    let id = if position == layout.first_position(tick) {
        layout.min_of(tick)
    } else {
        layout.id_at(position, node_bits.unwrap_or(0))
    };
    Layout::to_bigint(id)
}

/// No horizon that was read since IDs were last made from a lower one on is above this: an ID below it comes too late.
/// Nothing is known of it before the server has started to make IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Floor {
    id: Option<i64>,
    /// How many times an ID was admitted, or the server was made to start again.
    changes: u64,
}

/// What a look at the horizon begins with: what is pending is looked at afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    frontier_id: i64,
    changes: u64,
}

/// Since a [`Look`] began, an ID was admitted, or the server was made to start again: it has to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated;

/// Why an ID is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server has not started to make IDs; when it has, the answer may be another.
    NotStarted,
    /// Readers may have passed it: they may have read up to here.
    Below(i64),
}

impl Floor {
    /// Whether the server has started to make IDs.
    pub const fn is_known(self) -> bool {
        self.id.is_some()
    }

    /// The server starts to make IDs, with this frontier. Readers may have passed all that it made before.
    pub fn start(&mut self, frontier_id: i64) {
        self.id = self.id.max(Some(frontier_id));
    }

    /// An administrator has made the server start again with this frontier, whatever was read before. It may be below
    /// the last one, where no ID was made after a time that was mistyped; then that holds for no ID to come.
    pub fn start_again(&mut self, frontier_id: i64) {
        self.id = Some(frontier_id);
        self.changes += 1;
    }

    /// Begins a look at the horizon, with the frontier's ID now.
    pub const fn look(self, frontier_id: i64) -> Look {
        Look { frontier_id, changes: self.changes }
    }

    /// Ends a look: the horizon of one database is the smallest of the frontier's ID, of what its sessions have been found
    /// to have pending since the look began and of what it has prepared. `None` as long as of some that is prepared nothing
    /// is known.
    ///
    /// # Errors
    /// If what is pending has to be looked at again.
    #[inline]
    pub fn horizon(
        &mut self,
        look: Look,
        least_pending: Option<i64>,
        prepared: &[Prepared],
        database: u32,
    ) -> Result<Option<i64>, Outdated> {
        if look.changes != self.changes {
            return Err(Outdated);
        }
        let of_database = prepared
            .iter()
            .filter(|entry| entry.database == database && !Fault::PreparedNotPending.is_planted());
        let horizon = of_database
            .map(|entry| entry.first_id)
            .chain(least_pending)
            .fold(look.frontier_id, |least, first_id| least.min(first_id));
        self.id = self.id.max(Some(horizon));
        Ok((horizon > i64::MIN).then_some(horizon))
    }

    /// Lets a transaction commit an ID that it has not made itself: one from elsewhere, or of an earlier transaction.
    ///
    /// # Errors
    /// If readers may have passed it, or nothing is known of them yet.
    #[inline]
    pub fn admit(&mut self, own: &Pending, id: i64) -> Result<(), Refused> {
        if own.first_id().is_some_and(|first_id| first_id <= id) {
            return Ok(());
        }
        match self.id {
            None => Err(Refused::NotStarted),
            Some(floor) if id < floor => Err(Refused::Below(floor)),
            Some(_) => {
                own.publish(id);
                self.changes += 1;
                Ok(())
            }
        }
    }
}

/// Which transactions a statement sees: those before `end` that were not running. Transaction IDs are compared as
/// PostgreSQL compares them, modulo 2^32.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The first transaction that had not begun (`xmax`).
    end: u32,
    /// Those that were running, in order (`xip`).
    running: Vec<u32>,
}

const fn precedes(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

impl Snapshot {
    /// Takes over what PostgreSQL knows of a snapshot.
    pub fn new(end: u32, running: &[u32]) -> Snapshot {
        let mut running = running.to_vec();
        // By their distance from the end, which all of them precede.
        running.sort_unstable_by_key(|&transaction| transaction.wrapping_sub(end));
        // One that is just being prepared may be there twice.
        running.dedup();
        Snapshot { end, running }
    }

    /// The first transaction that this does not see.
    pub fn first_unseen(&self) -> u32 {
        self.running.first().copied().unwrap_or(self.end)
    }

    /// Whether this sees everything that the other sees.
    pub fn sees_all_of(&self, other: &Snapshot) -> bool {
        if precedes(self.end, other.end) {
            return false;
        }
        let mut others = other.running.iter();
        self.running
            .iter()
            .filter(|&&transaction| precedes(transaction, other.end))
            .all(|transaction| others.any(|running| running == transaction))
    }
}

/// What one session remembers of the horizons that it has read, and which of them a statement may read below.
///
/// A statement may ask in several places and at several times, while others of its transaction run in between, as with
/// a cursor; it must get the same answer every time. What tells it from others is what it sees, its snapshot. Of two
/// snapshots the later one sees all that the earlier one does, so it is enough to know the latest one that an answer was
/// given for: no horizon is added that it, or an earlier one, could be told of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    /// Horizons, each with a snapshot that was taken after it. Both grow from one to the next.
    known: VecDeque<(i64, Snapshot)>,
    /// The latest snapshot that this transaction was given an answer for.
    answered: Option<Snapshot>,
}

/// How many horizons a session remembers within a transaction. Further ones are not added until some are of no use any
/// more, since to forget one in use would change an answer.
const ROOM: usize = 1_000;

/// How many it takes over from one transaction to the next. The last one is good for every new snapshot; the others are
/// for a snapshot that another session has exported.
const CARRIED: usize = 4;

impl Reader {
    /// The largest horizon that a snapshot is good for.
    fn known_for(&self, own: &Snapshot) -> Option<i64> {
        let mut known = self.known.iter().rev();
        known
            .find(|(_, after)| own.sees_all_of(after) || Fault::HorizonIgnoresSnapshot.is_planted())
            .map(|(horizon, _)| *horizon)
    }

    /// The answer for a statement with this snapshot, if it is settled: the largest horizon that its snapshot is good
    /// for, or `None` if it is good for none. If it is not settled, it takes a new horizon to [`Reader::settle`] it.
    pub fn settled(&self, own: &Snapshot) -> Option<Option<i64>> {
        self.answered.as_ref()?.sees_all_of(own).then(|| self.known_for(own))
    }

    /// Settles the answer for a statement with this snapshot. `read` is the horizon that was read just now, `after` a
    /// snapshot that was taken later, and `oldest` the first transaction that any snapshot in use in this session does
    /// not see, or an earlier one.
    pub fn settle(
        &mut self,
        own: Snapshot,
        oldest: Option<u32>,
        read: Option<i64>,
        after: Snapshot,
    ) -> Option<i64> {
        if let Some(settled) = self.settled(&own) {
            return settled;
        }
        // All snapshots in use see what this one does, so they are told of its horizon or of a later one.
        let of_all = oldest.and_then(|oldest| {
            self.known.iter().rposition(|(_, after)| !precedes(oldest, after.end))
        });
        self.known.drain(..of_all.unwrap_or(0));
        if let Some(read) = read
            && self.known.len() < ROOM
            && self.known.back().is_none_or(|(last, _)| *last < read)
        {
            self.known.push_back((read, after));
        }
        let answer = self.known_for(&own);
        self.answered = Some(own);
        answer
    }

    /// The transaction has ended, and with it all its snapshots.
    pub fn end_transaction(&mut self) {
        self.answered = None;
        let surplus = self.known.len().saturating_sub(CARRIED);
        self.known.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::Allocator;
    use crate::clock::{ClockMonitor, ClockReading};
    use crate::frontier::{ClaimSize, SequenceStart};
    use crate::identity::Identity;
    use crate::lead::LeadLimit;
    use crate::presets;
    use crate::startup::StartPoint;

    /// A snapshot before which all but this transaction have ended.
    fn snapshot(end: u32, running: u32) -> Snapshot {
        Snapshot::new(end, &[running])
    }

    /// Layouts with the node's bits above the sequence, and below it.
    fn layouts() -> impl Iterator<Item = Layout> {
        ["default", "sonyflake"].into_iter().map(|name| presets::by_name(name).unwrap().layout)
    }

    /// A server that may change its number, and what it knows.
    struct Server {
        layout: Layout,
        allocator: Allocator,
        worker: u32,
    }

    impl Server {
        /// With the frontier at the start of a tick.
        fn new(layout: Layout, worker: u32) -> Server {
            let first_ms = layout.epoch_ms() + 1_000_000_000;
            let monitor = ClockMonitor::new(ClockReading { wall_ns: 0, mono_ns: 0 });
            let allocator = Allocator::new(&layout, &StartPoint { first_ms, monitor });
            Server { layout, allocator, worker }
        }

        fn identity(&self) -> Identity {
            Identity { worker: Some(self.worker), ..Identity::NONE }
        }

        fn node_bits(&self) -> Option<u64> {
            self.identity().node_bits(&self.layout).ok()
        }

        fn frontier_id(&self) -> i64 {
            frontier_id(&self.layout, self.allocator.frontier().position(), self.node_bits())
        }

        fn change_worker(&mut self, worker: u32) {
            self.worker = worker;
            self.allocator.change_node(&self.layout, &self.identity());
        }

        /// The lowest ID that can be made.
        fn make(&mut self) -> i64 {
            let (layout, tick) =
                (&self.layout, self.layout.tick_of(self.allocator.frontier().position()));
            self.allocator.extend(layout, layout.tick_start_ms(tick + 1));
            let (one, lead) = (ClaimSize::Block(1), LeadLimit::of_ticks(0));
            let run = self.allocator.claim(layout, tick, one, lead, SequenceStart::Zero).unwrap();
            Layout::to_bigint(layout.id_at(run.start, self.node_bits().unwrap()))
        }
    }

    #[test]
    fn a_smaller_number_at_a_ticks_start_makes_no_id_below_the_frontier() {
        for layout in layouts() {
            let mut server = Server::new(layout, 7);
            let read = server.frontier_id();
            server.change_worker(2);
            assert_eq!(server.frontier_id(), read);
            let id = server.make();
            assert!(read <= id, "{id} is below {read}");
        }
    }

    #[test]
    fn a_smaller_number_within_a_tick_makes_no_id_below_the_frontier() {
        for layout in layouts() {
            let mut server = Server::new(layout, 7);
            let first = server.make();
            let read = server.frontier_id();
            assert!(first < read, "{first} is not below {read}");
            server.change_worker(2);
            assert!(read <= server.frontier_id());
            let id = server.make();
            assert!(read <= id, "{id} is below {read}");
        }
    }

    #[test]
    fn nothing_is_above_the_frontier_of_a_layout_that_has_run_out() {
        for layout in layouts() {
            let end = layout.first_position(layout.ticks());
            assert_eq!(frontier_id(&layout, end, Some(0)), i64::MAX);
            let last = Layout::to_bigint(layout.max_of(layout.ticks() - 1));
            assert!(frontier_id(&layout, end - 1, Some(0)) <= last);
        }
    }

    #[test]
    fn the_lowest_id_is_pending() {
        let pending = Pending::default();
        assert!(pending.publish(5));
        for (id, lowest) in [(7, 5), (3, 3), (4, 3), (i64::MIN, i64::MIN)] {
            assert!(!pending.publish(id));
            assert_eq!(pending.first_id(), Some(lowest));
        }
        pending.clear();
        assert!(pending.publish(9));
    }

    #[test]
    fn the_lowest_id_of_a_prepared_transaction_holds() {
        let (mut count, mut room) = (0, [Prepared::default(); 1]);
        let mut table = PreparedTable { count: &mut count, room: &mut room };
        let entry = |first_id| Prepared { transaction: 8, first_id, database: 1 };
        for (first_id, lowest) in [(Prepared::NO_ID, Prepared::NO_ID), (5, 5), (7, 5), (3, 3)] {
            table.add(entry(first_id)).unwrap();
            assert_eq!(table.entries(), [entry(lowest)]);
        }
        let other = Prepared { transaction: 9, ..entry(1) };
        assert_eq!(table.add(other), Err(Full));
        table.forget(8);
        assert_eq!(table.add(other), Ok(()));
    }

    #[test]
    fn a_horizon_of_a_time_that_was_taken_back_is_no_floor() {
        let (mut floor, own) = (Floor::default(), Pending::default());
        floor.start(10);
        floor.start_again(1_000);
        assert_eq!(floor.horizon(floor.look(1_000), None, &[], 1), Ok(Some(1_000)));
        floor.start_again(20);
        assert_eq!(floor.admit(&own, 19), Err(Refused::Below(20)));
        assert_eq!(floor.admit(&own, 20), Ok(()));
    }

    #[test]
    fn what_is_admitted_during_a_look_makes_it_begin_again() {
        let (mut floor, own) = (Floor::default(), Pending::default());
        floor.start(10);
        let look = floor.look(1_000);
        assert_eq!(floor.admit(&own, 20), Ok(()));
        assert_eq!(floor.horizon(look, None, &[], 1), Err(Outdated));
        assert_eq!(floor.horizon(floor.look(1_000), own.first_id(), &[], 1), Ok(Some(20)));
        let look = floor.look(1_000);
        floor.start_again(5);
        assert_eq!(floor.horizon(look, None, &[], 1), Err(Outdated));
    }

    #[test]
    fn a_transaction_that_is_being_prepared_runs_once() {
        let (once, twice) = (snapshot(10, 5), Snapshot::new(10, &[5, 5]));
        assert!(once.sees_all_of(&twice) && twice.sees_all_of(&once));
    }

    #[test]
    fn a_long_transaction_remembers_no_more_than_it_has_room_for() {
        let mut reader = Reader::default();
        let cursor = snapshot(10, 5);
        let first = reader.settle(cursor.clone(), Some(5), Some(1), cursor.clone());
        assert_eq!(first, Some(1));
        let polls = 2 * u32::try_from(ROOM).unwrap();
        for end in 11..10 + polls {
            let answer =
                reader.settle(snapshot(end, 5), Some(5), Some(end.into()), snapshot(end, 5));
            // What is new is only told of as long as there is room.
            assert_eq!(answer, Some(i64::from(end.min(9 + u32::try_from(ROOM).unwrap()))));
            assert_eq!(reader.settled(&cursor), Some(first));
        }
        assert_eq!(reader.known.len(), ROOM);
        // The cursor is closed: there is room again, and no answer changes.
        let (last, next) = (snapshot(9 + polls, 5), Snapshot::new(10 + polls, &[]));
        let before = reader.settled(&last);
        assert_eq!(reader.settle(next.clone(), Some(10 + polls), Some(9999), next), Some(9999));
        assert_eq!((reader.settled(&last), reader.known.len()), (before, 2));
        reader.end_transaction();
        assert_eq!(reader.settled(&cursor), None);
    }

    #[test]
    fn no_more_than_a_few_are_carried_over() {
        let mut reader = Reader::default();
        for end in 10..100 {
            let now = snapshot(end, 5);
            assert_eq!(reader.settle(now.clone(), None, Some(end.into()), now), Some(end.into()));
            reader.end_transaction();
        }
        assert_eq!(reader.known.len(), CARRIED);
    }
}
