//! What the checks ask PostgreSQL's catalogs and views. Every role may see all of it, except where a
//! configuration file lies.
//!
//! Called only from functions that set `search_path` to `pg_catalog`. Queries only read, and say so,
//! or a standby would refuse them.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::{Error, SpiTupleTable};

/// What a query of one row finds.
fn one_row<T>(
    query: &str,
    arguments: &[DatumWithOid],
    read: impl FnOnce(SpiTupleTable) -> Result<T, Error>,
) -> Result<T, Error> {
    Spi::connect(|client| read(client.select(query, Some(1), arguments)?.first()))
}

/// Whether the role may read this server's statistics, and its name.
pub fn reader() -> Result<(bool, String), Error> {
    const QUERY: &str =
        "SELECT pg_has_role('pg_read_all_stats', 'USAGE'), quote_ident(current_user)";
    let (may, role) = one_row(QUERY, &[], |row| row.get_two::<bool, String>())?;
    Ok((may.unwrap_or(false), role.unwrap_or_default()))
}

/// Where the value of `id_gen.worker_id` comes from: a file and its line, as far as the role may see
/// it.
pub fn worker_id_source() -> Result<Option<String>, Error> {
    const QUERY: &str = "
        SELECT coalesce(sourcefile || ':' || sourceline, source)
          FROM pg_settings WHERE name = 'id_gen.worker_id'";
    one_row(QUERY, &[], |row| row.get_one())
}

/// Who replicates this server, or whom it replicates, in words; `None` if nobody.
pub fn replication() -> Result<Option<String>, Error> {
    const QUERY: &str = "
        SELECT nullif(concat_ws(', ',
                   CASE WHEN senders > 0 THEN senders || ' connected replica(s)' END,
                   CASE WHEN slots > 0 THEN slots || ' replication slot(s)' END,
                   CASE WHEN subscriptions > 0 THEN subscriptions || ' subscription(s)' END), '')
          FROM (SELECT (SELECT count(pid) FROM pg_stat_replication) AS senders,
                       (SELECT count(slot_name) FROM pg_replication_slots) AS slots,
                       (SELECT count(subname) FROM pg_subscription) AS subscriptions) AS counted";
    one_row(QUERY, &[], |row| row.get_one())
}

/// A column that is filled with snowflakes and can't hold them.
pub struct NarrowColumn {
    /// Table and column, as one types them.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// What to type to mend it.
    pub remedy: String,
}

/// Columns of this database whose default is a snowflake and whose type is too small for it, or
/// rounds it.
pub fn narrow_columns() -> Result<Vec<NarrowColumn>, Error> {
    const QUERY: &str = "
        SELECT format('%s.%I', c.oid::regclass, a.attname), format_type(a.atttypid, a.atttypmod),
               format('ALTER TABLE %s ALTER COLUMN %I TYPE bigint;', c.oid::regclass, a.attname)
          FROM pg_extension e
          JOIN pg_depend member ON member.refclassid = 'pg_extension'::regclass
               AND member.refobjid = e.oid AND member.classid = 'pg_proc'::regclass
               AND member.deptype = 'e'
          JOIN pg_proc p ON p.oid = member.objid AND p.proname LIKE 'snowflake\\_next%'
          JOIN pg_depend used ON used.refclassid = 'pg_proc'::regclass AND used.refobjid = p.oid
               AND used.classid = 'pg_attrdef'::regclass
          JOIN pg_attrdef d ON d.oid = used.objid
          JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
          JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND NOT c.relispartition
         WHERE e.extname = 'id_gen'
           AND a.atttypid IN ('smallint'::regtype, 'integer'::regtype,
                              'real'::regtype, 'double precision'::regtype)
         ORDER BY 1";
    Spi::connect(|client| {
        client
            .select(QUERY, None, &[])?
            .map(|row| {
                Ok(NarrowColumn {
                    name: row.get(1)?.unwrap_or_default(),
                    type_name: row.get(2)?.unwrap_or_default(),
                    remedy: row.get(3)?.unwrap_or_default(),
                })
            })
            .collect()
    })
}

/// The extension's schema in this database, as one types it.
pub fn schema() -> Result<String, Error> {
    const QUERY: &str =
        "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'id_gen'";
    Ok(one_row(QUERY, &[], |row| row.get_one())?.unwrap_or_default())
}

/// A column of a table, as one types them.
pub struct Column {
    /// The table.
    pub table: String,
    /// The column.
    pub name: String,
    /// The schema of what fills it.
    pub generator_schema: String,
}

/// A column, and its type if that is not one of numbers. PostgreSQL itself refuses a column that does
/// not exist.
pub fn column(
    relation: pg_sys::Oid,
    column: DatumWithOid<'_>,
) -> Result<(Column, Option<String>), Error> {
    const QUERY: &str = "
        SELECT $1::regclass::text, quote_ident($2),
               (SELECT format_type(atttypid, atttypmod)
                  FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
                 WHERE attrelid = $1 AND attname = $2 AND NOT attisdropped AND typcategory <> 'N')";
    let arguments = [relation.into(), column];
    let (table, name, other_type) =
        one_row(QUERY, &arguments, |row| row.get_three::<String, String, String>())?;
    let column = Column {
        table: table.unwrap_or_default(),
        name: name.unwrap_or_default(),
        generator_schema: schema()?,
    };
    Ok((column, other_type))
}

/// The largest value of a column of numbers; NULL for an empty table. PostgreSQL itself refuses a table
/// that the role may not read.
pub fn newest(column: &Column) -> Result<Option<i64>, Error> {
    let query = format!("SELECT max({})::bigint FROM {}", column.name, column.table);
    one_row(&query, &[], |row| row.get_one())
}
