//! The reservation on disk: `id_gen/reservation` in the data directory.
//!
//! What it says and why is [`id_gen_core::reservation`]; here it is read, and written with the
//! discipline of PostgreSQL's own `durable_rename`: a temporary file, flushed, renamed over the
//! old one, then file and directory flushed. The file `id_gen/issued` beside it is written once,
//! before the first ID: if it is there and the reservation is not, the reservation was lost.
//!
//! `pg_upgrade` carries tables, and with them IDs, into a new cluster, but no file of ours; so the
//! library notes there when that was, in `id_gen/upgraded` ([`crate::upgrade`]). The first line that
//! begins there takes account of it, and removes it.
//!
//! **Locking.** One process writes at a time: it holds the segment's write token
//! ([`Writing`]), not its lock, so sessions claim on while the disk works. Others that need a larger
//! reservation wait on a condition variable, interruptibly.

use std::ffi::c_int;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use id_gen_core::clock::Reading;
use id_gen_core::layout::Layout;
use id_gen_core::line::Line;
use id_gen_core::opening::{self, Finding, Present, Start};
use id_gen_core::reservation::{FILE, Record};
use once_cell::sync::OnceCell;
use pgrx::pg_sys;

use crate::claim::tick_now;
use crate::refusal::Refusal;
use crate::shared::{Segment, Writing};
use crate::{clock, timestamp, wait};

// Every process of a server works in its data directory.
const DATA_DIRECTORY: &str = ".";
const DIRECTORY: &str = "id_gen";
const ISSUED: &str = "id_gen/issued";
/// When `pg_upgrade` filled this cluster, in Unix milliseconds.
pub const UPGRADED: &str = "id_gen/upgraded";
const TEMPORARY: &str = "id_gen/writing";
const ISSUED_TEXT: &[u8] =
    b"This server has issued snowflakes. If id_gen/reservation is missing, it was lost.\n";

unsafe extern "C" {
    /// What files and directories of this cluster are open to: its owner, or after `initdb
    /// --allow-group-access` also the group (`common/file_perm.h`).
    safe static pg_dir_create_mode: c_int;
    safe static pg_file_create_mode: c_int;
}

/// What an operator decided about a line that could not begin by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: begin if it is safe.
    None,
    /// IDs of the new layout may repeat or go below those of the old one.
    AcceptLayout,
    /// Begin anew above the clock, and above this time, whatever is on disk.
    Reset {
        /// Unix milliseconds.
        above_ms: i64,
    },
}

/// How a line begins; all times in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// No ID is of an earlier time.
    pub first_ms: i64,
    /// When the clock shows this, calls get IDs.
    pub ready_ms: i64,
    /// Up to which time IDs had been promised before, as far as is known.
    pub promised_until_ms: Option<i64>,
}

/// Begins the line: reads the file, decides, and makes the first reservation. A line that has begun is begun anew only
/// by [`Decision::Reset`]; for any other decision it stays as it is, and the answer is `None`.
///
/// # Errors
/// What stands in the way, or why the file can't be read or written.
pub fn open(
    segment: &Segment,
    _writing: &Writing<'_>,
    decision: Decision,
) -> Result<Option<Beginning>, Refusal> {
    let layout = *segment.layout()?;
    let resets = matches!(decision, Decision::Reset { .. });
    let (max_lead_ms, max_jump_ns) = {
        let state = segment.lock();
        match state.line {
            Some(_) if !resets => return Ok(None),
            // The new line would believe the clock: whether it may is a decision of its own.
            Some(mut line) => {
                let max_jump_ms = state.settings.max_jump_ms;
                if let Some(by_ns) = line.watch.judge(clock::both(), state.max_jump_ns()).jumped_ns
                {
                    return Err(Refusal::Jumped { by_ns, max_jump_ms });
                }
            }
            None => {}
        }
        (state.settings.max_lead_ms, state.max_jump_ns())
    };
    let present = present(layout, max_lead_ms)?;
    // Where no ID can be made, none may be promised: a promise binds whoever comes after.
    tick_now(&layout, present.clock.wall_ns)?;
    // From here on nothing is claimed, so that it is known where the old line ends, and a smaller bound may be written.
    let closed = if resets { segment.close_line() } else { None };
    let start = decide(&present, closed.as_ref(), decision)?;
    let promised_until_ms = match closed {
        Some(line) => Some(line.promised_until_ms(&layout)),
        None => read().ok().and_then(|finding| finding.promised_until_ms()),
    };
    // The last run may have left the clocks of this boot, which tell whether to believe the clock
    // now.
    let mut line = Line::begin(&layout, &start);
    let (until_ms, believed) = line.wanted(&layout, present.clock, max_lead_ms, max_jump_ns);
    write(segment, layout, until_ms, believed)?;
    line.promise(&layout, until_ms);
    if present.upgraded_ms.is_some() {
        remove(UPGRADED).map_err(|error| Refusal::Unwritten((&error).into()))?;
    }
    segment.lock().line = Some(line);
    let first_ms = line.frontier_ms(&layout).max(present.clock.wall_ms());
    let ready_ms = first_ms.saturating_sub(max_lead_ms.into());
    Ok(Some(Beginning { first_ms, ready_ms, promised_until_ms }))
}

