#!/bin/sh
# Prints id_gen_managed.sql wrapped for pg_tle, on services that have it: what registers it as an extension by the name
# id_gen_managed. Type: contrib/managed/pg_tle.sh | psql, then CREATE EXTENSION id_gen_managed;
set -eu
script=$(dirname "$0")/id_gen_managed.sql
version=$(sed -n 's/^-- Version \([0-9.]*\),.*/\1/p' "$script")
cat <<END
SELECT pgtle.install_extension('id_gen_managed', '$version',
    'Snowflakes and UUIDv7 as the extension id_gen makes them, without its library', \$id_gen_managed_pg_tle\$
$(cat "$script")
\$id_gen_managed_pg_tle\$);
END
