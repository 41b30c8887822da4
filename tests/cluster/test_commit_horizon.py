"""Readers that poll for rows below the commit horizon get every row once and in the order of its ID, however late its
transaction commits; those that go by the last ID alone lose rows."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise

import psycopg
import pytest

from harness import GENERATING, Cluster, SqlError, effort
from harness.horizon import (
    BLOCKERS,
    CONF,
    GUARD,
    HORIZON,
    INSERT,
    NAIVE,
    OUTBOX,
    SAFE,
    Reader,
    ask,
    connect_again,
    may_be_ended,
)
from harness.ids import NEXT, Caller, answer_of, change, error_of, refusal

REMEMBERED = """
    SELECT count(transaction) FROM id_gen_stat_get('id_gen_stat_horizon')
                                AS horizon (pid integer, transaction xid, datid oid, first_id bigint)
"""
WRITERS = 16
READERS = 3
# For a release, as long as readers poll elsewhere.
SECONDS = effort(600, 6)
END_A_WRITER = """
    SELECT count(pg_terminate_backend(pid))
      FROM (SELECT pid FROM pg_stat_activity WHERE application_name = 'writer' ORDER BY random() LIMIT 1) writer
"""
CRASHES = 3
ROWS_BETWEEN_CRASHES = 500
READ_ONLY = "25006"
IN_PARALLEL_MODE = "25000"
REFUSED = psycopg.errors.ObjectNotInPrerequisiteState


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(conf=CONF) as cluster:
        cluster.psql(OUTBOX)
        yield cluster


@contextmanager
def transaction(cluster: Cluster, dbname: str = "postgres") -> Iterator[tuple[psycopg.Connection, int]]:
    """A transaction that stays open with a row, and the ID of that."""
    with cluster.connect(dbname) as session:
        session.execute("BEGIN")
        yield session, ask(session, INSERT)


@pytest.mark.parametrize("max_block", [65_536, 1], ids=["blocks", "a shared block"])
def test_a_row_that_commits_late_is_not_passed(max_block: int) -> None:
    with Cluster(conf=f"{CONF}id_gen.max_block_size = {max_block}\n") as cluster:
        cluster.psql(OUTBOX)
        with Reader(cluster) as safe, Reader(cluster, NAIVE) as naive:
            for _ in range(20):
                before = len(safe.ids)
                with transaction(cluster) as (late, first), cluster.connect() as early:
                    rows = [ask(early, INSERT) for _ in range(3)]
                    assert rows[0] > first
                    naive.poll()
                    assert safe.poll() == []
                    late.execute("COMMIT")
                    naive.poll()
                safe.await_all(cluster, [*safe.ids[:before], first, *rows])
                assert first not in naive.ids


def test_aborts_and_savepoints_hold_up_nothing_once_they_have_ended(cluster: Cluster) -> None:
    with Reader(cluster) as reader:
        with transaction(cluster) as (session, first):
            session.execute("SAVEPOINT one")
            ask(session, INSERT)
            session.execute("ROLLBACK TO one")
            second = ask(session, INSERT)
            after = int(cluster.psql(INSERT))
            assert reader.poll() == []
            session.execute("COMMIT")
        with transaction(cluster) as (session, rolled_back):
            last = int(cluster.psql(INSERT))
            reader.await_all(cluster, [first, second, after])
            session.execute("ROLLBACK")
        reader.await_all(cluster, [first, second, after, last])
        assert rolled_back not in reader.ids


def test_a_session_that_is_killed_holds_up_nothing(cluster: Cluster) -> None:
    with Reader(cluster) as reader:
        session = cluster.connect()
        session.execute("BEGIN")
        ask(session, INSERT)
        after = int(cluster.psql(INSERT))
        assert reader.poll() == []
        cluster.psql(f"SELECT pg_terminate_backend({session.info.backend_pid})")
        reader.await_all(cluster, [after])
        session.close()


def copy_rows(session: psycopg.Connection) -> None:
    with session.cursor().copy("COPY outbox (writer) FROM STDIN") as rows:
        for _ in range(1_000):
            rows.write_row([1])


def store_of_a_cursor(session: psycopg.Connection) -> None:
    """The rest of what it returns is made when the transaction commits."""
    session.execute("DECLARE made CURSOR WITH HOLD FOR SELECT snowflake_next() FROM generate_series(1, 1000)")
    for id in fetched(session, "10", "made"):
        session.execute("INSERT INTO outbox VALUES (%s, 1)", [id])


def statement(sql: str) -> Callable[[psycopg.Connection], object]:
    return lambda session: session.execute(sql)


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(statement("INSERT INTO outbox SELECT id, 1 FROM snowflake_next_batch(1000) id"), id="batch"),
        pytest.param(statement("INSERT INTO outbox SELECT unnest(snowflake_next_array(1000)), 1"), id="array"),
        pytest.param(copy_rows, id="COPY"),
        pytest.param(store_of_a_cursor, id="WITH HOLD"),
    ],
)
def test_ids_hold_up_readers_however_they_are_made(
    cluster: Cluster, store: Callable[[psycopg.Connection], object]
) -> None:
    cluster.psql("TRUNCATE outbox")
    with Reader(cluster) as reader, cluster.connect() as session:
        session.execute("BEGIN")
        store(session)
        made = [row[0] for row in session.execute("SELECT id FROM outbox ORDER BY id")]
        after = int(cluster.psql(INSERT))
        assert cluster.psql(BLOCKERS) == f"t||postgres|{made[0]}|idle in transaction"
        assert [reader.poll() for _ in range(3)] == [[], [], []]
        session.execute("COMMIT")
        reader.await_all(cluster, [*made, after])


def test_the_guard_refuses_what_a_cursor_holds_beyond_its_transaction(cluster: Cluster) -> None:
    cluster.psql(f"CREATE TABLE guarded (id bigint); {GUARD % ('guarded', '')}")
    with cluster.connect() as session:
        session.execute("BEGIN")
        session.execute("DECLARE made CURSOR WITH HOLD FOR SELECT snowflake_next() FROM generate_series(1, 3)")
        session.execute("COMMIT")
        ids = fetched(session, "ALL", "made")
        cluster.wait_until(lambda: ask(session, HORIZON) > ids[-1], "past the IDs")
        for id in ids:
            with pytest.raises(REFUSED):
                session.execute("INSERT INTO guarded VALUES (%s)", [id])
    cluster.psql("DROP TABLE guarded")


def test_a_statement_has_one_horizon(cluster: Cluster) -> None:
    """Also between its rows, while others commit: or a reader would go on from where it has not read."""
    with cluster.connect() as session, cluster.connect() as other:
        session.execute(
            "CREATE FUNCTION also_read() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT snowflake_commit_horizon()'"
        )
        ask(session, HORIZON)
        with session.cursor("rows") as cursor:
            session.execute("BEGIN")
            cursor.itersize = 1
            cursor.execute(
                "SELECT snowflake_commit_horizon(), also_read(), snowflake_commit_horizon() FROM generate_series(1, 50)"
            )
            values = set()
            for row in cursor:
                values.update(row)
                ask(other, INSERT)
            session.execute("COMMIT")
        assert len(values) == 1
        session.execute("DROP FUNCTION also_read")


BOTH = f"{SAFE.replace('%s', '0').removesuffix(' ORDER BY id')} UNION ALL SELECT id FROM other WHERE id > 0"
CURSOR = f"DECLARE pair NO SCROLL CURSOR %s FOR {BOTH} AND id < snowflake_commit_horizon()"


@pytest.fixture
def two_tables(cluster: Cluster) -> Iterator[None]:
    cluster.psql("TRUNCATE outbox; CREATE TABLE other (id bigint PRIMARY KEY)")
    yield
    cluster.psql("DROP TABLE other")


def fetched(session: psycopg.Connection, how_many: str, cursor: str = "pair") -> list[int]:
    return [row[0] for row in session.execute(f"FETCH {how_many} FROM {cursor}")]


@pytest.mark.parametrize("hold", ["", "WITH HOLD"], ids=["plain", "WITH HOLD"])
def test_a_cursor_has_one_horizon_while_it_grows(cluster: Cluster, two_tables: None, hold: str) -> None:
    """Or it would not find a row of one table below one that it finds in the other, and its reader go on from there.
    The rest of what a cursor WITH HOLD finds is read when its transaction commits."""
    with cluster.connect() as session, cluster.connect() as holder, Reader(cluster) as reader:
        first = int(cluster.psql(INSERT))
        holder.execute("BEGIN")
        # It takes no transaction ID, so no snapshot shows that it ends.
        ask(holder, NEXT)
        above = int(cluster.psql(INSERT))
        in_other = int(cluster.psql("INSERT INTO other VALUES (snowflake_next()) RETURNING id"))
        ask(session, HORIZON)
        session.execute("BEGIN")
        session.execute(CURSOR % hold)
        found = fetched(session, "1")
        holder.execute("COMMIT")
        reader.await_all(cluster, [first, above])
        if hold:
            session.execute("COMMIT")
        found += fetched(session, "ALL")
        assert found == [first]
        session.execute("CLOSE pair" if hold else "COMMIT")
        cluster.wait_until(lambda: ask(session, HORIZON) > in_other, "past the row")
        assert [row[0] for row in session.execute(f"{BOTH} AND id < snowflake_commit_horizon()")] == [
            first,
            above,
            in_other,
        ]


def test_a_cursor_keeps_its_horizon_beside_other_polls(cluster: Cluster, two_tables: None) -> None:
    with cluster.connect() as session:
        in_other = int(cluster.psql("INSERT INTO other VALUES (snowflake_next()) RETURNING id"))
        rows = [int(cluster.psql(INSERT)) for _ in range(2)]
        cluster.wait_until(lambda: ask(session, HORIZON) > rows[-1], "past the rows")
        session.execute("BEGIN")
        session.execute(CURSOR % "")
        found = fetched(session, "1")
        horizons = set()
        for _ in range(20):
            cluster.psql(INSERT)
            horizons.add(ask(session, HORIZON))
        assert len(horizons) > 10
        found += fetched(session, "ALL")
        assert found == [*rows, in_other]
        session.execute("COMMIT")


def test_a_cursor_has_the_horizon_that_pruned_its_partitions(cluster: Cluster) -> None:
    """Partitions are pruned when the cursor is declared, and of the others rows are taken when it is fetched from."""
    with cluster.connect() as session, cluster.connect() as holder:
        holder.execute("BEGIN")
        ask(holder, NEXT)
        first, second = (int(cluster.psql(NEXT)) for _ in range(2))
        cluster.psql(f"""
            CREATE TABLE event (id bigint, tenant int) PARTITION BY LIST (tenant);
            CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1) PARTITION BY RANGE (id);
            CREATE TABLE event_1_old PARTITION OF event_1 FOR VALUES FROM (0) TO ({first});
            CREATE TABLE event_1_new PARTITION OF event_1 FOR VALUES FROM ({first}) TO (MAXVALUE);
            CREATE TABLE event_2 PARTITION OF event FOR VALUES IN (2);
            INSERT INTO event VALUES ({first}, 1), ({second}, 2)
        """)
        query = "SELECT id FROM event WHERE id > 0 AND id < snowflake_commit_horizon() ORDER BY id"
        ask(session, HORIZON)
        session.execute("BEGIN")
        session.execute(f"DECLARE events CURSOR FOR {query}")
        holder.execute("COMMIT")
        assert fetched(session, "ALL", "events") == []
        session.execute("COMMIT")
        cluster.wait_until(lambda: ask(session, HORIZON) > second, "past the rows")
        assert [row[0] for row in session.execute(query)] == [first, second]
    cluster.psql("DROP TABLE event")


def test_a_call_site_that_is_kept_does_not_keep_the_horizon(cluster: Cluster) -> None:
    """PL/pgSQL keeps an expression for as long as the transaction lasts."""
    with cluster.connect() as session:
        session.execute(
            "CREATE FUNCTION now_safe() RETURNS bigint LANGUAGE plpgsql"
            " AS 'BEGIN RETURN snowflake_commit_horizon(); END'"
        )
        session.execute("BEGIN")
        for _ in range(5):
            row = int(cluster.psql(INSERT))
            cluster.wait_until(
                lambda row=row: cluster.psql(INSERT) and ask(session, "SELECT now_safe()") > row, "past the row"
            )
            assert ask(session, "SELECT now_safe()") == ask(session, HORIZON)
        session.execute("COMMIT")
        session.execute("DROP FUNCTION now_safe")


@contextmanager
def mismarked(cluster: Cluster, expression: str, result: str = "bigint") -> Iterator[psycopg.Connection]:
    """A session whose queries are executed by a parallel worker, also a call of the function `mismarked`, which should
    not be."""
    with cluster.connect() as session:
        session.execute(
            f"CREATE FUNCTION mismarked() RETURNS {result} LANGUAGE plpgsql PARALLEL SAFE AS"
            f" 'BEGIN RETURN {expression}; END'"
        )
        for setting in ("force_parallel_mode", "debug_parallel_query"):
            with suppress(psycopg.errors.UndefinedObject):
                session.execute(f"SET {setting} = on")
        try:
            yield session
        finally:
            session.execute("DROP FUNCTION mismarked")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("snowflake_commit_horizon()", "cannot read the commit horizon during a parallel operation"),
        ("snowflake_next()", "cannot generate snowflakes in a parallel worker"),
        ("snowflake_next(7)", "cannot generate snowflakes in a parallel worker"),
        ("(snowflake_next_array(5))[1]", "cannot generate snowflakes in a parallel worker"),
        ("max(id) FROM snowflake_next_batch(5) id", "cannot generate snowflakes in a parallel worker"),
    ],
)
def test_a_parallel_worker_is_refused(cluster: Cluster, expression: str, message: str) -> None:
    """What it made would be pending with it, and it is not the one that commits."""
    cluster.psql("SELECT id_gen_shard_take(7, above => 0)")
    with mismarked(cluster, expression) as session:
        with pytest.raises(psycopg.errors.InvalidTransactionState) as refused:
            ask(session, "SELECT mismarked()")
        assert refused.value.sqlstate == IN_PARALLEL_MODE
        assert refused.value.diag.message_primary == message
    assert cluster.psql("SELECT count(*) FROM id_gen_stat_horizon") == "0"
    cluster.psql("SELECT id_gen_shard_release(7)")


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("uuidv7()", "uuid"),
        ("uuidv7_ordered()", "uuid"),
        ("ulid()", "uuid"),
        ("snowflake_timestamp(snowflake_min(now()))", "timestamptz"),
    ],
)
def test_a_parallel_worker_makes_and_reads_what_no_horizon_knows_of(
    cluster: Cluster, expression: str, result: str
) -> None:
    with mismarked(cluster, expression, result) as session:
        plan = session.execute("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT mismarked()").fetchall()
        assert "Workers Launched: 1" in "\n".join(row[0] for row in plan)


def test_the_leader_of_parallel_workers_generates(cluster: Cluster) -> None:
    with cluster.connect() as session:
        session.execute("CREATE TABLE filled AS SELECT generate_series(1, 10000) AS n")
        for setting in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            session.execute(f"SET {setting} = 0")
        query = "SELECT snowflake_next() FROM filled WHERE n % 2 = 0"
        plan = session.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {query}").fetchall()
        assert "Workers Launched" in "\n".join(row[0] for row in plan)
        ids = [row[0] for row in session.execute(query)]
        assert len(set(ids)) == 5_000
        session.execute("DROP TABLE filled")


def test_repeatable_read_keeps_its_horizon(cluster: Cluster) -> None:
    with cluster.connect() as session, Reader(cluster) as reader:
        ask(session, HORIZON)
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        horizon = ask(session, HORIZON)
        rows = [int(cluster.psql(INSERT)) for _ in range(3)]
        reader.await_all(cluster, rows)
        for _ in range(10):
            cluster.psql(INSERT)
            assert ask(session, HORIZON) == horizon <= rows[0]
        assert ask(session, f"SELECT count(*) FROM outbox WHERE id >= {rows[0]}") == 0
        session.execute("COMMIT")
        # What is ended may show a moment later in the session's slot.
        cluster.wait_until(lambda: ask(session, HORIZON) > rows[-1], "past the rows")


def test_a_snapshot_has_no_horizon_from_after_it(cluster: Cluster) -> None:
    """Also where the session asks for the first time when the rows that it does not see are committed already."""
    with cluster.connect() as session, Reader(cluster) as reader:
        ask(session, HORIZON)
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT")
        rows = [int(cluster.psql(INSERT)) for _ in range(3)]
        reader.await_all(cluster, rows)
        assert ask(session, HORIZON) <= rows[0]
        session.execute("COMMIT")


def test_an_idle_server_hides_nothing(cluster: Cluster) -> None:
    """The horizon comes above the last row without another one."""
    last = int(cluster.psql(INSERT))
    with cluster.connect() as session:
        cluster.wait_until(lambda: ask(session, HORIZON) > last, "past the row")


def test_another_database_holds_up_nothing(cluster: Cluster) -> None:
    with cluster.database("other") as other:
        cluster.psql(OUTBOX, other)
        with transaction(cluster, other) as (session, first), Reader(cluster) as reader:
            reader.await_all(cluster, [int(cluster.psql(INSERT))])
            assert cluster.psql(f"{BLOCKERS} WHERE database = '{other}'") == f"t||{other}|{first}|idle in transaction"
            with cluster.connect(other) as beside:
                assert ask(beside, HORIZON) <= first
            session.execute("ROLLBACK")


def test_prepared_transactions() -> None:
    with Cluster(conf=CONF) as cluster:
        cluster.psql(OUTBOX)
        with Reader(cluster) as reader:
            with transaction(cluster) as (session, first):
                session.execute("PREPARE TRANSACTION 'one'")
                # The session goes on with others.
                second = ask(session, INSERT)
                assert reader.poll() == []
            assert cluster.psql(BLOCKERS) == f"f|one|postgres|{first}|prepared"
            cluster.psql("COMMIT PREPARED 'one'")
            reader.await_all(cluster, [first, second])
            assert cluster.psql(BLOCKERS) == ""


def test_more_prepared_transactions_than_are_remembered() -> None:
    """Nobody reads meanwhile, so those that have ended are forgotten only when there is no room for another."""
    sessions, each = 6, 100
    few = "max_connections = 15\nmax_worker_processes = 4\nmax_wal_senders = 0\nautovacuum_max_workers = 1\n"
    with Cluster(conf=f"{GENERATING}{few}max_prepared_transactions = {sessions + 1}\n") as cluster:
        cluster.psql(OUTBOX)

        def prepare(number: int) -> list[int]:
            """How many are remembered after each."""
            remembered = []
            with cluster.connect() as session:
                for _ in range(each):
                    session.execute("BEGIN")
                    ask(session, INSERT)
                    session.execute(f"PREPARE TRANSACTION 'p{number}'")
                    remembered.append(ask(session, REMEMBERED))
                    session.execute(f"ROLLBACK PREPARED 'p{number}'")
            return remembered

        with Reader(cluster) as reader, ThreadPoolExecutor(sessions) as pool:
            with transaction(cluster) as (session, first):
                session.execute("PREPARE TRANSACTION 'stays'")
            for remembered in [prepare(0), *pool.map(prepare, range(sessions))]:
                assert sessions + 1 < max(remembered) < each
                assert any(later < earlier for earlier, later in pairwise(remembered))
            assert cluster.psql(BLOCKERS) == f"f|stays|postgres|{first}|prepared"
            after = int(cluster.psql(INSERT))
            assert [reader.poll() for _ in range(3)] == [[], [], []]
            cluster.psql("COMMIT PREPARED 'stays'")
            reader.await_all(cluster, [first, after])
            assert cluster.psql(REMEMBERED) == "0"


@pytest.mark.parametrize("end", ["cancel", "terminate"])
def test_a_commit_that_waits_for_a_standby(end: str) -> None:
    """Nobody else sees its row yet. When the wait is called off, it has committed all the same."""
    conf = f"{CONF}synchronous_standby_names = 'nobody'\nsynchronous_commit = local\n"
    with Cluster(conf=conf) as cluster:
        cluster.psql(OUTBOX)
        with Reader(cluster) as reader, Caller(cluster) as caller:
            caller.ask("SELECT set_config('synchronous_commit', 'on', false)")
            waiting = caller.begin(INSERT)
            caller.await_wait("IPC")
            first = int(cluster.psql("SELECT first_id FROM id_gen_stat_horizon"))
            after = int(cluster.psql(INSERT))
            assert [reader.poll() for _ in range(3)] == [[], [], []]
            cluster.psql(f"SELECT pg_{end}_backend({caller.pid})")
            reader.await_all(cluster, [first, after])
            if end == "cancel":
                assert answer_of(waiting) == first
            else:
                error_of(waiting)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_what_was_prepared_before_a_restart(mode: str) -> None:
    """Nothing is known of its IDs, so nothing is known of the horizon of its database: nothing is read there."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql(OUTBOX)
        cluster.psql("CREATE DATABASE other")
        cluster.psql(OUTBOX, "other")
        first = int(cluster.psql(f"BEGIN; {INSERT}; PREPARE TRANSACTION 'old'"))
        cluster.restart(mode)
        other = int(cluster.psql(INSERT, "other"))
        cluster.poll_until(f"SELECT snowflake_commit_horizon() > {other}", "other")
        after = int(cluster.psql(INSERT))
        with cluster.connect() as session:
            assert ask(session, HORIZON) == 0
            assert cluster.psql(BLOCKERS) == "f|old|postgres||prepared"
            cluster.psql("COMMIT PREPARED 'old'")
            cluster.wait_until(lambda: ask(session, HORIZON) > after, "past the rows")
            assert [row[0] for row in session.execute(SAFE, [0])] == [first, after]


