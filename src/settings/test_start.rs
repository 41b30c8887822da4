//! The parameter `id_gen.test_start`, and the time that it names.
//!
//! As with `id_gen.layout`, a running server stays what it was started as: a new value waits for a restart.

use std::ffi::{CString, c_char, c_void};

use id_gen_core::test_server::TestStart;
use id_gen_core::time::unix_ms;
use pgrx::guc::GucSetting;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::test_server;
use crate::os::clock;
use crate::os::process::PerProcess;
use crate::pg::server;
use crate::settings::check_hook;

static TEST_START: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

/// What the running server was started as, as far as this process knows; the inner `None` for real.
static IN_FORCE: PerProcess<Option<Option<TestStart>>> = PerProcess::new(None);

/// What is said about a value that waits for a restart.
pub const TEST_START_NOTICE: &str =
    "parameter \"id_gen.test_start\" takes effect when the server is restarted";

/// Notes what the running server was started as.
pub fn set_test_start_in_force(start: Option<TestStart>) {
    IN_FORCE.with(|in_force| *in_force = Some(start));
}

/// What the running server was started as, as far as this process knows. The postmaster knows it also after a crash.
pub fn test_start_in_force() -> Option<Option<TestStart>> {
    IN_FORCE.with(|in_force| *in_force)
}

/// When the server's IDs begin by the parameter, if it is to be one for tests.
pub fn test_start() -> Option<TestStart> {
    TestStart::parse(
        &TEST_START.get().map_or_else(String::new, |text| text.to_string_lossy().into_owned()),
    )
}

/// The check hook: refuses what is no time of the past.
#[pg_guard]
unsafe extern "C-unwind" fn check_test_start(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: what PostgreSQL has passed.
    let Some(text) = (unsafe { check_hook::to_check(value) }) else { return true };
    let start = TestStart::parse(&text);
    let problem = match start {
        Some(TestStart::Invalid) => {
            "The value must be a time with an offset from UTC, such as +00 or Z."
        }
        Some(TestStart::At(ms)) if ms >= unix_ms(clock::machine_ns()) => {
            "The time must be in the past."
        }
        _ => {
            if server::is_in_alter_system()
                && test_start_in_force().is_some_and(|in_force| in_force != start)
            {
                check_hook::note_restart(TEST_START_NOTICE);
            }
            return true;
        }
    };
    check_hook::refuse(test_server::refused_start(&text, problem));
    false
}

/// Defines the parameter.
pub fn define() {
    // SAFETY: the hook is guarded.
    unsafe {
        check_hook::define(
            c"id_gen.test_start",
            c"Starts the server in test mode: IDs start at this time and are the same in each run.",
            c"Empty: not in test mode. The mode cannot change while the server runs, and a data directory has only one mode.",
            &TEST_START,
            Some(check_test_start),
        );
    }
}
