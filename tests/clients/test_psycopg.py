"""psycopg 3 on our IDs, as docs/clients.md shows it."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from clients.psycopg import recipes
from clients.shop import NAMES, conninfo, stored
from harness import Cluster

pytestmark = pytest.mark.any_server


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[psycopg.Connection]:
    with psycopg.connect(conninfo(cluster), autocommit=True) as connection:
        yield connection


def test_key_of_one_row(cluster: Cluster, connection: psycopg.Connection) -> None:
    assert [str(recipes.add_customer(connection, "Ada"))] == stored(cluster)


def test_keys_of_many_rows_in_their_order(cluster: Cluster, connection: psycopg.Connection) -> None:
    keys = recipes.add_customers(connection, NAMES)
    assert keys == sorted(set(keys))
    assert stored(cluster, "id || ' ' || name") == [f"{key} {name}" for key, name in zip(keys, NAMES, strict=True)]


def test_copy_fills_in_keys(cluster: Cluster, connection: psycopg.Connection) -> None:
    recipes.copy_customers(connection, NAMES)
    assert stored(cluster, "name") == NAMES


def test_copy_with_keys_taken_before(cluster: Cluster, connection: psycopg.Connection) -> None:
    keys = recipes.copy_customers_with_keys(connection, NAMES)
    assert stored(cluster, "id || ' ' || name") == [f"{key} {name}" for key, name in zip(keys, NAMES, strict=True)]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_types(connection: psycopg.Connection, binary: bool) -> None:
    row = connection.execute("SELECT snowflake_next(), uuidv7(), snowflake_next_array(2)", binary=binary).fetchone()
    assert row
    number, uuid_, array = row
    assert type(number) is int
    assert isinstance(uuid_, uuid.UUID) and uuid_.version == 7
    assert number < array[0] < array[1]
