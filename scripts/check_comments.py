"""Every function, view and column of a view of the extensions says what it is in psql's `\\d` commands: one without a
COMMENT fails the lint."""

import sys

from harness import Cluster
from harness.catalog import CREATE_ALL, OURS

WITHOUT_COMMENT = f"""
    WITH member AS (
        SELECT classid, objid
          FROM pg_extension e
          JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
         WHERE {OURS})
    SELECT objid::regprocedure::text
      FROM member
     WHERE classid = 'pg_proc'::regclass AND obj_description(objid, 'pg_proc') IS NULL
    UNION ALL
    SELECT format('%s.%s', objid::regclass, attname)
      FROM member JOIN pg_class c ON classid = 'pg_class'::regclass AND c.oid = objid AND relkind = 'v'
      JOIN pg_attribute ON attrelid = objid AND attnum > 0
     WHERE col_description(objid, attnum) IS NULL
     ORDER BY 1
"""

with Cluster("lint") as cluster:
    cluster.psql(CREATE_ALL)
    missing = cluster.psql(WITHOUT_COMMENT)

if missing:
    sys.exit(f"These have no COMMENT:\n{missing}")
