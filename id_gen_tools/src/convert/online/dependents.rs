//! What names the column and is made again in the switch, from its own definition: that goes by names, so it comes to mean
//! the column with the new values, and after an undo the one with the old values again.

use id_gen_base::catalog::string;
use id_gen_base::pg::text::Text;

use crate::convert::online::columns::{Member, query_about};
use crate::convert::online::script::{Phase, Remade, Script, rank};
use crate::error::Error;
use crate::query::rows;

/// One of them.
struct Dependent {
    /// The statement that drops it; for a view, with all that read it.
    remedy: String,
    /// The statements that make it again.
    create: String,
    /// If it is a view: its name as one types it.
    view: Option<String>,
    /// If it is a policy, which may be of a table without such a column: that table.
    table: Option<String>,
    /// By its type and identity in PostgreSQL.
    object: String,
    /// For a view: whether it groups by a key in place of all columns, or reads one that does. Before the switch, the new column
    /// is not a key.
    needs_key: bool,
}

impl Dependent {
    /// The statement that drops it when all that depend on it are gone.
    fn drop(&self) -> String {
        self.view.as_ref().map_or_else(|| self.remedy.clone(), |view| format!("DROP VIEW {view}"))
    }
}

/// Views, with all that depend on them, in an order in which each comes after those that it reads.
const VIEWS: &str = "
    , seen (oid, depth) AS (
        SELECT r.ev_class, 1 FROM place p
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> p.relation
         UNION
        SELECT r.ev_class, s.depth + 1 FROM seen s
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid
          JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> s.oid),
    view AS (SELECT oid, max(depth) AS depth FROM seen GROUP BY oid),
    reader (oid, reader) AS (
        SELECT oid, oid FROM view
         UNION
        SELECT v.oid, r.ev_class FROM reader v
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = v.reader
          JOIN pg_rewrite r ON r.oid = d.objid),
    keyed (oid) AS (
        SELECT r.ev_class FROM view v JOIN pg_rewrite r ON r.ev_class = v.oid
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_constraint'::regclass
          JOIN pg_constraint c ON c.oid = d.refobjid JOIN place p ON p.relation = c.conrelid AND p.number = ANY (c.conkey)
         UNION
        SELECT r.ev_class FROM keyed k
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = k.oid
          JOIN pg_rewrite r ON r.oid = d.objid),
    granted AS (
        SELECT c.oid, x.grantee, x.privilege_type, x.is_grantable, NULL::name AS attname
          FROM view JOIN pg_class c USING (oid), LATERAL aclexplode(c.relacl) AS x WHERE x.grantee <> c.relowner
         UNION ALL
        SELECT c.oid, x.grantee, x.privilege_type, x.is_grantable, a.attname
          FROM view JOIN pg_class c USING (oid) JOIN pg_attribute a ON a.attrelid = c.oid, LATERAL aclexplode(a.attacl) AS x)
    SELECT 'DROP VIEW ' || (SELECT string_agg(r.reader::regclass::text, ', ' ORDER BY v.depth DESC, r.reader)
                              FROM reader r JOIN view v ON v.oid = r.reader WHERE r.oid = c.oid),
           concat_ws('; ',
               format('CREATE VIEW %s%s AS %s', c.oid::regclass,
                      ' WITH (' || array_to_string(c.reloptions, ', ') || ')', rtrim(pg_get_viewdef(c.oid), ';')),
               format('ALTER VIEW %s OWNER TO %I', c.oid::regclass, pg_get_userbyid(c.relowner)),
               -- What the role that makes it gives by default is not what it had.
               format('SELECT id_gen_convert.revoke_defaults(%L)', c.oid::regclass),
               (SELECT string_agg(format('GRANT %s%s ON %s TO %s%s', privilege_type, ' (' || quote_ident(attname) || ')', c.oid::regclass,
                                         CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
                                         CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), '; ' ORDER BY grantee, privilege_type)
                  FROM granted WHERE granted.oid = c.oid),
               'COMMENT ON VIEW ' || c.oid::regclass || ' IS ' || quote_literal(obj_description(c.oid, 'pg_class')),
               (SELECT string_agg(format('COMMENT ON COLUMN %s.%I IS %L', c.oid::regclass, attname, col_description(c.oid, attnum)), '; ' ORDER BY attnum)
                  FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND col_description(c.oid, attnum) IS NOT NULL)),
           c.oid::regclass::text, 'view ' || c.oid::regclass, c.oid IN (SELECT oid FROM keyed), NULL
      FROM view JOIN pg_class c USING (oid) WHERE c.relkind = 'v'
     ORDER BY view.depth, 1";

