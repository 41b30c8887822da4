//! One connection, on which nothing takes longer than it may: made, asked and closed again.
//!
//! What fails leaves it in a state that nobody knows, so who gets an error drops the session with it: a late answer must
//! never be taken for a later one's.

use std::ffi::{CStr, CString};
use std::fs::Metadata;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use id_gen_core::fleet::store::{StoreError, StoreErrorKind};

use super::error;
use super::libpq::{Answer, English, LibPq, Polling, RawConnection};

/// TLS hands out a record at a time, so what is left of one may wait in OpenSSL while the socket has nothing to read:
/// libpq is asked this often in any case.
const TLS_INTERVAL: Duration = Duration::from_millis(10);

/// Finds the registry's table, and pins the path: the user's own may have schemas in which other roles create functions
/// and operators, and a call would resolve to one of those wherever it fits the arguments better. So until then all names
/// have their schema. A table that is not there yet is made in the first schema. The third value is false if it is no table:
/// a view calls functions of its owner's choice.
const FIND_TABLE: &str = "
    WITH found AS MATERIALIZED (
        SELECT coalesce(n.nspname, pg_catalog.current_schema()) AS schema,
               c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'::pg_catalog.\"char\"[]) AS is_table
          FROM pg_catalog.to_regclass('id_gen_registry') named (id)
          LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) named.id
          LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace)
    SELECT pg_catalog.format('%I.id_gen_registry', schema),
           pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
           is_table
      FROM found WHERE schema IS NOT NULL";

/// What a session sets for itself, so that no default of a role or a database is in the way. Settings that the server
/// does not have yet are left out. A commit is never acknowledged earlier than `synchronous_commit = on` does it, and
/// the warning that takes that back is not hidden. A policy of the table's owner, which may call any function, is an error.
/// Two serializable transactions that read the whole table would be in each other's way.
const SETTINGS: &str = "
    SELECT set_config(name, wanted, false)
      FROM (VALUES ('statement_timeout', $1), ('lock_timeout', $1), ('idle_in_transaction_session_timeout', $1),
                   ('default_transaction_isolation', 'serializable'), ('client_min_messages', 'warning'),
                   ('row_security', 'off'), ('enable_seqscan', 'off'),
                   ('synchronous_commit', CASE current_setting('synchronous_commit')
                                          WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END)) w (name, wanted)
      JOIN pg_settings USING (name)";

/// How long a call may take, and what libpq needs meanwhile.
pub struct Call {
    /// The moment when it has to be over.
    deadline: Instant,
    /// The time-out, for the server.
    timeout: Duration,
    english: English,
}

impl Call {
    /// Begins a call.
    pub fn new(timeout: Duration) -> Call {
        /// A time-out past the end of the clock is one that nobody sees.
        const LONGEST: Duration = Duration::from_hours(24);
        let timeout = timeout.min(LONGEST);
        Call { deadline: Instant::now() + timeout, timeout, english: English::new() }
    }

    /// What libpq speaks while it lasts.
    pub const fn english(&self) -> &English {
        &self.english
    }

    /// Whether its time is up.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// A connection that is made and set up.
pub struct Session {
    raw: RawConnection,
    server: String,
    /// The registry's table, with its schema.
    pub table: String,
}

impl Session {
    /// Connects to the first server of the connection string that takes writes.
    ///
    /// # Errors
    /// Of every kind.
    pub fn open(
        libpq: LibPq,
        conninfo: &CStr,
        passwords: &mut PasswordFile,
        call: &Call,
    ) -> Result<Session, StoreError> {
        let mut raw = connect(libpq, conninfo, passwords, call)?;
        let server = address(&raw.host(), &raw.port());
        if !raw.set_nonblocking() {
            return Err(StoreError {
                kind: StoreErrorKind::Unreachable,
                server,
                detail: on_one_line(&raw.message()),
            });
        }
        let mut session = Session { raw, server, table: String::new() };
        let Answer::Rows(found) = session.run(FIND_TABLE, &[], call)? else {
            return Err(session.error(StoreErrorKind::Unexpected, "the server returned no rows"));
        };
        let mut found = found.into_iter().flatten();
        let Some(table) = found.next().flatten() else {
            return Err(session.error(StoreErrorKind::Setting, "no schema of search_path exists"));
        };
        if found.nth(1).flatten().as_deref() == Some("f") {
            let detail = format!("{table} is not a table");
            return Err(session.error(StoreErrorKind::Setting, &detail));
        }
        session.table = table;
        // Zero would be none.
        let timeout_ms = call.timeout.as_millis().max(1).to_string();
        session.run(SETTINGS, &[Some(&timeout_ms)], call)?;
        Ok(session)
    }

