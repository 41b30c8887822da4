"""The bound of the reservation reaches standbys with the write-ahead log, whatever they know of the extension.

Where the clocks of two servers tell too little: they were set back, and the standby allows a smaller lead than the
primary did. What the primary gave is committed and replayed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import GENERATING, PRELOAD, PRELOADED, Cluster, FakeClock, Server
from harness.checks import checks
from harness.ids import (
    PATIENT,
    TOO_FAR_AHEAD,
    await_refusal,
    await_round,
    change,
    first_id,
    next_id,
    refusal,
    time_of,
)
from harness.reservation import PAGE, Reservation

pytestmark = pytest.mark.every_version("the format of WAL records and of pages differs")

HOUR = 3_600
FAR = "id_gen.max_lead = '2h'\n"
NEAR = "id_gen.max_lead = '5s'\n"
# A standby that can't hold anything of logical replication, and does not know the extension.
BARE = "shared_preload_libraries = ''\nmax_replication_slots = 0\n"
# Where the bytes of `pg::logged_page` begin in its page.
CHECKSUM = 8
CONTENT = 24
DATA_CORRUPTED = "XX001"


def commit_id(primary: Cluster, standby: Cluster) -> int:
    """An ID in a row that the standby has replayed."""
    given = int(primary.psql("INSERT INTO item VALUES (snowflake_next()) RETURNING id"))
    # With its clock set back, an idle primary may leave its last record unflushed, so the standby lacks the end of it.
    standby.poll_until(f"SELECT count(*) FROM item WHERE id = {given}", expected="1")
    return given


@contextmanager
def pair(standby_conf: str, *initdb: str) -> Iterator[tuple[Cluster, Cluster, int]]:
    """A primary whose clock was set back by an hour, its standby, and an ID that the primary has given since."""
    clocks = (FakeClock(), FakeClock())
    with Cluster("primary", conf=GENERATING + FAR, clock=clocks[0], initdb=initdb) as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        next_id(primary)
        with Cluster("standby", standby_of=primary, conf=standby_conf, clock=clocks[1]) as standby:
            copied_ms = Reservation(standby).until_ms
            primary.wait_until(
                lambda: time_of(primary, next_id(primary)) > copied_ms, "past what the standby's file says"
            )
            for clock in clocks:
                clock.step(-HOUR)
            yield primary, standby, commit_id(primary, standby)


def test_a_promoted_standby_with_the_layout_of_before_is_refused() -> None:
    """Its IDs would lie below those of the primary, whose layout has an earlier epoch."""
    earlier = "id_gen.layout = 'epoch=2020-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12'"
    with Cluster("primary", conf=f"{GENERATING}{earlier}\n") as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        with Cluster("standby", standby_of=primary, conf="id_gen.layout = 'default'\n") as standby:
            given = commit_id(primary, standby)
            promote(primary, standby)
            error = refusal(standby)
            assert error.sqlstate == "55000"
            assert error.message == "id_gen.layout was changed to one with lower snowflakes"
            standby.psql(f"ALTER SYSTEM SET {earlier}")
            standby.restart()
            assert first_id(standby) > given


def promote(primary: Cluster, standby: Cluster) -> None:
    primary.stop("immediate")
    standby.promote()


def stop_both(primary: Cluster, standby: Cluster) -> None:
    """The standby has replayed all of its primary, so that no later start writes the page of the bound again."""
    primary.stop()
    standby.poll_until("SELECT pg_last_wal_replay_lsn() = pg_last_wal_receive_lsn()")
    standby.stop()


def assert_above(server: Cluster, given: int) -> None:
    """It refuses to lead its clock by more than its setting; with a larger one, it goes on above that ID."""
    await_refusal(server, TOO_FAR_AHEAD)
    change(server, "max_lead", "2h")
    assert first_id(server) > given


def test_a_promoted_standby_begins_above_ids_that_led_all_clocks() -> None:
    with pair(NEAR) as (primary, standby, given):
        promote(primary, standby)
        assert_above(standby, given)
        last = next_id(standby)
        standby.kill9()
        standby.start()
        assert next_id(standby) > last


@pytest.mark.parametrize(
    "promoted_bare", [True, False], ids=["promoted without it", "restarted with it, then promoted"]
)
def test_a_standby_without_the_library_keeps_the_bound(promoted_bare: bool) -> None:
    with pair(NEAR + BARE) as (primary, standby, _):
        standby.restart("immediate")
        given = commit_id(primary, standby)
        if promoted_bare:
            promote(primary, standby)
        standby.append_conf(PRELOAD if PRELOADED else "")
        standby.restart()
        if not promoted_bare:
            promote(primary, standby)
        assert_above(standby, given)


def test_a_rewound_primary_gets_the_bound_of_its_successor() -> None:
    with pair(FAR, "--data-checksums") as (primary, standby, _):
        primary.stop()
        standby.promote()
        first_id(standby)
        primary.rewind_to(standby)
        primary.append_conf(NEAR)
        primary.start()
        given = commit_id(standby, primary)
        promote(standby, primary)
        assert_above(primary, given)
        primary.stop()
        assert "Bad checksums:  0" in primary.run("pg_checksums", "--check", "-D", primary.data)


def test_a_rewound_primary_keeps_its_own_bound_although_its_page_is_older() -> None:
    """It has a page, of a crash. Its successor, which has no worker ID, writes nothing that could tell of the bound."""
    with Cluster("primary", conf=f"{GENERATING}{FAR}wal_log_hints = on\n") as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        next_id(primary)
        primary.psql("INSERT INTO item VALUES (1)")
        primary.kill9()
        primary.start()
        first_id(primary)
        assert (primary.data / PAGE).exists()
        with Cluster("standby", standby_of=primary, conf=f"{NEAR}id_gen.worker_id = -1\n") as standby:
            primary.psql("SELECT id_gen_reservation_reset(above => now() + '1 hour')")
            given = commit_id(primary, standby)
            await_round(primary)
            primary.psql("CHECKPOINT")
            await_round(primary)
            commit_id(primary, standby)
            standby.promote()
            standby.psql("CHECKPOINT; INSERT INTO item VALUES (2)")
            primary.psql("INSERT INTO item VALUES (3)")
            primary.kill9()
            primary.rewind_to(standby)
            primary.append_conf(f"{NEAR}id_gen.worker_id = 1\n")
            primary.start()
            promote(standby, primary)
            assert_above(primary, given)


def test_a_reset_reaches_standbys_too() -> None:
    with Cluster("primary", conf=GENERATING + PATIENT) as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        with Cluster("standby", standby_of=primary) as standby:
            primary.psql("SELECT id_gen_reservation_reset(above => now() + '1 year')")
            primary.psql("SELECT id_gen_reservation_reset(above => now())")
            given = commit_id(primary, standby)
            promote(primary, standby)
            assert 0 < time_of(standby, first_id(standby)) - time_of(standby, given) < 60_000


def test_what_a_server_replayed_of_its_own_does_not_bind_it() -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql("SELECT id_gen_reservation_reset(above => now() + '1 year')")
        cluster.kill9()
        cluster.start()
        cluster.psql("SELECT id_gen_reservation_reset(above => now())")
        last = next_id(cluster)
        cluster.restart()
        assert next_id(cluster) > last


def test_checksums_that_are_enabled_later_cover_it_too() -> None:
    """pg_checksums goes through all files, and a base backup verifies all."""
    without = ["--no-data-checksums"] if Server.from_environment().version >= 18 else []
    with pair(NEAR, *without) as (primary, standby, given):
        stop_both(primary, standby)
        standby.run("pg_checksums", "--enable", "-D", standby.data)
        standby.start()
        with Cluster("copy", standby_of=standby):
            pass
        standby.promote()
        assert_above(standby, given)
        standby.stop()
        assert "Bad checksums:  0" in standby.run("pg_checksums", "--check", "-D", standby.data)
        assert "invalid page" not in standby.log()


def test_a_bound_whose_checksum_is_wrong_is_read() -> None:
    """Its content has its own."""
    with pair(NEAR, "--data-checksums") as (primary, standby, given):
        stop_both(primary, standby)
        with (standby.data / PAGE).open("r+b") as file:
            file.seek(CHECKSUM)
            checksum = file.read(2)
            file.seek(CHECKSUM)
            file.write(bytes(byte ^ 0xFF for byte in checksum))
        standby.start()
        standby.promote()
        assert_above(standby, given)


@pytest.mark.parametrize("emptied", [False, True])
def test_a_damaged_bound_is_not_guessed(emptied: bool) -> None:
    with pair(NEAR) as (primary, standby, _):
        stop_both(primary, standby)
        with (standby.data / PAGE).open("r+b") as file:
            if emptied:
                file.truncate()
            file.seek(CONTENT)
            file.write(b"" if emptied else b"\xff" * 20)
        standby.start()
        standby.promote()
        error = refusal(standby)
        assert error.sqlstate == DATA_CORRUPTED
        assert PAGE in str(error.message)
        assert error.hint is not None and "id_gen_reservation_reset(above => now())" in error.hint
        assert error.hint.startswith("If this server is a copy of another one, first change its worker ID.")
        standby.psql("SELECT id_gen_reservation_reset(above => now())")
        last = first_id(standby)
        standby.restart("immediate")
        assert first_id(standby) > last


def test_a_bound_that_can_not_be_read_is_named_by_the_check() -> None:
    with pair(NEAR) as (primary, standby, given):
        stop_both(primary, standby)
        file = standby.data / PAGE
        mode = file.stat().st_mode
        standby.start()
        file.chmod(0)
        standby.promote()
        error = refusal(standby)
        assert (error.sqlstate, PAGE in str(error.message)) == ("42501", True)
        assert str(error.message) in checks(standby)["reservation"].found
        file.chmod(mode)
        assert_above(standby, given)


@pytest.mark.parametrize("wal_level", ["minimal", "replica", "logical"])
def test_nothing_but_the_log_shows_it(wal_level: str) -> None:
    conf = f"wal_level = {wal_level}\nmax_wal_senders = {0 if wal_level == 'minimal' else 10}\n"
    with Cluster(conf=GENERATING + conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        last = next_id(cluster)
        assert not (cluster.data / PAGE).exists()
        # So that what is logged is on disk.
        cluster.psql("CREATE TABLE item (id bigint); DROP TABLE item")
        cluster.restart("immediate")
        assert (cluster.data / PAGE).exists() == (wal_level != "minimal")
        assert next_id(cluster) > last
        assert cluster.psql("SELECT count(*) FROM pg_class WHERE pg_relation_filenode(oid) = 8473") == "0"
        assert cluster.psql("SELECT count(*) FROM pg_replication_origin") == "0"
