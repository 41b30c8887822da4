//! libpq, loaded at run time, and the part of it that a registry needs, as safe calls: all of this module's unsafe code.
//!
//! libpq is not linked: who keeps no fleet on a PostgreSQL server needs none, and neither does the build. In a server
//! process it is the one that PostgreSQL's own walreceiver has brought along, whatever its file is called: a second one
//! beside it would call the functions of the first, whose structures may be others.
//!
//! libpq leaves signal handlers alone. It writes with `MSG_NOSIGNAL`, or where a system lacks that, blocks `SIGPIPE` for
//! the calling thread; only a library that is not thread-safe does more, and is refused.

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use id_gen_core::fleet::store::{StoreError, StoreErrorKind};
use libloading::Library;
use libloading::os::unix::Library as Scope;

/// The name that the dynamic linker knows libpq by. It has been this one since PostgreSQL 8.2.
const SONAME: &str = "libpq.so.5";

/// `PGconn`, `PGresult`: only libpq knows what is in them.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

/// `PQconninfoOption`.
#[repr(C)]
struct ConninfoOption {
    keyword: *const c_char,
    envvar: *const c_char,
    compiled: *const c_char,
    value: *const c_char,
    label: *const c_char,
    dispchar: *const c_char,
    dispsize: c_int,
}

type NoticeReceiver = unsafe extern "C" fn(*mut c_void, *const Opaque);

/// Declares [`LibPq`] as a table of functions, and how it is filled from a library.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// A loaded libpq. It is never unloaded: OpenSSL, which it may have brought along, does not survive that.
        #[derive(Clone, Copy)]
        pub struct LibPq {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl LibPq {
            fn resolve(library: &Library) -> Result<LibPq, libloading::Error> {
                Ok(LibPq {
                    $(
                        // SAFETY: the symbol is libpq's, and the type is that of its declaration in libpq-fe.h, which
                        // has not changed under this soname. What the pointer points into is never unloaded.
                        $name: unsafe { *library.get($symbol)? },
                    )*
                })
            }
        }
    };
}

functions! {
    is_threadsafe = b"PQisthreadsafe\0" () -> c_int;
    conninfo_parse = b"PQconninfoParse\0" (*const c_char, *mut *mut c_char) -> *mut ConninfoOption;
    conninfo_free = b"PQconninfoFree\0" (*mut ConninfoOption);
    freemem = b"PQfreemem\0" (*mut c_void);
    connect_start = b"PQconnectStartParams\0" (*const *const c_char, *const *const c_char, c_int) -> *mut Opaque;
    connect_poll = b"PQconnectPoll\0" (*mut Opaque) -> c_int;
    finish = b"PQfinish\0" (*mut Opaque);
    conninfo = b"PQconninfo\0" (*mut Opaque) -> *mut ConninfoOption;
    host = b"PQhost\0" (*const Opaque) -> *const c_char;
    port = b"PQport\0" (*const Opaque) -> *const c_char;
    status = b"PQstatus\0" (*const Opaque) -> c_int;
    socket = b"PQsocket\0" (*const Opaque) -> c_int;
    ssl_in_use = b"PQsslInUse\0" (*mut Opaque) -> c_int;
    error_message = b"PQerrorMessage\0" (*const Opaque) -> *const c_char;
    set_error_verbosity = b"PQsetErrorVerbosity\0" (*mut Opaque, c_int) -> c_int;
    set_notice_receiver = b"PQsetNoticeReceiver\0" (*mut Opaque, NoticeReceiver, *mut c_void) -> Option<NoticeReceiver>;
    set_nonblocking = b"PQsetnonblocking\0" (*mut Opaque, c_int) -> c_int;
    send_query_params = b"PQsendQueryParams\0" (
        *mut Opaque, *const c_char, c_int, *const u32, *const *const c_char, *const c_int, *const c_int, c_int
    ) -> c_int;
    flush = b"PQflush\0" (*mut Opaque) -> c_int;
    consume_input = b"PQconsumeInput\0" (*mut Opaque) -> c_int;
    is_busy = b"PQisBusy\0" (*mut Opaque) -> c_int;
    get_result = b"PQgetResult\0" (*mut Opaque) -> *mut Opaque;
    result_status = b"PQresultStatus\0" (*const Opaque) -> c_int;
    result_error_field = b"PQresultErrorField\0" (*const Opaque, c_int) -> *const c_char;
    clear = b"PQclear\0" (*mut Opaque);
    ntuples = b"PQntuples\0" (*const Opaque) -> c_int;
    nfields = b"PQnfields\0" (*const Opaque) -> c_int;
    get_is_null = b"PQgetisnull\0" (*const Opaque, c_int, c_int) -> c_int;
    get_value = b"PQgetvalue\0" (*const Opaque, c_int, c_int) -> *const c_char;
    cmd_tuples = b"PQcmdTuples\0" (*mut Opaque) -> *const c_char;
}

