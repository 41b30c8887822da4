//! The SQL functions that plan how a column is moved over, and that start a job where its values change.

use id_gen_base::call::function::refuse_on_standby;
use id_gen_base::pg::fmgr::Call;
use id_gen_base::pg::text::Text;
use id_gen_base::sql_function;
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

use crate::convert::goal::Request;
use crate::convert::planning;
use crate::convert::step::Step;

sql_function! {
    /// `id_gen_convert_plan(relation regclass, column_name text, target text, created_at text, worker_id integer,
    /// datacenter_id integer) → SETOF record`; all of them are given.
    fn id_gen_convert_plan(call) {
        let (column_name, request) = arguments(call);
        let steps = planning::plan(call.oid(0), column_name, &request)?;
        Ok(call.rows((1i32..).zip(steps).map(columns)))
    }
}

sql_function! {
    /// `id_gen_convert_start(…) → void`, with the same arguments.
    fn id_gen_convert_start(call) {
        refuse_on_standby("id_gen_convert_start")?;
        let (column_name, request) = arguments(call);
        planning::start(call.oid(0), column_name, &request)?;
        Ok(call.void())
    }
}

fn arguments(call: &Call) -> (DatumWithOid<'static>, Request) {
    let column = call.arg(1).unwrap_or(pg_sys::Datum::null());
    // SAFETY: an argument of this type; the functions are strict. It goes on as it is, whatever the encoding of its
    // characters.
    let column_name = unsafe { DatumWithOid::new(column, pg_sys::TEXTOID) };
    let text = |index| call.text(index).unwrap_or_default();
    let number = |index| call.int4(index).unwrap_or(-1);
    let request =
        Request { target: text(2), created_at: text(3), worker: number(4), datacenter: number(5) };
    (column_name, request)
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
