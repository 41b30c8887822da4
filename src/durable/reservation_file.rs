//! The file of the reservation, `id_gen/reservation`, and the file `id_gen/issued` beside it, which is
//! written once, with the first reservation: if it is there and the reservation is not, the
//! reservation was lost.

use std::{fs, io};

use id_gen_core::directory::{Directory, Origin};
use id_gen_core::kept_file::Place;
use id_gen_core::layout::{Layout, OutsideLayout};
use id_gen_core::reservation::{RESERVATION_FILE, Record};
use id_gen_core::startup::{StartupError, StoredRecord, UNKNOWN_BOOT};
use once_cell::sync::OnceCell;

use crate::durable::file::{self, DATA_DIRECTORY, TEMPORARY};
use crate::durable::place;
use crate::error::{Error, Reason};
use crate::pg::server;
use crate::pg::wait_event::WaitEvent;
use crate::settings::InvalidLayout;

/// That there was a reservation.
pub const ISSUED: &str = "id_gen/issued";
const ISSUED_TEXT: &[u8] =
    b"This server has issued snowflakes. If id_gen/reservation is missing, it was lost.\n";

/// What is on disk.
///
/// # Errors
/// If it can't be read, or is damaged.
pub fn read() -> Result<StoredRecord, Error> {
    let unreadable = |error: io::Error| Reason::Unreadable((&error).into());
    if let Some(bytes) = file::read(RESERVATION_FILE).map_err(unreadable)? {
        let record = Record::decode(&bytes).map_err(Reason::Damaged)?;
        return Ok(StoredRecord::Found(record));
    }
    let lost = fs::exists(ISSUED).map_err(unreadable)?;
    Ok(if lost { StoredRecord::Lost } else { StoredRecord::Absent })
}

/// The record on disk, or that there never was one.
///
/// # Errors
/// As for [`read`]; or it was lost.
pub fn read_known(layout: &Layout) -> Result<StoredRecord, Error> {
    match read()? {
        StoredRecord::Lost => Err(Reason::Startup(StartupError::Lost, *layout).into()),
        known => Ok(known),
    }
}

/// Whether this server, or one that it is a copy of, has reserved anything.
pub fn has_reserved() -> bool {
    fs::exists(ISSUED).unwrap_or(true)
}

/// Makes a record of the place where it is written durable.
///
/// # Errors
/// If it can't be written.
pub fn write(record: impl Fn(Place) -> Record) -> Result<(), Error> {
    WaitEvent::Reservation
        .during(|| write_files(|origin| record(place::own(origin)).encode()))
        .map_err(|error| Reason::Unwritten((&error).into()).into())
}

fn write_files(bytes: impl Fn(Origin) -> Vec<u8>) -> io::Result<()> {
    file::make_directory()?;
    place::replace(TEMPORARY, RESERVATION_FILE, bytes)?;
    if !fs::exists(ISSUED)? {
        // Until the directory's own entry is durable a power cut may take it with all that is in it,
        // which would read as "never issued". The process that made the directory may have died or
        // failed before this; the file says that it was done.
        file::flush_directory(DATA_DIRECTORY)?;
        file::replace(TEMPORARY, ISSUED, ISSUED_TEXT)?;
    }
    Ok(())
}

/// The record, if there is one that can be read. A session that generates gets an error about any other.
fn readable() -> Option<Record> {
    match read() {
        Ok(StoredRecord::Found(record)) => Some(record),
        _ => None,
    }
}

/// The layout of the IDs that this server reserved last.
pub fn last_layout() -> Option<Layout> {
    readable().map(|record| record.layout)
}

/// The layout of the IDs that were reserved since this server was started, by whatever of its
/// processes: after a crash of one of them only the file remembers it.
pub fn layout_of_this_run() -> Option<Layout> {
    let start_us = server::start_us()?;
    readable()
        .filter(|record| record.place.system_identifier == server::system_identifier())
        .filter(|record| record.server_start_us == Some(start_us))
        .map(|record| record.layout)
}

/// The error about a value of `id_gen.layout` that is no layout.
pub fn invalid_layout(InvalidLayout { text, error }: InvalidLayout) -> Error {
    Reason::InvalidLayoutSetting { text, error, last: last_layout() }.into()
}

/// The tick that a clock shows, if IDs of the layout can be made then.
///
/// # Errors
/// If the clock is outside the layout's time.
pub fn clock_tick(layout: &Layout, unix_ns: u64) -> Result<u64, Error> {
    layout.clock_tick(unix_ns).map_err(|outside| {
        Error::from(match outside {
            OutsideLayout::BeforeEpoch => {
                Reason::BeforeEpoch { layout: *layout, last: last_layout() }
            }
            OutsideLayout::RanOut => Reason::Exhausted(*layout),
        })
    })
}

/// The directory of the reservation, if it exists.
///
/// # Errors
/// If it can't be looked at.
pub fn directory() -> Result<Option<Directory>, Error> {
    place::directory().map_err(|error| Reason::Unreadable((&error).into()).into())
}

/// The place of the reservation's file, if it exists.
///
/// # Errors
/// If it cannot be looked at.
pub fn origin() -> Result<Option<Origin>, Error> {
    place::origin(RESERVATION_FILE).map_err(|error| Reason::Unreadable((&error).into()).into())
}

/// This boot of the machine.
pub fn boot() -> u128 {
    static BOOT: OnceCell<u128> = OnceCell::new();
    *BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .and_then(|text| u128::from_str_radix(&text.trim().replace('-', ""), 16).ok())
            .unwrap_or(UNKNOWN_BOOT)
    })
}
