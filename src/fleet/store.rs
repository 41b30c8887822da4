//! Opening the registry that the settings name.

use std::time::Duration;

use id_gen_core::fleet::store::{Store, StoreError};
use id_gen_core::fleet::wire::{Options, Seen};

use crate::fleet::driver;
use crate::pg::server;
use crate::settings::registry::RegistrySettings;

/// A store of any kind.
pub type BoxedStore = Box<dyn Store + Send>;

/// What opens a store. It may read files and wait for a network, so it runs on a thread of its own.
pub type Opener = Box<dyn FnOnce() -> Result<BoxedStore, StoreError> + Send>;

/// What opens the store that the settings name. No call on it takes longer than the time-out.
pub fn opener(settings: &RegistrySettings, timeout: Duration, seen: Seen) -> Opener {
    let options = Options {
        registry: settings.registry.clone(),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        ca_file: settings.ca_file.clone(),
        cert_file: settings.cert_file.clone(),
        key_file: settings.key_file.clone(),
        user: settings.user.clone(),
        password_file: settings.password_file.clone(),
    };
    if options.is_postgresql() {
        // PostgreSQL finds its own libpq; the linker may find another, or none.
        server::load_libpq();
    }
    Box::new(move || Ok(Box::new(driver::open(&options, seen)?)))
}
