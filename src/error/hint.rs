//! Remedies: the HINTs that depend on the case, for errors and for the rows of `id_gen_check()`. Each
//! ends, where there is one, in the line to type.

use id_gen_base::error::FileError;
use id_gen_core::fleet::Number;
use id_gen_core::layout::Layout;
use id_gen_core::lead::{LARGEST_MAX_LEAD_MS, Lead};
use id_gen_core::plan::{self, Requirements};
use id_gen_core::presets;
use id_gen_core::time::{format_duration, format_ms, unix_ms};

use crate::os::{clock, test_stream};
use crate::pg::server;

/// How many years a layout that follows another should last at least.
const SUCCESSOR_YEARS: u32 = 30;

/// The line that assigns a worker ID. Which one, only an administrator knows, who knows all servers: a line with a number
/// in it would be run on each of them. As it stands, it is a syntax error.
const SET_WORKER_ID: &str =
    "ALTER SYSTEM SET id_gen.worker_id = <worker ID>; SELECT pg_reload_conf();";

/// Where a server needs another worker ID, as the end of a sentence.
pub fn assign_worker_id(max: u32, unused: &str) -> String {
    format!("assign this server a worker ID from 0 to {max} that {unused}: {SET_WORKER_ID}")
}

/// What a worker ID has to be that is assigned manually.
pub const UNUSED: &str = "no other server uses";

/// What a worker ID has to be for a server that has shards.
pub const UNUSED_BY_SHARDS: &str = "no shard and no other server uses";

/// What a worker ID has to be for a server that leaves a fleet, whose registry may grant any other.
pub const UNUSED_BY_FLEET: &str =
    "no server uses, and that is outside id_gen.worker_id_range on every server of the fleet";

/// To have a layout proposed.
pub const REQUIREMENTS: &str = "Pass your requirements, as in: SELECT * FROM id_gen_recommend(ids_per_second => 10000, servers => 10, years => 30);";

/// The present time, above which a reservation is reset. A server for tests has a clock of its own, which is behind now().
fn present() -> &'static str {
    if test_stream::stream().is_some() { "to_timestamp(0)" } else { "now()" }
}

/// The line that resets the reservation at the present time.
pub fn reset_at_present() -> String {
    format!("SELECT id_gen_reservation_reset(above => {});", present())
}

/// Where a wrong time was reserved.
pub fn take_back() -> String {
    format!(
        "If no stored ID has a time in the future, a superuser can reset the reservation: {}",
        reset_at_present()
    )
}

/// Where a server of the fleet had a wrong clock and the worker ID, whose end the registry knows.
pub fn take_back_of_number(Number { datacenter, worker }: Number) -> String {
    format!(
        "If a wrong clock set that time, and no stored ID has a time in the future: stop this server; on another server of the fleet, a superuser can lower the bound: SELECT id_gen_fleet_lower(worker_id => {worker}, datacenter_id => {datacenter}); then start this server."
    )
}

/// Where a server of the fleet had a wrong clock and the shard, whose end the registry knows.
fn take_back_of_shard(Number { datacenter, worker: shard }: Number) -> String {
    format!(
        "If no stored ID of the shard has a time in the future, a superuser can reset it: SELECT id_gen_shard_release({shard}); SELECT id_gen_fleet_lower(shard => {shard}, datacenter_id => {datacenter}); SELECT id_gen_reservation_reset(above => now()); SELECT id_gen_shard_take({shard});"
    )
}

/// Where the reservation is lost.
pub fn reset() -> String {
    format!(
        "If this server is a copy of another one, first change its worker ID. If no stored ID is ahead of the clock, a superuser can reset the reservation: {} Otherwise: SELECT id_gen_reservation_reset(above => <time of the newest stored ID>);",
        reset_at_present()
    )
}

/// Where a data directory is a copy: for one that replaces its original.
pub const ACCEPT_COPY: &str = "If the original is gone and this is the only copy of it in use, a superuser can confirm that: SELECT id_gen_copy_accept(is_only_one => true);";

