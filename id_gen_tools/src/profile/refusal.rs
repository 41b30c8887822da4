//! Errors of profiles: why a column cannot be profiled, and what to pass instead.

use id_gen_base::catalog;
use id_gen_base::error::Message;
use pgrx::prelude::PgSqlErrorCode as Code;

/// The smallest sample that is taken, in percent: of a thousand million rows, a thousand.
pub const SMALLEST_SAMPLE_PERCENT: f64 = 0.0001;

/// A column that holds no IDs of a kind that can be profiled.
pub fn no_ids(column: &str, type_name: &str) -> Message {
    Message::new(Code::ERRCODE_DATATYPE_MISMATCH, format!("column {column} holds no IDs"))
        .detail(format!("Its type is {type_name}; snowflakes are bigint, and UUIDs are uuid."))
        .hint("Pass a column of IDs, as in: SELECT * FROM id_gen_profile('customer', 'id');")
}

/// A sample of too few or too many rows, in percent.
pub fn bad_sample(percent: f64) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_TABLESAMPLE_ARGUMENT,
        "sample_percent is out of range",
    )
    .detail(format!(
        "The value is {percent}; it must be from {SMALLEST_SAMPLE_PERCENT} to 100."
    ))
    .hint("Omit it to read all rows; or, to read one row in a hundred: SELECT * FROM id_gen_profile('customer', 'id', 1);")
}

/// A relation to be profiled that does not exist: its OID, or `NULL`.
pub fn no_relation(relation: &str) -> Message {
    catalog::no_relation(relation).hint(
        "For example: SELECT * FROM id_gen_profile('customer', 'id', others => '{customer_2023}');",
    )
}

/// A table that is to be profiled twice, by itself or with its parent.
pub fn given_twice(table: &str) -> Message {
    Message::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("table {table} would be read twice"),
    )
    .detail("A table is read with its partitions and child tables, so its rows would count as duplicates.")
    .hint("Pass each table once, without its partitions and child tables.")
}
