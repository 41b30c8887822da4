//! What makes it impossible to let another column take the place of one: found before anything is changed.

use id_gen_base::catalog::{Column, string};
use id_gen_base::pg::text::in_error;

use crate::convert::column::{Kind, Source};
use crate::convert::goal::Goal;
use crate::convert::online::columns::{Member, query_about};
use crate::convert::online::losses::LOSSES;
use crate::convert::online::values::has_old_values;
use crate::convert::refusal::Refusal;
use crate::error::Error;
use crate::query::rows;

/// What the queries here have in common: the tables with their partitions, the views that are made again (`seen`), the indexes that
/// are replaced, and the sequences that give the key its values.
pub const CONTEXT: &str = "
    , relation AS (
        SELECT DISTINCT c.*, p.own FROM place p JOIN pg_class c ON c.oid = p.relation),
    seen (oid) AS (
        SELECT r.ev_class FROM place p
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_rewrite r ON r.oid = d.objid
         UNION
        SELECT r.ev_class FROM seen s
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid
          JOIN pg_rewrite r ON r.oid = d.objid),
    indexed AS (
        SELECT DISTINCT i.indexrelid FROM place p JOIN pg_index i ON i.indrelid = p.relation
         WHERE p.number = ANY (i.indkey::smallint[])
            OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                          AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number)),
    -- Their operator classes that no type has by itself.
    classed AS (
        SELECT i.indexrelid, o.opcname, o.opcintype FROM place p JOIN pg_index i ON i.indrelid = p.relation,
               LATERAL unnest(i.indkey::smallint[], i.indclass::oid[]) AS key (number, class)
          JOIN pg_opclass o ON o.oid = key.class AND NOT o.opcdefault
         WHERE key.number = p.number),
    filling AS (
        SELECT DISTINCT c.oid AS sequence, p.own FROM (SELECT relation FROM member LIMIT 1) AS m JOIN place p ON p.own = m.relation
          JOIN pg_attrdef e ON e.adrelid = p.relation AND e.adnum = p.number
          JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid AND d.refclassid = 'pg_class'::regclass
          JOIN pg_class c ON c.oid = d.refobjid AND c.relkind = 'S')";

/// The types that type `t` is made of, whose functions are called where a constant of it is read.
macro_rules! inner_types {
    () => {
        "LATERAL (
                        SELECT t.typelem UNION ALL SELECT t.typbasetype
                         UNION ALL SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
                         UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid UNION ALL SELECT rngsubtype FROM pg_range WHERE rngmultitypid = t.oid) AS inner_type (oid)
                 -- PostgreSQL's own have lower OIDs.
                 WHERE t.oid >= 16384 AND inner_type.oid >= 16384"
    };
}
pub(crate) use inner_types;

