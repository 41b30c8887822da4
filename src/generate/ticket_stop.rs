//! A clean stop leaves no gap: each sequence is set back to the last number that was taken of it.
//!
//! The keeper does it, when no process is left that takes numbers. It belongs to no database, so it finds a sequence by its
//! file. One that was dropped is empty or gone, and one that was made again, even with the same numbers of database, sequence
//! and file, has a page that this server has not written last: both stay as they are.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use pgrx::{PgTryBuilder, pg_sys};

use crate::pg::wait_event::WaitEvent;
use crate::pg::{sequence, server, transaction};
use crate::shared::tickets::Tickets;

/// How long sessions are waited for, which the server is ending, and waits for too. Another library's worker may wait for this
/// one.
const PATIENCE: Duration = Duration::from_secs(60);
const ROUND_MS: u64 = 5;

/// Hands back what this server holds, if it is stopping.
pub fn hand_back(tickets: &Tickets) {
    if tickets.has_registry() || !tickets.holds_any() || !server::is_stopping() {
        return;
    }
    let since = Instant::now();
    while server::has_sessions() && since.elapsed() < PATIENCE {
        WaitEvent::Sessions.wait_on_latch(ROUND_MS);
    }
    if server::may_run_sql() {
        return;
    }
    for unused in tickets.free(|_| true) {
        let hand_back = || {
            if let Ok(Some(page)) = sequence::page_of(unused.key.file, &unused.steps) {
                unused.hand_back(&page);
            }
        };
        // One whose page cannot be read stops no other. What is wrong is told to who asks for its next number.
        PgTryBuilder::new(AssertUnwindSafe(|| transaction::run(hand_back)))
            // SAFETY: ends the transaction that the error has left.
            .catch_others(|_| unsafe { pg_sys::AbortCurrentTransaction() })
            .execute();
    }
}
