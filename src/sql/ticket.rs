//! SQL functions of tickets: the next number of a sequence, and what this server holds.

use std::ffi::CStr;

use pgrx::datum::Interval;
use pgrx::prelude::*;

use crate::error::{report, ticket};
use crate::pg::fmgr::{Call, bigint, figure, int8};
use crate::pg::text::{Text, in_error};
use crate::shared::memory;
use crate::shared::tickets::Snapshot;
use crate::sql::function::sql_function;
use crate::tickets::{self, session};

sql_function! {
    /// `ticket_next(sequence regclass) → bigint`
    fn ticket_next(call)
    fast { session::take(call.oid(0), call.kept()).map(int8) }
    { session::next(call.oid(0), call.kept()).map(int8) }
}

sql_function! {
    /// `ticket_share(sequence regclass, above bigint) → bigint`: the next number that the fleet's registry gives.
    fn ticket_share(call) {
        if call.arg(0).is_none() {
            return Err(ticket::null_sequence().into());
        }
        let tickets = &memory::attach()?.tickets;
        let (next, notice) = tickets::share(tickets, call.oid(0), call.int8(1))?;
        if let Some(notice) = notice {
            report::tell(notice, PgLogLevel::NOTICE, call.function());
        }
        Ok(int8(next))
    }
}

/// What this server holds of each ticket: what `id_gen_stat_tickets` is made of.
pub fn statistics(call: &mut Call) -> pg_sys::Datum {
    let tickets = memory::attach().map(|shared| shared.tickets.snapshots()).unwrap_or_default();
    let rows = tickets.into_iter().map(|ticket| {
        let Snapshot { key, names, steps, counts, .. } = &ticket;
        let used = ticket.next.or(ticket.last).map(|next| steps.used_below(next));
        [
            Some(pg_sys::Datum::from(key.file.database)),
            Some(pg_sys::Datum::from(key.sequence)),
            name(&names.schema),
            name(&names.sequence),
            ticket.next.map(int8),
            ticket.last.map(int8),
            Some(int8(steps.step)),
            Some(int8(steps.max)),
            bigint(ticket.taken),
            bigint(ticket.left),
            bigint(counts.dropped),
            bigint(counts.ranges),
            bigint(ticket.size.into()),
            Some(figure(ticket.per_second)),
            bigint(counts.waits),
            bigint(counts.refusals),
            used.map(figure),
            ticket.seconds_left().and_then(interval),
        ]
    });
    let types = "oid oid text text int8 int8 int8 int8 int8 int8 int8 int8 int8 float8 int8 int8 float8 interval";
    call.rows_of(types, rows)
}

/// A name of any database. One that is not of this one's encoding is shown as far as it can be.
fn name(bytes: &[u8]) -> Option<pg_sys::Datum> {
    let name = CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_string_lossy();
    Text(in_error(&name)).into_datum()
}

/// So many seconds, unless they are more than can be said.
fn interval(seconds: f64) -> Option<pg_sys::Datum> {
    const US_PER_S: f64 = 1e6;
    const MOST_S: f64 = 1e11;
    (seconds < MOST_S).then(|| Interval::from_micros((seconds * US_PER_S) as i64).into_datum())?
}
