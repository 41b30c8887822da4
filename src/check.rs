//! What may be wrong with this server, and what to type then: `id_gen_check()`. Its SQL is in
//! `sql/monitoring.sql`.
//!
//! What would refuse a call is told in that refusal's own words; the rest are things that are going
//! to. A remedy ends, where there is one, in what to type, after a colon.

use id_gen_core::clock::unix_ms;
use id_gen_core::layout::{Field, Layout, NS_PER_MS, show_ms};
use id_gen_core::line::Line;
use pgrx::iter::TableIterator;
use pgrx::prelude::*;
use pgrx::spi;

use crate::catalog::{self, Column};
use crate::claim::tick_now;
use crate::refusal::{self, Refusal, Words};
use crate::settings::{self, Settings};
use crate::shared::Segment;
use crate::slot::Counts;
use crate::status::{self, name_of};
use crate::{clock, memory, reservation, stat};

const MS_PER_YEAR: i64 = 31_556_952_000;
/// A layout that ends sooner is worth planning for: 5 years.
const ENDS_SOON_MS: i64 = 5 * MS_PER_YEAR;
/// A write that takes longer could make calls wait if it came at the wrong time: 1 s.
const SLOW_WRITE_NS: u64 = 1_000 * NS_PER_MS;
/// The keeper goes round every second; after so long it is late: 10 s.
const LATE_NS: u64 = 10_000 * NS_PER_MS;
/// Shares of the lead and of the sequence from which on there is little room left.
const MOSTLY: f64 = 0.8;

/// What a check found.
enum Finding {
    /// Nothing to do.
    Ok(String),
    /// Something is going to go wrong, or did.
    Warning(String, String),
    /// Something is wrong now.
    Error(String, String),
}

use Finding::{Error, Ok as Fine, Warning};

impl Finding {
    /// What a call would be refused with.
    fn refused(refusal: &Refusal) -> Finding {
        let words = refusal.words();
        let detail = words.detail.map(|detail| format!(". {detail}")).unwrap_or_default();
        Error(format!("{}{detail}", words.primary), words.hint)
    }
}

/// A row of the answer.
type Row = (&'static str, &'static str, String, Option<String>);

