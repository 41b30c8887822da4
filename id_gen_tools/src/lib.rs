//! `id_gen_tools`: profiles of the IDs in a column, conversion of columns to snowflakes and UUIDs, and division of sequences
//! among servers.
//!
//! It is built on [`id_gen_base`] and [`id_gen_core`]. What it has to know of the server it asks the functions of `id_gen`,
//! only in [`server`].

#![warn(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

mod convert;
mod error;
mod offsets;
mod profile;
mod query;
mod server;

use id_gen_base::pg::backtrace;
use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

/// Called once per process that loads the library.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    backtrace::disable();
}
