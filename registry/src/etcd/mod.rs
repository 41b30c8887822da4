//! etcd as a registry, through its JSON gateway.
//!
//! Which endpoint is asked, for how long, and as whom. Endpoints are tried in turn, from the one that answered last;
//! none is ever discovered. All have to be members of one cluster, which each answer names: otherwise a server that changes
//! from one endpoint to another would find another registry. Each answer also has the cluster's revision, which only rises
//! until the cluster is restored from a snapshot. Reads are linearizable, which is etcd's default. A write goes to another
//! endpoint only if it was never sent: the protocol above finds out by reading what became of one whose answer is missing.

mod connection;
mod endpoint;
mod files;
mod transport;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use id_gen_core::fleet::store::{Store, StoreError, StoreErrorKind, Swap, Swapped, Weakness};
use serde::Serialize;

use connection::{Connection, Failure, Reply};
pub use endpoint::Endpoint;
use files::Files;
use wire::{Header, Refusal};

const RANGE: &str = "/v3/kv/range";
const TXN: &str = "/v3/kv/txn";
const AUTHENTICATE: &str = "/v3/auth/authenticate";
/// In Prometheus's format, on the same port as the gateway.
const METRICS: &str = "/metrics";

/// A key that no fleet has.
const NO_KEY: &str = "/id_gen/";
/// Which part of the time-out the look at all endpoints, and that at the metrics, may take: a fourth.
const CHECK_FRACTION: u32 = 4;
/// Far longer than anyone waits, and far from what a clock can't add.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// Where etcd is, and how to get in.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Tried in this order; see [`EtcdOptions::parse_endpoints`].
    pub endpoints: Vec<Endpoint>,
    /// Longest time for one operation, with all the endpoints that it tries; an hour at most.
    pub timeout: Duration,
    /// Certificates of the authorities that an `etcds://` endpoint may be certified by, in PEM; no other is trusted.
    pub ca_file: Option<PathBuf>,
    /// Our certificate and those between it and its authority, in PEM.
    pub cert_file: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    pub key_file: Option<PathBuf>,
    /// User of etcd's own.
    pub user: Option<String>,
    /// The user's password; line ends after it do not count.
    pub password_file: Option<PathBuf>,
}

impl EtcdOptions {
    /// Endpoints from a comma-separated list of `etcd://host[:port]`, spoken to in HTTP, and `etcds://host[:port]`, in
    /// HTTPS. The default port is 2379; an IPv6 address is written in brackets.
    ///
    /// # Errors
    /// [`StoreErrorKind::Address`] if the list is empty or one can't be understood.
    pub fn parse_endpoints(text: &str) -> Result<Vec<Endpoint>, StoreError> {
        if text.contains('@') {
            // Any part of it may be one of a password, so nothing of it is said.
            return Err(StoreError {
                kind: StoreErrorKind::Address,
                server: "the list of endpoints".to_owned(),
                detail: "an endpoint is a host and a port; the user and the file with the password have parameters of their own: id_gen.registry_user and id_gen.registry_password_file".to_owned(),
            });
        }
        text.split(',').map(|one| Endpoint::parse(one.trim())).collect()
    }
}

/// [`Store::identity`] of a cluster.
fn identity(cluster_id: &str) -> String {
    format!("etcd {cluster_id}")
}

/// What is known of etcd's own users.
enum Login {
    /// There is a user, who has no token yet.
    Needed,
    /// There is no user, or etcd asks for none.
    None,
    /// The user's token.
    Token(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Login::Needed => "Needed",
            Login::None => "None",
            // A token opens as much as a password.
            Login::Token(_) => "Token",
        })
    }
}

/// A session with etcd. It has one connection at a time, which ends with the first failure: an answer that comes too
/// late is never taken for one to a later request.
#[derive(Debug)]
pub struct Etcd {
    options: EtcdOptions,
    files: Files,
    connection: Option<Connection>,
    login: Login,
    /// The endpoint to begin with.
    first: usize,
    /// The cluster that has answered, and the highest revision that it had.
    seen: Option<Header>,
    /// The highest revisions that others had seen before the present call.
    before: BTreeMap<String, i64>,
}

impl Etcd {
    /// Reads the files, and connects to nothing yet. The files are read again for every new connection and login, as
    /// certificates and passwords get renewed.
    ///
    /// # Errors
    /// [`StoreErrorKind::Setting`] if the options contradict each other or a file can't be used.
    pub fn new(options: EtcdOptions) -> Result<Etcd, StoreError> {
        let names = names(&options.endpoints);
        let setting = |detail: String| StoreError {
            kind: StoreErrorKind::Setting,
            server: names.clone(),
            detail,
        };
        if options.endpoints.is_empty() {
            return Err(setting("no endpoint is named".to_owned()));
        }
        let files = Files::of(&options).map_err(setting)?;
        files.tls().map_err(setting)?;
        let login = match (&options.user, &options.password_file) {
            (Some(_), Some(file)) => {
                read_password(file).map_err(setting)?;
                Login::Needed
            }
            (None, None) => Login::None,
            (Some(_), None) => {
                return Err(setting(
                    "id_gen.registry_user is set, but not id_gen.registry_password_file".to_owned(),
                ));
            }
            (None, Some(_)) => {
                return Err(setting(
                    "id_gen.registry_password_file is set, but not id_gen.registry_user".to_owned(),
                ));
            }
        };
        Ok(Etcd {
            options,
            files,
            connection: None,
            login,
            first: 0,
            seen: None,
            before: BTreeMap::new(),
        })
    }

