//! Comparing the wall clock with the monotonic one, for claims and the keeper.
//!
//! **Locking.** The clocks are checked under the lock of the state; a step is logged after it is released.

use crate::error::{Error, report};
use crate::shared::SharedState;

/// Checks the clocks, logs a step, and returns the wall clock in Unix nanoseconds.
///
/// # Errors
/// If the clock jumped.
pub fn check(shared: &SharedState) -> Result<u64, Error> {
    let (checked, steps) = {
        let mut state = shared.lock();
        let checked = state.check_clocks().map_err(|by_ns| state.jumped(by_ns));
        (checked, state.take_unlogged_steps())
    };
    if let Some(steps) = steps {
        report::log_clock_steps(&steps);
    }
    checked.map(|now| now.wall_ns)
}
