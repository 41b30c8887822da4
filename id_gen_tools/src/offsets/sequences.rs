//! The sequences of a schema as they are, with the columns that they fill, and what makes each that of a node.
//!
//! `ALTER SEQUENCE` takes a lock that waits for every transaction that has called `nextval()`, and that later calls wait
//! for. So a sequence is altered first, only to lock it, then read again, and placed above what it says then: between the
//! two nobody gets a number. Giving it another start gives it another file, and with that every session drops the numbers
//! that it holds in advance (`CACHE`), which lie below the last one. All of it is undone with the transaction. Sequences
//! are locked in the order of their names.

use id_gen_base::catalog::string;
use id_gen_base::pg::text::{in_error, in_server_encoding, literal};
use id_gen_core::offsets::{Class, Obstacle, Placed, Sequence};
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::error::Error;
use crate::offsets::refusal;
use crate::query::{by_default, rows};

/// A sequence and where its numbers go.
pub struct Found {
    /// Its OID.
    pub oid: pg_sys::Oid,
    /// As one types it.
    pub name: String,
    /// What its numbers follow from.
    pub rule: Sequence,
    /// What it fills.
    pub columns: Vec<Column>,
}

/// A column that gets its numbers from a sequence. Both names are as one types them.
pub struct Column {
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
}

/// What the functions are asked about.
pub struct Schema {
    /// As one types it.
    pub name: String,
    /// Its OID.
    pub oid: pg_sys::Oid,
    /// An array, or `None` for all.
    pub chosen: Option<pg_sys::Datum>,
}

impl Schema {
    /// Its sequences as they are, except for those that a moved column has left behind.
    pub fn sequences(&self) -> Result<Vec<Found>, Error> {
        const MISSING: &str = "
            SELECT coalesce(c.relation::regclass::text, 'NULL') FROM unnest($2) AS c (relation)
             WHERE NOT EXISTS (SELECT FROM pg_sequence s JOIN pg_class r ON r.oid = s.seqrelid
                                WHERE s.seqrelid = c.relation AND r.relnamespace = $1)";
        const QUERY: &str = "
            SELECT s.seqrelid, s.seqrelid::regclass::text, s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcycle,
                   CASE s.seqtypid WHEN 'smallint'::regtype THEN 32767 WHEN 'integer'::regtype THEN 2147483647
                        ELSE 9223372036854775807 END
              FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
             WHERE c.relnamespace = $1 AND s.seqincrement <> 9223372036854775807
                   AND ($2 IS NULL OR s.seqrelid = ANY ($2))
             ORDER BY c.relname";
        let arguments = self.arguments();
        let missing = rows(MISSING, &arguments, |row| Ok(string(row.get(1)?)))?;
        if let Some(name) = missing.first() {
            return Err(refusal::no_sequence(name, &self.name).into());
        }
        let mut found = rows(QUERY, &arguments, |row| {
            let number = |place| row.get::<i64>(place).map(Option::unwrap_or_default);
            Ok(Found {
                oid: row.get(1)?.unwrap_or(pg_sys::InvalidOid),
                name: string(row.get(2)?),
                rule: Sequence {
                    increment: number(3)?,
                    min: number(4)?,
                    max: number(5)?,
                    start: number(6)?,
                    cycle: row.get(7)?.unwrap_or(false),
                    widest: number(8)?,
                    last: 0,
                    is_called: false,
                    stored: None,
                },
                columns: Vec::new(),
            })
        })?;
        for each in &mut found {
            each.look()?;
        }
        Ok(found)
    }

    /// It, and those that are chosen.
    fn arguments(&self) -> [DatumWithOid<'static>; 2] {
        let chosen = match self.chosen {
            // SAFETY: an argument of this type, which lives as long as the call.
            Some(array) => unsafe { DatumWithOid::new(array, pg_sys::REGCLASSARRAYOID) },
            None => DatumWithOid::null_oid(pg_sys::REGCLASSARRAYOID),
        };
        [self.oid.into(), chosen]
    }

