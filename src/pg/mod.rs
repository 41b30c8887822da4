//! PostgreSQL's conventions: how it calls functions, locks, logs ahead, tells the time, names schemas, shows waits and
//! runs background workers. Nothing here knows of IDs.

pub mod backtrace;
pub mod fmgr;
pub mod logged_page;
pub mod lwlock;
pub mod reload;
pub mod schema;
pub mod server;
pub mod timestamp;
pub mod wait_event;
pub mod worker;
