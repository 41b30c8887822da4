//! PostgreSQL's conventions: how it calls functions, locks, logs ahead, tells the time, names schemas, hands rows
//! over, shows waits and runs background workers. Nothing here knows of IDs.

pub mod backtrace;
pub mod condition_variable;
pub mod expression;
pub mod fmgr;
pub mod logged_page;
pub mod lwlock;
pub mod reload;
pub mod row_stream;
pub mod schema;
pub mod sequence;
pub mod server;
pub mod settings;
pub mod shard_lock;
pub mod text;
pub mod timestamp;
pub mod transaction;
pub mod trigger;
pub mod wait_event;
pub mod wal;
pub mod worker;
