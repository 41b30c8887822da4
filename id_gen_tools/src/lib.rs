//! `id_gen_tools`: what is done with stored IDs now and then. It profiles the IDs of a column, moves columns
//! over to IDs of ours, and divides sequences among servers.
//!
//! It is built on [`id_gen_base`] and [`id_gen_core`]. What it has to know of the server it asks the functions of `id_gen`,
//! in [`server`] alone.

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

extension_sql_file!("../sql/profile.sql", name = "profile");
extension_sql_file!("../sql/convert.sql", name = "convert", requires = ["profile"]);
extension_sql_file!("../sql/offsets.sql", name = "offsets", requires = ["convert"]);

/// Called once per process that loads the library.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    backtrace::disable();
}
