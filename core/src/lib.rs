//! The part of `id_gen` that needs no PostgreSQL.
//!
//! Everything that decides whether an ID may exist lives here, as plain functions of their
//! arguments: no clock is read, no lock is taken, nothing is allocated on the way of an ID. That is
//! what lets the rules be property-tested and model-checked in seconds.
//!
//! | module | its one idea |
//! | --- | --- |
//! | [`layout`] | what the 64 bits mean: fields, widths, epoch, tick |
//! | [`layout_text`] | a layout as text, read and written |
//! | [`presets`] | the layouts known by name |
//! | [`frontier`] | which positions may be handed out now |
//! | [`block`] | the few positions one backend holds, and how many it should take |
//! | [`line`] | frontier, reservation and clocks of one worker, and the order of steps between them |
//! | [`reservation`] | the promise written ahead of use, and its file |
//! | [`opening`] | where the line begins when a server starts |
//! | [`clock`] | telling a clock that runs from a clock that was moved |
//! | [`pace`] | how fast IDs were made lately |
//! | [`histogram`] | how long waits took |
//! | [`meter`] | knowing by a counter cheaper than the clock that a moment has not passed |
//! | [`uuid7`] | UUIDv7, strictly increasing within one generator |
//! | [`uuid1`] | the time in a UUIDv1 |
//! | [`picture`] | an ID drawn as text for a person |
//! | [`plan`] | which layout to choose, and which wider one to go on with |
//!
//! Units are in the names: `_ms` and `_ns` count from the Unix epoch unless they are durations, a
//! *tick* counts a layout's time unit from the layout's epoch, and a *position* is
//! `tick << sequence_bits | sequence`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod block;
pub mod clock;
pub mod frontier;
pub mod histogram;
pub mod layout;
pub mod layout_text;
pub mod line;
pub mod meter;
pub mod opening;
pub mod pace;
pub mod picture;
pub mod plan;
pub mod presets;
pub mod reservation;
pub mod uuid1;
pub mod uuid7;
