//! What may be wrong with this server, and what to type then: the rows of `id_gen_check()`.
//!
//! What refuses a call now is shown in that error's own words; the other checks find what is going to.
//! A remedy ends, where there is one, in what to type, after a colon.

use std::sync::atomic::Ordering::Relaxed;

use id_gen_base::error::layout::MORE_ROOM;
use id_gen_core::directory::Directory;
use id_gen_core::fleet::Number;
use id_gen_core::identity::{Identity, IdentitySource};
use id_gen_core::layout::{Field, Layout};
use id_gen_core::lead::{Lead, LeadLevel, LeadLimit};
use id_gen_core::planted::Fault;
use id_gen_core::presets::name_or_text;
use id_gen_core::profile::kind::{Kind, Plausibility};
use id_gen_core::shard_file::SHARD_FILE;
use id_gen_core::shards::Place;
use id_gen_core::ticket::shared::NoRange;
use id_gen_core::time::{NS_PER_MS, NS_PER_S, format_duration, format_ms, unix_ms};
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;

use crate::durable;
use crate::error::fleet::TroubleKind;
use crate::error::shards::{MAKE_ROOM, ShardRefusal, TRIES_AGAIN, UNWRITTEN, recovery_line};
use crate::error::test_server::UNSET;
use crate::error::{self, Error, Message, Reason, counted, hint, ticket};
use crate::fleet::commands;
use crate::generate::startup::{self, Outlook};
use crate::generate::{shards, test_server};
use crate::observe::catalog_queries::{
    self as catalog, Column, FileSetting, Holds, TicketSequence,
};
use crate::observe::narrow_columns::{self, NarrowColumn};
use crate::observe::readiness;
use crate::os::clock;
use crate::pg::sequence::Definition;
use crate::pg::text::in_error;
use crate::pg::{schema, server};
use crate::settings::{self, Settings};
use crate::shared::shard_list::{self, OwnedShard};
use crate::shared::shards::{ABOVE_MARGIN_MS, Basis, FileState, ShardState};
use crate::shared::tickets::PLACES;
use crate::shared::worker_place::Missing;
use crate::shared::{Counts, FleetCounts, Membership, SharedState, memory};

const MS_PER_YEAR: i64 = 31_556_952_000;
/// A layout that ends sooner is worth planning for: 5 years.
const ENDS_SOON_MS: i64 = 5 * MS_PER_YEAR;
/// A write that takes longer could make calls wait if it came at the wrong time: 1 s.
const SLOW_WRITE_NS: u64 = NS_PER_S;
/// The keeper runs every second; after so long it is late: 10 s.
const LATE_NS: u64 = 10 * NS_PER_S;
/// What is wrong where no keeper runs.
const NO_KEEPER: &str = "the background worker is not running; sessions write the reservation";
/// A sequence of tickets that ends sooner is worth planning for.
const ENDS_SOON_DAYS: f64 = 90.0;
const SECONDS_PER_DAY: f64 = 86_400.0;
/// Share of a sequence from which on there is little room left.
const MOSTLY: f64 = 0.8;

/// What a check found.
enum CheckResult {
    /// Nothing to do.
    Fine(String),
    /// Something is going to go wrong, or did: what, and the remedy.
    Warning(String, String),
    /// Something is wrong now.
    Wrong(String, String),
}

use CheckResult::{Fine, Warning, Wrong};

/// A row of the answer.
pub struct Row {
    /// The check.
    pub name: &'static str,
    /// `ok`, `warning` or `error`.
    pub status: &'static str,
    /// What was found.
    pub found: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl CheckResult {
    /// What a call would be refused with.
    fn failing(error: &Error) -> CheckResult {
        let Message { primary, detail, hint, .. } = error.message();
        let detail = detail.map(|detail| format!(". {detail}")).unwrap_or_default();
        Wrong(format!("{primary}{detail}"), hint)
    }

    /// The functions that show checks have a search path of their own, so what a remedy says to type
    /// names the schemas of our extensions.
    fn into_row(self, name: &'static str) -> Row {
        let (status, found, remedy) = match self {
            Fine(found) => ("ok", found, None),
            Warning(found, remedy) => ("warning", found, Some(remedy)),
            Wrong(found, remedy) => ("error", found, Some(remedy)),
        };
        let remedy = remedy.map(|remedy| schema::qualified(&remedy));
        Row { name, status, found, remedy }
    }
}

/// A server that has its shared state, as most checks find it.
struct CheckedServer {
    shared: &'static SharedState,
    settings: Settings,
    identity: Identity,
    layout: Layout,
    /// Its next IDs, or why it does not generate.
    outlook: Result<Outlook, Error>,
    now_ms: i64,
}

impl CheckedServer {
    fn new(shared: &'static SharedState) -> Result<CheckedServer, Error> {
        let layout = *shared.layout()?;
        let now_ms = unix_ms(clock::wall_ns());
        let outlook = readiness::outlook(shared);
        let (settings, identity) = readiness::settings_of(Some(shared));
        Ok(CheckedServer { shared, settings, identity, layout, outlook, now_ms })
    }

