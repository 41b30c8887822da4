"""The Node recipes of docs/clients.md, each run on a server: what a client gives back is what is stored."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import GENERATING, Cluster
from harness.recipe import CACHE, assert_keys, run_program, run_recipe

pytestmark = [pytest.mark.any_server, pytest.mark.any_mode]

RECIPES = Path(__file__).parent / "node"
PACKAGES = CACHE / "node" / "node_modules"

JAVASCRIPT = ("node",)
TYPESCRIPT = ("node", "--import", "tsx")

SHOP = """
CREATE EXTENSION id_gen;
CREATE TABLE customer (id bigint PRIMARY KEY DEFAULT snowflake_next(), name text NOT NULL)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING) as cluster:
        yield cluster


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """The recipes beside the packages that they import: in a copy, because the tree stays as it is."""
    copy = tmp_path / "node"
    shutil.copytree(RECIPES, copy)
    (copy / "node_modules").symlink_to(PACKAGES)
    return copy


def assert_nothing_left(cluster: Cluster, dbname: str) -> None:
    """The way back of a migration drops its tables and the extension."""
    assert cluster.psql("SELECT count(*) FROM pg_extension WHERE extname = 'id_gen'", dbname) == "0"
    assert cluster.psql("SELECT to_regclass('customer') IS NULL AND to_regclass('purchase') IS NULL", dbname) == "t"


def test_node_postgres(cluster: Cluster, recipes: Path) -> None:
    with cluster.database("node_postgres") as dbname:
        assert_keys(cluster, dbname, run_recipe(cluster, dbname, ("node", "recipe.js"), recipes / "pg"))


def test_node_postgres_with_bigint(cluster: Cluster, recipes: Path) -> None:
    with cluster.database("node_bigint") as dbname:
        cluster.psql(SHOP, dbname)
        printed = run_recipe(cluster, dbname, ("node", "bigint.js"), recipes / "pg")
        assert printed["customers"] == cluster.psql("SELECT id FROM customer ORDER BY id", dbname).splitlines()
        assert printed["found"] == ["Ada"]
        assert printed["increasing"]
        assert printed["types"] == ["bigint"] * 5
        assert "BigInt" in printed["refusal"]


def test_node_postgres_with_numbers(recipes: Path) -> None:
    with Cluster(conf=f"{GENERATING}id_gen.layout = 'js'\n") as cluster:
        cluster.psql(SHOP)
        printed = run_recipe(cluster, "postgres", ("node", "number.js"), recipes / "pg")
        stored = cluster.psql("SELECT id FROM customer ORDER BY id").splitlines()
        assert printed["customers"] == [int(key) for key in stored]
        assert printed["refused"] == "9007199254740993 is too large for a number"


def test_numbers_are_refused_with_the_default_layout(cluster: Cluster, recipes: Path) -> None:
    with cluster.database("node_number") as dbname:
        cluster.psql(SHOP, dbname)
        with pytest.raises(AssertionError, match=r"RangeError: \d+ is too large for a number"):
            run_recipe(cluster, dbname, ("node", "number.js"), recipes / "pg")


def test_knex(cluster: Cluster, recipes: Path) -> None:
    with cluster.database("knex") as dbname:
        assert_keys(cluster, dbname, run_recipe(cluster, dbname, ("node", "recipe.js"), recipes / "knex"))
        run_program(cluster, dbname, ("npx", "knex", "migrate:rollback"), recipes / "knex")
        assert_nothing_left(cluster, dbname)


def test_sequelize(cluster: Cluster, recipes: Path) -> None:
    with cluster.database("sequelize") as dbname:
        printed = run_recipe(cluster, dbname, ("node", "recipe.js"), recipes / "sequelize")
        assert_keys(cluster, dbname, printed)
        # sync({ alter: true }) types every other column and foreign key anew, each time.
        assert printed["altered"]
        for statement in printed["altered"]:
            assert 'COLUMN "id"' not in statement and "snowflake" not in statement and "uuidv7" not in statement
        run_program(cluster, dbname, ("node", "down.js"), recipes / "sequelize")
        assert_nothing_left(cluster, dbname)


def test_typeorm(cluster: Cluster, recipes: Path) -> None:
    directory = recipes / "typeorm"
    with cluster.database("typeorm") as dbname:
        printed = run_recipe(cluster, dbname, ("node", "--import", "tsx", "recipe.ts"), directory)
        assert_keys(cluster, dbname, printed)
        assert printed["drift"] == []
        run_program(cluster, dbname, ("node", "--import", "tsx", "down.ts"), directory)
        assert_nothing_left(cluster, dbname)


def test_drizzle(cluster: Cluster, recipes: Path) -> None:
    directory = recipes / "drizzle"
    with cluster.database("drizzle") as dbname:
        run_program(cluster, dbname, ("bash", "migrate.sh"), directory)
        assert_keys(cluster, dbname, run_recipe(cluster, dbname, ("node", "--import", "tsx", "recipe.ts"), directory))
        generated = run_program(cluster, dbname, ("npx", "drizzle-kit", "generate"), directory)
        assert "No schema changes" in generated
        push = ("npx", "drizzle-kit", "push", "--verbose")
        assert "No changes detected" in run_program(cluster, dbname, push, directory)

        # Without the filter: the server refuses, and drizzle-kit ends with 0 all the same.
        config = directory / "drizzle.config.ts"
        config.write_text(config.read_text().replace("tablesFilter:", "// tablesFilter:"))
        assert 'DROP VIEW "public"."id_gen_stat"' in run_program(cluster, dbname, push, directory)
