"""docs/partitions.md is run with the real pg_partman: bounds are exact, rows go where their time says, maintenance adds
what comes next and drops what is old, and a range of time reads its partitions alone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from harness import GENERATING, Cluster
from harness.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs/partitions.md")
UUID, BIGINT, TEXT = "UUIDv7", "Snowflakes in a bigint column", "Snowflakes as text"

# A layout that begins neither at midnight nor at the beginning of a tick's second.
ODD_LAYOUT = "twitter"

DAY = "86400 s"


class Table(NamedTuple):
    """A partitioned table of the page, and how its keys and times become each other."""

    name: str
    least: str
    most: str
    time: str


TABLES = {
    UUID: Table("event", "uuidv7_min({})", "uuidv7_max({})", "uuidv7_timestamp({})"),
    BIGINT: Table("measurement", "snowflake_min({})", "snowflake_max({})", "snowflake_timestamp({})"),
    TEXT: Table(
        "message",
        "lpad(snowflake_min({})::text, 19, '0')",
        "lpad(snowflake_max({})::text, 19, '0')",
        "snowflake_timestamp({}::bigint)",
    ),
}

# The bounds of each partition but the default, as pg_partman sees them in the catalog.
BOUNDS = r"""
SELECT c.oid::regclass::text, bound[1], bound[2]
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid,
       regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''?([^'')]+)''?\) TO \(''?([^'')]+)''?\)') AS bound
 WHERE i.inhparent = %s::regclass AND bound IS NOT NULL
 ORDER BY 2
