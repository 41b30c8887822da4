"""The file of the reservation is always ahead of all IDs, and trouble with it ends in a refusal that says what to do.

Whatever is wrong with it, the server starts, and what makes no snowflakes works.
"""

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import Cluster, SqlError
from harness.ids import (
    NARROW,
    PATIENT,
    PER_MS,
    Caller,
    array_of,
    assert_rest_works,
    change,
    next_id,
    refusal,
    run_ahead,
    time_of,
)
from harness.reservation import PAGE, Reservation

OWNER_ONLY = 0o600
OWNER_ONLY_DIRECTORY = 0o700
NOBODY = 0

LOST = "58P01"
DAMAGED = "XX001"
UNREADABLE = "42501"
OTHER_SYSTEM = "55000"

# What is added to the latest known time when nothing else of the past is known: id_gen.max_lead and 3 s.
ANEW_MS = 5_000 + 3_000
RESET = "SELECT id_gen_reservation_reset(above => {above})"
# Until it is canceled.
REFUSED_AGAIN_AND_AGAIN = """
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM snowflake_next();
        EXCEPTION WHEN data_corrupted THEN
        END;
    END LOOP;
END
$$
"""


@contextmanager
def stopped_after_ids() -> Iterator[tuple[Cluster, Reservation, int]]:
    """A server that has given IDs ahead of its clock and is down; the last of them."""
    with Cluster(conf=NARROW + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        last = run_ahead(cluster, 4_000)
        cluster.stop("immediate")
        yield cluster, Reservation(cluster), last


def refuse_everywhere(cluster: Cluster, sqlstate: str) -> SqlError:
    """Every way of asking is refused alike, the rest works, and a keeper says what is wrong once."""
    first = refusal(cluster)
    for sql in (array_of(1), "SELECT snowflake_next_batch(1)"):
        error = refusal(cluster, sql)
        assert (error.sqlstate, error.message) == (first.sqlstate, first.message)
    assert first.sqlstate == sqlstate
    assert first.message and first.hint
    assert_rest_works(cluster)
    assert_keeper_logs_once(cluster, first.message)
    return first


def assert_keeper_logs_once(cluster: Cluster, message: str, rounds: int = 3) -> None:
    line = f"LOG:  {re.escape(message)}"
    cluster.wait_for_log(line)
    wait_for_keeper_rounds(cluster, rounds)
    log_of_this_run = cluster.log().rpartition("LOG:  starting PostgreSQL")[2]
    assert len(re.findall(line, log_of_this_run)) == 1


def wait_for_keeper_rounds(cluster: Cluster, rounds: int) -> None:
    """The keeper runs after every reload, and logs that the layout waits for a restart."""
    line = 'LOG:  parameter "id_gen.layout" takes effect'
    cluster.psql("ALTER SYSTEM SET id_gen.layout = 'wide'")
    for _ in range(rounds + 1):
        began = cluster.log_position
        cluster.reload()
        cluster.wait_for_log(line, began)
    cluster.psql("ALTER SYSTEM RESET id_gen.layout")


def assert_goes_on_above(cluster: Cluster, last: int) -> None:
    """IDs are above, and again after a crash: the file is a good one once more."""
    after = next_id(cluster)
    assert after > last
    cluster.restart("immediate")
    assert next_id(cluster) > after


def test_it_is_ahead_of_every_id_given() -> None:
    with Cluster(conf=NARROW) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        reservation = Reservation(cluster)
        for _ in range(9):
            last = run_ahead(cluster, 500)
            assert time_of(cluster, last) < reservation.until_ms


def test_it_belongs_to_the_server_alone() -> None:
    with Cluster(conf=NARROW) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        reservation = Reservation(cluster)
        owner = cluster.data.stat().st_uid
        for path, mode in (
            (reservation.directory, OWNER_ONLY_DIRECTORY),
            (reservation.file, OWNER_ONLY),
            (reservation.marker, OWNER_ONLY),
        ):
            assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (owner, mode)


def test_lost_on_a_server_that_has_issued() -> None:
    with stopped_after_ids() as (cluster, reservation, last):
        reservation.file.unlink()
        cluster.start()
        error = refuse_everywhere(cluster, LOST)
        assert "id_gen_reservation_reset" in (error.hint or "")
        cluster.psql(RESET.format(above=f"snowflake_timestamp({last})"))
        assert_goes_on_above(cluster, last)


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    with stopped_after_ids() as (cluster, reservation, last):
        good = reservation.file.read_bytes()
        cuts = [good[:length] for length in range(len(good))]
        flips = [
            good[:byte] + bytes([good[byte] ^ 1 << bit]) + good[byte + 1 :]
            for byte in range(len(good))
            for bit in range(8)
        ]
        # The checksum in capitals is the same checksum.
        damaged = [content for content in cuts + flips if content.lower() != good]
        reservation.overwrite(damaged[0])
        cluster.start()
        refuse_everywhere(cluster, DAMAGED)
        with Caller(cluster) as caller:
            for content in damaged:
                reservation.overwrite(content)
                error = caller.begin().exception()
                assert getattr(error, "sqlstate", None) == DAMAGED, f"{content!r} gave {error!r}"
        reservation.overwrite(good)
        assert_goes_on_above(cluster, last)


def test_the_keeper_logs_it_once_also_while_sessions_read_it() -> None:
    """A round in which a session does the keeper's work is no round without trouble."""
    with stopped_after_ids() as (cluster, reservation, _):
        reservation.overwrite(b"")
        cluster.start()
        error = refusal(cluster)
        assert error.message and (error.detail or "").startswith("The file is empty. It records")
        with Caller(cluster) as one, Caller(cluster) as other:
            one.begin(REFUSED_AGAIN_AND_AGAIN)
            other.begin(REFUSED_AGAIN_AND_AGAIN)
            assert_keeper_logs_once(cluster, error.message, 20)


@pytest.mark.parametrize(
    ("changed", "sqlstate", "message"),
    [
        ({"id_gen": "reservation 2"}, DAMAGED, 'file "id_gen/reservation" is damaged'),
        ({"system": "1"}, OTHER_SYSTEM, "this data directory is a copy with the worker ID of its original"),
    ],
    ids=["another version", "another cluster"],
)
def test_not_written_by_this_server(changed: dict[str, str], sqlstate: str, message: str) -> None:
    with stopped_after_ids() as (cluster, reservation, last):
        reservation.forge(**changed)
        cluster.start()
        assert refuse_everywhere(cluster, sqlstate).message == message
        cluster.psql(RESET.format(above=f"snowflake_timestamp({last})"))
        assert_goes_on_above(cluster, last)


def test_unreadable_until_it_is_readable_again() -> None:
    with stopped_after_ids() as (cluster, reservation, last):
        reservation.file.chmod(NOBODY)
        cluster.start()
        refuse_everywhere(cluster, UNREADABLE)
        reservation.file.chmod(OWNER_ONLY)
        assert_goes_on_above(cluster, last)


def test_a_directory_in_its_place() -> None:
    with stopped_after_ids() as (cluster, reservation, last):
        beside = reservation.file.with_name("beside")
        reservation.file.rename(beside)
        reservation.file.mkdir()
        shutil.chown(reservation.file, beside.owner(), beside.group())
        cluster.start()
        error = refusal(cluster)
        assert error.message == 'could not read file "id_gen/reservation": Is a directory'
        assert error.hint == "Remove or rename that directory, and restore the file; then call again."
        reservation.file.rmdir()
        beside.rename(reservation.file)
        assert_goes_on_above(cluster, last)


@pytest.mark.parametrize("above_ms", [0, 2 * ANEW_MS])
def test_a_reset_begins_above_the_clock_and_above_a_time(above_ms: int) -> None:
    """`above` is relative to now: far below what the clock asks for, and above it."""
    with stopped_after_ids() as (cluster, reservation, _):
        reservation.overwrite(b"")
        cluster.start()
        refusal(cluster)
        now_ms = int(time.time() * 1000)
        cluster.psql(RESET.format(above=f"to_timestamp({(now_ms + above_ms) / 1000})"))
        change(cluster, "max_lead", "1min")
        assert time_of(cluster, next_id(cluster)) >= now_ms + max(above_ms, ANEW_MS)


@pytest.mark.parametrize(("trouble", "sqlstate"), [("disk_full", "53100"), ("read_only", "42501")])
def test_ids_go_on_while_it_can_not_be_written_as_far_as_it_reaches(trouble: str, sqlstate: str) -> None:
    with Cluster(conf=NARROW) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        reservation = Reservation(cluster)
        given = [next_id(cluster)]
        with getattr(reservation, trouble)():
            reserved = reservation.until_ms
            given += [run_ahead(cluster, 1_000), next_id(cluster)]
            assert refusal(cluster, array_of(4_000)).sqlstate == sqlstate
            error = refuse_everywhere(cluster, sqlstate)
            assert (error.message or "").startswith('could not write file "id_gen/reservation"')
            assert reservation.until_ms == reserved
        given.append(next_id(cluster))
        assert given == sorted(set(given))
        assert reservation.until_ms > reserved


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize(("trouble", "sqlstate"), [("disk_full", "53100"), ("read_only", "42501")])
def test_a_restart_while_it_can_not_be_written(trouble: str, sqlstate: str, mode: str) -> None:
    with Cluster(conf=NARROW + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        last = run_ahead(cluster, 2_000)
        with getattr(Reservation(cluster), trouble)():
            cluster.restart(mode)
            refuse_everywhere(cluster, sqlstate)
        assert_goes_on_above(cluster, last)


def test_no_id_before_the_first_one_is_written() -> None:
    """Not even the first ID of a server goes out before its reservation is on disk."""
    with stopped_after_ids() as (cluster, reservation, _):
        # It replays the bound, if that was logged since the last checkpoint, and stops cleanly.
        cluster.start()
        cluster.stop()
        for file in (reservation.file, reservation.marker, cluster.data / PAGE):
            file.unlink(missing_ok=True)
        with reservation.read_only():
            cluster.start()
            refuse_everywhere(cluster, UNREADABLE)
            assert not reservation.file.exists()
        next_id(cluster)
        assert reservation.file.exists() and reservation.marker.exists()


def test_what_one_array_takes_may_pass_several_reservations() -> None:
    """More IDs at once than are ever reserved: the claim extends the reservation itself, as often as it must."""
    with Cluster(conf=NARROW + "id_gen.max_lead = '20s'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        ids = 12_000 * PER_MS
        assert cluster.psql(f"SELECT count(DISTINCT id) FROM unnest(snowflake_next_array({ids})) id") == str(ids)
