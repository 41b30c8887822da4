//! SQL functions of the commit horizon: up to where a reader may read, what holds it up, and the trigger that watches IDs
//! from elsewhere.

use std::sync::atomic::Ordering;

use id_gen_core::horizon::Prepared;
use pgrx::prelude::*;

use crate::generate::horizon::{self, Kept};
use crate::pg::fmgr::{Call, int8};
use crate::shared::{SharedState, memory};
use crate::sql::function::{for_new_id, sql_function};

sql_function! {
    /// `snowflake_commit_horizon() → bigint`, zero as long as none is known.
    fn snowflake_commit_horizon(call) {
        let kept: *mut Kept = call.kept().cast();
        // SAFETY: null, or what is put there below, which lives as long as the call site.
        let horizon = match unsafe { kept.as_ref() }.and_then(Kept::get) {
            Some(horizon) => horizon,
            None => {
                let horizon = horizon::safe()?;
                if let Some(kept) = Kept::of(horizon) {
                    call.keep(kept);
                }
                horizon
            }
        };
        Ok(int8(horizon.unwrap_or(0).max(0)))
    }
}

sql_function! {
    /// `snowflake_guard_trigger() → trigger`, for each row that is inserted or updated; its argument names the column, `id` without
    /// one. An update that leaves the ID as it is commits no row that was not there before.
    fn snowflake_guard_trigger(call) {
        for_new_id(call, "snowflake_guard_trigger", horizon::admit)
    }
}

/// Whose IDs no reader may pass, sessions and prepared transactions: what `id_gen_stat_horizon` is made of.
pub fn statistics(call: &mut Call) -> pg_sys::Datum {
    let shared: Option<&SharedState> = memory::attach().ok();
    let mut rows: Vec<[Option<pg_sys::Datum>; 4]> = Vec::new();
    for slot in shared.into_iter().flat_map(SharedState::slots) {
        // A process that ends has given its slot back before its transaction is rolled back.
        let pid = Some(slot.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0);
        let database = slot.database.load(Ordering::Relaxed);
        if let Some(first_id) = slot.pending.first_id() {
            rows.push([pid.into_datum(), None, oid(database), Some(int8(first_id))]);
        }
    }
    let prepared =
        shared.map(|it| it.prepared(&mut it.lock()).entries().to_vec()).unwrap_or_default();
    let with_ids = prepared.into_iter().filter(|entry| entry.first_id < Prepared::NO_ID);
    rows.extend(with_ids.map(|entry| {
        let known = entry.first_id > i64::MIN;
        let transaction = Some(pg_sys::Datum::from(entry.transaction as u32));
        [None, transaction, oid(entry.database), known.then(|| int8(entry.first_id))]
    }));
    call.rows_of("int4 xid oid int8", rows)
}

fn oid(oid: u32) -> Option<pg_sys::Datum> {
    Some(pg_sys::Datum::from(oid))
}
