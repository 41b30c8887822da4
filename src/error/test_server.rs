//! The catalogue of what is wrong with a server for tests, or with one that is not.

use id_gen_core::test_server::MARK_FILE;
use id_gen_core::time::format_ms;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::fields::Message;
use crate::error::file::FileError;
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

/// Unsets the setting wherever a file sets it: one that is only reset would be read from postgresql.conf again.
pub const UNSET: &str = "ALTER SYSTEM SET id_gen.test_start = '';";
const NEW_DIRECTORY: &str = "Restore the file; or make a new data directory by initdb, and load a dump of this one into it.";

/// Where else it may be set.
pub const ON_COMMAND_LINE: &str = "also on the server's command line if it is there";

fn for_real() -> String {
    format!(
        "For IDs that are made for real, unset it, {ON_COMMAND_LINE}, and restart the server: {UNSET} For tests, make a new data directory by initdb."
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
                "invalid value for parameter \"id_gen.test_start\"",
            )
            .detail("The server was started with it. It is a time with its offset from UTC, such as +00, or Z.")
            .hint("Set a time, then restart the server: ALTER SYSTEM SET id_gen.test_start = '2024-06-01 00:00:00+00';"),
            Trouble::NotPreloaded => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "a server for tests must load id_gen through shared_preload_libraries",
            )
            .detail("The setting id_gen.test_start is not empty, and the library was loaded after the server started.")
            .hint(hint::preload()),
            Trouble::Standby => Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "a standby cannot be a server for tests")
                .detail("The setting id_gen.test_start is not empty, and this server is in recovery.")
                .hint(for_real()),
            Trouble::Fleet => Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "a server for tests cannot be in a fleet")
                .detail("The settings id_gen.test_start and id_gen.registry are both not empty.")
                .hint("Unset one of them, and restart the server: ALTER SYSTEM SET id_gen.registry = '';"),
            Trouble::RealUse(sign) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this data directory cannot be that of a server for tests",
            )
            .detail(format!("{sign}; IDs for tests could repeat those that were made for real."))
            .hint(for_real()),
            Trouble::Present { now_ms } => Message::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "the test clock has reached the current time",
            )
            .detail(format!("It shows {}; from that time on, only servers that are not in test mode generate IDs.", format_ms(*now_ms)))
            .hint("Begin earlier, in a new data directory by initdb: ALTER SYSTEM SET id_gen.test_start = '2024-06-01 00:00:00+00';"),
            Trouble::ForTests { until_ms } => {
                Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "this data directory is that of a server for tests")
                    .detail(format!("Its IDs of times up to {} are the same in each run, and so could be elsewhere.", format_ms(*until_ms)))
                    .hint("Load a dump into a new data directory; or continue with tests; or have a superuser end test mode permanently, so that IDs start at the clock, above those of the tests: SELECT id_gen_test_mode_end();")
            }
            Trouble::IsForTests => Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "this server is for tests")
                .detail("The setting id_gen.test_start was not empty when it was started.")
                .hint(format!("Unset it, {ON_COMMAND_LINE}, and restart the server; then call again: {UNSET}")),
            Trouble::Unreadable(error) => Message::new(
                error.sqlstate(),
                format!("could not determine whether the data directory is in test mode: {}", error.text()),
            )
            .detail(format!("The file \"{MARK_FILE}\" says so."))
            .hint("Allow the server's operating-system user to read the data directory. The next call retries."),
            Trouble::Unwritten(error) => Message::new(
                error.sqlstate(),
                format!("could not write file \"{MARK_FILE}\": {}", error.text()),
            )
            .detail("It has to say that the data directory is for tests before IDs are made there.")
            .hint("Free disk space, or allow the server's operating-system user to write to directory \"id_gen\" in the data directory. The next call retries."),
            Trouble::Damaged => {
                Message::new(Code::ERRCODE_DATA_CORRUPTED, format!("file \"{MARK_FILE}\" is damaged"))
                    .detail("It says that the data directory is for tests, and up to which time.")
                    .hint(NEW_DIRECTORY)
            }
            Trouble::OtherSystem { found } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("file \"{MARK_FILE}\" belongs to another database cluster"),
            )
            .detail(format!("Its system identifier is {found}, not this server's."))
            .hint(NEW_DIRECTORY),
        }
    }
}
