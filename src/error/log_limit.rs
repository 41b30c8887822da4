//! Refusals in the server's log: one line for an incident, not one for every statement that fails.
//! PostgreSQL writes a line for each error; where thousands of calls are refused for the same reason,
//! the first is written, and then at most one every ten seconds, which tells how many were suppressed.
//! Clients get every error, and every refusal is counted.
//!
//! **Locking.** When the last line was written, and how many were suppressed, is in shared memory, as
//! atomics ([`RateLimit`]), one for each counter of refusals.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use id_gen_base::error::{FILE_NAME, counted};
use id_gen_core::rate_limit::RateLimit;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::messages::{REFUSAL_COUNTER_COUNT, REFUSAL_COUNTERS};
use crate::os::clock;
use crate::os::process::PerProcess;

/// A rate limit for each counter of refusals.
pub type RateLimits = [RateLimit; REFUSAL_COUNTER_COUNT];

/// The counter and the primary message of the last error of ours that this process raised, if that is
/// counted. Somebody may have caught it, so the next line of the log may be another's.
static RAISED: PerProcess<Option<(usize, String)>> = PerProcess::new(None);

/// Those of the server, as soon as this process has its shared memory.
static LIMITS: AtomicPtr<RateLimits> = AtomicPtr::new(std::ptr::null_mut());

static mut PREVIOUS_HOOK: pg_sys::emit_log_hook_type = None;

/// Sees every line of the log from now on.
pub fn install() {
    // SAFETY: one thread; the hook chains to the one found before.
    unsafe {
        PREVIOUS_HOOK = pg_sys::emit_log_hook;
        pg_sys::emit_log_hook = Some(on_line);
    }
}

/// Uses the rate limits in shared memory from now on.
pub fn share(limits: &'static RateLimits) {
    LIMITS.store(std::ptr::from_ref(limits).cast_mut(), Relaxed);
}

fn limits() -> Option<&'static RateLimits> {
    // SAFETY: null, or set by `share` to what lives as long as the process.
    unsafe { LIMITS.load(Relaxed).as_ref() }
}

/// Notes which refusal is about to be raised, with its primary message.
pub fn note_raised(counter: Option<usize>, primary: &str) {
    RAISED.with(|raised| *raised = counter.map(|counter| (counter, primary.to_owned())));
}

/// Writes how many refusals were suppressed, where no later one has reported it for ten seconds.
pub fn log_overdue() {
    for (limit, name) in limits().into_iter().flatten().zip(REFUSAL_COUNTERS) {
        if let Some(suppressed) = limit.take_overdue(clock::mono_ns()) {
            ereport!(
                PgLogLevel::LOG,
                PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
                format!(
                    "id_gen: {} not logged individually: {name}",
                    counted(suppressed, "more error")
                )
            );
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_line(line: *mut pg_sys::ErrorData) {
    // SAFETY: PostgreSQL passes the line that it is about to write, which is its own until it is
    // written.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            previous(line);
        }
        if let Some(line) = line.as_mut() {
            limit(line);
        }
    }
}

/// Keeps a refusal from the log if there was one like it a moment ago.
fn limit(line: &mut pg_sys::ErrorData) {
    if line.elevel != PgLogLevel::ERROR as i32 {
        return;
    }
    let (Some((counter, primary)), Some(limits)) = (RAISED.with(Option::take), limits()) else {
        return;
    };
    if !is_ours(line, &primary) {
        return;
    }
    match limits[counter].admit(clock::mono_ns()) {
        None => line.output_to_server = false,
        Some(0) => {}
        Some(suppressed) => {
            let detail = if line.detail.is_null() {
                String::new()
            } else {
                // SAFETY: a string of the line's own.
                let detail = unsafe { CStr::from_ptr(line.detail) };
                format!("{} ", detail.to_string_lossy())
            };
            let text = format!("{detail}{} not logged.", counted(suppressed, "more such error"));
            if let Ok(text) = CString::new(text) {
                // SAFETY: the copy lives in the memory that the line itself lives in.
                line.detail_log = unsafe { pg_sys::pstrdup(text.as_ptr()) };
            }
        }
    }
}

/// Whether an error is the one of the catalogue that was raised last. PostgreSQL keeps the name of a
/// source file without its directories, which another library may have too.
fn is_ours(line: &pg_sys::ErrorData, primary: &str) -> bool {
    if line.filename.is_null() || line.message.is_null() {
        return false;
    }
    // SAFETY: constant or copied strings.
    let (file, message) =
        unsafe { (CStr::from_ptr(line.filename).to_bytes(), CStr::from_ptr(line.message)) };
    let our_file = FILE_NAME.as_bytes().rsplit(|&byte| byte == b'/').next();
    our_file == Some(file) && message.to_bytes() == primary.as_bytes()
}