/// Each row is an obstacle: the object, and the reason. The switch and an undo look again (`id_gen_convert.losses()`), so they
/// have no parameters.
///
/// Columns are looked at in partitions, too, where they have numbers of their own. What depends on a view that is made
/// again is made again with it, or is in the way like what depends on the column.
pub const OBSTACLES: &str = concat!(
    "
        SELECT oid::regclass::text, CASE
                   WHEN NOT pg_has_role(relowner, 'USAGE') THEN format('belongs to another role: log in as %I', pg_get_userbyid(relowner))
                   WHEN relpersistence = 't' THEN 'is temporary'
                   WHEN row_security_active(oid) THEN 'has row security that hides rows from you'
                   WHEN relkind NOT IN ('r', 'p') THEN 'is not an ordinary table'
                   WHEN reloftype <> 0 THEN 'is a typed table'
                   WHEN oid <> own AND relkind = 'p' THEN 'is a partition that is partitioned itself'
                   WHEN NOT relispartition AND EXISTS (SELECT FROM pg_inherits WHERE inhrelid = relation.oid) THEN 'inherits from another table'
                   WHEN relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = relation.oid) THEN 'has child tables' END
          FROM relation
        UNION ALL
        SELECT format('%s.%I', m.relation::regclass, m.name), 'is referenced, but has no unique index on this column only'
          FROM (SELECT * FROM member LIMIT 1) AS m
         WHERE (SELECT count(*) FROM member) > 1
           AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = m.relation AND i.indisunique AND i.indisvalid
                              AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = m.number)
        UNION ALL
        SELECT oid::regclass::text, 'is a partition with its own foreign key'
          FROM relation JOIN member ON member.relation = oid WHERE relispartition
        UNION ALL
        SELECT format('%s.%I', attrelid::regclass, attname), CASE
                   WHEN attgenerated <> '' THEN 'is a generated column'
                   WHEN t.typtype = 'd' THEN 'has a domain as its type, whose constraints the new column would not have'
                   WHEN attidentity <> '' AND place.own <> (SELECT relation FROM member LIMIT 1) THEN 'has an identity' END
          FROM place JOIN pg_attribute a ON a.attrelid = place.relation AND a.attnum = place.number
          JOIN pg_type t ON t.oid = a.atttypid
        UNION ALL
        SELECT format('%s.%I', m.relation::regclass, m.name), 'is part of the partition key'
          FROM member m
         WHERE EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = m.relation AND m.number = ANY (partattrs::smallint[]))
            OR EXISTS (SELECT FROM pg_depend d JOIN pg_partitioned_table ON partrelid = d.objid
                        WHERE d.classid = 'pg_class'::regclass AND d.objid = m.relation AND d.refclassid = 'pg_class'::regclass
                          AND d.refobjid = m.relation AND d.refobjsubid = m.number)
        UNION ALL
        SELECT format('%s.%I', a.attrelid::regclass, a.attname), 'is generated from the column'
          FROM place p JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_attrdef e ON e.oid = d.objid AND (e.adrelid, e.adnum) <> (p.relation, p.number)
          JOIN pg_attribute a ON a.attrelid = e.adrelid AND a.attnum = e.adnum
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass), CASE
                   WHEN contype = 'x' THEN 'is an exclusion constraint on the column'
                   WHEN contype IN ('p', 'u') AND condeferrable THEN 'is deferrable, which its replacement cannot be before the switch'
                   WHEN contype = 'c' AND conrelid <> p.own AND coninhcount = 0 THEN 'exists only on a partition'
                   WHEN to_jsonb(k) ->> 'conperiod' = 'true' THEN 'is a temporal constraint'
                   WHEN to_jsonb(k) ->> 'conenforced' = 'false' THEN 'is not enforced'
                   WHEN contype = 'f' AND EXISTS (SELECT FROM generate_subscripts(conkey, 1) i
                        WHERE conkey[i] = p.number AND (confrelid, confkey[i]) NOT IN (SELECT relation, number FROM member))
                        THEN format('references %s: convert the column of that table, and this one is converted with it', confrelid::regclass) END
          FROM place p JOIN pg_constraint k ON k.conrelid = p.relation AND p.number = ANY (k.conkey) AND k.conparentid = 0
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass),
               format('is not valid, so some rows might not be filled: ALTER TABLE %s VALIDATE CONSTRAINT %I', conrelid::regclass, conname)
          FROM pg_constraint WHERE contype IN ('c', 'n') AND NOT convalidated AND conrelid IN (SELECT oid FROM relation)
           -- Those of the new columns are validated in their time; those of another job, once their columns are filled.
           AND NOT EXISTS (SELECT FROM member m JOIN pg_attribute a ON a.attrelid = m.relation AND a.attname = m.new_name
                            WHERE m.relation = conrelid AND a.attnum = ANY (conkey))
           AND conname !~ '^id_gen_convert_[0-9]+$'
           -- One that is not enforced rejects no row.
           AND coalesce(to_jsonb(pg_constraint) ->> 'conenforced', '') <> 'false'
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass), CASE
                   WHEN confrelid <> p.own THEN format('references the partition %s', confrelid::regclass)
                   ELSE format('references the partitioned table %s: it cannot be recreated while the table is in use', confrelid::regclass) END
          FROM place p JOIN pg_constraint k ON k.contype = 'f' AND k.confrelid = p.relation AND p.number = ANY (k.confkey)
               AND k.conparentid = 0 AND k.conrelid NOT IN (SELECT oid FROM relation WHERE oid <> own)
         WHERE p.relation <> p.own OR EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = p.relation)
        UNION ALL
        SELECT format('publication %I', pubname), CASE
                   WHEN puballtables THEN 'publishes all tables, and subscribers lack the new column: drop it, and publish the other tables by their names'
                   WHEN listed IS NOT NULL THEN format('publishes %1$s, and subscribers lack the new column: ALTER PUBLICATION %2$I DROP TABLE %1$s', listed::regclass, pubname)
                   ELSE format('publishes schema %1$I, and subscribers lack the new column: ALTER PUBLICATION %2$I DROP TABLES IN SCHEMA %1$I, and publish its other tables by their names', schemaname, pubname) END
          FROM relation JOIN pg_namespace n ON n.oid = relation.relnamespace
          JOIN pg_publication_tables ON (schemaname, tablename) = (n.nspname, relation.relname)
          JOIN pg_publication USING (pubname)
          LEFT JOIN LATERAL (
               SELECT prrelid FROM pg_publication_rel WHERE prpubid = pg_publication.oid AND prrelid IN (relation.oid, own)
                ORDER BY prrelid = own LIMIT 1) AS rel (listed) ON true
        UNION ALL
        SELECT format('rule %I of %s', rulename, ev_class::regclass), 'may change the rows that are written'
          FROM relation JOIN pg_rewrite ON ev_class = relation.oid
        UNION ALL
        SELECT format('materialized view %s', oid::regclass), 'uses the column' FROM seen JOIN pg_class USING (oid) WHERE relkind = 'm'
        UNION ALL
        SELECT pg_describe_object(classid, objid, 0), 'depends on a view that must be recreated'
          FROM seen JOIN pg_class c USING (oid)
          JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype IN ('n', 'a')
               AND NOT (d.classid = 'pg_rewrite'::regclass AND EXISTS (
                   SELECT FROM pg_rewrite r JOIN pg_class s ON s.oid = r.ev_class WHERE r.oid = d.objid AND s.relkind IN ('v', 'm') AND r.rulename = '_RETURN'))
         WHERE c.relkind = 'v'
        UNION ALL
        SELECT format('view %s', oid::regclass), 'belongs to an extension'
          FROM seen JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = oid AND d.deptype = 'e'
        UNION ALL
        SELECT format('view %s', c.oid::regclass), CASE
                   WHEN relpersistence = 't' THEN 'is temporary: drop it or end its session'
                   WHEN NOT pg_has_role(c.relowner, 'USAGE') THEN 'belongs to another role'
                   WHEN NOT has_schema_privilege(c.relnamespace, 'CREATE') THEN format('is in a schema where you cannot recreate it: GRANT CREATE ON SCHEMA %s TO %I', c.relnamespace::regnamespace, current_user) END
          FROM seen JOIN pg_class c USING (oid) WHERE c.relkind = 'v'
        UNION ALL
        SELECT format('view %s', c.oid::regclass), CASE
                   WHEN NOT has_schema_privilege(c.relowner, c.relnamespace, 'CREATE') THEN format('is in a schema where its owner cannot create it: GRANT CREATE ON SCHEMA %s TO %I', c.relnamespace::regnamespace, pg_get_userbyid(c.relowner))
                   -- That privilege is of PostgreSQL 16 and later.
                   WHEN NOT pg_has_role(c.relowner, CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'USAGE' END)
                        THEN format('belongs to a role that you cannot make its owner: GRANT %I TO %I WITH SET TRUE', pg_get_userbyid(c.relowner), current_user) END
          FROM seen JOIN pg_class c USING (oid) WHERE c.relkind = 'v' AND c.relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
        UNION ALL
        SELECT format('view %s', r.ev_class::regclass), format('reads a schema that you cannot use: GRANT USAGE ON SCHEMA %s TO %I', used.namespace::regnamespace, current_user)
          FROM seen JOIN pg_rewrite r ON r.ev_class = seen.oid JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
          LEFT JOIN pg_class c ON d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid
          LEFT JOIN pg_proc f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid,
               LATERAL (SELECT coalesce(c.relnamespace, f.pronamespace)) AS used (namespace)
         WHERE NOT has_schema_privilege(used.namespace, 'USAGE')
        UNION ALL
        SELECT format('trigger %I of %s', t.tgname, t.tgrelid::regclass), CASE
                   WHEN NOT has_schema_privilege(f.pronamespace, 'USAGE') THEN format('has a function in a schema that you cannot use: GRANT USAGE ON SCHEMA %s TO %I', f.pronamespace::regnamespace, current_user)
                   WHEN NOT has_function_privilege(f.oid, 'EXECUTE') THEN format('has a function that you cannot use: GRANT EXECUTE ON FUNCTION %s TO %I', f.oid::regprocedure, current_user) END
          FROM place p JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_trigger t ON t.oid = d.objid AND t.tgparentid = 0 AND NOT t.tgisinternal JOIN pg_proc f ON f.oid = t.tgfoid
        UNION ALL
        -- A constant of an array, row or range is read when a definition or default is, and calls the functions of types in it. For a
        -- view, its author needs no privilege on the table.
        SELECT called.object, format('uses type %s of another role, whose functions would be called: %s', string_agg(DISTINCT called.type, ', '), called.remedy)
          FROM (
            WITH RECURSIVE part (object, remedy, type) AS (
                SELECT text.object, text.remedy, constant[1]::oid
                  FROM (SELECT format('view %s', c.oid::regclass), format('DROP VIEW %s CASCADE', c.oid::regclass), r.ev_action::text
                          FROM seen JOIN pg_class c USING (oid) JOIN pg_rewrite r ON r.ev_class = c.oid AND r.rulename = '_RETURN' WHERE c.relkind = 'v'
                         UNION ALL
                        SELECT format('policy %I of %s', polname, polrelid::regclass), format('DROP POLICY %I ON %s', polname, polrelid::regclass),
                               concat(polqual::text, polwithcheck::text)
                          FROM place p JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.refclassid = 'pg_class'::regclass
                               AND d.refobjid = p.relation AND d.refobjsubid = p.number
                          JOIN pg_policy ON pg_policy.oid = d.objid
                         UNION ALL
                        SELECT format('constraint %I of %s', conname, conrelid::regclass), format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
                               conbin::text
                          FROM place p JOIN pg_constraint ON contype = 'c' AND conrelid = p.relation AND p.number = ANY (conkey) AND coninhcount = 0
                         UNION ALL
                        SELECT format('index %s', indexrelid::regclass), format('DROP INDEX %s', indexrelid::regclass), concat(indexprs::text, indpred::text)
                          FROM indexed JOIN pg_index USING (indexrelid) WHERE indexrelid NOT IN (SELECT inhrelid FROM pg_inherits)
                         UNION ALL
                        SELECT format('statistics object %s.%I', stxnamespace::regnamespace, stxname), format('DROP STATISTICS %s.%I', stxnamespace::regnamespace, stxname),
                               stxexprs::text
                          FROM place p JOIN pg_statistic_ext ON stxrelid = p.relation AND stxexprs::text ~ format(':varattno %s\\M', p.number)
                         UNION ALL
                        SELECT format('default of %s.%I', adrelid::regclass, attname), format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', adrelid::regclass, attname),
                               adbin::text
                          FROM place p JOIN pg_attrdef ON (adrelid, adnum) = (p.relation, p.number) JOIN pg_attribute ON (attrelid, attnum) = (adrelid, adnum)
                         WHERE p.relation = p.own) AS text (object, remedy, tree),
                       regexp_matches(text.tree, ':consttype (\\d+) :consttypmod -?\\d+ :constcollid \\d+ :constlen -?\\d+ :constbyval \\w+ :constisnull false', 'g') AS constant
                 UNION
                SELECT format('trigger %I of %s', t.tgname, t.tgrelid::regclass), format('DROP TRIGGER %I ON %s', t.tgname, t.tgrelid::regclass), u.refobjid
                  FROM place p JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.refclassid = 'pg_class'::regclass
                       AND d.refobjid = p.relation AND d.refobjsubid = p.number
                  JOIN pg_trigger t ON t.oid = d.objid
                  JOIN pg_depend u ON (u.classid, u.objid, u.refclassid) = (d.classid, t.oid, 'pg_type'::regclass)
                 UNION
                SELECT part.object, part.remedy, inner_type.oid
                  FROM part JOIN pg_type t ON t.oid = part.type,
                       ",
    inner_types!(),
    ")
            SELECT part.object, part.remedy, y.oid::regtype::text
              FROM part JOIN pg_type y ON y.oid = part.type AND y.oid >= 16384
             -- An array calls functions of its elements only.
             WHERE y.typtype <> 'e' AND NOT (y.typtype = 'b' AND y.typelem <> 0) AND NOT pg_has_role(y.typowner, current_user, 'MEMBER')
               AND NOT EXISTS (SELECT FROM relation WHERE pg_has_role(y.typowner, relation.relowner, 'MEMBER'))) AS called (object, remedy, type)
         GROUP BY called.object, called.remedy
        UNION ALL
        SELECT format('sequence %s', oid::regclass), format('belongs to another role: ALTER SEQUENCE %s OWNER TO %I', oid::regclass, current_user)
          FROM filling JOIN pg_class ON oid = sequence WHERE NOT pg_has_role(relowner, 'USAGE')
        UNION ALL
        SELECT format('policy %I of %s', polname, c.oid::regclass), 'is on a table of another role'
          FROM place p JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_policy ON pg_policy.oid = d.objid JOIN pg_class c ON c.oid = polrelid
         WHERE NOT pg_has_role(c.relowner, 'USAGE')
        UNION ALL
        SELECT format('statistics object %s.%I', stxnamespace::regnamespace, stxname), CASE
                   WHEN NOT pg_has_role(stxowner, 'USAGE') THEN 'belongs to another role'
                   WHEN NOT has_schema_privilege(stxowner, stxnamespace, 'CREATE') THEN format('is in a schema where its owner cannot create it: GRANT CREATE ON SCHEMA %s TO %I', stxnamespace::regnamespace, pg_get_userbyid(stxowner))
                   WHEN NOT has_schema_privilege(stxnamespace, 'CREATE') THEN format('is in a schema where you cannot recreate it: GRANT CREATE ON SCHEMA %s TO %I', stxnamespace::regnamespace, current_user) END
          FROM place p JOIN pg_depend d ON d.classid = 'pg_statistic_ext'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_statistic_ext s ON s.oid = d.objid
        UNION ALL
        SELECT oid::regclass::text, format('is in a schema where you cannot create indexes: GRANT CREATE ON SCHEMA %s TO %I', relnamespace::regnamespace, current_user)
          FROM relation
         WHERE NOT has_schema_privilege(relnamespace, 'CREATE') AND relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
        UNION ALL
        SELECT pg_describe_object(d.classid, d.objid, d.objsubid), format('uses the row type of view %s, which must be recreated', c.oid::regclass)
          FROM seen JOIN pg_class c USING (oid) JOIN pg_type t ON t.oid = c.reltype
          JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (t.oid, t.typarray) AND d.deptype = 'n'
         WHERE c.relkind = 'v'
        UNION ALL
        SELECT pg_describe_object(d.classid, d.objid, 0), 'depends on the column'
          FROM place p JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number
         WHERE d.classid NOT IN ('pg_attrdef'::regclass, 'pg_class'::regclass, 'pg_constraint'::regclass, 'pg_policy'::regclass,
                                 'pg_publication_rel'::regclass, 'pg_rewrite'::regclass, 'pg_statistic_ext'::regclass, 'pg_trigger'::regclass)
        UNION ALL
        SELECT format('trigger %I of %s', t.tgname, t.tgrelid::regclass), 'exists only on a partition'
          FROM place p JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_trigger t ON t.oid = d.objid AND t.tgparentid = 0 AND t.tgrelid <> p.own
        UNION ALL
        SELECT format('trigger %I of %s', tgname, tgrelid::regclass), format('fires after the triggers of the job, which would miss its changes: rename it to sort before zz_id_gen_, with ALTER TRIGGER %I ON %s RENAME TO ...', tgname, tgrelid::regclass)
          FROM relation JOIN pg_trigger ON tgrelid = relation.oid JOIN pg_proc p ON p.oid = tgfoid
         WHERE p.pronamespace IS DISTINCT FROM to_regnamespace('id_gen_convert') AND NOT tgisinternal AND tgparentid = 0
           AND tgname > 'zz_id_gen_' AND tgenabled <> 'D'
           -- For each row, before it is inserted or updated.
           AND tgtype & 3 = 3 AND tgtype & 20 <> 0
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass),
               format('references no row where %1$I is NULL: ALTER TABLE %2$s ALTER COLUMN %1$I SET NOT NULL', a.attname, conrelid::regclass)
          FROM place p JOIN pg_constraint k ON k.contype = 'f' AND k.conrelid = p.relation AND p.number = ANY (k.conkey)
               AND k.confmatchtype = 's' AND k.conparentid = 0
          JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey) AND a.attnum <> p.number AND NOT a.attnotnull
        UNION ALL
        SELECT format('sequence %s', s.seqrelid::regclass), 'is used up, and new rows need a number of it'
               -- A job that has begun counts on it.
               || CASE WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = m.relation AND attname = m.new_name) THEN ''
                       ELSE format(': ALTER TABLE %s ALTER COLUMN %I DROP %s', m.relation::regclass, m.name, CASE d.deptype WHEN 'i' THEN 'IDENTITY' ELSE 'DEFAULT' END) END
          FROM (SELECT * FROM member LIMIT 1) AS m
          JOIN pg_sequence s ON NOT s.seqcycle
          LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.seqrelid AND d.deptype = 'i'
               AND d.refclassid = 'pg_class'::regclass AND d.refobjid = m.relation AND d.refobjsubid = m.number
         WHERE (d.objid IS NOT NULL OR s.seqrelid IN (SELECT sequence FROM filling))
           AND CASE WHEN has_sequence_privilege(s.seqrelid, 'USAGE, SELECT')
                    THEN pg_sequence_last_value(s.seqrelid)::numeric + s.seqincrement NOT BETWEEN s.seqmin AND s.seqmax END"
);

