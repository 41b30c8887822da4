//! What the operating system says of a file, as PostgreSQL words it.

use std::io::ErrorKind;

use pgrx::prelude::PgSqlErrorCode as Code;

/// What the operating system said of a file.
#[derive(Clone, Debug)]
pub struct FileError {
    kind: ErrorKind,
    text: String,
}

impl From<&std::io::Error> for FileError {
    fn from(error: &std::io::Error) -> FileError {
        // Without the number that Rust adds: "Is a directory (os error 21)".
        let text = error.to_string();
        let words = match text.rsplit_once(" (os error ") {
            Some((words, _)) => words.to_owned(),
            None => text,
        };
        FileError { kind: error.kind(), text: words }
    }
}

impl FileError {
    /// What the operating system said.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is a directory in place of the file.
    pub const fn is_of_directory(&self) -> bool {
        matches!(self.kind, ErrorKind::IsADirectory)
    }

    /// As PostgreSQL's `errcode_for_file_access()`.
    pub const fn sqlstate(&self) -> Code {
        match self.kind {
            ErrorKind::NotFound => Code::ERRCODE_UNDEFINED_FILE,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::ERRCODE_DISK_FULL,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE
            }
            _ => Code::ERRCODE_IO_ERROR,
        }
    }
}