    /// Locks its sequences by a statement for each, and reads them then.
    pub fn locked(&self, statement: impl Fn(&Found) -> String) -> Result<Vec<Found>, Error> {
        // SAFETY: reads a variable of this process.
        if unsafe { pg_sys::XactIsoLevel } >= pg_sys::XACT_REPEATABLE_READ as i32 {
            return Err(refusal::old_snapshot().into());
        }
        // While it waits for one, others may be made, or get another name.
        let mut locked: Vec<(pg_sys::Oid, String)> = Vec::new();
        loop {
            let found = self.sequences()?;
            let mut is_all = true;
            for one in &found {
                let each = (one.oid, one.name.clone());
                if !locked.contains(&each) {
                    run(statement(one))?;
                    locked.push(each);
                    is_all = false;
                }
            }
            if is_all {
                return Ok(found);
            }
        }
    }
}

impl Found {
    /// Reads what it has come to, and its columns. A child's column counts with its parent's.
    fn look(&mut self) -> Result<(), Error> {
        const COLUMNS: &str = concat!(
            "
            WITH ",
            by_default!(),
            "
            filled (relation, number) AS (
                SELECT relation, number FROM by_default WHERE sequence = $1
                 UNION
                SELECT refobjid, refobjsubid::smallint FROM pg_depend
                 WHERE classid = 'pg_class'::regclass AND objid = $1 AND refclassid = 'pg_class'::regclass
                       AND refobjsubid > 0 AND deptype IN ('a', 'i'))
            SELECT c.oid::regclass::text, quote_ident(a.attname), row_security_active(c.oid),
                   CASE t.oid WHEN 'smallint'::regtype THEN 32767::bigint
                        WHEN 'integer'::regtype THEN 2147483647 WHEN 'bigint'::regtype THEN 9223372036854775807 END AS widest
              FROM filled f JOIN pg_class c ON c.oid = f.relation AND c.relkind IN ('r', 'p')
              JOIN pg_attribute a ON a.attrelid = f.relation AND a.attnum = f.number
              JOIN LATERAL (
                   WITH RECURSIVE under (oid, base) AS (
                        SELECT oid, typbasetype FROM pg_type WHERE oid = a.atttypid
                         UNION
                        SELECT t.oid, typbasetype FROM under JOIN pg_type t ON t.oid = under.base)
                   SELECT oid FROM under WHERE base = 0) t ON true
             WHERE NOT EXISTS (SELECT FROM pg_inherits i JOIN filled p ON p.relation = i.inhparent
                                 JOIN pg_attribute b ON b.attrelid = p.relation AND b.attnum = p.number
                                WHERE i.inhrelid = f.relation AND b.attname = a.attname)
             ORDER BY 1, 2"
        );
        let state = format!("SELECT last_value, is_called FROM {}", self.name);
        let state = rows(&state, &[], |row| Ok((row.get(1)?, row.get(2)?)))?;
        if let Some(&(Some(last), Some(is_called))) = state.first() {
            (self.rule.last, self.rule.is_called) = (last, is_called);
        }
        let columns = rows(COLUMNS, &[self.oid.into()], |row| {
            let column = Column { table: string(row.get(1)?), name: string(row.get(2)?) };
            Ok((column, row.get::<bool>(3)?.unwrap_or(false), row.get::<i64>(4)?))
        })?;
        for (column, hides_rows, widest) in columns {
            // Text made of a number has no number of its own.
            let Some(widest) = widest else { continue };
            if hides_rows {
                return Err(refusal::row_security(&in_error(&format!(
                    "{}.{}",
                    column.table, column.name
                )))
                .into());
            }
            self.rule.widest = self.rule.widest.min(widest);
            let stored = column.ask("max", "true")?;
            self.rule.stored = self.rule.stored.max(stored);
            self.columns.push(column);
        }
        Ok(())
    }

