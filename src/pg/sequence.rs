//! PostgreSQL's sequences: their definition, and the page that says how far they are.
//!
//! A sequence is a page with one row, which is not under the rules of transactions: whoever holds the lock of the page's
//! buffer changes the row, and inserts what it then says into the write-ahead log. [`WritablePage::write`] does the same as
//! `nextval()` and `setval()`, with the same record, so these, crash recovery and standbys mix with it.
//!
//! **Locking.** The lock of the relation as `nextval()` takes it: once in a transaction, for all of it
//! ([`lock`]). The lock of the buffer is held while nothing can fail but the insertion into the log, which is then in a
//! critical section, where an error ends the server. All else here may raise an error of PostgreSQL's.

use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::ops::Deref;

use id_gen_base::pg::lwlock::BlockedSigterm;
use id_gen_base::pg::server;
use id_gen_base::pg::text::in_error;
use id_gen_core::ticket::{Counter, Steps};
use pgrx::pg_sys;

use crate::pg::wal::Lsn;

#[cfg(feature = "pg15")]
type Locator = pg_sys::RelFileNode;
#[cfg(not(feature = "pg15"))]
type Locator = pg_sys::RelFileLocator;

/// `InvalidSubTransactionId`.
const NO_SUBTRANSACTION: u32 = 0;

/// A relation that is open, and should be a sequence, until this value is dropped.
pub struct Sequence {
    oid: pg_sys::Oid,
    relation: pg_sys::Relation,
    /// The lock that ends with this value; `NoLock` if it lasts as long as the transaction.
    lock: i32,
    /// What it is declared as.
    pub definition: Definition,
    /// Why tickets cannot be of it, if so.
    pub unfit: Option<Unfit>,
}

/// The file of a sequence: another one whenever `ALTER SEQUENCE` or `TRUNCATE` has declared it anew, and the same one in
/// whichever tablespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceFile {
    tablespace: u32,
    /// The database.
    pub database: u32,
    number: u32,
}

impl PartialEq for SequenceFile {
    fn eq(&self, other: &SequenceFile) -> bool {
        (self.database, self.number) == (other.database, other.number)
    }
}

impl Eq for SequenceFile {}

/// What a sequence is declared as.
#[derive(Clone, Copy, Debug, Default)]
pub struct Definition {
    /// Its numbers; the step may be negative here.
    pub steps: Steps,
    /// Its type.
    pub type_oid: u32,
}

/// What a relation is that tickets cannot be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is no sequence.
    NoSequence,
    /// It belongs to one session.
    Temporary,
    /// A crash sets it back.
    Unlogged,
    /// It counts down.
    CountsDown,
    /// It begins again after its end.
    Cycles,
}

impl Unfit {
    /// Why tickets cannot be of a sequence with this persistence (as `pg_class` has it), increment and option `CYCLE`.
    pub fn of(persistence: u8, step: i64, cycles: bool) -> Option<Unfit> {
        match persistence {
            pg_sys::RELPERSISTENCE_TEMP => Some(Unfit::Temporary),
            pg_sys::RELPERSISTENCE_UNLOGGED => Some(Unfit::Unlogged),
            _ if step <= 0 => Some(Unfit::CountsDown),
            _ if cycles => Some(Unfit::Cycles),
            _ => None,
        }
    }
}

/// What a sequence is called, in the encoding of its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The database.
    pub database: [u8; NAME],
    /// The schema.
    pub schema: [u8; NAME],
    /// The sequence.
    pub sequence: [u8; NAME],
}

/// Bytes of a name, with the zero at its end.
const NAME: usize = pg_sys::NAMEDATALEN as usize;

impl Default for Names {
    fn default() -> Names {
        Names { database: [0; NAME], schema: [0; NAME], sequence: [0; NAME] }
    }
}

