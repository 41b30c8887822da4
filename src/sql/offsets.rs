//! The SQL functions that divide the sequences of a schema among several servers, whose numbers never meet.
//!
//! `ALTER SEQUENCE` takes a lock that waits for every transaction that has called `nextval()`, and that later calls wait
//! for. So a sequence is altered first, only to lock it, then read again, and placed above what it says then: between the
//! two nobody gets a number. Giving it another start gives it another file, and with that every session drops the numbers
//! that it holds in advance (`CACHE`), which lie below the last one. All of it is undone with the transaction. Sequences
//! are locked in the order of their names.

use id_gen_core::offsets::{self, Class, Obstacle, Placed, Sequence};
use pgrx::datum::DatumWithOid;
use pgrx::prelude::PgSqlErrorCode as Code;
use pgrx::prelude::*;

use crate::convert::place::{by_default, rows};
use crate::error::{Error, Message};
use crate::observe::catalog_queries::string;
use crate::pg::fmgr::{Call, bigint, int8};
use crate::pg::schema::qualified_for_caller;
use crate::pg::text::{Text, in_error, in_server_encoding, literal};
use crate::sql::function::{refuse_on_standby, sql_function};

/// A sequence and where its numbers go.
struct Found {
    oid: pg_sys::Oid,
    /// As one types it.
    name: String,
    rule: Sequence,
    columns: Vec<Column>,
}

/// A column that gets its numbers from a sequence. Both names are as one types them.
struct Column {
    table: String,
    name: String,
}

/// What the functions are asked about.
struct Schema {
    name: String,
    oid: pg_sys::Oid,
    /// An array, or `None` for all.
    chosen: Option<pg_sys::Datum>,
}

sql_function! {
    /// `id_gen_offsets_plan(schema regnamespace, node integer, node_count integer, above bigint, sequences regclass[]) → SETOF
    /// (sequence, columns, increment, last_value, highest, first_value, numbers_left, statement, obstacle, remedy)`
    fn id_gen_offsets_plan(call) {
        let (schema, class) = (schema(call, 4)?, class(call)?);
        let above = call.int8(3);
        let found = schema.sequences()?;
        Ok(call.rows(found.iter().map(|found| {
            let placed = found.rule.placed(class, above);
            let columns: Vec<String> = found.columns.iter().map(|column| format!("{}.{}", column.table, column.name)).collect();
            [
                found.oid.into_datum(),
                (!columns.is_empty()).then(|| Text(columns.join(", "))).into_datum(),
                Some(int8(found.rule.increment)),
                found.rule.handed_out().map(int8),
                found.rule.highest().map(int8),
                placed.ok().map(|placed| int8(placed.first)),
                placed.ok().and_then(|placed| bigint(placed.left)),
                placed.ok().map(|placed| Text(found.statement(class, placed))).into_datum(),
                placed.err().map(|obstacle| obstacle.to_string()).into_datum(),
                placed.err().map(|obstacle| Text(found.remedy(&schema, obstacle))).into_datum(),
            ]
        })))
    }
}

sql_function! {
    /// `id_gen_offsets_set(…) → SETOF (sequence, first_value, numbers_left)`, with the same arguments.
    fn id_gen_offsets_set(call) {
        refuse_on_standby("id_gen_offsets_set")?;
        let (schema, class) = (schema(call, 4)?, class(call)?);
        let above = call.int8(3);
        // What is in the way is said before anybody has to wait.
        let place = |found: &Found| found.rule.placed(class, above);
        all(&schema, &schema.sequences()?, place)?;
        let lock = |found: &Found| format!("ALTER SEQUENCE {} INCREMENT BY {}", found.name, class.nodes());
        let found = schema.locked(lock)?;
        let placed = all(&schema, &found, place)?;
        for (found, &placed) in found.iter().zip(&placed) {
            run(found.statement(class, placed))?;
        }
        Ok(call.rows(found.iter().zip(placed).map(|(found, placed)| {
            [found.oid.into_datum(), Some(int8(placed.first)), bigint(placed.left)]
        })))
    }
}