"""


def run(connection: psycopg.Connection, title: str) -> None:
    for sql in PAGE.blocks("sql", title):
        connection.execute(sql)


@pytest.fixture(scope="module", params=["default", ODD_LAYOUT])
def server(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster("partitioned", conf=f"{GENERATING}id_gen.layout = '{request.param}'\n") as cluster:
        yield cluster


@pytest.fixture
def connection(server: Cluster) -> Iterator[psycopg.Connection]:
    with server.database("shop") as dbname, server.connect(dbname) as connection:
        run(connection, "Partitions by time, kept by pg_partman")
        yield connection


def bounds(connection: psycopg.Connection, table: Table) -> list[tuple[str, str, str]]:
    return connection.execute(BOUNDS, [table.name]).fetchall()


def times(connection: psycopg.Connection, table: Table) -> list[tuple[str, str]]:
    """When each partition begins and ends."""
    cast = "uuid" if table.name == "event" else "bigint" if table.name == "measurement" else "text"
    query = f"SELECT {table.time.format(f'%s::{cast}')}::text, {table.time.format(f'%s::{cast}')}::text"
    return [connection.execute(query, [low, high]).fetchone() for _, low, high in bounds(connection, table)]


def place_of(connection: psycopg.Connection, table: Table, key: str) -> str:
    """The partition that a new row comes to lie in."""
    insert = f"INSERT INTO {table.name} (id) VALUES ({key}) RETURNING tableoid::regclass::text"
    (place,) = connection.execute(insert).fetchone()
    return place


@pytest.mark.parametrize("title", TABLES)
def test_bounds_are_exact(connection: psycopg.Connection, title: str) -> None:
    table = TABLES[title]
    run(connection, title)
    made = bounds(connection, table)
    assert len(made) >= 5
    for (_, begin), (following, _) in zip(times(connection, table), times(connection, table)[1:], strict=False):
        assert begin == following, "there is a gap"
    for (place, _, _), (begin, end) in zip(made, times(connection, table), strict=True):
        assert begin.endswith(" 00:00:00+00"), "no midnight"
        first = table.least.format(f"timestamptz '{begin}'")
        last = table.most.format(f"timestamptz '{end}' - interval '1 ms'")
        assert place_of(connection, table, first) == place
        assert place_of(connection, table, last) == place
    assert connection.execute(f"SELECT count(*) FROM ONLY {table.name}_default").fetchone() == (0,)
    # What is made now lies where now is.
    (place,) = connection.execute(
        f"INSERT INTO {table.name} DEFAULT VALUES RETURNING tableoid::regclass::text"
    ).fetchone()
    current = connection.execute("SELECT now()").fetchone()[0]
    around = [
        name
        for (name, _, _), (begin, end) in zip(made, times(connection, table), strict=True)
        if begin <= f"{current:%Y-%m-%d %H:%M:%S}" < end
    ]
    assert around == [place]


@pytest.mark.parametrize("title", TABLES)
def test_a_range_of_time_reads_its_partitions_alone(connection: psycopg.Connection, title: str) -> None:
    table = TABLES[title]
    run(connection, title)
    (place, *_), (begin, end) = bounds(connection, table)[2], times(connection, table)[2]
    plan = connection.execute(
        f"EXPLAIN (COSTS off) SELECT * FROM {table.name} "
        f"WHERE id >= {table.least.format(f'''timestamptz '{begin}' ''')} "
        f"AND id < {table.least.format(f'''timestamptz '{end}' ''')}"
    )
    text = "\n".join(line for (line,) in plan)
    # STABLE bounds are compared when the query starts, and what is left out is counted: the default one, too.
    if "Subplans Removed" in text:
        assert f"Subplans Removed: {len(bounds(connection, table))}" in text
    assert set(re.findall(rf"\b{table.name}_(?:p\d+|default)(?![a-z\d])", text)) == {place}


@pytest.mark.parametrize("title", TABLES)
def test_maintenance_makes_what_comes_next_and_drops_what_is_old(connection: psycopg.Connection, title: str) -> None:
    table = TABLES[title]
    run(connection, title)
    before = bounds(connection, table)
    latest = times(connection, table)[-1][0]
    key = table.least.format(f"timestamptz '{latest}'")
    assert place_of(connection, table, key) == before[-1][0]
    connection.execute("UPDATE partman.part_config SET premake = 3")
    connection.execute(f"SELECT partman.run_maintenance('public.{table.name}')")
    after = bounds(connection, table)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 3
    steps = times(connection, table)
    assert all(end == begin for (_, end), (begin, _) in zip(steps, steps[1:], strict=False))
    assert all(begin.endswith(" 00:00:00+00") for begin, _ in steps)

    retention = "'1 day'" if title != BIGINT else "partition_interval"
    connection.execute(f"UPDATE partman.part_config SET retention = {retention}, retention_keep_table = false")
    connection.execute(f"SELECT partman.run_maintenance('public.{table.name}')")
    left = bounds(connection, table)
    assert 0 < len(left) < len(after)
    assert left[-1] == after[-1]
    assert connection.execute(f"SELECT count(*) FROM {table.name}").fetchone() == (1,)


def test_rows_of_the_default_partition_can_be_moved(connection: psycopg.Connection) -> None:
    run(connection, UUID)
    for days in (200, 201):
        key = f"uuidv7_min(now() - {days} * interval '{DAY}')"
        assert place_of(connection, TABLES[UUID], key) == "event_default"
    assert place_of(connection, TABLES[UUID], "gen_random_uuid()") == "event_default"
    (statement,) = (sql for sql in PAGE.blocks("sql", UUID) if "partition_data_time" in sql)
    connection.execute(statement)
    assert connection.execute("SELECT count(*) FROM event").fetchone() == (3,)
    # What has no time stays.
    stayed = connection.execute("SELECT public.uuid_extract_version(id) FROM event_default").fetchall()
    assert stayed == [(4,)]


def test_the_partitions_are_shown(connection: psycopg.Connection) -> None:
    run(connection, UUID)
    (query,) = PAGE.blocks("sql", "Looking at the partitions")
    shown = connection.execute(query).fetchall()
    assert [(str(begin)[:19], str(end)[:19]) for _, begin, end in shown] == [
        (begin[:19], end[:19]) for begin, end in times(connection, TABLES[UUID])
    ]
    connection.execute("CREATE EXTENSION IF NOT EXISTS id_gen_tools")
    (found,) = connection.execute(
        "SELECT found FROM id_gen_profile('event', 'id') WHERE (section, item) = ('column', 'rows')"
    ).fetchone()
    assert found == f"all rows of column id in public.event, {len(shown) + 1} tables"


def test_encoders_and_decoders_answer_null_and_refuse_nonsense(connection: psycopg.Connection) -> None:
    for call in ("uuidv7_time_decoder(NULL)", "snowflake_time_decoder(NULL)", "snowflake_time_encoder(NULL)"):
        assert connection.execute(f"SELECT {call}").fetchone() == (None,)
    for call in ("uuidv7_time_decoder('soon')", "snowflake_time_decoder('soon')"):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            connection.execute(f"SELECT {call}")
    same = connection.execute("SELECT snowflake_time_decoder(snowflake_time_encoder('2026-07-01 12:00Z'))").fetchone()
    assert str(same[0]) == "2026-07-01 12:00:00+00:00"