def test_what_was_prepared_since_the_start_holds_up_nothing_without_an_id() -> None:
    with Cluster(conf=CONF) as cluster:
        cluster.psql(f"{OUTBOX}; CREATE TABLE other (id bigint)")
        cluster.psql(INSERT)
        cluster.restart()
        row = int(cluster.psql(INSERT))
        cluster.psql("BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'plain'")
        cluster.poll_until(f"SELECT snowflake_commit_horizon() > {row}")
        assert cluster.psql(BLOCKERS) == ""


def test_any_role_reads_the_horizon_after_a_restart() -> None:
    """Also one that may not list prepared transactions."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql(f"{OUTBOX}; REVOKE EXECUTE ON FUNCTION pg_prepared_xact() FROM PUBLIC; CREATE ROLE plain")
        cluster.psql(f"BEGIN; {INSERT}; PREPARE TRANSACTION 'old'")
        cluster.restart()
        with cluster.connect() as session:
            session.execute("SET ROLE plain")
            assert ask(session, HORIZON) == 0
            cluster.psql("ROLLBACK PREPARED 'old'")
            cluster.wait_until(lambda: ask(session, HORIZON) > 0, "a horizon")


def test_a_blocker_that_reports_no_activity_is_no_prepared_transaction(cluster: Cluster) -> None:
    with transaction(cluster) as (session, first):
        session.execute("SET track_activities = off")
        assert cluster.psql(BLOCKERS) == f"t||postgres|{first}|disabled"
        session.execute("ROLLBACK")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_guard_after_a_restart(mode: str) -> None:
    """What readers passed before it, none of its rows may come below."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql(f"{OUTBOX}; {GUARD % ('outbox', '')}")
        early = int(cluster.psql(NEXT))
        with Reader(cluster) as reader:
            reader.await_all(cluster, [int(cluster.psql(INSERT))])
        cluster.restart(mode)
        # As the first thing that anybody asks of the server.
        assert refusal(cluster, f"INSERT INTO outbox VALUES ({early})").sqlstate == REFUSED.sqlstate
        cluster.psql(INSERT)


