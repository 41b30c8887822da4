//! SQL functions of shards: the next ID of one, taking it, giving it back, and which this server and the fleet's servers
//! have.

use id_gen_core::layout::Layout;
use id_gen_core::shards::Place;
use pgrx::prelude::*;

use crate::error::shards::ShardRefusal;
use crate::error::{self, Error, counted, report};
use crate::fleet::commands;
use crate::generate::shards::{self, Released};
use crate::pg::fmgr::{Call, bigint, figure, int8};
use crate::pg::timestamp;
use crate::shared::{SharedState, memory, shard_list};
use crate::sql::function::sql_function;

sql_function! {
    /// `snowflake_next(shard integer) → bigint`
    fn snowflake_next_of_shard(call)
    fast {
        let id = shards::next_id_at_once(call.int4(0)?)?;
        Some(int8(Layout::to_bigint(id)))
    }
    { shards::next_id(shard_argument(call)?).map(|id| int8(Layout::to_bigint(id))) }
}

fn shard_argument(call: &Call) -> Result<i32, Error> {
    call.int4(0).ok_or_else(|| ShardRefusal::Null.into())
}

sql_function! {
    /// `id_gen_shard_take(shard integer [, above bigint]) → timestamptz`
    fn id_gen_shard_take(call) {
        let shard = shard_argument(call)?;
        let above = call.int8(1);
        let taken = shards::take(shard, above)?;
        if let Some(other) = taken.other_number {
            let warning = error::shards::above_is_of_another(shard, other);
            report::tell(warning, PgLogLevel::WARNING, call.function());
        }
        Ok(int8(timestamp::from_unix_ms(taken.usable_ms)))
    }
}

sql_function! {
    /// `id_gen_shard_release(shard integer) → bigint`
    fn id_gen_shard_release(call) {
        let shard = shard_argument(call)?;
        let Released { last_id, is_repeated } = shards::release(shard)?;
        if is_repeated {
            let warning = error::shards::released_before(shard);
            report::tell(warning, PgLogLevel::WARNING, call.function());
        }
        Ok(int8(last_id))
    }
}

sql_function! {
    /// `id_gen_shard_reset_all() → void`
    fn id_gen_shard_reset_all(call) {
        let forgotten = shards::reset()?;
        notice!("this server has no shards now; {} forgotten", counted(forgotten as u64, "shard"));
        Ok(call.void())
    }
}

/// The rows of `id_gen_stat_shards`.
pub fn statistics(call: &mut Call) -> pg_sys::Datum {
    let shared: Option<&SharedState> = memory::attach().ok();
    let rows = shared
        .into_iter()
        .flat_map(|shared| shared.shards().in_use().filter_map(|place| row(shared, place)));
    call.rows_of("int4 int4 text text timestamptz int8 int8 float8", rows)
}

fn row(shared: &SharedState, place: &Place) -> Option<[Option<pg_sys::Datum>; 8]> {
    let (number, owned, layout) = (place.number()?, place.owned()?, shared.layout_if_valid()?);
    let waits = shards::waits_until_ms(shared, &owned).is_some();
    let state = match (place.is_open(), shared.has_room(layout, place)) {
        (true, _) => "open",
        (false, false) => "no room in layout",
        (false, true) if waits => "waiting",
        (false, true) => "closed",
    };
    let (issued, _) = place.issued();
    let last_id = shard_list::id_at_end(layout, number, place.end());
    Some([
        number.worker.cast_signed().into_datum(),
        number.datacenter.cast_signed().into_datum(),
        state.into_datum(),
        if owned.in_fleet { "registry" } else { "declared" }.into_datum(),
        Some(int8(timestamp::from_unix_ms(owned.since_ms))),
        (issued > 0).then(|| int8(last_id)),
        bigint(issued),
        shared.shards().rate(place).map(figure),
    ])
}

sql_function! {
    /// `id_gen_fleet_shards() → SETOF record`, a row for each shard that was ever taken.
    fn id_gen_fleet_shards(call) {
        let shards = commands::shards()?;
        Ok(call.rows(shards.into_iter().map(|(number, value)| {
            let [shard, datacenter] =
                [number.worker, number.datacenter].map(|it| it.cast_signed().into_datum());
            let Some(value) = value else {
                return [shard, datacenter, "unreadable".into_datum(), None, None, None, None];
            };
            [
                shard,
                datacenter,
                if value.held { "held" } else { "released" }.into_datum(),
                value.worker.cast_signed().into_datum(),
                value.host.into_datum(),
                i32::from(value.port).into_datum(),
                value.system_identifier.into_datum(),
            ]
        })))
    }
}