/// The functions that report findings have a search path of their own, so what a remedy says to type
/// names the extension's schema.
fn row((name, finding): (&'static str, Finding), schema: &str) -> Row {
    let named = |remedy: String| Some(refusal::name_schema(&remedy, schema));
    match finding {
        Fine(found) => (name, "ok", found, None),
        Warning(found, remedy) => (name, "warning", found, named(remedy)),
        Error(found, remedy) => (name, "error", found, named(remedy)),
    }
}

/// A server that has its shared segment and has left recovery, as most checks find it.
struct Subject {
    segment: &'static Segment,
    settings: Settings,
    layout: Layout,
    line: Option<Line>,
    now_ms: i64,
}

impl Subject {
    fn of(segment: &'static Segment) -> Result<Subject, Refusal> {
        let layout = *segment.layout()?;
        let (settings, line) = {
            let state = segment.lock();
            (state.settings, state.line)
        };
        let now_ms = unix_ms(clock::wall_ns());
        Ok(Subject { segment, settings, layout, line, now_ms })
    }

    /// Whether this server is meant to generate and could, as far as its settings go.
    fn generates(&self) -> bool {
        self.settings.node_bits(&self.layout).is_ok()
    }

    /// What to do and type to take a number that is not this server's, as the end of a sentence.
    fn take_another_number(&self) -> String {
        let max = self.layout.max_number(Field::Worker);
        let next = u32::try_from(self.settings.worker_id).unwrap_or(0).wrapping_add(1);
        let number = if next <= max { next } else { 1.min(max) };
        format!(
            "choose a number that no other server has: ALTER SYSTEM SET id_gen.worker_id = {number}; SELECT pg_reload_conf();"
        )
    }
}

/// `id_gen_check() → SETOF record`, a row for each check.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // pgrx reads the columns off the signature.
fn id_gen_check() -> Result<
    TableIterator<
        'static,
        (
            name!(name, &'static str),
            name!(status, &'static str),
            name!(found, String),
            name!(remedy, Option<String>),
        ),
    >,
    spi::Error,
> {
    let (may_read, role) = catalog::reader()?;
    let mut checks = vec![("privileges", privileges(may_read, &role))];
    if may_read {
        let found = status::segment();
        checks.push(("preload", preload(found.as_ref().err())));
        checks.push(("recovery", recovery()));
        if let Ok(segment) = found {
            of_segment(segment, &mut checks)?;
        }
    }
    checks.push(("column_types", column_types()?));
    let schema = catalog::schema()?;
    Ok(TableIterator::new(checks.into_iter().map(move |check| row(check, &schema))))
}

fn of_segment(
    segment: &'static Segment,
    checks: &mut Vec<(&'static str, Finding)>,
) -> Result<(), spi::Error> {
    checks.push(("layout", layout(segment)));
    let Ok(subject) = Subject::of(segment) else { return Ok(()) };
    checks.extend([
        ("worker_id", worker_id(&subject)?),
        ("layout_end", layout_end(&subject)),
        ("clock_jump", clock_jump(&subject)),
        ("clock_steps", clock_steps(&subject)),
        ("clock_synchronized", clock_synchronized()),
        ("lead", lead(&subject)),
        ("reservation", reservation(&subject)),
        ("keeper", keeper(&subject)),
        ("sequence", sequence(&subject)),
        ("max_lead", max_lead(&subject)),
    ]);
    Ok(())
}

fn privileges(may_read: bool, role: &str) -> Finding {
    if may_read {
        return Fine(format!("role {role} may read this server's statistics"));
    }
    Warning(
        format!("role {role} may not read this server's statistics, so most checks are left out"),
        format!("Let a superuser run: GRANT pg_monitor TO {role};"),
    )
}

fn preload(refused: Option<&Refusal>) -> Finding {
    match refused {
        Some(refusal) => Finding::refused(refusal),
        None if memory::is_preloaded() => Fine("loaded when the server started".to_owned()),
        None => Warning(
            "loaded by sessions as they need it, so there is no keeper: about every 3 s a call waits while the reservation is written".to_owned(),
            refusal::preload_hint(),
        ),
    }
}

fn recovery() -> Finding {
    if !status::in_recovery() {
        return Fine("not a standby".to_owned());
    }
    Warning(
        "this server is a standby: it generates no snowflakes".to_owned(),
        "Generate on the primary; or, once that is stopped for good, make this server the primary: SELECT pg_promote();".to_owned(),
    )
}

/// The layout of the segment, and the one that waits for a restart.
fn layout(segment: &Segment) -> Finding {
    let in_force = match segment.layout() {
        Ok(layout) => layout,
        Err(refusal @ Refusal::BadServerLayout { .. }) => return bad_layout(&refusal),
        Err(refusal) => return Finding::refused(&refusal),
    };
    match settings::layout() {
        Ok(wanted) if wanted == *in_force => {
            Fine(format!("{}, {} IDs a second", name_of(in_force), in_force.per_second()))
        }
        Ok(wanted) => layout_that_waits(segment, &wanted, in_force),
        Err(refusal) => bad_layout(&refusal),
    }
}

/// A layout that waits for a restart, which may be the end of generating.
fn layout_that_waits(segment: &Segment, wanted: &Layout, in_force: &Layout) -> Finding {
    let found = format!(
        "id_gen.layout is {}, but the running server keeps {}",
        name_of(wanted),
        name_of(in_force)
    );
    let tried =
        if status::in_recovery() { Ok(()) } else { reservation::try_layout(segment, *wanted) };
    let Err(refusal) = tried else { return Warning(found, "Restart the server.".to_owned()) };
    let Words { primary, detail, .. } = refusal.words();
    Error(
        format!(
            "{found}; after a restart it would generate nothing: {primary}. {}",
            detail.unwrap_or_default()
        ),
        format!(
            "Set it back: ALTER SYSTEM SET id_gen.layout = '{}'; SELECT pg_reload_conf();",
            name_of(in_force)
        ),
    )
}

/// A text in the settings that is no layout, and the one that is there if nothing is set.
fn bad_layout(refusal: &Refusal) -> Finding {
    let Words { primary, detail, .. } = refusal.words();
    Error(format!("{primary}. {}", detail.unwrap_or_default()), refusal::layout_hint(None))
}

fn worker_id(subject: &Subject) -> Result<Finding, spi::Error> {
    let Settings { worker_id, datacenter_id, .. } = subject.settings;
    if let Err(refusal) = subject.settings.node_bits(&subject.layout) {
        return Ok(Finding::refused(&refusal));
    }
    Ok(match catalog::replication()? {
        Some(others) if worker_id == 0 && datacenter_id == 0 => Warning(
            format!(
                "worker 0, which a copy made without thought has too; this server has {others}"
            ),
            format!("Before another server generates with it, {}", subject.take_another_number()),
        ),
        _ => Fine(format!("worker {worker_id}, datacenter {datacenter_id}")),
    })
}

fn layout_end(subject: &Subject) -> Finding {
    let Subject { layout, now_ms, .. } = subject;
    let ends_ms = layout.runs_out_ms();
    let ends = show_ms(ends_ms);
    if *now_ms >= ends_ms {
        return Finding::refused(&Refusal::Exhausted(*layout));
    }
    if ends_ms - now_ms >= ENDS_SOON_MS {
        return Fine(format!("the layout lasts until {ends}"));
    }
    Warning(format!("the layout ends at {ends}"), refusal::successor_hint(layout, *now_ms))
}

fn clock_jump(subject: &Subject) -> Finding {
    match status::usable_clock(subject.segment, &subject.layout) {
        Err(refusal @ (Refusal::Jumped { .. } | Refusal::BeforeEpoch(_))) => {
            Finding::refused(&refusal)
        }
        _ => Fine("no jump forward".to_owned()),
    }
}

fn clock_steps(subject: &Subject) -> Finding {
    let state = subject.segment.lock();
    let (back, forward) = (state.steps_back, state.steps_forward);
    if back + forward == 0 {
        return Fine("the clock has not been set".to_owned());
    }
    let largest_ms = state.largest_step_back_ns / NS_PER_MS;
    Warning(
        format!(
            "the clock was set back {back} times, by up to {largest_ms} ms, and forward {forward} times"
        ),
        "Find out what sets the clock instead of slewing it; then count anew: SELECT id_gen_stat_reset();".to_owned(),
    )
}

fn clock_synchronized() -> Finding {
    match clock::is_synchronized() {
        Some(true) => Fine("the kernel's clock is kept right by a time service".to_owned()),
        None => Fine("the kernel does not tell".to_owned()),
        Some(false) => Warning(
            "no time service keeps the kernel's clock right".to_owned(),
            "Run a time service that slews the clock, for example, as root: apt-get install chrony"
                .to_owned(),
        ),
    }
}

fn lead(subject: &Subject) -> Finding {
    let lead_ms = stat::lead_ms(subject.segment).unwrap_or(0.0) as i64;
    let max_lead_ms = i64::from(subject.settings.max_lead_ms);
    let found = format!("IDs are {lead_ms} ms ahead of the clock, of {max_lead_ms} ms allowed");
    let mostly_ms = (max_lead_ms as f64 * MOSTLY) as i64;
    // What a tick that is full takes of the next is no lead to speak of.
    if lead_ms <= mostly_ms.max(subject.layout.tick_ms().into()) {
        return Fine(found);
    }
    // So much that it is no longer mostly used.
    let wanted_ms = (lead_ms as f64 / MOSTLY) as i64;
    let remedy = refusal::ahead_hint(lead_ms - max_lead_ms, wanted_ms);
    if lead_ms > max_lead_ms { Error(found, remedy) } else { Warning(found, remedy) }
}

fn reservation(subject: &Subject) -> Finding {
    let segment = subject.segment;
    if !subject.generates() || status::in_recovery() {
        return Fine("none is needed: this server does not generate".to_owned());
    }
    if tick_now(&subject.layout, clock::wall_ns()).is_err() {
        return Fine("nothing is promised while the clock is outside the layout's time".to_owned());
    }
    if let Err(refusal) = reservation::trouble(segment) {
        return Finding::refused(&refusal);
    }
    let (writes, failed, slowest_ns) = {
        let state = segment.lock();
        (state.writes, state.failed_writes, state.slowest_write_ns)
    };
    let found = format!(
        "{writes} writes, {failed} of them failed, the slowest took {} ms",
        slowest_ns / NS_PER_MS
    );
    if failed == 0 && slowest_ns <= SLOW_WRITE_NS {
        return Fine(found);
    }
    Warning(
        found,
        "It works again: look for the cause in the server's log and at its disk, then count anew: SELECT id_gen_stat_reset();".to_owned(),
    )
}

fn keeper(subject: &Subject) -> Finding {
    if !memory::is_preloaded() || status::in_recovery() {
        return Fine("none: only a preloaded server that is no standby has one".to_owned());
    }
    match subject.segment.keeper() {
        None => Error(
            "the background worker does not run; calls write the reservation themselves".to_owned(),
            refusal::more_workers_hint(),
        ),
        Some(keeper) if keeper.beat_age_ns > LATE_NS => Error(
            format!(
                "the background worker, process {}, has done nothing for {} s",
                keeper.pid,
                keeper.beat_age_ns / (1_000 * NS_PER_MS)
            ),
            format!(
                "It may wait for the disk. To have another one started: SELECT pg_terminate_backend({});",
                keeper.pid
            ),
        ),
        Some(keeper) => Fine(format!("process {} goes round every second", keeper.pid)),
    }
}

fn sequence(subject: &Subject) -> Finding {
    let Some(share) = status::sequence_use(&subject.layout, &subject.segment.pace()) else {
        return Fine("nothing is known of the last minute yet".to_owned());
    };
    let capacity = subject.layout.per_second();
    let found = format!(
        "{:.1} % of {capacity} IDs a second in the busiest second of the last minute",
        share * 100.0
    );
    if share < MOSTLY {
        return Fine(found);
    }
    Warning(found, refusal::roomier_hint(&subject.layout, &subject.settings, subject.now_ms))
}

fn max_lead(subject: &Subject) -> Finding {
    let Counts { waits, .. } = subject.segment.counts();
    if subject.settings.max_lead_ms > 0 || waits == 0 {
        return Fine(format!("IDs may run {} ms ahead of the clock", subject.settings.max_lead_ms));
    }
    Warning(
        format!("id_gen.max_lead is 0, and {waits} claims had to wait for the clock"),
        "Let them run ahead of it: ALTER SYSTEM SET id_gen.max_lead = '5s'; SELECT pg_reload_conf();".to_owned(),
    )
}

fn column_types() -> Result<Finding, spi::Error> {
    let narrow = catalog::narrow_columns()?;
    if narrow.is_empty() {
        return Ok(Fine("every column that is filled with snowflakes can hold them".to_owned()));
    }
    let found: Vec<String> =
        narrow.iter().map(|column| format!("{} is {}", column.name, column.type_name)).collect();
    let remedies: Vec<&str> = narrow.iter().map(|column| column.remedy.as_str()).collect();
    Ok(Error(
        format!("a snowflake needs a bigint: {}", found.join(", ")),
        format!("Change the type, which rewrites the table: {}", remedies.join(" ")),
    ))
}

/// `id_gen_check(relation regclass, column_name text) → SETOF record`, one row: whether the newest
/// ID stored there lies above what this server has handed out.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // pgrx reads the columns off the signature.
fn id_gen_check_stored(
    relation: pg_sys::Oid,
    column_name: &str,
) -> Result<
    TableIterator<
        'static,
        (
            name!(name, &'static str),
            name!(status, &'static str),
            name!(found, String),
            name!(remedy, Option<String>),
        ),
    >,
    spi::Error,
> {
    let (column, newest) = catalog::newest(relation, column_name)?;
    let finding = match (newest, status::segment().and_then(Subject::of)) {
        (None, _) => Fine(format!("{} is empty", column.table)),
        (_, Err(refusal)) => Finding::refused(&refusal),
        (Some(newest), Ok(subject)) => stored_ids(&subject, &column, newest),
    };
    Ok(TableIterator::once(row(("stored_ids", finding), &catalog::schema()?)))
}

fn stored_ids(subject: &Subject, column: &Column, newest: i64) -> Finding {
    let Subject { layout, settings, line, now_ms, .. } = subject;
    let Column { table, name, generator_schema: schema } = column;
    let found = format!("the newest {name} in {table} is {newest}");
    let Ok(id) = layout.from_bigint(newest) else {
        return Warning(
            format!("{found}, which is none of layout {}", name_of(layout)),
            format!("See where they come from: SELECT * FROM {table} WHERE {name} = {newest};"),
        );
    };
    let parts = layout.unpack(id);
    let made = show_ms(layout.tick_start_ms(parts.tick));
    let found = format!("{found}, made at {made} by worker {}", parts.worker);
    let frontier = line.map_or(0, |line| line.frontier().position());
    let reached = layout.tick_of(frontier).max(layout.tick_from(*now_ms));
    let own = (i64::from(parts.worker), i64::from(parts.datacenter))
        == (settings.worker_id.into(), settings.datacenter_id.into());
    if own && layout.position_of(id) >= frontier && parts.tick >= reached {
        return Error(
            format!("{found}: this server will come to hand out the same"),
            format!("Before it does, {}", subject.take_another_number()),
        );
    }
    if parts.tick > reached {
        let first = Layout::to_bigint(layout.min_of(reached.saturating_add(1)));
        return Warning(
            format!("{found}, which is ahead of this server: its IDs sort below until then"),
            format!(
                "Put the clock right that they were made by; if they are mistakes, give them new IDs: UPDATE {table} SET {name} = {schema}.snowflake_next() WHERE {name} >= {first};"
            ),
        );
    }
    Fine(found)
}
