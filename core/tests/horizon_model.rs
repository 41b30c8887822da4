//! A model checker over the real rules of the commit horizon: every order of claims, commits, aborts, prepared
//! transactions, polls and crashes in a small world, searched exhaustively.
//!
//! Writers make IDs and commit rows with them; a reader polls for the rows above the last horizon that it read and
//! below the new one. In no state may a row be committed that the reader has passed, and once all has ended the reader
//! must have every row. A statement of the reader asks for the horizon in two places, of which it takes the worse: the
//! lower one for what it finds, the higher one for where it goes on. Whatever is done under the lock is one step here, and
//! so is the look at what one writer has pending, which takes no lock; what is published for the shared block is in `shared_block_orders.rs`.
//!
//! The same search over rules with one step in the wrong place must lose a row, or leave one; otherwise the checker
//! proves nothing.

use std::collections::BTreeSet;

use id_gen_core::horizon::{
    Floor, Look, Outdated, Pending, Prepared, PreparedTable, Reader, Refused, Snapshot,
};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// The database of all rows.
const DATABASE: u32 = 1;
/// Positions that a claim takes.
const BLOCK: i64 = 2;
/// How far ahead a mistyped time is.
const FAR: i64 = 100;
/// Room in the table.
const ROOM: usize = 3;

/// Which step is out of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A session is no longer pending before others see how its transaction ended.
    ClearBeforeEnd,
    /// The first ID is published after the lock is released.
    PublishLate,
    /// What is left of a block is used by the next transaction, which publishes nothing.
    BlockOutlivesTransaction,
    /// The horizon of now, whatever the statement sees.
    OwnSnapshotIgnored,
    /// What is pending is looked at before the frontier.
    PendingBeforeFrontier,
    /// Prepared transactions are looked at before what is pending.
    TableBeforePending,
    /// An ID that is admitted while what is pending is looked at does not end the look.
    AdmissionUnnoticed,
    /// Prepared transactions are in no table.
    NoTable,
    /// A transaction that is just being prepared counts as ended.
    ForgetUnlisted,
    /// An ID of an earlier transaction is stored unseen.
    NoGuard,
    /// The first ID stays pending, although the transaction has a lower one by now.
    LowerUnpublished,
    /// A statement that asks again reads the horizon anew.
    TwoHorizons,
    /// What is known is forgotten while a statement may ask again.
    Forgotten,
    /// What an open cursor needs is taken for what no snapshot in use needs.
    CursorUnnoticed,
    /// What readers passed before a crash is not heeded after it.
    FloorLost,
    /// What was prepared before a crash is not in the table after it.
    PreparedUnlearned,
    /// What a session has read is not forgotten when the server is made to start again.
    ResetUnnoticed,
}

/// How the reader polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polls {
    /// So many statements in a transaction, which share a snapshot, as in REPEATABLE READ.
    Shared(usize),
    /// So many statements in a transaction with a snapshot each. The first one is a cursor, and asks once more when the
    /// others have.
    WithCursor(usize),
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Commit,
    Abort,
    Prepare,
    /// Keeps its ID, and commits nothing, so it has no transaction ID.
    Fetch,
    /// Makes no ID, and commits the one that was kept.
    Store,
    /// Stores an ID of another server that is ahead of this one, then makes one, and commits both.
    StoreAbove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Begin,
    Claim,
    Publish,
    End,
    /// In the table, not yet among the prepared ones.
    BeingPrepared,
    Clear,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    /// Which of its transactions it is at.
    done: usize,
    stage: Stage,
    first_id: Option<i64>,
    transaction: u32,
    rows: Vec<i64>,
    block: (i64, i64),
    kept: Option<i64>,
    /// A prepared transaction that nobody has committed yet, and its rows.
    prepared: Option<(u32, Vec<i64>)>,
}

/// How far a statement is that asks for the horizon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Poll {
    Idle,
    /// It has a snapshot.
    Begun,
    /// It knows of these prepared transactions.
    Listed(Vec<u64>),
    Forgotten,
    Looking(Looking),
    /// It has read the horizon, and how many times the server was made to start again.
    Read(Option<i64>, usize),
}

/// A look at the horizon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Looking {
    look: Look,
    /// What it began with.
    frontier: i64,
    table: Vec<Prepared>,
    /// How many writers were looked at, and the lowest ID that one of them has pending.
    writers: usize,
    least: Option<i64>,
}

