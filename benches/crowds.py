"""How many IDs a second several clients get together: one call a statement, and 2,000 a statement."""

import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from report import Section, Target, at_least
from rich.progress import track

from harness import Cluster

CLIENTS = (1, 2, 8, 64)
IDS_PER_STATEMENT = 2_000
CALLS = {"`nextval()`": "nextval('plain')", "`snowflake_next()`": "snowflake_next()", "`uuidv7()`": "public.uuidv7()"}
SINGLE = {name: f"SELECT {call};" for name, call in CALLS.items()}
BULK = {name: f"SELECT count({call}) FROM generate_series(1, {IDS_PER_STATEMENT});" for name, call in CALLS.items()}

Rates = dict[tuple[str, int], float]


def pgbench(cluster: Cluster, script: str, clients: int, seconds: int, *options: str) -> float:
    """Statements a second."""
    done = subprocess.run(
        [
            cluster.server.bindir / "pgbench", "--no-vacuum", f"--client={clients}", "--jobs=2", f"--time={seconds}",
            "--protocol=prepared", "--file=/dev/stdin", f"--host={cluster.socket_dir}", "--username=postgres",
            *options, "postgres",
        ],
        input=script, text=True, capture_output=True,
    )  # fmt: skip
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"pgbench failed: {done.stderr}")
    return float(found[1])


def latencies(cluster: Cluster, script: str, clients: int, seconds: int) -> np.ndarray:
    """How many microseconds each statement took."""
    with tempfile.TemporaryDirectory(prefix="id_gen_latency_") as directory:
        pgbench(cluster, script, clients, seconds, "--log", f"--log-prefix={directory}/log")
        return np.concatenate([np.loadtxt(log, usecols=2) for log in Path(directory).iterdir()])


def rates(cluster: Cluster, scripts: dict[str, str], ids: int, seconds: int, rounds: int) -> Rates:
    """IDs a second for each call and number of clients; the calls take turns."""
    runs: dict[tuple[str, int], list[float]] = {(name, clients): [] for clients in CLIENTS for name in scripts}
    for _ in track(range(rounds), description=f"{ids:>4} a statement", transient=True):
        for name, clients in runs:
            runs[name, clients].append(pgbench(cluster, scripts[name], clients, seconds) * ids)
    return {key: median(values) for key, values in runs.items()}


def section(rate: Rates, title: str) -> Section:
    names = list(dict.fromkeys(name for name, _ in rate))
    rows = [(name, *(million(rate[name, clients]) for clients in CLIENTS)) for name in names]
    return Section(title, ("IDs a second", *(f"{clients} clients" for clients in CLIENTS)), rows)


def targets(bulk: Rates) -> list[Target]:
    ours, rival = "`snowflake_next()`", "`nextval()`"
    many = f"{IDS_PER_STATEMENT:,} a statement: `snowflake_next()` over `nextval()`"
    return [
        at_least(f"8 clients, {many}", bulk[ours, 8] / bulk[rival, 8], bound=5.5),
        at_least(f"64 clients, {many}", bulk[ours, 64] / bulk[rival, 64], bound=5),
        at_least("`snowflake_next()`: 64 clients over 8", bulk[ours, 64] / bulk[ours, 8], bound=0.9),
    ]


def million(rate: float) -> str:
    return f"{rate / 1e6:.2f} M"
