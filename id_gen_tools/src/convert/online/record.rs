//! Writing a job down in the schema of the jobs, which the first one makes; and whose that schema is.

use id_gen_base::catalog::string;
use id_gen_base::error::Message;
use id_gen_base::pg::settings;
use id_gen_base::pg::subtransaction::{self, Caught};
use id_gen_base::pg::text::{in_error, in_server_encoding, literal};
use id_gen_core::planted::Fault;
use pgrx::prelude::*;

use crate::convert::column::Source;
use crate::convert::online::columns::{self, Member};
use crate::convert::online::job::Job;
use crate::convert::online::losses::LOSSES;
use crate::convert::online::obstacles::{CONTEXT, FIRING, OBSTACLES, inner_types};
use crate::convert::online::script::Statement;
use crate::convert::refusal::Refusal;
use crate::convert::texts;
use crate::error::Error;
use crate::query::rows;
use crate::server::Server;

/// The schema of the jobs, with that of `id_gen` in place of a word.
const JOB_SQL: &str = include_str!("../../../sql/convert_job.sql");
const EXTENSION_SCHEMA: &str = "@extschema@";
/// The same, as a string.
const EXTENSION_SCHEMA_AS_TEXT: &str = "@extschema_text@";
/// What each function of the schema is declared with.
const SETTINGS: &str = "@settings@";
/// The statements that set those to their defaults which stored values may depend on.
const DEFAULTS: &str = "@defaults@";
/// The queries for obstacles and losses, and for triggers that would fire, in the functions that check again.
const LOST: &str = "@losses@";
const FIRED: &str = "@firing@";
/// What a type is made of, in a query.
const INNER_TYPES: &str = "@inner_types@";

/// The number of the job that is being written down: the highest, and of one at a time. A sequence would change `lastval()` of
/// a session that only plans.
const THIS_JOB: &str = "(SELECT max(id) FROM id_gen_convert.job)";

/// How often a start tries to lock the tables.
const TRIES: u32 = 40;

impl Job {
    /// Writes the job down and runs what comes first.
    ///
    /// # Errors
    /// If PostgreSQL refuses.
    pub fn start(&self, schema: &str) -> Result<(), Error> {
        self.scripts(schema, TRIES)?.into_iter().try_for_each(run)
    }

    /// Starts the job and takes that back: what the start refuses is refused in the plan. Everything else that keeps the job
    /// from starting now is left to the start, above all locks of others and privileges.
    ///
    /// # Errors
    /// If the start would refuse what is there.
    pub fn rehearse(&self, schema: &str) -> Result<(), Error> {
        let Ok(scripts) = self.scripts(schema, 1) else { return Ok(()) };
        let tried = subtransaction::rehearse(|| {
            settings::with(&[(c"lock_timeout", c"400ms")], || {
                let _ = scripts.into_iter().try_for_each(run);
            });
        });
        match tried {
            Err(Caught { code, primary, detail, hint })
                if code == PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED =>
            {
                Err(Message::new(code, primary).detail(detail).hint(hint).into())
            }
            _ => Ok(()),
        }
    }

    /// The scripts that start it, each by itself, so that an error does not show all of the record as its context. `tries` is
    /// how often the tables are tried to lock.
    fn scripts(&self, schema: &str, tries: u32) -> Result<Vec<String>, Error> {
        refuse_borrowed_role()?;
        let mut scripts = Vec::new();
        match schema_owner()? {
            None => {
                refuse_without_create()?;
                let of_job = |query: String| columns::query_of_job(&format!("{CONTEXT} {query}"));
                let mut script = JOB_SQL
                    .replace(SETTINGS, &texts::as_clauses())
                    .replace(DEFAULTS, &texts::as_defaults())
                    .replace(INNER_TYPES, inner_types!())
                    .replace(LOST, &of_job(format!("{OBSTACLES} UNION ALL {LOSSES}")))
                    .replace(FIRED, &of_job(FIRING.to_owned()))
                    .replace(EXTENSION_SCHEMA_AS_TEXT, &literal(schema))
                    .replace(EXTENSION_SCHEMA, schema);
                for (is_planted, compared) in [
                    (
                        Fault::UndoComparesNothing.is_planted(),
                        "c.changed IS NOT NULL AND NOT force",
                    ),
                    (Fault::MeaningsNotCompared.is_planted(), "a.key IS DISTINCT FROM b.key"),
                ] {
                    if is_planted {
                        assert!(script.contains(compared), "the script compares in other words");
                        script = script.replace(compared, "false");
                    }
                }
                scripts.push(script);
            }
            Some((_, true)) => {}
            Some((owner, false)) => {
                return Err(Refusal::SchemaOfAnother(in_error(&owner)).into());
            }
        }
        scripts.push(self.record()?);
        scripts.push(format!("SELECT id_gen_convert.start_job({THIS_JOB}, {tries})"));
        Ok(scripts)
    }