/// What a statement sees: for the rules, and for the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    snapshot: Snapshot,
    rows: BTreeSet<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    frontier: i64,
    floor: Floor,
    table: Vec<Prepared>,
    next_transaction: u32,
    running: BTreeSet<u32>,
    /// Committed rows, each with its transaction.
    rows: BTreeSet<(i64, u32)>,
    writers: Vec<Writer>,
    poll: Poll,
    session: Reader,
    /// How many times the server was made to start again, as far as the session knows.
    session_resets: usize,
    /// What the statement sees that asks now, and the first one of its transaction.
    own: View,
    first: View,
    /// What the cursor was told first, while it is open.
    cursor: Option<Option<i64>>,
    /// How many times the reader's transaction will still ask.
    left: usize,
    polls: usize,
    crashes: usize,
    resets: usize,
    /// Where the frontier was before a time was mistyped that is far ahead.
    mistyped: Option<i64>,
    last: i64,
    delivered: BTreeSet<i64>,
}

#[derive(Clone, Debug)]
struct World {
    fault: Fault,
    transactions: Vec<Vec<Fate>>,
    /// Polls while writers write; two more follow when they have ended.
    polls: usize,
    reader: Polls,
    crashes: usize,
    /// Whether a time is mistyped, and taken back before the clock gets there.
    mistypes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Write(usize),
    CommitPrepared(usize),
    Read,
    Crash,
    Reset,
}

impl State {
    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.next_transaction, &self.running.iter().copied().collect::<Vec<_>>())
    }

    fn view(&self) -> View {
        View { snapshot: self.snapshot(), rows: self.rows.iter().map(|&(id, _)| id).collect() }
    }

    fn look(&self) -> Looking {
        let (frontier, table) = (self.frontier, self.table.clone());
        Looking { look: self.floor.look(frontier), frontier, table, writers: 0, least: None }
    }

    /// Ends a look, in one step with another one if it has to begin again.
    fn end_look(&mut self, looking: Looking, fault: Fault) -> Option<i64> {
        let Looking { mut look, frontier, table, least, .. } = looking;
        match fault {
            Fault::AdmissionUnnoticed => look = self.floor.look(frontier),
            Fault::PendingBeforeFrontier => look = self.floor.look(self.frontier),
            _ => {}
        }
        let table = if fault == Fault::TableBeforePending { &table } else { &self.table };
        self.floor.horizon(look, least, table, DATABASE).unwrap_or_else(|Outdated| {
            let look = self.floor.look(self.frontier);
            let least = self.writers.iter().filter_map(|writer| writer.first_id).min();
            self.floor.horizon(look, least, &self.table, DATABASE).unwrap()
        })
    }

    /// Calls the real code with one writer's place in memory.
    fn with_pending<T>(&mut self, writer: usize, act: impl FnOnce(&Pending, &mut Floor) -> T) -> T {
        let pending = Pending::default();
        if let Some(first_id) = self.writers[writer].first_id {
            pending.publish(first_id);
        }
        let result = act(&pending, &mut self.floor);
        self.writers[writer].first_id = pending.first_id();
        result
    }

    fn with_table<T>(&mut self, act: impl FnOnce(&mut PreparedTable<'_>) -> T) -> T {
        let mut count = self.table.len();
        self.table.resize(ROOM, Prepared::default());
        let result = act(&mut PreparedTable { count: &mut count, room: &mut self.table });
        self.table.truncate(count);
        result
    }

    fn end(&mut self, transaction: u32, rows: Vec<i64>) {
        self.running.remove(&transaction);
        self.rows.extend(rows.into_iter().map(|id| (id, transaction)));
    }

    /// All memory is lost, and every transaction but those that are prepared.
    fn crash(&mut self) {
        for writer in &mut self.writers {
            if writer.stage != Stage::Begin {
                writer.done += 1;
            }
            (writer.stage, writer.first_id, writer.rows) = (Stage::Begin, None, Vec::new());
            writer.block = (0, 0);
        }
        let prepared = self.writers.iter().filter_map(|writer| writer.prepared.as_ref());
        self.running = prepared.map(|(transaction, _)| *transaction).collect();
        (self.floor, self.table) = (Floor::default(), Vec::new());
        (self.poll, self.session, self.left, self.cursor) =
            (Poll::Idle, Reader::default(), 0, None);
        (self.own, self.first) = (View::default(), View::default());
        self.crashes += 1;
    }
}

impl World {
    fn fate(&self, state: &State, writer: usize) -> Option<Fate> {
        self.transactions[writer].get(state.writers[writer].done).copied()
    }

