"""Without shared_preload_libraries, the first session that generates has the keeper started: one for the server."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import Cluster
from harness.checks import checks, follow, wait_for
from harness.ids import IMPATIENT, NEXT, PATIENT, STRICT, Caller, change, error_of, keepers, next_id, refusal
from harness.shim import compiled

# Nothing is preloaded here, whatever the mode of the other tests.
pytestmark = [
    pytest.mark.since(17),
    pytest.mark.every_version("each version has its own interface for dynamic shared memory and background workers"),
]

FOREIGN_WORKER = Path(__file__).with_name("foreign_worker.c")
OTHER_VERSION = Path(__file__).with_name("other_version.c")
CONF = "id_gen.worker_id = 1\n"
CANCELED = "57014"
# What the postmaster says about workers.
WITH_WORKERS_LOGGED = CONF + "log_min_messages = debug1\n"
REGISTERED = 'registering background worker "id_gen keeper"'
FORGOTTEN = "un" + REGISTERED
SESSIONS = 20


def the_keeper(cluster: Cluster) -> int:
    """Waits for it; there is never more than one that stays."""
    cluster.wait_until(lambda: len(keepers(cluster)) == 1, "running one keeper")
    cluster.poll_until("""
        SELECT count(*) = 1 FROM pg_stat_activity JOIN id_gen_status() ON pid = keeper_pid
         WHERE backend_type = 'id_gen keeper'""")
    (keeper,) = keepers(cluster)
    return keeper


def test_the_first_session_that_generates_has_it_started() -> None:
    """And none that only looks. It outlives the session, and adopts what is changed for all."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_timestamp(1), uuidv7()")
        assert "first ID" in checks(cluster)["keeper"].found
        assert keepers(cluster) == []
        next_id(cluster)
        keeper = the_keeper(cluster)
        assert f"process {keeper} " in checks(cluster)["keeper"].found
        with Caller(cluster) as idle:
            idle.ask()
            change(cluster, "worker_id", 2)
            cluster.poll_until("SELECT worker_id FROM id_gen_status()", expected="2")
        assert the_keeper(cluster) == keeper