def test_the_guard_after_a_promotion() -> None:
    with Cluster("primary", conf=CONF) as primary:
        primary.psql(f"{OUTBOX}; {GUARD % ('outbox', '')}")
        early = int(primary.psql(NEXT))
        with Cluster("standby", standby_of=primary) as standby:
            with Reader(primary) as reader:
                reader.await_all(primary, [int(primary.psql(INSERT))])
            primary.wait_for_catchup(standby)
            primary.stop()
            standby.promote()
            assert refusal(standby, f"INSERT INTO outbox VALUES ({early})").sqlstate == REFUSED.sqlstate


def test_the_guard_lets_pass_what_commits_no_new_row(cluster: Cluster) -> None:
    cluster.psql(f"""
        CREATE TABLE guarded (id bigint PRIMARY KEY DEFAULT snowflake_next(), note text);
        {GUARD % ("guarded", "'id'")};
        CREATE TABLE parted (id bigint DEFAULT snowflake_next(), done boolean DEFAULT false) PARTITION BY LIST (done);
        CREATE TABLE parted_new PARTITION OF parted FOR VALUES IN (false);
        CREATE TABLE parted_done PARTITION OF parted FOR VALUES IN (true);
        {GUARD % ("parted", "'id'")}
    """)
    with cluster.connect() as session:
        row = ask(session, "INSERT INTO guarded DEFAULT VALUES RETURNING id")
        moved = ask(session, "INSERT INTO parted DEFAULT VALUES RETURNING id")
        cluster.wait_until(lambda: ask(session, HORIZON) > moved, "past the rows")
        for statement in (
            "UPDATE guarded SET id = id, note = 'updated'",
            f"INSERT INTO guarded VALUES ({row}) ON CONFLICT DO NOTHING",
            f"INSERT INTO guarded VALUES ({row}) ON CONFLICT (id) DO UPDATE SET note = 'again'",
            "UPDATE parted SET id = id",
        ):
            session.execute(statement)
        # A row of another partition is inserted there.
        with pytest.raises(REFUSED):
            session.execute("UPDATE parted SET done = true")
    cluster.psql("DROP TABLE guarded, parted")


