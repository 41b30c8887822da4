//! Writing files so that they survive a power cut, with the discipline of PostgreSQL's own
//! `durable_rename` (`storage/file/fd.c`): a temporary file, flushed, renamed over the old one, then
//! file and directory flushed.

use std::ffi::c_int;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};

use pgrx::pg_sys;

/// Every process of a server works in its data directory.
pub const DATA_DIRECTORY: &str = ".";
/// The next version of a file that is written under the reservation's write lock, before it is renamed.
pub const TEMPORARY: &str = "id_gen/writing";
/// Where our files are.
pub const DIRECTORY: &str = "id_gen";

unsafe extern "C" {
    /// Who may use files and directories of this cluster: its owner, or after `initdb
    /// --allow-group-access` also the group (`common/file_perm.h`).
    safe static pg_dir_create_mode: c_int;
    safe static pg_file_create_mode: c_int;
}

/// Makes the directory of our files, if it is not there.
pub fn make_directory() -> io::Result<()> {
    match DirBuilder::new().mode(pg_dir_create_mode.cast_unsigned()).create(DIRECTORY) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// As [`make_directory`], and makes its own entry durable: until then a power cut may take it with all that is in it.
pub fn make_directory_durably() -> io::Result<()> {
    make_directory()?;
    flush_directory(DATA_DIRECTORY)
}

/// The bytes of a file, if there is one.
pub fn read(path: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a file in place of another, durably.
pub fn replace(temporary: &str, path: &str, bytes: &[u8]) -> io::Result<()> {
    replace_by(temporary, path, |_| Ok(bytes.to_vec())).map(|_| ())
}

/// The same, with bytes that name the file itself. Returns the old file, if it has another name still.
pub fn replace_by(
    temporary: &str,
    path: &str,
    bytes: impl FnOnce(&Metadata) -> io::Result<Vec<u8>>,
) -> io::Result<Option<File>> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(pg_file_create_mode.cast_unsigned())
        .open(temporary)?;
    file.write_all(&bytes(&file.metadata()?)?)?;
    flush_file(&file)?;
    let old = OpenOptions::new().write(true).open(path);
    fs::rename(temporary, path)?;
    flush_file(&file)?;
    flush_directory(DIRECTORY)?;
    match old {
        Ok(old) if old.metadata()?.nlink() > 0 => Ok(Some(old)),
        _ => Ok(None),
    }
}

/// Removes a file, durably.
pub fn remove(path: &str) -> io::Result<()> {
    fs::remove_file(path)?;
    flush_directory(DIRECTORY)
}

/// Makes the entries of a directory durable. The answers of file systems that flush no directories are
/// no errors, as for PostgreSQL's own files (`fsync_fname_ext`, `storage/file/fd.c`).
pub fn flush_directory(path: &str) -> io::Result<()> {
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
