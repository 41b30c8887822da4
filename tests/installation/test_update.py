"""ALTER EXTENSION id_gen UPDATE leads from every released version to exactly what is installed afresh.

`sql/id_gen--A.sql` is the install script of released version A, as it was; `sql/id_gen--A--B.sql` leads from A to B. A
version before the first is made up here, so that the way is walked before there is a release, and by faulty scripts.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import Cluster, SqlError
from harness.catalog import fresh, installed

# What the catalogs hold is the same, and nothing is preloaded here.
pytestmark = pytest.mark.any_mode

SQL = Path(__file__).parents[2] / "sql"
RELEASED = {
    path.stem.removeprefix("id_gen--"): path for path in SQL.glob("id_gen--*.sql") if path.stem.count("--") == 1
}

MADE_UP = "0.0.0"
# What the made-up version lacks, and a script to the current one brings.
ADDED = re.compile(r"CREATE FUNCTION @extschema@\.uuidv7_max\(.*?COMMENT ON FUNCTION.*?';\n", re.DOTALL)

FAULTS = {
    "nothing": ("", ""),
    "another volatility": (" IMMUTABLE ", " STABLE "),
    "not strict": (" STRICT ", " "),
    "another name of an argument": ("(ts timestamptz)", "(instant timestamptz)"),
    "another symbol": ("'uuidv7_max'", "'uuidv7_min'"),
    "another comment": ("largest", "biggest"),
    "other privileges": (
        "COMMENT ON",
        "REVOKE EXECUTE ON FUNCTION @extschema@.uuidv7_max(timestamptz) FROM PUBLIC;\nCOMMENT ON",
    ),
}

TOMORROW = """
    CREATE FUNCTION @extschema@.snowflake_tomorrow() RETURNS bigint
        AS 'MODULE_PATHNAME', 'snowflake_tomorrow' LANGUAGE c;
"""
NO_SUCH_FUNCTION = "42883"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def updated(cluster: Cluster) -> Iterator[str]:
    """A new database, to be updated."""
    with cluster.database("updated") as dbname:
        yield dbname


def directory(cluster: Cluster) -> Path:
    return cluster.server.directory("sharedir") / "extension"


def current(cluster: Cluster) -> str:
    return cluster.psql("SELECT default_version FROM pg_available_extensions WHERE name = 'id_gen'")


@contextmanager
def scripts(cluster: Cluster, **contents: str) -> Iterator[None]:
    """Scripts of the server, which is the tests' own, by what follows the extension's name in theirs."""
    files = {directory(cluster) / f"id_gen--{name}.sql": content for name, content in contents.items()}
    try:
        for file, content in files.items():
            file.write_text(content)
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)


@contextmanager
def made_up_version(cluster: Cluster, replaced: str = "", by: str = "") -> Iterator[None]:
    """The made-up version, and a script that leads from it; with a mistake, if one is given."""
    version = current(cluster)
    today = (directory(cluster) / f"id_gen--{version}.sql").read_text()
    added = ADDED.search(today)
    assert added
    script = added[0].replace(replaced, by) if replaced else added[0]
    with scripts(cluster, **{MADE_UP: ADDED.sub("", today), f"{MADE_UP}--{version}": script}):
        yield


def update(cluster: Cluster, dbname: str, version: str) -> None:
    cluster.psql(f"CREATE EXTENSION id_gen VERSION '{version}'", dbname)
    assert installed(cluster, dbname) != fresh(cluster)
    cluster.psql("ALTER EXTENSION id_gen UPDATE", dbname)


@pytest.mark.parametrize("version", [MADE_UP, *RELEASED])
def test_an_update_is_as_good_as_a_new_installation(cluster: Cluster, updated: str, version: str) -> None:
    frozen = {version: path.read_text() for version, path in RELEASED.items()}
    with made_up_version(cluster), scripts(cluster, **frozen):
        update(cluster, updated, version)
        assert installed(cluster, updated) == fresh(cluster)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_update_is_noticed(cluster: Cluster, updated: str, fault: str) -> None:
    with made_up_version(cluster, *FAULTS[fault]):
        update(cluster, updated, MADE_UP)
        assert (installed(cluster, updated) == fresh(cluster)) == (fault == "nothing")


def test_sql_that_is_newer_than_the_library(cluster: Cluster, updated: str) -> None:
    """The error names function and file, and the installed version stays whole."""
    version = current(cluster)
    cluster.psql("CREATE EXTENSION id_gen", updated)
    before = installed(cluster, updated)
    with scripts(cluster, **{f"{version}--tomorrow": TOMORROW}), pytest.raises(SqlError) as refused:
        cluster.psql("ALTER EXTENSION id_gen UPDATE TO 'tomorrow'", updated)
    assert_names_function_and_file(refused.value)
    assert installed(cluster, updated) == before
    assert cluster.psql("SELECT public.uuidv7() IS NOT NULL", updated) == "t"


def test_a_library_that_is_older_than_the_catalogs(cluster: Cluster, updated: str) -> None:
    """As after the package was put back, and the database was not: what the library has works."""
    cluster.psql("CREATE EXTENSION id_gen", updated)
    cluster.psql("UPDATE pg_proc SET prosrc = 'snowflake_tomorrow' WHERE proname = 'uuidv7_max'", updated)
    with pytest.raises(SqlError) as refused:
        cluster.psql("SELECT uuidv7_max(now())", updated)
    assert_names_function_and_file(refused.value)
    assert cluster.psql("SELECT public.uuidv7() IS NOT NULL", updated) == "t"


def assert_names_function_and_file(error: SqlError) -> None:
    assert error.sqlstate == NO_SUCH_FUNCTION
    assert re.fullmatch(r'could not find function "snowflake_tomorrow" in file ".*/id_gen.so"', error.message or "")
