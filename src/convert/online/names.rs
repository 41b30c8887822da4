//! Names for what stands beside something else for a while: the name of that with a suffix, and a number where that is taken.

use std::collections::HashSet;

use id_gen_core::sql_text::with_suffix;

use crate::convert::place::rows;
use crate::error::Error;
use crate::observe::catalog_queries::string;

/// The suffixes of what has the new values, before the switch, and the old ones, after it.
const NEW: &str = "_new";
const OLD: &str = "_old";

/// The names that are taken. Whose they are does not matter: there are few with such suffixes.
pub struct Names(HashSet<String>);

impl Names {
    /// Reads them.
    ///
    /// # Errors
    /// If the catalogs can't be read.
    pub fn new() -> Result<Names, Error> {
        const QUERY: &str = "
            SELECT relname::text FROM pg_class WHERE relname ~ '_(new|old)[0-9]*$'
             UNION SELECT conname::text FROM pg_constraint WHERE conname ~ '_(new|old)[0-9]*$'
             UNION SELECT attname::text FROM pg_attribute WHERE attname ~ '_(new|old)[0-9]*$'";
        Ok(Names(rows(QUERY, &[], |row| Ok(string(row.get(1)?)))?.into_iter().collect()))
    }

    /// What the one with the new values is called before the switch. `distinct` tells apart what PostgreSQL would cut to the
    /// same name.
    pub fn of_new(&self, name: &str, distinct: u32) -> String {
        self.free(name, NEW, distinct)
    }

    /// What the one with the old values is called after the switch.
    pub fn of_old(&self, name: &str, distinct: u32) -> String {
        self.free(name, OLD, distinct)
    }

    fn free(&self, name: &str, suffix: &str, distinct: u32) -> String {
        let numbered = (2u32..).map(|number| format!("{suffix}{number}"));
        std::iter::once(suffix.to_owned())
            .chain(numbered)
            .map(|suffix| with_suffix(name, &suffix, distinct))
            .find(|name| !self.0.contains(name))
            .unwrap_or_default()
    }
}
