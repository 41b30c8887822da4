//! Where a column is, and asking the catalogs about it.
//!
//! Called only from functions that set `search_path` to `pg_catalog`, so every name has its schema. Queries only read, and
//! say so, or a standby would refuse them.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::{Error as SpiError, SpiHeapTupleData};

use crate::error::Error;
use crate::pg::text::in_server_encoding;

/// Where a column is: the first two arguments of every query here.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    relation: pg_sys::Oid,
    number: i16,
}

impl Place {
    /// A column of a table.
    pub const fn new(relation: pg_sys::Oid, number: i16) -> Place {
        Place { relation, number }
    }

    /// Table and number.
    pub fn arguments(self) -> [DatumWithOid<'static>; 2] {
        [self.relation.into(), self.number.into()]
    }
}

/// What a query finds.
pub fn rows<T>(
    query: &str,
    arguments: &[DatumWithOid],
    read: impl Fn(&SpiHeapTupleData) -> Result<T, SpiError>,
) -> Result<Vec<T>, Error> {
    let query = in_server_encoding(query.to_owned());
    let found: Result<Vec<T>, SpiError> = Spi::connect(|client| {
        client.select(query.as_c_str(), None, arguments)?.map(|row| read(&row)).collect()
    });
    Ok(found?)
}
