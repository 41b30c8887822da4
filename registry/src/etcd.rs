//! etcd as a registry.
