"""What the tests of all clients start from: a server, and on it an application's role that is no superuser."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import GENERATING, Cluster

DIRECTORY = Path(__file__).parent
# For a program that finds the server by the variables of libpq.
AS_SHOP = {"PGUSER": "shop"}
NAMES = [f"customer {number}" for number in range(500)]


@contextmanager
def shop_server(name: str, conf: str = "") -> Iterator[Cluster]:
    """A server with the role and the empty database `shop`; the role may also create databases, as test runners do."""
    with Cluster(name, conf=GENERATING + conf) as cluster:
        cluster.psql("CREATE ROLE shop LOGIN CREATEDB")
        cluster.psql("CREATE DATABASE shop OWNER shop")
        yield cluster


def create_tables(cluster: Cluster, dbname: str = "shop") -> None:
    """Does what the page says for clients that bring no migrations along."""
    run_file(cluster, "shop.sql", dbname)


def run_file(cluster: Cluster, name: str, dbname: str) -> None:
    """Runs a file of SQL as the application's role."""
    cluster.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "shop", "-f", DIRECTORY / name, dbname=dbname)


def conninfo(cluster: Cluster, dbname: str = "shop") -> str:
    return f"host={cluster.socket_dir} user=shop dbname={dbname}"


def stored(cluster: Cluster, column: str = "id", table: str = "customer", dbname: str = "shop") -> list[str]:
    """A column as text, in the order of the keys."""
    return cluster.psql(f"SELECT {column} FROM {table} ORDER BY id", dbname).splitlines()
