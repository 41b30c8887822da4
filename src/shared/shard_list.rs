//! Which shards this server has: what its file says, put into the places of shared memory, and the other way round.
//!
//! **Locking.** Whoever reads the file into memory, or writes it, holds the reservation's write lock.

use id_gen_core::fleet::Number;
use id_gen_core::frontier::end_ms;
use id_gen_core::kept_file::Flaw;
use id_gen_core::layout::Layout;
use id_gen_core::shard_file::{Entry, Holding, SHARD_FILE};
use id_gen_core::shards::{Owned, Place};

use crate::durable;
use crate::durable::shard_file::{self, Found};
use crate::error::shards::{Change, ShardRefusal};
use crate::error::{FileError, report};
use crate::pg::server;
use crate::shared::shards::{ABOVE_MARGIN_MS, FileState, ShardState};
use crate::shared::state::{SharedState, State};
use crate::shared::write_lock::WriteGuard;

/// Reads the file once the server begins to make IDs.
pub fn load(shared: &SharedState, layout: &Layout, guard: &WriteGuard<'_>) {
    if shared.lock().shards.file != FileState::Unread {
        return;
    }
    // If it can't be read, whoever asks for a shard tries again, and gets the error.
    let _ = read_file(shared, layout, guard);
    if shared.lock().shards.file == FileState::Foreign {
        // What is not this server's now never is again, also if its directory has its former number after a mount.
        let _ = write_file(shared, &[], guard);
        shared.lock().shards.file = FileState::Foreign;
    }
}

/// No shard goes on below a Unix millisecond. Where an administrator makes the server start again, forgets what shards have
/// made above another, and where they begin because of a wrong clock: once that is durable.
pub fn begin(
    shared: &SharedState,
    layout: &Layout,
    first_ms: i64,
    resets_to_ms: Option<i64>,
    guard: &WriteGuard<'_>,
) {
    let position = |ms| layout.first_position(layout.tick_from(ms));
    let lowered = {
        let mut state = shared.lock();
        let space = shared.shards();
        match resets_to_ms {
            None => {
                state.shards.start = state.shards.start.max(position(first_ms));
                return;
            }
            Some(reach_ms) => {
                state.shards.start = position(first_ms);
                space.in_use().for_each(|place| place.forget_above(position(reach_ms)));
                state.shards.made_end = space.ceiling().lower(0, space.in_use());
                // What could not be read is not written over.
                let is_read = state.shards.file == FileState::Read;
                let lower = |place: &&Place| is_read && lower_declared(place, reach_ms);
                let lowered = space.in_use().filter(lower).count();
                (lowered > 0).then(|| entries(shared, &state, layout))
            }
        }
    };
    if let Some(entries) = lowered {
        // If it can't be written, the keeper tries again.
        let _ = write_file(shared, &entries, guard);
    }
}

/// Lowers where a declared shard begins to a Unix millisecond, if that is further ahead than a right clock allows; whether
/// it was.
fn lower_declared(place: &Place, reach_ms: i64) -> bool {
    let is_wrong = |owned: &Owned| {
        !owned.in_fleet && owned.first_ms > reach_ms.saturating_add(ABOVE_MARGIN_MS)
    };
    let Some(owned) = place.owned().filter(is_wrong) else { return false };
    place.set_owned(Some(Owned { first_ms: reach_ms, ..owned }));
    true
}

/// Forgets the shards of the fleet: this server runs on a copy of the disk of the one that has them.
pub fn forget_of_fleet(shared: &SharedState, layout: &Layout) {
    let guard = shared.write_lock.lock();
    load(shared, layout, &guard);
    let entries = {
        let mut state = shared.lock();
        if state.shards.file != FileState::Read {
            return;
        }
        let of_fleet = |place: &&Place| place.owned().is_some_and(|owned| owned.in_fleet);
        for place in shared.shards().in_use().filter(of_fleet) {
            place.close();
            place.set_owned(None);
        }
        shared.lower_shards(&mut state);
        shared.put_shards(&mut state);
        entries(shared, &state, layout)
    };
    // If it can't be written, the keeper tries again.
    let _ = write_file(shared, &entries, &guard);
}

