"""What it costs to profile a column, beside what anybody would ask of it at least: its ends, and its values in order.

An index on the column spares both the sorting.
"""

from statistics import median

from report import Section, Target, at_most
from timing import by_round, timed

from harness import Cluster

# The profile reads the table once as it is stored and once sorted, and so do these.
PLAIN = [
    "SELECT count(*), min(id), max(id) FROM stored",
    "SELECT count(*) FROM (SELECT id FROM stored ORDER BY id OFFSET 0) AS sorted",
]
PROFILE = "SELECT * FROM id_gen_profile('stored', 'id')"
# The plain queries in one process, too.
CONF = "shared_buffers = '1GB'\nwork_mem = '64MB'\nmax_parallel_workers_per_gather = 0\n"
BOUND = 1.5


def measure(conf: str, rows: int, rounds: int) -> tuple[Section, list[Target]]:
    table, targets = [], []
    with Cluster("profile", conf=conf + CONF) as cluster, cluster.connect() as connection:
        connection.execute("CREATE EXTENSION id_gen_tools CASCADE")
        made = f"SELECT snowflake_next() AS id, i, repeat('x', 30) AS more FROM generate_series(1, {rows}) i"
        connection.execute(f"CREATE TABLE stored AS {made}")
        for name in ("no index", "an index"):
            if name == "an index":
                connection.execute("CREATE INDEX ON stored (id)")
            connection.execute("VACUUM ANALYZE stored")
            plain, profiled = [], []
            for _ in range(rounds):
                plain.append(sum(timed(connection, query) for query in PLAIN))
                profiled.append(timed(connection, PROFILE))
            rate = rows / median(profiled) / 1e6
            table.append((name, f"{rate:.1f} M", f"{rows / median(plain) / 1e6:.1f} M"))
            text = f"`id_gen_profile()` / `count`, `min`, `max` and a sort, {name}"
            targets.append(at_most(text, median(by_round(profiled, plain)), bound=BOUND))
    title = f"Rows a second that a profile reads, of a table of {rows:,}, medians of {rounds} runs"
    return Section(title, ("on the column", "`id_gen_profile()`", "`count`, `min`, `max` and a sort"), table), targets
