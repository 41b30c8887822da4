//! How SQL calls functions.

pub mod error;
pub mod function;
pub mod id;
