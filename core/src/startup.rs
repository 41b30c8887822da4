//! The lowest time that a server may make IDs of when it starts: from what the last run reserved, and
//! what may have happened since.
//!
//! The rule is never to start below an ID that may exist. Where too little is known,
//! [`start_point`] returns a [`StartupError`] instead of guessing.

use crate::clock::{ClockMonitor, ClockReading};
use crate::fleet::Number;
use crate::layout::Layout;
use crate::reservation::Record;

/// How far a promoted or upgraded server stays above the clocks it knows, beyond the lead that its
/// predecessor may have used: 3 s for clocks that differ and for what an old primary did after its
/// last commit that arrived here.
pub const UNSEEN_CLOCK_MARGIN_MS: i64 = 3_000;

/// The timeline of a server that has never been promoted or restored.
pub const FIRST_TIMELINE: u32 = 1;

/// A boot of a machine that does not tell.
pub const UNKNOWN_BOOT: u128 = 0;

/// What was found where the record should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredRecord {
    /// A record.
    Found(Record),
    /// None, and no trace of one: this server has never issued an ID.
    Absent,
    /// None, although there was one.
    Lost,
}

impl StoredRecord {
    /// The number that the server made IDs with, as far as is known.
    pub fn own_number(&self) -> Option<Number> {
        match self {
            StoredRecord::Found(record) => {
                record.node.map(|node| Number { datacenter: node.datacenter, worker: node.worker })
            }
            StoredRecord::Absent | StoredRecord::Lost => None,
        }
    }

    /// Up to which Unix millisecond IDs were reserved, as far as is known.
    pub fn reserved_until_ms(&self) -> Option<i64> {
        match self {
            StoredRecord::Found(record) => Some(record.until_ms),
            StoredRecord::Absent | StoredRecord::Lost => None,
        }
    }
}

/// What is known of a server that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartupContext {
    /// Its database cluster.
    pub system_identifier: u64,
    /// Its timeline.
    pub timeline: u32,
    /// Its layout.
    pub layout: Layout,
    /// The boot of its machine.
    pub boot: u128,
    /// Its clocks.
    pub clock: ClockReading,
    /// The time of the last commit it replayed, if it replayed one.
    pub last_replayed_ms: Option<i64>,
    /// Up to which time the server that this one was a standby or is a restored copy of had reserved,
    /// as far as the write-ahead log tells that was replayed here ([`crate::replicated`]).
    pub replicated_ms: Option<i64>,
    /// The lead that IDs may have.
    pub max_lead_ms: u32,
    /// When `pg_upgrade` filled this cluster, if it did and no ID was reserved here since.
    pub upgraded_ms: Option<i64>,
}

/// Where a server starts to make IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartPoint {
    /// No ID may be of an earlier time.
    pub first_ms: i64,
    /// The clocks as last trusted.
    pub monitor: ClockMonitor,
}

/// Why a server can't make IDs before an administrator decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupError {
    /// There was a record, and it is gone.
    Lost,
    /// The record is another database cluster's.
    OtherSystem {
        /// The cluster in the record.
        found: u64,
    },
    /// IDs of the new layout would not be above all IDs of the old one.
    LayoutBelow {
        /// The layout of the IDs already issued.
        old: Layout,
        /// The largest that may have been issued.
        highest_old: i64,
        /// The smallest that would be issued next.
        lowest_new: i64,
    },
}

/// Where a server may start to make IDs.
///
/// # Errors
/// [`StartupError`] if an ID could repeat, or sort below one of another layout.
pub fn start_point(
    stored: &StoredRecord,
    context: &StartupContext,
) -> Result<StartPoint, StartupError> {
    match stored {
        StoredRecord::Lost => Err(StartupError::Lost),
        StoredRecord::Absent if context.timeline == FIRST_TIMELINE => {
            let start =
                StartPoint { first_ms: i64::MIN, monitor: ClockMonitor::new(context.clock) };
            Ok(after_upgrade(after_replay(start, context), context))
        }
        // A standby that was made before the first ID has no file of those that came after.
        StoredRecord::Absent => {
            Ok(after_upgrade(after_replay(above_clocks(context), context), context))
        }
        // What `pg_upgrade` filled has the tables of another cluster, and may have its file too.
        StoredRecord::Found(record)
            if record.system_identifier != context.system_identifier
                && context.upgraded_ms.is_none() =>
        {
            Err(StartupError::OtherSystem { found: record.system_identifier })
        }
        StoredRecord::Found(record) => {
            let start = after_upgrade(after(record, context), context);
            check_layout(record, context, start.first_ms)?;
            Ok(start)
        }
    }
}

