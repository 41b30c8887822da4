//! The catalogue of what is wrong with a server for tests, or with one that is not.

use id_gen_base::error::{FileError, Message};
use id_gen_core::test_server::MARK_FILE;
use id_gen_core::time::format_ms;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::hint;

/// What is wrong.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The server is to be for tests, but the setting holds no time.
    InvalidStart,
    /// The server is to be for tests, but has not loaded the library when it started: a worker that starts later, at its own
    /// time, would move the clock.
    NotPreloaded,
    /// The server is to be for tests, but it is a standby.
    Standby,
    /// The server is to be for tests, and in a fleet.
    Fleet,
    /// The server is to be for tests, but its data directory was used for real, as this shows.
    RealUse(&'static str),
    /// The clock for tests, which shows this Unix millisecond, has come to the present.
    Present {
        /// The time.
        now_ms: i64,
    },
    /// The server makes IDs for real, but its data directory is for tests.
    ForTests {
        /// No ID for tests is of this Unix millisecond or later.
        until_ms: i64,
    },
    /// The server is for tests.
    IsForTests,
    /// The mark of the directory can't be read.
    Unreadable(FileError),
    /// It cannot be written or removed.
    Unwritten(FileError),
    /// It is no such file.
    Damaged,
    /// It is another cluster's.
    OtherSystem {
        /// The system identifier in it.
        found: u64,
    },
}

const NEW_DIRECTORY: &str =
    "Restore the file. Or create a new data directory with initdb, and load a dump of this one.";

/// The steps that unset the setting, before the last one. An empty value unsets it wherever a file sets it: one that is only
/// reset would be read from postgresql.conf again.
pub const UNSET: &str = "run: ALTER SYSTEM SET id_gen.test_start = ''; also remove it from the server's command line, restart the server,";

fn for_real() -> String {
    format!(
        "To generate unique IDs, {UNSET} and call again. For tests, create a new data directory with initdb."
    )
}

/// A value of the parameter that is refused, and why.
pub fn refused_start(text: &str, problem: &str) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"id_gen.test_start\": \"{text}\""),
    )
    .detail(problem)
    .hint("For example: ALTER SYSTEM SET id_gen.test_start = '2024-06-01 00:00:00+00';")
}

impl Trouble {
    /// The error in PostgreSQL's parts.
    pub fn message(&self) -> Message {
        match self {
            Trouble::InvalidStart => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "the server was started with an invalid id_gen.test_start",
            )
            .detail("The value must be a time with an offset from UTC, such as +00 or Z.")
            .hint("Set a time and restart the server: ALTER SYSTEM SET id_gen.test_start = '2024-06-01 00:00:00+00';"),
            Trouble::NotPreloaded => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "a server in test mode must load id_gen through shared_preload_libraries",
            )
            .detail("id_gen.test_start is set, but the library was loaded after the server started.")
            .hint(hint::preload()),
            Trouble::Standby => Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "a standby cannot be in test mode")
                .detail("id_gen.test_start is set, and this server is in recovery.")
                .hint(for_real()),
            Trouble::Fleet => Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "a server in test mode cannot be in a fleet")
                .detail("id_gen.test_start and id_gen.registry are both set.")
                .hint("Unset one of these and restart the server: ALTER SYSTEM SET id_gen.registry = '';"),
            Trouble::RealUse(sign) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this data directory cannot be used in test mode",
            )
            .detail(format!("{sign}. IDs of test mode could duplicate existing IDs."))
            .hint(for_real()),
            Trouble::Present { now_ms } => Message::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "the test clock has reached the current time",
            )
            .detail(format!("It shows {}. Test mode only generates IDs with times in the past.", format_ms(*now_ms)))
            .hint("Start at an earlier time, in a new data directory: ALTER SYSTEM SET id_gen.test_start = '2024-06-01 00:00:00+00';"),
            Trouble::ForTests { until_ms } => {
                Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "this data directory is in test mode")
                    .detail(format!("IDs up to the time {} are the same in each run, so other servers may have the same IDs.", format_ms(*until_ms)))
                    .hint("To continue testing, set id_gen.test_start again. For production, load a dump into a new data directory. Or, as a superuser, end test mode permanently, so that new IDs start at the clock: SELECT id_gen_test_mode_end();")
            }
            Trouble::IsForTests => Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "this server is in test mode")
                .detail("id_gen.test_start was set when the server started.")
                .hint(format!("To end test mode, {UNSET} and call this function again.")),
            Trouble::Unreadable(error) => Message::new(
                error.sqlstate(),
                format!("could not determine whether the data directory is in test mode: {}", error.text()),
            )
            .detail(format!("This is recorded in file \"{MARK_FILE}\"."))
            .hint(hint::make_readable(error, "that file in the data directory")),
            Trouble::Unwritten(error) => Message::new(
                error.sqlstate(),
                format!("could not write file \"{MARK_FILE}\": {}", error.text()),
            )
            .detail("The file must record test mode before the first ID is generated.")
            .hint("Free disk space, or allow the server's operating-system user to write to directory \"id_gen\" in the data directory. The next call retries."),
            Trouble::Damaged => {
                Message::new(Code::ERRCODE_DATA_CORRUPTED, format!("file \"{MARK_FILE}\" is damaged"))
                    .detail("The file records test mode and the time of its last IDs.")
                    .hint(NEW_DIRECTORY)
            }
            Trouble::OtherSystem { found } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("file \"{MARK_FILE}\" belongs to another database cluster"),
            )
            .detail(format!("The system identifier in the file is {found}, not this server's."))
            .hint(NEW_DIRECTORY),
        }
    }
}
