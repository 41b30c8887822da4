"""Jobs that convert columns: their statements, and what a database holds before and after them."""

import psycopg

from harness.cluster import Cluster


def run(connection: psycopg.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def value(connection: psycopg.Connection, query: str) -> object:
    """The first column of the first row of a query."""
    row = connection.execute(query.encode()).fetchone()
    assert row
    return row[0]


def client_statements(connection: psycopg.Connection, query: str) -> list[str]:
    """What a query gives a client to run, without the search_path: what tests run in between goes by theirs."""
    return [statement for (statement,) in connection.execute(query.encode()) if "search_path" not in statement]


def planned(connection: psycopg.Connection, arguments: str) -> list[str]:
    """The statements of a plan."""
    return client_statements(connection, f"SELECT statement FROM id_gen_convert_plan({arguments}) ORDER BY step")


def schema_dump(cluster: Cluster, dbname: str) -> str:
    """The schema as pg_dump writes it, without the keys of psql's sessions."""
    written = cluster.run("pg_dump", "--schema-only", dbname=dbname)
    return "\n".join(line for line in written.splitlines() if "restrict" not in line)
