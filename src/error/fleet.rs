//! What can be wrong between a server and its fleet: the words of it, wherever it shows up, be it a refused call, a check
//! or a command.
//!
//! It is told by the registrar, through shared memory, so the figures are a text of fixed room.

use id_gen_base::error::Message;
use id_gen_core::fleet::Number;
use id_gen_core::fleet::member::Phase;
use id_gen_core::fleet::store::{KeysError, StoreErrorKind, WeaknessKind};
use id_gen_core::layout::Layout;
use id_gen_core::time::{format_duration, format_ms, unix_ms};
use pgrx::prelude::PgSqlErrorCode as Code;

use crate::os::clock;
use crate::pg::server;

/// What keeps this server from a number, or from renewing its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The registry has no answer.
    Store(StoreErrorKind),
    /// `id_gen.fleet_name` is no name that a fleet can have.
    FleetName,
    /// The registry has no such fleet.
    NoFleet,
    /// The fleet belongs to another registry.
    OtherRegistry,
    /// The registry has another fleet than this server's, which is in another registry.
    OtherFleet,
    /// The fleet's layout is not this server's.
    OtherLayout,
    /// A value in the registry is none of ours.
    Damaged,
    /// All numbers are held.
    NoFreeNumber,
    /// The number that `id_gen.worker_id` names is held by another server.
    Taken,
    /// The clock is ahead of the clocks of most members that renew their grants.
    ClockAhead,
    /// A setting can't be understood.
    Setting,
    /// The reservation is lost or cannot be read, so the servers that this one is a copy of are unknown.
    Reservation,
    /// This server can't keep what it has to.
    Disk,
    /// It has shards that an administrator declared.
    DeclaredShards,
    /// The file of its shards cannot be read, so it may have such.
    ShardFile,
    /// The system has no thread or no random numbers for a request.
    System,
}

/// Trouble, with the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What kind.
    pub kind: TroubleKind,
    /// The figures, for DETAIL.
    pub detail: Text,
}

impl Trouble {
    /// Trouble of a kind.
    pub fn new(kind: TroubleKind, detail: &str) -> Trouble {
        Trouble { kind, detail: Text::new(detail) }
    }

    /// That a registry has another fleet than this server's own.
    pub fn other_fleet(own: &str, found: &str) -> Trouble {
        let detail = format!(
            "this server's fleet is in registry \"{own}\", and registry \"{found}\" has another one"
        );
        Trouble::new(TroubleKind::OtherFleet, &detail)
    }

    /// That a fleet has another layout than this server.
    pub fn other_layout(theirs: &Layout, ours: &Layout) -> Trouble {
        let detail =
            format!("the fleet's layout is \"{theirs}\", this server's layout is \"{ours}\"");
        Trouble::new(TroubleKind::OtherLayout, &detail)
    }

    /// The clock is ahead of so many members, and not ahead of the others.
    pub fn clock_ahead(against: usize, agree: usize) -> Trouble {
        let detail = format!(
            "of the grants that other members just renewed, {against} end before this server's clock, and {agree} after it"
        );
        Trouble::new(TroubleKind::ClockAhead, &detail)
    }

    /// That these shards of a server were declared. It names as many as there is room for; once they are released, the rest.
    pub fn declared(shards: &[Number]) -> Trouble {
        let named = shards.iter().take(NAMED_DECLARED).map(|it| it.worker.to_string());
        let named = named.collect::<Vec<_>>().join(",");
        let detail = format!("shards {{{named}}} of this server were declared outside of a fleet");
        Trouble::new(TroubleKind::DeclaredShards, &detail)
    }
}

const NAMED_DECLARED: usize = 64;

/// A text of shared memory: it ends where there is no more room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    length: u16,
    bytes: [u8; Text::ROOM],
}

impl Text {
    const ROOM: usize = 480;

    /// As much of a text as there is room for.
    pub fn new(text: &str) -> Text {
        let length = text.floor_char_boundary(Text::ROOM);
        let mut bytes = [0; Text::ROOM];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Text { length: length as u16, bytes }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let written = self.bytes.get(..self.length.into()).unwrap_or_default();
        std::str::from_utf8(written).unwrap_or_default()
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(formatter)
    }
}

impl From<&KeysError> for Trouble {
    fn from(error: &KeysError) -> Trouble {
        let kind = match error {
            KeysError::Store(error) => TroubleKind::Store(error.kind),
            KeysError::FleetName(_) => TroubleKind::FleetName,
            KeysError::NoFleet | KeysError::OtherFleet => TroubleKind::NoFleet,
            KeysError::OtherRegistry { .. } => TroubleKind::OtherRegistry,
            KeysError::Damaged { .. } => TroubleKind::Damaged,
        };
        Trouble::new(kind, &error.to_string())
    }
}

