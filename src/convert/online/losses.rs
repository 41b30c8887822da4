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
                   format('stores rows of %s, which would lose the old column', s.origin::regclass)
                   || CASE WHEN c.relkind IN ('r', 'p') THEN format(': ALTER TABLE %1$s ALTER COLUMN %2$I TYPE jsonb USING to_jsonb(%2$I)', c.oid::regclass, a.attname) ELSE '' END
              FROM stored s JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = s.type AND d.classid = 'pg_class'::regclass
              JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm', 'f') AND NOT c.relispartition
              JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND NOT a.attisdropped) AS rows (object, reason)
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
                    format('REVOKE ALL (%I) ON %s FROM ', a.attname, a.attrelid::regclass)
                    || (SELECT string_agg(DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END, ', ') FROM aclexplode(a.attacl))),
                   (a.attnotnull AND NOT o.attnotnull, 'NOT NULL', has.alter || 'DROP NOT NULL'),
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
        SELECT text.object, format('lists names for the columns of %s by their position, which changes: recreate it without them', relation.oid::regclass)
          FROM relation, (
               SELECT format('view %s', c.oid::regclass), pg_get_viewdef(c.oid) FROM seen JOIN pg_class c USING (oid) WHERE c.relkind = 'v'
                UNION ALL
               SELECT format('policy %I of %s', polname, polrelid::regclass), concat_ws(' ', pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
                 FROM place p JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.refclassid = 'pg_class'::regclass
                      AND d.refobjid = p.relation AND d.refobjsubid = p.number
                 JOIN pg_policy ON pg_policy.oid = d.objid) AS text (object, definition)
         WHERE text.definition ~ ('(^|[^\w".])' || regexp_replace(relation.oid::regclass::text, '(\W)', '\\\1', 'g') || ' ("([^"]|"")+"|\w+)\(')
        UNION ALL
        SELECT format('view %s', r.ev_class::regclass), 'lists names for the columns of a join by their position, which changes: recreate it without them'
          FROM seen JOIN pg_class c USING (oid) JOIN pg_rewrite r ON r.ev_class = c.oid AND r.rulename = '_RETURN'
         WHERE c.relkind = 'v'
           AND r.ev_action::text ~ ':alias \{ALIAS :aliasname (\\.|[^\s\\])* :colnames \((\\.|[^\\)])*\)\} :eref \{ALIAS :aliasname (\\.|[^\s\\])* :colnames \((\\.|[^\\)])*\)\} :rtekind 2\M'
        UNION ALL
        SELECT format('constraint %I of %s', conname, conrelid::regclass), CASE
                   WHEN obj_description(k.oid, 'pg_constraint') IS NOT NULL THEN format('has a comment, which would be lost: COMMENT ON CONSTRAINT %I ON %s IS NULL', conname, conrelid::regclass)
                   WHEN conname !~ '_not_null[0-9]*$' AND coninhcount = 0 THEN format('has a name that would be lost: ALTER TABLE %s RENAME CONSTRAINT %I TO %I', conrelid::regclass, conname, c.relname || '_' || a.attname || '_not_null') END
          FROM place p JOIN pg_constraint k ON k.contype = 'n' AND k.conrelid = p.relation AND p.number = ANY (k.conkey)
          JOIN pg_class c ON c.oid = p.relation JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum = p.number"#;
