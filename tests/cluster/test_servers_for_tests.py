"""A server with `id_gen.test_start` makes the same IDs in each run of the same statements, of every kind, and is kept
apart from servers that make them for real, whichever way the setting, the data directory or a copy of it goes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import PRELOAD, Cluster
from harness.checks import follow
from harness.ids import IMPATIENT, NEXT, PATIENT, STRICT, change, next_id, refusal
from harness.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs/test-servers.md")
START = "id_gen.test_start = '2024-06-01 00:00:00+00'\n"
# A server for tests has to preload the library, so all that is compared with one does, too.
GENERATING = f"{PRELOAD}id_gen.worker_id = 1\n"
FOR_TESTS = GENERATING + START
NOT_READY = "55000"

# A name for each kind, and what makes one.
KINDS = {
    "snowflake": NEXT,
    "batch": "SELECT snowflake_next_batch(3)",
    "array": "SELECT snowflake_next_array(3)",
    "rows": "SELECT max(snowflake_next()) FROM generate_series(1, 1000)",
    "shard": "SELECT snowflake_next(7)",
    "uuidv1": "SELECT uuidv1()",
    "uuidv4": "SELECT public.uuidv4()",
    "uuidv6": "SELECT uuidv6()",
    "uuidv7": "SELECT public.uuidv7()",
    "uuidv7 shifted": "SELECT public.uuidv7(interval '1 day')",
    "uuidv7 ordered": "SELECT uuidv7_ordered()",
    "ulid": "SELECT ulid()",
    "typeid": "SELECT typeid('user')",
    "random": "SELECT id_random()",
    "random of an alphabet": "SELECT id_random('BIZ', 20, '0123456789ABCDEF')",
}
# What makes an ID without a reservation, and what makes one with it.
ANY = (
    "SELECT public.uuidv7()",
    "SELECT public.uuidv4()",
    "SELECT uuidv6()",
    "SELECT ulid()",
    "SELECT id_random()",
    NEXT,
)


def answers(cluster: Cluster, statements: list[str]) -> list[str]:
    """Each in a session of its own."""
    return [cluster.psql(sql) for sql in statements]


def unset(cluster: Cluster, name: str = "id_gen.test_start") -> None:
    """For the next start."""
    conf = cluster.data / "postgresql.conf"
    conf.write_text(re.sub(rf"^{re.escape(name)} .*$", "", conf.read_text(), flags=re.MULTILINE))


def assert_makes_none(cluster: Cluster, message: str) -> str:
    """Every kind of ID is refused in these words; returns the hint."""
    hint = ""
    for sql in ANY:
        error = refusal(cluster, sql)
        assert (error.sqlstate, error.message) == (NOT_READY, message), sql
        hint = error.hint or ""
    status, found = cluster.psql("SELECT status, found FROM id_gen_check() WHERE name = 'test_server'").split("|", 1)
    assert status == "error"
    assert found.startswith(message)
    return hint


def run_twice(conf: str = FOR_TESTS) -> tuple[list[str], list[str]]:
    statements = [*KINDS.values(), *reversed(KINDS.values())]
    runs = []
    for _ in range(2):
        with Cluster(conf=conf) as cluster:
            cluster.psql("CREATE EXTENSION id_gen; SELECT id_gen_shard_take(7, above => 0)")
            run = answers(cluster, statements)
            cluster.restart()
            run += answers(cluster, statements)
            cluster.kill9()
            cluster.start()
            runs.append(run + answers(cluster, statements))
    return runs[0], runs[1]


@pytest.mark.long
@pytest.mark.parametrize(
    "more", ["", STRICT, IMPATIENT, "id_gen.layout = 'sonyflake'\n", "id_gen.max_block_size = 1\n"]
)
def test_two_new_servers_make_the_same_ids_over_restarts_and_crashes(more: str) -> None:
    first, second = run_twice(FOR_TESTS + more)
    assert first == second
    each = [id for answer in first for id in re.split(r"[,\n]", answer.strip("{}"))]
    assert len(each) == len(set(each)), "an ID is repeated"


@pytest.mark.any_server
def test_ids_begin_at_the_start_and_differ_for_another() -> None:
    with Cluster(conf=START + GENERATING.replace("id_gen.worker_id = 1\n", "")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        made = cluster.psql(f"SELECT created_at, worker_id FROM snowflake_parse(({NEXT}))")
        assert made == "2024-06-01 00:00:00+00|0"
        assert cluster.psql("SELECT uuidv7_timestamp(public.uuidv7())") == "2024-06-01 00:00:00.001+00"
        uuid = cluster.psql("SELECT public.uuidv4()")
    with Cluster(conf=GENERATING + START.replace("06", "07")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next(), public.uuidv7()")
        assert cluster.psql("SELECT public.uuidv4()") != uuid


@pytest.mark.since(17)
def test_the_library_has_to_be_preloaded() -> None:
    with Cluster(conf=START) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        message = "a server in test mode must load id_gen through shared_preload_libraries"
        hint = assert_makes_none(cluster, message)
        cluster.append_conf(PRELOAD)
        assert PRELOAD.strip() in hint
        cluster.restart()
        assert next_id(cluster) > 0


@pytest.mark.any_server
def test_a_bulk_load_waits_for_nothing() -> None:
    """A million IDs are 244 ms of the layout's time; without a lead a real server would wait for most of them."""
    with Cluster(conf=FOR_TESTS + STRICT + IMPATIENT.replace("0", "'10min'")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        ids = "SELECT count(DISTINCT id) FROM unnest(snowflake_next_array(1000000)) id"
        assert cluster.psql(ids) == "1000000"
        assert cluster.psql("SELECT frontier < '2024-06-01 00:00:01+00' FROM id_gen_status()") == "t"


@pytest.mark.any_server
def test_several_sessions_make_none_twice() -> None:
    with Cluster(conf=FOR_TESTS) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE TABLE made (id bigint PRIMARY KEY, u uuid UNIQUE)")
        script = cluster.base / "script"
        script.write_text("INSERT INTO made SELECT snowflake_next(), public.uuidv7() FROM generate_series(1, 10);\n")
        cluster.run("pgbench", "-n", "-c", "4", "-j", "2", "-t", "50", "-f", script)
        assert cluster.psql("SELECT count(*) FROM made") == "2000"


def test_such_a_server_says_so() -> None:
    with Cluster(conf=FOR_TESTS) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        assert "this server is in test mode: its IDs start at 2024-06-01T00:00:00Z" in cluster.log()
        next_id(cluster)
        assert "id_gen: this server is in test mode" in cluster.log()
        assert cluster.psql("SELECT state FROM id_gen_status()") == "ready, in test mode"
        check = "SELECT status, found FROM id_gen_check() WHERE name = 'test_server'"
        assert cluster.psql(check).startswith("warning|this server is in test mode: its IDs are the same in each run")
        # Later settings wait for a restart.
        change(cluster, "test_start", "2023-06-01 00:00:00+00")
        cluster.wait_for_log('parameter "id_gen.test_start" takes effect when the server is restarted')
        cluster.poll_until(f"{check.replace('status, found', 'found LIKE $$%was changed%$$')}")
        assert cluster.psql(f"SELECT extract(year FROM snowflake_timestamp(({NEXT})))") == "2024"
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        assert cluster.psql(check) == "ok|not in test mode"


@pytest.mark.any_server
@pytest.mark.parametrize("value", ["soon", "2024-06-01", "2024-06-01 00:00:00", "2999-01-01 00:00:00+00"])
def test_what_is_no_time_of_the_past_is_refused(value: str) -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        error = refusal(cluster, f"ALTER SYSTEM SET id_gen.test_start = '{value}'")
        assert error.sqlstate == "22023"
        (command,) = re.findall(r"ALTER SYSTEM .*;", error.hint or "")
        cluster.psql(command)
    if "2999" not in value:
        with Cluster(conf=f"{GENERATING}id_gen.test_start = '{value}'\n") as cluster:
            cluster.psql("CREATE EXTENSION id_gen")
            # Not that it makes them for real.
            error = refusal(cluster)
            assert error.message == "the server was started with an invalid id_gen.test_start"


def test_a_start_before_the_layouts_epoch_is_told_and_one_line_leads_out() -> None:
    with Cluster(conf=f"{GENERATING}id_gen.test_start = '2001-01-01 00:00:00+00'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        error = refusal(cluster)
        assert error.message == "the clock shows a time before the layout's epoch"
        assert error.hint
        cluster.psql(error.hint.partition(": ")[2])
        cluster.restart()
        assert next_id(cluster) > 0


@pytest.mark.any_server
def test_a_directory_that_made_ids_for_real_never_makes_them_for_tests() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        made = next_id(cluster)
        cluster.psql("ALTER SYSTEM SET id_gen.test_start = '2024-06-01 00:00:00+00'")
        cluster.restart()
        hint = assert_makes_none(cluster, "this data directory cannot be used in test mode")
        lead = cluster.psql("SELECT status, found FROM id_gen_check() WHERE name = 'lead'")
        assert lead == "ok|not checked: this data directory cannot be used in test mode"
        cluster.psql(re.findall(r"ALTER SYSTEM [^;]*;", hint)[0])
        cluster.restart()
        assert next_id(cluster) > made
        assert not (cluster.data / "id_gen/test").exists()


@pytest.mark.any_server
@pytest.mark.parametrize("mark", ["id_gen/reservation", "id_gen/issued", "id_gen/pgsql_tmp_number", "id_gen/upgraded"])
def test_each_trace_of_real_use_is_enough(mark: str) -> None:
    with Cluster(conf=FOR_TESTS) as cluster:
        cluster.stop()
        shutil.rmtree(cluster.data / "id_gen", ignore_errors=True)
        (cluster.data / "id_gen").mkdir()
        (cluster.data / mark).touch()
        for path in (cluster.data / "id_gen", cluster.data / mark):
            shutil.chown(path, cluster.data.owner(), cluster.data.group())
        cluster.start()
        cluster.psql("CREATE EXTENSION id_gen")
        assert_makes_none(cluster, "this data directory cannot be used in test mode")


def test_a_directory_for_tests_makes_none_for_real_until_a_superuser_ends_the_tests() -> None:
    with Cluster(conf=FOR_TESTS) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        made = next_id(cluster)
        error = refusal(cluster, "SELECT id_gen_test_mode_end()")
        assert (error.sqlstate, error.message) == (NOT_READY, "this server is in test mode")
        assert error.hint
        cluster.psql(re.findall(r"ALTER SYSTEM [^;]*;", error.hint)[0])  # although postgresql.conf sets it
        cluster.restart()
        hint = assert_makes_none(cluster, "this data directory is in test mode")
        cluster.psql("CREATE ROLE app")
        assert refusal(cluster, "SET ROLE app; SELECT id_gen_test_mode_end()").sqlstate == "42501"
        cluster.psql(hint.rpartition(": ")[2])
        assert next_id(cluster) > made
        assert cluster.psql(f"SELECT now() - snowflake_timestamp(({NEXT})) < interval '1 min'") == "t"
        assert cluster.psql("SELECT now() - uuidv7_timestamp(public.uuidv7()) < interval '1 min'") == "t"
        # And that is for good.
        cluster.psql("SELECT id_gen_test_mode_end()")
        cluster.psql("ALTER SYSTEM RESET id_gen.test_start")
        cluster.restart()
        assert_makes_none(cluster, "this data directory cannot be used in test mode")


@pytest.mark.any_server
def test_standbys_and_copies_keep_the_truth() -> None:
    with Cluster("real", conf=GENERATING) as real:
        real.psql("CREATE EXTENSION id_gen")
        next_id(real)
        with Cluster("standby", standby_of=real, conf=START) as standby:
            assert_makes_none(standby, "a standby cannot be in test mode")
            standby.promote()
            standby.poll_until("SELECT NOT pg_is_in_recovery()")
            assert_makes_none(standby, "this data directory cannot be used in test mode")
        with Cluster("copy", copy_of=real, conf=START) as copy:
            assert_makes_none(copy, "this data directory cannot be used in test mode")
    with Cluster("tests", conf=FOR_TESTS) as tests:
        tests.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        with Cluster("copy", copy_of=tests) as copy:
            assert copy.psql("SELECT state FROM id_gen_status()") == "ready, in test mode"
            unset(copy)
            copy.restart()
            assert_makes_none(copy, "this data directory is in test mode")


@pytest.mark.any_server
def test_a_standby_that_was_promoted_before_the_first_id_is_none() -> None:
    """Its timeline tells that it had a primary, whatever that has made since."""
    with Cluster("real", conf=GENERATING.replace("id_gen.worker_id = 1\n", "")) as real:
        real.psql("CREATE EXTENSION id_gen")
        with Cluster("standby", standby_of=real, conf=START) as standby:
            standby.promote()
            standby.poll_until("SELECT NOT pg_is_in_recovery()")
            assert_makes_none(standby, "this data directory cannot be used in test mode")


@pytest.mark.any_server
def test_a_server_for_tests_is_in_no_fleet() -> None:
    with Cluster(conf=f"{FOR_TESTS}id_gen.registry = 'etcd://127.0.0.1:1'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        hint = assert_makes_none(cluster, "a server in test mode cannot be in a fleet")
        assert hint.endswith("ALTER SYSTEM SET id_gen.registry = '';")


@pytest.mark.any_server
@pytest.mark.parametrize("content", ["", "until_ms 1\n"])
def test_a_damaged_mark_is_refused_either_way(content: str) -> None:
    with Cluster(conf=FOR_TESTS) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        for prepare in (lambda: None, lambda: unset(cluster)):
            cluster.stop()
            (cluster.data / "id_gen/test").write_text(content)
            prepare()
            cluster.start()
            for sql in ANY:
                assert refusal(cluster, sql).sqlstate == "XX001"


@pytest.mark.any_server
def test_a_lost_reservation_is_reset_to_the_clock_for_tests() -> None:
    with Cluster(conf=FOR_TESTS + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        cluster.stop()
        (cluster.data / "id_gen/reservation").unlink()
        cluster.start()
        follow(cluster, refusal(cluster).hint or "")
        assert next_id(cluster) > 0


@pytest.mark.any_server
def test_the_clock_for_tests_does_not_come_to_the_present() -> None:
    with Cluster(conf=GENERATING) as cluster:
        soon = cluster.psql("SELECT to_char(now() AT TIME ZONE 'UTC' - interval '5 min', 'YYYY-MM-DD HH24:MI:SS+00')")
    with Cluster(conf=f"{GENERATING}id_gen.test_start = '{soon}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        error = refusal(cluster, "SELECT public.uuidv7()")
        assert (error.sqlstate, error.message) == ("53400", "the test clock has reached the current time")


@pytest.mark.any_server
def test_pg_regress_as_documented(tmp_path: Path) -> None:
    """The output of one new server is what is expected of the next, and of none that is for real."""
    (tmp_path / "sql").mkdir()
    (tmp_path / "expected").mkdir()
    (sql,) = PAGE.blocks("sql", "pg_regress")
    (tmp_path / "sql/purchase.sql").write_text(sql)

    def regress(conf: str) -> tuple[bool, str]:
        with Cluster(conf=conf) as cluster:
            output = cluster.base / "regress"
            output.mkdir()
            done = subprocess.run(
                [
                    cluster.server.pg_regress,
                    f"--bindir={cluster.server.bindir}",
                    f"--host={cluster.socket_dir}",
                    "--user=postgres",
                    f"--outputdir={output}",
                    "purchase",
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            return done.returncode == 0, (output / "results/purchase.out").read_text()

    conf = "".join(PAGE.blocks("ini"))
    same, output = regress(conf)
    assert not same, "nothing was expected yet"
    assert "ERROR" not in output
    (tmp_path / "expected/purchase.out").write_text(output)
    assert regress(conf) == (True, output)
    assert not regress(GENERATING)[0]


@pytest.mark.long
@pytest.mark.any_server
def test_snapshots_as_documented(tmp_path: Path) -> None:
    (recipe,) = PAGE.blocks("python")
    (tmp_path / "test_purchase.py").write_text(recipe)

    def passes(conf: str) -> bool:
        with Cluster(conf=conf) as cluster:
            env = os.environ | {"TEST_DATABASE": cluster.conninfo()}
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
            done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
            assert "passed" in done.stdout or "failed" in done.stdout, done.stdout + done.stderr
            return done.returncode == 0

    conf = "".join(PAGE.blocks("ini"))
    assert passes(conf)
    assert (tmp_path / "snapshots/purchase.json").exists()
    assert passes(conf)
    assert not passes(GENERATING)
