//! PostgreSQL's conventions: those that all extensions share, and what only this one needs: logging ahead, pages of
//! sequences, shards' locks, waits that are shown and background workers. Nothing here knows of IDs.

pub use id_gen_base::pg::*;

pub mod condition_variable;
pub mod logged_page;
pub mod sequence;
pub mod shard_lock;
pub mod wait_event;
pub mod wal;
pub mod worker;
