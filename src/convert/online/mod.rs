//! Where values change, or their type: a second column gets the new values while the table is in use, and in the end takes the
//! place of the first.
//!
//! The order of it: the columns are added, and triggers keep new rows in step; old rows get their values in batches; checks,
//! indexes and foreign keys like those of the old columns are made beside them; then the columns swap their names, in one
//! transaction. The old ones stay, kept in step the other way round, until the job is finished or undone.
//!
//! What is done when is written here, as statements of a [`script::Script`]. What carries it out, and survives a crash, is
//! in the schema that the first job makes (`sql/convert_job.sql`).

mod attributes;
mod columns;
mod constraints;
mod dependents;
mod indexes;
mod names;
mod obstacles;
mod script;

use pgrx::prelude::*;

use crate::convert::column::{Kind, Source};
use crate::convert::default_only;
use crate::convert::goal::{Goal, Node};
use crate::convert::place::{Place, rows};
use crate::convert::step::{Step, Target};
use crate::error::Error;
use crate::error::convert::Refusal;
use crate::observe::catalog_queries::string;
use crate::observe::readiness;
use crate::pg::text::{in_error, in_server_encoding, literal, quoted};

use columns::Member;
use names::Names;
use script::{Phase, Script, Statement};

/// The schema of the jobs, with the extension's in place of a word.
const JOB_SQL: &str = include_str!("../../../sql/convert_job.sql");
const EXTENSION_SCHEMA: &str = "@extschema@";
/// The same, as a string.
const EXTENSION_SCHEMA_AS_TEXT: &str = "@extschema_text@";

/// What a job consists of.
pub struct Job {
    members: Vec<Member>,
    script: Script,
    fills: Vec<Fill>,
    /// Views that are made again.
    views: Vec<String>,
    /// The triggers that keep rows in step: the table, the name, and whether it is for after the switch.
    triggers: Vec<(String, String, bool)>,
    /// Both names as the arguments of a function.
    arguments: String,
    target: Target,
    node: Option<Node>,
}

/// A table whose old rows get their values.
struct Fill {
    table: String,
    synchronize: Vec<String>,
    pending: String,
    assignment: Option<String>,
    allotted: Option<(String, String)>,
    mismatch: String,
    unreturned: String,
    has_triggers: bool,
}

impl Job {
    /// Works it out from the catalogs.
    ///
    /// # Errors
    /// If anything is in the way.
    pub fn new(source: &Source, place: Place, goal: &Goal) -> Result<Job, Error> {
        if goal.target == Target::Snowflake {
            readiness::check_but_for_waits(readiness::shared()?)?;
        }
        let names = Names::new()?;
        let members = columns::of(place, &names)?;
        let column = in_error(&format!("{}.{}", source.column.table, source.column.name));
        obstacles::refuse(&members, column.clone(), goal.created_at.is_some())?;
        let mut job = Job {
            members,
            script: Script::default(),
            fills: Vec::new(),
            views: Vec::new(),
            triggers: Vec::new(),
            arguments: source.column.arguments.clone(),
            target: goal.target,
            node: goal.node,
        };
        job.write_columns(source, goal)?;
        indexes::write(&job.members, &names, goal.node.is_some(), &mut job.script)?;
        if goal.node.is_some() && job.script.of(Phase::FirstIndex).next().is_none() {
            let found = vec![format!("{column} has no unique index")];
            return Err(Refusal::InTheWay { column, found }.into());
        }
        constraints::write(&job.members, &names, &mut job.script)?;
        let dependents = dependents::of(&job.members)?;
        job.views = dependents.views;
        for way in [Phase::Switch, Phase::Unswitch] {
            for text in &dependents.drop {
                job.script.add(way, 1, text.clone());
            }
            for text in &dependents.create {
                job.script.add(way, 12, text.clone());
            }
        }
        for sequence in source.sequences.iter().filter(|sequence| default_only::is_left(sequence)) {
            for phase in [Phase::Finish, Phase::Keep] {
                job.script.add(phase, 1, sequence.fence());
            }
        }
        Ok(job)
    }