/// The line that names a registry.
const SET_REGISTRY: &str =
    "ALTER SYSTEM SET id_gen.registry = '<address>'; SELECT pg_reload_conf();";

/// The words of a detail that speaks of worker IDs which the fleet may not give to this server.
pub const COPIED_SERVERS: &str = "servers that this data directory is a copy of";
/// The same of the one in `id_gen.worker_id`.
pub const COPIED_SERVER: &str = "a server that this data directory is a copy of";

impl Trouble {
    /// Whether an answer of the registry, whatever it says, ends it.
    pub const fn an_answer_ends(&self) -> bool {
        matches!(
            self.kind,
            TroubleKind::Store(_)
                | TroubleKind::NoFleet
                | TroubleKind::OtherRegistry
                | TroubleKind::OtherFleet
                | TroubleKind::Damaged
                | TroubleKind::System
        )
    }

    /// Whether this server finds it in its own directory, where it looks each time it writes.
    pub const fn is_found_here(&self) -> bool {
        matches!(
            self.kind,
            TroubleKind::Disk | TroubleKind::DeclaredShards | TroubleKind::ShardFile
        )
    }

    /// The words of it, for any role: the figures may name hosts and files that only some may know of.
    pub fn public_message(&self) -> Message {
        let message = self.message();
        if server::may_read_all_settings() {
            return message;
        }
        let detail = "For details, see the server's log or id_gen_check().";
        Message { detail: Some(detail.to_owned()), ..message }
    }

    /// The words of it.
    pub fn message(&self) -> Message {
        let (sqlstate, primary, hint) = match self.kind {
            TroubleKind::Store(kind) => {
                store_words(kind, self.detail.as_str().starts_with("etcd"))
            }
            TroubleKind::FleetName => (
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "the name of the fleet is invalid",
                "Correct it, as in: ALTER SYSTEM SET id_gen.fleet_name = 'default'; SELECT pg_reload_conf();".to_owned(),
            ),
            TroubleKind::NoFleet => (
                Code::ERRCODE_UNDEFINED_OBJECT,
                "the registry does not have this server's fleet",
                "To check the address and the name: SHOW id_gen.registry; SHOW id_gen.fleet_name; If servers were in the fleet before, correct these, or restore the registry from its backup. For a new fleet, a superuser can run: SELECT id_gen_fleet_create();".to_owned(),
            ),
            TroubleKind::OtherRegistry => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the fleet belongs to another registry",
                format!(
                    "Set id_gen.registry to the fleet's registry. Or, if the fleet was moved here and no server will ever use the other registry again, a superuser can run once: SELECT id_gen_fleet_report_restore(registry => '{}');",
                    self.detail.as_str().split('"').nth(1).unwrap_or_default()
                ),
            ),
            TroubleKind::OtherFleet => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server belongs to a fleet in another registry",
                "Set id_gen.registry to the registry of this server's fleet. Or, if this server is to leave that fleet and join the one in this registry, a superuser can run on it: SELECT id_gen_fleet_create();".to_owned(),
            ),
            TroubleKind::OtherLayout => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the fleet has another layout than this server",
                format!(
                    "Set the fleet's layout and restart the server: ALTER SYSTEM SET id_gen.layout = '{}';",
                    self.detail.as_str().split('"').nth(1).unwrap_or_default()
                ),
            ),
            TroubleKind::Damaged => (
                Code::ERRCODE_DATA_CORRUPTED,
                "a value in the fleet's registry is invalid",
                if self.detail.as_str().contains("/meta\"") {
                    "Restore the value of that key, which describes the fleet, from a backup of the registry; do not remove it. Servers continue until their grants end."
                } else {
                    "Restore the old value; or, if it is the key of a worker ID that no server ever held, remove the key."
                }
                .to_owned(),
            ),
            TroubleKind::NoFreeNumber if self.detail.as_str().contains(COPIED_SERVERS) => (
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "the fleet has no free worker ID",
                "Allow more worker IDs: ALTER SYSTEM SET id_gen.worker_id_range = '<first>-<last>'; SELECT pg_reload_conf(); Or, if those servers are gone, assign the worker ID of one to this server: ALTER SYSTEM SET id_gen.worker_id = <worker ID>; SELECT pg_reload_conf(); and confirm that: SELECT id_gen_copy_accept(is_only_one => true);".to_owned(),
            ),
            TroubleKind::NoFreeNumber => (
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "the fleet has no free worker ID",
                "List the worker IDs: SELECT * FROM id_gen_fleet_members(); and release those of lost servers: SELECT id_gen_fleet_release(worker_id => <worker ID>); To list the shards, which also use worker IDs: SELECT * FROM id_gen_fleet_shards();".to_owned(),
            ),
            TroubleKind::Taken => (
                Code::ERRCODE_DUPLICATE_OBJECT,
                "the worker ID in id_gen.worker_id belongs to another server of the fleet",
                "Have the fleet assign one: ALTER SYSTEM SET id_gen.worker_id = -1; SELECT pg_reload_conf();".to_owned(),
            ),
            TroubleKind::ClockAhead => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server's clock is ahead of the clocks of the fleet",
                "Correct the clock; this server then acquires a worker ID by itself. Or, if this clock is right and the others are wrong: SELECT id_gen_clock_accept();".to_owned(),
            ),
            TroubleKind::Setting => (
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "a setting of the fleet is invalid",
                set_numbers(self.detail.as_str()).to_owned(),
            ),
            TroubleKind::Reservation => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server cannot join its fleet before its reservation is known",
                "To see the remedy: SELECT remedy FROM id_gen_check() WHERE name = 'reservation';".to_owned(),
            ),
            TroubleKind::System => (
                Code::ERRCODE_INSUFFICIENT_RESOURCES,
                "could not send a request to the registry",
                "Raise the limits on threads and memory of the server's operating-system user; this server retries by itself.".to_owned(),
            ),
            TroubleKind::DeclaredShards => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "a server with declared shards cannot join a fleet",
                format!(
                    "Release them, and note their last IDs, above which a member of the fleet can take them: SELECT shard, id_gen_shard_release(shard) FROM unnest('{{{}}}'::integer[]) AS shard;",
                    self.detail.as_str().split(['{', '}']).nth(1).unwrap_or_default()
                ),
            ),
            TroubleKind::ShardFile => (
                Code::ERRCODE_IO_ERROR,
                "this server cannot join its fleet before the file of its shards can be read",
                "To see the remedy: SELECT remedy FROM id_gen_check() WHERE name = 'shards';".to_owned(),
            ),
            TroubleKind::Disk => (
                Code::ERRCODE_IO_ERROR,
                "could not store this server's worker ID on disk",
                "Free disk space and allow the server to write to the directory \"id_gen\" of its data directory.".to_owned(),
            ),
        };
        Message::new(sqlstate, primary).detail(sentence(self.detail.as_str())).hint(hint)
    }
}

