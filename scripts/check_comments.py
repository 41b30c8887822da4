"""Every function of the extension says what it does in `\\df+`: a function without a COMMENT fails the lint."""

import sys

from harness import Cluster

WITHOUT_COMMENT = """
    SELECT p.oid::regprocedure
      FROM pg_extension e
      JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
      JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
     WHERE e.extname = 'id_gen' AND obj_description(p.oid, 'pg_proc') IS NULL
     ORDER BY 1
"""

with Cluster("lint") as cluster:
    cluster.psql("CREATE EXTENSION id_gen")
    missing = cluster.psql(WITHOUT_COMMENT)

if missing:
    sys.exit(f"These functions have no COMMENT:\n{missing}")
