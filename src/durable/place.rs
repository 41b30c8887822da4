//! What this server's own files are about ([`id_gen_core::kept_file`]), and the identity of their directory.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, UNIX_EPOCH};

use id_gen_core::directory::Directory;
use id_gen_core::kept_file::Place;

use crate::durable::file::{DATA_DIRECTORY, DIRECTORY};
use crate::pg::server;

/// This data directory, on this timeline. Only for a server that has left recovery.
///
/// # Errors
/// If the directory can't be looked at.
pub fn own() -> io::Result<Place> {
    let directory = fs::metadata(DATA_DIRECTORY)?;
    // A device may have another number after a boot, so that counts only where nothing better is known.
    Ok(Place {
        system_identifier: server::system_identifier(),
        timeline: server::timeline(),
        inode: directory.ino(),
        origin: created(&directory).map_or(directory.dev().into(), |created| created.as_nanos()),
    })
}

/// The directory of the server's files, if it exists. Unlike the data directory it is new after all files were replaced by
/// those of a backup.
///
/// # Errors
/// If the directory can't be looked at.
pub fn directory() -> io::Result<Option<Directory>> {
    found(DIRECTORY)
}

/// The identity of the file or directory at a path, if there is one.
///
/// # Errors
/// If it cannot be looked at.
pub fn found(path: &str) -> io::Result<Option<Directory>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => Ok(Some(identity(&found?))),
    }
}

/// The identity of a directory or a file, which its copies do not have.
pub fn identity(of: &Metadata) -> Directory {
    let created_ns = created(of).and_then(|created| u64::try_from(created.as_nanos()).ok());
    Directory { inode: of.ino(), created_ns }
}

/// When a directory or a file was created, since the Unix epoch, if its file system records that.
fn created(of: &Metadata) -> Option<Duration> {
    let created = of.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    // Some file systems report the epoch where they record no time.
    (!created.is_zero()).then_some(created)
}
