//! Refusals in the server's log: one line for an incident, not one for every statement that meets
//! it. PostgreSQL writes a line for each error; where the same cause refuses thousands of calls, the
//! first is written, and then at most one every ten seconds, which tells how many were not. Clients
//! get every error, and every refusal is counted.
//!
//! **Locking.** When the last line of a cause was written, and how many were not, is in the shared
//! segment, as atomics.

use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering::Relaxed;

use id_gen_core::layout::NS_PER_MS;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::process::PerProcess;
use crate::refusal;
use crate::shared::{Segment, Told};
use crate::{clock, memory};

/// Least time between two lines about the same thing: 10 s.
pub const TELL_AGAIN_NS: u64 = 10_000 * NS_PER_MS;

/// The cause of this process's last refusal, where it has one.
static RAISED: PerProcess<Option<usize>> = PerProcess::new(None);

static mut PREVIOUS_HOOK: pg_sys::emit_log_hook_type = None;

/// Sees every line of the log from now on.
pub fn install() {
    // SAFETY: one thread; the hook chains to the one found before.
    unsafe {
        PREVIOUS_HOOK = pg_sys::emit_log_hook;
        pg_sys::emit_log_hook = Some(on_line);
    }
}

/// Notes what kind of refusal is about to be raised.
pub fn note_raised(cause: Option<usize>) {
    RAISED.with(|raised| *raised = cause);
}

impl Told {
    /// Whether a line is to be written now; if so, how many were not since the last one.
    fn next(&self) -> Option<u64> {
        let now_ns = clock::mono_ns();
        let at_ns = self.at_mono_ns.load(Relaxed);
        let due = at_ns == 0 || now_ns.saturating_sub(at_ns) >= TELL_AGAIN_NS;
        // Of several processes that find it due, one wins.
        if due && self.at_mono_ns.compare_exchange(at_ns, now_ns, Relaxed, Relaxed).is_ok() {
            Some(self.untold.swap(0, Relaxed))
        } else {
            self.untold.fetch_add(1, Relaxed);
            None
        }
    }

    /// How many lines were held back and will not be told by a later one.
    fn overdue(&self) -> Option<u64> {
        let age_ns = clock::mono_ns().saturating_sub(self.at_mono_ns.load(Relaxed));
        if age_ns < TELL_AGAIN_NS || self.untold.load(Relaxed) == 0 {
            return None;
        }
        self.next().filter(|&untold| untold > 0)
    }
}

/// Tells of refusals that were not logged, after their storm has passed.
pub fn tell_overdue(segment: &Segment) {
    for (told, what) in segment.told.0.iter().zip(refusal::CAUSE_NAMES) {
        if let Some(untold) = told.overdue() {
            ereport!(
                PgLogLevel::LOG,
                PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
                format!("id_gen: {untold} more refusals were not logged one by one: {what}")
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
            hold_back(line);
        }
    }
}

/// Keeps a line from the log if there was one like it a moment ago.
fn hold_back(line: &mut pg_sys::ErrorData) {
    if line.elevel != PgLogLevel::ERROR as i32 || !is_refusal(line) {
        return;
    }
    let (Some(cause), Some(segment)) = (RAISED.with(Option::take), memory::segment()) else {
        return;
    };
    match segment.told.0[cause].next() {
        None => line.output_to_server = false,
        Some(0) => {}
        Some(untold) => {
            let detail = if line.detail.is_null() {
                String::new()
            } else {
                // SAFETY: a string of the line's own.
                let detail = unsafe { CStr::from_ptr(line.detail) };
                format!("{} ", detail.to_string_lossy())
            };
            let text = format!("{detail}{untold} more like it were not logged.");
            if let Ok(text) = CString::new(text) {
                // SAFETY: the copy lives in the memory that the line itself lives in.
                line.detail_log = unsafe { pg_sys::pstrdup(text.as_ptr()) };
            }
        }
    }
}

/// Whether a line was raised by [`refusal`]. PostgreSQL keeps the name of a source file without its
/// directories.
fn is_refusal(line: &pg_sys::ErrorData) -> bool {
    if line.filename.is_null() {
        return false;
    }
    // SAFETY: a constant or copied string.
    let name = unsafe { CStr::from_ptr(line.filename) }.to_bytes();
    refusal::FILE_NAME.as_bytes().rsplit(|&byte| byte == b'/').next() == Some(name)
}