/// The line for the number of a server that does not fit, by the parameter that the figures begin with.
fn set_numbers(figures: &str) -> &'static str {
    match figures.split(' ').next() {
        Some("id_gen.worker_id_range") => {
            "Set a range that the layout has: ALTER SYSTEM SET id_gen.worker_id_range = '<first>-<last>'; SELECT pg_reload_conf();"
        }
        Some("id_gen.worker_id") if figures.contains(COPIED_SERVER) => {
            "Have the fleet assign one: ALTER SYSTEM SET id_gen.worker_id = -1; SELECT pg_reload_conf(); Or, if that server is gone, a superuser can confirm the worker ID: SELECT id_gen_copy_accept(is_only_one => true);"
        }
        Some("id_gen.worker_id") => {
            "Have the fleet assign one: ALTER SYSTEM SET id_gen.worker_id = -1; SELECT pg_reload_conf();"
        }
        Some("id_gen.datacenter_id") => {
            "Set the ID of this server's datacenter: ALTER SYSTEM SET id_gen.datacenter_id = <datacenter ID>; SELECT pg_reload_conf();"
        }
        _ => "Correct id_gen.layout and restart the server.",
    }
}

/// Removes the old versions of keys, at the present revision.
const MAKE_ROOM_IN_ETCD: &str = "etcdctl compact \"$(etcdctl endpoint status -w json | grep -o '\"revision\":[0-9]*' | head -1 | cut -d: -f2)\" && etcdctl defrag";

