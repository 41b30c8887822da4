//! The registrar: a background worker that gets this server a number from its fleet's registry, and renews the grant of
//! it ahead of need.
//!
//! It runs wherever `id_gen.registry` is set, on a standby too, so that a promotion waits for nobody. A registry that
//! is silent holds up nothing but this process: sessions go on to the end of the grant, and the keeper and a stop of the
//! server never wait for it. What to ask when is decided by [`Member`], and what to write down by [`Journal`].
//!
//! Requests of sessions go over a connection of their own, so they neither delay a renewal nor fail one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use id_gen_core::clock::ClockMonitor;
use id_gen_core::fleet::member::{Event, Numbers, Phase};
use id_gen_core::fleet::shard::{self, Had};
use id_gen_core::fleet::store::{KeysError, StoreError, StoreErrorKind};
use id_gen_core::fleet::text::KeptRegistry;
use id_gen_core::fleet::wire::{self, Seen, Served};
use id_gen_core::fleet::{self, LocalInputs, Member, Meta, Number, Request, Terms};
use id_gen_core::planted::Fault;
use id_gen_core::startup::StoredRecord;
use id_gen_core::ticket;
use id_gen_core::ticket::shared::Answer;
use id_gen_core::time::NS_PER_MS;
use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;

use crate::durable::{self, number_file};
use crate::error::Error;
use crate::error::fleet::{Trouble, TroubleKind};
use crate::fleet::connection::{self, Bell, Connection, Found, Registry};
use crate::fleet::journal::{self, Journal, Known};
use crate::fleet::numbers;
use crate::os::{clock, random};
use crate::pg::worker::Worker;
use crate::pg::{reload, server};
use crate::settings;
use crate::settings::registry::RegistrySettings;
use crate::shared::requests::Ticket;
use crate::shared::shard_basis::ToOpen;
use crate::shared::tickets::Held;
use crate::shared::{Reader, SharedState, shard_list, workers};

/// The registrar, to the postmaster.
pub const WORKER: Worker =
    Worker { name: "id_gen registrar", function: "id_gen_registrar", on_standby: true };
/// How long a server that stops waits for the registry to take its number back.
const LAST_REQUEST: Duration = Duration::from_secs(1);
/// How long a wait may be at most, where nothing is due.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Whether the postmaster was asked for the registrar while it preloaded the library; every process inherits that.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Asks the postmaster to run the registrar, if the library is being preloaded on a server with a registry.
pub fn request() {
    if server::is_preloading() && settings::registry::is_set() {
        REQUESTED.store(true, Relaxed);
        WORKER.request();
    }
}

/// Has the registrar started on a server whose registry was named while it runs, or that does not preload the library.
/// Only for a process that could do so: see [`workers`].
pub fn start_if_missing(shared: &SharedState) {
    if settings::registry::is_set() {
        workers::start_if_missing(&WORKER, &shared.registrar, REQUESTED.load(Relaxed));
    }
}

/// The main function of the background worker.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn id_gen_registrar(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    // To no database: this makes it a row of pg_stat_activity.
    BackgroundWorker::connect_worker_to_spi(None, None);
    let Some(shared) = workers::begin(|shared| &shared.registrar) else { return };
    loop {
        shared.adopt_settings(Reader::Session);
        // A server for tests is in no fleet.
        let registry = settings::registry::current().filter(|_| shared.test_start().is_none());
        let end = match registry {
            Some(settings) => Registrar::new(shared, settings).run(),
            None => {
                journal::forget(shared);
                idle()
            }
        };
        if end == End::Stop {
            break;
        }
    }
    shared.registrar.leave();
    // As for the keeper: a worker that ended with status 0 is never started again.
    // SAFETY: ends this process, which holds nothing any more.
    unsafe { pg_sys::proc_exit(1) }
}

/// Why a registrar ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The server stops, or somebody has terminated this process.
    Stop,
    /// The settings are others.
    Settings,
}