    /// Whether an answer may be the next one after those before.
    fn note(&mut self, found: Header) -> Result<(), Failure> {
        if let Some(known) = &self.seen
            && known.cluster_id != found.cluster_id
        {
            let detail = format!(
                "it is a member of cluster {}, and others are of cluster {}",
                found.cluster_id, known.cluster_id
            );
            return Err(Failure::answered(StoreErrorKind::OtherCluster, detail));
        }
        let of_others = self.before.get(&identity(&found.cluster_id)).copied();
        let before = self.seen.as_ref().map(|known| known.revision).max(of_others);
        if let Some(before) = before.filter(|before| *before > found.revision) {
            let detail = format!(
                "its revision is {}, and was {before} before: it was restored from an older state",
                found.revision
            );
            return Err(Failure::answered(StoreErrorKind::Restored, detail));
        }
        self.seen = Some(found);
        Ok(())
    }

    /// The body of etcd's answer, from the first endpoint that gives one.
    fn ask<T>(
        &mut self,
        path: &str,
        request: &impl Serialize,
        understand: impl Fn(&[u8]) -> Result<T, Refusal>,
    ) -> Result<T, StoreError> {
        let is_write = path == TXN;
        let body = wire::encode(request);
        let end = Instant::now() + self.options.timeout.min(LONGEST_TIMEOUT);
        let count = self.options.endpoints.len();
        let mut failures = Vec::new();
        for untried in (1..=count as u32).rev() {
            let endpoint = self.options.endpoints[self.first].clone();
            let now = Instant::now();
            // One that does not answer leaves time for the others.
            let until = now + end.saturating_duration_since(now) / untried;
            let answer = self.ask_one(&endpoint, until, path, &body).and_then(|body| {
                self.note(wire::header(&body)?)?;
                Ok(understand(&body)?)
            });
            match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    self.connection = None;
                    self.first = (self.first + 1) % count;
                    let may_have_happened = is_write && failure.sent;
                    failures.push((endpoint, failure));
                    if may_have_happened {
                        break;
                    }
                }
            }
        }
        Err(of_all(failures))
    }

    fn ask_one(
        &mut self,
        endpoint: &Endpoint,
        until: Instant,
        path: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let mut is_new = self.log_in(endpoint, until)?;
        loop {
            let refusal = match self.post(endpoint, until, path, body)? {
                Reply::Answer(body) => return Ok(body),
                Reply::Refusal(refusal) => refusal,
            };
            // What a token is missing or too old for was not done, so it can be asked for again.
            if is_new || self.options.user.is_none() || !refusal.token_invalid {
                return Err(refusal.into());
            }
            self.login = Login::Needed;
            is_new = self.log_in(endpoint, until)?;
        }
    }

    /// Gets a token if one is needed; whether it did.
    fn log_in(&mut self, endpoint: &Endpoint, until: Instant) -> Result<bool, Failure> {
        let (Login::Needed, Some(user), Some(file)) =
            (&self.login, &self.options.user, &self.options.password_file)
        else {
            return Ok(false);
        };
        let password = read_password(file).map_err(Failure::setting)?;
        let body = wire::encode(&wire::Authenticate { name: user, password: &password });
        let unsent = |failure: Failure| Failure { sent: false, ..failure };
        self.login = match self.post(endpoint, until, AUTHENTICATE, &body).map_err(unsent)? {
            Reply::Answer(body) => {
                Login::Token(wire::token(&body).map_err(|refusal| unsent(refusal.into()))?)
            }
            // The order in which an administrator enables it and names the user here does not matter.
            Reply::Refusal(refusal) if refusal.auth_is_off => Login::None,
            Reply::Refusal(refusal) => return Err(unsent(refusal.into())),
        };
        Ok(true)
    }

    fn post(
        &mut self,
        endpoint: &Endpoint,
        until: Instant,
        path: &str,
        body: &[u8],
    ) -> Result<Reply, Failure> {
        self.request(endpoint, until, path, Some(body))
    }

    fn request(
        &mut self,
        endpoint: &Endpoint,
        until: Instant,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Reply, Failure> {
        let token = match &self.login {
            Login::Token(token) => Some(token.as_str()),
            Login::Needed | Login::None => None,
        };
        if let Some(kept) = self.connection.as_ref().filter(|kept| kept.is_to(endpoint)) {
            match kept.request(until, path, token, body) {
                Err(failure) if failure.connection_was_gone => {}
                reply => return reply,
            }
        }
        let new = self
            .files
            .tls()
            .and_then(|tls| Connection::new(endpoint, tls))
            .map_err(Failure::setting)?;
        self.connection.insert(new).request(until, path, token, body)
    }
}