/// Takes the lock of a relation as `nextval()` does, for the whole transaction, also within a subtransaction.
pub fn lock(relation: pg_sys::Oid) {
    /// Puts the owner back, also when an error comes.
    struct Restored(pg_sys::ResourceOwner);
    impl Drop for Restored {
        fn drop(&mut self) {
            // SAFETY: the owner that was current.
            unsafe { pg_sys::CurrentResourceOwner = self.0 };
        }
    }
    // SAFETY: variables of this process; in a transaction there is an owner of all of it.
    unsafe {
        let _restored = Restored(pg_sys::CurrentResourceOwner);
        pg_sys::CurrentResourceOwner = pg_sys::TopTransactionResourceOwner;
        pg_sys::LockRelationOid(relation, pg_sys::RowExclusiveLock as i32);
    }
}

/// Opens a relation that this transaction has locked.
pub fn open(oid: pg_sys::Oid) -> Sequence {
    let lock = pg_sys::NoLock as i32;
    // SAFETY: it raises an error where there is no such relation.
    unsafe { Sequence::of(oid, pg_sys::relation_open(oid, lock), lock) }
}

/// Opens a relation of this database, if it is there and nobody keeps others out of it.
pub fn open_if_free(oid: pg_sys::Oid) -> Option<Sequence> {
    let lock = pg_sys::RowExclusiveLock as i32;
    // SAFETY: the lock is given back with the relation, or with the transaction where an error comes.
    unsafe {
        if !pg_sys::ConditionalLockRelationOid(oid, lock) {
            return None;
        }
        let relation = pg_sys::try_relation_open(oid, pg_sys::NoLock as i32);
        if relation.is_null() {
            pg_sys::UnlockRelationOid(oid, lock);
            return None;
        }
        Some(Sequence::of(oid, relation, lock))
    }
}

/// Whether a sequence was dropped, as far as can be told: of other databases, only whether they were.
pub fn is_gone(database: u32, sequence: u32) -> bool {
    // SAFETY: looks into the catalogs; what it returns is the memory context's.
    unsafe {
        if database == pg_sys::MyDatabaseId.to_u32() {
            sequence != 0 && pg_sys::get_rel_name(sequence.into()).is_null()
        } else {
            pg_sys::get_database_name(database.into()).is_null()
        }
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        // Where an error passes, the transaction closes it and gives the lock back.
        if !std::thread::panicking() {
            // SAFETY: open, and locked in this mode.
            unsafe { pg_sys::relation_close(self.relation, self.lock) };
        }
    }
}

impl Sequence {
    /// # Safety
    /// The relation is open, and locked for as long.
    unsafe fn of(oid: pg_sys::Oid, relation: pg_sys::Relation, lock: i32) -> Sequence {
        let (definition, unfit) = (Definition::default(), Some(Unfit::NoSequence));
        let mut found = Sequence { oid, relation, lock, definition, unfit };
        // SAFETY: as the caller vouches. The row of the catalog is there as long as the sequence is; it is read before it is
        // released.
        unsafe {
            let row = &*(*relation).rd_rel;
            // Whether C's characters have a sign depends on the processor.
            let [kind] = row.relkind.to_ne_bytes();
            let [persistence] = row.relpersistence.to_ne_bytes();
            if kind != pg_sys::RELKIND_SEQUENCE {
                return found;
            }
            let id = pg_sys::SysCacheIdentifier::SEQRELID as _;
            let tuple = pg_sys::SearchSysCache1(id, pg_sys::Datum::from(oid));
            if tuple.is_null() {
                pgrx::error!("cache lookup failed for sequence {}", oid.to_u32());
            }
            let header = (*tuple).t_data;
            let form: *const pg_sys::FormData_pg_sequence =
                header.cast::<u8>().add(usize::from((*header).t_hoff)).cast();
            let steps =
                Steps { step: (*form).seqincrement, min: (*form).seqmin, max: (*form).seqmax };
            found.definition = Definition { steps, type_oid: (*form).seqtypid.to_u32() };
            found.unfit = Unfit::of(persistence, steps.step, (*form).seqcycle);
            pg_sys::ReleaseSysCache(tuple);
        }
        found
    }

