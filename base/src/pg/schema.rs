//! The schemas of the extensions in statements that somebody is to type.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::pg::extension;

const ID_GEN: &str = "id_gen";
const TOOLS: &str = "id_gen_tools";
const MASK: &str = "id_gen_mask";

/// How the names of functions and views begin, as far as statements that are to be typed have them, and their extension; the
/// first that matches counts.
const FAMILIES: [(&str, &str); 12] = [
    ("id_gen_convert_", TOOLS),
    ("id_gen_offsets_", TOOLS),
    ("id_gen_profile", TOOLS),
    ("id_mask", MASK),
    ("id_unmask", MASK),
    ("id_", ID_GEN),
    ("snowflake_", ID_GEN),
    ("ticket_", ID_GEN),
    ("ulid_", ID_GEN),
    ("typeid", ID_GEN),
    ("sqids_", ID_GEN),
    ("uuidv8_", ID_GEN),
];

/// The extension that has a function or view of this name, if one of them has.
fn extension_of(name: &str) -> Option<&'static str> {
    let family = FAMILIES.iter().find(|(start, _)| name.starts_with(start));
    family.map(|&(_, extension)| extension)
}

/// Statements to be typed by who called this function of ours: with the schema in front of functions of its extension, if
/// they are not found without it, and always in front of those of the other extensions, if they are installed.
pub fn qualified_for_caller(statements: &str, function: pg_sys::Oid) -> String {
    if function == pg_sys::InvalidOid {
        return statements.to_owned();
    }
    // Whatever has the name of no family, such as uuidv7(), is a function of id_gen.
    let own = name_of(function).as_deref().and_then(extension_of).unwrap_or(ID_GEN);
    qualified_by(statements, |extension| {
        if extension == own {
            schema_if_needed(function)
        } else {
            extension::schema_of(extension).ok().flatten()
        }
    })
}

/// Statements with the schema of its extension in front of each of our functions, and of each view of ours that is read.
pub fn qualified(statements: &str) -> String {
    qualified_by(statements, |extension| extension::schema_of(extension).ok().flatten())
}

fn qualified_by(statements: &str, schema_of: impl Fn(&'static str) -> Option<String>) -> String {
    let is_part_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut qualified = String::with_capacity(statements.len());
    let mut rest = statements;
    while let Some(start) = rest.find(is_part_of_name) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|letter| !is_part_of_name(letter)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        qualified.push_str(before);
        let is_function = after.starts_with('(') && !before.ends_with('.');
        // A name of our schema of jobs is followed by a dot.
        let is_view = qualified.ends_with("FROM ") && !after.starts_with('.');
        let extension = extension_of(name).filter(|_| is_function || is_view);
        if let Some(schema) = extension.and_then(&schema_of) {
            qualified.push_str(&schema);
            qualified.push('.');
        }
        qualified.push_str(name);
        rest = after;
    }
    qualified + rest
}

/// The name of one of our functions.
fn name_of(function: pg_sys::Oid) -> Option<String> {
    // SAFETY: called while the function runs, so it exists and catalogs can be read; the name is a string of this call's
    // memory.
    unsafe {
        let name = pg_sys::get_func_name(function);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// The schema of one of our functions, as one types it, if it is not found without.
fn schema_if_needed(function: pg_sys::Oid) -> Option<String> {
    // SAFETY: as above.
    if unsafe { pg_sys::FunctionIsVisible(function) } { None } else { of(function) }
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
