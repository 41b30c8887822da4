//! SQL functions of snowflakes: the next one, taking them apart, bounds, and building them.
//!
//! Those that decode need neither shared memory nor a preloaded library. Each has two forms in SQL and
//! one here: with a layout as its last argument it depends on its arguments alone (`IMMUTABLE`), without
//! one it follows the server (`STABLE`). The functions that return many IDs are in
//! [`crate::sql::snowflake_batch`].

use id_gen_core::layout::{Field, Layout, Parts};
use id_gen_core::planted::Fault;
use id_gen_core::time::US_PER_MS;
use id_gen_core::{inspect, presets};
use pgrx::datum::Interval;
use pgrx::prelude::*;

use crate::error::{Error, Reason};
use crate::generate::{backend, claim};
use crate::observe::readiness;
use crate::pg::fmgr::{Call, int8};
use crate::pg::timestamp;
use crate::shared::memory;
use crate::sql::function::sql_function;

sql_function! {
    /// `snowflake_next() → bigint`
    fn snowflake_next(_call)
    fast {
        let id = backend::take().or_else(claim::next_id_at_once)?;
        Some(int8(Layout::to_bigint(id)))
    }
    { claim::next_id().map(|id| int8(Layout::to_bigint(id))) }
}

sql_function! {
    /// `snowflake_timestamp(id bigint [, layout text]) → timestamptz`
    fn snowflake_timestamp(call)
    fast {
        let layout = fast_layout(call)?;
        let id = layout.from_bigint(call.int8(0)?).ok()?;
        Some(int8(timestamp::from_unix_us(layout.created_us(id))))
    }
    {
        let (layout, id) = id_argument(call)?;
        Ok(int8(timestamp::from_unix_us(layout.created_us(id))))
    }
}

sql_function! {
    /// `snowflake_worker_id(id bigint [, layout text]) → integer`
    fn snowflake_worker_id(call)
    fast { field_fast(call, |parts| parts.worker) }
    { field(call, |parts| parts.worker) }
}

sql_function! {
    /// `snowflake_datacenter_id(id bigint [, layout text]) → integer`
    fn snowflake_datacenter_id(call)
    fast { field_fast(call, |parts| parts.datacenter) }
    { field(call, |parts| parts.datacenter) }
}

#[inline(always)]
fn field_fast(call: &Call, of: fn(Parts) -> u32) -> Option<pg_sys::Datum> {
    let layout = fast_layout(call)?;
    let id = layout.from_bigint(call.int8(0)?).ok()?;
    Some(pg_sys::Datum::from(of(layout.unpack(id))))
}

fn field(call: &Call, of: fn(Parts) -> u32) -> Result<pg_sys::Datum, Error> {
    let (layout, id) = id_argument(call)?;
    Ok(pg_sys::Datum::from(of(layout.unpack(id))))
}

sql_function! {
    /// `snowflake_min(ts timestamptz [, layout text]) → bigint`
    fn snowflake_min(call)
    fast { bound_fast(call, Layout::min_of) }
    { bound(call, Layout::min_of) }
}

sql_function! {
    /// `snowflake_max(ts timestamptz [, layout text]) → bigint`
    fn snowflake_max(call)
    fast { bound_fast(call, Layout::max_of) }
    { bound(call, Layout::max_of) }
}

#[inline(always)]
fn bound_fast(call: &Call, of_tick: fn(&Layout, u64) -> u64) -> Option<pg_sys::Datum> {
    let layout = fast_layout(call)?;
    let tick = layout.tick_at(timestamp::unix_us(call.int8(0)?)).ok()?;
    Some(int8(Layout::to_bigint(of_tick(layout, tick))))
}

fn bound(call: &mut Call, of_tick: fn(&Layout, u64) -> u64) -> Result<pg_sys::Datum, Error> {
    let layout = layout_argument(call, 1)?;
    let tick = tick_argument(call, 0, &layout)?;
    Ok(int8(Layout::to_bigint(of_tick(&layout, tick))))
}

