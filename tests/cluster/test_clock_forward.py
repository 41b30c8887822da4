"""The clock jumps forward by more than id_gen.max_clock_jump, stands still, or runs a little fast."""

import re
import time

import pytest

from harness import Cluster, FakeClock
from harness.ids import (
    IMPATIENT,
    NARROW,
    NEXT,
    PATIENT,
    TOO_FAR_AHEAD,
    Caller,
    array_of,
    assert_rest_works,
    change,
    error_of,
    next_id,
    refusal,
    run_ahead,
    stepped,
    time_of,
)
from harness.reservation import Reservation

MINUTE = 60
HOUR = 3600
THIRTY_YEARS = 30 * 365 * 24 * HOUR

JUMPED = "55000"
SET_FORWARD = r"id_gen: the clock was set forward by \d+ \w+"
ACCEPT = "SELECT id_gen_clock_accept()"

# A leap second smeared over a day is 0.001 %: this is worse, so that a test need not last a day.
FAST = 1.005
# What a step of the clock is at least: a drift that adds up to more must not be taken for one.
STEP_MS = 10


def assert_jump_refused(cluster: Cluster) -> None:
    for sql in (NEXT, array_of(1), "SELECT snowflake_next_batch(1)"):
        error = refusal(cluster, sql)
        assert error.sqlstate == JUMPED
        assert error.message == "the clock jumped forward"
        assert ACCEPT in (error.hint or "")
    assert_rest_works(cluster)


def assert_not_far_ahead(cluster: Cluster, snowflake: int) -> None:
    assert time_of(cluster, snowflake) < (time.time() + MINUTE) * 1000


@pytest.mark.parametrize("seconds", [HOUR, THIRTY_YEARS])
def test_a_jump_is_refused_until_the_clock_comes_back(seconds: int) -> None:
    with stepped(seconds, NARROW) as (cluster, clock, before):
        assert_jump_refused(cluster)
        clock.put_right()
        after = next_id(cluster)
        assert after > before
        assert_not_far_ahead(cluster, after)
        assert Reservation(cluster).until_ms < (time.time() + MINUTE) * 1000


@pytest.mark.parametrize("seconds", [HOUR, THIRTY_YEARS])
def test_an_administrator_accepts_a_jump(seconds: int) -> None:
    with stepped(seconds, NARROW + PATIENT) as (cluster, _, before):
        refusal(cluster)
        cluster.psql(ACCEPT)
        after = next_id(cluster)
        assert time_of(cluster, after) - time_of(cluster, before) >= seconds * 1000

        cluster.restart("immediate")
        assert next_id(cluster) > after, "what was accepted is not asked again after a crash"


def test_a_jump_is_told_once_and_each_session_is_refused() -> None:
    clock = FakeClock()
    with Cluster(conf=NARROW, clock=clock) as cluster, Caller(cluster) as first, Caller(cluster) as second:
        cluster.psql("CREATE EXTENSION id_gen")
        for caller in (first, second):
            caller.ask("SELECT max(snowflake_next()) FROM generate_series(1, 1000)")
        clock.step(HOUR)
        for _ in range(3):
            for caller in (first, second):
                assert error_of(caller.begin()).sqlstate == JUMPED
        assert len(re.findall(SET_FORWARD, cluster.log())) == 1


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize("seconds", [HOUR, THIRTY_YEARS])
def test_a_jump_while_the_server_was_down_is_refused(seconds: int, mode: str) -> None:
    """Within one boot of the machine the monotonic clock shows the jump, and another restart does not accept it."""
    clock = FakeClock()
    with Cluster(conf=NARROW + PATIENT, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        before = next_id(cluster)
        cluster.stop(mode)
        clock.step(seconds)
        cluster.start()
        assert_jump_refused(cluster)
        cluster.restart(mode)
        assert_jump_refused(cluster)
        clock.put_right()
        after = next_id(cluster)
        assert after > before
        assert_not_far_ahead(cluster, after)


def test_a_step_that_is_allowed_is_trusted() -> None:
    with stepped(9 * MINUTE, NARROW + IMPATIENT) as (cluster, _, before):
        after = next_id(cluster)
        assert time_of(cluster, after) - time_of(cluster, before) >= 9 * MINUTE * 1000
        cluster.wait_for_log(SET_FORWARD)


def test_steps_that_are_allowed_do_not_add_up_to_a_jump() -> None:
    with stepped(9 * MINUTE, NARROW + IMPATIENT) as (cluster, clock, before):
        given = [before, next_id(cluster)]
        for _ in range(2):
            clock.step(9 * MINUTE)
            given.append(next_id(cluster))
        assert given == sorted(set(given))


def test_a_clock_that_stands_still() -> None:
    """IDs use up the lead, then they are refused; once the clock runs, they go on. UUIDs do not care."""
    clock = FakeClock()
    with Cluster(conf=NARROW + "id_gen.max_lead = '100ms'", clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        clock.freeze()
        given = [next_id(cluster), run_ahead(cluster, 50), next_id(cluster)]
        assert refusal(cluster, array_of(200)).sqlstate == TOO_FAR_AHEAD
        given.append(next_id(cluster))
        # That was of the tick that bulk requests leave; now there is less than they have taken.
        change(cluster, "max_lead", "50ms")
        cluster.poll_until("SELECT max_lead = interval '50 ms' FROM id_gen_status()")
        assert refusal(cluster).sqlstate == TOO_FAR_AHEAD
        with Caller(cluster) as caller:
            uuids = [caller.ask("SELECT public.uuidv7()") for _ in range(1000)]
        assert uuids == sorted(set(uuids))
        clock.put_right()
        given.append(next_id(cluster))
        assert given == sorted(set(given))


def test_a_slow_drift_is_no_step() -> None:
    """As while a leap second is smeared: the two clocks part by more than a step is, but never between two readings."""
    clock = FakeClock()
    clock.drift(FAST)
    with Cluster(conf=NARROW + IMPATIENT, clock=clock) as cluster, Caller(cluster) as caller:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [caller.ask()]
        began_ms = caller.ask("SELECT extract(epoch FROM clock_timestamp())::float8 * 1000")
        began = time.monotonic()

        def drifted_far() -> bool:
            given.append(caller.ask())
            now_ms = caller.ask("SELECT extract(epoch FROM clock_timestamp())::float8 * 1000")
            return now_ms - began_ms - (time.monotonic() - began) * 1000 > 2 * STEP_MS

        cluster.wait_until(drifted_far, "drifting")
        assert given == sorted(set(given))
        assert "the clock was set" not in cluster.log()
