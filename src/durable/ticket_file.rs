//! Numbers that a clean stop has put aside ([`id_gen_core::ticket::aside`]): in a file that `pg_basebackup` and `pg_rewind`
//! leave out, and that says nothing in any other directory or on another timeline.
//!
//! **Locking.** Whoever reads or writes it holds the reservation's write lock.

use id_gen_core::planted::Fault;
use id_gen_core::ticket::aside::{self, Aside, TICKET_FILE};

use crate::durable::{file, place};
use crate::error::ticket::AsideLost;

const TEMPORARY: &str = "id_gen/pgsql_tmp_tickets_writing";

/// What the file says, which is removed: nobody can have the same again, not even after a crash. One of another directory
/// or timeline says nothing.
///
/// # Errors
/// If its numbers must not be used, or are not known.
pub fn take() -> Result<Vec<Aside>, AsideLost> {
    let Some(bytes) = file::read(TICKET_FILE)? else { return Ok(Vec::new()) };
    let own = place::own()?;
    if !Fault::AsideUsedTwice.is_planted() {
        file::remove(TICKET_FILE)?;
    }
    let (place, asides) = aside::decode(&bytes).map_err(AsideLost::Damage)?;
    Ok(if place == own { asides } else { Vec::new() })
}

/// Makes durable what is put aside.
///
/// # Errors
/// If that fails; the file may say it or not.
pub fn write(asides: &[Aside]) -> Result<(), AsideLost> {
    let place = place::own()?;
    file::make_directory_durably()?;
    file::replace(TEMPORARY, TICKET_FILE, aside::encode(&place, asides).as_bytes())?;
    Ok(())
}
