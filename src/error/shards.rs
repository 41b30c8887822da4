//! Why an ID of a shard can't be made, or a shard can't be taken or given back.

use std::fmt::Display;

use id_gen_base::error::{FileError, Message, sentence};
use id_gen_core::fleet::Number;
use id_gen_core::fleet::shard::ShardValue;
use id_gen_core::kept_file::Damage;
use id_gen_core::shard_file::SHARD_FILE;
use id_gen_core::time::{format_duration, format_ms, unix_ms};
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::error::{fleet, hint};
use crate::os::{clock, test_stream};

/// Why.
#[derive(Clone, Debug)]
pub enum ShardRefusal {
    /// The number of the shard is NULL.
    Null,
    /// The layout does not have it.
    OutOfRange {
        /// The number that was passed.
        shard: i32,
        /// The largest number of a shard.
        max: u32,
    },
    /// This server does not have it.
    NotHere {
        /// The shard.
        number: Number,
        /// Whether a registry knows how far its IDs go.
        in_fleet: bool,
    },
    /// It is to be given back, and this server does not have it.
    NothingToRelease(Number),
    /// It is this server's own number.
    IsOwnNumber {
        /// The number.
        number: Number,
        /// The largest worker ID that the server could have instead; none where a registry grants it.
        max: Option<u32>,
    },
    /// This server's own number is a shard that it has.
    OwnNumberIsShard {
        /// The number.
        number: Number,
        /// The largest worker ID that the server could have instead; none where a registry grants it.
        max: Option<u32>,
    },
    /// A server of the fleet may get it as its own number.
    MayBeGranted {
        /// The shard.
        number: Number,
        /// Whether one has had it.
        granted: bool,
        /// This server's own number.
        own: Option<u32>,
        /// The largest number of a worker.
        max: u32,
    },
    /// No place is left.
    Full(usize),
    /// What is to be gone above is too far ahead of the clock.
    AboveTooFar {
        /// Its time.
        above_ms: i64,
        /// How far it may be.
        limit_ms: i64,
        /// The shard.
        shard: u32,
    },
    /// It was just taken.
    NotYet {
        /// The shard's number.
        number: Number,
        /// Until when it is waited with.
        until_ms: i64,
    },
    /// This server took it with another worker ID, whose grant has not run out.
    NotOver {
        /// The shard's number.
        number: Number,
        /// That worker ID.
        worker: u32,
        /// Unix millisecond at which it will have run out.
        until_ms: i64,
    },
    /// This server has given it up, and took it with another worker ID, whose grant has not run out: the registry says so later.
    NotReleased {
        /// The shard's number.
        number: Number,
        /// The other worker ID.
        worker: u32,
        /// Unix millisecond at which the grant of that will have run out.
        until_ms: i64,
    },
    /// Another member of the fleet has it.
    Elsewhere(Number, Box<ShardValue>),
    /// The registry does not know of it.
    Unknown(Number),
    /// Nobody has said how far it is.
    AboveNeeded(Number),
    /// A server that this one is a copy of, outside of the fleet, may have it as its number.
    OfOriginal(Number),
    /// The registry does not know this server as it knows itself.
    NotHolding,
    /// Others wrote at the same time.
    Contended,
    /// It is of a fleet that this server is not in.
    OfFleet(Number),
    /// The file can't be used.
    Unusable(Damage),
    /// The file can't be read.
    Unreadable(FileError),
    /// The file can't be written.
    Unwritten {
        /// What it was to say.
        change: Change,
        /// What the system said.
        error: FileError,
    },
    /// The file was damaged, and this server's number may be that of a shard that it had.
    OwnNumberUnsure(u32),
}

/// Where the last change is in memory alone.
pub const UNWRITTEN: &str = "The shard list on disk may differ from the one in memory. After a restart, the list on disk is used.";

/// What happens then.
pub const TRIES_AGAIN: &str = "the server retries automatically.";

/// Where the file can't be written.
pub const MAKE_ROOM: &str = "Free disk space and allow the server to write to the directory \"id_gen\" of its data directory";

/// A change of the file.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// A shard is taken.
    Taken(Number),
    /// A shard is given back.
    Released(Number),
    /// What was to be written before.
    Again,
}

/// To take over what a lost server had, whose `id_gen.max_lead` was this one's, and whose clock was 3 s ahead at most. A
/// server for tests shares with none.
pub fn recovery_line(shard: impl Display) -> String {
    if test_stream::stream().is_some() {
        return format!("SELECT id_gen_shard_take({shard}, above => 0);");
    }
    format!(
        "SELECT id_gen_shard_take({shard}, above => snowflake_max(clock_timestamp() + current_setting('id_gen.max_lead')::interval + interval '3 s'));"
    )
}

