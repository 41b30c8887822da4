//! Tickets: dense numbers out of ranges that are taken in advance from a sequence, or from a fleet's registry.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`steps`] | which numbers a sequence has, and which come next |
//! | [`current`] | the range that all sessions take of without a lock |
//! | [`pace`] | how large the next range should be |
//! | [`shared`] | what a fleet's registry says of a ticket |

pub mod current;
pub mod pace;
pub mod shared;
pub mod steps;

pub use current::Current;
pub use pace::Pace;
pub use steps::{Counter, Run, Steps};
