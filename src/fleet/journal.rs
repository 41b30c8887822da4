//! What the registrar makes durable of each step, shows to other processes and logs.
//!
//! **Order.** First the disk, then the memory of the boot, then what claims rely on.

use std::time::Duration;

use id_gen_core::fleet::grant::Holder;
use id_gen_core::fleet::member::{Event, Member, Numbers, Phase, StoredNumber, Witness};
use id_gen_core::fleet::store::Weakness;
use id_gen_core::fleet::text::KeptRegistry;
use id_gen_core::fleet::{Listing, Number};
use id_gen_core::time::{NS_PER_MS, format_ms, unix_ms};
use pgrx::PgLogLevel;
use pgrx::prelude::*;

use crate::durable::number_file;
use crate::error::fleet::{COPIED_SERVERS, Text, Trouble, TroubleKind};
use crate::error::shards::ShardRefusal;
use crate::error::{Error, Reason, report};
use crate::os::clock;
use crate::shared::{Membership, SharedState, shard_list};

/// The longest wait for a process that writes the reservation.
const PATIENCE: Duration = Duration::from_millis(500);

/// How the registrar's steps are written down.
pub struct Journal {
    shared: &'static SharedState,
    /// What is on disk, as far as it was written.
    kept: Option<OnDisk>,
    /// What the memory of the boot says, as far as it was written.
    witness: Option<Option<Witness>>,
    /// Why its number could not be kept, and which shards keep it from being a member, as long as that is so.
    not_kept: Option<Trouble>,
    declared: Option<Trouble>,
    /// Numbers whose values could not be read.
    unreadable: Vec<Number>,
    membership: Membership,
}

/// What the disk says of the fleet and of this server's number.
#[derive(PartialEq, Eq)]
struct OnDisk {
    fleet: u128,
    server_id: u128,
    registry: Option<String>,
    /// The timeline of a registry on PostgreSQL. The revision of etcd, which changes all the time, is written along.
    timeline: Option<i64>,
    number: Option<StoredNumber>,
}

/// What the registrar knows of this server in its fleet.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// This server's place in it.
    pub member: &'a Member,
    /// The fleet's ID.
    pub fleet: u128,
    /// The registry that it belongs to, if it names one.
    pub registry: Option<KeptRegistry<'a>>,
}

impl Journal {
    /// Goes on from what the last registrar of this server left, but for its right: that is to be got anew.
    pub fn new(shared: &'static SharedState) -> Journal {
        let before = shared.lock().membership;
        let membership = Membership { counts: before.counts, ..Membership::default() };
        Journal {
            shared,
            kept: None,
            witness: None,
            not_kept: None,
            declared: None,
            unreadable: Vec::new(),
            membership,
        }
    }

    /// Takes note that a request was answered, and what came of it.
    pub fn answered(&mut self, event: Event, took_ns: u64, no_number: impl FnOnce() -> Trouble) {
        let Membership { counts, trouble, .. } = &mut self.membership;
        counts.last_request_ns = took_ns;
        counts.slowest_request_ns = counts.slowest_request_ns.max(took_ns);
        let trouble_before = trouble.take().filter(|it| !it.is_found_here());
        match event {
            Event::Quiet => *trouble = trouble_before.filter(|it| !it.an_answer_ends()),
            Event::Renewed => counts.renewals += 1,
            Event::Acquired(number) => {
                counts.acquisitions += 1;
                log(PgLogLevel::LOG, format!("this server has acquired {}", name(number)));
            }
            Event::Fenced(number) => {
                counts.fencings += 1;
                log(
                    PgLogLevel::WARNING,
                    format!(
                        "{} was acquired by another server, or released; this server no longer uses it",
                        name(number)
                    ),
                );
            }
            Event::RegistryRestored => {
                counts.restorations += 1;
                log(
                    PgLogLevel::WARNING,
                    "the fleet's registry was restored to an older state; this server reports that and acquires a worker ID again".to_owned(),
                );
            }
            Event::Copied => {
                log(
                    PgLogLevel::WARNING,
                    "another server uses a copy of this data directory, and is the same member of the fleet; this server becomes a new member, without shards".to_owned(),
                );
            }
            Event::ClockAhead { against, agree } => {
                self.trouble(Trouble::clock_ahead(against, agree), trouble_before);
                return;
            }
            Event::NoFreeNumber => {
                let found = no_number();
                self.trouble(found, trouble_before);
                return;
            }
        }
        if let Some(before) = trouble_before
            && self.membership.trouble.is_none()
        {
            log_over(&before);
        }
    }

