//! The SQL functions that show what may be wrong with this server, and what to type then.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::observe::checks::{self, Row};
use crate::pg::text::Text;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_gen_check() → SETOF record`, a row for each check.
    fn id_gen_check(call) { Ok(call.rows(checks::all()?.into_iter().map(columns))) }
}

sql_function! {
    /// `id_gen_check(relation regclass, column_name text) → SETOF record`, one row: whether the newest
    /// ID stored there is above what this server has handed out.
    fn id_gen_check_stored(call) {
        let Some(column) = call.arg(1) else { return Ok(call.null()) };
        // SAFETY: an argument of type text. It goes on as it is, whatever the encoding of its characters.
        let column = unsafe { DatumWithOid::new(column, pg_sys::TEXTOID) };
        Ok(call.rows([columns(checks::stored_ids(call.oid(0), column)?)]))
    }
}

fn columns(Row { name, status, found, remedy }: Row) -> [Option<pg_sys::Datum>; 4] {
    [
        name.into_datum(),
        status.into_datum(),
        Text(found).into_datum(),
        remedy.map(Text).into_datum(),
    ]
}
