"""What one call costs: `count(call)` over many rows, less an empty `count` that reads the same columns of these rows.

The calls take turns, so that a machine that drifts slows all of them alike, and the medians are compared. Each round is
a session of its own: where its memory happens to lie makes one slower or faster than the next.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg
from report import Section, Target, at_least, at_most
from rich.progress import track
from timing import timed

from harness import Cluster
from harness.server import Server

CORE_UUIDV7_SINCE = 180000
CORE_UUIDV7 = "PostgreSQL's `uuidv7()`"
REPEATS = 3
CLOCK_UUID = "empty C function that reads the clock and returns a UUID"


class Call(NamedTuple):
    """What is counted in each row, and what reads the same columns without calling anything."""

    expression: str
    base: str = "1"
    per_row: int = 1
    table: str = "input"


def slow(call: str) -> Call:
    """Only a few nanoseconds need many rows to be told from the cost of counting; for these, a tenth will do."""
    return Call(call, table="few")


def tenfold(call: str, column: str) -> Call:
    """For calls that cost less than reading a row: ten in each."""
    calls, columns = (f"num_nulls({', '.join([each] * 10)})" for each in (call, column))
    return Call(calls, columns, 10)


CALLS = {
    "`clock_timestamp()`": Call("clock_timestamp()"),
    "`snowflake_next()`": Call("snowflake_next()"),
    "`nextval()`": Call("nextval('plain')"),
    "`nextval()`, cache 1000": Call("nextval('cached')"),
    "snowflake in PL/pgSQL": slow("plpgsql_snowflake()"),
    "`uuidv7()`": Call("public.uuidv7()"),
    "`gen_random_uuid()`": slow("gen_random_uuid()"),
    "`uuid_generate_v1mc()`": slow("uuid_generate_v1mc()"),
    "UUIDv7 in SQL": slow("sql_uuidv7()"),
    "empty C function that returns a UUID": Call("empty_uuid()"),
    CLOCK_UUID: Call("clock_uuid()"),
    "empty C function": tenfold("empty_bigint(i)", "i"),
    "`snowflake_timestamp(id)`": tenfold("snowflake_timestamp(i)", "i"),
    "`snowflake_min(ts)`": tenfold("snowflake_min(t)", "t"),
    "empty C function that returns a row": Call("(empty_row(i)).worker_id", "i"),
    "`(snowflake_parse(id)).worker_id`": Call("(snowflake_parse(i)).worker_id", "i"),
}


STABLE = "STABLE STRICT PARALLEL SAFE"
# Their signatures, what they return, and what PostgreSQL may think of them.
EMPTY_FUNCTIONS = (
    ("empty_bigint(bigint)", "bigint", STABLE),
    ("empty_bigint(text)", "bigint", STABLE),
    ("empty_uuid(text)", "uuid", STABLE),
    ("empty_uuid(uuid)", "uuid", STABLE),
    ("empty_text(bigint, integer)", "text", STABLE),
    ("empty_text(uuid, integer)", "text", STABLE),
    ("empty_row(bigint, OUT created_at timestamptz, OUT datacenter_id int, OUT worker_id int, OUT sequence int)",
     "record", STABLE),
    # Volatile and without arguments (but for the length of a text, which is constant), like what makes an ID.
    ("empty_bigint()", "bigint", ""),
    ("empty_uuid()", "uuid", ""),
    ("empty_text(integer)", "text", ""),
    ("clock_uuid()", "uuid", ""),
)  # fmt: skip


@contextmanager
def empty_functions(connection: psycopg.Connection, server: Server) -> Iterator[None]:
    """The functions that do nothing, for as long as sessions shall find their library."""
    with tempfile.TemporaryDirectory(prefix="id_gen_empty_") as directory:
        library = Path(directory) / "empty.so"
        source = Path(__file__).parent / "empty.c"
        include = server.directory("includedir-server")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True)
        library.chmod(0o755)
        Path(directory).chmod(0o755)
        for signature, result, properties in EMPTY_FUNCTIONS:
            name = signature.partition("(")[0]
            connection.execute(
                f"CREATE FUNCTION {signature} RETURNS {result} AS '{library}', '{name}' LANGUAGE c {properties}"
            )
        yield


def costs(cluster: Cluster, connection: psycopg.Connection, rows: int, rounds: int) -> dict[str, float]:
    """Net nanoseconds of one call of each."""
    table_rows = {"input": rows, "few": rows // 10}
    for table, count in table_rows.items():
        connection.execute(
            f"CREATE UNLOGGED TABLE {table} AS SELECT i, '2026-01-01'::timestamptz + i * interval '1 ms' AS t"
            " FROM generate_series(1::bigint, %s) AS i",
            [count],
        )
        connection.execute(f"VACUUM ANALYZE {table}")
    calls = dict(CALLS)
    if connection.info.server_version >= CORE_UUIDV7_SINCE:
        calls[CORE_UUIDV7] = slow("pg_catalog.uuidv7()")
    with empty_functions(connection, cluster.server):
        ns = measured(cluster, calls, table_rows, rounds, "one call   ")
    return {name: median(runs) for name, runs in ns.items()}


def measured(
    cluster: Cluster, calls: dict[str, Call], table_rows: dict[str, int], rounds: int, description: str
) -> dict[str, list[float]]:
    """Net nanoseconds of one call of each, as often as it was measured."""
    ns: dict[str, list[float]] = {name: [] for name in calls}
    for _ in track(range(rounds), description=description, transient=True):
        with cluster.connect() as session:
            for name, call in calls.items():
                ns[name] += [net(session, call) / table_rows[call.table] * 1e9 for _ in range(REPEATS)]
    return ns


def net(session: psycopg.Connection, call: Call) -> float:
    """Seconds of one call in each row."""
    without = timed(session, f"SELECT count({call.base}) FROM {call.table}")
    return (timed(session, f"SELECT count({call.expression}) FROM {call.table}") - without) / call.per_row


def section(cost: dict[str, float], rows: int, rounds: int) -> tuple[Section, list[Target]]:
    clock = cost["`clock_timestamp()`"]
    snowflake, uuid = cost["`snowflake_next()`"], cost["`uuidv7()`"]
    empty, empty_row = cost["empty C function"], cost["empty C function that returns a row"]
    cached, parse = cost["`nextval()`, cache 1000"], cost["`(snowflake_parse(id)).worker_id`"]
    targets = [
        at_most("`snowflake_next()` over `clock_timestamp()`", snowflake / clock, bound=1.25),
        at_least("`nextval()` over `snowflake_next()`", cost["`nextval()`"] / snowflake, bound=6.5),
        at_least("`nextval()` with cache 1000 over `snowflake_next()`", cached / snowflake, bound=2.4),
        at_most("`uuidv7()` over `clock_timestamp()`", uuid / clock, bound=2),
        at_most("`uuidv7()` over reading the clock into an empty UUID", uuid / cost[CLOCK_UUID], bound=1.3),
        at_least("`gen_random_uuid()` over `uuidv7()`", cost["`gen_random_uuid()`"] / uuid, bound=20),
        at_most("`(snowflake_parse(id)).worker_id` over an empty row", parse / empty_row, bound=6),
        at_most(
            "`snowflake_timestamp(id)` over an empty function", cost["`snowflake_timestamp(id)`"] / empty, bound=1.5
        ),
        at_most("`snowflake_min(ts)` over an empty function", cost["`snowflake_min(ts)`"] / empty, bound=1.5),
    ]
    if (core := cost.get(CORE_UUIDV7)) is not None:
        targets.append(at_least(f"{CORE_UUIDV7} over ours", core / uuid, bound=20))
    title = f"One call, net of an empty count over the same {rows:,} rows, median of {rounds * REPEATS}"
    rows_ = [(name, f"{ns:.1f} ns", f"{ns / clock:.2f}") for name, ns in cost.items()]
    return Section(title, ("call", "cost", "× `clock_timestamp()`"), rows_), targets
