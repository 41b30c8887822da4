//! Which kind of registry `id_gen.registry` names, and how it is opened.

use std::time::Duration;

use id_gen_core::fleet::store::{Store, StoreError};
use id_gen_registry::etcd::{Etcd, EtcdOptions};

use crate::settings::registry::RegistrySettings;

/// A store of any kind.
pub type BoxedStore = Box<dyn Store + Send>;

/// What opens a store. It may read files and wait for a network, so it runs on a thread of its own.
pub type Opener = Box<dyn FnOnce() -> Result<BoxedStore, StoreError> + Send>;

/// What opens the store that the settings name. No call on it takes longer than the time-out.
pub fn opener(settings: &RegistrySettings, timeout: Duration) -> Opener {
    let settings = settings.clone();
    Box::new(move || Ok(Box::new(etcd(&settings, timeout)?)))
}

fn etcd(settings: &RegistrySettings, timeout: Duration) -> Result<Etcd, StoreError> {
    Etcd::new(EtcdOptions {
        endpoints: EtcdOptions::parse_endpoints(&settings.registry)?,
        timeout,
        ca_file: settings.ca_file.clone(),
        cert_file: settings.cert_file.clone(),
        key_file: settings.key_file.clone(),
        user: settings.user.clone(),
        password_file: settings.password_file.clone(),
    })
}
