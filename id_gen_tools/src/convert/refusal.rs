//! Why a column can't be moved over to IDs of ours, and what leads on.

use id_gen_base::error::Message;
use id_gen_core::time::format_ms;
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::Error;

/// Why it can't be done. Names are as one types them.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// There is no such target.
    UnknownTarget(String),
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
    /// The column gets its values from another one, by a foreign key.
    Reference {
        /// Table and column.
        column: String,
        /// Name of the constraint.
        constraint: String,
        /// Table and column that it refers to.
        referenced: String,
        /// The referenced table and column as the first arguments of a function.
        arguments: String,
    },
    /// The column has IDs of ours.
    AlreadyOurs {
        /// The column.
        column: String,
        /// Its default.
        default: String,
    },
    /// Row security hides rows, so nobody knows which IDs there are.
    RowSecurity(String),
    /// Something keeps another column from taking the place of this one.
    InTheWay {
        /// The column.
        column: String,
        /// What, and why.
        found: Vec<String>,
        /// The statement that changes its type under a lock, if that is all that it needs.
        widen: Option<String>,
    },
    /// The role may make no schema for its jobs. Both names are as one types them.
    NoSchema {
        /// The database.
        database: String,
        /// The role.
        role: String,
    },
    /// It is being moved over.
    Started {
        /// The column.
        column: String,
        /// Both names as the first arguments of a function.
        arguments: String,
    },
    /// A superuser has taken this role, as one types it, with `SET ROLE`.
    BorrowedRole(String),
    /// The schema of jobs belongs to another role, as one types it.
    SchemaOfAnother(String),
    /// The values can stay as they are.
    NothingToFill {
        /// The column.
        column: String,
        /// Both names as the first arguments of a function.
        arguments: String,
    },
    /// There is no column that could tell when rows were made.
    NoTime {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A server makes IDs with these numbers, or may.
    NodeInUse {
        /// The worker number.
        worker: u32,
        /// The datacenter number.
        datacenter: u32,
        /// Whether a fleet gives them to its servers.
        in_fleet: bool,
    },
    /// There are no IDs of its type.
    WrongType {
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
    },
    /// The column's type is not that of the target.
    WrongTarget {
        /// Table and column.
        column: String,
        /// Name of its type.
        type_name: String,
        /// Both names as the first arguments of a function.
        arguments: String,
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

impl From<Refusal> for Error {
    #[cold]
    fn from(refusal: Refusal) -> Error {
        refusal.message().into()
    }
}

impl Refusal {
    /// The error in PostgreSQL's parts.
    fn message(&self) -> Message {
        match self {
            Refusal::UnknownTarget(target) => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("target \"{target}\" is unknown"),
            )
            .detail("The targets are snowflake, for bigint, and uuidv7, for uuid.")
            .hint("Omit the target to use the one for the column's type, as in: SELECT * FROM id_gen_convert_plan('customer', 'id');"),
            Refusal::NoTable(column) => Message::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} does not belong to a table"),
            )
            .detail("Only columns of ordinary and partitioned tables can be converted.")
            .hint("Pass the table that stores the rows."),
            Refusal::Partition { column, root } => Message::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} belongs to a partition"),
            )
            .detail(format!("It is converted with {root} and all other partitions."))
            .hint("Pass the partitioned table."),
            Refusal::Generated(column) => Message::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} is a generated column"),
            )
            .hint("Pass the column that it is generated from."),
            Refusal::Reference { column, constraint, referenced, arguments } => Message::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("column {column} references another column"),
            )
            .detail(format!("Its values are those of {referenced} (constraint {constraint})."))
            .hint(format!("Convert the referenced column, and this one is converted with it: SELECT * FROM id_gen_convert_plan({arguments});")),
            Refusal::AlreadyOurs { column, default } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("column {column} already has a default of id_gen"),
            )
            .detail(format!("The default is {default}. Only a column with another default, or none, can be converted."))
            .hint("To undo a conversion, run the statements in column \"undo\" of the plan that it was made with, last one first."),
            Refusal::RowSecurity(column) => Message::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("row security hides rows of the table of column {column}"),
            )
            .detail("All stored IDs must be readable, so that new IDs are above them.")
            .hint("Run this as the owner of the table, or as a role with BYPASSRLS."),
            Refusal::InTheWay { column, found, widen } => Message::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("column {column} cannot be converted online"),
            )
            .detail(format!("Obstacles: {}.", found.join("; ")))
            .hint(format!(
                "Remove the obstacles; what is still needed can be recreated after the conversion.{}",
                widen.as_ref().map_or(String::new(), |widen| format!(" Or change the type during a downtime: {widen}"))
            )),
            Refusal::Started { column, arguments } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("column {column} is being converted"),
            )
            .hint(format!("For the remaining steps: SELECT statement FROM id_gen_convert.todo({arguments}); To undo: CALL id_gen_convert.undo({arguments});")),
            Refusal::NoSchema { database, role } => Message::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied to create schema id_gen_convert",
            )
            .detail(format!("Role {role} lacks the privilege CREATE on database {database}."))
            .hint(format!("The owner of the database can run: GRANT CREATE ON DATABASE {database} TO {role};")),
            Refusal::BorrowedRole(role) => Message::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied to run a job as role {role} in a session of a superuser"),
            )
            .detail("A job runs functions of the role, which could reset the role and use the privileges of a superuser.")
            .hint(format!("Log in as {role}. In a session of a superuser, SET ROLE is not enough; a member of the role that is not a superuser can run: SET ROLE {role};")),
            Refusal::SchemaOfAnother(owner) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "schema id_gen_convert belongs to another role",
            )
            .detail(format!("Its owner is {owner}, and a job runs the functions in it."))
            .hint(format!("Have {owner} finish or undo its jobs first, or log in as {owner} to convert this column.")),
            Refusal::NothingToFill { column, arguments } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("column {column} needs only a new default"),
            )
            .detail("Its values do not change, so no job is needed.")
            .hint(format!("Run the statements of the plan: SELECT * FROM id_gen_convert_plan({arguments});")),
            Refusal::NoTime { table, column } => Message::new(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column} of relation {table} has no time"),
            )
            .detail("The creation time of a row is read from a column of type timestamptz, timestamp or date.")
            .hint("Pass such a column, as in: SELECT * FROM id_gen_convert_plan('customer', 'id', created_at => 'created_at');"),
            Refusal::NodeInUse { worker, datacenter, in_fleet } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("worker {worker} of datacenter {datacenter} is in use or may be assigned"),
            )
            .detail(if *in_fleet {
                "The fleet of this server assigns the worker IDs of this datacenter, so the new IDs of old rows could duplicate those of other servers."
            } else {
                "It is this server's own worker ID, so the new IDs of old rows could duplicate its IDs."
            })
            .hint("Pass a worker ID and a datacenter ID that no server uses, now or later: worker_id => ..., datacenter_id => ..."),
            Refusal::WrongType { column, type_name } => Message::new(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column} cannot be converted because of its type"),
            )
            .detail(format!("Its type is {type_name}; only columns of type bigint, integer, smallint and uuid can be converted."))
            .hint("Pass a column of one of these types."),
            Refusal::WrongTarget { column, type_name, arguments } => Message::new(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column} cannot be converted to uuidv7"),
            )
            .detail(format!("Its type is {type_name}; numbers can only be converted to snowflakes."))
            .hint(format!("Omit the target: SELECT * FROM id_gen_convert_plan({arguments});")),
            Refusal::Overlap { column, arguments, largest, first, first_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("values in column {column} overlap with future snowflakes"),
            )
            .detail(format!(
                "The largest value is {largest}; new snowflakes start at {first} ({}).",
                format_ms(*first_ms)
            ))
            .hint(format!(
                "To examine the values: SELECT * FROM id_gen_profile({arguments}); If they are snowflakes of another layout, set id_gen.layout to it. To give all rows new IDs, pass the column with their time: created_at => ..."
            )),
        }
    }
}