/// Whether a line could begin after a restart with another layout.
///
/// # Errors
/// What generating would be refused with.
pub fn try_layout(segment: &Segment, layout: Layout) -> Result<(), Refusal> {
    let max_lead_ms = segment.lock().settings.max_lead_ms;
    let present = present(layout, max_lead_ms)?;
    tick_now(&layout, present.clock.wall_ns)?;
    decide(&present, None, Decision::None).map(|_| ())
}

/// The layout of the IDs that this server promised last. A file that can't be read tells nothing here.
pub fn last_layout() -> Option<Layout> {
    match read() {
        Ok(Finding::Record(record)) => Some(record.layout),
        _ => None,
    }
}

/// Whether a claim could rely on the reservation now. Where the last write failed, this tries again,
/// as a claim would; otherwise it writes nothing.
///
/// # Errors
/// What the claim would be refused with.
pub fn trouble(segment: &Segment) -> Result<(), Refusal> {
    let (begun, failing, max_lead_ms) = {
        let state = segment.lock();
        (state.line.is_some(), state.write_failing, state.settings.max_lead_ms)
    };
    match (begun, failing) {
        (true, false) => Ok(()),
        (true, true) => extend(segment, &segment.begin_writing()),
        (false, true) => open(segment, &segment.begin_writing(), Decision::None).map(|_| ()),
        (false, false) => {
            decide(&present(*segment.layout()?, max_lead_ms)?, None, Decision::None).map(|_| ())
        }
    }
}

/// Notes that this cluster is being filled by `pg_upgrade`. Its processes may do this at the same time.
///
/// # Errors
/// If it can't be written.
pub fn note_upgrade() -> Result<(), Refusal> {
    let temporary = format!("{UPGRADED}.{}", std::process::id());
    let text = format!("{}\n", clock::both().wall_ms());
    make_directory()
        .and_then(|()| flush_directory(DATA_DIRECTORY))
        .and_then(|()| replace(&temporary, UPGRADED, text.as_bytes()))
        .map_err(|error| Refusal::UpgradeUnwritten((&error).into()))
}

/// The layout of the IDs that this server has promised since it was started, by whatever of its processes: after a crash
/// of one of them only the file remembers it. A file that can't be read tells nothing here; whoever generates will be told.
pub fn layout_of_this_run() -> Option<Layout> {
    let server_start_us = server_start_us()?;
    let Ok(Finding::Record(record)) = read() else { return None };
    // SAFETY: only reads shared memory.
    let same_system = record.system_identifier == unsafe { pg_sys::GetSystemIdentifier() };
    (same_system && record.server_start_us == Some(server_start_us)).then_some(record.layout)
}

/// When the postmaster was started; `None` while it is still starting.
fn server_start_us() -> Option<i64> {
    // SAFETY: set by the postmaster before it starts any process, and inherited.
    let started = unsafe { pg_sys::PgStartTime };
    (started != 0).then(|| started.saturating_add(timestamp::POSTGRES_EPOCH_UNIX_US))
}

/// Where the line begins, or begins anew where there is one.
fn decide(present: &Present, line: Option<&Line>, decision: Decision) -> Result<Start, Refusal> {
    if let Decision::Reset { above_ms } = decision {
        let start = opening::anew(present);
        // Of a line that is at hand it is known where it stands: one that is within reach of the clock goes on there.
        let first_ms = line
            .map_or(start.first_ms, |line| start.first_ms.min(line.next_tick_ms(&present.layout)));
        return Ok(Start { first_ms: first_ms.max(above_ms), ..start });
    }
    let mut finding = read()?;
    if decision == Decision::AcceptLayout
        && let Finding::Record(record) = &mut finding
    {
        record.layout = present.layout;
    }
    opening::begin(&finding, present)
        .map_err(|obstacle| Refusal::Obstacle(obstacle, Box::new(present.layout)))
}

/// Extends the reservation as far as it should reach, if it does not already.
///
/// # Errors
/// If the file can't be written.
pub fn extend(segment: &Segment, _writing: &Writing<'_>) -> Result<(), Refusal> {
    let layout = *segment.layout()?;
    segment.sample();
    let (until_ms, believed) = {
        let state = segment.lock();
        let Some(line) = &state.line else { return Ok(()) };
        let max_lead_ms = state.settings.max_lead_ms;
        let wanted = line.wanted(&layout, clock::both(), max_lead_ms, state.max_jump_ns());
        if wanted.0 <= line.promised_until_ms(&layout) {
            return Ok(());
        }
        wanted
    };
    write(segment, layout, until_ms, believed)?;
    if let Some(line) = &mut segment.lock().line {
        line.promise(&layout, until_ms);
    }
    Ok(())
}