@pytest.mark.parametrize("event", ["INSERT", "UPDATE"])
def test_the_guard_sees_what_other_triggers_change(cluster: Cluster, event: str) -> None:
    with cluster.connect() as session:
        early = ask(session, NEXT)
        session.execute(f"""
            CREATE TABLE guarded (id bigint DEFAULT snowflake_next(), note text);
            {GUARD % ("guarded", "")};
            INSERT INTO guarded DEFAULT VALUES;
            CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := {early}; RETURN NEW; END';
            CREATE TRIGGER last BEFORE {event} ON guarded FOR EACH ROW EXECUTE FUNCTION change()
        """)
        cluster.wait_until(lambda: ask(session, HORIZON) > early, "past the ID")
        with pytest.raises(REFUSED):
            session.execute(
                "INSERT INTO guarded DEFAULT VALUES" if event == "INSERT" else "UPDATE guarded SET note = 'changed'"
            )
    cluster.psql("DROP TABLE guarded; DROP FUNCTION change")


@pytest.mark.parametrize("guard", [GUARD, GUARD.replace("AFTER", "BEFORE")], ids=["after", "before"])
def test_the_guard(cluster: Cluster, guard: str) -> None:
    cluster.psql(f"""CREATE TABLE "Guarded" ("Key" bigint, note text); {guard % ('"Guarded"', "'Key'")}""")
    store = 'INSERT INTO "Guarded" VALUES (%s)'
    with cluster.connect() as session, cluster.connect() as reader:
        early = ask(session, NEXT)
        # Nobody has read past it yet: it is pending again, and holds up readers.
        ask(reader, f"SELECT {early}")
        session.execute("BEGIN")
        session.execute(store, [early])
        assert ask(reader, HORIZON) <= early
        session.execute("COMMIT")
        early = ask(session, NEXT)
        cluster.wait_until(lambda: ask(reader, HORIZON) > early, "past the ID")
        for statement in (store, 'UPDATE "Guarded" SET "Key" = %s WHERE true'):
            with pytest.raises(REFUSED) as refused:
                session.execute(statement, [early])
            assert f"snowflake {early} is below the commit horizon" in str(refused.value)
        session.execute('INSERT INTO "Guarded" VALUES (snowflake_next()), (NULL)')
        session.execute('UPDATE "Guarded" SET note = 1')
        # From a server whose clock is ahead.
        session.execute(store, [ask(session, "SELECT snowflake_min(now() + interval '1 minute')")])
        # A procedure that commits in between.
        session.execute(
            "CREATE PROCEDURE store(id bigint) LANGUAGE plpgsql AS 'BEGIN INSERT INTO \"Guarded\" VALUES (id); END'"
        )
        session.execute("""
            CREATE PROCEDURE late() LANGUAGE plpgsql AS $$
            DECLARE key bigint := snowflake_next();
            BEGIN COMMIT; PERFORM snowflake_commit_horizon(); CALL store(key); END $$
        """)
        with pytest.raises(REFUSED):
            session.execute("CALL late()")
    cluster.psql('DROP PROCEDURE late; DROP PROCEDURE store; DROP TABLE "Guarded"')


