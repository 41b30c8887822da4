//! The SQL functions that show whether this server generates, and what it generates with.

use id_gen_core::allocator::Allocator;
use id_gen_core::fleet::Number;
use id_gen_core::layout::Layout;
use id_gen_core::presets::name_or_text;
use id_gen_core::time::{NS_PER_S, US_PER_MS, unix_ms};
use pgrx::datum::Interval;
use pgrx::prelude::*;

use crate::observe::{self, readiness};
use crate::os::clock;
use crate::pg::fmgr::{figure, int8};
use crate::pg::timestamp;
use crate::settings::registry;
use crate::shared::{SharedState, memory, shard_list};
use crate::sql::fleet::phase_name;
use crate::sql::function::sql_function;

fn time(unix_ms: i64) -> Option<pg_sys::Datum> {
    Some(int8(timestamp::from_unix_ms(unix_ms)))
}

fn interval(ms: i64) -> Option<pg_sys::Datum> {
    Interval::from_micros(ms.saturating_mul(US_PER_MS)).into_datum()
}

sql_function! {
    /// `id_gen_status() → SETOF record`, one row. Its first column is what `snowflake_next()` would say.
    fn id_gen_status(call) {
        let found = readiness::shared();
        let state = found.clone().and_then(readiness::check);
        let shared = found.ok();
        let for_tests = shared.is_some_and(|shared| shared.test_start().is_some());
        let ready = if for_tests { "ready, in test mode" } else { "ready" };
        let (settings, identity) = readiness::settings_of(shared);
        let layout = shared.and_then(SharedState::layout_if_valid);
        let allocator = shared.and_then(|shared| shared.lock().allocator);
        let allocated = |time_of: fn(&Allocator, &Layout) -> i64| {
            time(time_of(allocator.as_ref()?, layout?))
        };
        let keeper = shared.and_then(|shared| shared.keeper.running());
        let rates = shared.map(SharedState::rates);
        let rate = |window_ns| rates.and_then(|(rates, now)| rates.rate(now, window_ns));
        let heartbeat_ms = keeper
            .as_ref()
            .map(|keeper| unix_ms(clock::machine_ns().saturating_sub(keeper.heartbeat_age_ns)));
        let lead_ms = shared.and_then(readiness::lead_ms);
        let fleet_state = shared
            .filter(|_| settings.has_registry)
            .map(|shared| phase_name(shared.lock().membership.phase));
        Ok(call.rows([[
            state.map_or_else(|error| error.message().primary, |()| ready.to_owned()).into_datum(),
            identity.datacenter.cast_signed().into_datum(),
            identity.worker.map(u32::cast_signed).into_datum(),
            observe::worker_id_source(&identity)?.into_datum(),
            layout.map(name_or_text).into_datum(),
            layout.and_then(|layout| time(layout.runs_out_ms())),
            allocated(Allocator::frontier_ms),
            lead_ms.and_then(|ms| interval(ms as i64)),
            interval(settings.max_lead_ms.into()),
            allocated(Allocator::reserved_until_ms),
            keeper.map(|keeper| keeper.pid).into_datum(),
            heartbeat_ms.and_then(time),
            rate(NS_PER_S).map(figure),
            rate(readiness::LATELY_NS).map(figure),
            layout.and_then(|layout| readiness::sequence_use(layout, &rates?)).map(figure),
            clock::is_synchronized().into_datum(),
            memory::is_preloaded().into_datum(),
            fleet_state.into_datum(),
            identity.valid_until_ms.and_then(time),
        ]]))
    }
}

sql_function! {
    /// `id_gen_server_info(must_generate boolean) → record`: what the extension id_gen_tools knows of this server. If it
    /// must generate, what keeps it from that, until somebody does something, is raised.
    fn id_gen_server_info(call) {
        let found = readiness::shared();
        if call.bool(0) == Some(true) {
            found.clone().and_then(readiness::check_but_for_waits)?;
        }
        let shared = found.ok();
        let layout = readiness::layout().ok();
        let (_, identity) = readiness::settings_of(shared);
        let shards: Vec<Number> = match (shared, layout) {
            (Some(shared), Some(layout)) => {
                shard_list::owned(shared, &layout).into_iter().map(|shard| shard.number).collect()
            }
            _ => Vec::new(),
        };
        let numbers = |of: fn(&Number) -> u32| {
            shards.iter().map(|shard| of(shard).cast_signed()).collect::<Vec<i32>>().into_datum()
        };
        Ok(call.row([
            layout.map(|layout| layout.to_string()).into_datum(),
            identity.datacenter.cast_signed().into_datum(),
            identity.worker.map(u32::cast_signed).into_datum(),
            registry::is_set().into_datum(),
            numbers(|shard| shard.worker),
            numbers(|shard| shard.datacenter),
            time(unix_ms(clock::wall_ns())),
            shared.is_some().into_datum(),
            env!("CARGO_PKG_VERSION").into_datum(),
        ]))
    }
}
