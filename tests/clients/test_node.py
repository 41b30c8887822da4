"""The Node recipes of docs/clients.md, each run on a server: what a client gives back is what is stored."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.shop import AS_SHOP, NAMES, create_tables, shop_server, stored
from harness import Cluster
from harness.recipe import CACHE, assert_keys, run_program, run_recipe

pytestmark = [pytest.mark.any_server, pytest.mark.long]

RECIPES = Path(__file__).parent / "node"
PACKAGES = CACHE / "node" / "node_modules"

JAVASCRIPT = ("node",)
TYPESCRIPT = ("node", "--import", "tsx")

VIEWS = ["id_gen_stat", "id_gen_stat_waits", "id_gen_stat_backends", "id_gen_stat_fleet", "id_gen_stat_shards"]
VIEWS = ["id_gen_stat", "id_gen_stat_waits", "id_gen_stat_backends", "id_gen_stat_fleet", "id_gen_stat_tickets"]

# Migrations that create the extension find it there, made by another role, just as well.
made_before = pytest.mark.parametrize("made_before", [False, True], ids=["new", "made before"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with shop_server("node") as cluster:
        yield cluster


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """The recipes beside the packages that they import: in a copy, because the tree stays as it is."""
    copy = tmp_path / "node"
    shutil.copytree(RECIPES, copy)
    (copy / "node_modules").symlink_to(PACKAGES)
    return copy


@pytest.fixture
def dbname(cluster: Cluster) -> Iterator[str]:
    """An empty database of the application's role."""
    with cluster.database("node", "shop") as dbname:
        yield dbname


@pytest.fixture
def tables(cluster: Cluster, dbname: str) -> str:
    create_tables(cluster, dbname)
    return dbname


def prepare(cluster: Cluster, dbname: str, made_before: bool) -> None:
    if made_before:
        cluster.psql("CREATE EXTENSION id_gen", dbname)


def assert_only_the_extension_left(cluster: Cluster, dbname: str) -> None:
    """The way back of a migration drops its tables."""
    assert cluster.psql("SELECT count(*) FROM pg_extension WHERE extname = 'id_gen'", dbname) == "1"
    assert cluster.psql("SELECT to_regclass('customer') IS NULL AND to_regclass('purchase') IS NULL", dbname) == "t"


def test_node_postgres(cluster: Cluster, dbname: str, recipes: Path) -> None:
    assert_keys(cluster, dbname, run_recipe(cluster, dbname, (*JAVASCRIPT, "recipe.js"), recipes / "pg", AS_SHOP))


def test_node_postgres_with_keys_taken_before(cluster: Cluster, tables: str, recipes: Path) -> None:
    keys = run_recipe(cluster, tables, (*JAVASCRIPT, "taken.js"), recipes / "pg", AS_SHOP)["keys"]
    expected = [f"{key} {name}" for key, name in zip(keys, NAMES, strict=True)]
    assert stored(cluster, "id || ' ' || name", dbname=tables) == expected


def test_node_postgres_with_bigint(cluster: Cluster, tables: str, recipes: Path) -> None:
    printed = run_recipe(cluster, tables, (*JAVASCRIPT, "bigint.js"), recipes / "pg", AS_SHOP)
    assert printed["customers"] == stored(cluster, dbname=tables)
    assert printed["found"] == ["Ada"]
    assert printed["increasing"]
    assert printed["types"] == ["bigint"] * 5
    assert "BigInt" in printed["refusal"]


def test_node_postgres_with_numbers(recipes: Path) -> None:
    with shop_server("numbers", "id_gen.layout = 'js'\n") as cluster:
        create_tables(cluster)
        printed = run_recipe(cluster, "shop", (*JAVASCRIPT, "number.js"), recipes / "pg", AS_SHOP)
        assert printed["customers"] == [int(key) for key in stored(cluster)]
        assert printed["refused"] == "9007199254740993 is too large for a number"