sql_function! {
    /// `id_gen_offsets_fence(schema regnamespace, above bigint, sequences regclass[]) → SETOF (sequence, numbers_left)`
    fn id_gen_offsets_fence(call) {
        refuse_on_standby("id_gen_offsets_fence")?;
        let schema = schema(call, 2)?;
        let above = call.int8(1).ok_or_else(|| null("above"))?;
        let fence = |found: &Found| found.rule.fenced(above);
        all(&schema, &schema.sequences()?, fence)?;
        // It locks, and what is found in the way then takes it back.
        let bound = |found: &Found| format!("ALTER SEQUENCE {} MAXVALUE {}", found.name, above.min(found.rule.max));
        let found = schema.locked(bound)?;
        all(&schema, &found, fence)?;
        Ok(call.rows(found.iter().map(|found| {
            let Sequence { last, increment, is_called, max, .. } = found.rule;
            let left = max.abs_diff(last) / increment.unsigned_abs() + u64::from(!is_called);
            [found.oid.into_datum(), bigint(left)]
        })))
    }
}

sql_function! {
    /// `id_gen_offsets_check(schema regnamespace, node integer, node_count integer, sequences regclass[]) → SETOF (sequence,
    /// status, found, remedy)`
    fn id_gen_offsets_check(call) {
        let (schema, class) = (schema(call, 3)?, class(call)?);
        let mut checked = Vec::new();
        for found in schema.sequences()? {
            let faults = found.rule.faults(class, found.ahead(class)?);
            let status = match faults.iter().map(|fault| fault.is_warning()).min() {
                None => "ok",
                Some(true) => "warning",
                Some(false) => "error",
            };
            let said = if faults.is_empty() {
                format!("it returns the numbers of node {} of {}", class.node(), class.nodes())
            } else {
                faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            };
            let remedy = match (status, found.rule.placed(class, None)) {
                ("ok", _) => None,
                ("warning", _) => Some(found.wider()),
                (_, Err(obstacle)) => Some(found.remedy(&schema, obstacle)),
                (_, Ok(_)) => {
                    let here = found.rule.highest().unwrap_or(0);
                    Some(format!(
                        "On this node, the highest number is {here}. Continue above the highest number of all nodes: SELECT * FROM id_gen_offsets_set({}, {}, {}, above => <highest number of all nodes>, sequences => {});",
                        literal(&schema.name), class.node(), class.nodes(), found.array()
                    ))
                }
            };
            let remedy = remedy.map(|remedy| Text(qualified_for_caller(&remedy, call.function())));
            checked.push([found.oid.into_datum(), status.into_datum(), said.into_datum(), remedy.into_datum()]);
        }
        Ok(call.rows(checked))
    }
}

sql_function! {
    /// `id_gen_offsets_grow_plan(schema regnamespace, node_count integer, new_node_count integer, above bigint) → SETOF (step, node,
    /// statement, note)`
    fn id_gen_offsets_grow_plan(call) {
        let schema = schema(call, usize::MAX)?;
        let (old, new) = (count(call, 1, "node_count")?, count(call, 2, "new_node_count")?);
        if new <= old {
            return Err(too_few(&schema, old, new).into());
        }
        let function = call.function();
        let schema = literal(&schema.name);
        let steps = steps(&schema, old, new, call.int8(3));
        Ok(call.rows(steps.map(move |(step, node, statement, note)| {
            let statement = Text(qualified_for_caller(&statement, function));
            [step.into_datum(), node.into_datum(), statement.into_datum(), note.into_datum()]
        })))
    }
}