/// Raises a start above every ID that the old cluster of an upgrade may have issued with a right
/// clock: it was down when `pg_upgrade` filled the new one.
fn after_upgrade(start: StartPoint, context: &StartupContext) -> StartPoint {
    let Some(upgraded_ms) = context.upgraded_ms else { return start };
    StartPoint { first_ms: start.first_ms.max(above(upgraded_ms, context)), ..start }
}

/// Raises a start above every ID that was made before anything that was replayed here.
fn after_replay(start: StartPoint, context: &StartupContext) -> StartPoint {
    let Some(replicated_ms) = context.replicated_ms else { return start };
    StartPoint { first_ms: start.first_ms.max(replicated_ms), ..start }
}

/// Above the IDs of a server whose clock may have shown this time.
fn above(latest_ms: i64, context: &StartupContext) -> i64 {
    latest_ms.saturating_add(i64::from(context.max_lead_ms)).saturating_add(UNSEEN_CLOCK_MARGIN_MS)
}

/// The start point if nothing but clocks can be relied on: above every ID that a server with a
/// right clock may have issued.
pub fn above_clocks(context: &StartupContext) -> StartPoint {
    let now_ms = context.clock.wall_ms();
    let latest_ms = context.last_replayed_ms.map_or(now_ms, |replayed| replayed.max(now_ms));
    StartPoint { first_ms: above(latest_ms, context), monitor: ClockMonitor::new(context.clock) }
}

/// The start point after what a record says.
fn after(record: &Record, context: &StartupContext) -> StartPoint {
    // Timelines of two clusters say nothing of each other.
    let same_system = record.system_identifier == context.system_identifier;
    if same_system && record.timeline != context.timeline {
        // Written by the primary that this server was copied from, which went on without it. What the
        // log told since covers the commits that arrived here; the clocks, those that did not.
        let start = after_replay(above_clocks(context), context);
        return StartPoint { first_ms: start.first_ms.max(record.until_ms), ..start };
    }
    // During one boot the monotonic clock goes on, and tells whether the wall clock was set while
    // the server was down.
    let same_boot = record.boot == context.boot && context.boot != UNKNOWN_BOOT;
    let trusted = if same_boot { record.clock } else { context.clock };
    StartPoint { first_ms: record.until_ms, monitor: ClockMonitor::new(trusted) }
}

fn check_layout(
    record: &Record,
    context: &StartupContext,
    first_ms: i64,
) -> Result<(), StartupError> {
    let (old, new) = (record.layout, context.layout);
    if old == new {
        return Ok(());
    }
    let end_of_old = old.tick_from(first_ms);
    if end_of_old == 0 {
        return Ok(());
    }
    let highest_old = Layout::to_bigint(old.max_of(end_of_old - 1));
    let lowest_new = Layout::to_bigint(new.min_of(new.tick_from(first_ms)));
    if lowest_new > highest_old {
        Ok(())
    } else {
        Err(StartupError::LayoutBelow { old, highest_old, lowest_new })
    }
}

/// The start point of a number that a fleet's registry granted, from this Unix millisecond on. That is above all that
/// anybody made with the number, so neither clocks nor files have to be relied on; but a record tells whether IDs of
/// another layout were made here.
///
/// # Errors
/// [`StartupError::LayoutBelow`].
pub fn granted_start_point(
    stored: &StoredRecord,
    context: &StartupContext,
    first_ms: i64,
) -> Result<StartPoint, StartupError> {
    let mut monitor = ClockMonitor::new(context.clock);
    if let StoredRecord::Found(record) = stored
        && record.system_identifier == context.system_identifier
    {
        check_layout(record, context, first_ms.max(record.until_ms))?;
        if record.timeline == context.timeline {
            monitor = after(record, context).monitor;
        }
    }
    Ok(StartPoint { first_ms, monitor })
}
