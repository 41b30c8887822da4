//! PostgreSQL's sequences: their definition, and the page that says how far they are.
//!
//! A sequence is a page with one row, which is not under the rules of transactions: whoever holds the lock of the page's
//! buffer changes the row, and inserts what it then says into the write-ahead log. [`WritablePage::write`] does the same as
//! `nextval()` and `setval()`, with the same record, so these, crash recovery and standbys mix with it.
//!
//! **Locking.** The lock of the relation as `nextval()` takes it: once in a transaction, for all of it
//! ([`lock`]). The lock of the buffer is held while nothing can fail but the insertion into the log, which is then in a
//! critical section, where an error ends the server. All else here may raise an error of PostgreSQL's; the relation and
//! the row of the catalog belong to the transaction, which gives them back.

use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::ops::Deref;

use id_gen_core::ticket::{Counter, Steps};
use pgrx::pg_sys;

use crate::pg::lwlock::BlockedSigterm;
use crate::pg::wal::Lsn;

#[cfg(feature = "pg15")]
type Locator = pg_sys::RelFileNode;
#[cfg(not(feature = "pg15"))]
type Locator = pg_sys::RelFileLocator;

/// `InvalidSubTransactionId`.
const NO_SUBTRANSACTION: u32 = 0;

/// A sequence that is open.
pub struct Sequence {
    relation: pg_sys::Relation,
    /// What it is declared as.
    pub definition: Definition,
    /// Whether it begins again after its end.
    pub cycles: bool,
}

/// The file of a sequence: another one whenever `ALTER SEQUENCE` or `TRUNCATE` has declared it anew, and the same one in
/// whichever tablespace.
#[derive(Clone, Copy, Debug)]
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

impl SequenceFile {
    /// None.
    pub const NONE: SequenceFile = SequenceFile { tablespace: 0, database: 0, number: 0 };

    fn of(locator: &Locator) -> SequenceFile {
        #[cfg(feature = "pg15")]
        let (tablespace, database, number) =
            (locator.spcNode, locator.dbNode, locator.relNode.to_u32());
        #[cfg(not(feature = "pg15"))]
        let (tablespace, database, number) =
            (locator.spcOid, locator.dbOid, locator.relNumber.to_u32());
        SequenceFile { tablespace: tablespace.to_u32(), database: database.to_u32(), number }
    }

    fn locator(&self) -> Locator {
        let (tablespace, database) = (self.tablespace.into(), self.database.into());
        #[cfg(feature = "pg15")]
        return Locator { spcNode: tablespace, dbNode: database, relNode: self.number.into() };
        #[cfg(not(feature = "pg15"))]
        return Locator { spcOid: tablespace, dbOid: database, relNumber: self.number.into() };
    }
}

/// What a sequence is declared as.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its numbers; the step may be negative here.
    pub steps: Steps,
    /// Its type.
    pub type_oid: u32,
}

/// What a relation is that is no sequence one can count on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is none.
    NoSequence,
    /// It belongs to one session.
    Temporary,
    /// A crash sets it back.
    Unlogged,
}

