"""Bulk requests leave room: whatever some sessions load, one that asks for an ID now and then gets it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from harness import GENERATING, Cluster
from harness.ids import NEXT, TOO_FAR_AHEAD

LOADERS = 4
CALLS = 100
# So few IDs in so coarse a tick that any load takes all there is.
COARSE = f"{GENERATING}id_gen.layout = 'epoch=2024-01-01 tick=1s time:32 worker:5 sequence:13'\n"

LOADS = {
    "arrays": "SELECT cardinality(snowflake_next_array(1000000))",
    "sets": "SELECT count(*) FROM (SELECT snowflake_next_batch(1000000)) AS id",
    "single IDs": "SELECT count(snowflake_next()) FROM generate_series(1, 1000000)",
}


def load_until(connection: psycopg.Connection, statement: str, done: threading.Event) -> int:
    """Asks for more than there is, again and again, and counts what is not given."""
    refused = 0
    while not done.is_set():
        try:
            connection.execute(statement)
        except psycopg.errors.QueryCanceled:
            assert done.is_set()
        except psycopg.Error as error:
            if error.sqlstate != TOO_FAR_AHEAD:
                raise
            refused += 1
    return refused


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_who_asks_now_and_then_is_never_refused(load: str) -> None:
    with Cluster(conf=COARSE) as cluster, ExitStack() as stack:
        cluster.psql("CREATE DATABASE other; CREATE ROLE app LOGIN; CREATE EXTENSION id_gen")
        cluster.psql("CREATE EXTENSION id_gen", "other")
        pool, done = stack.enter_context(ThreadPoolExecutor(LOADERS)), threading.Event()
        connections = [stack.enter_context(cluster.connect(user="app")) for _ in range(LOADERS)]
        loaders = [pool.submit(load_until, connection, load, done) for connection in connections]
        try:
            # All that bulk requests may have of the lead is gone.
            cluster.poll_until("SELECT lead >= interval '2 s' FROM id_gen_status()")
            with cluster.connect("other") as victim:
                given = []
                for _ in range(CALLS):
                    given += [row[0] for row in victim.execute(f"{NEXT} FROM generate_series(1, 3)")]
                    victim.execute("SELECT pg_sleep(0.03)")
            waits = cluster.psql("SELECT waits FROM id_gen_stat")
        finally:
            done.set()
            for connection in connections:
                connection.cancel()
            refused = sum(loader.result() for loader in loaders)
        assert refused + int(waits) > 0, "there was no load to speak of"
        assert given == sorted(set(given))