impl fmt::Debug for LibPq {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LibPq")
    }
}

/// The file of the libpq that this process has loaded, if it has. Its functions are then taken from that file alone: what
/// this process finds by a name may be another library's that has a function of that name.
fn file_of_process() -> Option<PathBuf> {
    let process = Scope::this();
    // SAFETY: the function is not called, only asked for its place.
    let anchor =
        unsafe { process.get::<unsafe extern "C" fn()>(b"PQconnectStartParams\0") }.ok()?;
    let place: unsafe extern "C" fn() = *anchor;
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `found` is valid to write to.
    if unsafe { libc::dladdr(place as *const c_void, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr has filled it, with a name that ends with NUL and lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.assume_init().dli_fname) };
    Some(OsStr::from_bytes(name.to_bytes()).into())
}

impl LibPq {
    /// Loads libpq: from a file; or the one that this process has already, or else the one that the dynamic linker finds
    /// as `libpq.so.5`.
    ///
    /// # Errors
    /// `Setting` if there is no such library, or it is not thread-safe.
    pub fn load(path: Option<&Path>) -> Result<LibPq, StoreError> {
        let path = path.map(Path::to_owned).or_else(file_of_process);
        let path = path.unwrap_or_else(|| SONAME.into());
        let refused = |detail: String| StoreError {
            kind: StoreErrorKind::Setting,
            server: path.display().to_string(),
            detail,
        };
        let libpq = LibPq::of_file(&path).map_err(|error| refused(error.to_string()))?;
        // SAFETY: the function takes nothing.
        if unsafe { (libpq.is_threadsafe)() } == 0 {
            return Err(refused("this libpq is not thread-safe".to_owned()));
        }
        Ok(libpq)
    }

    fn of_file(path: &Path) -> Result<LibPq, libloading::Error> {
        // SAFETY: initializing libpq, and the libraries that it needs, has no precondition.
        let library = unsafe { Library::new(path) }?;
        let libpq = LibPq::resolve(&library)?;
        std::mem::forget(library);
        Ok(libpq)
    }

    /// Checks that libpq understands a connection string. What it refers to, for example a service, is not looked up.
    ///
    /// # Errors
    /// What libpq has to say, which may quote any part of the string.
    pub fn check_conninfo(&self, conninfo: &CStr, _: &English) -> Result<(), String> {
        let mut message: *mut c_char = ptr::null_mut();
        // SAFETY: the string ends with NUL, and `message` is valid to write to.
        let options = unsafe { (self.conninfo_parse)(conninfo.as_ptr(), &raw mut message) };
        if !options.is_null() {
            // SAFETY: libpq made them, and nobody else has them.
            unsafe { (self.conninfo_free)(options) };
            return Ok(());
        }
        if message.is_null() {
            return Err("out of memory".to_owned());
        }
        // SAFETY: without options libpq left a message, which ends with NUL and is ours to free, once.
        unsafe {
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.freemem)(message.cast());
            Err(text)
        }
    }

    /// Copies a text of libpq's; none is empty.
    ///
    /// # Safety
    /// The pointer is null, or to a text that ends with NUL and lives until this returns.
    unsafe fn text(pointer: *const c_char) -> String {
        if pointer.is_null() {
            return String::new();
        }
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    }
}

/// What a connection being made waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// It cannot be made.
    Failed,
    /// Something to read.
    Reading,
    /// Room to write.
    Writing,
    /// Nothing: it is made.
    Done,
}

/// What libpq's notices leave behind. A connection owns it, at an address that does not change.
struct Notices {
    libpq: LibPq,
    wait_canceled: Cell<Option<String>>,
}

