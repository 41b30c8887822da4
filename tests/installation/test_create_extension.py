"""CREATE EXTENSION and DROP EXTENSION: who may run them, what they may then call, and that nothing is left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import GENERATING, Cluster, SqlError
from harness.arguments import ORDINARY, values
from harness.catalog import EXTENSIONS, functions

pytestmark = pytest.mark.every_version("extension scripts and their search path differ")

NOT_PERMITTED = "42501"
CALL = "(SELECT 1::bigint AS i) call"

# And whatever else monitoring may not call.
ONLY_SUPERUSERS = {
    "id_gen_clock_accept", "id_gen_copy_accept", "id_gen_layout_accept",
    "id_gen_reservation_reset", "id_gen_stat_reset",
}  # fmt: skip

# What \df shows at most.
MOST_FUNCTIONS = 95

# Every row of the catalogs in which an extension leaves traces, without OIDs, which go on.
TRACES = """
    SELECT 'function ' || oid::regprocedure FROM pg_proc
    UNION ALL SELECT 'type ' || oid::regtype FROM pg_type
    UNION ALL SELECT 'relation ' || oid::regclass FROM pg_class WHERE relkind <> 't'
    UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_t'
    UNION ALL SELECT 'extension ' || extname FROM pg_extension
    UNION ALL SELECT 'comments ' || count(*) FROM pg_description
    UNION ALL SELECT 'dependencies ' || count(*) FROM pg_depend
    UNION ALL SELECT 'shared dependencies ' || count(*) FROM pg_shdepend
    UNION ALL SELECT 'initial privileges ' || count(*) FROM pg_init_privs
    ORDER BY 1
"""


# Whatever is not for everybody, and for whom it is.
RESTRICTED = """
    SELECT i.identity, coalesce(p.proacl, c.relacl)
      FROM pg_extension e
      JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
      CROSS JOIN pg_identify_object(d.classid, d.objid, 0) i
      LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
      LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
     WHERE e.extname = '{extension}' AND coalesce(p.proacl, c.relacl) IS NOT NULL
"""
KINDS = ("FUNCTIONS", "TABLES", "SEQUENCES")
EACH = pytest.mark.parametrize("extension", EXTENSIONS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server with a role that owns a database and is nobody beyond."""
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE ROLE migrator LOGIN; CREATE ROLE colleague LOGIN;")
        yield cluster


@pytest.fixture
def owned(cluster: Cluster) -> Iterator[str]:
    """A new database of the migrator's, without the extension."""
    with cluster.database("owned", owner="migrator") as dbname:
        yield dbname


def as_migrator(cluster: Cluster, dbname: str, sql: str) -> str:
    return cluster.psql(f"SET SESSION AUTHORIZATION migrator; {sql}", dbname)


def assert_not_permitted(cluster: Cluster, dbname: str, sql: str) -> None:
    with pytest.raises(SqlError) as refused:
        as_migrator(cluster, dbname, sql)
    assert refused.value.sqlstate == NOT_PERMITTED, sql


@EACH
def test_dropping_leaves_nothing(cluster: Cluster, owned: str, extension: str) -> None:
    if extension == "id_gen_tools":
        as_migrator(cluster, owned, "CREATE EXTENSION id_gen")
    before = cluster.psql(TRACES, owned)
    as_migrator(cluster, owned, f"CREATE EXTENSION {extension}")
    assert cluster.psql(TRACES, owned) != before
    as_migrator(cluster, owned, f"DROP EXTENSION {extension}")
    assert cluster.psql(TRACES, owned) == before


def test_one_screen_lists_the_functions(cluster: Cluster, owned: str) -> None:
    as_migrator(cluster, owned, "CREATE EXTENSION id_gen")
    listed = [line.split("|")[1] for line in cluster.psql(r"\df", owned).splitlines()]
    assert 50 < len(listed) <= MOST_FUNCTIONS, "\n".join(listed)


