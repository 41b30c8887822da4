//! PostgreSQL's calling convention (version 1), without a wrapper's cost.
//!
//! An empty function behind pgrx's wrapper costs several times an empty C function, more than
//! taking an ID does. [`sql_function!`] therefore exports functions in PostgreSQL's own convention;
//! their SQL is in `sql/`. Bodies return a [`Refusal`], raised here and nowhere else.

use std::ffi::c_void;

use pgrx::pg_sys;

use crate::refusal::Refusal;

/// Exports a function that SQL can call.
///
/// `fast`, if given, is tried first and outside the guard that turns panics and PostgreSQL's errors
/// into each other: it must neither panic nor call into PostgreSQL, except for [`UuidPlace`] while it
/// has nothing to drop, and returns `None` to leave the call to the body, which may do both.
macro_rules! sql_function {
    (
        $(#[$meta:meta])*
        fn $name:ident($call:ident) $(fast $fast:block)? $body:block
    ) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fcinfo: ::pgrx::pg_sys::FunctionCallInfo,
        ) -> ::pgrx::pg_sys::Datum {
            // A function of its own, so that a fast path has no frame to set up for it.
            #[inline(never)]
            fn in_full($call: &mut $crate::fmgr::Call) -> ::pgrx::pg_sys::Datum {
                $crate::fmgr::guarded($call.function(), || $body)
            }

            // SAFETY: PostgreSQL passes a call that is valid until it returns, and no other
            // reference to it exists meanwhile.
            let $call = unsafe { &mut *fcinfo.cast::<$crate::fmgr::Call>() };
            $(
                if let Some(datum) = $crate::fmgr::unguarded(|| $fast) {
                    return datum;
                }
            )?
            in_full($call)
        }

        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name)))]
            extern "C-unwind" fn finfo() -> &'static ::pgrx::pg_sys::Pg_finfo_record {
                const VERSION_1: ::pgrx::pg_sys::Pg_finfo_record =
                    ::pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &VERSION_1
            }
        };
    };
}
pub(crate) use sql_function;

/// Runs a fast path as it stands.
#[inline(always)]
pub fn unguarded(fast: impl FnOnce() -> Option<pg_sys::Datum>) -> Option<pg_sys::Datum> {
    fast()
}

/// Runs the body of a function where panics and PostgreSQL's errors are turned into each other, and
/// raises what it refuses.
#[inline(always)]
pub fn guarded(
    function: pg_sys::Oid,
    body: impl FnOnce() -> Result<pg_sys::Datum, Refusal>,
) -> pg_sys::Datum {
    // SAFETY: called on PostgreSQL's own thread, directly below its function manager.
    unsafe {
        pg_sys::panic::pgrx_extern_c_guard(|| match body() {
            Ok(datum) => datum,
            Err(refusal) => refusal.raise_from(function),
        })
    }
}

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
    pub fn len(&self) -> usize {
        usize::from(self.0.nargs.cast_unsigned())
    }

    /// An argument, or `None` if it is NULL. Functions declared `STRICT` never see one.
    #[inline(always)]
    pub fn arg(&self, index: usize) -> Option<pg_sys::Datum> {
        if index >= self.len() {
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

    /// An argument of type `text`. What an encoding other than UTF-8 has beyond ASCII is shown as
    /// "?": nothing here gives it a meaning, and in an error it has to be text of that encoding.
    pub fn text(&self, index: usize) -> Option<String> {
        let datum = self.arg(index)?;
        // SAFETY: a text is passed by reference to a varlena, which may be compressed. The bytes
        // are read before anything can free them.
        let (bytes, encoding) = unsafe {
            let varlena = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            (pgrx::varlena::varlena_to_byte_slice(varlena), pg_sys::GetDatabaseEncoding())
        };
        if encoding == pg_sys::pg_enc::PG_UTF8 as i32 {
            return Some(String::from_utf8_lossy(bytes).into_owned());
        }
        let shown = |&byte: &u8| if byte.is_ascii() { char::from(byte) } else { '?' };
        Some(bytes.iter().map(shown).collect())
    }

    /// Answers NULL.
    pub fn null(&mut self) -> pg_sys::Datum {
        self.0.isnull = true;
        pg_sys::Datum::null()
    }

    /// Answers `void`.
    pub fn void(&self) -> pg_sys::Datum {
        pg_sys::Datum::null()
    }

    /// Answers a row: a value or NULL for each column of the declared row type.
    pub fn row<const COLUMNS: usize>(
        &mut self,
        columns: [Option<pg_sys::Datum>; COLUMNS],
    ) -> pg_sys::Datum {
        let mut nulls = columns.map(|column| column.is_none());
        let mut values = columns.map(|column| column.unwrap_or(pg_sys::Datum::null()));
        let row_type = self.row_type();
        // SAFETY: callers pass the columns that `sql/` declares.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(row_type, values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
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

    /// A pointer that the call site keeps for as long as its plan lives, null at first.
    pub fn kept(&mut self) -> &mut *mut c_void {
        // SAFETY: the function manager fills in `flinfo` for every call from SQL.
        unsafe { &mut (*self.0.flinfo).fn_extra }
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

/// A `bigint` or `timestamptz` result.
#[inline(always)]
pub fn int8(value: i64) -> pg_sys::Datum {
    pg_sys::Datum::from(value)
}

/// Where a `uuid` result goes: memory that PostgreSQL frees with the row.
pub struct UuidPlace(*mut [u8; 16]);

impl UuidPlace {
    /// Takes the memory. Its callers must have nothing to drop: see [`palloc`].
    #[inline(always)]
    pub fn new() -> UuidPlace {
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
    UuidPlace::new().put(bytes)
}

unsafe extern "C-unwind" {
    /// PostgreSQL's allocator without pgrx's guard, which costs more than the allocation. The one
    /// error it raises, out of memory, jumps over its callers' frames, which must have nothing to
    /// drop.
    fn palloc(size: usize) -> *mut c_void;
}
