//! `id_gen_mask`: what others see of a `bigint` or a `uuid`, under a key. It is independent of `id_gen`, and the only
//! extension that reads keys.
//!
//! [`id_gen_mask_rules`] has the masks and the format of the file of keys, and needs no PostgreSQL.

#![warn(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

mod error;
mod functions;
mod keys;
mod setting;

use id_gen_base::pg::backtrace;
use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

/// Called once per process that loads the library.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    backtrace::disable();
    setting::define();
}
