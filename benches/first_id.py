"""How long a server of a fleet takes from its start to its first ID, with the default terms and a real etcd.

A restart that finds its grant still running waits for nothing, be it after a clean stop or a crash. A server that joins
waits for the news of a restored registry. A server that is numbered by hand is there for comparison.
"""

import time
from collections.abc import Callable
from statistics import median

import psycopg
from report import Section, Target, at_most
from rich.progress import track

from harness import GENERATING, Cluster
from harness.cluster import PRELOAD
from harness.etcd import Etcd

# So that a call fails at once where there is no ID, and is repeated as soon as possible.
AT_ONCE = "id_gen.max_wait = 0\n"
POLL_SECONDS = 0.005
# No number yet, no answer of the registry yet, no ID of this time yet.
NOT_YET = (
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.ConnectionFailure,
    psycopg.errors.ConfigurationLimitExceeded,
)


def first_id(cluster: Cluster) -> tuple[float, float]:
    """Seconds from the start to the first connection, and from there to the first ID."""
    began = time.perf_counter()
    cluster.start()
    with cluster.connect() as connection:
        connected = time.perf_counter()
        while True:
            try:
                connection.execute("SELECT snowflake_next()")
                return connected - began, time.perf_counter() - connected
            except NOT_YET:
                time.sleep(POLL_SECONDS)


def restarted(cluster: Cluster, end: Callable[[Cluster], None]) -> tuple[float, float]:
    end(cluster)
    return first_id(cluster)


def joined(member: Cluster) -> tuple[float, float]:
    """Of a server that never had a number: a copy."""
    copy = Cluster("joining", copy_of=member)
    try:
        copy.init()
        return first_id(copy)
    finally:
        copy.stop()
        copy.destroy()


def measure(starts: int) -> tuple[Section, list[Target]]:
    found: dict[str, list[tuple[float, float]]] = {}
    with (
        Etcd() as etcd,
        Cluster("by_hand", conf=GENERATING + AT_ONCE) as by_hand,
        Cluster("member", conf=f"{PRELOAD}{AT_ONCE}id_gen.registry = '{etcd.endpoints}'\n") as member,
    ):
        member.psql("CREATE EXTENSION id_gen; SELECT id_gen_fleet_create()")
        by_hand.psql("CREATE EXTENSION id_gen")
        member.poll_until("SELECT snowflake_next() > 0")
        kinds: dict[str, tuple[Cluster, Callable[[Cluster], None]]] = {
            "numbered by hand, after a clean stop": (by_hand, Cluster.stop),
            "numbered by hand, after a crash": (by_hand, Cluster.kill9),
            "of a fleet, after a clean stop": (member, Cluster.stop),
            "of a fleet, after a crash": (member, Cluster.kill9),
        }
        for _ in track(range(starts), description="first ID   ", transient=True):
            for name, (cluster, end) in kinds.items():
                found.setdefault(name, []).append(restarted(cluster, end))
        joining = "of a fleet, joining anew"
        for _ in range(max(1, starts // 5)):
            found.setdefault(joining, []).append(joined(member))

    medians = {name: tuple(median(each) for each in zip(*times, strict=True)) for name, times in found.items()}
    worst = {name: max(wait for _, wait in times) for name, times in found.items()}
    rows = [
        (name, f"{connected * 1e3:,.0f} ms", f"{wait * 1e3:,.1f} ms", f"{worst[name] * 1e3:,.1f} ms")
        for name, (connected, wait) in medians.items()
    ]
    title = f"From the start of a server to its first ID, default terms, medians of {starts} starts (joining: fewer)"
    header = ("server", "start to connection", "connection to first ID", "slowest")
    stop, crash = (worst[f"of a fleet, after a {end}"] for end in ("clean stop", "crash"))
    return Section(title, header, rows), [
        at_most("fleet, restart after a clean stop: seconds from connection to first ID, slowest", stop, bound=1),
        at_most("fleet, restart after a crash: seconds from connection to first ID, slowest", crash, bound=1),
    ]
