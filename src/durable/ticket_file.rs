//! Numbers that a clean stop has put aside ([`id_gen_core::ticket::aside`]): in a file that `pg_basebackup` and `pg_rewind`
//! leave out, and that says nothing in any other directory or on another timeline.
//!
//! **Locking.** Whoever reads or writes it holds the reservation's write lock.

use std::io;

use id_gen_core::ticket::aside::{self, Aside, TICKET_FILE};

use crate::durable::{file, place};
use crate::error::FileError;

const TEMPORARY: &str = "id_gen/pgsql_tmp_tickets_writing";

/// What the file says, which is removed: nobody can have the same again, not even after a crash. Of one that can't be used
/// nothing is left; its numbers are gaps.
///
/// # Errors
/// If it can't be read or removed. Its numbers must not be used then.
pub fn take() -> Result<Vec<Aside>, FileError> {
    let taken = || {
        let Some(bytes) = file::read(TICKET_FILE)? else { return Ok(None) };
        let own = place::own()?;
        file::remove(TICKET_FILE)?;
        Ok(Some((bytes, own)))
    };
    let Some((bytes, own)) = taken().map_err(|error: io::Error| FileError::from(&error))? else {
        return Ok(Vec::new());
    };
    Ok(match aside::decode(&bytes) {
        Ok((place, asides)) if place == own => asides,
        _ => Vec::new(),
    })
}

/// Makes durable what is put aside.
///
/// # Errors
/// If that fails; the file may say it or not.
pub fn write(asides: &[Aside]) -> Result<(), FileError> {
    let written = place::own().and_then(|place| {
        file::make_directory_durably()?;
        file::replace(TEMPORARY, TICKET_FILE, aside::encode(&place, asides).as_bytes())
    });
    written.map_err(|error| (&error).into())
}
