//! PostgreSQL's conventions: how it calls functions, locks, tells the time, names schemas and begins transactions. Nothing
//! here knows of IDs.

pub mod backtrace;
pub mod expression;
pub mod extension;
pub mod fmgr;
pub mod lwlock;
pub mod reload;
pub mod schema;
pub mod server;
pub mod settings;
pub mod subtransaction;
pub mod text;
pub mod timestamp;
pub mod transaction;
pub mod trigger;