    /// The first number of a row that the sequence will come to.
    pub fn ahead(&self, class: Class) -> Result<Option<i64>, Error> {
        let above = if self.rule.is_called { ">" } else { ">=" };
        let (nodes, remainder) = (class.nodes(), class.node() % class.nodes());
        let mut first: Option<i64> = None;
        for column in &self.columns {
            let name = &column.name;
            let condition = format!(
                "{name} {above} {} AND ({name}::bigint % {nodes} + {nodes}) % {nodes} = {remainder}",
                self.rule.last
            );
            let found = column.ask("min", &condition)?;
            first = [first, found].into_iter().flatten().min();
        }
        Ok(first)
    }

    /// What makes it that of a node.
    pub fn statement(&self, class: Class, placed: Placed) -> String {
        let Placed { first, unfenced, .. } = placed;
        let bound = if unfenced { " NO MAXVALUE" } else { "" };
        format!(
            "ALTER SEQUENCE {} INCREMENT BY {}{bound} START WITH {first} RESTART WITH {first};",
            self.name,
            class.nodes()
        )
    }

    /// What takes an obstacle away.
    pub fn remedy(&self, schema: &Schema, obstacle: Obstacle) -> String {
        let name = &self.name;
        match obstacle {
            Obstacle::Descending if self.rule.max >= self.rule.widest => {
                format!(
                    "{name} may have returned any number. Use another sequence for its columns."
                )
            }
            // Above all that it may have handed out on its way down.
            Obstacle::Descending => {
                let first = self.rule.max.saturating_add(1).max(1);
                format!(
                    "ALTER SEQUENCE {name} INCREMENT BY 1 NO MINVALUE NO MAXVALUE START WITH {first} RESTART WITH {first};"
                )
            }
            Obstacle::Cycles => format!("ALTER SEQUENCE {name} NO CYCLE;"),
            Obstacle::Beyond { highest, .. } => format!(
                "Run this on every node, and then id_gen_offsets_set with the same \"above\" on every node, also where it was run before: SELECT * FROM id_gen_offsets_fence({}, {});",
                literal(&schema.name),
                highest.saturating_mul(2).min(self.rule.widest.saturating_sub(1))
            ),
            Obstacle::UsedUp { .. } => self.wider(),
            Obstacle::Bounded(_) => self.unbounded(),
        }
    }

    /// What gives it more numbers.
    pub fn wider(&self) -> String {
        if self.rule.max < self.rule.widest {
            return self.unbounded();
        }
        let name = &self.name;
        let columns = self.columns.iter().map(|Column { table, name }| {
            format!("ALTER TABLE {table} ALTER COLUMN {name} TYPE bigint; ")
        });
        let columns = columns.collect::<String>();
        let rewrites =
            if columns.is_empty() { "" } else { "This rewrites the table under a lock: " };
        format!("{rewrites}{columns}ALTER SEQUENCE {name} AS bigint;")
    }

    /// What takes its largest number away. Where that is a fence, others may have begun above it, and the sequence must not.
    fn unbounded(&self) -> String {
        let Found { name, rule: Sequence { max, .. }, .. } = self;
        format!(
            "If id_gen_offsets_fence set MAXVALUE {max} of {name}, only id_gen_offsets_set(..., above => {max}) may remove it; to start higher, call that again with a higher \"above\" in the same transaction. Otherwise: ALTER SEQUENCE {name} NO MAXVALUE;"
        )
    }

    /// It alone, as an argument.
    pub fn array(&self) -> String {
        format!("ARRAY[{}::regclass]", literal(&self.name))
    }
}

impl Column {
    /// The smallest or largest of its values that meet a condition.
    fn ask(&self, aggregate: &str, condition: &str) -> Result<Option<i64>, Error> {
        let Column { table, name } = self;
        let query = format!("SELECT {aggregate}({name})::bigint FROM {table} WHERE {condition}");
        Ok(rows(&query, &[], |row| row.get(1))?.pop().flatten())
    }
}

/// Runs a statement.
///
/// # Errors
/// If SPI refuses it.
pub fn run(statement: String) -> Result<(), Error> {
    let statement = in_server_encoding(statement);
    Ok(Spi::connect_mut(|client| client.update(statement.as_c_str(), None, &[]).map(|_| ()))?)
}
