//! What the IDs of a column tell about how they were made: the rows of `id_gen_profile()`.
//!
//! The rows of the table are read twice by queries of the caller's, with its privileges and its snapshot: as they are
//! stored, and sorted. The counting is in [`id_gen_core::profile`]; here are the queries, and what is found in words.

mod report;
mod snowflakes;
mod source;
mod uuids;

use id_gen_core::layout::Layout;
use id_gen_core::time::unix_ms;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;

use crate::error::{Error, Reason};
use crate::observe::catalog_queries::{self as catalog, Column, Holds};
use crate::os::clock;
use crate::pg::schema;
use crate::pg::text::in_error;
use crate::settings;

pub use report::Row;

/// What is to be profiled, and how.
pub struct Request<'a> {
    /// The table.
    pub relation: pg_sys::Oid,
    /// The column.
    pub column_name: DatumWithOid<'a>,
    /// How many of the rows to read, in percent.
    pub sample_percent: f64,
    /// The layout of the IDs; the server's without one.
    pub layout: Option<Layout>,
    /// The worker numbers that are expected; the server's or its fleet's without any.
    pub workers: Vec<i32>,
    /// Further tables, with a column of that name.
    pub others: DatumWithOid<'a>,
}

/// The profile.
///
/// # Errors
/// If there is nothing to read, or not with these arguments. PostgreSQL itself refuses what the role may not read.
pub fn profile(request: Request<'_>) -> Result<Vec<Row>, Error> {
    let Request { relation, column_name, sample_percent, layout, workers, others } = request;
    let column = catalog::column(relation, column_name)?;
    if let Holds::Other = column.holds {
        let Column { table, name, type_name, .. } = column;
        let column = in_error(&format!("{table}.{name}"));
        return Err(Reason::NoIds { column, type_name: in_error(&type_name) }.into());
    }
    let schema = column.generator_schema.clone();
    let source = source::Source::new(relation, column, sample_percent, others)?;
    let now_ms = unix_ms(clock::wall_ns());
    let latest_ms = now_ms.saturating_add(settings::current().max_lead_ms.into());
    let rows = match source.column.holds {
        Holds::Uuids => uuids::rows(&source, latest_ms)?,
        _ => snowflakes::rows(&source, layout, &workers, now_ms, latest_ms)?,
    };
    // The function has a search path of its own, so what is to be typed names the extension's schema.
    let qualified = |text: String| schema::qualified(&text, &schema);
    Ok(rows.into_iter().map(|row| Row { remedy: row.remedy.map(qualified), ..row }).collect())
}