/// Puts what the file says into the places.
///
/// # Errors
/// If it can't be read.
pub fn read_file(
    shared: &SharedState,
    layout: &Layout,
    _guard: &WriteGuard<'_>,
) -> Result<(), FileError> {
    let recorded = durable::read().ok().and_then(|stored| stored.own_number());
    let found = shard_file::read();
    let (file, error, entries) = match found.map(understand) {
        Ok((file, entries)) => (file, None, entries),
        Err(error) => (FileState::Unreadable, Some(error), Vec::new()),
    };
    if file == FileState::Foreign {
        log_forgotten(&entries);
    }
    let mut state = shared.lock();
    state.shards.trusted_number = recorded;
    let now_ms = state.trusted_ms(None);
    let mut put = |entry: &Entry| put_entry(shared, layout, entry, now_ms);
    state.shards.file = match file {
        FileState::Read if !entries.iter().all(&mut put) => {
            FileState::Unusable(Flaw::TooMany.into())
        }
        file => file,
    };
    shared.follow_basis(&mut state);
    shared.put_shards(&mut state);
    error.map_or(Ok(()), Err)
}

/// In which state a file is that was read, and what it lists.
fn understand(found: Found) -> (FileState, Vec<Entry>) {
    match found {
        Found::Absent => (FileState::Read, Vec::new()),
        Found::Own(entries) => (FileState::Read, entries),
        Found::Foreign(entries) => (FileState::Foreign, entries),
        Found::Unusable(damage) => (FileState::Unusable(damage), Vec::new()),
    }
}

/// The file as the server will find it when it starts to generate; `None` if it has read it.
///
/// # Errors
/// If it cannot be read.
fn unread(shared: &SharedState) -> Result<Option<(FileState, Vec<Entry>)>, FileError> {
    if shared.lock().shards.file != FileState::Unread {
        return Ok(None);
    }
    shard_file::read().map(|found| Some(understand(found)))
}

/// The state of the file, also before the server has read it.
///
/// # Errors
/// If it cannot be read.
pub fn file_state(shared: &SharedState) -> Result<FileState, FileError> {
    Ok(unread(shared)?.map_or_else(|| shared.lock().shards.file, |(file, _)| file))
}

/// Says which shards a list had that is not this server's, because it is about to be written over.
fn log_forgotten(entries: &[Entry]) {
    let held = entries.iter().filter(|entry| entry.holding != Holding::Released);
    let shards: Vec<_> = held.map(|entry| entry.number.worker.to_string()).collect();
    if !shards.is_empty() {
        report::log_line(format!(
            "id_gen: file \"{SHARD_FILE}\" belongs to another directory or timeline: shards {} are not on this server",
            shards.join(", ")
        ));
    }
}

/// Puts what the file says of a shard into its place; whether there was room.
fn put_entry(shared: &SharedState, layout: &Layout, entry: &Entry, now_ms: i64) -> bool {
    let Some(place) = shared.shards().place(entry.number) else { return false };
    if !place.is_open() {
        place.raise_closed(layout.first_position(layout.tick_from(entry.above_ms)));
    }
    if entry.holding != Holding::Released {
        let in_fleet = entry.holding == Holding::Fleet;
        // By a clock that was ahead then, it would be waited with until that time.
        let (since_ms, first_ms) = (entry.since_ms.min(now_ms), entry.above_ms);
        place.set_owned(Some(Owned { since_ms, first_ms, in_fleet, tag: entry.tag }));
    }
    true
}

