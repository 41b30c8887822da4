//! Who is inside libpq, so that a process can end while another of its threads asks a registry.
//!
//! `exit` runs OpenSSL's own handler, which frees what a thread in the middle of a TLS connection uses: the thread then
//! crashes the process. So the process closes the gate before it ends. From then on nobody goes in, and who waits for
//! the network, which is outside, never comes back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Being inside, until this is dropped.
pub struct Inside(());

/// Goes inside, unless the process is about to end: then this never returns.
pub fn enter() -> Inside {
    INSIDE.fetch_add(1, SeqCst);
    let inside = Inside(());
    // Counted first: whoever closes the gate either sees that, or is seen here.
    if CLOSED.load(SeqCst) {
        drop(inside);
        loop {
            std::thread::park();
        }
    }
    inside
}

/// Does something outside that may take long, for a thread that is inside, and goes back in.
pub fn outside<T>(work: impl FnOnce() -> T) -> T {
    drop(Inside(()));
    let done = work();
    // Whose count this is, is what the caller holds.
    std::mem::forget(enter());
    done
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, SeqCst);
    }
}

/// Closes the gate for good, and waits until all are outside, but no longer than this: a thread may be looking up the name
/// of a host. For a process that is about to end.
pub fn close(patience: Duration) {
    const INTERVAL: Duration = Duration::from_millis(1);
    CLOSED.store(true, SeqCst);
    let until = Instant::now() + patience;
    while INSIDE.load(SeqCst) > 0 && Instant::now() < until {
        std::thread::sleep(INTERVAL);
    }
}