    fn writers_ended(&self, state: &State) -> bool {
        (0..state.writers.len()).all(|writer| {
            self.fate(state, writer).is_none() && state.writers[writer].prepared.is_none()
        })
    }

    /// The server starts to make IDs, if it has not.
    fn start(&self, state: &mut State) {
        if state.floor.is_known() {
            return;
        }
        let prepared = state.writers.iter().filter_map(|writer| writer.prepared.as_ref());
        let prepared: Vec<_> = prepared.map(|(transaction, _)| *transaction).collect();
        if self.fault != Fault::PreparedUnlearned {
            for transaction in prepared {
                let transaction = transaction.into();
                let entry = Prepared { transaction, database: DATABASE, first_id: i64::MIN };
                state.with_table(|table| table.add(entry)).unwrap();
            }
        }
        state.floor.start(if self.fault == Fault::FloorLost { 0 } else { state.frontier });
    }

    fn admit(&self, state: &mut State, writer: usize, id: i64) -> bool {
        self.fault == Fault::NoGuard
            || match state.with_pending(writer, |pending, floor| floor.admit(pending, id)) {
                Err(Refused::NotStarted) => {
                    self.start(state);
                    state.with_pending(writer, |pending, floor| floor.admit(pending, id)).is_ok()
                }
                admitted => admitted.is_ok(),
            }
    }

    /// A superuser mistypes a time that is far ahead, or takes it back.
    fn reset(&self, state: &mut State) {
        self.start(state);
        (state.frontier, state.mistyped) = match state.mistyped {
            None => (state.frontier + FAR, Some(state.frontier)),
            Some(before) => (before, None),
        };
        state.floor.start_again(state.frontier);
        state.resets += 1;
    }

    /// Makes an ID, and tells what comes next.
    fn claim(&self, state: &mut State, writer: usize) -> Stage {
        self.start(state);
        let block = state.writers[writer].block;
        let left = &mut state.writers[writer].block;
        if left.0 == left.1 {
            *left = (state.frontier, state.frontier + BLOCK);
            state.frontier += BLOCK;
        }
        let id = left.0;
        left.0 += 1;
        if self.fault != Fault::BlockOutlivesTransaction {
            left.0 = left.1;
        }
        state.writers[writer].rows.push(id);
        if self.fault == Fault::PublishLate {
            return Stage::Publish;
        }
        let is_first = state.writers[writer].first_id.is_none();
        if block.0 == block.1 && (is_first || self.fault != Fault::LowerUnpublished) {
            state.with_pending(writer, |pending, _| pending.publish(id));
        }
        Stage::End
    }

    fn write(&self, state: &mut State, writer: usize) -> Option<()> {
        let fate = self.fate(state, writer)?;
        match state.writers[writer].stage {
            // The clock has to get there first.
            Stage::Begin | Stage::Claim if fate != Fate::Store && state.mistyped.is_some() => {
                return None;
            }
            Stage::Begin => {
                if fate != Fate::Fetch {
                    state.writers[writer].transaction = state.next_transaction;
                    state.running.insert(state.next_transaction);
                    state.next_transaction += 1;
                }
                let stored = match fate {
                    Fate::Store => state.writers[writer].kept,
                    // The numbers of this server are odd.
                    Fate::StoreAbove => Some(state.frontier + BLOCK + 1),
                    _ => None,
                };
                let admitted = stored.filter(|&id| self.admit(state, writer, id));
                state.writers[writer].rows.extend(admitted);
                state.writers[writer].stage = match fate {
                    Fate::Store => Stage::End,
                    Fate::StoreAbove => Stage::Claim,
                    _ => self.claim(state, writer),
                };
            }
            Stage::Claim => state.writers[writer].stage = self.claim(state, writer),
            Stage::Publish => {
                let id = *state.writers[writer].rows.last()?;
                state.with_pending(writer, |pending, _| pending.publish(id));
                state.writers[writer].stage = Stage::End;
            }
            Stage::End if fate == Fate::Prepare => {
                let Writer { transaction, first_id, .. } = state.writers[writer];
                if let (Some(first_id), false) = (first_id, self.fault == Fault::NoTable) {
                    let transaction = transaction.into();
                    let entry = Prepared { transaction, database: DATABASE, first_id };
                    state.with_table(|table| table.add(entry)).unwrap();
                }
                state.writers[writer].stage = Stage::BeingPrepared;
            }
            Stage::BeingPrepared => {
                let it = &mut state.writers[writer];
                it.prepared = Some((it.transaction, it.rows.clone()));
                it.stage = Stage::Clear;
            }
            Stage::End => {
                if self.fault == Fault::ClearBeforeEnd && state.writers[writer].first_id.is_some() {
                    state.with_pending(writer, |pending, _| pending.clear());
                    return Some(());
                }
                let it = &mut state.writers[writer];
                if fate == Fate::Fetch {
                    it.kept = it.rows.first().copied();
                }
                it.stage = Stage::Clear;
                let commits = matches!(fate, Fate::Commit | Fate::Store | Fate::StoreAbove);
                let (transaction, rows) = (it.transaction, it.rows.clone());
                if fate != Fate::Fetch {
                    state.end(transaction, if commits { rows } else { Vec::new() });
                }
            }
            Stage::Clear => {
                state.with_pending(writer, |pending, _| pending.clear());
                let it = &mut state.writers[writer];
                (it.stage, it.done, it.rows) = (Stage::Begin, it.done + 1, Vec::new());
            }
        }
        Some(())
    }

