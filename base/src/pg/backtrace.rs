//! No backtrace in errors. An error of PostgreSQL's that passes through Rust code would get one into its DETAIL, and so
//! to the client, if the server's environment asks Rust programs for backtraces.

use std::backtrace::Backtrace;
use std::env;

/// What the standard library reads, the second before the first. It does so once, and this library has a copy of the
/// standard library of its own.
const ASKED_FOR: &str = "RUST_BACKTRACE";
const VARIABLE: &str = "RUST_LIB_BACKTRACE";

/// Lets the standard library find that no backtrace is wanted, and leaves the environment as it was: other libraries and
/// the programs that the server runs inherit it.
pub fn disable() {
    let before = env::var_os(VARIABLE);
    if before.is_none() && env::var_os(ASKED_FOR).is_none() {
        return;
    }
    // SAFETY: the postmaster, which preloads libraries, has one thread. A session that loads this one may have more, if
    // another library started them; they would have to read their environment in this moment, on a server that was
    // started with one of the two variables.
    unsafe { env::set_var(VARIABLE, "0") };
    let _ = Backtrace::capture();
    // SAFETY: as above.
    unsafe {
        match before {
            Some(value) => env::set_var(VARIABLE, value),
            None => env::remove_var(VARIABLE),
        }
    }
}
