//! Columns whose type does not hold all that fills them: by their default or their domain's, or as references to a column with
//! that default.
//!
//! Called only from functions that set `search_path` to `pg_catalog`.

use std::collections::HashMap;

use id_gen_core::layout::{Layout, SIGNED_BITS};
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;
use pgrx::prelude::*;
use pgrx::spi::Error;

use crate::observe::catalog_queries::{
    COLUMN_OF_DEFAULT, SEQUENCE_OF_DEFAULT, USED_BY_DEFAULTS, string,
};
use crate::pg::expression;
use crate::pg::text::Text;

/// The largest integers up to which all are of these types.
const LARGEST_REAL: i64 = 1 << f32::MANTISSA_DIGITS;
const LARGEST_DOUBLE: i64 = 1 << f64::MANTISSA_DIGITS;

/// `VARHDRSZ`, which the modifiers of these types have added.
const MODIFIER_OFFSET: i32 = 4;

/// A column whose type does not hold all that fills it.
pub struct NarrowColumn {
    /// Table and column, as one types them.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// What to type about it.
    pub remedy: String,
    /// Whether its sequence is past what it holds already, or starts there.
    pub is_full: bool,
}

/// A column, and the largest number that it gets.
struct Filled {
    relation: pg_sys::Oid,
    number: i16,
    largest: i64,
    /// The sequence that the numbers are of, if there is one.
    sequence: pg_sys::Oid,
}

/// Columns of this database that are filled with snowflakes of a layout and whose type is too small for them, or rounds
/// them.
pub fn of_snowflakes(layout: Option<&Layout>) -> Result<Vec<NarrowColumn>, Error> {
    let bits = layout.map_or(SIGNED_BITS, |layout| layout.total_bits().min(SIGNED_BITS));
    let largest = i64::MAX >> (SIGNED_BITS - bits);
    let filled = filled(&format!(
        "SELECT c.oid, a.attnum, d.adbin::text, p.oid, {largest}::bigint, 0::oid
           FROM {USED_BY_DEFAULTS} {COLUMN_OF_DEFAULT}
          WHERE starts_with(p.proname::text, 'snowflake_next') AND NOT pg_is_other_temp_schema(c.relnamespace)"
    ))?;
    narrow(&filled)
}

/// Columns of this database that are filled with tickets, and which end before the sequence of the tickets does.
pub fn of_tickets() -> Result<Vec<NarrowColumn>, Error> {
    let filled = filled(&format!(
        "SELECT c.oid, a.attnum, d.adbin::text, p.oid, s.seqmax, s.seqrelid
           FROM {USED_BY_DEFAULTS} {COLUMN_OF_DEFAULT} {SEQUENCE_OF_DEFAULT}
           JOIN pg_sequence s ON s.seqrelid = of.refobjid
          WHERE p.proname = 'ticket_next' AND NOT pg_is_other_temp_schema(c.relnamespace)"
    ))?;
    narrow(&filled)
}

/// The columns of a query whose defaults are the function's result, and no other number that is calculated from it.
fn filled(query: &str) -> Result<Vec<Filled>, Error> {
    Spi::connect(|client| {
        let mut filled = Vec::new();
        for row in client.select(query, None, &[])? {
            let oid = |place| {
                Ok::<_, Error>(row.get::<pg_sys::Oid>(place)?.unwrap_or(pg_sys::InvalidOid))
            };
            if expression::can_be_result_of(string(row.get(3)?), oid(4)?) {
                filled.push(Filled {
                    relation: oid(1)?,
                    number: row.get(2)?.unwrap_or(0),
                    largest: row.get(5)?.unwrap_or(i64::MAX),
                    sequence: oid(6)?,
                });
            }
        }
        Ok(filled)
    })
}

