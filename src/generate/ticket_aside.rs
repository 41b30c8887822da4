//! A clean stop leaves no gap: the numbers that no session has are put aside, and the next start begins with them.
//!
//! **Order.** They are taken from sessions first; then the log is flushed, so that no crash sets a sequence back below them;
//! then they are written. At the start, the file is removed durably before the first of them is handed out.
//!
//! **Locking.** Both hold the reservation's write lock.

use pgrx::PgLogLevel;

use crate::durable::ticket_file;
use crate::error::report;
use crate::error::ticket::{self, AsideLost};
use crate::pg::{server, wal};
use crate::shared::tickets::AsideIs;
use crate::shared::{SharedState, WriteGuard};

/// Puts numbers aside where the server is stopping, once: unless those of the last stop are there still.
pub fn put_aside(shared: &SharedState, _guard: &WriteGuard<'_>) {
    let tickets = &shared.tickets;
    if !tickets.aside_is(AsideIs::InPlaces) || !server::is_stopping() {
        return;
    }
    let asides = tickets.put_aside();
    let Some(lsn) = asides.iter().map(|aside| wal::Lsn(aside.lsn)).max() else { return };
    wal::flush(lsn);
    tickets.note_aside(AsideIs::PutAside);
    if let Err(error) = ticket_file::write(&asides) {
        log(&error);
    }
}

/// Puts numbers back that the last clean stop has put aside, if nobody has done that yet. Not on a standby: its file, if it
/// has one, is of a time when it was a primary.
pub fn put_back(shared: &SharedState) {
    let tickets = &shared.tickets;
    if !tickets.aside_is(AsideIs::OnDisk) || server::is_in_recovery() {
        return;
    }
    let guard = shared.write_lock.lock();
    if !tickets.aside_is(AsideIs::OnDisk) {
        return;
    }
    let found = ticket_file::take();
    if let Ok(asides) = &found {
        tickets.put_back(asides);
    }
    tickets.note_aside(AsideIs::InPlaces);
    drop(guard);
    if let Err(error) = found {
        log(&error);
    }
}

fn log(error: &AsideLost) {
    report::log(&ticket::aside_lost(error).into(), PgLogLevel::WARNING);
}
