"""What an ID of every kind costs: one call, beside an empty function that returns as much, and beside its rivals.

Each call and its empty function are measured one after the other. What is left between them is the work that the kind
needs; the rest is PostgreSQL's.
"""

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import psycopg
from calls import Call, empty_functions, measured
from crowds import IDS_PER_STATEMENT, million, rate
from report import Section, Target, at_least, at_most
from rich.progress import track
from timing import paired

from harness import Cluster
from harness.catalog import CREATE_ALL
from harness.masks import MASKING, write_key_file

FORMATS = {"crockford": (13, 26), "base32hex": (13, 26), "base36": (13, 25), "base58": (11, 22), "base62": (11, 22)}
ULID_WIDTH = 26
TYPEID_WIDTH = 31
NAMESPACE = "uuid '6ba7b811-9dad-11d1-80b4-00c04fd430c8'"
CODEC_BOUND_NS = 60
# A million ULIDs in 1.10 s beside 1.43 s for gen_random_uuid() are what pgx_ulid's README has; a third of that ratio.
ULID_BOUND = 1.10 / 1.43 / 3
ORDERED_CLIENTS = (1, 8)
ORDERED = {
    "`uuidv7()`": "public.uuidv7()",
    "`uuidv7_ordered()`": "uuidv7_ordered()",
    "`snowflake_next()`": "snowflake_next()",
}


class Kind(NamedTuple):
    """A call, and an empty function that is called for the same rows."""

    call: str
    empty: str
    column: str = "1"
    table: str = "ids"


def generated(call: str, empty: str) -> Kind:
    return Kind(call, empty, table="few_ids")


GENERATORS = {
    "`snowflake_next()`": generated("snowflake_next()", "empty_bigint()"),
    "`uuidv7()`": generated("public.uuidv7()", "empty_uuid()"),
    "`uuidv7_ordered()`": generated("uuidv7_ordered()", "empty_uuid()"),
    "`uuidv4()`": generated("public.uuidv4()", "empty_uuid()"),
    "`uuidv6()`": generated("uuidv6()", "empty_uuid()"),
    "`uuidv1()`": generated("uuidv1()", "empty_uuid()"),
    "`ulid()`": generated("ulid()", "empty_uuid()"),
    "`ulid_encode(ulid())`": generated("ulid_encode(ulid())", f"empty_text({ULID_WIDTH})"),
    "`typeid('user')`": generated("typeid('user')", f"empty_text({TYPEID_WIDTH})"),
    "`id_random()`": generated("id_random()", "empty_text(21)"),
    "`id_random('BIZ', 20, …)`": generated("id_random('BIZ', 20, '0123456789ABCDEF')", "empty_text(23)"),
    "`gen_random_uuid()`": generated("gen_random_uuid()", "empty_uuid()"),
}
NAMED = {
    f"`{name}(namespace, name)`": Kind(f"{name}({NAMESPACE}, name)", "empty_uuid(name)", "name", "named")
    for name in ("uuidv5", "uuidv3", "uuidv8", "uuid_generate_v5")
}
MASK = "`id_mask(bigint, 'orders')`"
MASKS = {
    MASK: Kind("id_mask(i, 'orders')", "empty_bigint(i)", "i"),
    "`id_mask(uuid, 'orders')`": Kind("id_mask(u, 'orders')", "empty_uuid(u)", "u"),
}


class Codec(NamedTuple):
    """Functions that write a text and read it again; those with a format are called with its name."""

    encode: str
    decode: str
    type: str
    width: int
    written: str
    read: str

    @property
    def table(self) -> str:
        """Where its texts are."""
        return "".join(letter if letter.isalnum() else "_" for letter in self.decode)


def codecs() -> Iterable[Codec]:
    for name, widths in FORMATS.items():
        for type, column, width in zip(("bigint", "uuid"), "iu", widths, strict=True):
            written, read = f"id_encode({column}, '{name}')", f"id_decode_{type}(text, '{name}')"
            yield Codec(f"id_encode({type}, '{name}')", read, type, width, written, read)
    yield Codec("ulid_encode(uuid)", "ulid_decode(text)", "uuid", ULID_WIDTH, "ulid_encode(u)", "ulid_decode(text)")
    written, read = "typeid_encode(u, 'user')", "typeid_decode(text, 'user')"
    yield Codec("typeid_encode(uuid, 'user')", read, "uuid", TYPEID_WIDTH, written, read)