impl Store for Etcd {
    /// Asks each endpoint which cluster it is a member of. Those that do not answer in a fraction of the time-out are left out;
    /// the first that does is asked first from then on.
    fn check(&mut self) -> Result<(), StoreError> {
        let endpoints = self.options.endpoints.clone();
        let [_, _, ..] = endpoints.as_slice() else { return Ok(()) };
        let body = wire::encode(&wire::Range::key(NO_KEY));
        let shares = CHECK_FRACTION.saturating_mul(endpoints.len() as u32);
        let share = self.options.timeout.min(LONGEST_TIMEOUT) / shares;
        let mut first = None;
        for (index, endpoint) in endpoints.into_iter().enumerate() {
            let answer = self.ask_one(&endpoint, Instant::now() + share, RANGE, &body);
            match answer.and_then(|body| self.note(wire::header(&body)?)) {
                Ok(()) => first = first.or(Some(index)),
                Err(failure)
                    if matches!(
                        failure.kind,
                        StoreErrorKind::OtherCluster | StoreErrorKind::Restored
                    ) =>
                {
                    self.connection = None;
                    return Err(of_all(vec![(endpoint, failure)]));
                }
                Err(_) => self.connection = None,
            }
        }
        self.first = first.unwrap_or(self.first);
        Ok(())
    }

    /// Its cluster ID, which all answers of a session have.
    fn identity(&mut self) -> Result<String, StoreError> {
        if self.seen.is_none() {
            self.get(NO_KEY)?;
        }
        let cluster_id = self.seen.as_ref().map(|seen| seen.cluster_id.as_str());
        Ok(identity(cluster_id.unwrap_or_default()))
    }

    fn seen(&self) -> Option<(String, i64)> {
        let seen = self.seen.as_ref()?;
        Some((identity(&seen.cluster_id), seen.revision))
    }

    fn follow(&mut self, seen: BTreeMap<String, i64>) {
        self.before = seen;
    }

    /// Whether the database of the member that is asked is near its quota.
    fn weakness(&mut self) -> Result<Option<Weakness>, StoreError> {
        let endpoint = self.options.endpoints[self.first].clone();
        let until = Instant::now() + self.options.timeout.min(LONGEST_TIMEOUT) / CHECK_FRACTION;
        match self.request(&endpoint, until, METRICS, None) {
            Ok(Reply::Answer(body)) => Ok(wire::near_quota(&body)),
            // Something between this server and etcd may pass on nothing but the gateway.
            Ok(Reply::Refusal(_)) => Ok(None),
            Err(failure) => {
                self.connection = None;
                Err(of_all(vec![(endpoint, failure)]))
            }
        }
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.ask(RANGE, &wire::Range::prefix(prefix), wire::pairs)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        let pairs = self.ask(RANGE, &wire::Range::key(key), wire::pairs)?;
        Ok(pairs.into_iter().next().map(|(_, value)| value))
    }

    fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
        self.ask(TXN, &wire::Txn::of(swap), |body| wire::swapped(body, swap))
    }
}

fn read_password(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| files::unreadable(file, &error))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn names(endpoints: &[Endpoint]) -> String {
    let names: Vec<_> = endpoints.iter().map(Endpoint::to_string).collect();
    names.join(", ")
}

/// One error for all the endpoints that were tried: its kind is that of the one that tells most.
fn of_all(failures: Vec<(Endpoint, Failure)>) -> StoreError {
    const TELLING: [StoreErrorKind; 10] = [
        StoreErrorKind::Restored,
        StoreErrorKind::OtherCluster,
        StoreErrorKind::Setting,
        StoreErrorKind::Credentials,
        StoreErrorKind::Certificate,
        StoreErrorKind::NoGateway,
        StoreErrorKind::NoSpace,
        StoreErrorKind::NoQuorum,
        StoreErrorKind::Unexpected,
        StoreErrorKind::TimedOut,
    ];
    let (endpoints, failures): (Vec<_>, Vec<_>) = failures.into_iter().unzip();
    let kind = TELLING
        .into_iter()
        .find(|kind| failures.iter().any(|failure| failure.kind == *kind))
        .unwrap_or(StoreErrorKind::Unreachable);
    let mut details: Vec<_> = failures.into_iter().map(|failure| failure.detail).collect();
    details.dedup();
    StoreError { kind, server: names(&endpoints), detail: details.join("; ") }
}