/// The number of the transaction within this session: another one in every transaction.
#[inline(always)]
pub fn transaction() -> u32 {
    // SAFETY: this process's own place, set while it starts.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (*pg_sys::MyProc).lxid;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return (*pg_sys::MyProc).vxid.lxid;
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

/// Opens a relation that this transaction has locked, for the length of a call.
pub fn open<R>(oid: pg_sys::Oid, body: impl FnOnce(Result<&Sequence, (Unfit, String)>) -> R) -> R {
    // SAFETY: it raises an error where there is no such relation.
    let relation = unsafe { pg_sys::relation_open(oid, pg_sys::NoLock as i32) };
    // SAFETY: open, so its row of the catalog is there.
    let (kind, persistence) = unsafe {
        let row = &*(*relation).rd_rel;
        // Whether C's characters have a sign depends on the processor.
        let [kind] = row.relkind.to_ne_bytes();
        let [persistence] = row.relpersistence.to_ne_bytes();
        (kind, persistence)
    };
    let unfit = match (kind, persistence) {
        (pg_sys::RELKIND_SEQUENCE, pg_sys::RELPERSISTENCE_PERMANENT) => None,
        (pg_sys::RELKIND_SEQUENCE, pg_sys::RELPERSISTENCE_TEMP) => Some(Unfit::Temporary),
        (pg_sys::RELKIND_SEQUENCE, _) => Some(Unfit::Unlogged),
        _ => Some(Unfit::NoSequence),
    };
    let result = match unfit {
        Some(unfit) => body(Err((unfit, typed_name(relation)))),
        None => body(Ok(&Sequence::of(relation, oid))),
    };
    // SAFETY: open since above.
    unsafe { pg_sys::relation_close(relation, pg_sys::NoLock as i32) };
    result
}

/// Opens a sequence of this database for the length of a call, if nobody keeps others out of it and it still has this file.
pub fn open_if_free(oid: pg_sys::Oid, file: SequenceFile, body: impl FnOnce(&Sequence)) {
    let mode = pg_sys::RowExclusiveLock as i32;
    // SAFETY: the lock is given back here, or with the transaction where an error comes. A relation that is gone is null.
    unsafe {
        if !pg_sys::ConditionalLockRelationOid(oid, mode) {
            return;
        }
        let relation = pg_sys::try_relation_open(oid, pg_sys::NoLock as i32);
        if !relation.is_null() {
            let found = Sequence::of(relation, oid);
            if found.file() == file {
                body(&found);
            }
            pg_sys::relation_close(relation, pg_sys::NoLock as i32);
        }
        pg_sys::UnlockRelationOid(oid, mode);
    }
}

fn typed_name(relation: pg_sys::Relation) -> String {
    // SAFETY: open; strings that PostgreSQL has, or allocates.
    unsafe {
        let row = &*(*relation).rd_rel;
        let schema = pg_sys::get_namespace_name(row.relnamespace);
        let name = (&raw const row.relname.data).cast();
        let typed = pg_sys::quote_qualified_identifier(schema, name);
        CStr::from_ptr(typed).to_string_lossy().into_owned()
    }
}

impl Sequence {
    fn of(relation: pg_sys::Relation, oid: pg_sys::Oid) -> Sequence {
        // SAFETY: the row of the catalog is there as long as the sequence is, which is locked; it is read before it is
        // released.
        unsafe {
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
            let sequence = Sequence {
                relation,
                definition: Definition { steps, type_oid: (*form).seqtypid.to_u32() },
                cycles: (*form).seqcycle,
            };
            pg_sys::ReleaseSysCache(tuple);
            sequence
        }
    }
}

/// The name of this session's database, in its encoding.
pub fn database_name() -> [u8; NAME] {
    // SAFETY: a string that PostgreSQL allocates; null if the database is gone.
    unsafe {
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        if name.is_null() { [0; NAME] } else { fixed(CStr::from_ptr(name)) }
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

/// Whether a role may take numbers of a sequence with `nextval()`: any of two privileges is enough.
pub fn may_take(oid: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    let any_of = pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE;
    // SAFETY: looks into the catalogs.
    unsafe { pg_sys::pg_class_aclcheck(oid, role, any_of as _) == pg_sys::AclResult::ACLCHECK_OK }
}

/// Whether a role owns a relation.
pub fn owns(oid: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: looks into the catalogs.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(oid, role);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::RelationRelationId, oid, role);
    }
}

impl Sequence {
    /// Schema and name as one types them.
    pub fn typed_name(&self) -> String {
        typed_name(self.relation)
    }

    /// Schema and name in the encoding of the database.
    pub fn names(&self) -> ([u8; NAME], [u8; NAME]) {
        // SAFETY: open; strings that PostgreSQL has, or allocates.
        unsafe {
            let row = &*(*self.relation).rd_rel;
            let schema = pg_sys::get_namespace_name(row.relnamespace);
            let schema = if schema.is_null() { c"" } else { CStr::from_ptr(schema) };
            let name = CStr::from_ptr((&raw const row.relname.data).cast());
            (fixed(schema), fixed(name))
        }
    }

    /// Its file.
    pub fn file(&self) -> SequenceFile {
        SequenceFile::of(&self.locator())
    }

    fn locator(&self) -> Locator {
        // SAFETY: open.
        unsafe {
            #[cfg(feature = "pg15")]
            return (*self.relation).rd_node;
            #[cfg(not(feature = "pg15"))]
            return (*self.relation).rd_locator;
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
        Ok(WritablePage { page, logged: self.is_logged().then(|| self.locator()) })
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
    let (main, locator) = (pg_sys::ForkNumber::MAIN_FORKNUM, file.locator());
    // SAFETY: the transaction owns the buffer. A file that was dropped is empty until a checkpoint removes it.
    let buffer = unsafe {
        let file = pg_sys::smgropen(locator, SHARED);
        if !pg_sys::smgrexists(file, main) || pg_sys::smgrnblocks(file, main) == 0 {
            return Ok(None);
        }
        pg_sys::ReadBufferWithoutRelcache(
            locator,
            main,
            0,
            pg_sys::ReadBufferMode::RBM_NORMAL,
            std::ptr::null_mut(),
            true,
        )
    };
    let page = Page::lock(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE, steps)?;
    Ok(Some(WritablePage { page, logged: Some(locator) }))
}

/// Bytes of a name, with the zero at its end.
pub const NAME: usize = pg_sys::NAMEDATALEN as usize;

fn fixed(name: &CStr) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    let length = name.to_bytes().len().min(NAME - 1);
    bytes[..length].copy_from_slice(&name.to_bytes()[..length]);
    bytes
}

/// What makes a page one of a sequence.
const MAGIC: u32 = 0x1717;
const PAGE_SIZE: usize = pg_sys::BLCKSZ as usize;
/// Where the first item is named on a page.
const FIRST_ITEM: usize = offset_of!(pg_sys::PageHeaderData, pd_linp);
/// Bytes of a sequence's row that say something.
const ROW: usize = offset_of!(pg_sys::FormData_pg_sequence_data, is_called) + 1;

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
    row: Row,
}

/// A page whose buffer is locked for this process alone.
pub struct WritablePage {
    page: Page,
    /// Where the log is to say what happens to it, if it is to say so.
    logged: Option<Locator>,
}

/// The row on a page.
struct Row {
    tuple: pg_sys::HeapTupleHeader,
    length: usize,
    data: *mut pg_sys::FormData_pg_sequence_data,
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

impl Row {
    /// The row of a page, if that is one of a sequence.
    fn of(page: *mut u8, steps: &Steps) -> Result<Row, String> {
        const NORMAL: u32 = 1; // LP_NORMAL
        // SAFETY: within a page, as is checked before a place is read.
        let u16_at = |place: usize| usize::from(unsafe { page.add(place).cast::<u16>().read() });
        // SAFETY: as above.
        let u32_at = |place: usize| unsafe { page.add(place).cast::<u32>().read_unaligned() };
        let special = u16_at(offset_of!(pg_sys::PageHeaderData, pd_special));
        let lower = u16_at(offset_of!(pg_sys::PageHeaderData, pd_lower));
        if special < FIRST_ITEM + size_of::<u32>() || special + size_of::<u32>() > PAGE_SIZE {
            return Err(format!("its special space begins at {special}"));
        }
        let magic = u32_at(special);
        if magic != MAGIC {
            return Err(format!("bad magic number {magic:08X}"));
        }
        let item = u32_at(FIRST_ITEM);
        let (offset, kind, length) =
            ((item & 0x7fff) as usize, item >> 15 & 3, (item >> 17) as usize);
        let header = size_of::<pg_sys::HeapTupleHeaderData>();
        if lower < FIRST_ITEM + size_of::<u32>()
            || kind != NORMAL
            || offset < lower
            || offset % align_of::<u64>() != 0
            || length < header
            || offset + length > special
        {
            return Err(format!("its row is {length} bytes at {offset}, of kind {kind}"));
        }
        // SAFETY: the row lies within the page, as was checked, and is aligned as rows are.
        unsafe {
            let tuple: pg_sys::HeapTupleHeader = page.add(offset).cast();
            let begin = usize::from((*tuple).t_hoff);
            if begin < offset_of!(pg_sys::HeapTupleHeaderData, t_bits)
                || begin % align_of::<u64>() != 0
                || begin + ROW > length
            {
                return Err(format!("its row of {length} bytes has a header of {begin}"));
            }
            let data: *mut pg_sys::FormData_pg_sequence_data = tuple.cast::<u8>().add(begin).cast();
            // A byte that is no truth value is none of `bool` either.
            let is_called = (&raw const (*data).is_called).cast::<u8>().read();
            let last_value = (*data).last_value;
            if is_called > 1 || !steps.contain(Counter { last_value, is_called: is_called == 1 }) {
                return Err(format!("its last value is {last_value} ({is_called})"));
            }
            Ok(Row { tuple, length, data })
        }
    }
}

impl Page {
    fn lock(buffer: pg_sys::Buffer, mode: u32, steps: &Steps) -> Result<Page, String> {
        // SAFETY: pinned by this process; an error comes before it is locked.
        let page = unsafe {
            pg_sys::LockBuffer(buffer, mode as _);
            pg_sys::BufferGetPage(buffer)
        };
        match Row::of(page.cast(), steps) {
            Ok(row) => Ok(Page { buffer, row }),
            Err(what) => {
                // SAFETY: locked and pinned above.
                unsafe { pg_sys::UnlockReleaseBuffer(buffer) };
                Err(what)
            }
        }
    }

    /// What it says.
    pub fn says(&self) -> OnPage {
        // SAFETY: on a page that is locked and was checked.
        let pg_sys::FormData_pg_sequence_data { last_value, log_cnt, is_called } =
            unsafe { *self.row.data };
        let counter = Counter { last_value, is_called };
        OnPage { counter, is_of_fleet: log_cnt == OF_FLEET, lsn: self.lsn() }
    }

    fn header(&self) -> *mut pg_sys::PageHeaderData {
        // SAFETY: pinned; a page begins with its header.
        unsafe { pg_sys::BufferGetPage(self.buffer).cast() }
    }

    /// Where the log has the page's last change.
    fn lsn(&self) -> Lsn {
        // SAFETY: the page is locked.
        unsafe {
            #[cfg(feature = "pg19")]
            {
                Lsn(pg_sys::PageGetLSN(self.header().cast()))
            }
            #[cfg(not(feature = "pg19"))]
            {
                let pg_sys::PageXLogRecPtr { xlogid, xrecoff } = (*self.header()).pd_lsn;
                Lsn(u64::from(xlogid) << 32 | u64::from(xrecoff))
            }
        }
    }
}

impl WritablePage {
    /// Writes how far the sequence is, and inserts that in the log, if it is to be there: where the log has it.
    pub fn write(&self, counter: Counter, is_of_fleet: bool) -> Lsn {
        // A signal that ends the process in the middle of this would end the server.
        let _blocked = BlockedSigterm::in_background_worker();
        let Page { buffer, row } = &self.page;
        let mut lsn = Lsn::default();
        // SAFETY: the buffer is locked, and the row is on its page. The order is that of `nextval()`: the buffer is marked
        // as dirty before the insertion, and nobody looks at the page before it is unlocked. An error from here on would end
        // the server, as in PostgreSQL itself: what is not in the log must not be on the page. The record is the locator
        // and the row, as `seq_redo()` reads them.
        unsafe {
            pg_sys::CritSectionCount += 1;
            pg_sys::MarkBufferDirty(*buffer);
            (*row.data).last_value = counter.last_value;
            (*row.data).is_called = counter.is_called;
            (*row.data).log_cnt = if is_of_fleet { OF_FLEET } else { 0 };
            if let Some(mut locator) = self.logged {
                pg_sys::XLogBeginInsert();
                pg_sys::XLogRegisterBuffer(0, *buffer, pg_sys::REGBUF_WILL_INIT as u8);
                let size = size_of::<Locator>();
                pg_sys::XLogRegisterData((&raw mut locator).cast(), size as _);
                pg_sys::XLogRegisterData(row.tuple.cast(), row.length as _);
                let record = pg_sys::XLOG_SEQ_LOG as u8;
                lsn = Lsn(pg_sys::XLogInsert(pg_sys::RmgrIds::RM_SEQ_ID as u8, record));
                self.set_lsn(lsn);
            }
            pg_sys::CritSectionCount -= 1;
        }
        lsn
    }

    /// # Safety
    /// The record with the page's new content is in the log.
    unsafe fn set_lsn(&self, lsn: Lsn) {
        // SAFETY: the page is locked for this process alone.
        unsafe {
            #[cfg(feature = "pg19")]
            pg_sys::PageSetLSN(self.header().cast(), lsn.0);
            #[cfg(not(feature = "pg19"))]
            {
                let (xlogid, xrecoff) = ((lsn.0 >> 32) as u32, lsn.0 as u32);
                (*self.header()).pd_lsn = pg_sys::PageXLogRecPtr { xlogid, xrecoff };
            }
        }
    }
}
