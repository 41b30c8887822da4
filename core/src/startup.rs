//! The lowest time that a server may make IDs of when it starts: from what the last run reserved, and
//! what may have happened since.
//!
//! The rule is never to start below an ID that may exist. Where too little is known,
//! [`start_point`] returns a [`StartupError`] instead of guessing.

use crate::clock::{ClockMonitor, ClockReading};
use crate::directory::{Directory, Origin};
use crate::fleet::Number;
use crate::layout::Layout;
use crate::originals::{Claim, Original, Originals};
use crate::planted::Fault;
use crate::replicated::{Bound, Replayed};
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
#[expect(clippy::large_enum_variant, reason = "a start has one, on its stack")]
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
            StoredRecord::Found(record) => record.number(),
            StoredRecord::Absent | StoredRecord::Lost => None,
        }
    }

    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            StoredRecord::Found(record) => Some(record),
            StoredRecord::Absent | StoredRecord::Lost => None,
        }
    }

    /// The clocks as they were trusted last, if that was within this boot of the machine.
    pub fn trusted_clocks(&self, boot: u128) -> Option<ClockMonitor> {
        match self {
            StoredRecord::Found(record) if record.boot == boot && boot != UNKNOWN_BOOT => {
                Some(ClockMonitor::new(record.clock))
            }
            _ => None,
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
    /// The last bound of a reservation that was replayed here: of this server's own, or of the one that it was a standby or
    /// is a copy of.
    pub replayed: Option<Replayed>,
    /// The lead that IDs may have.
    pub max_lead_ms: u32,
    /// When `pg_upgrade` filled this cluster, if it did and no ID was reserved here since.
    pub upgraded_ms: Option<i64>,
    /// The place of its reservation, if there is one.
    pub origin: Option<Origin>,
    /// Whether it is for tests: copies of it generate the same IDs on purpose.
    pub is_for_tests: bool,
    /// Its worker and datacenter ID, as far as no other copy of it may have them.
    pub assignment: Assignment,
    /// Whether a superuser confirmed that no other copy of its data directory, nor its original, has its worker ID.
    pub is_only_copy: bool,
}

/// How a server has its worker and datacenter ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// From a fleet's registry, which grants them to no other server.
    Registry,
    /// From its settings, of which a copy has the same; `None` if none is set yet.
    Manual(Option<Number>),
}

impl StartupContext {
    /// Its number, if it has one, unless it is compared with no other server's: a registry grants it only to this one, or
    /// copies of a server for tests generate the same IDs on purpose.
    pub fn compared(&self) -> Option<Option<Number>> {
        match self.assignment {
            Assignment::Manual(number) if !self.is_for_tests => Some(number),
            Assignment::Manual(_) | Assignment::Registry => None,
        }
    }
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
    /// The record is another database cluster's, whose server may have the same worker ID: its directory was copied, and
    /// the copy became a cluster of its own, as `pg_createsubscriber` does.
    OtherSystem {
        /// The cluster in the record.
        found: u64,
        /// The worker and datacenter ID in the record, if it has them.
        number: Option<Number>,
    },
    /// The record was written in another directory, whose server may have the same worker ID: this directory is a copy.
    Copied {
        /// The worker and datacenter ID in the record, if it has them.
        number: Option<Number>,
        /// The directory in the record.
        original: Directory,
        /// The directory of this server.
        copy: Directory,
    },
    /// The worker ID may be that of a server whose directory this one is a copy of. It has had another one since it was copied.
    CopiedBefore {
        /// That server's worker and datacenter ID.
        number: Number,
    },
    /// The record was written in another file. Each write makes a new one, so this one was put back.
    PutBack {
        /// The file in the record.
        written: Directory,
        /// The file that it is in.
        found: Directory,
    },
    /// Another server reserved IDs on this timeline, or in another database cluster, and this one did not: its directory is
    /// a copy, of a time before that server's first reservation.
    ReservedByAnother {
        /// That server's cluster.
        system_identifier: u64,
        /// That server's timeline.
        timeline: u32,
        /// That server's worker and datacenter ID, if it had them.
        number: Option<Number>,
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
        StoredRecord::Absent => {
            check_found(None, context)?;
            let is_new =
                context.timeline == FIRST_TIMELINE && reserved_by_another(None, context).is_none();
            let start = if is_new {
                StartPoint { first_ms: i64::MIN, monitor: ClockMonitor::new(context.clock) }
            } else {
                // A standby that was made before the first ID has no file of those that came after.
                above_clocks(context)
            };
            let start = above_all_sources(start, None, context);
            check_last_layout(None, context, start.first_ms)?;
            Ok(start)
        }
        StoredRecord::Found(record) => {
            check_found(Some(record), context)?;
            let start = above_all_sources(after(record, context), Some(record), context);
            check_last_layout(Some(record), context, start.first_ms)?;
            Ok(start)
        }
    }
}