def test_a_reload_while_it_starts_reaches_it() -> None:
    """PostgreSQL ignores the signal until the worker has handlers of its own, and the first thing that most people
    change is the number that the first call, which had the keeper started, asked for."""
    with Cluster(conf="post_auth_delay = 1\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        refusal(cluster)
        cluster.wait_until(lambda: keepers(cluster), "starting a keeper")
        cluster.append_conf("id_gen.worker_id = 7")
        cluster.reload()
        cluster.poll_until("SELECT worker_id FROM id_gen_status()", expected="7")


def test_the_session_that_has_it_started_waits_for_it() -> None:
    """Else a postmaster that is told to stop first never starts it, and nobody gives back what is reserved."""
    with Cluster(conf=CONF + STRICT + IMPATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with Caller(cluster) as watcher, Caller(cluster) as first:
            os.kill(cluster.pid, signal.SIGSTOP)
            answer = first.begin()
            waiting = f"SELECT wait_event = 'IdGenWorkerStart' FROM pg_stat_activity WHERE pid = {first.pid}"
            cluster.wait_until(lambda: watcher.ask(waiting), "waiting for the postmaster")
            assert not answer.done()
            os.kill(cluster.pid, signal.SIGCONT)
            given = answer.result()
        cluster.restart()
        assert next_id(cluster) > given


def test_a_first_call_that_is_canceled_meanwhile_leaves_nothing_behind() -> None:
    """What the session registered before the wait is known to it: when it ends, it leaves its slot."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with Caller(cluster) as watcher:
            # Attached, so that it is not itself a first call.
            watcher.ask("SELECT count(*) FROM id_gen_stat_backends")
            with Caller(cluster) as first:
                os.kill(cluster.pid, signal.SIGSTOP)
                try:
                    answer = first.begin()
                    waiting = f"SELECT wait_event = 'IdGenWorkerStart' FROM pg_stat_activity WHERE pid = {first.pid}"
                    cluster.wait_until(lambda: watcher.ask(waiting), "waiting for the postmaster")
                    watcher.ask(f"SELECT pg_cancel_backend({first.pid})")
                    assert error_of(answer).sqlstate == CANCELED
                finally:
                    os.kill(cluster.pid, signal.SIGCONT)
            left = f"SELECT count(*) FROM id_gen_stat_backends WHERE pid = {first.pid}"
            cluster.wait_until(lambda: watcher.ask(left) == 0, "rid of the slot of the session that ended")


def test_a_transaction_that_is_rolled_back_has_it_started_all_the_same() -> None:
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(f"BEGIN; SAVEPOINT before; {NEXT}; ROLLBACK TO before; ROLLBACK")
        the_keeper(cluster)


def test_many_first_sessions_have_one_started() -> None:
    with Cluster(conf=WITH_WORKERS_LOGGED) as cluster, ExitStack() as stack:
        cluster.psql("CREATE EXTENSION id_gen")
        callers = [stack.enter_context(Caller(cluster)) for _ in range(SESSIONS)]
        with ThreadPoolExecutor(SESSIONS) as threads:
            given = list(threads.map(Caller.ask, callers))
        assert len(set(given)) == SESSIONS
        the_keeper(cluster)
        assert len(re.findall(rf"\b{REGISTERED}", cluster.log())) == 1


def test_it_moves_the_reservation_while_nobody_generates() -> None:
    """So that nobody waits for the disk: no call has to write."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        the_keeper(cluster)
        reserved = cluster.psql("SELECT reserved_until FROM id_gen_status()")
        cluster.poll_until(f"SELECT clock_timestamp() > '{reserved}'::timestamptz")
        assert cluster.psql("SELECT reserved_until > clock_timestamp() FROM id_gen_status()") == "t"


@pytest.mark.parametrize("whom", ["session", "keeper"])
def test_after_a_crash_there_is_one_again(whom: str) -> None:
    """The postmaster starts it again, and the sessions that come first find none and ask for one, too."""
    with Cluster(conf=WITH_WORKERS_LOGGED + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        for _ in range(3):
            keeper = the_keeper(cluster)
            began = cluster.log_position
            with Caller(cluster) as caller:
                given.append(caller.ask())
                cluster.kill9(keeper if whom == "keeper" else caller.pid)
            cluster.wait_for_log("all server processes terminated; reinitializing", began)
            cluster.poll_until("SELECT true")
            given.append(next_id(cluster))
            assert the_keeper(cluster) != keeper
        assert given == sorted(set(given))
        assert "ERROR" not in cluster.log()


def test_after_a_crash_it_comes_back_before_anybody_generates() -> None:
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        began, keeper = cluster.log_position, the_keeper(cluster)
        cluster.kill9(keeper)
        cluster.wait_for_log("database system is ready to accept connections", began)
        cluster.poll_until("SELECT frontier IS NOT NULL FROM id_gen_status()")
        assert the_keeper(cluster) != keeper


def test_a_second_one_ends_for_good() -> None:
    """One that finds the place taken, whoever had it started."""
    with Cluster(conf=WITH_WORKERS_LOGGED) as cluster:
        library = compiled(FOREIGN_WORKER, f"-I{cluster.server.directory('includedir-server')}")
        cluster.psql(f"""
            CREATE EXTENSION id_gen;
            CREATE FUNCTION foreign_worker_start(text, text, text) RETURNS int AS '{library}' LANGUAGE c STRICT""")
        next_id(cluster)
        keeper, began = the_keeper(cluster), cluster.log_position
        cluster.psql("SELECT foreign_worker_start('id_gen', '', 'id_gen_keeper')")
        cluster.wait_for_log(r'background worker "foreign worker" \(PID \d+\) exited with exit code 0', began)
        assert the_keeper(cluster) == keeper


def test_it_lives_on_when_the_extension_is_dropped() -> None:
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        keeper = the_keeper(cluster)
        cluster.psql("DROP EXTENSION id_gen; CREATE EXTENSION id_gen")
        given.append(next_id(cluster))
        assert the_keeper(cluster) == keeper
        assert given == sorted(set(given))


def test_a_standby_has_none_until_it_is_promoted() -> None:
    with Cluster(conf=CONF) as primary:
        primary.psql("CREATE EXTENSION id_gen")
        with Cluster("standby", conf="id_gen.worker_id = 2\n" + PATIENT, standby_of=primary) as standby:
            primary.wait_for_catchup(standby)
            refusal(standby)
            assert checks(standby)["keeper"].status == "ok"
            assert keepers(standby) == []
            standby.promote()
            next_id(standby)
            the_keeper(standby)


@pytest.mark.long
def test_without_a_free_worker_process_ids_are_made_and_it_is_tried_again() -> None:
    with Cluster(conf=CONF + "max_worker_processes = 2\n") as cluster:
        library = compiled(FOREIGN_WORKER, f"-I{cluster.server.directory('includedir-server')}")
        cluster.psql(f"""
            CREATE EXTENSION id_gen;
            CREATE FUNCTION foreign_worker_start(text, text) RETURNS int AS '{library}' LANGUAGE c STRICT""")
        other = int(cluster.psql(f"SELECT foreign_worker_start('{library}', 'SELECT pg_sleep(3600)')"))
        given = [next_id(cluster) for _ in range(3)]
        found = wait_for(cluster, "keeper", "error")
        assert "is not running" in found.found
        assert "ALTER SYSTEM SET max_worker_processes = 3;" in (found.remedy or "")
        complaint = 'id_gen: no worker process is free for "id_gen keeper"'
        assert cluster.log().count(complaint) == 1
        cluster.psql(f"SELECT pg_terminate_backend({other}, 60000)")

        def generates_with_keeper() -> bool:
            given.append(next_id(cluster))
            return len(keepers(cluster)) == 1

        cluster.wait_until(generates_with_keeper, "running a keeper")
        wait_for(cluster, "keeper", "ok")
        assert cluster.log().count(complaint) == 1
        assert given == sorted(set(given))


def test_the_remedy_of_a_missing_worker_process() -> None:
    with Cluster(conf=CONF + "max_worker_processes = 1\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        follow(cluster, wait_for(cluster, "keeper", "error").remedy or "")
        next_id(cluster)
        the_keeper(cluster)


def test_one_that_comes_from_another_version_of_the_library_ends_for_good() -> None:
    """As after an upgrade of the package, when the postmaster starts it again: it says so once."""
    with Cluster(conf=WITH_WORKERS_LOGGED) as cluster:
        library = compiled(OTHER_VERSION, f"-I{cluster.server.directory('includedir-server')}")
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(f"CREATE FUNCTION add_to_version(bigint) RETURNS boolean AS '{library}' LANGUAGE c")
        with Caller(cluster) as old:
            given = [old.ask()]
            keeper = the_keeper(cluster)
            cluster.psql("SELECT add_to_version(1)")
            began = cluster.log_position
            os.kill(keeper, signal.SIGTERM)
            cluster.wait_for_log(FORGOTTEN, began)
            assert keepers(cluster) == []
            # A session of the version that made the memory goes on.
            given += [old.ask() for _ in range(3)]
        assert given == sorted(set(given))
        log = cluster.log(began)
        assert len(re.findall("LOG:  this session has loaded another version", log)) == 1
        assert len(re.findall(rf"\b{REGISTERED}", log)) == 0
        # As the hint says.
        cluster.restart()
        next_id(cluster)
        the_keeper(cluster)
