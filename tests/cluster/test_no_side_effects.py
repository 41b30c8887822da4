"""The library has no effect on sessions that never call it: on their parallel queries, views and reloads."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from harness import GENERATING, PRELOADED, Cluster, FakeClock, SqlError
from harness.ids import change, refusal

pytestmark = pytest.mark.every_version("pg_dump, publications and system views differ")

FIELDS = "tick=1s time:32 worker:5 sequence:12"
DAY = 86_400

# A setting that nothing is wrong with, one that is no layout, and two that no ID can be made with today.
CONFS = {
    "valid": "wide",
    "invalid": "tpyo",
    "ended": "epoch=2024-01-01 tick=1s time:10 worker:5 sequence:12",
    "not begun": f"epoch=2100-01-01 {FIELDS}",
}


@contextmanager
def parallel(cluster: Cluster) -> Iterator[tuple[psycopg.Connection, list[str]]]:
    """A session whose plans are parallel, and what the server tells it."""
    messages: list[str] = []
    with cluster.connect() as connection:
        if not PRELOADED:
            connection.execute("SET client_min_messages = error; LOAD 'id_gen'; RESET client_min_messages")
        connection.add_notice_handler(lambda notice: messages.append(notice.message_primary or ""))
        for setting in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            connection.execute(f"SET {setting} = 0")
        connection.execute("SET parallel_leader_participation = off")
        yield connection, messages


def assert_undisturbed(connection: psycopg.Connection, messages: list[str]) -> None:
    """A parallel query, in workers that were really launched."""
    count = "SELECT count(*) FROM item"
    ran = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {count}").fetchall()
    assert re.search(r"Workers Launched: [1-9]", "\n".join(row[0] for row in ran))
    assert connection.execute(count).fetchone() == (10_000,)
    assert messages == []


ITEMS = "CREATE TABLE item AS SELECT generate_series(1, 10000) AS id"


@pytest.mark.parametrize("layout", CONFS.values(), ids=CONFS.keys())
def test_a_layout_setting_does_not_reach_parallel_queries(layout: str) -> None:
    with Cluster(conf=f"{GENERATING}id_gen.layout = '{layout}'\n") as cluster:
        cluster.psql(f"CREATE EXTENSION id_gen; {ITEMS}")
        with parallel(cluster) as (connection, messages):
            assert_undisturbed(connection, messages)
            connection.execute("SELECT name FROM pg_file_settings")
            assert messages == []


@pytest.mark.parametrize("step_s", [-3_000 * DAY, 300_000 * DAY], ids=["before its epoch", "after its end"])
def test_a_layout_that_the_clock_leaves_does_not_either(step_s: int) -> None:
    clock = FakeClock()
    with Cluster(conf=f"{GENERATING}id_gen.layout = 'wide'\n", clock=clock) as cluster:
        cluster.psql(f"CREATE EXTENSION id_gen; {ITEMS}")
        with parallel(cluster) as (connection, messages):
            assert_undisturbed(connection, messages)
            clock.step(step_s)
            assert_undisturbed(connection, messages)
        with parallel(cluster) as (connection, messages):
            assert_undisturbed(connection, messages)


def test_a_reload_within_a_transaction_tells_nobody_of_a_layout() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql(f"CREATE EXTENSION id_gen; SELECT snowflake_next(); {ITEMS}")
        with parallel(cluster) as (connection, messages):
            connection.execute("SELECT snowflake_next()")
            connection.execute("BEGIN")
            change(cluster, "layout", "wide")

            def read() -> bool:
                return connection.execute("SHOW id_gen.layout").fetchone() == ("wide",)

            cluster.wait_until(read, "reading its configuration")
            connection.execute("COMMIT")
            assert_undisturbed(connection, messages)


def test_who_types_a_layout_is_told() -> None:
    """That it waits for a restart, and whether any ID can be made with it."""
    with Cluster(conf=GENERATING) as cluster, cluster.connect() as connection:
        cluster.psql("CREATE EXTENSION id_gen")
        messages: list[str] = []
        connection.add_notice_handler(lambda notice: messages.append(notice.message_primary or ""))
        connection.execute("SELECT snowflake_next()")
        connection.execute("ALTER SYSTEM SET id_gen.layout = 'default'")
        assert messages == []
        connection.execute("ALTER SYSTEM SET id_gen.layout = 'wide'")
        assert messages == ['parameter "id_gen.layout" takes effect when the server is restarted']
        for name in ("invalid", "ended", "not begun"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(f"ALTER SYSTEM SET id_gen.layout = '{CONFS[name]}'")


def test_errors_carry_no_backtrace() -> None:
    """Also where the server's environment asks Rust programs for one."""
    with Cluster(conf=GENERATING, env={"RUST_BACKTRACE": "full", "RUST_LIB_BACKTRACE": "1"}) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        for sql in (
            "SELECT snowflake_parse(1, 'no such layout')",
            "SELECT snowflake_next_array(0)",
            "SELECT id_gen_check('pg_class', 'no such column')",
            "SET statement_timeout = 50; SELECT snowflake_next_array(50000000)",
        ):
            error = refusal(cluster, sql)
            assert "backtrace" not in str(error) and "::" not in (error.detail or ""), error


@pytest.mark.parametrize("dbname", ["a", "b"])
def test_hints_are_typed_as_they_stand_whatever_the_search_path(dbname: str) -> None:
    """The schema is named where it is not in the search path, and only there."""
    schema = {"a": "public", "b": '"Odd schema"'}[dbname]
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql(f"CREATE DATABASE {dbname}")
        cluster.psql(f"CREATE SCHEMA IF NOT EXISTS {schema}; CREATE EXTENSION id_gen SCHEMA {schema}", dbname)
        with pytest.raises(SqlError) as refused:
            cluster.psql(f"SELECT {schema}.snowflake_next_array(500000000)", dbname)
        hint = refused.value.hint or ""
        named = "" if schema == "public" else f"{schema}."
        assert f"SELECT {named}snowflake_next_batch(500000000)" in hint
