//! Where a server's line of IDs begins when it starts: what the last run promised, and what may
//! have happened since.
//!
//! The rule is never to begin below an ID that may exist. What is known decides; where too little
//! is known, [`begin`] refuses and names the [`Obstacle`] instead of guessing.

use crate::clock::{Reading, Watch};
use crate::layout::Layout;
use crate::reservation::Record;

/// How far a promoted or upgraded server stays above the clocks it knows, beyond the lead that its
/// predecessor may have used: 3 s for clocks that differ and for what an old primary did after its
/// last commit that arrived here.
pub const UNSEEN_CLOCK_MARGIN_MS: i64 = 3_000;

/// The timeline of a server that has never been promoted or restored.
const FIRST_TIMELINE: u32 = 1;

/// A boot of a machine that does not tell.
pub const UNKNOWN_BOOT: u128 = 0;

/// What was found where the record should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A record.
    Record(Record),
    /// No trace of one: this server has never issued an ID.
    Nothing,
    /// Traces that there was one, but it is gone.
    Lost,
}

impl Finding {
    /// Up to which time IDs were promised, as far as is known.
    pub fn promised_until_ms(&self) -> Option<i64> {
        match self {
            Finding::Record(record) => Some(record.until_ms),
            Finding::Nothing | Finding::Lost => None,
        }
    }
}

/// What is known of the server that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Its database cluster.
    pub system_identifier: u64,
    /// Its timeline.
    pub timeline: u32,
    /// Its layout.
    pub layout: Layout,
    /// The boot of its machine.
    pub boot: u128,
    /// Its clocks.
    pub clock: Reading,
    /// The time of the last commit it replayed, if it replayed one.
    pub last_replayed_ms: Option<i64>,
    /// The lead that IDs may have.
    pub max_lead_ms: u32,
    /// When `pg_upgrade` filled this cluster, if it did and no line has begun here since.
    pub upgraded_ms: Option<i64>,
}

/// Where a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// No ID may be of an earlier time.
    pub first_ms: i64,
    /// The clocks as last believed.
    pub watch: Watch,
}

/// Why a line can't begin before somebody decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
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

/// Decides where the line begins.
///
/// # Errors
/// [`Obstacle`] if an ID might come twice, or below one of another layout.
pub fn begin(finding: &Finding, present: &Present) -> Result<Start, Obstacle> {
    match finding {
        Finding::Lost => Err(Obstacle::Lost),
        Finding::Nothing if present.timeline == FIRST_TIMELINE => {
            let start = Start { first_ms: i64::MIN, watch: Watch::new(present.clock) };
            Ok(after_upgrade(start, present))
        }
        // A standby that was made before the first ID knows nothing of those that came after.
        Finding::Nothing => Ok(after_upgrade(anew(present), present)),
        // What `pg_upgrade` filled has the tables of another cluster, and may have its file too.
        Finding::Record(record)
            if record.system_identifier != present.system_identifier
                && present.upgraded_ms.is_none() =>
        {
            Err(Obstacle::OtherSystem { found: record.system_identifier })
        }
        Finding::Record(record) => {
            let start = after_upgrade(after(record, present), present);
            check_layout(record, present, start.first_ms)?;
            Ok(start)
        }
    }
}

/// Raises a start above every ID that the old cluster of an upgrade may have issued with a right
/// clock: it was down when `pg_upgrade` filled the new one.
fn after_upgrade(start: Start, present: &Present) -> Start {
    let Some(upgraded_ms) = present.upgraded_ms else { return start };
    Start { first_ms: start.first_ms.max(above(upgraded_ms, present)), ..start }
}

/// Above the IDs of a server whose clock may have shown this time.
fn above(latest_ms: i64, present: &Present) -> i64 {
    latest_ms.saturating_add(i64::from(present.max_lead_ms)).saturating_add(UNSEEN_CLOCK_MARGIN_MS)
}

/// Where a line begins if nothing of the past can be relied on but clocks: above every ID that a
/// server with a right clock may have issued.
pub fn anew(present: &Present) -> Start {
    let now_ms = present.clock.wall_ms();
    let latest_ms = present.last_replayed_ms.map_or(now_ms, |replayed| replayed.max(now_ms));
    Start { first_ms: above(latest_ms, present), watch: Watch::new(present.clock) }
}

/// Where a line begins after the one of a record.
fn after(record: &Record, present: &Present) -> Start {
    // Timelines of two clusters say nothing of each other.
    let same_system = record.system_identifier == present.system_identifier;
    if same_system && record.timeline != present.timeline {
        // Written by the primary that this server was copied from, which went on without it.
        let start = anew(present);
        return Start { first_ms: start.first_ms.max(record.until_ms), ..start };
    }
    // During one boot the monotonic clock goes on, and tells whether the wall clock was set while
    // the server was down.
    let same_boot = record.boot == present.boot && present.boot != UNKNOWN_BOOT;
    let believed = if same_boot { record.clock } else { present.clock };
    Start { first_ms: record.until_ms, watch: Watch::new(believed) }
}

fn check_layout(record: &Record, present: &Present, first_ms: i64) -> Result<(), Obstacle> {
    let (old, new) = (record.layout, present.layout);
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
        Err(Obstacle::LayoutBelow { old, highest_old, lowest_new })
    }
}
