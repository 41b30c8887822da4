"""In an application's database, tools that list, publish or dump its objects find none of the extension's."""

import re
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import NullPool

from clients.shop import conninfo, run_file, shop_server
from harness import Cluster, SqlError

# From PostgreSQL 18 on, the row types that come with relations are members, too.
MEMBERS = """
    SELECT DISTINCT type
      FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
     CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid)
     WHERE e.extname = 'id_gen' AND d.deptype = 'e'
       AND NOT EXISTS (SELECT FROM pg_type t WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid
                                               AND (t.typrelid <> 0 OR t.typelem <> 0))
     ORDER BY type
"""

# Relations, functions and types that users made are numbered from 16384 on; a view has a row type.
STRAYS = """
    SELECT pg_describe_object(o.classid, o.objid, 0)
      FROM (SELECT 'pg_class'::regclass AS classid, oid AS objid FROM pg_class WHERE relkind <> 'c'
            UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc
            UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typrelid = 0 AND typelem = 0
            UNION ALL SELECT 'pg_trigger'::regclass, oid FROM pg_trigger
            UNION ALL SELECT 'pg_event_trigger'::regclass, oid FROM pg_event_trigger) o
     WHERE objid >= 16384
       AND NOT EXISTS (SELECT FROM pg_depend d
                        WHERE d.classid = o.classid AND d.objid = o.objid AND d.deptype = 'e')
"""

PUBLISHED = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = 'everything'"


@pytest.fixture(scope="module", params=["public", "ids"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The extension, and nothing else, in the database of an application, which installed it itself."""
    with shop_server("guest") as cluster:
        with psycopg.connect(conninfo(cluster)) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {request.param}")
            connection.execute(f"CREATE EXTENSION id_gen SCHEMA {request.param}")
        yield cluster


def statements(dump: str) -> list[str]:
    """The statements of a dump, in one line each, without comments and settings."""
    bare = re.sub(r"^(?:--|\\|SET |SELECT pg_catalog\.set_config).*\n", "", dump + "\n", flags=re.MULTILINE)
    return [" ".join(statement.split()) for statement in bare.split(";\n") if statement.strip()]


def test_the_extension_is_aggregates_functions_and_views(cluster: Cluster) -> None:
    assert cluster.psql(MEMBERS, "shop").split("\n") == ["aggregate", "function", "view"]
    assert cluster.psql(STRAYS, "shop") == ""


def test_a_publication_for_all_tables_carries_nothing_of_ours(cluster: Cluster) -> None:
    cluster.psql("CREATE PUBLICATION everything FOR ALL TABLES", "shop")
    try:
        assert cluster.psql(PUBLISHED, "shop") == ""
        cluster.psql("CREATE TABLE theirs ()", "shop")
        assert cluster.psql(PUBLISHED, "shop") == "public|theirs"
    finally:
        cluster.psql("DROP PUBLICATION everything; DROP TABLE theirs", "shop")


def test_a_dump_holds_the_extension_and_nothing_of_it(cluster: Cluster) -> None:
    schema = cluster.psql("SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'id_gen'", "shop")
    dumped = statements(cluster.run("pg_dump", dbname="shop"))
    assert dumped[-2:] == [
        f"CREATE EXTENSION IF NOT EXISTS id_gen WITH SCHEMA {schema}",
        "COMMENT ON EXTENSION id_gen IS 'snowflake IDs, UUIDs, ULIDs, TypeIDs and other IDs generated in the database'",
    ]
    # A schema of its own was made by the application.
    assert dumped[:-2] == ([] if schema == "public" else ["CREATE SCHEMA ids", "ALTER SCHEMA ids OWNER TO shop"])


def test_sqlalchemy_finds_no_table_and_no_sequence(cluster: Cluster) -> None:
    engine = create_engine(f"postgresql+psycopg://shop@/shop?host={cluster.socket_dir}", poolclass=NullPool)
    found = inspect(engine)
    for schema in found.get_schema_names():
        if schema != "information_schema":
            assert found.get_table_names(schema) == found.get_sequence_names(schema) == []
            assert found.get_materialized_view_names(schema) == []


def test_who_may_install_it(cluster: Cluster) -> None:
    """CREATE on the database does it; where it is installed already, IF NOT EXISTS asks for nothing."""
    with cluster.database("other") as dbname:
        cluster.psql("CREATE ROLE guest LOGIN")
        where = f"host={cluster.socket_dir} user=guest dbname={dbname}"
        try:
            with psycopg.connect(where, autocommit=True) as connection:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("CREATE EXTENSION IF NOT EXISTS id_gen")
                cluster.psql(f"GRANT CREATE ON DATABASE {dbname} TO guest")
                connection.execute("CREATE EXTENSION id_gen")
                cluster.psql(f"REVOKE CREATE ON DATABASE {dbname} FROM guest")
                connection.execute("CREATE EXTENSION IF NOT EXISTS id_gen")
                [(key,)] = connection.execute("SELECT snowflake_next()")
                assert key > 0
        finally:
            cluster.psql("DROP OWNED BY guest; DROP ROLE guest", dbname)


def test_other_roles_and_a_schema_of_its_own(cluster: Cluster) -> None:
    """A default works for whoever may insert; to name a function takes USAGE on its schema."""
    call = "SET ROLE guest; SELECT ids.snowflake_next() > 0, cardinality(ids.snowflake_next_array(2))"
    insert = "SET ROLE guest; INSERT INTO invoice DEFAULT VALUES"
    with cluster.database("apart", "shop") as dbname:
        cluster.psql("CREATE ROLE guest", dbname)
        try:
            run_file(cluster, "own_schema.sql", dbname)
            cluster.psql("GRANT INSERT ON invoice TO guest", dbname)
            assert cluster.psql(call, dbname) == "t|2"
            cluster.psql(insert, dbname)

            cluster.psql("REVOKE USAGE ON SCHEMA ids FROM PUBLIC", dbname)
            with pytest.raises(SqlError, match="permission denied for schema ids"):
                cluster.psql(call, dbname)
            cluster.psql(insert, dbname)
            assert cluster.psql("SELECT count(*) FROM invoice", dbname) == "2"

            # What an administrator made beforehand: the schema asks for a privilege even so, the extension for none.
            with pytest.raises(SqlError, match="permission denied for database"):
                cluster.psql("SET ROLE guest; CREATE SCHEMA IF NOT EXISTS ids", dbname)
            cluster.psql("SET ROLE guest; CREATE EXTENSION IF NOT EXISTS id_gen SCHEMA ids", dbname)
        finally:
            cluster.psql("DROP OWNED BY guest; DROP ROLE guest", dbname)
