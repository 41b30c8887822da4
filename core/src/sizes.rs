//! What a key of each kind takes on disk, as measured: bytes per row of a table that has nothing but its key, and of the
//! B-tree that is its primary key, with the rows inserted in the order in which the keys are made.
//!
//! The figures are those that `make bench ONLY=sizes WRITE=1` wrote into [`MEASURED`] (`benches/sizes.py`);
//! `core/tests/choice.rs` compares them.

/// Where the figures are from.
pub const MEASURED: &str = "benches/results/amd-epyc-2-cores/postgresql-15.json";

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// The kind, as the benchmark calls it.
    pub name: &'static str,
    /// Bytes per row of the table.
    pub table: f64,
    /// Bytes per row of the primary key.
    pub index: f64,
}

impl Size {
    const fn new(name: &'static str, table: f64, index: f64) -> Size {
        Size { name, table, index }
    }

    /// Bytes per row, of both.
    pub const fn bytes(&self) -> f64 {
        self.table + self.index
    }
}

/// Numbers from a sequence.
pub const BIGINT: Size = Size::new("bigint", 36.25, 22.47);
/// Snowflakes.
pub const SNOWFLAKE: Size = Size::new("snowflake", 36.25, 22.47);
/// UUIDv7.
pub const UUID7: Size = Size::new("uuidv7", 44.28, 31.54);
/// UUIDv7 in strict order.
pub const UUID7_ORDERED: Size = Size::new("uuidv7_ordered", 44.28, 31.54);
/// ULIDs as `uuid`.
pub const ULID: Size = Size::new("ulid", 44.28, 31.54);
/// UUIDv4.
pub const UUID4: Size = Size::new("uuidv4", 44.28, 40.98);
/// ULIDs as `text`.
pub const ULID_TEXT: Size = Size::new("ulid as text", 60.24, 49.74);
/// TypeIDs with a prefix of four letters.
pub const TYPEID: Size = Size::new("typeid", 60.24, 49.74);
/// Random IDs of 21 characters.
pub const RANDOM_ID: Size = Size::new("id_random", 52.18, 53.04);

/// All of them.
pub const ALL: [Size; 9] =
    [BIGINT, SNOWFLAKE, UUID7, UUID7_ORDERED, ULID, UUID4, ULID_TEXT, TYPEID, RANDOM_ID];
