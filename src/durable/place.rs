//! The identity of this server's files and of their directory, which their copies do not have ([`id_gen_core::directory`]),
//! and writing files that have it in them.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, UNIX_EPOCH};

use id_gen_core::directory::{Directory, Origin};
use id_gen_core::kept_file::Place;

use crate::durable::file::{self, DIRECTORY};
use crate::pg::server;

/// What a file of this server's is about, on this timeline. Only for a server that has left recovery.
pub fn own(origin: Origin) -> Place {
    Place { system_identifier: server::system_identifier(), timeline: server::timeline(), origin }
}

/// Where the file at a path is, if there is one.
///
/// # Errors
/// If it cannot be looked at.
pub fn origin(path: &str) -> io::Result<Option<Origin>> {
    let (directory, file) = (directory()?, found(path)?);
    Ok(directory.zip(file).map(|(directory, file)| Origin { directory, file: Some(file) }))
}

/// A file that is there for a moment.
const SETTLING: &str = "id_gen/pgsql_tmp_settling";

/// How often a file is written: both of what may differ afterwards is known the next time.
const TRIES: usize = 3;

/// Puts a file in place of another, durably, with bytes that name where it is written. The directory has to exist.
///
/// # Errors
/// If that fails; the file may be the new or the old.
pub fn replace(temporary: &str, path: &str, bytes: impl Fn(Origin) -> Vec<u8>) -> io::Result<()> {
    let mut is_same_renamed = true;
    for _ in 0..TRIES {
        let directory = directory()?.ok_or(io::ErrorKind::NotFound)?;
        let mut origin = Origin { directory, file: None };
        let old = file::replace_by(temporary, path, |file| {
            origin.file = is_same_renamed.then(|| identity(file));
            Ok(bytes(origin))
        })?;
        if let Some(old) = old {
            // Who gives it back its name finds that it was written elsewhere.
            let bytes = bytes(Origin { directory, file: Some(Directory::NOWHERE) });
            old.write_all_at(&bytes, 0)?;
            old.set_len(bytes.len() as u64)?;
        }
        let found = self::origin(path)?;
        // On overlayfs the first write moves a directory of an image to the container's layer, where it is another one.
        if found.is_some_and(|found| !found.directory.is_same(&directory)) {
            continue;
        }
        // Some file systems of FUSE number a file by its name.
        if found.is_none_or(|found| origin.is_same(&found)) {
            break;
        }
        is_same_renamed = false;
    }
    Ok(())
}

/// Lets the directory have the identity that it keeps, before that is compared. The first change moves a directory of a
/// lower layer of overlayfs to the upper one, where it is another directory: until then a copy of that kind shows the
/// identity of its original.
///
/// # Errors
/// If the directory can't be written to. Its identity says nothing then.
pub fn settle() -> io::Result<()> {
    match OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(SETTLING) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened.and_then(|_| match fs::remove_file(SETTLING) {
            // Another process has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }),
    }
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
fn identity(of: &Metadata) -> Directory {
    let created_ns = created(of).and_then(|created| u64::try_from(created.as_nanos()).ok());
    Directory { inode: of.ino(), created_ns }
}

/// When a directory or a file was created, since the Unix epoch, if its file system records that.
fn created(of: &Metadata) -> Option<Duration> {
    let created = of.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    // Some file systems report the epoch where they record no time.
    (!created.is_zero()).then_some(created)
}
