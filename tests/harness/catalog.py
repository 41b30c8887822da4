"""What the catalogs say of the extension, in words that hold in every database: no OIDs, and the schema left open."""

from harness.cluster import Cluster

# Every object that belongs to the extension, and all that its kind has: a function its row, a view its query and its
# columns, and each its privileges. Names come with their schema, so that it can be left open.
MEMBERS = """
    SET search_path = '';
    WITH extension AS (SELECT * FROM pg_catalog.pg_extension WHERE extname = 'id_gen')
    SELECT replace(line, schema || '.', '@extschema@.')
      FROM (
        SELECT quote_ident(e.extnamespace::regnamespace::text) AS schema,
               concat_ws(' ', identity,
                   (to_jsonb(p) - ARRAY['oid', 'pronamespace', 'proowner', 'proacl'])::text,
                   pg_get_viewdef(c.oid),
                   (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attacl), ', '
                                      ORDER BY attnum)
                      FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0),
                   c.reloptions, coalesce(p.proacl::text, c.relacl::text, 'acl by default'),
                   '--', coalesce(obj_description(d.objid, d.classid::regclass::text), 'no comment')) AS line
          FROM extension e
          JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
         CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid)
          LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
        UNION ALL
        SELECT quote_ident(extnamespace::regnamespace::text),
               concat_ws(' ', 'extension', (to_jsonb(e) - ARRAY['oid', 'extowner', 'extnamespace'])::text,
                   '--', coalesce(obj_description(oid, 'pg_extension'), 'no comment'))
          FROM extension e
      ) members
     ORDER BY 1
"""


def installed(cluster: Cluster, dbname: str = "postgres") -> list[str]:
    """The extension as it is installed in a database: a line for each of its objects, and one for itself."""
    return cluster.psql(MEMBERS, dbname).splitlines()


def fresh(cluster: Cluster) -> list[str]:
    """The extension as this server installs it today."""
    with cluster.database("fresh") as dbname:
        cluster.psql("CREATE EXTENSION id_gen", dbname)
        return installed(cluster, dbname)