def fill(connection: psycopg.Connection, rows: int) -> dict[str, int]:
    """A table of IDs, and of each codec's texts: the number of rows of each."""
    queries = {
        "ids": "SELECT snowflake_next() AS i, gen_random_uuid() AS u FROM generate_series(1, %s)",
        "few_ids": "SELECT i FROM generate_series(1::bigint, %s) AS i",
        "named": "SELECT 'https://example.com/' || i AS name FROM generate_series(1, %s) AS i",
    }
    queries |= {codec.table: f"SELECT {codec.written} AS text FROM ids LIMIT %s" for codec in codecs()}
    for table, query in queries.items():
        connection.execute(f"CREATE UNLOGGED TABLE {table} AS {query}".replace("%s", str(rows)))
        connection.execute(f"VACUUM ANALYZE {table}")
    return dict.fromkeys(queries, rows)


def kinds() -> dict[str, Kind]:
    found = GENERATORS | NAMED | MASKS
    for codec in codecs():
        column = {"bigint": "i", "uuid": "u"}[codec.type]
        found[f"`{codec.encode}`"] = Kind(codec.written, f"empty_text({column}, {codec.width})", column)
        found[f"`{codec.decode}`"] = Kind(codec.read, f"empty_{codec.type}(text)", "text", codec.table)
    return found


def costs(conf: str, calls: int, rounds: int) -> tuple[Section, list[Target]]:
    """What one call costs, and what of that is the kind's own work."""
    rows = calls // 4
    with Cluster("family", conf=conf + MASKING) as cluster, cluster.connect() as connection:
        write_key_file(cluster)
        connection.execute(f'{CREATE_ALL}; CREATE EXTENSION "uuid-ossp"')
        table_rows = fill(connection, rows)
        found = kinds()
        pairs = {name: (name, f"empty beside {name}") for name in found}
        measure = {
            of: Call(expression, kind.column, table=kind.table)
            for name, kind in found.items()
            for of, expression in zip(pairs[name], (kind.call, kind.empty), strict=True)
        }
        with empty_functions(connection, cluster.server):
            ns = measured(cluster, measure, table_rows, rounds, "family     ")
    cost = {name: median(ns[name]) for name in found}
    own = {
        name: median(one - other for one, other in zip(ns[name], ns[empty], strict=True))
        for name, (_, empty) in pairs.items()
    }
    title = f"Every kind of ID, one call, net of an empty count over the same {rows:,} rows, median of {rounds} rounds"
    header = ("call", "cost", "less an empty function of its type")
    shown = [(name, f"{cost[name]:.1f} ns", f"{own[name]:.1f} ns") for name in found]
    return Section(title, header, shown), targets(cost, own)


def targets(cost: dict[str, float], own: dict[str, float]) -> list[Target]:
    random, v5, their_v5 = (f"`{name}`" for name in ("gen_random_uuid()", *(
        f"{name}(namespace, name)" for name in ("uuidv5", "uuid_generate_v5")
    )))  # fmt: skip
    ulid = "`ulid_encode(ulid())`"
    found = [
        at_least(f"{random} over `uuidv4()`", cost[random] / cost["`uuidv4()`"], bound=20),
        at_least(f"{their_v5} over ours", cost[their_v5] / cost[v5], bound=1.5),
        at_most(f"{ulid} over {random}", cost[ulid] / cost[random], bound=round(ULID_BOUND, 3)),
    ]
    for codec in codecs():
        empty = f"an empty text of {codec.width} characters"
        found.append(at_most(f"`{codec.encode}`: ns over {empty}", own[f"`{codec.encode}`"], bound=CODEC_BOUND_NS))
        empty = f"an empty function that returns a {codec.type}"
        found.append(at_most(f"`{codec.decode}`: ns over {empty}", own[f"`{codec.decode}`"], bound=CODEC_BOUND_NS))
    found.append(at_most(f"{MASK}: ns over an empty function", own[MASK], bound=1_000))
    return found


def in_order(conf: str, seconds: int, rounds: int) -> tuple[Section, list[Target]]:
    """What it costs many sessions to share one order."""
    runs: dict[tuple[str, int], list[float]] = {(name, clients): [] for clients in ORDERED_CLIENTS for name in ORDERED}
    with Cluster("in_order", conf=conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        for _ in track(range(rounds), description="in order   ", transient=True):
            for name, clients in runs:
                script = f"SELECT count({ORDERED[name]}) FROM generate_series(1, {IDS_PER_STATEMENT});"
                runs[name, clients].append(rate(cluster, script, clients, seconds) * IDS_PER_STATEMENT)
    shown = [(name, *(million(median(runs[name, clients])) for clients in ORDERED_CLIENTS)) for name in ORDERED]
    header = ("IDs a second", *(f"{clients} clients" for clients in ORDERED_CLIENTS))
    ordered, plain, *_ = "`uuidv7_ordered()`", "`uuidv7()`"
    beside = [
        at_least(f"{clients} clients: {ordered} over {plain}", paired(runs[ordered, clients], runs[plain, clients]))
        for clients in ORDERED_CLIENTS
    ]
    return Section(f"UUIDs in strict order over the server, {IDS_PER_STATEMENT:,} a statement", header, shown), beside
