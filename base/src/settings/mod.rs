//! Parameters of a library that sessions may load late.

pub mod known;
