"""id_gen_profile() finds in a table what was put there: every finding is provoked once, and a sound table has none."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from harness import GENERATING, PRELOADED, Cluster
from harness.checks import STATEMENT

# A time some hours ago, in the middle of an hour, so that what is near it does not fall into two.
THEN = "date_trunc('hour', now()) - interval '5 hours 30 minutes'"

# As many workers as there is no room for, each with few IDs.
CROWDED_LAYOUT = "epoch=2024-01-01 tick=1ms time:41 worker:14 sequence:8"
# So few IDs in a second that a small load uses them up.
SLOW_LAYOUT = "epoch=2024-01-01 tick=1s time:32 worker:4 sequence:4"

MOST_WORKERS = 1024
MOST_BUCKETS = 744


class Found(NamedTuple):
    """A row of a profile, without its place."""

    ids: int | None
    status: str | None
    found: str
    remedy: str

    def to_type(self) -> str:
        """The statement that the remedy says to type."""
        (statement,) = STATEMENT.findall(self.remedy)
        return statement


Profile = dict[tuple[str, str], Found]


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster("profiled", conf=GENERATING) as cluster:
        yield cluster


def profile(connection: psycopg.Connection, arguments: str) -> Profile:
    query = (
        "SELECT section, item, ids, status, coalesce(found, ''), coalesce(remedy, '') "
        f"FROM id_gen_profile({arguments}) WHERE section <> 'time'"
    )
    return {(section, item): Found(*rest) for section, item, *rest in connection.execute(query)}


def worker(worker_id: int, datacenter_id: int = 0) -> str:
    """The item of its row."""
    return f"{worker_id} of datacenter {datacenter_id}"


def findings(found: Profile) -> set[tuple[str, str]]:
    """What there is to look at."""
    return {place for place, row in found.items() if row.status in ("warning", "error")}


def kinds(found: Profile) -> dict[str, int | None]:
    return {item: row.ids for (section, item), row in found.items() if section == "kind"}


def refusal(connection: psycopg.Connection, arguments: str) -> str | None:
    """The SQLSTATE that a profile is refused with."""
    with pytest.raises(psycopg.Error) as refused:
        profile(connection, arguments)
    return refused.value.sqlstate


def ids(count: int, when: str = THEN, worker: int | str = 1, sequence: int | str = 0, layout: str = "default") -> str:
    """A query of that many IDs; in what they are made of, `i` is the number of the row."""
    made = f"snowflake_make({when}, 0, {worker}, {sequence}, '{layout}')"
    return f"SELECT {made} AS id, i FROM generate_series(1, {count}) i"


def steady(count: int) -> str:
    """IDs that a server made by and by: one in each of some milliseconds, beginning anywhere in its sequence."""
    return ids(count, f"{THEN} + i * interval '1 ms'", sequence="i * 37 % 64")


def stored(connection: psycopg.Connection, *queries: str) -> Profile:
    """A table with the IDs of these queries, one after the other, and its profile."""
    connection.execute("CREATE TABLE stored (id bigint, i bigint)")
    for query in queries:
        connection.execute(f"INSERT INTO stored {query}")
    return profile(connection, "'stored', 'id'")


def test_a_sound_table_has_no_finding(connection: psycopg.Connection) -> None:
    found = stored(connection, steady(5000))
    assert findings(found) == set()
    assert found["column", "rows"].ids == 5000
    assert found["column", "rows"].found == "all rows of column id in public.stored, layout default"
    assert kinds(found) == {"snowflake": 5000}
    assert found["worker", worker(1)].found == "this server's worker ID"
    assert found["pace", "busiest_second"].ids == 1000
    assert ("column", "null") not in found
    for row in found.values():
        assert (row.remedy == "") == (row.status in (None, "ok"))


def test_what_this_server_makes_has_no_finding(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE customer (id bigint PRIMARY KEY DEFAULT snowflake_next(), number int)")
    connection.execute("INSERT INTO customer (number) SELECT generate_series(1, 20000)")
    found = profile(connection, "'customer', 'id'")
    assert findings(found) == set()
    assert found["column", "stored_ids"].status == "ok"


def test_an_empty_table_and_nulls(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE nothing (id bigint, u uuid)")
    for column in ("id", "u"):
        found = profile(connection, f"'nothing', '{column}'")
        assert findings(found) == set()
        assert found["column", "rows"].ids == 0
        assert found["duplicate", "values"].found == "no duplicate values"
    connection.execute("INSERT INTO nothing SELECT FROM generate_series(1, 3)")
    for column in ("id", "u"):
        found = profile(connection, f"'nothing', '{column}'")
        assert (found["column", "rows"].ids, found["column", "null"].ids) == (3, 3)


def test_workers_that_this_server_is_not(connection: psycopg.Connection) -> None:
    found = stored(connection, ids(50, worker="7 + i % 2", sequence="i"))
    assert {("worker", worker(7)), ("worker", worker(8))} == {
        place for place in findings(found) if place[0] == "worker"
    }
    named = found["worker", worker(7)].to_type()
    assert "'{7,8}'" in named
    every = connection.execute(named).fetchall()
    assert {row[6] for row in every if row[0] == "worker"} == {"ok"}
    found = profile(connection, "'stored', 'id', worker_ids => '{7}'")
    assert found["worker", worker(7)].status == "ok"
    assert found["worker", worker(8)].found == "not in worker_ids"


def test_more_workers_than_are_told_apart(connection: psycopg.Connection) -> None:
    stored(connection, ids(2000, worker="i", layout=CROWDED_LAYOUT))
    found = profile(connection, f"'stored', 'id', layout => '{CROWDED_LAYOUT}'")
    assert found["worker", "others"].ids == 2000 - MOST_WORKERS
    assert found["worker", "others"].status == "warning"
    # Nobody has said which of another layout's are to be expected.
    assert found["worker", "1"].status is None


def test_stamps_of_the_future(connection: psycopg.Connection) -> None:
    found = stored(connection, steady(10), ids(1, "now() + interval '1 day'", worker=3))
    assert findings(found) == {("kind", "future"), ("column", "stored_ids")}
    assert kinds(found) == {"snowflake": 10, "future": 1}
    assert len(connection.execute(found["kind", "future"].to_type()).fetchall()) == 1


def test_what_this_server_will_come_to_hand_out(connection: psycopg.Connection) -> None:
    found = stored(connection, ids(1, "now() + interval '1 day'"))
    assert found["column", "stored_ids"].status == "error"
    (checked,) = connection.execute("SELECT found FROM id_gen_check('stored', 'id')").fetchall()
    assert checked == (found["column", "stored_ids"].found,)


def test_numbers_of_a_sequence(connection: psycopg.Connection) -> None:
    found = stored(connection, "SELECT generate_series(1, 500)", steady(100))
    assert findings(found) == set()
    assert kinds(found) == {"snowflake": 100, "plain": 500}
    assert found["kind", "plain"].found == "1 to 500: small numbers, as from a sequence"
    connection.execute("INSERT INTO stored VALUES (501), (502)")
    found = profile(connection, "'stored', 'id'")
    assert findings(found) == {("kind", "plain")}
    assert found["kind", "plain"].found.endswith("; 2 rows stored after snowflakes")
    assert len(connection.execute(found["kind", "plain"].to_type()).fetchall()) == 10
    # What comes after what says nothing where rows are read in another order.
    connection.execute("CREATE VIEW seen AS SELECT id FROM stored")
    assert findings(profile(connection, "'seen', 'id'")) == set()


@pytest.mark.parametrize("other", ["twitter", "discord", "pgedge"])
def test_ids_of_another_layout(connection: psycopg.Connection, other: str) -> None:
    hours = f"{THEN} - i * interval '1 h' + i % 7 * interval '1 ms'"
    found = stored(connection, ids(100, hours, worker=3, sequence="i % 32", layout=other))
    assert kinds(found)["future"] == 100
    # Which of those that fit is named first is a guess; what it says to type shows that they fit.
    fitting = connection.execute(found["kind", "future"].to_type()).fetchall()
    assert [row[2] for row in fitting if row[0] == "kind"] == [100]
    assert kinds(profile(connection, f"'stored', 'id', layout => '{other}'")) == {"snowflake": 100}


def test_numbers_that_the_layout_does_not_have(connection: psycopg.Connection) -> None:
    found = stored(connection, steady(10), "SELECT -5")
    assert findings(found) == {("kind", "out_of_range")}
    assert found["kind", "out_of_range"].found == "-5: out of range for the layout"


def test_a_clock_that_was_set_back(connection: psycopg.Connection) -> None:
    set_back = f"{THEN} + (i - CASE WHEN i > 5000 THEN 3000 ELSE 0 END) * interval '1 ms'"
    found = stored(connection, ids(9000, set_back, sequence="i % 64"))
    assert findings(found) == {("clock", worker(1))}
    assert found["clock", worker(1)].ids == 1
    assert found["clock", worker(1)].found == "in storage order, the time of the IDs goes back by up to 2 s 999 ms"
    assert connection.execute(found["clock", worker(1)].to_type()).fetchall()


def test_each_worker_has_its_own_clock(connection: psycopg.Connection) -> None:
    two_clocks = f"{THEN} - i % 2 * interval '1 min' + i * interval '1 ms'"
    stored(connection, ids(1000, two_clocks, worker="i % 2", sequence="i % 64"))
    assert profile(connection, "'stored', 'id', worker_ids => '{0,1}'")["clock", "all"].status == "ok"


def test_rows_are_read_as_they_are_stored_whatever_index_there_is(connection: psycopg.Connection) -> None:
    backwards = ids(1000, f"{THEN} - i * interval '2 s'")
    connection.execute(f"CREATE TABLE indexed AS SELECT *, repeat('x', 1000) AS wide FROM ({backwards}) AS ids")
    connection.execute("CREATE INDEX ON indexed (id)")
    connection.execute("VACUUM ANALYZE indexed")
    assert profile(connection, "'indexed', 'id'")["clock", worker(1)].ids == 999


def test_a_load_that_used_up_ticks(connection: psycopg.Connection) -> None:
    three_ticks = ids(3 * 4096, f"{THEN} + (i - 1) / 4096 * interval '1 ms'", sequence="(i - 1) % 4096")
    found = stored(connection, three_ticks)
    assert found["burst", "used_up_ticks"].ids == 3
    assert found["burst", "used_up_ticks"].status == "ok"
    assert "fullest tick: 4096 of 4096 IDs, worker 1 of datacenter 0," in found["burst", "used_up_ticks"].found


def test_a_load_that_used_up_ticks_for_long(connection: psycopg.Connection) -> None:
    ten_ticks = f"{THEN} + (i - 1) / 16 * interval '1 s'"
    stored(connection, ids(160, ten_ticks, sequence="(i - 1) % 16", layout=SLOW_LAYOUT))
    found = profile(connection, f"'stored', 'id', layout => '{SLOW_LAYOUT}'")
    assert found["burst", "used_up_ticks"].status == "warning"
    assert "up to 10 in a row" in found["burst", "used_up_ticks"].found
    # It is another system's layout, so no setting of this server helps.
    assert not [row for row in found.values() if "ALTER SYSTEM" in row.remedy]


def test_pauses(connection: psycopg.Connection) -> None:
    found = stored(connection, steady(100), ids(1, f"{THEN} + interval '2 h'"))
    assert found["pause", "1"].found == "no ID for 2 h"


def test_an_uneven_remainder(connection: psycopg.Connection) -> None:
    """As if every tick began with the first number of its sequence."""
    found = stored(connection, ids(5000, f"{THEN} + i * interval '1 ms'"))
    assert findings(found) == {("modulo", each) for each in ("2", "4", "6", "8", "10", "12", "16", "32")}
    assert found["modulo", "16"].ids == 5000
    assert found["modulo", "7"].status == "ok"
    # This server begins anywhere already.
    assert found["modulo", "16"].remedy == "Choose the shard by a hash: abs(hashint8(id) % 16);"


def test_an_uneven_remainder_of_a_server_that_begins_with_zero(server: Cluster, connection: psycopg.Connection) -> None:
    server.psql("ALTER SYSTEM SET id_gen.sequence_start = 'zero'")
    server.reload()
    server.poll_until("SHOW id_gen.sequence_start", "shop", "zero")
    try:
        rows = ids(5000, f"{THEN} + i * interval '1 ms'")
        with server.connect("shop") as reloaded:
            assert "ALTER SYSTEM" in stored(reloaded, rows)["modulo", "16"].remedy
            connection.execute(f"CREATE TABLE foreign_ids AS {rows.replace('default', 'twitter')}")
            uneven = profile(reloaded, "'foreign_ids', 'id', layout => 'twitter'")["modulo", "16"]
            assert (uneven.status, uneven.remedy) == ("warning", "Choose the shard by a hash: abs(hashint8(id) % 16);")
    finally:
        server.psql("ALTER SYSTEM RESET id_gen.sequence_start")
        server.reload()


@pytest.mark.parametrize(
    ("rounded", "found"),
    [
        ("id::double precision::bigint", "all are multiples of 64, as after a conversion to double precision"),
        # As JavaScript writes a double; to PostgreSQL, digits are what its float8out() has, and zeros.
        (
            "(id::double precision::text)::numeric::bigint",
            "all have at most 17 significant digits, as after a conversion to a JavaScript number",
        ),
        ("id / 1000 * 1000", "all are multiples of 1000, as after an import into a spreadsheet"),
    ],
)
def test_ids_that_lost_their_last_digits(connection: psycopg.Connection, rounded: str, found: str) -> None:
    lossless = steady(5000)
    told = stored(connection, f"SELECT {rounded}, i FROM ({lossless}) AS exact")
    assert told["column", "rounded"].found == found
    assert told["column", "rounded"].status == "warning"
    assert not [row for row in told.values() if "ALTER SYSTEM" in row.remedy]


def test_duplicates_over_partitions(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE event (id bigint, place int) PARTITION BY LIST (place)")
    for place in range(3):
        connection.execute(f"CREATE TABLE event_{place} PARTITION OF event FOR VALUES IN ({place})")
    connection.execute(f"INSERT INTO event SELECT id, i % 3 FROM ({steady(300)}) AS ids")
    assert findings(profile(connection, "'event', 'id'")) == set()
    connection.execute("INSERT INTO event SELECT id, 1 FROM event_0 ORDER BY id LIMIT 8")
    connection.execute("INSERT INTO event SELECT id, 2 FROM event_0 ORDER BY id LIMIT 1")
    found = profile(connection, "'event', 'id'")
    assert found["duplicate", "values"].status == "error"
    assert found["duplicate", "values"].ids == 9
    assert found["duplicate", "values"].found == "8 duplicate values; 9 surplus rows"
    (first,) = connection.execute("SELECT min(id)::text FROM event_0").fetchone()
    assert found["duplicate", first].ids == 3
    assert found["duplicate", first].found == "in public.event_0, public.event_1, public.event_2"
    assert len([item for section, item in found if section == "duplicate"]) == 1 + 5
    assert len(connection.execute(found["duplicate", "values"].to_type()).fetchall()) == 3 + 4 * 2
    # No partition has any by itself.
    assert findings(profile(connection, "'event_0', 'id'")) == set()


def test_duplicates_over_children_and_further_tables(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE parent (id bigint)")
    connection.execute("CREATE TABLE child () INHERITS (parent)")
    connection.execute(f"INSERT INTO parent SELECT id FROM ({steady(50)}) AS ids")
    connection.execute("CREATE TABLE elsewhere AS SELECT id FROM ONLY parent LIMIT 3")
    assert findings(profile(connection, "'parent', 'id'")) == set()
    found = profile(connection, "'parent', 'id', others => '{elsewhere}'")
    assert found["duplicate", "values"].ids == 3
    read = "all rows of column id in public.parent and 1 more, 3 tables, layout default"
    assert found["column", "rows"].found == read
    connection.execute("INSERT INTO child SELECT id FROM ONLY parent LIMIT 4")
    assert profile(connection, "'parent', 'id'")["duplicate", "values"].ids == 4
    for others in ("{child}", "{parent}", "{elsewhere,elsewhere}"):
        assert refusal(connection, f"'parent', 'id', others => '{others}'") == "22023"


def test_uuids(connection: psycopg.Connection) -> None:
    connection.execute("CREATE DOMAIN key AS uuid")
    connection.execute("CREATE TABLE invoice (id key DEFAULT public.uuidv7())")
    connection.execute("INSERT INTO invoice SELECT FROM generate_series(1, 1000)")
    assert findings(profile(connection, "'invoice', 'id'")) == set()
    connection.execute("INSERT INTO invoice SELECT gen_random_uuid() FROM generate_series(1, 250)")
    connection.execute(f"INSERT INTO invoice SELECT uuidv7_min({THEN})")
    connection.execute("INSERT INTO invoice SELECT public.uuidv7(interval '1 day')")
    connection.execute("INSERT INTO invoice VALUES ('00000000-0000-0000-0000-000000000000'), (NULL)")
    connection.execute("INSERT INTO invoice SELECT id FROM invoice LIMIT 2")
    found = profile(connection, "'invoice', 'id'")
    assert findings(found) == {("kind", "future"), ("clock", "version 7"), ("duplicate", "values")}
    assert kinds(found) == {"version 7": 1003, "version 4": 250, "future": 1, "nil": 1}
    assert found["column", "null"].ids == 1
    for place in (("kind", "future"), ("duplicate", "values")):
        assert connection.execute(found[place].to_type()).fetchall()


def test_hours_add_up(connection: psycopg.Connection) -> None:
    stored(connection, ids(200, f"{THEN} - i * interval '7 min'"))
    query = "SELECT first_at, last_at - first_at, ids FROM id_gen_profile('stored', 'id') WHERE section = 'time'"
    plain = """
        SELECT date_trunc('hour', snowflake_timestamp(id)), interval '1 hour', count(*)
          FROM stored GROUP BY 1 ORDER BY 1
    """
    assert connection.execute(query).fetchall() == connection.execute(plain).fetchall()
    two_years = ids(8000, f"{THEN} - i * interval '2 h'")
    connection.execute(f"INSERT INTO stored {two_years}")
    rows = connection.execute(query).fetchall()
    assert sum(count for _, _, count in rows) == 8200
    assert {width.days for _, width, _ in rows} == {1}
    assert len(rows) < MOST_BUCKETS


def test_a_sample_reads_less_and_says_so(connection: psycopg.Connection) -> None:
    stored(connection, steady(50000), "SELECT * FROM stored")
    found = profile(connection, "'stored', 'id', 10")
    assert 0 < (found["column", "rows"].ids or 0) < 50000
    assert found["column", "rows"].found.startswith("a sample of 10 % of column id in public.stored")
    assert "(in the sample)" in found["duplicate", "values"].found
    assert profile(connection, "'stored', 'id', 10") == found
    # A view has no pages: its sample goes by value, so that copies come together.
    connection.execute("CREATE VIEW seen AS SELECT id FROM stored")
    found = profile(connection, "'seen', 'id', 10")
    assert 5000 < (found["column", "rows"].ids or 0) < 20000
    assert found["duplicate", "values"].ids == (found["column", "rows"].ids or 0) // 2
    assert "does not show the storage order" in found["clock", "all"].found


def test_names_and_types_of_all_kinds(connection: psycopg.Connection) -> None:
    connection.execute('CREATE SCHEMA "Odd Schema"')
    connection.execute('CREATE DOMAIN "It\'s an ID" AS bigint CHECK (VALUE > 0)')
    connection.execute('CREATE TABLE "Odd Schema"."O\'Table" ("The ""ID""" "It\'s an ID")')
    connection.execute(f'INSERT INTO "Odd Schema"."O\'Table" SELECT id FROM ({ids(2, worker=3)}) AS ids')
    found = profile(connection, "'\"Odd Schema\".\"O''Table\"', 'The \"ID\"'")
    assert found["duplicate", "values"].ids == 1
    for place in (("duplicate", "values"), ("worker", worker(3))):
        assert connection.execute(found[place].to_type()).fetchall()
    connection.execute("CREATE TABLE small AS SELECT generate_series(1, 10)::smallint AS id")
    connection.execute("CREATE MATERIALIZED VIEW kept AS SELECT id::bigint FROM small")
    connection.execute("CREATE TEMP TABLE class AS SELECT id::bigint FROM small")
    for table in ("small", "kept", "class"):
        assert kinds(profile(connection, f"'{table}', 'id'")) == {"snowflake": 0, "plain": 10}


