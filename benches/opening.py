"""What a restart costs a server with a thousand shards, and clients that ask for them at that moment, with the default
terms and a real etcd.

The registrar opens all shards by one listing once the server has its number again. A client that comes earlier waits.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import median

import psycopg
from report import Section, Target, at_most
from rich.progress import track

from harness import Cluster
from harness.cluster import PRELOAD
from harness.etcd import Etcd

SHARDS = range(10, 1_010)
CLIENTS = 150
# Of a layout with room for them.
CONF = (
    f"{PRELOAD}id_gen.layout = 'leaf'\nid_gen.worker_id_range = '0-{SHARDS[0] - 1}'\nmax_connections = {CLIENTS + 50}\n"
)
STATE = """
    SELECT (SELECT state FROM id_gen_stat_fleet) = 'holding',
           (SELECT count(*) FROM id_gen_stat_shards WHERE state = 'open')
"""
POLL_SECONDS = 0.005


def measure(restarts: int) -> tuple[Section, list[Target]]:
    with Etcd() as etcd, Cluster("many_shards", conf=f"{CONF}id_gen.registry = '{etcd.endpoints}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT id_gen_fleet_create()")
        cluster.poll_until("SELECT state = 'holding' FROM id_gen_stat_fleet")
        for shard in SHARDS:
            cluster.psql(f"SELECT id_gen_shard_take({shard})")
        cluster.poll_until(f"SELECT count(*) = {len(SHARDS)} FROM id_gen_stat_shards WHERE state = 'open'")
        written = len(etcd.history("/id_gen/default/s/"))
        rounds = range(restarts)
        opened = [opening(cluster) for _ in track(rounds, description="opening    ", transient=True)]
        writes = len(etcd.history("/id_gen/default/s/")) - written
        waited = [each for _ in track(rounds, description="asking     ", transient=True) for each in asking(cluster)]
    answered = [each for each in waited if each is not None]
    errors, slowest = len(waited) - len(answered), max(answered)
    rows = [
        ("from the server's number to all shards open: median", f"{median(opened) * 1e3:.0f} ms"),
        ("slowest", f"{max(opened) * 1e3:.0f} ms"),
        ("shards written to the registry", f"{writes:,}"),
        ("clients that asked as soon as the server took connections", f"{len(waited):,}"),
        ("errors", f"{errors:,}"),
        ("from asking to the ID: median", f"{median(answered) * 1e3:.0f} ms"),
        ("slowest", f"{slowest * 1e3:.0f} ms"),
    ]
    title = f"{restarts} restarts of a server with {len(SHARDS):,} shards, each {CLIENTS} clients, default terms, etcd"
    return Section(title, ("", ""), rows), [
        at_most("a thousand shards: seconds from the number to all open", max(opened), bound=1),
        at_most("a thousand shards: writes of a restart", writes, bound=0),
        at_most("clients at a restart: errors", errors, bound=0),
        at_most("clients at a restart: seconds to the ID of a shard", slowest, bound=1),
    ]


def opening(cluster: Cluster) -> float:
    """Seconds from the number to all shards, of a server that was started again."""
    cluster.restart()
    held = None
    with cluster.connect() as connection:
        for holds, is_open in states(connection):
            now = time.perf_counter()
            held = held or (now if holds else None)
            if held and is_open == len(SHARDS):
                return now - held
    raise RuntimeError("the shards are not open")


def states(connection: psycopg.Connection) -> Iterator[tuple[bool, int]]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        yield from connection.execute(STATE.encode()).fetchall()
        time.sleep(POLL_SECONDS)


def asking(cluster: Cluster) -> list[float | None]:
    """Seconds that each client waited for the first ID of a shard of its own; none if it was refused."""
    cluster.restart()
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda shard: ask(cluster, shard), SHARDS[:CLIENTS]))


def ask(cluster: Cluster, shard: int) -> float | None:
    with cluster.connect() as connection, suppress(psycopg.Error):
        began = time.perf_counter()
        connection.execute("SELECT snowflake_next(%s)", [shard])
        return time.perf_counter() - began
    return None
