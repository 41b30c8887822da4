//! `id_gen`: snowflake IDs and UUIDv7 made inside PostgreSQL.
//!
//! This crate is the thin part: it turns SQL calls into calls on [`id_gen_core`], which holds the
//! rules. Generating walks one way, SQL function → slot → (now and then) claim → frontier; decoding
//! walks SQL function → layout. Nothing calls back up.
//!
//! | module | its one idea |
//! | --- | --- |
//! | [`snowflake`] | SQL functions that generate snowflakes |
//! | [`decode`] | SQL functions that take snowflakes apart, bound and build them |
//! | [`plan`] | the SQL function that proposes a layout |
//! | [`uuid`] | SQL functions of the UUIDv7 family |
//! | [`claim`] | the way from a used-up block to the next one: lock, wait, refuse |
//! | [`backend`] | what one process knows: its slot and the fast path of one ID |
//! | [`shared`] | the shared segment: the line of positions, settings in force, slots |
//! | [`slot`] | what one process owns in it: the rest of its block, its counts |
//! | [`memory`] | where that segment comes from, and how a process finds it |
//! | [`reservation`] | the promise on disk: reading, writing, beginning |
//! | [`keeper`] | the background worker that reserves ahead of need |
//! | [`stat`] | SQL functions behind the statistics views |
//! | [`status`] | whether this server generates, and what with |
//! | [`check`] | what may be wrong with it, and what to type then |
//! | [`catalog`] | what the checks ask PostgreSQL's catalogs |
//! | [`operator`] | SQL functions with which a superuser decides |
//! | [`settings`] | the `id_gen.*` parameters |
//! | [`hidden`] | settings that a session cannot see, so that it must not speak for the server |
//! | [`wait`] | what a waiting process is seen to wait for |
//! | [`clock`] | reading the operating system's clocks |
//! | [`cycles`] | reading the processor's cycle counter, which costs less |
//! | [`random`] | random bits in bulk |
//! | [`log`] | how many of them the server's log gets |
//! | [`refusal`] | every error, with its SQLSTATE, DETAIL and HINT |
//! | [`upgrade`] | noticing that `pg_upgrade` fills this cluster |
//! | [`backtrace`] | errors carry none, whatever the server's environment says |
//! | [`timestamp`] | PostgreSQL's timestamps and Unix milliseconds |
//! | [`fmgr`] | PostgreSQL's calling convention, without a wrapper's cost |
//! | [`process`] | values of the one thread that PostgreSQL runs SQL on |
//!
//! `unsafe` is allowed here because this is where PostgreSQL begins; `core` forbids it.

#![warn(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

use pgrx::prelude::*;

mod backend;
mod backtrace;
mod catalog;
mod check;
mod claim;
mod clock;
mod cycles;
mod decode;
mod fmgr;
mod hidden;
mod keeper;
mod log;
mod memory;
mod operator;
mod plan;
mod process;
mod random;
mod refusal;
mod reservation;
mod settings;
mod shared;
mod slot;
mod snowflake;
mod stat;
mod status;
mod timestamp;
mod upgrade;
mod uuid;
mod wait;

::pgrx::pg_module_magic!(name, version);

// Each file requires the one before it: pgrx writes what nothing puts in order in an order that
// varies, and building the same sources twice has to give the same script.
extension_sql_file!(
    "../sql/snowflake.sql",
    name = "snowflake",
    requires = [decode::snowflake_layouts]
);
extension_sql_file!("../sql/operator.sql", name = "operator", requires = ["snowflake"]);
extension_sql_file!("../sql/plan.sql", name = "plan", requires = ["operator"]);
extension_sql_file!("../sql/uuid.sql", name = "uuid", requires = ["plan"]);
extension_sql_file!("../sql/uuid_extract.sql", name = "uuid_extract", requires = ["uuid"]);
extension_sql_file!("../sql/monitoring.sql", name = "monitoring", requires = ["uuid_extract"]);

/// Called once per process that loads the library: by the postmaster if it is preloaded, otherwise
/// by each session that calls one of its functions. Everything works from either but generating
/// snowflakes before PostgreSQL 17, where only a preloaded library gets a shared segment.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    backtrace::leave_out();
    upgrade::watch();
    hidden::look();
    settings::define();
    log::install();
    memory::request();
    keeper::request();
}
