"""No two IDs of a database are equal, whatever its sessions do, and those of one session increase.

Sessions share lanes here, and are stopped, cancelled and ended while they take IDs.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import numpy as np
import psycopg
import pytest

from harness import Cluster
from harness.clients import INT8, copy_all
from harness.ids import error_of, refusal
from harness.managed import DATABASE, LOCK_CLASS, LOCKS, WORKER, configure, ids_of, install, sessions

pytestmark = pytest.mark.long

CLIENTS = 16
EACH = 5_000
INCIDENTS = 60
STOPPED_SECONDS = 0.05
PER_STATEMENT = 50
HELD = f"SELECT count(*) FROM pg_locks WHERE {LOCKS}"
HOLD = f"SELECT pg_advisory_lock({LOCK_CLASS}, lane) FROM generate_series(0, %s) lane"
WAITS = "SELECT wait_event FROM pg_stat_activity WHERE pid = {}"
CANCELLED = "57014"
CHANGES = 10
CANCELS, MOMENT_SECONDS = 60, 0.0005

# What the lanes are there against: a sequence is read and set, and another session comes in between.
BARE_SEQUENCE = """
    CREATE SEQUENCE bare;
    CREATE OR REPLACE FUNCTION snowflake_next() RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        clock CONSTANT bigint := floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 12;
        place bigint := nextval('bare');
    BEGIN
        IF place < clock THEN
            place := setval('bare', clock);
        END IF;
        RETURN place;
    END $$;
    GRANT USAGE ON SEQUENCE bare TO PUBLIC;
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("lanes", conf="max_connections = 200\nmax_prepared_transactions = 2\n") as cluster:
        install(cluster)
        yield cluster


def assert_distinct(ids: list[int]) -> None:
    assert len(set(ids)) == len(ids), f"{len(ids) - len(set(ids))} of {len(ids)} IDs were given more than once"


def assert_increasing(ids: list[int]) -> None:
    assert all(one < next_one for one, next_one in zip(ids, ids[1:], strict=False))


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("call", ["snowflake_next()", "snowflake_next_batch(50)"])
def test_many_sessions(cluster: Cluster, lanes: int, call: str) -> None:
    configure(cluster, lanes=lanes)
    each = EACH // 10 if lanes == 1 else EACH
    rows = each if "batch" not in call else each // 50
    query = f"SELECT {call} FROM generate_series(1, {rows})"
    answers = [each["id"].astype(np.int64) for each in copy_all(cluster, query, {"id": INT8}, [DATABASE] * CLIENTS)]
    assert all(np.all(np.diff(ids) > 0) for ids in answers)
    assert np.unique(np.concatenate(answers)).size == CLIENTS * each


class Load:
    """A session that takes IDs until it is told to stop, and again as a new session when it was ended."""

    def __init__(self, cluster: Cluster, dbname: str) -> None:
        self._cluster = cluster
        self._dbname = dbname
        self.pid = 0
        self.given: list[list[int]] = []
        self.refused: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._cluster.connect(self._dbname) as connection:
                self.pid = connection.info.backend_pid
                self.given.append([])
                try:
                    while not stop.is_set():
                        self._take(connection)
                except psycopg.OperationalError:
                    # Ended; what it was given in the statement that was cut off, nobody has seen.
                    self.pid = 0

    def _take(self, connection: psycopg.Connection) -> None:
        with suppress(psycopg.errors.QueryCanceled):
            self.given[-1] += ids_of(connection, PER_STATEMENT)


