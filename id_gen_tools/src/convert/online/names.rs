//! Names for what stands beside something else for a while: the name of that with a suffix, and a number where that is taken.

use std::collections::HashSet;

use id_gen_base::catalog::string;
use id_gen_core::sql_text::with_suffix;

use crate::error::Error;
use crate::query::rows;

/// The suffixes of what has the new values, before the switch, and the old ones, after it.
const NEW: &str = "_new";
const OLD: &str = "_old";

/// The names that are taken: by a table's column, or by an index or constraint, whose table does not matter, as there are few
/// with such suffixes.
pub struct Names(HashSet<(u32, String)>);

/// In place of a table's number.
const NO_TABLE: u32 = 0;

impl Names {
    /// Reads them.
    ///
    /// # Errors
    /// If the catalogs can't be read.
    pub fn new() -> Result<Names, Error> {
        const QUERY: &str = "
            SELECT 0::bigint, relname::text FROM pg_class WHERE relname ~ '_(new|old)[0-9]*$'
             UNION SELECT 0, conname::text FROM pg_constraint WHERE conname ~ '_(new|old)[0-9]*$'
             UNION SELECT attrelid::bigint, attname::text FROM pg_attribute WHERE attname ~ '_(new|old)[0-9]*$'";
        let taken = rows(QUERY, &[], |row| {
            let table = row.get::<i64>(1)?.and_then(|table| u32::try_from(table).ok());
            Ok((table.unwrap_or(NO_TABLE), string(row.get(2)?)))
        })?;
        Ok(Names(taken.into_iter().collect()))
    }

    /// What a table's column is called that has the new values, before the switch, and what the one that has the old values
    /// is called after it.
    pub fn of_column(&self, table: u32, name: &str, distinct: u32) -> (String, String) {
        (self.free(table, name, NEW, distinct), self.free(table, name, OLD, distinct))
    }

    /// What an index or constraint is called that has the new values, before the switch. `distinct` tells apart what PostgreSQL would cut to the
    /// same name.
    pub fn of_new(&self, name: &str, distinct: u32) -> String {
        self.free(NO_TABLE, name, NEW, distinct)
    }

    /// What the one with the old values is called after the switch.
    pub fn of_old(&self, name: &str, distinct: u32) -> String {
        self.free(NO_TABLE, name, OLD, distinct)
    }

    fn free(&self, table: u32, name: &str, suffix: &str, distinct: u32) -> String {
        let numbered = (2u32..).map(|number| format!("{suffix}{number}"));
        std::iter::once(suffix.to_owned())
            .chain(numbered)
            .map(|suffix| with_suffix(name, &suffix, distinct))
            .find(|name| !self.0.contains(&(table, name.clone())))
            .unwrap_or_default()
    }
}
