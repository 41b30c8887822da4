//! The SQL function that tells how the IDs of a column were made.

use id_gen_base::error::layout;
use id_gen_base::pg::fmgr::{bigint, int8};
use id_gen_base::pg::text::Text;
use id_gen_base::pg::timestamp;
use id_gen_base::sql_function;
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::error::Error;
use crate::profile::report::Row;
use crate::profile::request::{self, Request};

sql_function! {
    /// `id_gen_profile(relation regclass, column_name text, sample_percent double precision, layout text,
    /// workers integer[], others regclass[]) → SETOF record`; all of them are given.
    fn id_gen_profile(call) {
        let (Some(column), Some(workers), Some(others)) = (call.arg(1), call.arg(4), call.arg(5)) else {
            return Ok(call.null());
        };
        // SAFETY: arguments of these types. The text goes on as it is, whatever the encoding of its characters.
        let (column_name, others, workers) = unsafe {
            (
                DatumWithOid::new(column, pg_sys::TEXTOID),
                DatumWithOid::new(others, pg_sys::REGCLASSARRAYOID),
                Vec::<Option<i32>>::from_datum(workers, false),
            )
        };
        let layout = call.text(3).filter(|layout| !layout.is_empty());
        let layout = layout.map(|layout| layout.parse()).transpose();
        let rows = request::profile(Request {
            relation: call.oid(0),
            column_name,
            sample_percent: call.float8(2).unwrap_or(100.0),
            layout: layout.map_err(|error| Error::from(layout::invalid_layout(&error)))?,
            workers: workers.unwrap_or_default().into_iter().flatten().collect(),
            others,
        })?;
        Ok(call.rows(rows.into_iter().map(columns)))
    }
}

fn columns(row: Row) -> [Option<pg_sys::Datum>; 9] {
    let Row { section, item, ids, share, times, status, found, remedy } = row;
    let time = |unix_ms| int8(timestamp::from_unix_ms(unix_ms));
    [
        section.into_datum(),
        Text(item).into_datum(),
        ids.and_then(bigint),
        share.into_datum(),
        times.map(|(first_ms, _)| time(first_ms)),
        times.map(|(_, last_ms)| time(last_ms)),
        status.into_datum(),
        found.map(Text).into_datum(),
        remedy.map(Text).into_datum(),
    ]
}
