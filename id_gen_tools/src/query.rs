//! Queries of several rows, and what queries of more than one folder have alike.
//!
//! Called only from functions that set `search_path` to `pg_catalog`, so every name has its schema. Queries only read, and
//! say so, or a standby would refuse them.

use id_gen_base::pg::text::in_server_encoding;
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::{Error as SpiError, SpiHeapTupleData};

use crate::error::Error;

/// Which columns of the database get their value from which sequence, by their own default or their domain's, and a comma.
macro_rules! by_default {
    () => {
        "
    by_default (sequence, relation, number) AS (
        SELECT d.refobjid, a.adrelid, a.adnum
          FROM pg_depend d JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
         WHERE d.refclassid = 'pg_class'::regclass
         UNION
        SELECT d.refobjid, a.attrelid, a.attnum
          FROM pg_depend d JOIN pg_attribute a ON d.classid = 'pg_type'::regclass AND a.atttypid = d.objid
               AND NOT a.atthasdef AND NOT a.attisdropped
          JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'f', 'v')
         WHERE d.refclassid = 'pg_class'::regclass),"
    };
}
pub(crate) use by_default;

/// Runs a query and reads its rows.
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