sql_function! {
    /// `snowflake_make(ts timestamptz, datacenter_id int, worker_id int, sequence int
    /// [, layout text]) → bigint`
    fn snowflake_make(call) {
        let layout = layout_argument(call, 4)?;
        let tick = tick_argument(call, 0, &layout)?;
        let number = |index, field| {
            let value = i64::from(call.int4(index).unwrap_or(0));
            layout.number(field, value).map_err(|error| Error::from(Reason::Range(error, layout)))
        };
        let parts = Parts {
            tick,
            datacenter: number(1, Field::Datacenter)?,
            worker: number(2, Field::Worker)?,
            sequence: number(3, Field::Sequence)?,
        };
        Ok(int8(Layout::to_bigint(layout.pack(parts))))
    }
}

sql_function! {
    /// `snowflake_inspect(id bigint [, layout text]) → text`
    fn snowflake_inspect(call) {
        let (layout, id) = id_argument(call)?;
        let text = inspect::inspect(&layout, id);
        Ok(text.into_datum().unwrap_or_else(|| call.null()))
    }
}

sql_function! {
    /// `snowflake_parse(id bigint [, layout text]) → (created_at, datacenter_id, worker_id,
    /// sequence)`
    fn snowflake_parse(call) {
        let (layout, id) = id_argument(call)?;
        let parts = layout.unpack(id);
        Ok(call.row([
            Some(int8(timestamp::from_unix_us(layout.created_us(id)))),
            Some(pg_sys::Datum::from(parts.datacenter)),
            Some(pg_sys::Datum::from(parts.worker)),
            Some(pg_sys::Datum::from(parts.sequence)),
        ]))
    }
}

sql_function! {
    /// `snowflake_layouts() → SETOF record`: the presets and the server's own layout, each with what it
    /// holds for one worker and until when.
    fn snowflake_layouts(call) {
        let server = readiness::layout().ok();
        let custom = server.filter(|layout| presets::naming(layout).is_none());
        let named = presets::all().iter().map(|preset| (preset.name, preset.about, preset.layout));
        let own = custom.map(|layout| ("custom", "this server's id_gen.layout", layout));
        Ok(call.rows(named.chain(own).map(|(name, about, layout)| {
            let time = |unix_ms| Some(int8(timestamp::from_unix_ms(unix_ms)));
            let bits = |field| layout.bits(field).cast_signed().into_datum();
            let tick_us = i64::from(layout.tick_ms()) * US_PER_MS;
            [
                name.into_datum(),
                about.into_datum(),
                (server == Some(layout)).into_datum(),
                layout.to_string().into_datum(),
                time(layout.epoch_ms()),
                Interval::from_micros(tick_us).into_datum(),
                bits(Field::Time),
                bits(Field::Datacenter),
                bits(Field::Worker),
                bits(Field::Sequence),
                Some(int8(layout.nodes().cast_signed())),
                Some(int8(layout.per_second().cast_signed())),
                time(layout.runs_out_ms()),
            ]
        })))
    }
}

/// The layout that an argument names, or the server's if the function has no such argument.
fn layout_argument(call: &Call, index: usize) -> Result<Layout, Error> {
    match call.text(index) {
        Some(text) => text.parse().map_err(|error| Reason::InvalidLayout(error).into()),
        None if Fault::DecodesByDefault.is_planted() => {
            presets::DEFAULT.parse().map_err(|error| Reason::InvalidLayout(error).into())
        }
        None => readiness::layout(),
    }
}

/// The server's layout, for a call of one argument, which names none, on a server that has a valid
/// one.
#[inline(always)]
fn fast_layout(call: &Call) -> Option<&'static Layout> {
    if call.argument_count() != 1 || Fault::DecodesByDefault.is_planted() {
        return None;
    }
    memory::attached()?.layout_if_valid()
}

fn id_argument(call: &Call) -> Result<(Layout, u64), Error> {
    let layout = layout_argument(call, 1)?;
    let id = layout
        .from_bigint(call.int8(0).unwrap_or(0))
        .map_err(|error| Reason::Range(error, layout))?;
    Ok((layout, id))
}

fn tick_argument(call: &Call, index: usize, layout: &Layout) -> Result<u64, Error> {
    let instant = call.int8(index).unwrap_or(0);
    if !timestamp::is_finite(instant) {
        return Err(Reason::Infinite.into());
    }
    let tick = layout.tick_at(timestamp::unix_us(instant));
    tick.map_err(|error| Reason::Range(error, *layout).into())
}
