//! What a row may come in through besides the table itself: views that have a default of their own for the column, and
//! triggers and rules that may set it.

use id_gen_base::catalog::string;
use id_gen_base::pg::text::Text;

use crate::convert::place::{Place, RELATED};
use crate::error::Error;
use crate::query::rows;

/// A column of a view, as one types it.
pub struct ViewColumn {
    /// The view.
    pub view: String,
    /// The column.
    pub name: String,
    /// Its default; where it has none, its domain's is from a sequence.
    pub default: Option<String>,
}

/// Columns of views on the table, and on those that inherit from it, which get their value from one of the sequences that
/// fill the column: an insert through such a view goes by the view's default.
pub fn with_default(place: Place) -> Result<Vec<ViewColumn>, Error> {
    const QUERY: &str = "
        SELECT DISTINCT c.oid::regclass::text, quote_ident(a.attname), pg_get_expr(d.adbin, d.adrelid)
          FROM by_default u JOIN filling USING (sequence) JOIN pg_sequence ON seqrelid = sequence
          JOIN above ON above.oid = u.relation
          JOIN pg_class c ON c.oid = u.relation AND c.relkind = 'v'
          JOIN pg_attribute a ON a.attrelid = u.relation AND a.attnum = u.number
          LEFT JOIN pg_attrdef d ON d.adrelid = u.relation AND d.adnum = u.number
         ORDER BY 1, 2";
    rows(&format!("{RELATED}{QUERY}"), &place.arguments(), |row| {
        Ok(ViewColumn {
            view: string(row.get(1)?),
            name: string(row.get(2)?),
            default: row.get::<Text>(3)?.map(|text| text.0),
        })
    })
}

/// Triggers and rules that may set the column: of the table, of those that inherit from it, and of views on them.
pub fn setters(place: Place) -> Result<Option<String>, Error> {
    // Types of triggers and of rules are as in pg_trigger.h and pg_rewrite: before a row's insert or instead of it, and
    // on an insert. A partition has its table's triggers.
    const QUERY: &str = "
        SELECT string_agg(concat_ws(' ', named.type, named.identity), ', ' ORDER BY named.type, named.identity)
          FROM (SELECT 'pg_trigger'::regclass, oid FROM pg_trigger
                 WHERE tgrelid IN (SELECT oid FROM above) AND NOT tgisinternal AND tgparentid = 0
                       AND (tgtype & 7 = 7 OR tgtype & 68 = 68)
                 UNION ALL
                SELECT 'pg_rewrite'::regclass, oid FROM pg_rewrite
                 WHERE ev_class IN (SELECT oid FROM above) AND ev_type = '3') AS setter (class, oid),
               pg_identify_object(setter.class, setter.oid, 0) AS named";
    let found = rows(&format!("{RELATED}{QUERY}"), &place.arguments(), |row| row.get::<Text>(1))?;
    Ok(found.into_iter().flatten().next().map(|text| text.0))
}
