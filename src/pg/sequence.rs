//! PostgreSQL's sequences: their definition, and taking many numbers at once, as `nextval()` does where a sequence has a
//! `CACHE`.
//!
//! A sequence is a page with one row, which is not under the rules of transactions: whoever holds the lock of the page's
//! buffer counts on, and inserts what the row then says into the write-ahead log. [`Sequence::advance`] does the same,
//! with the same record, so plain `nextval()` and `setval()`, crash recovery and standbys mix with it.
//!
//! **Locking.** The lock of the relation as `nextval()` takes it: once in a transaction, for all of it
//! ([`lock`]). The lock of the buffer is held while nothing can fail but the insertion into the log, which is then in a
//! critical section, where an error ends the server. All else here may raise an error of PostgreSQL's; the relation and
//! the row of the catalog belong to the transaction, which gives them back.

use std::ffi::CStr;
use std::mem::{offset_of, size_of};

use id_gen_core::ticket::{Counter, Run, Steps};
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
    /// The transaction that has written its row of `pg_sequence`: another one with every change of the definition.
    pub written_by: u32,
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

/// Why there are no numbers.
#[derive(Clone, Debug)]
pub enum NoNumbers {
    /// All are taken.
    Ended,
    /// They do not lie above the last value, which is this.
    NotAbove(Counter),
    /// The last ones, up to this value, came from a fleet's registry, whose other servers may have used larger ones.
    OfFleet(i64),
    /// The page is not one of a sequence: what is wrong.
    Damaged(String),
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
                written_by: (*header).t_choice.t_heap.t_xmin.into_inner(),
            };
            pg_sys::ReleaseSysCache(tuple);
            sequence
        }
    }
}

/// What tells this session's database from another one that had its number before: the transaction that has written its
/// row of the catalog.
pub fn database_written_by() -> u32 {
    // SAFETY: as for a sequence's row; a session's database is there as long as the session is.
    unsafe {
        let id = pg_sys::SysCacheIdentifier::DATABASEOID as _;
        let tuple = pg_sys::SearchSysCache1(id, pg_sys::Datum::from(pg_sys::MyDatabaseId));
        if tuple.is_null() {
            return 0;
        }
        let written_by = (*(*tuple).t_data).t_choice.t_heap.t_xmin.into_inner();
        pg_sys::ReleaseSysCache(tuple);
        written_by
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
            pg_sys::get_rel_name(sequence.into()).is_null()
        } else {
            pg_sys::get_database_name(database.into()).is_null()
        }
    }
}

/// Whether a role may take numbers of a sequence with `nextval()`.
pub fn may_take(oid: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    has_privilege(oid, role, pg_sys::ACL_USAGE) || may_set(oid, role)
}

/// Whether a role may set a sequence with `setval()`.
pub fn may_set(oid: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    has_privilege(oid, role, pg_sys::ACL_UPDATE)
}

