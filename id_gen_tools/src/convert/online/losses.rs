//! What would be lost or changed in silence: what a column has that the one in its place would not get, and what follows the
//! place of a column and not its name.

/// Further rows of the obstacles, in terms of theirs.
pub const LOSSES: &str = r#"
        SELECT object, reason FROM (
            WITH RECURSIVE stored (origin, type) AS (
                SELECT oid, reltype FROM relation
                 UNION
                SELECT s.origin, CASE d.classid WHEN 'pg_type'::regclass THEN d.objid ELSE c.reltype END
                  FROM stored s JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = s.type
                  LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'c'
                 WHERE d.classid = 'pg_type'::regclass OR c.oid IS NOT NULL)
            SELECT format('%s.%I', c.oid::regclass, a.attname),
                   format('stores rows of %s; they would lose the old column', s.origin::regclass)
                   || CASE WHEN c.relkind IN ('r', 'p') AND NOT a.atthasdef
                                AND NOT EXISTS (SELECT FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = c.oid AND refobjsubid = a.attnum)
                           THEN format(': ALTER TABLE %1$s ALTER COLUMN %2$I TYPE jsonb USING to_jsonb(%2$I)', c.oid::regclass, a.attname) ELSE '' END
              FROM stored s JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = s.type AND d.classid = 'pg_class'::regclass
              JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm', 'f') AND NOT c.relispartition
              JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND NOT a.attisdropped AND a.attinhcount = 0) AS rows (object, reason)
        UNION ALL
        SELECT format('%s.%I', p.relation::regclass, a.attname),
               format('has a security label, which the new column would lack: SECURITY LABEL FOR %I ON COLUMN %s.%I IS NULL', l.provider, p.relation::regclass, a.attname)
          FROM place p JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum = p.number
          JOIN pg_seclabel l ON l.classoid = 'pg_class'::regclass AND l.objoid = p.relation AND l.objsubid = p.number
        UNION ALL
        SELECT format('view %s', c.oid::regclass), 'has a security label and must be recreated: '
               || CASE l.objsubid WHEN 0 THEN format('SECURITY LABEL FOR %I ON VIEW %s IS NULL', l.provider, c.oid::regclass)
                       ELSE format('SECURITY LABEL FOR %I ON COLUMN %s.%I IS NULL', l.provider, c.oid::regclass, a.attname) END
          FROM seen JOIN pg_class c USING (oid)
          JOIN pg_seclabel l ON l.classoid = 'pg_class'::regclass AND l.objoid = c.oid
          LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = l.objsubid
         WHERE c.relkind = 'v'
        UNION ALL
        SELECT format('rule %I of %s', r.rulename, c.oid::regclass), 'uses the column'
          FROM place p JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_rewrite r ON r.oid = d.objid AND r.rulename <> '_RETURN' JOIN pg_class c ON c.oid = r.ev_class
         WHERE c.oid NOT IN (SELECT oid FROM relation)
        UNION ALL
        SELECT format('trigger %I of %s', own.tgname, own.tgrelid::regclass), CASE
                   WHEN own.tgenabled <> t.tgenabled THEN format('is not enabled as that of %s, as it would be after the switch: ALTER TABLE %s %s TRIGGER %I',
                        t.tgrelid::regclass, own.tgrelid::regclass,
                        CASE t.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE' END, own.tgname)
                   WHEN obj_description(own.oid, 'pg_trigger') IS NOT NULL THEN format('has a comment, which would be lost: COMMENT ON TRIGGER %I ON %s IS NULL', own.tgname, own.tgrelid::regclass) END
          FROM place p JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
          JOIN pg_trigger t ON t.oid = d.objid JOIN pg_trigger own ON own.tgparentid = t.oid
         WHERE p.relation = p.own
        UNION ALL
        SELECT format('%s.%I', p.relation::regclass, a.attname), format('is a column of a partition with its own %s, which would be lost: %s', found.what, found.remedy)
          FROM place p JOIN member m ON m.relation = p.own
          JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum = p.number AND a.attname = m.name
          JOIN pg_attribute o ON o.attrelid = m.relation AND o.attnum = m.number
          LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
          LEFT JOIN pg_attrdef f ON f.adrelid = o.attrelid AND f.adnum = o.attnum,
               LATERAL (VALUES (pg_get_expr(e.adbin, e.adrelid), pg_get_expr(f.adbin, f.adrelid), format('ALTER TABLE %s ALTER COLUMN %I ', a.attrelid::regclass, a.attname)))
                       AS has (by_default, parents, alter),
               LATERAL (VALUES
                   (cardinality(a.attacl) > 0, 'privileges',
                    -- What was granted by a role that has the privilege on all columns goes with one on this column.
                    (SELECT concat(string_agg(DISTINCT format('GRANT %s (%I) ON %s TO %I WITH GRANT OPTION; ', x.privilege_type, a.attname, a.attrelid::regclass, pg_get_userbyid(x.grantor)), '')
                                       FILTER (WHERE x.grantor <> c.relowner AND NOT EXISTS (
                                           SELECT FROM aclexplode(a.attacl) AS own WHERE (own.grantee, own.privilege_type, own.is_grantable) = (x.grantor, x.privilege_type, true))),
                                   format('REVOKE ALL (%I) ON %s FROM ', a.attname, a.attrelid::regclass),
                                   string_agg(DISTINCT CASE role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(role)) END, ', ')
                                       FILTER (WHERE role = x.grantee OR role <> c.relowner), ' CASCADE')
                       FROM pg_class c, aclexplode(a.attacl) AS x, unnest(ARRAY[x.grantee, x.grantor]) AS role WHERE c.oid = a.attrelid)),
                   (a.attnotnull AND NOT o.attnotnull, 'NOT NULL',
                    (SELECT format('ALTER TABLE %s ', a.attrelid::regclass) || coalesce(string_agg(format('DROP CONSTRAINT %I, ', conname), ''), '') || format('ALTER COLUMN %I DROP NOT NULL', a.attname)
                       FROM pg_constraint WHERE conrelid = a.attrelid AND contype = 'p' AND a.attnum = ANY (conkey) AND conparentid = 0)),
                   -- The key gets another default anyway, also where a partition has none.
                   (has.by_default IS DISTINCT FROM has.parents AND NOT (has.by_default IS NULL AND m.relation = (SELECT relation FROM member LIMIT 1)), 'default',
                    has.alter || coalesce('SET DEFAULT ' || has.parents, 'DROP DEFAULT')),
                   (col_description(a.attrelid, a.attnum) IS NOT NULL, 'comment', format('COMMENT ON COLUMN %s.%I IS NULL', a.attrelid::regclass, a.attname)),
                   (a.attstattarget >= 0 AND a.attstattarget IS DISTINCT FROM o.attstattarget, 'statistics target', has.alter || 'SET STATISTICS -1'),
                   (EXISTS (SELECT FROM unnest(a.attoptions) AS option WHERE option !~ '^pg_' AND option <> ALL (coalesce(o.attoptions, '{}'))), 'options',
                    has.alter || (SELECT format('RESET (%s)', string_agg(split_part(option, '=', 1), ', ')) FROM unnest(a.attoptions) AS option))
               ) AS found (is_own, what, remedy)
         WHERE p.relation <> p.own AND found.is_own
        UNION ALL
        SELECT pg_describe_object(d.classid, d.objid, 0), 'uses the column of a partition'
          FROM place p JOIN pg_depend d ON d.classid IN ('pg_policy'::regclass, 'pg_statistic_ext'::regclass) AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = p.relation AND d.refobjsubid = p.number
         WHERE p.relation <> p.own
        UNION ALL
        SELECT text.object, CASE
                   WHEN text.tree ~ (listed.pattern || '0 :relid (' || (SELECT string_agg(oid::text, '|') FROM relation) || ')\M')
                        THEN format('lists names for the columns of %s by their position, which changes: recreate it without them',
                             (SELECT oid::regclass FROM relation WHERE text.tree ~ (listed.pattern || '0 :relid ' || oid || '\M') LIMIT 1))
                   WHEN text.is_view AND text.tree ~ (listed.pattern || '2\M') THEN 'lists names for the columns of a join by their position, which changes: recreate it without them'
                   -- PostgreSQL writes down the columns of a function by their position, also where nobody named them.
                   WHEN text.tree ~ ':rtekind 3\M' THEN
                        (SELECT format('reads the columns of function %s by their position, which changes: %s', f.oid::regprocedure, text.remedy)
                           FROM pg_depend d JOIN pg_proc f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
                           JOIN relation ON relation.reltype = f.prorettype
                          WHERE (d.classid, d.objid) = (text.classid, text.objid) LIMIT 1) END
          FROM (SELECT format('view %s', c.oid::regclass), r.ev_action::text, true, format('DROP VIEW %s CASCADE', c.oid::regclass), 'pg_rewrite'::regclass, r.oid
                  FROM seen JOIN pg_class c USING (oid) JOIN pg_rewrite r ON r.ev_class = c.oid AND r.rulename = '_RETURN' WHERE c.relkind = 'v'
                 UNION ALL
                SELECT format('policy %I of %s', polname, polrelid::regclass), concat(polqual::text, polwithcheck::text), false,
                       format('DROP POLICY %I ON %s', polname, polrelid::regclass), d.classid, d.objid
                  FROM place p JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.refclassid = 'pg_class'::regclass
                       AND d.refobjid = p.relation AND d.refobjsubid = p.number
                  JOIN pg_policy ON pg_policy.oid = d.objid) AS text (object, tree, is_view, remedy, classid, objid),
               (VALUES (':alias \{ALIAS :aliasname (\\.|[^\s\\])* :colnames \((\\.|[^\\)])*\)\} :eref \{ALIAS :aliasname (\\.|[^\s\\])* :colnames \((\\.|[^\\)])*\)\} :rtekind ')) AS listed (pattern)
        UNION ALL
        SELECT pg_describe_object(d.classid, d.objid, 0), format('makes a row of %s from columns by their position, which changes: recreate it after the switch', relation.oid::regclass)
          FROM relation JOIN pg_type t ON t.oid = relation.reltype
          JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (t.oid, t.typarray)
          LEFT JOIN pg_proc f ON d.classid = 'pg_proc'::regclass AND f.oid = d.objid
         WHERE d.classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass)
            OR concat(f.proargdefaults::text, f.prosqlbody::text) ~ format(':row_typeid %s\M', t.oid)
        UNION ALL
        SELECT format('index %s', i.indexrelid::regclass), format('uses whole rows, which change: DROP INDEX %s', i.indexrelid::regclass)
          FROM relation JOIN pg_index i ON i.indrelid = relation.oid
         WHERE concat(i.indexprs::text, i.indpred::text) ~ ':varattno 0\M'
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass), format('uses whole rows, which change: ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
          FROM relation JOIN pg_constraint k ON k.conrelid = relation.oid AND k.coninhcount = 0
         WHERE k.conbin::text ~ ':varattno 0\M'
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass), CASE
                   WHEN obj_description(k.oid, 'pg_constraint') IS NOT NULL THEN format('has a comment, which would be lost: COMMENT ON CONSTRAINT %I ON %s IS NULL', conname, conrelid::regclass)
                   WHEN connoinherit THEN format('is NO INHERIT, which would be lost: ALTER TABLE %s ALTER CONSTRAINT %I INHERIT', conrelid::regclass, conname)
                   -- Names that PostgreSQL has to cut are left out.
                   WHEN coninhcount = 0 AND octet_length(c.relname || a.attname) < 50
                        AND regexp_replace(conname, '[0-9]+$', '') <> c.relname || '_' || a.attname || '_not_null'
                        THEN format('has a name that would be lost: ALTER TABLE %s RENAME CONSTRAINT %I TO %I', conrelid::regclass, conname, c.relname || '_' || a.attname || '_not_null') END
          FROM place p JOIN pg_constraint k ON k.contype = 'n' AND k.conrelid = p.relation AND p.number = ANY (k.conkey)
          JOIN pg_class c ON c.oid = p.relation JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum = p.number
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass), format('has a comment, which would be lost: COMMENT ON CONSTRAINT %I ON %s IS NULL', conname, conrelid::regclass)
          FROM place p JOIN pg_constraint k ON k.contype IN ('c', 'f') AND k.conrelid = p.relation AND p.number = ANY (k.conkey)
         WHERE p.relation <> p.own AND obj_description(k.oid, 'pg_constraint') IS NOT NULL
        UNION ALL
        SELECT format('trigger %I of %s', t.tgname, t.tgrelid::regclass),
               format('belongs to foreign key %I and is not enabled as usual, which would be lost; a superuser can run: ALTER TABLE %s ENABLE TRIGGER %I', k.conname, t.tgrelid::regclass, t.tgname)
          FROM place p JOIN pg_constraint k ON k.contype = 'f'
               AND (k.conrelid = p.relation AND p.number = ANY (k.conkey) OR k.confrelid = p.relation AND p.number = ANY (k.confkey))
          JOIN pg_trigger t ON t.tgconstraint = k.oid AND t.tgenabled <> 'O'
        UNION ALL
        SELECT format('index %s', i.indexrelid::regclass), CASE
                   WHEN NOT i.indisvalid THEN format('is not valid and would be lost: DROP INDEX %s', i.indexrelid::regclass)
                   WHEN a.attnum IS NOT NULL THEN format('has a statistics target, which would be lost: ALTER INDEX %s ALTER COLUMN %s SET STATISTICS -1', i.indexrelid::regclass, a.attnum) END
          FROM indexed JOIN pg_index i USING (indexrelid)
          LEFT JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attstattarget >= 0
        UNION ALL
        SELECT pg_describe_object(x.classid, x.objid, 0), format('depends on extension %I, which would be lost: ALTER %s NO DEPENDS ON EXTENSION %1$I', e.extname,
                   CASE WHEN t.oid IS NULL THEN format('INDEX %s', x.objid::regclass) ELSE format('TRIGGER %I ON %s', t.tgname, t.tgrelid::regclass) END)
          FROM (SELECT 'pg_class'::regclass, indexrelid FROM indexed
                 UNION
                SELECT d.classid, d.objid FROM place p JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.refclassid = 'pg_class'::regclass
                       AND d.refobjid = p.relation AND d.refobjsubid = p.number) AS made_again (classid, objid)
          JOIN pg_depend x USING (classid, objid) JOIN pg_extension e ON x.deptype = 'x' AND e.oid = x.refobjid
          LEFT JOIN pg_trigger t ON x.classid = 'pg_trigger'::regclass AND t.oid = x.objid
        UNION ALL
        SELECT granted.object, CASE
                   WHEN x.grantor <> granted.owner THEN format('has privileges that %1$I granted, whose grantor would be another role: '
                        -- One that may grant the privilege on all columns, and has none on this one, could not be revoked.
                        || CASE WHEN granted.columns <> '' AND NOT EXISTS (
                               SELECT FROM aclexplode(granted.acl) AS own WHERE (own.grantee, own.privilege_type, own.is_grantable) = (x.grantor, x.privilege_type, true))
                               THEN 'GRANT %2$s ON %3$s TO %1$I WITH GRANT OPTION; ' ELSE '' END
                        || 'REVOKE %2$s ON %3$s FROM %1$I CASCADE', pg_get_userbyid(x.grantor), x.privilege_type || granted.columns, granted.relation)
                   WHEN granted.columns = '' AND EXISTS (
                        SELECT privilege_type FROM aclexplode(acldefault('r', granted.owner))
                        EXCEPT SELECT privilege_type FROM aclexplode(granted.acl) WHERE grantee = granted.owner)
                        THEN format('lacks privileges of its owner, which would be granted: GRANT ALL ON %s TO %I', granted.relation, pg_get_userbyid(granted.owner)) END
          FROM (SELECT format('view %s', c.oid::regclass), c.oid::regclass, '', c.relowner, c.relacl FROM seen JOIN pg_class c USING (oid) WHERE c.relkind = 'v'
                 UNION ALL
                SELECT format('%s.%I', c.oid::regclass, a.attname), c.oid::regclass, format(' (%I)', a.attname), c.relowner, a.attacl
                  FROM (SELECT oid, NULL::smallint FROM seen UNION ALL SELECT relation, number FROM member) AS given (oid, number)
                  JOIN pg_class c USING (oid) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = coalesce(given.number, a.attnum)) AS granted (object, relation, columns, owner, acl),
               aclexplode(granted.acl) AS x
        UNION ALL
        SELECT format('type %s', c.oid::regclass), CASE
                   WHEN obj_description(t.oid, 'pg_type') IS NOT NULL THEN format('has a comment, which would be lost: COMMENT ON TYPE %s IS NULL', c.oid::regclass)
                   WHEN NOT (t.typacl @> acldefault('T', t.typowner) AND t.typacl <@ acldefault('T', t.typowner))
                        THEN format('has privileges, which would be lost: DROP VIEW %s', c.oid::regclass) END
          FROM seen JOIN pg_class c USING (oid) JOIN pg_type t ON t.oid = c.reltype WHERE c.relkind = 'v'
        UNION ALL
        -- A row that is inserted with a key gets an old value from the sequence, too.
        SELECT format('sequence %s', f.sequence::regclass),
               format('cannot be used by %s, which may insert into %s: GRANT USAGE ON SEQUENCE %s TO %1$s', x.role, c.oid::regclass, f.sequence::regclass)
          FROM filling f, pg_class c,
               LATERAL (SELECT grantee, privilege_type FROM aclexplode(c.relacl)
                         UNION SELECT b.grantee, b.privilege_type FROM pg_attribute a, aclexplode(a.attacl) AS b WHERE a.attrelid = c.oid) AS granted,
               LATERAL (SELECT CASE granted.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(granted.grantee) END,
                               CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(granted.grantee)) END) AS x (name, role)
         WHERE c.oid IN (SELECT relation FROM place WHERE own = f.own UNION SELECT oid FROM seen WHERE pg_relation_is_updatable(oid, false) & 8 = 8)
           AND granted.privilege_type = 'INSERT' AND NOT has_sequence_privilege(x.name, f.sequence, 'USAGE, UPDATE')
           AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = x.name AND pg_has_role(oid, c.relowner, 'USAGE'))
        UNION ALL
        SELECT pg_describe_object(d.classid, d.objid, 0), format('uses sequence %s, which is dropped with the old column', o.objid::regclass)
                   || CASE o.deptype WHEN 'a' THEN format(': ALTER SEQUENCE %s OWNED BY NONE', o.objid::regclass) ELSE '' END
          FROM place p JOIN pg_depend o ON o.classid = 'pg_class'::regclass AND o.refclassid = 'pg_class'::regclass AND o.refobjid = p.relation
               AND o.refobjsubid = p.number AND o.deptype IN ('a', 'i')
          JOIN pg_class s ON s.oid = o.objid AND s.relkind = 'S'
          JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid AND d.deptype = 'n'
         WHERE NOT EXISTS (SELECT FROM pg_attrdef e JOIN place q ON (q.relation, q.number) = (e.adrelid, e.adnum) WHERE d.classid = 'pg_attrdef'::regclass AND e.oid = d.objid)
        UNION ALL
        SELECT format('trigger %I of %s', t.tgname, t.tgrelid::regclass), format('sets the key, so new rows would not get new IDs: ALTER TABLE %s DISABLE TRIGGER %I', t.tgrelid::regclass, t.tgname)
          FROM (SELECT * FROM member LIMIT 1) AS m JOIN place p ON p.own = m.relation
          JOIN pg_trigger t ON t.tgrelid = p.relation AND t.tgparentid = 0 AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 7 = 7
          JOIN pg_proc f ON f.oid = t.tgfoid,
               LATERAL (SELECT '\mnew\s*\.\s*"?' || regexp_replace(m.name, '(\W)', '\\\1', 'g') || '"?\s*') AS key (pattern)
         WHERE f.pronamespace IS DISTINCT FROM to_regnamespace('id_gen_convert')
           AND f.prosrc ~* (key.pattern || ':=|(;|\mbegin|\mthen|\melse|\mloop)\s*' || key.pattern || '=|\minto\s+(strict\s+)?' || key.pattern)
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass),
               format('uses index %s, which has the column and is replaced: ALTER TABLE %s DROP CONSTRAINT %I', conindid::regclass, conrelid::regclass, conname)
          FROM indexed JOIN pg_constraint k ON k.contype = 'f' AND k.conindid = indexrelid
         WHERE NOT EXISTS (SELECT FROM place p WHERE p.relation = k.confrelid AND p.number = ANY (k.confkey))
        UNION ALL
        SELECT pg_describe_object(d.classid, d.objid, 0), format('depends on constraint %I of %s, which is replaced: recreate it after the switch', conname, conrelid::regclass)
          FROM indexed JOIN pg_constraint k ON k.contype IN ('p', 'u') AND k.conindid = indexrelid
          JOIN pg_depend d ON d.refclassid = 'pg_constraint'::regclass AND d.refobjid = k.oid AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass)
          LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
         WHERE r.ev_class IS NULL OR r.ev_class NOT IN (SELECT oid FROM seen)"#;
