"""A copy of a data directory with the worker ID of its original: refused until somebody says which of them is in use.

And whatever is started from an older file and a newer log begins above both.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from harness import GENERATING, PRELOAD, PRELOADED, Cluster, SqlError
from harness.checks import checks, wait_for
from harness.ids import (
    IMPATIENT,
    NARROW,
    NEXT,
    PATIENT,
    PER_MS,
    TOO_FAR_AHEAD,
    Caller,
    answer_of,
    assert_rest_works,
    await_refusal,
    await_round,
    change,
    first_given,
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
HOUR_AHEAD = "SELECT id_gen_reservation_reset(above => now() + '1 hour')"
ACCEPT = "SELECT id_gen_copy_accept(is_only_one => true)"
RESET = "SELECT id_gen_reservation_reset(above => now())"
DISK_FULL = "53100"
REFUSED = "this data directory is a copy with the worker ID of its original"
REFUSED_AS_POSSIBLE = "this data directory is a copy, and may have the worker ID of its original"
LEAD_MS = 1_000
OTHER_LAYOUT = "epoch=2026-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:6"


def assert_is_refused_as_copy(cluster: Cluster) -> SqlError:
    """Every call and the check say so, and both ways out are commands."""
    # Of a worker ID that was changed just now, the keeper may not have read it.
    error = await_refusal(cluster, f"55000: {REFUSED}")
    assert "ALTER SYSTEM SET id_gen.worker_id = <worker ID>;" in (error.hint or "")
    assert f"{ACCEPT};" in (error.hint or "")
    assert [each.status for each in checks(cluster).values() if each.found.startswith(REFUSED)] == ["error"]
    return error


def start_without_signal_file(standby: Cluster) -> None:
    standby.stop()
    (standby.data / "standby.signal").unlink()
    standby.start()
    assert standby.psql("SELECT pg_is_in_recovery()") == "f"


def promote_again(server: Cluster) -> None:
    """Promotes a stopped server, which follows nobody."""
    signal_file = server.data / "standby.signal"
    signal_file.touch()
    shutil.chown(signal_file, server.data.owner(), server.data.group())
    server.start()
    server.promote()


def follow(standby: Cluster, primary: Cluster) -> None:
    standby.psql(f"ALTER SYSTEM SET primary_conninfo = '{primary.conninfo()}'")
    standby.restart()
    primary.wait_for_catchup(standby)


@contextmanager
def copied(conf: str = NARROW + PATIENT) -> Iterator[tuple[Cluster, Cluster]]:
    """A server that has generated, and a copy of its files."""
    with Cluster("original", conf=conf) as original:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        with Cluster("copy", clone_of=original) as copy:
            yield original, copy


@pytest.mark.parametrize("in_place", [True, False], ids=["written over", "copied beside and renamed"])
def test_a_reservation_of_earlier_is_refused(in_place: bool) -> None:
    """It is put back after a clean stop, when nothing else tells what was made since."""
    with Cluster("original", conf=GENERATING + FAR) as server:
        server.psql("CREATE EXTENSION id_gen")
        next_id(server)
        reservation = Reservation(server)
        older = reservation.file.read_bytes()
        server.psql(HOUR_AHEAD)
        last = next_id(server)
        server.stop()
        if in_place:
            reservation.overwrite(older)
        else:
            beside = reservation.file.with_name("beside")
            beside.write_bytes(older)
            shutil.chown(beside, reservation.file.owner(), reservation.file.group())
            beside.rename(reservation.file)
        server.start()
        error = refusal(server)
        assert (error.sqlstate, error.message) == ("55000", 'file "id_gen/reservation" was replaced by an older copy')
        assert "IDs generated after the copy was made could be generated again." in (error.detail or "")
        assert checks(server)["reservation"].status == "error"
        server.psql(f"SELECT id_gen_reservation_reset(above => snowflake_timestamp({last}) + '1 s')")
        assert first_id(server) > last
        server.restart()
        assert next_id(server) > last


def test_a_reservation_of_earlier_is_refused_also_with_another_worker_id() -> None:
    """It says nothing of the worker ID that the server has had since."""
    with Cluster("original", conf=NARROW + PATIENT) as server:
        server.psql("CREATE EXTENSION id_gen")
        next_id(server)
        reservation = Reservation(server)
        older = reservation.file.read_bytes()
        change(server, "worker_id", 2)
        server.poll_until("SELECT worker_id = 2 FROM id_gen_status()")
        last = run_ahead(server, LEAD_MS)
        server.stop()
        reservation.overwrite(older)
        server.start()
        error = refusal(server)
        assert error.message == 'file "id_gen/reservation" was replaced by an older copy'
        assert "id_gen.worker_id" not in (error.hint or "")
        server.psql(ACCEPT)
        assert first_id(server) > last


def test_a_backup_of_when_the_server_had_another_worker_id_starts_above() -> None:
    """The configuration lies outside of the data directory, and so is not put back with it."""
    number = "id_gen.worker_id = {}\n"
    conf = NARROW.replace(number.format(1), "") + PATIENT + "id_gen.max_lead = '60s'\n"
    with Cluster("original", conf=conf) as server:
        outside = server.base / "outside.conf"
        outside.write_text(number.format(1))
        server.append_conf(f"include '{outside}'")
        server.reload()
        server.psql("CREATE EXTENSION id_gen")
        first_given(server, lambda: next_id(server), "55000")
        server.stop()
        backup = server.base / "backup"
        subprocess.run(["cp", "-a", server.data, backup], check=True)
        server.start()
        outside.write_text(number.format(2))
        server.reload()
        server.poll_until("SELECT worker_id = 2 FROM id_gen_status()")
        last = run_ahead(server, 10 * LEAD_MS)
        server.stop()
        shutil.rmtree(server.data)
        backup.rename(server.data)
        server.start()
        assert first_id(server) > last


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


def test_what_a_superuser_accepted_below_the_log_is_kept_over_crashes() -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        cluster.psql(HOUR_AHEAD)
        # The bound is durable in the log.
        cluster.psql("INSERT INTO item VALUES (1)")
        cluster.psql("SELECT id_gen_reservation_reset(above => now())")
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
            assert refusal(cluster, f"SELECT id_gen_copy_accept({no_confirmation})").sqlstate == "22023"
        assert refusal(cluster, NEXT).message == REFUSED
        cluster.psql(ACCEPT)
        last = next_id(cluster)
        assert last > after
        assert wait_for(cluster, "reservation", "ok")
        cluster.restart()
        assert next_id(cluster) > last


def test_a_standby_that_followed_a_promotion_and_lost_its_signal_file_is_refused() -> None:
    with Cluster("primary", conf=NARROW + PATIENT) as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        next_id(primary)
        with (
            Cluster("promoted", standby_of=primary, conf=PATIENT) as promoted,
            Cluster("standby", standby_of=primary, conf=PATIENT) as standby,
        ):
            primary.wait_for_catchup(promoted)
            primary.wait_for_catchup(standby)
            primary.stop()
            promoted.promote()
            next_id(promoted)
            promoted.psql("INSERT INTO item VALUES (1)")
            follow(standby, promoted)
            last = next_id(promoted)
            start_without_signal_file(standby)
            assert_is_refused_as_copy(standby)
            promoted.kill9()
            # What it reserved itself does not make it a copy.
            promoted.start()
            last = max(last, next_id(promoted))
            promoted.stop()
            standby.psql(ACCEPT)
            assert next_id(standby) > last
            standby.restart("immediate")
            assert next_id(standby) > last


def test_a_primary_that_followed_its_standby_on_their_timeline_and_lost_its_signal_file_is_refused() -> None:
    with Cluster("primary", conf=NARROW + PATIENT) as primary:
        primary.psql("CREATE EXTENSION id_gen")
        next_id(primary)
        with Cluster("standby", standby_of=primary, conf=PATIENT) as standby:
            primary.wait_for_catchup(standby)
            primary.stop()
            start_without_signal_file(standby)
            standby.psql(ACCEPT)
            next_id(standby)
            signal_file = primary.data / "standby.signal"
            signal_file.touch()
            shutil.chown(signal_file, primary.data.owner(), primary.data.group())
            primary.start()
            follow(primary, standby)
            last = next_id(standby)
            standby.wait_for_catchup(primary)
            start_without_signal_file(primary)
            assert_is_refused_as_copy(primary)
            standby.stop()
            primary.psql(ACCEPT)
            assert first_id(primary) > last


@contextmanager
def standby_from_before_the_first_id() -> Iterator[tuple[Cluster, Cluster]]:
    """A primary, and its standby, which has no reservation of it but in the log."""
    with Cluster("primary", conf=NARROW.replace("id_gen.worker_id = 1", "") + PATIENT) as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        with Cluster("standby", standby_of=primary, conf=f"{PATIENT}id_gen.worker_id = 1\n") as standby:
            change(primary, "worker_id", 1)
            primary.poll_until("SELECT snowflake_next() > 0")
            primary.psql("INSERT INTO item VALUES (1)")
            primary.wait_for_catchup(standby)
            yield primary, standby


def test_a_standby_that_was_made_before_the_first_id_and_lost_its_signal_file_is_refused() -> None:
    with standby_from_before_the_first_id() as (primary, standby):
        start_without_signal_file(standby)
        assert not Reservation(standby).file.exists()
        assert_is_refused_as_copy(standby)
        last = next_id(primary)
        primary.stop()
        standby.psql(ACCEPT)
        assert next_id(standby) > last


def test_a_bound_that_a_superuser_lowered_stays_lowered_over_a_second_promotion() -> None:
    with Cluster("primary", conf=GENERATING + FAR) as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        next_id(primary)
        with Cluster("standby", standby_of=primary, conf=NEAR + PATIENT) as standby:
            primary.psql(HOUR_AHEAD)
            primary.psql("INSERT INTO item VALUES (1)")
            primary.wait_for_catchup(standby)
            primary.stop()
            standby.promote()
            standby.psql("SELECT id_gen_reservation_reset(above => now())")
            next_id(standby)
            standby.stop()
            promote_again(standby)
            age = "SELECT snowflake_timestamp(snowflake_next()) < now() + interval '30 min'"
            assert standby.psql(age) == "t"
            assert Reservation(standby).fields["timeline"] == "3"


def test_a_copy_whose_worker_id_is_removed_stays_a_copy() -> None:
    with copied() as (_, copy):
        assert_is_refused_as_copy(copy)
        change(copy, "worker_id", -1)
        copy.poll_until("SHOW id_gen.worker_id", expected="-1")
        assert refusal(copy, "SELECT id_gen_layout_accept()").message == REFUSED
        change(copy, "worker_id", 1)
        copy.poll_until("SHOW id_gen.worker_id", expected="1")
        assert_is_refused_as_copy(copy)


def test_the_worker_id_of_an_original_is_an_error_of_that_and_has_a_line_in_the_log() -> None:
    with copied() as (_, copy):
        set_worker_id(copy, 2)
        next_id(copy)
        began = copy.log_position
        set_worker_id(copy, 1)
        copy.wait_for_log(f"LOG:  {REFUSED}", began)
        for _ in range(2):
            assert_is_refused_as_copy(copy)
            assert checks(copy)["worker_id"].status == "error"
            # As it was found before anybody generates.
            copy.restart()


def test_each_reason_that_keeps_a_server_from_generating_has_a_line_in_the_log() -> None:
    with copied() as (_, copy):
        copy.psql(f"ALTER SYSTEM SET id_gen.layout = '{OTHER_LAYOUT}'")
        copy.restart()
        began = copy.log_position
        assert refusal(copy).message == REFUSED
        copy.wait_for_log(f"LOG:  {REFUSED}")
        set_worker_id(copy, 2)
        copy.wait_for_log(f"LOG:  {re.escape(str(refusal(copy).message))}", began)
        began = copy.log_position
        set_worker_id(copy, 99)
        copy.wait_for_log("LOG:  .* is out of range", began)


def assert_a_reset_leads_out(copy: Cluster) -> None:
    """Of a copy that has a lower layout, too: to accept the one or the other would fail for the other."""
    way_out = (refusal(copy, ACCEPT).hint or "").rpartition(": ")[2]
    assert way_out == "SELECT id_gen_reservation_reset(above => now());"
    copy.psql(way_out)
    assert next_id(copy) > 0


def test_a_copy_with_a_lower_layout_is_reset() -> None:
    with copied() as (original, copy):
        original.stop()
        copy.psql(f"ALTER SYSTEM SET id_gen.layout = '{OTHER_LAYOUT}'")
        copy.restart()
        assert refusal(copy).message == REFUSED
        assert refusal(copy, "SELECT id_gen_layout_accept()").message == REFUSED
        assert_a_reset_leads_out(copy)


def test_a_standby_with_a_lower_layout_that_lost_its_signal_file_is_reset() -> None:
    with standby_from_before_the_first_id() as (_, standby):
        standby.append_conf(f"id_gen.layout = '{OTHER_LAYOUT}'")
        start_without_signal_file(standby)
        assert refusal(standby).message == REFUSED
        assert refusal(standby, "SELECT id_gen_layout_accept()").message == REFUSED
        assert_a_reset_leads_out(standby)


@pytest.mark.parametrize("worker_id", [1, 3])
def test_a_standby_with_the_layout_of_before_that_lost_its_signal_file_is_refused(worker_id: int) -> None:
    """Its file is of before the primary changed its layout; the log is of after that."""
    with Cluster("primary", conf=NARROW + PATIENT) as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        next_id(primary)
        with Cluster("standby", standby_of=primary, conf=f"{PATIENT}id_gen.worker_id = {worker_id}\n") as standby:
            primary.append_conf("id_gen.layout = 'default'")
            primary.restart()
            last = int(primary.psql("INSERT INTO item VALUES (snowflake_next()) RETURNING id"))
            primary.wait_for_catchup(standby)
            primary.stop()
            start_without_signal_file(standby)
            if worker_id == 1:
                assert refusal(standby).message == REFUSED
            error = refusal(standby, ACCEPT if worker_id == 1 else NEXT)
            assert error.message == "id_gen.layout was changed to one with lower snowflakes"
            standby.psql((error.hint or "").partition(": ")[2].partition(";")[0])
            standby.restart()
            if worker_id == 1:
                standby.psql(ACCEPT)
            assert first_id(standby) > last


def warnings(cluster: Cluster, statement: str) -> list[str | None]:
    said: list[str | None] = []
    with cluster.connect() as connection:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        connection.execute(statement)
    return said


def test_a_reset_of_a_standby_that_lost_its_signal_file_warns() -> None:
    with standby_from_before_the_first_id() as (_, standby):
        start_without_signal_file(standby)
        assert refusal(standby).message == REFUSED
        assert REFUSED_AS_POSSIBLE in warnings(standby, "SELECT id_gen_reservation_reset(above => now())")


def test_a_reset_after_a_promotion_warns_of_what_was_replayed() -> None:
    with (
        Cluster("primary", conf=GENERATING + FAR) as primary,
        Cluster("standby", standby_of=primary, conf=NEAR) as standby,
    ):
        primary.psql("CREATE EXTENSION id_gen")
        next_id(primary)
        primary.psql(HOUR_AHEAD)
        next_id(primary)
        primary.wait_for_catchup(standby)
        primary.stop()
        standby.promote()
        said = warnings(standby, "SELECT id_gen_reservation_reset(above => now())")
        assert "stored snowflakes with later times may be duplicated" in said


def set_worker_id(cluster: Cluster, worker_id: int) -> None:
    change(cluster, "worker_id", worker_id)
    # The keeper may put it in force after the session has read it.
    cluster.poll_until("SELECT worker_id FROM id_gen_status()", expected=str(worker_id))


# What makes a server start, and whether it is refused itself.
STARTS = {
    "nothing": None,
    "an ID": "SELECT snowflake_next()",
    "the horizon": "BEGIN READ ONLY; SELECT snowflake_commit_horizon(); COMMIT",
    "a shard": "SELECT id_gen_shard_take(9)",
    "a layout": "SELECT id_gen_layout_accept()",
    "a check": "SELECT * FROM id_gen_check()",
}


@pytest.mark.parametrize("sql", STARTS.values(), ids=STARTS)
def test_a_copy_with_another_worker_id_stays_a_copy(sql: str | None) -> None:
    with copied() as (original, copy):
        set_worker_id(copy, 2)
        if PRELOADED:
            await_round(copy)
        if sql is not None:
            with suppress(SqlError):
                copy.psql(sql)
        for end in ("fast", "immediate"):
            set_worker_id(copy, 1)
            assert_is_refused_as_copy(copy)
            copy.restart(end)
            assert_is_refused_as_copy(copy)
            set_worker_id(copy, 2)
            assert next_id(copy) > 0
        with Cluster("copy_of_copy", clone_of=copy) as second:
            set_worker_id(second, 3)
            last = next_id(second)
            for worker_id in (1, 2):
                set_worker_id(second, worker_id)
                assert_is_refused_as_copy(second)
            original.stop()
            copy.stop()
            for worker_id in (2, 1):
                set_worker_id(second, worker_id)
                # Each is confirmed by itself, for good.
                assert_is_refused_as_copy(second)
                second.psql(ACCEPT)
                second.restart("immediate")
                before, last = last, first_id(second)
                assert last > before
            set_worker_id(second, 2)
            assert next_id(second) > last


@pytest.mark.parametrize(
    ("when", "decision"),
    [
        ("first call after a restart", ACCEPT),
        ("while it runs", RESET),
        ("after a failed write", ACCEPT),
        ("after a failed write", RESET),
    ],
)
def test_a_copy_that_has_generated_begins_above_its_original(when: str, decision: str) -> None:
    """Its own reservation says nothing of the original, and a decision that could not be written is not in force."""
    far = "60s"
    with copied(f"{NARROW}{IMPATIENT}id_gen.max_lead = '{far}'\n") as (original, copy):
        # Reserves less than the original.
        change(copy, "max_lead", "1s")
        set_worker_id(copy, 2)
        first_id(copy)
        set_worker_id(copy, 1)
        change(copy, "max_lead", far)
        if when == "first call after a restart":
            # No keeper starts before the call.
            copy.append_conf("max_worker_processes = 0")
            copy.restart()
        given = run_ahead(original, 10 * LEAD_MS)
        original.stop()
        if when == "after a failed write":
            with Reservation(copy).disk_full():
                assert refusal(copy, decision).sqlstate == DISK_FULL
            assert_is_refused_as_copy(copy)
        copy.psql(decision)
        change(copy, "max_lead", "2h")
        assert first_id(copy) > given


def test_a_worker_id_is_accepted_right_after_the_reload_that_names_it() -> None:
    """In one script the call begins while the signal is on its way. Here it is, because the postmaster stands still."""
    with copied() as (original, copy):
        set_worker_id(copy, 2)
        next_id(copy)
        original.stop()
        with Caller(copy) as caller, Caller(copy) as watcher, copy.connect() as administrator:
            waiting = f"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = {caller.pid}"
            os.kill(copy.pid, signal.SIGSTOP)
            try:
                administrator.execute("ALTER SYSTEM SET id_gen.worker_id = 1")
                copy.reload()
                answer = caller.begin(f"{ACCEPT}::text")
                copy.wait_until(lambda: watcher.ask(waiting), "waiting for the reload")
            finally:
                os.kill(copy.pid, signal.SIGCONT)
            answer_of(answer)
        first_id(copy)
        assert copy.psql("SELECT worker_id FROM id_gen_status()") == "1"


def test_a_standby_that_lost_its_signal_file_has_no_number_that_its_primary_has_got_since() -> None:
    """Its file names the worker ID that the primary had when it was copied; the log names the new one."""
    with Cluster("primary", conf=NARROW + PATIENT) as primary:
        primary.psql("CREATE EXTENSION id_gen; CREATE TABLE item (id bigint)")
        next_id(primary)
        with Cluster("standby", standby_of=primary, conf=PATIENT) as standby:
            set_worker_id(primary, 2)
            primary.poll_until("SELECT worker_id = 2 FROM id_gen_status()")
            primary.psql("INSERT INTO item VALUES (snowflake_next())")
            primary.wait_for_catchup(standby)
            standby.append_conf("id_gen.worker_id = 2")
            start_without_signal_file(standby)
            for worker_id in (2, 1):
                set_worker_id(standby, worker_id)
                assert_is_refused_as_copy(standby)
            set_worker_id(standby, 3)
            first_id(standby)
            set_worker_id(standby, 2)
            assert_is_refused_as_copy(standby)


def test_a_number_that_was_refused_is_not_recorded_as_the_copys() -> None:
    with copied() as (_, copy):
        set_worker_id(copy, 2)
        next_id(copy)
        set_worker_id(copy, 1)
        assert_is_refused_as_copy(copy)
        copy.restart()
        with Cluster("copy_of_copy", clone_of=copy) as second:
            set_worker_id(second, 3)
            next_id(second)
            for worker_id in (1, 2):
                set_worker_id(second, worker_id)
                assert_is_refused_as_copy(second)


def test_an_earlier_file_that_is_accepted_still_names_the_originals() -> None:
    with copied() as (_, copy):
        set_worker_id(copy, 2)
        next_id(copy)
        file = Reservation(copy).file
        earlier = file.read_bytes()
        copy.stop()
        put_back = file.with_name("put_back")
        put_back.write_bytes(earlier)
        shutil.chown(put_back, file.owner(), file.group())
        put_back.rename(file)
        copy.start()
        copy.psql(ACCEPT)
        next_id(copy)
        set_worker_id(copy, 1)
        assert_is_refused_as_copy(copy)


def test_a_file_that_is_lost_while_a_copy_runs_does_not_hide_its_originals() -> None:
    with copied() as (_, copy):
        set_worker_id(copy, 2)
        next_id(copy)
        Reservation(copy).file.unlink()
        copy.psql("SELECT id_gen_reservation_reset(above => now())")
        next_id(copy)
        set_worker_id(copy, 1)
        assert_is_refused_as_copy(copy)


def test_a_reset_of_a_copy_that_has_generated_leads_out_for_its_number_alone() -> None:
    with copied() as (_, copy):
        set_worker_id(copy, 2)
        next_id(copy)
        with Cluster("copy_of_copy", clone_of=copy) as second:
            set_worker_id(second, 3)
            next_id(second)
            set_worker_id(second, 1)
            second.psql("SELECT id_gen_reservation_reset(above => now())")
            assert next_id(second) > 0
            set_worker_id(second, 2)
            assert_is_refused_as_copy(second)


def test_a_reset_of_a_copy_names_the_directory_of_its_original() -> None:
    with copied() as (original, copy), copy.connect() as connection:
        said: list[tuple[str | None, str | None]] = []
        connection.add_notice_handler(lambda notice: said.append((notice.message_primary, notice.message_detail)))
        connection.execute("SELECT id_gen_reservation_reset(above => now())")
        details = dict(said)
        assert f"inode {Reservation(original).directory.stat().st_ino}" in (details[REFUSED_AS_POSSIBLE] or "")
        said.clear()
        connection.execute("SELECT id_gen_reservation_reset(above => now())")
        assert REFUSED_AS_POSSIBLE not in dict(said), "it is its own now"


def test_shards_of_a_copy_go_on_after_a_restart_while_its_number_is_refused() -> None:
    with copied() as (_, copy):
        set_worker_id(copy, 2)
        copy.psql("SELECT id_gen_shard_take(9, above => 0)")
        set_worker_id(copy, 1)
        assert_is_refused_as_copy(copy)
        last = int(copy.psql("SELECT snowflake_next(9)"))
        for end in ("fast", "immediate"):
            copy.restart(end)
            assert_is_refused_as_copy(copy)
            before, last = last, first_given(copy, lambda: int(copy.psql("SELECT snowflake_next(9)")))
            assert last > before
            assert_is_refused_as_copy(copy)


def test_a_standby_has_the_number_that_was_confirmed_on_its_primary_since_it_was_made() -> None:
    with copied() as (original, copy):
        set_worker_id(copy, 2)
        next_id(copy)
        with Cluster("standby", standby_of=copy, conf=PATIENT) as standby:
            original.stop()
            set_worker_id(copy, 1)
            assert_is_refused_as_copy(copy)
            copy.psql(ACCEPT)
            last = next_id(copy)
            copy.wait_for_catchup(standby)
            copy.stop()
            standby.append_conf("id_gen.worker_id = 1\n")
            standby.promote()
            assert first_id(standby) > last


@pytest.mark.parametrize("promoted", ["itself", "a copy of its files"])
def test_a_promotion_of_a_copy_accepts_nothing(promoted: str) -> None:
    """The last reservation that it has replayed is its original's, which still generates."""
    with Cluster("original", conf=NARROW + PATIENT) as original, ExitStack() as stack:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        # A commit flushes the log, with the reservation in it.
        original.psql("CREATE TABLE committed ()")
        server = stack.enter_context(Cluster("copy", clone_of=original, conf="id_gen.worker_id = 2\n"))
        next_id(server)
        server.stop()
        assert (server.data / "global" / "8473").exists()
        if promoted != "itself":
            files, server = server.data, stack.enter_context(Cluster("promoted"))
            server.stop()
            shutil.rmtree(server.data)
            subprocess.run(["cp", "-a", files, server.data], check=True)
        promote_again(server)
        assert first_id(server) > 0
        set_worker_id(server, 1)
        assert_is_refused_as_copy(server)
        server.restart()
        assert_is_refused_as_copy(server)


