"""How many IDs a second several clients get together: one call a statement, and 2,000 a statement."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
from report import Section, Target, at_least
from rich.progress import track
from timing import by_round, paired

from harness import Cluster

CLIENTS = (1, 2, 8, 64)
IDS_PER_STATEMENT = 2_000
# A ratio of ratios, of which a single round may be a tenth off.
ENOUGH_ROUNDS = 5
# Its sessions share nothing: what many of them lose is the machine's.
EMPTY = "rows without a call"
# The last two are compared from 8 clients to 64: `there_and_back` measures them close together.
CALLS = {
    "`nextval()`": "nextval('plain')",
    "`uuidv7()`": "public.uuidv7()",
    EMPTY: "1",
    "`snowflake_next()`": "snowflake_next()",
}
SINGLE = {name: f"SELECT {call};" for name, call in CALLS.items() if name != EMPTY}
BULK = {name: f"SELECT count({call}) FROM generate_series(1, {IDS_PER_STATEMENT});" for name, call in CALLS.items()}

# Of each call and number of clients, round by round.
Rates = dict[tuple[str, int], list[float]]


def pgbench(cluster: Cluster, script: str, clients: int, seconds: int, *options: str) -> str:
    """What it says of each second, and at the end."""
    done = subprocess.run(
        [
            cluster.server.bindir / "pgbench", "--no-vacuum", f"--client={clients}", "--jobs=2", f"--time={seconds}",
            "--progress=1", "--protocol=prepared", "--file=/dev/stdin", f"--host={cluster.socket_dir}",
            "--username=postgres", *options, "postgres",
        ],
        input=script, text=True, capture_output=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"pgbench failed: {done.stderr}")
    return done.stderr + done.stdout


def rate(cluster: Cluster, script: str, clients: int, seconds: int) -> float:
    """Statements a second after the first second, in which each session fills its caches."""
    printed = pgbench(cluster, script, clients, 1 + seconds)
    first_s, first_tps = figures(printed, r"^progress: ([0-9.]+) s, ([0-9.]+) tps")
    (statements,) = figures(printed, r"^number of transactions actually processed: ([0-9]+)")
    (tps,) = figures(printed, r"^tps = ([0-9.]+)")
    return (statements - first_s * first_tps) / (statements / tps - first_s)


def figures(text: str, pattern: str) -> tuple[float, ...]:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no {pattern} in: {text}")
    return tuple(map(float, found.groups()))


def latencies(cluster: Cluster, script: str, clients: int, seconds: int) -> np.ndarray:
    """How many microseconds each statement took."""
    with tempfile.TemporaryDirectory(prefix="id_gen_latency_") as directory:
        pgbench(cluster, script, clients, seconds, "--log", f"--log-prefix={directory}/log")
        return np.concatenate([np.loadtxt(log, usecols=2) for log in Path(directory).iterdir()])


def rates(cluster: Cluster, scripts: dict[str, str], ids: int, seconds: int, rounds: int) -> Rates:
    """IDs a second; calls and numbers of clients take turns."""
    runs: Rates = {(name, clients): [] for clients in CLIENTS for name in scripts}
    for _ in track(range(rounds), description=f"{ids:>4} a statement", transient=True):
        for name, clients in there_and_back(scripts):
            runs[name, clients].append(rate(cluster, scripts[name], clients, seconds) * ids)
    return runs


def there_and_back(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """All calls of one number of clients, then those of the next the other way round, so that the last ones with 8
    clients are the first with 64, before the machine has changed."""
    order = list(names)
    for clients in CLIENTS:
        yield from ((name, clients) for name in order)
        order.reverse()


def section(rates: Rates, title: str) -> Section:
    names = list(dict.fromkeys(name for name, _ in rates))
    rows = [(name, *(million(median(rates[name, clients])) for clients in CLIENTS)) for name in names]
    return Section(title, ("IDs a second", *(f"{clients} clients" for clients in CLIENTS)), rows)


def targets(bulk: Rates) -> list[Target]:
    ours, rival = "`snowflake_next()`", "`nextval()`"
    many = f"{IDS_PER_STATEMENT:,} a statement: `snowflake_next()` over `nextval()`"
    # Many sessions do not fit into the processor's caches, and less so while the hardware's other guests are busy.
    beside = {clients: by_round(bulk[ours, clients], bulk[EMPTY, clients]) for clients in (8, 64)}
    bound = 0.9 if len(beside[64]) >= ENOUGH_ROUNDS else None
    return [
        at_least(f"8 clients, {many}", paired(bulk[ours, 8], bulk[rival, 8]), bound=5.5),
        at_least(f"64 clients, {many}", paired(bulk[ours, 64], bulk[rival, 64]), bound=5),
        at_least(f"64 clients over 8: {ours} over {EMPTY}", paired(beside[64], beside[8]), bound),
        at_least(f"64 clients over 8: {ours}", paired(bulk[ours, 64], bulk[ours, 8]), bound=0.9),
        at_least(f"64 clients over 8: {EMPTY}", paired(bulk[EMPTY, 64], bulk[EMPTY, 8])),
    ]


def million(count: float) -> str:
    return f"{count / 1e6:.2f} M"