def test_who_installs_it_is_no_superuser(cluster: Cluster, owned: str) -> None:
    as_migrator(cluster, owned, "CREATE EXTENSION id_gen")
    only_superusers = [each for each in functions(cluster, owned) if each.is_for_superusers]
    assert {each.bare_name for each in only_superusers} >= ONLY_SUPERUSERS
    for each in only_superusers:
        assert_not_permitted(cluster, owned, f"SELECT {each.call(values(each, ORDINARY, 'ORDINARY'))} FROM {CALL}")
        signature = each.call(type for _, type in each.arguments)
        assert_not_permitted(cluster, owned, f"GRANT EXECUTE ON FUNCTION {signature} TO colleague")
        assert_not_permitted(cluster, owned, f"GRANT EXECUTE ON FUNCTION {signature} TO migrator")


def test_who_installs_it_does_not_own_its_functions(cluster: Cluster, owned: str) -> None:
    as_migrator(cluster, owned, "CREATE EXTENSION id_gen")
    for sql in (
        "CREATE OR REPLACE FUNCTION snowflake_next() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
        "CREATE OR REPLACE FUNCTION id_gen_clock_accept() RETURNS void LANGUAGE sql AS ''",
        "ALTER FUNCTION snowflake_next() OWNER TO migrator",
        "ALTER FUNCTION snowflake_next() SECURITY DEFINER",
        "ALTER EXTENSION id_gen DROP FUNCTION snowflake_next()",
    ):
        assert_not_permitted(cluster, owned, sql)
    assert int(as_migrator(cluster, owned, "SELECT snowflake_next()")) > 0


@EACH
def test_who_may_not_create_in_the_database_may_not_install_it(cluster: Cluster, owned: str, extension: str) -> None:
    error = refusal_of(cluster, owned, f"SET SESSION AUTHORIZATION colleague; CREATE EXTENSION {extension} CASCADE")
    assert error.sqlstate == NOT_PERMITTED


# A call that is a superuser's, or of whom that superuser grants it to.
RESTRICTED_CALLS = {
    "id_gen": "SELECT id_gen_reservation_reset(above => now())",
    "id_gen_mask": "SELECT id_mask(1, 'orders')",
}


@pytest.mark.parametrize("extension", RESTRICTED_CALLS)
def test_default_privileges_open_nothing(cluster: Cluster, owned: str, extension: str) -> None:
    """Whether a superuser installs it or not, its objects are a superuser's."""
    restricted_in = RESTRICTED.format(extension=extension)
    as_migrator(cluster, owned, f"CREATE EXTENSION {extension}")
    restricted = {*cluster.psql(restricted_in, owned).splitlines()}
    assert len(restricted) > 10
    as_migrator(cluster, owned, f"DROP EXTENSION {extension}")
    for kind in KINDS:
        for schema in ("", "IN SCHEMA public"):
            default = f"ALTER DEFAULT PRIVILEGES {schema} GRANT ALL ON {kind} TO"
            cluster.psql(f"{default} colleague, PUBLIC; {default} pg_monitor WITH GRANT OPTION", owned)
    for role in ("migrator", "postgres"):
        cluster.psql(f"SET SESSION AUTHORIZATION {role}; CREATE EXTENSION {extension}", owned)
        assert restricted <= {*cluster.psql(restricted_in, owned).splitlines()}, role
        for caller in ("migrator", "colleague"):
            call = f"SET SESSION AUTHORIZATION {caller}; {RESTRICTED_CALLS[extension]}"
            assert refusal_of(cluster, owned, call).sqlstate == NOT_PERMITTED
        if extension == "id_gen":
            assert int(cluster.psql("SET SESSION AUTHORIZATION colleague; SELECT snowflake_next()", owned)) > 0
        cluster.psql(f"DROP EXTENSION {extension}", owned)


