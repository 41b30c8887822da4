//! What is observed of a running server, beyond what is counted: whether it generates, and what may be
//! wrong with it. Nothing here changes how IDs are made.

pub mod catalog_queries;
pub mod checks;
mod narrow_columns;
pub mod readiness;

use id_gen_core::identity::{Identity, IdentitySource};

use crate::error::Error;
use crate::settings::known;

/// What is said of the source of a number that a fleet's registry gave.
const FLEET: &str = "fleet";

/// Where this server's number comes from; `None` if this process cannot know.
///
/// # Errors
/// If the catalogs can't be read.
pub fn worker_id_source(identity: &Identity) -> Result<Option<String>, Error> {
    match identity.source {
        IdentitySource::Registry => Ok(Some(FLEET.to_owned())),
        // A process that has lost the file's values has other sources than the server.
        IdentitySource::Setting if known::check().is_err() => Ok(None),
        IdentitySource::Setting => Ok(catalog_queries::worker_id_source()?),
    }
}