@pytest.mark.parametrize(
    ("trigger", "sqlstate"),
    [
        ("BEFORE INSERT ON wrong FOR EACH STATEMENT EXECUTE FUNCTION snowflake_guard_trigger()", "39P01"),
        ("BEFORE INSERT ON wrong FOR EACH ROW EXECUTE FUNCTION snowflake_guard_trigger('none')", "42703"),
        ("BEFORE INSERT ON wrong FOR EACH ROW EXECUTE FUNCTION snowflake_guard_trigger('note')", "42703"),
    ],
)
def test_a_guard_that_guards_nothing_says_so(cluster: Cluster, trigger: str, sqlstate: str) -> None:
    cluster.psql(f"CREATE TABLE wrong (id bigint, note text); CREATE TRIGGER guard {trigger}")
    try:
        error = refusal(cluster, "INSERT INTO wrong VALUES (1)")
        assert error.sqlstate == sqlstate
        assert error.hint and "CREATE TRIGGER guard" in error.hint
    finally:
        cluster.psql("DROP TABLE wrong")


def test_a_smaller_number_makes_no_id_below_the_horizon(cluster: Cluster) -> None:
    with Cluster(conf=CONF.replace("worker_id = 1", "worker_id = 7")) as numbered:
        numbered.psql(OUTBOX)
        with Reader(numbered) as reader, numbered.connect() as session:
            expected: list[int] = []
            for worker in (6, 5, 4, 3, 2):
                expected.append(ask(session, INSERT))
                reader.await_all(numbered, expected)
                change(numbered, "worker_id", worker)
                numbered.poll_until(f"SELECT worker_id = {worker} FROM snowflake_parse(snowflake_next())")