/// The steps from one division to another.
fn steps(
    schema: &str,
    old: i32,
    new: i32,
    above: Option<i64>,
) -> impl Iterator<Item = (i32, i32, String, &'static str)> {
    let ask = (1..=old).map(move |node| {
        let statement = format!("SELECT max(highest) FROM id_gen_offsets_plan({schema}, {node}, {old});");
        let note = "Shows the highest number of the node. Then list the remaining steps: run\nid_gen_offsets_grow_plan again with above => a number that is higher than on all\nnodes, with room for new rows until step 3.";
        (1, node, statement, note)
    });
    let schema = schema.to_owned();
    let change = above.into_iter().flat_map(move |above| {
        let fence = format!("SELECT * FROM id_gen_offsets_fence({schema}, {above});");
        let fences = (1..=old).map(move |node| {
            (
                2,
                node,
                fence.clone(),
                "Limits the node to numbers up to \"above\".\nRun on every node before step 3 on any node.",
            )
        });
        let set = schema.clone();
        let sets = (1..=new).map(move |node| {
            let statement = format!(
                "SELECT * FROM id_gen_offsets_set({set}, {node}, {new}, above => {above});"
            );
            (
                3,
                node,
                statement,
                "Continues above the limit with the numbers of the new division.\nRun in any order.",
            )
        });
        let check = schema.clone();
        let checks = (1..=new).map(move |node| {
            let statement = format!(
                "SELECT * FROM id_gen_offsets_check({check}, {node}, {new}) WHERE status <> 'ok';"
            );
            (4, node, statement, "Returns no row if all sequences are correct.")
        });
        fences.chain(sets).chain(checks)
    });
    ask.chain(change)
}

/// What the arguments name: a schema, and some sequences of it, or all.
fn schema(call: &Call, sequences: usize) -> Result<Schema, Error> {
    const QUERY: &str = "SELECT $1::oid::regnamespace::text FROM pg_namespace WHERE oid = $1";
    let Some(_) = call.arg(0) else { return Err(null("schema").into()) };
    let oid = call.oid(0);
    let name = rows(QUERY, &[oid.into()], |row| Ok(string(row.get(1)?)))?.pop();
    let Some(name) = name else { return Err(no_schema(oid).into()) };
    Ok(Schema { name, oid, chosen: call.arg(sequences) })
}

/// The node that the second and the third argument name.
fn class(call: &Call) -> Result<Class, Error> {
    let node = call.int4(1).ok_or_else(|| null("node"))?;
    let nodes = count(call, 2, "node_count")?;
    Class::new(node.into(), nodes.into()).ok_or_else(|| no_node(node, nodes).into())
}

/// A number of nodes.
fn count(call: &Call, index: usize, name: &str) -> Result<i32, Error> {
    let nodes = call.int4(index).ok_or_else(|| null(name))?;
    if (1..=MOST_NODES).contains(&nodes) { Ok(nodes) } else { Err(no_nodes(name, nodes).into()) }
}

impl Schema {
    /// Its sequences as they are, except for those that a moved column has left behind.
    fn sequences(&self) -> Result<Vec<Found>, Error> {
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
            return Err(no_sequence(name, &self.name).into());
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
    fn locked(&self, statement: impl Fn(&Found) -> String) -> Result<Vec<Found>, Error> {
        // SAFETY: reads a variable of this process.
        if unsafe { pg_sys::XactIsoLevel } >= pg_sys::XACT_REPEATABLE_READ as i32 {
            return Err(old_snapshot().into());
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
                return Err(row_security(&column).into());
            }
            self.rule.widest = self.rule.widest.min(widest);
            let stored = column.ask("max", "true")?;
            self.rule.stored = self.rule.stored.max(stored);
            self.columns.push(column);
        }
        Ok(())
    }