    /// Takes note that the registry has answered, whatever it said, and of what endangers it.
    pub fn heard(&mut self, weakness: Option<Weakness>) {
        self.membership.answered_at_ns = Some(clock::wall_ns());
        self.membership.weakness = weakness.map(|it| (it.kind, Text::new(&it.detail)));
    }

    /// Takes note that the registry has answered about a range of numbers, so it is not silent any more.
    pub fn heard_of_range(&mut self) {
        self.membership.answered_at_ns = Some(clock::wall_ns());
        self.shared.put_membership(self.membership);
    }

    /// Takes note of the numbers whose values can't be read, which nobody gets: one line for an incident.
    pub fn listed(&mut self, listing: &Listing) {
        let grants = listing.grants.iter();
        let unreadable: Vec<_> =
            grants.filter(|(_, grant)| grant.is_unreadable()).map(|(number, _)| *number).collect();
        if unreadable != self.unreadable && !unreadable.is_empty() {
            let names: Vec<_> = unreadable.iter().copied().map(name).collect();
            log(
                PgLogLevel::WARNING,
                format!(
                    "the fleet's registry has invalid values of {}: no server can acquire these worker IDs; restore the former values: SELECT * FROM id_gen_fleet_members();",
                    names.join(", ")
                ),
            );
        }
        self.unreadable = unreadable;
    }

    /// Ends the trouble with a clock that an administrator has accepted.
    pub fn clock_accepted(&mut self) {
        let trouble = &mut self.membership.trouble;
        if let Some(trouble) = trouble.take_if(|it| it.kind == TroubleKind::ClockAhead) {
            log_over(&trouble);
            self.shared.put_membership(self.membership);
        }
    }

    /// Takes note that a request was of no use.
    pub fn failed(&mut self, trouble: Trouble) {
        self.membership.counts.failures += 1;
        let before = self.membership.trouble;
        self.trouble(trouble, before);
    }

    /// One line for an incident, not one for each time that it is met.
    fn trouble(&mut self, trouble: Trouble, before: Option<Trouble>) {
        self.membership.trouble = Some(trouble);
        if before.is_none_or(|before| before.kind != trouble.kind) {
            report::log(&Error::from(Reason::Fleet(trouble)), PgLogLevel::WARNING);
        }
    }

    /// Takes note that a number is about to be asked for. A server that has it already, and joins with it, makes nothing of
    /// that bound or later from here on: the first bound that was asked for, as long as none was acknowledged.
    pub fn requests(&mut self, number: Number, until_ms: i64) {
        if self.membership.acknowledged.is_none() {
            self.membership.requested.get_or_insert((number, until_ms));
            self.shared.put_membership(self.membership);
        }
    }

