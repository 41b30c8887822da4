"""States that refuse, and the one command that leads out of each, typed as its hint or check names it."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import GENERATING, Cluster
from harness.checks import checks, follow
from harness.ids import PATIENT, TOO_FAR_AHEAD, first_id, next_id, refusal
from harness.reservation import Reservation

CLIENTS = 4
RESETS = 20
FIELDS = "tick=1ms time:41 datacenter:5 worker:5 sequence:12"
FUTURE = f"epoch=2036-01-01 {FIELDS}"
FUTURE_MS = 2_082_758_400_000
NOT_YET = "55000"
RESET = "SELECT id_gen_reset_reservation(above => now());"


def rounds_of_keeper(cluster: Cluster) -> None:
    """Lets whoever keeps the reservation come by at least twice; without a keeper, calls do."""
    for _ in range(2):
        before = cluster.psql("SELECT coalesce(keeper_beat, clock_timestamp()) FROM id_gen_status()")
        refusal(cluster)
        cluster.poll_until(
            f"SELECT coalesce(keeper_beat, clock_timestamp()) > '{before}'::timestamptz FROM id_gen_status()"
        )


def test_a_future_epoch_promises_nothing() -> None:
    """Corrected, it leaves no trace: a server that can issue nothing writes nothing down as promised."""
    with Cluster(conf=f"{GENERATING}id_gen.layout = '{FUTURE}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        error = refusal(cluster)
        assert error.sqlstate == NOT_YET
        rounds_of_keeper(cluster)
        assert not Reservation(cluster).file.exists()
        follow(cluster, error.hint or "")
        assert next_id(cluster) > 0


def test_a_promise_far_in_the_future_is_taken_back() -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        cluster.stop()
        Reservation(cluster).forge(until=str(FUTURE_MS))
        cluster.append_conf("id_gen.max_wait = 0")
        cluster.start()
        error = refusal(cluster)
        assert error.sqlstate == TOO_FAR_AHEAD
        assert RESET in (error.hint or "")
        assert RESET in (checks(cluster)["lead"].remedy or "").replace("public.", "")
        follow(cluster, error.hint or "")
        given.append(first_id(cluster))
        assert Reservation(cluster).until_ms < FUTURE_MS
        cluster.restart("immediate")
        given.append(first_id(cluster))
        assert given == sorted(set(given))


@pytest.mark.parametrize("mistyped", ["2036-01-01", "294276-12-31"], ids=["a time", "past the layout's end"])
@pytest.mark.parametrize("by", ["hint", "check"])
def test_a_mistyped_reset_is_taken_back(by: str, mistyped: str) -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        cluster.append_conf("id_gen.max_wait = 0")
        cluster.restart()
        cluster.psql(f"SELECT id_gen_reset_reservation(above => '{mistyped}')")
        error = refusal(cluster)
        remedy = error.hint if by == "hint" else checks(cluster)["lead"].remedy
        notices: list[str] = []
        with cluster.connect() as connection:
            connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
            (typed,) = re.findall(r"SELECT [^;]*;", remedy or "")
            connection.execute(typed)
        assert notices == ["snowflakes may repeat those of later times, if there are any"]
        given.append(first_id(cluster))
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
