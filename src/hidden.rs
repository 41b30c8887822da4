//! Settings of the server that this session cannot see, because something of its own is in the way.
//!
//! Until a library is loaded, anybody may set parameters of its names: for a role, for a database,
//! for a connection. When the library then defines them, PostgreSQL throws such values away, and the
//! configuration file's, which they had replaced, are not there any more either. What is left looks
//! like a default. A session like that must not tell others what this server's settings are, until a
//! reload gives it the file's values. The library of a server that preloads it is loaded before
//! anybody can set anything.

use pgrx::pg_sys;

use crate::process::PerProcess;
use crate::settings;

/// A parameter whose value was hidden when the library was loaded, and [`settings::reload_time`] then.
static HIDDEN: PerProcess<Option<(String, pg_sys::TimestampTz)>> = PerProcess::new(None);

/// Looks for such parameters. Must be called before they are defined.
pub fn look() {
    HIDDEN.with(|hidden| *hidden = find().map(|name| (name, settings::reload_time())));
}

/// A parameter of ours whose value comes neither from the server's file nor from its command line.
#[cfg(feature = "registry")]
fn find() -> Option<String> {
    use pg_sys::GucSource::PGC_S_ARGV;
    let mut count = 0;
    // SAFETY: PostgreSQL gives an array of that many pointers to its parameters, in memory that it
    // frees later; names are strings that last as long as their parameters.
    unsafe {
        let parameters = pg_sys::get_guc_variables(&raw mut count);
        std::slice::from_raw_parts(parameters, usize::try_from(count).unwrap_or(0))
            .iter()
            .filter(|&&parameter| (*parameter).reset_source > PGC_S_ARGV)
            .map(|&parameter| std::ffi::CStr::from_ptr((*parameter).name).to_string_lossy())
            .find(|name| is_ours(name))
            .map(std::borrow::Cow::into_owned)
    }
}

/// PostgreSQL compares names of parameters without case (`guc_name_compare`, `guc.c`).
#[cfg(feature = "registry")]
fn is_ours(name: &str) -> bool {
    const PREFIX: &str = "id_gen.";
    name.get(..PREFIX.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX))
}

/// Without preload nothing is shared on these servers, so it does not matter.
#[cfg(not(feature = "registry"))]
fn find() -> Option<String> {
    None
}

/// A parameter whose value in this session is not the server's.
pub fn parameter() -> Option<String> {
    HIDDEN.with(|hidden| {
        hidden
            .as_ref()
            .filter(|(_, since)| *since == settings::reload_time())
            .map(|(name, _)| name.clone())
    })
}