fn store_words(kind: StoreErrorKind, is_etcd: bool) -> (Code, &'static str, String) {
    let correct = |what: &str| {
        format!(
            "{what}; or correct the address (etcd://host:port or postgresql://user@host/database): {SET_REGISTRY}"
        )
    };
    match kind {
        StoreErrorKind::Unreachable => (
            Code::ERRCODE_CONNECTION_FAILURE,
            "the fleet's registry cannot be reached",
            correct("Start the registry, and check that this server can connect to it"),
        ),
        StoreErrorKind::TimedOut => (
            Code::ERRCODE_CONNECTION_FAILURE,
            "the fleet's registry does not answer in time",
            "Check the load of the registry and the network.".to_owned(),
        ),
        StoreErrorKind::Address => (
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            "invalid value for parameter \"id_gen.registry\"",
            format!("Set the address (etcd://host:port or postgresql://user@host/database): {SET_REGISTRY}"),
        ),
        StoreErrorKind::Setting => (
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            "the setting of the fleet's registry is invalid",
            correct("Correct the user, password and certificates in the settings id_gen.registry_*, and allow the server to read their files"),
        ),
        StoreErrorKind::Credentials => (
            Code::ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
            "access to the registry was denied",
            if is_etcd {
                "Check id_gen.registry_user and id_gen.registry_password_file, and allow that user to read and write keys below /id_gen/."
            } else {
                "Check the URI in id_gen.registry and its password file, and allow that user to read and write table id_gen_registry, and to execute pg_control_system()."
            }
            .to_owned(),
        ),
        StoreErrorKind::Certificate => (
            Code::ERRCODE_CONNECTION_FAILURE,
            "the certificate of the fleet's registry, or of this server, is invalid",
            "Correct id_gen.registry_ca_file, id_gen.registry_cert_file and id_gen.registry_key_file; for PostgreSQL, the URI in id_gen.registry.".to_owned(),
        ),
        StoreErrorKind::Driver => (
            Code::ERRCODE_UNDEFINED_FILE,
            "the library id_gen_registry cannot be loaded",
            "Install all files of the same version of id_gen, and restart the server if it runs another.".to_owned(),
        ),
        StoreErrorKind::NoGateway => (
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "etcd does not offer its JSON gateway",
            "Set enable-grpc-gateway: true in the configuration file of etcd, or configure etcd by flags or environment variables.".to_owned(),
        ),
        StoreErrorKind::NoSpace => (
            Code::ERRCODE_DISK_FULL,
            "etcd's disk quota is used up",
            format!("Free space, then enable writes again: {MAKE_ROOM_IN_ETCD} && etcdctl alarm disarm"),
        ),
        StoreErrorKind::NoQuorum => (
            Code::ERRCODE_CONNECTION_FAILURE,
            "etcd has lost the majority of its members",
            "Start the members. Servers continue until their grants end.".to_owned(),
        ),
        StoreErrorKind::OtherCluster => (
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            "id_gen.registry names different registries, or a different one than before",
            correct("Use the same registry on every server of the fleet"),
        ),
        StoreErrorKind::Restored => (
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            "etcd was restored to an older state",
            "Call again in a few seconds. For the servers that were down, a superuser can run once: SELECT id_gen_fleet_report_restore();".to_owned(),
        ),
        StoreErrorKind::NoTable => (
            Code::ERRCODE_UNDEFINED_TABLE,
            "the PostgreSQL server in id_gen.registry has no table id_gen_registry",
            "A superuser can create the table and the fleet: SELECT id_gen_fleet_create(); If the table is in another schema, add to id_gen.registry: ?options=-csearch_path%3D<schema>".to_owned(),
        ),
        StoreErrorKind::FormerPrimary => (
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the PostgreSQL server in id_gen.registry was replaced by a promoted standby",
            "Stop that server, or remove it from id_gen.registry. Or, if no server will ever use the promoted one again, a superuser can run on each server that reports this: SELECT id_gen_fleet_report_restore();".to_owned(),
        ),
        StoreErrorKind::ReadOnly => (
            Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            "the PostgreSQL server in id_gen.registry is read-only",
            "Set id_gen.registry to the primary, or to all its servers.".to_owned(),
        ),
        StoreErrorKind::Unexpected => (
            Code::ERRCODE_SYSTEM_ERROR,
            "the fleet's registry returned an invalid response",
            correct("See the log of the registry"),
        ),
    }
}

/// What endangers a registry that works, and the remedy.
pub fn danger(kind: WeaknessKind) -> (&'static str, String) {
    match kind {
        WeaknessKind::Failover => (
            "the registry could lose the grant in a failover",
            "On the server of the registry, make commits wait for a standby: ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf();".to_owned(),
        ),
        WeaknessKind::Quota => (
            "etcd's disk quota is nearly used up; when it is full, grants are not renewed",
            format!("Start every member with --auto-compaction-mode=periodic --auto-compaction-retention=1h, and make room: {MAKE_ROOM_IN_ETCD}"),
        ),
    }
}

