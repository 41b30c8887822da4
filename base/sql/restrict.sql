-- Only its owner may use what the files before this one restrict, until files after it grant it. The build puts in the
-- extension's name.

-- What is created gets the default privileges of its owner, and REVOKE ... FROM PUBLIC leaves those of other roles. So they are
-- taken from all views, and from the functions on which a REVOKE was run: PostgreSQL keeps the privileges that an extension's
-- script has set. What everybody may call, others may.
DO $$
DECLARE
    each record;
BEGIN
    -- Whoever owns the extension's schema could have operators there. CREATE EXTENSION sets the path back.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOR each IN
        WITH restricted (kind, name, owner, acl) AS (
            SELECT 'TABLE', c.oid::regclass::text, c.relowner, c.relacl
              FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = '@EXTENSION@'
              JOIN pg_class c ON c.oid = d.objid
             WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
             UNION ALL
            SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner, p.proacl
              FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = '@EXTENSION@'
              JOIN pg_proc p ON p.oid = d.objid
              JOIN pg_init_privs i ON i.classoid = d.classid AND i.objoid = d.objid
             WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e')
        SELECT DISTINCT r.kind, r.name,
               CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role
          FROM restricted r, aclexplode(r.acl) x WHERE x.grantee <> r.owner
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM %s', each.kind, each.name, each.role);
    END LOOP;
END $$;
