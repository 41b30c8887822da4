//! Where a column is, and how queries of the catalogs about it begin.
//!
//! Called only from functions that set `search_path` to `pg_catalog`, so every name has its schema.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::query::by_default;

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
