"""What ranges, offsets, shards, causal order and servers for tests cost: a function for each topic."""

from statistics import median

from calls import Call, measured
from crowds import IDS_PER_STATEMENT, million, rate
from report import Section, Target, at_least, at_most
from rich.progress import track
from timing import by_round, paired

from harness import Cluster

OBSERVATIONS = {
    "`snowflake_advance(id)`, observed before": Call("snowflake_advance(i)"),
    # Takes the lock for each, and ends the block, so that the next one takes it again.
    "`snowflake_advance(snowflake_next() + 1)`": Call("snowflake_advance(snowflake_next() + 1)", table="few"),
    "`snowflake_next()`": Call("snowflake_next()"),
}
OWN, SHARD, TURNS = "`snowflake_next()`", "`snowflake_next(7)`", "`snowflake_next(7 + i % 8)`"
SHARDS = {
    OWN: Call("snowflake_next()"),
    SHARD: Call("snowflake_next(7)"),
    TURNS: Call("snowflake_next((7 + i % 8)::int)", base="(7 + i % 8)::int"),
}
TAKE_SHARDS = "SELECT id_gen_shard_take(shard, above => 0) FROM generate_series(7, 14) shard"
SHARD_CLIENTS = (1, 2, 8)
SHARD_BOUND = 0.5
# All clients of a shard write one word, as those of a strict order do, which costs processors some of their speed.
SHARD_CROWD_BOUND = 0.5
OBSERVED_BOUND_NS = 20
ABOVE_BOUND_NS = 600

CROWD = 8
TICKETS = {
    "`ticket_next()`": "ticket_next('ticket')",
    "`nextval()`": "nextval('plain')",
    "`nextval()`, cache 64": "nextval('cached')",
    "`nextval()`, one of two masters": "nextval('odd')",
    "rows without a call": "1",
}
SEQUENCES = """
    CREATE EXTENSION id_gen;
    CREATE SEQUENCE ticket;
    CREATE SEQUENCE plain;
    CREATE SEQUENCE cached CACHE 64;
    CREATE SEQUENCE odd INCREMENT 2;
    CREATE TABLE by_ticket (id bigint PRIMARY KEY DEFAULT ticket_next('ticket'), n int);
    CREATE TABLE by_plain (id bigint PRIMARY KEY DEFAULT nextval('plain'), n int);
    CREATE TABLE by_cached (id bigint PRIMARY KEY DEFAULT nextval('cached'), n int);
"""
REPEATABLE = {name: Call(name.strip("`")) for name in ("`snowflake_next()`", "`uuidv7()`")}
INSERTS = {"`ticket_next()`": "by_ticket", "`nextval()`": "by_plain", "`nextval()`, cache 64": "by_cached"}
BULK_ROWS = 20_000


