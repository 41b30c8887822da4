"""The clock is set back while the server runs: IDs go on above the old ones, or wait, or are refused; never below."""

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
    answer_of,
    array_of,
    assert_rest_works,
    change,
    error_of,
    first_id,
    next_id,
    refusal,
    stepped,
)

SET_BACK = r"id_gen: the clock was set back by (?:(\d+) s ?)?(?:(\d+) ms)?"
# More than the time between reading one clock and the other, as the extension sees it.
NOISE_MS = 10

MINUTE = 60
HOUR = 3600
DAY = 24 * HOUR

CANCELED = "57014"
TERMINATED = "57P01"


def logged_steps(cluster: Cluster) -> list[int]:
    return [int(s or 0) * 1000 + int(ms or 0) for s, ms in re.findall(SET_BACK, cluster.log())]


@pytest.mark.parametrize("seconds", [0.05, 3])
def test_within_the_lead_ids_go_on_at_once(seconds: float) -> None:
    with stepped(-seconds, NARROW + IMPATIENT) as (cluster, _, before):
        after = [next_id(cluster) for _ in range(3)]
        assert [before, *after] == sorted({before, *after})
        # Without a keeper only claims compare the clocks, and not each of them.
        cluster.wait_until(lambda: next_id(cluster) and logged_steps(cluster), "logging the step")
        (logged,) = logged_steps(cluster)
        assert abs(logged - seconds * 1000) < NOISE_MS


@pytest.mark.parametrize("seconds", [MINUTE, HOUR])
def test_beyond_the_lead_ids_are_refused_until_the_clock_is_right(seconds: float) -> None:
    with stepped(-seconds, NARROW + IMPATIENT) as (cluster, clock, before):
        for sql in (NEXT, array_of(1), "SELECT snowflake_next_batch(1)"):
            assert refusal(cluster, sql).sqlstate == TOO_FAR_AHEAD
        assert_rest_works(cluster)
        clock.put_right()
        assert next_id(cluster) > before


@pytest.mark.parametrize("seconds", [MINUTE, DAY - MINUTE, DAY + MINUTE])
def test_the_hint_leads_out(seconds: float) -> None:
    """What the HINT says to type lets IDs go on; a lead that can't be allowed is for a superuser to decide."""
    with stepped(-seconds, NARROW + IMPATIENT) as (cluster, _, before):
        hint = refusal(cluster).hint or ""
        # Nobody is told to wait for more than a day.
        wait = r"Wait \d+ \w+( \d+ \w+)*\. " if seconds < DAY else ""
        assert re.match(f"{wait}If the clock was set back, correct it", hint)
        _, found, command = hint.partition("ALTER SYSTEM")
        assert bool(found) == (seconds < DAY) != ("a superuser can reset the reservation" in hint)
        if found:
            cluster.psql(found + command)
            assert first_id(cluster) > before


def test_a_short_wait_ends_when_the_clock_has_caught_up() -> None:
    with stepped(-6, NARROW + PATIENT) as (cluster, _, before), Caller(cluster) as caller:
        assert answer_of(caller.begin_wait()) > before


def test_a_wait_ends_when_the_clock_is_put_right() -> None:
    with stepped(-HOUR, NARROW + PATIENT) as (cluster, clock, before), Caller(cluster) as caller:
        waiting = caller.begin_wait()
        clock.put_right()
        assert answer_of(waiting) > before


def test_a_wait_is_interrupted_at_once() -> None:
    with stepped(-HOUR, NARROW + PATIENT) as (cluster, _, _), Caller(cluster) as caller:
        waiting = caller.begin_wait()
        cluster.psql(f"SELECT pg_cancel_backend({caller.pid})")
        assert error_of(waiting).sqlstate == CANCELED

        caller.ask("SELECT set_config('statement_timeout', '200ms', false)")
        assert error_of(caller.begin()).sqlstate == CANCELED
        caller.ask("SELECT set_config('statement_timeout', '0', false)")

        waiting = caller.begin_wait()
        cluster.psql(f"SELECT pg_terminate_backend({caller.pid})")
        assert error_of(waiting).sqlstate == TERMINATED


def test_a_wait_does_not_hold_up_a_shutdown() -> None:
    with stepped(-HOUR, NARROW + PATIENT) as (cluster, _, _), Caller(cluster) as caller:
        waiting = caller.begin_wait()
        cluster.stop("fast")
        assert error_of(waiting).sqlstate == TERMINATED


def test_a_wait_holds_no_lock() -> None:
    """Others get as far as their own wait, are let on by a larger lead, and need no clock for the rest."""
    with (
        stepped(-MINUTE, NARROW + PATIENT) as (cluster, _, before),
        Caller(cluster) as first,
        Caller(cluster) as second,
    ):
        waiting = [first.begin_wait(), second.begin_wait()]
        assert_rest_works(cluster)
        change(cluster, "max_lead", "2min")
        assert first_id(cluster) > before
        given = [answer_of(call) for call in waiting]
        assert len({before, *given}) == 3
        assert min(given) > before


def test_many_steps_are_logged_in_one_line() -> None:
    """Each is seen by the claim that follows it; the log gets the first at once, and one line in ten seconds."""
    began = time.monotonic()
    with stepped(-1, NARROW) as (cluster, clock, _):
        next_id(cluster)
        for _ in range(3):
            clock.step(-1)
            next_id(cluster)
        logged = logged_steps(cluster)
        assert time.monotonic() - began < 10, "this machine is too slow for the test to mean anything"
        assert len(logged) == 1


def test_uuids_of_a_session_keep_rising() -> None:
    clock = FakeClock()
    with Cluster(conf=NARROW, clock=clock) as cluster, Caller(cluster) as caller:
        cluster.psql("CREATE EXTENSION id_gen")
        given = []
        for seconds in (0, -0.05, -3, -MINUTE, -HOUR, HOUR, -30 * 365 * 24 * HOUR):
            clock.step(seconds)
            given += [caller.ask("SELECT public.uuidv7()") for _ in range(3)]
        assert given == sorted(set(given))
