"""Tables with a primary key of each kind: bulk inserts, what they leave on disk, reads, and single inserts."""

from dataclasses import dataclass
from statistics import median

import numpy as np
import psycopg
from crowds import latencies
from report import Section, Target, at_least, at_most
from rich.progress import track
from timing import paired, timed

from harness import Cluster

KEYS = {
    "`bigserial`": "bigint DEFAULT nextval('plain')",
    "`snowflake_next()`": "bigint DEFAULT snowflake_next()",
    "`uuidv7()`": "uuid DEFAULT public.uuidv7()",
    "`gen_random_uuid()`": "uuid DEFAULT gen_random_uuid()",
}
# Ours after its rival. The two take turns every few rows, as this is about how fast a key is, and the machine may be
# faster or slower a second later.
PAIRS = (("`bigserial`", "`snowflake_next()`"), ("`gen_random_uuid()`", "`uuidv7()`"))
TURN_ROWS = 50_000
POINT_READS = 100_000
INSERTING_CLIENTS = 8
PERCENTILES = (50, 99, 99.9)
# The bound of an index's size is for this many. With random keys all leaves fill, and then split, at about the same
# time, so how full their index is depends on how many rows there are.
ROWS_COMPARED = 5_000_000


@dataclass(frozen=True)
class Load:
    """What inserting many rows took, and what it left."""

    seconds: float
    index_bytes: int
    wal_bytes: int
    leaf_density: float


def table(name: str) -> str:
    return "t_" + "".join(letter for letter in name if letter.isalnum())


def create(connection: psycopg.Connection, name: str) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {table(name)}")
    connection.execute(
        f"CREATE TABLE {table(name)} (id {KEYS[name]} PRIMARY KEY, made timestamptz DEFAULT clock_timestamp(), n int)"
    )
    connection.execute("CHECKPOINT")


def value(connection: psycopg.Connection, query: str) -> float:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def insert(connection: psycopg.Connection, name: str) -> tuple[float, float]:
    """Seconds that the rows of a turn take, and bytes of WAL."""
    (before,) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone() or (None,)
    took = timed(connection, f"INSERT INTO {table(name)} (n) SELECT generate_series(1, {TURN_ROWS})")
    return took, value(connection, f"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}')")