/// Those of these columns, and of the columns that refer to them, whose type does not hold the largest number. An inherited
/// column is named where it comes from, and its type can be changed.
fn narrow(filled: &[Filled]) -> Result<Vec<NarrowColumn>, Error> {
    const QUERY: &str = "
        WITH RECURSIVE filled (relation, number, largest, sequence) AS (
            SELECT relation, number, largest, sequence
              FROM unnest($1::oid[], $2::smallint[], $3::bigint[], $4::oid[])
                   AS given (relation, number, largest, sequence)
             UNION
            SELECT k.conrelid, referring.number, f.largest, f.sequence
              FROM filled f JOIN pg_constraint k ON k.contype = 'f' AND k.confrelid = f.relation
             CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS referring (number, referred)
             WHERE referring.referred = f.number),
        typed (relation, number, largest, sequence, type, modifier) AS (
            SELECT f.*, a.atttypid, a.atttypmod
              FROM filled f JOIN pg_attribute a ON a.attrelid = f.relation AND a.attnum = f.number
             UNION ALL
            SELECT t.relation, t.number, t.largest, t.sequence, d.typbasetype, d.typtypmod
              FROM typed t JOIN pg_type d ON d.oid = t.type AND d.typtype = 'd')
        SELECT DISTINCT origin.oid::regclass::text, quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
               t.type, t.modifier, t.largest, CASE WHEN t.sequence <> 0 THEN t.sequence::regclass::text END,
               CASE WHEN has_sequence_privilege(t.sequence, 'SELECT') THEN pg_sequence_last_value(t.sequence) END,
               greatest(s.seqstart, s.seqmin + 1),
               CASE WHEN NOT a.atthasdef THEN (SELECT pg_get_expr(typdefaultbin, 0) FROM pg_type WHERE oid = a.atttypid AND typtype = 'd') END,
               CASE WHEN top.relkind = 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END,
               CASE WHEN top.reloftype <> 0 THEN top.reloftype::regtype::text END,
               EXISTS (SELECT FROM unnest(whole.oids, whole.numbers) AS tree (oid, number)
                        JOIN pg_partitioned_table k ON k.partrelid = tree.oid
                        JOIN pg_depend u ON u.classid = 'pg_class'::regclass AND u.objid = tree.oid AND u.objsubid = tree.number
                             AND u.refclassid = u.classid AND u.refobjid = tree.oid AND u.refobjsubid = 0),
               (SELECT string_agg(DISTINCT CASE
                           WHEN r.rulename = '_RETURN' THEN pg_describe_object('pg_class'::regclass, r.ev_class, 0)
                           WHEN g.oid IS NOT NULL THEN pg_describe_object('pg_class'::regclass, g.adrelid, g.adnum)
                           ELSE pg_describe_object(u.classid, u.objid, 0) END, ', ')
                  FROM unnest(whole.oids, whole.numbers) AS tree (oid, number)
                  JOIN pg_depend u ON u.refclassid = 'pg_class'::regclass AND u.refobjid = tree.oid AND u.refobjsubid = tree.number
                  LEFT JOIN pg_rewrite r ON u.classid = 'pg_rewrite'::regclass AND r.oid = u.objid
                  LEFT JOIN pg_attrdef g ON u.classid = 'pg_attrdef'::regclass AND g.oid = u.objid
                 WHERE u.classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass, 'pg_proc'::regclass,
                                     'pg_publication_rel'::regclass)
                    OR g.adnum <> tree.number)
          FROM typed t JOIN pg_type b ON b.oid = t.type AND b.typtype <> 'd'
          JOIN pg_attribute a ON a.attrelid = t.relation AND a.attnum = t.number
          LEFT JOIN pg_sequence s ON s.seqrelid = t.sequence
         CROSS JOIN LATERAL (
            WITH RECURSIVE ancestor (oid) AS (
                SELECT t.relation UNION
                SELECT i.inhparent FROM ancestor x JOIN pg_inherits i ON i.inhrelid = x.oid)
            SELECT x.oid
              FROM ancestor x JOIN pg_attribute o ON o.attrelid = x.oid AND o.attname = a.attname
             WHERE o.attinhcount = 0 LIMIT 1) AS origin
          JOIN pg_class top ON top.oid = origin.oid
         CROSS JOIN LATERAL (
            WITH RECURSIVE below (oid) AS (
                SELECT origin.oid UNION
                SELECT i.inhrelid FROM below x JOIN pg_inherits i ON i.inhparent = x.oid)
            SELECT array_agg(x.oid) AS oids, array_agg(o.attnum) AS numbers
              FROM below x JOIN pg_attribute o ON o.attrelid = x.oid AND o.attname = a.attname) AS whole
         ORDER BY 1, 2";
    let arguments: [DatumWithOid; 4] = [
        filled.iter().map(|column| column.relation).collect::<Vec<_>>().into(),
        filled.iter().map(|column| column.number).collect::<Vec<_>>().into(),
        filled.iter().map(|column| column.largest).collect::<Vec<_>>().into(),
        filled.iter().map(|column| column.sequence).collect::<Vec<_>>().into(),
    ];
    Spi::connect(|client| {
        let mut found = Vec::new();
        let mut ends = HashMap::new();
        for row in client.select(QUERY, None, &arguments)? {
            let (table, column) = (string(row.get(1)?), string(row.get(2)?));
            let base = row.get::<pg_sys::Oid>(4)?.unwrap_or(pg_sys::InvalidOid);
            let needed = row.get::<i64>(6)?.unwrap_or(i64::MAX);
            let held = largest_of(base, row.get(5)?.unwrap_or(-1));
            let Some(held) = held.filter(|&held| held < needed) else { continue };
            let last = row.get::<i64>(8)?.unwrap_or(i64::MIN);
            let least_end = row.get::<i64>(9)?.unwrap_or(i64::MIN);
            // A sequence cannot end below where it is, or where it starts.
            let is_full = last >= held || least_end > held;
            let sequence = row.get::<Text>(7)?.map(|Text(name)| name).filter(|_| !is_full);
            if let Some(sequence) = &sequence {
                // It has to end with the narrowest of its columns.
                let end = ends.entry(sequence.clone()).or_insert(held);
                *end = held.min(*end);
            }
            let wider = if is_text(base) { "text" } else { "bigint" };
            // A default of the domain goes with it.
            let default = row.get::<Text>(10)?.map_or_else(String::new, |Text(default)| {
                format!(", ALTER COLUMN {column} SET DEFAULT {default}")
            });
            let kind = string(row.get(11)?);
            let alter =
                format!("ALTER {kind} {table} ALTER COLUMN {column} TYPE {wider}{default};");
            let text = |place| Ok::<_, Error>(row.get::<Text>(place)?.map(|text| text.0));
            let column = NarrowColumn {
                remedy: if row.get(13)?.unwrap_or(false) {
                    format!(
                        "The type of a partition key cannot change: create a new table in place of {table}, with {wider} for {column}, and copy the rows."
                    )
                } else {
                    match (text(12)?, text(14)?) {
                        (Some(of_type), _) => {
                            format!(
                                "ALTER TYPE {of_type} ALTER ATTRIBUTE {column} TYPE {wider} CASCADE;"
                            )
                        }
                        (None, Some(users)) => format!(
                            "First drop {users}; create again afterwards what is dropped: {alter}"
                        ),
                        (None, None) => alter,
                    }
                },
                name: format!("{table}.{column}"),
                type_name: string(row.get(3)?),
                is_full,
            };
            found.push((column, sequence));
        }
        Ok(found
            .into_iter()
            .map(|(column, sequence)| match sequence {
                Some(name) => {
                    let remedy = format!("ALTER SEQUENCE {name} MAXVALUE {};", ends[&name]);
                    NarrowColumn { remedy, ..column }
                }
                None => column,
            })
            .collect())
    })
}

