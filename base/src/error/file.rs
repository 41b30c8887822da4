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
        FileError { kind: error.kind(), text: error.to_string() }
    }
}

impl FileError {
    /// What the operating system said.
    pub fn text(&self) -> &str {
        &self.text
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
