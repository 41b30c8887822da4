//! Why a call fails, in PostgreSQL's words.

use id_gen_base::error::{Message, Report};
use id_gen_base::settings::known::Unknown;

/// An error of a call, in PostgreSQL's parts.
pub struct Error(Message);

impl Report for Error {
    fn message(&self) -> Message {
        self.0.clone()
    }
}

impl From<Message> for Error {
    #[cold]
    fn from(message: Message) -> Error {
        Error(message)
    }
}

impl From<Unknown> for Error {
    #[cold]
    fn from(unknown: Unknown) -> Error {
        Error(unknown.message())
    }
}
