//! Which shards this server has, on disk ([`id_gen_core::shard_file`]): in a file that `pg_basebackup` and `pg_rewind` leave
//! out, as the one of the server's number, and that says nothing in any other directory or on another timeline.
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
    /// One that is about another directory or timeline.
    Foreign,
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
    let read = || Ok((file::read(SHARD_FILE)?, place::own()?));
    let (Some(bytes), own) = read().map_err(|error: io::Error| FileError::from(&error))? else {
        return Ok(Found::Absent);
    };
    Ok(match shard_file::decode(&bytes) {
        Ok((place, entries)) if place == own => Found::Own(entries),
        Ok(_) => Found::Foreign,
        Err(damage) => Found::Unusable(damage),
    })
}

/// Makes durable which shards this server has.
///
/// # Errors
/// If that fails; the file may say the new or the old.
pub fn write(entries: &[Entry]) -> Result<(), FileError> {
    let written = place::own().and_then(|place| {
        file::make_directory_durably()?;
        file::replace(TEMPORARY, SHARD_FILE, shard_file::encode(&place, entries).as_bytes())
    });
    written.map_err(|error| (&error).into())
}
