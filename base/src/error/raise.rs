//! Raising errors.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::fields::Message;
use crate::pg::schema;

/// An error that goes up as a value, until it is raised.
pub trait Report {
    /// The error in PostgreSQL's parts.
    fn message(&self) -> Message;

    /// Called before it is raised with this primary message.
    fn note(&self, _primary: &str) {}
}

/// Raises an error, in no function of ours.
pub fn raise(error: &impl Report) -> ! {
    raise_from(error, pg_sys::InvalidOid)
}

/// Raises an error out of one of our functions. The hint names its schema where that has to be typed.
pub fn raise_from(error: &impl Report, function: pg_sys::Oid) -> ! {
    let message = error.message();
    error.note(&message.primary);
    tell(message, PgLogLevel::ERROR, function);
    unreachable!("an ERROR does not return")
}

/// Tells the client of one of our functions something. The hint names its schema where that has to be typed.
pub fn tell(message: Message, level: PgLogLevel, function: pg_sys::Oid) {
    let hint = schema::qualified_for_caller(&message.hint, function);
    Message { hint, ..message }.into_report().report(level);
}
