//! PostgreSQL as a registry: an ordinary table, through libpq, so that password files, service files, SCRAM and TLS
//! work as people expect.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `libpq` | libpq, loaded at run time, as safe calls |
//! | `session` | a connection on which nothing takes longer than it may |
//! | `error` | what failed, by the way out of it |
//!
//! The table is `id_gen_registry`, wherever the connection's `search_path` finds it: `options=-csearch_path=...` chooses
//! a schema. That path is used for nothing else, since other roles may create functions and operators in its schemas: a
//! session finds the table, then sets a path of its own, and statements name the table with its schema.
//!
//! A connection string may lead to another server the next time, or to a copy of the table. So a session is used only where
//! the system identifier and the OIDs of database and table are those of the one before ([`Store::identity`]), on no earlier
//! timeline: that is a primary which another server has replaced.
//!
//! Each call is one statement that commits by itself, and a swap is acknowledged only after its commit, with synchronous
//! replication after that of the standby. Only a server that takes writes is ever asked.
//!
//! A connection is kept from one call to the next, and closed when a call fails; the next one makes another. What a
//! session sets must last as long as it does, so a pooler in between has to pool sessions, not transactions.

mod error;
mod libpq;
mod session;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt;
use std::time::Duration;

use id_gen_core::fleet::store::{
    Store, StoreError, StoreErrorKind, Swap, Swapped, Weakness, WeaknessKind,
};

use libpq::Answer;
pub use libpq::LibPq;
use session::{Call, PasswordFile, Session};

/// How to reach a registry.
#[derive(Clone)]
pub struct PostgresqlOptions {
    /// A connection string as libpq has it: a URI, or keywords and values. It may name several servers, of which the
    /// first that takes writes is used.
    pub conninfo: String,
    /// The longest that a call takes, with making the connection where there is none. libpq looks up the names of hosts
    /// by itself, which may take longer.
    pub timeout: Duration,
}

impl fmt::Debug for PostgresqlOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connection string may hold a password.
        formatter
            .debug_struct("PostgresqlOptions")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A registry on a PostgreSQL server.
pub struct Postgresql {
    libpq: LibPq,
    conninfo: CString,
    timeout: Duration,
    passwords: PasswordFile,
    session: Option<Session>,
    /// The table that has answered, as soon as there is one.
    seen: Option<Seen>,
    /// The latest timelines that others had seen before the present call.
    before: BTreeMap<String, i64>,
}

/// A table that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// [`Store::identity`].
    identity: String,
    /// The timeline that its server wrote.
    timeline: u32,
}

impl fmt::Debug for Postgresql {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Postgresql").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// What keeps the registry's server from forgetting what it acknowledged, for those who operate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// The timeline that it writes. A new one means that a standby was promoted, or a backup restored.
    pub timeline: u32,
    /// `synchronous_commit` as this session has it: `on` or `remote_apply`.
    pub synchronous_commit: String,
    /// `synchronous_standby_names`. If empty, no commit waits for a standby.
    pub synchronous_standby_names: String,
    /// How many standbys are connected.
    pub standbys: u32,
    /// How many of them commits wait for; `None` if this user may not see that (`pg_monitor` may).
    pub synchronous_standbys: Option<u32>,
    /// How many slots there are for standbys, connected or not.
    pub physical_slots: u32,
}

