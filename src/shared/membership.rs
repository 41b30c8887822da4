//! What the registrar knows of this server's place in its fleet, for all processes to see.
//!
//! **Locking.** Part of the state, under its lock. The registrar alone writes it.

use id_gen_core::fleet::Number;
use id_gen_core::fleet::member::{ActiveGrant, Phase, Witness};
use id_gen_core::fleet::store::WeaknessKind;

use crate::error::fleet::{Text, Trouble};

/// What happened since the server started.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetCounts {
    /// Renewals that were acknowledged.
    pub renewals: u64,
    /// Requests without an answer, or with one that was no use.
    pub failures: u64,
    /// Numbers acquired, one's own after a restart included.
    pub acquisitions: u64,
    /// Numbers that another server has taken, or an administrator has released.
    pub fencings: u64,
    /// How often the registry was found to have gone back in time.
    pub restorations: u64,
    /// How long the last request took.
    pub last_request_ns: u64,
    /// How long the slowest took.
    pub slowest_request_ns: u64,
}

/// This server's place in its fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Membership {
    /// The number that the registry acknowledged, whether it may be used by now or not, and up to which Unix millisecond.
    pub acknowledged: Option<(Number, i64)>,
    /// The number that the registry was asked for first since then, and up to which Unix millisecond: it may have
    /// acknowledged that without this server's knowledge.
    pub requested: Option<(Number, i64)>,
    /// Which IDs it may make.
    pub active_grant: Option<ActiveGrant>,
    /// The nonce of the acquisition that is acknowledged.
    pub nonce: Option<u128>,
    /// This server's ID in the fleet, the same with every number.
    pub server_id: u128,
    /// How long a shard is waited with that the server has just taken, in milliseconds.
    pub shard_wait_ms: u64,
    /// What the memory of the boot should say, but for how far IDs are reserved.
    pub witness: Option<Witness>,
    /// How far the protocol is; `None` as long as the fleet was not found.
    pub phase: Option<Phase>,
    /// What is wrong now.
    pub trouble: Option<Trouble>,
    /// What endangers the registry, with the figures.
    pub weakness: Option<(WeaknessKind, Text)>,
    /// When the registry answered last, in Unix nanoseconds.
    pub answered_at_ns: Option<u64>,
    /// Statistics.
    pub counts: FleetCounts,
}
