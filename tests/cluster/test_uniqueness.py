"""No two IDs of one server are equal, in any session, in any database, and whatever settings are reloaded.

Sixteen clients at once, over two databases; what they were given is read back and compared as one set.
"""

import itertools
import time

import numpy as np
import psycopg
import pytest

from harness import GENERATING, Cluster, effort
from harness.clients import INT8, array_elements, copy_all, crowd
from harness.order import Statement, assert_ordered_across_clients

CLIENTS = 16
DATABASES = ("one", "two")
SEATS = [DATABASES[number % len(DATABASES)] for number in range(CLIENTS)]


def create_databases(cluster: Cluster) -> None:
    for dbname in DATABASES:
        cluster.psql(f"CREATE DATABASE {dbname}")
        cluster.psql("CREATE EXTENSION id_gen", dbname)


def assert_distinct(ids: np.ndarray) -> None:
    ordered = np.sort(ids)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    assert repeated.size == 0, f"{repeated.size} IDs were given more than once, among them {repeated[:5].tolist()}"


def test_millions_of_ids_are_distinct() -> None:
    each = effort(1_000_000, 250_000)
    with Cluster(conf=GENERATING) as cluster:
        create_databases(cluster)
        query = f"SELECT snowflake_next() FROM generate_series(1, {each})"
        answers = [rows["id"].astype(np.int64) for rows in copy_all(cluster, query, {"id": INT8}, SEATS)]

    for ids in answers:
        assert ids.size == each
        assert np.all(np.diff(ids) > 0), "the IDs of one session are not strictly increasing"
    assert_distinct(np.concatenate(answers))


@pytest.mark.parametrize("function", ["snowflake_next_batch(500)", "unnest(snowflake_next_array(500))"])
def test_batches_are_distinct(function: str) -> None:
    with Cluster(conf=GENERATING) as cluster:
        create_databases(cluster)
        query = f"SELECT {function} FROM generate_series(1, 100)"
        answers = [rows["id"].astype(np.int64) for rows in copy_all(cluster, query, {"id": INT8}, SEATS)]

    assert_distinct(np.concatenate(answers))


def insert_rows(conninfo: str, rows: int) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute("INSERT INTO item (client) SELECT pg_backend_pid() FROM generate_series(1, %s)", [rows])


def test_inserts_under_a_unique_constraint() -> None:
    each = effort(100_000, 25_000)
    with Cluster(conf=GENERATING) as cluster:
        create_databases(cluster)
        for dbname in DATABASES:
            cluster.psql("CREATE TABLE item (id bigint DEFAULT snowflake_next() UNIQUE, client int)", dbname)
        crowd(insert_rows, [(cluster.conninfo(dbname), each) for dbname in SEATS])
        tables = copy_all(cluster, "SELECT id FROM item", {"id": INT8}, DATABASES)

    ids = np.concatenate([rows["id"].astype(np.int64) for rows in tables])
    assert ids.size == CLIENTS * each
    assert_distinct(ids)


ONE_BY_ONE = "SELECT snowflake_next() AS id FROM generate_series(1, {})"
AS_A_BATCH = "SELECT id FROM snowflake_next_batch({}) AS id"


def log_statements(conninfo: str, statements: int, ids_each: int, source: str) -> tuple[list[Statement], np.ndarray]:
    """Asks over and over, noting CLOCK_MONOTONIC (one clock for all processes of a machine) around each statement."""
    query = f"SELECT array_send(array_agg(id)) FROM ({source.format(ids_each)}) AS given"
    log, ids = [], []
    with psycopg.connect(conninfo, autocommit=True) as connection, connection.cursor(binary=True) as cursor:
        for _ in range(statements):
            requested = time.monotonic_ns()
            cursor.execute(query)
            returned = time.monotonic_ns()
            given = array_elements(cursor.fetchall()[0][0])
            log.append(Statement(requested, returned, int(given.min()), int(given.max())))
            ids.append(given)
    return log, np.concatenate(ids)


@pytest.mark.long
@pytest.mark.parametrize(
    ("statements", "ids_each", "sources"),
    [(5_000, 1, [ONE_BY_ONE]), (1_000, 1_000, [ONE_BY_ONE]), (1_000, 10, [ONE_BY_ONE, AS_A_BATCH, ONE_BY_ONE])],
    ids=["single", "many", "beside batches"],
)
def test_max_block_one_orders_the_whole_server(statements: int, ids_each: int, sources: list[str]) -> None:
    with Cluster(conf=GENERATING + "id_gen.max_block_size = 1") as cluster:
        create_databases(cluster)
        seats = [(cluster.conninfo(dbname), source) for dbname, source in zip(SEATS, itertools.cycle(sources))]
        answers = crowd(log_statements, [(conninfo, statements, ids_each, source) for conninfo, source in seats])

    ids = np.concatenate([ids for _, ids in answers])
    assert ids.size == CLIENTS * statements * ids_each
    assert_distinct(ids)
    assert_ordered_across_clients(itertools.chain.from_iterable(log for log, _ in answers))


def test_an_id_is_never_of_a_tick_before_the_call() -> None:
    """A session that holds a block drops it when its tick is over, though it does not look at the clock each time."""
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        behind = cluster.psql("""
            SELECT count(*), coalesce(max(before - snowflake_timestamp(id)), '0')
              FROM (SELECT clock_timestamp() AS before, snowflake_next() AS id FROM generate_series(1, 3000000)
                    OFFSET 0) AS calls
             WHERE snowflake_timestamp(id) < date_trunc('milliseconds', before)""")
        assert behind == "0|00:00:00"
        # Most of them were from blocks, or this has tried nothing.
        assert cluster.psql("SELECT claims < ids / 10 FROM id_gen_stat") == "t"
