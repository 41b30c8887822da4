//! SQL functions about the fleet: what it is, what an administrator decides about it, and this server's part in it.

use id_gen_core::fleet::grant::Holder;
use id_gen_core::fleet::member::Phase;
use id_gen_core::fleet::{Grant, GrantState, Meta, Number, Terms};
use id_gen_core::time::{NS_PER_MS, format_duration, format_ms, unix_ms, unix_us};
use pgrx::prelude::*;

use crate::error::{Error, Message, Reason};
use crate::fleet::commands::{self, Created, Lowered};
use crate::os::{clock, random};
use crate::pg::fmgr::{Call, bigint, int8};
use crate::pg::timestamp;
use crate::settings;
use crate::shared::{Membership, SharedState, memory};
use crate::sql::function::sql_function;

fn time(unix_ms: i64) -> Option<pg_sys::Datum> {
    Some(int8(timestamp::from_unix_ms(unix_ms)))
}

fn ms(ns: u64) -> Option<pg_sys::Datum> {
    (ns as f64 / NS_PER_MS as f64).into_datum()
}

sql_function! {
    /// `id_gen_fleet_members() → SETOF record`, a row for each number that was ever held.
    fn id_gen_fleet_members(call) {
        let (_, grants) = commands::list()?;
        let now_ms = unix_ms(clock::wall_ns());
        let membership = memory::attach().ok().map(|shared| shared.lock().membership);
        let own = membership.and_then(|membership| Some(membership.acknowledged?.0));
        Ok(call.rows(grants.into_iter().map(|(number, grant)| {
            let [datacenter, worker] =
                [number.datacenter, number.worker].map(|it| it.cast_signed().into_datum());
            if grant.is_unreadable() {
                let state = "unreadable".into_datum();
                return [datacenter, worker, state, None, None, None, None, None, false.into_datum()];
            }
            let Grant { state, until_ms, holder, .. } = grant;
            let Holder { system_identifier, timeline, host, port, .. } = holder;
            [
                datacenter,
                worker,
                match state {
                    GrantState::Released => "released",
                    GrantState::Held if until_ms > now_ms => "held",
                    GrantState::Held => "expired",
                }
                .into_datum(),
                host.into_datum(),
                i32::from(port).into_datum(),
                time(until_ms),
                system_identifier.to_string().into_datum(),
                timeline.cast_signed().into_datum(),
                (own == Some(number)).into_datum(),
            ]
        })))
    }
}

sql_function! {
    /// `id_gen_fleet_create(grant_duration interval, renewal_interval interval, max_clock_skew interval) → void`
    fn id_gen_fleet_create(call) {
        settings::known::catch_up()?;
        let terms = terms(call)?;
        let mut id = [0];
        random::fresh(&mut id)?;
        let layout = *memory::attach()?.layout()?;
        match commands::create(Meta { id: id[0], layout, terms })? {
            Created::New => Ok(call.void()),
            Created::Joined => {
                notice!("the fleet already exists; this server leaves its former fleet and joins this one");
                Ok(call.void())
            }
            Created::Exists(there) => {
                let Terms { ahead_ms, renewal_ms, .. } = there.terms;
                Err(Reason::FleetExists(format!(
                    "layout \"{}\", grant_duration {}, renewal_interval {}.", there.layout, format_duration(ahead_ms.into()), format_duration(renewal_ms.into())
                )).into())
            }
        }
    }
}

/// The terms that the arguments ask for.
fn terms(call: &Call) -> Result<Terms, Error> {
    let invalid = |reason: String| Error::from(Reason::InvalidTerms(reason));
    let mut terms = Terms { max_lead_ms: settings::current().max_lead_ms, ..Terms::DEFAULT };
    let places = [
        (0, "grant_duration", &mut terms.ahead_ms),
        (1, "renewal_interval", &mut terms.renewal_ms),
        (2, "max_clock_skew", &mut terms.clock_difference_ms),
    ];
    for (index, name, place) in places {
        let ms = call
            .interval_ms(index)
            .ok_or_else(|| invalid(format!("\"{name}\" must not be null")))?;
        *place = u32::try_from(ms)
            .map_err(|_| invalid(format!("\"{name}\" is {ms} ms; it must be from 0 to one day")))?;
    }
    // A request may take as long as leaves room for three between two renewals.
    terms.timeout_ms = terms.timeout_ms.min(terms.renewal_ms);
    terms.check().map_err(|error| invalid(error.to_string()))?;
    Ok(terms)
}

sql_function! {
    /// `id_gen_fleet_release(worker integer, datacenter integer) → timestamptz`
    fn id_gen_fleet_release(call) {
        let [worker, datacenter] = [0, 1].map(|index| call.int4(index).unwrap_or_default());
        let until_ms = of_number(worker, datacenter, commands::release)?
            .ok_or(Reason::NotHeld { worker, datacenter })?;
        if until_ms > unix_ms(clock::wall_ns()) {
            notice!("a server that still uses worker ID {worker} loses it when it next renews its grant, and acquires another");
        }
        Ok(int8(timestamp::from_unix_ms(until_ms)))
    }
}

