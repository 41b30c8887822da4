"""A copy of a data directory with the worker ID of its original: refused until somebody says which of them is in use.

And whatever is started from an older file and a newer log begins above both.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from harness import GENERATING, Cluster, SqlError
from harness.checks import checks, wait_for
from harness.ids import (
    NARROW,
    NEXT,
    PATIENT,
    PER_MS,
    TOO_FAR_AHEAD,
    assert_rest_works,
    change,
    first_id,
    next_id,
    refusal,
    run_ahead,
)
from harness.reservation import Reservation
from harness.shim import compiled, preloading

NO_CREATION_TIME = Path(__file__).with_name("no_creation_time.c")

FAR = "id_gen.max_lead = '2h'\n"
NEAR = "id_gen.max_lead = '5s'\n"
HOUR_AHEAD = "SELECT id_gen_reset_reservation(above => now() + '1 hour')"
ACCEPT = "SELECT id_gen_accept_copy(is_only_one => true)"
REFUSED = "this data directory is a copy with the worker ID of its original"
LEAD_MS = 1_000


def assert_is_refused_as_copy(cluster: Cluster) -> SqlError:
    """Every call and the check say so, and both ways out are commands."""
    error = refusal(cluster)
    assert (error.sqlstate, error.message) == ("55000", REFUSED)
    assert "ALTER SYSTEM SET id_gen.worker_id = <worker ID>;" in (error.hint or "")
    assert f"{ACCEPT};" in (error.hint or "")
    check = checks(cluster)["reservation"]
    assert check.status == "error"
    assert check.found.startswith(REFUSED)
    return error


@contextmanager
def replaced_by_a_copy() -> Iterator[tuple[Cluster, int]]:
    """A server that is gone, and a copy that was not started yet: its file is older than its log.

    So it is in a base backup that reads the file first. The original's last ID is committed, and an hour ahead of what
    the file says, of all clocks, and of the last commit.
    """
    with ExitStack() as stack:
        original = stack.enter_context(Cluster("original", conf=GENERATING + FAR))
        original.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        next_id(original)
        older = Reservation(original).file.read_bytes()
        original.psql(HOUR_AHEAD)
        given = int(original.psql("INSERT INTO item VALUES (snowflake_next()) RETURNING id"))
        copy = Cluster("copy", clone_of=original, conf=NEAR)
        stack.push(copy)
        copy.init()
        original.stop("immediate")
        Reservation(copy).overwrite(older)
        yield copy, given


def assert_begins_above(copy: Cluster, given: int) -> None:
    assert refusal(copy).sqlstate == TOO_FAR_AHEAD
    change(copy, "max_lead", "2h")
    last = first_id(copy)
    assert last > given
    copy.restart("immediate")
    assert next_id(copy) > last


def test_the_only_copy_begins_above_what_it_replayed() -> None:
    with replaced_by_a_copy() as (copy, given):
        copy.start()
        assert_is_refused_as_copy(copy)
        copy.psql(ACCEPT)
        assert_begins_above(copy, given)


def test_a_file_of_an_older_version_is_not_refused_and_takes_precedence_over_no_log() -> None:
    with replaced_by_a_copy() as (copy, given):
        reservation = Reservation(copy)
        reservation.forge_version_3()
        copy.start()
        assert_begins_above(copy, given)
        assert reservation.fields["inode"] == str(reservation.directory.stat().st_ino)


def test_what_a_superuser_accepted_below_the_log_is_kept_over_crashes() -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        cluster.psql(HOUR_AHEAD)
        # The bound is durable in the log.
        cluster.psql("INSERT INTO item VALUES (1)")
        cluster.psql("SELECT id_gen_reset_reservation(above => now())")
        cluster.kill9()
        cluster.start()
        last = next_id(cluster)
        cluster.restart()
        assert next_id(cluster) > last


@pytest.mark.parametrize("made", ["clone_of", "copy_of"], ids=["a copy of its files", "a base backup"])
def test_a_copy_beside_its_original_is_refused_until_it_has_another_worker_id(made: str) -> None:
    take = f"SELECT unnest(snowflake_next_array({LEAD_MS * PER_MS}))"
    with Cluster("original", conf=NARROW + PATIENT) as original:
        original.psql("CREATE EXTENSION id_gen")
        before = run_ahead(original, LEAD_MS)
        with Cluster("copy", **{made: original}) as copy:
            assert_is_refused_as_copy(copy)
            assert_rest_works(copy)
            copy.restart()
            assert_is_refused_as_copy(copy)
            change(copy, "worker_id", 2)
            copy.poll_until("SELECT worker_id FROM snowflake_parse(snowflake_next())", expected="2")
            assert wait_for(copy, "reservation", "ok")
            assert next_id(copy) > before
            of_both = [set(cluster.psql(take).split()) for cluster in (original, copy)]
            assert not of_both[0] & of_both[1]
            # From now on the directory is its own.
            copy.restart("immediate")
            assert next_id(copy) > before


def test_without_creation_times_the_inode_number_decides_and_the_check_says_so() -> None:
    env = preloading(compiled(NO_CREATION_TIME))
    with Cluster("original", conf=GENERATING, env=env) as original:
        original.psql("CREATE EXTENSION id_gen")
        last = next_id(original)
        assert Reservation(original).fields["created"] == "none"
        check = checks(original)["reservation"]
        assert check.status == "ok"
        assert "by its inode number only" in check.found
        with Cluster("copy", clone_of=original, env=env) as copy:
            assert_is_refused_as_copy(copy)
        original.restart()
        assert next_id(original) > last


def test_a_directory_that_was_renamed_is_the_same_and_one_that_was_copied_elsewhere_is_not() -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; VACUUM FULL")
        last = next_id(cluster)
        cluster.stop()
        cluster.data = cluster.data.rename(cluster.base / "renamed")
        cluster.start()
        after = next_id(cluster)
        assert after > last
        cluster.stop()
        elsewhere = cluster.base / "elsewhere"
        subprocess.run(["cp", "-a", cluster.data, elsewhere], check=True)
        shutil.rmtree(cluster.data)
        cluster.data = elsewhere
        cluster.start()
        assert_is_refused_as_copy(cluster)
        for no_confirmation in ("false", "NULL"):
            assert refusal(cluster, f"SELECT id_gen_accept_copy({no_confirmation})").sqlstate == "22023"
        assert refusal(cluster, NEXT).message == REFUSED
        cluster.psql(ACCEPT)
        last = next_id(cluster)
        assert last > after
        assert wait_for(cluster, "reservation", "ok")
        cluster.restart()
        assert next_id(cluster) > last