/// How to take a shard, by what became of it before.
fn above_line(shard: u32) -> String {
    format!(
        "Moving it: release it on the server that has it, which returns its last ID: SELECT id_gen_shard_release({shard}); then take it here above that ID: SELECT id_gen_shard_take({shard}, above => <last ID>); New shard, which no server ever had: SELECT id_gen_shard_take({shard}, above => 0); Lost server, whose id_gen.max_lead was not larger than here: {}",
        recovery_line(shard)
    )
}

fn name(number: Number) -> String {
    match number.datacenter {
        0 => format!("shard {}", number.worker),
        datacenter => format!("shard {} of datacenter {datacenter}", number.worker),
    }
}

const WHICH_SERVERS_HAD: &str =
    "to list the worker IDs of servers: SELECT * FROM id_gen_fleet_members();";

/// What is said where a shard was taken above an ID of another number.
pub fn above_is_of_another(shard: i32, other: Number) -> Message {
    Message::new(
        Code::ERRCODE_WARNING,
        format!("\"above\" is an ID of worker {}, not of shard {shard}", other.worker),
    )
    .detail("The shard was taken and starts above the time of that ID.")
    .hint(format!("If that ID is wrong, take the shard again with the correct one, or above its last possible ID: {}", recovery_line(shard.cast_unsigned())))
}

/// A warning about a shard that this server gives back again.
pub fn released_before(shard: i32) -> Message {
    Message::new(Code::ERRCODE_WARNING, format!("this server had already released shard {shard}"))
        .detail("Another server that took it since may have generated IDs above the returned one.")
        .hint(format!(
            "Release it on the last server that had it: SELECT id_gen_shard_release({shard});"
        ))
}

/// From which wait on a grant is more likely one of a wrong clock than one that runs out: 10 min.
const LONG_WAIT_MS: i64 = 600_000;

fn former_grant(worker: u32, until_ms: i64) -> String {
    format!(
        "This server took it with worker ID {worker}, whose grant ends at {} by the clock of any server of the fleet.",
        format_ms(until_ms)
    )
}

/// What to do until the grant ends of the worker ID with which this server took a shard.
fn await_former(again: &str, shard: Number, worker: u32, until_ms: i64) -> String {
    let wait = format!("{again} in {}.", fleet::time_left(until_ms));
    let is_long = until_ms.saturating_sub(unix_ms(clock::wall_ns())) > LONG_WAIT_MS;
    let more = if is_long {
        let datacenter = shard.datacenter;
        format!(
            "Or, if that time comes from a wrong clock, a superuser can lower it: SELECT id_gen_fleet_lower(worker_id => {worker}, datacenter_id => {datacenter});"
        )
    } else {
        format!(
            "If that time moves on, another server uses worker ID {worker}: SELECT * FROM id_gen_fleet_members();"
        )
    };
    format!("{wait} {more}")
}

impl ShardRefusal {
    /// Whether an ID was refused for want of a shard.
    pub const fn is_counted(&self) -> bool {
        matches!(
            self,
            ShardRefusal::NotHere { .. }
                | ShardRefusal::OwnNumberIsShard { .. }
                | ShardRefusal::OwnNumberUnsure(_)
                | ShardRefusal::Elsewhere(..)
                | ShardRefusal::Unknown(_)
                | ShardRefusal::NotHolding
                | ShardRefusal::Unusable(_)
                | ShardRefusal::Unreadable(_)
        )
    }