def test_numbers_are_refused_with_the_default_layout(cluster: Cluster, tables: str, recipes: Path) -> None:
    with pytest.raises(AssertionError, match=r"RangeError: \d+ is too large for a number"):
        run_recipe(cluster, tables, (*JAVASCRIPT, "number.js"), recipes / "pg", AS_SHOP)


@made_before
def test_knex(cluster: Cluster, dbname: str, recipes: Path, made_before: bool) -> None:
    prepare(cluster, dbname, made_before)
    directory = recipes / "knex"
    assert_keys(cluster, dbname, run_recipe(cluster, dbname, (*JAVASCRIPT, "recipe.js"), directory, AS_SHOP))
    run_program(cluster, dbname, ("npx", "knex", "migrate:rollback"), directory, AS_SHOP)
    assert_only_the_extension_left(cluster, dbname)


@made_before
def test_sequelize(cluster: Cluster, dbname: str, recipes: Path, made_before: bool) -> None:
    prepare(cluster, dbname, made_before)
    directory = recipes / "sequelize"
    printed = run_recipe(cluster, dbname, (*JAVASCRIPT, "recipe.js"), directory, AS_SHOP)
    assert_keys(cluster, dbname, printed)
    # sync({ alter: true }) types every other column and foreign key anew, each time.
    assert printed["altered"]
    for statement in printed["altered"]:
        assert 'COLUMN "id"' not in statement and "snowflake" not in statement and "uuidv7" not in statement
    run_program(cluster, dbname, (*JAVASCRIPT, "down.js"), directory, AS_SHOP)
    assert_only_the_extension_left(cluster, dbname)


@made_before
def test_typeorm(cluster: Cluster, dbname: str, recipes: Path, made_before: bool) -> None:
    prepare(cluster, dbname, made_before)
    directory = recipes / "typeorm"
    printed = run_recipe(cluster, dbname, (*TYPESCRIPT, "recipe.ts"), directory, AS_SHOP)
    assert_keys(cluster, dbname, printed)
    assert printed["drift"] == []
    run_program(cluster, dbname, (*TYPESCRIPT, "down.ts"), directory, AS_SHOP)
    assert_only_the_extension_left(cluster, dbname)


@made_before
def test_drizzle(cluster: Cluster, dbname: str, recipes: Path, made_before: bool) -> None:
    prepare(cluster, dbname, made_before)
    directory = recipes / "drizzle"
    run_program(cluster, dbname, ("bash", "migrate.sh"), directory, AS_SHOP)
    assert_keys(cluster, dbname, run_recipe(cluster, dbname, (*TYPESCRIPT, "recipe.ts"), directory, AS_SHOP))
    generated = run_program(cluster, dbname, ("npx", "drizzle-kit", "generate"), directory, AS_SHOP)
    assert "No schema changes" in generated
    push = ("bash", "-c", "npx drizzle-kit push --verbose 2>&1")
    assert "No changes detected" in run_program(cluster, dbname, push, directory, AS_SHOP)
    if made_before:
        return

    # Without the filter: the server refuses, drizzle-kit stops there and says why, but ends with 0.
    config, schema = directory / "drizzle.config.ts", directory / "schema.ts"
    filtered = config.read_text()
    config.write_text(filtered.replace("tablesFilter:", "// tablesFilter:"))
    schema.write_text(
        schema.read_text().replace('text("name").notNull(),', 'text("name").notNull(), note: text("note"),')
    )
    said = run_program(cluster, dbname, push, directory, AS_SHOP)
    assert [f'DROP VIEW "public"."{view}"' in said for view in VIEWS] == [True] * len(VIEWS)
    assert re.search("error: cannot drop view id_gen_\\w+ because extension id_gen requires it", said)
    note = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'customer'::regclass AND attname = 'note'"
    assert cluster.psql(note, dbname) == "0"

    config.write_text(filtered)
    run_program(cluster, dbname, push, directory, AS_SHOP)
    assert cluster.psql(note, dbname) == "1"
