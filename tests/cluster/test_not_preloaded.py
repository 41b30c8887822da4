"""Without shared_preload_libraries: the first session that needs shared memory initializes it for all."""

import os
import re
import shutil
import signal
from pathlib import Path

import psycopg
import pytest

from harness import Cluster, SqlError
from harness.ids import NEXT, PATIENT, Caller, answer_of, change, error_of, next_id, refusal
from harness.shim import compiled

FOREIGN_WORKER = Path(__file__).with_name("foreign_worker.c")

# Nothing is preloaded here, whatever the mode of the other tests.
pytestmark = [
    pytest.mark.since(17),
    pytest.mark.every_version("each version has its own interface for dynamic shared memory"),
]

WORKER = "SELECT worker_id FROM snowflake_parse(snowflake_next())"
UNSET = "55000"
ADMIN_SHUTDOWN = "57P01"
CONF = "id_gen.worker_id = 1\nid_gen.layout = 'wide'\n"
FILLED = "CREATE TABLE item AS SELECT snowflake_next() AS id FROM generate_series(1, 10000)"


def test_an_administrator_sets_the_worker_id_of_a_running_server() -> None:
    with Cluster() as cluster, Caller(cluster) as before:
        cluster.psql("CREATE EXTENSION id_gen")
        for error in (refusal(cluster), refusal(cluster, "SELECT snowflake_next_array(1)")):
            assert error.sqlstate == UNSET
            assert "ALTER SYSTEM SET id_gen.worker_id" in (error.hint or "")
        with pytest.raises(psycopg.Error) as refused:
            before.ask()
        assert refused.value.sqlstate == UNSET
        # In a session that has not loaded the library, as an administrator's is.
        change(cluster, "worker_id", 7)
        cluster.poll_until(WORKER, expected="7")
        assert before.ask(WORKER) == 7


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("worker_id", "seven", 'invalid value for parameter "id_gen.worker_id": "seven"'),
        ("worker_id", "-7", "-7 is outside the valid range"),
        ("worker", "7", 'invalid configuration parameter name "id_gen.worker"'),
    ],
)
def test_a_wrong_number_from_a_session_that_cannot_tell(name: str, value: str, complaint: str) -> None:
    """Nobody knows the library's settings where it is not loaded. LOAD makes them known."""
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        mistake = f"ALTER SYSTEM SET id_gen.{name} = '{value}'"
        with pytest.raises(SqlError):
            cluster.psql(f"LOAD 'id_gen'; {mistake}")
        # Without it the mistake is taken, but nobody generates with it.
        change(cluster, name, value)
        cluster.poll_until(f"SELECT count(*) FROM pg_file_settings WHERE name = 'id_gen.{name}'", expected="1")
        with cluster.connect() as connection:
            warnings: list[str] = []
            connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(NEXT)
        assert refused.value.sqlstate == UNSET
        assert any(complaint in warning for warning in warnings), warnings


