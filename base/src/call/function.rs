//! Exporting functions to SQL in PostgreSQL's own calling convention (version 1), without a wrapper's
//! cost. Bodies return the error that their crate has at `crate::error::Error`, raised here and nowhere else.

use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode;

use crate::error::Message;
use crate::error::raise::{self, Report};
use crate::pg::server;

/// Exports a function that SQL can call.
///
/// `fast`, if given, is tried first and outside the guard that turns panics and PostgreSQL's errors
/// into each other: it must neither panic nor call anything of PostgreSQL's that can raise an error,
/// except for [`UuidPlace`](crate::pg::fmgr::UuidPlace) and [`TextPlace`](crate::pg::fmgr::TextPlace)
/// while it has nothing to drop, and returns `None` to leave the call to the body, which may do both.
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // The error of the crate that exports the function.
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
            fn in_full($call: &mut $crate::pg::fmgr::Call) -> ::pgrx::pg_sys::Datum {
                $crate::call::function::guarded(
                    $call.function(),
                    || -> ::core::result::Result<::pgrx::pg_sys::Datum, crate::error::Error> { $body },
                )
            }

            // SAFETY: PostgreSQL passes a call that is valid until it returns, and no other
            // reference to it exists meanwhile.
            let $call = unsafe { &mut *fcinfo.cast::<$crate::pg::fmgr::Call>() };
            $(
                if let Some(datum) = $crate::call::function::unguarded(|| $fast) {
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

/// Runs a fast path as it stands.
#[inline(always)]
pub fn unguarded(fast: impl FnOnce() -> Option<pg_sys::Datum>) -> Option<pg_sys::Datum> {
    fast()
}

/// Runs the body of a function where panics and PostgreSQL's errors are turned into each other, and
/// raises the error that it returns.
#[inline(always)]
pub fn guarded<E: Report>(
    function: pg_sys::Oid,
    body: impl FnOnce() -> Result<pg_sys::Datum, E>,
) -> pg_sys::Datum {
    // SAFETY: called on PostgreSQL's own thread, directly below its function manager.
    unsafe {
        pg_sys::panic::pgrx_extern_c_guard(|| match body() {
            Ok(datum) => datum,
            Err(error) => raise::raise_from(&error, function),
        })
    }
}

/// Refuses a function that writes, by its name, on a standby.
pub fn refuse_on_standby(function: &str) -> Result<(), Message> {
    if !server::is_in_recovery() {
        return Ok(());
    }
    let message = Message::new(
        PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {function}() during recovery"),
    );
    Err(message.hint("Run the statement on the primary."))
}
