"""An incident is logged once, and from time to time while it lasts, however many calls it concerns."""

import re
from pathlib import Path

import psycopg
import pytest

from harness import Cluster, FakeClock, SqlError
from harness.cluster import PRELOAD
from harness.ids import IMPATIENT, NARROW, NEXT, next_id, stepped
from harness.shim import compiled

FOREIGN_ERROR = Path(__file__).with_name("foreign_error.c")
# The source file that our errors come from, as PostgreSQL reports it.
OUR_FILE = Path(__file__).parents[2] / "base/src/error/fields.rs"
CALLS = 20_000
REFUSED = re.compile(r"ERROR:  no snowflake is available yet")
STEP = re.compile(r"LOG:  id_gen: the clock was set")

STORM = f"""
DO $$
BEGIN
    FOR i IN 1..{CALLS} LOOP
        BEGIN
            PERFORM snowflake_next();
        EXCEPTION WHEN configuration_limit_exceeded THEN
        END;
    END LOOP;
END $$
"""


@pytest.mark.long
def test_a_storm_of_refusals_writes_a_bounded_log() -> None:
    """Each call is a statement of its own, so PostgreSQL by itself would write a line or more for each."""
    with stepped(-3600, NARROW + IMPATIENT) as (cluster, _, _), cluster.connect() as connection:
        began = cluster.log_position
        for _ in range(CALLS):
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                connection.execute(NEXT)
        # Every client got its error, and each is counted.
        assert cluster.psql("SELECT refused_lead FROM id_gen_stat") == str(CALLS)
        log = cluster.log(began)
        lines = len(REFUSED.findall(log))
        assert lines >= 1
        # One every 10 s, however long this took.
        seconds = float(cluster.psql("SELECT extract(epoch FROM clock_timestamp() - stats_reset) FROM id_gen_stat"))
        assert lines <= (seconds + 3600) / 10 + 1
        assert len(log) < 100_000
        # How many were suppressed is logged, by the next line or when refusals have ended.
        suppressed = sum(int(count) for count in re.findall(r"(\d+) more (?:like it|refusals) were not logged", log))
        assert suppressed + lines <= CALLS


def test_other_errors_are_all_logged() -> None:
    """Also after refusals that a function has caught, which reach no log."""
    with stepped(-3600, NARROW + IMPATIENT) as (cluster, _, _), cluster.connect() as connection:
        connection.execute(STORM)
        began = cluster.log_position
        for _ in range(5):
            with pytest.raises(psycopg.errors.NumericValueOutOfRange):
                connection.execute("SELECT snowflake_timestamp(-1)")
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute("SELECT 1 / 0")
        log = cluster.log(began)
        assert log.count("ERROR:  snowflake -1 is out of range") == 5
        assert log.count("ERROR:  division by zero") == 5


def test_an_error_of_another_library_is_logged_whatever_was_caught_before() -> None:
    with Cluster(conf=PRELOAD) as cluster:
        include = f"-I{cluster.server.directory('includedir-server')}"
        library = compiled(FOREIGN_ERROR, include, f'-DFILE_NAME="{OUR_FILE.name}"')
        cluster.psql(f"""
            CREATE EXTENSION id_gen;
            CREATE FUNCTION raise_error() RETURNS void AS '{library}' LANGUAGE c""")
        with pytest.raises(SqlError):
            cluster.psql(NEXT)
        with cluster.connect() as connection:
            connection.execute(f"DO $$ BEGIN PERFORM ({NEXT}); EXCEPTION WHEN OTHERS THEN NULL; END $$")
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT raise_error()")
        cluster.wait_for_log("ERROR:  an error of another library")


@pytest.mark.long
def test_what_was_held_back_is_told_when_the_storm_has_passed() -> None:
    with stepped(-3600, NARROW + IMPATIENT) as (cluster, clock, _before), cluster.connect() as connection:
        for _ in range(100):
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                connection.execute(NEXT)
        clock.put_right()
        cluster.poll_until("SELECT clock_steps_forward > 0 FROM id_gen_stat")
        clock.step(-1)
        cluster.poll_until("SELECT clock_steps_back > 1 FROM id_gen_stat")
        cluster.wait_for_log(r"LOG:  id_gen: 99 more errors not logged individually: lead over the clock")
        # Steps in both directions are told, too.
        cluster.wait_for_log(
            r"LOG:  id_gen: the clock was set back by [\d a-z]+ and forward by [\d a-z]+, in \d+ steps"
        )


def test_a_clock_that_is_set_again_and_again_writes_a_line_every_ten_seconds() -> None:
    clock = FakeClock()
    with Cluster(conf=NARROW, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        for _ in range(20):
            next_id(cluster)
            clock.step(-0.1)
        next_id(cluster)
        steps = int(cluster.psql("SELECT clock_steps_back FROM id_gen_stat"))
        logged = len(STEP.findall(cluster.log()))
        assert steps >= 15
        assert 1 <= logged <= 3
