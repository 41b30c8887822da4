"""A database moves from the script to the extension and back while it is written to, and no table changes."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from harness import GENERATING, Cluster, FakeClock, SqlError
from harness.etcd import Etcd
from harness.fleet import await_number, create_fleet, number_of
from harness.ids import NARROW_LAYOUT, TOO_FAR_AHEAD, refusal
from harness.managed import DATABASE, LOCKS, OWNER, as_owner, install, run_script, with_number

pytestmark = pytest.mark.long

TABLES = """
    CREATE TABLE customer (
        id bigint PRIMARY KEY DEFAULT snowflake_next(),
        made_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'default')) STORED,
        token uuid DEFAULT public.uuidv7()
    );
    CREATE INDEX customer_made ON customer (snowflake_timestamp(id, 'default'));
    CREATE VIEW newest AS SELECT (snowflake_parse(id)).* FROM customer WHERE id >= snowflake_min('2025-01-01');
"""
# What a change of a table, an index, a default or a view would change.
CATALOGS = """
    SELECT c.oid, c.relfilenode, c.xmin, a.adbin::text, pg_get_viewdef(c.oid)
      FROM pg_class c LEFT JOIN pg_attrdef a ON a.adrelid = c.oid
     WHERE c.relname ~ '^(customer|newest)' ORDER BY c.oid, a.adnum
"""
WORKERS = "SELECT DISTINCT worker_id FROM customer, snowflake_parse(id) ORDER BY 1"
TO_EXTENSION = "SELECT id_gen_managed.use_extension()"
NOT_READY = "55000"
IS_NEEDED = "2BP01"
BEGIN_AGAIN = "40001"
CLIENTS = 6


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster("moving", conf=GENERATING) as cluster:
        yield cluster


class Shop:
    """Clients that insert all the time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self.given: list[list[int]] = [[] for _ in range(CLIENTS)]
        self.begun_again = 0

    def __enter__(self) -> "Shop":
        self._pool = ThreadPoolExecutor(CLIENTS)
        self._running = [self._pool.submit(self._insert, ids) for ids in self.given]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    def close(self) -> None:
        self._stop.set()
        for each in self._running:
            each.result()

    def await_more(self) -> None:
        seen = [len(ids) for ids in self.given]
        self._cluster.wait_until(
            lambda: all(len(ids) > before + 20 for ids, before in zip(self.given, seen, strict=True)), "inserting"
        )

    def _insert(self, ids: list[int]) -> None:
        with self._cluster.connect(DATABASE) as connection:
            while not self._stop.is_set():
                try:
                    with connection.transaction():
                        for _ in range(3):
                            row = connection.execute("INSERT INTO customer DEFAULT VALUES RETURNING id").fetchone()
                            assert row
                            ids.append(row[0])
                except psycopg.errors.SerializationFailure:
                    self.begun_again += 1


# With the number that the library has, and with one that it has not.
@pytest.mark.parametrize("worker", [1, 7])
def test_there_and_back(cluster: Cluster, worker: int) -> None:
    install(cluster, worker_id=worker)
    as_owner(cluster, TABLES)
    catalogs = cluster.psql(CATALOGS, DATABASE)
    with Shop(cluster) as shop:
        shop.await_more()
        as_owner(cluster, TO_EXTENSION)
        shop.await_more()
        plan = as_owner(cluster, "EXPLAIN (VERBOSE) SELECT snowflake_next(), snowflake_timestamp(1, 'default')")
        assert "id_gen.snowflake_next()" in plan
        as_owner(cluster, "SELECT id_gen_managed.use_script(worker_id => 2)")
        shop.await_more()
        shop.close()
    assert cluster.psql(CATALOGS, DATABASE) == catalogs
    assert cluster.psql(WORKERS, DATABASE).splitlines() == sorted({str(worker), "1", "2"})
    given = [id for ids in shop.given for id in ids]
    assert len(set(given)) == len(given)
    assert all(ids == sorted(ids) for ids in shop.given)
    assert cluster.psql("SELECT count(*) > 0 FROM newest", DATABASE) == "t"
    # The extension is no longer needed, a dump is restored where there is none, and it can come again.
    as_owner(cluster, "DROP EXTENSION id_gen")
    with cluster.database("restored", OWNER) as restored:
        cluster.psql(cluster.run("pg_dump", dbname=DATABASE), restored)
        assert cluster.psql("SELECT count(*) FROM customer", restored) == cluster.psql(
            "SELECT count(*) FROM customer", DATABASE
        )
    as_owner(cluster, TO_EXTENSION)
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())") == "1"


