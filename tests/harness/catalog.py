"""What the catalogs say of the extension, in words that hold in every database: no OIDs, and the schema left open."""

from harness.cluster import Cluster

# Every object that belongs to the extension, and for functions all there is to know about one.
MEMBERS = """
    SELECT replace(identity, quote_ident(e.extnamespace::regnamespace::text) || '.', '@extschema@.')
           || coalesce(' ' || (to_jsonb(p) - ARRAY['oid', 'pronamespace', 'proowner', 'proacl'])::text
                       || ' ' || coalesce(p.proacl::text, 'acl by default'), '')
           || ' -- ' || coalesce(obj_description(d.objid, d.classid::regclass::text), 'no comment')
      FROM pg_extension e
      JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
     CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid)
      LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
     WHERE e.extname = 'id_gen'
    UNION ALL
    SELECT 'extension ' || (to_jsonb(e) - ARRAY['oid', 'extowner', 'extnamespace'])::text
           || ' -- ' || coalesce(obj_description(e.oid, 'pg_extension'), 'no comment')
      FROM pg_extension e WHERE extname = 'id_gen'
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
