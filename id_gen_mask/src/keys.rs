//! The keys of masks: read from their file by each session that needs them, and again after each reload.
//!
//! A file that can't be read after a reload leaves the session without keys: it refuses rather than go on with those of
//! before. No error tells anything of what is in the file but the numbers of lines, and none tells its path, which only
//! superusers may see once the library is loaded. There is no lock: what was read belongs to this process alone.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use id_gen_base::error::{FileError, Message, sentence};
use id_gen_base::os::process::PerProcess;
use id_gen_base::pg::reload;
use id_gen_mask_rules::{KeyFault, KeyRing, LARGEST_KEY_FILE};
use pgrx::pg_sys;
use pgrx::prelude::PgSqlErrorCode as Code;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::setting;

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
    let Some(path) = setting::key_file() else {
        setting::OWN.check()?;
        return Err(no_file().into());
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
        "id_gen_mask.key_file is not set",
    )
    .detail("IDs are masked and unmasked with keys from this file.")
    .hint("If IDs were masked before, set the path of that file. Otherwise create one (not in the data directory, which base backups copy). In a shell, as the user that runs PostgreSQL: (umask 077; set -C; echo \"1 $(openssl rand -hex 32)\" > /etc/postgresql/mask.keys) In SQL, as a superuser: LOAD 'id_gen_mask'; ALTER SYSTEM SET id_gen_mask.key_file = '/etc/postgresql/mask.keys'; SELECT pg_reload_conf();")
}

fn unreadable(error: &io::Error) -> Message {
    let file_error = FileError::from(error);
    Message::new(
        file_error.sqlstate(),
        format!("could not read the file in id_gen_mask.key_file: {}", file_error.text()),
    )
    .detail("IDs cannot be masked or unmasked without its keys.")
    .hint(format!(
        "{}; a superuser can show its path: SHOW id_gen_mask.key_file; A relative path starts in the data directory, and \"~\" is not expanded. Or set another file: ALTER SYSTEM SET id_gen_mask.key_file = '/etc/postgresql/mask.keys'; SELECT pg_reload_conf(); The next call retries.",
        match error.kind() {
            io::ErrorKind::NotFound => "Restore the file",
            _ => "Allow the server's operating-system user to read the file",
        }
    ))
}

fn no_regular_file() -> Message {
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "the path in id_gen_mask.key_file is not a regular file",
    )
    .hint("Set a file: ALTER SYSTEM SET id_gen_mask.key_file = '/etc/postgresql/mask.keys'; SELECT pg_reload_conf();")
}

fn of_another(owner: u32, own: u32) -> Message {
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "the file in id_gen_mask.key_file must be owned by the database user or root",
    )
    .detail(format!("Its owner is user ID {owner}, and the server runs as user ID {own}."))
    .hint(format!("Run as root, with the path that a superuser sees with SHOW id_gen_mask.key_file: chown {own} <path>; The next call retries."))
}

fn open_to_others(mode: u32, owner: u32) -> Message {
    const PERMISSIONS: u32 = 0o7777;
    let mode = mode & PERMISSIONS;
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "the file in id_gen_mask.key_file has group or world access",
    )
    .detail(format!("Its mode is {mode:04o} and its owner is user ID {owner}. The mode must be 0600 or less if the database user owns the file, or 0640 or less if root owns it."))
    .hint("Run this with the path that a superuser sees with SHOW id_gen_mask.key_file: chmod 600 <path>; The next call retries. If other users may have read the file, add a new key with a higher version.")
}

fn unusable(fault: &KeyFault) -> Message {
    Message::new(
        Code::ERRCODE_CONFIG_FILE_ERROR,
        "the file in id_gen_mask.key_file is invalid",
    )
    .detail(sentence(fault))
    .hint(match fault {
        KeyFault::Empty => "If IDs were masked before, restore the file: another key of the same version unmasks them to wrong IDs. Otherwise add a key, a line with a version and 64 hexadecimal digits, with the path that a superuser sees with SHOW id_gen_mask.key_file: echo \"7 $(openssl rand -hex 32)\" >> <path>; The next call retries.",
        KeyFault::TooLarge => "Set a file that contains only keys. A superuser can show the current path: SHOW id_gen_mask.key_file;",
        _ => "To see the path: SHOW id_gen_mask.key_file; Correct or remove that line. The next call retries. A new key needs a version that was never used, such as 7: echo \"7 $(openssl rand -hex 32)\" >> <path>",
    })
}