    /// The columns: added, filled, swapped, taken away.
    fn write_columns(&mut self, source: &Source, goal: &Goal) -> Result<(), Error> {
        for text in attributes::copied(&self.members)? {
            self.script.add(Phase::Prepare, 2, text);
        }
        let members = std::mem::take(&mut self.members);
        for (index, member) in members.iter().enumerate() {
            let values = Values::of(&members, index, source, goal);
            self.write_column(member, &values, source, goal);
        }
        // Columns of a table that get their values in the same way get them together.
        let mut fills: Vec<Fill> = Vec::new();
        for fill in std::mem::take(&mut self.fills) {
            match fills.iter_mut().find(|other| other.goes_with(&fill)) {
                Some(other) => other.join(fill),
                None => fills.push(fill),
            }
        }
        self.fills = fills;
        self.members = members;
        Ok(())
    }

    fn write_column(&mut self, member: &Member, values: &Values, source: &Source, goal: &Goal) {
        let Member { table, not_null, .. } = member;
        let (name, new, old) = (member.typed(), member.typed_new(), member.typed_old());
        let target_type = goal.target.type_name();
        let script = &mut self.script;
        script.add(
            Phase::Prepare,
            1,
            format!("ALTER TABLE {table} ADD COLUMN {new} {target_type}"),
        );

        // What no row may lack, or have otherwise, while both columns are there.
        let check = quoted(&format!("id_gen_convert_{}", member.number));
        let rule = match (not_null, goal.created_at.is_some()) {
            (true, false) => format!("{new} IS NOT NULL AND {new} = {name}"),
            (false, false) => format!("{new} IS NOT DISTINCT FROM {name}"),
            (true, true) => format!("{new} IS NOT NULL"),
            (false, true) => format!("({new} IS NULL) = ({name} IS NULL)"),
        };
        let add = format!("ALTER TABLE {table} ADD CONSTRAINT {check} CHECK ({rule}) NOT VALID");
        let lock = Some((vec![table.clone()], "ACCESS EXCLUSIVE"));
        script.add_made(Phase::Check, table, check.trim_matches('"'), lock, add);
        script.add(Phase::Check, 1, format!("ALTER TABLE {table} VALIDATE CONSTRAINT {check}"));

        script.add(Phase::Switch, 2, values.forward.drop());
        for (phase, from, to) in [
            (Phase::Switch, &name, &old),
            (Phase::Switch, &new, &name),
            (Phase::Unswitch, &name, &new),
            (Phase::Unswitch, &old, &name),
        ] {
            script.add(phase, 5, format!("ALTER TABLE {table} RENAME COLUMN {from} TO {to}"));
        }
        if *not_null {
            script.add(
                Phase::Switch,
                6,
                format!("ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL"),
            );
            // It is still there for a while, and nobody gives it a value. By then it is no replica identity any more.
            script.add(
                Phase::Unswitch,
                10,
                format!("ALTER TABLE {table} ALTER COLUMN {new} DROP NOT NULL"),
            );
        }
        script.add(Phase::Switch, 6, format!("ALTER TABLE {table} DROP CONSTRAINT {check}"));
        // Without a default there is nothing that old values of new rows could come from.
        if *not_null && !values.has_old_values {
            script.add(
                Phase::Switch,
                6,
                format!("ALTER TABLE {table} ALTER COLUMN {old} DROP NOT NULL"),
            );
            script.add(
                Phase::Unswitch,
                6,
                format!("ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL"),
            );
        }
        if let Some(default) = &values.default {
            script.add(
                Phase::Switch,
                10,
                format!("ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {default}"),
            );
            script.add(
                Phase::Unswitch,
                10,
                format!("ALTER TABLE {table} ALTER COLUMN {new} DROP DEFAULT"),
            );
        }
        if let Some(backward) = &values.backward {
            for text in backward.create(table) {
                script.add(Phase::Switch, 11, text);
            }
            for phase in [Phase::Unswitch, Phase::Finish, Phase::Keep] {
                script.add(phase, 2, backward.drop());
            }
            let triggers = backward.triggers().map(|(name, ..)| (table.clone(), name, true));
            self.triggers.extend(triggers);
        }
        let triggers = values.forward.triggers().map(|(name, ..)| (table.clone(), name, false));
        self.triggers.extend(triggers);

        // Those that refer to others go first.
        let rank = if values.is_root { 3 } else { 2 };
        script.add(Phase::Clean, 1, values.forward.drop());
        script.add(Phase::Clean, rank, format!("ALTER TABLE {table} DROP COLUMN IF EXISTS {new}"));
        script.add(Phase::Finish, rank, format!("ALTER TABLE {table} DROP COLUMN {old}"));
        if values.is_root && source.identity.is_some() {
            script.add(
                Phase::Keep,
                rank,
                format!("ALTER TABLE {table} ALTER COLUMN {old} DROP IDENTITY"),
            );
        }
        if *not_null && values.has_old_values {
            script.add(
                Phase::Keep,
                rank,
                format!("ALTER TABLE {table} ALTER COLUMN {old} DROP NOT NULL"),
            );
        }
        script.add(
            Phase::Keep,
            rank,
            format!("ALTER TABLE {table} ALTER COLUMN {old} DROP DEFAULT"),
        );

        let create = values.forward.create(table);
        let synchronize = if values.is_root {
            for text in create {
                script.add(Phase::Prepare, 3, text);
            }
            Vec::new()
        } else {
            create
        };
        self.fills.push(Fill {
            table: table.clone(),
            synchronize,
            pending: format!("t.{new} IS NULL AND t.{name} IS NOT NULL"),
            assignment: values.assignment.clone().map(|value| format!("{new} = {value}")),
            allotted: values.allotted_at.clone().map(|at| (member.new_name.clone(), at)),
            mismatch: values.mismatch.clone(),
            unreturned: format!("t.{old} IS NULL AND t.{name} IS NOT NULL"),
            has_triggers: member.has_triggers,
        });
    }