/// `PG_DIAG_*` of postgres_ext.h.
const SEVERITY_NONLOCALIZED: c_int = b'V' as c_int;
const SQLSTATE: c_int = b'C' as c_int;
const MESSAGE_PRIMARY: c_int = b'M' as c_int;
const SOURCE_FUNCTION: c_int = b'R' as c_int;

/// Where the server says that it stopped waiting for synchronous standbys. The message is in any language.
const SYNCHRONOUS_WAIT: &str = "SyncRepWaitForLSN";

/// Swallows notices, but for the one warning that takes an acknowledgement back.
unsafe extern "C" fn receive_notice(notices: *mut c_void, result: *const Opaque) {
    // SAFETY: what `RawConnection::start` gave to libpq, which calls back only while one of that connection's methods
    // runs; it is freed after the connection is. `Notices` is only read and its cell set, so sharing it is enough.
    let notices = unsafe { &*notices.cast::<Notices>() };
    let field = |code| {
        // SAFETY: libpq lends the result for the time of the call.
        unsafe { LibPq::text((notices.libpq.result_error_field)(result, code)) }
    };
    if field(SEVERITY_NONLOCALIZED) == "WARNING" && field(SOURCE_FUNCTION) == SYNCHRONOUS_WAIT {
        notices.wait_canceled.set(Some(field(MESSAGE_PRIMARY)));
    }
}

/// A connection, made or being made. Dropping it closes it, without waiting for anything.
///
/// libpq's messages are in English while [`English`] lives, which therefore every call that makes one asks for.
pub struct RawConnection {
    libpq: LibPq,
    pointer: NonNull<Opaque>,
    notices: *mut Notices,
}

// SAFETY: libpq lets any thread use a connection, one at a time, and `&mut self` or the lack of `Sync` see to that.
unsafe impl Send for RawConnection {}

