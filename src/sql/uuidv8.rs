//! SQL functions of a snowflake and a namespace as one UUIDv8.

use id_gen_core::{uuid, uuid8};
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::Message;
use crate::pg::fmgr::{self, int8};
use crate::sql::function::sql_function;

sql_function! {
    /// `uuidv8_from_snowflake(id bigint, namespace bigint) → uuid`
    fn uuidv8_from_snowflake(call) {
        let (id, namespace) = (call.int8(0).unwrap_or(0), call.int8(1).unwrap_or(0));
        if !(0..=uuid8::LAST_NAMESPACE).contains(&namespace) {
            return Err(bad_namespace(namespace).into());
        }
        Ok(fmgr::uuid(uuid8::of(id.cast_unsigned(), namespace.cast_unsigned())))
    }
}

sql_function! {
    /// `uuidv8_to_snowflake(id uuid) → bigint`, NULL for other versions.
    fn uuidv8_to_snowflake(call) {
        let uuid = call.uuid(0).unwrap_or_default();
        match uuid::version(&uuid) {
            Some(8) => Ok(int8(uuid8::id(&uuid).cast_signed())),
            _ => Ok(call.null()),
        }
    }
}

fn bad_namespace(namespace: i64) -> Message {
    let (bits, last) = (uuid8::NAMESPACE_BITS, uuid8::LAST_NAMESPACE);
    Message::new(Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "namespace is out of range")
        .detail(format!("The namespace is {namespace}; it must be from 0 to {last} ({bits} bits)."))
        .hint("For example, number your tables or tenants: SELECT uuidv8_from_snowflake(snowflake_next(), 1);")
}
