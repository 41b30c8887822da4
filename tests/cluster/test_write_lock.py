"""The lock for writing the reservation: its holder ends, hangs, or keeps a server from stopping."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from harness import GENERATING, Cluster, effort
from harness.ids import PATIENT, Caller, answer_of, keepers, next_id
from harness.reservation import Reservation
from harness.shim import compiled

pytestmark = pytest.mark.every_version("the lock manager and its interface differ")

FOREIGN_WORKER = Path(__file__).with_name("foreign_worker.c")
HANGS = "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Extension'"
# A session that waits for ever is a failure, and says so.
CONF = f"{GENERATING}{PATIENT}statement_timeout = '30s'\n"
TERMINATED_WORKERS = effort(40, 15)
LOAD = "SELECT count(snowflake_next()) FROM (SELECT generate_series(1, 100000000)) AS calls"
USED_UP = "SELECT reserved_until < clock_timestamp() FROM id_gen_status()"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def without_keeper(cluster: Cluster) -> Iterator[None]:
    """Nobody extends the reservation, and it is used up."""
    cluster.wait_until(lambda: keepers(cluster), "running a keeper")
    keeper = keepers(cluster)
    waits = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {keeper[0]} AND wait_event = 'Extension'"

    def stopped_between_rounds() -> bool:
        """And so holds no lock that anybody needs."""
        if cluster.psql(waits) == "0":
            return False
        for pid in keeper:
            os.kill(pid, signal.SIGSTOP)
        if cluster.psql(waits) == "1" and not Reservation(cluster).is_being_written:
            return True
        for pid in keeper:
            os.kill(pid, signal.SIGCONT)
        return False

    cluster.wait_until(stopped_between_rounds, "running a keeper that does nothing")
    try:
        cluster.poll_until(USED_UP)
        yield
    finally:
        for pid in keeper:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def foreign_library(cluster: Cluster) -> Path:
    """The library that starts the worker, with its function."""
    library = compiled(FOREIGN_WORKER, f"-I{cluster.server.directory('includedir-server')}")
    cluster.psql(f"""
        CREATE FUNCTION foreign_worker_start(text, text DEFAULT 'SELECT snowflake_next()') RETURNS int
            AS '{library}' LANGUAGE c STRICT""")
    return library


def start_foreign_worker(cluster: Cluster) -> int:
    """Lets the worker ask for an ID, and waits until it hangs in writing the reservation."""
    library = foreign_library(cluster)
    pid = int(cluster.psql(f"SELECT foreign_worker_start('{library}')"))
    cluster.poll_until(HANGS.format(pid))
    return pid


def test_a_holder_that_ends_in_a_signal_handler_releases_the_lock() -> None:
    """FATAL in PostgreSQL's own handler unwinds nothing: no destructor runs."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        with without_keeper(cluster):
            with Reservation(cluster).hanging():
                pid = start_foreign_worker(cluster)
                os.kill(pid, signal.SIGTERM)
                cluster.wait_until(lambda: not alive(pid), "rid of the worker")
            given += [next_id(cluster), next_id(cluster)]
        given.append(next_id(cluster))
        assert given == sorted(set(given))
        assert cluster.psql("SELECT status FROM id_gen_check() WHERE name = 'reservation'") == "ok"
        assert "terminated by signal" not in cluster.log()


@pytest.mark.long
@pytest.mark.parametrize("max_block", [1, 64])
def test_a_worker_that_ends_in_a_signal_handler_anywhere_leaves_no_lock(max_block: int) -> None:
    """The signal comes at any time, also between taking a lock and noting that it is held."""
    with Cluster(conf=f"{CONF}id_gen.max_block_size = {max_block}\nid_gen.max_lead = '1min'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        start = f"SELECT foreign_worker_start('{foreign_library(cluster)}', '{LOAD}')"
        given = [next_id(cluster)]
        for calls in range(TERMINATED_WORKERS):
            pid = int(cluster.psql(start))
            cluster.poll_until(f"SELECT ids > 0 FROM id_gen_stat_backends WHERE pid = {pid}")
            given += [next_id(cluster) for _ in range(calls % 3)]
            os.kill(pid, signal.SIGTERM)
            cluster.wait_until(lambda pid=pid: not alive(pid), "rid of the worker")
        given.append(next_id(cluster))
        assert given == sorted(set(given))
        assert int(cluster.psql("SELECT ids FROM id_gen_stat")) > 1000 * TERMINATED_WORKERS
        assert "terminated by signal" not in cluster.log()


@pytest.mark.long
def test_a_write_that_hangs_holds_up_neither_the_keeper_nor_its_end() -> None:
    with (
        Cluster(conf=CONF) as cluster,
        Caller(cluster) as writer,
        Caller(cluster) as waiter,
        ExitStack() as disk,
    ):
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster), waiter.ask()]
        with without_keeper(cluster):
            disk.enter_context(Reservation(cluster).hanging())
            answer = writer.begin()
            writer.await_wait("Extension")
        # The keeper finds the lock held, again and again; a second session waits for it.
        waiter.begin()
        waiter.await_wait("Extension")
        cluster.poll_until("SELECT keeper_heartbeat_at > clock_timestamp() - interval '2 s' FROM id_gen_status()")
        keeper = keepers(cluster)
        cluster.begin_stop()
        for pid in (*keeper, waiter.pid):
            cluster.wait_until(lambda pid=pid: not alive(pid), f"rid of {pid}")
        assert alive(writer.pid), "a write that has begun is not given up"
        disk.close()
        with suppress(psycopg.Error):
            given.append(answer_of(answer))
        cluster.await_stop()
        cluster.start()
        given.append(next_id(cluster))
        assert given == sorted(set(given))