impl RawConnection {
    /// Starts to connect with these keywords and values, of which the last one of a keyword counts. `dbname` may be a
    /// connection string, which stands for what is in it.
    ///
    /// Looking up host names, and services in LDAP, is the one thing that libpq waits for by itself.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn start(
        libpq: LibPq,
        parameters: &[(&CStr, &CStr)],
        _: &English,
    ) -> Result<RawConnection, String> {
        /// `PQERRORS_VERBOSE`: with the SQLSTATE, which for an attempt to connect is to be had in no other way.
        const VERBOSE: c_int = 2;
        const EXPAND_DBNAME: c_int = 1;
        let ended = |texts: Vec<*const c_char>| [texts, vec![ptr::null()]].concat();
        let keywords = ended(parameters.iter().map(|(keyword, _)| keyword.as_ptr()).collect());
        let values = ended(parameters.iter().map(|(_, value)| value.as_ptr()).collect());
        // SAFETY: two arrays of one length, each ended by a null pointer, of texts that end with NUL.
        let started =
            unsafe { (libpq.connect_start)(keywords.as_ptr(), values.as_ptr(), EXPAND_DBNAME) };
        let pointer = NonNull::new(started).ok_or("out of memory")?;
        let notices = Box::into_raw(Box::new(Notices { libpq, wait_canceled: Cell::new(None) }));
        // SAFETY: the connection is ours. `notices` outlives it, as `drop` frees both in that order.
        unsafe {
            (libpq.set_notice_receiver)(pointer.as_ptr(), receive_notice, notices.cast());
            (libpq.set_error_verbosity)(pointer.as_ptr(), VERBOSE);
        }
        Ok(RawConnection { libpq, pointer, notices })
    }

    /// Goes on connecting as far as it can without waiting.
    pub fn poll(&mut self, _: &English) -> Polling {
        // SAFETY: the connection is open, as it is until `drop`.
        match unsafe { (self.libpq.connect_poll)(self.pointer.as_ptr()) } {
            1 => Polling::Reading,
            2 => Polling::Writing,
            3 => Polling::Done,
            _ => Polling::Failed,
        }
    }

    /// Whether it can't be made, or broke.
    pub fn is_bad(&self) -> bool {
        const CONNECTION_BAD: c_int = 1;
        // SAFETY: as in `poll`.
        unsafe { (self.libpq.status)(self.pointer.as_ptr()) == CONNECTION_BAD }
    }

    /// Its socket, if it has one now. While it is being made, it may have another one after each step.
    pub fn socket(&self) -> Option<RawFd> {
        // SAFETY: as in `poll`.
        let socket = unsafe { (self.libpq.socket)(self.pointer.as_ptr()) };
        (socket >= 0).then_some(socket)
    }

    /// Whether what is said on it is encrypted.
    pub fn has_tls(&mut self) -> bool {
        // SAFETY: as in `poll`.
        unsafe { (self.libpq.ssl_in_use)(self.pointer.as_ptr()) != 0 }
    }

    /// The host that it is connected to, or that is being tried: a name, an address or a directory of sockets.
    pub fn host(&self) -> String {
        // SAFETY: as in `poll`; the text is the connection's.
        unsafe { LibPq::text((self.libpq.host)(self.pointer.as_ptr())) }
    }

    /// The port that goes with the host.
    pub fn port(&self) -> String {
        // SAFETY: as in `host`.
        unsafe { LibPq::text((self.libpq.port)(self.pointer.as_ptr())) }
    }

    /// The value of an option, wherever it is from: the connection string, a service, the environment; empty if there
    /// is none.
    pub fn option(&mut self, keyword: &CStr) -> String {
        let mut found = String::new();
        // SAFETY: as in `poll`. The array that libpq makes is ended by an option without a keyword, its texts end with
        // NUL, and it is freed once, after all was copied.
        unsafe {
            let options = (self.libpq.conninfo)(self.pointer.as_ptr());
            let mut option = options;
            while !option.is_null() && !(*option).keyword.is_null() {
                if CStr::from_ptr((*option).keyword) == keyword {
                    found = LibPq::text((*option).value);
                }
                option = option.add(1);
            }
            (self.libpq.conninfo_free)(options);
        }
        found
    }

    /// What libpq says about the last thing that failed.
    pub fn message(&self) -> String {
        // SAFETY: as in `host`.
        unsafe { LibPq::text((self.libpq.error_message)(self.pointer.as_ptr())) }
    }

    /// From now on, no call waits for room to write.
    pub fn set_nonblocking(&mut self) -> bool {
        // SAFETY: as in `poll`.
        unsafe { (self.libpq.set_nonblocking)(self.pointer.as_ptr(), 1) == 0 }
    }

    /// Begins to send a statement; false if that failed. All parameters and columns are texts.
    pub fn send(&mut self, statement: &CStr, parameters: &[Option<CString>], _: &English) -> bool {
        const TEXT: c_int = 0;
        let values: Vec<*const c_char> = parameters
            .iter()
            .map(|value| value.as_ref().map_or(ptr::null(), |text| text.as_ptr()))
            .collect();
        let Ok(count) = c_int::try_from(values.len()) else { return false };
        // SAFETY: as in `poll`. `values` has `count` texts that end with NUL, or null; no types and, for texts, no
        // lengths and formats are given. libpq copies everything before it returns.
        let sent = unsafe {
            (self.libpq.send_query_params)(
                self.pointer.as_ptr(),
                statement.as_ptr(),
                count,
                ptr::null(),
                values.as_ptr(),
                ptr::null(),
                ptr::null(),
                TEXT,
            )
        };
        sent == 1
    }

    /// Sends what it can; whether that was all.
    ///
    /// # Errors
    /// If the connection broke.
    pub fn flush(&mut self, _: &English) -> Result<bool, ()> {
        // SAFETY: as in `poll`.
        match unsafe { (self.libpq.flush)(self.pointer.as_ptr()) } {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(()),
        }
    }

    /// Reads what is there; false if the connection broke.
    pub fn consume_input(&mut self, _: &English) -> bool {
        // SAFETY: as in `poll`.
        unsafe { (self.libpq.consume_input)(self.pointer.as_ptr()) == 1 }
    }

    /// Whether [`RawConnection::next_answer`] would have to wait.
    pub fn is_busy(&mut self, _: &English) -> bool {
        // SAFETY: as in `poll`.
        unsafe { (self.libpq.is_busy)(self.pointer.as_ptr()) != 0 }
    }

    /// The next answer to what was sent, until there are no more.
    pub fn next_answer(&mut self, _: &English) -> Option<Answer> {
        // SAFETY: as in `poll`.
        let result = NonNull::new(unsafe { (self.libpq.get_result)(self.pointer.as_ptr()) })?;
        let answer = self.copy_result(result.as_ptr());
        // SAFETY: the result is ours, and everything in it was copied.
        unsafe { (self.libpq.clear)(result.as_ptr()) };
        Some(answer)
    }

    /// The warning, if the server stopped waiting for its synchronous standbys in what was sent last.
    pub fn take_canceled_wait(&mut self) -> Option<String> {
        // SAFETY: it lives as long as the connection, and everybody else only shares it too, in `receive_notice`.
        unsafe { &*self.notices }.wait_canceled.take()
    }

    fn copy_result(&self, result: *mut Opaque) -> Answer {
        /// `ExecStatusType` of libpq-fe.h.
        const COMMAND_OK: c_int = 1;
        const TUPLES_OK: c_int = 2;
        let libpq = self.libpq;
        // SAFETY: here and below, the result is a valid one, its rows and columns are asked for within their number, and
        // every text is copied while it is there.
        match unsafe { (libpq.result_status)(result) } {
            COMMAND_OK => {
                // SAFETY: as above.
                let count = unsafe { LibPq::text((libpq.cmd_tuples)(result)) };
                Answer::Command { rows: count.parse().unwrap_or(0) }
            }
            TUPLES_OK => {
                // SAFETY: as above.
                let (rows, columns) = unsafe { ((libpq.ntuples)(result), (libpq.nfields)(result)) };
                let value = |row, column| {
                    // SAFETY: as above.
                    unsafe {
                        ((libpq.get_is_null)(result, row, column) == 0)
                            .then(|| CStr::from_ptr((libpq.get_value)(result, row, column)))
                            .map(|text| text.to_str().map(str::to_owned))
                            .transpose()
                    }
                };
                let row = |row| (0..columns).map(|column| value(row, column)).collect();
                (0..rows).map(row).collect::<Result<_, _>>().map_or_else(
                    // The server converts to UTF-8, except from a database that does not know its encoding.
                    |error| Answer::Error { sqlstate: String::new(), message: error.to_string() },
                    Answer::Rows,
                )
            }
            _ => {
                // SAFETY: as above.
                let field = |code| unsafe { LibPq::text((libpq.result_error_field)(result, code)) };
                Answer::Error { sqlstate: field(SQLSTATE), message: field(MESSAGE_PRIMARY) }
            }
        }
    }
}

