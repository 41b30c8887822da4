//! Raising errors, and writing their words to the log without raising them.

use id_gen_core::clock::UnloggedSteps;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::fields::Message;
use crate::error::log_limit;
use crate::error::messages::Error;
use crate::pg::schema;

/// Raises an error, in no function of ours.
pub fn raise(error: Error) -> ! {
    raise_from(error, pg_sys::InvalidOid)
}

/// Raises an error out of one of our functions. The hint names its schema where that has to be typed.
pub fn raise_from(error: Error, function: pg_sys::Oid) -> ! {
    let message = error.message();
    let hint = schema::qualified_for_caller(&message.hint, function);
    log_limit::note_raised(error.reason().counter(), &message.primary);
    Message { hint, ..message }.into_report().report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// Tells the client of one of our functions something. The hint names its schema where that has to be typed.
pub fn tell(message: Message, level: PgLogLevel, function: pg_sys::Oid) {
    let hint = schema::qualified_for_caller(&message.hint, function);
    Message { hint, ..message }.into_report().report(level);
}

/// Writes the words of an error to the log.
pub fn log(error: &Error, level: PgLogLevel) {
    error.message().into_report().report(level);
}

/// Writes a line to the log.
pub fn log_line(line: impl Into<String>) {
    ereport!(PgLogLevel::LOG, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, line.into());
}

/// Writes the line about a clock that was set.
#[cold]
pub fn log_clock_steps(steps: &UnloggedSteps) {
    log_line(format!("id_gen: the clock was {steps}"));
}