    /// Makes durable what has to be, and lets claims use the rest.
    pub fn write(&mut self, known: Option<Known<'_>>) {
        let member = known.map(|known| known.member);
        if let Some(known @ Known { member, .. }) = known {
            self.keep(known);
            // Before it has chosen, what was left by the last run still counts.
            let phase = member.phase();
            if !matches!(phase, Phase::Outside | Phase::Acquiring | Phase::StillHeld { .. }) {
                self.write_witness(member);
            }
        }
        self.membership.witness = member.and_then(|member| member.to_witness(i64::MIN));
        let acknowledged = member.and_then(Member::grant);
        self.membership.nonce = acknowledged.map(|(_, grant)| grant.nonce);
        self.membership.server_id = member.map_or(0, Member::server_id);
        self.membership.shard_wait_ms = member.map_or(0, Member::discovery_ms);
        self.membership.acknowledged = acknowledged.map(|(number, grant)| (number, grant.until_ms));
        if acknowledged.is_some() {
            self.membership.requested = None;
        }
        self.membership.phase = member.map(Member::phase);
        let grant = member.and_then(Member::active_grant);
        self.membership.active_grant = match grant {
            Some(grant) if self.has_no_declared_shards() => Some(grant),
            _ => None,
        };
        let trouble = self.membership.trouble.or(self.not_kept).or(self.declared);
        self.membership.trouble = trouble;
        self.shared.put_membership(self.membership);
    }

    /// Whether no shard of this server was declared. Before it is a member, an administrator releases those: nobody else
    /// tells the fleet how far they are.
    fn has_no_declared_shards(&mut self) -> bool {
        // As a member it has a layout.
        let Ok(layout) = self.shared.layout() else { return false };
        let found = match shard_list::declared(self.shared, layout) {
            Ok(shards) if shards.is_empty() => None,
            Ok(shards) => Some(Trouble::declared(&shards)),
            Err(error) => {
                let unread = ShardRefusal::Unreadable(error).message().primary;
                Some(Trouble::new(TroubleKind::ShardFile, &unread))
            }
        };
        note(&mut self.declared, found)
    }

    /// The holder of the lock, who writes the reservation, writes the witness too: the one that is in shared memory by then.
    fn write_witness(&mut self, member: &Member) {
        let wanted = member.to_witness(i64::MIN);
        if self.witness == Some(wanted) {
            return;
        }
        let Some(guard) = self.shared.write_lock.lock_within(PATIENCE) else { return };
        self.shared.lock().membership.witness = wanted;
        let reserved_ms = self.shared.allocated_ms().map_or(i64::MIN, |(_, reserved)| reserved);
        let written = number_file::write_witness(member.to_witness(reserved_ms).as_ref());
        drop(guard);
        match written {
            Ok(()) => self.witness = Some(wanted),
            Err(error) => report::log(&error, PgLogLevel::WARNING),
        }
    }

    /// Takes its number from this server, which stops or is to have another.
    pub fn revoke(&mut self) {
        self.membership.active_grant = None;
        self.membership.phase = Some(Phase::Leaving);
        self.shared.put_membership(self.membership);
    }

    fn keep(&mut self, Known { member, fleet, registry }: Known<'_>) {
        let server_id = member.server_id();
        let is_same = |before: &&OnDisk| (before.fleet, before.server_id) == (fleet, server_id);
        let before = self.kept.as_ref().filter(is_same);
        let number = member.to_store().or_else(|| before?.number);
        let timeline = registry.filter(|it| it.name.starts_with("postgresql "));
        let wanted = OnDisk {
            fleet,
            server_id,
            registry: registry.map(|it| it.name.to_owned()),
            timeline: timeline.and_then(|it| it.position),
            number,
        };
        if self.kept.as_ref() == Some(&wanted) {
            return;
        }
        let number = wanted.number.as_ref();
        let written = number_file::keep(server_id, number, registry, fleet);
        // What has failed may have reached the disk.
        self.kept = written.is_ok().then_some(wanted);
        let failed = written.err().map(|error| error.message().primary);
        note(&mut self.not_kept, failed.map(|failed| Trouble::new(TroubleKind::Disk, &failed)));
    }
}