/// Policies, triggers and statistics that name a column.
const OTHERS: &str = "
    , used AS (
        SELECT DISTINCT d.classid, d.objid FROM member m
          JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = m.relation AND d.refobjsubid = m.number)
    SELECT format('DROP POLICY %I ON %s', polname, polrelid::regclass),
           concat_ws('; ',
               format('CREATE POLICY %I ON %s AS %s FOR %s TO %s%s%s', polname, polrelid::regclass,
                      CASE WHEN polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                      CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                      (SELECT string_agg(CASE role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(role)) END, ', ') FROM unnest(polroles) AS role),
                      ' USING (' || pg_get_expr(polqual, polrelid) || ')', ' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')'),
               format('COMMENT ON POLICY %I ON %s IS ', polname, polrelid::regclass) || quote_literal(obj_description(pg_policy.oid, 'pg_policy'))), NULL, format('policy %I on %s', polname, polrelid::regclass), false, polrelid::regclass::text
      FROM used JOIN pg_policy ON classid = 'pg_policy'::regclass AND oid = objid
    UNION ALL
    SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass),
           concat_ws('; ', pg_get_triggerdef(pg_trigger.oid),
               format('ALTER TABLE %s %s TRIGGER %I', tgrelid::regclass,
                      CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE' END, tgname),
               format('COMMENT ON TRIGGER %I ON %s IS ', tgname, tgrelid::regclass) || quote_literal(obj_description(pg_trigger.oid, 'pg_trigger'))), NULL, format('trigger %I on %s', tgname, tgrelid::regclass), false, NULL
      FROM used JOIN pg_trigger ON classid = 'pg_trigger'::regclass AND pg_trigger.oid = objid AND tgparentid = 0 AND NOT tgisinternal
       AND (SELECT pronamespace FROM pg_proc WHERE oid = tgfoid) IS DISTINCT FROM to_regnamespace('id_gen_convert')
    UNION ALL
    SELECT format('DROP STATISTICS %s.%I', stxnamespace::regnamespace, stxname),
           concat_ws('; ', pg_get_statisticsobjdef(pg_statistic_ext.oid),
               format('ALTER STATISTICS %s.%I OWNER TO %I', stxnamespace::regnamespace, stxname, pg_get_userbyid(stxowner)),
               'ALTER STATISTICS ' || stxnamespace::regnamespace || '.' || quote_ident(stxname) || ' SET STATISTICS ' || nullif((to_jsonb(pg_statistic_ext) ->> 'stxstattarget')::integer, -1),
               format('COMMENT ON STATISTICS %s.%I IS ', stxnamespace::regnamespace, stxname) || quote_literal(obj_description(pg_statistic_ext.oid, 'pg_statistic_ext'))), NULL, format('statistics object %s.%I', stxnamespace::regnamespace, stxname), false, NULL
      FROM used JOIN pg_statistic_ext ON classid = 'pg_statistic_ext'::regclass AND oid = objid
     ORDER BY 1";

/// Writes down how they are dropped and made again: those first that others depend on last, and in the opposite order. Returns
/// the relations that are locked for that in addition to the tables of `members`.
///
/// # Errors
/// If the catalogs can't be read.
pub fn write(members: &[Member], script: &mut Script) -> Result<Vec<String>, Error> {
    let all = of(members)?;
    for way in [Phase::Trial, Phase::Switch, Phase::Unswitch] {
        for dependent in all.iter().rev() {
            script.add(way, rank::DEPENDENTS_GO, dependent.drop());
        }
        for Dependent { remedy, create, object, needs_key, .. } in &all {
            if way != Phase::Trial || !needs_key {
                let remade = Remade { object: object.clone(), remedy: remedy.clone() };
                script.add_remade(way, rank::DEPENDENTS, &remade, create.clone());
            }
        }
    }
    let is_other = |table: &String| members.iter().all(|member| member.table != *table);
    let mut others: Vec<String> = Vec::new();
    for Dependent { view, table, .. } in all.into_iter().rev() {
        let relation = view.or(table.filter(is_other));
        others.extend(relation.filter(|relation| !others.contains(relation)));
    }
    Ok(others)
}

fn of(members: &[Member]) -> Result<Vec<Dependent>, Error> {
    let read = |query| {
        rows(&query_about(members, query), &[], |row| {
            Ok(Dependent {
                remedy: string(row.get(1)?),
                create: string(row.get(2)?),
                view: row.get::<Text>(3)?.map(|text| text.0),
                object: string(row.get(4)?),
                needs_key: row.get(5)?.unwrap_or(false),
                table: row.get::<Text>(6)?.map(|text| text.0),
            })
        })
    };
    let mut all = read(OTHERS)?;
    all.extend(read(VIEWS)?);
    Ok(all)
}