/// Raises a start above every source that says which IDs may exist. None is ignored because there is another one.
fn above_all_sources(
    start: StartPoint,
    record: Option<&Record>,
    context: &StartupContext,
) -> StartPoint {
    let sources = [
        record.map(|record| record.until_ms).filter(|_| !Fault::StartIgnoresFile.is_planted()),
        replayed_ms(record, context),
        context.last_replayed_ms.map(|replayed_ms| above(replayed_ms, context)),
        // The old cluster of an upgrade was down when `pg_upgrade` filled the new one.
        context.upgraded_ms.map(|upgraded_ms| above(upgraded_ms, context)),
    ];
    let first_ms = sources.into_iter().flatten().fold(start.first_ms, i64::max);
    StartPoint { first_ms, ..start }
}

/// The bound that was replayed here, in Unix milliseconds, unless the record takes precedence over it.
pub fn replayed_ms(record: Option<&Record>, context: &StartupContext) -> Option<i64> {
    let replayed = context.replayed?;
    let is_own_timeline = replayed.timeline == context.timeline;
    if is_own_timeline && Fault::StartIgnoresReplayed.is_planted()
        || !is_own_timeline && Fault::PromotionIgnoresReplayed.is_planted()
    {
        return None;
    }
    let is_accounted = record.is_some_and(|record| is_accounted(record, replayed, context));
    (!is_accounted).then_some(replayed.bound.until_ms)
}

/// Whether a record was written with knowledge of a bound that was replayed here.
fn is_accounted(record: &Record, replayed: Replayed, context: &StartupContext) -> bool {
    let is_same_timeline = is_same_timeline(record, context);
    // An earlier file that was put in its place reveals itself, if the file system tells files apart.
    let tells_files_apart =
        record.place.origin.file.is_some() && context.origin.is_some_and(|own| own.file.is_some());
    let is_by_same = tells_files_apart && is_own(record, replayed, context);
    // That of another server may be of a timeline that this one is not on.
    let is_of_history = is_same_timeline || is_own_of_earlier_timeline(record, context);
    (is_same_timeline && is_by_same) || (is_of_history && !is_newer(replayed, record, context))
}

/// Whether this server wrote both a record and a bound. It writes its file before it logs the bound, and a crash may lose only
/// the bound: so the record is the newer one.
fn is_own(record: &Record, replayed: Replayed, context: &StartupContext) -> bool {
    context.origin.is_some_and(|own| {
        own.directory.is_same(&replayed.bound.directory) && record.place.origin.is_same(&own)
    })
}

/// Whether a bound was logged after a record was written. If not, it may be of a server that has nothing more to do with this
/// one, as what a server logs itself does not replace what it has replayed.
fn is_newer(replayed: Replayed, record: &Record, context: &StartupContext) -> bool {
    let Replayed { bound, log_position, timeline } = replayed;
    // A cluster that is made of a standby continues the log of its primary.
    let known = [context.system_identifier, bound.system_identifier];
    let is_comparable = known.contains(&record.place.system_identifier);
    // A timeline begins with a server that has replayed all that came before.
    !is_comparable || (timeline, log_position) > (record.place.timeline, record.log_position)
}

/// Whether a record was written by this server, or by one of which this one is a copy, since the last promotion of either.
fn is_same_timeline(record: &Record, context: &StartupContext) -> bool {
    (record.place.system_identifier, record.place.timeline)
        == (context.system_identifier, context.timeline)
}

/// Whether a record was written in this directory, before a promotion.
fn is_own_of_earlier_timeline(record: &Record, context: &StartupContext) -> bool {
    record.place.system_identifier == context.system_identifier
        && record.place.timeline < context.timeline
        && context.origin.is_some_and(|own| record.place.origin.directory.is_same(&own.directory))
}

