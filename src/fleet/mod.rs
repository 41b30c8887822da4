//! This server's part in its fleet: from the setting `id_gen.registry` to a number that IDs are made with.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`registrar`] | the background worker that gets the number and renews its grant |
//! | [`journal`] | what it makes durable, shows to others and logs of that |
//! | [`connection`] | the registrar's connection, on a thread of its own, so that nothing here ever waits for a network |
//! | [`store`] | what opens the registry that the settings name |
//! | [`driver`] | the library with the registries, which the registrar opens |
//! | [`queue`] | how a session asks: through the registrar |
//! | [`numbers`] | which numbers this server may take, and who it is |
//! | [`commands`] | what an administrator's session asks of the registry |

pub mod commands;
mod connection;
mod driver;
mod journal;
pub mod numbers;
pub mod queue;
pub mod registrar;
mod store;