    fn read(&self, state: &mut State) {
        state.poll = match state.poll.clone() {
            Poll::Idle => {
                self.begin(state);
                Poll::Begun
            }
            Poll::Begun => {
                let settled = state.session.settled(&state.own.snapshot);
                match settled {
                    Some(horizon) if self.fault != Fault::OwnSnapshotIgnored => {
                        self.deliver(state, horizon);
                        Poll::Idle
                    }
                    _ => {
                        self.start(state);
                        Poll::Listed(state.table.iter().map(|entry| entry.transaction).collect())
                    }
                }
            }
            Poll::Listed(listed) => {
                let ended: Vec<u64> = listed
                    .into_iter()
                    .filter(|&transaction| self.has_ended(state, transaction))
                    .collect();
                state.with_table(|table| table.forget_all(&ended));
                Poll::Forgotten
            }
            Poll::Forgotten => Poll::Looking(state.look()),
            Poll::Looking(mut looking) => match state.writers.get(looking.writers) {
                Some(writer) => {
                    looking.least = looking.least.into_iter().chain(writer.first_id).min();
                    looking.writers += 1;
                    Poll::Looking(looking)
                }
                None => Poll::Read(state.end_look(looking, self.fault), state.resets),
            },
            Poll::Read(read, resets) => {
                if state.session_resets != resets && self.fault != Fault::ResetUnnoticed {
                    (state.session_resets, state.session) = (resets, Reader::default());
                }
                let horizon = self.settle(state, read);
                self.deliver(state, horizon);
                Poll::Idle
            }
        };
    }

    /// Whether a prepared transaction is found to have ended.
    fn has_ended(&self, state: &State, transaction: u64) -> bool {
        let is_running = state.running.iter().any(|&running| u64::from(running) == transaction);
        let is_being_prepared = state.writers.iter().any(|writer| {
            writer.stage == Stage::BeingPrepared && u64::from(writer.transaction) == transaction
        });
        !is_running || self.fault == Fault::ForgetUnlisted && is_being_prepared
    }

    /// The next statement of the reader begins, or its cursor goes on.
    fn begin(&self, state: &mut State) {
        let (Polls::Shared(statements) | Polls::WithCursor(statements)) = self.reader;
        let begins = state.left == 0;
        if begins {
            state.session.end_transaction();
            state.left = statements;
            state.first = state.view();
        }
        state.left -= 1;
        let of_its_own = matches!(self.reader, Polls::WithCursor(_)) && state.left > 0;
        state.own = if of_its_own && !begins { state.view() } else { state.first.clone() };
        match self.fault {
            Fault::TwoHorizons => state.session.end_transaction(),
            Fault::Forgotten => state.session = Reader::default(),
            _ => {}
        }
    }

    /// What the statement is told that has read the horizon.
    fn settle(&self, state: &mut State, read: Option<i64>) -> Option<i64> {
        let (own, after) = (state.own.snapshot.clone(), state.snapshot());
        let oldest = match self.fault {
            Fault::OwnSnapshotIgnored => return read,
            Fault::CursorUnnoticed => own.first_unseen(),
            _ => state.first.snapshot.first_unseen(),
        };
        state.session.settle(own, Some(oldest), read, after)
    }

