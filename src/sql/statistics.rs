//! Statistics of snowflakes. On a server without shared memory their views have no row.

use std::sync::atomic::Ordering::Relaxed;

use id_gen_core::histogram;
use id_gen_core::time::{NS_PER_MS, unix_us};
use pgrx::prelude::*;

use crate::observe::readiness;
use crate::pg::fmgr::{Call, bigint, int8};
use crate::pg::timestamp;
use crate::shared::{Counts, SharedState, State, memory};
use crate::sql::function::sql_function;

const US_PER_MS: f64 = 1_000.0;

fn ms(ns: u64) -> Option<pg_sys::Datum> {
    (ns as f64 / NS_PER_MS as f64).into_datum()
}

/// The row of `id_gen_stat`, with the causes of refusals as an array.
pub fn snowflakes(call: &mut Call) -> pg_sys::Datum {
    let row = memory::attach().ok().map(|shared| {
        let Counts { issued, claims, waits, waited_ns, .. } = shared.counts();
        let lead = readiness::lead_ms(shared);
        let refusals = shared.events.0.refusals().map(u64::cast_signed).to_vec();
        let (peaks, totals, reset_at_ns) = {
            let State { peaks, counters, .. } = &*shared.lock();
            (*peaks, counters.totals, counters.reset_at_ns)
        };
        let layout = shared.layout_if_valid();
        let peak_lead_ns = layout.map(|layout| peaks.lead_ticks.saturating_mul(layout.tick_ns()));
        let sequence_use = layout.map(|layout| match peaks.sequence {
            0 => 0.0,
            highest => (highest + 1) as f64 / layout.per_tick() as f64,
        });
        [
            bigint(issued),
            bigint(claims),
            bigint(waits),
            ms(waited_ns),
            lead.into_datum(),
            peak_lead_ns.and_then(ms),
            sequence_use.into_datum(),
            bigint(totals.steps_back),
            ms(totals.largest_step_back_ns),
            bigint(totals.steps_forward),
            refusals.into_datum(),
            bigint(totals.reservation_writes),
            bigint(totals.reservation_failures),
            ms(totals.slowest_reservation_write_ns),
            Some(int8(timestamp::from_unix_us(unix_us(reset_at_ns)))),
        ]
    });
    let types = "int8 int8 int8 float8 float8 float8 float8 int8 float8 int8 _int8 int8 int8 float8 timestamptz";
    call.rows_of(types, row)
}

/// The rows of `id_gen_stat_waits`.
pub fn waits(call: &mut Call) -> pg_sys::Datum {
    let waits = memory::attach().map(|shared| shared.events.0.waits()).into_iter().flatten();
    let rows = waits.enumerate().map(|(bucket, waits)| {
        [(histogram::at_most_us(bucket) / US_PER_MS).into_datum(), bigint(waits)]
    });
    call.rows_of("float8 int8", rows)
}

/// The rows of `id_gen_stat_backends`.
pub fn backends(call: &mut Call) -> pg_sys::Datum {
    let slots = memory::attach().ok().map(SharedState::slots).into_iter().flatten();
    let rows = slots.filter_map(|slot| {
        let pid = slot.pid.load(Relaxed);
        let Counts { issued, claims, waits, waited_ns, .. } = slot.counts();
        (pid != 0).then(|| {
            [
                pid.into_datum(),
                bigint(issued),
                bigint(claims),
                bigint(waits),
                ms(waited_ns),
                bigint(slot.block_size.load(Relaxed)),
                bigint(slot.block.left()),
            ]
        })
    });
    call.rows_of("int4 int8 int8 int8 float8 int8 int8", rows)
}

sql_function! {
    /// `id_gen_stat_reset() → void`
    fn id_gen_stat_reset(call) {
        memory::attach()?.reset_counts();
        Ok(call.void())
    }
}