def test_a_row_publishes_the_horizon_to_standbys() -> None:
    """Where the function itself is refused."""
    read = "SELECT id FROM outbox WHERE id > %s AND id < (SELECT id FROM horizon) ORDER BY id"
    publish = "UPDATE horizon SET id = greatest(id, snowflake_commit_horizon())"
    with Cluster("primary", conf=CONF) as primary:
        primary.psql(f"{OUTBOX}; CREATE TABLE horizon (id bigint); INSERT INTO horizon VALUES (0)")
        with Cluster("standby", standby_of=primary) as standby:
            with pytest.raises(SqlError) as refused:
                standby.psql(HORIZON)
            assert refused.value.sqlstate == READ_ONLY
            with transaction(primary) as (session, first), Reader(standby, read) as reader:
                after = int(primary.psql(INSERT))
                primary.psql(publish)
                primary.wait_for_catchup(standby)
                assert reader.poll() == []
                session.execute("COMMIT")
                primary.wait_until(lambda: primary.psql(f"{publish} RETURNING id > {after}") == "t", "past the row")
                primary.wait_for_catchup(standby)
                reader.await_all(standby, [first, after])


def write_until(cluster: Cluster, number: int, done: threading.Event) -> None:
    """Transactions of every kind, which commit when they like, in one session after the other."""
    choose = random.Random(number)
    while not done.is_set():
        with may_be_ended(), connect_again(cluster, application_name="writer") as session:
            cluster.wait_until(lambda session=session: end_prepared(session, number, choose), "rid of a transaction")
            while not done.is_set():
                write(session, number, choose)