def signal_to(pid: int, number: signal.Signals) -> None:
    """A session that was ended is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def stop_for_a_moment(pid: int, others: list[Load]) -> None:
    """Stops a session until another was given IDs. All of them may wait for a lock that it holds, and so may whoever
    asks the server anything: it goes on then, too."""

    def given() -> int:
        return sum(len(ids) for each in others for ids in each.given)

    seen = given()
    deadline = time.monotonic() + STOPPED_SECONDS
    signal_to(pid, signal.SIGSTOP)
    try:
        while given() == seen and time.monotonic() < deadline:
            time.sleep(STOPPED_SECONDS / 10)
    finally:
        signal_to(pid, signal.SIGCONT)


def disturb(cluster: Cluster, loads: list[Load], draw: random.Random) -> None:
    """Stops sessions wherever they are, lets others go on meanwhile; cancels some, and ends some."""
    for _ in range(INCIDENTS):
        load = draw.choice(loads)
        if not (pid := load.pid):
            continue
        match draw.choice(["stop", "stop", "stop", "cancel", "end"]):
            case "stop":
                stop_for_a_moment(pid, [each for each in loads if each is not load])
            case "cancel":
                cluster.psql(f"SELECT pg_cancel_backend({pid})")
            case "end":
                cluster.psql(f"SELECT pg_terminate_backend({pid})")


def disturbed(cluster: Cluster, dbname: str, seed: int) -> list[list[int]]:
    """What sessions were given, each list by one session."""
    loads = [Load(cluster, dbname) for _ in range(8)]
    stop = threading.Event()
    with ThreadPoolExecutor(len(loads)) as pool:
        running = [pool.submit(load.run, stop) for load in loads]
        try:
            cluster.wait_until(lambda: all(load.given and load.given[0] for load in loads), "giving all an ID")
            disturb(cluster, loads, random.Random(seed))
        finally:
            stop.set()
        for each in running:
            each.result()
    return [ids for load in loads for ids in load.given]


@pytest.mark.parametrize("lanes", [1, 4])
def test_sessions_stopped_anywhere(cluster: Cluster, lanes: int) -> None:
    configure(cluster, lanes=lanes)
    given = disturbed(cluster, DATABASE, seed=lanes)
    for ids in given:
        assert_increasing(ids)
    assert_distinct([each for ids in given for each in ids])
    assert sum(map(len, given)) > 8 * PER_STATEMENT
    assert cluster.psql(HELD, DATABASE) == "0"


@pytest.mark.any_server
def test_a_bare_sequence_repeats(cluster: Cluster) -> None:
    """The same sessions find what the lanes are there for."""
    with cluster.database("bare") as dbname:
        cluster.psql(BARE_SEQUENCE, dbname)
        ids: list[int] = []
        seeds = count(1)

        def repeats() -> bool:
            ids.extend(each for given in disturbed(cluster, dbname, seed=next(seeds)) for each in given)
            return len(set(ids)) < len(ids)

        cluster.wait_until(repeats, "repeating an ID")


def test_a_cancelled_call_leaves_its_lane(cluster: Cluster) -> None:
    configure(cluster, lanes=1)
    with sessions(cluster, 3) as (blocker, taker, other), ThreadPoolExecutor(1) as pool:
        ids_of(taker)
        with blocker.transaction():
            # Between the lock and the move.
            blocker.execute("ALTER SEQUENCE id_gen_managed.lane_0 OWNED BY NONE")
            call = pool.submit(ids_of, taker)
            cluster.poll_until(WAITS.format(taker.info.backend_pid), expected="relation")
            assert cluster.psql(f"{HELD} AND objid = 0", DATABASE) == "1"
            taker.cancel()
            assert error_of(call).sqlstate == CANCELLED
            cluster.poll_until(HELD, DATABASE, expected="0")
        assert_distinct(ids_of(taker, 3) + ids_of(other, 3))


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_call_whose_cancel_is_signalled_twice_leaves_all_that_it_moves(cluster: Cluster, first: bool) -> None:
    """PostgreSQL does so for each request, and the second signal can come in the midst of what follows the first."""
    configure(cluster, lanes=1)
    incarnation = "id_gen_managed.incarnation"
    moment = random.Random(CANCELS)
    with sessions(cluster, 2) as (blocker, taker), ThreadPoolExecutor(1) as pool:
        if first:
            cluster.psql(f"SELECT setval('{incarnation}', last_value - 1) FROM {incarnation}", DATABASE)
        else:
            ids_of(taker)
        with blocker.transaction():
            blocker.execute("ALTER SEQUENCE id_gen_managed.lane_0 OWNED BY NONE")
            for _ in range(CANCELS):
                call = pool.submit(ids_of, taker)
                cluster.poll_until(WAITS.format(taker.info.backend_pid), expected="relation")
                assert cluster.psql(f"{HELD} AND objid::integer IN (-1, 0)", DATABASE) == ("2" if first else "1")
                os.kill(taker.info.backend_pid, signal.SIGINT)
                second = time.perf_counter() + moment.uniform(0, MOMENT_SECONDS)
                while time.perf_counter() < second:
                    pass
                os.kill(taker.info.backend_pid, signal.SIGINT)
                assert error_of(call).sqlstate == CANCELLED
                assert cluster.psql(HELD, DATABASE) == "0"
        assert ids_of(taker)


def test_a_call_that_is_cancelled_when_it_is_given_the_lane(cluster: Cluster) -> None:
    """Both while it is stopped: PostgreSQL lets it have the lock, and then cancels it."""
    configure(cluster, lanes=1)
    with sessions(cluster, 2) as (keeper, taker), ThreadPoolExecutor(1) as pool:
        ids_of(taker)
        keeper.execute(HOLD, [0])
        call = pool.submit(ids_of, taker)
        cluster.poll_until(WAITS.format(taker.info.backend_pid), expected="advisory")
        signal_to(taker.info.backend_pid, signal.SIGSTOP)
        try:
            keeper.execute("SELECT pg_advisory_unlock_all()")
            taker.cancel()
        finally:
            signal_to(taker.info.backend_pid, signal.SIGCONT)
        assert error_of(call).sqlstate == CANCELLED
        assert cluster.psql(HELD, DATABASE) == "0"
        assert_distinct(ids_of(taker, 3) + ids_of(keeper, 3))


@pytest.mark.any_server
def test_a_lane_that_is_kept(cluster: Cluster) -> None:
    """By whom no call would: others go beside it, or find out whom to end."""
    with (
        cluster.database("elsewhere") as elsewhere,
        cluster.connect(elsewhere) as bystander,
        sessions(cluster, 2) as (keeper, taker),
    ):
        configure(cluster, lanes=2)
        bystander.execute(HOLD, [1])
        before = ids_of(taker, 10)
        keeper.execute(HOLD, [0])
        before += ids_of(taker, 10)
        keeper.execute(HOLD, [1])
        with pytest.raises(psycopg.errors.LockNotAvailable) as refused:
            ids_of(taker)
        remedy = str(refused.value.diag.message_hint).partition(": ")[2]
        assert refused.value.diag.message_primary == "all lanes are in use"
        assert cluster.psql(remedy, DATABASE) == "t"
        assert_increasing(before + ids_of(taker, 10))
        assert bystander.execute("SELECT 1").fetchone()


@pytest.mark.any_server
def test_a_session_that_says_it_had_another_lane(cluster: Cluster) -> None:
    """Everybody may set what a session remembers."""
    configure(cluster, lanes=4)
    with cluster.connect(DATABASE) as taker:
        given = ids_of(taker)
        for lane in ("0", "1", "2", "3", "-1", str(2**63 - 1)):
            taker.execute(f"SET id_gen_managed.session = '{lane}'".encode())
            given += ids_of(taker, 5)
        assert_distinct(given)


@pytest.mark.any_server
def test_sessions_without_end(cluster: Cluster) -> None:
    """More sessions than lanes, all in transactions that have made IDs, some prepared: none holds up another."""
    configure(cluster, lanes=4)
    with sessions(cluster, 70) as opened:
        given = []
        for number, session in enumerate(opened):
            session.execute("BEGIN")
            given += ids_of(session, 2)
            if number < 2:
                session.execute(f"PREPARE TRANSACTION 'prepared {number}'".encode())
        given += [each for session in opened for each in ids_of(session)]
        for number in range(2):
            cluster.psql(f"COMMIT PREPARED 'prepared {number}'", DATABASE)
        assert_distinct(given)


@pytest.mark.any_server
@pytest.mark.parametrize(
    "between",
    [
        "DISCARD ALL",
        "DISCARD SEQUENCES",
        "RESET ALL",
        "SET id_gen_managed.session = 3",
        "SELECT pg_advisory_unlock_all()",
        "ROLLBACK; BEGIN",
        "ROLLBACK TO here",
    ],
)
def test_what_poolers_and_programs_do_between_calls(cluster: Cluster, between: str) -> None:
    configure(cluster, lanes=4)
    with sessions(cluster, 4) as opened:
        given: list[int] = []
        for session in opened:
            session.execute("" if between == "DISCARD ALL" else "BEGIN; SAVEPOINT here")
        for session in opened * 3:
            given += ids_of(session, 5)
            session.execute(between.encode())
            given += ids_of(session, 5)
        assert_distinct(given)


@pytest.mark.any_server
def test_a_batch_larger_than_the_lead(cluster: Cluster) -> None:
    """It waits for the clock, and so it goes on."""
    configure(cluster, lanes=16, max_lead="100 ms")
    with cluster.connect(DATABASE) as taker:
        row = taker.execute("SELECT snowflake_next_array(200000)").fetchone()
        assert row
        assert_increasing(row[0] + ids_of(taker))


@pytest.mark.any_server
def test_a_number_is_changed_under_more_sessions_than_lanes(cluster: Cluster) -> None:
    """The change waits for them, and they for it, but no two for each other."""
    configure(cluster, lanes=4, worker_id=WORKER, max_lead="60 s")
    stop = threading.Event()
    given: list[int] = []

    def take() -> None:
        with cluster.connect(DATABASE) as connection:
            while not stop.is_set():
                # It is told to begin again, and nothing else.
                with suppress(psycopg.errors.SerializationFailure):
                    with connection.transaction():
                        ids = [each for _ in range(5) for each in ids_of(connection, 30)]
                    given.extend(ids)

    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(take) for _ in range(CLIENTS)]
        try:
            for number in range(CHANGES):
                before = len(given)
                configure(cluster, worker_id=number)
                cluster.wait_until(
                    lambda before=before: len(given) > before + 2000 or any(each.done() for each in running),
                    "giving IDs",
                )
        finally:
            stop.set()
        for each in running:
            each.result()
    assert_distinct(given)


@pytest.mark.any_server
def test_a_number_is_changed_while_a_transaction_goes_back_to_a_savepoint(cluster: Cluster) -> None:
    """It makes IDs again, as it did before, and the change comes after it."""
    configure(cluster, lanes=2)
    with sessions(cluster, 2) as (taker, owner), ThreadPoolExecutor(1) as pool:
        taker.execute("BEGIN; SAVEPOINT here")
        ids = ids_of(taker)
        taker.execute("ROLLBACK TO here")
        change = pool.submit(owner.execute, "SELECT id_gen_managed.configure(worker_id => 5)")
        state = f"SELECT state FROM pg_stat_activity WHERE pid = {owner.info.backend_pid}"
        cluster.poll_until(state, expected="active")
        time.sleep(STOPPED_SECONDS)
        assert_distinct(ids + ids_of(taker, 10))
        assert not change.done()
        taker.execute("COMMIT")
        change.result()


@pytest.mark.any_server
def test_no_count_moves_a_lane_back(cluster: Cluster) -> None:
    """Everybody may call take(): fewer than one is refused, and more than a tick has are as many as it has."""
    configure(cluster, lanes=1)
    take = "SELECT id_gen_managed.allocate(%s)"
    with cluster.connect(DATABASE) as taker:
        before = ids_of(taker, 10)
        for wanted in ("-20000", "0", "NULL", str(-(2**63))):
            refused = refusal(cluster, take % wanted, DATABASE)
            assert refused.sqlstate == "22023"
            assert cluster.psql((refused.hint or "").partition(": ")[2], DATABASE)
        first = int(cluster.psql(take % (2**63 - 1), DATABASE))
        assert_increasing([*before, first, *ids_of(taker, 10)])