    /// The plan of it: what a client types, in order.
    pub fn steps(&self, start: String) -> Vec<Step> {
        let arguments = &self.arguments;
        let call = |statement: String, lock_mode, note: String| Step {
            statement,
            lock_mode,
            in_transaction: true,
            undo: None,
            note,
        };
        let run = |note: &str| Step {
            in_transaction: false,
            ..call(
                format!("CALL id_gen_convert.run({arguments})"),
                Some("SHARE ROW EXCLUSIVE"),
                note.to_owned(),
            )
        };
        let index = |statement: &Statement, note: &str| Step {
            statement: statement.text.clone(),
            lock_mode: Some("SHARE UPDATE EXCLUSIVE"),
            in_transaction: false,
            undo: None,
            note: note.to_owned(),
        };
        let mut steps = vec![Step {
            undo: Some(format!("CALL id_gen_convert.undo({arguments})")),
            ..call(
                start,
                Some("ACCESS EXCLUSIVE"),
                format!(
                    "Makes the schema id_gen_convert for the job, unless there is one, and runs, waiting for locks 400 ms at a time: {}. What the job runs later is in the table id_gen_convert.statement from then on. Columns are added at the end of each table, so SELECT * shows one more.",
                    self.texts(Phase::Prepare)
                ),
            )
        }];
        steps.extend(self.script.of(Phase::FirstIndex).map(|statement| {
            index(statement, "Keeps the new values apart, and lets those that are taken be found.")
        }));
        steps.push(run(&format!(
            "Keeps new rows in step by triggers, gives old rows of these tables their values, in batches with a commit each, and then runs: {}. After a crash or Ctrl-C, type what id_gen_convert.todo({arguments}) says.",
            self.texts(Phase::Check)
        )));
        steps.extend(self.script.of(Phase::Index).map(|statement| {
            index(statement, "For the new column what the old one has, and for a primary key a way back. It waits for transactions that began before it.")
        }));
        steps.push(run(&format!(
            "Runs, with a commit each: {}.",
            [self.texts(Phase::Attach), self.texts(Phase::Reference)].concat()
        )));
        steps.push(call(
            format!("SELECT * FROM id_gen_convert.verify({arguments})"),
            Some("ACCESS SHARE"),
            "Reads every row: none lacks its value, none has another's, no value is there twice, no writer was missed. Without it there is no switch.".to_owned(),
        ));
        steps.push(Step {
            undo: Some(format!("CALL id_gen_convert.undo({arguments})")),
            ..call(
                format!("SELECT id_gen_convert.switch({arguments})"),
                Some("ACCESS EXCLUSIVE"),
                format!(
                    "Runs in one transaction: {}. From then on new rows have IDs of id_gen, and old values go on beside them until SELECT id_gen_convert.finish({arguments}), which nothing takes back.",
                    self.texts(Phase::Switch)
                ),
            )
        });
        steps
    }