/// What the file has to say: which shards this server has; and of those that it gave away, what lies above what is reserved.
pub fn entries(shared: &SharedState, state: &State, layout: &Layout) -> Vec<Entry> {
    let reserved_ms =
        state.allocator.map_or(i64::MIN, |allocator| allocator.reserved_until_ms(layout));
    let entry = |place: &Place| {
        let number = place.number()?;
        if let Some(Owned { since_ms, first_ms, in_fleet, tag }) = place.owned() {
            let holding = if in_fleet { Holding::Fleet } else { Holding::Declared };
            return Some(Entry { number, holding, since_ms, above_ms: first_ms, tag });
        }
        let above_ms = end_ms(layout, place.end());
        let holding = Holding::Released;
        let entry = Entry { number, holding, since_ms: 0, above_ms, tag: 0 };
        (above_ms > reserved_ms).then_some(entry)
    };
    shared.shards().in_use().filter_map(entry).collect()
}

/// A shard that this server has.
#[derive(Clone, Copy)]
pub struct OwnedShard {
    /// Datacenter and worker ID.
    pub number: Number,
    /// The lowest position that it has never allocated, as far as the list says.
    pub end: u64,
    /// Whether it is a fleet's.
    pub in_fleet: bool,
}

/// The shards that this server has. Before the server has started to generate, the file says which.
pub fn owned(shared: &SharedState, layout: &Layout) -> Vec<OwnedShard> {
    let position = |ms| layout.first_position(layout.tick_from(ms));
    match unread(shared) {
        Ok(None) => {
            let owned = |place: &Place| {
                let Owned { first_ms, in_fleet, .. } = place.owned()?;
                let end = place.end().max(position(first_ms));
                Some(OwnedShard { number: place.number()?, end, in_fleet })
            };
            shared.shards().in_use().filter_map(owned).collect()
        }
        Ok(Some((FileState::Read, entries))) => {
            let held = entries.iter().filter(|entry| entry.holding != Holding::Released);
            let owned = |entry: &Entry| OwnedShard {
                number: entry.number,
                end: position(entry.above_ms),
                in_fleet: entry.holding == Holding::Fleet,
            };
            held.map(owned).collect()
        }
        Ok(Some(_)) | Err(_) => Vec::new(),
    }
}

/// The position below which this server has generated IDs of a shard that has become its own number, as far as the file says
/// before the server has started to generate.
///
/// # Errors
/// The reason that it will not generate with that number.
pub fn end_before_start(
    shared: &SharedState,
    layout: &Layout,
    number: Number,
) -> Result<u64, ShardRefusal> {
    match unread(shared) {
        Ok(Some((FileState::Read, entries))) => {
            match entries.iter().find(|entry| entry.number == number) {
                None => Ok(0),
                Some(Entry { holding: Holding::Released, above_ms, .. }) => {
                    Ok(layout.first_position(layout.tick_from(*above_ms)))
                }
                Some(_) => {
                    let max = shared.largest_typed_number(&shared.lock());
                    Err(ShardRefusal::OwnNumberIsShard { number, max })
                }
            }
        }
        Ok(None | Some((FileState::Unread | FileState::Foreign, _))) => Ok(0),
        Ok(Some((FileState::Unusable(_) | FileState::Unreadable, _))) | Err(_) => {
            let recorded = durable::read().ok().and_then(|stored| stored.own_number());
            match recorded == Some(number) {
                true => Ok(0),
                false => Err(ShardRefusal::OwnNumberUnsure(number.worker)),
            }
        }
    }
}

/// The shards of this server that an administrator declared. Other members of a fleet do not know of them, so a server that
/// has any is none.
///
/// # Errors
/// If the file can't be read.
pub fn declared(shared: &SharedState, layout: &Layout) -> Result<Vec<Number>, FileError> {
    if server::is_in_recovery() {
        // Once it is promoted, the file is of another timeline.
        return Ok(Vec::new());
    }
    let is_unread =
        || matches!(shared.lock().shards.file, FileState::Unread | FileState::Unreadable);
    if is_unread() {
        let guard = shared.write_lock.lock();
        if is_unread() {
            read_file(shared, layout, &guard)?;
        }
    }
    let is_declared = |place: &&Place| place.owned().is_some_and(|owned| !owned.in_fleet);
    Ok(shared.shards().in_use().filter(is_declared).filter_map(Place::number).collect())
}