@pytest.mark.any_server
def test_above_all_that_leads_the_clock(cluster: Cluster) -> None:
    """The library has the same number, and would be below what the script has made."""
    install(cluster, worker_id=1, lanes=1, max_lead="2 s")
    last = as_owner(cluster, "SELECT max(id) FROM snowflake_next_batch(5000000) id")
    assert int(as_owner(cluster, f"{TO_EXTENSION}; SELECT snowflake_next()").strip()) > int(last)


@pytest.mark.any_server
def test_while_it_is_the_extension(cluster: Cluster) -> None:
    install(cluster)
    as_owner(cluster, TABLES)
    as_owner(cluster, TO_EXTENSION)
    assert refusal(cluster, f"SET SESSION AUTHORIZATION {OWNER}; DROP EXTENSION id_gen", DATABASE).sqlstate == IS_NEEDED
    for sql in (TO_EXTENSION, "SELECT id_gen_managed.configure(worker_id => 2)"):
        assert refusal(cluster, sql, DATABASE).sqlstate == NOT_READY
    with pytest.raises(SqlError) as refused:
        run_script(cluster)
    assert refused.value.sqlstate == NOT_READY
    taken = refusal(cluster, "SELECT id_gen_managed.use_script(worker_id => 1)", DATABASE)
    assert taken.sqlstate == NOT_READY
    as_owner(cluster, with_number(taken.hint, 2))
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())") == "2"
    # Nor later.
    taken = refusal(cluster, "SELECT id_gen_managed.configure(worker_id => 1)", DATABASE)
    assert taken.detail and taken.detail.startswith("Worker 1 of datacenter 0 is the server's own")
    as_owner(cluster, with_number(taken.hint, 3))


@pytest.mark.any_server
def test_back_with_the_number_of_a_shard(cluster: Cluster) -> None:
    install(cluster)
    as_owner(cluster, TO_EXTENSION)
    cluster.psql("SELECT id_gen.id_gen_shard_take(8, above => 0)", DATABASE)
    taken = refusal(cluster, "SELECT id_gen_managed.use_script(worker_id => 8)", DATABASE)
    assert taken.detail and "shard" in taken.detail
    as_owner(cluster, "SELECT id_gen_managed.use_script(worker_id => 9)")


@pytest.mark.any_server
def test_back_with_a_number_that_a_fleet_may_give() -> None:
    with Etcd() as etcd:
        conf = (
            f"shared_preload_libraries = 'id_gen'\nid_gen.registry = '{etcd.endpoints}'\n"
            "id_gen.worker_id_range = '0-15'\n"
        )
        with Cluster("member", conf=conf) as member:
            create_fleet(member)
            await_number(member)
            install(member)
            as_owner(member, TO_EXTENSION)
            another = 4 if number_of(member) == 3 else 3
            typed = f"SET SESSION AUTHORIZATION {OWNER}; SELECT id_gen_managed.use_script({another})"
            taken = refusal(member, typed, DATABASE)
            assert taken.detail and "fleet" in taken.detail
            as_owner(member, "SELECT id_gen_managed.use_script(worker_id => 16)")


