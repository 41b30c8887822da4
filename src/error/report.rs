//! Raising errors, and writing their words to the log without raising them.

use id_gen_base::error::Message;
pub use id_gen_base::error::raise::tell;
use id_gen_base::error::raise::{self, Report};
use id_gen_core::clock::UnloggedSteps;
use pgrx::prelude::*;

use crate::error::log_limit;
use crate::error::messages::Error;

impl Report for Error {
    fn message(&self) -> Message {
        self.message()
    }

    fn note(&self, primary: &str) {
        log_limit::note_raised(self.reason().counter(), primary);
    }
}

/// Raises an error, in no function of ours.
pub fn raise(error: Error) -> ! {
    raise::raise(&error)
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
