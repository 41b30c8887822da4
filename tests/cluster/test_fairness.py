"""Bulk requests leave room: whatever some sessions load, one that asks for a few IDs now and then gets them."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise

import psycopg
import pytest

from harness import GENERATING, Cluster
from harness.clock import milliseconds
from harness.ids import NARROW, NEXT, TOO_FAR_AHEAD, change, first_id, stepped

LOADERS = 4
CALLS = 60
# So few IDs in so coarse a tick that any load takes all there is; and so little patience that who has to wait for the
# next tick of the clock is refused.
COARSE = (
    f"{GENERATING}id_gen.layout = 'epoch=2024-01-01 tick=1s time:32 worker:5 sequence:13'\nid_gen.max_wait = '100ms'\n"
)

LOADS = {
    "arrays": "SELECT cardinality(snowflake_next_array(1000000))",
    "sets": "SELECT count(*) FROM (SELECT snowflake_next_batch(1000000)) AS id",
    "single IDs": "SELECT count(snowflake_next()) FROM generate_series(1, 1000000)",
    "cancelled calls": "SELECT count(snowflake_next()) FROM generate_series(1, 130)",
}
ASKING = {
    "one": NEXT,
    "a few, one by one": f"{NEXT} FROM generate_series(1, 3)",
    "a few, as an array": "SELECT unnest(snowflake_next_array(2))",
    "a few, as a set": "SELECT snowflake_next_batch(2)",
}


def load_until(connection: psycopg.Connection, statement: str, done: threading.Event) -> int:
    """Asks for more than there is, again and again, and counts what is not given."""
    refused = 0
    while not done.is_set():
        try:
            connection.execute(statement)
        except psycopg.errors.QueryCanceled:
            refused += 1
        except psycopg.Error as error:
            if error.sqlstate != TOO_FAR_AHEAD:
                raise
            refused += 1
    return refused


def assert_served_beside(load: str, asking: str, conf: str) -> None:
    with Cluster(conf=conf) as cluster, ExitStack() as stack:
        cluster.psql("CREATE DATABASE other; CREATE ROLE app LOGIN; CREATE EXTENSION id_gen")
        cluster.psql("CREATE EXTENSION id_gen", "other")
        pool, done = stack.enter_context(ThreadPoolExecutor(LOADERS)), threading.Event()
        connections = [stack.enter_context(cluster.connect(user="app")) for _ in range(LOADERS)]
        if load == "cancelled calls":
            for connection in connections:
                connection.execute("SET statement_timeout = '3ms'")
        loaders = [pool.submit(load_until, connection, LOADS[load], done) for connection in connections]
        try:
            # All that there is for bulk requests is gone.
            cluster.poll_until("SELECT refused_lead > 0 OR lead > 2500 FROM id_gen_stat")
            with cluster.connect("other") as victim:
                given = []
                for _ in range(CALLS):
                    given += [row[0] for row in victim.execute(ASKING[asking])]
                    victim.execute("SELECT pg_sleep(0.04)")
        finally:
            done.set()
            for connection in connections:
                connection.cancel()
            refused = sum(loader.result() for loader in loaders)
        assert refused > 0, "there was no load to speak of"
        assert given == sorted(set(given))


@pytest.mark.parametrize("load", LOADS)
def test_who_asks_now_and_then_is_never_refused(load: str) -> None:
    assert_served_beside(load, "a few, one by one", COARSE)


@pytest.mark.parametrize("asking", ASKING)
def test_however_it_asks(asking: str) -> None:
    assert_served_beside("arrays", asking, COARSE)


def test_also_where_there_is_no_lead() -> None:
    assert_served_beside("arrays", "one", f"{COARSE}id_gen.max_lead = 0\n")


def test_a_clock_set_back_within_the_lead_stops_no_bulk_request() -> None:
    with stepped(-4.9, f"{NARROW}id_gen.max_wait = '200ms'\n") as (cluster, _, before):
        assert int(cluster.psql("SELECT min(snowflake_next()) FROM generate_series(1, 500)")) > before


def test_what_the_hint_says_lets_bulk_requests_go_on() -> None:
    """Once, and word for word."""
    with stepped(-3600, f"{NARROW}id_gen.max_wait = 0\n") as (cluster, _, before):
        bulk = "SELECT snowflake_next_array(1000)"
        with pytest.raises(psycopg.Error) as refused, cluster.connect() as connection:
            connection.execute(bulk)
        hint = refused.value.diag.message_hint or ""
        value = hint.split("id_gen.max_lead = '")[1].split("'")[0]
        change(cluster, "max_lead", value)
        assert first_id(cluster) > before
        cluster.psql(bulk)


@pytest.mark.parametrize("max_lead_ms", [0, 3000])
def test_a_refused_load_is_told_true_figures(max_lead_ms: int) -> None:
    """Even with all that the clock gives within the wait, so many IDs are not there."""
    with Cluster(conf=f"{COARSE}id_gen.max_lead = {max_lead_ms}\n") as cluster, cluster.connect() as connection:
        connection.execute("CREATE EXTENSION id_gen")
        with pytest.raises(psycopg.Error, match="no snowflake is available yet") as refusal:
            connection.execute(LOADS["sets"])

    assert refusal.value.sqlstate == TOO_FAR_AHEAD
    detail, hint = refusal.value.diag.message_detail or "", refusal.value.diag.message_hint or ""
    figures = re.search(
        r"would be (.+?) ahead of the clock; "
        r"id_gen.max_lead allows ([^(.]+?)(?: \((.+) less for batches\))?\. The call waited for 100 ms",
        detail,
    )
    assert figures, detail
    ahead_ms, allowed_ms, reserve_ms = (milliseconds(figure or "0 ms") for figure in figures.groups())
    assert allowed_ms == max_lead_ms
    # Where a lead is allowed, loads leave its last tick to others; otherwise a part of a tick.
    assert reserve_ms == (1000 if max_lead_ms else 0)
    assert allowed_ms - reserve_ms < ahead_ms <= allowed_ms + 1000, detail
    needed = re.search(r"id_gen.max_lead = '(\d+)s'", hint)
    assert needed, hint
    assert int(needed[1]) * 1000 >= ahead_ms + reserve_ms, "the hint leads out"


def test_single_ids_take_no_more_than_one_each() -> None:
    """What a transaction leaves of its block is lost, so one with one ID takes no larger block, however many such
    transactions a session has within a tick."""
    with Cluster(conf=COARSE) as cluster, cluster.connect() as connection:
        connection.execute("CREATE EXTENSION id_gen")
        ids = [connection.execute(NEXT).fetchone()[0] for _ in range(20)]
    distances = {after - before for before, after in pairwise(ids)}
    # A tick may have ended meanwhile.
    assert {distance for distance in distances if distance < 8192} == {1}