    /// The first number of a row that the sequence will come to.
    fn ahead(&self, class: Class) -> Result<Option<i64>, Error> {
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
    fn statement(&self, class: Class, placed: Placed) -> String {
        let Placed { first, unfenced, .. } = placed;
        let bound = if unfenced { " NO MAXVALUE" } else { "" };
        format!(
            "ALTER SEQUENCE {} INCREMENT BY {}{bound} START WITH {first} RESTART WITH {first};",
            self.name,
            class.nodes()
        )
    }

    /// What takes an obstacle away.
    fn remedy(&self, schema: &Schema, obstacle: Obstacle) -> String {
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
    fn wider(&self) -> String {
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
    fn array(&self) -> String {
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

/// What a rule says of all sequences.
///
/// # Errors
/// If it refuses one of them; the error names all that it refuses.
fn all<T>(
    schema: &Schema,
    found: &[Found],
    rule: impl Fn(&Found) -> Result<T, Obstacle>,
) -> Result<Vec<T>, Error> {
    let mut allowed = Vec::new();
    let mut refused = Vec::new();
    for each in found {
        match rule(each) {
            Ok(answer) => allowed.push(answer),
            Err(obstacle) => refused.push((each, obstacle)),
        }
    }
    if refused.is_empty() { Ok(allowed) } else { Err(obstacles(schema, &refused).into()) }
}

fn run(statement: String) -> Result<(), Error> {
    let statement = in_server_encoding(statement);
    Ok(Spi::connect_mut(|client| client.update(statement.as_c_str(), None, &[]).map(|_| ()))?)
}

const MOST_NODES: i32 = offsets::MOST_NODES.cast_signed();

fn obstacles(schema: &Schema, refused: &[(&Found, Obstacle)]) -> Message {
    let facts: Vec<String> =
        refused.iter().map(|(found, obstacle)| format!("{}: {obstacle}", found.name)).collect();
    let remedies: Vec<String> =
        refused.iter().map(|&(found, obstacle)| found.remedy(schema, obstacle)).collect();
    let name = in_error(&schema.name);
    Message::new(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("cannot divide sequences of schema {name}"),
    )
    .detail(in_error(&format!("{}. Nothing was changed.", facts.join("; "))))
    .hint(in_error(&remedies.join("\n")))
}

fn null(name: &str) -> Message {
    Message::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, format!("{name} must not be null"))
        .hint(format!("Pass a value for {name}."))
}

fn no_nodes(name: &str, nodes: i32) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("{name} must be from 1 to {MOST_NODES}"),
    )
    .detail(format!("The value of {name} is {nodes}."))
    .hint("Pass the number of servers that use the sequences.")
}

fn no_node(node: i32, nodes: i32) -> Message {
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, format!("node {node} does not exist"))
        .detail(format!(
            "With {nodes} nodes, their numbers are 1 to {nodes}; each server needs a different one."
        ))
        .hint(format!("Pass the number of this server, from 1 to {nodes}."))
}

fn no_schema(oid: pg_sys::Oid) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_SCHEMA_NAME,
        format!("schema with OID {} does not exist", oid.to_u32()),
    )
    .hint("Pass a schema of this database. To list them: SELECT nspname FROM pg_namespace;")
}

fn no_sequence(name: &str, schema: &str) -> Message {
    let (name, schema) = (in_error(name), in_error(schema));
    Message::new(
        Code::ERRCODE_WRONG_OBJECT_TYPE,
        format!("{name} is not a sequence of schema {schema}"),
    )
    .hint(format!(
        "To list its sequences: SELECT sequence FROM id_gen_offsets_plan({}, 1, 2);",
        literal(&schema)
    ))
}

fn too_few(schema: &Schema, old: i32, new: i32) -> Message {
    let fact = Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        "new_node_count must be greater than node_count",
    )
    .detail(format!("node_count is {old}, new_node_count is {new}. A node that is no longer needed requires no change."));
    if old == MOST_NODES {
        return fact.hint("There can be at most 1000 nodes. For more servers, use snowflakes.");
    }
    fact.hint(in_error(&format!(
        "For example: SELECT * FROM id_gen_offsets_grow_plan({}, {old}, {});",
        literal(&schema.name),
        old + 1
    )))
}

fn old_snapshot() -> Message {
    Message::new(
        Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
        "cannot divide sequences in a REPEATABLE READ or SERIALIZABLE transaction",
    )
    .detail("Such a transaction does not see rows committed after it began, and new numbers must be above them.")
    .hint("Use another isolation level: BEGIN ISOLATION LEVEL READ COMMITTED;")
}

fn row_security(column: &Column) -> Message {
    let column = in_error(&format!("{}.{}", column.table, column.name));
    Message::new(
        Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("row security hides rows of the table of column {column}"),
    )
    .detail("All stored numbers must be readable, so that new numbers are above them.")
    .hint("Run this as the owner of the table, or as a role with BYPASSRLS.")
}
