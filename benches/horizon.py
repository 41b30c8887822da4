"""What it costs to read the commit horizon, as sessions with a running transaction grow in number.

Each call is a statement of its own in a procedure that commits in between, so that it is read anew. The same loop with
a function of PostgreSQL's that does as good as nothing is subtracted: it is STABLE too, so it is given a snapshot.
"""

from contextlib import ExitStack
from statistics import median

from report import Section, Target, at_most
from rich.progress import track
from timing import timed

from harness import Cluster

CALLS = 2_000
# Sessions with a running transaction that has an ID, and how many microseconds a call may take beside them.
BOUNDS_US = {1: 2.0, 100: 2.0, 1_000: 20.0}
LOOP = """
    CREATE OR REPLACE PROCEDURE {name}(calls integer) LANGUAGE plpgsql AS $$
    DECLARE horizon bigint;
    BEGIN
        FOR each IN 1..calls LOOP
            horizon := {call};
            COMMIT;
        END LOOP;
    END $$
"""


def microseconds(cluster: Cluster, rounds: int) -> float:
    """Of one call."""
    with cluster.connect() as reader:
        took: dict[str, list[float]] = {"with_horizon": [], "with_pid": []}
        reader.execute(LOOP.format(name="with_horizon", call="snowflake_safe_horizon()"))
        reader.execute(LOOP.format(name="with_pid", call="pg_backend_pid()"))
        for name in [*took] * rounds:
            took[name].append(timed(reader, f"CALL {name}({CALLS})"))
    net = [one - other for one, other in zip(took["with_horizon"], took["with_pid"], strict=True)]
    return median(net) / CALLS * 1e6


def measure(conf: str, rounds: int) -> tuple[Section, list[Target]]:
    most = max(BOUNDS_US)
    rows, targets = [], []
    with Cluster("horizon", conf=f"{conf}max_connections = {most + 10}\n") as cluster, ExitStack() as stack:
        cluster.psql("CREATE EXTENSION id_gen")
        sessions = 0
        for wanted, bound_us in track(BOUNDS_US.items(), description="horizon    ", transient=True):
            while sessions < wanted:
                session = stack.enter_context(cluster.connect())
                session.execute("BEGIN")
                session.execute("SELECT snowflake_next()")
                sessions += 1
            took_us = microseconds(cluster, rounds)
            rows.append((f"{wanted:,}", f"{took_us:.2f} µs"))
            text = f"`snowflake_safe_horizon()` beside {wanted:,} sessions with a pending ID, µs"
            targets.append(at_most(text, took_us, bound=bound_us))
    net = "net of `pg_backend_pid()` in the same loop"
    title = f"`snowflake_safe_horizon()`, {net}, medians of {rounds} runs of {CALLS:,} calls"
    return Section(title, ("sessions with a pending ID", "a call"), rows), targets
