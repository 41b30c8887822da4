"""A standby generates no snowflakes; once promoted, it generates above all that its primary may have given.

The old primary's last IDs lead its clock, are in no row that was replicated, and the standby's clock is behind.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import PRELOADED, Cluster, FakeClock
from harness.ids import (
    NARROW,
    NEXT,
    PATIENT,
    Caller,
    array_of,
    assert_rest_works,
    change,
    next_id,
    refusal,
    run_ahead,
)
from harness.reservation import Reservation

pytestmark = pytest.mark.every_version("recovery and the format of WAL records differ")

RECOVERY = "25006"
LEAD_MS = 4_800
NO_WORKER = NARROW.replace("id_gen.worker_id = 1", "") + PATIENT
WORKER = "id_gen.worker_id = 1"
MINUTE = 60


class Pair:
    """A primary that may generate, and a standby, each under a clock of its own."""

    def __init__(self, primary: Cluster, standby: Cluster, clocks: tuple[FakeClock, FakeClock]) -> None:
        self.primary = primary
        self.standby = standby
        self._clocks = clocks

    def lead(self) -> int:
        """Stops both clocks, and lets the primary give IDs ahead of its own; returns the last."""
        self.primary.wait_for_catchup(self.standby)
        for clock in self._clocks:
            clock.freeze()
        return run_ahead(self.primary, LEAD_MS)

    def fail_over(self) -> None:
        """The primary dies; the standby is promoted, and has decided where to begin when its clock runs again.

        A keeper decides at once; where the first session starts it, the first claim does.
        """
        self.primary.stop("immediate")
        self.standby.promote()
        reservation = Reservation(self.standby)
        with Caller(self.standby) as caller:
            if not PRELOADED:
                caller.begin()
            self.standby.wait_until(
                lambda: reservation.file.exists() and reservation.fields["timeline"] == "2",
                "promoted, with a reservation of its own",
            )
            self._clocks[1].put_right()


@contextmanager
def pair(behind_s: float = 0, first_id_before: bool = True) -> Iterator[Pair]:
    """The standby's clock is so much behind, and it is made before or after the primary's first ID."""
    clocks = (FakeClock(), FakeClock(-behind_s))
    with Cluster("primary", conf=NO_WORKER, clock=clocks[0]) as primary:
        if first_id_before:
            begin_generating(primary)
        with Cluster("standby", conf=WORKER, standby_of=primary, clock=clocks[1]) as standby:
            if not first_id_before:
                assert not Reservation(standby).directory.exists()
                begin_generating(primary)
            yield Pair(primary, standby, clocks)


def begin_generating(primary: Cluster) -> None:
    change(primary, "worker_id", 1)
    primary.psql("CREATE EXTENSION id_gen")
    primary.poll_until("SELECT snowflake_next() > 0")


def test_a_standby_refuses_snowflakes_only() -> None:
    with pair() as both:
        both.primary.wait_for_catchup(both.standby)
        for sql in (NEXT, array_of(1), "SELECT snowflake_next_batch(1)"):
            assert refusal(both.standby, sql).sqlstate == RECOVERY
        for decision in (
            "clock_accept()",
            "layout_accept()",
            "copy_accept(is_only_one => true)",
            "reservation_reset(above => now())",
        ):
            error = refusal(both.standby, f"SELECT id_gen_{decision}")
            assert error.sqlstate == RECOVERY
            assert error.message == f"cannot execute id_gen_{decision.partition('(')[0]}() during recovery"
            # It is about this server, so the primary is not the place to run it.
            assert "primary" not in (error.hint or "")
        assert_rest_works(both.standby)


@pytest.mark.parametrize("behind_s", [0, 2.5])
@pytest.mark.parametrize("first_id_before", [True, False], ids=["made after the first ID", "made before the first ID"])
def test_a_promoted_standby_begins_above_the_old_primary(behind_s: float, first_id_before: bool) -> None:
    with pair(behind_s, first_id_before) as both:
        last = both.lead()
        both.fail_over()
        assert next_id(both.standby) > last


def test_the_last_commit_counts_where_the_clock_is_far_behind() -> None:
    with pair(behind_s=MINUTE) as both:
        last = both.lead()
        both.primary.psql(f"CREATE TABLE item AS SELECT {last} AS id")
        both.primary.wait_for_catchup(both.standby)
        both.fail_over()
        assert next_id(both.standby) > last


def test_a_session_of_the_standby_generates_once_it_is_promoted() -> None:
    with pair() as both:
        both.primary.wait_for_catchup(both.standby)
        with both.standby.connect() as connection:
            connection.execute("SELECT public.uuidv7()")
            both.standby.promote()
            assert connection.execute("SELECT snowflake_next() > 0").fetchone() == (True,)
        last = next_id(both.standby)
        both.standby.restart("immediate")
        assert next_id(both.standby) > last
