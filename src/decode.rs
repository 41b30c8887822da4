//! SQL functions that take snowflakes apart, bound and build them. They need neither shared memory
//! nor a preloaded library. Their SQL is in `sql/snowflake.sql`.
//!
//! Each has two forms in SQL and one here: with a layout as its last argument it depends on its
//! arguments alone (`IMMUTABLE`), without one it follows the server (`STABLE`).

use id_gen_core::layout::{Field, Layout, Parts, US_PER_MS};
use id_gen_core::{picture, presets};
use pgrx::prelude::*;

use crate::fmgr::{Call, int8, sql_function};
use crate::refusal::Refusal;
use crate::timestamp::{finite, instant, timestamp, timestamp_us, unix_us};
use crate::{memory, settings};

sql_function! {
    /// `snowflake_timestamp(id bigint [, layout text]) → timestamptz`
    fn snowflake_timestamp(call)
    fast {
        let layout = fast_layout(call)?;
        let id = layout.from_bigint(call.int8(0)?).ok()?;
        Some(int8(timestamp_us(layout.created_us(id))))
    }
    {
        let (layout, id) = id_argument(call)?;
        Ok(int8(timestamp_us(layout.created_us(id))))
    }
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
    let tick = layout.tick_at(unix_us(call.int8(0)?)).ok()?;
    Some(int8(Layout::to_bigint(of_tick(layout, tick))))
}

fn bound(call: &mut Call, of_tick: fn(&Layout, u64) -> u64) -> Result<pg_sys::Datum, Refusal> {
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
            layout.number(field, value).map_err(|error| Refusal::Range(error, layout))
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
        let text = picture::draw(&layout, id);
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
            Some(int8(timestamp_us(layout.created_us(id)))),
            Some(pg_sys::Datum::from(parts.datacenter)),
            Some(pg_sys::Datum::from(parts.worker)),
            Some(pg_sys::Datum::from(parts.sequence)),
        ]))
    }
}

/// The layout that an argument names, or the server's if the function has no such argument.
fn layout_argument(call: &Call, index: usize) -> Result<Layout, Refusal> {
    match call.text(index) {
        Some(text) => settings::layout_named(&text),
        None => server_layout(),
    }
}

/// The layout that generates here: the running server's, or what the settings say where there is no
/// shared segment.
fn server_layout() -> Result<Layout, Refusal> {
    match memory::attach() {
        #[cfg(not(feature = "registry"))]
        Err(Refusal::NotPreloaded) => settings::layout(),
        attached => attached?.layout().copied(),
    }
}

/// The server's layout, for a call of one argument, which names none, on a server that has a valid
/// one.
#[inline(always)]
fn fast_layout(call: &Call) -> Option<&'static Layout> {
    if call.len() != 1 {
        return None;
    }
    memory::segment()?.fast_layout()
}

fn id_argument(call: &Call) -> Result<(Layout, u64), Refusal> {
    let layout = layout_argument(call, 1)?;
    let id = layout
        .from_bigint(call.int8(0).unwrap_or(0))
        .map_err(|error| Refusal::Range(error, layout))?;
    Ok((layout, id))
}

fn tick_argument(call: &Call, index: usize, layout: &Layout) -> Result<u64, Refusal> {
    let instant = finite(call.int8(index).unwrap_or(0))?;
    layout.tick_at(unix_us(instant)).map_err(|error| Refusal::Range(error, *layout))
}

/// The presets and the server's own layout, each with what it holds for one worker and until when.
#[pg_extern(stable, parallel_safe)]
#[allow(clippy::type_complexity)] // pgrx reads the columns off the signature.
fn snowflake_layouts() -> TableIterator<
    'static,
    (
        name!(name, &'static str),
        name!(about, &'static str),
        name!(in_use, bool),
        name!(layout, String),
        name!(epoch, TimestampWithTimeZone),
        name!(tick, Interval),
        name!(time_bits, i32),
        name!(datacenter_bits, i32),
        name!(worker_bits, i32),
        name!(sequence_bits, i32),
        name!(nodes, i64),
        name!(ids_per_second, i64),
        name!(runs_out, TimestampWithTimeZone),
    ),
> {
    let server = server_layout().ok();
    let custom = server.filter(|layout| presets::naming(layout).is_none());
    let named = presets::all().iter().map(|preset| (preset.name, preset.about, preset.layout));
    let own = custom.map(|layout| ("custom", "this server's id_gen.layout", layout));
    TableIterator::new(named.chain(own).filter_map(move |(name, about, layout)| {
        let bits = |field| layout.bits(field).cast_signed();
        let tick_us = i64::from(layout.tick_ms()) * US_PER_MS;
        Some((
            name,
            about,
            server == Some(layout),
            layout.to_string(),
            instant(timestamp(layout.epoch_ms()))?,
            Interval::from_micros(tick_us),
            bits(Field::Time),
            bits(Field::Datacenter),
            bits(Field::Worker),
            bits(Field::Sequence),
            layout.nodes().cast_signed(),
            layout.per_second().cast_signed(),
            instant(timestamp(layout.runs_out_ms()))?,
        ))
    }))
}
