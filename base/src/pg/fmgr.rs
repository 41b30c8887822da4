//! PostgreSQL's calling convention (version 1), without a wrapper's cost.
//!
//! An empty function behind pgrx's wrapper costs several times an empty C function, more than
//! taking an ID does. So functions are exported in PostgreSQL's own convention
//! ([`crate::sql::function`]), and read their arguments and write their results here.

use std::ffi::c_void;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use pgrx::varlena;

/// One call of a function: its arguments and where its result goes.
#[repr(transparent)]
pub struct Call(pg_sys::FunctionCallInfoBaseData);

impl Call {
    /// The function that is called.
    pub fn function(&self) -> pg_sys::Oid {
        // SAFETY: null, or what the function manager filled in.
        unsafe { self.0.flinfo.as_ref() }.map_or(pg_sys::InvalidOid, |info| info.fn_oid)
    }

    /// How many arguments the function was declared with.
    #[inline(always)]
    pub fn argument_count(&self) -> usize {
        usize::from(self.0.nargs.cast_unsigned())
    }

    /// An argument, or `None` if it is NULL. Functions declared `STRICT` never see one.
    #[inline(always)]
    pub fn arg(&self, index: usize) -> Option<pg_sys::Datum> {
        if index >= self.argument_count() {
            return None;
        }
        // SAFETY: `nargs` arguments follow the structure.
        let arg = unsafe { &*self.0.args.as_ptr().add(index) };
        (!arg.isnull).then_some(arg.value)
    }

    /// An argument of type `bigint` or `timestamptz`.
    #[inline(always)]
    pub fn int8(&self, index: usize) -> Option<i64> {
        self.arg(index).map(|datum| (datum.value() as u64).cast_signed())
    }

    /// An argument of type `integer`.
    #[inline(always)]
    pub fn int4(&self, index: usize) -> Option<i32> {
        self.arg(index).map(|datum| (datum.value() as u32).cast_signed())
    }

    /// An argument of type `double precision`.
    pub fn float8(&self, index: usize) -> Option<f64> {
        self.arg(index).map(|datum| f64::from_bits(datum.value() as u64))
    }

    /// An argument of type `regclass`; `InvalidOid` if it is NULL.
    pub fn oid(&self, index: usize) -> pg_sys::Oid {
        let oid = self.arg(index).map_or(0, |datum| datum.value() as u32);
        pg_sys::Oid::from(oid)
    }

    /// An argument of type `boolean`.
    #[inline(always)]
    pub fn bool(&self, index: usize) -> Option<bool> {
        self.arg(index).map(|datum| datum.value() as u8 != 0)
    }

    /// An argument of type `uuid`.
    #[inline(always)]
    pub fn uuid(&self, index: usize) -> Option<[u8; 16]> {
        // SAFETY: a uuid is passed by reference to its 16 bytes.
        self.arg(index).map(|datum| unsafe { *datum.cast_mut_ptr::<[u8; 16]>() })
    }

    /// An argument of type `interval` in milliseconds; a month counts 30 days, as PostgreSQL compares intervals.
    pub fn interval_ms(&self, index: usize) -> Option<i64> {
        const MS_PER_DAY: i64 = 86_400_000;
        const DAYS_PER_MONTH: i64 = 30;
        let interval = self.arg(index)?.cast_mut_ptr::<pg_sys::Interval>();
        // SAFETY: an interval is passed by reference, and lives as long as the call.
        let pg_sys::Interval { time, day, month } = unsafe { *interval };
        let days = i64::from(month) * DAYS_PER_MONTH + i64::from(day);
        Some(time.div_euclid(1000).saturating_add(days.saturating_mul(MS_PER_DAY)))
    }

    /// An argument of type `text`. What an encoding other than UTF-8 has beyond ASCII is shown as
    /// "?": nothing here gives it a meaning, and in an error it has to be text of that encoding.
    pub fn text(&self, index: usize) -> Option<String> {
        let bytes = self.bytes(index)?;
        // SAFETY: reads a variable of this process.
        let encoding = unsafe { pg_sys::GetDatabaseEncoding() };
        if encoding == pg_sys::pg_enc::PG_UTF8 as i32 {
            return Some(String::from_utf8_lossy(bytes).into_owned());
        }
        let shown = |&byte: &u8| if byte.is_ascii() { char::from(byte) } else { '?' };
        Some(bytes.iter().map(shown).collect())
    }

