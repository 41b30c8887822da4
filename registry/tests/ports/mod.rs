//! TCP ports of the loopback for servers that a test starts: each is given out once, whichever process asks.

use std::net::SocketAddr;
use std::sync::Mutex;

use socket2::{Domain, Socket, Type};

/// One for each port that was given out, bound and never listening, as long as this process lives. The kernel then gives
/// the port to nobody who asks for any, but lets a server that sets SO_REUSEADDR bind it by its number; all of them do.
static HELD: Mutex<Vec<Socket>> = Mutex::new(Vec::new());

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    let holder = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    holder.set_reuse_address(true).unwrap();
    holder.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = holder.local_addr().unwrap().as_socket().unwrap().port();
    HELD.lock().unwrap().push(holder);
    port
}
