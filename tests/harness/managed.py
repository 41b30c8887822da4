"""Databases with the script for managed services in place of the extension, as an ordinary owner installs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from harness.cluster import Cluster

SCRIPT = Path(__file__).parents[2] / "contrib/managed/id_gen_managed.sql"
# Who owns the database, and has no privilege beyond that.
OWNER = "shopkeeper"
DATABASE = "shop"
WORKER = 7
# What hints have in place of a worker ID.
PLACEHOLDER = "<worker ID>"

# How the advisory locks of the lanes are told from others.
LOCK_CLASS = 1768189287
LOCKS = f"locktype = 'advisory' AND classid = {LOCK_CLASS}"


def install(cluster: Cluster, dbname: str = DATABASE, **settings: object) -> None:
    """Makes a database of an ordinary owner, and installs the script in it, with a number unless that is None."""
    if cluster.psql(f"SELECT count(*) FROM pg_roles WHERE rolname = '{OWNER}'") == "0":
        cluster.psql(f"CREATE ROLE {OWNER} LOGIN")
    cluster.psql(f"CREATE DATABASE {dbname} OWNER {OWNER} TEMPLATE template0")
    run_script(cluster, dbname)
    if (worker := settings.pop("worker_id", WORKER)) is not None:
        configure(cluster, dbname, worker_id=worker, **settings)


def run_script(cluster: Cluster, dbname: str = DATABASE, before: str = "") -> None:
    """In one transaction, as migration tools do it."""
    as_owner(cluster, f"BEGIN; {before}\n{SCRIPT.read_text()}\nCOMMIT;", dbname)


def configure(cluster: Cluster, dbname: str = DATABASE, **settings: object) -> None:
    given = ", ".join(f"{name} => '{value}'" for name, value in settings.items())
    as_owner(cluster, f"SELECT id_gen_managed.configure({given})", dbname)


def with_number(hint: str | None, worker_id: int) -> str:
    """The last command of a hint, with the worker ID that it leaves to the administrator."""
    command = f"SELECT {(hint or '').split('SELECT ')[-1].partition(';')[0]}"
    assert PLACEHOLDER in command, command
    return command.replace(PLACEHOLDER, str(worker_id))


def as_owner(cluster: Cluster, sql: str, dbname: str = DATABASE) -> str:
    """What psql answers the owner of the database."""
    return cluster.psql(f"SET SESSION AUTHORIZATION {OWNER};\n{sql}", dbname)


@contextmanager
def sessions(cluster: Cluster, count: int, dbname: str = DATABASE) -> Iterator[list[psycopg.Connection]]:
    """Connections of their own, in autocommit mode."""
    opened = [cluster.connect(dbname) for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.close()


def ids_of(connection: psycopg.Connection, count: int = 1) -> list[int]:
    """So many IDs, each by a call of its own."""
    rows = connection.execute("SELECT snowflake_next() FROM generate_series(1, %s)", [count])
    return [row[0] for row in rows]