/// For the only server that a reservation can be of, when that may be an earlier one.
pub const START_ABOVE: &str = "If no stored ID has a later time than now, a superuser can run: SELECT id_gen_copy_accept(is_only_one => true); Otherwise: SELECT id_gen_reservation_reset(above => <time of the newest stored ID>);";

/// Where a file cannot be read.
pub fn make_readable(error: &FileError, file: &str) -> String {
    if error.is_of_directory() {
        return "Remove or rename that directory, and restore the file; then call again."
            .to_owned();
    }
    format!(
        "Allow the server's operating-system user to read and write {file}. The next call retries."
    )
}

/// Where a layout lacks room for numbers in use.
pub const SET_LAYOUT_BACK: &str =
    "Set id_gen.layout back to the one before and restart the server.";

/// The longest wait that is proposed: a day.
const LONGEST_WAIT_MS: i64 = 86_400_000;

/// Where IDs are far ahead of the clock: names the setting that allows the lead and leaves some of it, if the setting
/// goes that far. Errors and checks have the same line.
pub fn ahead(lead: &Lead, shard: Option<Number>) -> String {
    let behind_ms = lead.excess_ms();
    let wait = match behind_ms {
        ..=0 => "If that lasts, request fewer IDs. ".to_owned(),
        1..=LONGEST_WAIT_MS => {
            let whole_s = behind_ms.cast_unsigned() / 1000 + 1;
            format!("Wait {}. ", format_duration(whole_s * 1000))
        }
        _ => String::new(),
    };
    match lead.allowing_max_lead_s() {
        None => {
            let take_back = shard.map_or_else(take_back, take_back_of_shard);
            format!("{wait}If the clock was set back, correct it. {take_back}")
        }
        Some(max_lead_s) => format!(
            "{wait}If the clock was set back, correct it. Or allow the difference: ALTER SYSTEM SET id_gen.max_lead = '{max_lead_s}s'; SELECT pg_reload_conf();"
        ),
    }
}

/// Where an ID that is observed is too far ahead of the clock: allows the difference, if it is one of clocks.
pub fn observed_ahead(id: i64, ahead_ms: i64) -> String {
    if ahead_ms > LARGEST_MAX_LEAD_MS.into() {
        return format!(
            "Check whether it is a snowflake of this server's layout: SELECT snowflake_inspect({id});"
        );
    }
    format!(
        "Correct the clock of this server, or of the server that generated the ID; or allow the difference: ALTER SYSTEM SET id_gen.max_lead = '{}s'; SELECT pg_reload_conf();",
        ahead_ms / 1000 + 1
    )
}

/// A trigger for each row, to copy from.
pub fn row_trigger(function: &str) -> String {
    let name = function.trim_start_matches("snowflake_").trim_end_matches("_trigger");
    format!(
        "CREATE TRIGGER {name} AFTER INSERT OR UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION {function}('id');"
    )
}

/// Where the setting holds no layout, or one that no ID can be made with: the layout of this server's
/// last IDs, if there are any, lets it go on where it was.
pub fn usable_layout(last: Option<&Layout>) -> String {
    match set_usable_layout(last) {
        None => correct_clock(),
        Some(usable) if last.is_none() && usable_presets().is_empty() => {
            let usable = usable.replacen("Set", "set", 1);
            format!("{} If the current time is correct, {usable}", correct_clock())
        }
        Some(usable) => usable,
    }
}

/// How to set such a layout; `None` if `ALTER SYSTEM` would refuse it at the time that the clock shows.
fn set_usable_layout(last: Option<&Layout>) -> Option<String> {
    let layout = match last {
        Some(last) => *last,
        None => usable_default()?,
    };
    layout.check_at(unix_ms(clock::wall_ns())).ok()?;
    let name = presets::name_or_text(&layout);
    let which = match last {
        Some(_) => "the layout of this server's last IDs",
        None if name == presets::DEFAULT => "a valid layout, such as the default,",
        None => "a valid layout",
    };
    Some(format!("Set {which} and restart the server: ALTER SYSTEM SET id_gen.layout = '{name}';"))
}

