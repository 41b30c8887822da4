//! What a profile reads: the rows of a table with all that inherits from it, and of others, all or a sample.
//!
//! PostgreSQL refuses what does not exist or what the role may not read, as for any query of the caller's.

use id_gen_base::catalog::{Column, Holds, string};
use id_gen_base::pg::text::{Text, in_error, in_server_encoding};
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::error::Error;
use crate::profile::refusal::{self, SMALLEST_SAMPLE_PERCENT};
use crate::profile::row_stream::{self, Values};

/// How many parts of a whole a sample by hash is taken in.
const HASH_PARTS: f64 = (1u32 << 30) as f64;

/// What a profile reads.
pub struct Source {
    /// The column.
    pub column: Column,
    /// Whether rows come in the order in which they are stored.
    pub has_order: bool,
    /// Whether row security may hide some.
    pub row_security: bool,
    sample_percent: f64,
    /// How many tables hold the rows.
    tables: i64,
    /// A query for each relation: the table of each row, and the value.
    parts: Vec<String>,
}

/// How many rows there were.
#[derive(Clone, Copy)]
pub struct Counts {
    /// With a value.
    pub ids: u64,
    /// Without one.
    pub nulls: u64,
}

/// The kind of a relation that does not exist.
const NO_RELATION: u8 = b'-';

/// A relation that is read.
struct Relation {
    name: String,
    kind: u8,
    /// Whether the role may read all of its columns, and with them where a row is stored.
    readable: bool,
    row_security: bool,
    /// How many tables hold its rows.
    tables: i64,
    /// A table that an earlier one has, too.
    again: Option<String>,
}

impl Source {
    /// A table, and further ones.
    ///
    /// # Errors
    /// If the sample is none, a table does not exist, or one would be read twice.
    pub fn new(
        relation: pg_sys::Oid,
        column: Column,
        sample_percent: f64,
        others: DatumWithOid<'_>,
    ) -> Result<Source, Error> {
        if !(SMALLEST_SAMPLE_PERCENT..=100.0).contains(&sample_percent) {
            return Err(refusal::bad_sample(sample_percent).into());
        }
        let relations = relations(relation, others)?;
        if let Some(again) = relations.iter().find_map(|relation| relation.again.as_ref()) {
            return Err(refusal::given_twice(&in_error(again)).into());
        }
        let type_name = if let Holds::Uuids = column.holds { "uuid" } else { "bigint" };
        let part = |relation: &Relation| {
            let value = format!("{}::{type_name}", column.name);
            let table = if relation.shows_order() { "tableoid" } else { "0::oid" };
            let sample = relation.sample(&value, type_name, sample_percent);
            format!("SELECT {table}, {value} FROM {}{sample}", relation.name)
        };
        Ok(Source {
            has_order: relations.iter().all(Relation::shows_order),
            row_security: relations.iter().any(|relation| relation.row_security),
            sample_percent,
            tables: relations.iter().map(|relation| relation.tables).sum(),
            parts: relations.iter().map(part).collect(),
            column,
        })
    }

    /// Whether not all rows are read.
    pub fn is_sample(&self) -> bool {
        self.sample_percent < 100.0
    }

    /// What is read, in words.
    pub fn what(&self) -> String {
        let Source { column: Column { table, name, .. }, sample_percent, tables, parts, .. } = self;
        let share = if self.is_sample() {
            format!("a sample of {sample_percent} %")
        } else {
            "all rows".to_owned()
        };
        let others = match parts.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let tables = if *tables > 1 { format!(", {tables} tables") } else { String::new() };
        format!("{share} of column {name} in {table}{others}{tables}")
    }

    /// Lets the rows pass as they are stored: tells where those of another table begin, and hands over each value.
    ///
    /// # Errors
    /// If that is no query.
    pub fn scan<S>(
        &self,
        scan: &mut S,
        begin_table: fn(&mut S),
        note: fn(&mut S, pg_sys::Datum),
    ) -> Result<Counts, Error> {
        let mut counts = Counts { ids: 0, nulls: 0 };
        let mut latest = None;
        stream(self.union(), &mut |row| {
            let [Some(table), value] = *row else { return };
            if latest != Some(table.value()) {
                latest = Some(table.value());
                begin_table(scan);
            }
            match value {
                Some(value) => {
                    counts.ids += 1;
                    note(scan, value);
                }
                None => counts.nulls += 1,
            }
        })?;
        Ok(counts)
    }

    /// Hands over the values in their order.
    ///
    /// # Errors
    /// If that is no query.
    pub fn sorted(&self, mut each: impl FnMut(pg_sys::Datum)) -> Result<(), Error> {
        // Without the table, PostgreSQL sorts the values alone, or reads an index.
        let query = format!(
            "SELECT id FROM ({}) AS source (tab, id) WHERE id IS NOT NULL ORDER BY id",
            self.union()
        );
        stream(query, &mut |row| {
            if let [Some(value)] = *row {
                each(value);
            }
        })
    }

