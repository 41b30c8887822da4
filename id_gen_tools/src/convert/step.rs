//! What a plan is for, and what it is made of.

/// What a column is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Snowflakes.
    Snowflake,
    /// UUIDs of version 7.
    Uuidv7,
}

impl Target {
    /// Its name in arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Snowflake => "snowflake",
            Target::Uuidv7 => "uuidv7",
        }
    }

    /// The type of its values.
    pub const fn type_name(self) -> &'static str {
        match self {
            Target::Snowflake => "bigint",
            Target::Uuidv7 => "uuid",
        }
    }

    /// The call that makes one, without its schema.
    pub const fn generator(self) -> &'static str {
        match self {
            Target::Snowflake => "snowflake_next()",
            Target::Uuidv7 => "uuidv7()",
        }
    }
}

/// A statement of a plan.
pub struct Step {
    /// What to type.
    pub statement: String,
    /// The lock that it takes on a table or sequence, as PostgreSQL's documentation names it.
    pub lock_mode: Option<&'static str>,
    /// Whether it may run in a transaction block.
    pub in_transaction: bool,
    /// What takes it back.
    pub undo: Option<String>,
    /// Why it is there, and what to know.
    pub note: String,
}
