"""Taking tickets, one after the other and in crowds."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg

from harness.cluster import Cluster


def take(connection: psycopg.Connection, sequence: str = "invoice", count: int = 1) -> list[int]:
    """So many numbers, each by a statement of its own."""
    query = f"SELECT ticket_next('{sequence}')"
    return [connection.execute(query).fetchone()[0] for _ in range(count)]


def take_at_once(connection: psycopg.Connection, count: int, sequence: str = "invoice") -> list[int]:
    """So many numbers, by one statement."""
    query = f"SELECT ticket_next('{sequence}') FROM generate_series(1, %s)"
    return [number for (number,) in connection.execute(query, [count])]


def one(cluster: Cluster, sequence: str = "invoice", dbname: str = "postgres") -> int:
    """One number, in a session of its own."""
    return int(cluster.psql(f"SELECT ticket_next('{sequence}')", dbname))


def in_crowd(clusters: Sequence[Cluster], clients: int, each: int, sequence: str = "invoice") -> list[int]:
    """What clients take at the same time, by turns one at a time and many."""

    def client(number: int) -> list[int]:
        taken: list[int] = []
        with clusters[number % len(clusters)].connect() as connection:
            while len(taken) < each:
                taken += take(connection, sequence, 3)
                taken += take_at_once(connection, 1 + number * 7 % 50, sequence)
        return taken

    with ThreadPoolExecutor(clients) as pool:
        return [number for taken in pool.map(client, range(clients)) for number in taken]


def assert_distinct(numbers: list[int]) -> None:
    assert len(set(numbers)) == len(numbers), f"{len(numbers) - len(set(numbers))} numbers were given twice"