    /// The bytes of an argument of type `text` as the database has them, if they are stored as they are: neither
    /// compressed nor elsewhere. Calls nothing of PostgreSQL's.
    #[inline(always)]
    pub fn stored_bytes(&self, index: usize) -> Option<&[u8]> {
        let varlena = self.arg(index)?.cast_mut_ptr::<pg_sys::varlena>();
        // SAFETY: a text is passed by reference to a varlena, which lives as long as the call. Its first byte says which
        // of them it is.
        unsafe {
            let is_short = varlena::varatt_is_1b(varlena) && !varlena::varatt_is_1b_e(varlena);
            (is_short || varlena::varatt_is_4b_u(varlena))
                .then(|| varlena::varlena_to_byte_slice(varlena))
        }
    }

    /// The bytes of an argument of type `text` as the database has them.
    pub fn bytes(&self, index: usize) -> Option<&[u8]> {
        let datum = self.arg(index)?;
        self.stored_bytes(index).or_else(|| {
            // SAFETY: as above; what is unpacked lives until the call's memory context is reset.
            let varlena = unsafe { pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr()) };
            // SAFETY: neither compressed nor elsewhere any more.
            Some(unsafe { varlena::varlena_to_byte_slice(varlena) })
        })
    }

    /// Returns NULL.
    pub fn null(&mut self) -> pg_sys::Datum {
        self.0.isnull = true;
        pg_sys::Datum::null()
    }

    /// Returns `void`.
    pub fn void(&self) -> pg_sys::Datum {
        pg_sys::Datum::null()
    }

    /// Returns a row: a value or NULL for each column of the declared row type.
    pub fn row<const COLUMNS: usize>(
        &mut self,
        columns: [Option<pg_sys::Datum>; COLUMNS],
    ) -> pg_sys::Datum {
        let mut nulls = columns.map(|column| column.is_none());
        let mut values = columns.map(|column| column.unwrap_or(pg_sys::Datum::null()));
        let row_type = self.row_type();
        assert_columns::<COLUMNS>(row_type);
        // SAFETY: as many columns as the row type has, of the types that `sql/` declares.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(row_type, values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
    }

    /// Returns a set of such rows, all at once. PostgreSQL refuses where no set is taken.
    pub fn rows<const COLUMNS: usize>(
        &mut self,
        rows: impl IntoIterator<Item = [Option<pg_sys::Datum>; COLUMNS]>,
    ) -> pg_sys::Datum {
        // The row type that the caller expects is the declared one. To have it looked up again would take
        // memory for every call of a query.
        let flags = pg_sys::MAT_SRF_USE_EXPECTED_DESC;
        // SAFETY: called by a function that is declared to return a set of rows; it raises an error
        // where none is taken, and otherwise sets up what is used below.
        unsafe { init_materialized_set(self.as_fcinfo(), flags) };
        // SAFETY: set up by the call above.
        assert_columns::<COLUMNS>(unsafe {
            (*self.0.resultinfo.cast::<pg_sys::ReturnSetInfo>()).setDesc
        });
        for columns in rows {
            let mut nulls = columns.map(|column| column.is_none());
            let mut values = columns.map(|column| column.unwrap_or(pg_sys::Datum::null()));
            // SAFETY: as above; as many columns as the row type has, of the types that `sql/` declares.
            unsafe {
                let info: *mut pg_sys::ReturnSetInfo = self.0.resultinfo.cast();
                let (store, row_type) = ((*info).setResult, (*info).setDesc);
                let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                pg_sys::tuplestore_putvalues(store, row_type, values, nulls);
            }
        }
        pg_sys::Datum::null()
    }

    /// Returns such rows where it is the statement that declares the row type: refuses one of other types than these.
    pub fn rows_of<const COLUMNS: usize>(
        &mut self,
        types: &str,
        rows: impl IntoIterator<Item = [Option<pg_sys::Datum>; COLUMNS]>,
    ) -> pg_sys::Datum {
        let declared = self.result_set().map_or(std::ptr::null_mut(), |set| set.expectedDesc);
        // SAFETY: a row type, which may have fewer columns.
        let is_one =
            |(place, name)| unsafe { pg_sys::SPI_gettypeid(declared, place) } == type_oid(name);
        if !declared.is_null() && !(1..).zip(types.split(' ')).all(is_one) {
            refuse_row_type("Its columns are of other types.".to_owned());
        }
        self.rows(rows)
    }

    /// The declared row type, looked up once for each place that calls the function.
    fn row_type(&mut self) -> pg_sys::TupleDesc {
        if self.kept().is_null() {
            // SAFETY: called from SQL, so the function's own result type can be looked up. The copy
            // lives where the pointer to it does.
            unsafe {
                let mut found: pg_sys::TupleDesc = std::ptr::null_mut();
                let fcinfo = self.as_fcinfo();
                pg_sys::get_call_result_type(fcinfo, std::ptr::null_mut(), &raw mut found);
                let previous = pg_sys::MemoryContextSwitchTo(self.kept_context());
                let copy = pg_sys::BlessTupleDesc(pg_sys::CreateTupleDescCopy(found));
                pg_sys::MemoryContextSwitchTo(previous);
                *self.kept() = copy.cast();
            }
        }
        self.kept().cast()
    }

    /// The structure that PostgreSQL's own functions take.
    pub fn as_fcinfo(&mut self) -> pg_sys::FunctionCallInfo {
        &raw mut self.0
    }

    /// What the caller passes beside the arguments: null, or a node.
    pub fn context(&mut self) -> *mut pg_sys::Node {
        self.0.context
    }

    /// A pointer that the call site keeps for as long as its plan lives, null at first.
    pub fn kept(&mut self) -> &mut *mut c_void {
        // SAFETY: the function manager fills in `flinfo` for every call from SQL.
        unsafe { &mut (*self.0.flinfo).fn_extra }
    }

    /// Keeps a value for the call site, in place of one of the same type that it may have kept before.
    pub fn keep<T: Copy>(&mut self, value: T) {
        if self.kept().is_null() {
            // SAFETY: the context lives as long as the pointer to it; memory of PostgreSQL's is aligned for any such type.
            *self.kept() =
                unsafe { pg_sys::MemoryContextAlloc(self.kept_context(), size_of::<T>()) };
        }
        // SAFETY: so many bytes, which this call site alone knows of.
        unsafe { self.kept().cast::<T>().write(value) };
    }

    /// The memory context that lives as long as what [`Call::kept`] points to.
    pub fn kept_context(&self) -> pg_sys::MemoryContext {
        // SAFETY: as above.
        unsafe { (*self.0.flinfo).fn_mcxt }
    }

    /// What a set-returning function tells its caller through; `None` where no set is taken.
    pub fn result_set(&mut self) -> Option<&mut pg_sys::ReturnSetInfo> {
        let info = self.0.resultinfo;
        // SAFETY: null, or a node whose tag says what it is.
        unsafe {
            if info.is_null() || (*info).type_ != pg_sys::NodeTag::T_ReturnSetInfo {
                return None;
            }
            Some(&mut *info.cast())
        }
    }
}

