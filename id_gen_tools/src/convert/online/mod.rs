//! Where values change, or their type: a second column gets the new values while the table is in use, and in the end takes the
//! place of the first.
//!
//! The order of it: the columns are added, and triggers keep new rows in step; old rows get their values in batches; checks,
//! indexes and foreign keys like those of the old columns are made beside them; then the columns swap their names, in one
//! transaction. The old ones stay, kept in step the other way round, until the job is finished or undone.
//!
//! What the switch makes again is made once when the job starts, and taken back: it can be made, and means the same over the new
//! columns. The switch and an undo compare again (`id_gen_convert.meanings()`).
//!
//! What is done when is written in [`job`], as statements of a [`script::Script`]. What carries it out, and survives a crash, is
//! in the schema that the first job makes (`sql/convert_job.sql`).

mod attributes;
mod columns;
mod constraints;
mod dependents;
mod fill;
mod indexes;
mod job;
mod losses;
mod names;
mod obstacles;
mod plan;
mod record;
mod script;
mod trigger;
mod values;

pub use job::{Job, is_needed};
pub use record::is_started;
