//! One connection to one endpoint: files for TLS, HTTP, and whether a request that failed was sent.
//!
//! ureq keeps connections and makes new ones as it likes. Here it makes one and no more, so that whoever needs another has
//! to come with files that were read anew, and it fails in a way that says if that was before the request was sent.
//!
//! The one thread that is ever started looks up a host's name, as the system's resolver has no time limit; it is left
//! behind when time is up, and ends when the resolver does. It has the signal mask of its starter. An endpoint that is an
//! address needs none.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use id_gen_core::fleet::store::StoreErrorKind;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    ConnectionDetails, Connector, NextTimeout, RustlsConnector, TcpConnector,
};

use super::EtcdOptions;
use super::endpoint::Endpoint;
use super::wire::{self, Refusal};

/// Largest answer, in bytes: 65,536 grants of a kilobyte.
const LARGEST_ANSWER: u64 = 64 << 20;

/// Most addresses of a host that are tried; ureq has room for no more.
const MOST_ADDRESSES: usize = 16;

/// Makes etcd refuse at once while it knows of no leader, instead of waiting for one: etcd's metadata `hasleader`, under
/// the prefix that the gateway passes on.
const REQUIRE_LEADER: (&str, &str) = ("Grpc-Metadata-hasleader", "true");

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: StoreErrorKind,
    pub(super) detail: String,
    /// Whether the request may have been carried out.
    pub(super) sent: bool,
    /// The connection was found closed before anything was sent.
    pub(super) connection_was_gone: bool,
}

impl Failure {
    fn unsent(kind: StoreErrorKind, detail: String) -> Failure {
        Failure { kind, detail, sent: false, connection_was_gone: false }
    }

    pub(super) fn setting(detail: String) -> Failure {
        Failure::unsent(StoreErrorKind::Setting, detail)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let Refusal { kind, detail, .. } = refusal;
        Failure { kind, detail, sent: true, connection_was_gone: false }
    }
}

/// What etcd says to a request.
#[derive(Debug)]
pub(super) enum Reply {
    Answer(Vec<u8>),
    Refusal(Refusal),
}

/// The files that TLS needs.
#[derive(Clone, Debug)]
pub(super) struct Files {
    ca: Option<PathBuf>,
    /// Certificate and key.
    client: Option<(PathBuf, PathBuf)>,
}

pub(super) fn unreadable(file: &Path, error: &io::Error) -> String {
    format!("file \"{}\" can't be read: {error}", file.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("file \"{}\" holds no certificate in PEM", file.display())),
        Err(error) => Err(format!("file \"{}\" is not PEM: {error}", file.display())),
    }
}

fn for_ureq(certificates: &[CertificateDer<'static>]) -> Vec<Certificate<'static>> {
    certificates.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
}

impl Files {
    pub(super) fn of(options: &EtcdOptions) -> Result<Files, String> {
        let client = match (&options.cert_file, &options.key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => return Err("a certificate is named, but no key".to_owned()),
            (None, Some(_)) => return Err("a key is named, but no certificate".to_owned()),
        };
        if options.ca_file.is_none() && options.endpoints.iter().any(|endpoint| endpoint.tls) {
            return Err(
                "etcds:// needs a file with the certificate of the servers' authority".to_owned()
            );
        }
        Ok(Files { ca: options.ca_file.clone(), client })
    }

    /// Reads them. ureq ignores an authority that it can't parse, and panics if certificate and key do not match, so
    /// rustls judges them here first.
    pub(super) fn tls(&self) -> Result<TlsConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        let mut authorities = Vec::new();
        if let Some(file) = &self.ca {
            authorities = certificates(file)?;
            for authority in &authorities {
                roots.add(authority.clone()).map_err(|error| {
                    format!("file \"{}\" holds what is no authority: {error}", file.display())
                })?;
            }
        }
        let mut ours = None;
        if let Some((certificate_file, key_file)) = &self.client {
            let chain = certificates(certificate_file)?;
            let pem = std::fs::read(key_file).map_err(|error| unreadable(key_file, &error))?;
            let no_key = || format!("file \"{}\" holds no private key in PEM", key_file.display());
            let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| no_key())?;
            let (certificate, key_name) = (certificate_file.display(), key_file.display());
            ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .and_then(|builder| {
                    builder.with_root_certificates(roots).with_client_auth_cert(chain.clone(), key)
                })
                .map_err(|error| {
                    format!("files \"{certificate}\" and \"{key_name}\" can't be used: {error}")
                })?;
            let key = PrivateKey::from_pem(&pem).map_err(|_| no_key())?;
            ours = Some(ClientCert::new_with_certs(&for_ureq(&chain), key));
        }
        Ok(TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&for_ureq(&authorities)))
            .client_cert(ours)
            .unversioned_rustls_crypto_provider(provider)
            .build())
    }
}

/// A connection, made by the first request.
#[derive(Debug)]
pub(super) struct Connection {
    endpoint: Endpoint,
    agent: Agent,
}