// PostgreSQL 15.0 has the function under its first name only, and all of 15 has that.
#[cfg(not(feature = "pg15"))]
use pg_sys::InitMaterializedSRF as init_materialized_set;
#[cfg(feature = "pg15")]
use pg_sys::SetSingleFuncCall as init_materialized_set;

/// A type of columns, by its name in `pg_type`.
fn type_oid(name: &str) -> pg_sys::Oid {
    match name {
        "float8" => pg_sys::FLOAT8OID,
        "int4" => pg_sys::INT4OID,
        "int8" => pg_sys::INT8OID,
        "_int8" => pg_sys::INT8ARRAYOID,
        "interval" => pg_sys::INTERVALOID,
        "oid" => pg_sys::OIDOID,
        "text" => pg_sys::TEXTOID,
        "timestamptz" => pg_sys::TIMESTAMPTZOID,
        "xid" => pg_sys::XIDOID,
        other => unreachable!("type {other} is not in this table"),
    }
}

/// Refuses a row type that has another number of columns than this library returns.
fn assert_columns<const COLUMNS: usize>(row_type: pg_sys::TupleDesc) {
    // SAFETY: a row type that PostgreSQL has made for this call.
    let declared = usize::try_from(unsafe { (*row_type).natts }).unwrap_or(0);
    if declared == COLUMNS {
        return;
    }
    refuse_row_type(format!("It has {declared} columns, and this library returns {COLUMNS}."));
}

