//! Whether the settings of this process are those of the server, and how a session comes by those of a reload: see
//! [`OwnSettings`].

use std::time::Duration;

use id_gen_base::settings::known::OwnSettings;

use crate::error::Error;
use crate::pg::wait_event::await_reload_while;
use crate::pg::{reload, transaction};
use crate::settings::parameters;

/// The longest wait for a reload that may never come.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The parameters that begin with `id_gen.`
pub static OWN: OwnSettings =
    OwnSettings::new("id_gen", Some("SELECT count(*) FROM snowflake_layouts();"));

/// Whether the settings of this process are the server's.
///
/// # Errors
/// Why they are not.
pub fn check() -> Result<(), Error> {
    Ok(OWN.check()?)
}

/// Lets this session have the settings of a reload that is on its way, also in the middle of a statement, for a command that
/// goes by them: waits for it, at most for `id_gen.max_wait` or 1 s, if a configuration file was changed since this session
/// read it. A file that was changed need not be reloaded soon, or at all.
///
/// # Errors
/// If its settings are not the server's even so.
pub fn catch_up() -> Result<(), Error> {
    catch_up_within(max_wait().min(LONGEST_WAIT))
}

/// As [`catch_up`], for the settings that stay in force until the server restarts: waits for 1 s at most, however long calls
/// may wait for the clock. The file may have been changed without a reload.
///
/// # Errors
/// As for [`catch_up`].
pub fn catch_up_for_good() -> Result<(), Error> {
    catch_up_within(LONGEST_WAIT)
}

fn catch_up_within(longest: Duration) -> Result<(), Error> {
    let is_awaited = || !reload::is_pending() && reload::are_files_newer(reload::time_us());
    await_reload_while(is_awaited, longest);
    // PostgreSQL sets no parameters during a parallel operation.
    if reload::is_pending() && !transaction::is_parallel() {
        reload::read_file();
    }
    check()
}

fn max_wait() -> Duration {
    Duration::from_millis(parameters::current().max_wait_ms.into())
}