impl Connection {
    pub(super) fn new(endpoint: &Endpoint, tls: TlsConfig) -> Connection {
        let config = Agent::config_builder()
            .tls_config(tls)
            // The environment is the server's, and says nothing of us.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .build();
        let connector = Once {
            chain: ().chain(TcpConnector::default()).chain(RustlsConnector::default()),
            used: AtomicBool::new(false),
        };
        let addresses = Addresses { host: endpoint.host.clone(), port: endpoint.port };
        Connection {
            endpoint: endpoint.clone(),
            agent: Agent::with_parts(config, connector, addresses),
        }
    }

    pub(super) fn is_to(&self, endpoint: &Endpoint) -> bool {
        self.endpoint == *endpoint
    }

    pub(super) fn post(
        &self,
        until: Instant,
        path: &str,
        token: Option<&str>,
        body: &[u8],
    ) -> Result<Reply, Failure> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::unsent(
                StoreErrorKind::TimedOut,
                "no time was left to ask it".to_owned(),
            ));
        }
        let mut request = self
            .agent
            .post(self.endpoint.url(path))
            .header("Content-Type", "application/json")
            .header(REQUIRE_LEADER.0, REQUIRE_LEADER.1);
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let answer =
            request.config().timeout_global(Some(left)).build().send(body).and_then(|answer| {
                let status = answer.status().as_u16();
                Ok((
                    status,
                    answer.into_body().into_with_config().limit(LARGEST_ANSWER).read_to_vec()?,
                ))
            });
        match answer {
            Ok((200, body)) => Ok(Reply::Answer(body)),
            Ok((status, body)) => Ok(Reply::Refusal(wire::refusal(status, &body))),
            Err(error) => Err(failure(error)),
        }
    }
}

/// What happened before a request was sent.
#[derive(Debug)]
enum Unsent {
    /// There is no connection.
    Failed(ureq::Error),
    /// There is none any more.
    Gone,
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsent::Failed(error) => error.fmt(f),
            Unsent::Gone => f.write_str("the connection is gone"),
        }
    }
}

impl std::error::Error for Unsent {}

fn unsent(error: ureq::Error) -> ureq::Error {
    ureq::Error::Other(Box::new(Unsent::Failed(error)))
}

fn failure(error: ureq::Error) -> Failure {
    let (error, sent, gone) = match error {
        ureq::Error::Other(other) => match other.downcast::<Unsent>().map(|unsent| *unsent) {
            Ok(Unsent::Failed(error)) => (error, false, false),
            Ok(Unsent::Gone) => (ureq::Error::ConnectionFailed, false, true),
            Err(other) => (ureq::Error::Other(other), true, false),
        },
        error => (error, true, false),
    };
    let (kind, detail) = match &error {
        ureq::Error::Timeout(_) if sent => {
            (StoreErrorKind::TimedOut, "no answer in time".to_owned())
        }
        ureq::Error::Timeout(_) => (StoreErrorKind::TimedOut, "no connection in time".to_owned()),
        ureq::Error::HostNotFound => {
            (StoreErrorKind::Unreachable, "the host has no address".to_owned())
        }
        ureq::Error::Rustls(error) => (of_tls(error), error.to_string()),
        ureq::Error::Io(error) => match error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            Some(error) => (of_tls(error), error.to_string()),
            None if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                (StoreErrorKind::TimedOut, "no answer in time".to_owned())
            }
            None => (StoreErrorKind::Unreachable, error.to_string()),
        },
        ureq::Error::ConnectionFailed => (StoreErrorKind::Unreachable, error.to_string()),
        _ => (StoreErrorKind::Unexpected, error.to_string()),
    };
    Failure { kind, detail, sent, connection_was_gone: gone }
}

fn of_tls(error: &rustls::Error) -> StoreErrorKind {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => StoreErrorKind::Certificate,
        _ => StoreErrorKind::Unexpected,
    }
}

/// Connects once. What fails here fails before a request is sent.
#[derive(Debug)]
struct Once<C> {
    chain: C,
    used: AtomicBool,
}

impl<C: Connector> Connector for Once<C> {
    type Out = C::Out;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<C::Out>, ureq::Error> {
        if self.used.swap(true, Ordering::Relaxed) {
            return Err(ureq::Error::Other(Box::new(Unsent::Gone)));
        }
        self.chain.connect(details, chained).map_err(unsent)
    }
}

/// The addresses of an endpoint.
#[derive(Debug)]
struct Addresses {
    host: String,
    port: u16,
}

impl Addresses {
    fn look_up(&self, timeout: NextTimeout) -> Result<Vec<SocketAddr>, ureq::Error> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let (found, answer) = mpsc::channel();
        let (host, port) = (self.host.clone(), self.port);
        thread::Builder::new().name("id_gen resolver".to_owned()).spawn(move || {
            let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // Nobody waits for it any more, if this fails.
            let _ = found.send(addresses);
        })?;
        match answer.recv_timeout(*timeout.after) {
            Ok(addresses) => Ok(addresses?),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(ureq::Error::Timeout(timeout.reason)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(ureq::Error::HostNotFound),
        }
    }
}

impl Resolver for Addresses {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        for address in self.look_up(timeout).map_err(unsent)?.into_iter().take(MOST_ADDRESSES) {
            addresses.push(address);
        }
        if addresses.is_empty() { Err(unsent(ureq::Error::HostNotFound)) } else { Ok(addresses) }
    }
}
