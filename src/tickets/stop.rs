//! A clean stop leaves no gap: each sequence is set back to the last number that was taken of it.
//!
//! The keeper does it, when no process is left that takes numbers. It belongs to no database, so it finds a sequence by its
//! file. One that was dropped is empty or gone, and one that was made again, even with the same numbers of database, sequence
//! and file, has a page that this server has not written last: both stay as they are.

use std::time::{Duration, Instant};

use crate::pg::{sequence, server, transaction};
use crate::shared::tickets::Tickets;
use crate::tickets::bound;

/// How long sessions are waited for, which the server is ending meanwhile. What they might take later leaves a gap.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUND: Duration = Duration::from_millis(5);

/// Hands back what this server holds, if it is stopping.
pub fn hand_back(tickets: &Tickets) {
    if tickets.has_registry() || !server::is_stopping() || tickets.holding().is_empty() {
        return;
    }
    let since = Instant::now();
    while server::has_sessions() {
        if since.elapsed() > PATIENCE {
            return;
        }
        std::thread::sleep(ROUND);
    }
    transaction::run(|| {
        for (held, file, steps) in tickets.holding() {
            // What is wrong with a page is told to who asks for a number next.
            if let Ok(Some(page)) = sequence::page_of(file, &steps) {
                bound::hand_back(tickets, held, &page);
            }
        }
    });
}
