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

/// What has to be dropped before the type of a column can change: `whole` has the column in all tables that change with it.
///
/// What uses the column, and stored columns of the tables' row types; then whatever uses a view that is dropped, or its row
/// type. `ALTER TABLE` makes indexes, constraints and statistics again from their text, unless that calls a function which the
/// new type does not fit. A table that inherits the column from elsewhere, too, keeps the type of that.
const USERS: &str = "
    WITH RECURSIVE uses (classid, objid, number, depth, is_dropped) AS (
        (SELECT 'pg_class'::regclass::oid, tree.oid, tree.number::integer, 0, false
           FROM unnest(whole.oids, whole.numbers) AS tree (oid, number)
          UNION ALL
         SELECT 'pg_type'::regclass, c.reltype, 0, 0, false FROM pg_class c WHERE c.oid = ANY (whole.oids)
          UNION ALL
         SELECT 'pg_type'::regclass, top.reloftype, 0, 0, false WHERE top.reloftype <> 0)
         UNION
        SELECT next.classid, next.objid, next.number, x.depth + 1, next.is_dropped
          FROM uses x
          JOIN pg_depend u ON u.refclassid = x.classid AND u.refobjid = x.objid AND x.number IN (0, u.refobjsubid)
          LEFT JOIN pg_rewrite r ON u.classid = 'pg_rewrite'::regclass AND r.oid = u.objid
          LEFT JOIN pg_attrdef g ON u.classid = 'pg_attrdef'::regclass AND g.oid = u.objid
          LEFT JOIN pg_class c ON u.classid = 'pg_class'::regclass AND c.oid = u.objid
         CROSS JOIN LATERAL (
            SELECT 'pg_class'::regclass, r.ev_class, 0, true
             WHERE r.rulename = '_RETURN' AND r.ev_class <> x.objid AND (x.number <> 0 OR x.is_dropped)
             UNION ALL
            SELECT 'pg_class'::regclass, g.adrelid, g.adnum::integer, true
             WHERE g.adrelid <> x.objid OR g.adnum <> x.number AND x.number <> 0
             UNION ALL
            SELECT u.classid, u.objid, 0, true
             WHERE (r.rulename <> '_RETURN'
                 OR u.classid IN ('pg_policy'::regclass, 'pg_trigger'::regclass, 'pg_proc'::regclass,
                                  'pg_publication_rel'::regclass))
               AND (x.number <> 0 OR x.is_dropped AND u.deptype = 'n' AND r.ev_class IS DISTINCT FROM x.objid)
             UNION ALL
            SELECT u.classid, u.objid, 0, x.is_dropped WHERE u.classid = 'pg_type'::regclass
             UNION ALL
            SELECT u.classid, u.objid, CASE c.relkind WHEN 'm' THEN 0 ELSE u.objsubid END, true
             WHERE x.classid = 'pg_type'::regclass AND u.objsubid > 0 AND c.relkind NOT IN ('c', 'v')
             UNION ALL
            SELECT 'pg_type'::regclass, c.reltype, 0, x.is_dropped
             WHERE x.classid = 'pg_type'::regclass AND u.objsubid > 0 AND c.relkind IN ('c', 'v')
         ) AS next (classid, objid, number, is_dropped))
    SELECT string_agg(obstacle.name, ', ' ORDER BY obstacle.depth DESC, obstacle.name)
      FROM (SELECT pg_describe_object(x.classid, x.objid, x.number) AS name, max(x.depth) AS depth
              FROM uses x
              LEFT JOIN pg_type d ON x.classid = 'pg_type'::regclass AND d.oid = x.objid
              LEFT JOIN pg_class c ON c.oid = d.typrelid
             WHERE x.depth > 0 AND (d.oid IS NULL OR x.is_dropped AND (d.typtype = 'd' OR c.relkind = 'c'))
             GROUP BY 1
             UNION ALL
            SELECT DISTINCT CASE WHEN k.oid IS NULL THEN pg_describe_object(u.classid, u.objid, 0)
                                 ELSE pg_describe_object('pg_constraint'::regclass, k.oid, 0) END, 0
              FROM unnest(whole.oids, whole.numbers) AS tree (oid, number)
              JOIN pg_depend u ON u.refclassid = 'pg_class'::regclass AND (u.refobjid, u.refobjsubid) = (tree.oid, tree.number)
              LEFT JOIN pg_index i ON u.classid = 'pg_class'::regclass AND i.indexrelid = u.objid
              LEFT JOIN pg_statistic_ext s ON u.classid = 'pg_statistic_ext'::regclass AND s.oid = u.objid
              LEFT JOIN pg_constraint k ON u.classid = 'pg_constraint'::regclass AND k.oid = u.objid
                                        OR k.contype = 'x' AND k.conindid = i.indexrelid
             CROSS JOIN regexp_matches(concat(i.indexprs, i.indpred, k.conbin, s.stxexprs), ':funcid (\\d+)', 'g') AS called
              JOIN pg_proc f ON f.oid = called[1]::oid AND t.type = ANY (f.proargtypes)
             CROSS JOIN (SELECT CASE WHEN t.type IN ('varchar'::regtype, 'bpchar'::regtype) THEN 'text'::regtype
                                     ELSE 'bigint'::regtype END) AS wider (type)
             WHERE coalesce(k.coninhcount, 0) = 0
               AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = i.indexrelid AND c.relispartition)
               AND NOT EXISTS (SELECT FROM pg_cast c WHERE c.castfunc = f.oid
                                  OR (c.castsource, c.casttarget, c.castcontext) = (wider.type, t.type, 'i'))
               AND NOT EXISTS (SELECT FROM pg_proc o WHERE (o.proname, o.pronamespace, o.pronargs)
                                                         = (f.proname, f.pronamespace, f.pronargs)
                                                      AND wider.type = ANY (o.proargtypes))
             UNION ALL
            SELECT format('the inheritance of table %s from table %s', i.inhrelid::regclass, i.inhparent::regclass), 0
              FROM pg_inherits i JOIN pg_attribute o ON o.attrelid = i.inhparent AND o.attname = a.attname
             WHERE i.inhrelid = ANY (whole.oids) AND i.inhparent <> ALL (whole.oids)) AS obstacle";

