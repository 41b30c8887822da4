"""What it costs to read the commit horizon, as sessions with a running transaction grow in number; and what it costs to
insert single rows, where every ID is the first of a transaction.

Each call is a statement of its own in a procedure that commits in between, so that it is read anew. The same loop with
a function of PostgreSQL's that does as good as nothing is subtracted: it is STABLE too, so it is given a snapshot.

Rows are inserted on two servers, one with the same library built without the horizon. They take turns and start anew
each time, as in counting.py.
"""

from contextlib import ExitStack
from statistics import median

from counting import HORIZON, NEXT, with_and_without
from crowds import figures, pgbench
from report import Section, Target, at_least, at_most
from rich.progress import track
from timing import paired, timed

from harness import Cluster

CALLS = 2_000
# Sessions with a running transaction that has an ID, and how many microseconds a call may take beside them.
BOUNDS_US = {1: 2.0, 100: 2.0, 1_000: 20.0}
INSERTING_CLIENTS = (8, 64)
# More for pgbench, whose sessions have to connect within its time; the rate that it prints leaves that out.
CONNECTING_SECONDS = 2
# The rate of a single round may be a tenth off.
ENOUGH_ROUNDS = 20
TABLE = "CREATE TABLE inserted (id bigint PRIMARY KEY DEFAULT next(), n int)"
INSERT = "INSERT INTO inserted (n) VALUES (1);"
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
        reader.execute(LOOP.format(name="with_horizon", call="snowflake_commit_horizon()"))
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
            text = f"`snowflake_commit_horizon()` beside {wanted:,} sessions with a pending ID, µs"
            targets.append(at_most(text, took_us, bound=bound_us))
    net = "net of `pg_backend_pid()` in the same loop"
    title = f"`snowflake_commit_horizon()`, {net}, medians of {rounds} runs of {CALLS:,} calls"
    return Section(title, ("sessions with a pending ID", "a call"), rows), targets


def inserts(conf: str, seconds: int, rounds: int) -> tuple[Section, list[Target]]:
    rows, targets = [], []
    with with_and_without(HORIZON, conf) as clusters:
        for cluster in clusters:
            cluster.psql(f"{NEXT}; {TABLE}")
        for clients in INSERTING_CLIENTS:
            pairs = []
            for number in track(range(rounds), description="inserts    ", transient=True):
                order = 1 if number % 2 else -1
                pairs.append([inserted(cluster, clients, seconds) for cluster in clusters[::order]][::order])
            rates = list(zip(*pairs, strict=True))
            ratio = paired(*rates)
            rows.append((f"{clients}", *(f"{median(each):,.0f}" for each in rates), f"{ratio:.3f}"))
            bound = 0.98 if rounds >= ENOUGH_ROUNDS else None
            text = f"{clients} clients, single inserts a second: with {HORIZON.name} over without"
            targets.append(at_least(text, ratio, bound=bound))
    title = (
        f"Single inserts a second with and without {HORIZON.name}, medians of {rounds} starts of each server; the "
        "ratio is the median of paired ones"
    )
    return Section(title, ("clients", "with", "without", "ratio"), rows), targets


def inserted(cluster: Cluster, clients: int, seconds: int) -> float:
    """Rows a second on a newly started server."""
    cluster.restart()
    cluster.psql("TRUNCATE inserted")
    (tps,) = figures(pgbench(cluster, INSERT, clients, CONNECTING_SECONDS + seconds), r"^tps = ([0-9.]+)")
    return tps