/// Waits for a registry to be named.
fn idle() -> End {
    connection::wait(None, LONGEST_WAIT);
    if BackgroundWorker::sigterm_received() {
        return End::Stop;
    }
    read_reloaded_settings();
    End::Settings
}

fn read_reloaded_settings() {
    if BackgroundWorker::sighup_received() {
        reload::read_file();
    }
}

/// What comes of this server's own request. There is one at a time, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Reply {
    /// About its number.
    Member(Result<Found, KeysError>),
    /// About a range of numbers.
    Range(Result<Answer, KeysError>),
    /// About all its shards.
    Shards(Result<Vec<Had>, KeysError>),
}

/// What this server's own request on its way is about.
enum Subject {
    /// Its number.
    Member,
    /// A range for a ticket.
    Range(Held),
    /// Its shards.
    Shards(ToOpen<'static>),
}

/// An answer that a session has not read to its end.
struct PartlyGiven {
    ticket: Ticket,
    answer: Vec<u8>,
    given: usize,
}

/// A connection, and the one request that is on its way there.
struct Line<T, W> {
    connection: Option<Connection<T>>,
    asked: Option<Asked<W>>,
}

/// A request that is on its way.
struct Asked<W> {
    /// When it was sent.
    boot_ms: u64,
    /// The place or session that it is for.
    whom: W,
}

impl<T: Send + 'static, W> Line<T, W> {
    const fn new() -> Line<T, W> {
        Line { connection: None, asked: None }
    }

    /// Sends a request, where there is a connection.
    fn send(&mut self, whom: W, job: impl FnOnce(&mut Registry) -> T + Send + 'static) {
        if let Some(connection) = &self.connection {
            connection.send(job);
            self.asked = Some(Asked { boot_ms: boot_ms(), whom });
        }
    }

    /// The answer to it, or why the connection has ended.
    fn answer(&mut self) -> Option<Result<T, StoreError>> {
        let answer = self.connection.as_ref()?.answer()?;
        if answer.is_err() {
            self.connection = None;
        }
        Some(answer)
    }

    /// Whether the request has waited so long.
    fn is_late(&self, timeout_ms: u32) -> bool {
        self.asked
            .as_ref()
            .is_some_and(|asked| boot_ms().saturating_sub(asked.boot_ms) >= timeout_ms.into())
    }

    /// Ends the request, and returns the one it was for.
    fn end(&mut self) -> Option<W> {
        self.asked.take().map(|asked| asked.whom)
    }
}

/// A server that asks for a number with the settings of one time.
struct Registrar {
    shared: &'static SharedState,
    settings: RegistrySettings,
    /// Those that are allowed, or why none are.
    numbers: Result<Numbers, (TroubleKind, String)>,
    journal: Journal,
    /// Rung when there is an answer.
    bell: Option<Bell>,
    /// For its own requests: about a range of numbers, or its worker ID.
    own: Line<Reply, Subject>,
    /// For those of sessions.
    sessions: Line<Served, Ticket>,
    /// The state of registries, as both connections have found it.
    seen: Seen,
    /// The fleet, and this server's place in it, as soon as the registry has told of it.
    fleet: Option<(Meta, Member)>,
    /// The registry that the fleet belongs to, if it names one.
    registry: Option<String>,
    /// Whether another fleet has answered since this server's last did.
    is_elsewhere: bool,
    /// Answers that sessions have not read to their end.
    answers: Vec<PartlyGiven>,
    not_before_boot_ms: u64,
    /// Up to where IDs were reserved when this process started.
    reserved_ms: i64,
    /// The clocks as they were trusted before that.
    trusted_clocks: Option<ClockMonitor>,
    /// How many resets of the reservation, ends of waits, accepted clocks and reports of a restore it knows of.
    resets: u64,
    ended_waits: u64,
    clock_acceptances: u64,
    restores: u64,
}

fn seen_of(registry: Option<(String, i64)>) -> Seen {
    registry.map_or_else(Seen::default, |(name, position)| Seen::kept(name, position))
}

fn boot_ms() -> u64 {
    clock::mono_ns() / NS_PER_MS
}

