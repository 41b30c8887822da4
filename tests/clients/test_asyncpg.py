"""asyncpg on our IDs, as docs/clients.md shows it. It sends and reads all values in binary."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import pytest

from clients.asyncpg import recipes
from clients.shop import NAMES, stored
from harness import Cluster

Answer = TypeVar("Answer")

pytestmark = pytest.mark.any_server


def run(cluster: Cluster, recipe: Callable[..., Awaitable[Answer]], *arguments: object) -> Answer:
    async def connected() -> Answer:
        connection = await asyncpg.connect(host=str(cluster.socket_dir), user="shop", database="shop")
        try:
            return await recipe(connection, *arguments)
        finally:
            await connection.close()

    return asyncio.run(connected())


def test_key_of_one_row(cluster: Cluster) -> None:
    assert [str(run(cluster, recipes.add_customer, "Ada"))] == stored(cluster)


@pytest.mark.parametrize("recipe", [recipes.add_customers, recipes.copy_customers_with_keys])
def test_keys_of_many_rows_in_their_order(cluster: Cluster, recipe: Callable[..., Awaitable[list[int]]]) -> None:
    keys = run(cluster, recipe, NAMES)
    assert keys == sorted(set(keys))
    assert stored(cluster, "id || ' ' || name") == [f"{key} {name}" for key, name in zip(keys, NAMES, strict=True)]


@pytest.mark.parametrize("recipe", [recipes.add_customers_and_forget, recipes.copy_customers])
def test_the_default_fills_in_keys(cluster: Cluster, recipe: Callable[..., Awaitable[None]]) -> None:
    run(cluster, recipe, NAMES)
    assert stored(cluster, "name") == NAMES


def test_types(cluster: Cluster) -> None:
    async def ask(connection: asyncpg.Connection) -> asyncpg.Record:
        return await connection.fetchrow("SELECT snowflake_next(), uuidv7(), snowflake_next_array(2)")

    number, uuid_, array = run(cluster, ask)
    assert type(number) is int
    assert isinstance(uuid_, uuid.UUID) and uuid_.version == 7
    assert number < array[0] < array[1]