/// The remedy if the clock is the reason that no layout can be set.
fn correct_clock() -> String {
    format!("Correct the clock, which shows {}.", clock::wall_text())
}

/// A layout that IDs can be made with at the time that the clock shows: the default, or one that is proposed for that time.
/// `None` before 1970, where no ID can be made.
fn usable_default() -> Option<Layout> {
    let default = presets::by_name(presets::DEFAULT).map(|preset| preset.layout);
    let now_ms = unix_ms(clock::wall_ns());
    let proposed = || {
        let requirements = Requirements {
            ids_per_second: 10_000,
            servers: 10,
            regions: 1,
            years: SUCCESSOR_YEARS,
            js_safe: false,
        };
        plan::propose(&requirements, now_ms).ok().filter(|_| !clock::is_before_1970())
    };
    default.filter(|layout| layout.check_at(now_ms).is_ok()).or_else(proposed)
}

/// Where the clock shows a time before the layout's.
pub fn before_epoch(layout: &Layout, last: Option<&Layout>) -> String {
    let last = last.filter(|last| *last != layout);
    let is_default = presets::by_name(presets::DEFAULT).is_some_and(|it| it.layout == *layout);
    if test_stream::stream().is_some() {
        return begin_after(layout).unwrap_or_else(|| usable_layout(last));
    }
    match set_usable_layout(last).filter(|_| last.is_some() || !is_default) {
        None => "Correct the clock.".to_owned(),
        Some(usable) => {
            let usable = usable.replacen("Set", "set", 1);
            format!("Correct the clock. If the current time is correct, {usable}")
        }
    }
}

/// Where the clock for tests begins before a layout: a day after that does, so that no ID is zero.
fn begin_after(layout: &Layout) -> Option<String> {
    const DAY_MS: i64 = 86_400_000;
    let start_ms = layout.epoch_ms().saturating_add(DAY_MS);
    (start_ms < unix_ms(clock::machine_ns())).then(|| {
        format!(
            "Set a later start and restart the server: ALTER SYSTEM SET id_gen.test_start = '{}';",
            format_ms(start_ms)
        )
    })
}

/// Where a value of `id_gen.layout` is refused.
pub fn layout_value() -> String {
    let usable = usable_presets();
    let Some(example) = usable_default() else { return correct_clock() };
    let text = format!("a layout text such as \"{example}\".");
    if usable.is_empty() {
        format!("{} If the current time is correct, use {text}", correct_clock())
    } else {
        format!("Use a named layout ({usable}) or {text}")
    }
}

/// The names of the presets that IDs can be made with today.
fn usable_presets() -> String {
    let now_ms = unix_ms(clock::wall_ns());
    let usable = presets::all().iter().filter(|preset| preset.layout.check_at(now_ms).is_ok());
    usable.map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

/// How to preload the library.
pub fn preload() -> String {
    let others = server::preload_libraries();
    let list = if others.is_empty() { "id_gen".to_owned() } else { format!("{others}, id_gen") };
    format!(
        "Add this line to postgresql.conf and restart the server: shared_preload_libraries = '{list}'"
    )
}

/// A successor of a layout that ends.
pub fn successor(layout: &Layout, now_ms: i64) -> String {
    match plan::successor(layout, now_ms, SUCCESSOR_YEARS) {
        Some(successor) => format!(
            "Change to a layout with larger IDs and restart the server: ALTER SYSTEM SET id_gen.layout = '{successor}';"
        ),
        None => "No layout of 63 bits has larger IDs. Plan a new key for the tables, with a layout from: SELECT * FROM id_gen_recommend(100000, 32, 50);".to_owned(),
    }
}

/// Where a background worker ended and was not started again.
pub const ENDED_WORKER: &str = "See the server log for the cause. If the extension was reinstalled after the server started, restart the server.";

/// How to get a free worker process.
pub fn more_worker_processes() -> String {
    format!(
        "If it does not start within a few seconds, no worker process is free. Raise the limit and restart the server: ALTER SYSTEM SET max_worker_processes = {};",
        server::max_worker_processes().saturating_add(1)
    )
}