/// Half a page stays free for the next version of its rows, which are written anew every few seconds and have no index
/// on what changes: so they are replaced in place. A table that another role made is not taken: triggers of its owner would
/// run as this user. Default privileges of its owner do not open it. What other roles may do with a table that is in use
/// was granted to them.
const CREATE_TABLE: &str = "
    DO $$
    DECLARE
        registry CONSTANT text := current_setting('id_gen_registry.table');
        owner name;
        is_in_use boolean;
        other text;
    BEGIN
        IF to_regclass(registry) IS NULL THEN
            EXECUTE format('CREATE TABLE %s (key text PRIMARY KEY COLLATE \"C\", value text NOT NULL) '
                           'WITH (fillfactor = 50)', registry);
            EXECUTE format('COMMENT ON TABLE %s IS %L', registry,
                           'Worker numbers that servers with id_gen hold. Only they and its commands write here.');
        END IF;
        SELECT pg_get_userbyid(relowner) INTO owner FROM pg_class WHERE oid = registry::regclass;
        IF owner <> current_user THEN
            RAISE EXCEPTION 'table % belongs to role %, not to role %', registry, quote_ident(owner), quote_ident(current_user)
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', registry) INTO is_in_use;
        FOR other IN
            SELECT DISTINCT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END
              FROM pg_class c, aclexplode(c.relacl) x
             WHERE c.oid = registry::regclass AND x.grantee <> c.relowner AND NOT is_in_use
        LOOP
            EXECUTE format('REVOKE ALL ON %s FROM %s', registry, other);
        END LOOP;
    END
    $$";

/// Tells `CREATE_TABLE`, which takes no parameters, where the table is.
const NAME_TABLE: &str = "SELECT set_config('id_gen_registry.table', $1, false)";

const LIST: &str = "SELECT key, value FROM {table} WHERE starts_with(key, $1) ORDER BY key";

const SEE: &str = "
    SELECT 'postgresql ' || s.system_identifier || '/' || d.oid || '/' || to_regclass($1)::oid,
           ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8
      FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()";

const GET: &str = "SELECT value FROM {table} WHERE key = $1";

