"""Whatever ends a server, and whatever its clock says when it is back, no ID falls below one given before.

The IDs given before lead the clock by seconds, so that the clock alone would not keep the new ones above them.
"""

import os
import signal
import time
from collections.abc import Callable

import pytest

from harness import PRELOADED, Cluster, FakeClock
from harness.ids import (
    IMPATIENT,
    NARROW,
    PATIENT,
    STRICT,
    TOO_FAR_AHEAD,
    Caller,
    first_id,
    keepers,
    next_id,
    refusal,
    run_ahead,
    time_of,
)
from harness.reservation import Reservation

pytestmark = pytest.mark.every_version(
    "starts and stops go through interfaces for shared memory and background workers that differ"
)

# The default of id_gen.max_lead, and how far past it IDs are reserved, in seconds; and a lead within the first.
MAX_LEAD = 5
RESERVED_AHEAD = 3
LEAD_MS = 4_500


def await_reservation(cluster: Cluster) -> None:
    """What a keeper does by itself, and where the library is not preloaded, the first claim."""
    if not PRELOADED:
        first_id(cluster)
    cluster.wait_until(lambda: len(keepers(cluster)) == 1, "running a keeper")


def kill_a_backend(cluster: Cluster) -> None:
    began = cluster.log_position
    with Caller(cluster) as caller:
        caller.ask()
        cluster.kill9(caller.pid)
        cluster.wait_for_log("all server processes terminated; reinitializing", began)


def kill_the_keeper(cluster: Cluster) -> None:
    began = cluster.log_position
    cluster.wait_until(lambda: keepers(cluster), "running a keeper")
    (keeper,) = keepers(cluster)
    cluster.kill9(keeper)
    cluster.wait_for_log("all server processes terminated; reinitializing", began)


def kill_the_postmaster(cluster: Cluster) -> None:
    cluster.kill9()
    cluster.start()


def stop_immediately(cluster: Cluster) -> None:
    cluster.restart("immediate")


@pytest.mark.parametrize(
    "crash",
    [
        kill_a_backend,
        kill_the_keeper,
        kill_the_postmaster,
        stop_immediately,
    ],
)
def test_after_a_crash_ids_go_on_above(crash: Callable[[Cluster], None]) -> None:
    with Cluster(conf=NARROW + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        last = run_ahead(cluster, LEAD_MS)
        crash(cluster)
        cluster.poll_until("SELECT true")
        assert next_id(cluster) > last
        await_reservation(cluster)


def test_crashes_in_a_row_do_not_drive_ids_from_the_clock() -> None:
    """Each start reserves anew, but not on top of what the one before it left unused."""
    with Cluster(conf=NARROW) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        for _ in range(5):
            cluster.restart("immediate")
            await_reservation(cluster)
        assert Reservation(cluster).until_ms < (time.time() + MAX_LEAD + RESERVED_AHEAD) * 1000


@pytest.mark.parametrize("mode", ["smart", "fast"])
def test_after_a_clean_stop_nobody_waits(mode: str) -> None:
    with Cluster(conf=NARROW + STRICT + IMPATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        before = next_id(cluster)
        cluster.restart(mode)
        assert next_id(cluster) > before


def test_after_a_crash_strict_mode_waits_for_what_was_reserved() -> None:
    with Cluster(conf=NARROW + STRICT + IMPATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        before = next_id(cluster)
        cluster.restart("immediate")
        assert refusal(cluster).sqlstate == TOO_FAR_AHEAD
        assert first_id(cluster) > before


@pytest.mark.parametrize("seconds", [0.05, 3])
def test_clock_set_back_a_little_over_a_clean_restart(seconds: float) -> None:
    clock = FakeClock()
    with Cluster(conf=NARROW + IMPATIENT, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        before = next_id(cluster)
        cluster.stop()
        clock.step(-seconds)
        cluster.start()
        assert next_id(cluster) > before, "a lead that is allowed needs no wait"


@pytest.mark.parametrize("seconds", [0.05, 3, 60, 3600])
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_clock_set_back_over_a_restart(mode: str, seconds: float) -> None:
    clock = FakeClock()
    with Cluster(conf=NARROW + IMPATIENT, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        last = run_ahead(cluster, LEAD_MS)
        cluster.stop(mode)
        clock.step(-seconds)
        cluster.start()
        if seconds > 3:
            assert refusal(cluster).sqlstate == TOO_FAR_AHEAD
            clock.put_right()
        assert first_id(cluster) > last


def test_the_keeper_comes_back_when_it_is_terminated() -> None:
    """It has given back what it had reserved; claims reserve for themselves meanwhile."""
    with Cluster(conf=NARROW) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        cluster.wait_until(lambda: keepers(cluster), "running a keeper")
        (keeper,) = keepers(cluster)
        os.kill(keeper, signal.SIGTERM)
        cluster.wait_until(lambda: keeper not in keepers(cluster), "rid of its keeper")
        given.append(run_ahead(cluster, LEAD_MS))
        assert given == sorted(set(given))
        assert Reservation(cluster).until_ms > time_of(cluster, given[-1])
        cluster.wait_until(lambda: set(keepers(cluster)) - {keeper}, "running another keeper")
