"""ALTER EXTENSION ... UPDATE leads from every released version to exactly what is installed afresh.

`sql/id_gen--A.sql` is the install script of released version A, as it was; `sql/id_gen--A--B.sql` leads from A to B.
Those of the other extensions are in their own folders. A version of id_gen before the first is made up here, so that
the way is walked before there is a release, and by faulty scripts.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import Cluster, SqlError
from harness.catalog import EXTENSIONS, fresh, installed

# What the catalogs hold is the same, and nothing is preloaded here. Scripts come to lie beside the installed ones.
pytestmark = pytest.mark.xdist_group("installed files")

ROOT = Path(__file__).parents[2]
SQL = ROOT / "sql"
# The install scripts, by extension and version.
RELEASED = {
    (extension, path.stem.removeprefix(f"{extension}--")): path
    for extension, folder in (("id_gen", SQL), *((name, ROOT / name / "sql") for name in EXTENSIONS[1:]))
    for path in folder.glob(f"{extension}--*.sql")
    if path.stem.count("--") == 1
}

MADE_UP = "0.0.0"
EACH = pytest.mark.parametrize(("extension", "version"), [("id_gen", MADE_UP), *RELEASED])
# What the made-up version lacks, and a script to the current one brings: a function, and the statistics, which have
# views and privileges.
ADDED_FUNCTION = re.compile(r"CREATE FUNCTION @extschema@\.uuidv7_max\(.*?COMMENT ON FUNCTION.*?';\n", re.DOTALL)
(ADDED_FILE,) = (
    path.read_text()
    for path in SQL.glob("*.sql")
    if not path.name.startswith("id_gen--") and "CREATE VIEW @extschema@.id_gen_stat AS" in path.read_text()
)

ADDED_GRANT = re.compile(r"GRANT SELECT ON\s+@extschema@\.id_gen_stat,.*?;\n", re.DOTALL)

# What is wrong with a script, and the words that make it so.
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
    "another query of a view": ("('id_gen_stat_waits') stat (", "('id_gen_stat_waits') statistics ("),
    "a view that fewer may read": (", @extschema@.id_gen_stat_waits, @extschema@.id_gen_stat_backends\n", ""),
}

# What the library has to know of a function to be called by it, by the function's symbol.
SIGNATURES = """
    SELECT prosrc, proargtypes::regtype[], proallargtypes::regtype[], proargmodes, prorettype::regtype, proretset
      FROM pg_proc JOIN pg_language l ON l.oid = prolang
      JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = pg_proc.oid AND d.deptype = 'e'
      JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
     WHERE e.extname = '{extension}' AND lanname = 'c'
