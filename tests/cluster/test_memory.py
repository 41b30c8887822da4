"""Millions of calls in one session take no memory, neither until the end of the statement nor after it.

The peak of the process's memory counts, as the kernel measures it: it sees PostgreSQL's memory and Rust's, also what is
freed when the statement ends. A first round of the same calls fills caches and maps pages, so it does not count.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness import GENERATING, Cluster

# How the library was loaded shows in a session's first calls, and they do not count.
pytestmark = pytest.mark.any_mode

CALLS = int(os.environ.get("CALLS") or 1_000_000)
FIRST_CALLS = 20_000
REFUSALS = CALLS // 5
# Less than four bytes a call, the least that can leak, with room for what the server does besides.
MOST_BYTES = 2 << 20

# Whatever PostgreSQL itself keeps of a set's rows goes to disk, and nothing runs in another process.
CONF = """
id_gen.layout = 'wide'
work_mem = '64kB'
max_parallel_workers_per_gather = 0
jit = off
"""

ID = "(3 << 22) + i"
INSTANT = "timestamptz '2026-01-01' + i * interval '1 ms'"
UUID = "public.uuidv7()"
# Longer than PostgreSQL compresses, so that every call unpacks it; and spelled as no preset is.
LAYOUT = "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12"
TEXT = f"'{LAYOUT}'"

EXPRESSIONS = {
    "next": "snowflake_next()",
    "uuidv7": "public.uuidv7()",
    "uuidv7 shifted": "public.uuidv7(interval '1 day')",
    "array": "snowflake_next_array(2)",
    "timestamp": f"snowflake_timestamp({ID})",
    "timestamp preset": f"snowflake_timestamp({ID}, 'discord')",
    "timestamp text": f"snowflake_timestamp({ID}, {TEXT})",
    "timestamp compressed text": f"snowflake_timestamp({ID}, stored.layout)",
    "parse": f"snowflake_parse({ID})",
    "parse text": f"snowflake_parse({ID}, {TEXT})",
    "inspect": f"snowflake_inspect({ID})",
    "inspect text": f"snowflake_inspect({ID}, {TEXT})",
    "make": f"snowflake_make({INSTANT}, 0, 1, 2)",
    "make text": f"snowflake_make({INSTANT}, 0, 1, 2, {TEXT})",
    "min": f"snowflake_min({INSTANT})",
    "max text": f"snowflake_max({INSTANT}, {TEXT})",
    "uuidv7_timestamp": f"uuidv7_timestamp({UUID})",
    "uuidv7_min": f"uuidv7_min({INSTANT})",
}
# OFFSET keeps the planner from folding the inner statement into the outer one.
IN_A_STATEMENT = """
SELECT count({expression}) FROM (SELECT generate_series(1, {{calls}})::bigint AS i OFFSET 0) calls, stored
"""
IN_A_LOOP = """
DO $$
DECLARE answer text;
BEGIN
    FOR i IN 1..{{calls}} LOOP answer := {expression}; END LOOP;
END $$
"""
REFUSED_IN_A_LOOP = """
DO $$
BEGIN
    FOR i IN 1..{{calls}} LOOP
        BEGIN
            PERFORM {expression};
            RAISE 'not refused';
        EXCEPTION WHEN {conditions} THEN
        END;
    END LOOP;
END $$
"""
REFUSED = {
    "id": "snowflake_timestamp(-1)",
    "layout": "snowflake_parse(1, 'epoch=soon')",
    "name": "snowflake_inspect(1, 'twiter')",
    "instant": "snowflake_make('infinity', 0, 0, 0)",
    "count": "snowflake_next_array(0)",
}
# Rows for a set each.
TENTHS = "generate_series(1, {calls} / 10) i"
CONDITIONS = "data_exception OR undefined_object OR invalid_parameter_value"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING + CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql("CREATE TABLE stored (layout text)")
        cluster.psql(f"INSERT INTO stored VALUES ('{LAYOUT}' || repeat(' ', 2500))")
        yield cluster


def status(pid: int, name: str) -> int:
    """A figure of the kernel's about a process, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def contexts(connection: psycopg.Connection) -> int:
    return connection.execute("SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts").fetchone()[0]


def assert_flat(server: Cluster, statement: str, calls: int) -> None:
    with server.connect() as connection:
        pid = connection.info.backend_pid
        for _ in range(2):
            connection.execute(statement.format(calls=FIRST_CALLS))
            allocated = contexts(connection)
        resident = status(pid, "VmRSS")
        # Makes the peak begin anew at what is resident now.
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        connection.execute(statement.format(calls=calls))
        at_most = status(pid, "VmHWM") - resident
        kept = contexts(connection) - allocated
        print(f"\n{calls:,} calls: {at_most:,} bytes more at the most, {kept:,} kept in memory contexts")
        assert at_most < MOST_BYTES, "grew while the statement ran"
        assert kept < MOST_BYTES // 8, "grew for good"


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_calls_in_one_statement(server: Cluster, name: str) -> None:
    assert_flat(server, IN_A_STATEMENT.format(expression=EXPRESSIONS[name]), CALLS)


@pytest.mark.parametrize("name", [name for name in EXPRESSIONS if "compressed" not in name])
def test_calls_in_a_loop(server: Cluster, name: str) -> None:
    assert_flat(server, IN_A_LOOP.format(expression=EXPRESSIONS[name]), CALLS)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_calls(server: Cluster, name: str) -> None:
    assert_flat(server, REFUSED_IN_A_LOOP.format(expression=REFUSED[name], conditions=CONDITIONS), REFUSALS)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM snowflake_next_batch({calls})",
        "SELECT count(id) FROM (SELECT snowflake_next_batch({calls}) AS id OFFSET 0) ids",
        f"SELECT count(*) FROM {TENTHS}, LATERAL snowflake_next_batch(10)",
        f"SELECT count(*) FROM {TENTHS}, LATERAL (SELECT snowflake_next_batch(10) LIMIT i * 0 + 1) one",
    ],
    ids=["from", "select", "many", "stopped early"],
)
def test_sets(server: Cluster, statement: str) -> None:
    assert_flat(server, statement, CALLS)
