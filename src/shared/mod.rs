//! Shared memory: one state for all databases and sessions of a server.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`memory`] | where the memory comes from, and how a process finds it |
//! | [`state`] | the state itself: the allocator, the settings in force, and their lock |
//! | [`slot`] | what one process owns in it: the rest of its block, its counts |
//! | [`counters`] | the totals behind the statistics |
//! | [`write_lock`] | the right to write the reservation |
//! | [`worker_place`] | a background worker as other processes see it |

mod counters;
pub mod memory;
mod slot;
mod state;
pub mod worker_place;
mod write_lock;

pub use counters::Counts;
pub use slot::Slot;
pub use state::{Reader, SharedState, State};
pub use write_lock::WriteGuard;
