//! An error in PostgreSQL's parts.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Where PostgreSQL reports that errors of the catalogue come from.
pub const FILE_NAME: &str = file!();

/// An error in PostgreSQL's parts.
#[derive(Clone, Debug)]
pub struct Message {
    /// The SQLSTATE.
    pub sqlstate: PgSqlErrorCode,
    /// The fact, in one line.
    pub primary: String,
    /// The figures.
    pub detail: Option<String>,
    /// The way out, which every error has.
    pub hint: String,
}

/// A message that has no hint yet.
pub struct WithoutHint {
    sqlstate: PgSqlErrorCode,
    primary: String,
    detail: Option<String>,
}

impl Message {
    /// The primary message of an error; its hint has to follow.
    #[allow(clippy::new_ret_no_self)] // A message without a hint is none.
    pub fn new(sqlstate: PgSqlErrorCode, primary: impl Into<String>) -> WithoutHint {
        WithoutHint { sqlstate, primary: primary.into(), detail: None }
    }

    /// What pgrx reports it with.
    pub fn into_report(self) -> ErrorReport {
        let Message { sqlstate, primary, detail, hint } = self;
        let report = ErrorReport::new(sqlstate, primary, "").set_hint(hint);
        match detail {
            Some(detail) => report.set_detail(detail),
            None => report,
        }
    }
}

impl WithoutHint {
    /// Adds the figures.
    pub fn detail(self, detail: impl Into<String>) -> WithoutHint {
        WithoutHint { detail: Some(detail.into()), ..self }
    }

    /// Adds the way out.
    pub fn hint(self, hint: impl Into<String>) -> Message {
        let WithoutHint { sqlstate, primary, detail } = self;
        Message { sqlstate, primary, detail, hint: hint.into() }
    }
}

/// A number of things: `1 row`, `2 rows`.
pub fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// An error of `core` as a sentence of DETAIL. The name of a parameter or an argument stays in lower case.
pub fn sentence(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    if text.split(' ').next().is_some_and(|word| word.contains(['_', '.', ':'])) {
        return format!("{text}.");
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).chain(std::iter::once('.')).collect()
    })
}