def end_prepared(session: psycopg.Connection, number: int, choose: random.Random) -> bool:
    """Ends what an earlier session has left, unless that one is still about to end itself."""
    name = f"w{number}"
    with suppress(psycopg.errors.ObjectNotInPrerequisiteState):
        if ask(session, f"SELECT count(*) FROM pg_prepared_xacts WHERE gid = '{name}'"):
            session.execute(f"{choose.choice(('COMMIT', 'ROLLBACK'))} PREPARED '{name}'")
        return True
    return False


def write(session: psycopg.Connection, number: int, choose: random.Random) -> None:
    session.execute("BEGIN")
    for _ in range(choose.randrange(1, 4)):
        session.execute("INSERT INTO outbox (writer) VALUES (%s)", [number])
    kind = choose.randrange(10)
    if kind == 0:
        session.execute("SAVEPOINT one")
        session.execute("INSERT INTO outbox (writer) SELECT 0 FROM generate_series(1, 3)")
        session.execute("ROLLBACK TO one")
    time.sleep(choose.choice((0, 0, 0.001, 0.02)))
    if kind == 1:
        session.execute("ROLLBACK")
    elif kind == 2:
        session.execute(f"PREPARE TRANSACTION 'w{number}'")
        session.execute("INSERT INTO outbox (writer) VALUES (%s)", [number])
        end_prepared(session, number, choose)
    else:
        session.execute("COMMIT")