sql_function! {
    /// `id_gen_fleet_lower(worker_id integer, datacenter_id integer, shard integer) → timestamptz`, of a worker ID or a shard.
    fn id_gen_fleet_lower(call) {
        let [worker, datacenter, shard] = [0, 1, 2].map(|index| call.int4(index));
        let (lowered, what) = match (worker, datacenter, shard) {
            (Some(worker), Some(datacenter), None) => (
                of_number(worker, datacenter, commands::lower)?
                    .ok_or(Reason::NotHeld { worker, datacenter })?,
                "the worker ID is released, and its bound is lowered",
            ),
            (None, Some(datacenter), Some(shard)) => (
                of_number(shard, datacenter, commands::lower_shard)?
                    .ok_or(Reason::ShardUnknown { shard, datacenter })?,
                "the start of the shard's IDs is lowered",
            ),
            _ => return Err(worker_id_or_shard().into()),
        };
        let Lowered { before_ms, until_ms } = lowered;
        if until_ms < before_ms {
            let (before, until) = (format_ms(before_ms), format_ms(until_ms));
            warning!("{what} from {before} to {until}: IDs generated for times in between may be duplicated");
        }
        Ok(int8(timestamp::from_unix_ms(until_ms)))
    }
}

fn worker_id_or_shard() -> Message {
    Message::new(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        "either worker_id or shard must be passed",
    )
    .detail("Only one of them can be passed, and datacenter_id must not be null.")
    .hint("For example: SELECT id_gen_fleet_lower(worker_id => 7); or: SELECT id_gen_fleet_lower(shard => 500);")
}

/// Does something with a number, unless there is no such number.
fn of_number<R>(
    worker: i32,
    datacenter: i32,
    command: impl FnOnce(Number) -> Result<Option<R>, Error>,
) -> Result<Option<R>, Error> {
    let (Ok(worker), Ok(datacenter)) = (u32::try_from(worker), u32::try_from(datacenter)) else {
        return Ok(None);
    };
    command(Number { datacenter, worker })
}

sql_function! {
    /// `id_gen_fleet_report_restore(restored boolean, registry text) → timestamptz`
    fn id_gen_fleet_report_restore(call) {
        let floor_ms = match (call.bool(0), call.text(1)) {
            (None, _) => return Ok(call.null()),
            (Some(false), None) => {
                return Ok(commands::end_wait()?.and_then(time).unwrap_or_else(|| call.null()));
            }
            (Some(false), Some(_)) => return Err(moved_and_not_restored().into()),
            (Some(true), None) => commands::restored()?,
            (Some(true), Some(registry)) => commands::adopt(registry)?,
        };
        notice!("worker IDs acquired from now on generate snowflakes from {} on", format_ms(floor_ms));
        Ok(int8(timestamp::from_unix_ms(floor_ms)))
    }
}

fn moved_and_not_restored() -> Message {
    Message::new(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        "registry cannot be passed if restored is false",
    )
    .detail("A registry is named if the fleet was moved to it, which is a restore.")
    .hint("Leave out one of the two.")
}

/// The name of a phase.
pub fn phase_name(phase: Option<Phase>) -> &'static str {
    match phase {
        None | Some(Phase::Outside) => "outside",
        Some(Phase::Acquiring | Phase::StillHeld { .. }) => "acquiring",
        Some(Phase::Waiting { .. }) => "waiting",
        Some(Phase::Holding) => "holding",
        Some(Phase::Unsettled) => "unsettled",
        Some(Phase::Leaving) => "leaving",
        Some(Phase::Left) => "left",
    }
}

/// The row of `id_gen_stat_fleet`.
pub fn statistics(call: &mut Call) -> pg_sys::Datum {
    let shared: Option<&SharedState> = memory::attach().ok();
    let with_registry = shared.filter(|shared| shared.lock().settings.has_registry);
    let row = with_registry.map(|shared| {
        let Membership { active_grant, phase, trouble, answered_at_ns, counts, .. } =
            shared.lock().membership;
        let pid = shared.registrar.running().map(|registrar| registrar.pid);
        [
            phase_name(phase).into_datum(),
            active_grant.and_then(|grant| time(grant.until_ms)),
            answered_at_ns.map(|ns| int8(timestamp::from_unix_us(unix_us(ns)))),
            trouble.map(|trouble| trouble.message().primary).into_datum(),
            bigint(counts.renewals),
            bigint(counts.failures),
            bigint(counts.acquisitions),
            bigint(counts.fencings),
            bigint(counts.restorations),
            ms(counts.last_request_ns),
            ms(counts.slowest_request_ns),
            pid.into_datum(),
        ]
    });
    let types = "text timestamptz timestamptz text int8 int8 int8 int8 int8 float8 float8 int4";
    call.rows_of(types, row)
}
