//! The SQL function that shows what may be wrong with this server, and what to type then.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::error::Message;
use crate::observe::checks::{self, Row};
use crate::pg::text::Text;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_gen_check(relation regclass, column_name text, newest bigint) → SETOF record`: a row for each check of the
    /// server; or for a column, one row: whether the newest ID stored there, if it is not given, is above what this server has
    /// handed out.
    fn id_gen_check(call) {
        let rows = match (call.arg(0), call.arg(1), call.int8(2)) {
            (None, None, None) => checks::all()?,
            (Some(_), Some(column), newest) => {
                // SAFETY: an argument of type text. It goes on as it is, whatever the encoding of its characters.
                let column = unsafe { DatumWithOid::new(column, pg_sys::TEXTOID) };
                vec![checks::stored_ids(call.oid(0), column, newest)?]
            }
            _ => return Err(half_a_column().into()),
        };
        Ok(call.rows(rows.into_iter().map(columns)))
    }
}

fn half_a_column() -> Message {
    Message::new(
        PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
        "relation and column_name must be passed together",
    )
    .hint("Pass both, as in: SELECT * FROM id_gen_check('customer', 'id'); or none, to check the server.")
}

fn columns(Row { name, status, found, remedy }: Row) -> [Option<pg_sys::Datum>; 4] {
    [
        name.into_datum(),
        status.into_datum(),
        Text(found).into_datum(),
        remedy.map(Text).into_datum(),
    ]
}
