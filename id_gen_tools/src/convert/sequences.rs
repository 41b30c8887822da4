//! The sequences that a column's values come from, and how one is fenced: so that a forgotten `nextval()` fails from then
//! on, whoever calls it, and `setval()` does not bring it back.
//!
//! `nextval()` looks at no bound where `setval()` has said that its value is the next one. So a fence leaves two values
//! alone within the bounds, the last one and the one before it, and the increment leads beyond them. `setval()` refuses
//! all others, such as the one above the largest ID. Bounds that tight can only be found while nobody calls the sequence:
//! the statement locks it first, and takes its last value then, which stays as it is.

use id_gen_base::catalog::string;
use id_gen_base::pg::text::{Text, literal};

use crate::convert::place::{Place, RELATED};
use crate::error::Error;
use crate::query::rows;

/// The increment of a fence, which tells that it is one.
const FENCED: i64 = i64::MAX;

/// A sequence.
pub struct Sequence {
    /// As one types it.
    pub name: String,
    /// Whether it belongs to a column's identity, and ends with that.
    pub is_identity: bool,
    /// Its options.
    increment: i64,
    /// The smallest value that it can have.
    pub min: i64,
    /// The largest value that it can have.
    pub max: i64,
    start: i64,
    cache: i64,
    cycle: bool,
    /// The last value, if it was called.
    pub last: Option<i64>,
    /// Columns of other tables that have it in their default.
    pub other_columns: Option<String>,
    /// Functions, rules and defaults of other views that name it.
    pub named_by: Option<String>,
    /// Its comment.
    pub comment: Option<String>,
    /// Statements that give what is created in its place the privileges that it has.
    pub privileges: Option<String>,
}

impl Sequence {
    /// Whether it is fenced.
    pub fn is_fenced(&self) -> bool {
        self.increment == FENCED
    }

    /// The statement that fences it.
    pub fn fence(&self) -> String {
        self.fence_after("")
    }

    /// The same, unless it is gone or fills another column by then.
    pub fn fence_unless_used(&self) -> String {
        let name = literal(&self.name);
        self.fence_after(&format!(
            "
    IF pg_catalog.to_regclass({name}) IS NULL OR EXISTS (
        SELECT FROM pg_catalog.pg_depend WHERE refobjid = pg_catalog.to_regclass({name})
           AND classid IN ('pg_catalog.pg_attrdef'::regclass, 'pg_catalog.pg_type'::regclass)) THEN
        RETURN;
    END IF;"
        ))
    }

    fn fence_after(&self, first: &str) -> String {
        let Sequence { name, min, max, .. } = self;
        // Zero is before the first value of most sequences, and within the type of all. One that goes below has a bound there.
        let (low, high) = if self.increment > 0 {
            let high = format!("greatest(last_value, {})", min.saturating_add(1).min(1));
            (format!("{high} - 1"), high)
        } else {
            let low = format!("least(last_value, {})", max.saturating_sub(1).max(-1));
            (low.clone(), format!("{low} + 1"))
        };
        let body = format!(
            "BEGIN{first}
    ALTER SEQUENCE {name} INCREMENT BY {FENCED} NO CYCLE;
    PERFORM pg_catalog.setval(tableoid::regclass, last_value) FROM {name} WHERE NOT is_called;
    EXECUTE (SELECT pg_catalog.format('ALTER SEQUENCE %s MINVALUE %s MAXVALUE %s START WITH %s',
                           tableoid::regclass, {low}, {high}, last_value) FROM {name});
END"
        );
        format!("DO {}", quoted_body(&body))
    }

    /// The statement that takes the fence back.
    pub fn unfence(&self) -> String {
        format!("ALTER SEQUENCE {} {}", self.name, self.options())
    }

    /// Its options as an identity's.
    pub fn identity_options(&self) -> String {
        format!("SEQUENCE NAME {} {}", self.name, self.options())
    }

    fn options(&self) -> String {
        let Sequence { increment, min, max, start, cache, cycle, .. } = self;
        let cycle = if *cycle { "CYCLE" } else { "NO CYCLE" };
        format!(
            "INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start} CACHE {cache} {cycle}"
        )
    }

    /// What gives it the comment that it has now.
    pub fn restore_comment(&self) -> String {
        let comment = self.comment.as_deref().map_or("NULL".to_owned(), literal);
        format!("COMMENT ON SEQUENCE {} IS {comment}", self.name)
    }

    /// The aggregate that finds the value a sequence of this direction has come to, and what compares two such values.
    pub fn furthest(&self) -> (&'static str, &'static str) {
        if self.increment > 0 { ("max", "greatest") } else { ("min", "least") }
    }
}