def causal_order(conf: str, rows: int, rounds: int) -> tuple[Section, list[Target]]:
    """What it costs to observe an ID, as a subscriber does for each row."""
    table_rows = {"input": rows // 4, "few": rows // 40}
    with Cluster("causal", conf=conf) as cluster, cluster.connect() as connection:
        connection.execute("CREATE EXTENSION id_gen")
        for table, count in table_rows.items():
            ids = f"SELECT snowflake_next() AS i FROM generate_series(1, {count})"
            connection.execute(f"CREATE UNLOGGED TABLE {table} AS {ids}")
            connection.execute(f"VACUUM ANALYZE {table}")
        connection.execute("SELECT snowflake_advance(snowflake_next() + 1)")
        ns = measured(cluster, OBSERVATIONS, table_rows, rounds, "observing  ")
    cost = {name: median(runs) for name, runs in ns.items()}
    before, above, _ = OBSERVATIONS
    targets = [
        at_most(f"{before}: ns", cost[before], bound=OBSERVED_BOUND_NS),
        at_most(f"{above}: ns", cost[above], bound=ABOVE_BOUND_NS),
    ]
    title = f"Causal order, one call, net of an empty count over the same rows, median of {rounds} rounds"
    return Section(title, ("call", "cost"), [(name, f"{ns:.1f} ns") for name, ns in cost.items()]), targets


def shards(conf: str, rows: int, call_rounds: int, seconds: int, rounds: int) -> tuple[Section, list[Target]]:
    """IDs of a shard beside the server's own: one session, and many of the same shard."""
    # Far enough ahead of the clock for all that is asked for.
    with Cluster("shards", conf=f"{conf}\nid_gen.max_lead = '1h'\n") as cluster, cluster.connect() as connection:
        connection.execute("CREATE EXTENSION id_gen")
        connection.execute(TAKE_SHARDS)
        connection.execute(f"CREATE UNLOGGED TABLE input AS SELECT generate_series(1, {rows}) AS i".encode())
        connection.execute("VACUUM ANALYZE input")
        ns = measured(cluster, SHARDS, {"input": rows}, call_rounds, "shards  ")
        crowds: dict[tuple[str, int], list[float]] = {}
        for _ in range(rounds):
            for clients in SHARD_CLIENTS:
                for name, call in SHARDS.items():
                    made = rate(cluster, _counted(call.expression), clients, seconds) * IDS_PER_STATEMENT
                    crowds.setdefault((name, clients), []).append(made)
    table = [
        (name, f"{median(ns[name]):.1f} ns", *(million(median(crowds[name, each])) for each in SHARD_CLIENTS))
        for name in SHARDS
    ]
    title = f"Shards: one call, net of an empty count, and IDs a second with {IDS_PER_STATEMENT:,} a statement"
    header = ("call", "cost", *(f"{clients} clients" for clients in SHARD_CLIENTS))
    most = SHARD_CLIENTS[-1]
    alone = crowds[SHARD, 1]
    return Section(title, header, table), [
        at_least(f"{SHARD}, one client, of {OWN}", median(by_round(alone, crowds[OWN, 1])), SHARD_BOUND),
        at_least(f"{SHARD}, {most} clients, of one", median(by_round(crowds[SHARD, most], alone)), SHARD_CROWD_BOUND),
    ]


def _counted(call: str) -> str:
    return f"SELECT count({call}) FROM generate_series(1, {IDS_PER_STATEMENT}) i;"


def tickets(conf: str, calls: int, call_rounds: int, seconds: int, rounds: int) -> tuple[Section, list[Target]]:
    """One call, and numbers a second of 8 clients: many a statement, one a statement, and one with each row that is
    inserted."""
    many, one, rows = "2,000 a statement", "one a statement", "inserted, one a statement"
    bulk = f"inserted, {BULK_ROWS:,} a statement, one client"
    runs: dict[tuple[str, str], list[float]] = {}
    with Cluster("ranges", conf=conf) as cluster:
        cluster.psql(SEQUENCES)
        for table, count in {"input": calls, "few": IDS_PER_STATEMENT}.items():
            cluster.psql(f"CREATE UNLOGGED TABLE {table} AS SELECT generate_series(1, {count}) AS i")
            cluster.psql(f"VACUUM ANALYZE {table}")
        alone = {name: Call(call) for name, call in TICKETS.items() if call != "1"}
        ns = measured(cluster, alone, {"input": calls}, call_rounds, "tickets    ")
        for _ in track(range(rounds), description="tickets    ", transient=True):
            for name, call in TICKETS.items():
                # The rows of a table, for generate_series() takes longer for one than a ticket takes.
                statements = rate(cluster, f"SELECT count({call}) FROM few;", CROWD, seconds)
                runs.setdefault((name, many), []).append(statements * IDS_PER_STATEMENT)
                runs.setdefault((name, one), []).append(rate(cluster, f"SELECT {call};", CROWD, seconds))
            for name, table in INSERTS.items():
                insert = f"INSERT INTO {table} (n) VALUES (1);"
                runs.setdefault((name, rows), []).append(rate(cluster, insert, CROWD, seconds))
                insert = f"INSERT INTO {table} (n) SELECT generate_series(1, {BULK_ROWS});"
                runs.setdefault((name, bulk), []).append(rate(cluster, insert, 1, seconds) * BULK_ROWS)
    kinds = (many, one, rows, bulk)
    shown = [
        (
            name,
            f"{median(ns[name]):.1f} ns" if name in ns else "",
            *(million(median(runs[name, kind])) if (name, kind) in runs else "" for kind in kinds),
        )
        for name in TICKETS
    ]
    header = ("call", "cost", *kinds)
    ours, rival = "`ticket_next()`", "`nextval()`"
    targets = [
        at_least(f"{CROWD} clients, {many}: {ours} over {rival}", paired(runs[ours, many], runs[rival, many]), bound=5),
        at_least(f"{CROWD} clients, {one}: {ours} over {rival}", paired(runs[ours, one], runs[rival, one])),
        at_least(f"{CROWD} clients, {rows}: {ours} over {rival}", paired(runs[ours, rows], runs[rival, rows])),
        at_least(f"{bulk}: {ours} over {rival}", paired(runs[ours, bulk], runs[rival, bulk])),
    ]
    title = f"Tickets: one call, net of an empty count, and numbers a second of {CROWD} clients"
    return Section(title, header, shown), targets


def servers_for_tests(conf: str, rows: int, rounds: int) -> Section:
    """IDs that are the same in each run."""
    with Cluster("repeatable", conf=f"{conf}\nid_gen.test_start = '2024-06-01 00:00:00+00'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(f"CREATE UNLOGGED TABLE input AS SELECT generate_series(1, {rows}) AS i")
        cluster.psql("VACUUM ANALYZE input")
        ns = measured(cluster, REPEATABLE, {"input": rows}, rounds, "for tests  ")
    title = f"A server for tests: one call, net of an empty count over the same rows, median of {rounds} rounds"
    return Section(title, ("call", "cost"), [(name, f"{median(runs):.1f} ns") for name, runs in ns.items()])
