//! The SQL function behind the statistics views.

use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode;

use crate::error::Message;
use crate::pg::fmgr::Call;
use crate::sql::function::sql_function;
use crate::sql::{fleet, horizon, shards, statistics, ticket};

sql_function! {
    /// `id_gen_stat_get(view text) → SETOF record`: what the view is made of.
    fn id_gen_stat_get(call) {
        let rows: fn(&mut Call) -> pg_sys::Datum = match call.bytes(0).unwrap_or_default() {
            b"id_gen_stat" => statistics::snowflakes,
            b"id_gen_stat_backends" => statistics::backends,
            b"id_gen_stat_fleet" => fleet::statistics,
            b"id_gen_stat_horizon" => horizon::statistics,
            b"id_gen_stat_shards" => shards::statistics,
            b"id_gen_stat_tickets" => ticket::statistics,
            b"id_gen_stat_waits" => statistics::waits,
            view => {
                return Err(Message::new(
                    PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                    format!("there is no statistics view \"{}\"", String::from_utf8_lossy(view)),
                )
                .hint("Query a view, as in: SELECT * FROM id_gen_stat; If a view of id_gen raised this error, update the extension: ALTER EXTENSION id_gen UPDATE;")
                .into());
            }
        };
        Ok(rows(call))
    }
}
