//! The keys of masks: read from their file by each session that needs them, and again after each reload.
//!
//! A file that can't be read after a reload leaves the session without keys: it refuses rather than go on with those of
//! before. No error tells anything of what is in the file but the numbers of lines, and none tells its path, which only
//! superusers may see. There is no lock: what was read belongs to this process alone.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use id_gen_core::mask::{KeyFault, KeyRing, LARGEST_KEY_FILE};
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;
use zeroize::Zeroizing;

use crate::error::{Error, FileError, Message, sentence};
use crate::os::process::PerProcess;
use crate::pg::reload;
use crate::settings::{self, known};

/// The keys, and [`reload::time`] when they were read.
static KEYS: PerProcess<Option<(KeyRing, pg_sys::TimestampTz)>> = PerProcess::new(None);

/// Does something with the keys, if they were read since the last reload. Calls nothing of PostgreSQL's by itself.
#[inline(always)]
pub fn with_loaded<R>(body: impl FnOnce(&KeyRing) -> R) -> Option<R> {
    KEYS.with(|keys| match keys {
        Some((ring, read_at)) if *read_at == reload::time() => Some(body(ring)),
        _ => None,
    })
}

/// As [`with_loaded`], and reads the file if it has to be read.
///
/// # Errors
/// If there are no keys, or none that may be used.
pub fn with<R>(body: impl FnOnce(&KeyRing) -> R) -> Result<R, Error> {
    let reload_time = reload::time();
    KEYS.with(|keys| {
        let fresh = keys.take().filter(|(_, read_at)| *read_at == reload_time);
        let (ring, _) = keys.insert(match fresh {
            Some(fresh) => fresh,
            None => (read()?, reload_time),
        });
        Ok(body(ring))
    })
}

fn read() -> Result<KeyRing, Error> {
    let Some(path) = settings::mask_key_file() else {
        return Err(known::check().err().unwrap_or_else(|| no_file().into()));
    };
    // What is opened is looked at before it is read. That it does not block, and is no terminal of this process, is for
    // what turns out to be no file.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| unreadable(&error))?;
    check_permissions(&file.metadata().map_err(|error| unreadable(&error))?)?;
    let mut room = Zeroizing::new(vec![0; LARGEST_KEY_FILE + 1]);
    let length = fill(&file, &mut room).map_err(|error| unreadable(&error))?;
    KeyRing::parse(&room[..length]).map_err(|fault| unusable(&fault).into())
}

/// Reads until the file or the room ends. Nothing of it is copied to other places of memory.
fn fill(mut file: &File, room: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < room.len() {
        match file.read(&mut room[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The rules of PostgreSQL's own keys (`check_ssl_key_file_permissions`, `libpq/be-secure-common.c`): root's may be
/// readable by a group, so that the server can read those of the system.
fn check_permissions(found: &Metadata) -> Result<(), Message> {
    const NOT_FOR_OWN: u32 = 0o077;
    const NOT_FOR_ROOTS: u32 = 0o037;
    // SAFETY: only tells who runs this process.
    let own = unsafe { libc::geteuid() };
    let mode = found.permissions().mode();
    let is_open = match found.uid() {
        _ if !found.is_file() => return Err(no_regular_file()),
        owner if owner == own => mode & NOT_FOR_OWN != 0,
        0 => mode & NOT_FOR_ROOTS != 0,
        owner => return Err(of_another(owner, own)),
    };
    if is_open { Err(open_to_others(mode, found.uid())) } else { Ok(()) }
}

fn no_file() -> Message {
    Message::new(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "id_gen.mask_key_file is not set",
    )
    .detail("IDs are masked and unmasked with keys that a file has.")
    .hint("Make one as the server's user, outside the data directory, which base backups copy: (umask 077; echo \"1 $(openssl rand -hex 32)\" >> /etc/postgresql/mask.keys); then as a superuser, after LOAD 'id_gen'; where it is not preloaded: ALTER SYSTEM SET id_gen.mask_key_file = '/etc/postgresql/mask.keys'; SELECT pg_reload_conf();")
}

fn unreadable(error: &io::Error) -> Message {
    let file_error = FileError::from(error);
    Message::new(
        file_error.sqlstate(),
        format!("could not read the file that id_gen.mask_key_file names: {error}"),
    )
    .detail("Without its keys nothing is masked or unmasked.")
    .hint("SHOW id_gen.mask_key_file shows it to a superuser; a relative path begins in the data directory, and \"~\" means nothing there. Allow the server's operating-system user to read that file, or set another one: ALTER SYSTEM SET id_gen.mask_key_file = '/etc/postgresql/mask.keys'; SELECT pg_reload_conf(); the next call retries.")
}

fn no_regular_file() -> Message {
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "what id_gen.mask_key_file names is not a regular file",
    )
    .hint("Name a file: ALTER SYSTEM SET id_gen.mask_key_file = '/etc/postgresql/mask.keys'; SELECT pg_reload_conf();")
}

fn of_another(owner: u32, own: u32) -> Message {
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "the file that id_gen.mask_key_file names must be owned by the database user or root",
    )
    .detail(format!("Its owner is user {owner}, and the server runs as user {own}."))
    .hint(format!("As root, with the path of the file, which SHOW id_gen.mask_key_file shows to a superuser, run: chown {own} mask.keys; the next call retries."))
}

fn open_to_others(mode: u32, owner: u32) -> Message {
    const PERMISSIONS: u32 = 0o7777;
    let mode = mode & PERMISSIONS;
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "the file that id_gen.mask_key_file names has group or world access",
    )
    .detail(format!("Its mode is {mode:04o} and its owner is user {owner}; it must be 0600 or less if owned by the database user, or 0640 or less if owned by root."))
    .hint("With the path of the file, which SHOW id_gen.mask_key_file shows to a superuser, run: chmod 600 mask.keys; the next call retries. If others have read it, its keys are not secret: add a key of a higher version.")
}

fn unusable(fault: &KeyFault) -> Message {
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "the file that id_gen.mask_key_file names has no usable keys",
    )
    .detail(sentence(fault))
    .hint(match fault {
        KeyFault::Empty => "Each line is a version and 64 hexadecimal digits, as this writes with the path of the file: echo \"1 $(openssl rand -hex 32)\" >> mask.keys; the next call retries.",
        KeyFault::TooLarge => "Set a file that has only keys; SHOW id_gen.mask_key_file shows a superuser the current one.",
        _ => "Correct or remove that line; the next call retries. A new key takes a version that no line has had, as this writes for version 7: echo \"7 $(openssl rand -hex 32)\" >> mask.keys",
    })
}
