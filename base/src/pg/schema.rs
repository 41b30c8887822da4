//! The extension's schema in statements that somebody is to type.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Statements to be typed by who called this function of ours: with its schema in front of our
/// functions, if they are not found without it.
pub fn qualified_for_caller(statements: &str, function: pg_sys::Oid) -> String {
    schema_if_needed(function)
        .map_or_else(|| statements.to_owned(), |schema| qualified(statements, &schema))
}

/// How the names of our functions and views begin, as far as statements that are to be typed have them.
const FAMILIES: [&str; 7] =
    ["id_", "snowflake_", "ticket_", "ulid_", "typeid", "sqids_", "uuidv8_"];

/// Statements with a schema in front of each of our functions, and of each view of ours that is read.
pub fn qualified(statements: &str, schema: &str) -> String {
    let is_part_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut qualified = String::with_capacity(statements.len());
    let mut rest = statements;
    while let Some(start) = rest.find(is_part_of_name) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|letter| !is_part_of_name(letter)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        qualified.push_str(before);
        let is_ours = FAMILIES.iter().any(|family| name.starts_with(family));
        let is_function = after.starts_with('(') && !before.ends_with('.');
        // A name of our schema of jobs is followed by a dot.
        let is_view = qualified.ends_with("FROM ") && !after.starts_with('.');
        if is_ours && (is_function || is_view) {
            qualified.push_str(schema);
            qualified.push('.');
        }
        qualified.push_str(name);
        rest = after;
    }
    qualified + rest
}

/// The schema of one of our functions, as one types it, if it is not found without.
fn schema_if_needed(function: pg_sys::Oid) -> Option<String> {
    // SAFETY: called while the function runs, so it exists and catalogs can be read.
    let is_found = function == pg_sys::InvalidOid || unsafe { pg_sys::FunctionIsVisible(function) };
    if is_found { None } else { of(function) }
}

/// The schema of one of our functions, as one types it.
pub fn of(function: pg_sys::Oid) -> Option<String> {
    // SAFETY: as above; the name is a string of this call's memory.
    unsafe {
        let schema = pg_sys::get_namespace_name(pg_sys::get_func_namespace(function));
        (!schema.is_null()).then(|| {
            CStr::from_ptr(pg_sys::quote_identifier(schema)).to_string_lossy().into_owned()
        })
    }
}
