//! Tickets: the numbers of PostgreSQL's sequences, out of ranges that this server takes in advance.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`session`] | what one session knows, and the fast path of one number |
//! | [`bound`] | which sequence a call is about, whether its role may take numbers of it, and which place it has |
//! | [`ranges`] | from a used-up range to the next |

mod bound;
mod ranges;
pub mod session;

pub use ranges::share;
