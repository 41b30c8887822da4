//! Errors: the catalogue of them, how they are worded, raised and logged.
//!
//! An [`Error`] goes up as a value. Only [`report`] turns it into an error of PostgreSQL's.

pub mod fleet;
pub mod hint;
pub mod log_limit;
mod messages;
pub mod report;
pub mod shards;
pub mod test_server;
pub mod ticket;

pub use id_gen_base::error::{FileError, Message, counted, sentence};
pub use messages::{Error, REFUSAL_COUNTER_COUNT, Reason};