    /// Whether this server is meant to generate and could, as far as its numbers go.
    fn generates(&self) -> bool {
        self.identity.node_bits(&self.layout).is_ok()
    }

    /// The lowest position that it has never allocated; zero where it does not generate.
    fn next_position(&self) -> u64 {
        self.outlook.as_ref().map_or(0, |outlook| outlook.allocator.frontier().position())
    }

    /// How to assign another worker ID, as the end of a sentence.
    fn assign_another_worker_id(&self) -> String {
        hint::assign_worker_id(self.layout.max_number(Field::Worker), hint::UNUSED)
    }
}

/// All checks of this server, as far as the role may see them.
///
/// # Errors
/// If the catalogs can't be read.
pub fn all() -> Result<Vec<Row>, Error> {
    let (may_read, role) = catalog::reader()?;
    let mut checks = vec![("privileges", privileges(may_read, &role))];
    if may_read {
        let shared = readiness::shared();
        checks.push(("preload", preload(shared.as_ref().err())));
        checks.push(("settings", names_of_settings()?));
        checks.push(("recovery", recovery()));
        if let Ok(shared) = shared {
            checks.push(("test_server", for_tests(shared)));
            of_server(shared, &mut checks)?;
        }
    }
    checks.push(("column_types", column_types()?));
    if may_read {
        checks.push(("tickets", tickets()?));
    }
    Ok(checks.into_iter().map(|(name, result)| result.into_row(name)).collect())
}

/// Whether the newest ID stored in a column, which a caller may have read already, is above what this server has handed out.
///
/// # Errors
/// If there is no such column that can be read, or it holds no numbers.
pub fn stored_ids(
    relation: pg_sys::Oid,
    column_name: DatumWithOid<'_>,
    newest: Option<i64>,
) -> Result<Row, Error> {
    let column = catalog::column::<Error>(relation, column_name)?;
    let Holds::Numbers = column.holds else {
        let Column { table, name, type_name, .. } = column;
        let column = in_error(&format!("{table}.{name}"));
        return Err(Reason::NoNumbers { column, type_name: in_error(&type_name) }.into());
    };
    if let Some(newest) = newest {
        return Ok(newest_stored(&column, newest));
    }
    let newest = catalog::newest(&column)?;
    if catalog::hides_rows(relation)? {
        return Ok(Warning(
            format!(
                "row security hides rows of {} from this role, so nothing was checked",
                column.table
            ),
            "Run this as the owner of the table, or as a role with BYPASSRLS.".to_owned(),
        )
        .into_row("stored_ids"));
    }
    Ok(match newest {
        None => Fine(format!("{} is empty", column.table)).into_row("stored_ids"),
        Some(newest) => newest_stored(&column, newest),
    })
}

/// The same of this one.
fn newest_stored(column: &Column, newest: i64) -> Row {
    let result = match readiness::shared().and_then(CheckedServer::new) {
        Err(error) => CheckResult::failing(&error),
        Ok(server) => newest_id(&server, column, newest),
    };
    result.into_row("stored_ids")
}

fn of_server(
    shared: &'static SharedState,
    checks: &mut Vec<(&'static str, CheckResult)>,
) -> Result<(), Error> {
    checks.push(("layout", layout(shared)));
    let Ok(on) = CheckedServer::new(shared) else { return Ok(()) };
    checks.extend([
        ("worker_id", worker_id(&on)?),
        ("fleet", fleet(&on)),
        ("shards", shards(&on)),
        ("layout_end", layout_end(&on)),
        ("clock_jump", clock_jump(&on)),
        ("clock_steps", clock_steps(&on)),
        ("ordered_uuids", ordered_uuids(&on)),
        ("clock_synchronized", clock_synchronized()),
        ("lead", lead(&on)),
        ("reservation", reservation(&on)),
        ("keeper", keeper(&on)),
        ("sequence", sequence(&on)),
        ("max_lead", max_lead(&on)),
    ]);
    Ok(())
}

fn privileges(may_read: bool, role: &str) -> CheckResult {
    if may_read {
        return Fine(format!("role {role} may read this server's statistics"));
    }
    Warning(
        format!("role {role} cannot read this server's statistics, so most checks are skipped"),
        format!("A superuser can run: GRANT pg_monitor TO {role};"),
    )
}

fn preload(refused: Option<&Error>) -> CheckResult {
    match refused {
        Some(error) => CheckResult::failing(error),
        None if memory::is_preloaded() => Fine("loaded when the server started".to_owned()),
        None => Fine("not preloaded; sessions load the library".to_owned()),
    }
}

/// What the configuration files name as a parameter of ours that is none: PostgreSQL ignores it, and says so in its log.
fn names_of_settings() -> Result<CheckResult, Error> {
    let Some(settings) = catalog::file_settings()? else {
        return Ok(Fine("this role may not read the configuration files".to_owned()));
    };
    let listed = |is_meant: &dyn Fn(&FileSetting) -> bool| {
        let meant = settings.iter().filter(|setting| is_meant(setting));
        meant.map(|it| format!("{} ({})", it.name, it.place)).collect::<Vec<_>>()
    };
    let overridden = listed(&|setting| setting.is_overridden);
    if !overridden.is_empty() {
        return Ok(Warning(
            format!(
                "set on the server's command line, so ALTER SYSTEM has no effect: {}",
                overridden.join(", ")
            ),
            "Change the command line that starts the server, and restart the server.".to_owned(),
        ));
    }
    let unknown = listed(&|setting| !settings::known::OWN.has(&setting.name));
    if unknown.is_empty() {
        return Ok(Fine("the configuration files have no unknown parameter of id_gen".to_owned()));
    }
    Ok(Warning(
        format!("unknown parameters of id_gen, which have no effect: {}", unknown.join(", ")),
        "Correct or remove the line, and reload. To list the parameters: SELECT name FROM pg_settings WHERE name LIKE 'id\\_gen.%';".to_owned(),
    ))
}

fn recovery() -> CheckResult {
    if !server::is_in_recovery() {
        return Fine("not a standby".to_owned());
    }
    Warning(
        "this server is a standby: it generates no snowflakes".to_owned(),
        "Generate on the primary; or, once that is permanently stopped, promote this server: SELECT pg_promote();".to_owned(),
    )
}

/// Whether the server's IDs are the same in each run, and what waits for a restart.
fn for_tests(shared: &SharedState) -> CheckResult {
    if let Err(error) = test_server::check(shared) {
        return CheckResult::failing(&error);
    }
    let start = shared.test_start();
    if settings::test_start() != start {
        let found = "id_gen.test_start was changed, but the mode of a running server cannot change";
        return Warning(found.to_owned(), "Restart the server.".to_owned());
    }
    match start {
        None => Fine("not in test mode".to_owned()),
        Some(_) => Warning(
            format!(
                "this server is in test mode: its IDs are the same in each run, and its test clock shows {}",
                format_ms(unix_ms(clock::wall_ns()))
            ),
            format!(
                "Do not mix its data with that of other servers. For unique IDs, create a new data directory; or {UNSET} and run: SELECT id_gen_test_mode_end();"
            ),
        ),
    }
}

/// The layout of the running server, and the one that waits for a restart.
fn layout(shared: &SharedState) -> CheckResult {
    let in_force = match shared.layout() {
        Ok(layout) => layout,
        Err(error) => return CheckResult::failing(&error),
    };
    match settings::layout() {
        Ok(wanted) if wanted == *in_force => {
            Fine(format!("{}, {} IDs per second", name_or_text(in_force), in_force.per_second()))
        }
        Ok(wanted) => pending_layout(shared, &wanted, in_force),
        Err(invalid) => CheckResult::failing(&durable::invalid_layout(invalid)),
    }
}

/// A layout that waits for a restart, which may be the end of generating.
fn pending_layout(shared: &SharedState, wanted: &Layout, in_force: &Layout) -> CheckResult {
    let found = format!(
        "id_gen.layout is {}, but the running server keeps {}",
        name_or_text(wanted),
        name_or_text(in_force)
    );
    let tried =
        if server::is_in_recovery() { Ok(()) } else { startup::try_layout(shared, *wanted) };
    let nothing = match tried {
        Err(error) => {
            let Message { primary, detail, .. } = error.message();
            format!("{primary}. {}", detail.unwrap_or_default())
        }
        Ok(()) if shared.lock().settings.has_registry => {
            "the fleet has the layout of the running server.".to_owned()
        }
        Ok(()) => return Warning(found, "Restart the server.".to_owned()),
    };
    Wrong(
        format!("{found}; after a restart it would generate nothing: {nothing}"),
        format!(
            "Restore the old layout: ALTER SYSTEM SET id_gen.layout = '{}'; SELECT pg_reload_conf();",
            name_or_text(in_force)
        ),
    )
}

/// The shards of this server: what keeps it from making their IDs, now or after a restart.
fn shards(on: &CheckedServer) -> CheckResult {
    if server::is_in_recovery() {
        return Fine("not needed on a standby".to_owned());
    }
    let (ShardState { file: in_memory, unwritten, .. }, basis, datacenter) = {
        let state = on.shared.lock();
        (state.shards, state.shard_basis(), state.typed_datacenter())
    };
    match shard_list::file_state(on.shared) {
        Err(error) => return CheckResult::failing(&ShardRefusal::Unreadable(error).into()),
        Ok(FileState::Unusable(damage)) => {
            return CheckResult::failing(&ShardRefusal::Unusable(damage).into());
        }
        Ok(FileState::Foreign) => {
            return Warning(
                "this data directory was copied or promoted: shards of its original are not taken over".to_owned(),
                format!(
                    "If the original is still in use, no action is needed. If it is gone, take each of its shards here: {}",
                    recovery_line("<shard>")
                ),
            );
        }
        Ok(FileState::Unread | FileState::Read | FileState::Unreadable) => {}
    }
    if unwritten {
        return Wrong(
            format!("could not write file \"{SHARD_FILE}\": {UNWRITTEN}"),
            format!("{MAKE_ROOM}, and wait: {TRIES_AGAIN}"),
        );
    }
    // Before the first ID the memory says nothing yet.
    let differ = match in_memory {
        FileState::Unread => Ok(Vec::new()),
        _ => shard_list::compare(on.shared, &on.layout),
    };
    match differ {
        Err(error) => return CheckResult::failing(&ShardRefusal::Unreadable(error).into()),
        Ok(differ) => {
            if let Some(number) = differ.first() {
                let count = differ.len();
                let worker = number.worker;
                return Wrong(
                    format!(
                        "file \"{SHARD_FILE}\" was changed: {} between disk and memory, first shard {worker}",
                        counted(count as u64, "difference")
                    ),
                    format!(
                        "Release each shard, and take it again on the correct server: SELECT id_gen_shard_release({worker});"
                    ),
                );
            }
        }
    }
    let owned = shard_list::owned(on.shared, &on.layout);
    let has_room = |it: Number| on.layout.node_bits(it.datacenter.into(), it.worker.into()).is_ok();
    if let Some(OwnedShard { number, .. }) = owned.iter().find(|it| !has_room(it.number)) {
        return Wrong(
            format!(
                "layout \"{}\" has no room for shard {}",
                name_or_text(&on.layout),
                number.worker
            ),
            error::shards::without_room(*number),
        );
    }
    if let Some(OwnedShard { number, .. }) =
        owned.iter().find(|it| it.number.datacenter != datacenter)
    {
        return Wrong(
            format!(
                "shard {} is in datacenter {}, but this server is in datacenter {datacenter}",
                number.worker, number.datacenter
            ),
            format!(
                "Release it: SELECT id_gen_shard_release({}); or restore the datacenter ID: ALTER SYSTEM SET id_gen.datacenter_id = {}; SELECT pg_reload_conf();",
                number.worker, number.datacenter
            ),
        );
    }
    let of_fleet = owned.iter().find(|it| it.in_fleet);
    if let (Some(Basis::Declared), Some(OwnedShard { number, .. })) = (basis, of_fleet) {
        return CheckResult::failing(&ShardRefusal::OfFleet(*number).into());
    }
    if on.settings.has_registry {
        let granted = owned.iter().find_map(|it| {
            commands::check_shard_number(&on.layout, it.number, on.identity.number()).err()
        });
        if let Some(error) = granted {
            return CheckResult::failing(&error);
        }
        let not_yet = |place: &Place| {
            let owned = place.owned().filter(|_| !place.is_open())?;
            let until_ms = shards::waits_until_ms(on.shared, &owned)?;
            Some(ShardRefusal::NotYet { number: place.number()?, until_ms })
        };
        if let Some(refusal) = on.shared.shards().in_use().find_map(not_yet) {
            return CheckResult::failing(&refusal.into());
        }
        if let Some(Number { worker, .. }) = on.shared.refused_shard(&on.shared.lock()) {
            return Wrong(
                format!(
                    "shard {worker} is not this server's, or not yet, according to the registry"
                ),
                format!("To see the reason and the remedy: SELECT snowflake_next({worker});"),
            );
        }
    }
    Fine(format!("this server has {}", counted(owned.len() as u64, "shard")))
}

fn worker_id(on: &CheckedServer) -> Result<CheckResult, Error> {
    if on.identity.worker.is_none() && !on.settings.has_registry && shard_list::may_exist(on.shared)
    {
        return Ok(Fine("not set, and not needed for shards".to_owned()));
    }
    let refused = on.shared.check_number(&on.layout).err();
    // Before the server starts to generate, the outlook shows whether others have its number.
    let at_start =
        || on.outlook.as_ref().err().filter(|error| error.reason().is_of_others_number());
    if let Some(error) = refused.as_ref().or_else(at_start) {
        return Ok(CheckResult::failing(error));
    }
    let Identity { worker, datacenter, .. } = on.identity;
    let worker = worker.unwrap_or(0);
    if on.identity.source == IdentitySource::Registry {
        return Ok(Fine(format!("worker {worker}, datacenter {datacenter}, granted by the fleet")));
    }
    Ok(match catalog::replication()? {
        Some(others) if worker == 0 && datacenter == 0 => Warning(
            format!(
                "worker ID 0, which is easily assigned to a second server by mistake; this server has {others}"
            ),
            format!("Before another server generates with it, {}", on.assign_another_worker_id()),
        ),
        _ => Fine(format!("worker {worker}, datacenter {datacenter}")),
    })
}

fn fleet(on: &CheckedServer) -> CheckResult {
    if !on.settings.has_registry {
        return Fine("this server does not belong to a fleet".to_owned());
    }
    if !on.shared.registrar.is_running() {
        return Wrong(
            "the registrar background worker is not running; the grant is not being renewed"
                .to_owned(),
            hint::more_worker_processes(),
        );
    }
    let allocator = on.outlook.as_ref().ok().map(|outlook| outlook.allocator);
    let frontier_ms = allocator.map_or(i64::MIN, |allocator| allocator.frontier_ms(&on.layout));
    let (Membership { active_grant, trouble, weakness, counts, .. }, not_begun) = {
        let state = on.shared.lock();
        let not_begun = allocator.and_then(|allocator| state.not_begun_of(&on.layout, &allocator));
        (state.membership, not_begun)
    };
    // An ID needs a grant for its own time, which may be ahead of the clock.
    let left_ms = active_grant
        .map(|grant| grant.until_ms.saturating_sub(on.now_ms.max(grant.first_ms).max(frontier_ms)));
    let generates = left_ms.is_some_and(|left_ms| left_ms > 0);
    let left = match left_ms {
        None => "no worker ID".to_owned(),
        Some(left_ms) if generates => {
            format!("the grant is valid for {}", format_duration(left_ms.unsigned_abs()))
        }
        Some(_) if active_grant.is_some_and(|grant| grant.until_ms > on.now_ms) => {
            "the grant ends before the time of the next ID".to_owned()
        }
        Some(_) => "the grant has expired".to_owned(),
    };
    if let Some(trouble) = trouble {
        let Message { primary, detail, hint, .. } = trouble.public_message();
        let found = format!("{left}; {primary}. {}", detail.unwrap_or_default());
        return if generates { Warning(found, hint) } else { Wrong(found, hint) };
    }
    if let Some(grant) = active_grant.filter(|_| !generates) {
        let used_up = Reason::GrantUsedUp { until_ms: grant.until_ms, trouble: None };
        let reason = not_begun.filter(|_| grant.until_ms > on.now_ms).unwrap_or(used_up);
        return CheckResult::failing(&reason.into());
    }
    if let Some((kind, detail)) = weakness {
        let (danger, remedy) = error::fleet::danger(kind);
        return Warning(format!("{left}; {danger}: {}", detail.as_str()), remedy);
    }
    let FleetCounts { renewals, failures, fencings, restorations, .. } = counts;
    Fine(format!(
        "{left}; renewals: {renewals}, failures: {failures}, worker IDs lost: {fencings}, registry restores: {restorations}"
    ))
}

fn layout_end(on: &CheckedServer) -> CheckResult {
    let CheckedServer { layout, now_ms, .. } = on;
    let ends_ms = layout.runs_out_ms();
    let ends = format_ms(ends_ms);
    if *now_ms >= ends_ms {
        return CheckResult::failing(&Reason::Exhausted(*layout).into());
    }
    if ends_ms - now_ms >= ENDS_SOON_MS {
        return Fine(format!("the layout lasts until {ends}"));
    }
    Warning(format!("the layout ends at {ends}"), hint::successor(layout, *now_ms))
}

fn clock_jump(on: &CheckedServer) -> CheckResult {
    match readiness::usable_clock(on.shared, &on.layout) {
        Err(error)
            if matches!(error.reason(), Reason::Jumped { .. } | Reason::BeforeEpoch { .. })
                && !Fault::JumpNotChecked.is_planted() =>
        {
            CheckResult::failing(&error)
        }
        _ => Fine("no jump forward".to_owned()),
    }
}

/// UUIDs in strict order go on above the last one, however wrong the clock was then.
fn ordered_uuids(on: &CheckedServer) -> CheckResult {
    let lead_ms = on.shared.ordered_lead_ms().max(0);
    if lead_ms <= on.settings.max_lead_ms.into() {
        return Fine(format!(
            "uuidv7_ordered() is {} ahead of the clock",
            format_duration(lead_ms.unsigned_abs())
        ));
    }
    Warning(
        format!("uuidv7_ordered() is {} ahead of the clock, which was set back", format_duration(lead_ms.unsigned_abs())),
        "If the current time is correct, a superuser can let new UUIDs start at the current time, which is below recent ones: SELECT id_gen_clock_accept();".to_owned(),
    )
}

fn clock_steps(on: &CheckedServer) -> CheckResult {
    let totals = on.shared.lock().counters.totals;
    let (back, forward) = (totals.steps_back, totals.steps_forward);
    if back + forward == 0 {
        return Fine("the clock has not been set".to_owned());
    }
    let largest = format_duration(totals.largest_step_back_ns / NS_PER_MS);
    let was_back = format!("back {}, by up to {largest}", times(back));
    let was_forward = format!("forward {}", times(forward));
    let directions = [(back, was_back), (forward, was_forward)];
    let set: Vec<String> =
        directions.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect();
    Warning(
        format!("the clock was set {}", set.join(", and ")),
        "Find the program that sets the clock instead of slewing it; then reset the counts: SELECT id_gen_stat_reset();".to_owned(),
    )
}

/// How often something happened.
fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn clock_synchronized() -> CheckResult {
    match clock::is_synchronized() {
        Some(true) => Fine("the system clock is synchronized by a time service".to_owned()),
        None => Fine("unknown: the kernel does not report it".to_owned()),
        Some(false) => Warning(
            "the system clock is not synchronized".to_owned(),
            "Run a time service that slews the clock, for example, as root: apt-get install chrony"
                .to_owned(),
        ),
    }
}

fn lead(on: &CheckedServer) -> CheckResult {
    if let Err(error) = test_server::check(on.shared) {
        return Fine(format!("not checked: {}", error.message().primary));
    }
    if on.layout.clock_tick(clock::wall_ns()).is_err() {
        return Fine("not checked: the clock is outside the range of the layout".to_owned());
    }
    let own = on.next_position();
    let open = on.shared.shards().in_use().filter(|place| place.is_open());
    let furthest =
        open.filter_map(|place| Some((place.end(), place.number()?))).max_by_key(|it| it.0);
    let (position, shard) = match furthest {
        Some((end, shard)) if end > own => (end, Some(shard)),
        _ => (own, None),
    };
    let max_lead_ms = on.settings.max_lead_ms;
    let limit = LeadLimit::of_ms(&on.layout, max_lead_ms);
    let lead = Lead::of(&on.layout, limit, position, on.now_ms, max_lead_ms);
    let outlook = on.outlook.as_ref().ok().filter(|_| shard.is_none());
    let not_begun = outlook.and_then(|it| on.shared.lock().not_begun_of(&on.layout, &it.allocator));
    let of_shard = shard.map_or_else(String::new, |shard| format!(" of shard {}", shard.worker));
    let shard = shard.filter(|_| on.settings.has_registry);
    let found = format!(
        "IDs{of_shard} are {} ahead of the clock; {} are allowed",
        format_duration(lead.lead_ms.max(0).cast_unsigned()),
        format_duration(lead.max_lead_ms.into())
    );
    match lead.level(&on.layout) {
        LeadLevel::Normal => Fine(found),
        LeadLevel::High => Warning(found, hint::ahead(&lead, shard)),
        LeadLevel::Exceeded => not_begun.map_or_else(
            || Wrong(found, hint::ahead(&lead, shard)),
            |reason| CheckResult::failing(&reason.into()),
        ),
    }
}

fn reservation(on: &CheckedServer) -> CheckResult {
    let shared = on.shared;
    let keeps_from_fleet =
        shared.lock().membership.trouble.is_some_and(|it| it.kind == TroubleKind::Reservation);
    let may_generate = on.generates()
        || shard_list::may_exist(shared)
        || durable::has_reserved()
        || keeps_from_fleet;
    if !may_generate || server::is_in_recovery() {
        return Fine("not needed: this server does not generate".to_owned());
    }
    if on.layout.clock_tick(clock::wall_ns()).is_err() {
        return Fine("not reserved: the clock is outside the range of the layout".to_owned());
    }
    if let Err(error) = startup::check_reservation(shared)
        && !error.reason().is_of_others_number()
    {
        return CheckResult::failing(&error);
    }
    let totals = shared.lock().counters.totals;
    let (writes, failed) = (totals.reservation_writes, totals.reservation_failures);
    let slowest_ns = totals.slowest_reservation_write_ns;
    let found = format!(
        "{}, {failed} failed, the slowest took {}{}",
        counted(writes, "write"),
        format_duration(slowest_ns / NS_PER_MS),
        known_of_copies()
    );
    if failed == 0 && slowest_ns <= SLOW_WRITE_NS {
        return Fine(found);
    }
    Warning(
        found,
        "Writes succeed again. Find the cause in the server log or on the disk; then reset the counts: SELECT id_gen_stat_reset();".to_owned(),
    )
}

/// What the identity of the directory does not reveal, as the end of a finding.
fn known_of_copies() -> &'static str {
    match durable::directory() {
        Ok(Some(Directory { created_ns: None, .. })) => {
            "; without creation times on the file system, a copy of this directory is detected by its inode number only"
        }
        _ => "",
    }
}

fn keeper(on: &CheckedServer) -> CheckResult {
    if server::is_in_recovery() {
        return Fine("not needed on a standby".to_owned());
    }
    let keeper = &on.shared.keeper;
    match keeper.running() {
        None => match keeper.missing() {
            Missing::NotNeeded if !memory::is_preloaded() => {
                Fine("the background worker starts with the first ID".to_owned())
            }
            Missing::Starting => Fine("the background worker is starting".to_owned()),
            Missing::Ended => Wrong(NO_KEEPER.to_owned(), hint::ENDED_WORKER.to_owned()),
            Missing::NotNeeded | Missing::Refused => {
                Wrong(NO_KEEPER.to_owned(), hint::more_worker_processes())
            }
        },
        Some(keeper) if keeper.heartbeat_age_ns > LATE_NS => Wrong(
            format!(
                "the background worker, process {}, has been inactive for {} s",
                keeper.pid,
                keeper.heartbeat_age_ns / NS_PER_S
            ),
            format!(
                "It may be waiting for the disk. End it, and another one starts: SELECT pg_terminate_backend({});",
                keeper.pid
            ),
        ),
        Some(keeper) => Fine(format!("background worker process {} runs every second", keeper.pid)),
    }
}

fn sequence(on: &CheckedServer) -> CheckResult {
    let Some(share) = readiness::sequence_use(&on.layout, &on.shared.rates()) else {
        return Fine("no data for the last minute yet".to_owned());
    };
    let capacity = on.layout.per_second();
    let found = format!(
        "in the busiest second of the last minute, sessions claimed {:.1} % of the {capacity} IDs of a second{}",
        share * 100.0,
        if share > 1.0 { "; more than 100 % need id_gen.max_lead, or a wait" } else { "" }
    );
    if share < MOSTLY {
        return Fine(found);
    }
    Warning(found, MORE_ROOM.to_owned())
}

fn max_lead(on: &CheckedServer) -> CheckResult {
    let Counts { waits, .. } = on.shared.counts();
    if on.settings.max_lead_ms > 0 || waits == 0 {
        return Fine(format!(
            "IDs can be up to {} ahead of the clock",
            format_duration(on.settings.max_lead_ms.into())
        ));
    }
    Warning(
        format!("id_gen.max_lead is 0, so sessions waited for the clock ({})", counted(waits, "time")),
        "Allow IDs to be ahead of the clock: ALTER SYSTEM SET id_gen.max_lead = '5s'; SELECT pg_reload_conf();".to_owned(),
    )
}

fn column_types() -> Result<CheckResult, Error> {
    let narrow = narrow_columns::of_snowflakes(readiness::layout().ok().as_ref())?;
    if narrow.is_empty() {
        return Ok(Fine("all columns filled with snowflakes are bigint".to_owned()));
    }
    let found: Vec<String> =
        narrow.iter().map(|column| format!("{} is {}", column.name, column.type_name)).collect();
    // Statements that can be run as they stand come first.
    let (mut remedies, rest): (Vec<&str>, Vec<&str>) =
        narrow.iter().map(|it| it.remedy.as_str()).partition(|remedy| remedy.starts_with("ALTER"));
    let colon = if remedies.is_empty() { "." } else { ":" };
    remedies.extend(rest);
    Ok(Wrong(
        format!("a snowflake needs a bigint: {}", found.join(", ")),
        format!("Change the type, which rewrites the table{colon} {}", remedies.join(" ")),
    ))
}

/// Sequences that are used up, or will be.
fn tickets() -> Result<CheckResult, Error> {
    let mut in_use = memory::attach().map(|shared| shared.tickets.snapshots()).unwrap_or_default();
    let live = in_use.len();
    in_use.retain(|ticket| ticket.key.file.database == server::database());
    let oids = in_use.iter().map(|ticket| pg_sys::Oid::from(ticket.key.sequence)).collect();
    let sequences = catalog::ticket_sequences(oids)?;
    let (mut ended, mut ending) = (Vec::new(), Vec::new());
    let has_left_fleet = !settings::registry::is_set();
    for sequence in &sequences {
        let TicketSequence { oid, name, definition, unfit, last_value } = sequence;
        let Definition { steps, .. } = definition;
        if let Some(unfit) = unfit {
            let Message { primary, hint, .. } = ticket::unfit(*unfit, name, definition);
            ended.push((primary, hint));
            continue;
        }
        let Some(last_value) = last_value else { continue };
        let its = in_use.iter().find(|ticket| ticket.key.sequence == oid.to_u32());
        let refused = if has_left_fleet && catalog::is_of_fleet(name)? {
            Some((NoRange::LeftFleet, String::new()))
        } else {
            its.and_then(|it| Some((it.refused?, it.names.in_registry())))
        };
        if let Some((why, key)) = refused {
            let Message { primary, detail, hint, .. } =
                ticket::refused(name, &key, definition, *last_value, why);
            ended.push((format!("{primary}: {}", detail.unwrap_or_default()), hint));
            continue;
        }
        let (held, per_second) = its.map_or((0, 0.0), |it| (it.left, it.usual_per_second()));
        let beyond = last_value.checked_add(steps.step).map_or(0, |next| steps.left_from(next));
        let left = beyond.saturating_add(held);
        if left == 0 {
            let words = format!("{name} has no number left (maximum {})", steps.max);
            ended.push((words, ticket::longer(name, definition)));
            continue;
        }
        let used = steps.used_below(its.and_then(|it| it.next).unwrap_or(*last_value));
        let days = left as f64 / per_second / SECONDS_PER_DAY;
        let days = Some(days).filter(|days| per_second > 0.0 && *days < ENDS_SOON_DAYS);
        if used < MOSTLY && days.is_none() {
            continue;
        }
        let when = days.map_or_else(String::new, |days| {
            let left_ms = days * SECONDS_PER_DAY * 1000.0;
            format!(", and will be exhausted in {}", format_duration(left_ms as u64))
        });
        let words = format!(
            "{name} has used {:.0} % of its numbers (maximum {}){when}",
            used * 100.0,
            steps.max
        );
        ending.push((words, ticket::longer(name, definition)));
    }
    for column in narrow_columns::of_tickets()? {
        let NarrowColumn { name, type_name, remedy, is_full } = column;
        if is_full {
            ended.push((
                format!("column {name} ({type_name}) is too small for its sequence"),
                remedy,
            ));
            continue;
        }
        ending.push((
            format!("column {name} ({type_name}) ends before its sequence"),
            format!("End the sequence with the column, to be warned in time: {remedy}"),
        ));
    }
    let evictions = memory::attach().map_or(0, |shared| shared.tickets.evictions.load(Relaxed));
    if evictions > 0 && live == PLACES {
        ending.push((
            format!(
                "sequences were removed from the cache {}: it has room for {PLACES}",
                times(evictions)
            ),
            format!(
                "Each removal costs a write, and a gap if the sequences are in different databases. Use tickets for at most {PLACES} sequences, and nextval() for others."
            ),
        ));
    }
    let is_wrong = !ended.is_empty();
    let (words, mut remedies): (Vec<_>, Vec<_>) = ended.into_iter().chain(ending).unzip();
    // One for all columns that are filled from a sequence.
    remedies.dedup();
    let (words, remedies) = (words.join("; "), remedies.join("\n"));
    Ok(if is_wrong {
        Wrong(words, remedies)
    } else if !words.is_empty() {
        Warning(words, remedies)
    } else {
        Fine(format!(
            "{} with tickets; all have enough numbers left",
            counted(sequences.len() as u64, "sequence")
        ))
    })
}

/// Where a shard of this server will come to an ID that is stored: it can be taken above one that is not far ahead.
fn above_shard(on: &CheckedServer, shard: Number, column: &Column, newest: i64, ms: i64) -> String {
    let Column { table, name, generator_schema: schema, .. } = column;
    if ms > on.now_ms + i64::from(on.settings.max_lead_ms) + ABOVE_MARGIN_MS {
        return format!(
            "Before it does, replace that ID. To see the rows: SELECT * FROM {table} WHERE {name} = {newest};"
        );
    }
    format!(
        "Before it does, start the shard above that ID: SELECT {schema}.id_gen_shard_take({}, above => {newest});",
        shard.worker
    )
}

fn newest_id(on: &CheckedServer, column: &Column, newest: i64) -> CheckResult {
    let CheckedServer { layout, identity, outlook, now_ms, .. } = on;
    let Column { table, name, generator_schema: schema, .. } = column;
    let found = format!("the newest {name} in {table} is {newest}");
    let Ok(id) = layout.from_bigint(newest) else {
        return Warning(
            format!("{found}, which is not an ID of layout {}", name_or_text(layout)),
            format!("To see the rows: SELECT * FROM {table} WHERE {name} = {newest};"),
        );
    };
    let parts = layout.unpack(id);
    let made_ms = layout.tick_start_ms(parts.tick);
    let made = format_ms(made_ms);
    let found = format!("{found}, generated at {made} by worker {}", parts.worker);
    if server::is_in_recovery() {
        return Fine(format!("{found}; not compared: a standby generates no snowflakes"));
    }
    let number = Number { datacenter: parts.datacenter, worker: parts.worker };
    let shards = shard_list::owned(on.shared, layout);
    let of_shard = shards.iter().find(|it| it.number == number);
    // The lowest position that this server has never allocated with the number of the ID.
    let next =
        outlook.as_ref().ok().and_then(|Outlook { allocator, first_of_shards }| match of_shard {
            Some(shard) => Some((*first_of_shards).max(shard.end)),
            None => (identity.number() == Some(number)).then(|| allocator.frontier().position()),
        });
    let position = layout.position_of(id);
    let reached = layout.tick_of(on.next_position()).max(layout.tick_from(*now_ms));
    if let Some(next) = next
        && position >= next
        && parts.tick >= reached
    {
        return Wrong(
            format!("{found}: this server will generate the same ID"),
            match of_shard {
                None => format!("Before it does, {}", on.assign_another_worker_id()),
                Some(shard) => above_shard(on, shard.number, column, newest, made_ms),
            },
        );
    }
    // An ID of its own says nothing of another server's clock.
    if parts.tick > reached && next.is_none_or(|next| position >= next) {
        let first = Layout::to_bigint(layout.min_of(reached.saturating_add(1)));
        return Warning(
            format!(
                "the newest {name} in {table} has a time in the future: {newest}, {made}, worker {}",
                parts.worker
            ),
            format!(
                "If worker {} is a server of yours, correct its clock. To examine the ID: SELECT * FROM {schema}.snowflake_inspect({newest}); To list all such rows: SELECT * FROM {table} WHERE {name} >= {first};",
                parts.worker
            ),
        );
    }
    if Plausibility::new(*layout, *now_ms).kind(newest) == Kind::Plain {
        return Fine(format!(
            "the largest {name} in {table} is {newest}: a small number, as from a sequence, not a snowflake"
        ));
    }
    Fine(found)
}