    fn texts(&self, phase: Phase) -> String {
        self.script
            .of(phase)
            .map(|statement| statement.text.as_str())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Writes the job down and runs what comes first.
    ///
    /// # Errors
    /// If PostgreSQL refuses.
    pub fn start(&self, schema: &str) -> Result<(), Error> {
        match schema_owner()? {
            None => run(JOB_SQL
                .replace(EXTENSION_SCHEMA_AS_TEXT, &literal(schema))
                .replace(EXTENSION_SCHEMA, schema))?,
            Some((_, true)) => {}
            Some((owner, false)) => {
                return Err(Refusal::SchemaOfAnother(in_error(&owner)).into());
            }
        }
        run(self.record()?)
    }

    /// The statements that write it down and run what comes first.
    fn record(&self) -> Result<String, Error> {
        let arguments = &self.arguments;
        let job = "currval('id_gen_convert.job_id_seq')";
        // What is referred to first, as most lock them.
        let mut tables: Vec<&str> = Vec::new();
        for member in &self.members {
            if !tables.contains(&member.table.as_str()) {
                tables.push(&member.table);
            }
        }
        let tables = as_array(tables);
        let node = match &self.node {
            Some(node) => {
                let layout = readiness::layout()?;
                [node.bits, layout.min_of(1), layout.stride(), layout.per_tick()]
                    .map(|bits| bits.to_string())
                    .join(", ")
            }
            None => "NULL, NULL, NULL, NULL".to_owned(),
        };
        let mut text = format!(
            "INSERT INTO id_gen_convert.job (relation, column_name, target, tables, views, node, tick_step, sequence_step, sequence_size) VALUES ({arguments}, {}, {}, {}, {node});",
            literal(self.target.name()),
            tables,
            as_array(&self.views)
        );
        for Member { table, name, new_name, old_name, .. } in &self.members {
            let values = [table, name, new_name, old_name].map(|value| literal(value)).join(", ");
            text.push_str(&format!("INSERT INTO id_gen_convert.member VALUES ({job}, {values});"));
        }
        for (phase, place, Statement { text: statement, lock, made }) in self.script.all() {
            let (tables, lock_mode) = match lock {
                Some((tables, mode)) => (as_array(tables), Some(*mode)),
                None => ("NULL".to_owned(), None),
            };
            let (made_on, made) = made
                .as_ref()
                .map_or((None, None), |(table, name)| (Some(table.as_str()), Some(name.as_str())));
            text.push_str(&format!(
                "INSERT INTO id_gen_convert.statement VALUES ({job}, '{}', {place}, {}, {}, {}, {}, {});",
                phase.name(),
                literal(statement),
                tables,
                or_null(lock_mode),
                or_null(made_on),
                or_null(made)
            ));
        }
        for (index, fill) in self.fills.iter().enumerate() {
            let allotted = fill.allotted.as_ref();
            text.push_str(&format!(
                "INSERT INTO id_gen_convert.fill (job, place, relation, synchronize, pending, assignment, allotted_column, allotted_at, mismatch, unreturned, has_triggers) VALUES ({job}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});",
                index + 1,
                literal(&fill.table),
                as_array(&fill.synchronize),
                literal(&fill.pending),
                or_null(fill.assignment.as_deref()),
                or_null(allotted.map(|(column, _)| column.as_str())),
                or_null(allotted.map(|(_, at)| at.as_str())),
                literal(&fill.mismatch),
                literal(&fill.unreturned),
                fill.has_triggers
            ));
        }
        for (table, name, is_backward) in &self.triggers {
            text.push_str(&format!(
                "INSERT INTO id_gen_convert.trigger_of VALUES ({job}, {}, {}, {is_backward});",
                literal(table),
                literal(name)
            ));
        }
        text.push_str(&format!("SELECT id_gen_convert.begin({job}::integer);"));
        Ok(text)
    }
}

impl Fill {
    fn goes_with(&self, other: &Fill) -> bool {
        self.table == other.table
            && self.assignment.is_some()
            && other.assignment.is_some()
            && self.synchronize.is_empty() == other.synchronize.is_empty()
    }

