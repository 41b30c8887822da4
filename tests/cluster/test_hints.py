"""Following the hint of a refusal, or the remedy of a check, makes the server generate again."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import GENERATING, Cluster
from harness.checks import checks, follow, remedy, wait_for
from harness.clock import FakeClock
from harness.ids import IMPATIENT, PATIENT, TOO_FAR_AHEAD, first_id, next_id, refusal
from harness.reservation import Reservation

CLIENTS = 4
RESETS = 20
FIELDS = "tick=1ms time:41 datacenter:5 worker:5 sequence:12"
FUTURE = f"epoch=2036-01-01 {FIELDS}"
FUTURE_MS = 2_082_758_400_000
# Past what any layout of 41 bits of milliseconds carries.
LONG = "epoch=2023-01-01 tick=10ms time:44 worker:7 sequence:12"
BEYOND_MS = 9_000_000_000_000
# 1,600 IDs a second.
SLOW = "epoch=2024-01-01 tick=10ms time:42 datacenter:5 worker:5 sequence:4"
NOT_YET = "55000"
RAN_OUT = "2200H"
TOO_LATE = "22008"
RESET = "SELECT id_gen_reservation_reset(above => now());"


def rounds_of_keeper(cluster: Cluster) -> None:
    """Waits until the keeper has run at least twice; until one is started, calls do its work."""
    for _ in range(2):
        before = cluster.psql("SELECT coalesce(keeper_heartbeat_at, clock_timestamp()) FROM id_gen_status()")
        refusal(cluster)
        cluster.poll_until(
            f"SELECT coalesce(keeper_heartbeat_at, clock_timestamp()) > '{before}'::timestamptz FROM id_gen_status()"
        )


def test_a_future_epoch_reserves_nothing() -> None:
    """Once corrected, it leaves no trace: a server that can generate nothing writes no reservation."""
    with Cluster(conf=f"{GENERATING}id_gen.layout = '{FUTURE}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        error = refusal(cluster)
        assert error.sqlstate == NOT_YET
        # Nobody is to wait for years until the layout begins.
        assert checks(cluster)["lead"].status == "ok"
        rounds_of_keeper(cluster)
        assert not Reservation(cluster).file.exists()
        follow(cluster, error.hint or "")
        assert next_id(cluster) > 0


@pytest.mark.parametrize(
    ("until_ms", "sqlstate"), [(FUTURE_MS, TOO_FAR_AHEAD), (BEYOND_MS, RAN_OUT)], ids=["years ahead", "past the end"]
)
def test_a_reservation_far_in_the_future_is_reset(until_ms: int, sqlstate: str) -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        cluster.stop()
        Reservation(cluster).forge(until=str(until_ms))
        cluster.append_conf("id_gen.max_wait = 0")
        cluster.start()
        error = refusal(cluster)
        assert error.sqlstate == sqlstate
        assert RESET in (error.hint or "")
        assert RESET in (checks(cluster)["lead"].remedy or "").replace("public.", "")
        follow(cluster, error.hint or "")
        given.append(first_id(cluster))
        assert Reservation(cluster).until_ms < FUTURE_MS
        cluster.restart("immediate")
        given.append(first_id(cluster))
        assert given == sorted(set(given))


def test_a_statement_that_wants_more_than_the_lead_is_led_out_by_three_hints() -> None:
    """Each time that it is refused, its IDs are used up."""
    much = "SELECT count(snowflake_next()) FROM generate_series(1, 20000)"
    with Cluster(conf=f"{GENERATING}{IMPATIENT}id_gen.layout = '{SLOW}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        for _ in range(3):
            hint = refusal(cluster, much).hint or ""
            allowed = re.search(r"id_gen.max_lead = '(\d+s)'", hint)
            assert allowed, hint
            follow(cluster, hint)
            cluster.poll_until(f"SELECT current_setting('id_gen.max_lead')::interval = '{allowed[1]}'")
        assert cluster.psql(much) == "20000"


@pytest.mark.parametrize("by", ["warning", "hint", "check"])
def test_a_mistyped_reset_is_reset_again(by: str) -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        cluster.append_conf("id_gen.max_wait = 0")
        cluster.restart()
        said: list[tuple[str | None, str | None]] = []
        with cluster.connect() as connection:
            connection.add_notice_handler(lambda notice: said.append((notice.message_primary, notice.message_hint)))
            connection.execute("SELECT id_gen_reservation_reset(above => '2036-01-01')")
            ((primary, hint),) = said
            assert re.fullmatch(r"no snowflake is available for the next \d+ d( \d+ h)?", primary or "")
            error = refusal(cluster)
            advice = {"warning": hint, "hint": error.hint, "check": checks(cluster)["lead"].remedy}[by]
            said.clear()
            (typed,) = re.findall(r"SELECT [^;]*;", advice or "")
            connection.execute(typed)
        assert said[0][0] == "stored snowflakes with later times may be duplicated"
        given.append(first_id(cluster))
        assert given == sorted(set(given))


def notices(cluster: Cluster, sql: str) -> list[str]:
    """What a statement says to the client."""
    said: list[str] = []
    with cluster.connect() as connection:
        connection.add_notice_handler(
            lambda notice: said.append(f"{notice.message_primary}. {notice.message_detail} {notice.message_hint}")
        )
        connection.execute(sql)
    return said


def test_a_reset_to_the_clock_proposes_no_other_reset() -> None:
    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        clock.step(-30)
        said = notices(cluster, RESET)
        assert "No other action is needed." in " ".join(said)
        assert "id_gen_reservation_reset" not in " ".join(said)


def test_a_decision_that_was_not_needed_says_why_there_are_no_ids() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        (said,) = notices(cluster, "SELECT id_gen_copy_accept(is_only_one => true)")
        assert said.startswith("this data directory is not a copy that has to be accepted: nothing was changed.")
        assert "for another reason" not in said
        cluster.psql("ALTER SYSTEM SET id_gen.worker_id = -1; SELECT pg_reload_conf()")
        cluster.poll_until("SELECT state = 'id_gen.worker_id is not set' FROM id_gen_status()")
        for decision in ("id_gen_copy_accept(is_only_one => true)", "id_gen_layout_accept()"):
            (said,) = notices(cluster, f"SELECT {decision}")
            assert "This server cannot generate for another reason: id_gen.worker_id is not set." in said


def test_a_layout_that_waits_for_a_restart_cannot_be_accepted_yet() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        cluster.psql("ALTER SYSTEM SET id_gen.layout = 'epoch=2025-01-01 tick=1ms time:41 worker:10 sequence:12'")
        cluster.reload()
        cluster.poll_until("SELECT current_setting('id_gen.layout') LIKE 'epoch=2025%'")
        (said,) = notices(cluster, "SELECT id_gen_layout_accept()")
        assert "takes effect when the server is restarted" in said


def test_an_array_that_no_call_can_return_names_the_largest() -> None:
    conf = f"{GENERATING}id_gen.max_lead = '10ms'\nid_gen.max_wait = 0\n"
    with Cluster(conf=conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        array = "SELECT cardinality(snowflake_next_array({}))"
        error = refusal(cluster, array.format(3_000_000))
        assert (error.sqlstate, error.message) == (TOO_FAR_AHEAD, "too many snowflakes for one call")
        (most,) = re.findall(r"Request at most (\d+) in one call", error.hint or "")
        cluster.poll_until(array.format(most), expected=most)
        follow(cluster, error.hint or "")
        cluster.poll_until(array.format(3_000_000), expected="3000000")


def test_a_reset_beyond_what_nanoseconds_can_say_is_refused_in_time() -> None:
    """A clock in nanoseconds since 1970 ends in the year 2554; this layout lasts longer."""
    conf = f"{GENERATING}id_gen.layout = '{LONG}'\nid_gen.max_wait = '100ms'\nstatement_timeout = '30s'\n"
    with Cluster(conf=conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        cluster.psql("SELECT id_gen_reservation_reset(above => '2600-01-01')")
        refused = refusal(cluster)
        assert refused.sqlstate == TOO_FAR_AHEAD
        assert cluster.psql("SELECT state FROM id_gen_status()") == refused.message
        with cluster.connect() as connection:
            hints: list[str | None] = []
            connection.add_notice_handler(lambda notice: hints.append(notice.message_hint))
            connection.execute(RESET)
        assert re.search(r"^If IDs from \d+ on are stored", hints[0] or "")
        cluster.poll_until("SELECT snowflake_next() > 0")


def test_a_reset_past_the_end_of_the_layout_is_refused() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        for above in ("2200-01-01", "294276-12-31 23:59:59.999999+00"):
            assert refusal(cluster, f"SELECT id_gen_reservation_reset('{above}')").sqlstate == TOO_LATE
        given.append(next_id(cluster))
        assert given == sorted(set(given))


@pytest.mark.parametrize("layout", [FUTURE, "baidu", "js"], ids=["not begun", "ended", "below what was issued"])
def test_a_restart_that_would_end_generating_is_not_recommended(layout: str) -> None:
    """What waits in the file is tried before the restart, and set back by what the check says."""
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        cluster.append_conf(f"id_gen.layout = '{layout}'")
        cluster.reload()
        found = wait_for(cluster, "layout", "error")
        assert "after a restart it would generate nothing" in found.found
        remedy(cluster, "layout", "error")
        cluster.restart()
        given.append(next_id(cluster))
        assert given == sorted(set(given))


def test_a_mistyped_layout_is_replaced_by_the_last_one() -> None:
    with Cluster(conf=f"{GENERATING}{PATIENT}id_gen.layout = 'js'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        for layout in ("jss", FUTURE):
            cluster.append_conf(f"id_gen.layout = '{layout}'")
            cluster.restart()
            error = refusal(cluster)
            follow(cluster, error.hint or "")
            given.append(next_id(cluster))
            cluster.psql("ALTER SYSTEM RESET id_gen.layout")
        assert cluster.psql("SELECT name FROM snowflake_layouts() WHERE in_use") == "js"
        assert given == sorted(set(given))


def test_a_reset_of_a_server_that_generates_changes_nothing_for_its_clients() -> None:
    """Again and again, while sessions claim: no ID twice, none out of order, and nobody has to wait for the clock."""
    conf = f"{GENERATING}id_gen.max_wait = 0\nid_gen.max_lead = '1min'\n"
    with Cluster(conf=conf) as cluster, ThreadPoolExecutor(CLIENTS) as pool:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        done = threading.Event()

        def generate() -> list[int]:
            given: list[int] = []
            with cluster.connect() as connection:
                while not done.is_set():
                    for sql in (
                        "SELECT snowflake_next() FROM generate_series(1, 50)",
                        "SELECT snowflake_next_batch(50)",
                    ):
                        given += [row[0] for row in connection.execute(sql)]
            return given

        clients = [pool.submit(generate) for _ in range(CLIENTS)]
        try:
            for _ in range(RESETS):
                cluster.psql(RESET)
        finally:
            done.set()
        given = [client.result() for client in clients]
        assert all(ids == sorted(ids) for ids in given)
        everything = [snowflake for ids in given for snowflake in ids]
        assert len(everything) == len(set(everything))
