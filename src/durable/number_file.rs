//! What a server keeps of the number that its fleet's registry gave it.
//!
//! - On disk, in a file that `pg_basebackup` and `pg_rewind` leave out, as they do with all whose names begin with
//!   `pgsql_tmp`: who the server is, in which fleet of which registry, and which number it has, so that a restart takes the
//!   same. Without it a server takes another number, and is nobody's successor, so whatever is wrong with the file counts
//!   as none.
//! - In memory that lives as long as the machine's boot (`/dev/shm`): that this very boot held the number until just
//!   now, so that a restart goes on without a wait. A copy of the disk does not have it. It is about one data directory,
//!   by its number in its file system.
//!
//! **Locking.** The registrar alone writes the first. Who writes the second holds the reservation's write lock, because
//! it tells how far that reaches.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use id_gen_core::directory::Origin;
use id_gen_core::fleet::member::{StoredNumber, Witness};
use id_gen_core::fleet::text::{self, KeptRegistry, StoredNumberScope};
use id_gen_core::startup::UNKNOWN_BOOT;

use crate::durable::file::{self, DATA_DIRECTORY};
use crate::durable::place;
use crate::durable::reservation_file::boot;
use crate::error::{Error, Reason};

/// The number that the registry granted, for a restart.
pub const NUMBER_FILE: &str = "id_gen/pgsql_tmp_number";
const TEMPORARY: &str = "id_gen/pgsql_tmp_writing";
/// Where PostgreSQL itself puts shared memory. Not a disk: see [`is_memory`].
const MEMORY: &str = "/dev/shm";
/// More than any witness takes.
const WITNESS_BYTES: usize = 1024;

/// Who this server is in a fleet, and the number that it kept, as far as it has kept them.
pub fn kept(fleet: u128) -> Option<(Option<u128>, Option<StoredNumber>)> {
    let (text, origin) = read()?;
    text::decode_kept(&text, StoredNumberScope { fleet, origin })
}

/// The registry of the fleet that this server belongs to, if that is another fleet, in another registry.
pub fn other_registry(fleet: u128, registry: &str) -> Option<String> {
    let (text, origin) = read()?;
    text::other_registry(&text, StoredNumberScope { fleet, origin }, registry)
}

/// The registry of the fleet that this server belongs to, and the latest position that it has seen of that.
pub fn position() -> Option<(String, i64)> {
    let (text, origin) = read()?;
    text::kept_position(&text, origin)
}

fn read() -> Option<(String, Origin)> {
    let text = fs::read_to_string(NUMBER_FILE).ok()?;
    place::settle().ok()?;
    Some((text, place::origin(NUMBER_FILE).ok()??))
}

/// Whether this server has kept a number for any fleet.
pub fn exists() -> bool {
    fs::exists(NUMBER_FILE).unwrap_or(false)
}

/// Keeps who this server is, its number, or that it has none, and the registry that the fleet belongs to.
///
/// # Errors
/// If the file can't be written.
pub fn keep(
    server_id: u128,
    kept: Option<&StoredNumber>,
    registry: Option<KeptRegistry<'_>>,
    fleet: u128,
) -> Result<(), Error> {
    let written = file::make_directory().and_then(|()| {
        place::replace(TEMPORARY, NUMBER_FILE, |origin| {
            text::encode_kept(server_id, kept, registry, StoredNumberScope { fleet, origin })
                .into_bytes()
        })
    });
    written.map_err(|error| Reason::NumberUnwritten((&error).into()).into())
}

fn data_directory() -> io::Result<Metadata> {
    fs::metadata(DATA_DIRECTORY)
}

/// What the memory of this boot says of this data directory.
pub fn witness() -> Option<Witness> {
    if boot() == UNKNOWN_BOOT {
        return None;
    }
    let file = open_witness(OpenOptions::new().read(true)).ok()?;
    let mut bytes = [0; WITNESS_BYTES];
    let length = file.read_at(&mut bytes, 0).ok()?;
    text::decode_witness(std::str::from_utf8(bytes.get(..length)?).ok()?, boot())
}

/// Writes it, or removes it.
///
/// # Errors
/// If an older one may be left: it could let IDs go on too low after the disk was rolled back.
pub fn write_witness(witness: Option<&Witness>) -> Result<(), Error> {
    let written = witness.filter(|_| boot() != UNKNOWN_BOOT).map(|witness| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        // In place: memory that is there already can't run out.
        open_witness(&mut options)?
            .write_all_at(text::encode_witness(witness, boot()).as_bytes(), 0)
    });
    if let Some(Ok(())) = written {
        return Ok(());
    }
    // Without one a restart waits, which is safe.
    match witness_path().and_then(remove_witness) {
        Err(error) => Err(Reason::WitnessUnwritten((&error).into()).into()),
        Ok(()) => Ok(()),
    }
}

/// Removes the witness, if it is ours. What another user put in its place says nothing to [`witness`], and must not keep
/// this server from making IDs.
fn remove_witness(path: String) -> io::Result<()> {
    match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => match fs::symlink_metadata(&path) {
            Ok(found) if !is_ours(&found) => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

fn witness_path() -> io::Result<String> {
    let directory = data_directory()?;
    Ok(format!("{MEMORY}/id_gen.{}.{}", directory.dev(), directory.ino()))
}

/// Opens the witness, if it lies in memory and is ours: anybody may make files there.
fn open_witness(options: &mut OpenOptions) -> io::Result<File> {
    // A pipe that somebody put there must keep nobody waiting.
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(witness_path()?)?;
    let ours = is_ours(&file.metadata()?);
    if ours && is_memory(&file)? { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Whether this server's user made it, under this name alone: another name could be that of other shared memory.
fn is_ours(metadata: &Metadata) -> bool {
    // SAFETY: takes no argument and can't fail.
    let user = unsafe { libc::geteuid() };
    metadata.uid() == user && metadata.is_file() && metadata.nlink() == 1
}

/// Whether a file is gone when the machine stops.
fn is_memory(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    // SAFETY: all-zero bytes are a valid `statfs` to write to.
    let mut found = unsafe { std::mem::zeroed::<libc::statfs>() };
    // SAFETY: an open file and a valid place to write to.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.f_type == libc::TMPFS_MAGIC)
}
