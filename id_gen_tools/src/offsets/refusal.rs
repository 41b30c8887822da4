//! Errors of offsets: why sequences cannot be divided, and what to do. Names are quoted if necessary.

use id_gen_base::error::Message;
use id_gen_base::pg::text::{in_error, literal};
use id_gen_core::offsets;
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;

/// How many nodes there can be.
pub const MOST_NODES: i32 = offsets::MOST_NODES.cast_signed();

/// An argument that is NULL.
pub fn null(name: &str) -> Message {
    Message::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, format!("{name} must not be null"))
        .hint(format!("Pass a value for {name}."))
}

/// A number of nodes out of range.
pub fn no_nodes(name: &str, nodes: i32) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("{name} must be from 1 to {MOST_NODES}"),
    )
    .detail(format!("The value of {name} is {nodes}."))
    .hint("Pass the number of servers that use the sequences.")
}

/// A node out of range.
pub fn no_node(node: i32, nodes: i32) -> Message {
    Message::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, format!("node {node} does not exist"))
        .detail(format!(
            "With {nodes} nodes, their numbers are 1 to {nodes}; each server needs a different one."
        ))
        .hint(format!("Pass the number of this server, from 1 to {nodes}."))
}

/// A schema that does not exist.
pub fn no_schema(oid: pg_sys::Oid) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_SCHEMA_NAME,
        format!("schema with OID {} does not exist", oid.to_u32()),
    )
    .hint("Pass a schema of this database. To list them: SELECT nspname FROM pg_namespace;")
}

/// A relation that is not a sequence of the schema.
pub fn no_sequence(name: &str, schema: &str) -> Message {
    let (name, schema) = (in_error(name), in_error(schema));
    Message::new(
        Code::ERRCODE_WRONG_OBJECT_TYPE,
        format!("{name} is not a sequence of schema {schema}"),
    )
    .hint(format!(
        "To list its sequences: SELECT sequence FROM id_gen_offsets_plan({}, 1, 2);",
        literal(&schema)
    ))
}

/// A new number of nodes that is not greater than the old one.
pub fn too_few(schema: &str, old: i32, new: i32) -> Message {
    let fact = Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        "new_node_count must be greater than node_count",
    )
    .detail(format!("node_count is {old}, new_node_count is {new}. A node that is no longer needed requires no change."));
    if old == MOST_NODES {
        return fact.hint("There can be at most 1000 nodes. For more servers, use snowflakes.");
    }
    fact.hint(in_error(&format!(
        "For example: SELECT * FROM id_gen_offsets_grow_plan({}, {old}, {});",
        literal(schema),
        old + 1
    )))
}

/// A transaction that does not see what others commit.
pub fn old_snapshot() -> Message {
    Message::new(
        Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
        "cannot divide sequences in a REPEATABLE READ or SERIALIZABLE transaction",
    )
    .detail("Such a transaction does not see rows committed after it began, and new numbers must be above them.")
    .hint("Use another isolation level: BEGIN ISOLATION LEVEL READ COMMITTED;")
}

/// Rows that the role does not see.
pub fn row_security(column: &str) -> Message {
    Message::new(
        Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("row security hides rows of the table of column {column}"),
    )
    .detail("All stored numbers must be readable, so that new numbers are above them.")
    .hint("Run this as the owner of the table, or as a role with BYPASSRLS.")
}

/// Sequences that cannot be divided: the obstacle of each, and its remedy.
pub fn obstacles(schema: &str, facts: &[String], remedies: &[String]) -> Message {
    let name = in_error(schema);
    Message::new(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("cannot divide sequences of schema {name}"),
    )
    .detail(in_error(&format!("{}. Nothing was changed.", facts.join("; "))))
    .hint(in_error(&remedies.join("\n")))
}