    /// Schema and name as one types them, for an error.
    pub fn typed_name(&self) -> String {
        // SAFETY: open; strings that PostgreSQL has, or allocates.
        unsafe {
            let row = &*(*self.relation).rd_rel;
            let schema = pg_sys::get_namespace_name(row.relnamespace);
            let name = (&raw const row.relname.data).cast();
            let typed = pg_sys::quote_qualified_identifier(schema, name);
            in_error(&CStr::from_ptr(typed).to_string_lossy())
        }
    }

    /// What it is called, and its schema and database.
    pub fn names(&self) -> Names {
        let copy = |place: &mut [u8; NAME], name: *const std::ffi::c_char| {
            if !name.is_null() {
                // SAFETY: a string that PostgreSQL has, or allocates.
                let name = unsafe { CStr::from_ptr(name) }.to_bytes();
                let length = name.len().min(NAME - 1);
                place[..length].copy_from_slice(&name[..length]);
            }
        };
        let mut names = Names::default();
        // SAFETY: open. A name that is gone is null.
        unsafe {
            let row = &*(*self.relation).rd_rel;
            copy(&mut names.database, pg_sys::get_database_name(pg_sys::MyDatabaseId));
            copy(&mut names.schema, pg_sys::get_namespace_name(row.relnamespace));
            copy(&mut names.sequence, (&raw const row.relname.data).cast());
        }
        names
    }

    /// Its file.
    pub fn file(&self) -> SequenceFile {
        // SAFETY: open. In all versions of PostgreSQL a locator is these three numbers, in this order.
        unsafe {
            #[cfg(feature = "pg15")]
            let locator = (*self.relation).rd_node;
            #[cfg(not(feature = "pg15"))]
            let locator = (*self.relation).rd_locator;
            std::mem::transmute::<Locator, SequenceFile>(locator)
        }
    }

    /// Whether what happens to it has to be in the log (`RelationNeedsWAL`): not where its file is flushed by the commit of
    /// the transaction that has made it.
    pub fn is_logged(&self) -> bool {
        // SAFETY: open; a setting that is fixed when the server starts.
        unsafe {
            #[cfg(feature = "pg15")]
            let new_file = (*self.relation).rd_firstRelfilenodeSubid;
            #[cfg(not(feature = "pg15"))]
            let new_file = (*self.relation).rd_firstRelfilelocatorSubid;
            pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32
                || ((*self.relation).rd_createSubid == NO_SUBTRANSACTION
                    && new_file == NO_SUBTRANSACTION)
        }
    }

    /// Whether the current role may take numbers of it with `nextval()`: any of two privileges is enough.
    pub fn may_take(&self) -> bool {
        let any_of = pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE;
        // SAFETY: looks into the catalogs.
        let result = unsafe { pg_sys::pg_class_aclcheck(self.oid, server::role(), any_of as _) };
        result == pg_sys::AclResult::ACLCHECK_OK
    }

    /// Whether the current role owns it.
    pub fn is_own(&self) -> bool {
        // SAFETY: looks into the catalogs.
        unsafe {
            #[cfg(feature = "pg15")]
            return pg_sys::pg_class_ownercheck(self.oid, server::role());
            #[cfg(not(feature = "pg15"))]
            return pg_sys::object_ownercheck(pg_sys::RelationRelationId, self.oid, server::role());
        }
    }

    /// Its page, which nobody writes to meanwhile.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn page(&self) -> Result<Page, String> {
        // SAFETY: an open relation.
        let buffer = unsafe { pg_sys::ReadBuffer(self.relation, 0) };
        Page::lock(buffer, pg_sys::BUFFER_LOCK_SHARE, &self.definition.steps)
    }

    /// Its page, which nobody else looks at meanwhile.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn writable_page(&self) -> Result<WritablePage, String> {
        // SAFETY: an open relation.
        let buffer = unsafe { pg_sys::ReadBuffer(self.relation, 0) };
        let page = Page::lock(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE, &self.definition.steps)?;
        Ok(WritablePage { page, logged: self.is_logged().then(|| self.file()) })
    }
}