@pytest.mark.parametrize("decision", [ACCEPT, "SELECT id_gen_reservation_reset(above => '2024-06-01')"])
def test_nothing_is_confirmed_of_a_copy_while_it_is_for_tests(decision: str) -> None:
    with copied(f"{NARROW}{PRELOAD}{PATIENT}id_gen.test_start = '2025-01-01 00:00:00+00'\n") as (_, copy):
        with suppress(SqlError):
            copy.psql(decision)
        next_id(copy)
        copy.append_conf("id_gen.test_start = ''")
        copy.restart()
        copy.psql("SELECT id_gen_test_mode_end()")
        assert_is_refused_as_copy(copy)


@pytest.mark.parametrize("own", [1, 2])
def test_a_copy_of_a_server_for_tests_is_refused_once_its_tests_end(own: int) -> None:
    with copied(f"{NARROW}{PRELOAD}{PATIENT}id_gen.test_start = '2025-01-01 00:00:00+00'\n") as (original, copy):
        set_worker_id(copy, own)
        copy.poll_until(f"SELECT worker_id = {own} FROM id_gen_status()")
        for cluster in (original, copy):
            next_id(cluster)
            cluster.append_conf("id_gen.test_start = ''")
            cluster.restart()
            cluster.psql("SELECT id_gen_test_mode_end()")
        assert next_id(original) > 0
        if own != 1:
            assert next_id(copy) > 0
            set_worker_id(copy, 1)
        assert_is_refused_as_copy(copy)


@pytest.mark.since(17)
def test_a_subscriber_that_was_a_standby_before_the_first_id_is_refused() -> None:
    """`pg_createsubscriber` makes it a cluster of its own, without a file; its log has a reservation of the other."""
    logical = "wal_level = logical\nmax_replication_slots = 10\nmax_wal_senders = 10\n"
    with (
        Cluster("publisher", conf=GENERATING + PATIENT + logical) as publisher,
        Cluster("subscriber", standby_of=publisher) as subscriber,
    ):
        publisher.psql("CREATE EXTENSION id_gen")
        next_id(publisher)
        publisher.psql("CREATE TABLE item (id bigint)")
        publisher.wait_for_catchup(subscriber)
        subscriber.stop()
        program = publisher.server.bindir / "pg_createsubscriber"
        where = ["-D", subscriber.data, "-s", subscriber.socket_dir, "-P", publisher.conninfo(), "-d", "postgres"]
        subprocess.run([program, *where], check=True, capture_output=True, **publisher.server.as_owner)
        shutil.rmtree(subscriber.data / "id_gen", ignore_errors=True)
        subscriber.start()
        assert_is_refused_as_copy(subscriber)
        subscriber.psql(ACCEPT)
        next_id(subscriber)
