//! Moving a column over to IDs of ours: the plan that `id_gen_convert_plan()` gives, as statements for somebody to read
//! and to run; and the start of a job, where values change.

mod column;
mod default_only;
mod goal;
mod online;
pub mod place;
mod sequences;
mod step;
mod texts;
mod views;

use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;

use crate::convert::column::Source;
use crate::convert::goal::Goal;
use crate::convert::online::Job;
use crate::error::Error;
use crate::error::convert::Refusal;
use crate::pg::text::{in_error, literal};
use crate::pg::transaction;

pub use goal::Request;
pub use step::Step;

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
        Ok(job.steps(start_statement(&source, request)))
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
    transaction::hold_extension(c"id_gen");
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
fn start_statement(source: &Source, request: &Request) -> String {
    let Request { target, created_at, worker, datacenter } = request;
    let (target, created_at) = (literal(target), literal(created_at));
    let arguments = format!(
        "{}, {target}::text, {created_at}::text, {worker}::integer, {datacenter}::integer",
        source.column.arguments
    );
    format!("SELECT {}.id_gen_convert_start(\n    {arguments})", source.column.generator_schema)
}
