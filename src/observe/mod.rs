//! What is observed of a running server, beyond what is counted: whether it generates, and what may be
//! wrong with it. Nothing here changes how IDs are made.

mod catalog_queries;
pub mod checks;
pub mod readiness;

pub use catalog_queries::worker_id_source;
