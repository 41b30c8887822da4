//! Tickets: dense numbers out of ranges that are taken in advance from a sequence, or from a fleet's registry.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`steps`] | which numbers a sequence has, and which come next |
//! | [`current`] | the range that all sessions take of without a lock |
//! | [`given_back`] | numbers that a session took and did not hand out |
//! | [`pace`] | how large the next range should be |
//! | [`aside`] | what a clean stop puts aside for the next start |
//! | [`shared`] | what a fleet's registry says of a ticket |

pub mod aside;
pub mod current;
pub mod given_back;
pub mod pace;
pub mod shared;
pub mod steps;

pub use aside::Aside;
pub use current::{Current, Taken};
pub use given_back::GivenBack;
pub use pace::Pace;
pub use steps::{Counter, Run, Steps};
