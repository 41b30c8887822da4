"""What the statistics cost, and the commit horizon: `snowflake_next()` of the library as it is, and of the same library
built without either.

Two servers run at the same time, and take turns with every statement. Where the library and its memory happen to lie
when a server starts makes all its sessions slower or faster by up to a tenth: so both start many times, with few calls
each.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from statistics import median
from typing import NamedTuple

import psycopg
from report import Section, Target, at_most
from rich.progress import track
from timing import paired, timed

from harness import Cluster

INPUT = "CREATE UNLOGGED TABLE input AS SELECT i FROM generate_series(1::bigint, %s) AS i"
NEXT = "CREATE FUNCTION next() RETURNS bigint AS 'id_gen', 'snowflake_next' LANGUAGE c VOLATILE PARALLEL RESTRICTED"
# What is done for a claim shows most where every ID is one.
BLOCKS = {"blocks, as by default": 64, "one block for all sessions": 1}
ROWS = 200_000
SESSIONS = 2
ROUNDS = 6
# With fewer starts their luck is more than the two hundredths that are allowed.
ENOUGH_STARTS = 60


class Part(NamedTuple):
    """Something that the library can be built without, and what names the directory of such a library."""

    name: str
    variable: str


STATISTICS = Part("statistics", "ID_GEN_UNCOUNTED")
HORIZON = Part("the commit horizon", "ID_GEN_WITHOUT_HORIZON")


@contextmanager
def with_and_without(part: Part, conf: str) -> Iterator[tuple[Cluster, Cluster]]:
    """Two servers. Neither has the extension, whose functions name the installed library."""
    elsewhere = f"dynamic_library_path = '{os.environ[part.variable]}'\n"
    with Cluster("with", conf=conf) as with_part, Cluster("without", conf=conf + elsewhere) as without:
        yield with_part, without


def measure(part: Part, conf: str, starts: int) -> tuple[Section, list[Target]]:
    lines, targets = [], []
    for name, block in BLOCKS.items():
        with with_and_without(part, conf + f"id_gen.max_block_size = {block}\n") as (with_part, without):
            for cluster in (with_part, without):
                prepare(cluster)
            rounds = track(range(starts), description="with/without", transient=True)
            pairs = list(chain.from_iterable(started(with_part, without) for _ in rounds))
        seconds = list(zip(*pairs, strict=True))
        ratio = paired(*seconds)
        lines.append((name, *(f"{median(each) / ROWS * 1e9:.1f} ns" for each in seconds), f"{ratio:.3f}"))
        bound = 1.02 if block > 1 and starts >= ENOUGH_STARTS else None
        targets.append(at_most(f"`snowflake_next()` with {part.name} over without, {name}", ratio, bound=bound))
    title = (
        f"`snowflake_next()` with and without {part.name}, medians of {starts} starts of each server with {SESSIONS} "
        f"sessions of {ROUNDS} x {ROWS:,} calls; the ratio is the median of paired ones"
    )
    return Section(title, ("", "with", "without", "ratio"), lines), targets


def prepare(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.execute(INPUT, [ROWS])
        connection.execute("VACUUM ANALYZE input")
        connection.execute(NEXT)


def started(one: Cluster, two: Cluster) -> list[tuple[float, float]]:
    """What the sessions of newly started servers measure."""
    for cluster in (one, two):
        cluster.restart()
    return [pair for _ in range(SESSIONS) for pair in session(one, two)]


def session(one: Cluster, two: Cluster) -> list[tuple[float, float]]:
    """Net seconds of each, round by round; who begins a round takes turns, too."""
    with one.connect() as first, two.connect() as second:
        return [
            (net(first), net(second)) if number % 2 else (net(second), net(first))[::-1] for number in range(ROUNDS)
        ]


def net(connection: psycopg.Connection) -> float:
    without = timed(connection, "SELECT count(1) FROM input")
    return timed(connection, "SELECT count(next()) FROM input") - without