/// All keys as of one moment, and the new values only if each is what it has to be. The transaction is serializable: had
/// another one written any of these keys meanwhile, also one that is not there, one of the two is repeated.
const SWAP: &str = "
    WITH swap AS MATERIALIZED (
        SELECT w.key, w.new,
               (SELECT t.value FROM {table} t WHERE t.key = w.key) IS NOT DISTINCT FROM w.expected AS is_as_expected
          FROM jsonb_to_recordset($1::jsonb) w (key text COLLATE \"C\", expected text, new text))
    INSERT INTO {table} (key, value)
    SELECT key, new FROM swap WHERE new IS NOT NULL AND (SELECT bool_and(is_as_expected) FROM swap)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// Without the right to see more, a connected standby is a row that says nothing else.
const DURABILITY: &str = "
    SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8,
           current_setting('synchronous_commit'),
           current_setting('synchronous_standby_names'),
           (SELECT count(*) FROM pg_stat_replication r
             WHERE r.state IS DISTINCT FROM 'backup'
               AND NOT EXISTS (SELECT FROM pg_replication_slots s
                                WHERE s.active_pid = r.pid AND s.slot_type = 'logical')),
           CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE')
                THEN (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) END,
           (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical')";

impl Postgresql {
    /// A registry that a connection string names. Nothing is connected yet.
    ///
    /// # Errors
    /// `Address` if libpq does not understand the string.
    pub fn new(libpq: LibPq, options: PostgresqlOptions) -> Result<Postgresql, StoreError> {
        let refused = |detail: String| StoreError {
            kind: StoreErrorKind::Address,
            server: "the connection string".to_owned(),
            detail,
        };
        let call = Call::new(options.timeout);
        // libpq quotes what it does not understand, which may be half of a password with a space in it.
        let may_hold_password =
            options.conninfo.contains("password") || options.conninfo.contains('@');
        let conninfo = CString::new(options.conninfo)
            .map_err(|_| refused("it holds a zero byte".to_owned()))?;
        libpq.check_conninfo(&conninfo, call.english()).map_err(|message| {
            refused(if may_hold_password {
                "libpq does not understand it, and says why in words that may hold a part of the password".to_owned()
            } else {
                message.trim().to_owned()
            })
        })?;
        let (timeout, passwords) = (options.timeout, PasswordFile::default());
        Ok(Postgresql {
            libpq,
            conninfo,
            timeout,
            passwords,
            session: None,
            seen: None,
            before: BTreeMap::new(),
        })
    }

    /// Whether a new session may be the next one after those before.
    fn is_same(&mut self, session: &mut Session, call: &Call) -> Result<(), StoreError> {
        if self.seen.is_none() && self.before.is_empty() {
            return Ok(());
        }
        let Some(now) = see(session, call)? else { return Ok(()) };
        if let Some(before) = &self.seen
            && before.identity != now.identity
        {
            let (now, before) = (now.identity, &before.identity);
            let detail = format!("it is registry \"{now}\", and was \"{before}\" before");
            return Err(session.error(StoreErrorKind::OtherCluster, &detail));
        }
        self.seen = Some(now);
        Ok(())
    }

    /// Refuses a session with a server that another one has replaced. It stays open, and is on one timeline.
    fn is_latest(&self, session: &Session) -> Result<(), StoreError> {
        let Some(Seen { identity, timeline }) = &self.seen else { return Ok(()) };
        let before = self.before.get(identity).filter(|before| **before > i64::from(*timeline));
        before.map_or(Ok(()), |before| {
            let detail = format!("it is on timeline {timeline}, and was on {before} before");
            Err(session.error(StoreErrorKind::FormerPrimary, &detail))
        })
    }

    /// Creates the table, if the connection's `search_path` has none, in the first schema of that.
    ///
    /// # Errors
    /// If no answer came, the user may not do that, or another role owns the table.
    pub fn create_table(&mut self) -> Result<(), StoreError> {
        self.in_session(|session, call| {
            let table = session.table.clone();
            session.run(NAME_TABLE, &[Some(&table)], call)?;
            session.run(CREATE_TABLE, &[], call).map(|_| ())
        })
    }

    /// What would become of its values if the server was lost.
    ///
    /// # Errors
    /// If no answer came.
    pub fn durability(&mut self) -> Result<Durability, StoreError> {
        self.in_session(|session, call| {
            let row = one_row::<6>(session, DURABILITY, &[], call)?;
            durability_of(row).ok_or_else(|| not_understood(session))
        })
    }

    /// Does something on a connection that is there, or is made now; one that was lost meanwhile is no trouble as long
    /// as nothing was sent.
    fn in_session<T>(
        &mut self,
        work: impl FnOnce(&mut Session, &Call) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let call = Call::new(self.timeout);
        let kept = self.session.take().and_then(|mut kept| kept.is_open(&call).then_some(kept));
        let mut session = match kept {
            Some(session) => session,
            None => {
                let mut new =
                    Session::open(self.libpq, &self.conninfo, &mut self.passwords, &call)?;
                self.is_same(&mut new, &call)?;
                new
            }
        };
        self.is_latest(&session)?;
        let done = work(&mut session, &call)?;
        self.session = Some(session);
        Ok(done)
    }
}

impl Store for Postgresql {
    fn identity(&mut self) -> Result<String, StoreError> {
        let found = self.in_session(|session, call| {
            let seen = see(session, call)?;
            seen.ok_or_else(|| session.error(StoreErrorKind::NoTable, "there is no such table"))
        })?;
        Ok(self.seen.insert(found).identity.clone())
    }

    fn seen(&self) -> Option<(String, i64)> {
        let Seen { identity, timeline } = self.seen.as_ref()?;
        Some((identity.clone(), (*timeline).into()))
    }

    fn follow(&mut self, seen: BTreeMap<String, i64>) {
        self.before = seen;
    }

    fn prepare(&mut self) -> Result<(), StoreError> {
        self.create_table()
    }

    fn weakness(&mut self) -> Result<Option<Weakness>, StoreError> {
        let Durability { synchronous_standby_names, standbys, physical_slots, .. } =
            self.durability()?;
        let lags = (standbys > 0 || physical_slots > 0) && synchronous_standby_names.is_empty();
        Ok(lags.then(|| Weakness {
            kind: WeaknessKind::Failover,
            detail: format!(
                "its server has {standbys} standbys and {physical_slots} slots for them, and synchronous_standby_names is empty"
            ),
        }))
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.in_session(|session, call| {
            let pairs =
                rows(session, LIST, &[Some(prefix)], call)?.into_iter().map(|row| match row {
                    [Some(key), Some(value)] => Some((key, value)),
                    _ => None,
                });
            pairs.collect::<Option<_>>().ok_or_else(|| not_understood(session))
        })
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        self.in_session(|session, call| value(session, key, call))
    }

    fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
        self.in_session(|session, call| {
            loop {
                if write(session, swap, call)? {
                    return Ok(Swapped::Done);
                }
                if let Some(why) = why_not(session, swap, call)? {
                    return Ok(why);
                }
                // Whatever was in the way is gone again.
                if call.is_over() {
                    return Err(
                        session.error(StoreErrorKind::TimedOut, "the value does not stand still")
                    );
                }
            }
        })
    }
}

/// The swap itself, in one statement; whether it took place.
fn write(session: &mut Session, swap: &Swap<'_>, call: &Call) -> Result<bool, StoreError> {
    let keys: Vec<_> = swap.keys().collect();
    let keys = serde_json::to_string(&keys)
        .map_err(|error| session.error(StoreErrorKind::Unexpected, &error.to_string()))?;
    match session.run(SWAP, &[Some(&keys)], call)? {
        Answer::Command { rows } => Ok(rows > 0),
        Answer::Rows(_) | Answer::Error { .. } => Err(not_understood(session)),
    }
}

/// What keeps a swap from taking place; `None` if nothing does now.
fn why_not(
    session: &mut Session,
    swap: &Swap<'_>,
    call: &Call,
) -> Result<Option<Swapped>, StoreError> {
    for (other, wanted) in swap.others.iter().enumerate() {
        if value(session, wanted.key, call)?.as_deref() != wanted.expected {
            return Ok(Some(Swapped::Forbidden { other }));
        }
    }
    let found = value(session, swap.key, call)?;
    Ok((found.as_deref() != swap.expected).then_some(Swapped::Differs { found }))
}

/// The table, if there is one.
fn see(session: &mut Session, call: &Call) -> Result<Option<Seen>, StoreError> {
    let table = session.table.clone();
    let [identity, timeline] = one_row::<2>(session, SEE, &[Some(&table)], call)?;
    let timeline = timeline.and_then(|timeline| timeline.parse().ok());
    let timeline = timeline.ok_or_else(|| not_understood(session))?;
    Ok(identity.map(|identity| Seen { identity, timeline }))
}

fn value(session: &mut Session, key: &str, call: &Call) -> Result<Option<String>, StoreError> {
    let [value] = rows(session, GET, &[Some(key)], call)?.pop().unwrap_or([None]);
    Ok(value)
}

/// The rows of an answer, each of `N` columns.
fn rows<const N: usize>(
    session: &mut Session,
    statement: &str,
    parameters: &[Option<&str>],
    call: &Call,
) -> Result<Vec<[Option<String>; N]>, StoreError> {
    match session.run(statement, parameters, call)? {
        Answer::Rows(rows) => {
            let rows: Result<_, _> = rows.into_iter().map(<[_; N]>::try_from).collect();
            rows.map_err(|_| not_understood(session))
        }
        Answer::Command { .. } | Answer::Error { .. } => Err(not_understood(session)),
    }
}

fn one_row<const N: usize>(
    session: &mut Session,
    statement: &str,
    parameters: &[Option<&str>],
    call: &Call,
) -> Result<[Option<String>; N], StoreError> {
    rows(session, statement, parameters, call)?.pop().ok_or_else(|| not_understood(session))
}

fn durability_of(row: [Option<String>; 6]) -> Option<Durability> {
    let [timeline, commit, names, standbys, synchronous, slots] = row;
    Some(Durability {
        timeline: timeline?.parse().ok()?,
        synchronous_commit: commit?,
        synchronous_standby_names: names?,
        standbys: standbys?.parse().ok()?,
        synchronous_standbys: synchronous.map(|count| count.parse()).transpose().ok()?,
        physical_slots: slots?.parse().ok()?,
    })
}

fn not_understood(session: &Session) -> StoreError {
    session.error(StoreErrorKind::Unexpected, "the server's answer is not one to what it was asked")
}
