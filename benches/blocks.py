"""What blocks of a session are worth: the same load with the largest block from 1, one block for all sessions, upwards.

The default of id_gen.max_block_size is where larger ones bring little more: what a session holds it may drop, and IDs
of sessions that hold blocks interleave within a tick.
"""

from collections.abc import Iterable, Iterator
from statistics import median

from crowds import BULK, IDS_PER_STATEMENT, million, rate
from report import Section, Target, at_least
from rich.progress import track
from timing import paired

from harness import Cluster

SIZES = (1, 4, 16, 64, 256, 1024)
DEFAULT = 64
CLIENTS = (1, 8, 64)
CROWD = 8
# Without preload, a session knows the setting once it has loaded the library.
LOAD = "LOAD 'id_gen'"
SHOW = f"{LOAD}; SHOW id_gen.max_block_size"


def measure(cluster: Cluster, seconds: int, rounds: int) -> Section:
    """IDs a second for each size and number of clients; the sizes take turns."""
    runs: dict[tuple[int, int], list[float]] = {(size, clients): [] for size in SIZES for clients in CLIENTS}
    for _ in track(range(rounds), description="blocks     ", transient=True):
        for size, clients in in_turn(cluster, runs):
            statements = rate(cluster, BULK["`snowflake_next()`"], clients, seconds)
            runs[size, clients].append(statements * IDS_PER_STATEMENT)
    rows = [
        (f"{size}{' (default)' if size == DEFAULT else ''}", *(million(median(runs[size, n])) for n in CLIENTS))
        for size in SIZES
    ]
    title = f"`id_gen.max_block_size`, {IDS_PER_STATEMENT:,} IDs a statement"
    return Section(title, ("largest block", *(f"{clients} clients" for clients in CLIENTS)), rows)


def in_order(cluster: Cluster, seconds: int, rounds: int) -> Target:
    """What strict order across sessions leaves of the speed, beside the rival that hands out numbers in order too."""
    ours, rival = "`snowflake_next()`", "`nextval()`"
    set_largest(cluster, 1)
    runs = [
        [rate(cluster, BULK[call], CROWD, seconds) for call in (ours, rival)]
        for _ in track(range(rounds), description="in order   ", transient=True)
    ]
    set_largest(cluster, DEFAULT)
    text = f"{CROWD} clients, {IDS_PER_STATEMENT:,} a statement, `id_gen.max_block_size = 1`: {ours} over {rival}"
    return at_least(text, paired(*zip(*runs, strict=True)), bound=2.5)


def in_turn(cluster: Cluster, runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Each of them, with that size in force; the default is back at the end."""
    for size, clients in runs:
        set_largest(cluster, size)
        yield size, clients
    set_largest(cluster, DEFAULT)


def set_largest(cluster: Cluster, size: int) -> None:
    """Puts it in force, unless it is."""
    if cluster.psql(SHOW) == str(size):
        return
    cluster.psql(f"{LOAD}; ALTER SYSTEM SET id_gen.max_block_size = {size}")
    cluster.reload()
    cluster.poll_until(SHOW, expected=str(size))