/// The page of a sequence that is not open, by its file; `None` if that is gone. For a process that is in a transaction, and
/// only while no process of the file's database is left that could drop it.
///
/// # Errors
/// What is wrong with it.
pub fn page_of(file: SequenceFile, steps: &Steps) -> Result<Option<WritablePage>, String> {
    /// No session's own temporary relation (`InvalidBackendId`, `INVALID_PROC_NUMBER`).
    const SHARED: i32 = -1;
    let main = pg_sys::ForkNumber::MAIN_FORKNUM;
    // SAFETY: the transaction owns the buffer. A file that was dropped is empty until a checkpoint removes it. A locator is as
    // in `Sequence::file`.
    let buffer = unsafe {
        let locator = std::mem::transmute::<SequenceFile, Locator>(file);
        let opened = pg_sys::smgropen(locator, SHARED);
        if !pg_sys::smgrexists(opened, main) || pg_sys::smgrnblocks(opened, main) == 0 {
            return Ok(None);
        }
        let (mode, strategy) = (pg_sys::ReadBufferMode::RBM_NORMAL, std::ptr::null_mut());
        pg_sys::ReadBufferWithoutRelcache(locator, main, 0, mode, strategy, true)
    };
    let page = Page::lock(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE, steps)?;
    Ok(Some(WritablePage { page, logged: Some(file) }))
}

/// What makes a page one of a sequence, and where it is: at the end.
const MAGIC: u32 = 0x1717;
const MAGIC_AT: usize = pg_sys::BLCKSZ as usize - aligned(size_of::<u32>());
/// The row, which is before that: its header, and what it says.
const ROW_AT: usize = MAGIC_AT - aligned(ROW_LENGTH);
const ROW_LENGTH: usize = ROW_HEADER + offset_of!(pg_sys::FormData_pg_sequence_data, is_called) + 1;
const ROW_HEADER: usize = aligned(offset_of!(pg_sys::HeapTupleHeaderData, t_bits));
/// The page's pointer to the row (`ItemIdData`, `LP_NORMAL`).
const ITEM: u32 = ROW_AT as u32 | 1 << 15 | (ROW_LENGTH as u32) << 17;

/// As PostgreSQL aligns what lies on a page (`MAXALIGN`).
const fn aligned(size: usize) -> usize {
    size.next_multiple_of(align_of::<u64>())
}

/// What the page of a sequence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnPage {
    /// How far the sequence is.
    pub counter: Counter,
    /// Whether its last value is the end of a range that a fleet's registry gave.
    ///
    /// `log_cnt` says so: for how many numbers more `nextval()` need not write to the log. -1, which nothing else writes, is
    /// what `nextval()` takes for none. It lasts until the sequence is set, declared anew or counted on by `nextval()`.
    pub is_of_fleet: bool,
    /// Where the log has it.
    pub lsn: Lsn,
}

/// What `log_cnt` is where the last value came from a fleet's registry.
const OF_FLEET: i64 = -1;

/// The page of a sequence, whose buffer this process has locked, until this value is dropped. Nothing that may raise an
/// error of PostgreSQL's runs meanwhile but in a critical section.
pub struct Page {
    buffer: pg_sys::Buffer,
}

/// A page whose buffer is locked for this process alone.
pub struct WritablePage {
    page: Page,
    /// The file by which the log is to say what happens to it, if it is to say so.
    logged: Option<SequenceFile>,
}

impl Deref for WritablePage {
    type Target = Page;
    fn deref(&self) -> &Page {
        &self.page
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: locked and pinned by this process.
        unsafe { pg_sys::UnlockReleaseBuffer(self.buffer) };
    }
}

impl Page {
    fn lock(buffer: pg_sys::Buffer, mode: u32, steps: &Steps) -> Result<Page, String> {
        // SAFETY: pinned by this process; an error comes before it is locked.
        unsafe { pg_sys::LockBuffer(buffer, mode as _) };
        let page = Page { buffer };
        page.check(steps)?;
        Ok(page)
    }

