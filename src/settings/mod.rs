//! The `id_gen.*` parameters, as this process last read them.
//!
//! All are `SIGHUP`: an administrator changes them in `postgresql.conf` or with `ALTER SYSTEM`, an
//! ordinary role can't. Processes notice a reload at different times, so none acts on its own values:
//! those in force for the server are in shared memory, where the keeper puts what it reads, or while
//! none runs, whoever read the file last.

mod check_hook;
pub mod known;
mod layout_check_hook;
mod number_check_hook;
mod parameters;
pub mod registry;
mod test_start;

pub use layout_check_hook::{
    InvalidLayout, RESTART_NOTICE, check_starting_layout, layout, layout_in_force,
    set_layout_in_force,
};
pub use parameters::{Settings, current, define, identity};
pub use test_start::{TEST_START_NOTICE, set_test_start_in_force, test_start, test_start_in_force};