/// Triggers that would fire for each row that the job writes. Each batch looks again.
pub const FIRING: &str = "
        SELECT format('trigger %I of %s', tgname, tgrelid::regclass), 'would fire for each row that the job writes'
               || CASE WHEN tgenabled IN ('A', 'R') THEN format(': ALTER TABLE %s ENABLE TRIGGER %I', tgrelid::regclass, tgname)
                       ELSE format('; to prevent that, a superuser can run: GRANT SET ON PARAMETER session_replication_role TO %I', current_user) END
          FROM relation JOIN pg_trigger ON tgrelid = relation.oid JOIN pg_proc p ON p.oid = tgfoid
         WHERE p.pronamespace IS DISTINCT FROM to_regnamespace('id_gen_convert') AND NOT tgisinternal AND tgtype & 16 <> 0 AND tgenabled <> 'D'
           AND (tgenabled IN ('A', 'R') OR NOT has_parameter_privilege('session_replication_role', 'SET'))";

/// Further obstacles to the start of a job. Parameters: whether old rows get new values, whether new rows get an old value after the
/// switch, and the new type.
const OF_START: &str = "
        SELECT oid::regclass::text, format('belongs to another role: log in as %I', pg_get_userbyid(relowner))
          FROM relation WHERE relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass), CASE contype
                   WHEN 'f' THEN CASE WHEN NOT convalidated THEN 'is not valid, so referenced rows may be missing' END
                   WHEN 'c' THEN 'depends on the old values' END
          FROM place p JOIN pg_constraint k ON k.conrelid = p.relation AND p.number = ANY (k.conkey) AND k.conparentid = 0
         WHERE $1
        UNION ALL
        SELECT pg_describe_object(d.classid, d.objid, 0), CASE
                   WHEN $1 AND d.classid = 'pg_policy'::regclass THEN 'depends on the old values'
                   WHEN $1 AND pg_get_expr(i.indpred, i.indrelid) !~ '^[(][^()]* IS (NOT )?NULL[)]$' THEN 'has a condition on the old values' END
          FROM place p JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number
          LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
        UNION ALL
        SELECT format('default of %s.%I', p.relation::regclass, a.attname), 'is an old value'
          FROM place p JOIN pg_attrdef e ON e.adrelid = p.relation AND e.adnum = p.number
          JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum = p.number
         WHERE $1 AND (p.relation, p.number) <> (SELECT relation, number FROM member LIMIT 1) AND p.relation = p.own
        UNION ALL
        SELECT format('unique index %s', index::regclass), 'might reject new rows after the switch, which have no old value, because the key has no default'
          FROM strict WHERE NOT $2
        UNION ALL
        SELECT format('index %s', indexrelid::regclass), format('has operator class %s, which does not fit the new type: DROP INDEX %s', opcname, indexrelid::regclass)
          FROM classed WHERE opcintype <> $3::regtype";

