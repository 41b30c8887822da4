//! What comes before an ID on a server for tests: its clock moves, and the mark of the data directory is durable, with the
//! bound of its times. And what forbids a server to be for tests, or to make IDs for real.
//!
//! **Locking.** The mark is written under the reservation's write lock.

use id_gen_core::test_server::{TestStart, TestStream};
use id_gen_core::time::{NS_PER_MS, unix_ms};

use crate::durable::test_mark;
use crate::error::Error;
use crate::error::test_server::Trouble;
use crate::os::{clock, random, test_stream};
use crate::pg::server;
use crate::settings;
use crate::shared::{SharedState, WriteGuard, memory};

/// What comes before an ID that needs no shared memory elsewhere. Whether this server is for tests.
///
/// # Errors
/// Whatever forbids it, on a server for tests, or in a data directory for tests.
#[inline(always)]
pub fn begin() -> Result<bool, Error> {
    // A process that has seeded its random bits is known to be a real server's.
    if random::is_seeded() { Ok(false) } else { begin_unseeded() }
}

#[cold]
#[inline(never)]
fn begin_unseeded() -> Result<bool, Error> {
    let mark = test_mark::read();
    if memory::attached().is_none()
        && (settings::test_start().is_some() || !matches!(mark, Ok(None)))
    {
        // Which of both this server is, is known there alone.
        memory::attach()?;
    }
    match (test_stream::stream(), mark?) {
        (Some(stream), _) => step(stream).map(|()| true),
        (None, Some(mark)) => Err(Trouble::ForTests { until_ms: mark.until_ms }.into()),
        (None, None) => Ok(false),
    }
}

/// What comes before a snowflake: nothing, unless the server is for tests.
///
/// # Errors
/// Whatever forbids that.
#[inline]
pub fn before_snowflake() -> Result<(), Error> {
    test_stream::stream().map_or(Ok(()), step)
}

/// Moves the clock for the next ID.
fn step(stream: &TestStream) -> Result<(), Error> {
    stream.step();
    if stream.next_bound_ms().is_none() {
        return Ok(());
    }
    let shared = memory::attach()?;
    mark(shared, &shared.write_lock.lock())
}

/// Moves the clock as far as a wait would go on.
///
/// # Errors
/// As for an ID.
pub fn wait_until(stream: &TestStream, ns: u64) -> Result<(), Error> {
    stream.advance_to(ns);
    if stream.next_bound_ms().is_none() {
        return Ok(());
    }
    let shared = memory::attach()?;
    mark(shared, &shared.write_lock.lock())
}

/// Makes the mark durable that IDs of the present time of a server for tests need, if they need another. On any other
/// server, makes sure that there is none.
///
/// # Errors
/// Whatever forbids it.
pub fn mark(shared: &SharedState, _guard: &WriteGuard<'_>) -> Result<(), Error> {
    let Some(stream) = test_stream::stream() else { return check(shared) };
    let Some(until_ms) = stream.next_bound_ms() else { return Ok(()) };
    check(shared)?;
    test_mark::write(until_ms)?;
    stream.put_bound(until_ms);
    Ok(())
}

/// Whether a server may make IDs as what it is: for tests, or for real.
///
/// # Errors
/// Why not.
pub fn check(shared: &SharedState) -> Result<(), Error> {
    let mark = test_mark::read()?;
    let Some(start) = shared.test_start() else {
        return match mark {
            Some(mark) => Err(Trouble::ForTests { until_ms: mark.until_ms }.into()),
            None => Ok(()),
        };
    };
    if start == TestStart::Invalid {
        return Err(Trouble::InvalidStart.into());
    }
    if !memory::is_preloaded() {
        return Err(Trouble::NotPreloaded.into());
    }
    if server::is_in_recovery() {
        return Err(Trouble::Standby.into());
    }
    if shared.lock().settings.has_registry {
        return Err(Trouble::Fleet.into());
    }
    if mark.is_none()
        && let Some(sign) = test_mark::real_use()?
    {
        return Err(Trouble::RealUse(sign).into());
    }
    let stream = &shared.test_stream.0;
    if let Some(until_ms) = stream.next_bound_ms()
        && until_ms > unix_ms(clock::machine_ns())
    {
        let now_ms = (stream.now_ns() / NS_PER_MS).cast_signed();
        return Err(Trouble::Present { now_ms }.into());
    }
    Ok(())
}

/// Ends the tests of this data directory for good: what it makes from now on is made for real. Whether it was for tests.
///
/// # Errors
/// If the server still is, or the mark can't be removed.
pub fn end(shared: &SharedState) -> Result<bool, Error> {
    if shared.test_start().is_some() {
        return Err(Trouble::IsForTests.into());
    }
    let _guard = shared.write_lock.lock();
    match test_mark::read()? {
        Some(_) => test_mark::remove().map(|()| true),
        None => Ok(false),
    }
}
