"""The statistics views count what happened, also in sessions that ended, and show it to members of pg_monitor."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import GENERATING, PRELOADED, Cluster, SqlError
from harness.catalog import views
from harness.clock import FakeClock
from harness.ids import (
    IMPATIENT,
    NARROW,
    NEXT,
    PATIENT,
    Caller,
    answer_of,
    array_of,
    next_id,
    refusal,
    run_ahead,
    stepped,
)

pytestmark = pytest.mark.every_version("wait events and statistics views differ")

WRONG_COLUMNS = "42804"
NO_SET = "0A000"


def stat(cluster: Cluster, column: str) -> str:
    return cluster.psql(f"SELECT {column} FROM id_gen_stat")


def test_ids_are_counted_over_sessions_that_end() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        statements = (
            ("SELECT count(snowflake_next()) FROM generate_series(1, 1000)", 1000),
            ("SELECT count(*) FROM snowflake_next_batch(5000)", 5000),
            ("SELECT cardinality(snowflake_next_array(7000))", 7000),
            (NEXT, 1),
        )
        expected = 0
        for _ in range(5):
            for sql, ids in statements:
                cluster.psql(sql)
                expected += ids
                assert stat(cluster, "ids") == str(expected)
        assert int(stat(cluster, "claims")) < expected


def test_ids_of_many_sessions_at_once() -> None:
    """Read while they are made, the count never goes down, and at the end it is exact."""
    with Cluster(conf=GENERATING) as cluster, ThreadPoolExecutor(8) as pool:
        cluster.psql("CREATE EXTENSION id_gen")
        sql = "SELECT count(snowflake_next()) FROM generate_series(1, 20000)"
        running = [pool.submit(cluster.psql, sql) for _ in range(40)]
        seen = [0]
        with cluster.connect() as connection:
            while not all(each.done() for each in running):
                seen.append(connection.execute("SELECT ids FROM id_gen_stat").fetchone()[0])  # type: ignore[index]
        assert seen == sorted(seen)
        assert stat(cluster, "ids") == str(40 * 20_000)


def test_each_session_has_a_row_until_it_ends() -> None:
    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with Caller(cluster) as caller:
            clock.freeze()  # for blocks to grow in, which they do within a tick
            caller.ask("SELECT count(snowflake_next()) FROM generate_series(1, 300)")
            row = f"SELECT ids, claims > 0, block_size > 1 FROM id_gen_stat_backends WHERE pid = {caller.pid}"
            assert cluster.psql(row) == "300|t|t"
        cluster.poll_until(f"SELECT count(*) FROM id_gen_stat_backends WHERE pid = {caller.pid}", expected="0")
        assert stat(cluster, "ids") == "300"


def test_waits_and_their_histogram() -> None:
    with Cluster(conf=NARROW + PATIENT + "id_gen.max_lead = 0\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        cluster.psql("SELECT id_gen_stat_reset()")
        run_ahead(cluster, 100)
        waits = int(stat(cluster, "waits"))
        assert waits > 10
        assert cluster.psql("SELECT sum(waits) FROM id_gen_stat_waits") == str(waits)
        # A millisecond's IDs at a time, and so about a millisecond each.
        most = float(cluster.psql("SELECT upper_bound FROM id_gen_stat_waits ORDER BY waits DESC LIMIT 1"))
        assert 0 < most < 8 * float(stat(cluster, "wait_time / waits"))
        bounds = cluster.psql("SELECT upper_bound FROM id_gen_stat_waits").splitlines()
        assert bounds[:3] == ["0.001", "0.002", "0.004"]
        assert bounds[-1] == "Infinity"


def test_a_wait_has_a_name() -> None:
    with stepped(-7, NARROW + PATIENT) as (cluster, _, _before), Caller(cluster) as caller:
        answer = caller.begin()
        name = "IdGenClockWait" if cluster.server.version >= 17 else "Extension"
        cluster.poll_until(
            f"SELECT wait_event_type || '.' || wait_event FROM pg_stat_activity WHERE pid = {caller.pid}",
            expected=f"Extension.{name}",
        )
        assert answer_of(answer) > 0


def test_steps_lead_and_refusals() -> None:
    began = time.monotonic()
    with stepped(-60, NARROW + IMPATIENT) as (cluster, clock, _):
        for sql in (NEXT, array_of(1)):
            refusal(cluster, sql)
        assert stat(cluster, "clock_steps_back, refused_lead, refused_jump") == "1|2|0"
        assert float(stat(cluster, "largest_clock_step_back")) == pytest.approx(60_000, abs=50)
        lead = float(stat(cluster, "lead"))
        assert 60_000 - 1_000 * (time.monotonic() - began) < lead < 60_050
        assert cluster.psql("SELECT state FROM id_gen_status()") == "no snowflake is available yet"
        clock.step(60 + 3600)
        refusal(cluster)
        assert stat(cluster, "clock_steps_forward, refused_lead, refused_jump") == "1|2|1"
        assert cluster.psql("SELECT state FROM id_gen_status()") == "the clock jumped forward"
        clock.put_right()
        run_ahead(cluster, 500)
        assert float(stat(cluster, "largest_lead")) >= 400
        assert float(stat(cluster, "peak_sequence_use")) == 1


def counted(cluster: Cluster) -> list[str]:
    """The columns of id_gen_stat that calls alone make rise: not the lead as it is now, and what the keeper does."""
    columns = cluster.psql("""
        SELECT attname FROM pg_attribute
         WHERE attrelid = 'id_gen_stat'::regclass AND attnum > 0 AND atttypid IN ('int8'::regtype, 'float8'::regtype)
    """).split()
    return [column for column in columns if column != "lead" and "reservation" not in column]


def test_reset() -> None:
    with stepped(-3, NARROW) as (cluster, _, _before):
        run_ahead(cluster, 100)
        before = stat(cluster, "stats_reset")
        cluster.psql("SELECT id_gen_stat_reset()")
        columns = counted(cluster)
        assert {"ids", "claims", "waits", "wait_time", "clock_steps_back", "clock_steps_forward", "largest_lead"} <= {
            *columns
        }
        assert stat(cluster, ", ".join(columns)) == "|".join("0" for _ in columns)
        assert stat(cluster, f"stats_reset <> '{before}'") == "t"
        next_id(cluster)
        assert stat(cluster, "ids") == "1"


def test_status_of_a_server_that_generates() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        row = cluster.psql("""
            SELECT state, datacenter_id, worker_id, layout, exhausted_at > '2090-01-01', max_lead,
                   frontier BETWEEN now() - interval '1 min' AND now() + interval '1 min',
                   reserved_until > frontier, preloaded
              FROM id_gen_status()""")
        assert row == f"ready|0|1|default|t|00:00:05|t|t|{'t' if PRELOADED else 'f'}"
        source = cluster.psql("SELECT worker_id_source FROM id_gen_status()")
        assert re.fullmatch(rf"{re.escape(str(cluster.data))}/postgresql\.conf:\d+", source)
        cluster.psql("ALTER SYSTEM SET id_gen.worker_id = 2; SELECT pg_reload_conf()")
        cluster.poll_until("SELECT worker_id_source LIKE '%postgresql.auto.conf:%' FROM id_gen_status()")


def test_rates() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")

        def known() -> bool:
            cluster.psql("SELECT count(snowflake_next()) FROM generate_series(1, 1000)")
            return (
                cluster.psql("SELECT rate_second > 0 AND rate_minute > 0 AND sequence_use > 0 FROM id_gen_status()")
                == "t"
            )

        cluster.wait_until(known, "telling its rate")


def test_the_keeper_is_seen() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        cluster.poll_until("""
            SELECT count(*) = 1 FROM pg_stat_activity JOIN id_gen_status() ON pid = keeper_pid
             WHERE backend_type = 'id_gen keeper' AND keeper_heartbeat_at > now() - interval '5 s'""")


@pytest.mark.long
@pytest.mark.parametrize("conf", ["", "id_gen.worker_id = 1\n"])
def test_a_server_without_preload_has_a_status(conf: str) -> None:
    with Cluster(conf=conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        has_memory = cluster.server.version >= 17
        state = cluster.psql("SELECT state FROM id_gen_status()")
        expected = (
            ("ready" if conf else "id_gen.worker_id is not set") if has_memory else "id_gen must be loaded through"
        )
        assert state.startswith(expected)
        assert cluster.psql("SELECT count(*) FROM id_gen_stat") == ("1" if has_memory else "0")


@pytest.mark.long
def test_a_standby_has_a_status() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with Cluster("standby", standby_of=cluster) as standby:
            cluster.wait_for_catchup(standby)
            assert standby.psql("SELECT state FROM id_gen_status()") == "cannot generate snowflakes during recovery"
            assert standby.psql("SELECT ids FROM id_gen_stat") == "0"


def test_views_take_only_their_own_columns() -> None:
    """Whoever may read them may also call the function behind them, with any list of columns."""
    texts = ", ".join(f"a{place} text" for place in range(18))
    lists = ("a text", "a text, b text", "a bigint, b float8", "a float8, b bigint, c text", texts)
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        for view in ("nonsense", *(name.rpartition(".")[2] for name in views(cluster))):
            for columns in lists:
                error = refusal(cluster, f"SELECT * FROM id_gen_stat_get('{view}') AS rows ({columns})")
                assert error.sqlstate == WRONG_COLUMNS, f"{view} ({columns})"
        own = "AS rows (upper_bound float8, waits bigint)"
        assert cluster.psql(f"SELECT count(*) FROM id_gen_stat_get('id_gen_stat_waits') {own}") == "32"
        assert cluster.psql(f"SELECT count(*) FROM id_gen_stat_get(NULL) {own}") == "0"
        assert refusal(cluster, "SELECT id_gen_stat_get('id_gen_stat_waits')").sqlstate == NO_SET


@pytest.mark.long
def test_who_may_read() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE ROLE outsider; CREATE ROLE monitor IN ROLE pg_monitor")
        reading = [f"SELECT * FROM {what}" for what in (*views(cluster), "id_gen_status()")]
        assert len(reading) >= 5
        for sql in reading:
            with pytest.raises(SqlError, match="42501: permission denied"):
                cluster.psql(f"SET ROLE outsider; {sql}")
            cluster.psql(f"SET ROLE monitor; {sql}")
        with pytest.raises(SqlError, match="42501: permission denied"):
            cluster.psql("SET ROLE monitor; SELECT id_gen_stat_reset()")