/// Whether PostgreSQL itself changes the type of the columns, and nothing is lost: it does not while these depend on them, or
/// where the type comes from elsewhere, and a domain's constraints would go.
const CAN_WIDEN: &str = "
    SELECT NOT EXISTS (
               SELECT FROM place p JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass
                      AND d.refobjid = p.relation AND d.refobjsubid = p.number
                 LEFT JOIN pg_attrdef e ON d.classid = 'pg_attrdef'::regclass AND e.oid = d.objid
                 LEFT JOIN pg_attribute a ON a.attrelid = e.adrelid AND a.attnum = e.adnum
                WHERE d.classid = ANY ('{pg_rewrite,pg_trigger,pg_policy,pg_proc,pg_publication_rel}'::regclass[]) OR a.attgenerated <> '')
       AND NOT EXISTS (
               SELECT FROM place p JOIN pg_class c ON c.oid = p.relation JOIN pg_type t ON t.oid = c.reloftype
                UNION ALL
               SELECT FROM place p JOIN pg_attribute a ON (a.attrelid, a.attnum) = (p.relation, p.number)
                 JOIN pg_type t ON t.oid = a.atttypid
                WHERE t.typtype = 'd' OR p.relation = p.own AND a.attinhcount > 0)
       AND NOT EXISTS (
               SELECT FROM place p JOIN pg_class c ON c.oid = p.relation JOIN pg_type t ON t.oid = c.reltype
                 JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (t.oid, t.typarray) AND d.deptype = 'n')
       AND NOT EXISTS (
               SELECT FROM place p JOIN pg_partitioned_table ON partrelid = p.relation AND p.number = ANY (partattrs::smallint[]))
       -- It makes the indexes again, too.
       AND NOT EXISTS (SELECT FROM classed WHERE opcintype <> 'bigint'::regtype)
       AND NOT EXISTS (
               SELECT FROM indexed JOIN pg_constraint k ON k.contype IN ('p', 'u') AND k.conindid = indexrelid
                 JOIN pg_depend d ON d.refclassid = 'pg_constraint'::regclass AND d.refobjid = k.oid AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass)
                UNION ALL
               SELECT FROM indexed JOIN pg_constraint k ON k.contype = 'f' AND k.conindid = indexrelid
                WHERE NOT EXISTS (SELECT FROM place p WHERE p.relation = k.confrelid AND p.number = ANY (k.confkey)))";

