//! An error of a call that holds only its message, for extensions that never look into one.

use pgrx::prelude::PgSqlErrorCode;
use pgrx::spi;

use crate::error::{Message, Report};
use crate::settings::known::Unknown;

/// The message of a call that fails.
pub struct CallError(Message);

impl Report for CallError {
    fn message(&self) -> Message {
        self.0.clone()
    }
}

impl From<Message> for CallError {
    #[cold]
    fn from(message: Message) -> CallError {
        CallError(message)
    }
}

impl From<Unknown> for CallError {
    #[cold]
    fn from(unknown: Unknown) -> CallError {
        CallError(unknown.message())
    }
}

impl From<spi::Error> for CallError {
    #[cold]
    fn from(error: spi::Error) -> CallError {
        CallError(unread_catalogs(&error))
    }
}

/// A query on the catalogs that failed.
pub fn unread_catalogs(error: &spi::Error) -> Message {
    Message::new(
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!("could not read the catalogs: {error}"),
    )
    .hint("Run the statement again; if that does not help, report it.")
}
