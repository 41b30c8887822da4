"""How long a statement takes, as its client sees it."""

import time

import psycopg


def timed(connection: psycopg.Connection, statement: str) -> float:
    """Seconds."""
    started = time.perf_counter()
    connection.execute(statement)
    return time.perf_counter() - started
