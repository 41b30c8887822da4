"""Tables with a primary key of each kind: bulk inserts, what they leave on disk, reads, and single inserts."""

import time
from dataclasses import dataclass
from statistics import median

import numpy as np
import psycopg
from crowds import latencies
from report import Section, Target, at_least, at_most
from rich.progress import track

from harness import Cluster

KEYS = {
    "`bigserial`": "bigint DEFAULT nextval('plain')",
    "`snowflake_next()`": "bigint DEFAULT snowflake_next()",
    "`uuidv7()`": "uuid DEFAULT public.uuidv7()",
    "`gen_random_uuid()`": "uuid DEFAULT gen_random_uuid()",
}
POINT_READS = 100_000
INSERTING_CLIENTS = 8
PERCENTILES = (50, 99, 99.9)


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


def load(connection: psycopg.Connection, name: str, rows: int) -> Load:
    create(connection, name)
    (before,) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone() or (None,)
    started = time.perf_counter()
    connection.execute(f"INSERT INTO {table(name)} (n) SELECT generate_series(1, {rows})")
    took = time.perf_counter() - started
    wal = value(connection, f"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}')")
    density = value(connection, f"SELECT avg_leaf_density FROM pgstatindex('{table(name)}_pkey')")
    size = value(connection, f"SELECT pg_relation_size('{table(name)}_pkey')")
    return Load(took, int(size), int(wal), density)


def loads(connection: psycopg.Connection, rows: int, rounds: int) -> dict[str, Load]:
    """The median load of each, by time; the kinds take turns."""
    runs: dict[str, list[Load]] = {name: [] for name in KEYS}
    for _ in track(range(rounds), description="bulk inserts", transient=True):
        for name in KEYS:
            runs[name].append(load(connection, name, rows))
    return {name: sorted(each, key=lambda run: run.seconds)[len(each) // 2] for name, each in runs.items()}


def load_section(load: dict[str, Load], rows: int) -> tuple[Section, list[Target]]:
    serial, snowflake, v7, v4 = load.values()
    rows_ = [
        (name, f"{run.seconds:.2f} s", f"{run.index_bytes / 2**20:.0f} MB", f"{run.wal_bytes / 2**20:.0f} MB",
         f"{run.leaf_density:.1f} %")
        for name, run in load.items()
    ]  # fmt: skip
    section = Section(
        f"{rows:,} rows inserted in one statement", ("key", "time", "index", "WAL", "leaf density"), rows_
    )
    return section, [
        at_most("inserting: snowflake over `bigserial`, time", snowflake.seconds / serial.seconds, bound=0.85),
        at_most("inserting: UUIDv7 over UUIDv4, time", v7.seconds / v4.seconds, bound=0.5),
        at_most("inserting: UUIDv7 over UUIDv4, index size", v7.index_bytes / v4.index_bytes, bound=0.8),
        at_least("leaf density of the snowflake index, %", snowflake.leaf_density, bound=89),
        at_least("leaf density of the UUIDv7 index, %", v7.leaf_density, bound=89),
    ]


def reads(connection: psycopg.Connection, rounds: int) -> Section:
    """Random keys one by one through the index, and the rows of one percent of the time."""
    connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off")
    points: dict[str, list[float]] = {name: [] for name in KEYS}
    ranges: dict[str, list[float]] = {name: [] for name in KEYS}
    for name in KEYS:
        connection.execute(f"VACUUM ANALYZE {table(name)}")
        connection.execute(
            f"CREATE TEMP TABLE sample_{table(name)} AS"
            f" SELECT id FROM {table(name)} ORDER BY random() LIMIT {POINT_READS}"
        )
    for _ in track(range(rounds), description="reads      ", transient=True):
        for name in KEYS:
            points[name].append(
                timed(connection, f"SELECT sum(n) FROM sample_{table(name)} JOIN {table(name)} USING (id)")
            )
            ranges[name].append(timed(connection, range_query(connection, name)))
    connection.execute("RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material")
    rows = [
        (name, f"{median(points[name]) / POINT_READS * 1e6:.2f} µs", f"{median(ranges[name]) * 1e3:.1f} ms")
        for name in KEYS
    ]
    return Section("Reads", ("key", "one random row", "one percent of the time"), rows)


def range_query(connection: psycopg.Connection, name: str) -> str:
    since, until = connection.execute(
        "SELECT min(made) + 0.50 * (max(made) - min(made)), min(made) + 0.51 * (max(made) - min(made))"
        f" FROM {table(name)}"
    ).fetchone() or (None, None)
    bounds = {"`snowflake_next()`": "snowflake_min", "`uuidv7()`": "uuidv7_min"}
    if bound := bounds.get(name):
        return f"SELECT sum(n) FROM {table(name)} WHERE id >= {bound}('{since}') AND id < {bound}('{until}')"
    return f"SELECT sum(n) FROM {table(name)} WHERE made >= '{since}' AND made < '{until}'"


def timed(connection: psycopg.Connection, query: str) -> float:
    started = time.perf_counter()
    connection.execute(query)
    return time.perf_counter() - started


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
