//! The bound of the reservation as the standbys and copies of this server get it: with the write-ahead log, ahead of
//! every commit that may hold such an ID. A server reads what it replayed when it starts to generate.

use id_gen_core::replicated::{Bound, Replayed, SIZE};
use id_gen_core::startup::StoredRecord;

use crate::durable::{place, reservation_file};
use crate::error::{Error, Reason};
use crate::pg::logged_page::{self, ReplayedPage};
use crate::pg::wal::Lsn;
use crate::pg::{server, wal};

/// Tells the standbys a bound. Raises no error. Returns where its record ends in the log.
pub fn write(bound: &Bound) -> Option<Lsn> {
    // Where no server can be made from the log, none needs to know.
    logged_page::is_replicated().then(|| logged_page::log(&bound.encode()))
}

/// The last bound that was replayed here: by a standby before its promotion, in a copy of another server, or after a crash
/// of this one. May raise an error of PostgreSQL's, and so must be called before the right to write the reservation is taken.
///
/// # Errors
/// If it is damaged, or cannot be read.
pub fn read() -> Result<Option<Replayed>, Error> {
    logged_page::try_open().map_err(|error| Reason::ReplayedUnreadable((&error).into()))?;
    let Some(page) = logged_page::read() else { return Ok(None) };
    let unchecked = || logged_page::read_unchecked().ok().and_then(|page| bound_of(&page));
    match bound_of(&page).or_else(unchecked) {
        None if !has_own_reservation() => Err(Reason::ReplayedDamaged.into()),
        replayed => Ok(replayed),
    }
}

fn bound_of(page: &ReplayedPage<SIZE>) -> Option<Replayed> {
    let bound = Bound::decode(&page.bytes)?;
    Some(Replayed { bound, log_position: page.lsn.0, timeline: wal::timeline_of(page.lsn) })
}

/// Whether the reservation was written by this server: in this directory, on this timeline. Then it is ahead of all bounds
/// in the log, which this server wrote, too.
fn has_own_reservation() -> bool {
    let Ok(StoredRecord::Found(record)) = reservation_file::read() else { return false };
    let own = place::directory().ok().flatten();
    record.place.timeline == server::timeline()
        && own.is_some_and(|own| record.place.origin.directory.is_same(&own))
}