/// Those of these columns, and of the columns that refer to them, whose type does not hold the largest number. An inherited
/// column is named where it comes from, and its type can be changed.
fn narrow(filled: &[Filled]) -> Result<Vec<NarrowColumn>, Error> {
    let query = format!("
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
               users.list
          FROM typed t JOIN pg_type b ON b.oid = t.type AND b.typtype <> 'd'
          JOIN pg_attribute a ON a.attrelid = t.relation AND a.attnum = t.number
          LEFT JOIN pg_sequence s ON s.seqrelid = t.sequence
         CROSS JOIN LATERAL (
            WITH RECURSIVE ancestor (oid) AS (
                SELECT t.relation UNION
                SELECT i.inhparent FROM ancestor x JOIN pg_inherits i ON i.inhrelid = x.oid)
            SELECT x.oid
              FROM ancestor x JOIN pg_attribute o ON o.attrelid = x.oid AND o.attname = a.attname
             WHERE o.attinhcount = 0 ORDER BY x.oid <> ALL ($1), x.oid LIMIT 1) AS origin
          JOIN pg_class top ON top.oid = origin.oid
         CROSS JOIN LATERAL (
            WITH RECURSIVE below (oid) AS (
                (SELECT origin.oid UNION SELECT c.oid FROM pg_class c WHERE c.reloftype = nullif(top.reloftype, 0)) UNION
                SELECT i.inhrelid FROM below x JOIN pg_inherits i ON i.inhparent = x.oid)
            SELECT array_agg(x.oid) AS oids, array_agg(o.attnum) AS numbers
              FROM below x JOIN pg_attribute o ON o.attrelid = x.oid AND o.attname = a.attname) AS whole
         CROSS JOIN LATERAL ({USERS}) AS users (list)
         ORDER BY 1, 2");
    let arguments: [DatumWithOid; 4] = [
        filled.iter().map(|column| column.relation).collect::<Vec<_>>().into(),
        filled.iter().map(|column| column.number).collect::<Vec<_>>().into(),
        filled.iter().map(|column| column.largest).collect::<Vec<_>>().into(),
        filled.iter().map(|column| column.sequence).collect::<Vec<_>>().into(),
    ];
    Spi::connect(|client| {
        let mut found = Vec::new();
        let mut ends = HashMap::new();
        for row in client.select(&query, None, &arguments)? {
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
            let text = |place| Ok::<_, Error>(row.get::<Text>(place)?.map(|text| text.0));
            let alter = match text(12)? {
                Some(of_type) => {
                    format!("ALTER TYPE {of_type} ALTER ATTRIBUTE {column} TYPE {wider} CASCADE;")
                }
                None => {
                    format!("ALTER {kind} {table} ALTER COLUMN {column} TYPE {wider}{default};")
                }
            };
            let column = NarrowColumn {
                remedy: if row.get(13)?.unwrap_or(false) {
                    format!(
                        "The type of a partition key cannot change: create a new table in place of {table}, with {wider} for {column}, and copy the rows."
                    )
                } else {
                    match text(14)? {
                        Some(users) => format!(
                            "First drop {users}; create again afterwards what is dropped: {alter}"
                        ),
                        None => alter,
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
