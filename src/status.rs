//! Whether this server generates, and what it generates with: `id_gen_status()`. Its SQL is in
//! `sql/monitoring.sql`.
//!
//! The first column is what `snowflake_next()` would say: looking changes nothing but, on a server
//! whose disk refused the last write, that this is tried again.

use id_gen_core::clock::{Reading, unix_ms};
use id_gen_core::layout::{Layout, NS_PER_MS, US_PER_MS};
use id_gen_core::line::Line;
use id_gen_core::pace::{Pace, Sample};
use id_gen_core::presets;
use pgrx::datum::Interval;
use pgrx::iter::TableIterator;
use pgrx::prelude::*;
use pgrx::spi;

use crate::claim::tick_now;
use crate::refusal::Refusal;
use crate::settings::{self, Settings};
use crate::shared::{Reader, Segment};
use crate::timestamp::{instant, timestamp};
use crate::{catalog, clock, memory, reservation, stat};

const S_NS: u64 = 1_000 * NS_PER_MS;
/// What "lately" means for the use of the sequence.
pub const LATELY_NS: u64 = 60 * S_NS;

/// Whether the server is a standby or still recovers.
pub fn in_recovery() -> bool {
    // SAFETY: callable by any process that can run SQL.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// The shared segment with the settings that a call of this session would find in force.
///
/// # Errors
/// If there is no segment to be had.
pub fn segment() -> Result<&'static Segment, Refusal> {
    let segment = memory::attach()?;
    segment.adopt_settings(Reader::Session);
    Ok(segment)
}

/// The settings of a server: those in force, or where nothing is, this session's.
pub fn settings_of(segment: Option<&Segment>) -> Settings {
    segment.map_or_else(settings::current, |segment| segment.lock().settings)
}

/// Whether a call would get an ID now, perhaps after a wait.
///
/// # Errors
/// What it would be refused with.
pub fn ready(segment: &Segment) -> Result<(), Refusal> {
    if in_recovery() {
        return Err(Refusal::Recovery);
    }
    let layout = segment.layout()?;
    let settings = segment.lock().settings;
    settings.node_bits(layout)?;
    let now = usable_clock(segment, layout)?;
    reservation::trouble(segment)?;
    let Some(line) = segment.lock().line else { return Ok(()) };
    if layout.tick_of(line.frontier().position()) >= layout.ticks() {
        return Err(Refusal::AllPromised(*layout));
    }
    let lead_ms = line.frontier_ms(layout) - unix_ms(now.wall_ns);
    let (max_lead_ms, max_wait_ms) = (settings.max_lead_ms, settings.max_wait_ms);
    if lead_ms > i64::from(max_lead_ms) + i64::from(max_wait_ms) {
        return Err(Refusal::Ahead { lead_ms, left_ms: 0, max_lead_ms, max_wait_ms });
    }
    Ok(())
}

/// What the clocks say, if a call would believe them.
///
/// # Errors
/// If it jumped, or stands where the layout does not reach.
pub fn usable_clock(segment: &Segment, layout: &Layout) -> Result<Reading, Refusal> {
    let state = segment.lock();
    let now = clock::both();
    if let Some(Line { mut watch, .. }) = state.line
        && let Some(by_ns) = watch.judge(now, state.max_jump_ns()).jumped_ns
    {
        return Err(Refusal::Jumped { by_ns, max_jump_ms: state.settings.max_jump_ms });
    }
    tick_now(layout, now.wall_ns)?;
    Ok(now)
}

/// A layout as an operator knows it: by name, or its text.
pub fn name_of(layout: &Layout) -> String {
    presets::naming(layout).map_or_else(|| layout.to_string(), |preset| preset.name.to_owned())
}

/// Share of what the layout allows that was claimed in the busiest second lately.
pub fn sequence_use(layout: &Layout, (pace, now): &(Pace, Sample)) -> Option<f64> {
    let per_second = layout.per_second();
    let busiest = pace.busiest(*now, LATELY_NS)?;
    (per_second > 0).then(|| busiest / per_second as f64)
}

/// `id_gen_status() → SETOF record`, one row.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // pgrx reads the columns off the signature.
fn id_gen_status() -> Result<
    TableIterator<
        'static,
        (
            name!(state, String),
            name!(worker_id, Option<i32>),
            name!(datacenter_id, i32),
            name!(worker_id_source, Option<String>),
            name!(layout, Option<String>),
            name!(layout_ends, Option<TimestampWithTimeZone>),
            name!(frontier, Option<TimestampWithTimeZone>),
            name!(lead, Option<Interval>),
            name!(max_lead, Interval),
            name!(reserved_until, Option<TimestampWithTimeZone>),
            name!(keeper_pid, Option<i32>),
            name!(keeper_beat, Option<TimestampWithTimeZone>),
            name!(rate_second, Option<f64>),
            name!(rate_minute, Option<f64>),
            name!(sequence_use, Option<f64>),
            name!(clock_synchronized, Option<bool>),
            name!(preloaded, bool),
        ),
    >,
    spi::Error,
> {
    let found = segment();
    let state = found.clone().and_then(ready);
    let segment = found.ok();
    let settings = settings_of(segment);
    let layout = segment.and_then(Segment::fast_layout);
    let line = segment.and_then(|segment| segment.lock().line);
    let time_of = |unix_ms| instant(timestamp(unix_ms));
    let on_line = |position: fn(&Layout, &Line) -> i64| time_of(position(layout?, line.as_ref()?));
    let keeper = segment.and_then(Segment::keeper);
    let ms_ago = |age_ns: u64| unix_ms(clock::wall_ns().saturating_sub(age_ns));
    let lately = segment.map(Segment::pace);
    let rate = |window_ns| lately.and_then(|(pace, now)| pace.rate(now, window_ns));
    let milliseconds = |ms: i64| Interval::from_micros(ms.saturating_mul(US_PER_MS));
    let lead_ms = segment.and_then(stat::lead_ms);
    Ok(TableIterator::once((
        state.map_or_else(|refusal| refusal.words().primary, |()| "ready".to_owned()),
        settings.worker(),
        settings.datacenter_id,
        catalog::worker_id_source()?,
        layout.map(name_of),
        layout.and_then(|layout| time_of(layout.runs_out_ms())),
        on_line(|layout, line| line.frontier_ms(layout)),
        lead_ms.map(|ms| milliseconds(ms as i64)),
        milliseconds(settings.max_lead_ms.into()),
        on_line(|layout, line| line.promised_until_ms(layout)),
        keeper.as_ref().map(|keeper| keeper.pid),
        keeper.and_then(|keeper| time_of(ms_ago(keeper.beat_age_ns))),
        rate(S_NS),
        rate(LATELY_NS),
        layout.and_then(|layout| sequence_use(layout, &lately?)),
        clock::is_synchronized(),
        memory::is_preloaded(),
    )))
}
