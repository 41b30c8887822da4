//! What every extension of id_gen is built on: PostgreSQL's conventions, the operating system, errors, queries of the
//! catalogs, and how SQL calls functions. Nothing here generates IDs, and nothing of it is in shared memory.

#![warn(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

pub mod call;
pub mod catalog;
pub mod error;
pub mod os;
pub mod pg;
pub mod settings;