    fn join(&mut self, other: Fill) {
        self.synchronize.extend(other.synchronize);
        for (own, others) in [
            (&mut self.pending, other.pending),
            (&mut self.mismatch, other.mismatch),
            (&mut self.unreturned, other.unreturned),
        ] {
            *own = format!("({own}) OR ({others})");
        }
        if let (Some(own), Some(others)) = (&mut self.assignment, other.assignment) {
            own.push_str(&format!(", {others}"));
        }
    }
}

/// Where the values of a column come from.
struct Values {
    is_root: bool,
    /// Keeps new rows in step before the switch.
    forward: Trigger,
    /// The same after it, for a column that refers to another.
    backward: Option<Trigger>,
    /// What an old row gets; `None` if its ID has to be looked for.
    assignment: Option<String>,
    /// The time that the ID of an old row carries, if it has to be looked for.
    allotted_at: Option<String>,
    /// Which rows have a wrong value.
    mismatch: String,
    /// What new rows get after the switch, if they name no value.
    default: Option<String>,
    /// Whether new rows get an old value after the switch.
    has_old_values: bool,
}

impl Values {
    fn of(members: &[Member], index: usize, source: &Source, goal: &Goal) -> Values {
        let (member, root) = (&members[index], &members[0]);
        let schema = &source.column.generator_schema;
        let is_root = index == 0;
        let (name, new) = (member.typed(), member.typed_new());
        let generator = format!("{schema}.{}", goal.target.generator());
        let has_old_values = root.default.is_some() || source.identity.is_some();
        // The value that belongs to that of the column which this one refers to.
        let of_root = |of: &str, by: &str, at: &str| {
            format!("(SELECT p.{of} FROM {} p WHERE p.{by} = {at})", root.table)
        };
        let lookup = of_root(&root.typed_new(), &root.typed(), &format!("t.{name}"));
        let forward = |body, insert, update| Trigger {
            member: member.key(),
            number: member.number,
            direction: "forward",
            order: if is_root { 1 } else { 2 },
            body,
            reads: false,
            insert,
            update,
        };
        let (forward, assignment, mismatch) = match (&goal.created_at, is_root) {
            (None, _) => {
                let differs = format!("NEW.{new} IS DISTINCT FROM NEW.{name}");
                (
                    forward(format!("NEW.{new} := NEW.{name};"), differs.clone(), Some(differs)),
                    Some(format!("t.{name}")),
                    format!("t.{new} IS DISTINCT FROM t.{name}"),
                )
            }
            (Some(at), true) => (
                forward(format!("NEW.{new} := {generator};"), format!("NEW.{new} IS NULL"), None),
                (goal.target == Target::Uuidv7).then(|| uuid_at(schema, at)),
                format!("t.{new} IS NULL"),
            ),
            (Some(_), false) => (
                Trigger::that_follows(member, "forward", &new, &root.typed_new(), root),
                Some(lookup.clone()),
                format!("t.{new} IS DISTINCT FROM {lookup}"),
            ),
        };
        let backward = (!is_root).then(|| {
            Trigger::that_follows(member, "backward", &member.typed_old(), &root.typed_old(), root)
        });
        Values {
            is_root,
            forward,
            backward,
            allotted_at: goal.created_at.clone().filter(|_| is_root && assignment.is_none()),
            assignment,
            mismatch,
            default: if is_root { Some(generator) } else { member.default.clone() },
            has_old_values,
        }
    }
}

/// A UUID version 7 of a time: its milliseconds, and the rest of a new one.
fn uuid_at(schema: &str, at: &str) -> String {
    format!(
        "encode(substr(uuid_send({schema}.uuidv7_min(greatest(least(coalesce({at}, transaction_timestamp()), transaction_timestamp()), 'epoch'))), 1, 6) || substr(uuid_send({schema}.uuidv7()), 7), 'hex')::uuid"
    )
}

/// What keeps rows in step: a function, and when it is called.
struct Trigger {
    /// Tells its function apart.
    member: String,
    number: i16,
    direction: &'static str,
    /// The one of the column that others refer to is called first: they may refer to the same row.
    order: u8,
    /// What it does with a row.
    body: String,
    /// Whether it reads a table that whoever writes here need not be allowed to read.
    reads: bool,
    /// Whether it has to do that with a row that is inserted, and with one that is updated: conditions that PostgreSQL
    /// evaluates by itself, so that rows which are in step, as those that are filled, cost no call.
    insert: String,
    update: Option<String>,
}

impl Trigger {
    /// One that gives a column the value which belongs to the one that the member refers to.
    fn that_follows(
        member: &Member,
        direction: &'static str,
        to: &str,
        of: &str,
        root: &Member,
    ) -> Trigger {
        let (name, table, by) = (member.typed(), &root.table, root.typed());
        let message = literal(&format!("row of {table} is not there yet"));
        let to_itself = if member.relation == root.relation {
            format!("ELSIF NEW.{name} = NEW.{by} THEN NEW.{to} := NEW.{of}; ")
        } else {
            String::new()
        };
        Trigger {
            member: member.key(),
            number: member.number,
            direction,
            order: 2,
            body: format!(
                "IF NEW.{name} IS NULL THEN NEW.{to} := NULL; {to_itself}ELSE \
                 NEW.{to} := (SELECT p.{of} FROM {table} p WHERE p.{by} = NEW.{name}); \
                 IF NEW.{to} IS NULL THEN RAISE foreign_key_violation USING MESSAGE = {message}, \
                 DETAIL = format('What is looked up is %s.', NEW.{name}), \
                 HINT = 'While the table is moved over, insert what is referred to first; in REPEATABLE READ, begin again.'; \
                 END IF; END IF;"
            ),
            reads: true,
            insert: format!("NEW.{name} IS NOT NULL OR NEW.{to} IS NOT NULL"),
            update: Some(format!(
                "NEW.{name} IS DISTINCT FROM OLD.{name} OR (NEW.{to} IS NULL) <> (NEW.{name} IS NULL)"
            )),
        }
    }

