//! SQL functions with which a superuser decides what the extension will not guess. Their SQL is in
//! `sql/operator.sql`.

use pgrx::prelude::*;

use crate::backend;
use crate::fmgr::sql_function;
use crate::refusal::Refusal;
use crate::reservation::{self, Decision};
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
        begin(Decision::AcceptLayout)?;
        Ok(call.void())
    }
}

sql_function! {
    /// `id_gen_reset_reservation(above timestamptz) → void`: begin anew above the clock and above
    /// this time, whatever the reservation's file says.
    fn id_gen_reset_reservation(call) {
        let above_ms = match call.int8(0) {
            Some(above) => unix_ms(above)?,
            None => return Err(Refusal::NullTime),
        };
        begin(Decision::Reset { above_ms })?;
        Ok(call.void())
    }
}

/// Begins the line as decided; a line that has begun needs no decision.
fn begin(decision: Decision) -> Result<(), Refusal> {
    if !reservation::open(segment()?, decision)? {
        notice!("this server generates already: nothing was changed");
    }
    Ok(())
}

/// The shared segment, with this process attached: a decision is for a server that may generate.
fn segment() -> Result<&'static Segment, Refusal> {
    Ok(backend::attach()?.segment)
}
