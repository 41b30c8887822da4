//! Whether a call would get an ID now, and with what. Looking changes nothing, except that on a server
//! whose disk refused the last write this is tried again.

use id_gen_core::allocator::Allocator;
use id_gen_core::clock::ClockReading;
use id_gen_core::identity::Identity;
use id_gen_core::layout::Layout;
use id_gen_core::lead::{Lead, LeadLimit};
use id_gen_core::rate_window::{RateWindow, Sample};
use id_gen_core::time::{NS_PER_MS, NS_PER_S};

use crate::durable;
use crate::error::{Error, Reason};
use crate::generate::startup::{self, Outlook};
use crate::generate::test_server;
use crate::os::clock;
use crate::pg::server;

#[cfg(not(feature = "named_dsm"))]
use crate::settings::known;
use crate::settings::{self, Settings};
use crate::shared::{Reader, SharedState, memory};

/// What "lately" means for rates and the use of the sequence: the last minute.
pub const LATELY_NS: u64 = 60 * NS_PER_S;

/// The shared state, with the settings that a call of this session would find in force.
///
/// # Errors
/// If there is none to be had.
pub fn shared() -> Result<&'static SharedState, Error> {
    let shared = memory::attach()?;
    shared.adopt_settings(Reader::Session);
    Ok(shared)
}

/// The layout that generates here: the running server's, or what the settings say where there is no
/// shared memory.
///
/// # Errors
/// If that is none.
pub fn layout() -> Result<Layout, Error> {
    match memory::attach() {
        #[cfg(not(feature = "named_dsm"))]
        Err(error) if matches!(error.reason(), Reason::NotPreloaded) => {
            known::check()?;
            settings::layout().map_err(durable::invalid_layout)
        }
        attached => attached?.layout().copied(),
    }
}

/// The settings and the identity of a server: those in force, or where nothing is, this session's.
pub fn settings_of(shared: Option<&SharedState>) -> (Settings, Identity) {
    match shared {
        Some(shared) => {
            let state = shared.lock();
            (state.settings, state.identity)
        }
        None => (settings::current(), settings::identity()),
    }
}

/// Whether a call would get an ID now, perhaps after a wait.
///
/// # Errors
/// What it would be refused with.
pub fn check(shared: &SharedState) -> Result<(), Error> {
    if server::is_in_recovery() {
        return Err(Reason::Recovery.into());
    }
    test_server::check(shared)?;
    let layout = shared.layout()?;
    let (settings, _) = settings_of(Some(shared));
    shared.check_number(layout)?;
    let now = usable_clock(shared, layout)?;
    shared.check_grant(layout)?;
    let Outlook { allocator, .. } = startup::check_reservation(shared)?;
    shared.check_grant_of(layout, &allocator, 0)?;
    let position = allocator.frontier().position();
    if layout.tick_of(position) >= layout.ticks() {
        return Err(Reason::AllReserved(*layout).into());
    }
    let limit = LeadLimit::of_ms(layout, settings.max_lead_ms);
    let due_ns = layout.tick_start_ns(limit.due_tick(layout, position));
    let patient_until_ns = now.wall_ns + u64::from(settings.max_wait_ms) * NS_PER_MS;
    if due_ns > patient_until_ns {
        if let Some(reason) = shared.lock().not_begun_of(layout, &allocator) {
            return Err(reason.into());
        }
        let lead = Lead::of(layout, limit, position, now.wall_ms(), settings.max_lead_ms);
        let max_wait_ms = settings.max_wait_ms;
        return Err(Reason::Ahead { lead, max_wait_ms, shard: None }.into());
    }
    Ok(())
}

/// Whether calls get IDs on this server, now or after a wait that ends by itself.
///
/// # Errors
/// As for [`check`], where somebody has to do something first.
pub fn check_but_for_waits(shared: &SharedState) -> Result<(), Error> {
    match check(shared) {
        Err(error) if matches!(error.reason(), Reason::Ahead { .. } | Reason::NotBegun { .. }) => {
            Ok(())
        }
        checked => checked,
    }
}

/// What the clocks show, if a call would trust them.
///
/// # Errors
/// If the wall clock jumped, or is outside the layout's time.
pub fn usable_clock(shared: &SharedState, layout: &Layout) -> Result<ClockReading, Error> {
    let (now, started, max_jump_ns) = {
        let state = shared.lock();
        let looked = state.look_at_clocks().map_err(|by_ns| state.jumped(by_ns));
        (looked?, state.allocator.is_some(), state.max_jump_ns())
    };
    durable::clock_tick(layout, now.wall_ns)?;
    // A start compares the clock with what the last run knew of it.
    if !started
        && let Ok(Outlook { allocator: Allocator { mut monitor, .. }, .. }) = outlook(shared)
        && let Some(by_ns) = monitor.check(now, max_jump_ns).jumped_ns
    {
        return Err(shared.lock().jumped(by_ns));
    }
    Ok(now)
}

/// The next IDs of this server.
///
/// # Errors
/// The reason that keeps it from generating until somebody has done something.
pub fn outlook(shared: &SharedState) -> Result<Outlook, Error> {
    if server::is_in_recovery() {
        return Err(Reason::Recovery.into());
    }
    startup::outlook(shared)
}

/// How far the next ID is ahead of the clock, in milliseconds; zero if it is not.
pub fn lead_ms(shared: &SharedState) -> Option<f64> {
    let layout = shared.layout_if_valid()?;
    let frontier_ms = shared.lock().allocator?.frontier_ms(layout);
    let ahead_ms = frontier_ms as f64 - clock::wall_ns() as f64 / NS_PER_MS as f64;
    Some(ahead_ms.max(0.0))
}

/// Share of what the layout allows that was claimed in the busiest second lately.
pub fn sequence_use(layout: &Layout, (rates, now): &(RateWindow, Sample)) -> Option<f64> {
    let per_second = layout.per_second();
    let busiest = rates.busiest(*now, LATELY_NS)?;
    (per_second > 0).then(|| busiest / per_second as f64)
}
