//! Shared memory: one state for all databases and sessions of a server.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`memory`] | where the memory comes from, and how a process finds it |
//! | [`state`] | the state itself: the allocator, the settings in force, and their lock |
//! | [`slot`] | what one process owns in it: the rest of its block, its counts |
//! | [`counters`] | the totals behind the statistics |
//! | [`write_lock`] | the right to write the reservation |
//! | [`membership`] | this server's place in its fleet |
//! | [`worker_place`] | a background worker as other processes see it |
//! | [`workers`] | how each background worker begins, and is started where it is missing |

mod counters;
mod membership;
pub mod memory;
mod slot;
mod state;
pub mod worker_place;
pub mod workers;
mod write_lock;

pub use counters::Counts;
pub use membership::{FleetCounts, Membership};
pub use slot::Slot;
pub use state::{HorizonRead, Reader, SharedState, State};
pub use write_lock::WriteGuard;
