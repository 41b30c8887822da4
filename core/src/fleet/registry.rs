//! What a registry can do: read, list, compare and swap. Each kind of registry implements [`Registry`].

use crate::fleet::grant::{Grant, Number};

/// All that a registry knows of a fleet's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Listing {
    /// No number that is acquired now may be used for IDs of an earlier time: set when somebody noticed that
    /// the registry was restored.
    pub floor_ms: i64,
    /// The numbers that were ever held, in order.
    pub grants: Vec<(Number, Grant)>,
    /// The numbers that are shards, or were, in order: no server may take one.
    pub shards: Vec<Number>,
}

/// A request to the registry. One is made every few seconds, so its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// The floor and all grants.
    List,
    /// Raise the floor to at least this.
    RaiseFloor {
        /// Unix milliseconds.
        floor_ms: i64,
    },
    /// One grant.
    Read(Number),
    /// Replace a grant, if it is still what it was.
    Swap {
        /// Which.
        number: Number,
        /// What it was; `None` if it was never held.
        expected: Option<Grant>,
        /// What it should be.
        new: Grant,
    },
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To [`Request::List`].
    Listing(Listing),
    /// To [`Request::RaiseFloor`]: what the floor is now.
    Floor {
        /// Unix milliseconds.
        floor_ms: i64,
    },
    /// To [`Request::Read`], and to a [`Request::Swap`] that found another value: the value.
    Found(Option<Grant>),
    /// To a [`Request::Swap`] that took place.
    Swapped,
}

/// Where grants are kept. Every operation is atomic and linearizable: it sees all that was acknowledged before.
pub trait Registry {
    /// Why an operation failed. It may have taken place nevertheless, or do so later.
    type Error;

    /// The floor and all grants.
    ///
    /// # Errors
    /// If no answer came.
    fn list(&mut self) -> Result<Listing, Self::Error>;

    /// The floor.
    ///
    /// # Errors
    /// As for [`Registry::list`].
    fn floor_ms(&mut self) -> Result<i64, Self::Error>;

    /// Raises the floor to at least this, and returns what it is then.
    ///
    /// # Errors
    /// As for [`Registry::list`].
    fn raise_floor(&mut self, floor_ms: i64) -> Result<i64, Self::Error>;

    /// One grant.
    ///
    /// # Errors
    /// As for [`Registry::list`].
    fn read(&mut self, number: Number) -> Result<Option<Grant>, Self::Error>;

    /// Replaces a grant if it equals `expected` in all its parts; otherwise returns what it is.
    ///
    /// # Errors
    /// As for [`Registry::list`].
    fn swap(
        &mut self,
        number: Number,
        expected: Option<&Grant>,
        new: &Grant,
    ) -> Result<Result<(), Option<Grant>>, Self::Error>;
}

/// Sends a request.
///
/// # Errors
/// If no answer came.
pub fn ask<R: Registry>(registry: &mut R, request: &Request) -> Result<Answer, R::Error> {
    Ok(match request {
        Request::List => Answer::Listing(registry.list()?),
        Request::RaiseFloor { floor_ms } => {
            Answer::Floor { floor_ms: registry.raise_floor(*floor_ms)? }
        }
        Request::Read(number) => Answer::Found(registry.read(*number)?),
        Request::Swap { number, expected, new } => {
            match registry.swap(*number, expected.as_ref(), new)? {
                Ok(()) => Answer::Swapped,
                Err(found) => Answer::Found(found),
            }
        }
    })
}
