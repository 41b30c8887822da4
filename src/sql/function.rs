//! What functions of several families do for each row. A file of functions has its SQL in `sql/`, in the file
//! of the same name.

pub use id_gen_base::sql_function;
use pgrx::pg_sys;

use crate::error::{Error, Reason};
use crate::pg::fmgr::Call;
use crate::pg::trigger::{RowTrigger, Value};

/// Runs a trigger function for each row that is inserted or updated. Its argument names the column, `id` without one; an
/// update that leaves the ID as it is, and a NULL, are nothing to it.
pub fn for_new_id(
    call: &mut Call,
    function: &'static str,
    act: impl FnOnce(i64) -> Result<(), Error>,
) -> Result<pg_sys::Datum, Error> {
    let Some(trigger) = RowTrigger::of(call) else {
        return Err(Reason::NoRowTrigger(function).into());
    };
    let column = trigger.argument().unwrap_or(c"id");
    match trigger.bigint(column) {
        value @ Value::Bigint(Some(id)) => {
            if trigger.old_bigint(column) != Some(value) {
                act(id)?;
            }
        }
        Value::Bigint(None) => {}
        Value::NoColumn | Value::OtherType => {
            let (table, column) = (trigger.table(), column.to_string_lossy().into_owned());
            return Err(Reason::NoIdColumn { function, table, column }.into());
        }
    }
    Ok(trigger.unchanged())
}