@pytest.mark.parametrize("role", ["app", "postgres"])
def test_a_session_s_own_setting_does_not_count(role: str) -> None:
    """A name that belongs to no loaded library can be set by anyone; once it is loaded, that is void."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE ROLE app LOGIN")
        with cluster.connect(user=role) as connection:
            connection.execute("SET id_gen.worker_id = 4; SET id_gen.layout = 'default'")
            assert connection.execute(WORKER).fetchone() == (1,)
            assert connection.execute("SELECT name FROM snowflake_layouts() WHERE in_use").fetchone() == ("wide",)
        assert cluster.psql(WORKER) == "1"


@pytest.mark.parametrize(
    ("statement", "options"),
    [
        ("ALTER ROLE app SET id_gen.layout = 'default'", {}),
        ("ALTER ROLE ALL SET id_gen.worker_id = 4", {}),
        ("ALTER DATABASE postgres SET id_gen.max_block_size = 4", {}),
        ("", {"options": "-c id_gen.worker_id=4"}),
    ],
    ids=["role", "all roles", "database", "connection"],
)
def test_a_session_with_settings_of_its_own_does_not_initialize_shared_memory(statement: str, options: dict) -> None:
    """Whatever replaced the file's values before the library was loaded; it may use what another one initialized."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql(f"CREATE ROLE app LOGIN; {statement}")
        cluster.psql("CREATE DATABASE other")
        for dbname in ("postgres", "other"):
            cluster.psql("CREATE EXTENSION id_gen", dbname=dbname)
        with cluster.connect(user="app", **options) as connection:
            for sql in (NEXT, "SELECT snowflake_timestamp(1)"):
                with pytest.raises(psycopg.Error) as refused:
                    connection.execute(sql)
                assert refused.value.sqlstate == UNSET
                assert "is overridden in this session" in str(refused.value)
            if "ALL" in statement:
                assert "ALTER ROLE ... RESET id_gen.worker_id" in str(refused.value.diag.message_hint)
                cluster.psql("ALTER ROLE ALL RESET id_gen.worker_id")
            assert cluster.psql(WORKER, dbname="other") == "1"
            assert connection.execute(WORKER).fetchone() == (1,)
            assert connection.execute("SELECT name FROM snowflake_layouts() WHERE in_use").fetchone() == ("wide",)
            change(cluster, "worker_id", 2)
            cluster.poll_until(WORKER, expected="2", dbname="other")
            assert connection.execute(WORKER).fetchone() == (2,), "a reload gives it the file's values"


