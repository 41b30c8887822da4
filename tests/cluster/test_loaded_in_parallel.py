"""Without shared_preload_libraries, a parallel query may be the first to load the library. PostgreSQL sets no
parameters during it, so a process that loads the library then has only defaults: it neither initializes the shared
memory nor decodes by them."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from harness import Cluster
from harness.ids import Caller, change, error_of

UNKNOWN = "55000"
IN_PARALLEL = "settings of id_gen are unknown during this parallel operation"
NOT_RELOADED = "settings of id_gen are unknown in this session"
OTHER = "settings of id_gen in this parallel worker differ from the server's"
PARALLEL = {
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "parallel_leader_participation": "off",
}
IN_USE = "SELECT name FROM snowflake_layouts() WHERE in_use"
# The leader does not load the library for it: it calls no function of id_gen's itself.
QUERY = "SELECT max(made(id)) FROM item"
# The leader loads the library before its workers begin.
DIRECT = "SELECT max(snowflake_timestamp(id)) FROM item"
SETUP = """
    CREATE EXTENSION id_gen;
    CREATE ROLE app LOGIN;
    CREATE TABLE item AS SELECT n::bigint << 30 AS id FROM generate_series(1, 10000) n;
    GRANT SELECT ON item TO app;
    GRANT CREATE ON SCHEMA public TO app;
    SET ROLE app;
    CREATE FUNCTION made(bigint) RETURNS timestamptz LANGUAGE plpgsql PARALLEL SAFE AS
        'BEGIN RETURN snowflake_timestamp($1); END';
    CREATE FUNCTION in_leader_and_then_in_workers() RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('max_parallel_workers', '0', true);
        BEGIN
            PERFORM max(made(id)) FROM item;
            RETURN 'the leader decodes';
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
        END;
        PERFORM set_config('max_parallel_workers', '8', true);
        PERFORM max(snowflake_timestamp(id)) FROM item;
        RETURN 'a worker decodes';
    END $$;
    CREATE FUNCTION late() RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM snowflake_timestamp(1, 'js');
        PERFORM pg_advisory_xact_lock(1);
        PERFORM max(snowflake_timestamp(id)) FROM item;
        RETURN 'a worker decodes';
    END $$;
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(conf="id_gen.worker_id = 1\nid_gen.layout = 'js'\n") as cluster:
        cluster.psql(SETUP)
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """Nobody has used id_gen since it started."""
    running.restart()
    return running


@contextmanager
def parallel_session(cluster: Cluster, **options: str) -> Iterator[psycopg.Connection]:
    with cluster.connect(user="app", **options) as session:
        for name, value in PARALLEL.items():
            session.execute(f"SET {name} = {value}")
        yield session


def refused(session: psycopg.Connection, query: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as error:
        session.execute(query)
    assert error.value.sqlstate == UNKNOWN, error.value
    return error.value


def assert_read_as_js(cluster: Cluster, session: psycopg.Connection, query: str = QUERY) -> None:
    read = session.execute(query).fetchone()
    assert read == session.execute("SELECT snowflake_timestamp(10000::bigint << 30, 'js')").fetchone()
    assert cluster.psql(IN_USE) == "js"


def test_a_worker_that_loads_the_library(cluster: Cluster) -> None:
    with parallel_session(cluster) as session:
        error = refused(session, QUERY)
        assert error.diag.message_primary == IN_PARALLEL
        hint = error.diag.message_hint or ""
        session.execute(hint[hint.index("SELECT") :])
        assert_read_as_js(cluster, session)


def test_a_leader_that_loads_the_library(cluster: Cluster) -> None:
    """Its next statement has the server's settings."""
    with parallel_session(cluster) as session:
        session.execute("SET max_parallel_workers = 0")
        refused(session, QUERY)
        assert_read_as_js(cluster, session)


def test_a_leader_that_loads_the_library_and_cannot_read_the_file(cluster: Cluster) -> None:
    """A new connection has the settings that the server read last."""
    conf = cluster.data / "postgresql.conf"
    valid = conf.read_text()
    cluster.append_conf("not = = valid")
    try:
        with parallel_session(cluster) as session:
            session.execute("SET max_parallel_workers = 0")
            assert refused(session, QUERY).diag.message_primary == IN_PARALLEL
            error = refused(session, "SELECT snowflake_timestamp(1::bigint << 30)")
            assert error.diag.message_primary == NOT_RELOADED
            assert (error.diag.message_hint or "").startswith("Connect again.")
        with parallel_session(cluster) as session:
            assert_read_as_js(cluster, session, DIRECT)
    finally:
        conf.write_text(valid)


def test_workers_of_a_leader_that_loaded_the_library_too_late(cluster: Cluster) -> None:
    with parallel_session(cluster) as session:
        error = refused(session, "SELECT in_leader_and_then_in_workers()")
        assert error.diag.message_primary == OTHER
        assert_read_as_js(cluster, session)


@pytest.mark.since(17)
def test_the_source_of_the_worker_id_in_a_worker_that_loads_the_library(cluster: Cluster) -> None:
    """It knows the server's worker ID from shared memory, and not where the server has that from."""
    cluster.psql("""
        SELECT snowflake_next();
        CREATE OR REPLACE FUNCTION source(bigint) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$
        BEGIN RETURN (SELECT concat_ws(' from ', worker_id, worker_id_source) FROM id_gen_status()); END $$""")
    with cluster.connect() as session:
        for name, value in PARALLEL.items():
            session.execute(f"SET {name} = {value}")
        query = "SELECT max(source(id)) FROM item WHERE id = 1::bigint << 30"
        assert session.execute(query).fetchone() == ("1",)
        session.execute("SET max_parallel_workers = 0; SELECT snowflake_next()")
        (known,) = session.execute(query).fetchone()
        assert known.startswith(f"1 from {cluster.data}/postgresql.conf:")


def test_workers_of_a_leader_whose_client_set_what_the_file_sets(cluster: Cluster) -> None:
    with parallel_session(cluster, options="-c id_gen.layout=default") as session:
        refused(session, DIRECT)
    with parallel_session(cluster) as session:
        assert_read_as_js(cluster, session, DIRECT)


@pytest.mark.since(17)
def test_workers_of_a_leader_that_has_yet_to_read_a_reload(cluster: Cluster) -> None:
    """Its layout would be in force until the restart."""
    with Caller(cluster) as late, Caller(cluster) as holder:
        for name, value in PARALLEL.items():
            late.ask(f"SELECT set_config('{name}', '{value}', false)")
        holder.ask("SELECT pg_advisory_lock(1)::text")
        answer = late.begin("SELECT late()")
        late.await_wait("Lock")
        change(cluster, "layout", "wide")
        try:
            cluster.poll_until("SHOW id_gen.layout", expected="wide")
            holder.ask("SELECT pg_advisory_unlock(1)::text")
            error = error_of(answer)
            assert error.diag.message_primary == OTHER
            assert cluster.psql(IN_USE) == "wide"
        finally:
            cluster.psql("ALTER SYSTEM RESET id_gen.layout")