def test_installing_the_other_takes_no_privilege(cluster: Cluster, owned: str) -> None:
    """What was granted on one extension stays granted when the other is installed."""
    cluster.psql("CREATE EXTENSION id_gen; CREATE EXTENSION id_gen_mask", owned)
    cluster.psql("GRANT EXECUTE ON FUNCTION id_gen_stat_reset(), id_mask(bigint, text) TO colleague", owned)
    for again in RESTRICTED_CALLS:
        (other,) = set(RESTRICTED_CALLS) - {again}
        before = cluster.psql(RESTRICTED.format(extension=other), owned)
        assert "colleague" in before
        cluster.psql(f"BEGIN; DROP EXTENSION {again}; CREATE EXTENSION {again}; COMMIT", owned)
        assert cluster.psql(RESTRICTED.format(extension=other), owned) == before
        grant = {"id_gen": "id_gen_stat_reset()", "id_gen_mask": "id_mask(bigint, text)"}[again]
        cluster.psql(f"GRANT EXECUTE ON FUNCTION {grant} TO colleague", owned)


def refusal_of(cluster: Cluster, dbname: str, sql: str) -> SqlError:
    with pytest.raises(SqlError) as refused:
        cluster.psql(sql, dbname)
    return refused.value


def test_tools_are_in_a_schema_of_their_own(cluster: Cluster, owned: str) -> None:
    """Whoever owns the database installs them, wherever id_gen is, and everybody may call them."""
    as_migrator(
        cluster,
        owned,
        """
        CREATE SCHEMA app; CREATE SCHEMA "Of tools";
        CREATE EXTENSION id_gen SCHEMA app;
        CREATE TABLE public.item (id bigint PRIMARY KEY DEFAULT app.snowflake_next());
        GRANT SELECT ON public.item TO colleague;
        CREATE EXTENSION id_gen_tools SCHEMA "Of tools";
        INSERT INTO public.item SELECT FROM generate_series(1, 10);
        GRANT USAGE ON SCHEMA app, "Of tools" TO colleague;
        """,
    )
    profiled = """SELECT ids FROM "Of tools".id_gen_profile('public.item', 'id') WHERE section = 'worker'"""
    for role in ("migrator", "colleague"):
        assert cluster.psql(f"SET SESSION AUTHORIZATION {role}; SET search_path = ''; {profiled}", owned) == "10"
    error = refusal_of(cluster, owned, "DROP EXTENSION id_gen")
    assert "extension id_gen_tools depends on extension id_gen" in str(error)
    as_migrator(cluster, owned, "DROP EXTENSION id_gen_tools; INSERT INTO public.item DEFAULT VALUES")


@pytest.mark.parametrize("sections", [["pre-data", "data", "post-data"], [None]], ids=["by sections", "at once"])
def test_another_schema_is_dumped_and_restored(
    cluster: Cluster, owned: str, tmp_path: Path, sections: list[str | None]
) -> None:
    as_migrator(
        cluster,
        owned,
        """
        CREATE SCHEMA app;
        CREATE EXTENSION id_gen SCHEMA app;
        CREATE SCHEMA shop;
        CREATE TABLE shop.item (id bigint PRIMARY KEY DEFAULT app.snowflake_next(), u uuid DEFAULT app.uuidv7());
        CREATE INDEX ON shop.item (app.snowflake_timestamp(id, 'default'));
        INSERT INTO shop.item SELECT FROM generate_series(1, 100);
        """,
    )
    rows = "SELECT * FROM shop.item ORDER BY id"
    dump = tmp_path / "dump"
    cluster.run("pg_dump", "--format=custom", f"--file={dump}", dbname=owned)
    with cluster.database("restored", owner="migrator") as restored:
        for section in sections:
            options = [f"--section={section}"] if section else []
            cluster.run(
                "pg_restore", "--exit-on-error", "-U", "migrator", "--no-owner", *options, f"--dbname={restored}", dump
            )
        assert cluster.psql(rows, restored) == cluster.psql(rows, owned)
        cluster.psql("SET search_path = ''; INSERT INTO shop.item DEFAULT VALUES", restored)
        assert cluster.psql("SELECT count(DISTINCT id), count(DISTINCT u) FROM shop.item", restored) == "101|101"
        assert_not_permitted(cluster, restored, "SELECT app.id_gen_clock_accept()")
