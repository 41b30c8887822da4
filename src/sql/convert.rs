//! The SQL function that plans how a column is moved over.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::convert::{self, Step};
use crate::pg::text::Text;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_gen_convert_plan(relation regclass, column_name text, target text) → SETOF record`; all of them are given.
    fn id_gen_convert_plan(call) {
        let (Some(column), Some(target)) = (call.arg(1), call.text(2)) else { return Ok(call.null()) };
        // SAFETY: an argument of this type. It goes on as it is, whatever the encoding of its characters.
        let column_name = unsafe { DatumWithOid::new(column, pg_sys::TEXTOID) };
        let steps = convert::plan(call.oid(0), column_name, &target)?;
        Ok(call.rows((1i32..).zip(steps).map(columns)))
    }
}

fn columns((number, step): (i32, Step)) -> [Option<pg_sys::Datum>; 6] {
    let Step { statement, lock_mode, in_transaction, undo, note } = step;
    [
        number.into_datum(),
        Text(statement).into_datum(),
        lock_mode.into_datum(),
        in_transaction.into_datum(),
        undo.map(Text).into_datum(),
        Text(note).into_datum(),
    ]
}
