//! What is on disk, in the directory `id_gen` of the data directory, and when it is written:
//!
//! | file | what it says | when |
//! | --- | --- | --- |
//! | `reservation` | up to which time IDs may be in use ([`id_gen_core::reservation`]) | before an ID of a later time is handed out, about once a second; at a clean stop; after a change of the server's number |
//! | `issued` | that there was a reservation | once, with the first |
//! | `upgraded` | when `pg_upgrade` filled this cluster | when it does; removed by the first reservation after it |
//! | `test` | that the directory is for tests alone, and up to which time ([`test_mark`]) | before the first ID of a server for tests, and once for every hour of its clock |
//! | `writing` | the next content of one of these | while it is written |
//! | `pgsql_tmp_settling` | nothing ([`settle`]) | for a moment at each start |
//! | `pgsql_tmp_number` | which number this server has from its fleet ([`number_file`]) | when it gets one |
//! | `pgsql_tmp_shards` | which shards this server has ([`shard_file`]) | before it uses one, and before another server may |
//!
//! The bound of `reservation` also goes to the standbys, with the write-ahead log ([`replicated`]).
//!
//! **Locking.** None here: who writes the reservation holds its write lock
//! ([`crate::shared::WriteGuard`]).

mod file;
pub mod number_file;
mod place;
pub mod replicated;
mod reservation_file;
pub mod shard_file;
mod startup_context;
pub mod test_mark;
pub mod upgrade;

pub use place::settle;
pub use reservation_file::{
    boot, clock_tick, directory, has_reserved, invalid_layout, layout_of_this_run, read,
    read_known, write,
};
pub use startup_context::startup_context;
