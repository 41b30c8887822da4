//! Registries: where a fleet's grants are kept. Each kind is a [`Store`](id_gen_core::fleet::store::Store).
//!
//! It is a library of its own, which only a process that asks a registry opens: see [`driver`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`driver`] | what the library offers to the server's |
//! | [`etcd`] | etcd, through its JSON gateway |
//! | [`postgresql`] | a table on a PostgreSQL server, through libpq |
//!
//! Calls block, up to a time-out. A PostgreSQL process makes them on a thread of their own, so nothing here calls
//! into the server or relies on its signals.

pub mod driver;
pub mod etcd;
pub mod postgresql;