    /// The statements that write it down and run what comes first.
    fn record(&self) -> Result<String, Error> {
        let arguments = &self.arguments;
        let job = THIS_JOB;
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
                let layout = Server::ask()?.layout()?;
                let numbers = [node.bits, layout.min_of(1), layout.stride(), layout.per_tick()];
                format!(
                    "{}, {}",
                    numbers.map(|bits| bits.to_string()).join(", "),
                    literal(&layout.to_string())
                )
            }
            None => "NULL, NULL, NULL, NULL, NULL".to_owned(),
        };
        let mut text = format!(
            "LOCK TABLE id_gen_convert.job IN SHARE UPDATE EXCLUSIVE MODE; INSERT INTO id_gen_convert.job (id, relation, column_name, target, tables, others, node, tick_step, sequence_step, sequence_size, layout) VALUES ((SELECT coalesce(max(id), 0) + 1 FROM id_gen_convert.job), {arguments}, {}, {}, {}, {node});",
            literal(self.target.name()),
            tables,
            as_array(&self.others)
        );
        for Member { table, name, new_name, old_name, .. } in &self.members {
            let values = [table, name, new_name, old_name].map(|value| literal(value)).join(", ");
            text.push_str(&format!("INSERT INTO id_gen_convert.member VALUES ({job}, {values});"));
        }
        for (phase, place, statement) in self.script.all() {
            let Statement { text: statement, lock, table, made, remade } = statement;
            let (tables, lock_mode) = match lock {
                Some((tables, mode)) => (as_array(tables), Some(*mode)),
                None => ("NULL".to_owned(), None),
            };
            let (object, remedy) = remade.as_ref().map_or((None, None), |remade| {
                (Some(remade.object.as_str()), Some(remade.remedy.as_str()))
            });
            text.push_str(&format!(
                "INSERT INTO id_gen_convert.statement VALUES ({job}, '{}', {place}, {}, {}, {}, {}, {}, {}, {});",
                phase.name(),
                literal(statement),
                tables,
                or_null(lock_mode),
                or_null(table.as_deref()),
                or_null(made.as_deref()),
                or_null(object),
                or_null(remedy)
            ));
        }
        for (index, fill) in self.fills.iter().enumerate() {
            let allotted = fill.allotted.as_ref();
            text.push_str(&format!(
                "INSERT INTO id_gen_convert.fill (job, place, relation, synchronize, pending, assignment, allotted_column, allotted_at, mismatch, unreturned, diverged, restoring) VALUES ({job}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});",
                index + 1,
                literal(&fill.table),
                as_array(&fill.synchronize),
                literal(&fill.pending),
                or_null(fill.assignment.as_deref()),
                or_null(allotted.map(|(column, _)| column.as_str())),
                or_null(allotted.map(|(_, at)| at.as_str())),
                literal(&fill.mismatch),
                literal(&fill.unreturned),
                literal(&fill.diverged),
                or_null(fill.restoring.as_deref())
            ));
        }
        for (table, name, is_backward) in &self.triggers {
            text.push_str(&format!(
                "INSERT INTO id_gen_convert.trigger_of VALUES ({job}, {}, {}, {is_backward});",
                literal(table),
                literal(name)
            ));
        }
        Ok(text)
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

/// Refuses a role that may make no schema, which PostgreSQL would do with the whole script as context.
fn refuse_without_create() -> Result<(), Error> {
    const QUERY: &str = "
        SELECT quote_ident(current_database()), quote_ident(current_user)
         WHERE NOT has_database_privilege(current_database(), 'CREATE')";
    let refused = rows(QUERY, &[], |row| Ok((string(row.get(1)?), string(row.get(2)?))))?;
    match refused.into_iter().next() {
        Some((database, role)) => {
            let (database, role) = (in_error(&database), in_error(&role));
            Err(Refusal::NoSchema { database, role }.into())
        }
        None => Ok(()),
    }
}

/// Refuses a superuser who has taken an ordinary role with `SET ROLE`: a job evaluates expressions of the role's tables, whose
/// functions could reset the role.
fn refuse_borrowed_role() -> Result<(), Error> {
    const QUERY: &str = "
        SELECT quote_ident(own.rolname) FROM pg_roles own, pg_roles login
         WHERE own.rolname = current_user AND NOT own.rolsuper AND login.rolname = session_user AND login.rolsuper";
    let borrowed = rows(QUERY, &[], |row| Ok(string(row.get(1)?)))?;
    match borrowed.first() {
        Some(role) => Err(Refusal::BorrowedRole(in_error(role)).into()),
        None => Ok(()),
    }
}

/// Who owns the schema of jobs, and whether that is this role.
fn schema_owner() -> Result<Option<(String, bool)>, Error> {
    const QUERY: &str = "
        SELECT quote_ident(pg_get_userbyid(nspowner)), pg_get_userbyid(nspowner) = current_user
          FROM pg_namespace WHERE nspname = 'id_gen_convert'";
    let owners = rows(QUERY, &[], |row| Ok((string(row.get(1)?), row.get(2)?.unwrap_or(false))))?;
    Ok(owners.into_iter().next())
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
