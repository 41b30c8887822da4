"""What an ID costs, beside its rivals, on one throwaway server in one run.

Two questions. What does one call cost? `count(call)` over many rows, less an empty `count` over the same rows, in
rounds that take turns so that a machine that drifts slows all of them alike; the medians are printed. And how many
IDs a second do several clients get? pgbench, with 2,000 IDs a statement. Ratios compare; absolute times are the
machine's.

    make bench             the table
    make bench WRITE=1     the table, also into docs/benchmarks.md
"""

import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg
from rich.console import Console
from rich.progress import track
from rich.table import Table

from harness import GENERATING, Cluster

ROWS = 2_000_000
ROUNDS = 7
CLIENTS = 8
IDS_PER_STATEMENT = 2_000
SECONDS = 4
PGBENCH_ROUNDS = 5
REPORT = Path(__file__).parent.parent / "docs" / "benchmarks.md"

CONF = f"""{GENERATING}
id_gen.layout = 'wide'
jit = off
max_connections = 200
"""

EMPTY = "i"
CALLS = {
    "empty `count()`": EMPTY,
    "`clock_timestamp()`": "clock_timestamp()",
    "`snowflake_next()`": "snowflake_next()",
    "`nextval()`": "nextval('plain')",
    "`nextval()`, cache 1000": "nextval('cached')",
    "`uuidv7()`": "uuidv7()",
    "`gen_random_uuid()`": "gen_random_uuid()",
    "`snowflake_timestamp(id)`": "snowflake_timestamp(i)",
    "`snowflake_min(ts)`": "snowflake_min('2026-01-01'::timestamptz + i * interval '0')",
}
CROWDS = {"`nextval()`": "nextval('plain')", "`snowflake_next()`": "snowflake_next()"}


@dataclass(frozen=True)
class Target:
    """A ratio that must hold: `quantity` of `ours` over `rival`, at most or at least `bound`."""

    text: str
    ratio: float
    bound: float
    at_most: bool

    @property
    def holds(self) -> bool:
        return self.ratio <= self.bound if self.at_most else self.ratio >= self.bound


def call_costs(connection: psycopg.Connection) -> dict[str, float]:
    """Net nanoseconds of one call of each."""
    milliseconds: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in track(range(ROUNDS), description="one client ", transient=True):
        for name, call in CALLS.items():
            started = time.perf_counter()
            connection.execute(f"SELECT count({call}) FROM generate_series(1, {ROWS}) AS i")
            milliseconds[name].append(time.perf_counter() - started)
    empty = milliseconds.pop(next(iter(CALLS)))
    return {
        name: median(took - base for took, base in zip(runs, empty, strict=True)) / ROWS * 1e9
        for name, runs in milliseconds.items()
    }


def crowd_rates(cluster: Cluster) -> dict[str, float]:
    """IDs a second that several clients get together."""
    rates: dict[str, list[float]] = {name: [] for name in CROWDS}
    for _ in track(range(PGBENCH_ROUNDS), description=f"{CLIENTS} clients", transient=True):
        for name, call in CROWDS.items():
            script = f"SELECT count({call}) FROM generate_series(1, {IDS_PER_STATEMENT});"
            rates[name].append(pgbench(cluster, script) * IDS_PER_STATEMENT)
    return {name: median(runs) for name, runs in rates.items()}


def pgbench(cluster: Cluster, script: str) -> float:
    """Statements a second."""
    done = subprocess.run(
        [
            cluster.server.bindir / "pgbench", "--no-vacuum", f"--client={CLIENTS}", "--jobs=2", f"--time={SECONDS}",
            "--protocol=prepared", "--file=/dev/stdin", f"--host={cluster.socket_dir}", "--username=postgres",
            "postgres",
        ],
        input=script, text=True, capture_output=True,
    )  # fmt: skip
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"pgbench failed: {done.stderr}")
    return float(found[1])


def targets(cost: dict[str, float], rate: dict[str, float]) -> list[Target]:
    ours, clock = cost["`snowflake_next()`"], cost["`clock_timestamp()`"]
    return [
        Target("`snowflake_next()` over `clock_timestamp()`", ours / clock, 1.5, True),
        Target("`nextval()` over `snowflake_next()`", cost["`nextval()`"] / ours, 5, False),
        Target("`gen_random_uuid()` over `uuidv7()`", cost["`gen_random_uuid()`"] / cost["`uuidv7()`"], 12, False),
        Target(
            f"{CLIENTS} clients: IDs a second, `snowflake_next()` over `nextval()`",
            rate["`snowflake_next()`"] / rate["`nextval()`"], 4, False,
        ),
    ]  # fmt: skip


def machine(connection: psycopg.Connection) -> str:
    (version,) = connection.execute("SELECT split_part(version(), ' on ', 1)").fetchone() or ("?",)
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{version}; {os.cpu_count()} cores, {model[1] if model else platform.processor()}"


def main() -> None:
    with Cluster("bench", conf=CONF) as cluster, psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION id_gen")
        connection.execute("CREATE SEQUENCE plain")
        connection.execute("CREATE SEQUENCE cached CACHE 1000")
        where = machine(connection)
        cost = call_costs(connection)
        rate = crowd_rates(cluster)

    wanted = targets(cost, rate)
    rows_of_cost = [(name, f"{ns:.0f} ns", f"{ns / cost['`clock_timestamp()`']:.2f}") for name, ns in cost.items()]
    rows_of_rate = [(name, f"{ids / 1e6:.2f} M/s", f"{ids / rate['`nextval()`']:.2f}") for name, ids in rate.items()]
    rows_of_target = [
        (
            each.text,
            f"{each.ratio:.2f}",
            f"{'≤' if each.at_most else '≥'} {each.bound:g}",
            "yes" if each.holds else "NO",
        )
        for each in wanted
    ]
    tables = [
        (f"One call, net of an empty count() over {ROWS:,} rows, median of {ROUNDS} rounds",
         ("call", "cost", "× `clock_timestamp()`"), rows_of_cost),
        (f"{CLIENTS} clients, {IDS_PER_STATEMENT:,} IDs a statement, median of {PGBENCH_ROUNDS} runs of {SECONDS} s",
         ("call", "IDs a second", "× `nextval()`"), rows_of_rate),
        ("What must hold", ("ratio", "measured", "wanted", "holds"), rows_of_target),
    ]  # fmt: skip
    console = Console()
    console.print(where)
    for title, header, rows in tables:
        table = Table(*(text.replace("`", "") for text in header), title=title, title_justify="left")
        for row in rows:
            table.add_row(*(text.replace("`", "") for text in row))
        console.print(table)
    if os.environ.get("WRITE"):
        write(where, tables)
    if not all(each.holds for each in wanted):
        sys.exit("some ratios do not hold; measure again on a quiet machine before believing either")


def write(where: str, tables: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]) -> None:
    lines = ["# Benchmarks", "", "Made by `make bench WRITE=1`; absolute times vary between machines, ratios hold.", ""]
    lines += [f"Machine: {where}. Layout `wide`.", ""]
    for title, header, rows in tables:
        lines += [f"## {title}", "", f"| {' | '.join(header)} |", f"| {' | '.join('---' for _ in header)} |"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines += [""]
    REPORT.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