/// The last ID of a shard below a position, or one above it of the same tick.
pub fn id_at_end(layout: &Layout, number: Number, end: u64) -> i64 {
    let last = end.saturating_sub(1);
    let bits = layout.node_bits(number.datacenter.into(), number.worker.into());
    Layout::to_bigint(match bits {
        Ok(bits) => layout.id_at(last, bits),
        Err(_) => layout.max_of(layout.tick_of(last)),
    })
}

/// Writes the file once more where the last attempt failed.
///
/// # Errors
/// If it can't be written; the keeper tries again.
pub fn write_again(
    shared: &SharedState,
    layout: &Layout,
    guard: &WriteGuard<'_>,
) -> Result<(), ShardRefusal> {
    let entries = {
        let state = shared.lock();
        if !state.shards.unwritten {
            return Ok(());
        }
        entries(shared, &state, layout)
    };
    write_file(shared, &entries, guard)
        .map_err(|error| ShardRefusal::Unwritten { change: Change::Again, error })
}

/// Writes the file, and takes note of how that went.
pub fn write_file(
    shared: &SharedState,
    entries: &[Entry],
    _guard: &WriteGuard<'_>,
) -> Result<(), FileError> {
    let written = shard_file::write(entries);
    let mut state = shared.lock();
    // One that failed may have reached the disk: the keeper writes until that says what the memory says.
    state.shards.unwritten = written.is_err();
    if written.is_ok() {
        state.shards.file = FileState::Read;
    }
    written
}

/// The shards of which the file and the memory say different things. If somebody removed the file that this server wrote, or
/// put another in its place, writes it again; reads it, if it could not be read before.
///
/// # Errors
/// If the file can't be read, or not be written again.
pub fn compare(shared: &SharedState, layout: &Layout) -> Result<Vec<Number>, FileError> {
    if shared.lock().shards.file == FileState::Unreadable {
        let Some(guard) = shared.write_lock.try_lock() else { return Ok(Vec::new()) };
        read_file(shared, layout, &guard)?;
    }
    let found = shard_file::read()?;
    let Found::Own(on_disk) = &found else {
        let Some(guard) = shared.write_lock.try_lock() else { return Ok(Vec::new()) };
        let state = shared.lock();
        let is_own = state.shards.file == FileState::Read;
        let entries = entries(shared, &state, layout);
        drop(state);
        if is_own && !(entries.is_empty() && matches!(found, Found::Absent)) {
            write_file(shared, &entries, &guard)?;
        }
        return Ok(Vec::new());
    };
    let held = on_disk.iter().filter(|entry| entry.holding != Holding::Released);
    let on_disk: Vec<Number> = held.map(|entry| entry.number).collect();
    let in_memory: Vec<Number> = shared
        .shards()
        .in_use()
        .filter(|place| place.owned().is_some())
        .filter_map(Place::number)
        .collect();
    let missing = |from: &[Number], in_other: &[Number]| -> Vec<Number> {
        from.iter().filter(|number| !in_other.contains(number)).copied().collect()
    };
    Ok([missing(&on_disk, &in_memory), missing(&in_memory, &on_disk)].concat())
}

/// Whether this server may have shards, or its file still says so, although it has no number of its own.
pub fn may_exist(shared: &SharedState) -> bool {
    let ShardState { file, unwritten, .. } = shared.lock().shards;
    match file {
        FileState::Unread => shard_file::exists(),
        _ => unwritten || shared.shards().is_any_owned(),
    }
}
