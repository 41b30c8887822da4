//! What a column has beside its values: comment, grants, options of statistics. The one with the new values gets the same.

use id_gen_base::catalog::string;
use id_gen_core::planted::Fault;

use crate::convert::online::columns::{Member, query_about};
use crate::error::Error;
use crate::query::rows;

/// The statements that give it to the columns with the new values, before the switch.
///
/// # Errors
/// If the catalogs can't be read.
pub fn copied(members: &[Member]) -> Result<Vec<String>, Error> {
    // Options that begin with pg_ are those of PostgreSQL, such as the version of an attribute, which is each column's own.
    const QUERY: &str = "
        , column_of AS (
            SELECT m.relation::regclass::text AS owner, m.new_name, a.* FROM member m
              JOIN pg_attribute a ON a.attrelid = m.relation AND a.attnum = m.number)
        SELECT format('COMMENT ON COLUMN %s.%I IS %L', owner, new_name, col_description(attrelid, attnum))
          FROM column_of WHERE col_description(attrelid, attnum) IS NOT NULL
        UNION ALL
        SELECT format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', owner, new_name, attstattarget)
          FROM column_of WHERE attstattarget >= 0
        UNION ALL
        SELECT format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', owner, new_name, option)
          FROM column_of, LATERAL unnest(attoptions) AS option WHERE option !~ '^pg_'
        UNION ALL
        SELECT format('GRANT %s (%I) ON %s TO %s%s', x.privilege_type, new_name, owner,
                      CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END,
                      CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
          FROM column_of, LATERAL aclexplode(attacl) AS x";
    let mut copied = rows(&query_about(members, QUERY), &[], |row| Ok(string(row.get(1)?)))?;
    if Fault::ColumnGrantsLost.is_planted() {
        copied.retain(|statement| !statement.starts_with("GRANT"));
    }
    Ok(copied)
}