/// Takes note of what this server found in its own directory: one line for an incident. Whether all is well there.
fn note(trouble: &mut Option<Trouble>, found: Option<Trouble>) -> bool {
    let before = *trouble;
    *trouble = found;
    match (before, *trouble) {
        (None, Some(trouble)) => {
            report::log(&Error::from(Reason::Fleet(trouble)), PgLogLevel::WARNING);
        }
        (Some(before), None) => log_over(&before),
        _ => {}
    }
    trouble.is_none()
}

/// Leaves nothing of a fleet that this server is not of any more: what was granted there must not bind a number that is
/// typed meanwhile, when the server joins with that.
pub fn forget(shared: &SharedState) {
    let counts = shared.lock().membership.counts;
    shared.put_membership(Membership { counts, ..Membership::default() });
}

fn log_over(trouble: &Trouble) {
    log(PgLogLevel::LOG, format!("resolved: {}", trouble.message().primary));
}

fn log(level: PgLogLevel, line: String) {
    ereport!(level, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, format!("id_gen: {line}"));
}

fn name(Number { datacenter, worker }: Number) -> String {
    match datacenter {
        0 => format!("worker ID {worker}"),
        _ => format!("worker ID {worker} of datacenter {datacenter}"),
    }
}

/// How many shards are named, where there are more.
const NAMED_SHARDS: usize = 8;

fn names(shards: &[Number]) -> String {
    let named = shards.iter().take(NAMED_SHARDS).map(|it| it.worker.to_string());
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if shards.len() > NAMED_SHARDS { ", ..." } else { "" };
    let word = if shards.len() == 1 { "shard" } else { "shards" };
    format!("{word} {named}{more}")
}

/// Why there is no number for this server: all those that it may take, from one listing.
pub fn no_number(listing: &Listing, allowed: Option<&Numbers>, typed: Option<Number>) -> Trouble {
    let is_allowed = |number: &&Number| allowed.is_some_and(|it| it.contain(**number));
    let shards: Vec<_> = listing.shards.iter().filter(is_allowed).collect();
    if let Some(number) = typed {
        if shards.contains(&&number) {
            let detail = format!("{} belongs to a shard", name(number));
            return Trouble::new(TroubleKind::NoFreeNumber, &detail);
        }
        let held = listing.grants.iter().find(|(held, _)| *held == number);
        if held.is_some_and(|(_, grant)| grant.is_unreadable()) {
            return Trouble::new(
                TroubleKind::Damaged,
                &format!("the value of {} cannot be read", name(number)),
            );
        }
        let by = held.map_or_else(String::new, |(_, grant)| {
            let Holder { host, port, .. } = &grant.holder;
            format!(
                ", by the server at port {port} of host {host}, until {}",
                format_ms(grant.until_ms)
            )
        });
        return Trouble::new(TroubleKind::Taken, &format!("{} is held{by}", name(number)));
    }
    let now_ms = unix_ms(clock::wall_ns());
    let held = listing.grants.iter().filter(|(_, grant)| grant.until_ms > now_ms);
    let first = held.clone().map(|(_, grant)| grant.until_ms).min();
    let free = first.map_or_else(String::new, |first_ms| {
        let in_s = first_ms.saturating_sub(now_ms) / 1000 + 1;
        format!("; the first grant ends in {in_s} s unless it is renewed")
    });
    let of_others = match allowed.map_or(0, Numbers::count_of_others) {
        0 => String::new(),
        count => format!("; excluded for {COPIED_SERVERS}: {count}"),
    };
    let mut detail = format!(
        "all worker IDs that this server can acquire are in use; held by servers: {}{of_others}{free}",
        held.count()
    );
    if !shards.is_empty() {
        let shards: Vec<_> = shards.into_iter().copied().collect();
        detail = format!("{detail}; used by {}", names(&shards));
    }
    Trouble::new(TroubleKind::NoFreeNumber, &detail)
}

/// How long something took that began at this time of the monotonic clock.
pub fn since_ns(began_boot_ms: u64) -> u64 {
    clock::mono_ns().saturating_sub(began_boot_ms.saturating_mul(NS_PER_MS))
}
