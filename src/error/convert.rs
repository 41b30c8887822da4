//! Why a column can't be moved over to IDs of ours, and what leads on.

use id_gen_core::time::format_ms;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::fields::Message;

/// Why it can't be done. Names are as one types them.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// There is no such target.
    UnknownTarget(String),
    /// There is no such column.
    NoColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// What the column belongs to is no table of this database.
    NoTable(String),
    /// The column is one of a partition.
    Partition {
        /// The column.
        column: String,
        /// The partitioned table.
        root: String,
    },
    /// The column is computed from others.
    Generated(String),
    /// The column has IDs of ours.
    AlreadyOurs {
        /// The column.
        column: String,
        /// Its default.
        default: String,
    },
    /// Row security hides rows, so nobody knows which IDs there are.
    RowSecurity(String),
    /// The column's type has no room for IDs, or that of columns that refer to it.
    TooNarrow {
        /// The column.
        column: String,
        /// The statements that widen what is too narrow.
        widen: Vec<String>,
    },
    /// The column's type is not that of the target.
    WrongType {
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
    },
    /// The values that are stored reach into those to come.
    Overlap {
        /// The column.
        column: String,
        /// Both as the first arguments of a function.
        arguments: String,
        /// The largest value.
        largest: i64,
        /// The lowest snowflake that may be made.
        first: i64,
        /// Of which Unix millisecond that is.
        first_ms: i64,
    },
}

impl Refusal {
    /// The error in PostgreSQL's parts.
    pub fn message(&self) -> Message {
        match self {
            Refusal::UnknownTarget(target) => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("target \"{target}\" is unknown"),
            )
            .detail("The targets are snowflake, for bigint, and uuidv7, for uuid.")
            .hint("Leave it out to have the one of the column's type, as in: SELECT * FROM id_gen_convert_plan('customer', 'id');"),
            Refusal::NoColumn { table, column } => Message::new(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("column {column} of relation {table} does not exist"),
            )
            .hint("Name a column as it is stored, without quotes, as in: SELECT * FROM id_gen_convert_plan('\"Order\"', 'orderId');"),
            Refusal::NoTable(column) => Message::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} is not one of a table"),
            )
            .detail("Only a table of this database, partitioned or not, has defaults that every insert goes by.")
            .hint("Name the table that holds the rows."),
            Refusal::Partition { column, root } => Message::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} is one of a partition"),
            )
            .detail(format!("It is moved over with {root} and all other partitions."))
            .hint("Name the partitioned table."),
            Refusal::Generated(column) => Message::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} is generated from others"),
            )
            .hint("Name the column that it is generated from."),
            Refusal::AlreadyOurs { column, default } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("column {column} has a default of id_gen already"),
            )
            .detail(format!("It is: {default}"))
            .hint("To go back, type what the plan said in its column \"undo\", the last one first."),
            Refusal::RowSecurity(column) => Message::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("row security hides rows of the table of column {column}"),
            )
            .detail("Which IDs it holds has to be known, so that new ones are above them.")
            .hint("Ask as the owner of the table, or as a role with BYPASSRLS."),
            Refusal::TooNarrow { column, widen } => Message::new(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column}, or one that refers to it, is too narrow for snowflakes"),
            )
            .detail("Snowflakes are bigint. A column that is widened is written anew, under an ACCESS EXCLUSIVE lock; values and defaults stay.")
            .hint(format!("Widen first, where the table may be locked for so long: {}", widen.join(" "))),
            Refusal::WrongType { column, type_name } => Message::new(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column} cannot have IDs of this kind"),
            )
            .detail(format!("Its type is {type_name}; snowflakes are bigint, and UUIDs are uuid. The values that are stored stay as they are."))
            .hint("Name a column of one of these types, and leave the target out, as in: SELECT * FROM id_gen_convert_plan('customer', 'id');"),
            Refusal::Overlap { column, arguments, largest, first, first_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("values in column {column} are among the snowflakes to come"),
            )
            .detail(format!(
                "The largest is {largest}; snowflakes of this server's layout begin at {first} now ({}).",
                format_ms(*first_ms)
            ))
            .hint(format!(
                "Find out what they are: SELECT * FROM id_gen_profile({arguments}); if they are snowflakes of another layout, let the server go on with that (id_gen.layout)."
            )),
        }
    }
}