impl Registrar {
    fn new(shared: &'static SharedState, settings: RegistrySettings) -> Registrar {
        let stored = durable::read().ok();
        let reserved_ms = stored.as_ref().and_then(StoredRecord::reserved_until_ms);
        let numbers = allowed_numbers(shared, &settings);
        // What came of requests of an earlier one, or of another registry, nobody knows.
        shared.tickets.drop_all();
        shared.requests.lose_taken();
        let (resets, ended_waits, clock_acceptances, restores) = {
            let state = shared.lock();
            (state.resets(), state.ended_waits, state.clock_acceptances, state.restores)
        };
        Registrar {
            shared,
            settings,
            numbers,
            journal: Journal::new(shared),
            bell: None,
            own: Line::new(),
            sessions: Line::new(),
            seen: seen_of(number_file::position()),
            fleet: None,
            registry: None,
            is_elsewhere: false,
            answers: Vec::new(),
            not_before_boot_ms: 0,
            reserved_ms: reserved_ms.unwrap_or(i64::MIN),
            trusted_clocks: stored.and_then(|stored| stored.trusted_clocks(durable::boot())),
            resets,
            ended_waits,
            clock_acceptances,
            restores,
        }
    }

    /// Goes on until the server stops, or the settings are others.
    fn run(mut self) -> End {
        let end = loop {
            self.shared.registrar.heartbeat();
            self.follow_reset();
            self.follow_end_of_wait();
            self.follow_accepted_clock();
            self.follow_restore();
            self.ask_own();
            self.ask_for_session();
            self.answer_sessions();
            self.wait(self.patience());
            if BackgroundWorker::sigterm_received() {
                break End::Stop;
            }
            read_reloaded_settings();
            if !self.goes_on_with_new_settings() {
                break End::Settings;
            }
        };
        self.leave();
        // A signal that came meanwhile ended one of those waits, but was not looked at.
        server::wake_up();
        end
    }

    /// Takes note that an administrator has reset the reservation, which then begins anew.
    fn follow_reset(&mut self) {
        let resets = self.shared.lock().resets();
        if resets == self.resets {
            return;
        }
        self.resets = resets;
        if let Some((_, reserved_ms)) = self.shared.allocated_ms() {
            self.reserved_ms = reserved_ms;
        }
        if let Some((_, member)) = &mut self.fleet {
            member.forget_reserved();
        }
        self.write();
    }

    /// Takes note that an administrator has ended the wait after an acquisition.
    fn follow_end_of_wait(&mut self) {
        let ended_waits = self.shared.lock().ended_waits;
        if ended_waits != self.ended_waits
            && let Some((_, member)) = &mut self.fleet
        {
            member.end_wait();
        }
        self.ended_waits = ended_waits;
    }

    /// Confirms the clock if an administrator has accepted it.
    fn follow_accepted_clock(&mut self) {
        let clock_acceptances = self.shared.lock().clock_acceptances;
        if clock_acceptances != self.clock_acceptances
            && let Some((_, member)) = &mut self.fleet
        {
            member.confirm_clock();
            self.journal.clock_accepted();
            self.clock_acceptances = clock_acceptances;
        }
    }

    /// Takes note that an administrator has reported here that the registry was restored: a server that another one had replaced
    /// is the registry again.
    fn follow_restore(&mut self) {
        let restores = self.shared.lock().restores;
        if restores != self.restores {
            self.restores = restores;
            self.give_up_session();
            self.believe_older();
            self.write();
        }
    }