    /// Whether it is still there, as far as is known here: nothing is sent.
    pub fn is_open(&mut self, call: &Call) -> bool {
        while let Some(socket) = self.raw.socket() {
            match wait(socket, libc::POLLIN, Instant::now()) {
                Ok(false) => return !self.raw.is_bad(),
                Ok(true) if self.raw.consume_input(&call.english) && !call.is_over() => {}
                Ok(true) | Err(_) => return false,
            }
        }
        false
    }

    /// Runs one statement, in which `{table}` is the registry's, and returns all that the server said to it. What another
    /// transaction was in the way of has not happened, and is repeated.
    ///
    /// # Errors
    /// Of every kind. After one, the session is of no more use.
    pub fn run(
        &mut self,
        statement: &str,
        parameters: &[Option<&str>],
        call: &Call,
    ) -> Result<Answer, StoreError> {
        let texts: Result<Vec<_>, _> =
            parameters.iter().map(|parameter| parameter.map(CString::new).transpose()).collect();
        let texts =
            texts.map_err(|error| self.error(StoreErrorKind::Unexpected, &error.to_string()))?;
        let statement = CString::new(statement.replace("{table}", &self.table))
            .map_err(|error| self.error(StoreErrorKind::Unexpected, &error.to_string()))?;
        loop {
            match self.run_once(&statement, &texts, call)? {
                Answer::Error { sqlstate, message } => {
                    if !error::is_conflict(&sqlstate) || call.is_over() {
                        return Err(self.refused(&sqlstate, &message));
                    }
                }
                answer => return Ok(answer),
            }
        }
    }

    fn run_once(
        &mut self,
        statement: &CStr,
        texts: &[Option<CString>],
        call: &Call,
    ) -> Result<Answer, StoreError> {
        if !self.raw.send(statement, texts, &call.english) {
            return Err(self.broken());
        }
        while !self.raw.flush(&call.english).map_err(|()| self.broken())? {
            self.wait(libc::POLLIN | libc::POLLOUT, call)?;
            if !self.raw.consume_input(&call.english) {
                return Err(self.broken());
            }
        }
        let mut last = None;
        loop {
            while self.raw.is_busy(&call.english) {
                self.wait(libc::POLLIN, call)?;
                if !self.raw.consume_input(&call.english) {
                    return Err(self.broken());
                }
            }
            match self.raw.next_answer(&call.english) {
                None => break,
                Some(answer) => last = Some(answer),
            }
        }
        if let Some(warning) = self.raw.take_canceled_wait() {
            // Done here, and perhaps nowhere else: that is no acknowledgement.
            return Err(self.error(StoreErrorKind::TimedOut, &warning));
        }
        last.ok_or_else(|| self.error(StoreErrorKind::Unexpected, "the server gave no answer"))
    }

    /// An error about this server.
    pub fn error(&self, kind: StoreErrorKind, detail: &str) -> StoreError {
        StoreError { kind, server: self.server.clone(), detail: on_one_line(detail) }
    }

    fn refused(&self, sqlstate: &str, message: &str) -> StoreError {
        match (sqlstate, message) {
            ("", _) if self.raw.is_bad() => self.broken(),
            _ => self.error(error::kind_of(sqlstate), message),
        }
    }

    fn broken(&self) -> StoreError {
        self.error(StoreErrorKind::Unreachable, &self.raw.message())
    }

