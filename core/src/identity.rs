//! Who a server is within its IDs: its worker and datacenter number, where it has them from, and
//! until when they are its own.

use crate::fleet::{ActiveGrant, Number};
use crate::layout::{Layout, RangeError};
use crate::planted::Fault;

/// Who a server is within its IDs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The worker number, if the server has one.
    pub worker: Option<u32>,
    /// The datacenter number.
    pub datacenter: u32,
    /// Where the numbers come from.
    pub source: IdentitySource,
    /// No ID of an earlier Unix millisecond may be made with them; `None` if nobody else ever had them.
    pub first_ms: Option<i64>,
    /// No ID of this Unix millisecond or later may be made with them; `None` if they are the
    /// server's own for good.
    pub valid_until_ms: Option<i64>,
}

/// Where a server has its numbers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// From `id_gen.worker_id` and `id_gen.datacenter_id`.
    Setting,
    /// From the fleet's registry.
    Registry,
}

/// Why a server can't generate with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// It has no worker number.
    Unset,
    /// A number does not fit its layout.
    Range(RangeError),
}

impl Identity {
    /// No numbers: nothing can be generated.
    pub const NONE: Identity = Identity {
        worker: None,
        datacenter: 0,
        source: IdentitySource::Setting,
        first_ms: None,
        valid_until_ms: None,
    };

    /// A server with a fleet that has no number at present.
    pub const WITHOUT_GRANT: Identity =
        Identity { source: IdentitySource::Registry, ..Identity::NONE };

    /// A server whose number comes from a fleet's registry.
    pub const fn granted(grant: &ActiveGrant) -> Identity {
        let ActiveGrant { number: Number { datacenter, worker }, first_ms, until_ms, .. } = *grant;
        Identity {
            worker: Some(worker),
            datacenter,
            source: IdentitySource::Registry,
            first_ms: Some(first_ms),
            valid_until_ms: Some(until_ms),
        }
    }

    /// Its numbers, if it has a worker number.
    pub fn number(&self) -> Option<Number> {
        self.worker.map(|worker| Number { datacenter: self.datacenter, worker })
    }

    /// Until when a registry has granted the numbers, if it has: one that was only asked for them may not know of them.
    pub fn granted_until_ms(&self) -> Option<i64> {
        self.valid_until_ms.filter(|_| self.first_ms.is_some())
    }

    /// Whether both make IDs with the same node's bits.
    pub fn same_node(&self, other: &Identity) -> bool {
        (self.worker, self.datacenter) == (other.worker, other.datacenter)
    }

    /// Whether IDs go on with the other one as they did: only the end of the right to them may differ.
    pub fn goes_on_as(&self, other: &Identity) -> bool {
        self.same_node(other) && self.first_ms == other.first_ms
    }

    /// As much of a reservation as may be used with these numbers, in Unix milliseconds: it may have been planned before
    /// they had a bound.
    pub fn bounded_ms(&self, reserved_until_ms: i64) -> i64 {
        if Fault::GrantBoundIgnored.is_planted() {
            return reserved_until_ms;
        }
        reserved_until_ms.min(self.valid_until_ms.unwrap_or(i64::MAX))
    }

    /// The node's bits in every ID of a layout.
    ///
    /// # Errors
    /// If there is no worker number, or a number does not fit.
    pub fn node_bits(&self, layout: &Layout) -> Result<u64, IdentityError> {
        let worker = self.worker.ok_or(IdentityError::Unset)?;
        layout.node_bits(self.datacenter.into(), worker.into()).map_err(IdentityError::Range)
    }
}