/// Why a server is a copy, by what it replayed: another server reserved IDs on this timeline, or in the cluster whose standby
/// this one was before `pg_createsubscriber` made it a cluster of its own.
fn reserved_by_another(record: Option<&Record>, context: &StartupContext) -> Option<StartupError> {
    if Fault::StandbyWithoutSignal.is_planted() {
        return None;
    }
    let replayed = context.replayed?;
    let Replayed { bound, timeline, .. } = replayed;
    let Bound { system_identifier, number, directory, .. } = bound;
    let own = context.system_identifier;
    let is_of_another = if system_identifier == own {
        timeline == context.timeline
            && context.origin.is_none_or(|own| !own.directory.is_same(&directory))
            && record.is_none_or(|record| is_newer(replayed, record, context))
    } else {
        // Whoever has reserved in this cluster has been told of what came from the other.
        record.is_none_or(|record| record.place.system_identifier != own)
    };
    is_of_another.then_some(StartupError::ReservedByAnother { system_identifier, timeline, number })
}

/// Why a record says nothing of what was made here since: it is of another cluster, or of this timeline, and was written in
/// another directory than this server's own, or in another file than it is in.
fn copied(record: &Record, context: &StartupContext) -> Option<StartupError> {
    if record.place.system_identifier != context.system_identifier {
        // What `pg_upgrade` filled has the tables of another cluster, and may have its file too.
        return context.upgraded_ms.is_none().then(|| StartupError::OtherSystem {
            found: record.place.system_identifier,
            number: record.number(),
        });
    }
    if !is_same_timeline(record, context) || Fault::CopyNotCompared.is_planted() {
        return None;
    }
    let (written, found) = (record.place.origin, context.origin?);
    let (original, copy) = (written.directory, found.directory);
    if !original.is_same(&copy) {
        return Some(StartupError::Copied { number: record.number(), original, copy });
    }
    let (written, found) = written.file.zip(found.file)?;
    (!written.is_same(&found)).then_some(StartupError::PutBack { written, found })
}

/// The servers that this one is a copy of, as far as what it found was written by them: how that shows, and with which number
/// each generates, if it is known.
fn found_originals(
    record: Option<&Record>,
    context: &StartupContext,
) -> impl Iterator<Item = (StartupError, Option<(Original, Claim)>)> {
    let claim = |is_granted| if is_granted { Claim::Granted } else { Claim::Assigned };
    // Another version of a file of this very directory is of this server.
    let by_file = record.and_then(|record| {
        let error = copied(record, context)?;
        let is_own = matches!(error, StartupError::PutBack { .. });
        let is_granted = record.node.is_some_and(|it| it.granted_until_ms.is_some());
        let original = |number| (Original { layout: record.layout, number }, claim(is_granted));
        (!is_own).then_some((error, record.number().map(original)))
    });
    let by_log = reserved_by_another(record, context).zip(context.replayed).map(|(error, it)| {
        let Bound { layout, claim: its, .. } = it.bound;
        let original = |number| (Original { layout, number }, claim(its == Claim::Granted));
        (error, it.bound.number.map(original))
    });
    [by_file, by_log].into_iter().flatten()
}

/// The numbers of the servers that this one is a copy of, once it has started: those in its record, those of servers that left
/// it or a bound here, and those that it knew while it ran; and which of them a superuser has confirmed or reset.
pub fn originals(
    record: Option<&Record>,
    context: &StartupContext,
    known: Originals,
    confirmed: Option<Number>,
) -> Originals {
    if Fault::OriginalForgotten.is_planted() {
        return Originals::NONE;
    }
    let recorded = record.map_or(Originals::NONE, |record| record.originals);
    // What was accepted for the server that wrote the file, is not for a copy of it.
    let is_of_another = record
        .and_then(|record| copied(record, context))
        .is_some_and(|error| !matches!(error, StartupError::PutBack { .. }));
    let all = known.and(&if is_of_another { recorded.of_copy() } else { recorded });
    let found = found_originals(record, context).filter_map(|(_, original)| original);
    let all = found.fold(all, |all, (original, claim)| all.with(original, claim));
    let confirmed = confirmed.map(|number| Original { layout: context.layout, number });
    inherited(record, context).into_iter().chain(confirmed).fold(all, Originals::accept)
}

