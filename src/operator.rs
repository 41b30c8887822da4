//! SQL functions with which a superuser decides what the extension will not guess. Their SQL is in
//! `sql/operator.sql`.

use id_gen_core::clock::unix_ms as clock_ms;
use id_gen_core::layout::{Layout, US_PER_MS, show_ms};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::backend;
use crate::clock;
use crate::fmgr::sql_function;
use crate::refusal::{self, Refusal};
use crate::reservation::{self, Beginning, Decision};
use crate::shared::Segment;
use crate::timestamp::unix_ms;

sql_function! {
    /// `id_gen_accept_clock() → void`: the clock is right, although it jumped forward.
    fn id_gen_accept_clock(call) {
        segment()?.accept_clock();
        Ok(call.void())
    }
}

sql_function! {
    /// `id_gen_accept_layout() → void`: the new layout may be used, although its IDs may repeat or
    /// go below those of the old one.
    fn id_gen_accept_layout(call) {
        if begin(Decision::AcceptLayout)?.is_none() {
            notice!("this server generates already: nothing was changed");
        }
        Ok(call.void())
    }
}

sql_function! {
    /// `id_gen_reset_reservation(above timestamptz) → void`: begin anew above the clock and above
    /// this time, whatever was promised before.
    fn id_gen_reset_reservation(call) {
        let above_ms = match call.int8(0) {
            Some(above) => unix_ms(above)?,
            None => return Err(Refusal::NullTime),
        };
        let layout = *segment()?.layout()?;
        if above_ms >= layout.epoch_ms() {
            let above_us = above_ms.saturating_mul(US_PER_MS);
            layout.tick_at(above_us).map_err(|error| Refusal::Range(error, layout))?;
        }
        if let Some(beginning) = begin(Decision::Reset { above_ms })? {
            tell(&layout, &beginning, call.function());
        }
        Ok(call.void())
    }
}

fn begin(decision: Decision) -> Result<Option<Beginning>, Refusal> {
    let segment = segment()?;
    reservation::open(segment, &segment.begin_writing(), decision)
}

/// What was decided may be right, but it is said what it means.
fn tell(layout: &Layout, beginning: &Beginning, function: pg_sys::Oid) {
    let Beginning { first_ms, ready_ms, promised_until_ms } = *beginning;
    if let Some(until_ms) = promised_until_ms.filter(|&until_ms| first_ms < until_ms) {
        let first_id = Layout::to_bigint(layout.min_of(layout.tick_from(first_ms)));
        ErrorReport::new(
            PgSqlErrorCode::ERRCODE_WARNING,
            "snowflakes may repeat those of later times, if there are any",
            "",
        )
        .set_detail(format!(
            "They begin anew at {}; before, this server had promised some up to {}.",
            show_ms(first_ms),
            show_ms(until_ms)
        ))
        .set_hint(format!("Look for IDs from {first_id} on in your tables, and give such rows new ones before the clock gets there."))
        .report(PgLogLevel::WARNING);
    }
    let wait_ms = ready_ms - clock_ms(clock::wall_ns());
    if wait_ms > 0 {
        let level = if wait_ms > LONG_WAIT_MS { PgLogLevel::WARNING } else { PgLogLevel::NOTICE };
        ErrorReport::new(
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!("no snowflake is available for the next {wait_ms} ms"),
            "",
        )
        .set_detail(format!("They begin at {}, which has to be within id_gen.max_lead of the clock.", show_ms(first_ms)))
        .set_hint(refusal::to_type(
            "If that time was mistyped, take it back: SELECT id_gen_reset_reservation(above => now());",
            function,
        ))
        .report(level);
    }
}

/// A wait that nobody means: a minute.
const LONG_WAIT_MS: i64 = 60_000;

/// The shared segment, with this process attached: a decision is for a server that may generate.
fn segment() -> Result<&'static Segment, Refusal> {
    Ok(backend::attach()?.segment)
}
