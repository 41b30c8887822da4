"""What tests of one server with many databases share. Each file has its own fixture `server`, for all of its tests."""

from collections.abc import Iterator

import psycopg
import pytest

from harness import Cluster


@pytest.fixture
def connection(server: Cluster) -> Iterator[psycopg.Connection]:
    """A superuser's, to a database for one test."""
    with server.database("shop") as dbname:
        server.psql("CREATE EXTENSION id_gen_tools CASCADE", dbname)
        with server.connect(dbname) as connection:
            yield connection


@pytest.fixture
def owner(server: Cluster, connection: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """An ordinary role that may make schemas in the database."""
    connection.execute(
        "CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE shop TO owner; GRANT ALL ON SCHEMA public TO owner"
    )
    with server.connect("shop", user="owner") as session:
        yield session
    connection.execute("DROP OWNED BY owner CASCADE; DROP ROLE owner")
