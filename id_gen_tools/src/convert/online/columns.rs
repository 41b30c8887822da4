//! The columns that are moved over together: the one that was named, and all that refer to it by foreign keys, also through
//! others.

use id_gen_base::catalog::string;
use id_gen_base::pg::text::{Text, in_error, literal, quoted};
use id_gen_core::sql_text::count_column;

use crate::convert::online::names::Names;
use crate::convert::place::Place;
use crate::convert::refusal::Refusal;
use crate::error::Error;
use crate::query::rows;

/// One of them.
pub struct Member {
    /// Its table.
    pub relation: u32,
    /// Its number there.
    pub number: i16,
    /// The table as one types it.
    pub table: String,
    /// Its name as it is stored.
    pub name: String,
    /// What the column with the new values is called before the switch.
    pub new_name: String,
    /// What the column with the old values is called after it.
    pub old_name: String,
    /// Whether it refuses NULL.
    pub not_null: bool,
    /// Its default, as an expression.
    pub default: Option<String>,
}

impl Member {
    /// Its name as one types it.
    pub fn typed(&self) -> String {
        quoted(&self.name)
    }

    /// As one types it, the one with the new values before the switch.
    pub fn typed_new(&self) -> String {
        quoted(&self.new_name)
    }

    /// As one types it, the one with the old values after the switch.
    pub fn typed_old(&self) -> String {
        quoted(&self.old_name)
    }

    /// Tells it apart in names of ours.
    pub fn key(&self) -> String {
        format!("{}_{}", self.relation, self.number)
    }
}

/// All of them, the one that was named first.
///
/// # Errors
/// If the catalogs can't be read.
pub fn of(place: Place, names: &Names) -> Result<Vec<Member>, Error> {
    const QUERY: &str = "
        WITH RECURSIVE member (relation, number) AS (
            SELECT $1, $2
             UNION
            SELECT k.conrelid, k.conkey[i]
              FROM member m
              JOIN pg_constraint k ON k.contype = 'f' AND k.conparentid = 0 AND k.confrelid = m.relation,
                   LATERAL generate_subscripts(k.confkey, 1) AS i
             WHERE k.confkey[i] = m.number)
        SELECT m.relation::bigint, m.number, m.relation::regclass::text, a.attname::text, a.attnotnull,
               CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END
          FROM member m
          JOIN pg_attribute a ON a.attrelid = m.relation AND a.attnum = m.number
          LEFT JOIN pg_attrdef d ON d.adrelid = m.relation AND d.adnum = m.number
         ORDER BY (m.relation, m.number) = ($1, $2) DESC, 3, 2";
    rows(QUERY, &place.arguments(), |row| {
        let name = string(row.get(4)?);
        let number = row.get::<i16>(2)?.unwrap_or(0);
        let distinct = u32::from(number.unsigned_abs());
        let relation = u32::try_from(row.get::<i64>(1)?.unwrap_or(0)).unwrap_or(0);
        let (new_name, old_name) = names.of_column(relation, &name, distinct);
        Ok(Member {
            relation,
            number,
            table: string(row.get(3)?),
            new_name,
            old_name,
            name,
            not_null: row.get(5)?.unwrap_or(false),
            default: row.get::<Text>(6)?.map(|text| text.0),
        })
    })
}

/// The beginning of a query about them: `member` has them, and `place (relation, number, own)` has them and the same columns
/// of partitions and of whatever inherits from their tables, with the table that those come from. `strict (index)` has the unique
/// indexes that rows with NULL in these columns may violate: they have NULLs for equal, or use the columns only in a condition or
/// an expression.
pub fn query_about(members: &[Member], query: &str) -> String {
    let rows: Vec<String> = members
        .iter()
        .map(|member| {
            format!(
                "({}::oid, {}::smallint, {}::name, {}::name, {}::name)",
                member.relation,
                member.number,
                literal(&member.name),
                literal(&member.new_name),
                literal(&member.old_name)
            )
        })
        .collect();
    query_from(&format!("VALUES {}", rows.join(", ")), query)
}

/// Refuses a definition in which the name of a column stands for something else, too: giving the column another name would change that.
/// `uses` is how often it uses the columns.
///
/// # Errors
/// If a name has another meaning.
pub fn refuse_other_meaning(
    members: &[Member],
    relation: u32,
    what: &str,
    definition: &str,
    uses: i64,
) -> Result<(), Error> {
    let of_table = || members.iter().filter(|member| member.relation == relation);
    let found: usize = of_table().map(|member| count_column(definition, &member.typed())).sum();
    if i64::try_from(found) == Ok(uses) {
        return Ok(());
    }
    let found = of_table().filter(|member| count_column(definition, &member.typed()) > 0);
    let rename = |Member { table, name, .. }: &Member| {
        let other = quoted(&format!("{name}_key"));
        in_error(&format!("ALTER TABLE {table} RENAME COLUMN {} TO {other}", quoted(name)))
    };
    let remedies = found.map(rename).collect::<Vec<_>>().join(", ");
    let reason = format!("has the name of the column for something else, too: {remedies}");
    let (Member { table, .. }, name) = (&members[0], members[0].typed());
    Err(Refusal::InTheWay {
        column: in_error(&format!("{table}.{name}")),
        found: vec![format!("{} {reason}", in_error(what))],
        widen: None,
    }
    .into())
}

/// The same query about the columns of a recorded job, for a function of its schema with the parameter `job_id`. The columns are
/// found by name, so after the switch they are the new ones.
pub fn query_of_job(query: &str) -> String {
    query_from(
        "
            SELECT m.relation::oid, a.attnum, a.attname, m.new_name::name, m.old_name::name
              FROM id_gen_convert.member m JOIN id_gen_convert.job j ON j.id = m.job
              JOIN pg_attribute a ON a.attrelid = m.relation AND a.attname = m.column_name
             WHERE m.job = job_id ORDER BY (m.relation, m.column_name) = (j.relation, j.column_name) DESC, 1, 2",
        query,
    )
}

fn query_from(members: &str, query: &str) -> String {
    format!(
        "WITH RECURSIVE member (relation, number, name, new_name, old_name) AS ({members}),
        part (relation, own) AS (
            SELECT relation, relation FROM member
             UNION
            SELECT i.inhrelid, p.own FROM part p JOIN pg_inherits i ON i.inhparent = p.relation),
        place (relation, number, own) AS (
            SELECT DISTINCT a.attrelid, a.attnum, m.relation
              FROM member m JOIN part p ON p.own = m.relation
              JOIN pg_attribute a ON a.attrelid = p.relation AND a.attname = m.name),
        strict (index) AS (
            SELECT i.indexrelid FROM place p JOIN pg_index i ON i.indrelid = p.relation AND i.indisunique
             WHERE (i.indnullsnotdistinct AND p.number = ANY (i.indkey::smallint[]))
                OR ((i.indpred IS NOT NULL OR i.indexprs IS NOT NULL)
                    AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                                   AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number)
                    AND NOT EXISTS (SELECT FROM place k WHERE k.relation = i.indrelid
                                       AND k.number = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1]))))
        {query}"
    )
}
