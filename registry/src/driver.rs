//! The driver: this library's table of functions, which a PostgreSQL process opens at run time
//! ([`id_gen_core::fleet::driver`]). All of the unsafe code between the two libraries is here and where the table is used.
//!
//! **Locking.** A store is its caller's, who makes one call at a time. A panic becomes an answer: another library's cannot be
//! caught by the caller's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

use id_gen_core::fleet::driver::{Borrowed, Driver, Handle, Owned, VERSION};
use id_gen_core::fleet::store::{Store, StoreError};
use id_gen_core::fleet::wire::{self, Options};

use crate::etcd::{Etcd, EtcdOptions};
use crate::postgresql::{LibPq, Postgresql, PostgresqlOptions};

type BoxedStore = Box<dyn Store + Send>;

static TABLE: Driver = Driver { version: VERSION, open, call, close, free };

/// The table of functions.
// SAFETY: no other library exports this name.
#[unsafe(no_mangle)]
pub extern "C" fn id_gen_registry_driver() -> *const Driver {
    &raw const TABLE
}

fn opened(options: &[u8]) -> Result<BoxedStore, StoreError> {
    let options: Options = wire::decode(options)?;
    let timeout = Duration::from_millis(options.timeout_ms);
    if options.is_postgresql() {
        let pq_options = PostgresqlOptions { conninfo: options.registry, timeout };
        return Ok(Box::new(Postgresql::new(LibPq::load(None)?, pq_options)?));
    }
    Ok(Box::new(Etcd::new(EtcdOptions {
        endpoints: EtcdOptions::parse_endpoints(&options.registry)?,
        timeout,
        ca_file: options.ca_file.map(Into::into),
        cert_file: options.cert_file.map(Into::into),
        key_file: options.key_file.map(Into::into),
        user: options.user,
        password_file: options.password_file.map(Into::into),
    })?))
}

/// # Safety
/// The bytes are there as long as the result is used.
unsafe fn slice<'a>(Borrowed { data, length }: Borrowed) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, length) }
}

fn owned(bytes: Vec<u8>) -> Owned {
    let bytes = bytes.into_boxed_slice();
    Owned { length: bytes.len(), data: Box::into_raw(bytes).cast() }
}

fn panicked() -> StoreError {
    wire::unexpected("a bug: it panicked".to_owned())
}

unsafe extern "C" fn open(options: Borrowed, store: *mut Handle) -> Owned {
    // SAFETY: the caller's bytes are there until this returns.
    let options = unsafe { slice(options) };
    let result = catch_unwind(|| opened(options)).unwrap_or_else(|_| Err(panicked()));
    let result: Result<(), StoreError> = result.map(|opened| {
        // SAFETY: the caller's variable. What it gets is a thin pointer to a box of its own.
        unsafe { *store = Box::into_raw(Box::new(opened)).cast() };
    });
    owned(wire::encode(&result))
}

unsafe extern "C" fn call(store: Handle, call: Borrowed) -> Owned {
    // SAFETY: opened above and not closed; nobody else uses it meanwhile. The bytes are there until this returns.
    let (store, call) = unsafe { (&mut *store.cast::<BoxedStore>(), slice(call)) };
    let answer = catch_unwind(AssertUnwindSafe(|| wire::serve(store, call).answer));
    owned(answer.unwrap_or_else(|_| wire::refusal(panicked())))
}

unsafe extern "C" fn close(store: Handle) {
    // SAFETY: opened above, and used no more.
    let store = unsafe { Box::from_raw(store.cast::<BoxedStore>()) };
    // One that panics while it closes is closed as far as it can be.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
}

unsafe extern "C" fn free(Owned { data, length }: Owned) {
    // SAFETY: bytes that `owned` gave away, and used no more.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(data, length)) });
}