fn has_privilege(oid: pg_sys::Oid, role: pg_sys::Oid, privilege: u32) -> bool {
    // SAFETY: looks into the catalogs.
    unsafe {
        pg_sys::pg_class_aclcheck(oid, role, privilege as _) == pg_sys::AclResult::ACLCHECK_OK
    }
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

    /// The number of its file, which changes when it is set back in a transaction.
    pub fn file_number(&self) -> u32 {
        let locator = self.locator();
        #[cfg(feature = "pg15")]
        return locator.relNode.to_u32();
        #[cfg(not(feature = "pg15"))]
        return locator.relNumber.to_u32();
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
    fn is_logged(&self) -> bool {
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

    /// What its page says.
    ///
    /// # Errors
    /// If the page is damaged.
    pub fn on_page(&self) -> Result<OnPage, NoNumbers> {
        let page = LockedPage::of(self.relation);
        let row = page.row(&self.definition.steps).map_err(NoNumbers::Damaged)?;
        Ok(page.said(&row))
    }

    /// How far it is.
    ///
    /// # Errors
    /// If its page is damaged.
    pub fn counter(&self) -> Result<Counter, NoNumbers> {
        self.on_page().map(|said| said.counter)
    }

    /// Lets `heed` see what the page says, and count on what it says then, while nobody else can look at the page.
    ///
    /// # Errors
    /// If the page is damaged.
    pub fn heed(&self, heed: impl FnOnce(&OnPage) -> Heed) -> Result<(), NoNumbers> {
        let page = LockedPage::of(self.relation);
        let row = page.row(&self.definition.steps).map_err(NoNumbers::Damaged)?;
        self.is_kept(&page, &row, heed);
        Ok(())
    }

    /// Takes so many numbers, or as many as are left, above its last value. They are this process's when the log is flushed
    /// up to the place that is returned. `None` if `heed` does not keep the page as it is.
    ///
    /// # Errors
    /// If there are none.
    pub fn advance(
        &self,
        wanted: u32,
        heed: impl FnOnce(&OnPage) -> Heed,
    ) -> Result<Option<(Run, Lsn)>, NoNumbers> {
        let steps = self.definition.steps;
        self.change(Origin::Server, heed, |&OnPage { counter, origin, .. }| {
            if origin == Origin::Fleet {
                return Err(NoNumbers::OfFleet(counter.last_value));
            }
            let next = steps.next(counter).ok_or(NoNumbers::Ended)?;
            let run = steps.run(next, wanted.max(1)).ok_or(NoNumbers::Ended)?;
            Ok((run, steps.last_of(run)))
        })
    }

    /// Counts to the end of a range that a fleet's registry gave, which the sequence remembers. `None` as for
    /// [`Sequence::advance`].
    ///
    /// # Errors
    /// If the range does not lie above the last value.
    pub fn raise_over(
        &self,
        run: Run,
        heed: impl FnOnce(&OnPage) -> Heed,
    ) -> Result<Option<(Run, Lsn)>, NoNumbers> {
        let steps = self.definition.steps;
        self.change(Origin::Fleet, heed, |&OnPage { counter, .. }| {
            if steps.next(counter).is_none_or(|next| run.first < next) {
                return Err(NoNumbers::NotAbove(counter));
            }
            Ok((run, steps.last_of(run)))
        })
    }

    /// Writes the sequence as it is into the log again, if that is decided by how far it is and where the log has its page;
    /// nothing is done if there is nothing to decide. Tells where the log has it now, while nobody else can look at the
    /// page, and returns that.
    ///
    /// # Errors
    /// If its page is damaged.
    pub fn write_again(
        &self,
        decide: impl FnOnce(Counter, Lsn) -> Option<bool>,
        tell: impl FnOnce(Option<Lsn>),
    ) -> Result<Lsn, NoNumbers> {
        let page = LockedPage::of(self.relation);
        let row = page.row(&self.definition.steps).map_err(NoNumbers::Damaged)?;
        let OnPage { counter, origin, lsn } = page.said(&row);
        let Some(again) = decide(counter, lsn) else { return Ok(Lsn::default()) };
        let again = again && self.is_logged();
        let last = counter.last_value;
        let written = again.then(|| page.write(&row, last, origin, Some(self.locator())));
        tell(written);
        Ok(written.unwrap_or_default())
    }

    /// Gives the sequence another last value, which is taken, unless it is not to be changed by what its page says.
    fn change<R>(
        &self,
        origin: Origin,
        heed: impl FnOnce(&OnPage) -> Heed,
        decide: impl FnOnce(&OnPage) -> Result<(R, i64), NoNumbers>,
    ) -> Result<Option<(R, Lsn)>, NoNumbers> {
        let page = LockedPage::of(self.relation);
        let row = page.row(&self.definition.steps).map_err(NoNumbers::Damaged)?;
        if !self.is_kept(&page, &row, heed) {
            return Ok(None);
        }
        let (result, last) = decide(&page.said(&row))?;
        Ok(Some((result, page.write(&row, last, origin, self.logged()))))
    }

    /// Whether `heed` keeps the page as it is; if not, it is written as that says.
    fn is_kept(&self, page: &LockedPage, row: &Row, heed: impl FnOnce(&OnPage) -> Heed) -> bool {
        match heed(&page.said(row)) {
            Heed::Keep => true,
            Heed::Follow => false,
            Heed::Raise(last, origin) => {
                page.write(row, last, origin, self.logged());
                false
            }
        }
    }

    /// Where the log is to say what happens to it, if it is to say so.
    fn logged(&self) -> Option<Locator> {
        self.is_logged().then(|| self.locator())
    }
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

/// The page of a sequence, whose buffer this process has locked, until this value is dropped. Nothing that may raise an
/// error of PostgreSQL's runs meanwhile but in a critical section.
struct LockedPage {
    buffer: pg_sys::Buffer,
    page: *mut u8,
}

/// What the page of a sequence says.
#[derive(Clone, Copy, Debug)]
pub struct OnPage {
    /// How far the sequence is.
    pub counter: Counter,
    /// Who has written that.
    pub origin: Origin,
    /// Where the log has it.
    pub lsn: Lsn,
}

/// What is to become of a page, by what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heed {
    /// It stays, and so does what this server holds.
    Keep,
    /// It stays, and this server holds nothing any more: numbers follow what it says.
    Follow,
    /// It lies below numbers that were returned. It gets this last value, written by this origin; this server holds nothing any
    /// more.
    Raise(i64, Origin),
}

/// Who has written the page of a sequence last.
///
/// The row says so in `log_cnt`: for how many numbers more `nextval()` need not write to the log. Less than none is what
/// `nextval()` takes for none, so that is what tickets write. All others write zero or more; so it lasts until somebody has set
/// the sequence for this server alone, or until `nextval()` was called, the sequence was declared anew by `ALTER SEQUENCE`, or
/// `pg_upgrade` has brought it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Tickets of this server alone.
    Server,
    /// Tickets out of a range of a fleet's registry.
    Fleet,
    /// `nextval()`, `setval()` or the sequence's declaration.
    Other,
}

impl Origin {
    /// Whether tickets have written it.
    pub const fn is_tickets(self) -> bool {
        matches!(self, Origin::Server | Origin::Fleet)
    }

    const fn log_cnt(self) -> i64 {
        match self {
            Origin::Fleet => -1,
            Origin::Server => -2,
            // Which tickets do not write.
            Origin::Other => 0,
        }
    }

    const fn of(log_cnt: i64) -> Origin {
        match log_cnt {
            -2 => Origin::Server,
            -1 => Origin::Fleet,
            _ => Origin::Other,
        }
    }
}

/// The row on it.
struct Row {
    tuple: pg_sys::HeapTupleHeader,
    length: usize,
    data: *mut pg_sys::FormData_pg_sequence_data,
}

impl Row {
    fn counter(&self) -> Counter {
        // SAFETY: within a page that is locked.
        unsafe {
            Counter { last_value: (*self.data).last_value, is_called: (*self.data).is_called }
        }
    }

    fn origin(&self) -> Origin {
        // SAFETY: within a page that is locked.
        Origin::of(unsafe { (*self.data).log_cnt })
    }
}

impl Drop for LockedPage {
    fn drop(&mut self) {
        // SAFETY: locked and pinned by this process.
        unsafe { pg_sys::UnlockReleaseBuffer(self.buffer) };
    }
}

impl LockedPage {
    fn of(relation: pg_sys::Relation) -> LockedPage {
        // SAFETY: an open relation; an error comes before there is anything to drop.
        unsafe {
            let buffer = pg_sys::ReadBuffer(relation, 0);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as _);
            LockedPage { buffer, page: pg_sys::BufferGetPage(buffer).cast() }
        }
    }

    fn u16_at(&self, place: usize) -> usize {
        // SAFETY: within a page, as all callers see to.
        usize::from(unsafe { self.page.add(place).cast::<u16>().read_unaligned() })
    }

    fn u32_at(&self, place: usize) -> u32 {
        // SAFETY: as above.
        unsafe { self.page.add(place).cast::<u32>().read_unaligned() }
    }

    /// The row, if the page is one of a sequence.
    fn row(&self, steps: &Steps) -> Result<Row, String> {
        const NORMAL: u32 = 1; // LP_NORMAL
        let special = self.u16_at(offset_of!(pg_sys::PageHeaderData, pd_special));
        let lower = self.u16_at(offset_of!(pg_sys::PageHeaderData, pd_lower));
        if special < FIRST_ITEM + size_of::<u32>() || special + size_of::<u32>() > PAGE_SIZE {
            return Err(format!("its special space begins at {special}"));
        }
        let magic = self.u32_at(special);
        if magic != MAGIC {
            return Err(format!("bad magic number {magic:08X}"));
        }
        let item = self.u32_at(FIRST_ITEM);
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
            let tuple: pg_sys::HeapTupleHeader = self.page.add(offset).cast();
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
            self.forget_lock(tuple);
            Ok(Row { tuple, length, data })
        }
    }

    /// Old releases let somebody lock the row of a sequence, whose transaction would stay in it for ever: as
    /// `read_seq_tuple()`.
    ///
    /// # Safety
    /// The row of this page.
    unsafe fn forget_lock(&self, tuple: pg_sys::HeapTupleHeader) {
        // SAFETY: the caller's promise; the buffer is locked.
        unsafe {
            let tuple = &mut *tuple;
            if tuple.t_choice.t_heap.t_xmax != pg_sys::InvalidTransactionId {
                tuple.t_choice.t_heap.t_xmax = pg_sys::InvalidTransactionId;
                tuple.t_infomask &= !(pg_sys::HEAP_XMAX_COMMITTED as u16);
                tuple.t_infomask |= pg_sys::HEAP_XMAX_INVALID as u16;
                pg_sys::MarkBufferDirtyHint(self.buffer, true);
            }
        }
    }

    /// Writes a last value, which is taken, and inserts it in the log, if it is to be there.
    fn write(&self, row: &Row, last: i64, origin: Origin, logged: Option<Locator>) -> Lsn {
        // A signal that ends the process in the middle of this would end the server.
        let _blocked = BlockedSigterm::in_background_worker();
        let mut lsn = Lsn::default();
        // SAFETY: the buffer is locked, and the row is on its page. The order is that of `nextval()`: the buffer is marked
        // as dirty before the insertion, and nobody looks at the page before it is unlocked. An error from here on would end
        // the server, as in PostgreSQL itself: what is not in the log must not be on the page. The record is the locator
        // and the row, as `seq_redo()` reads them.
        unsafe {
            pg_sys::CritSectionCount += 1;
            pg_sys::MarkBufferDirty(self.buffer);
            (*row.data).last_value = last;
            (*row.data).is_called = true;
            (*row.data).log_cnt = origin.log_cnt();
            if let Some(mut locator) = logged {
                pg_sys::XLogBeginInsert();
                pg_sys::XLogRegisterBuffer(0, self.buffer, pg_sys::REGBUF_WILL_INIT as u8);
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

    fn said(&self, row: &Row) -> OnPage {
        OnPage { counter: row.counter(), origin: row.origin(), lsn: self.lsn() }
    }

    /// Where the log has the page's last change.
    fn lsn(&self) -> Lsn {
        // SAFETY: a page begins with its header.
        unsafe {
            #[cfg(feature = "pg19")]
            {
                Lsn(pg_sys::PageGetLSN(self.page.cast()))
            }
            #[cfg(not(feature = "pg19"))]
            {
                let header: *const pg_sys::PageHeaderData = self.page.cast();
                let pg_sys::PageXLogRecPtr { xlogid, xrecoff } = (*header).pd_lsn;
                Lsn(u64::from(xlogid) << 32 | u64::from(xrecoff))
            }
        }
    }

    /// # Safety
    /// The buffer is locked, and the record with the page's new content is in the log.
    unsafe fn set_lsn(&self, lsn: Lsn) {
        // SAFETY: a page begins with its header.
        unsafe {
            #[cfg(feature = "pg19")]
            pg_sys::PageSetLSN(self.page.cast(), lsn.0);
            #[cfg(not(feature = "pg19"))]
            {
                let header: *mut pg_sys::PageHeaderData = self.page.cast();
                let (xlogid, xrecoff) = ((lsn.0 >> 32) as u32, lsn.0 as u32);
                (*header).pd_lsn = pg_sys::PageXLogRecPtr { xlogid, xrecoff };
            }
        }
    }
}