    /// What the statement finds, and how far the reader then is.
    fn deliver(&self, state: &mut State, horizon: Option<i64>) {
        state.polls += 1;
        let is_cursor = matches!(self.reader, Polls::WithCursor(_));
        let first = match state.cursor {
            Some(first) if state.left == 0 => first,
            None if is_cursor && state.left > 0 => {
                state.cursor = Some(horizon);
                return;
            }
            // Another statement while the cursor is open.
            Some(_) => return,
            None => horizon,
        };
        state.cursor = None;
        let (least, most) = (first.min(horizon).unwrap_or(0), first.max(horizon).unwrap_or(0));
        let (from, seen) = (state.last, state.own.rows.clone());
        let found: Vec<_> = seen.into_iter().filter(|&id| from < id && id < least).collect();
        // Where the horizon may go back, only a reader that goes by its rows misses none.
        let reached = if self.mistypes { found.last().copied() } else { Some(most - 1) };
        state.last = state.last.max(reached.unwrap_or(0));
        state.delivered.extend(found);
    }

    /// How many times the reader asks at most when all writers have ended: for what is left of its transaction, and for
    /// another one that may come a poll late.
    fn afterwards(&self) -> usize {
        let (Polls::Shared(statements) | Polls::WithCursor(statements)) = self.reader;
        2 * statements
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let writer = Writer {
            done: 0,
            stage: Stage::Begin,
            first_id: None,
            transaction: 0,
            rows: Vec::new(),
            block: (0, 0),
            kept: None,
            prepared: None,
        };
        vec![State {
            frontier: 1,
            floor: Floor::default(),
            table: Vec::new(),
            next_transaction: 3,
            running: BTreeSet::new(),
            rows: BTreeSet::new(),
            writers: vec![writer; self.transactions.len()],
            poll: Poll::Idle,
            session: Reader::default(),
            session_resets: 0,
            own: View::default(),
            first: View::default(),
            cursor: None,
            left: 0,
            polls: 0,
            crashes: 0,
            resets: 0,
            mistyped: None,
            last: 0,
            delivered: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (writer, it) in state.writers.iter().enumerate() {
            if self.fate(state, writer).is_some() {
                actions.push(Action::Write(writer));
            }
            if it.prepared.is_some() && it.stage != Stage::Clear {
                actions.push(Action::CommitPrepared(writer));
            }
        }
        let ended = self.writers_ended(state);
        let most = self.polls + if ended { self.afterwards() } else { 0 };
        if state.poll != Poll::Idle || state.polls < most {
            actions.push(Action::Read);
        }
        if state.crashes < self.crashes && !ended {
            actions.push(Action::Crash);
        }
        if self.mistypes && state.resets < 2 {
            actions.push(Action::Reset);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Write(writer) => self.write(&mut next, writer)?,
            Action::CommitPrepared(writer) => {
                let (transaction, rows) = next.writers[writer].prepared.take()?;
                next.end(transaction, rows);
            }
            Action::Read => {
                // Polls while nothing has ended are only counted up to their number.
                if self.writers_ended(&next) && next.poll == Poll::Idle {
                    next.polls = next.polls.max(self.polls);
                }
                self.read(&mut next);
            }
            Action::Crash => next.crash(),
            Action::Reset => self.reset(&mut next),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("no row is passed", |_, state: &State| {
                state.rows.iter().all(|(id, _)| *id > state.last || state.delivered.contains(id))
            }),
            Property::always("no row is left", |world: &World, state: &State| {
                let is_over = world.writers_ended(state)
                    && state.poll == Poll::Idle
                    && state.polls >= world.polls + world.afterwards();
                // An ID of another server may still be ahead of the horizon.
                let mut rows = state.rows.iter().filter(|(id, _)| *id < state.frontier);
                !is_over || rows.all(|(id, _)| state.delivered.contains(id))
            }),
        ]
    }
}

use Fate::{Abort, Commit, Fetch, Prepare, Store, StoreAbove};

fn world(fault: Fault, transactions: &[&[Fate]]) -> World {
    let transactions = transactions.iter().map(|fates| fates.to_vec()).collect();
    let reader = Polls::Shared(1);
    World { fault, transactions, polls: 3, reader, crashes: 0, mistypes: false }
}

/// The same, with a cursor.
fn with_cursor(fault: Fault, statements: usize, transactions: &[&[Fate]]) -> World {
    World { reader: Polls::WithCursor(statements), polls: statements, ..world(fault, transactions) }
}

/// The same, with a crash.
fn with_crash(fault: Fault, transactions: &[&[Fate]]) -> World {
    World { crashes: 1, polls: 2, ..world(fault, transactions) }
}

/// The same, with a time that is mistyped and taken back.
fn with_mistyped_time(fault: Fault, transactions: &[&[Fate]]) -> World {
    World { mistypes: true, ..world(fault, transactions) }
}

fn search(world: World) -> impl Checker<World> {
    world.checker().threads(2).spawn_bfs().join()
}

/// A search that ends with the first failure.
fn find(world: World) -> impl Checker<World> {
    let checker = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    checker.spawn_bfs().join()
}

fn assert_safe(world: World) {
    let name = format!("{world:?}");
    let checker = search(world);
    checker.assert_properties();
    println!("{name}: {} states", checker.unique_state_count());
}

fn assert_found(world: World) {
    let name = format!("{world:?}");
    assert!(!find(world).discoveries().is_empty(), "nothing was found in {name}");
}

#[test]
fn commits_and_aborts() {
    assert_safe(world(Fault::None, &[&[Commit, Commit], &[Abort, Commit]]));
    assert_safe(world(Fault::None, &[&[Commit], &[Commit], &[Commit]]));
}

#[test]
fn a_snapshot_that_is_kept() {
    let plain = world(Fault::None, &[&[Commit, Commit], &[Commit]]);
    assert_safe(World { reader: Polls::Shared(2), polls: 4, ..plain });
}

#[test]
fn a_cursor() {
    assert_safe(with_cursor(Fault::None, 2, &[&[Fetch, Commit], &[Commit]]));
    assert_safe(with_cursor(Fault::None, 4, &[&[Commit, Commit], &[Commit]]));
}

#[test]
fn crashes() {
    assert_safe(with_crash(Fault::None, &[&[Commit, Commit], &[Commit]]));
    assert_safe(with_crash(Fault::None, &[&[Prepare, Commit], &[Commit]]));
    assert_safe(with_crash(Fault::None, &[&[Fetch, Store], &[Commit, Commit]]));
}

#[test]
fn prepared_transactions() {
    assert_safe(world(Fault::None, &[&[Prepare, Commit], &[Commit]]));
    assert_safe(world(Fault::None, &[&[Prepare], &[Prepare]]));
}

#[test]
fn ids_that_are_stored_later() {
    assert_safe(world(Fault::None, &[&[Fetch, Store], &[Commit, Abort]]));
}

#[test]
fn ids_of_a_server_that_is_ahead() {
    assert_safe(world(Fault::None, &[&[StoreAbove], &[Commit, Commit]]));
    assert_safe(with_crash(Fault::None, &[&[StoreAbove], &[Commit, Commit]]));
}

#[test]
fn a_mistyped_time() {
    assert_safe(with_mistyped_time(Fault::None, &[&[Commit], &[Commit]]));
    assert_safe(with_mistyped_time(Fault::None, &[&[Fetch, Store], &[Commit]]));
}

#[test]
fn steps_out_of_place_are_found() {
    let plain: &[&[Fate]] = &[&[Commit, Commit], &[Commit]];
    for fault in [
        Fault::ClearBeforeEnd,
        Fault::PublishLate,
        Fault::BlockOutlivesTransaction,
        Fault::OwnSnapshotIgnored,
        Fault::PendingBeforeFrontier,
    ] {
        assert_found(world(fault, plain));
    }
    for fault in [Fault::NoTable, Fault::ForgetUnlisted, Fault::TableBeforePending] {
        assert_found(world(fault, &[&[Prepare, Commit], &[Commit]]));
    }
    for fault in [Fault::NoGuard, Fault::AdmissionUnnoticed] {
        assert_found(world(fault, &[&[Fetch, Store], &[Commit]]));
    }
    assert_found(world(Fault::LowerUnpublished, &[&[StoreAbove], &[Commit, Commit]]));
    assert_found(with_mistyped_time(Fault::ResetUnnoticed, &[&[Commit], &[Commit]]));
    assert_found(with_cursor(Fault::TwoHorizons, 2, &[&[Fetch], &[Commit]]));
    assert_found(with_cursor(Fault::Forgotten, 2, plain));
    assert_found(with_cursor(Fault::CursorUnnoticed, 4, plain));
    assert_found(with_crash(Fault::FloorLost, &[&[Fetch, Store], &[Commit]]));
    assert_found(with_crash(Fault::PreparedUnlearned, &[&[Prepare], &[Commit, Commit]]));
}
