//! What a column of IDs tells about how they were made: counted while its rows stream by, in memory that does not grow
//! with their number.
//!
//! The rows are read twice. In the order in which they are stored, a *scan* counts kinds, workers, times and remainders,
//! and notices where time goes back. In the order of their values, a *sorted* pass finds what is next to each other then:
//! duplicates, IDs of one tick, pauses. What differs between snowflakes and UUIDs is in [`snowflakes`] and [`uuids`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`span`] | how many, and from when until when |
//! | [`kind`] | whether a number can be a snowflake that was made by now |
//! | [`nodes`] | counts for each worker |
//! | [`clock_order`] | where time goes back along the rows |
//! | [`timeline`] | counts for each hour, or for longer where there are many |
//! | [`remainders`] | how evenly `id % n` spreads |
//! | [`rounding`] | whether numbers lost their last digits on the way |
//! | [`duplicates`] | values that occur more than once |
//! | [`pace`] | the busiest second, the longest pauses |
//! | [`bursts`] | ticks that were used to their end |

pub mod bursts;
pub mod clock_order;
pub mod duplicates;
pub mod kind;
pub mod nodes;
pub mod pace;
pub mod remainders;
pub mod rounding;
pub mod snowflakes;
pub mod span;
pub mod timeline;
pub mod uuids;
