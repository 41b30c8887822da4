//! Which shards this server has, on disk ([`id_gen_core::shard_file`]): in a file that `pg_basebackup` and `pg_rewind` leave
//! out, as the one of the server's number, and that says nothing in any other directory, on another timeline, or when an
//! earlier one is put back.
//!
//! **Locking.** Whoever writes it holds the reservation's write lock.

use std::{fs, io};

use id_gen_core::kept_file::{Damage, Place};
use id_gen_core::layout::Layout;
use id_gen_core::originals::{Claim, Original, Originals};
use id_gen_core::shard_file::{self, Entry, Holding, SHARD_FILE};

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
    let Some((bytes, own)) = read_bytes().map_err(|error| FileError::from(&error))? else {
        return Ok(Found::Absent);
    };
    Ok(match shard_file::decode(&bytes) {
        Ok((place, entries)) if place.is_same(&own) => Found::Own(entries),
        Ok((_, entries)) => Found::Foreign(entries),
        Err(damage) => Found::Unusable(damage),
    })
}

/// The bytes of the file, if there is one, and the place that this server would write into it now.
fn read_bytes() -> io::Result<Option<(Vec<u8>, Place)>> {
    let Some(bytes) = file::read(SHARD_FILE)? else { return Ok(None) };
    Ok(place::origin(SHARD_FILE)?.map(|origin| (bytes, place::own(origin))))
}

/// The shards of the server that this directory is a copy of, as long as the file is that server's. A file that cannot be read
/// lists nothing here: with it, any new number of this server is refused.
pub fn of_original(layout: Layout) -> Originals {
    let Ok(Some((bytes, own))) = read_bytes() else { return Originals::NONE };
    let Ok((place, entries)) = shard_file::decode(&bytes) else { return Originals::NONE };
    if place.origin.directory.is_same(&own.origin.directory) {
        return Originals::NONE;
    }
    entries.iter().fold(Originals::NONE, |all, entry| {
        let original = Original { layout, number: entry.number };
        match entry.holding {
            Holding::Declared => all.with(original, Claim::Assigned),
            Holding::Fleet => all.with(original, Claim::Granted),
            Holding::Released => all,
        }
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
