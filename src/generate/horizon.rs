//! The commit horizon in one session: up to which ID its statements may read, and which IDs from elsewhere its transaction
//! may commit.
//!
//! **Locking.** What is read of others is read between two holds of the lock of the state ([`id_gen_core::horizon`]).
//! Nothing of PostgreSQL's that may raise an error is called under the lock.

use id_gen_core::horizon::{Reader, Refused};

use crate::error::{Error, Reason};
use crate::generate::backend::{self, Backend};
use crate::generate::{startup, transactions, wait};
use crate::os::process::PerProcess;
use crate::pg::server;
use crate::pg::transaction::{self, SnapshotMark};
use crate::shared::HorizonRead;

/// What this session has read, as soon as it has.
static SESSION: PerProcess<Option<Session>> = PerProcess::new(None);

/// What this session has read, and what had happened by then that it does not outlive.
#[derive(Default)]
struct Session {
    /// How many of its transactions had ended.
    ended: u64,
    /// How many of them had become prepared ones.
    ended_as_prepared: u64,
    /// How many times the server had been made to start again.
    resets: u64,
    reader: Reader,
}

fn with_session<T>(act: impl FnOnce(&mut Session) -> T) -> T {
    let (ended, ended_as_prepared) = (transactions::ended(), transactions::ended_as_prepared());
    SESSION.with(|session| {
        let session = session.get_or_insert_default();
        if session.ended_as_prepared != ended_as_prepared {
            // Snapshots to come show that it runs. Those that it took did not show that of itself, so they seem later.
            session.reader = Reader::default();
        } else if session.ended != ended {
            session.reader.end_transaction();
        }
        (session.ended, session.ended_as_prepared) = (ended, ended_as_prepared);
        act(session)
    })
}

/// What one place of a statement got, so that it need not ask for every row.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    mark: SnapshotMark,
    ended: u64,
    horizon: Option<i64>,
}

impl Kept {
    /// The horizon, if the statement sees what it saw when this was kept.
    #[inline]
    pub fn get(&self) -> Option<Option<i64>> {
        let is_same =
            transaction::snapshot_mark() == Some(self.mark) && transactions::ended() == self.ended;
        is_same.then_some(self.horizon)
    }

    /// Something to keep for this statement; `None` if it has no snapshot.
    pub fn of(horizon: Option<i64>) -> Option<Kept> {
        let mark = transaction::snapshot_mark()?;
        Some(Kept { mark, ended: transactions::ended(), horizon })
    }
}

/// Makes sure that the server makes IDs, so that it is known up to where readers may have read.
fn start(backend: Backend) -> Result<(), Error> {
    let Backend { shared, .. } = backend;
    wait::for_number(backend, shared.layout()?)?;
    startup::start_undecided(shared)
}

/// The horizon of this database now, for a snapshot that is taken later; and how many times the server was made to start
/// again.
fn read(backend: Backend) -> Result<(Option<i64>, u64), Error> {
    let database = server::database();
    let mut ended = None;
    loop {
        match backend.shared.read_horizon(database, ended.as_deref()) {
            HorizonRead::Done { horizon, resets } => return Ok((horizon, resets)),
            HorizonRead::Check(prepared) => ended = Some(transactions::ended_of(&prepared)),
            HorizonRead::NotStarted => start(backend)?,
        }
    }
}

/// The horizon that the statement of this session may read below; `None` if none is known that it may.
///
/// # Errors
/// The server is a standby, or can't make IDs yet; or the session has parallel workers.
pub fn safe() -> Result<Option<i64>, Error> {
    if transaction::is_parallel() {
        return Err(Reason::HorizonInParallel.into());
    }
    let backend = backend::attach()?;
    let Some(own) = transaction::statement_snapshot() else { return Ok(None) };
    if let Some(settled) = with_session(|session| session.reader.settled(&own)) {
        return Ok(settled);
    }
    let (read, resets) = read(backend)?;
    let Some(after) = transaction::latest_snapshot() else { return Ok(None) };
    let oldest = transaction::first_unseen();
    Ok(with_session(|session| {
        if session.resets != resets {
            // IDs may be made below what was read.
            (session.resets, session.reader) = (resets, Reader::default());
        }
        session.reader.settle(own, oldest, read, after)
    }))
}

/// Lets the transaction of this session commit an ID that it may not have made itself.
///
/// # Errors
/// Readers may have passed it, or the server can't make IDs yet.
pub fn admit(id: i64) -> Result<(), Error> {
    let backend = backend::attach()?;
    let Backend { shared, slot } = backend;
    if slot.pending.first_id().is_some_and(|first_id| first_id <= id) {
        return Ok(());
    }
    loop {
        let admitted = shared.lock().floor.admit(&slot.pending, id);
        match admitted {
            Ok(()) => return Ok(()),
            Err(Refused::Below(floor)) => return Err(Reason::BelowHorizon { id, floor }.into()),
            Err(Refused::NotStarted) => start(backend)?,
        }
    }
}
