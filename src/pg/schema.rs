//! The extension's schema in statements that somebody is to type.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Statements to be typed by who called this function of ours: with its schema in front of our
/// functions, if they are not found without it.
pub fn qualified_for_caller(statements: &str, function: pg_sys::Oid) -> String {
    schema_if_needed(function)
        .map_or_else(|| statements.to_owned(), |schema| qualified(statements, &schema))
}

/// Statements with a schema in front of each of our functions.
pub fn qualified(statements: &str, schema: &str) -> String {
    let mut qualified = statements.to_owned();
    for keyword in ["SELECT ", "FROM "] {
        for family in ["id_gen_", "id_mask_", "snowflake_"] {
            qualified = qualified
                .replace(&format!("{keyword}{family}"), &format!("{keyword}{schema}.{family}"));
        }
    }
    // A schema of its own, which functions of ours have made.
    qualified.replace(&format!("{schema}.id_gen_convert."), "id_gen_convert.")
}

/// The schema of one of our functions, as one types it, if it is not found without.
fn schema_if_needed(function: pg_sys::Oid) -> Option<String> {
    // SAFETY: called while the function runs, so it exists and catalogs can be read; the name is a
    // string of this call's memory.
    unsafe {
        if function == pg_sys::InvalidOid || pg_sys::FunctionIsVisible(function) {
            return None;
        }
        let schema = pg_sys::get_namespace_name(pg_sys::get_func_namespace(function));
        (!schema.is_null()).then(|| {
            CStr::from_ptr(pg_sys::quote_identifier(schema)).to_string_lossy().into_owned()
        })
    }
}