    /// Whether the page is one that PostgreSQL has written for a sequence: always with one row, at the same place.
    fn check(&self, steps: &Steps) -> Result<(), String> {
        // SAFETY: all of it lies within a page, and is aligned.
        let (special, magic, item, row_header, is_called, last_value) = unsafe {
            let header: *mut pg_sys::PageHeaderData = self.at(0);
            let row: pg_sys::HeapTupleHeader = self.at(ROW_AT);
            let data = self.data();
            (
                usize::from((*header).pd_special),
                self.at::<u32>(MAGIC_AT).read(),
                (&raw const (*header).pd_linp).cast::<u32>().read(),
                usize::from((*row).t_hoff),
                // A byte that is no truth value is none of `bool` either.
                (&raw const (*data).is_called).cast::<u8>().read(),
                (*data).last_value,
            )
        };
        if (special, magic) != (MAGIC_AT, MAGIC) {
            return Err(format!("bad magic number {magic:08X}, special space at {special}"));
        }
        if (item, row_header) != (ITEM, ROW_HEADER) {
            return Err(format!("bad row pointer {item:08X}, row header of {row_header} bytes"));
        }
        if is_called > 1 || !steps.contain(last_value) {
            return Err(format!("its last value is {last_value} ({is_called})"));
        }
        Ok(())
    }

    /// A place on the page, as far from its begin as one of the constants above.
    fn at<T>(&self, offset: usize) -> *mut T {
        // SAFETY: pinned, and within the page.
        unsafe { pg_sys::BufferGetPage(self.buffer).cast::<u8>().add(offset).cast() }
    }

    fn data(&self) -> *mut pg_sys::FormData_pg_sequence_data {
        self.at(ROW_AT + ROW_HEADER)
    }

    /// Where the log has the page's last change, high half first (`pd_lsn`).
    fn lsn(&self) -> *mut [u32; 2] {
        self.at(offset_of!(pg_sys::PageHeaderData, pd_lsn))
    }

    /// What it says.
    pub fn says(&self) -> OnPage {
        // SAFETY: on a page that is locked and was checked.
        let (pg_sys::FormData_pg_sequence_data { last_value, log_cnt, is_called }, [high, low]) =
            unsafe { (*self.data(), *self.lsn()) };
        let counter = Counter { last_value, is_called };
        let lsn = Lsn(u64::from(high) << 32 | u64::from(low));
        OnPage { counter, is_of_fleet: log_cnt == OF_FLEET, lsn }
    }
}

impl WritablePage {
    /// Writes how far the sequence is, and inserts that in the log, if it is to be there: what the page says then.
    pub fn write(&self, counter: Counter, is_of_fleet: bool) -> OnPage {
        // A signal that ends the process in the middle of this would end the server.
        let _blocked = BlockedSigterm::in_background_worker();
        let (buffer, data) = (self.buffer, self.data());
        let mut lsn = Lsn::default();
        // SAFETY: the buffer is locked for this process alone, and the row is on its page. The order is that of `nextval()`:
        // the buffer is marked as dirty before the insertion, and nobody looks at the page before it is unlocked. An error from
        // here on would end the server, as in PostgreSQL itself: what is not in the log must not be on the page. The record is
        // the locator and the row, as `seq_redo()` reads them.
        unsafe {
            pg_sys::CritSectionCount += 1;
            pg_sys::MarkBufferDirty(buffer);
            (*data).last_value = counter.last_value;
            (*data).is_called = counter.is_called;
            (*data).log_cnt = if is_of_fleet { OF_FLEET } else { 0 };
            if let Some(mut file) = self.logged {
                pg_sys::XLogBeginInsert();
                pg_sys::XLogRegisterBuffer(0, buffer, pg_sys::REGBUF_WILL_INIT as u8);
                pg_sys::XLogRegisterData((&raw mut file).cast(), size_of::<SequenceFile>() as _);
                pg_sys::XLogRegisterData(self.at(ROW_AT), ROW_LENGTH as _);
                let record = pg_sys::XLOG_SEQ_LOG as u8;
                lsn = Lsn(pg_sys::XLogInsert(pg_sys::RmgrIds::RM_SEQ_ID as u8, record));
                *self.lsn() = [(lsn.0 >> 32) as u32, lsn.0 as u32];
            }
            pg_sys::CritSectionCount -= 1;
        }
        OnPage { counter, is_of_fleet, lsn }
    }
}
