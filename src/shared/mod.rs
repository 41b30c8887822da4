//! Shared memory: one state for all databases and sessions of a server.
//!
//! Nothing in it points anywhere, not even to a constant: unless the library is preloaded, it lies at another address in
//! each process.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`memory`] | where the memory comes from, and how a process finds it |
//! | [`state`] | the state itself: the allocator, the settings in force, and their lock |
//! | [`shards`] | a place for each shard that this server has, or had since it started |
//! | [`shard_list`] | which shards this server has, in memory and on disk |
//! | [`shard_basis`] | on which basis it has them, and when their places are open |
//! | [`slot`] | what one process owns in it: the rest of its block, its counts |
//! | [`requests`] | what sessions ask of the fleet's registry, and its answers |
//! | [`tickets`] | the ranges of numbers of each sequence that is in use |
//! | [`counters`] | the totals behind the statistics |
//! | [`write_lock`] | the right to write the reservation |
//! | [`membership`] | this server's place in its fleet |
//! | [`worker_place`] | a background worker as other processes see it |
//! | [`workers`] | how each background worker begins, and is started where it is missing |

mod counters;
mod membership;
pub mod memory;
pub mod requests;
pub mod shard_basis;
pub mod shard_list;
pub mod shards;
mod slot;
mod state;
pub mod tickets;
pub mod worker_place;
pub mod workers;
mod write_lock;

pub use counters::Counts;
pub use membership::{FleetCounts, Membership};
pub use slot::Slot;
pub use state::{HorizonRead, Reader, SharedState, State};
pub use write_lock::WriteGuard;
