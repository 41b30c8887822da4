//! The sequences that a column's values come from, and how one is fenced: so that a forgotten `nextval()` fails from then
//! on, whoever calls it.
//!
//! A sequence is fenced by an increment that leads beyond its bound from wherever it stands, so that nothing has to be
//! known of calls that are under way. Its last value stays as it is.

use crate::convert::place::{Place, rows};
use crate::error::Error;
use crate::observe::catalog_queries::string;
use crate::pg::text::Text;

/// The increments of a fence.
const FORWARD: i64 = i64::MAX;
const BACKWARD: i64 = i64::MIN;

/// A sequence.
pub struct Sequence {
    /// As one types it.
    pub name: String,
    /// Whether it belongs to a column's identity, and ends with that.
    pub is_identity: bool,
    /// Its options.
    increment: i64,
    min: i64,
    /// The largest value that it can have.
    pub max: i64,
    start: i64,
    cache: i64,
    cycle: bool,
    /// The last value, if it was called.
    pub last: Option<i64>,
    /// Columns of other tables that have it in their default.
    pub other_columns: Option<String>,
    /// Functions that name it.
    pub functions: Option<String>,
    /// Its comment.
    pub comment: Option<String>,
}

impl Sequence {
    /// Whether it is fenced.
    pub fn is_fenced(&self) -> bool {
        matches!(self.increment, FORWARD | BACKWARD)
    }

    /// The statement that fences it, and the one that takes that back.
    pub fn fence(&self) -> (String, String) {
        let Sequence { name, increment, min, max, last, .. } = self;
        let at = last.unwrap_or(self.start);
        let (fence, bound, old_bound) = if *increment > 0 {
            // From zero or below, the increment alone would lead to a value that exists.
            (FORWARD, (at <= 0).then_some(" MAXVALUE 1"), format!(" MAXVALUE {max}"))
        } else {
            (BACKWARD, (at >= 0).then_some(" MINVALUE -1"), format!(" MINVALUE {min}"))
        };
        let old_bound = bound.map_or(String::new(), |_| old_bound);
        let (no_cycle, cycle) = if self.cycle { (" NO CYCLE", " CYCLE") } else { ("", "") };
        (
            format!("ALTER SEQUENCE {name} INCREMENT BY {fence}{}{no_cycle}", bound.unwrap_or("")),
            format!("ALTER SEQUENCE {name} INCREMENT BY {increment}{old_bound}{cycle}"),
        )
    }

    /// Its options as an identity's.
    pub fn identity_options(&self) -> String {
        let Sequence { name, increment, min, max, start, cache, cycle, .. } = self;
        let cycle = if *cycle { "CYCLE" } else { "NO CYCLE" };
        format!(
            "SEQUENCE NAME {name} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start} CACHE {cache} {cycle}"
        )
    }

    /// The aggregate that finds the value a sequence of this direction has come to, and what compares two such values.
    pub fn furthest(&self) -> (&'static str, &'static str) {
        if self.increment > 0 { ("max", "greatest") } else { ("min", "least") }
    }
}

/// The sequences of a column and of the columns that inherit it.
pub fn of_column(place: Place) -> Result<Vec<Sequence>, Error> {
    const QUERY: &str = "
        WITH RECURSIVE member (oid) AS (
            SELECT $1 UNION SELECT inhrelid FROM member JOIN pg_inherits ON inhparent = member.oid),
        place (relation, number) AS (
            SELECT m.oid, a.attnum FROM member m JOIN pg_attribute a ON a.attrelid = m.oid
                   AND a.attname = (SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum = $2)),
        by_default (sequence, relation, number) AS (
            SELECT d.refobjid, a.adrelid, a.adnum
              FROM pg_depend d JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
             WHERE d.refclassid = 'pg_class'::regclass),
        owned (sequence, kind) AS (
            SELECT d.objid, d.deptype
              FROM place p JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                   AND d.refobjid = p.relation AND d.refobjsubid = p.number AND d.deptype IN ('a', 'i'))
        SELECT s.seqrelid::regclass::text, 'i' = ANY (SELECT kind FROM owned WHERE sequence = s.seqrelid),
               s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, s.seqcycle,
               CASE WHEN has_sequence_privilege(s.seqrelid, 'USAGE, SELECT')
                    THEN pg_sequence_last_value(s.seqrelid) END,
               (SELECT string_agg(DISTINCT format('%s.%I', u.relation::regclass, a.attname), ', ')
                  FROM by_default u JOIN pg_attribute a ON a.attrelid = u.relation AND a.attnum = u.number
                 WHERE u.sequence = s.seqrelid AND (u.relation, u.number) NOT IN (SELECT relation, number FROM place)),
               (SELECT string_agg(DISTINCT p.oid::regprocedure::text, ', ')
                  FROM pg_class c JOIN pg_proc p ON strpos(p.prosrc, c.relname) > 0
                 WHERE c.oid = s.seqrelid),
               obj_description(s.seqrelid, 'pg_class')
          FROM pg_sequence s
         WHERE s.seqrelid IN (SELECT sequence FROM owned
                               UNION
                              SELECT u.sequence FROM by_default u JOIN place p USING (relation, number))
         ORDER BY 1";
    rows(QUERY, &place.arguments(), |row| {
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
            functions: text(11)?,
            comment: text(12)?,
        })
    })
}
