//! `id_gen`: snowflake IDs, UUIDs and other IDs made inside PostgreSQL.
//!
//! This crate is the thin part: it turns SQL calls into calls on [`id_gen_core`], which holds the
//! rules. Folders use those below them in this list, never those above (`make lint` checks it):
//!
//! | folder | what it holds |
//! | --- | --- |
//! | [`sql`] | what SQL can call, a file for each family of functions |
//! | [`observe`] | whether a server generates, and what may be wrong with it |
//! | [`tickets`] | numbers of PostgreSQL's sequences, out of ranges |
//! | [`generate`] | from a used-up block to the next one |
//! | [`fleet`] | from the setting of a registry to a number of this server's own |
//! | [`shared`] | shared memory |
//! | [`durable`] | what is on disk |
//! | [`settings`] | the `id_gen.*` parameters |
//! | [`error`] | the catalogue of errors, and how they are raised and logged |
//! | [`pg`] | PostgreSQL's conventions |
//!
//! Below them is [`id_gen_base`], which the other extensions are built on, too.
//!
//! Generating goes one way: SQL function, block, (now and then) claim, frontier. So does decoding: SQL
//! function, layout.
//!
//! `unsafe` is allowed here because this is where PostgreSQL begins; `core` forbids it.

#![warn(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

use id_gen_base::os;
use pgrx::prelude::*;

mod durable;
mod error;
mod fleet;
mod generate;
mod observe;
mod pg;
mod settings;
mod shared;
mod sql;
mod tickets;

use error::{log_limit, report};
use fleet::registrar;
use generate::keeper;
use id_gen_core::planted;
use pg::{backtrace, server};
use shared::memory;

::pgrx::pg_module_magic!(name, version);

/// Called once per process that loads the library: by the postmaster if it is preloaded, otherwise
/// by each session that calls one of its functions. Everything works from either but generating
/// snowflakes before PostgreSQL 17, where only a preloaded library gets shared memory.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    backtrace::disable();
    durable::upgrade::notice_creations();
    settings::known::OWN.before_definition();
    settings::define();
    settings::known::OWN.after_definition();
    // A parallel worker is about to get its leader's value.
    if !server::is_starting_parallel_worker()
        && let Err(invalid) = settings::check_starting_layout()
    {
        report::log(&durable::invalid_layout(invalid), PgLogLevel::WARNING);
    }
    log_limit::install();
    if let Some(fault) = planted::name() {
        report::log_line(format!("id_gen: this build is not for use: it has the fault {fault}"));
    }
    memory::request();
    keeper::WORKER.request();
    registrar::request();
}