@contextmanager
def writers_and_readers(cluster: Cluster) -> Iterator[None]:
    """They are at it for as long as the block lasts. Each row is read once and in order, but by the naive reader."""
    with ThreadPoolExecutor(WRITERS + READERS + 1) as pool:
        readers = [Reader(cluster) for _ in range(READERS)]
        naive = Reader(cluster, NAIVE)
        written, read = threading.Event(), threading.Event()
        try:
            writing = [pool.submit(write_until, cluster, number, written) for number in range(WRITERS)]
            reading = [pool.submit(reader.poll_until, read) for reader in (*readers, naive)]
            yield
            written.set()
            for each in writing:
                each.result()
        finally:
            written.set()
            read.set()
        for each in reading:
            each.result()
        with cluster.connect() as session:
            for number in range(WRITERS):
                end_prepared(session, number, random.Random())
            rows = [row[0] for row in session.execute("SELECT id FROM outbox ORDER BY id")]
        for reader in readers:
            reader.await_all(cluster, rows)
        naive.poll()
        lost = set(rows) - set(naive.ids)
        print(f"{len(rows)} rows; the reader that goes by the last ID alone lost {len(lost)}, the {READERS} others 0")
        assert lost
        assert "was terminated by signal" not in cluster.log()
        for reader in (*readers, naive):
            with suppress(Exception):
                reader.__exit__()


def end_sessions(cluster: Cluster, until: float) -> int:
    """Terminates writers, each wherever it is."""
    choose, ended = random.Random(0), 0
    with cluster.connect() as session:
        while time.monotonic() < until:
            time.sleep(choose.uniform(0, 0.2))
            ended += ask(session, END_A_WRITER)
    return ended


@pytest.mark.long
@pytest.mark.parametrize("max_block", [65_536, 1], ids=["blocks", "a shared block"])
def test_every_row_once_and_in_order(max_block: int) -> None:
    """While some of the writers are terminated, each at any point of its transaction."""
    conf = (
        f"{CONF}max_prepared_transactions = {WRITERS}\nid_gen.max_block_size = {max_block}\nsynchronous_commit = off\n"
    )
    with Cluster(conf=conf) as cluster:
        cluster.psql(OUTBOX)
        with writers_and_readers(cluster):
            assert end_sessions(cluster, time.monotonic() + SECONDS) > 0


@pytest.mark.long
@pytest.mark.parametrize("max_block", [65_536, 1], ids=["blocks", "a shared block"])
def test_readers_go_on_after_crashes(max_block: int) -> None:
    """No row that they have read is gone: a commit shows once it is on disk."""
    conf = f"{CONF}max_prepared_transactions = {WRITERS}\nid_gen.max_block_size = {max_block}\n"
    with Cluster(conf=conf) as cluster:
        cluster.psql(OUTBOX)
        with writers_and_readers(cluster):
            for _ in range(CRASHES):
                enough = int(cluster.psql("SELECT count(*) FROM outbox")) + ROWS_BETWEEN_CRASHES
                cluster.poll_until(f"SELECT count(*) > {enough} FROM outbox")
                cluster.kill9()
                cluster.start()
