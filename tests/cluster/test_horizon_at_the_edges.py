"""The commit horizon where transactions end in unusual ways, where IDs come in another order than usual, and where an
administrator makes the server start again: readers still get every row once, in the order of its ID."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness import Cluster, FakeClock
from harness.checks import follow
from harness.horizon import BLOCKERS, CONF, GUARD, HORIZON, INSERT, OUTBOX, Reader, ask
from harness.ids import NEXT, first_id
from harness.shim import compiled

FOREIGN_CALLBACK = Path(__file__).with_name("foreign_callback.c")
FOREIGN_WORKER = Path(__file__).with_name("foreign_worker.c")
PUBLISH = "UPDATE horizon SET id = greatest(id, snowflake_commit_horizon())"
# As many polls as it takes at most until a session knows what it may know.
POLLS = 5

both_kinds_of_block = pytest.mark.parametrize("max_block", [65_536, 1], ids=["blocks", "a shared block"])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(conf=CONF) as cluster:
        cluster.psql(OUTBOX)
        yield cluster


def assert_held_up(reader: Reader) -> None:
    for _ in range(POLLS):
        assert reader.poll() == []


@both_kinds_of_block
def test_an_id_from_a_server_that_is_ahead_covers_no_lower_one(max_block: int) -> None:
    """The transaction stores that first, and then makes one of its own."""
    with Cluster(conf=f"{CONF}id_gen.max_block_size = {max_block}\n") as cluster:
        cluster.psql(f"{OUTBOX}; CREATE TABLE imported (id bigint); {GUARD % ('imported', '')}; {NEXT}")
        with Reader(cluster) as reader, cluster.connect() as session:
            session.execute("BEGIN")
            session.execute("INSERT INTO imported VALUES (snowflake_min(now() + interval '1 minute'))")
            own = ask(session, INSERT)
            above = int(cluster.psql(INSERT))
            assert_held_up(reader)
            # Nor does the guard take its own for one that comes late.
            session.execute(f"INSERT INTO imported VALUES ({own})")
            session.execute("COMMIT")
            reader.await_all(cluster, [own, above])


@both_kinds_of_block
def test_ids_that_start_again_below_those_of_an_open_transaction(max_block: int) -> None:
    clock = FakeClock()
    with Cluster(conf=f"{CONF}id_gen.max_block_size = {max_block}\n", clock=clock) as cluster:
        cluster.psql(OUTBOX)
        with Reader(cluster) as reader, cluster.connect() as session:
            session.execute("BEGIN")
            early = ask(session, INSERT)
            clock.step(-600)
            cluster.psql("SELECT id_gen_reservation_reset(above => now())")
            assert first_id(cluster) < early
            own = ask(session, INSERT)
            above = int(cluster.psql(INSERT))
            assert own < above < early
            assert_held_up(reader)
            session.execute("COMMIT")
            reader.await_all(cluster, [own, above])


def test_a_time_that_was_mistyped_and_taken_back(cluster: Cluster) -> None:
    """Sessions have read a horizon of that time, which no ID was made with."""
    cluster.psql(f"""
        CREATE TABLE horizon (id bigint); INSERT INTO horizon VALUES (0);
        CREATE TABLE imported (id bigint); {GUARD % ("imported", "")}
    """)
    hints: list[str] = []
    with Reader(cluster) as reader, cluster.connect() as admin, cluster.connect() as session:
        first = int(cluster.psql(INSERT))
        reader.await_all(cluster, [first])
        admin.add_notice_handler(lambda notice: hints.append(notice.message_hint or ""))
        admin.execute("SELECT id_gen_reservation_reset(above => now() + interval '10 years')")
        mistyped = ask(admin, "SELECT snowflake_min(now() + interval '9 years')")
        cluster.wait_until(lambda: ask(session, f"{PUBLISH} RETURNING id") > mistyped, "publishing the horizon")
        assert_held_up(reader)
        (typed,) = re.findall(r"SELECT [^;]*;", hints.pop())
        admin.execute(typed)
        (lower,) = (hint for hint in hints if "UPDATE horizon" in hint)
        follow(cluster, lower)
        first_id(cluster)
        session.execute("BEGIN")
        late = ask(session, INSERT)
        above = int(cluster.psql(INSERT))
        assert_held_up(reader)
        assert int(cluster.psql(f"{PUBLISH} RETURNING id")) <= late
        session.execute("COMMIT")
        reader.await_all(cluster, [first, late, above])
        kept = ask(session, NEXT)
        session.execute(f"INSERT INTO imported VALUES ({kept})")


def foreign_callback(cluster: Cluster, session: psycopg.Connection) -> None:
    """From now on, the session inserts a row whenever its transaction is about to be prepared. It must not have used
    id_gen yet: of the two callbacks, the one that is registered first is called last."""
    library = compiled(FOREIGN_CALLBACK, f"-I{cluster.server.directory('includedir-server')}")
    session.execute(
        f"CREATE FUNCTION at_prepare(text) RETURNS void AS '{library}', 'foreign_callback_at_prepare' LANGUAGE c"
    )
    session.execute(f"SELECT at_prepare('{INSERT}')")


@pytest.mark.parametrize(
    "before", ["SELECT 1", "INSERT INTO imported VALUES (snowflake_min(now() + interval '1 minute'))"]
)
def test_an_id_that_another_library_makes_while_a_transaction_is_prepared(cluster: Cluster, before: str) -> None:
    """The transaction has no ID before, or a higher one."""
    cluster.psql(f"CREATE TABLE imported (id bigint); {GUARD % ('imported', '')}")
    with cluster.connect() as session, Reader(cluster) as reader:
        foreign_callback(cluster, session)
        ask(session, NEXT)
        session.execute("BEGIN")
        session.execute(before)
        session.execute("PREPARE TRANSACTION 'one'")
        above = int(cluster.psql(INSERT))
        assert_held_up(reader)
        first = ask(session, "SELECT first_id FROM id_gen_stat_horizon WHERE gid = 'one'")
        session.execute("COMMIT PREPARED 'one'")
        reader.await_all(cluster, [first, above])


def test_a_session_that_takes_its_time_to_end_is_seen_to_hold_up_readers(cluster: Cluster) -> None:
    """Its process has given its place back by then, and its transaction is yet to be rolled back."""
    library = compiled(FOREIGN_CALLBACK, f"-I{cluster.server.directory('includedir-server')}")
    path = cluster.base / "open"
    path.touch()
    cluster.psql(f"CREATE FUNCTION at_end(text) RETURNS void AS '{library}', 'foreign_callback_at_end' LANGUAGE c")
    session = cluster.connect()
    with Reader(cluster) as reader:
        session.execute(f"SELECT at_end('{path}')")
        session.execute("BEGIN")
        first = ask(session, INSERT)
        above = int(cluster.psql(INSERT))
        try:
            cluster.psql(f"SELECT pg_terminate_backend({session.info.backend_pid})")
            cluster.poll_until(BLOCKERS, expected=f"f||postgres|{first}|ending")
            assert_held_up(reader)
        finally:
            path.unlink()
        reader.await_all(cluster, [above])
        session.close()
        cluster.poll_until("SELECT count(*) FROM id_gen_stat_horizon", expected="0")


def test_a_prepared_transaction_without_an_id_holds_up_nothing(cluster: Cluster) -> None:
    """Also one of a session that made IDs before."""
    with cluster.connect() as session, Reader(cluster) as reader:
        first = ask(session, INSERT)
        session.execute("BEGIN")
        session.execute("CREATE TABLE other ()")
        session.execute("PREPARE TRANSACTION 'plain'")
        assert cluster.psql(BLOCKERS) == ""
        reader.await_all(cluster, [first])
        session.execute("ROLLBACK PREPARED 'plain'")


def test_a_reader_goes_on_while_what_it_prepared_is_undecided(cluster: Cluster) -> None:
    """What it read in that transaction, it read with snapshots that did not show the transaction itself."""
    cluster.psql("CREATE TABLE progress (last bigint); INSERT INTO progress VALUES (0)")
    with cluster.connect() as session, cluster.connect() as holder, Reader(cluster) as reader:
        first = int(cluster.psql(INSERT))
        holder.execute("BEGIN")
        held = ask(holder, INSERT)
        session.execute("BEGIN")
        session.execute("UPDATE progress SET last = 1")
        cluster.psql(INSERT)
        for _ in range(POLLS):
            ask(session, HORIZON)
        session.execute("PREPARE TRANSACTION 'poll'")
        cluster.wait_until(lambda: ask(session, HORIZON) == held, "told of the horizon, which stands still")
        reader.await_all(cluster, [first])
        session.execute("ROLLBACK PREPARED 'poll'")


def test_a_worker_that_ends_when_its_row_is_committed_and_no_snapshot_shows_it() -> None:
    """It waits for a standby that never comes. PostgreSQL can't roll it back, and crashes; until then, readers wait."""
    with Cluster(conf=CONF) as cluster:
        library = compiled(FOREIGN_WORKER, f"-I{cluster.server.directory('includedir-server')}")
        cluster.psql(f"""
            {OUTBOX};
            CREATE FUNCTION foreign_worker_start(text, text, text) RETURNS int AS '{library}' LANGUAGE c STRICT;
            ALTER SYSTEM SET synchronous_standby_names = 'nobody'
        """)
        cluster.reload()
        cluster.poll_until("SHOW synchronous_standby_names", expected="nobody")
        # Where the library is not preloaded, no worker may be the first to use it.
        cluster.psql("SELECT FROM id_gen_status()")
        start = f"SELECT foreign_worker_start('{library}', '{INSERT}', 'foreign_worker_slow_to_end')"
        began = cluster.log_position
        with Reader(cluster) as reader, cluster.connect() as other:
            pid = int(cluster.psql(start))
            cluster.poll_until(f"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = {pid}")
            other.execute("SET synchronous_commit = local")
            above = ask(other, INSERT)
            assert_held_up(reader)
            os.kill(pid, signal.SIGTERM)
            with pytest.raises(psycopg.OperationalError):
                while True:
                    assert reader.poll() == []
            cluster.wait_for_log("all server processes terminated; reinitializing", began)
            reader.connect_again()
            first = int(cluster.psql("SELECT min(id) FROM outbox"))
            assert first < above
            reader.await_all(cluster, [first, above])
