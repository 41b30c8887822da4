//! A fleet: servers that get their numbers from a registry, and can't make each other's IDs.
//!
//! A [`Grant`] in the registry says that a number belongs to one server, which makes no ID of the time
//! [`Grant::until_ms`] or later. Its holder moves that bound ahead of use, by a compare-and-swap of the whole
//! value, exactly as a server moves its reservation on disk ahead of use. Whoever takes the number over starts
//! at or above the bound. So a holder that was stopped, cut off or replaced can only use times that nobody
//! else ever will, whatever its clock shows and whoever holds the number now; no lease has to run out.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`grant`] | what the registry keeps for a number, and the terms of a fleet |
//! | [`meta`] | what makes a fleet |
//! | [`registry`] | what a registry can do |
//! | [`store`] | a registry made of keys and values |
//! | [`wire`] | a store behind a boundary that only bytes pass |
//! | [`driver`] | the functions of the library that has the stores |
//! | [`text`] | the grants and the fleet as texts |
//! | [`shard`] | which member has a shard, and how it gets it |
//! | [`values`] | what a fleet shares beside numbers: shards and tickets |
//! | [`member`] | what a server asks of a registry, and what the answers allow |
//!
//! Nothing here reads a clock, a network or a disk.

pub mod driver;
pub mod grant;
pub mod member;
pub mod meta;
pub mod registry;
pub mod shard;
pub mod store;
pub mod text;
pub mod values;
pub mod wire;

pub use grant::{Grant, GrantState, Number, Terms};
pub use member::{ActiveGrant, LocalInputs, Member};
pub use meta::Meta;
pub use registry::{Answer, Listing, Registry, Request, ask};
