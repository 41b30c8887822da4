"""Every kind of ID as clients read it, as text and in binary where they can: the same that psql prints.

The kinds are what the functions in the catalog return, so that a new one is tried as soon as it exists.
"""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from clients.shop import shop_server
from harness import Cluster
from harness.arguments import ORDINARY, SHARD, values
from harness.catalog import CREATE_ALL, Function, functions
from harness.masks import MASKING, write_key_file
from harness.recipe import CACHE, run_recipe

pytestmark = pytest.mark.any_server

TYPES = ("bigint", "uuid", "text", "bigint[]")
NODE = Path(__file__).parent / "node"


def is_kind(function: Function) -> bool:
    one_value = function.result in TYPES and not (function.returns_set or function.columns)
    return function.is_of_library and one_value and not function.is_for_superusers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with shop_server("kinds", MASKING) as cluster:
        write_key_file(cluster)
        cluster.psql(CREATE_ALL, "shop")
        cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => 0)", "shop")
        yield cluster


@pytest.fixture
def kinds(cluster: Cluster) -> list[Function]:
    """The functions whose answers are in the only row of the table `kinds`, each in a column."""
    found = [function for function in functions(cluster, "shop") if is_kind(function)]
    assert {function.result for function in found} == set(TYPES)
    columns = [
        f"{function.call(values(function, ORDINARY, 'ORDINARY'))} AS c{place}" for place, function in enumerate(found)
    ]
    cluster.psql(
        f"DROP TABLE IF EXISTS kinds; CREATE TABLE kinds AS SELECT {', '.join(columns)} FROM (SELECT 1::bigint i) call;"
        " GRANT SELECT ON kinds TO shop",
        "shop",
    )
    return found


def printed(cluster: Cluster, kinds: list[Function]) -> list[str]:
    """What psql prints of each."""
    columns = ", ".join(f"c{place}::text" for place in range(len(kinds)))
    # Some have several lines.
    return cluster.psql(f"SELECT array_to_string(ARRAY[{columns}], E'\\x1e') FROM kinds", "shop").split("\x1e")


def as_text(value: object) -> str:
    """A value of Python as PostgreSQL writes it."""
    return f"{{{','.join(map(str, value))}}}" if isinstance(value, list) else str(value)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_psycopg(cluster: Cluster, kinds: list[Function], binary: bool) -> None:
    with cluster.connect("shop") as connection:
        row = connection.execute("SELECT * FROM kinds", binary=binary).fetchone()
    assert row
    assert [as_text(value) for value in row] == printed(cluster, kinds)


def test_asyncpg(cluster: Cluster, kinds: list[Function]) -> None:
    async def read() -> asyncpg.Record:
        connection = await asyncpg.connect(host=str(cluster.socket_dir), user="shop", database="shop")
        try:
            return await connection.fetchrow("SELECT * FROM kinds")
        finally:
            await connection.close()

    assert [as_text(value) for value in asyncio.run(read())] == printed(cluster, kinds)


def test_node_postgres(cluster: Cluster, kinds: list[Function], tmp_path: Path) -> None:
    recipes = tmp_path / "node"
    shutil.copytree(NODE, recipes)
    (recipes / "node_modules").symlink_to(CACHE / "node" / "node_modules")
    found = run_recipe(cluster, "shop", ("node", "kinds.js"), recipes / "pg")
    assert found["row"] == printed(cluster, kinds)
