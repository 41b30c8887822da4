//! The parameter `id_gen.layout`: its check hook, and the layout that it names.
//!
//! A running server keeps the layout it was started with, so a new value waits for a restart. Its text
//! is parsed once: PostgreSQL calls the check hook for every set and again with every reload.

use std::ffi::{CString, c_char, c_void};

use id_gen_core::layout::{Layout, LayoutError};
use id_gen_core::time::unix_ms;
use pgrx::guc::GucSetting;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::{Error, Message, Reason, hint};
use crate::os::clock;
use crate::os::process::PerProcess;
use crate::pg::server;
use crate::settings::check_hook;

static LAYOUT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"default"));

/// The last text that was parsed, and what came of it.
static PARSED: PerProcess<Option<(String, Result<Layout, LayoutError>)>> = PerProcess::new(None);

/// The layout that the running server keeps until it restarts, as far as this process knows; the inner
/// `None` where nothing generates.
static IN_FORCE: PerProcess<Option<Option<Layout>>> = PerProcess::new(None);

/// A value of the parameter that is no layout.
pub struct InvalidLayout {
    /// The value.
    pub text: String,
    /// What is wrong with it.
    pub error: LayoutError,
}

/// Notes which layout the running server has adopted.
pub fn set_layout_in_force(layout: Option<Layout>) {
    IN_FORCE.with(|in_force| *in_force = Some(layout));
}

/// The layout that the running server has adopted, as far as this process knows. The postmaster knows
/// it also after a crash, when all shared memory is made again.
pub fn layout_in_force() -> Option<Option<Layout>> {
    IN_FORCE.with(|in_force| *in_force)
}

/// The layout that the parameter names in this process.
///
/// # Errors
/// If it names none: the server was started with such a value.
pub fn layout() -> Result<Layout, InvalidLayout> {
    let text = text();
    parse(&text).map_err(|error| InvalidLayout { text, error })
}

/// As [`layout`], and whether IDs can be made with it today, as a server should know when it starts.
///
/// # Errors
/// If not.
pub fn check_starting_layout() -> Result<(), InvalidLayout> {
    let text = text();
    usable(&text).map(|_| ()).map_err(|error| InvalidLayout { text, error })
}

fn text() -> String {
    LAYOUT.get().map_or_else(String::new, |text| text.to_string_lossy().into_owned())
}

fn parse(text: &str) -> Result<Layout, LayoutError> {
    PARSED.with(|parsed| match parsed {
        Some((known, layout)) if known == text => layout.clone(),
        _ => {
            let layout = text.parse();
            *parsed = Some((text.to_owned(), layout.clone()));
            layout
        }
    })
}

/// Parses a layout and checks that IDs can be made with it today.
fn usable(text: &str) -> Result<Layout, LayoutError> {
    let layout = parse(text)?;
    layout.check_at(unix_ms(clock::wall_ns()))?;
    Ok(layout)
}

/// The check hook. It refuses a text that is no layout, whoever sets it, and for `ALTER SYSTEM` also a
/// layout that no ID can be made with today. Elsewhere the clock does not count: a text that was good
/// when it was set must not fail later, in a session that only restores it.
#[pg_guard]
unsafe extern "C-unwind" fn check_layout(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: what PostgreSQL has passed.
    let Some(text) = (unsafe { check_hook::to_check(value) }) else { return true };
    let typed = server::is_in_alter_system();
    match if typed { usable(&text) } else { parse(&text) } {
        Ok(layout) => {
            if typed && layout_in_force().is_some_and(|in_force| in_force != Some(layout)) {
                check_hook::note_restart(RESTART_NOTICE);
            }
            true
        }
        Err(error) => {
            let text = text.into_owned();
            let error: Error = Reason::InvalidLayoutSetting { text, error, last: None }.into();
            check_hook::refuse(Message { hint: hint::layout_value(), ..error.message() });
            false
        }
    }
}

/// What is said about a value that waits for a restart.
pub const RESTART_NOTICE: &str =
    "parameter \"id_gen.layout\" takes effect when the server is restarted";

/// Defines the parameter.
pub fn define() {
    // SAFETY: the hook is guarded.
    unsafe {
        check_hook::define(
            c"id_gen.layout",
            c"Sets the layout of generated snowflakes.",
            c"The name of a preset (see snowflake_layouts()) or a layout text. The layout of a running server cannot change.",
            &LAYOUT,
            Some(check_layout),
        );
    }
}