    /// Whether the settings in force now are those that this one works with, or can be.
    fn goes_on_with_new_settings(&mut self) -> bool {
        if self.shared.keeper.running().is_none() {
            self.shared.adopt_settings(Reader::Session);
        }
        let settings = settings::registry::current();
        let fingerprint = settings.as_ref().map(RegistrySettings::fingerprint);
        if fingerprint != Some(self.settings.fingerprint()) {
            // No registrar of the former settings will come any more.
            self.shared.requests.lose_asked(self.settings.fingerprint());
        }
        let Some(settings) = settings else { return false };
        let numbers = allowed_numbers(self.shared, &settings);
        if settings.fleet != self.settings.fleet {
            return false;
        }
        if numbers != self.numbers {
            let (Ok(numbers), Some((_, member))) = (&numbers, &mut self.fleet) else {
                return false;
            };
            if !member.set_numbers(numbers.clone()) {
                return false;
            }
        }
        let elsewhere =
            RegistrySettings { worker_ids: settings.worker_ids.clone(), ..self.settings.clone() };
        if settings != elsewhere {
            // Another way to the registry. The number and its grant are the same, or will be found not to be.
            self.give_up_requests();
            let name = self.registry.clone();
            let of_fleet = name.and_then(|name| self.seen.position(&name).map(|it| (name, it)));
            self.seen = seen_of(of_fleet.or_else(number_file::position));
            self.not_before_boot_ms = 0;
        }
        (self.settings, self.numbers) = (settings, numbers);
        true
    }

    /// Asks what is due about this server's worker ID, or its tickets.
    fn ask_own(&mut self) {
        let now_boot_ms = boot_ms();
        if self.own.asked.is_some() || now_boot_ms < self.not_before_boot_ms {
            return;
        }
        if let Err((kind, wrong)) = &self.numbers {
            self.fail(Trouble::new(*kind, wrong));
            return;
        }
        let mut randoms = [0; 2];
        if let Err(error) = random::fresh(&mut randoms) {
            self.fail(Trouble::new(TroubleKind::System, &error.to_string()));
            return;
        }
        let local = self.local();
        let request = match &mut self.fleet {
            Some((meta, member)) => {
                member.set_holder(numbers::holder(member.server_id()));
                let mut randoms = randoms.into_iter();
                let Some(request) = member.next(&local, || randoms.next().unwrap_or_default())
                else {
                    // Another fleet has none of its ranges or shards.
                    if !self.is_elsewhere && !self.ask_for_range() {
                        self.ask_for_shards();
                    }
                    return;
                };
                Some((request, *meta))
            }
            None => None,
        };
        if !self.connect() {
            return;
        }
        if let Some((Request::Swap { number, new, .. }, _)) = &request {
            self.journal.requests(*number, new.until_ms);
            if !self.shared.has_made_below(*number, new.until_ms) {
                // Sessions were faster. The next bound is above what they have made.
                self.give_up_unsent();
                return;
            }
        }
        self.own.send(Subject::Member, move |registry| Reply::Member(registry.ask(request)));
    }

    /// Sees to it that there is a connection for its own requests, which is made with the first one.
    fn connect(&mut self) -> bool {
        if self.own.connection.is_none() {
            match self.connection() {
                Ok(connection) => self.own.connection = Some(connection),
                Err(error) => self.fail(Trouble::new(TroubleKind::System, &error.to_string())),
            }
        }
        self.own.connection.is_some()
    }