@pytest.mark.any_server
@pytest.mark.parametrize("without", [False, True], ids=["with the extension", "without it"])
def test_back_with_a_number_that_the_extension_had(without: bool) -> None:
    """A load led the clock, and then the server got another number."""
    with Cluster("renumbered", conf=f"{GENERATING}id_gen.layout = 'js'\n") as cluster:
        install(cluster, layout="js")
        as_owner(cluster, TO_EXTENSION)
        as_owner(cluster, "CREATE TABLE item AS SELECT unnest(snowflake_next_array(400000)) AS id")
        cluster.psql("ALTER SYSTEM SET id_gen.worker_id = 3")
        cluster.reload()
        cluster.poll_until("SHOW id_gen.worker_id", expected="3")
        if without:
            as_owner(cluster, "SELECT id_gen_managed.use_script(worker_id => 9); DROP EXTENSION id_gen")
            as_owner(cluster, "SELECT id_gen_managed.configure(worker_id => 1)")
        else:
            as_owner(cluster, "SELECT id_gen_managed.use_script(worker_id => 1)")
        # At once, and no ID that is there.
        made = as_owner(cluster, "SELECT unnest(snowflake_next_array(1000))").split()
        assert int(made[0]) > int(cluster.psql("SELECT max(id) FROM item", DATABASE))
        assert cluster.psql(f"SELECT worker_id FROM snowflake_parse({made[0]})", DATABASE) == "1"


@pytest.mark.any_server
def test_back_while_the_extension_is_far_ahead_of_the_clock() -> None:
    """Any number may be one that the extension had at those times."""
    clock = FakeClock()
    with Cluster("behind", conf=GENERATING, clock=clock) as cluster:
        install(cluster)
        last = int(as_owner(cluster, f"{TO_EXTENSION}; SELECT snowflake_next()"))
        clock.step(-60)
        back = f"SET SESSION AUTHORIZATION {OWNER}; SELECT id_gen_managed.use_script(worker_id => 9)"
        refused = refusal(cluster, back, DATABASE)
        assert refused.sqlstate == TOO_FAR_AHEAD
        clock.put_right()
        as_owner(cluster, "SELECT id_gen_managed.use_script(worker_id => 9)")
        assert int(as_owner(cluster, "SELECT snowflake_next()")) > last


@pytest.mark.any_server
@pytest.mark.parametrize("new", [False, True], ids=["renamed", "renamed, and a new one"])
def test_schemas_that_are_renamed(cluster: Cluster, new: bool) -> None:
    """Those of the functions that users call, and of the extension."""
    install(cluster)
    cluster.psql(f"ALTER SCHEMA public OWNER TO {OWNER}", DATABASE)
    as_owner(cluster, f"CREATE TABLE item (id bigint DEFAULT snowflake_next()); {TO_EXTENSION}")
    as_owner(cluster, "ALTER SCHEMA public RENAME TO app; ALTER SCHEMA id_gen RENAME TO ids")
    if new:
        as_owner(cluster, "CREATE SCHEMA public")
    insert = "INSERT INTO app.item DEFAULT VALUES RETURNING (app.snowflake_parse(id)).worker_id"
    assert as_owner(cluster, insert) == "1"
    for _ in range(2):
        as_owner(cluster, "SELECT id_gen_managed.use_script(worker_id => 9)")
        assert as_owner(cluster, insert) == "9"
        as_owner(cluster, "DROP EXTENSION id_gen")
        as_owner(cluster, TO_EXTENSION)
        assert as_owner(cluster, insert) == "1"
    remove = f"SET SESSION AUTHORIZATION {OWNER}; SELECT id_gen_managed.uninstall()"
    assert refusal(cluster, remove, DATABASE).sqlstate == IS_NEEDED
    as_owner(cluster, "DROP TABLE app.item; SELECT id_gen_managed.uninstall(); DROP EXTENSION id_gen")
    assert cluster.psql("SELECT count(*) FROM pg_proc WHERE proname ~ '^(snowflake|uuidv7_)'", DATABASE) == "0"


