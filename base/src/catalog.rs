//! What functions ask PostgreSQL's catalogs about the columns that they are called for. Every role may see all of
//! it.
//!
//! Called only from functions that set `search_path` to `pg_catalog`. Queries only read, and say so,
//! or a standby would refuse them.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::PgSqlErrorCode as Code;
use pgrx::prelude::*;
use pgrx::spi::{Error, SpiTupleTable};

use crate::error::{Message, WithoutHint};
use crate::pg::extension;
use crate::pg::text::{Text, in_error, in_server_encoding};

/// Runs a query and reads its first row.
pub fn one_row<T>(
    query: &str,
    arguments: &[DatumWithOid],
    read: impl FnOnce(SpiTupleTable) -> Result<T, Error>,
) -> Result<T, Error> {
    let query = in_server_encoding(query.to_owned());
    Spi::connect(|client| read(client.select(query.as_c_str(), Some(1), arguments)?.first()))
}

/// A column of text; empty if it is NULL.
pub fn text(row: &SpiTupleTable, place: usize) -> Result<String, Error> {
    Ok(string(row.get(place)?))
}

/// The value of a column of text; empty if it is NULL.
pub fn string(text: Option<Text>) -> String {
    text.map_or_else(String::new, |text| text.0)
}

/// The schema of extension id_gen in this database, quoted if necessary; empty without the extension.
pub fn schema() -> Result<String, Error> {
    Ok(extension::schema_of("id_gen")?.unwrap_or_default())
}

/// The kind of IDs that a column can hold.
pub enum Holds {
    /// Numbers.
    Numbers,
    /// UUIDs.
    Uuids,
    /// Something else.
    Other,
}

/// A column of a table, as one types them.
pub struct Column {
    /// The qualified name of its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Both as the first arguments of a function, with their types: with literals of none, PostgreSQL prefers a function of the
    /// same name that takes text.
    pub arguments: String,
    /// Its number in the table.
    pub number: i16,
    /// The schema of what fills it.
    pub generator_schema: String,
    /// The name of its type.
    pub type_name: String,
    /// The kind of IDs in it.
    pub holds: Holds,
}

/// A column.
///
/// # Errors
/// If it does not exist.
pub fn column<E: From<Error> + From<Message>>(
    relation: pg_sys::Oid,
    column: DatumWithOid<'_>,
) -> Result<Column, E> {
    const QUERY: &str = "
        WITH RECURSIVE type (type, name, category, base) AS (
            SELECT t.oid, format_type(a.atttypid, a.atttypmod), t.typcategory, t.typbasetype
              FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
             WHERE a.attrelid = $1 AND a.attname = $2 AND NOT a.attisdropped
             UNION ALL
            SELECT t.oid, d.name, t.typcategory, t.typbasetype
              FROM type d JOIN pg_type t ON t.oid = d.base)
        SELECT $1::regclass::text, quote_ident($2),
               format('%L::regclass, %L::text', $1::regclass, $2),
               (SELECT name FROM type WHERE base = 0),
               (SELECT CASE WHEN type = 'uuid'::regtype THEN 'u' WHEN category <> 'N' THEN 'o' END
                  FROM type WHERE base = 0),
               (SELECT attnum FROM pg_attribute
                 WHERE attrelid = $1 AND attname = $2 AND attnum > 0 AND NOT attisdropped),
               (SELECT relname::text FROM pg_class WHERE oid = $1), $2";
    let arguments = [relation.into(), column];
    let generator_schema = schema()?;
    let (column, names) = one_row(QUERY, &arguments, |row| {
        let text = |place| text(&row, place);
        let column = Column {
            table: text(1)?,
            name: text(2)?,
            arguments: text(3)?,
            number: row.get(6)?.unwrap_or(0),
            generator_schema,
            type_name: text(4)?,
            holds: match text(5)?.as_str() {
                "u" => Holds::Uuids,
                "o" => Holds::Other,
                _ => Holds::Numbers,
            },
        };
        Ok((column, [text(7)?, text(8)?]))
    })?;
    match (column.number, names.map(|name| in_error(&name))) {
        (0, [table, _]) if table.is_empty() => {
            let hint = "Pass a table or view of this database.";
            Err(no_relation(&relation.to_u32().to_string()).hint(hint).into())
        }
        (0, [table, column]) => Err(no_column(&table, &column).into()),
        _ => Ok(column),
    }
}

/// The largest value of a column of numbers; NULL for an empty table. PostgreSQL itself refuses a table
/// that the role may not read.
pub fn newest(column: &Column) -> Result<Option<i64>, Error> {
    let query = format!("SELECT max({})::bigint FROM {}", column.name, column.table);
    one_row(&query, &[], |row| row.get_one())
}

/// A relation that does not exist, by its name or OID.
pub fn no_relation(relation: &str) -> WithoutHint {
    Message::new(Code::ERRCODE_UNDEFINED_TABLE, format!("relation {relation} does not exist"))
        .detail("The arguments must be tables or views of this database, and not NULL.")
}

/// A column that does not exist.
pub fn no_column(table: &str, column: &str) -> Message {
    Message::new(
        Code::ERRCODE_UNDEFINED_COLUMN,
        format!("column \"{column}\" of relation \"{table}\" does not exist"),
    )
    .hint("Pass the column name as it is stored, without double quotes, such as 'orderId'.")
}