"""

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
def scripts(cluster: Cluster, contents: Mapping[tuple[str, str], str]) -> Iterator[None]:
    """Scripts of the server, which is the tests' own, by the extension's name and what follows it in theirs."""
    files = {directory(cluster) / f"{'--'.join(name)}.sql": content for name, content in contents.items()}
    try:
        for file, content in files.items():
            # Renamed into place: other servers may run from the same files, and read one of that name.
            new = file.with_suffix(".new")
            new.write_text(content)
            new.rename(file)
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)


@contextmanager
def made_up_version(
    cluster: Cluster, *, old: tuple[str, str] = ("", ""), new: tuple[str, str] = ("", "")
) -> Iterator[None]:
    """The made-up version, and a script that leads from it; with words replaced by others in one of them."""
    version = current(cluster)
    today = (directory(cluster) / f"id_gen--{version}.sql").read_text()
    function, grant = ADDED_FUNCTION.search(today), ADDED_GRANT.search(today)
    assert function and grant and ADDED_FILE in today
    added = (function[0], ADDED_FILE, grant[0])
    before = today
    for each in added:
        before = before.replace(each, "")
    update_to_today = replaced("\n".join(added), *new)
    contents = {MADE_UP: replaced(before, *old), f"{MADE_UP}--{version}": update_to_today}
    with scripts(cluster, {("id_gen", name): content for name, content in contents.items()}):
        yield


def replaced(script: str, words: str, by: str) -> str:
    assert words in script
    return script.replace(words, by) if words else script


@contextmanager
def earlier_versions(cluster: Cluster) -> Iterator[None]:
    """The made-up version and all released ones."""
    frozen = {name: path.read_text() for name, path in RELEASED.items()}
    with made_up_version(cluster), scripts(cluster, frozen):
        yield


def signatures(cluster: Cluster, dbname: str, extension: str = "id_gen") -> set[str]:
    return set(cluster.psql(SIGNATURES.format(extension=extension), dbname).splitlines())


def update(cluster: Cluster, dbname: str, version: str, extension: str = "id_gen") -> None:
    cluster.psql(f"CREATE EXTENSION {extension} VERSION '{version}' CASCADE", dbname)
    assert installed(cluster, dbname, extension) != fresh(cluster, extension)
    cluster.psql(f"ALTER EXTENSION {extension} UPDATE", dbname)


@EACH
def test_an_update_is_as_good_as_a_new_installation(
    cluster: Cluster, updated: str, extension: str, version: str
) -> None:
    with earlier_versions(cluster):
        update(cluster, updated, version, extension)
        assert installed(cluster, updated, extension) == fresh(cluster, extension)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_update_is_noticed(cluster: Cluster, updated: str, fault: str) -> None:
    with made_up_version(cluster, new=FAULTS[fault]):
        update(cluster, updated, MADE_UP)
        assert (installed(cluster, updated) == fresh(cluster)) == (fault == "nothing")


@EACH
def test_the_library_goes_on_with_older_sql(cluster: Cluster, updated: str, extension: str, version: str) -> None:
    """As between the new package and the update: what is installed works, and is called as the library expects."""
    with earlier_versions(cluster), cluster.database("today") as today:
        cluster.psql(f"CREATE EXTENSION {extension} CASCADE", today)
        cluster.psql(f"CREATE EXTENSION {extension} VERSION '{version}' CASCADE", updated)
        assert signatures(cluster, updated, extension) <= signatures(cluster, today, extension)
        if extension == "id_gen":
            works = "SELECT public.uuidv7() IS NOT NULL, snowflake_timestamp(1) IS NOT NULL"
            assert cluster.psql(works, updated) == "t|t"


def test_what_older_sql_lacks_is_said_by_name(cluster: Cluster, updated: str) -> None:
    with made_up_version(cluster):
        cluster.psql(f"CREATE EXTENSION id_gen VERSION '{MADE_UP}'", updated)
        with pytest.raises(SqlError) as refused:
            cluster.psql("SELECT uuidv7_max(now())", updated)
        assert refused.value.sqlstate == NO_SUCH_FUNCTION
        assert "uuidv7_max" in (refused.value.message or "")
        cluster.psql("ALTER EXTENSION id_gen UPDATE; SELECT uuidv7_max(now())", updated)


def test_tools_need_an_id_gen_of_their_version(cluster: Cluster, updated: str) -> None:
    profiled = "SELECT count(*) > 1 FROM id_gen_profile('item', 'id')"
    with made_up_version(cluster):
        cluster.psql(f"CREATE EXTENSION id_gen VERSION '{MADE_UP}'; CREATE EXTENSION id_gen_tools", updated)
        cluster.psql("CREATE TABLE item AS SELECT 7::bigint AS id", updated)
        with pytest.raises(SqlError) as refused:
            cluster.psql(profiled, updated)
        assert refused.value.message == f"id_gen_tools {current(cluster)} needs id_gen {current(cluster)}"
        assert cluster.psql(f"ALTER EXTENSION id_gen UPDATE; {profiled}", updated) == "t"


def test_another_signature_of_the_same_symbol_is_noticed(cluster: Cluster, updated: str) -> None:
    """A function takes its arguments as today's SQL passes them, so one that changes needs a new symbol."""
    declared, otherwise = (f"uuidv7_min(ts timestamptz) RETURNS {result}\n" for result in ("uuid", "text"))
    with made_up_version(cluster, old=(declared, otherwise)):
        cluster.psql(f"CREATE EXTENSION id_gen VERSION '{MADE_UP}'", updated)
        with cluster.database("today") as today:
            cluster.psql("CREATE EXTENSION id_gen", today)
            assert not signatures(cluster, updated) <= signatures(cluster, today)


def test_sql_that_is_newer_than_the_library(cluster: Cluster, updated: str) -> None:
    """The error names function and file, and the installed version stays whole."""
    version = current(cluster)
    cluster.psql("CREATE EXTENSION id_gen", updated)
    before = installed(cluster, updated)
    with scripts(cluster, {("id_gen", f"{version}--tomorrow"): TOMORROW}), pytest.raises(SqlError) as refused:
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
