//! Errors: the catalogue of them, how they are worded, raised and logged.
//!
//! An [`Error`] goes up as a value. Only [`report::raise`] turns it into an error of PostgreSQL's.

mod catalog;
pub mod hint;
pub mod log_limit;
mod message;
pub mod report;

pub use catalog::{Error, REFUSAL_COUNTER_COUNT, Reason};
pub use message::Message;