/// Refuses a row type that was declared by the scripts of another version, or in a statement.
fn refuse_row_type(detail: String) {
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        "the declared row type is not that of this version of id_gen",
        "",
    )
    .set_detail(detail)
    .set_hint("If the query has a column list of its own, correct it. Otherwise update the extension: ALTER EXTENSION id_gen UPDATE;")
    .report(PgLogLevel::ERROR);
}

/// A `bigint` or `timestamptz` result.
#[inline(always)]
pub fn int8(value: i64) -> pg_sys::Datum {
    pg_sys::Datum::from(value)
}

/// A count as a `bigint` of a row, which ends after 292 years of one a nanosecond.
pub fn bigint(count: u64) -> Option<pg_sys::Datum> {
    Some(int8(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// A `double precision` result.
pub fn float8(value: f64) -> pg_sys::Datum {
    pg_sys::Datum::from(value.to_bits())
}

/// A `double precision` result that is measured: three significant digits.
pub fn figure(value: f64) -> pg_sys::Datum {
    float8(format!("{value:.2e}").parse().unwrap_or(value))
}

/// Where a `uuid` result goes: memory that PostgreSQL frees with the row.
pub struct UuidPlace(*mut [u8; 16]);

impl UuidPlace {
    /// Takes the memory. Its callers must have nothing to drop: see [`palloc`].
    #[inline(always)]
    pub fn allocate() -> UuidPlace {
        // SAFETY: returns so many bytes or raises an error.
        UuidPlace(unsafe { palloc(size_of::<[u8; 16]>()) }.cast())
    }

    /// The result.
    #[inline(always)]
    pub fn put(self, bytes: [u8; 16]) -> pg_sys::Datum {
        // SAFETY: 16 bytes that nobody else knows of.
        unsafe { self.0.write(bytes) };
        pg_sys::Datum::from(self.0)
    }
}

/// A `uuid` result.
#[inline(always)]
pub fn uuid(bytes: [u8; 16]) -> pg_sys::Datum {
    UuidPlace::allocate().put(bytes)
}

/// Bytes before those of a text.
const TEXT_HEADER: usize = size_of::<u32>();

/// Where a `text` result goes: memory that PostgreSQL frees with the row.
pub struct TextPlace<'row>(&'row mut [u8]);

impl TextPlace<'_> {
    /// Takes the memory for so many bytes, all zero. Its callers must have nothing to drop: see [`palloc`].
    #[inline(always)]
    pub fn new(length: usize) -> TextPlace<'static> {
        let size = TEXT_HEADER + length;
        // SAFETY: returns so many bytes, which nobody else knows of, or raises an error; so a size that has no room in
        // the header's 30 bits is never written.
        unsafe {
            let place: *mut u8 = palloc(size).cast();
            varlena::set_varsize_4b(place.cast(), size as i32);
            let bytes = place.add(TEXT_HEADER);
            bytes.write_bytes(0, length);
            TextPlace(std::slice::from_raw_parts_mut(bytes, length))
        }
    }

    /// Its bytes, to be filled with text of the database's encoding.
    #[inline(always)]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.0
    }

    /// The result.
    #[inline(always)]
    pub fn put(self) -> pg_sys::Datum {
        // SAFETY: the header lies before the bytes.
        pg_sys::Datum::from(unsafe { self.0.as_mut_ptr().sub(TEXT_HEADER) })
    }
}

/// A `text` result, of the database's encoding. As for [`TextPlace`], its callers must have nothing to drop.
#[inline(always)]
pub fn text(bytes: &[u8]) -> pg_sys::Datum {
    let mut place = TextPlace::new(bytes.len());
    place.bytes().copy_from_slice(bytes);
    place.put()
}

unsafe extern "C-unwind" {
    /// PostgreSQL's allocator without pgrx's guard, which costs more than the allocation. The one
    /// error it raises, out of memory, jumps over its callers' frames, which must have nothing to
    /// drop.
    fn palloc(size: usize) -> *mut c_void;
}