@pytest.mark.any_server
def test_functions_that_are_in_other_schemas(cluster: Cluster) -> None:
    """Or have another name; and the owner's own of the same name is left alone."""
    install(cluster)
    cluster.psql(f"ALTER SCHEMA public OWNER TO {OWNER}; GRANT USAGE ON SCHEMA public TO PUBLIC", DATABASE)
    as_owner(
        cluster,
        """
        CREATE SCHEMA batch;
        ALTER FUNCTION snowflake_next_batch(integer) SET SCHEMA batch;
        ALTER FUNCTION snowflake_next_array(integer) RENAME TO many;
        CREATE SCHEMA api;
        CREATE FUNCTION api.snowflake_next() RETURNS bigint LANGUAGE sql RETURN public.snowflake_next() + 0;
        """,
    )
    workers = """
        SELECT string_agg(DISTINCT worker_id::text, ',') FROM (
            SELECT batch.snowflake_next_batch(2) UNION SELECT unnest(many(2)) UNION SELECT api.snowflake_next()
        ) made (id), snowflake_parse(id)
    """
    for change, worker in (
        ("", "7"), (TO_EXTENSION, "1"), ("SELECT id_gen_managed.use_script(worker_id => 9)", "9"),
        (TO_EXTENSION, "1"),
    ):  # fmt: skip
        as_owner(cluster, change)
        assert as_owner(cluster, workers) == worker
    own = "SELECT pg_get_function_sqlbody(oid) FROM pg_proc WHERE pronamespace = 'api'::regnamespace"
    assert "+ 0" in cluster.psql(own, DATABASE)


@pytest.mark.any_server
def test_functions_that_are_dropped(cluster: Cluster) -> None:
    """The move goes on without them, and makes them again."""
    install(cluster)
    drop = "DROP FUNCTION public.uuidv7(interval), snowflake_make(timestamptz, int, int, int) CASCADE"
    worker = "SELECT worker_id FROM snowflake_parse(snowflake_next())"
    for change, after in ((TO_EXTENSION, "1"), ("SELECT id_gen_managed.use_script(worker_id => 9)", "9")):
        as_owner(cluster, drop)
        as_owner(cluster, change)
        assert as_owner(cluster, worker) == after
        assert as_owner(cluster, "SELECT public.uuidv7('1 hour'::interval) IS NOT NULL") == "t"


@pytest.mark.any_server
@pytest.mark.parametrize(
    ("use", "mend"),
    [
        (
            "CREATE TABLE item (id bigint DEFAULT id_gen_managed.snowflake_next())",
            "ALTER TABLE item ALTER COLUMN id SET DEFAULT {}",
        ),
        (
            "CREATE SCHEMA api; CREATE FUNCTION api.snowflake_next() RETURNS bigint LANGUAGE sql "
            "RETURN id_gen_managed.snowflake_next() + 0",
            "CREATE OR REPLACE FUNCTION api.snowflake_next() RETURNS bigint LANGUAGE sql RETURN {} + 0",
        ),
    ],
    ids=["a default", "a function"],
)
def test_what_calls_the_scripts_own_functions(cluster: Cluster, use: str, mend: str) -> None:
    """They would fail after the move."""
    install(cluster)
    as_owner(cluster, use)
    refused = refusal(cluster, f"SET SESSION AUTHORIZATION {OWNER}; {TO_EXTENSION}", DATABASE)
    assert refused.sqlstate == IS_NEEDED
    assert "uses id_gen_managed.snowflake_next()" in (refused.detail or "")
    instead = (refused.hint or "").split(" ")[1]
    as_owner(cluster, mend.format(instead))
    as_owner(cluster, TO_EXTENSION)


