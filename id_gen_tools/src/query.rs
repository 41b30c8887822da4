//! Queries of several rows.
//!
//! Called only from functions that set `search_path` to `pg_catalog`, so every name has its schema. Queries only read, and
//! say so, or a standby would refuse them.

use id_gen_base::pg::text::in_server_encoding;
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::{Error as SpiError, SpiHeapTupleData};

use crate::error::Error;

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
