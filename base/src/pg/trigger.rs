//! The row that a trigger is called for.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::pg::fmgr::Call;

/// A call for each row that is inserted or updated.
pub struct RowTrigger<'a> {
    data: &'a pg_sys::TriggerData,
    /// What is updated; null for a row that is inserted.
    old: pg_sys::HeapTuple,
    row: pg_sys::HeapTuple,
}

/// What a column of the row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The row has no such column.
    NoColumn,
    /// It is not of type `bigint`.
    OtherType,
    /// NULL, or a number.
    Bigint(Option<i64>),
}

impl<'a> RowTrigger<'a> {
    /// The trigger's view of a call, if it is a trigger's for a row that is inserted or updated.
    pub fn of(call: &'a mut Call) -> Option<RowTrigger<'a>> {
        const ROW: u32 = 4; // TRIGGER_EVENT_ROW
        const OPERATION: u32 = 3; // TRIGGER_EVENT_OPMASK
        const INSERT: u32 = 0;
        const UPDATE: u32 = 2;
        let context = call.context();
        // SAFETY: null, or a node whose tag says what it is; the trigger manager keeps it until the call returns.
        let data = unsafe {
            if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
                return None;
            }
            &*context.cast::<pg_sys::TriggerData>()
        };
        let (old, row) = match data.tg_event & OPERATION {
            INSERT => (std::ptr::null_mut(), data.tg_trigtuple),
            UPDATE => (data.tg_trigtuple, data.tg_newtuple),
            _ => return None,
        };
        (data.tg_event & ROW != 0 && !row.is_null()).then_some(RowTrigger { data, old, row })
    }

    /// The argument that the trigger was made with, if it has one.
    pub fn argument(&self) -> Option<&CStr> {
        // SAFETY: as many strings as the trigger has arguments.
        unsafe {
            let trigger = &*self.data.tg_trigger;
            (trigger.tgnargs > 0).then(|| CStr::from_ptr(*trigger.tgargs))
        }
    }

    /// The name of its table.
    pub fn table(&self) -> String {
        // SAFETY: the relation is open as long as the call, and has a name.
        let name =
            unsafe { CStr::from_ptr((*(*self.data.tg_relation).rd_rel).relname.data.as_ptr()) };
        name.to_string_lossy().into_owned()
    }

    /// What a column of the new row holds.
    pub fn bigint(&self, column: &CStr) -> Value {
        self.bigint_of(self.row, column)
    }

    /// What it held before the update; `None` for a row that is inserted.
    pub fn old_bigint(&self, column: &CStr) -> Option<Value> {
        (!self.old.is_null()).then(|| self.bigint_of(self.old, column))
    }

    fn bigint_of(&self, row: pg_sys::HeapTuple, column: &CStr) -> Value {
        // SAFETY: both rows are of the relation's row type, and the number is one of its columns, or of none.
        unsafe {
            let row_type = (*self.data.tg_relation).rd_att;
            let number = pg_sys::SPI_fnumber(row_type, column.as_ptr());
            if number <= 0 {
                return Value::NoColumn;
            }
            if pg_sys::getBaseType(pg_sys::SPI_gettypeid(row_type, number)) != pg_sys::INT8OID {
                return Value::OtherType;
            }
            let mut is_null = false;
            let datum = pg_sys::SPI_getbinval(row, row_type, number, &raw mut is_null);
            Value::Bigint((!is_null).then_some((datum.value() as u64).cast_signed()))
        }
    }

    /// The result that leaves the row as it is.
    pub fn unchanged(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.row)
    }
}