    fn wait(&mut self, events: libc::c_short, call: &Call) -> Result<(), StoreError> {
        let socket = self.raw.socket().ok_or_else(|| self.broken())?;
        let until = if self.raw.has_tls() {
            call.deadline.min(Instant::now() + TLS_INTERVAL)
        } else {
            call.deadline
        };
        match wait(socket, events, until) {
            Ok(false) if call.is_over() => Err(self.error(StoreErrorKind::TimedOut, NO_ANSWER)),
            Ok(_) => Ok(()),
            Err(error) => Err(self.error(StoreErrorKind::Unreachable, &error.to_string())),
        }
    }
}

/// What is said where nobody said anything.
const NO_ANSWER: &str = "no answer within the time-out";

/// One of the servers that a connection string names. All three texts may be empty.
#[derive(Clone)]
struct Host {
    name: String,
    address: String,
    port: String,
}

impl Host {
    /// What libpq calls it.
    fn label(&self) -> &str {
        if self.name.is_empty() { &self.address } else { &self.name }
    }

    fn is_tried_by(&self, raw: &RawConnection) -> bool {
        self.label() == raw.host() && (self.port.is_empty() || self.port == raw.port())
    }
}

/// The servers that a connection being made may try.
fn hosts_of(raw: &mut RawConnection) -> Vec<Host> {
    let mut list =
        |keyword| -> Vec<String> { raw.option(keyword).split(',').map(str::to_owned).collect() };
    let (names, addresses, ports) = (list(c"host"), list(c"hostaddr"), list(c"port"));
    let at = |list: &[String], index: usize| list.get(index).cloned().unwrap_or_default();
    (0..names.len().max(addresses.len()))
        .map(|index| Host {
            name: at(&names, index),
            address: at(&addresses, index),
            // One port is for all.
            port: if ports.len() == 1 { at(&ports, 0) } else { at(&ports, index) },
        })
        .collect()
}

/// The password file, which libpq finds in the connection string, a service, the environment or the home directory.
#[derive(Default)]
pub struct PasswordFile {
    /// Its path, once libpq has found it.
    path: String,
}

impl PasswordFile {
    /// Whether libpq ignores it, because it is open to others or not a plain file. With each connection it says so on
    /// standard error, which is a server's log: once is enough.
    fn is_ignored(&self) -> bool {
        let ignores = |file: Metadata| !file.is_file() || file.mode() & 0o077 != 0;
        std::fs::metadata(&self.path).is_ok_and(ignores)
    }
}

/// Makes the connection. libpq goes from one server to the next by itself, but would give all the time to one that does
/// not answer; each has an equal share of what is left, and libpq begins anew without those that used theirs up.
fn connect(
    libpq: LibPq,
    conninfo: &CStr,
    passwords: &mut PasswordFile,
    call: &Call,
) -> Result<RawConnection, StoreError> {
    let mut all: Option<Vec<Host>> = None;
    let mut left: Option<Vec<Host>> = None;
    loop {
        let is_ignored = passwords.is_ignored();
        let mut raw = start(libpq, conninfo, is_ignored, left.as_deref(), call)?;
        if !is_ignored {
            passwords.path = raw.option(c"passfile");
        }
        let hosts = left.take().unwrap_or_else(|| hosts_of(&mut raw));
        let all = all.get_or_insert_with(|| hosts.clone());
        let server = |raw: &RawConnection| match all.as_slice() {
            [_, _, ..] => all
                .iter()
                .map(|host| address(host.label(), &host.port))
                .collect::<Vec<_>>()
                .join(", "),
            _ => address(&raw.host(), &raw.port()),
        };
        match go_on(&mut raw, hosts.len(), call) {
            Went::Connected => return Ok(raw),
            Went::Failed { at_once } => {
                let (kind, mut detail) = error::of_connecting(&raw.message(), at_once);
                if kind == StoreErrorKind::Credentials && passwords.is_ignored() {
                    let path = &passwords.path;
                    detail += &format!(
                        "; password file \"{path}\" is ignored, because it is not a plain file that only its owner may read"
                    );
                }
                return Err(StoreError { kind, server: server(&raw), detail });
            }
            Went::Hung => {
                let mut others = hosts;
                if let Some(index) = others.iter().position(|host| host.is_tried_by(&raw)) {
                    others.remove(index);
                } else {
                    others.clear();
                }
                if others.is_empty() || call.is_over() {
                    let (kind, detail) = (StoreErrorKind::TimedOut, NO_ANSWER.to_owned());
                    return Err(StoreError { kind, server: server(&raw), detail });
                }
                left = Some(others);
            }
        }
    }
}

fn start(
    libpq: LibPq,
    conninfo: &CStr,
    ignores_passwords: bool,
    hosts: Option<&[Host]>,
    call: &Call,
) -> Result<RawConnection, StoreError> {
    let unexpected = |detail: String| StoreError {
        kind: StoreErrorKind::Unexpected,
        server: "libpq".to_owned(),
        detail,
    };
    // Of a keyword given twice the last one counts, so what stands after the operator's string is not theirs to choose:
    // a standby must never be read, since it lags.
    let mut parameters = vec![
        (c"fallback_application_name", c"id_gen"),
        (c"dbname", conninfo),
        (c"client_encoding", c"UTF8"),
        (c"target_session_attrs", c"read-write"),
    ];
    if ignores_passwords {
        // No file has this path. An empty one stands for the default.
        parameters.push((c"passfile", c"/dev/null/"));
    }
    let list = |part: fn(&Host) -> &str| {
        let texts: Vec<&str> = hosts.unwrap_or_default().iter().map(part).collect();
        CString::new(texts.join(","))
    };
    let lists = [list(|host| &host.name), list(|host| &host.address), list(|host| &host.port)];
    for (keyword, list) in [c"host", c"hostaddr", c"port"].into_iter().zip(&lists) {
        let list = list.as_ref().map_err(|error| unexpected(error.to_string()))?;
        // A list of empty texts is not one for libpq.
        if list.as_bytes().iter().any(|byte| *byte != b',') {
            parameters.push((keyword, list));
        }
    }
    RawConnection::start(libpq, &parameters, &call.english).map_err(unexpected)
}

enum Went {
    Connected,
    Failed {
        /// Before there was anything to wait for.
        at_once: bool,
    },
    /// The server that is being tried does not answer.
    Hung,
}

fn go_on(raw: &mut RawConnection, hosts: usize, call: &Call) -> Went {
    let mut untried = u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
    let mut tried = (raw.host(), raw.port());
    let mut until = share(call, untried);
    let mut polling = if raw.is_bad() { Polling::Failed } else { Polling::Writing };
    let mut at_once = true;
    loop {
        let events = match polling {
            Polling::Done => return Went::Connected,
            Polling::Failed => return Went::Failed { at_once },
            Polling::Reading => libc::POLLIN,
            Polling::Writing => libc::POLLOUT,
        };
        at_once = false;
        let now = (raw.host(), raw.port());
        if now != tried {
            untried = untried.saturating_sub(1).max(1);
            until = share(call, untried);
            tried = now;
        }
        let Some(socket) = raw.socket() else { return Went::Failed { at_once } };
        match wait(socket, events, until) {
            Ok(true) => polling = raw.poll(&call.english),
            Ok(false) | Err(_) => return Went::Hung,
        }
    }
}

/// Until when the first of these servers may keep the others waiting.
fn share(call: &Call, hosts: u32) -> Instant {
    let now = Instant::now();
    now + call.deadline.saturating_duration_since(now) / hosts
}

/// Waits until a socket is ready, or broken; false if it was not until then.
fn wait(socket: RawFd, events: libc::c_short, until: Instant) -> io::Result<bool> {
    loop {
        // Up, so that it never turns into a loop that does not wait.
        let left_ms = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1_000);
        let mut poll = libc::pollfd { fd: socket, events, revents: 0 };
        // SAFETY: one valid pollfd, of a socket that libpq keeps open meanwhile.
        let ready = unsafe {
            libc::poll(&raw mut poll, 1, libc::c_int::try_from(left_ms).unwrap_or(libc::c_int::MAX))
        };
        match ready {
            0 => return Ok(false),
            1.. => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn address(host: &str, port: &str) -> String {
    let port = if port.is_empty() { "5432" } else { port };
    if host.contains(':') && !host.starts_with('/') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// A message of several lines as one.
fn on_one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
