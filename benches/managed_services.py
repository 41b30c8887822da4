"""What the script for managed services costs, beside `nextval()` and the library, in one database that has all three.

One call in each row of a query; rows inserted by a statement each; and how much write-ahead log an ID takes.
"""

from statistics import median

import psycopg
from calls import Call, measured
from crowds import figures, pgbench
from report import Section, Target, at_least, at_most
from rich.progress import track
from timing import paired

from harness import Cluster
from harness.managed import SCRIPT

INSERTING_CLIENTS = (1, 8, 64)
LOGGED_IDS = 100_000
NEXTVAL, LIBRARY, OURS = "`nextval()`", "`snowflake_next()` of the library", "`snowflake_next()` of the script"
NEXT = {NEXTVAL: "nextval('plain')", LIBRARY: "id_gen.snowflake_next()", OURS: "public.snowflake_next()"}
CALLS = {
    **{name: Call(call) for name, call in NEXT.items()},
    "`uuidv7()` of the library": Call("id_gen.uuidv7()"),
    "`uuidv7()` of the script": Call("public.uuidv7()"),
    "`snowflake_timestamp(id, layout)` of the library": Call("id_gen.snowflake_timestamp(i, 'wide')", "i"),
    "`snowflake_timestamp(id, layout)` of the script": Call("public.snowflake_timestamp(i, 'wide')", "i"),
}
# So much slower is the script at most, in one session; and so much of the inserts is left at least, with 8.
SLOWER = 30
LEFT = 0.5


def prepare(cluster: Cluster, connection: psycopg.Connection, rows: int) -> None:
    """The script in `public`, the library in a schema of its own."""
    cluster.psql(f"BEGIN; {SCRIPT.read_text()} COMMIT;")
    connection.execute("SELECT id_gen_managed.configure(worker_id => 2, layout => 'wide')")
    connection.execute("SELECT id_gen_managed.use_extension()")
    connection.execute("SELECT id_gen_managed.use_script(worker_id => 3)")
    connection.execute("CREATE SEQUENCE plain")
    connection.execute("CREATE UNLOGGED TABLE input AS SELECT i FROM generate_series(1::bigint, %s) AS i", [rows])
    connection.execute("VACUUM ANALYZE input")
    for number, call in enumerate(NEXT.values()):
        connection.execute(f"CREATE TABLE item_{number} (id bigint PRIMARY KEY DEFAULT {call}, n integer)".encode())


def together(call: str) -> str:
    """All of them in one transaction."""
    return f"SELECT count({call}) FROM generate_series(1, {LOGGED_IDS})"


def apart(call: str) -> str:
    """A transaction for each."""
    return f"DO $$ BEGIN FOR each IN 1..{LOGGED_IDS} LOOP PERFORM {call}; COMMIT; END LOOP; END $$"


def logged(connection: psycopg.Connection, statement: str) -> float:
    """Bytes of write-ahead log for each ID."""
    position = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
    before = connection.execute(position).fetchone() or (0,)
    connection.execute(statement.encode())
    after = connection.execute(position).fetchone() or (0,)
    return float(after[0] - before[0]) / LOGGED_IDS


def measure(conf: str, rows: int, seconds: int, rounds: int) -> list[tuple[Section, list[Target]]]:
    with Cluster("managed", conf=conf) as cluster, cluster.connect() as connection:
        prepare(cluster, connection, rows)
        ns = {
            name: median(runs)
            for name, runs in measured(cluster, CALLS, {"input": rows}, rounds, "script     ").items()
        }
        log = {
            name: (logged(connection, together(call)), logged(connection, apart(call))) for name, call in NEXT.items()
        }
        return [one_call(ns, log, rows), inserts(cluster, seconds, rounds)]


def one_call(ns: dict[str, float], log: dict[str, tuple[float, float]], rows: int) -> tuple[Section, list[Target]]:
    table = []
    for name, cost in ns.items():
        many, one = (f"{each:,.0f} bytes" for each in log[name]) if name in log else ("", "")
        table.append((name, f"{cost:,.0f} ns", many, one))
    title = f"The script for managed services: one call, net of an empty count over the same {rows:,} rows"
    header = ("call", "cost", "log for each of many in a transaction", "log for one in a transaction")
    ratio = at_most("`snowflake_next()` of the script over `nextval()`", ns[OURS] / ns[NEXTVAL], bound=SLOWER)
    return Section(title, header, table), [ratio]


def inserts(cluster: Cluster, seconds: int, rounds: int) -> tuple[Section, list[Target]]:
    tps: dict[tuple[str, int], list[float]] = {(name, count): [] for name in NEXT for count in INSERTING_CLIENTS}
    for _ in track(range(rounds), description="inserts    ", transient=True):
        for clients in INSERTING_CLIENTS:
            for number, name in enumerate(NEXT):
                printed = pgbench(cluster, f"INSERT INTO item_{number} (n) VALUES (1);", clients, seconds)
                tps[name, clients] += figures(printed, r"^tps = ([0-9.]+)")
    table = [(name, *(f"{median(tps[name, clients]):,.0f}" for clients in INSERTING_CLIENTS)) for name in NEXT]
    title = f"The script for managed services beside others: single inserts a second, medians of {rounds}"
    section = Section(title, ("key", *(f"{clients} clients" for clients in INSERTING_CLIENTS)), table)
    text = "8 clients, single inserts a second: the script over `nextval()`"
    return section, [at_least(text, paired(tps[OURS, 8], tps[NEXTVAL, 8]), bound=LEFT)]
