//! SQL functions behind the statistics views. Their SQL is in `sql/monitoring.sql`.
//!
//! Nothing is counted for one ID: what was issued is what was claimed, less what was dropped and
//! what is left of blocks. On a server without a shared segment the views have no row.

use std::sync::atomic::Ordering::Relaxed;

use id_gen_core::clock::unix_us;
use id_gen_core::histogram::{self, BUCKETS};
use id_gen_core::layout::NS_PER_MS;
use pgrx::iter::TableIterator;
use pgrx::prelude::*;

use crate::fmgr::sql_function;
use crate::shared::Segment;
use crate::slot::Counts;
use crate::timestamp::{instant, timestamp_us};
use crate::{clock, memory};

const US_PER_MS: f64 = 1_000.0;

fn ms(ns: u64) -> f64 {
    ns as f64 / NS_PER_MS as f64
}

/// A count as `bigint`, which ends after 292 years of one a nanosecond.
fn bigint(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// How far the next ID would be ahead of the clock, in milliseconds.
pub fn lead_ms(segment: &Segment) -> Option<f64> {
    let layout = segment.fast_layout()?;
    let frontier_ms = segment.lock().line?.frontier_ms(layout);
    let ahead_ms = frontier_ms as f64 - clock::wall_ns() as f64 / NS_PER_MS as f64;
    Some(ahead_ms.max(0.0))
}

/// `id_gen_stat_get() → SETOF record`: the row of `id_gen_stat`.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // pgrx reads the columns off the signature.
fn id_gen_stat_get() -> TableIterator<
    'static,
    (
        name!(ids, i64),
        name!(claims, i64),
        name!(waits, i64),
        name!(wait_time, f64),
        name!(lead, Option<f64>),
        name!(largest_lead, Option<f64>),
        name!(peak_sequence_use, Option<f64>),
        name!(steps_back, i64),
        name!(largest_step_back, f64),
        name!(steps_forward, i64),
        name!(refused, Vec<i64>),
        name!(reservation_writes, i64),
        name!(reservation_failures, i64),
        name!(slowest_reservation_write, f64),
        name!(stats_reset, Option<TimestampWithTimeZone>),
    ),
> {
    TableIterator::new(memory::attach().ok().map(|segment| {
        let Counts { issued, claims, waits, waited_ns, .. } = segment.counts();
        let lead = lead_ms(segment);
        let layout = segment.fast_layout();
        let state = segment.lock();
        let largest_lead =
            layout.map(|layout| ms(state.largest_lead_ticks.saturating_mul(layout.tick_ns())));
        let sequence_use = |per_tick: u64| match state.highest_sequence {
            0 => 0.0,
            highest => (highest + 1) as f64 / per_tick as f64,
        };
        (
            bigint(issued),
            bigint(claims),
            bigint(waits),
            ms(waited_ns),
            lead,
            largest_lead,
            layout.map(|layout| sequence_use(layout.per_tick())),
            bigint(state.steps_back),
            ms(state.largest_step_back_ns),
            bigint(state.steps_forward),
            segment.refusals.0.iter().map(|count| bigint(count.load(Relaxed))).collect(),
            bigint(state.writes),
            bigint(state.failed_writes),
            ms(state.slowest_write_ns),
            instant(timestamp_us(unix_us(state.reset_at_ns))),
        )
    }))
}

/// `id_gen_stat_get_waits() → SETOF record`: the rows of `id_gen_stat_waits`.
#[pg_extern(sql = false)]
fn id_gen_stat_get_waits() -> TableIterator<'static, (name!(at_most, f64), name!(waits, i64))> {
    let rows = memory::attach().ok().map(waits).into_iter().flatten().enumerate();
    TableIterator::new(rows.map(|(bucket, waits)| {
        let at_most_ms = histogram::at_most_us(bucket) / US_PER_MS;
        (at_most_ms, bigint(waits))
    }))
}

fn waits(segment: &'static Segment) -> [u64; BUCKETS] {
    std::array::from_fn(|bucket| segment.waits.0[bucket].load(Relaxed))
}

/// `id_gen_wait_percentile(fraction double precision) → double precision`, NULL without waits.
#[pg_extern(sql = false)]
fn id_gen_wait_percentile(fraction: f64) -> Option<f64> {
    let waits = waits(memory::attach().ok()?);
    histogram::percentile_us(&waits, fraction).map(|us| us / US_PER_MS)
}

/// `id_gen_stat_get_backends() → SETOF record`: the rows of `id_gen_stat_backends`.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // As above.
fn id_gen_stat_get_backends() -> TableIterator<
    'static,
    (
        name!(pid, i32),
        name!(ids, i64),
        name!(claims, i64),
        name!(waits, i64),
        name!(wait_time, f64),
        name!(block_size, i64),
        name!(block_left, i64),
    ),
> {
    let slots = memory::attach().ok().map(Segment::slots).into_iter().flatten();
    TableIterator::new(slots.filter_map(|slot| {
        let pid = slot.pid.load(Relaxed);
        let Counts { issued, claims, waits, waited_ns, .. } = slot.counts();
        (pid != 0).then(|| {
            (
                pid,
                bigint(issued),
                bigint(claims),
                bigint(waits),
                ms(waited_ns),
                bigint(slot.block_size.load(Relaxed)),
                bigint(slot.block.left()),
            )
        })
    }))
}

sql_function! {
    /// `id_gen_stat_reset() → void`
    fn id_gen_stat_reset(call) {
        memory::attach()?.reset_counts();
        Ok(call.void())
    }
}
