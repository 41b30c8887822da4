//! What this server's own files are about ([`id_gen_core::kept_file`]).

use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;
use std::{fs, io};

use id_gen_core::kept_file::Place;

use crate::durable::file::DATA_DIRECTORY;
use crate::pg::server;

/// This data directory, on this timeline. Only for a server that has left recovery.
///
/// # Errors
/// If the directory can't be looked at.
pub fn own() -> io::Result<Place> {
    let directory = fs::metadata(DATA_DIRECTORY)?;
    // A device may have another number after a boot, so that counts only where nothing better is known.
    let made = directory.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(Place {
        system_identifier: server::system_identifier(),
        timeline: server::timeline(),
        inode: directory.ino(),
        origin: made.map_or(directory.dev().into(), |made| made.as_nanos()),
    })
}
