"""The layout `default` at its limit: 12 bits of sequence, no lead over the clock, more demand than a tick holds.

The layout allows 4,096 IDs a millisecond. How much of that do eight clients get, and do they burn processors while they
wait for the next tick?
"""

import os
import time
from pathlib import Path

from crowds import IDS_PER_STATEMENT, rate
from report import Section, Target, at_least

from harness import GENERATING, Cluster

ALLOWED = 4_096_000
CLIENTS = 8
CONF = f"{GENERATING}\nid_gen.layout = 'default'\nid_gen.max_lead = 0\nid_gen.max_wait = '10s'\njit = off\n"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Processor time of all processes of the machine."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / TICKS_PER_SECOND


def measure(seconds: int) -> tuple[Section, list[Target]]:
    with Cluster("strict", conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        script = f"SELECT count(snowflake_next()) FROM generate_series(1, {IDS_PER_STATEMENT});"
        cpu_before, started = cpu_seconds(), time.perf_counter()
        made = rate(cluster, script, CLIENTS, seconds) * IDS_PER_STATEMENT
        busy = (cpu_seconds() - cpu_before) / (time.perf_counter() - started)
    rows = [(f"{made / 1e6:.3f} M", f"{made / ALLOWED * 100:.1f} %", f"{busy:.2f} of {os.cpu_count()}")]
    title = f"Layout `default`, `max_lead = 0`, {CLIENTS} clients, {IDS_PER_STATEMENT:,} IDs a statement"
    section = Section(title, ("IDs a second", "of what the layout allows", "processors busy"), rows)
    return section, [at_least("layout `default` at its limit: share of 4,096,000 a second", made / ALLOWED, bound=0.97)]