    fn connection<T: Send + 'static>(&mut self) -> io::Result<Connection<T>> {
        let timeout = Duration::from_millis(self.terms().timeout_ms.into());
        let bell = match &mut self.bell {
            Some(bell) => bell,
            none => none.insert(Bell::new()?),
        };
        Connection::new(&self.settings, timeout, self.seen.clone(), bell)
    }

    /// Passes on what a session asks, where no other request of a session is on its way.
    fn ask_for_session(&mut self) {
        if self.sessions.asked.is_some() {
            return;
        }
        let Some((ticket, call)) = self.shared.requests.take(self.settings.fingerprint()) else {
            return;
        };
        // A restore may have been reported before the request.
        self.follow_restore();
        if self.sessions.connection.is_none() {
            match self.connection() {
                Ok(connection) => self.sessions.connection = Some(connection),
                Err(error) => {
                    let answer = wire::refusal(wire::unexpected(error.to_string()));
                    self.answers.push(PartlyGiven { ticket, answer, given: 0 });
                }
            }
        }
        self.sessions.send(ticket, move |registry| registry.serve(&call));
    }

    /// Gives sessions as much of their answers as there is room for.
    fn answer_sessions(&mut self) {
        let requests = &self.shared.requests;
        self.answers.retain_mut(|PartlyGiven { ticket, answer, given }| {
            let Some(more) = requests.answer(*ticket, &answer[*given..]) else { return false };
            *given += more;
            *given < answer.len()
        });
    }

    /// Asks for a range of numbers that sessions want, where nothing else is due; whether it did. What is wrong with one ticket
    /// is told to those who wait for that one.
    fn ask_for_range(&mut self) -> bool {
        let Some(meta) = self.fleet.as_ref().map(|(meta, _)| *meta) else { return false };
        if !self.shared.tickets.wants() || !self.connect() {
            return false;
        }
        let Some((held, wanted)) = self.shared.tickets.next_wanted() else { return false };
        self.own.send(Subject::Range(held), move |registry| {
            Reply::Range(registry.in_fleet(&meta, |keys| ticket::shared::take(keys, &wanted)))
        });
        true
    }

    /// Asks for all shards that this server has, where one may be opened, and nothing else is due.
    fn ask_for_shards(&mut self) {
        let shared = self.shared;
        let Some(meta) = self.fleet.as_ref().map(|(meta, _)| *meta) else { return };
        let (to_open, now_ms, membership) = {
            let mut state = shared.lock();
            let to_open = shared.shards_to_open(&mut state);
            (to_open, state.trusted_ms(None), state.membership)
        };
        let Some(to_open) = to_open.filter(|it| it.due_ms <= now_ms) else { return };
        let Some(member) = numbers::own_member(&membership) else { return };
        if self.connect() {
            self.own.send(Subject::Shards(to_open), move |registry| {
                Reply::Shards(registry.in_fleet(&meta, |keys| shard::had(keys, &member, now_ms)))
            });
        }
    }

    /// The registry says which shards this server has.
    fn open_shards(&self, ToOpen { look, asked, .. }: &ToOpen<'static>, had: &[Had]) {
        let Ok(layout) = self.shared.layout() else { return };
        let mut state = self.shared.lock();
        for asked in asked {
            if let Ok(index) = had.binary_search_by_key(&asked.number, |had| had.number) {
                self.shared.open_confirmed(&mut state, layout, look.basis, asked, &had[index]);
            }
        }
        state.shards.looked = Some(*look);
    }

    /// The own request on its way has no answer.
    fn end_own(&mut self) {
        if let Some(Subject::Range(held)) = self.own.end() {
            self.shared.tickets.answered(held, None);
        }
    }

    /// The session's request on its way has this answer.
    fn end_session(&mut self, answer: Vec<u8>) {
        if let Some(ticket) = self.sessions.end() {
            self.answers.push(PartlyGiven { ticket, answer, given: 0 });
        }
    }

    fn terms(&self) -> Terms {
        self.fleet.as_ref().map_or(Terms::DEFAULT, |(meta, _)| meta.terms)
    }

    /// How long there is nothing to do but wait.
    fn patience(&self) -> Duration {
        let requests = &self.shared.requests;
        let timeout_ms = u64::from(self.terms().timeout_ms);
        let of_sessions_boot_ms = match &self.sessions.asked {
            Some(asked) => asked.boot_ms + timeout_ms,
            None if requests.wants(self.settings.fingerprint()) => 0,
            None => u64::MAX,
        };
        let due_boot_ms = match (&self.own.asked, &self.fleet) {
            (Some(asked), _) => asked.boot_ms + timeout_ms,
            (None, Some((_, member))) => {
                let wanted = match self.shared.tickets.wants() {
                    _ if self.is_elsewhere => u64::MAX,
                    true => 0,
                    false => self.shards_due_boot_ms(),
                };
                member
                    .next_at_boot_ms()
                    .unwrap_or(u64::MAX)
                    .min(wanted)
                    .max(self.not_before_boot_ms)
            }
            (None, None) => self.not_before_boot_ms,
        };
        let due_boot_ms = due_boot_ms.min(of_sessions_boot_ms);
        Duration::from_millis(due_boot_ms.saturating_sub(boot_ms())).min(LONGEST_WAIT)
    }

    /// When the registry is to be asked for this server's shards.
    fn shards_due_boot_ms(&self) -> u64 {
        let mut state = self.shared.lock();
        let due_ms = self.shared.shards_to_open(&mut state).map(|it| it.due_ms);
        due_ms.map_or(u64::MAX, |due_ms| {
            let left_ms = due_ms.saturating_sub(state.trusted_ms(None)).max(0);
            boot_ms().saturating_add(left_ms.unsigned_abs())
        })
    }

    /// Waits, and takes note of answers, or of none.
    fn wait(&mut self, patience: Duration) {
        connection::wait(self.bell.as_ref(), patience);
        let timeout_ms = self.terms().timeout_ms;
        match self.own.answer() {
            Some(Ok(Reply::Member(Ok(found)))) => self.answered(found),
            Some(Ok(Reply::Range(Ok(answer)))) => {
                self.journal.heard_of_range();
                if let Some(Subject::Range(held)) = self.own.end() {
                    self.shared.tickets.answered(held, Some(answer));
                }
            }
            Some(Ok(Reply::Shards(Ok(had)))) => {
                if let Some(Subject::Shards(to_open)) = self.own.end() {
                    self.open_shards(&to_open, &had);
                }
            }
            Some(Ok(
                Reply::Member(Err(error)) | Reply::Range(Err(error)) | Reply::Shards(Err(error)),
            )) => {
                self.fail((&error).into());
            }
            Some(Err(error)) => self.fail((&KeysError::Store(error)).into()),
            None if self.own.is_late(timeout_ms) => {
                // An answer that still comes must not be taken for that to another request.
                self.own.connection = None;
                self.fail((&KeysError::Store(connection::no_answer())).into());
            }
            None => {}
        }
        match self.sessions.answer() {
            Some(Ok(Served { answer, refused })) => {
                if refused.is_some() {
                    // The next one finds out what is there by then.
                    self.sessions.connection = None;
                }
                self.end_session(answer);
                if refused == Some(StoreErrorKind::Restored) {
                    self.believe_older();
                    self.write();
                }
            }
            Some(Err(error)) => self.end_session(wire::refusal(error)),
            None if self.sessions.is_late(timeout_ms) => self.give_up_session(),
            None => {}
        }
    }

    fn answered(&mut self, Found { meta, registry, answer, weakness }: Found) {
        if let Some(registry) = &registry
            && let Some(own) = self.other_registry(&meta, registry)
        {
            let joins = self.shared.lock().is_accepted(meta.id);
            if !joins && !Fault::OtherFleetJoined.is_planted() {
                self.is_elsewhere = true;
                self.fail(Trouble::other_fleet(&own, registry));
                return;
            }
            // It leaves its fleet, and joins this one as after a restart.
            (self.fleet, self.registry) = (None, None);
            self.shared.tickets.drop_all();
        } else {
            // Only what this server is told while it is elsewhere counts.
            self.shared.lock().accepted_fleet = None;
        }
        self.is_elsewhere = false;
        self.journal.heard(weakness);
        let is_moved = self.registry.is_some() && registry != self.registry;
        self.registry = registry;
        if is_moved {
            // To another registry, with the state that it had at some time.
            self.own.end();
            self.doubt_registry();
            self.write();
            return;
        }
        let took_ns =
            journal::since_ns(self.own.asked.take().map_or_else(boot_ms, |asked| asked.boot_ms));
        let local = self.local();
        let Some(answer) = answer else {
            self.adopt(meta);
            return;
        };
        let Some((_, member)) = &mut self.fleet else { return };
        let listing = match &answer {
            fleet::Answer::Listing(listing) => Some(listing.clone()),
            _ => None,
        };
        if let Some(listing) = &listing {
            self.journal.listed(listing);
        }
        let event = member.answered(answer, &local, |count| {
            usize::try_from(random::bits().unwrap_or(0) % count.max(1) as u64).unwrap_or(0)
        });
        let allowed = self.numbers.as_ref().ok();
        let typed = allowed
            .filter(|numbers| numbers.is_one())
            .filter(|_| settings::identity().worker.is_some())
            .map(|&Numbers { datacenter, first, .. }| Number { datacenter, worker: first });
        self.journal.answered(event, took_ns, || {
            journal::no_number(&listing.unwrap_or_default(), allowed, typed)
        });
        if matches!(
            event,
            Event::Acquired(_) | Event::Fenced(_) | Event::Copied | Event::RegistryRestored
        ) {
            // Nobody knows what the registry has forgotten, or who has a copy of this server.
            self.shared.tickets.drop_all();
        }
        match event {
            Event::NoFreeNumber | Event::ClockAhead { .. } => self.pause(),
            Event::Copied => self.replace_identity(),
            _ => {}
        }
        self.write();
    }

    /// Gives this server a new identity, because another server uses the same one.
    fn replace_identity(&mut self) {
        let Some((_, member)) = &mut self.fleet else { return };
        let mut fresh = [0];
        match random::fresh(&mut fresh) {
            Ok(()) => {
                member.replace_identity(fresh[0]);
                if let Ok(layout) = self.shared.layout() {
                    shard_list::forget_of_fleet(self.shared, layout);
                }
            }
            Err(error) => self.fail(Trouble::new(TroubleKind::System, &error.to_string())),
        }
    }

    /// The registry of this server's fleet, if that is another fleet than the one that was found, in another registry: its own
    /// would not know of the numbers that it gets there.
    fn other_registry(&self, found: &Meta, registry: &str) -> Option<String> {
        match &self.fleet {
            Some((known, _)) => {
                self.registry.clone().filter(|own| known.id != found.id && own != registry)
            }
            None => number_file::other_registry(found.id, registry),
        }
    }

    /// The registry has this fleet: one that this server can join, or not.
    fn adopt(&mut self, meta: Meta) {
        let layout = match self.shared.layout() {
            Ok(layout) => *layout,
            Err(error) => {
                self.fail(Trouble::new(TroubleKind::Setting, &error.message().primary));
                return;
            }
        };
        if meta.layout != layout {
            self.fail(Trouble::other_layout(&meta.layout, &layout));
            return;
        }
        let Ok(numbers) = &self.numbers else { return };
        let made = self.shared.lock().made_fleet.take_if(|made| made.0 == meta.id);
        match &mut self.fleet {
            Some((known, member)) => {
                member.unanswered();
                member.set_terms(meta.terms);
                *known = meta;
                self.shared.tickets.drop_all();
            }
            None => {
                let (server_id, kept) = number_file::kept(meta.id).unwrap_or_default();
                // A standby makes no IDs, whatever it made before as a primary: its shards are for its primary to take.
                let server_id = server_id.filter(|_| !server::is_in_recovery());
                let mut fresh = [0];
                if let Err(error) = random::fresh(&mut fresh) {
                    self.fail(Trouble::new(TroubleKind::System, &error.to_string()));
                    return;
                }
                let holder = numbers::holder(server_id.unwrap_or(fresh[0]));
                let witness = number_file::witness();
                let mut member = Member::new(meta.terms, numbers.clone(), holder, kept, witness);
                // A server that has generated before may have been a member, and have made the fleet anew, which was lost.
                if let Some((_, asked_boot_ms)) = made.filter(|_| !durable::has_reserved()) {
                    member.found_fleet(asked_boot_ms);
                }
                self.fleet = Some((meta, member));
            }
        }
    }

    /// A request was of no use.
    fn fail(&mut self, trouble: Trouble) {
        self.end_own();
        let kind = match trouble.kind {
            TroubleKind::Store(kind) => Some(kind),
            _ => None,
        };
        if let Some((_, member)) = &mut self.fleet {
            member.unanswered();
        }
        if matches!(kind, Some(StoreErrorKind::OtherCluster | StoreErrorKind::Restored)) {
            // The next connection finds out whether all are of one registry by now. A fleet that names its registry gives nothing
            // in another one, nor believes anything that this says.
            self.own.connection = None;
            self.give_up_session();
        }
        if kind == Some(StoreErrorKind::Restored) {
            self.believe_older();
        }
        self.pause();
        self.journal.failed(trouble);
        self.write();
    }

    /// The registry is in an older state than before, or an administrator has decided for a former primary.
    fn believe_older(&mut self) {
        (self.own.connection, self.seen) = (None, Seen::default());
        self.end_own();
        if let Some((_, member)) = &mut self.fleet {
            member.unanswered();
        }
        // A restore of another fleet's registry does not concern this server.
        if !self.is_elsewhere {
            self.doubt_registry();
        }
    }

    /// The registry may have forgotten what it acknowledged, here and to others.
    fn doubt_registry(&mut self) {
        if let Some((_, member)) = &mut self.fleet {
            member.unanswered();
            member.doubt_registry();
            self.shared.tickets.drop_all();
        }
    }

    /// Waits no longer for answers. One that still comes must not be taken for that to another request.
    fn give_up_requests(&mut self) {
        self.own.connection = None;
        if self.own.asked.is_some()
            && let Some((_, member)) = &mut self.fleet
        {
            member.unanswered();
        }
        self.end_own();
        self.give_up_session();
    }

    /// Waits no longer for the answer to a session's request, nor on that connection for any.
    fn give_up_session(&mut self) {
        self.sessions.connection = None;
        self.end_session(wire::refusal(connection::no_answer()));
    }

    /// Asks for nothing now, after all.
    fn give_up_unsent(&mut self) {
        if let Some((_, member)) = &mut self.fleet {
            member.unanswered();
        }
        self.pause();
    }

    fn pause(&mut self) {
        let retry_ms = self.terms().retry_ms();
        let more_ms = random::bits().unwrap_or(0) % retry_ms;
        self.not_before_boot_ms = boot_ms() + retry_ms + more_ms;
    }

    fn write(&mut self) {
        let registry = self.registry.as_deref();
        let registry =
            registry.map(|name| KeptRegistry { name, position: self.seen.position(name) });
        self.journal.write(self.fleet.as_ref().map(|(meta, member)| Known {
            member,
            fleet: meta.id,
            registry,
        }));
    }

    /// Gives the number back, if the registry takes it at once.
    fn leave(mut self) {
        self.journal.revoke();
        self.shared.requests.lose_taken();
        let Some((_, member)) = &mut self.fleet else { return };
        member.leave();
        self.sessions = Line::new();
        if self.own.asked.take().is_some() {
            self.own.connection = None;
        }
        self.not_before_boot_ms = 0;
        let until_boot_ms = boot_ms() + LAST_REQUEST.as_millis() as u64;
        loop {
            let left =
                !self.fleet.as_ref().is_some_and(|(_, member)| member.phase() != Phase::Left);
            let patience_ms = until_boot_ms.saturating_sub(boot_ms());
            if left || patience_ms == 0 || self.not_before_boot_ms > 0 {
                return;
            }
            self.ask_own();
            self.wait(Duration::from_millis(patience_ms).min(self.patience()));
        }
    }

    fn local(&self) -> LocalInputs {
        let wall_ms = self.shared.lock().trusted_ms(self.trusted_clocks);
        let (frontier_ms, reserved_ms) =
            self.shared.allocated_ms().unwrap_or((wall_ms, self.reserved_ms));
        LocalInputs { wall_ms, boot_ms: boot_ms(), frontier_ms, reserved_ms }
    }
}

fn allowed_numbers(
    shared: &SharedState,
    settings: &RegistrySettings,
) -> Result<Numbers, (TroubleKind, String)> {
    let because = |kind| move |error: Error| (kind, error.message().primary);
    let layout = shared.layout().map_err(because(TroubleKind::Setting))?;
    let originals =
        numbers::originals(shared, layout).map_err(because(TroubleKind::Reservation))?;
    numbers::allowed(layout, &settings::identity(), &settings.worker_ids, originals)
        .map_err(|wrong| (TroubleKind::Setting, wrong))
}