@pytest.mark.any_server
@pytest.mark.parametrize("quoted", ["off", "on"])
def test_schemas_whose_names_need_quotes(cluster: Cluster, quoted: str) -> None:
    """Also where each name is quoted, whether it needs that or not."""
    quote = f"SET quote_all_identifiers = {quoted};"
    install(cluster, worker_id=None)
    as_owner(cluster, "SELECT id_gen_managed.uninstall()")
    run_script(cluster, before='CREATE SCHEMA "Her-S"; SET LOCAL search_path = "Her-S"; ' + quote)
    as_owner(cluster, f"{quote} SELECT id_gen_managed.configure(worker_id => 7)")
    worker = 'SELECT worker_id FROM "Her-S".snowflake_parse("Her-S".snowflake_next())'
    for _ in range(2):
        as_owner(cluster, f"{quote} SELECT id_gen_managed.use_extension('My-S')")
        assert as_owner(cluster, worker) == "1"
        as_owner(cluster, f"{quote} SELECT id_gen_managed.use_script(worker_id => 7)")
        assert as_owner(cluster, worker) == "7"
    as_owner(cluster, f"DROP EXTENSION id_gen; {quote} SELECT id_gen_managed.uninstall()")


@pytest.mark.any_server
def test_a_server_that_is_not_ready(cluster: Cluster) -> None:
    """Nothing is changed where the library would not make the IDs."""
    install(cluster, layout=NARROW_LAYOUT)
    refused = refusal(cluster, TO_EXTENSION, DATABASE)
    assert refused.sqlstate == NOT_READY
    cluster.psql((refused.hint or "").partition(": ")[2])
    cluster.psql("ALTER SYSTEM SET id_gen.worker_id = -1")
    cluster.restart()
    refused = refusal(cluster, TO_EXTENSION, DATABASE)
    assert refused.message == "id_gen.worker_id is not set"
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())") == "7"
    cluster.psql("ALTER SYSTEM SET id_gen.worker_id = 4")
    cluster.reload()
    cluster.poll_until("SHOW id_gen.worker_id", expected="4")
    as_owner(cluster, TO_EXTENSION)
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())") == "4"


def test_a_call_under_way(cluster: Cluster) -> None:
    """It waits for the move, and then fails: its transaction begins again, with the other number."""
    install(cluster, lanes=1)
    with ThreadPoolExecutor(1) as pool, cluster.connect(DATABASE) as holder, cluster.connect(DATABASE) as taker:
        taker.execute("SELECT snowflake_next()")
        holder.execute("BEGIN")
        holder.execute("SELECT id_gen_managed.close_gate(), id_gen_managed.close_number()")
        call = pool.submit(taker.execute, "SELECT snowflake_next()")
        waits = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {taker.info.backend_pid}"
        cluster.poll_until(waits, expected="advisory")
        held = f"SELECT count(*) FROM pg_locks WHERE {LOCKS} AND granted AND pid = {taker.info.backend_pid}"
        assert cluster.psql(held, DATABASE) == "0"
        holder.execute("SELECT id_gen_managed.configure(worker_id => 8)")
        holder.execute("COMMIT")
        with pytest.raises(psycopg.errors.SerializationFailure):
            call.result()
        again = taker.execute("SELECT worker_id FROM snowflake_parse(snowflake_next())").fetchone()
        assert again == (8,)


@pytest.mark.any_server
def test_from_a_server_with_the_extension(cluster: Cluster) -> None:
    """To a service without, by a dump, as the page has it."""
    install(cluster)
    with cluster.database("shop_before", OWNER) as dbname:
        as_owner(cluster, f"CREATE EXTENSION id_gen; {TABLES} INSERT INTO customer DEFAULT VALUES", dbname)
        rows = cluster.psql("SELECT * FROM customer, newest", dbname)
        dump = cluster.base / "dump"
        listed = cluster.base / "list"
        cluster.run("pg_dump", "--format=custom", f"--file={dump}", dbname=dbname)
        lines = cluster.run("pg_restore", "--list", dump).splitlines()
        listed.write_text("\n".join(line for line in lines if not re.search("EXTENSION.*id_gen", line)))
    cluster.run("pg_restore", f"--use-list={listed}", f"--dbname={DATABASE}", dump)
    assert cluster.psql("SELECT * FROM customer, newest", DATABASE) == rows
    as_owner(cluster, "INSERT INTO customer DEFAULT VALUES")
    assert cluster.psql(WORKERS, DATABASE).splitlines() == ["1", "7"]
