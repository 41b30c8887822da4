//! What a waiting process shows that it waits for: `wait_event` in `pg_stat_activity`. PostgreSQL 17 and
//! later give an extension's events names of their own; before, all are called `Extension`.

#[cfg(feature = "named_dsm")]
use std::ffi::CStr;

use std::time::{Duration, Instant};

use id_gen_base::pg::server;
use pgrx::prelude::*;

#[cfg(feature = "named_dsm")]
use crate::os::process::PerProcess;

/// How often a wait for a reload looks again: every 5 ms.
const LOOK_AGAIN_MS: u64 = 5;

/// Waits while a reload is yet to arrive, but no longer than `max_wait`. What interrupts the statement interrupts it.
pub fn await_reload_while(is_awaited: impl Fn() -> bool, max_wait: Duration) {
    let since = Instant::now();
    while is_awaited() && since.elapsed() < max_wait {
        WaitEvent::Reload.wait_on_latch(LOOK_AGAIN_MS);
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEvent {
    /// The clock has to catch up with the IDs.
    Clock,
    /// The reservation has to be written.
    Reservation,
    /// The fleet's registry has to answer.
    Registry,
    /// The postmaster has to start a background worker.
    WorkerStart,
    /// A reload has to arrive.
    Reload,
    /// Sessions of a server that is stopping have to end.
    Sessions,
}

impl WaitEvent {
    /// Shows this process to wait for the event as long as `body` runs, which must not call into
    /// PostgreSQL.
    pub fn during<R>(self, body: impl FnOnce() -> R) -> R {
        // SAFETY: it only writes a variable of this process that others may read.
        unsafe { pg_sys::pgstat_report_wait_start(self.info()) };
        let result = body();
        // SAFETY: as above.
        unsafe { pg_sys::pgstat_report_wait_end() };
        result
    }

    /// Waits for the event, until this process's latch is set, but no longer than so many milliseconds. Cancelling the query,
    /// a timeout and the end of the session interrupt it.
    pub fn wait_on_latch(self, ms: u64) {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        // SAFETY: a process that runs SQL has a latch of its own.
        unsafe {
            pg_sys::WaitLatch(server::latch(), events as i32, ms.cast_signed(), self.info());
            pg_sys::ResetLatch(server::latch());
        }
        check_for_interrupts!();
    }
}

#[cfg(feature = "named_dsm")]
impl WaitEvent {
    const fn name(self) -> &'static CStr {
        match self {
            WaitEvent::Clock => c"IdGenClockWait",
            WaitEvent::Reservation => c"IdGenReservation",
            WaitEvent::Registry => c"IdGenRegistry",
            WaitEvent::WorkerStart => c"IdGenWorkerStart",
            WaitEvent::Reload => c"IdGenReload",
            WaitEvent::Sessions => c"IdGenSessions",
        }
    }

    /// The event's number among PostgreSQL's. It is the same for all processes of a server.
    pub fn info(self) -> u32 {
        static NUMBERS: PerProcess<[Option<u32>; 6]> = PerProcess::new([None; 6]);
        if let Some(number) = NUMBERS.with(|numbers| numbers[self as usize]) {
            return number;
        }
        // SAFETY: a constant name, which PostgreSQL copies; it gives the same number to whoever
        // asks for the name again.
        let number = unsafe { pg_sys::WaitEventExtensionNew(self.name().as_ptr()) };
        NUMBERS.with(|numbers| numbers[self as usize] = Some(number));
        number
    }
}

#[cfg(not(feature = "named_dsm"))]
impl WaitEvent {
    /// The number that all extensions share.
    #[allow(clippy::unused_self)] // There is one number for all events.
    pub fn info(self) -> u32 {
        pg_sys::PG_WAIT_EXTENSION
    }
}
