//! Observing an ID from elsewhere: every snowflake that is handed out afterwards, in whichever session, is larger
//! ([`id_gen_core::observe`]).
//!
//! Most IDs that are observed are below what others were already: one load tells, without the lock. Otherwise the
//! frontier is raised under it, what the reservation lacks is written, and only then open shards are raised, sessions'
//! blocks are ended, and the ID counts as observed.
//!
//! **Locking.** The clocks are checked, and the frontier raised, under one hold of the state's lock. Nothing logs, sleeps
//! or writes while it is held.

use id_gen_core::layout::Layout;
use id_gen_core::observe::{Denied, first_above};
use id_gen_core::planted::Fault;
use id_gen_core::time::{unix_ms, unix_us};
use pgrx::prelude::*;

use crate::durable;
use crate::error::{Error, Reason, report};
use crate::generate::backend::{self, Backend};
use crate::generate::wait::{self, Wait};
use crate::generate::{keeper, reserve, startup};
use crate::os::clock;
use crate::shared::{SharedState, State, memory};

/// What an attempt ran into.
enum Obstacle {
    NoNumber,
    NotStarted,
    /// The clock is outside the layout's time.
    OutsideLayout,
    Jumped(Error),
    Denied(Denied),
}

/// Whether everything that is handed out from now on is above an ID, as far as one load tells.
#[inline(always)]
pub fn is_observed(id: i64) -> bool {
    memory::attached().is_some_and(|shared| id.cast_unsigned() <= shared.all_above())
}

/// Observes an ID.
///
/// # Errors
/// It is no ID of this server's layout, it is too far ahead of the clock, or this server can't make IDs now.
pub fn observe(id: i64) -> Result<(), Error> {
    if is_observed(id) {
        return Ok(());
    }
    let backend = backend::attach()?;
    let layout = backend.shared.layout()?;
    let id = layout.from_bigint(id).map_err(|error| Reason::OtherLayout(error, *layout))?;
    let observed = observe_at_length(backend, layout, id);
    if let Err(error) = &observed {
        backend.shared.events.0.count_refusal(error.reason());
    }
    observed
}

/// Does what each attempt asks for, until one succeeds or there is nothing that could be done.
fn observe_at_length(backend: Backend, layout: &Layout, id: u64) -> Result<(), Error> {
    let shared = backend.shared;
    let mut wait: Option<Wait> = None;
    loop {
        check_for_interrupts!();
        let (attempted, max_lead_ms, steps) = {
            let mut state = shared.lock();
            let attempted = attempt(shared, &mut state, layout, id);
            (attempted, state.settings.max_lead_ms, state.take_unlogged_steps())
        };
        if let Some(steps) = steps {
            report::log_clock_steps(&steps);
        }
        let Err(obstacle) = attempted else { return Ok(()) };
        match obstacle {
            Obstacle::NoNumber => wait::for_number(backend, layout)?,
            Obstacle::NotStarted => startup::start_undecided(shared)?,
            Obstacle::Jumped(error) => return Err(error),
            Obstacle::OutsideLayout => {
                durable::clock_tick(layout, clock::wall_ns())?;
            }
            Obstacle::Denied(Denied::Unreserved) => {
                keeper::start_if_missing(shared);
                wait.get_or_insert_with(|| Wait::new(backend));
                reserve::extend(shared, &shared.write_lock.lock())?;
            }
            Obstacle::Denied(Denied::Early { due_tick }) => {
                let wait = wait.get_or_insert_with(|| Wait::new(backend));
                // A tick is what the layout needs, whatever `id_gen.max_wait` is.
                if wait.until_tick(layout, due_tick, layout.tick_ns().saturating_mul(2))?.is_err() {
                    return Err(too_far_ahead(layout, id, max_lead_ms));
                }
            }
            Obstacle::Denied(Denied::TooFarAhead) => {
                return Err(too_far_ahead(layout, id, max_lead_ms));
            }
            Obstacle::Denied(Denied::BeyondGrant { until_ms }) => {
                let id = Layout::to_bigint(id);
                return Err(Reason::ObservedBeyondGrant { id, until_ms }.into());
            }
        }
    }
}

fn attempt(
    shared: &SharedState,
    state: &mut State,
    layout: &Layout,
    id: u64,
) -> Result<(), Obstacle> {
    let Some(node_bits) = state.rules.node_bits else { return Err(Obstacle::NoNumber) };
    if state.allocator.is_none() {
        return Err(Obstacle::NotStarted);
    }
    let now_ns = match state.check_clocks() {
        Ok(now) => now.wall_ns,
        Err(by_ns) => return Err(Obstacle::Jumped(state.jumped(by_ns))),
    };
    let Ok(now_tick) = layout.tick_at(unix_us(now_ns)) else {
        return Err(Obstacle::OutsideLayout);
    };
    let State { allocator: Some(allocator), identity, rules, .. } = state else {
        return Err(Obstacle::NotStarted);
    };
    let position = first_above(layout, id, node_bits);
    allocator
        .observe(layout, identity, position, now_tick, rules.lead)
        .map_err(Obstacle::Denied)?;
    let all_above = allocator.all_above(layout).max(id);
    if !Fault::ObserveIgnoresShards.is_planted() {
        shared.raise_shards_above(layout, all_above);
    }
    shared.end_blocks_below(state, all_above);
    Ok(())
}

fn too_far_ahead(layout: &Layout, id: u64, max_lead_ms: u32) -> Error {
    let made_ms = layout.tick_start_ms(layout.tick_of(layout.position_of(id)));
    let ahead_ms = made_ms.saturating_sub(unix_ms(clock::wall_ns()));
    let (id, tick_ms) = (Layout::to_bigint(id), layout.tick_ms());
    Reason::ObservedAhead { id, ahead_ms, max_lead_ms, tick_ms }.into()
}