/// What this server waits for that has no number, where nothing is wrong.
fn phase_words(phase: Option<Phase>) -> String {
    match phase {
        None | Some(Phase::Outside | Phase::Acquiring) => {
            "It is requesting a worker ID from the registry.".to_owned()
        }
        Some(Phase::StillHeld { number, until_ms }) => format!(
            "The grant of worker ID {}, which it had before, ends at {}, or is used by a copy of this data directory.",
            number.worker,
            format_ms(until_ms)
        ),
        Some(Phase::Waiting { until_ms }) => format!(
            "{} The wait ends sooner if a server renews its grant that has held its worker ID for longer.",
            waits("acquired", until_ms)
        ),
        Some(Phase::Unsettled) => "It is reading the state of the registry.".to_owned(),
        Some(Phase::Holding) => "The server just acquired it.".to_owned(),
        Some(Phase::Leaving | Phase::Left) => {
            "It has released its worker ID, because the server is shutting down or needs another one.".to_owned()
        }
    }
}

/// The hint that goes with it.
fn phase_hint(phase: Option<Phase>) -> String {
    match phase {
        Some(Phase::StillHeld { until_ms, .. }) => {
            format!("Call again in {}.", time_left(until_ms))
        }
        // A veteran ends it.
        Some(Phase::Waiting { until_ms }) => wait_hint(&format!(
            "{}, or in a few seconds if another server of the fleet has been running for longer",
            time_left(until_ms)
        )),
        _ => {
            "Call again in a few seconds. To see the current state: SELECT * FROM id_gen_status();"
                .to_owned()
        }
    }
}

/// Why something cannot be used yet that the server has only just.
pub fn waits(acquired: &str, until_ms: i64) -> String {
    format!(
        "The server just {acquired} it and waits until {}, in case the registry was restored from a backup and another server still uses it.",
        format_ms(until_ms)
    )
}

/// The hint that goes with it, with the time that is left.
pub fn wait_hint(left: &str) -> String {
    format!(
        "Call again in {left}. Or, if you are sure that the registry was not restored from a backup, a superuser can end the wait: SELECT id_gen_fleet_report_restore(restored => false);"
    )
}

/// The time until then in whole seconds, at least one.
pub fn time_left(until_ms: i64) -> String {
    let left_ms = until_ms.saturating_sub(unix_ms(clock::wall_ns())).max(0).unsigned_abs();
    format_duration(left_ms.div_ceil(1_000).max(1) * 1_000)
}

/// The words about a server that has no number.
pub fn no_grant(phase: Option<Phase>, trouble: Option<&Trouble>, registrar_runs: bool) -> Message {
    match trouble {
        Some(trouble) => trouble.public_message(),
        None if registrar_runs => Message::new(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            match phase {
                Some(Phase::Waiting { .. } | Phase::Holding) => "this server's worker ID cannot be used yet",
                _ => "this server has not acquired a worker ID yet",
            },
        )
        .detail(phase_words(phase))
        .hint(phase_hint(phase)),
        None => Message::new(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "this server has no worker ID and its registrar process is not running",
        )
        .detail("The registrar is a background worker, which starts within seconds if a worker process is free.")
        .hint(super::hint::more_worker_processes()),
    }
}

/// The words about a server whose grant is used up.
pub fn grant_used_up(until_ms: i64, trouble: Option<&Trouble>) -> Message {
    let what = trouble.map(Trouble::public_message);
    let (because, hint) = match what {
        Some(Message { primary, detail, hint, .. }) => {
            (format!(" because {primary}. {}", detail.unwrap_or_default()), hint)
        }
        None => (
            ".".to_owned(),
            "Call again in a few seconds. To see the current state: SELECT * FROM id_gen_status();"
                .to_owned(),
        ),
    };
    // An ID needs a grant for its own time, which may be ahead of the clock.
    let (primary, ends, not_renewed) = if until_ms > unix_ms(clock::wall_ns()) {
        (
            "this server's grant ends before the time of its next ID",
            "ends",
            "has not been renewed yet",
        )
    } else {
        ("this server's grant has expired", "ended", "was not renewed")
    };
    Message::new(Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, primary)
        .detail(format!("It {ends} at {} and {not_renewed}{because}", format_ms(until_ms)))
        .hint(hint)
}

/// Figures as a sentence of DETAIL.
fn sentence(figures: &str) -> String {
    let mut letters = figures.chars();
    let begins_with_word =
        figures.split(' ').next().is_some_and(|word| !word.contains(['_', ':', '/']));
    let sentence: String = match letters.next() {
        Some(first) if begins_with_word => first.to_uppercase().chain(letters).collect(),
        _ => figures.to_owned(),
    };
    if sentence.ends_with(['.', ':', ';']) { sentence } else { format!("{sentence}.") }
}
