//! One connection to one endpoint: requests and answers over HTTP, and what kind of failure is one.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use id_gen_core::fleet::store::StoreErrorKind;
use rustls::{AlertDescription, ClientConfig};
use ureq::{Agent, RequestBuilder};

use super::endpoint::Endpoint;
use super::transport::{Addresses, Once, Unsent};
use super::wire::{self, Refusal};

/// Largest answer, in bytes: 65,536 keys with their values, a kilobyte of JSON for each.
const LARGEST_ANSWER: u64 = 64 << 20;

/// Makes etcd refuse at once while it knows of no leader, instead of waiting for one: etcd's metadata `hasleader`,
/// under the prefix that the gateway passes on.
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

    /// What is wrong with an answer.
    pub(super) fn answered(kind: StoreErrorKind, detail: String) -> Failure {
        Failure { kind, detail, sent: true, connection_was_gone: false }
    }

    pub(super) fn setting(detail: String) -> Failure {
        Failure::unsent(StoreErrorKind::Setting, detail)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let Refusal { kind, detail, .. } = refusal;
        Failure::answered(kind, detail)
    }
}

/// What etcd says to a request.
#[derive(Debug)]
pub(super) enum Reply {
    Answer(Vec<u8>),
    Refusal(Refusal),
}

/// A connection, made by the first request.
#[derive(Debug)]
pub(super) struct Connection {
    endpoint: Endpoint,
    agent: Agent,
}

impl Connection {
    pub(super) fn new(endpoint: &Endpoint, tls: Arc<ClientConfig>) -> Result<Connection, String> {
        let config = Agent::config_builder()
            // The environment is the server's, and says nothing of us.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .build();
        let agent = Agent::with_parts(config, Once::to(endpoint, tls)?, Addresses::of(endpoint));
        Ok(Connection { endpoint: endpoint.clone(), agent })
    }

    pub(super) fn is_to(&self, endpoint: &Endpoint) -> bool {
        self.endpoint == *endpoint
    }

    /// Posts a body, or gets what is there.
    pub(super) fn request(
        &self,
        until: Instant,
        path: &str,
        token: Option<&str>,
        body: Option<&[u8]>,
    ) -> Result<Reply, Failure> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::unsent(
                StoreErrorKind::TimedOut,
                "no time was left to ask it".to_owned(),
            ));
        }
        let url = self.endpoint.url(path);
        let answer = match body {
            Some(body) => {
                let request = self.agent.post(url).header("Content-Type", "application/json");
                prepared(request, left, token).send(body)
            }
            None => prepared(self.agent.get(url), left, token).call(),
        };
        let answer = answer.and_then(|answer| {
            let status = answer.status().as_u16();
            let body = answer.into_body().into_with_config().limit(LARGEST_ANSWER).read_to_vec()?;
            Ok((status, body))
        });
        match answer {
            Ok((200, body)) => Ok(Reply::Answer(body)),
            Ok((status, body)) => Ok(Reply::Refusal(wire::refusal(status, &body))),
            Err(error) => Err(failure(error)),
        }
    }
}

fn prepared<B>(
    request: RequestBuilder<B>,
    left: Duration,
    token: Option<&str>,
) -> RequestBuilder<B> {
    let request = request.header(REQUIRE_LEADER.0, REQUIRE_LEADER.1);
    let request = match token {
        Some(token) => request.header("Authorization", token),
        None => request,
    };
    request.config().timeout_global(Some(left)).build()
}

/// What rustls said, if it was rustls.
fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
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
    let in_time = if sent { "no answer in time" } else { "no connection in time" };
    let (kind, detail) = match (tls_error(&error), &error) {
        (Some(error), _) => (of_tls(error), error.to_string()),
        (None, ureq::Error::Timeout(_)) => (StoreErrorKind::TimedOut, in_time.to_owned()),
        (None, ureq::Error::HostNotFound) => {
            (StoreErrorKind::Unreachable, "the host has no address".to_owned())
        }
        (None, ureq::Error::Io(error)) => match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                (StoreErrorKind::TimedOut, in_time.to_owned())
            }
            _ => (StoreErrorKind::Unreachable, error.to_string()),
        },
        (None, ureq::Error::ConnectionFailed) => (StoreErrorKind::Unreachable, error.to_string()),
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