/// The number that a superuser has accepted on the server that this one was a standby of, since the record was written.
fn inherited(record: Option<&Record>, context: &StartupContext) -> Option<Original> {
    let (record, replayed) = record.zip(context.replayed)?;
    let Bound { layout, claim, .. } = replayed.bound;
    let is_promoted = record.place.timeline != context.timeline
        && record.place.system_identifier == context.system_identifier
        && replayed.bound.system_identifier == context.system_identifier;
    let is_inherited =
        is_promoted && claim == Claim::Accepted && is_newer(replayed, record, context);
    let number = replayed.bound.number.filter(|_| is_inherited && !context.is_for_tests)?;
    Some(Original { layout, number })
}

/// The number in a record that IDs of the layout were generated with here.
pub fn recorded_number(record: Option<&Record>, context: &StartupContext) -> Option<Number> {
    let is_of_another = found_originals(record, context).next().is_some();
    let own = record.filter(|it| it.layout == context.layout && !is_of_another);
    own.and_then(Record::number)
}

/// Refuses a copy of a server that may have its number: the server does not start, as it is not known where its original is.
fn check_found(record: Option<&Record>, context: &StartupContext) -> Result<(), StartupError> {
    let Some(number) = context.compared().filter(|_| !context.is_only_copy) else { return Ok(()) };
    let put_back = record.and_then(|record| copied(record, context));
    if let Some(error @ StartupError::PutBack { .. }) = put_back {
        return Err(error);
    }
    for (error, original) in found_originals(record, context) {
        // A server without a number may get any.
        let is_other = original
            .zip(number)
            .is_some_and(|((original, _), number)| !original.may_make(&context.layout, number));
        if !is_other {
            return Err(error);
        }
    }
    Ok(())
}

/// Refuses a copy that may generate with the worker ID of an original, now or once it has a worker ID.
///
/// # Errors
/// [`StartupError::OtherSystem`], [`StartupError::Copied`], [`StartupError::CopiedBefore`], [`StartupError::PutBack`] or
/// [`StartupError::ReservedByAnother`].
pub fn check_copy(record: Option<&Record>, context: &StartupContext) -> Result<(), StartupError> {
    check_found(record, context)?;
    let number = context.compared().flatten().filter(|_| !context.is_only_copy);
    let own = number.map(|number| Original { layout: context.layout, number });
    check_original(&originals(record, context, Originals::NONE, None), own)
}

/// Refuses a number whose IDs an original may generate. A server that has started generates only the IDs of its shards then.
///
/// # Errors
/// [`StartupError::CopiedBefore`].
pub fn check_original(originals: &Originals, own: Option<Original>) -> Result<(), StartupError> {
    let refused = own.and_then(|own| originals.refuse(own));
    refused.map_or(Ok(()), |number| Err(StartupError::CopiedBefore { number }))
}

/// Above the IDs of a server whose clock may have shown this time.
fn above(latest_ms: i64, context: &StartupContext) -> i64 {
    if Fault::StartWithoutMargin.is_planted() {
        return latest_ms;
    }
    latest_ms.saturating_add(i64::from(context.max_lead_ms)).saturating_add(UNSEEN_CLOCK_MARGIN_MS)
}

/// The start point if nothing but clocks can be relied on: above every ID that a server with a
/// right clock may have issued.
pub fn above_clocks(context: &StartupContext) -> StartPoint {
    let now_ms = context.clock.wall_ms();
    let latest_ms = context.last_replayed_ms.map_or(now_ms, |replayed| replayed.max(now_ms));
    StartPoint { first_ms: above(latest_ms, context), monitor: ClockMonitor::new(context.clock) }
}