def load(connection: psycopg.Connection, pair: tuple[str, str], rows: int) -> dict[str, Load]:
    inserts: dict[str, list[tuple[float, float]]] = {name: [] for name in pair}
    for name in pair:
        create(connection, name)
    for turn in range(rows // TURN_ROWS):
        for name in pair if turn % 2 else reversed(pair):
            inserts[name].append(insert(connection, name))
    return {name: loaded(connection, name, each) for name, each in inserts.items()}


def loaded(connection: psycopg.Connection, name: str, inserts: list[tuple[float, float]]) -> Load:
    seconds, wal_bytes = (sum(each) for each in zip(*inserts, strict=True))
    density = value(connection, f"SELECT avg_leaf_density FROM pgstatindex('{table(name)}_pkey')")
    index_bytes = value(connection, f"SELECT pg_relation_size('{table(name)}_pkey')")
    return Load(seconds, int(index_bytes), int(wal_bytes), density)


def loads(connection: psycopg.Connection, rows: int, rounds: int) -> dict[str, list[Load]]:
    """All loads of each key."""
    runs: dict[str, list[Load]] = {name: [] for name in KEYS}
    for _ in track(range(rounds), description="bulk inserts", transient=True):
        for pair in PAIRS:
            for name, each in load(connection, pair, rows).items():
                runs[name].append(each)
    return runs


def typical(runs: list[Load]) -> Load:
    """The median load, by time."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def load_section(runs: dict[str, list[Load]], rows: int) -> tuple[Section, list[Target]]:
    load = {name: typical(each) for name, each in runs.items()}
    snowflake, v7, v4 = load["`snowflake_next()`"], load["`uuidv7()`"], load["`gen_random_uuid()`"]
    integers, uuids = (
        paired((run.seconds for run in runs[ours]), (run.seconds for run in runs[rival])) for rival, ours in PAIRS
    )
    rows_ = [
        (name, f"{run.seconds:.2f} s", f"{run.index_bytes / 2**20:.0f} MB", f"{run.wal_bytes / 2**20:.0f} MB",
         f"{run.leaf_density:.1f} %")
        for name, run in load.items()
    ]  # fmt: skip
    section = Section(
        f"{rows:,} rows inserted, {TURN_ROWS:,} a statement", ("key", "time", "index", "WAL", "leaf density"), rows_
    )
    index_bound = 0.8 if rows == ROWS_COMPARED else None
    return section, [
        at_most("inserting: snowflake over `bigserial`, time", integers, bound=0.85),
        at_most("inserting: UUIDv7 over UUIDv4, time", uuids, bound=0.5),
        at_most("inserting: UUIDv7 over UUIDv4, index size", v7.index_bytes / v4.index_bytes, index_bound),
        at_least("leaf density of the snowflake index, %", snowflake.leaf_density, bound=89),
        at_least("leaf density of the UUIDv7 index, %", v7.leaf_density, bound=89),
    ]


def reads(connection: psycopg.Connection, rounds: int) -> Section:
    """Random keys one by one through the index, and a span of time with a hundredth of the rows."""
    connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off")
    points: dict[str, list[float]] = {name: [] for name in KEYS}
    ranges: dict[str, list[float]] = {name: [] for name in KEYS}
    span: dict[str, str] = {}
    for name in KEYS:
        connection.execute(f"VACUUM ANALYZE {table(name)}")
        connection.execute(
            f"CREATE TEMP TABLE sample_{table(name)} AS"
            f" SELECT id FROM {table(name)} ORDER BY random() LIMIT {POINT_READS}"
        )
        span[name] = span_query(connection, name)
    for _ in track(range(rounds), description="reads      ", transient=True):
        for name in KEYS:
            points[name].append(
                timed(connection, f"SELECT sum(n) FROM sample_{table(name)} JOIN {table(name)} USING (id)")
            )
            ranges[name].append(timed(connection, span[name]))
    connection.execute("RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material")
    rows = [
        (name, f"{median(points[name]) / POINT_READS * 1e6:.2f} µs", f"{median(ranges[name]) * 1e3:.1f} ms")
        for name in KEYS
    ]
    return Section("Reads", ("key", "one random row", "a span of time with 1 % of the rows"), rows)


def span_query(connection: psycopg.Connection, name: str) -> str:
    ((since, until),) = connection.execute(
        f"SELECT percentile_disc(ARRAY[0.50, 0.51]) WITHIN GROUP (ORDER BY made) FROM {table(name)}"
    ).fetchone() or ((None, None),)
    bounds = {"`snowflake_next()`": "snowflake_min", "`uuidv7()`": "uuidv7_min"}
    if bound := bounds.get(name):
        return f"SELECT sum(n) FROM {table(name)} WHERE id >= {bound}('{since}') AND id < {bound}('{until}')"
    return f"SELECT sum(n) FROM {table(name)} WHERE made >= '{since}' AND made < '{until}'"


def single_inserts(cluster: Cluster, connection: psycopg.Connection, seconds: int) -> Section:
    """Latency of one-row transactions of several clients, as pgbench logs them."""
    rows = []
    for name in track(KEYS, description="single inserts", transient=True):
        create(connection, name)
        took = latencies(cluster, f"INSERT INTO {table(name)} (n) VALUES (1);", INSERTING_CLIENTS, seconds)
        percentiles = (f"{np.percentile(took, each):.0f} µs" for each in PERCENTILES)
        rows.append((name, f"{took.size / seconds:,.0f}", *percentiles))
    header = ("key", "inserts a second", *(f"p{each:g}" for each in PERCENTILES))
    return Section(f"Single inserts by {INSERTING_CLIENTS} clients", header, rows)
