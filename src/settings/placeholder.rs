//! Placeholder settings that hide the server's from this session.
//!
//! Until a library is loaded, anybody may set parameters of its names, for a role, a database or a
//! connection: PostgreSQL keeps them as placeholders. When the library then defines the parameters,
//! PostgreSQL discards such values, and the configuration file's, which they had replaced, are gone as
//! well. What is left looks like a default. Such a session must not tell others what this server's
//! settings are, until a reload gives it the file's values. A server that preloads the library loads it
//! before anybody can set anything.

use pgrx::pg_sys;

use crate::os::process::PerProcess;
use crate::pg::reload;

/// A parameter that had a placeholder when the library was loaded, and [`reload::time`] then.
static PLACEHOLDER: PerProcess<Option<(String, pg_sys::TimestampTz)>> = PerProcess::new(None);

/// Looks for placeholders. Must be called before the parameters are defined.
pub fn find_before_definition() {
    PLACEHOLDER.with(|placeholder| *placeholder = find().map(|name| (name, reload::time())));
}

/// A parameter of ours whose value comes neither from the server's file nor from its command line.
#[cfg(feature = "named_dsm")]
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
#[cfg(feature = "named_dsm")]
fn is_ours(name: &str) -> bool {
    const PREFIX: &str = "id_gen.";
    name.get(..PREFIX.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX))
}

/// Without preload nothing is shared on these servers, so it does not matter.
#[cfg(not(feature = "named_dsm"))]
fn find() -> Option<String> {
    None
}

/// A parameter whose value in this session is not the server's.
pub fn overridden_parameter() -> Option<String> {
    PLACEHOLDER.with(|placeholder| {
        placeholder
            .as_ref()
            .filter(|(_, since)| *since == reload::time())
            .map(|(name, _)| name.clone())
    })
}
