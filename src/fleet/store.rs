//! Which kind of registry `id_gen.registry` names, and how it is opened.

use std::time::Duration;

use id_gen_core::fleet::store::{Store, StoreError};
use id_gen_registry::etcd::{Etcd, EtcdOptions, LastSeen};
use id_gen_registry::postgresql::{LibPq, Postgresql, PostgresqlOptions};

use crate::pg::server;
use crate::settings::registry::RegistrySettings;

/// A store of any kind.
pub type BoxedStore = Box<dyn Store + Send>;

/// What opens a store. It may read files and wait for a network, so it runs on a thread of its own.
pub type Opener = Box<dyn FnOnce() -> Result<BoxedStore, StoreError> + Send>;

/// How a setting begins that libpq is to understand. Every other one is etcd's.
const LIBPQ_SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// What opens the store that the settings name. No call on it takes longer than the time-out.
pub fn opener(settings: &RegistrySettings, timeout: Duration, seen: LastSeen) -> Opener {
    let settings = settings.clone();
    if LIBPQ_SCHEMES.iter().any(|scheme| settings.registry.starts_with(scheme)) {
        // PostgreSQL finds its own libpq; the linker may find another, or none.
        server::load_libpq();
        return Box::new(move || {
            let options = PostgresqlOptions { conninfo: settings.registry, timeout };
            Ok(Box::new(Postgresql::new(LibPq::load(None)?, options)?))
        });
    }
    Box::new(move || Ok(Box::new(etcd(&settings, timeout)?.following(seen))))
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
