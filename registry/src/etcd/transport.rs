//! How ureq comes by a connection: addresses, TCP, TLS, and whether what failed did so before a request was sent.
//!
//! ureq keeps connections and makes new ones as it likes. Here it makes one and no more, so that whoever needs another
//! has to come with files that were read anew.
//!
//! The one thread that is ever started looks up a host's name, once for a connection, as the system's resolver has no
//! time limit; it is left behind when time is up, and ends when the resolver does. It has the signal mask of its
//! starter, which should block them all. An endpoint that is an address needs none.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Instant;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, TcpConnector, Transport,
    TransportAdapter, time,
};

use super::endpoint::Endpoint;

/// Most addresses of a host that are tried; ureq has room for no more.
const MOST_ADDRESSES: usize = 16;

/// What happened before a request was sent.
#[derive(Debug)]
pub(super) enum Unsent {
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

/// Connects once, by TCP and, for HTTPS, TLS.
#[derive(Debug)]
pub(super) struct Once {
    /// For HTTPS: its terms, and the name that the server's certificate must have.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    used: AtomicBool,
}

impl Once {
    pub(super) fn to(endpoint: &Endpoint, tls: Arc<ClientConfig>) -> Result<Once, String> {
        let mut name = None;
        if endpoint.tls {
            let host = ServerName::try_from(endpoint.host.clone());
            name = Some(host.map_err(|_| "no certificate can have the host's name".to_owned())?);
        }
        Ok(Once { tls: name.map(|name| (tls, name)), used: AtomicBool::new(false) })
    }
}

impl Connector for Once {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _chained: Option<()>,
    ) -> Result<Option<Box<dyn Transport>>, ureq::Error> {
        if self.used.swap(true, Ordering::Relaxed) {
            return Err(ureq::Error::Other(Box::new(Unsent::Gone)));
        }
        let began = Instant::now();
        let connected = TcpConnector::default().connect(details, None::<()>).map_err(unsent)?;
        let Some(socket) = connected else { return Ok(None) };
        let socket: Box<dyn Transport> = Box::new(socket);
        match &self.tls {
            None => Ok(Some(socket)),
            Some((config, name)) => {
                let secured =
                    Tls::shake_hands(socket, Arc::clone(config), name.clone(), details, began);
                Ok(Some(Box::new(secured.map_err(unsent)?)))
            }
        }
    }
}

/// TLS on a connection. Unlike ureq's own, it says why a server hung up. In TLS 1.3 the server judges our certificate
/// after our side is done with the handshake; by the time that the request is written, the connection may be closed
/// already, and the reason lies unread.
struct Tls {
    session: ClientConnection,
    socket: TransportAdapter,
    buffers: LazyBuffers,
}

impl Tls {
    fn shake_hands(
        socket: Box<dyn Transport>,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        details: &ConnectionDetails,
        began: Instant,
    ) -> Result<Tls, ureq::Error> {
        let mut session = ClientConnection::new(config, name).map_err(of_rustls)?;
        let mut socket = TransportAdapter::new(socket, Arc::clone(&details.current_time));
        let after = time::Duration::Exact(details.timeout.after.saturating_sub(began.elapsed()));
        socket.set_timeout(NextTimeout { after, ..details.timeout });
        session.complete_io(&mut socket)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Tls { session, socket, buffers })
    }

    /// What the server said before it hung up.
    fn last_words(&mut self) -> Option<ureq::Error> {
        self.session.read_tls(&mut self.socket).ok()?;
        self.session.process_new_packets().err().map(of_rustls)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// As rustls itself wraps it where it can only say what went wrong with a socket.
fn of_rustls(error: rustls::Error) -> ureq::Error {
    ureq::Error::Io(io::Error::new(io::ErrorKind::InvalidData, error))
}

impl Transport for Tls {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.socket.set_timeout(timeout);
        let mut stream = rustls::Stream::new(&mut self.session, &mut self.socket);
        let written =
            stream.write_all(&self.buffers.output()[..amount]).and_then(|()| stream.flush());
        match written.map_err(ureq::Error::from) {
            Err(error @ ureq::Error::Io(_)) => Err(self.last_words().unwrap_or(error)),
            done => done,
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.socket.set_timeout(timeout);
        let mut stream = rustls::Stream::new(&mut self.session, &mut self.socket);
        let amount = stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.socket.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// The addresses of an endpoint.
#[derive(Debug)]
pub(super) struct Addresses {
    host: String,
    port: u16,
    /// As they were found; ureq asks for each request.
    known: OnceLock<Vec<SocketAddr>>,
}

impl Addresses {
    pub(super) fn of(endpoint: &Endpoint) -> Addresses {
        Addresses { host: endpoint.host.clone(), port: endpoint.port, known: OnceLock::new() }
    }

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
        _config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        if self.known.get().is_none() {
            // Nobody else sets it: requests on a connection follow each other.
            let _ = self.known.set(self.look_up(timeout).map_err(unsent)?);
        }
        for address in self.known.get().into_iter().flatten().take(MOST_ADDRESSES) {
            addresses.push(*address);
        }
        if addresses.is_empty() { Err(unsent(ureq::Error::HostNotFound)) } else { Ok(addresses) }
    }
}
