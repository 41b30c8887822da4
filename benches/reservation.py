"""What the reservation costs those who ask for IDs: nothing, on any disk.

IDs are given only below a bound that is on disk, and the keeper moves the bound ahead of need, so no statement should
wait for a write. Two servers that differ only in how long it takes to flush the extension's file are asked in turns,
one ID a statement. As a control, an array that outruns the bound has to wait for a write on both, and shows that the
slow disk is slow.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from crowds import latencies
from report import Section, Target, at_least, at_most
from rich.progress import track

from harness import GENERATING, Cluster
from harness.shim import compiled

FLUSH_MS = 200
SLOW = f"{FLUSH_MS} ms a flush"
PERCENTILES = (50, 99, 99.9, 100)
CONTROLS = 3

# Few IDs a millisecond, so that a small array is 5 s of them, more than the reservation ever reaches ahead.
CONF = f"""{GENERATING}
id_gen.layout = 'epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:8'
id_gen.max_lead = '1min'
fsync = on
jit = off
"""
OUTRUN = f"SELECT cardinality(snowflake_next_array({5_000 << 8}))"


@contextmanager
def server(name: str, flush_ms: int) -> Iterator[Cluster]:
    shim = compiled(Path(__file__).with_name("slow_fsync.c"))
    env = {"LD_PRELOAD": str(shim), "SLOW_FSYNC_MS": str(flush_ms)}
    with Cluster(name, conf=CONF, env=env) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


def outrun_ms(cluster: Cluster) -> float:
    """How long an array takes that needs a larger reservation than there is."""
    with cluster.connect() as connection:
        connection.execute("SELECT snowflake_next()")
        started = time.perf_counter()
        connection.execute(OUTRUN)
        return (time.perf_counter() - started) * 1000


def spread(microseconds: np.ndarray) -> np.ndarray:
    """Whole microseconds, as pgbench logs them, spread over the microsecond that each stands for."""
    return microseconds + np.random.default_rng(0).random(microseconds.size)


def measure(seconds: int, rounds: int) -> tuple[Section, list[Target]]:
    with server("normal_disk", 0) as normal, server("slow_disk", FLUSH_MS) as slow:
        disks = {"normal": normal, SLOW: slow}
        runs: dict[str, list[np.ndarray]] = {name: [] for name in disks}
        for _ in track(range(rounds), description="reservation", transient=True):
            for name, cluster in disks.items():
                runs[name].append(latencies(cluster, "SELECT snowflake_next();", 1, seconds))
        controls = {name: median(outrun_ms(cluster) for _ in range(CONTROLS)) for name, cluster in disks.items()}

    took = {name: np.percentile(spread(np.concatenate(each)), PERCENTILES) for name, each in runs.items()}
    on_normal, on_slow = took.values()
    rows = [
        (name, *(f"{us:,.1f} µs" for us in percentiles), f"{controls[name]:,.0f} ms")
        for name, percentiles in took.items()
    ]
    rows.append(("ratio", *(f"{ratio:.2f}" for ratio in on_slow / on_normal), ""))
    title = f"One `snowflake_next()` a statement while the keeper writes, {rounds} rounds of {seconds} s"
    header = ("disk", *(f"p{each:g}" for each in PERCENTILES[:-1]), "slowest", "control: must wait")
    return Section(title, header, rows), [
        at_most("reservation: p50 with a slow disk over a normal one", on_slow[0] / on_normal[0], bound=1.1),
        at_most("reservation: p99.9 with a slow disk over one flush", on_slow[2] / 1000 / FLUSH_MS, bound=0.05),
        at_least("reservation: what must wait for the slow disk over one flush", controls[SLOW] / FLUSH_MS, bound=1),
    ]
