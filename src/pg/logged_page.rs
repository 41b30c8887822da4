//! A page of bytes that every standby of this server gets with the write-ahead log, whether or not it has
//! this library.
//!
//! A record of PostgreSQL's own kind "image of a page" (`XLOG_FPI`) carries it. To replay one takes
//! nothing but the record: the server puts the page into the file that the record names, makes the file if
//! there is none, and keeps it through restarts as any page of a table. The file is one that no relation
//! has, in the directory of those that belong to no database.
//!
//! Who writes the page inserts the record and leaves its own file alone, so on a server that was never a
//! standby there is none, and elsewhere it holds what was replayed last. `pg_rewind` takes it for that of the new primary where
//! nothing was logged since their last common checkpoint, so the page is logged again after each checkpoint.
//!
//! **Locking.** [`log`] raises no error and may be called while locks of ours are held; [`read`] may raise
//! one, and may not.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::mem::offset_of;

use id_gen_base::pg::lwlock::BlockedSigterm;
use id_gen_base::pg::transaction;
use pgrx::pg_sys;

use crate::pg::wal::Lsn;

/// The file is `global/8473`. PostgreSQL gives no relation a number from 8000 to 9999: catalogs of a release
/// have smaller ones ("OID Assignment" in its manual), and what a running server creates has larger ones
/// (`FirstNormalObjectId`, `transam.h`).
const FILE_NUMBER: u32 = 8473;
/// Its path in the data directory, in which every process of a server works.
pub const PAGE_FILE: &str = "global/8473";

/// Where the bytes begin: behind the page's header.
const CONTENT: usize = offset_of!(pg_sys::PageHeaderData, pd_linp);
const PAGE_SIZE: usize = pg_sys::BLCKSZ as usize;

#[cfg(feature = "pg15")]
type Locator = pg_sys::RelFileNode;
#[cfg(not(feature = "pg15"))]
type Locator = pg_sys::RelFileLocator;

fn locator() -> Locator {
    #[cfg(feature = "pg15")]
    return Locator {
        spcNode: pg_sys::GLOBALTABLESPACE_OID,
        dbNode: pg_sys::InvalidOid,
        relNode: pg_sys::Oid::from(FILE_NUMBER),
    };
    #[cfg(not(feature = "pg15"))]
    return Locator {
        spcOid: pg_sys::GLOBALTABLESPACE_OID,
        dbOid: pg_sys::InvalidOid,
        relNumber: pg_sys::RelFileNumber::from(FILE_NUMBER),
    };
}

/// A page as PostgreSQL lays it out in memory.
#[repr(C, align(8))]
struct Page([u8; PAGE_SIZE]);

impl Page {
    /// A page that holds the bytes, and is empty from there to its end, which takes no room in the log.
    fn of<const SIZE: usize>(bytes: &[u8; SIZE]) -> Page {
        const { assert!(CONTENT + SIZE <= PAGE_SIZE) };
        let mut page = Page([0; PAGE_SIZE]);
        page.0[CONTENT..CONTENT + SIZE].copy_from_slice(bytes);
        let header: *mut pg_sys::PageHeaderData = page.0.as_mut_ptr().cast();
        // SAFETY: a page is aligned for its header and larger. The values are those of an empty page
        // (`PageInit`, `bufpage.c`) whose array of items ends behind the bytes, as on an index's metapage.
        unsafe {
            (*header).pd_lower = (CONTENT + SIZE) as u16;
            (*header).pd_upper = PAGE_SIZE as u16;
            (*header).pd_special = PAGE_SIZE as u16;
            (*header).pd_pagesize_version =
                PAGE_SIZE as u16 | pg_sys::PG_PAGE_LAYOUT_VERSION as u16;
        }
        page
    }
}

/// Whether the log of this server is made for standbys and archives (`wal_level`).
pub fn is_replicated() -> bool {
    // SAFETY: fixed when the server started.
    unsafe { pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32 }
}

