"""What the tests of clients share: a server with the tables of docs/clients.md, which are empty for each test.

The recipes of SQLAlchemy import `models`, as an application does whose directory is on Python's path.
"""

import sys
from collections.abc import Iterator

import pytest

from clients.shop import DIRECTORY, create_tables, shop_server
from harness import Cluster

sys.path.append(str(DIRECTORY / "sqlalchemy"))


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with shop_server(request.path.stem.removeprefix("test_")) as cluster:
        create_tables(cluster)
        yield cluster


@pytest.fixture
def cluster(server: Cluster) -> Cluster:
    server.psql("TRUNCATE customer, purchase", "shop")
    return server
