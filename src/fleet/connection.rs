//! The registrar's connections to the registry. Requests go to a thread of their own, which may wait for the network; the
//! registrar waits on its latch meanwhile, so that an interrupt or the end of the server is not delayed.
//!
//! The thread runs nothing of PostgreSQL's and gets no signals. A registrar that no longer waits drops the connection:
//! the thread ends by itself when its call does, its answer reaches nobody, and it begins no other write ([`WhileAwaited`]).

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use id_gen_core::fleet::store::{
    Keys, KeysError, Store, StoreError, StoreErrorKind, Swap, Swapped, Weakness,
};
use id_gen_core::fleet::wire::{self, Seen, Served};
use id_gen_core::fleet::{Answer, Meta, Request, ask};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::fleet::store::{self, BoxedStore};
use crate::pg::server;
use crate::pg::wait_event::WaitEvent;
use crate::settings::registry::RegistrySettings;

/// A registry, as the registrar's thread has it, or as a session has it through the registrar.
pub struct Registry {
    /// The fleet's name.
    fleet: String,
    opened: Option<Opened>,
    /// How many requests there will be before the store is asked for its weakness again.
    until_weakness: u32,
    weakness: Option<Weakness>,
}

/// What is found when the fleet is asked for something.
pub struct Found {
    /// The fleet.
    pub meta: Meta,
    /// The registry that it belongs to ([`Keys::registry`]).
    pub registry: Option<String>,
    /// The answer, if the request was made.
    pub answer: Option<Answer>,
    /// What endangers the registry.
    pub weakness: Option<Weakness>,
}

/// How often the store is asked for its weakness: with one request of so many, once a minute by default.
const WEAKNESS_EVERY: u32 = 12;

enum Opened {
    /// The store alone.
    Store(BoxedStore),
    /// The fleet in it.
    Fleet(Keys<BoxedStore>),
}

impl Registry {
    /// The fleet of that name in a store.
    pub fn new(store: BoxedStore, fleet: String) -> Registry {
        Registry { fleet, opened: Some(Opened::Store(store)), until_weakness: 0, weakness: None }
    }

    /// Carries out a session's call.
    pub fn serve(&mut self, call: &[u8]) -> Served {
        match self.store() {
            Some((store, _)) => wire::serve(store, call),
            None => Served { answer: wire::refusal(no_answer()), refused: None },
        }
    }

    /// The store, and the fleet's name.
    pub fn store(&mut self) -> Option<(&mut BoxedStore, &str)> {
        let (Opened::Store(store) | Opened::Fleet(Keys { store, .. })) = self.opened.as_mut()?;
        Some((store, &self.fleet))
    }

    /// The fleet, read from the store unless it is known.
    ///
    /// # Errors
    /// If it is not there, or the store has no answer.
    pub fn fleet(&mut self) -> Result<&mut Keys<BoxedStore>, KeysError> {
        if let Some(Opened::Store(store)) = self.opened.take_if(|it| matches!(it, Opened::Store(_)))
        {
            match Keys::open(store, &self.fleet) {
                Ok(keys) => self.opened = Some(Opened::Fleet(keys)),
                Err((store, error)) => {
                    self.opened = Some(Opened::Store(store));
                    return Err(error);
                }
            }
        }
        match &mut self.opened {
            Some(Opened::Fleet(keys)) => Ok(keys),
            _ => Err(KeysError::NoFleet),
        }
    }

    /// Asks for something, if the fleet is the one that the server expects.
    ///
    /// # Errors
    /// Why there is no answer. What was known of the fleet is then read again.
    pub fn ask(&mut self, request: Option<(Request, Meta)>) -> Result<Found, KeysError> {
        let until_weakness = self.until_weakness.checked_sub(1);
        let answer = match request {
            Some((request, expected)) => self.if_same(&expected, |keys| ask(keys, &request))?,
            None => None,
        };
        let keys = self.fleet()?;
        let (meta, named) = (*keys.meta(), keys.registry());
        if answer.is_none() {
            // If it is not this server's, it may be another one by the next request.
            self.forget_fleet();
        }
        self.until_weakness = until_weakness.unwrap_or(WEAKNESS_EVERY);
        if until_weakness.is_none() {
            let store = &mut self.fleet()?.store;
            store.check()?;
            // A store that does not tell has answered all the same.
            self.weakness = store.weakness().unwrap_or_default();
        }
        Ok(Found { meta, registry: named, answer, weakness: self.weakness.clone() })
    }

