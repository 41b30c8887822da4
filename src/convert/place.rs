//! Where a column is, and asking the catalogs about it.
//!
//! Called only from functions that set `search_path` to `pg_catalog`, so every name has its schema. Queries only read, and
//! say so, or a standby would refuse them.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::{Error as SpiError, SpiHeapTupleData};

use crate::error::Error;
use crate::pg::text::in_server_encoding;

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

/// How a query about a column begins: the tables that have it, by inheritance or as partitions (`member`), where each has
/// it (`place`), those tables and all views on them (`above`), which columns of the database get their value from which
/// sequence, by their own default or their domain's (`by_default`), and the sequences that fill this one (`filling`).
pub const RELATED: &str = concat!(
    "
    WITH RECURSIVE member (oid) AS (
        SELECT $1 UNION SELECT inhrelid FROM member JOIN pg_inherits ON inhparent = member.oid),
    place (relation, number) AS (
        SELECT m.oid, a.attnum FROM member m JOIN pg_attribute a ON a.attrelid = m.oid
               AND a.attname = (SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum = $2)),
    above (oid) AS (
        SELECT oid FROM member
         UNION
        SELECT r.ev_class
          FROM above JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass
               AND d.refclassid = 'pg_class'::regclass AND d.refobjid = above.oid
          JOIN pg_rewrite r ON r.oid = d.objid AND r.rulename = '_RETURN'),
",
    by_default!(),
    "
    owned (sequence, kind) AS (
        SELECT d.objid, d.deptype
          FROM place p JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number AND d.deptype IN ('a', 'i')),
    filling (sequence) AS (
        SELECT sequence FROM owned UNION SELECT sequence FROM by_default JOIN place USING (relation, number))"
);

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
