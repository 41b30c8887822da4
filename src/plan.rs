//! The SQL function that proposes a layout. It needs neither shared memory nor a preloaded library:
//! it is asked before there is anything else. Its SQL is in `sql/plan.sql`.

use id_gen_core::layout::{Field, Layout};
use id_gen_core::plan::{Wish, propose};
use pgrx::prelude::*;

use crate::fmgr::{int8, sql_function};
use crate::refusal::Refusal;
use crate::timestamp::{timestamp, unix_ms};

sql_function! {
    /// `id_gen_plan(ids_per_second bigint, servers integer, years integer, js_safe boolean) →
    /// (layout, nodes, ids_per_second, headroom, runs_out, advice)`
    fn id_gen_plan(call) {
        let ids_per_second = positive("ids_per_second", call.int8(0))?;
        let wish = Wish {
            ids_per_second,
            servers: positive("servers", call.int4(1).map(i64::from))?,
            years: u32::try_from(positive("years", call.int4(2).map(i64::from))?).unwrap_or(u32::MAX),
            js_safe: call.bool(3).ok_or(Refusal::NullWish("js_safe"))?,
        };
        // SAFETY: reads a variable of this process. Within a transaction it does not change, as a
        // STABLE function must not.
        let now_ms = unix_ms(unsafe { pg_sys::GetCurrentTransactionStartTimestamp() })?;
        Ok(match propose(&wish, now_ms) {
            Ok(layout) => call.row([
                layout.to_string().into_datum(),
                Some(int8(layout.nodes().cast_signed())),
                Some(int8(layout.per_second().cast_signed())),
                (layout.per_second() as f64 / ids_per_second as f64).into_datum(),
                Some(int8(timestamp(layout.runs_out_ms()))),
                in_force(&layout).into_datum(),
            ]),
            Err(none) => call.row([None, None, None, None, None, none.to_string().into_datum()]),
        })
    }
}

/// What to type to generate with a layout.
fn in_force(layout: &Layout) -> String {
    format!(
        "On each server, before its first ID: ALTER SYSTEM SET id_gen.layout = '{layout}'; and restart it. Each needs an id_gen.worker_id of its own, from 0 to {}.",
        layout.max_number(Field::Worker)
    )
}

/// A part of the wish, which has to be there and above zero.
fn positive(name: &'static str, value: Option<i64>) -> Result<u64, Refusal> {
    let value = value.ok_or(Refusal::NullWish(name))?;
    u64::try_from(value).ok().filter(|&value| value > 0).ok_or(Refusal::BadWish { name, value })
}
