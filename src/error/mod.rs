//! Errors: the catalogue of them, how they are worded, raised and logged.
//!
//! An [`Error`] goes up as a value. Only [`report`] turns it into an error of PostgreSQL's.

pub mod convert;
mod fields;
pub mod fleet;
pub mod hint;
pub mod log_limit;
mod messages;
pub mod report;

pub use fields::Message;
pub use messages::{
    Error, FileError, REFUSAL_COUNTER_COUNT, Reason, SMALLEST_SAMPLE_PERCENT, sentence,
};
