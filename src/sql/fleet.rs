//! SQL functions about the fleet: what it is, what an administrator decides about it, and this server's part in it.

use id_gen_core::fleet::grant::Holder;
use id_gen_core::fleet::member::Phase;
use id_gen_core::fleet::shard;
use id_gen_core::fleet::{Grant, GrantState, Meta, Number, Terms, Waiting};
use id_gen_core::time::{NS_PER_MS, format_duration, format_ms, unix_ms, unix_us};
use pgrx::prelude::*;

use crate::error::shards::ShardRefusal;
use crate::error::{Error, Reason};
use crate::fleet::commands::{self, Lowered};
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
            let Holder { system_identifier, timeline, host, port } = holder;
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
    /// `id_gen_fleet_create(waiting text, grant_duration interval, renewal_interval interval,
    /// max_clock_skew interval) → void`
    fn id_gen_fleet_create(call) {
        settings::known::catch_up()?;
        let terms = terms(call)?;
        let mut id = [0];
        random::fresh(&mut id)?;
        let layout = *memory::attach()?.layout()?;
        match commands::create(Meta { id: id[0], layout, terms })? {
            None => Ok(call.void()),
            Some(there) => {
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
    match call.text(0).as_deref() {
        Some("normal") => {}
        Some("strict") => terms.waiting = Waiting::Strict,
        None => return Err(invalid("the argument waiting is null".to_owned())),
        Some(other) => {
            return Err(invalid(format!(
                "the argument waiting is \"{other}\"; it must be \"normal\" or \"strict\""
            )));
        }
    }
    let places = [
        (1, "grant_duration", &mut terms.ahead_ms),
        (2, "renewal_interval", &mut terms.renewal_ms),
        (3, "max_clock_skew", &mut terms.clock_difference_ms),
    ];
    for (index, name, place) in places {
        let ms = call.interval_ms(index).ok_or_else(|| invalid(format!("{name} is null")))?;
        *place = u32::try_from(ms).map_err(|_| invalid(format!("{name} is {ms} ms")))?;
    }
    // A request may take as long as leaves room for three between two renewals.
    terms.timeout_ms = terms.timeout_ms.min(terms.renewal_ms);
    terms.check().map_err(|error| invalid(error.to_string()))?;
    Ok(terms)
}

sql_function! {
    /// `id_gen_fleet_release(worker integer, datacenter integer) → timestamptz`
    fn id_gen_fleet_release(call) {
        let until_ms = of_number(call, commands::release)?;
        Ok(int8(timestamp::from_unix_ms(until_ms)))
    }
}

sql_function! {
    /// `id_gen_fleet_lower(worker integer, datacenter integer) → timestamptz`
    fn id_gen_fleet_lower(call) {
        let Lowered { before_ms, until_ms } = of_number(call, commands::lower)?;
        if until_ms < before_ms {
            warning!(
                "the worker ID is released, and its bound is lowered from {} to {}: IDs generated for times in between may be duplicated",
                format_ms(before_ms),
                format_ms(until_ms)
            );
        }
        Ok(int8(timestamp::from_unix_ms(until_ms)))
    }
}

sql_function! {
    /// `id_gen_fleet_lower_shard(shard integer, datacenter integer) → timestamptz`
    fn id_gen_fleet_lower_shard(call) {
        let [shard, datacenter] = [0, 1].map(|index| call.int4(index).unwrap_or_default());
        let unknown = || Error::from(Reason::ShardUnknown { shard, datacenter });
        let number = number(shard, datacenter).ok_or_else(unknown)?;
        match commands::lower_shard(number)? {
            shard::Lowered::Done { before_ms, above_ms } => {
                if above_ms < before_ms {
                    warning!(
                        "new IDs of the shard start at {} instead of {}: IDs generated for times in between may be duplicated",
                        format_ms(above_ms),
                        format_ms(before_ms)
                    );
                }
                Ok(int8(timestamp::from_unix_ms(above_ms)))
            }
            shard::Lowered::Unknown => Err(unknown()),
            shard::Lowered::Contended => Err(ShardRefusal::Contended.into()),
        }
    }
}

/// Does something with the number that the arguments of a STRICT function name.
///
/// # Errors
/// If it was not held, or what comes of it.
fn of_number<R>(
    call: &Call,
    command: impl FnOnce(Number) -> Result<Option<R>, Error>,
) -> Result<R, Error> {
    let [worker, datacenter] = [0, 1].map(|index| call.int4(index).unwrap_or_default());
    let done = match number(worker, datacenter) {
        Some(number) => command(number)?,
        None => None,
    };
    done.ok_or_else(|| Reason::NotHeld { worker, datacenter }.into())
}

fn number(worker: i32, datacenter: i32) -> Option<Number> {
    let (worker, datacenter) = (u32::try_from(worker).ok()?, u32::try_from(datacenter).ok()?);
    Some(Number { datacenter, worker })
}

sql_function! {
    /// `id_gen_fleet_report_restore() → timestamptz`
    fn id_gen_fleet_report_restore(_call) {
        let floor_ms = commands::restored()?;
        notice!("snowflakes with worker IDs acquired from now on start at {}", format_ms(floor_ms));
        Ok(int8(timestamp::from_unix_ms(floor_ms)))
    }
}

/// The name of a phase.
pub fn phase_name(phase: Option<Phase>) -> &'static str {
    match phase {
        None | Some(Phase::Outside) => "outside",
        Some(Phase::Acquiring) => "acquiring",
        Some(Phase::Waiting) => "waiting",
        Some(Phase::Holding) => "holding",
        Some(Phase::Unsettled) => "unsettled",
        Some(Phase::Leaving) => "leaving",
        Some(Phase::Left) => "left",
    }
}

sql_function! {
    /// `id_gen_stat_get_fleet() → SETOF record`: the row of `id_gen_stat_fleet`.
    fn id_gen_stat_get_fleet(call) {
        let shared: Option<&SharedState> = memory::attach().ok();
        let with_registry = shared.filter(|shared| shared.lock().settings.has_registry);
        Ok(call.rows(with_registry.map(|shared| {
            let Membership { right, phase, trouble, answered_at_ns, counts, .. } =
                shared.lock().membership;
            let pid = shared.registrar.running().map(|registrar| registrar.pid);
            [
                phase_name(phase).into_datum(),
                right.and_then(|right| time(right.until_ms)),
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
        })))
    }
}
