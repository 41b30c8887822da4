//! Tickets: the numbers of PostgreSQL's sequences, out of ranges that this server takes in advance.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`session`] | what one session holds, and the fast path of one number |
//! | [`bound`] | which sequence a call is about, and whether its role may take numbers of it |
//! | [`ranges`] | from a used-up range to the next |

pub mod bound;
mod ranges;
pub mod session;

pub use ranges::share;