impl Drop for RawConnection {
    fn drop(&mut self) {
        // SAFETY: both are ours, and nobody uses them after this. The notices go last, because libpq may use them as
        // long as the connection is there.
        unsafe {
            (self.libpq.finish)(self.pointer.as_ptr());
            drop(Box::from_raw(self.notices));
        }
    }
}

/// What the server said to a statement.
#[derive(Debug)]
pub enum Answer {
    /// Done, with so many rows.
    Command {
        /// How many rows it wrote.
        rows: u64,
    },
    /// Rows of columns.
    Rows(Vec<Vec<Option<String>>>),
    /// Refused; the texts are empty where libpq speaks for itself, which it does when the connection broke.
    Error {
        /// The SQLSTATE.
        sqlstate: String,
        /// The primary message.
        message: String,
    },
}

/// While it lives, this thread gets libpq's messages and the operating system's in English, whatever `lc_messages` of
/// the server around it: they decide what kind of trouble it is. Other threads don't notice.
pub struct English {
    /// What to go back to, and what to free.
    locales: Option<(libc::locale_t, libc::locale_t)>,
    /// It belongs to the thread that made it.
    _of_thread: PhantomData<*mut ()>,
}

impl English {
    /// Switches the thread. Without memory for that, messages are in whatever language they are in.
    pub fn new() -> English {
        // SAFETY: the name ends with NUL, and a null base is a new locale.
        let c = unsafe { libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), ptr::null_mut()) };
        let locales = (!c.is_null()).then(|| {
            // SAFETY: it is a valid locale, and stays so until `drop` has switched back.
            (unsafe { libc::uselocale(c) }, c)
        });
        English { locales, _of_thread: PhantomData }
    }
}

impl Drop for English {
    fn drop(&mut self) {
        if let Some((before, c)) = self.locales {
            // SAFETY: `before` was this thread's, which this still is. After that no one uses `c`.
            unsafe {
                libc::uselocale(before);
                libc::freelocale(c);
            }
        }
    }
}