@pytest.mark.parametrize(("encoding", "letter"), {"LATIN1": "é", "EUC_JP": "あ", "UTF8": "あ"}.items())
def test_names_in_every_encoding(server: Cluster, encoding: str, letter: str) -> None:
    server.psql(f"CREATE DATABASE encoded ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    try:
        server.psql("CREATE EXTENSION id_gen_tools CASCADE", "encoded")
        with server.connect("encoded", client_encoding="utf8") as connection:
            connection.execute(f'CREATE TABLE "T{letter}" ("{letter}" bigint, note text)')
            connection.execute(f'INSERT INTO "T{letter}" SELECT id FROM ({ids(2, worker=3)}) AS ids')
            found = profile(connection, f"'\"T{letter}\"', '{letter}'")
            assert letter in found["column", "rows"].found
            assert findings(found) == {("worker", worker(3)), ("duplicate", "values")}
            for place in findings(found):
                assert connection.execute(found[place].to_type()).fetchall()
            value = next(item for section, item in found if section == "duplicate" and item != "values")
            assert found["duplicate", value].found == f'in public."T{letter}"'
            checked = connection.execute(f"SELECT found FROM id_gen_check('\"T{letter}\"', '{letter}')").fetchone()
            assert letter in checked[0]
            with pytest.raises(psycopg.Error, match="holds no IDs") as refused:
                profile(connection, f"'\"T{letter}\"', 'note'")
            assert f'"T{letter if encoding == "UTF8" else "?"}"' in str(refused.value)
    finally:
        server.psql("DROP DATABASE encoded")


def test_mistakes_are_refused(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (id bigint, name text, gone int)")
    connection.execute("ALTER TABLE t DROP COLUMN gone")
    connection.execute("CREATE INDEX i ON t (id)")
    connection.execute("CREATE VIEW failing AS SELECT 1 / (i - 5)::bigint AS id FROM generate_series(1, 10) i")
    for arguments, sqlstate in {
        "'t', 'name'": "42804",
        "'t', 'none'": "42703",
        "'t', 'gone'": "42703",
        "'none', 'id'": "42P01",
        "0::oid::regclass, 'id'": "42P01",
        "'t', 'id', others => '{t,NULL}'": "42P01",
        "'i', 'id'": "42809",
        "'t', 'id', 0": "2202H",
        "'t', 'id', 'NaN'": "2202H",
        "'t', 'id', 100.1": "2202H",
        "'t', 'id', layout => 'twiter'": "42704",
        "'failing', 'id'": "22012",
    }.items():
        assert refusal(connection, arguments) == sqlstate, arguments
    assert profile(connection, "NULL, 'id'") == {}


def test_the_callers_privileges_and_row_security_apply(connection: psycopg.Connection) -> None:
    stored(connection, ids(10, sequence="i"))
    connection.execute("CREATE ROLE clerk")

    def as_clerk() -> Profile:
        with connection.transaction():
            connection.execute("SET LOCAL ROLE clerk")
            return profile(connection, "'stored', 'id'")

    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_clerk()
        connection.execute("GRANT SELECT (id) ON stored TO clerk")
        found = as_clerk()
        assert found["column", "rows"].ids == 10
        assert "does not show the storage order" in found["clock", "all"].found
        connection.execute("GRANT SELECT ON stored TO clerk")
        assert "never goes back" in as_clerk()["clock", "all"].found
        connection.execute("ALTER TABLE stored ENABLE ROW LEVEL SECURITY")
        connection.execute("CREATE POLICY own ON stored USING (i <= 4)")
        found = as_clerk()
        assert found["column", "rows"].ids == 4
        assert found["column", "row_security"].status == "warning"
        assert ("column", "row_security") not in profile(connection, "'stored', 'id'")
    finally:
        connection.execute("DROP OWNED BY clerk")
        connection.execute("DROP ROLE clerk")


def test_it_sees_the_snapshot_of_its_statement(server: Cluster, connection: psycopg.Connection) -> None:
    stored(connection, steady(100))
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert profile(connection, "'stored', 'id'")["duplicate", "values"].ids == 0
        with server.connect("shop") as other:
            other.execute("INSERT INTO stored SELECT * FROM stored")
        assert profile(connection, "'stored', 'id'")["duplicate", "values"].ids == 0
    assert profile(connection, "'stored', 'id'")["duplicate", "values"].ids == 100


def test_it_does_not_see_what_its_own_statement_does(connection: psycopg.Connection) -> None:
    """As every query, of which it runs two."""
    stored(connection, steady(100))
    query = """
        WITH added AS (INSERT INTO stored SELECT * FROM stored RETURNING 1), counted AS (SELECT count(*) FROM added)
        SELECT count, ids FROM counted, id_gen_profile('stored', 'id', 100 - 0 * count) WHERE item = 'rows'
    """
    assert connection.execute(query).fetchone() == (100, 100)
    assert profile(connection, "'stored', 'id'")["column", "rows"].ids == 200


def test_what_is_to_be_typed_works_wherever_the_extensions_are(connection: psycopg.Connection) -> None:
    stored(connection, ids(1, worker=3))
    connection.execute("DROP EXTENSION id_gen CASCADE")
    connection.execute('CREATE SCHEMA "Of IDs"; CREATE SCHEMA "Of tools"')
    connection.execute('CREATE EXTENSION id_gen SCHEMA "Of IDs"; CREATE EXTENSION id_gen_tools SCHEMA "Of tools"')
    query = """SELECT remedy FROM "Of tools".id_gen_profile('stored', 'id') WHERE section = 'worker'"""
    (remedy,) = connection.execute(query).fetchone()
    (statement,) = STATEMENT.findall(remedy)
    assert ("worker", worker(3), "ok") in {(row[0], row[1], row[6]) for row in connection.execute(statement)}


def test_it_can_be_cancelled(server: Cluster, connection: psycopg.Connection) -> None:
    connection.execute(
        "CREATE VIEW endless AS "
        "SELECT a + b AS id FROM generate_series(1::bigint, 1000000) a, generate_series(1, 1000000) b"
    )
    refused: list[str | None] = []
    thread = threading.Thread(target=lambda: refused.append(refusal(connection, "'endless', 'id'")))
    thread.start()
    pid = connection.info.backend_pid
    server.poll_until(f"SELECT query LIKE '%endless%' AND state = 'active' FROM pg_stat_activity WHERE pid = {pid}")
    server.poll_until(f"SELECT pg_cancel_backend({pid})")
    thread.join()
    assert refused == ["57014"]
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_memory_does_not_grow_with_the_rows(connection: psycopg.Connection) -> None:
    """The rows are not kept. They come in order from the index, so that PostgreSQL does not sort them either."""
    connection.execute("CREATE UNLOGGED TABLE many AS SELECT generate_series(1::bigint, 1000000) AS id")
    connection.execute("CREATE INDEX ON many (id)")
    connection.execute("VACUUM ANALYZE many")
    status = Path(f"/proc/{connection.info.backend_pid}/status")

    def resident() -> int:
        """Memory of the session's own, in bytes."""
        return next(
            int(line.split()[1]) << 10 for line in status.read_text().splitlines() if line.startswith("RssAnon:")
        )

    profile(connection, "'many', 'id', 1")
    before = resident()
    assert kinds(profile(connection, "'many', 'id'"))["plain"] == 1000000
    assert resident() - before < 1 << 20


def test_on_a_standby() -> None:
    with Cluster("primary", conf=GENERATING) as primary:
        primary.psql("CREATE EXTENSION id_gen_tools CASCADE")
        with primary.connect() as connection:
            stored(connection, steady(100))
        with Cluster("standby", standby_of=primary) as standby, standby.connect() as connection:
            found = profile(connection, "'stored', 'id'")
            assert kinds(found) == {"snowflake": 100}
            assert findings(found) == set()


@pytest.mark.skipif(not PRELOADED, reason="another server says so in another way")
def test_a_server_without_a_number() -> None:
    with Cluster("numberless", conf=GENERATING.replace("worker_id = 1", "worker_id = -1")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen_tools CASCADE")
        with cluster.connect() as connection:
            found = stored(connection, ids(1))
    assert found["worker", worker(1)].status is None
    assert findings(found) == set()
