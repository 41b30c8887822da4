//! How SQL calls functions.

pub mod function;
pub mod id;
