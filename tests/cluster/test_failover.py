"""A standby makes no snowflakes; promoted, it goes on above whatever its primary may have given.

The old primary's last IDs lead its clock, are in no row that was replicated, and the standby's clock is behind.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import Cluster, FakeClock
from harness.ids import NARROW, NEXT, PATIENT, PER_MS, array_of, assert_rest_works, change, next_id, refusal, run_ahead
from harness.reservation import Reservation

RECOVERY = "25006"
LEAD_MS = 4_800
NO_WORKER = NARROW.replace("id_gen.worker_id = 1", "") + PATIENT
WORKER = "id_gen.worker_id = 1"
MINUTE = 60


@contextmanager
def pair(clock: FakeClock | None = None, first_id_before: bool = True) -> Iterator[tuple[Cluster, Cluster]]:
    """A primary that may generate, and a standby under a clock of its own."""
    with Cluster("primary", conf=NO_WORKER) as primary:
        if first_id_before:
            begin_generating(primary)
        with Cluster("standby", conf=WORKER, standby_of=primary, clock=clock) as standby:
            if not first_id_before:
                assert not Reservation(standby).directory.exists()
                begin_generating(primary)
            yield primary, standby


def begin_generating(primary: Cluster) -> None:
    change(primary, "worker_id", "1")
    primary.psql("CREATE EXTENSION id_gen")
    primary.poll_until("SELECT snowflake_next() > 0")


def test_a_standby_refuses_snowflakes_only() -> None:
    with pair() as (primary, standby):
        primary.wait_for_catchup(standby)
        for sql in (NEXT, array_of(1), "SELECT snowflake_next_batch(1)"):
            assert refusal(standby, sql).sqlstate == RECOVERY
        assert_rest_works(standby)


@pytest.mark.parametrize("behind_s", [0, 2.5])
@pytest.mark.parametrize("first_id_before", [True, False], ids=["made after the first ID", "made before the first ID"])
def test_a_promoted_standby_begins_above_the_old_primary(behind_s: float, first_id_before: bool) -> None:
    with pair(FakeClock(-behind_s), first_id_before) as (primary, standby):
        primary.wait_for_catchup(standby)
        last = run_ahead(primary, LEAD_MS)
        primary.stop("immediate")
        standby.promote()
        first = next_id(standby)
        assert first > last
        standby.restart("immediate")
        assert next_id(standby) > first


def test_the_last_commit_counts_where_the_clock_is_far_behind() -> None:
    clock = FakeClock(-MINUTE)
    with pair(clock) as (primary, standby):
        primary.psql("CREATE TABLE item (id bigint)")
        last = run_ahead(primary, LEAD_MS)
        primary.psql(f"INSERT INTO item VALUES ({last})")
        primary.wait_for_catchup(standby)
        primary.stop("immediate")
        standby.promote()
        reservation = Reservation(standby)
        standby.wait_until(lambda: reservation.fields["timeline"] == "2", "promoted, with a reservation of its own")
        clock.put_right()
        assert next_id(standby) > last


def test_a_session_of_the_standby_generates_once_it_is_promoted() -> None:
    with pair() as (primary, standby):
        primary.wait_for_catchup(standby)
        with standby.connect() as connection:
            connection.execute("SELECT uuidv7()")
            standby.promote()
            assert connection.execute("SELECT snowflake_next() > 0").fetchone() == (True,)


def test_a_copy_that_is_started_beside_its_original_repeats_ids() -> None:
    """What nothing on the copy can tell: it is the same cluster on the same timeline.

    It begins above every ID given before it was copied. From there on both give out the same IDs, so a copy needs a
    worker number of its own before it starts.
    """
    take = f"SELECT unnest(snowflake_next_array({LEAD_MS * PER_MS}))"
    with Cluster("original", conf=NARROW + PATIENT) as original:
        original.psql("CREATE EXTENSION id_gen")
        before = run_ahead(original, 1_000)
        with Cluster("copy", copy_of=original) as copy:
            assert next_id(copy) > before
            of_copy = set(copy.psql(take).split())
            assert of_copy & set(original.psql(take).split())
            change(copy, "worker_id", 2)
            copy.poll_until("SELECT worker_id FROM snowflake_parse(snowflake_next())", expected="2")
