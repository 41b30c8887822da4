//! What an administrator's session asks of the registry: to see the fleet, to make one, to release a number, to tell
//! that the registry was restored.

use std::time::Duration;

use id_gen_core::fleet::store::{Keys, KeysError};
use id_gen_core::fleet::{Grant, GrantState, Meta, Number, Registry as _};
use id_gen_core::time::unix_ms;

use crate::error::{Error, Reason};
use crate::fleet::connection::{self, Connection, Registry};
use crate::os::{clock, random};
use crate::settings;

/// How long a command waits for one request, and for all of its requests.
const REQUEST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a release is tried where the holder renews its grant between the reading and the writing.
const TRIES: usize = 20;

/// The fleet and all numbers that were ever held.
///
/// # Errors
/// If there is no fleet, or the registry has no answer.
pub fn list() -> Result<(Meta, Vec<(Number, Grant)>), Error> {
    ask(|registry| {
        let keys = registry.fleet()?;
        let grants = keys.list()?.grants;
        Ok((*keys.meta(), grants))
    })
}

/// Makes a fleet; returns the one that there is, if there is one.
///
/// # Errors
/// As for [`list`].
pub fn create(meta: Meta) -> Result<Option<Meta>, Error> {
    ask(move |registry| {
        let Some((store, fleet)) = registry.store() else { return Err(KeysError::NoFleet) };
        Keys::create(store, fleet, &meta)
    })
}

/// Releases a number whose holder is gone for good. Its bound stays: until then nobody takes it. Returns that bound, in
/// Unix milliseconds; `None` if nobody holds it.
///
/// # Errors
/// As for [`list`].
pub fn release(number: Number) -> Result<Option<i64>, Error> {
    let mut tags = [0; TRIES];
    random::fresh(&mut tags)?;
    ask(move |registry| {
        let keys = registry.fleet()?;
        for tag in tags {
            let Some(held) = keys.read(number)?.filter(|it| it.state == GrantState::Held) else {
                return Ok(None);
            };
            let released = Grant { state: GrantState::Released, tag, ..held.clone() };
            if keys.swap(number, Some(&held), &released)?.is_ok() {
                return Ok(Some(held.until_ms));
            }
        }
        Err(KeysError::Store(connection::no_answer()))
    })
}

/// Tells the fleet that its registry was restored: numbers acquired from now on make IDs above all that any server may
/// make that the registry has forgotten. Returns from which Unix millisecond on.
///
/// # Errors
/// As for [`list`].
pub fn restored() -> Result<i64, Error> {
    let now_ms = unix_ms(clock::wall_ns());
    ask(move |registry| {
        let keys = registry.fleet()?;
        let floor_ms = now_ms.saturating_add(keys.meta().terms.forgotten_ms());
        keys.raise_floor(floor_ms)
    })
}

fn ask<T: Send + 'static>(
    job: impl FnOnce(&mut Registry) -> Result<T, KeysError> + Send + 'static,
) -> Result<T, Error> {
    let settings = settings::registry::current().ok_or(Reason::NoRegistry)?;
    let trouble = |error: KeysError| Error::from(Reason::Fleet((&error).into()));
    let mut connection =
        Connection::new(&settings, REQUEST).map_err(|error| Reason::NoThread(error.to_string()))?;
    match connection.ask(PATIENCE, job) {
        Ok(answer) => answer.map_err(trouble),
        Err(error) => Err(trouble(KeysError::Store(error))),
    }
}
