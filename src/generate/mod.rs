//! Generating: from a used-up block to the next one.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`backend`] | the fast path: the next ID of the block that this process holds |
//! | [`claim`] | the slow path: take the lock, claim positions, and if that is denied, do what it takes |
//! | [`clocks`] | comparing the wall clock with the monotonic one |
//! | [`wait`] | waiting for the clock |
//! | [`reserve`] | moving the reservation, which is on disk |
//! | [`shards`] | IDs of shards: the next one; taking a shard, giving it back |
//! | [`startup`] | the first claim of a server, and starting again after an administrator's decision |
//! | [`transactions`] | how transactions end: what one has pending is let go of, or handed over |
//! | [`observe`] | an ID from elsewhere, which everything made after it is above |
//! | [`horizon`] | the commit horizon: what a statement may read, and which IDs from elsewhere may be committed |
//! | [`test_server`] | what comes before an ID on a server for tests, and keeps it apart from real ones |
//! | [`ticket_stop`] | numbers of tickets that a clean stop hands back |
//! | [`keeper`] | the background worker that reserves ahead of need |

pub mod backend;
pub mod claim;
mod clocks;
pub mod horizon;
pub mod keeper;
pub mod observe;
pub mod reserve;
pub mod shards;
pub mod startup;
pub mod test_server;
mod ticket_stop;
mod transactions;
pub mod wait;
