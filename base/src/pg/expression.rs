//! Expressions of the catalogs, such as defaults of columns, as PostgreSQL's nodes: their text depends on settings.

use pgrx::{PgList, pg_sys};

use crate::pg::text::in_server_encoding;

/// Whether an expression, as the catalogs hold it, can be what a function returned: the call itself, converted to another
/// type, or one of several alternatives. Not what is calculated from it.
pub fn can_be_result_of(expression: String, function: pg_sys::Oid) -> bool {
    let expression = in_server_encoding(expression);
    // SAFETY: the text of a pg_node_tree, which only PostgreSQL writes. It is read into nodes in the current memory
    // context, which live as long as this call.
    unsafe { is_result(pg_sys::stringToNode(expression.as_ptr()).cast(), function) }
}

/// # Safety
/// A node of an expression, or null.
unsafe fn is_result(node: *mut pg_sys::Node, function: pg_sys::Oid) -> bool {
    use pg_sys::CoercionForm::{COERCE_EXPLICIT_CAST, COERCE_IMPLICIT_CAST};
    use pg_sys::NodeTag as Tag;

    if node.is_null() {
        return false;
    }
    // SAFETY: the tag says which node it is, and nodes of an expression refer to others.
    unsafe {
        match (*node).type_ {
            Tag::T_FuncExpr => {
                let call = node.cast::<pg_sys::FuncExpr>();
                let is_cast =
                    matches!((*call).funcformat, COERCE_EXPLICIT_CAST | COERCE_IMPLICIT_CAST);
                // The others of a cast say to which length, precision or scale.
                let converted = PgList::<pg_sys::Node>::from_pg((*call).args).get_ptr(0);
                (*call).funcid == function
                    || is_cast && converted.is_some_and(|node| is_result(node, function))
            }
            Tag::T_RelabelType => {
                is_result((*node.cast::<pg_sys::RelabelType>()).arg.cast(), function)
            }
            Tag::T_CoerceViaIO => {
                is_result((*node.cast::<pg_sys::CoerceViaIO>()).arg.cast(), function)
            }
            // One of those that it returned.
            Tag::T_SubscriptingRef => {
                is_result((*node.cast::<pg_sys::SubscriptingRef>()).refexpr.cast(), function)
            }
            Tag::T_CoerceToDomain => {
                is_result((*node.cast::<pg_sys::CoerceToDomain>()).arg.cast(), function)
            }
            Tag::T_CoalesceExpr => {
                is_any_result((*node.cast::<pg_sys::CoalesceExpr>()).args, function)
            }
            Tag::T_CaseExpr => {
                let case = node.cast::<pg_sys::CaseExpr>();
                is_any_result((*case).args, function)
                    || is_result((*case).defresult.cast(), function)
            }
            Tag::T_CaseWhen => {
                is_result((*node.cast::<pg_sys::CaseWhen>()).result.cast(), function)
            }
            _ => false,
        }
    }
}

/// # Safety
/// A list of nodes of an expression.
unsafe fn is_any_result(nodes: *mut pg_sys::List, function: pg_sys::Oid) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        PgList::<pg_sys::Node>::from_pg(nodes).iter_ptr().any(|node| is_result(node, function))
    }
}
