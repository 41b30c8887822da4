"""Millions of calls in one session take no memory, neither until the end of the statement nor after it.

The peak of the process's memory counts, as the kernel measures it: it sees PostgreSQL's memory and Rust's, also what is
freed when the statement ends. A first round of the same calls fills caches and maps pages, so it does not count.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from harness import GENERATING, Cluster, effort
from harness.arguments import LAYOUT, ORDINARY, SHARD, values
from harness.catalog import CREATE_ALL, functions, views
from harness.masks import MASKING, write_key_file

CALLS = int(os.environ.get("CALLS") or effort(1_000_000, 400_000))
FIRST_CALLS = 20_000
# Calls of each function. One that takes longer than FAST_US for a call is called for a number of seconds instead.
CALLS_OF_EACH = effort(1_000_000, 200_000)
FAST_US = 4
SLOW_SECONDS = effort(1_000, 300) / 1_000
PILOT_CALLS = 200
REFUSALS = effort(500_000, 60_000)
# Less than eleven bytes for each of CALLS_OF_EACH calls: the smallest allocation takes sixteen.
MOST_BYTES = 2 << 20

# Whatever PostgreSQL itself keeps of a set's rows goes to disk, and nothing runs in another process.
CONF = """
id_gen.layout = 'wide'
work_mem = '64kB'
max_parallel_workers_per_gather = 0
jit = off
"""

# What every function is called with is in harness/arguments.py. These are the two that `make memory` calls most often,
# and forms of a layout: a preset's name, and a text that is stored compressed, so that every call unpacks it.
ID = ORDINARY["bigint"]
EXPRESSIONS = {
    "next": "snowflake_next()",
    "uuidv7": "public.uuidv7()",
    "timestamp preset": f"snowflake_timestamp({ID}, 'discord')",
    "timestamp compressed text": f"snowflake_timestamp({ID}, stored.layout)",
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
    "masked text": "id_unmask_text_bigint('1_0', 'orders')",
    "key version": "id_mask(1, 'orders', 2)",
}
# Rows for a set each.
TENTHS = "generate_series(1, {calls} / 10) i"
# Every row calls a function anew, and reads its set to the end, or only the first row.
IN_A_ROW = "SELECT count(*) FROM generate_series(1, {{calls}}) i, LATERAL (SELECT {expression} LIMIT i * 0 + 100) one"
STOPPED_EARLY = IN_A_ROW.replace("100", "1")
CONDITIONS = "data_exception OR undefined_object OR invalid_parameter_value"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING + MASKING + CONF) as cluster:
        write_key_file(cluster)
        cluster.psql(CREATE_ALL)
        cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => 0)")
        cluster.psql("CREATE TABLE stored (id bigint, layout text)")
        cluster.psql(f"INSERT INTO stored VALUES (1, '{LAYOUT}' || repeat(' ', 2500))")
        yield cluster


def status(pid: int, name: str) -> int:
    """A figure of the kernel's about a process, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def contexts(connection: psycopg.Connection) -> int:
    return connection.execute("SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts").fetchone()[0]


def assert_flat(
    server: Cluster, statement: str, calls: int, what: str = "the statement", most: int = MOST_BYTES
) -> None:
    with server.connect() as connection:
        pid = connection.info.backend_pid
        for _ in range(2):
            connection.execute(statement.format(calls=min(calls // 10, FIRST_CALLS)))
            allocated = contexts(connection)
        resident = status(pid, "VmRSS")
        # Makes the peak begin anew at what is resident now.
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        connection.execute(statement.format(calls=calls))
        at_most = status(pid, "VmHWM") - resident
        kept = contexts(connection) - allocated
        print(f"\n{what}, {calls:,} calls: {at_most:,} bytes more at the most, {kept:,} kept in memory contexts")
        assert at_most < most, f"grew while {what} ran"
        assert kept < MOST_BYTES // 8, f"grew for good by {what}"


def assert_every_function_is_flat(server: Cluster, forms: Sequence[str], sets: bool) -> None:
    """Calls each function in statements of these forms, but those that change the server's state."""
    every = [each for each in functions(server) if each.is_of_library]
    called = [each for each in every if each.returns_set == sets and not each.is_for_superusers]
    assert called
    for function in called:
        expression = function.call(values(function, ORDINARY, "ORDINARY"))
        for form in forms:
            statement = form.format(expression=expression)
            assert_flat(server, statement, affordable(server, statement), str(function))


def affordable(server: Cluster, statement: str) -> int:
    """How many calls there is time for."""
    of_one = SLOW_SECONDS
    with server.connect() as connection:
        for calls in (PILOT_CALLS // 10, PILOT_CALLS, PILOT_CALLS, PILOT_CALLS):
            began = time.monotonic()
            connection.execute(statement.format(calls=calls))
            seconds = time.monotonic() - began
            if seconds > SLOW_SECONDS:
                return PILOT_CALLS
            of_one = min(of_one, seconds / calls)
    return CALLS_OF_EACH if of_one < FAST_US / 1e6 else max(PILOT_CALLS, round(SLOW_SECONDS / of_one))


@pytest.mark.long
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_calls_in_one_statement(server: Cluster, name: str) -> None:
    assert_flat(server, IN_A_STATEMENT.format(expression=EXPRESSIONS[name]), CALLS)


@pytest.mark.parametrize("name", [name for name in EXPRESSIONS if "compressed" not in name])
def test_calls_in_a_loop(server: Cluster, name: str) -> None:
    assert_flat(server, IN_A_LOOP.format(expression=EXPRESSIONS[name]), CALLS)


@pytest.mark.long
def test_every_function_in_one_statement(server: Cluster) -> None:
    assert_every_function_is_flat(server, [IN_A_STATEMENT], sets=False)


@pytest.mark.long
def test_every_function_in_a_loop(server: Cluster) -> None:
    assert_every_function_is_flat(server, [IN_A_LOOP], sets=False)


@pytest.mark.long
def test_every_set(server: Cluster) -> None:
    assert_every_function_is_flat(server, [IN_A_ROW, STOPPED_EARLY], sets=True)
    # To plan the queries of the check's catalogs takes 2.2 MB for a moment, in every call.
    for rows, most in (*((view, MOST_BYTES) for view in views(server)), ("id_gen_check()", 2 * MOST_BYTES)):
        statement = f"SELECT count(*) FROM {TENTHS}, LATERAL (SELECT * FROM {rows} OFFSET i * 0) rows"
        assert_flat(server, statement, affordable(server, statement), rows, most)


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_refused_calls(server: Cluster, name: str) -> None:
    assert_flat(server, REFUSED_IN_A_LOOP.format(expression=REFUSED[name], conditions=CONDITIONS), REFUSALS)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM snowflake_next_batch({calls})",
        "SELECT count(id) FROM (SELECT snowflake_next_batch({calls}) AS id OFFSET 0) ids",
        f"SELECT count(*) FROM {TENTHS}, LATERAL snowflake_next_batch(10 + 0 * i)",
        f"SELECT count(*) FROM {TENTHS}, LATERAL (SELECT snowflake_next_batch(10) LIMIT i * 0 + 1) one",
    ],
    ids=["from", "select", "many", "stopped early"],
)
def test_sets(server: Cluster, statement: str) -> None:
    assert_flat(server, statement, CALLS)
