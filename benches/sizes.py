"""What a key of each kind takes on disk: tables that have nothing but their key, filled in the order in which the keys
are made. `id_gen_recommend()` answers with these figures (core/src/sizes.rs)."""

import psycopg
from report import Section, Target, at_least
from rich.progress import track

from harness import Cluster

# As core/src/sizes.rs calls them, with a column that makes them.
KINDS = {
    "bigint": "bigint DEFAULT nextval('plain')",
    "snowflake": "bigint DEFAULT snowflake_next()",
    "uuidv7": "uuid DEFAULT public.uuidv7()",
    "uuidv7_ordered": "uuid DEFAULT uuidv7_ordered()",
    "ulid": "uuid DEFAULT ulid()",
    "uuidv4": "uuid DEFAULT uuidv4()",
    "ulid as text": 'text COLLATE "C" DEFAULT ulid_encode(ulid())',
    "typeid": "text COLLATE \"C\" DEFAULT typeid('user')",
    "id_random": 'text COLLATE "C" DEFAULT id_random()',
}
TURN_ROWS = 50_000


def bytes_per_row(connection: psycopg.Connection, column: str, rows: int) -> tuple[float, float]:
    """Of the table, and of its primary key."""
    connection.execute(f"CREATE TABLE keys (id {column} PRIMARY KEY)")
    insert = "INSERT INTO keys SELECT FROM generate_series(1, %s)"
    for _ in range(rows // TURN_ROWS):
        connection.execute(insert, [TURN_ROWS])
    (table, index) = connection.execute(
        "SELECT pg_relation_size('keys'), pg_relation_size('keys_pkey')"
    ).fetchone() or (0, 0)
    connection.execute("DROP TABLE keys")
    return table / rows, index / rows


def measure(conf: str, rows: int) -> tuple[Section, list[Target]]:
    with Cluster("sizes", conf=conf) as cluster, cluster.connect() as connection:
        connection.execute("CREATE EXTENSION id_gen; CREATE SEQUENCE plain")
        sizes = {
            kind: bytes_per_row(connection, column, rows)
            for kind, column in track(KINDS.items(), description="sizes      ", transient=True)
        }
    least = sum(sizes["bigint"])
    shown = [
        (f"`{kind}`", f"{table:.2f}", f"{index:.2f}", f"{(table + index) / least:.2f}")
        for kind, (table, index) in sizes.items()
    ]
    title = f"Bytes per row of a table that has nothing but its key, {rows:,} rows in the order in which keys are made"
    return Section(title, ("kind", "table", "primary key", "× `bigint`"), shown), [
        at_least("bytes per row: UUIDv4 over snowflake", sum(sizes["uuidv4"]) / sum(sizes["snowflake"]), bound=1.3)
    ]