    /// The words.
    pub fn message(&self) -> Message {
        match self {
            ShardRefusal::Null => {
                Message::new(Code::ERRCODE_NULL_VALUE_NOT_ALLOWED, "shard must not be null")
                    .detail("The shard is the worker ID in its snowflakes.")
                    .hint("Pass the shard's number, such as 7.")
            }
            ShardRefusal::OutOfRange { shard, max } => Message::new(
                Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                format!("shard {shard} is out of range"),
            )
            .detail(format!("A shard is the worker ID in its snowflakes; this server's layout allows 0 to {max}."))
            .hint(format!("Pass a number from 0 to {max}.")),
            ShardRefusal::NotHere { number, in_fleet } => {
                let shard = number.worker;
                let hint = if *in_fleet {
                    format!("Connect to the server that has the shard. Or, as a superuser, take it here, which fails while another server has it: SELECT id_gen_shard_take({shard});")
                } else {
                    format!("Connect to the server that has the shard, or take it here as a superuser. {}", above_line(shard))
                };
                Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("this server does not have {}", name(*number)))
                    .detail("Only one server at a time generates the IDs of a shard. To see the shards of this server: SELECT * FROM id_gen_stat_shards;")
                    .hint(hint)
            }
            ShardRefusal::NothingToRelease(number) => {
                Message::new(Code::ERRCODE_UNDEFINED_OBJECT, format!("this server does not have {}", name(*number)))
                    .detail("The shard is not in the shard list, and the server has generated no ID of it since it started.")
                    .hint("To see the shards of this server: SELECT * FROM id_gen_stat_shards;")
            }
            ShardRefusal::IsOwnNumber { number, max } => {
                let hint = match max {
                    Some(max) => format!("Choose another shard number; or first {}", hint::assign_worker_id(*max, hint::UNUSED_BY_SHARDS)),
                    None => format!("Choose another shard number; {WHICH_SERVERS_HAD}"),
                };
                Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("worker ID {} is this server's own", number.worker))
                    .detail("IDs of the shard would duplicate those of snowflake_next().")
                    .hint(hint)
            }
            ShardRefusal::OwnNumberIsShard { number, max } => {
                let release = format!("elease the shard: SELECT id_gen_shard_release({});", number.worker);
                let hint = match max {
                    Some(max) => format!("To keep the shard, {} Or r{release}", hint::assign_worker_id(*max, hint::UNUSED_BY_SHARDS)),
                    None => format!("R{release}"),
                };
                Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("this server's worker ID {} is one of its shards", number.worker))
                    .detail("IDs of the server would duplicate those of the shard.")
                    .hint(hint)
            }
            ShardRefusal::OwnNumberUnsure(worker) => Message::new(
                Code::ERRCODE_DATA_CORRUPTED,
                format!("this server's worker ID {worker} may be one of its shards"),
            )
            .detail(format!("The file \"{SHARD_FILE}\" cannot be used; when it was last used, the server had another worker ID."))
            .hint("Correct the file or the worker ID. Or, as a superuser, forget all shards and take each again above the largest stored ID of it: SELECT id_gen_shard_reset_all();"),
            ShardRefusal::MayBeGranted { number, granted, own, max } => {
                let what = if *granted { "A server of the fleet has or had it as its worker ID" } else { "id_gen.worker_id_range includes this number (an empty range includes all worker IDs), so a server of the fleet could get it" };
                let hint = if *granted {
                    format!("Choose another shard number; {WHICH_SERVERS_HAD}")
                } else {
                    // The part beside the shard that this server's number is in; if it has none, the larger part.
                    let is_below = own.map_or(number.worker > max / 2, |own| own < number.worker);
                    let (first, last) = match number.worker {
                        worker if is_below => (0, worker.saturating_sub(1)),
                        worker => (worker + 1, *max),
                    };
                    format!("On every server of the fleet, exclude shards from the range; a server outside the range loses its worker ID. For example: ALTER SYSTEM SET id_gen.worker_id_range = '{first}-{last}'; SELECT pg_reload_conf();")
                };
                Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("{} is reserved as a worker ID of servers", name(*number)))
                    .detail(format!("{what}."))
                    .hint(hint)
            }
            ShardRefusal::Full(room) => Message::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "too many shards",
            )
            .detail(format!("A server can have {room} shards, including those released since it started."))
            .hint("Restart the server to remove released shards; or take the shard on another server."),
            ShardRefusal::AboveTooFar { above_ms, limit_ms, shard } => Message::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "\"above\" is too far ahead of the clock",
            )
            .detail(format!("Its time is {}; the latest allowed time is {} (the clock + id_gen.max_lead + 10 s).", format_ms(*above_ms), format_ms(*limit_ms)))
            .hint(format!(
                "Correct the clock, or pass the ID that id_gen_shard_release({shard}) returned on the previous server of the shard. If it is that ID, call again in {}.",
                format_duration((above_ms - limit_ms).unsigned_abs())
            )),
            ShardRefusal::NotYet { number, until_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{} cannot be used yet", name(*number)),
            )
            .detail(fleet::waits("took", *until_ms))
            .hint(fleet::wait_hint(&fleet::time_left(*until_ms))),
            ShardRefusal::NotOver { number, worker, until_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{} cannot be used yet", name(*number)),
            )
            .detail(former_grant(*worker, *until_ms))
            .hint(await_former("Call again", *number, *worker, *until_ms)),
            ShardRefusal::NotReleased { number, worker, until_ms } => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{} is not released in the registry yet", name(*number)),
            )
            .detail(former_grant(*worker, *until_ms))
            .hint(await_former("Run the statement again", *number, *worker, *until_ms)),
            ShardRefusal::Elsewhere(number, value) => {
                let at = format!("the server at port {} of host {}", value.port, value.host);
                let detail = if value.held {
                    format!("{at} has the shard, with worker ID {}.", value.worker)
                } else {
                    format!("{at} released the shard; its IDs are before {}.", format_ms(value.above_ms))
                };
                let worker = number.worker;
                let hint = if value.held {
                    format!("Release it there: SELECT id_gen_shard_release({worker}); then take it here: SELECT id_gen_shard_take({worker}); If that server is gone or has left the fleet, take it once the grant of its worker ID has ended. To see the grants: SELECT * FROM id_gen_fleet_members();")
                } else {
                    format!("Take it here: SELECT id_gen_shard_take({worker});")
                };
                Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("this server does not have {}", name(*number)))
                    .detail(capitalized(&detail))
                    .hint(hint)
            }
            ShardRefusal::Unknown(number) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{} is unknown to the fleet's registry", name(*number)),
            )
            .detail("This server took the shard in another fleet, or the registry was restored to an older state. Another server may have the shard.")
            .hint(format!("If no server has the shard, take it again, above its last ID: {}", recovery_line(number.worker))),
            ShardRefusal::AboveNeeded(number) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the last ID of {} is unknown to this server", name(*number)),
            )
            .detail("Without a fleet, this server cannot find out whether another server has generated IDs of the shard.")
            .hint(above_line(number.worker)),
            ShardRefusal::OfOriginal(number) => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{} may be in use outside of the fleet", name(*number)),
            )
            .detail("A server that this data directory is a copy of may generate the same IDs.")
            .hint(format!("Choose another shard number. If that server is gone, take the shard above its last ID: {}", recovery_line(number.worker))),
            ShardRefusal::NotHolding => Message::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server's state in the registry has changed",
            )
            .detail("A server keeps its shards while it holds its worker ID, unless the registry was restored to an older state.")
            .hint("Call again in a few seconds. To see the current state: SELECT * FROM id_gen_status();"),
            ShardRefusal::Contended => Message::new(
                Code::ERRCODE_OBJECT_IN_USE,
                "the shard was reassigned concurrently",
            )
            .hint("Call again."),
            ShardRefusal::OfFleet(number) => Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("{} belongs to another fleet", name(*number)))
                .detail("The shard was taken in a fleet, but id_gen.registry is not set. Another member of the fleet may have the shard now.")
                .hint(format!("Set id_gen.registry again; or, if no member has the shard, take it again, above its last ID: {}", recovery_line(number.worker))),
            ShardRefusal::Unusable(damage) => {
                let (what, hint) = match damage {
                    Damage::Newer { .. } => ("was written by a newer version of id_gen", "Install the version of id_gen that wrote it, or a newer one, and restart the server; or, as a superuser, forget all shards: SELECT id_gen_shard_reset_all();"),
                    Damage::Damaged(_) => ("is damaged", "As a superuser, forget all shards, and take each again above the largest stored ID of it: SELECT id_gen_shard_reset_all();"),
                };
                Message::new(Code::ERRCODE_DATA_CORRUPTED, format!("file \"{SHARD_FILE}\" {what}"))
                    .detail(format!("{} The file lists the shards of this server.", sentence(damage)))
                    .hint(hint)
            }
            ShardRefusal::Unreadable(error) => Message::new(
                error.sqlstate(),
                format!("could not read file \"{SHARD_FILE}\": {}", error.text()),
            )
            .detail("The file lists the shards of this server.")
            .hint(hint::make_readable(error, "directory \"id_gen\" in the data directory")),
            ShardRefusal::Unwritten { change, error } => {
                let (detail, hint) = match change {
                    Change::Taken(number) => (
                        format!("This server has not taken {}. After a restart it may have the shard, if the change reached the disk.", name(*number)),
                        format!("then call again; or release the shard: SELECT id_gen_shard_release({});", number.worker),
                    ),
                    Change::Released(number) => (
                        format!("{} is not released; no other server can take it.", capitalized(&name(*number))),
                        format!("then call again: SELECT id_gen_shard_release({});", number.worker),
                    ),
                    Change::Again => (UNWRITTEN.to_owned(), format!("and wait: {TRIES_AGAIN}")),
                };
                Message::new(
                    error.sqlstate(),
                    format!("could not write file \"{SHARD_FILE}\": {}", error.text()),
                )
                .detail(detail)
                .hint(format!("{MAKE_ROOM}, {hint}"))
            }
        }
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Where a shard's number does not fit: how to give it back all the same.
pub fn without_room(number: Number) -> String {
    format!(
        "{} Or release the shard: SELECT id_gen_shard_release({});",
        hint::SET_LAYOUT_BACK,
        number.worker
    )
}
