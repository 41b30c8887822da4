//! The schemas of installed extensions.

use pgrx::prelude::*;
use pgrx::spi::Error;

use crate::pg::text::Text;

/// The schema of an extension in this database, quoted if necessary; `None` without the extension. Nothing in the session's
/// `search_path` changes what is found.
///
/// # Errors
/// If the query fails.
pub fn schema_of(extension: &str) -> Result<Option<String>, Error> {
    const QUERY: &str = "
        SELECT pg_catalog.quote_ident(n.nspname)
          FROM pg_catalog.pg_extension e
          JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
         WHERE e.extname OPERATOR(pg_catalog.=) $1::pg_catalog.name";
    Spi::connect(|client| {
        let found = client.select(QUERY, Some(1), &[extension.into()])?;
        Ok(if found.is_empty() { None } else { found.first().get_one::<Text>()?.map(|it| it.0) })
    })
}
