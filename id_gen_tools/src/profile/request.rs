//! What the IDs of a column tell about how they were made: the rows of `id_gen_profile()`.
//!
//! The rows of the table are read twice by queries of the caller's, with its privileges and its snapshot: as they are
//! stored, and sorted. The counting is in [`id_gen_core::profile`]; here are the queries, and what is found in words.

use id_gen_base::catalog::{self, Column, Holds};
use id_gen_base::pg::schema;
use id_gen_base::pg::text::in_error;
use id_gen_core::layout::Layout;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;

use crate::error::Error;
use crate::profile::report::Row;
use crate::profile::source::Source;
use crate::profile::{refusal, snowflakes, uuids};
use crate::server::Server;

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
    let column = catalog::column::<Error>(relation, column_name)?;
    if let Holds::Other = column.holds {
        let Column { table, name, type_name, .. } = column;
        let column = in_error(&format!("{table}.{name}"));
        return Err(refusal::no_ids(&column, &in_error(&type_name)).into());
    }
    let server = Server::ask()?;
    let source = Source::new(relation, column, sample_percent, others)?;
    let latest_ms = server.now_ms.saturating_add(server.max_lead_ms);
    let rows = match source.column.holds {
        Holds::Uuids => uuids::rows(&source, latest_ms)?,
        _ => snowflakes::rows(&source, &server, layout, &workers, latest_ms)?,
    };
    // The function has a search path of its own, so what is to be typed names the schemas of our extensions.
    let qualified = |text: String| schema::qualified(&text);
    Ok(rows.into_iter().map(|row| Row { remedy: row.remedy.map(qualified), ..row }).collect())
}
