//! Errors as values, in PostgreSQL's parts, and how they are raised.

mod fields;
mod file;
pub mod layout;
pub mod raise;

pub use fields::{FILE_NAME, Message, WithoutHint, counted, sentence};
pub use file::FileError;
pub use raise::Report;