/// Refuses, if there is anything.
///
/// # Errors
/// What is in the way.
pub fn refuse(members: &[Member], source: &Source, goal: &Goal) -> Result<(), Error> {
    let new_values = goal.created_at.is_some();
    let query = query_about(
        members,
        &format!(
            "{CONTEXT} SELECT DISTINCT object, reason FROM ({OBSTACLES} UNION ALL {LOSSES} UNION ALL {FIRING} UNION ALL {OF_START}) AS obstacle (object, reason)
              WHERE reason IS NOT NULL ORDER BY 1, 2"
        ),
    );
    let arguments = [
        new_values.into(),
        has_old_values(&members[0], source).into(),
        goal.target.type_name().into(),
    ];
    let found = rows(&query, &arguments, |row| {
        Ok(in_error(&format!("{} {}", string(row.get(1)?), string(row.get(2)?))))
    })?;
    if found.is_empty() {
        return Ok(());
    }
    let Column { table, name, .. } = &source.column;
    let column = in_error(&format!("{table}.{name}"));
    // PostgreSQL reads constants again, too, when it changes a type.
    let reads_constants = found.iter().any(|text| text.contains("whose functions would be called"));
    let is_narrow = source.kind == Kind::Narrow && !new_values && !reads_constants;
    let can_widen = || {
        let query = query_about(members, &format!("{CONTEXT}{CAN_WIDEN}"));
        rows(&query, &[], |row| row.get::<bool>(1))
    };
    let widen = (is_narrow && can_widen()? == [Some(true)])
        .then(|| in_error(&format!("ALTER TABLE {table} ALTER COLUMN {name} TYPE bigint;")));
    Err(Refusal::InTheWay { column, found, widen }.into())
}