/// Whether values of a type are text of a limited length.
fn is_text(base: pg_sys::Oid) -> bool {
    matches!(base, pg_sys::VARCHAROID | pg_sys::BPCHAROID)
}

/// The largest number up to which a type, with its modifier, holds all that a `bigint` does from zero on; `None` if that is
/// every one, or if the type is none that is known here.
fn largest_of(base: pg_sys::Oid, modifier: i32) -> Option<i64> {
    match base {
        pg_sys::INT2OID => Some(i16::MAX.into()),
        pg_sys::INT4OID => Some(i32::MAX.into()),
        pg_sys::OIDOID => Some(u32::MAX.into()),
        pg_sys::FLOAT4OID => Some(LARGEST_REAL),
        pg_sys::FLOAT8OID => Some(LARGEST_DOUBLE),
        pg_sys::NUMERICOID if modifier >= MODIFIER_OFFSET => {
            largest_of_digits(digits_before_point(modifier - MODIFIER_OFFSET))
        }
        pg_sys::VARCHAROID | pg_sys::BPCHAROID if modifier >= MODIFIER_OFFSET => {
            largest_of_digits(modifier - MODIFIER_OFFSET)
        }
        _ => None,
    }
}

/// The digits before the point of a `numeric(precision, scale)`; none where a negative scale rounds integers.
fn digits_before_point(modifier: i32) -> i32 {
    // As numeric_typmod_precision() and numeric_typmod_scale() have it: 11 bits with a sign.
    let precision = (modifier >> 16) & 0xFFFF;
    let scale = ((modifier & 0x7FF) ^ 1024) - 1024;
    if scale < 0 { 0 } else { (precision - scale).max(0) }
}

/// The largest number of so many decimal digits, if some `bigint` is larger.
fn largest_of_digits(digits: i32) -> Option<i64> {
    Some(10i64.checked_pow(u32::try_from(digits).ok()?)? - 1)
}