/// Gives back what is reserved and not used, so that the next start need not wait for it.
///
/// # Errors
/// If the file can't be written; the larger bound then stays on disk, which is safe.
pub fn withdraw(segment: &Segment, _writing: &Writing<'_>) -> Result<(), Refusal> {
    let layout = *segment.layout()?;
    let (until_ms, believed) = {
        let mut state = segment.lock();
        let Some(line) = &mut state.line else { return Ok(()) };
        // From here on a claim has to extend the reservation first, and so to wait for this write.
        (line.withdraw(&layout), line.watch.believed())
    };
    write(segment, layout, until_ms, believed)
}

/// This cluster and its timeline.
fn identity() -> (u64, u32) {
    // SAFETY: recovery is over (no session claims before, and the keeper starts after), so the
    // timeline is settled; both only read shared memory.
    unsafe { (pg_sys::GetSystemIdentifier(), pg_sys::GetWALInsertionTimeLine()) }
}

/// This boot of the machine.
fn boot() -> u128 {
    static BOOT: OnceCell<u128> = OnceCell::new();
    *BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .and_then(|text| u128::from_str_radix(&text.trim().replace('-', ""), 16).ok())
            .unwrap_or(opening::UNKNOWN_BOOT)
    })
}

/// What is known of this server now.
fn present(layout: Layout, max_lead_ms: u32) -> Result<Present, Refusal> {
    let (system_identifier, timeline) = identity();
    // SAFETY: only reads shared memory.
    let replayed = unsafe { pg_sys::GetLatestXTime() };
    let clock = clock::both();
    Ok(Present {
        system_identifier,
        timeline,
        layout,
        boot: boot(),
        clock,
        last_replayed_ms: (replayed != 0).then(|| timestamp::unix_ms(replayed).ok()).flatten(),
        max_lead_ms,
        upgraded_ms: read_upgraded(clock)?,
    })
}

/// When this cluster was filled by `pg_upgrade`; a note that can't be understood counts as now.
fn read_upgraded(now: Reading) -> Result<Option<i64>, Refusal> {
    match fs::read_to_string(UPGRADED) {
        Ok(text) => Ok(Some(text.trim().parse().unwrap_or_else(|_| now.wall_ms()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(now.wall_ms())),
        Err(error) => Err(Refusal::Unreadable((&error).into())),
    }
}

fn read() -> Result<Finding, Refusal> {
    match fs::read(FILE) {
        Ok(bytes) => Record::decode(&bytes).map(Finding::Record).map_err(Refusal::Damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::exists(ISSUED) {
            Ok(true) => Ok(Finding::Lost),
            Ok(false) => Ok(Finding::Nothing),
            Err(error) => Err(Refusal::Unreadable((&error).into())),
        },
        Err(error) => Err(Refusal::Unreadable((&error).into())),
    }
}

/// Makes a bound durable, and counts the write.
fn write(segment: &Segment, layout: Layout, until_ms: i64, clock: Reading) -> Result<(), Refusal> {
    let (system_identifier, timeline) = identity();
    let record = Record {
        system_identifier,
        timeline,
        layout,
        until_ms,
        boot: boot(),
        clock,
        server_start_us: server_start_us(),
    };
    let since_ns = clock::mono_ns();
    let bytes = record.encode();
    let written = wait::Event::Reservation.during(|| write_files(&bytes));
    let took_ns = clock::mono_ns().saturating_sub(since_ns);
    segment.lock().count_write(took_ns, written.is_ok());
    written.map_err(|error| Refusal::Unwritten((&error).into()))
}

fn write_files(bytes: &[u8]) -> io::Result<()> {
    make_directory()?;
    replace(TEMPORARY, FILE, bytes)?;
    if !fs::exists(ISSUED)? {
        // Until the directory's own entry is durable a power cut may take it with all that is in it, which would read as
        // "never issued". Whoever made it may have died or failed before this; the file tells that it was done.
        flush_directory(DATA_DIRECTORY)?;
        replace(TEMPORARY, ISSUED, ISSUED_TEXT)?;
    }
    Ok(())
}

fn make_directory() -> io::Result<()> {
    match DirBuilder::new().mode(pg_dir_create_mode.cast_unsigned()).create(DIRECTORY) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn replace(temporary: &str, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(pg_file_create_mode.cast_unsigned())
        .open(temporary)?;
    file.write_all(bytes)?;
    flush_file(&file)?;
    fs::rename(temporary, path)?;
    flush_file(&file)?;
    flush_directory(DIRECTORY)
}

fn remove(path: &str) -> io::Result<()> {
    fs::remove_file(path)?;
    flush_directory(DIRECTORY)
}

/// Makes the entries of a directory durable. What a file system answers that flushes no directories is no error, as for
/// PostgreSQL's own files (`fsync_fname_ext`, `storage/file/fd.c`).
fn flush_directory(path: &str) -> io::Result<()> {
    let directory = match File::open(path) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EISDIR | libc::EACCES)) => {
            return Ok(());
        }
        opened => opened?,
    };
    match flush_file(&directory) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL)) => Ok(()),
        flushed => flushed,
    }
}

fn flush_file(file: &File) -> io::Result<()> {
    // SAFETY: a setting of this process. Who turns it off accepts to lose any file in a power cut.
    if unsafe { pg_sys::enableFsync } { file.sync_all() } else { Ok(()) }
}
