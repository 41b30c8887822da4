//! The settings that texts of PostgreSQL's catalogs depend on: how constants are written in a definition, and what is read from
//! one. What is made again from a definition means the same only if both happen under the same settings.
//!
//! They are those that `pg_dump` sets, and what else a constant's text, or an index that is made from a definition, depends on.

use std::ffi::CStr;

use id_gen_base::pg::settings;
use id_gen_core::planted::Fault;

/// The settings, and the value that each has while definitions are read, compared and run.
const PINNED: [(&CStr, &CStr); 13] = [
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"datestyle", c"ISO"),
    (c"intervalstyle", c"postgres"),
    (c"timezone", c"UTC"),
    (c"extra_float_digits", c"3"),
    (c"bytea_output", c"hex"),
    (c"lc_monetary", c"C"),
    (c"xmloption", c"content"),
    (c"array_nulls", c"on"),
    (c"transform_null_equals", c"off"),
    (c"standard_conforming_strings", c"on"),
    (c"quote_all_identifiers", c"off"),
    (c"default_tablespace", c""),
];

/// Runs a call under them.
pub fn under_pinned_settings<T>(call: impl FnOnce() -> T) -> T {
    if Fault::CatalogTextsUnpinned.is_planted() {
        return call();
    }
    settings::with(&PINNED, call)
}

/// The statement that gives a client's session their `search_path`, for the definitions that it runs.
pub fn pin_path() -> String {
    let (name, value) = PINNED[0];
    format!("SET {} = {}", name.to_string_lossy(), value.to_string_lossy())
}

/// The same settings as clauses of `CREATE FUNCTION`.
pub fn as_clauses() -> String {
    let clauses = PINNED.iter().map(|(name, value)| {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        // A list of names is no string.
        if name == "search_path" {
            format!("SET {name} = {value}")
        } else {
            format!("SET {name} = '{value}'")
        }
    });
    clauses.collect::<Vec<_>>().join(" ")
}

/// The statements that set those to the defaults of the session, until the end of the function that runs them, which what is
/// computed from a row may depend on: not those that PostgreSQL looks up names and reads statements by.
pub fn as_defaults() -> String {
    const KEPT: [&CStr; 4] = [
        c"search_path",
        c"standard_conforming_strings",
        c"quote_all_identifiers",
        c"default_tablespace",
    ];
    let names = PINNED.iter().map(|(name, _)| *name).filter(|name| !KEPT.contains(name));
    let statements = names.map(|name| format!("SET LOCAL {} TO DEFAULT;", name.to_string_lossy()));
    statements.collect::<Vec<_>>().join(" ")
}
