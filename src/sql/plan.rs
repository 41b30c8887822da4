//! The SQL function that proposes a layout. It needs neither shared memory nor a preloaded library,
//! because people plan before they have either.

use id_gen_core::layout::{Field, Layout};
use id_gen_core::plan::{Requirements, propose};
use pgrx::prelude::*;

use crate::error::{Error, Reason};
use crate::pg::fmgr::int8;
use crate::pg::{server, timestamp};
use crate::sql::function::sql_function;

sql_function! {
    /// `id_gen_plan(ids_per_second bigint, servers integer, years integer, js_safe boolean) →
    /// (layout, nodes, ids_per_second, headroom, runs_out, advice)`
    fn id_gen_plan(call) {
        let ids_per_second = positive("ids_per_second", call.int8(0))?;
        let requirements = Requirements {
            ids_per_second,
            servers: positive("servers", call.int4(1).map(i64::from))?,
            years: u32::try_from(positive("years", call.int4(2).map(i64::from))?).unwrap_or(u32::MAX),
            js_safe: call.bool(3).ok_or(Reason::NullRequirement("js_safe"))?,
        };
        // It does not change within a transaction, as a STABLE function must not.
        let now = server::transaction_start();
        let now_ms = timestamp::unix_ms(now).ok_or(Reason::Infinite)?;
        Ok(match propose(&requirements, now_ms) {
            Ok(layout) => call.row([
                layout.to_string().into_datum(),
                Some(int8(layout.nodes().cast_signed())),
                Some(int8(layout.per_second().cast_signed())),
                (layout.per_second() as f64 / ids_per_second as f64).into_datum(),
                Some(int8(timestamp::from_unix_ms(layout.runs_out_ms()))),
                how_to_use(&layout).into_datum(),
            ]),
            Err(none) => call.row([None, None, None, None, None, none.to_string().into_datum()]),
        })
    }
}

/// What to type to generate with a layout.
fn how_to_use(layout: &Layout) -> String {
    format!(
        "On each server, before its first ID: ALTER SYSTEM SET id_gen.layout = '{layout}'; and restart it. Each needs an id_gen.worker_id of its own, from 0 to {}.",
        layout.max_number(Field::Worker)
    )
}

/// A requirement, which has to be there and above zero.
fn positive(name: &'static str, value: Option<i64>) -> Result<u64, Error> {
    let value = value.ok_or(Reason::NullRequirement(name))?;
    u64::try_from(value)
        .ok()
        .filter(|&value| value > 0)
        .ok_or_else(|| Reason::NotPositive { name, value }.into())
}