/// A block's body as a string that reads well; a name can have what ends it.
fn quoted_body(body: &str) -> String {
    if body.contains("$$") { literal(body) } else { format!("$$\n{body}\n$$") }
}

/// The sequences of a column and of the columns that inherit it.
pub fn of_column(place: Place) -> Result<Vec<Sequence>, Error> {
    // A sequence that is created has the privileges that its owner gives by default; those that this one has replace
    // them, in its order.
    const QUERY: &str = "
        SELECT s.seqrelid::regclass::text, 'i' = ANY (SELECT kind FROM owned WHERE sequence = s.seqrelid),
               s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, s.seqcycle,
               CASE WHEN has_sequence_privilege(s.seqrelid, 'USAGE, SELECT')
                    THEN pg_sequence_last_value(s.seqrelid) END,
               (SELECT string_agg(DISTINCT format('%s.%I', u.relation::regclass, a.attname), ', ')
                  FROM by_default u JOIN pg_attribute a ON a.attrelid = u.relation AND a.attnum = u.number
                  JOIN pg_class t ON t.oid = u.relation AND t.relkind <> 'v'
                 WHERE u.sequence = s.seqrelid AND (u.relation, u.number) NOT IN (SELECT relation, number FROM place)),
               (SELECT string_agg(concat_ws(' ', named.type, named.identity), ', ' ORDER BY named.type, named.identity)
                  FROM (SELECT d.classid, d.objid FROM pg_depend d
                         WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = s.seqrelid
                               AND d.classid IN ('pg_proc'::regclass, 'pg_rewrite'::regclass)
                         UNION
                        SELECT 'pg_proc'::regclass, p.oid
                          FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname NOT IN ('internal', 'c'),
                               coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) AS body
                         WHERE p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
                               AND strpos(body, c.relname) > 0
                               AND (c.relname ~ '[^[:alnum:]_]'
                                    OR c.relname::text = ANY (regexp_split_to_array(body, '[^[:alnum:]_]+')))
                         UNION
                        SELECT 'pg_attrdef'::regclass, d.oid
                          FROM by_default u JOIN pg_class v ON v.oid = u.relation AND v.relkind = 'v'
                          JOIN pg_attrdef d ON d.adrelid = u.relation AND d.adnum = u.number
                         WHERE u.sequence = s.seqrelid AND v.oid NOT IN (SELECT oid FROM above)) AS n,
                       pg_identify_object(n.classid, n.objid, 0) AS named),
               obj_description(s.seqrelid, 'pg_class'),
               (WITH entry AS (
                    SELECT e.*, CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE e.grantee::regrole::text END AS role
                      FROM aclexplode(c.relacl) WITH ORDINALITY AS e),
                revoked (role) AS (
                    SELECT c.relowner::regrole::text WHERE c.relacl IS NOT NULL
                     UNION
                    SELECT CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE e.grantee::regrole::text END
                      FROM pg_default_acl b, aclexplode(b.defaclacl) AS e
                     WHERE b.defaclobjtype = 'S' AND b.defaclrole = c.relowner
                           AND b.defaclnamespace IN (0, c.relnamespace)),
                granted (statement, place) AS (
                    SELECT format('GRANT %s ON SEQUENCE %s TO %s%s', string_agg(privilege_type, ', ' ORDER BY ordinality),
                                  s.seqrelid::regclass, role, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END),
                           min(ordinality)
                      FROM entry GROUP BY role, is_grantable)
                SELECT concat_ws('; ',
                           (SELECT format('REVOKE ALL ON SEQUENCE %s FROM %s', s.seqrelid::regclass,
                                          string_agg(role, ', ')) FROM revoked HAVING count(role) > 0),
                           (SELECT string_agg(statement, '; ' ORDER BY place) FROM granted)))
          FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
         WHERE s.seqrelid IN (SELECT sequence FROM filling)
         ORDER BY 1";
    rows(&format!("{RELATED}{QUERY}"), &place.arguments(), |row| {
        let number = |place| row.get::<i64>(place).map(Option::unwrap_or_default);
        let text = |place| row.get::<Text>(place).map(|text| text.map(|text| text.0));
        Ok(Sequence {
            name: string(row.get(1)?),
            is_identity: row.get(2)?.unwrap_or(false),
            increment: number(3)?,
            min: number(4)?,
            max: number(5)?,
            start: number(6)?,
            cache: number(7)?,
            cycle: row.get(8)?.unwrap_or(false),
            last: row.get(9)?,
            other_columns: text(10)?,
            named_by: text(11)?,
            comment: text(12)?,
            privileges: text(13)?.filter(|statements| !statements.is_empty()),
        })
    })
}
