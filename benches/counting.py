"""What the statistics cost: `snowflake_next()` of the library as it is, and of the same library built without counting.

Two servers run at the same time, and take turns with every statement.
"""

import os
from statistics import median

import psycopg
from report import Section, Target, at_most
from rich.progress import track
from timing import timed

from harness import GENERATING, Cluster

INPUT = "CREATE TEMP TABLE input AS SELECT i FROM generate_series(1::bigint, %s) AS i"
NEXT = "CREATE FUNCTION next() RETURNS bigint AS '{}', 'snowflake_next' LANGUAGE c VOLATILE PARALLEL RESTRICTED"
# What a claim counts shows most where every ID is one.
BLOCKS = {"blocks, as by default": 64, "a claim for every ID": 1}


def measure(conf: str, rows: int, rounds: int) -> tuple[Section, list[Target]]:
    uncounted = os.environ["ID_GEN_UNCOUNTED"]
    lines, targets = [], []
    for name, block in BLOCKS.items():
        # Preloaded by its path, and without the extension, whose functions would load the other.
        with_library, without_library = (
            conf.replace(GENERATING, f"shared_preload_libraries = '{library}'\nid_gen.worker_id = 1\n")
            + f"id_gen.max_block = {block}\n"
            for library in ("id_gen", uncounted)
        )
        with (
            Cluster("counted", conf=with_library) as counted,
            Cluster("uncounted", conf=without_library) as without,
            counted.connect() as with_statistics,
            without.connect() as without_statistics,
        ):
            prepare(with_statistics, "$libdir/id_gen", rows)
            prepare(without_statistics, uncounted, rows)
            ns = pair(with_statistics, without_statistics, rows, rounds)
        ratio = ns[0] / ns[1]
        lines.append((name, f"{ns[0]:.1f} ns", f"{ns[1]:.1f} ns", f"{ratio:.3f}"))
        bound = 1.02 if block > 1 else None
        targets.append(at_most(f"`snowflake_next()` with statistics over without, {name}", ratio, bound=bound))
    title = f"`snowflake_next()` with and without statistics, {rows:,} calls, median of {rounds} rounds"
    return Section(title, ("", "with", "without", "ratio"), lines), targets


def prepare(connection: psycopg.Connection, library: str, rows: int) -> None:
    connection.execute(INPUT, [rows])
    connection.execute("VACUUM ANALYZE input")
    connection.execute(NEXT.format(library))


def pair(one: psycopg.Connection, two: psycopg.Connection, rows: int, rounds: int) -> tuple[float, float]:
    """Net nanoseconds of a call of each; who begins a round takes turns, too."""
    seconds: dict[psycopg.Connection, list[float]] = {one: [], two: []}
    for number in track(range(rounds), description="statistics ", transient=True):
        for connection in (one, two) if number % 2 else (two, one):
            without = timed(connection, "SELECT count(1) FROM input")
            seconds[connection].append(timed(connection, "SELECT count(next()) FROM input") - without)
    return median(seconds[one]) / rows * 1e9, median(seconds[two]) / rows * 1e9
