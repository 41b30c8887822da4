//! Which shards this server has, on disk ([`id_gen_core::shard_file`]): in a file that `pg_basebackup` and `pg_rewind` leave
//! out, as the one of the server's number, and that says nothing in any other directory, on another timeline, or when an
//! earlier one is put back.
//!
//! **Locking.** Whoever writes it holds the reservation's write lock.

use std::{fs, io};

use id_gen_core::kept_file::Damage;
use id_gen_core::shard_file::{self, Entry, SHARD_FILE};

use crate::durable::{file, place};
use crate::error::FileError;

const TEMPORARY: &str = "id_gen/pgsql_tmp_shards_writing";

/// What was found.
#[derive(Debug)]
pub enum Found {
    /// No file: this server has no shard.
    Absent,
    /// One that is about another directory or timeline, or that was written over before it was put back.
    Foreign(Vec<Entry>),
    /// This server's.
    Own(Vec<Entry>),
    /// One that can't be used.
    Unusable(Damage),
}

/// Whether there is a file.
pub fn exists() -> bool {
    fs::exists(SHARD_FILE).unwrap_or(true)
}

/// Reads the file.
///
/// # Errors
/// If it can't be read.
pub fn read() -> Result<Found, FileError> {
    let read = || -> io::Result<_> {
        let Some(bytes) = file::read(SHARD_FILE)? else { return Ok(None) };
        Ok(place::origin(SHARD_FILE)?.map(|origin| (bytes, place::own(origin))))
    };
    let Some((bytes, own)) = read().map_err(|error| FileError::from(&error))? else {
        return Ok(Found::Absent);
    };
    Ok(match shard_file::decode(&bytes) {
        Ok((place, entries)) if place.is_same(&own) => Found::Own(entries),
        Ok((_, entries)) => Found::Foreign(entries),
        Err(damage) => Found::Unusable(damage),
    })
}

/// Makes durable which shards this server has.
///
/// # Errors
/// If that fails; the file may say the new or the old.
pub fn write(entries: &[Entry]) -> Result<(), FileError> {
    let written = file::make_directory_durably().and_then(|()| {
        place::replace(TEMPORARY, SHARD_FILE, |origin| {
            shard_file::encode(&place::own(origin), entries).into_bytes()
        })
    });
    written.map_err(|error| (&error).into())
}