def test_a_name_that_is_of_no_parameter_replaces_nothing() -> None:
    """PostgreSQL says that there is no such parameter, and the session goes on with the server's settings."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE ROLE app LOGIN")
        cluster.psql("ALTER ROLE app SET id_gen.workerid = 9")
        with cluster.connect(user="app") as connection:
            said: list[str | None] = []
            connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
            assert connection.execute(WORKER).fetchone() == (1,)
            assert said == ['invalid configuration parameter name "id_gen.workerid", removing it']
            assert connection.execute(IN_USE).fetchone() == ("wide",)


def test_a_setting_of_all_roles_is_removed_though_every_session_loads_the_library() -> None:
    with Cluster(conf=CONF + "session_preload_libraries = 'id_gen'\n") as cluster:
        remove = "ALTER ROLE ALL RESET id_gen.worker_id"
        # As before the library was there.
        without = {"options": "-c session_preload_libraries="}
        with cluster.connect(**without) as connection:
            connection.execute("ALTER ROLE ALL SET id_gen.worker_id = 4")
        cluster.psql("CREATE EXTENSION id_gen")
        refused = refusal(cluster)
        assert refused.hint and "PGOPTIONS='-c session_preload_libraries='" in refused.hint
        assert refusal(cluster, remove).sqlstate == "55P02"
        with cluster.connect(**without) as connection:
            connection.execute(remove)
        assert cluster.psql(WORKER) == "1"


def test_names_of_settings_have_no_case() -> None:
    """PostgreSQL takes the file's name for the connection's, whose value then hides the file's."""
    with Cluster(conf=CONF.replace("id_gen.layout", "ID_GEN.layout")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with cluster.connect(options="-c id_gen.layout=default") as connection:
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(NEXT)
            assert refused.value.sqlstate == UNSET
            assert "is overridden in this session" in str(refused.value)
        cluster.psql(NEXT)
        assert cluster.psql("SELECT name FROM snowflake_layouts() WHERE in_use") == "wide"


LATE = """
    CREATE EXTENSION id_gen;
    CREATE FUNCTION late() RETURNS bigint LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN snowflake_next(); END'"""
IN_USE = "SELECT name FROM snowflake_layouts() WHERE in_use"


@pytest.mark.parametrize("has_arrived", [True, False], ids=["arrived", "on its way"])
def test_a_session_reads_a_reload_before_it_initializes_shared_memory(has_arrived: bool) -> None:
    """In the middle of a statement it has the old settings, and the layout is fixed until the restart."""
    with Cluster(conf=CONF + PATIENT) as cluster, Caller(cluster) as late, Caller(cluster) as holder:
        cluster.psql(LATE)
        late.ask("SELECT uuidv7_timestamp(NULL)")
        holder.ask("SELECT pg_advisory_lock(1)")
        answer = late.begin("SELECT late()")
        late.await_wait("Lock")
        cluster.psql("ALTER SYSTEM SET id_gen.layout = 'default'")
        if has_arrived:
            cluster.reload()
            cluster.poll_until("SHOW id_gen.layout", expected="default")
        holder.ask("SELECT pg_advisory_unlock(1)")
        if not has_arrived:
            late.await_wait("Extension")
            cluster.reload()
        assert answer_of(answer) > 0
        assert cluster.psql(IN_USE) == "default"


def test_a_call_waits_a_second_for_a_reload_that_does_not_come() -> None:
    with Cluster(conf=f"{CONF}id_gen.max_wait = 0\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.append_conf("id_gen.layout = 'default'")
        next_id(cluster)
        assert cluster.psql(IN_USE) == "wide"


def test_a_worker_that_no_reload_reaches_does_not_initialize_shared_memory() -> None:
    """Another extension's, with PostgreSQL's own signal handlers: it ignores reloads, so its settings may be old."""
    with Cluster(conf=CONF) as cluster:
        library = compiled(FOREIGN_WORKER, f"-I{cluster.server.directory('includedir-server')}")
        cluster.psql(f"""
            CREATE EXTENSION id_gen;
            CREATE FUNCTION foreign_worker_start(text, text DEFAULT 'SELECT snowflake_next()') RETURNS int
            AS '{library}' LANGUAGE c STRICT""")
        start = f"SELECT foreign_worker_start('{library}')"
        began = cluster.log_position
        cluster.psql(start)
        cluster.wait_for_log("settings of id_gen are unknown in this background worker", began)
        assert cluster.psql(WORKER) == "1"
        began = cluster.log_position
        cluster.psql(start)
        cluster.poll_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'foreign worker'")
        assert "ERROR" not in cluster.log(began)


def test_a_crash_adopts_no_layout_that_waits_for_the_restart() -> None:
    """A session whose settings are those of the last reload initializes shared memory again."""
    with Cluster(conf=CONF + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        change(cluster, "layout", "js")
        cluster.poll_until("SHOW id_gen.layout", expected="js")
        began = cluster.log_position
        with Caller(cluster) as victim:
            cluster.kill9(victim.pid)
        cluster.wait_for_log("database system is ready to accept connections", began)
        cluster.poll_until("SELECT true")
        given.append(next_id(cluster))
        assert cluster.psql("SELECT name FROM snowflake_layouts() WHERE in_use") == "wide"
        assert given == sorted(set(given))
        cluster.restart()
        assert refusal(cluster).sqlstate == UNSET, "now an administrator has to decide"


def test_sessions_from_before_and_after_a_reload_share_one_allocator() -> None:
    with Cluster(conf="id_gen.worker_id = 1\n") as cluster, Caller(cluster) as first, Caller(cluster) as idle:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [first.ask()]
        change(cluster, "worker_id", 2)
        cluster.poll_until(WORKER, expected="2")
        with Caller(cluster) as late:
            for caller in (first, idle, late, first, late, idle):
                assert caller.ask(WORKER) == 2
                given.append(caller.ask())
        assert given == sorted(set(given))


def test_parallel_workers_read_with_the_server_s_layout() -> None:
    """Also after the setting has changed: the layout in force is the one that the running server began with."""
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(FILLED)
        change(cluster, "layout", "default")
        cluster.poll_until("SHOW id_gen.layout", expected="default")
        assert_read_by_workers(cluster)


def test_a_parallel_worker_is_the_first_to_need_the_memory() -> None:
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(FILLED)
        cluster.kill9()
        cluster.start()
        assert_read_by_workers(cluster)
        assert cluster.psql(f"SELECT snowflake_next() > max(id), ({WORKER}) FROM item") == "t|1"


def assert_read_by_workers(cluster: Cluster) -> None:
    count = "SELECT count(*) FROM item WHERE snowflake_timestamp(id) > now() - interval '1 hour'"
    with cluster.connect() as connection:
        for setting in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            connection.execute(f"SET {setting} = 0")
        connection.execute("SET parallel_leader_participation = off")
        ran = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {count}").fetchall()
        assert re.search(r"Workers Launched: [1-9]", "\n".join(row[0] for row in ran))
        assert connection.execute(count).fetchone() == (10_000,)


def test_a_crash_that_clears_shared_memory_repeats_no_id() -> None:
    with Cluster(conf=CONF + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        for _ in range(3):
            began = cluster.log_position
            with Caller(cluster) as caller:
                given.append(caller.ask())
                os.kill(caller.pid, signal.SIGKILL)
                cluster.wait_for_log("all server processes terminated; reinitializing", began)
            cluster.poll_until("SELECT true")
            given.append(next_id(cluster))
        assert given == sorted(set(given))


def test_sessions_that_end_in_any_way_leave_their_place_in_order() -> None:
    """The memory is unmapped before the last of a process's own cleaning up."""
    with Cluster(conf="id_gen.worker_id = 1\nmax_connections = 10\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = []
        for _ in range(20):
            with Caller(cluster) as ending, Caller(cluster) as terminated:
                given += [ending.ask(), terminated.ask()]
                cluster.psql(f"SELECT pg_terminate_backend({terminated.pid}, 10000)")
        given.append(int(cluster.psql(NEXT)))
        assert given == sorted(set(given))
        assert "terminated by signal" not in cluster.log()


def test_memory_that_cannot_be_had_is_asked_for_again() -> None:
    with Cluster(conf=CONF + "dynamic_shared_memory_type = mmap\n") as cluster, Caller(cluster) as caller:
        cluster.psql("CREATE EXTENSION id_gen")
        segments, elsewhere = cluster.data / "pg_dynshmem", cluster.data / "elsewhere"
        segments.rename(elsewhere)
        for _ in range(2):
            with pytest.raises(psycopg.Error) as refused:
                caller.ask()
            assert "could not open shared memory segment" in str(refused.value)
            assert caller.ask("SELECT public.uuidv7()").version == 7
        elsewhere.rename(segments)
        given = [caller.ask(), next_id(cluster), caller.ask()]
        assert given == sorted(set(given))


@pytest.mark.parametrize(
    "conf",
    [
        "dynamic_shared_memory_type = sysv\n",
        "dynamic_shared_memory_type = mmap\n",
        "min_dynamic_shared_memory = 16MB\n",
    ],
)
def test_every_kind_of_shared_memory(conf: str) -> None:
    with Cluster(conf=CONF + conf) as cluster, Caller(cluster) as caller:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [caller.ask(), next_id(cluster), caller.ask()]
        assert given == sorted(set(given))


def test_a_session_that_ends_while_another_writes_the_reservation() -> None:
    """It waits in shared memory, which is unmapped before the last of its cleaning up."""
    waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'"
    with Cluster(conf=CONF) as cluster, Caller(cluster) as one, Caller(cluster) as other:
        cluster.psql("CREATE EXTENSION id_gen")
        # Who opens the file to write it waits until somebody reads.
        pipe = cluster.data / "id_gen/writing"
        pipe.parent.mkdir()
        os.mkfifo(pipe)
        for path in (pipe.parent, pipe):
            shutil.chown(path, cluster.data.owner(), cluster.data.group())
        # The first writes, which is to wait, too; the second waits for it.
        answers = []
        try:
            for caller in (one, other):
                answers.append(caller.begin())
                cluster.poll_until(f"SELECT count(*) {waiting}", expected=str(len(answers)))
            assert cluster.psql(f"SELECT pg_terminate_backend({other.pid}, 60000)") == "t"
            assert error_of(answers[1]).sqlstate == ADMIN_SHUTDOWN
        finally:
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        given = [answer_of(answers[0]), next_id(cluster)]
        os.close(reader)
        assert given == sorted(set(given))
        assert "terminated by signal" not in cluster.log()