    /// Does something in the fleet, if it is the one that the server expects.
    ///
    /// # Errors
    /// Why there is no answer, as for [`Registry::ask`].
    pub fn in_fleet<T>(
        &mut self,
        expected: &Meta,
        work: impl FnMut(&mut Keys<BoxedStore>) -> Result<T, KeysError>,
    ) -> Result<T, KeysError> {
        let done = self.if_same(expected, work)?;
        done.ok_or_else(|| {
            self.forget_fleet();
            KeysError::OtherFleet
        })
    }

    /// Does something in the fleet, if it is the expected one, and once more if only the text that describes it has changed.
    fn if_same<T>(
        &mut self,
        expected: &Meta,
        mut work: impl FnMut(&mut Keys<BoxedStore>) -> Result<T, KeysError>,
    ) -> Result<Option<T>, KeysError> {
        for is_last in [false, true] {
            let keys = self.fleet()?;
            if keys.meta() != expected {
                return Ok(None);
            }
            match work(keys) {
                Err(KeysError::OtherFleet) if !is_last => self.forget_fleet(),
                Err(error @ (KeysError::NoFleet | KeysError::OtherFleet)) => {
                    self.forget_fleet();
                    return Err(error);
                }
                done => return done.map(Some),
            }
        }
        Err(KeysError::OtherFleet)
    }

    fn forget_fleet(&mut self) {
        self.opened = self.opened.take().map(|opened| match opened {
            Opened::Fleet(Keys { store, .. }) | Opened::Store(store) => Opened::Store(store),
        });
    }
}

/// A store that writes nothing any more once nobody waits for it. A request that takes several steps would otherwise change
/// what somebody has read since, who believes that it is given up. What is on its way already changes nothing that was
/// written since: a swap names what it expects.
struct WhileAwaited {
    store: BoxedStore,
    awaited: Weak<()>,
}

impl Store for WhileAwaited {
    fn check(&mut self) -> Result<(), StoreError> {
        self.store.check()
    }

    fn identity(&mut self) -> Result<String, StoreError> {
        self.store.identity()
    }

    fn prepare(&mut self) -> Result<(), StoreError> {
        self.store.prepare()
    }

    fn weakness(&mut self) -> Result<Option<Weakness>, StoreError> {
        self.store.weakness()
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.store.list(prefix)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        self.store.get(key)
    }

    fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
        if self.awaited.strong_count() == 0 {
            return Err(no_answer());
        }
        self.store.swap(swap)
    }
}

/// What a thread is asked to do.
type Job<T> = Box<dyn FnOnce(&mut Registry) -> T + Send>;

/// A registry on a thread of its own. `T` is what comes of each request.
pub struct Connection<T> {
    jobs: Sender<Job<T>>,
    answers: Receiver<Result<T, StoreError>>,
    /// What tells the thread that the connection is there.
    _awaits: Arc<()>,
}

/// Rung by the threads of all connections to wake their process.
pub struct Bell {
    /// Readable once a thread has rung.
    rung: UnixStream,
    ring: UnixStream,
}

impl Bell {
    /// A bell.
    ///
    /// # Errors
    /// If there is no room for one more file.
    pub fn new() -> io::Result<Bell> {
        let (rung, ring) = UnixStream::pair()?;
        rung.set_nonblocking(true)?;
        Ok(Bell { rung, ring })
    }
}

