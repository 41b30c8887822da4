//! Moving a column over to IDs of ours: the plan that `id_gen_convert_plan()` gives, as statements for somebody to read
//! and to run; and the start of a job, where values change.

use id_gen_base::pg::text::{in_error, literal};
use id_gen_base::pg::{extension, transaction};
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;

use crate::convert::column::Source;
use crate::convert::goal::{self, Goal, Request};
use crate::convert::online::{self, Job};
use crate::convert::refusal::Refusal;
use crate::convert::step::Step;
use crate::convert::{column, default_only, texts};
use crate::error::Error;

/// The statements that let a column have IDs of ours, in their order. `start` is the one that starts a job like this, which
/// is a part of it where values change.
///
/// # Errors
/// If that can't be done, with the reason; or the role may not read the table.
pub fn plan(
    relation: pg_sys::Oid,
    column_name: DatumWithOid<'_>,
    request: &Request,
) -> Result<Vec<Step>, Error> {
    let time_zone = goal::session_time_zone()?;
    texts::under_pinned_settings(|| planned(relation, column_name, request, &time_zone))
}

fn planned(
    relation: pg_sys::Oid,
    column_name: DatumWithOid<'_>,
    request: &Request,
    time_zone: &str,
) -> Result<Vec<Step>, Error> {
    let (source, place) = column::read(relation, column_name)?;
    if online::is_started(&source)? {
        let column = in_error(&format!("{}.{}", source.column.table, source.column.name));
        return Err(
            Refusal::Started { column, arguments: in_error(&source.column.arguments) }.into()
        );
    }
    column::refuse_reference(&source, place)?;
    let goal = Goal::new(&source, place, request, time_zone)?;
    if online::is_needed(&source, &goal) {
        let job = Job::new(&source, place, &goal)?;
        job.rehearse(&source.column.generator_schema)?;
        Ok(job.steps(start_statement(&source, request)?))
    } else {
        default_only::plan(&source, goal.target)
    }
}

/// Starts a job that gives a column other values. One that has started goes on as it is.
///
/// # Errors
/// As above; or if the values need not change.
pub fn start(
    relation: pg_sys::Oid,
    column_name: DatumWithOid<'_>,
    request: &Request,
) -> Result<(), Error> {
    let time_zone = goal::session_time_zone()?;
    // One after the other, and each sees what the one before it has made, above all the schema of the jobs.
    transaction::hold_extension(c"id_gen_tools");
    transaction::under_new_snapshot(|| {
        texts::under_pinned_settings(|| started(relation, column_name, request, &time_zone))
    })
}

fn started(
    relation: pg_sys::Oid,
    column_name: DatumWithOid<'_>,
    request: &Request,
    time_zone: &str,
) -> Result<(), Error> {
    let (source, place) = column::read(relation, column_name)?;
    if online::is_started(&source)? {
        return Ok(());
    }
    column::refuse_reference(&source, place)?;
    let goal = Goal::new(&source, place, request, time_zone)?;
    if !online::is_needed(&source, &goal) {
        let column = in_error(&format!("{}.{}", source.column.table, source.column.name));
        let arguments = in_error(&source.column.arguments);
        return Err(Refusal::NothingToFill { column, arguments }.into());
    }
    Job::new(&source, place, &goal)?.start(&source.column.generator_schema)
}

/// The call that starts the job of a request. It has all arguments, and their types, so that PostgreSQL prefers no other
/// function of the same name.
fn start_statement(source: &Source, request: &Request) -> Result<String, Error> {
    let Request { target, created_at, worker, datacenter } = request;
    let (target, created_at) = (literal(target), literal(created_at));
    let arguments = format!(
        "{}, {target}::text, {created_at}::text, {worker}::integer, {datacenter}::integer",
        source.column.arguments
    );
    let schema = extension::schema_of("id_gen_tools")?.unwrap_or_default();
    Ok(format!("SELECT {schema}.id_gen_convert_start(\n    {arguments})"))
}
