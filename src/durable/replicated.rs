//! The bound of the reservation as the standbys of this server get it: with the write-ahead log, ahead of
//! every commit that may hold such an ID. Only a server that becomes a primary reads it.

use id_gen_core::replicated::{decode, encode};
use id_gen_core::startup::StoredRecord;

use crate::durable::reservation_file;
use crate::error::{Error, Reason};
use crate::pg::{logged_page, server};

/// Tells the standbys a bound, in Unix milliseconds. Raises no error.
pub fn write(until_ms: i64) {
    // Where no server can be made from the log, none needs to know.
    if logged_page::is_replicated() {
        logged_page::log(&encode(until_ms));
    }
}

/// What a server replayed. A value of this type is made before the right to write the reservation is taken,
/// because that may raise an error of PostgreSQL's.
#[derive(Clone, Copy)]
pub struct Replayed(Option<i64>);

impl Replayed {
    /// What this server replayed last before it became a primary. Nothing, once it has a reservation of its
    /// own timeline, which takes account of it: then a superuser may have gone below it, too.
    ///
    /// # Errors
    /// If that is damaged.
    pub fn read() -> Result<Replayed, Error> {
        if let Ok(StoredRecord::Found(record)) = reservation_file::read()
            && record.timeline == server::timeline()
        {
            return Ok(Replayed::IGNORED);
        }
        let Some(bytes) = logged_page::read() else { return Ok(Replayed::IGNORED) };
        match decode(&bytes) {
            Some(until_ms) => Ok(Replayed(Some(until_ms))),
            None => Err(Reason::ReplayedDamaged.into()),
        }
    }

    /// For a server that starts whatever was replayed.
    pub const IGNORED: Replayed = Replayed(None);

    /// The bound, in Unix milliseconds.
    pub fn until_ms(self) -> Option<i64> {
        self.0
    }
}