impl<T: Send + 'static> Connection<T> {
    /// A connection that is made on the thread, with the first request.
    ///
    /// # Errors
    /// If there is no room for a thread.
    pub fn new(
        settings: &RegistrySettings,
        timeout: Duration,
        seen: Seen,
        bell: &Bell,
    ) -> io::Result<Connection<T>> {
        end_at_once();
        let (jobs, todo) = mpsc::channel::<Job<T>>();
        let (done, answers) = mpsc::channel();
        let mut ring = bell.ring.try_clone()?;
        let opener = store::opener(settings, timeout, seen);
        let fleet = settings.fleet.clone();
        let awaits = Arc::new(());
        let awaited = Arc::downgrade(&awaits);
        without_signals(|| {
            std::thread::Builder::new().name("id_gen registry".to_owned()).spawn(move || {
                let mut opener = Some(opener);
                let mut registry = None;
                for job in todo {
                    let opened = match (&mut registry, opener.take()) {
                        (Some(registry), _) => Ok(registry),
                        (None, Some(open)) => open().map(|store| {
                            let store = Box::new(WhileAwaited { store, awaited: awaited.clone() });
                            registry.insert(Registry::new(store, fleet.clone()))
                        }),
                        (None, None) => break,
                    };
                    let answer = opened.map(job);
                    // Whoever dropped the connection wants no answer.
                    if done.send(answer).is_err() || ring.write_all(&[0]).is_err() {
                        break;
                    }
                }
            })
        })?;
        Ok(Connection { jobs, answers, _awaits: awaits })
    }

    /// Asks. One request at a time.
    pub fn send(&self, job: impl FnOnce(&mut Registry) -> T + Send + 'static) {
        // A thread that has ended is found when its answer is waited for.
        let _ = self.jobs.send(Box::new(job));
    }

    /// The answer, if there is one, or none will come.
    pub fn answer(&self) -> Option<Result<T, StoreError>> {
        match self.answers.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(StoreError {
                kind: StoreErrorKind::Unexpected,
                server: String::new(),
                detail: "the thread that asks the registry has ended".to_owned(),
            })),
        }
    }
}

/// What is said where no answer came in time.
pub fn no_answer() -> StoreError {
    StoreError {
        kind: StoreErrorKind::TimedOut,
        server: "the registry".to_owned(),
        detail: "no answer came in time".to_owned(),
    }
}

/// Waits for the bell, the latch or the time. Interrupts end the wait.
pub fn wait(bell: Option<&Bell>, patience: Duration) {
    let ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX).saturating_add(1);
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    check_for_interrupts!();
    // SAFETY: a process that is connected to shared memory has a latch of its own; the socket is open.
    unsafe {
        let latch = server::latch();
        let info = WaitEvent::Registry.info();
        match bell {
            Some(bell) => {
                let events = (events | pg_sys::WL_SOCKET_READABLE) as i32;
                pg_sys::WaitLatchOrSocket(latch, events, bell.rung.as_raw_fd(), ms, info);
            }
            None => {
                pg_sys::WaitLatch(latch, events as i32, ms, info);
            }
        }
        pg_sys::ResetLatch(latch);
    }
    if let Some(bell) = bell {
        // How often it rang does not matter: answers are looked for.
        let _ = (&bell.rung).read(&mut [0; 64]);
    }
    check_for_interrupts!();
}

/// Has this process, when it ends, skip what `exit` would run: OpenSSL's and Kerberos' handlers free what a thread of ours may
/// be using, which would then crash the process, and with it the server.
fn end_at_once() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Relaxed) {
        // SAFETY: the function matches the callback's type.
        unsafe { pg_sys::on_proc_exit(Some(skip_exit_handlers), pg_sys::Datum::null()) };
    }
}

/// The exit status of the process.
static EXIT_CODE: AtomicI32 = AtomicI32::new(0);

/// Runs before `exit`, whose handlers run in reverse order: the one that is registered now is the first.
unsafe extern "C-unwind" fn skip_exit_handlers(code: i32, _argument: pg_sys::Datum) {
    extern "C" fn end() {
        // SAFETY: PostgreSQL has done all that it does at the end of a process; what libraries have not written yet is.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(EXIT_CODE.load(Relaxed))
        }
    }
    // Negative where PostgreSQL's own exit handler calls this: another library called `exit`, whose handlers run already.
    if code >= 0 {
        EXIT_CODE.store(code, Relaxed);
        // SAFETY: a function that takes nothing.
        unsafe { libc::atexit(end) };
    }
}

/// Runs something while this thread lets no signal through: a thread that it starts inherits that, and PostgreSQL's
/// handlers run on PostgreSQL's own thread.
fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills in the set that the second reads, which fills in the other; both only change which
    // signals this thread lets through.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = body();
    // SAFETY: the set that was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}
