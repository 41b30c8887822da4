//! SQL functions with which a superuser decides what the extension will not guess. Their SQL is in
//! `sql/operator.sql`.

use id_gen_core::layout::show_ms;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::backend;
use crate::fmgr::sql_function;
use crate::refusal::Refusal;
use crate::reservation::{self, Begun, Decision};
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
        if begin(Decision::AcceptLayout)? == Begun::Already {
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
        if let Begun::Below { first_ms, promised_until_ms } = begin(Decision::Reset { above_ms })? {
            warn_of_repeats(first_ms, promised_until_ms);
        }
        Ok(call.void())
    }
}

fn begin(decision: Decision) -> Result<Begun, Refusal> {
    let segment = segment()?;
    reservation::open(segment, &segment.begin_writing(), decision)
}

/// What a superuser decided may be right, but nobody else can know.
fn warn_of_repeats(first_ms: i64, promised_until_ms: i64) {
    let (first, until) = (show_ms(first_ms), show_ms(promised_until_ms));
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_WARNING,
        "snowflakes may repeat those of later times, if there are any",
        "",
    )
    .set_detail(format!("They begin anew at {first}; before, this server had promised some up to {until}."))
    .set_hint("Before the clock gets there, give such rows new ones: id_gen_check(relation, column_name) finds them.")
    .report(PgLogLevel::WARNING);
}

/// The shared segment, with this process attached: a decision is for a server that may generate.
fn segment() -> Result<&'static Segment, Refusal> {
    Ok(backend::attach()?.segment)
}
