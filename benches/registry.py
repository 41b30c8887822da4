"""What a registry costs those who ask for IDs: nothing, as no ID waits for it.

Two servers run at the same time, one of a fleet with a real etcd beside it, the other numbered by hand. They take turns
as in counting.py, and both start many times for the same reason.
"""

from itertools import chain
from statistics import median

from counting import ENOUGH_STARTS, ROUNDS, ROWS, SESSIONS, prepare, session
from report import Section, Target, at_most
from rich.progress import track
from timing import paired

from harness import Cluster
from harness.etcd import Etcd
from harness.fleet import await_number

BY_FLEET = "id_gen.worker_id = -1\nid_gen.registry = '{}'\n"


def measure(conf: str, starts: int) -> tuple[Section, list[Target]]:
    with (
        Etcd() as etcd,
        Cluster("member", conf=conf + BY_FLEET.format(etcd.endpoints)) as member,
        Cluster("by_hand", conf=conf) as by_hand,
    ):
        member.psql("CREATE EXTENSION id_gen; SELECT id_gen_fleet_create()")
        # Else the first restart would be waited with for much longer.
        await_number(member)
        for cluster in (member, by_hand):
            prepare(cluster)
        pairs = list(
            chain.from_iterable(
                started(member, by_hand) for _ in track(range(starts), description="registry   ", transient=True)
            )
        )
    seconds = list(zip(*pairs, strict=True))
    ratio = paired(*seconds)
    title = (
        f"`snowflake_next()` with and without a registry, medians of {starts} starts of each server with {SESSIONS} "
        f"sessions of {ROUNDS} x {ROWS:,} calls; the ratio is the median of paired ones"
    )
    line = (*(f"{median(each) / ROWS * 1e9:.1f} ns" for each in seconds), f"{ratio:.3f}")
    bound = 1.02 if starts >= ENOUGH_STARTS else None
    return Section(title, ("with", "without", "ratio"), [line]), [
        at_most("`snowflake_next()` with a registry over without", ratio, bound=bound)
    ]


def started(member: Cluster, by_hand: Cluster) -> list[tuple[float, float]]:
    """What the sessions of newly started servers measure."""
    for cluster in (member, by_hand):
        cluster.restart()
    await_number(member)
    return [pair for _ in range(SESSIONS) for pair in session(member, by_hand)]