/// The start point after what a record says of clocks and time.
fn after(record: &Record, context: &StartupContext) -> StartPoint {
    // Timelines of two clusters say nothing of each other.
    let same_system = record.place.system_identifier == context.system_identifier;
    let is_promoted = same_system && record.place.timeline != context.timeline;
    let is_copy =
        copied(record, context).is_some() || reserved_by_another(Some(record), context).is_some();
    if is_promoted || is_copy && !context.is_for_tests {
        // Written by the server that this one was copied from, which continued without it, perhaps with the number that this
        // one has now. Its commits that arrived here came with a bound; the clocks cover those that did not.
        return above_clocks(context);
    }
    // During one boot the monotonic clock goes on, and tells whether the wall clock was set while
    // the server was down.
    let same_boot = record.boot == context.boot && context.boot != UNKNOWN_BOOT;
    let trusted = if same_boot { record.clock } else { context.clock };
    let first_ms = if Fault::StartIgnoresFile.is_planted() { i64::MIN } else { record.until_ms };
    StartPoint { first_ms, monitor: ClockMonitor::new(trusted) }
}

/// Compares the layout with the last one before: what was replayed since the record was written has the layout that followed
/// the record's, or that a superuser accepted there. This server's own record has the layout, or the one that a superuser has
/// accepted; that of its original knows nothing of what that logged later.
fn check_last_layout(
    record: Option<&Record>,
    context: &StartupContext,
    first_ms: i64,
) -> Result<(), StartupError> {
    let is_last = |replayed: &Replayed| {
        record.is_none_or(|record| {
            let is_accepted = is_same_timeline(record, context)
                && is_own(record, *replayed, context)
                && record.layout == context.layout;
            !is_accepted
                && is_newer(*replayed, record, context)
                && !is_accounted(record, *replayed, context)
        })
    };
    let replayed = context.replayed.filter(is_last).map(|replayed| replayed.bound.layout);
    let last = replayed.or_else(|| record.map(|record| record.layout));
    last.map_or(Ok(()), |last| check_layout(last, context, first_ms))
}

fn check_layout(old: Layout, context: &StartupContext, first_ms: i64) -> Result<(), StartupError> {
    let new = context.layout;
    if old == new || Fault::LayoutNotCompared.is_planted() {
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

/// The grants of a fleet's registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The number.
    pub number: Number,
    /// No ID of an earlier Unix millisecond: that is above all that any member made with the number.
    pub first_ms: i64,
}

/// The start point of a number that a fleet's registry granted. No member made IDs above it, so neither clocks nor files have
/// to be relied on. But the server that this one was a standby of may have made IDs with the number outside of the fleet; and
/// its IDs of any number, and those of another layout, are to be below.
///
/// # Errors
/// [`StartupError::LayoutBelow`]; or [`StartupError::Lost`].
pub fn granted_start_point(
    stored: &StoredRecord,
    context: &StartupContext,
    granted: Granted,
) -> Result<StartPoint, StartupError> {
    // It would have named the servers that this one is a copy of.
    if *stored == StoredRecord::Lost {
        return Err(StartupError::Lost);
    }
    let record = stored.record();
    let before = record.map_or_else(|| above_clocks(context), |record| after(record, context));
    let replayed_ms = replayed_ms(record, context).unwrap_or(i64::MIN);
    let before_ms = if was_assigned(record, context, granted.number) {
        above_all_sources(before, record, context).first_ms
    } else {
        // The log names the last number of that server; it may have had this one before.
        replayed_ms
    };
    let first_ms = granted.first_ms.max(before_ms);
    let reserved_ms = stored.reserved_until_ms().unwrap_or(i64::MIN);
    check_last_layout(record, context, first_ms.max(reserved_ms).max(replayed_ms))?;
    let is_same_timeline = record.is_some_and(|record| is_same_timeline(record, context));
    let monitor = if is_same_timeline { before.monitor } else { ClockMonitor::new(context.clock) };
    Ok(StartPoint { first_ms, monitor })
}

/// Whether a number is one that an administrator assigned to the server that wrote what was found here.
fn was_assigned(record: Option<&Record>, context: &StartupContext, number: Number) -> bool {
    let by_file = record.and_then(|record| {
        let node = record.node.filter(|node| node.granted_until_ms.is_none());
        node.and(record.number()).map(|number| Original { layout: record.layout, number })
    });
    let by_log = context.replayed.and_then(|Replayed { bound, .. }| {
        let number = bound.number.filter(|_| bound.claim != Claim::Granted);
        number.map(|number| Original { layout: bound.layout, number })
    });
    let may_make = |original: Original| original.may_make(&context.layout, number);
    by_file.into_iter().chain(by_log).any(may_make)
}
