//! Settings of a session for the length of a call.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Runs a call under other values of settings that every role may set. The session's own values are back when it returns; if
/// it raises an error, when PostgreSQL ends the transaction or subtransaction.
pub fn with<T>(values: &[(&CStr, &CStr)], call: impl FnOnce() -> T) -> T {
    // SAFETY: as PostgreSQL itself does it for the SET clauses of a function. Names and values end with a zero byte.
    let level = unsafe { pg_sys::NewGUCNestLevel() };
    for (name, value) in values {
        // SAFETY: as above. An invalid value raises an error, and the level ends with the transaction.
        unsafe {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
    }
    let result = call();
    // SAFETY: the level that was begun above; whatever the call began has ended with it.
    unsafe { pg_sys::AtEOXact_GUC(true, level) };
    result
}
