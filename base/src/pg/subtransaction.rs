//! A call whose error is caught, with what it did undone, as by a block with EXCEPTION in PL/pgSQL.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::PgTryBuilder;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::pg::transaction;

/// The message of an error that was caught.
pub struct Caught {
    /// Its SQLSTATE.
    pub code: PgSqlErrorCode,
    /// Its primary message.
    pub primary: String,
    /// Its detail; empty without one.
    pub detail: String,
    /// Its hint; empty without one.
    pub hint: String,
}

/// Runs a call in a subtransaction. A query cancel is not caught, nor a panic; and nothing is while the session has parallel
/// workers, which before PostgreSQL 17 forbid subtransactions.
///
/// # Errors
/// If the call raises an error.
pub fn attempt<T>(call: impl FnOnce() -> T) -> Result<T, Caught> {
    if transaction::is_parallel() {
        return Ok(call());
    }
    within(call, |is_fine| is_fine)
}

/// Runs a call and undoes what it did; not while the session has parallel workers.
///
/// # Errors
/// If the call raises an error.
pub fn rehearse(call: impl FnOnce()) -> Result<(), Caught> {
    if transaction::is_parallel() {
        return Ok(());
    }
    within(call, |_| false)
}

/// Runs a call in a subtransaction, which keeps what it did if `is_kept` says so of its success. It ends also where an error is not
/// caught: PostgreSQL would end only this one, and take the session for one within it.
fn within<T>(call: impl FnOnce() -> T, is_kept: impl FnOnce(bool) -> bool) -> Result<T, Caught> {
    // SAFETY: in a transaction, as every function that SQL calls. The context and the owner of resources outlive the
    // subtransaction, which ends below.
    let (context, owner) = unsafe {
        let outer = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(outer.0);
        outer
    };
    let call = AssertUnwindSafe(call);
    let result =
        PgTryBuilder::new(|| Ok({ call }.0())).catch_others(|error| Err(Box::new(error))).execute();
    // SAFETY: ends the subtransaction that was begun above; whatever the call has begun in it ends with it.
    unsafe {
        pg_sys::MemoryContextSwitchTo(context);
        if is_kept(result.is_ok()) {
            pg_sys::ReleaseCurrentSubTransaction();
        } else {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
    }
    result.map_err(|error| caught(*error))
}

/// An error of a call, unless it is not to be caught.
fn caught(error: CaughtError) -> Caught {
    match error {
        CaughtError::PostgresError(error) | CaughtError::ErrorReport(error) => {
            let code = error.sql_error_code();
            if code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED {
                // PostgreSQL's own record of it is gone, so it is reported anew.
                CaughtError::ErrorReport(error).rethrow()
            }
            Caught {
                code,
                primary: error.message().to_owned(),
                detail: error.detail().unwrap_or_default().to_owned(),
                hint: error.hint().unwrap_or_default().to_owned(),
            }
        }
        panic @ CaughtError::RustPanic { .. } => panic.rethrow(),
    }
}