    fn function(&self) -> String {
        format!("id_gen_convert.{}_{}", self.direction, self.member)
    }

    /// The triggers, and when each calls the function. PostgreSQL fires triggers in the order of their names, and these shall
    /// see what others have set.
    fn triggers(&self) -> impl Iterator<Item = (String, &'static str, &str)> {
        let name =
            |event| format!("zz_id_gen_{}_{}_{}_{event}", self.direction, self.order, self.number);
        let update = self.update.as_deref().map(|when| (name("update"), "UPDATE", when));
        std::iter::once((name("insert"), "INSERT", self.insert.as_str())).chain(update)
    }

    fn create(&self, table: &str) -> Vec<String> {
        let function = self.function();
        let body = literal(&format!("BEGIN {} RETURN NEW; END", self.body));
        let rights =
            if self.reads { " SECURITY DEFINER SET search_path = pg_catalog, pg_temp" } else { "" };
        let mut statements = vec![format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql{rights} AS {body}"
        )];
        for (name, event, when) in self.triggers() {
            statements.push(format!("CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {function}()"));
            // Also for what replication or a restore writes.
            statements.push(format!("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"));
        }
        statements
    }

    /// Also drops the triggers; in an undo, there may be none yet.
    fn drop(&self) -> String {
        format!("DROP FUNCTION IF EXISTS {}() CASCADE", self.function())
    }
}

/// Whether there is a job for the column.
///
/// # Errors
/// If that can't be read.
pub fn is_started(source: &Source) -> Result<bool, Error> {
    if !has_schema()? {
        return Ok(false);
    }
    let arguments = &source.column.arguments;
    let query = format!(
        "SELECT EXISTS (SELECT FROM id_gen_convert.job j JOIN (VALUES ({arguments})) AS asked (relation, name)
                            ON asked.relation::regclass = j.relation AND asked.name = j.column_name)"
    );
    Ok(rows(&query, &[], |row| row.get::<bool>(1))?.contains(&Some(true)))
}

/// Whether there is a schema of jobs that this role owns.
///
/// What is in one that somebody else has made may be anything, so nothing there is looked at.
fn has_schema() -> Result<bool, Error> {
    Ok(schema_owner()?.is_some_and(|(_, is_own)| is_own))
}

/// Who owns the schema of jobs, and whether that is this role.
fn schema_owner() -> Result<Option<(String, bool)>, Error> {
    const QUERY: &str = "
        SELECT quote_ident(pg_get_userbyid(nspowner)), pg_get_userbyid(nspowner) = current_user
          FROM pg_namespace WHERE nspname = 'id_gen_convert'";
    let owners = rows(QUERY, &[], |row| Ok((string(row.get(1)?), row.get(2)?.unwrap_or(false))))?;
    Ok(owners.into_iter().next())
}

/// Whether a column's values have to change, or its type.
pub fn is_needed(source: &Source, goal: &Goal) -> bool {
    goal.created_at.is_some() || source.kind == Kind::Narrow || source.has_narrow_references
}

/// An array of texts, as one types it.
fn as_array(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let literals: Vec<String> = texts.into_iter().map(|text| literal(text.as_ref())).collect();
    format!("ARRAY[{}]::text[]", literals.join(", "))
}

fn or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), literal)
}

/// Runs statements.
fn run(statements: String) -> Result<(), Error> {
    Ok(Spi::connect_mut(|client| {
        client.update(in_server_encoding(statements).as_c_str(), None, &[]).map(|_| ())
    })?)
}
