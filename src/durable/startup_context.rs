//! What is known of this server when it starts: by its files, its log, its clocks and its settings.

use id_gen_core::layout::Layout;
use id_gen_core::replicated::Replayed;
use id_gen_core::startup::{Assignment, StartupContext};

use crate::durable::reservation_file::{boot, origin};
use crate::durable::upgrade;
use crate::error::Error;
use crate::os::{clock, test_stream};
use crate::pg::server;

/// What is known of this server now.
///
/// # Errors
/// If a file cannot be read.
pub fn startup_context(
    layout: Layout,
    max_lead_ms: u32,
    replayed: Option<Replayed>,
    assignment: Assignment,
) -> Result<StartupContext, Error> {
    let clock = clock::both();
    let is_for_tests = test_stream::stream().is_some();
    Ok(StartupContext {
        system_identifier: server::system_identifier(),
        timeline: server::timeline(),
        layout,
        boot: boot(),
        clock,
        // Of the machine's clock, which says nothing of that of a server for tests.
        last_replayed_ms: server::last_replayed_ms().filter(|_| !is_for_tests),
        replayed,
        max_lead_ms,
        upgraded_ms: upgrade::time_ms(clock)?,
        origin: origin()?,
        is_for_tests,
        assignment,
        is_only_copy: false,
    })
}