    /// The tables that have each of these values, given in their order and as one types them.
    ///
    /// # Errors
    /// If that is no query.
    pub fn tables_with(&self, values: &[String]) -> Result<Vec<Option<String>>, Error> {
        let query = format!(
            "SELECT string_agg(DISTINCT nullif(tab, 0::oid)::regclass::text, ', ') FROM ({}) AS source (tab, id) WHERE id IN ({}) GROUP BY id ORDER BY id",
            self.union(),
            values.join(", ")
        );
        let query = in_server_encoding(query);
        let tables: Result<_, pgrx::spi::Error> = Spi::connect(|client| {
            let rows = client.select(query.as_c_str(), None, &[])?;
            rows.map(|row| Ok(row.get::<Text>(1)?.map(|text| text.0))).collect()
        });
        Ok(tables?)
    }

    /// The statement that shows rows with these values.
    pub fn show(&self, values: &[String]) -> String {
        let Column { table, name, .. } = &self.column;
        format!("SELECT * FROM {table} WHERE {name} IN ({});", values.join(", "))
    }

    fn union(&self) -> String {
        self.parts.join(" UNION ALL ")
    }
}

impl Relation {
    /// Whether its rows are stored in tables of this database.
    fn is_stored(&self) -> bool {
        matches!(self.kind, b'r' | b'p' | b'm' | b't')
    }

    /// Whether a query can be made to read its rows as they are stored: one that asks for their table reads that, and no
    /// index.
    fn shows_order(&self) -> bool {
        self.is_stored() && self.readable
    }

    /// What makes a query read a sample. The same rows are in it each time. Of a table it is pages, so that the others are
    /// not read at all.
    fn sample(&self, value: &str, type_name: &str, percent: f64) -> String {
        if percent >= 100.0 {
            return String::new();
        }
        if self.is_stored() {
            return format!(" TABLESAMPLE SYSTEM ({percent}) REPEATABLE (0)");
        }
        let hash = if type_name == "uuid" { "uuid_hash_extended" } else { "hashint8extended" };
        let below = (percent / 100.0 * HASH_PARTS) as i64;
        format!(" WHERE {hash}({value}, 0) & {} < {below}", HASH_PARTS as i64 - 1)
    }
}

/// The relations that were given, and whether one has tables that another has, too.
fn relations(relation: pg_sys::Oid, others: DatumWithOid<'_>) -> Result<Vec<Relation>, Error> {
    const QUERY: &str = "
        WITH RECURSIVE given (place, oid) AS (
            SELECT place, oid::oid FROM unnest(ARRAY[$1::regclass] || $2) WITH ORDINALITY AS given (oid, place)),
        member (place, oid) AS (
            SELECT place, oid FROM given
             UNION
            SELECT place, inhrelid FROM member JOIN pg_inherits ON inhparent = oid)
        SELECT coalesce(c.oid::regclass::text, g.oid::text, 'NULL'), coalesce(c.relkind, '-')::text,
               coalesce(row_security_active(c.oid), false),
               coalesce(has_table_privilege(c.oid, 'SELECT'), false),
               (SELECT count(*) FROM member m JOIN pg_class t ON t.oid = m.oid AND t.relkind <> 'p'
                 WHERE m.place = g.place),
               (SELECT min(m.oid::regclass::text) FROM member m JOIN member before ON before.oid = m.oid
                 WHERE m.place = g.place AND before.place < g.place)
          FROM given g LEFT JOIN pg_class c ON c.oid = g.oid
         ORDER BY g.place";
    let found: Result<Vec<Relation>, pgrx::spi::Error> = Spi::connect(|client| {
        client
            .select(QUERY, None, &[relation.into(), others])?
            .map(|row| {
                Ok(Relation {
                    name: string(row.get(1)?),
                    kind: row
                        .get::<String>(2)?
                        .and_then(|kind| kind.bytes().next())
                        .unwrap_or(NO_RELATION),
                    row_security: row.get(3)?.unwrap_or(false),
                    readable: row.get(4)?.unwrap_or(false),
                    tables: row.get(5)?.unwrap_or(0),
                    again: row.get::<Text>(6)?.map(|text| text.0),
                })
            })
            .collect()
    });
    let found = found?;
    match found.iter().find(|relation| relation.kind == NO_RELATION) {
        Some(none) => Err(refusal::no_relation(&none.name).into()),
        None => Ok(found),
    }
}

/// Hands over the rows of a query.
fn stream(query: String, each: &mut dyn FnMut(Values)) -> Result<(), Error> {
    Ok(row_stream::each_row(&in_server_encoding(query), each)?)
}
