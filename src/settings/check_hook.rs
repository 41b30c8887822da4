//! What the check hooks of text parameters have in common, whose values a server adopts when it starts.
//!
//! Nothing is refused of a parallel worker, which takes what its leader has, as it is; nor of a value that is found when the
//! library is loaded: PostgreSQL would replace it by the default and go on. It is kept instead, so that it can be seen, and
//! generating refuses until it is corrected.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::Message;
use crate::os::process::PerProcess;
use crate::pg::server;

/// Whether the check hooks have nothing to refuse, because a parameter is being defined.
static DEFINING: PerProcess<bool> = PerProcess::new(false);

/// Defines a parameter of this kind.
///
/// # Safety
/// The hook is guarded against unwinding.
pub unsafe fn define(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<Option<CString>>,
    hook: pg_sys::GucStringCheckHook,
) {
    let (context, flags) = (GucContext::Sighup, GucFlags::empty());
    DEFINING.with(|defining| *defining = true);
    // SAFETY: the hook has the signature PostgreSQL expects, and is guarded by the caller's promise.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            name, short, long, setting, context, flags, hook, None, None,
        );
    }
    DEFINING.with(|defining| *defining = false);
}

/// The value that a check hook is to look at, if there is anything to refuse.
///
/// # Safety
/// What PostgreSQL has passed to the hook, which does not change it before it has used the text.
pub unsafe fn to_check<'a>(value: *mut *mut c_char) -> Option<Cow<'a, str>> {
    if server::is_starting_parallel_worker() || DEFINING.with(|defining| *defining) {
        return None;
    }
    // SAFETY: PostgreSQL passes a pointer to a pointer, which is that of a string or null.
    let text = unsafe { value.as_ref() }.filter(|text| !text.is_null())?;
    // SAFETY: a string that outlives the hook.
    Some(unsafe { CStr::from_ptr(*text) }.to_string_lossy())
}

/// Tells who sets a parameter that its value waits for a restart.
pub fn note_restart(notice: &'static str) {
    ereport!(PgLogLevel::NOTICE, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, notice);
}

/// Gives the words of an error to PostgreSQL, which refuses the value.
pub fn refuse(Message { sqlstate, primary, detail, hint, .. }: Message) {
    let keep = |text: String| {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: a valid C string; the copy lives until PostgreSQL has reported it.
        unsafe { pg_sys::pstrdup(text.as_ptr()) }
    };
    // SAFETY: variables of this process that a check hook is meant to set.
    unsafe {
        pg_sys::GUC_check_errcode(sqlstate as i32);
        pg_sys::GUC_check_errmsg_string = keep(primary);
        if let Some(detail) = detail {
            pg_sys::GUC_check_errdetail_string = keep(detail);
        }
        pg_sys::GUC_check_errhint_string = keep(hint);
    }
}
