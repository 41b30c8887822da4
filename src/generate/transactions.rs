//! How the transactions of this process end: what one has pending is let go of, or handed over to the prepared transaction
//! that it becomes.
//!
//! **Locking.** What is pending is published under the lock of the state, and taken back without it when the transaction
//! has left the array of running ones ([`id_gen_core::horizon`]). Nothing of PostgreSQL's that may raise an error is
//! called under the lock.

use id_gen_core::horizon::Prepared;

use crate::error::{Error, Reason, report};
use crate::os::process::PerProcess;
use crate::pg::server;
use crate::pg::transaction::{self, End, Handler};
use crate::shared::{SharedState, Slot};

/// The slot that holds what is pending, as long as this process has one.
static FOLLOWED: PerProcess<Option<(&'static SharedState, &'static Slot)>> = PerProcess::new(None);

/// How many transactions of this process have ended.
static ENDED: PerProcess<u64> = PerProcess::new(0);

/// How many of them have become prepared ones.
static PREPARED: PerProcess<u64> = PerProcess::new(0);

/// Called at the end of this session's transactions.
struct AtEnd;

impl Handler for AtEnd {
    fn handle(end: End) {
        match end {
            End::Prepares => {
                if let Err(error) = prepare() {
                    report::raise(error);
                }
            }
            End::Prepared => {
                PREPARED.with(|prepared| *prepared += 1);
                prepared();
                let_go();
            }
            End::Ended => let_go(),
        }
    }
}

/// The transaction has ended for this session.
fn let_go() {
    ENDED.with(|ended| *ended += 1);
    if let Some((_, slot)) = FOLLOWED.with(|followed| *followed) {
        slot.end_transaction();
    }
}

/// Follows the transactions of this process from now on. To be called once, before it makes an ID.
pub fn follow(shared: &'static SharedState, slot: &'static Slot) {
    if cfg!(feature = "without_horizon") {
        return;
    }
    FOLLOWED.with(|followed| *followed = Some((shared, slot)));
    transaction::on_end::<AtEnd>();
}

/// How many transactions of this process have ended, since it is followed.
#[inline]
pub fn ended() -> u64 {
    ENDED.with(|ended| *ended)
}

/// How many of them have become prepared ones, which still run for every snapshot.
pub fn ended_as_prepared() -> u64 {
    PREPARED.with(|prepared| *prepared)
}

/// Hands over what is pending to the prepared transaction that this session is about to make. Another library may still
/// make the first ID, in a callback that is called after this one: so one that has none gets its place, too. There is room
/// for it: of those in a full table at least one has ended, unless PostgreSQL has more of them than it says.
fn prepare() -> Result<(), Error> {
    let Some((shared, slot)) = FOLLOWED.with(|followed| *followed) else { return Ok(()) };
    let entry = own_entry(slot.pending.first_id());
    let mut ended = Vec::new();
    loop {
        // In one hold, or others might take the room that was made. They may have forgotten and filled all before it, too.
        let listed = {
            let mut state = shared.lock();
            let mut table = shared.prepared(&mut state);
            table.forget_all(&ended);
            if table.add(entry).is_ok() {
                return Ok(());
            }
            table.entries().to_vec()
        };
        ended = ended_of(&listed);
        if ended.is_empty() {
            return Err(Reason::TooManyPrepared.into());
        }
    }
}

/// The session's transaction is prepared: hands over what was made since, or gives its place back. Raises no error.
fn prepared() {
    let Some((shared, slot)) = FOLLOWED.with(|followed| *followed) else { return };
    let first_id = slot.pending.first_id();
    let entry = own_entry(first_id);
    let mut state = shared.lock();
    let mut table = shared.prepared(&mut state);
    if first_id.is_none() {
        table.forget(entry.transaction);
    } else {
        // It has its place, unless the session used id_gen for the first time in such a callback: and then it can't fail.
        let _ = table.add(entry);
    }
}

fn own_entry(first_id: Option<i64>) -> Prepared {
    let first_id = first_id.unwrap_or(Prepared::NO_ID);
    Prepared { transaction: transaction::own_id(), first_id, database: server::database() }
}

/// Those of the prepared transactions that have ended. The caller does not hold the lock.
pub fn ended_of(listed: &[Prepared]) -> Vec<u64> {
    let listed = listed.iter().map(|entry| entry.transaction);
    listed.filter(|&transaction| !transaction::is_in_progress(transaction)).collect()
}
