//! The mark of a data directory that is for tests alone, `id_gen/test`: with it the server makes IDs for tests, and
//! without it for real ([`id_gen_core::test_server`]).
//!
//! **Locking.** Whoever writes it holds the reservation's write lock.

use std::fs;

use id_gen_core::reservation::{RESERVATION_FILE, UPGRADE_FILE};
use id_gen_core::shard_file;
use id_gen_core::startup::FIRST_TIMELINE;
use id_gen_core::test_server::{MARK_FILE, Mark};

use crate::durable::file::{self, TEMPORARY};
use crate::durable::{number_file, reservation_file};
use crate::error::Error;
use crate::error::test_server::Trouble;
use crate::pg::{logged_page, server};

/// The mark of this database cluster, if there is one.
///
/// # Errors
/// If it can't be read, is damaged, or is another cluster's.
pub fn read() -> Result<Option<Mark>, Error> {
    let found = file::read(MARK_FILE).map_err(|error| Trouble::Unreadable((&error).into()))?;
    let Some(text) = found else { return Ok(None) };
    let mark = std::str::from_utf8(&text).ok().and_then(Mark::decode).ok_or(Trouble::Damaged)?;
    let found = mark.system_identifier;
    if found != server::system_identifier() {
        return Err(Trouble::OtherSystem { found }.into());
    }
    Ok(Some(mark))
}

/// Up to which Unix millisecond IDs for tests were made, if this is known.
pub fn until_ms() -> Option<i64> {
    read().ok().flatten().map(|mark| mark.until_ms)
}

/// Makes the mark durable, with its bound, and the directory's own entry with it.
///
/// # Errors
/// If it can't be written.
pub fn write(until_ms: i64) -> Result<(), Error> {
    let mark = Mark { system_identifier: server::system_identifier(), until_ms };
    file::make_directory_durably()
        .and_then(|()| file::replace(TEMPORARY, MARK_FILE, mark.encode().as_bytes()))
        .map_err(|error| Trouble::Unwritten((&error).into()).into())
}

/// Removes the mark, durably.
///
/// # Errors
/// If it can't be removed.
pub fn remove() -> Result<(), Error> {
    file::remove(MARK_FILE).map_err(|error| Trouble::Unwritten((&error).into()).into())
}

/// What shows that IDs were made here for real, or on a server that this one was copied from. Only for a server that has
/// left recovery.
///
/// # Errors
/// If that can't be told.
pub fn real_use() -> Result<Option<&'static str>, Error> {
    let signs = [
        (reservation_file::ISSUED, "It has generated snowflakes"),
        (RESERVATION_FILE, "It has reserved snowflakes"),
        (number_file::NUMBER_FILE, "It has a worker ID from a fleet"),
        (shard_file::SHARD_FILE, "It has shards"),
        (UPGRADE_FILE, "It was upgraded with pg_upgrade"),
        (logged_page::PAGE_FILE, "It has a reservation in its write-ahead log"),
    ];
    for (file, sign) in signs {
        if fs::exists(file).map_err(|error| Error::from(Trouble::Unreadable((&error).into())))? {
            return Ok(Some(sign));
        }
    }
    let was_promoted = server::timeline() != FIRST_TIMELINE;
    Ok(was_promoted.then_some("It was promoted, or restored from a backup"))
}