/// Inserts a record of the page into the log: whatever is inserted after this call is replayed after it.
/// It is not flushed, and an idle server makes neither a checkpoint nor an archive's file of it. Only for a
/// server that has left recovery. Returns where the record ends.
pub fn log<const SIZE: usize>(bytes: &[u8; SIZE]) -> Lsn {
    let mut page = Page::of(bytes);
    let mut locator = locator();
    let flags = (pg_sys::REGBUF_FORCE_IMAGE | pg_sys::REGBUF_STANDARD) as u8;
    // A signal that ends the process in the middle of this would end the server.
    let _blocked = BlockedSigterm::in_background_worker();
    // SAFETY: page and locator live until the record is inserted. None of this raises an error on a server
    // that may write to its log: PostgreSQL makes the same calls in critical sections, where an error ends the
    // server, and they allocate nothing (`xloginsert.c`). A record of one block always has room.
    unsafe {
        pg_sys::XLogBeginInsert();
        pg_sys::XLogSetRecordFlags(pg_sys::XLOG_MARK_UNIMPORTANT as u8);
        pg_sys::XLogRegisterBlock(
            0,
            &raw mut locator,
            pg_sys::ForkNumber::MAIN_FORKNUM,
            0,
            page.0.as_mut_ptr().cast(),
            flags,
        );
        Lsn(pg_sys::XLogInsert(pg_sys::RmgrIds::RM_XLOG_ID as u8, pg_sys::XLOG_FPI as u8))
    }
}

/// The content of a page that was replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplayedPage<const SIZE: usize> {
    /// The bytes.
    pub bytes: [u8; SIZE],
    /// The end of its record in the log.
    pub lsn: Lsn,
}

impl<const SIZE: usize> ReplayedPage<SIZE> {
    /// Takes them from a page.
    fn of(page: &[u8; PAGE_SIZE]) -> ReplayedPage<SIZE> {
        const { assert!(CONTENT + SIZE <= PAGE_SIZE) };
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(&page[CONTENT..CONTENT + SIZE]);
        // Every version stores the upper half first (`PageXLogRecPtr`, `bufpage.h`).
        let [a, b, c, d, e, f, g, h, ..] = *page;
        let (upper, lower) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        ReplayedPage { bytes, lsn: Lsn(u64::from(upper) << u32::BITS | u64::from(lower)) }
    }
}

/// Opens the file as [`read`] does, which raises an error where that fails.
///
/// # Errors
/// If there is a file that cannot be opened.
pub fn try_open() -> io::Result<()> {
    match OpenOptions::new().read(true).write(true).open(PAGE_FILE) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The page that was replayed last, if one was; zeros if the file is empty or, with a warning of PostgreSQL's, if the page is
/// damaged. In a process that is in no transaction, this begins one and ends it.
///
/// May raise an error of PostgreSQL's: the file can't be read.
pub fn read<const SIZE: usize>() -> Option<ReplayedPage<SIZE>> {
    // SAFETY: buffers belong to a transaction.
    let in_transaction = || unsafe { read_in_transaction() };
    // SAFETY: reads a variable of this process.
    if unsafe { pg_sys::IsTransactionState() } {
        in_transaction()
    } else {
        transaction::run(in_transaction)
    }
}

/// # Safety
/// In a transaction.
unsafe fn read_in_transaction<const SIZE: usize>() -> Option<ReplayedPage<SIZE>> {
    /// No session's own temporary relation (`InvalidBackendId`, `INVALID_PROC_NUMBER`).
    const SHARED: i32 = -1;
    let main = pg_sys::ForkNumber::MAIN_FORKNUM;
    // SAFETY: the caller is in a transaction, which owns the buffer if there is an error. While the buffer is
    // pinned and locked, its page is there and nobody writes to it.
    unsafe {
        let file = pg_sys::smgropen(locator(), SHARED);
        if !pg_sys::smgrexists(file, main) {
            return None;
        }
        if pg_sys::smgrnblocks(file, main) == 0 {
            return Some(ReplayedPage::of(&[0; PAGE_SIZE]));
        }
        let buffer = pg_sys::ReadBufferWithoutRelcache(
            locator(),
            main,
            0,
            pg_sys::ReadBufferMode::RBM_ZERO_ON_ERROR,
            std::ptr::null_mut(),
            true,
        );
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as _);
        let page = ReplayedPage::of(&*pg_sys::BufferGetPage(buffer).cast::<[u8; PAGE_SIZE]>());
        pg_sys::UnlockReleaseBuffer(buffer);
        Some(page)
    }
}

/// The page as it is in its file, whether PostgreSQL accepts it or not: for content with its own checksum, if [`read`]
/// returned zeros, so that the file is the newest there is. `pg_checksums` calculates PostgreSQL's checksum of the page; a
/// version that enables data checksums while it runs, which no supported one does, would calculate those of relations only.
///
/// # Errors
/// If the file can't be read.
pub fn read_unchecked<const SIZE: usize>() -> io::Result<ReplayedPage<SIZE>> {
    let mut page = [0; PAGE_SIZE];
    File::open(PAGE_FILE)?.read_exact(&mut page)?;
    Ok(ReplayedPage::of(&page))
}
