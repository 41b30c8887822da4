"""Shards: who may make their IDs, what moves, stops, crashes and damage do to them, and every way out of a refusal."""

import errno
import os
import re
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from harness import PRELOADED, Cluster, FakeClock, SqlError
from harness.checks import CHOSEN_WORKER_ID, Check, checks, follow
from harness.cluster import GENERATING, PRELOAD
from harness.ids import (
    IMPATIENT,
    NARROW,
    NARROW_LAYOUT,
    PATIENT,
    PER_MS,
    TOO_FAR_AHEAD,
    Caller,
    await_refusal,
    change,
    error_of,
    first_given,
    first_id,
    next_id,
    refusal,
    run_ahead,
    time_of,
)
from harness.reservation import Reservation
from harness.shards import NOT_HERE, RECOVER, many_of, next_of, owned, refused, release, take
from harness.shim import compiled, preloading

SHIM = Path(__file__).with_name("directory_fsync.c")
SHARD = 7
YEAR = 365 * 24 * 3600
STATE = "SELECT state FROM id_gen_status()"
FILE = "id_gen/pgsql_tmp_shards"
WITHOUT_NUMBER = PRELOAD if PRELOADED else ""
INSTAGRAM = f"{GENERATING}id_gen.layout = 'instagram'\n"


@pytest.fixture
def cluster() -> Cluster:
    with Cluster(conf=NARROW + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


def check_of(cluster: Cluster, name: str) -> Check:
    return checks(cluster)[name]


def list_in_file(cluster: Cluster, *shards: int) -> None:
    """Writes into the server's file that it has these shards and no others."""
    file = cluster.data / FILE
    head = file.read_text().splitlines()[:2]
    body = "\n".join(head + [f"shard 0 {shard} declared 1 0" for shard in shards]) + "\n"
    file.write_text(f"{body}crc32 {zlib.crc32(body.encode()):08x}\n")


def hinted(error: SqlError) -> str:
    """The statement that a hint ends in."""
    return re.findall(r"((?:SELECT|ALTER SYSTEM)\b[^;]*;(?: SELECT pg_reload_conf\(\);)?)", error.hint or "")[-1]


# Taking, making, giving back


@pytest.mark.any_server
def test_the_number_of_a_shard_is_in_its_ids(cluster: Cluster) -> None:
    take(cluster, SHARD)
    ids = many_of(cluster, SHARD, 1000)
    assert ids == sorted(set(ids))
    assert cluster.psql(f"SELECT datacenter_id, worker_id FROM snowflake_parse({ids[-1]})") == f"0|{SHARD}"
    assert next_id(cluster) not in ids


@pytest.mark.any_server
@pytest.mark.parametrize("layout", ["instagram", "sonyflake", "discord", "wide", "js"])
def test_any_layout_with_a_worker_field_has_shards(layout: str) -> None:
    with Cluster(conf=f"{GENERATING}id_gen.layout = '{layout}'\n{PATIENT}") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, SHARD)
        ids = many_of(cluster, SHARD, 3000)
        assert ids == sorted(set(ids)) if layout != "sonyflake" else len(set(ids)) == 3000
        assert cluster.psql(f"SELECT worker_id FROM snowflake_parse({ids[-1]})") == str(SHARD)


@pytest.mark.any_server
def test_a_server_needs_no_number_of_its_own(cluster: Cluster) -> None:
    with Cluster("numberless", conf=WITHOUT_NUMBER) as numberless:
        numberless.psql("CREATE EXTENSION id_gen")
        take(numberless, SHARD)
        ids = many_of(numberless, SHARD, 10)
        assert refusal(numberless).message == "id_gen.worker_id is not set"
        assert check_of(numberless, "worker_id").status == "ok"
        numberless.kill9()
        numberless.start()
        assert next_of(numberless, SHARD) > ids[-1]


@pytest.mark.any_server
def test_a_shard_that_is_not_here_is_refused_with_what_to_type(cluster: Cluster) -> None:
    error = refused(cluster, SHARD)
    assert (error.sqlstate, error.message) == (NOT_HERE, f"this server does not have shard {SHARD}")
    assert error.hint and f"SELECT id_gen_shard_release({SHARD});" in error.hint
    cluster.psql(hinted(error))
    next_of(cluster, SHARD)


@pytest.mark.any_server
def test_the_hint_typed_where_another_server_gave_the_shard_back_repeats_no_id(cluster: Cluster) -> None:
    with Cluster("other", conf=f"{NARROW}{PATIENT}id_gen.worker_id = 2\n") as other:
        other.psql("CREATE EXTENSION id_gen")
        take(other, SHARD)
        last = many_of(other, SHARD, 4_000 * PER_MS)[-1]
        release(other, SHARD)
        cluster.psql(hinted(refused(cluster, SHARD)))
        assert next_of(cluster, SHARD) > last


@pytest.mark.any_server
@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("snowflake_next(NULL::integer)", "22004"),
        ("snowflake_next(32)", "22003"),
        ("snowflake_next(-1)", "22003"),
        ("id_gen_shard_take(32)", "22003"),
        ("id_gen_shard_take(NULL)", "22004"),
        ("id_gen_shard_take(7, -1)", "22003"),
        ("id_gen_shard_take(7, above => NULL)", "55000"),
        ("id_gen_shard_release(NULL)", "22004"),
        ("id_gen_shard_release(-1)", "22003"),
        ("id_gen_shard_release(9)", "42704"),
    ],
)
def test_bad_arguments(cluster: Cluster, call: str, sqlstate: str) -> None:
    error = refusal(cluster, f"SELECT {call}")
    assert error.sqlstate == sqlstate
    assert error.hint


@pytest.mark.any_server
def test_a_shard_that_was_given_back_may_be_given_back_again(cluster: Cluster) -> None:
    take(cluster, SHARD)
    last = many_of(cluster, SHARD, 100)[-1]
    above = release(cluster, SHARD)
    assert above >= last
    assert release(cluster, SHARD) >= above, "the first answer may have been lost"
    assert refused(cluster, SHARD).sqlstate == NOT_HERE
    assert owned(cluster) == set()


@pytest.mark.any_server
def test_who_gives_a_shard_back_again_is_warned(cluster: Cluster) -> None:
    """Another server may have had it meanwhile."""
    take(cluster, SHARD)
    with cluster.connect() as connection:
        notices: list[str | None] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute(f"SELECT id_gen_shard_release({SHARD})")
        assert notices == []
        connection.execute(f"SELECT id_gen_shard_release({SHARD})")
        assert notices == [f"this server had already released shard {SHARD}"]


@pytest.mark.any_server
def test_a_take_that_was_refused_leaves_nothing_to_release(cluster: Cluster) -> None:
    """What release would answer could be typed into the line that takes the shard, although another server has it."""
    refusal(cluster, f"SELECT id_gen_shard_take({SHARD})")
    assert refusal(cluster, f"SELECT id_gen_shard_release({SHARD})").sqlstate == "42704"


@pytest.mark.any_server
def test_nobody_takes_a_shard_without_a_word_on_how_far_it_is(cluster: Cluster) -> None:
    plainly = f"SELECT id_gen_shard_take({SHARD})"
    error = refusal(cluster, plainly)
    assert (error.sqlstate, error.message) == (NOT_HERE, f"the last ID of shard {SHARD} is unknown to this server")
    assert error.hint and hinted(error) == RECOVER.format(shard=SHARD) + ";"
    assert f"SELECT id_gen_shard_take({SHARD}, above => <last ID>);" in error.hint
    take(cluster, SHARD, above=0)
    cluster.psql(plainly)  # what it has, it knows
    last = many_of(cluster, SHARD, 100)[-1]
    release(cluster, SHARD)
    assert refusal(cluster, plainly).message == error.message
    take(cluster, SHARD, above=0)
    assert next_of(cluster, SHARD) > last


@pytest.mark.any_server
def test_a_wrong_number_in_above_is_told(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        notices: list[str | None] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.severity))
        other = next_id(cluster)
        connection.execute(f"SELECT id_gen_shard_take({SHARD}, above => {other})")
        assert notices == ["WARNING"]
        connection.execute(f"SELECT id_gen_shard_take({SHARD}, above => snowflake_max(now()))")
        connection.execute(f"SELECT id_gen_shard_take({SHARD}, above => snowflake_min(now()))")
        assert len(notices) == 1


@pytest.mark.any_server
@pytest.mark.parametrize("max_lead", ["0", "5s", "1d"])
def test_the_line_for_a_lost_server_works_as_it_stands(cluster: Cluster, max_lead: str) -> None:
    change(cluster, "max_lead", max_lead)
    cluster.poll_until(f"SELECT max_lead = '{max_lead}' FROM id_gen_status()")
    cluster.psql(RECOVER.format(shard=SHARD))
    assert time_of(cluster, next_of(cluster, SHARD)) > 0


@pytest.mark.any_server
def test_above_far_ahead_is_refused_with_the_bound(cluster: Cluster) -> None:
    error = refusal(cluster, f"SELECT id_gen_shard_take({SHARD}, above => snowflake_max(now() + interval '1 min'))")
    assert error.sqlstate == "22023"
    assert error.detail and "the clock + id_gen.max_lead + 10 s" in error.detail
    assert owned(cluster) == set()


# The server's own number


@pytest.mark.any_server
def test_a_servers_number_is_no_shard_and_a_shard_not_its_number(cluster: Cluster) -> None:
    for call in ("id_gen_shard_take(1, above => 0)", "snowflake_next(1)", "id_gen_shard_release(1)"):
        assert refusal(cluster, f"SELECT {call}").message == "worker ID 1 is this server's own"
    take(cluster, SHARD)
    change(cluster, "worker_id", SHARD)
    error = await_refusal(cluster, f"this server's worker ID {SHARD} is one of its shards")
    assert check_of(cluster, "worker_id").status == "error"
    cluster.restart()
    assert cluster.psql(STATE) == error.message, "before anybody generates, too"
    assert check_of(cluster, "worker_id").found.startswith(error.message)
    assert check_of(cluster, "reservation").status == "ok"
    shard_ids = set(many_of(cluster, SHARD, 100))
    release(cluster, SHARD)
    assert next_id(cluster) > max(shard_ids)


@pytest.mark.any_server
@pytest.mark.parametrize("call", ["snowflake_next()", "id_gen_shard_take({number}, above => 0)"])
def test_a_hint_leaves_the_worker_id_to_the_administrator(cluster: Cluster, call: str) -> None:
    take(cluster, SHARD)
    if "take" not in call:
        change(cluster, "worker_id", SHARD)
    error = await_refusal(cluster, "", "SELECT " + call.format(number=1))
    assert "a worker ID from 0 to 31 that no shard and no other server uses" in (error.hint or "")
    follow(cluster, (error.hint or "").partition(" Or release")[0])
    first_id(cluster)
    assert cluster.psql("SELECT worker_id FROM id_gen_status()") == CHOSEN_WORKER_ID


@pytest.mark.parametrize("crash", [False, True], ids=["running", "kill -9"])
def test_a_number_that_was_a_shard_starts_above_it(cluster: Cluster, crash: bool) -> None:
    cluster.psql(RECOVER.format(shard=SHARD))
    made_elsewhere = int(cluster.psql("SELECT snowflake_max(clock_timestamp() + interval '6 s')"))
    assert release(cluster, SHARD) > made_elsewhere
    change(cluster, "worker_id", SHARD)
    cluster.poll_until(f"SELECT worker_id = {SHARD} FROM id_gen_status()")
    if crash:
        cluster.kill9()
        cluster.start()
    assert first_id(cluster) > made_elsewhere


@pytest.mark.any_server
def test_a_number_that_is_the_servers_before_the_shard_is_given_back_starts_above_it(cluster: Cluster) -> None:
    take(cluster, SHARD)
    change(cluster, "worker_id", SHARD)
    cluster.poll_until(f"SELECT worker_id = {SHARD} FROM id_gen_status()")
    last = many_of(cluster, SHARD, 3_000 * PER_MS)[-1]
    release(cluster, SHARD)
    assert next_id(cluster) > last


@pytest.mark.any_server
def test_a_shard_that_was_the_servers_number_starts_above_it(cluster: Cluster) -> None:
    led = run_ahead(cluster, 4_000)
    change(cluster, "worker_id", 2)
    cluster.poll_until("SELECT worker_id = 2 FROM id_gen_status()")
    take(cluster, 1)
    assert next_of(cluster, 1) > led


# Restarts, crashes, copies


@pytest.mark.parametrize("mode", ["fast", "immediate", "kill9"])
def test_a_restart_goes_on_above(cluster: Cluster, mode: str) -> None:
    take(cluster, SHARD)
    last = many_of(cluster, SHARD, 4_000 * PER_MS)[-1]
    if mode == "kill9":
        cluster.kill9()
        cluster.start()
    else:
        cluster.restart(mode)
    assert next_of(cluster, SHARD) > last


@pytest.mark.any_server
def test_a_shard_that_was_taken_again_is_covered_by_a_clean_stop(cluster: Cluster) -> None:
    take(cluster, SHARD)
    last = many_of(cluster, SHARD, 3_000 * PER_MS)[-1]
    take(cluster, SHARD)
    cluster.restart()
    assert next_of(cluster, SHARD) > last


@pytest.mark.any_server
def test_a_shard_that_was_given_back_is_covered_by_a_clean_stop(cluster: Cluster) -> None:
    take(cluster, SHARD)
    last = many_of(cluster, SHARD, 3_000 * PER_MS)[-1]
    release(cluster, SHARD)
    cluster.restart()
    take(cluster, SHARD, above=0)
    assert next_of(cluster, SHARD) > last


@pytest.mark.any_server
def test_a_copy_has_no_shards(cluster: Cluster) -> None:
    take(cluster, SHARD)
    next_of(cluster, SHARD)
    for made in ({"copy_of": cluster}, {"clone_of": cluster}):
        with Cluster("copy", conf="id_gen.worker_id = 2", **made) as copy:
            assert refused(copy, SHARD).sqlstate == NOT_HERE
            assert owned(copy) == set()
            if "clone_of" in made:
                check = check_of(copy, "shards")
                assert check.status == "warning"
                assert "was copied or promoted" in check.found
                copy.psql(check.remedy.partition(": ")[2].replace("<shard>", str(SHARD)))
                assert check_of(copy, "shards").status == "ok"


def test_a_promoted_standby_has_no_shards_until_it_takes_them(cluster: Cluster) -> None:
    take(cluster, SHARD)
    with Cluster("standby", conf="id_gen.worker_id = 2", standby_of=cluster) as standby:
        assert refused(standby, SHARD).sqlstate == "25006"
        last = many_of(cluster, SHARD, 4_000 * PER_MS)[-1]
        cluster.wait_for_catchup(standby)
        cluster.stop("immediate")
        standby.promote()
        standby.poll_until("SELECT NOT pg_is_in_recovery()")
        assert refused(standby, SHARD).sqlstate == NOT_HERE
        standby.psql(RECOVER.format(shard=SHARD))
        assert next_of(standby, SHARD) > last


# Files


@pytest.mark.long
@pytest.mark.any_server
def test_a_damaged_file_refuses_shards_and_a_new_number_and_one_line_leads_out(cluster: Cluster) -> None:
    take(cluster, SHARD)
    last = many_of(cluster, SHARD, 100)[-1]
    cluster.stop()
    (cluster.data / FILE).write_text("id_gen shards 1\nplace\n")
    cluster.start()
    error = refused(cluster, SHARD)
    assert (error.sqlstate, error.message) == ("XX001", f'file "{FILE}" is damaged')
    assert check_of(cluster, "shards").status == "error"
    next_id(cluster)  # with the number that it is known to have had
    change(cluster, "worker_id", SHARD)
    cluster.poll_until(f"SELECT worker_id = {SHARD} FROM id_gen_status()")
    own = refusal(cluster)
    assert own.message == f"this server's worker ID {SHARD} may be one of its shards"
    assert hinted(own) == hinted(error)
    cluster.psql(hinted(error))
    assert next_id(cluster) > last
    assert check_of(cluster, "shards").status == "ok"


@pytest.mark.long
@pytest.mark.parametrize("crash", [False, True], ids=["running", "kill -9"])
def test_a_number_whose_shard_is_forgotten_starts_above_where_that_could_begin(cluster: Cluster, crash: bool) -> None:
    cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => snowflake_max(clock_timestamp() + interval '14 s'))")
    bound = int(cluster.psql("SELECT snowflake_max(clock_timestamp() + interval '13 s')"))
    cluster.stop()
    (cluster.data / FILE).write_text("id_gen shards 1\nplace\n")
    cluster.start()
    change(cluster, "worker_id", SHARD)
    cluster.poll_until(f"SELECT worker_id = {SHARD} FROM id_gen_status()")
    cluster.psql(hinted(refusal(cluster)))
    if crash:
        cluster.kill9()
        cluster.start()
    assert next_id(cluster) > bound


@pytest.mark.long
@pytest.mark.any_server
def test_a_number_that_comes_after_shards_were_forgotten_starts_above_them_too(cluster: Cluster) -> None:
    cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => snowflake_max(clock_timestamp() + interval '14 s'))")
    bound = int(cluster.psql("SELECT snowflake_max(clock_timestamp() + interval '13 s')"))
    cluster.stop()
    (cluster.data / FILE).write_text("id_gen shards 1\nplace\n")
    cluster.start()
    next_id(cluster)
    cluster.psql("SELECT id_gen_shard_reset_all()")
    change(cluster, "worker_id", SHARD)
    cluster.poll_until(f"SELECT worker_id = {SHARD} FROM id_gen_status()")
    assert first_id(cluster) > bound


@pytest.mark.any_server
def test_a_number_that_was_refused_is_not_known_to_be_the_servers_after_a_restart(cluster: Cluster) -> None:
    cluster.psql(RECOVER.format(shard=SHARD))
    cluster.stop()
    (cluster.data / FILE).write_text("id_gen shards 1\nplace\n")
    cluster.start()
    change(cluster, "worker_id", SHARD)
    cluster.poll_until(f"SELECT worker_id = {SHARD} FROM id_gen_status()")
    for _ in range(2):
        expected = f"this server's worker ID {SHARD} may be one of its shards"
        assert cluster.psql(STATE) == expected
        assert refusal(cluster).message == expected
        cluster.restart()
    change(cluster, "worker_id", 1)
    cluster.poll_until("SELECT worker_id = 1 FROM id_gen_status()")
    next_id(cluster)  # as is the one with which it made IDs


@pytest.mark.any_server
def test_a_file_that_cannot_be_read_is_told_and_stays_as_it_is(cluster: Cluster) -> None:
    take(cluster, SHARD)
    cluster.psql("SELECT id_gen_shard_take(8, above => snowflake_max(clock_timestamp() + interval '12 s'))")
    release(cluster, 8)
    cluster.stop()
    file = cluster.data / FILE
    file.chmod(0)
    cluster.start()
    for call in (f"snowflake_next({SHARD})", "id_gen_shard_take(9)", f"id_gen_shard_release({SHARD})"):
        error = refusal(cluster, f"SELECT {call}")
        assert (error.sqlstate, error.message.partition(": ")[0]) == ("42501", f'could not read file "{FILE}"')
        assert error.hint and "The next call retries" in error.hint
    assert check_of(cluster, "shards").status == "error"
    file.chmod(0o600)
    assert check_of(cluster, "shards").status == "ok"
    next_of(cluster, SHARD)
    assert "0 8 released" in file.read_text()


@pytest.mark.any_server
@pytest.mark.parametrize("keeps_its_inode", [True, False])
def test_an_earlier_file_that_is_put_back_does_not_take_back_what_was_released(
    cluster: Cluster, keeps_its_inode: bool
) -> None:
    take(cluster, SHARD)
    file = cluster.data / FILE
    earlier, owner = file.read_text(), file.stat()
    next_of(cluster, SHARD)
    above = release(cluster, SHARD)
    cluster.stop()
    if not keeps_its_inode:
        file.rename(file.with_suffix(".aside"))
    file.write_text(earlier)
    os.chown(file, owner.st_uid, owner.st_gid)
    cluster.start()
    assert (refused(cluster, SHARD).sqlstate, owned(cluster)) == (NOT_HERE, set())
    cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => {above})")
    assert next_of(cluster, SHARD) > above


def test_a_lost_reservation_of_a_server_without_a_number_is_named_by_its_check() -> None:
    with Cluster(conf=WITHOUT_NUMBER + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, SHARD)
        next_of(cluster, SHARD)
        cluster.stop()
        (cluster.data / "id_gen/reservation").unlink()
        cluster.start()
        error = refused(cluster, SHARD)
        assert (check_of(cluster, "reservation").status, check_of(cluster, "worker_id").status) == ("error", "ok")
        assert error.message in check_of(cluster, "reservation").found


@pytest.mark.any_server
def test_an_earlier_file_with_another_name_is_written_over(cluster: Cluster) -> None:
    """A hard link of it, put back, is not the list of before."""
    take(cluster, SHARD)
    file, link = cluster.data / FILE, cluster.data / "linked"
    os.link(file, link)
    above = release(cluster, SHARD)
    cluster.stop()
    link.replace(file)
    cluster.start()
    assert refused(cluster, SHARD).sqlstate == NOT_HERE
    cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => {above})")
    assert next_of(cluster, SHARD) > above


@pytest.mark.any_server
def test_a_list_that_was_of_another_directory_once_stays_so(cluster: Cluster) -> None:
    """As where a mount gives a directory another number, and a later one the first number again."""
    take(cluster, SHARD)
    cluster.stop()
    file = cluster.data / FILE
    own, owner = file.read_text(), file.stat()
    moved = re.sub(r"(?<=\nplace )\d+", lambda identifier: str(int(identifier[0]) ^ 1), own)
    body = moved[: moved.rindex("crc32")]
    file.write_text(f"{body}crc32 {zlib.crc32(body.encode()):08x}\n")
    os.chown(file, owner.st_uid, owner.st_gid)
    cluster.start()
    next_id(cluster)
    assert refused(cluster, SHARD).sqlstate == NOT_HERE
    assert "was copied or promoted" in check_of(cluster, "shards").found
    assert "declared" not in file.read_text()
    assert f"shards {SHARD} are not on this server" in cluster.log()


@pytest.mark.any_server
def test_a_list_that_is_put_in_place_of_a_running_server_s_is_written_over(cluster: Cluster) -> None:
    take(cluster, SHARD)
    file = cluster.data / FILE
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    shutil.chown(copy, file.owner(), file.group())
    copy.replace(file)
    assert check_of(cluster, "shards").status == "ok"
    assert f" {file.stat().st_ino} " in file.read_text()
    cluster.restart()
    next_of(cluster, SHARD)


@pytest.mark.any_server
def test_a_list_that_is_removed_while_the_server_runs_is_written_again(cluster: Cluster) -> None:
    take(cluster, SHARD)
    (cluster.data / FILE).unlink()
    assert check_of(cluster, "shards").status == "ok"
    cluster.restart()
    next_of(cluster, SHARD)


@pytest.mark.any_server
def test_a_copy_of_a_server_with_shards_alone_is_named_by_its_check() -> None:
    with Cluster(conf=WITHOUT_NUMBER + PATIENT) as original:
        original.psql("CREATE EXTENSION id_gen")
        take(original, SHARD)
        next_of(original, SHARD)
        with Cluster("copy", clone_of=original) as copy:
            copy.stop()
            (copy.data / FILE).unlink()
            copy.start()
            error = refusal(copy, f"SELECT id_gen_shard_take({SHARD}, above => 0)")
            assert checks(copy)["reservation"].status == "error"
            assert error.message in checks(copy)["reservation"].found


@pytest.mark.any_server
def test_shards_that_are_ahead_of_the_clock_are_told_by_the_check() -> None:
    clock = FakeClock()
    with Cluster(conf=NARROW + IMPATIENT, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, SHARD)
        clock.step(60)
        next_of(cluster, SHARD)
        clock.put_right()
        clock.freeze()
        error = refused(cluster, SHARD)
        check = check_of(cluster, "lead")
        assert (check.status, check.remedy) == ("error", error.hint)
        assert check.found.startswith(f"IDs of shard {SHARD} are ")


@pytest.mark.any_server
def test_a_file_of_a_newer_version_is_called_newer(cluster: Cluster) -> None:
    take(cluster, SHARD)
    cluster.stop()
    file = cluster.data / FILE
    file.write_text(file.read_text().replace("id_gen shards 1", "id_gen shards 2"))
    cluster.start()
    error = refused(cluster, SHARD)
    assert error.message == f'file "{FILE}" was written by a newer version of id_gen'
    cluster.psql(hinted(error))
    cluster.psql(RECOVER.format(shard=SHARD))
    next_of(cluster, SHARD)


@pytest.mark.any_server
def test_what_cannot_be_written_is_not_taken_and_not_given_back(cluster: Cluster) -> None:
    take(cluster, 5)
    blocker = cluster.data / "id_gen/pgsql_tmp_shards_writing"
    blocker.mkdir()
    error = refusal(cluster, f"SELECT id_gen_shard_take({SHARD}, above => 0)")
    assert error.detail and error.detail.startswith(f"This server has not taken shard {SHARD}")
    assert owned(cluster) == {5}
    before = next_of(cluster, 5)
    error = refusal(cluster, "SELECT id_gen_shard_release(5)")
    assert error.detail == "Shard 5 is not released; no other server can take it."
    assert next_of(cluster, 5) > before
    blocker.rmdir()
    take(cluster, SHARD)
    assert release(cluster, 5) > before


@pytest.mark.any_server
@pytest.mark.parametrize("conf", [GENERATING, PRELOAD], ids=["with a number", "with shards alone"])
def test_a_take_that_failed_late_is_taken_back_on_disk(conf: str) -> None:
    """The directory was not flushed, but the file has its new name: after a restart the server would have the shard."""
    with Cluster(conf=f"{conf}fsync = on\n", env=preloading(compiled(SHIM))) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, 5)
        release(cluster, 5)
        fault, file = cluster.data / "fsync_errno", cluster.data / FILE

        def fail() -> None:
            fault.write_text(f"{errno.EIO} id_gen")
            assert refusal(cluster, f"SELECT id_gen_shard_take({SHARD}, above => 0)").sqlstate == "58030"
            assert f" {SHARD} declared" in file.read_text()
            fault.unlink()

        fail()
        cluster.wait_until(lambda: f" {SHARD} declared" not in file.read_text(), "written again")
        fail()
        cluster.restart()
        assert refused(cluster, SHARD).sqlstate == NOT_HERE


@pytest.mark.any_server
def test_a_shard_of_another_datacenter_is_told_and_given_back(cluster: Cluster) -> None:
    take(cluster, SHARD)
    change(cluster, "datacenter_id", 3)
    cluster.poll_until("SELECT datacenter_id = 3 FROM id_gen_status()")
    check = check_of(cluster, "shards")
    assert check.status == "error"
    assert check.found == f"shard {SHARD} is in datacenter 0, but this server is in datacenter 3"
    release(cluster, SHARD)
    assert owned(cluster) == set()
    assert check_of(cluster, "shards").status == "ok"


@pytest.mark.any_server
def test_the_disk_and_the_server_are_compared(cluster: Cluster) -> None:
    """As after a take that failed once the file had its new name: the disk has one that the server has not."""
    take(cluster, SHARD)
    release(cluster, SHARD)
    cluster.restart()
    next_id(cluster)
    list_in_file(cluster, SHARD)
    check = check_of(cluster, "shards")
    assert check.status == "error"
    assert f"first shard {SHARD}" in check.found
    release(cluster, SHARD)
    assert check_of(cluster, "shards").status == "ok"
    cluster.restart()
    assert refused(cluster, SHARD).sqlstate == NOT_HERE


@pytest.mark.any_server
def test_a_layout_without_room_leaves_a_way_out(cluster: Cluster) -> None:
    take(cluster, 31)
    last = many_of(cluster, 31, 10)[-1]
    cluster.psql(
        f"ALTER SYSTEM SET id_gen.layout = '{NARROW_LAYOUT.replace('worker:5 sequence:6', 'worker:4 sequence:7')}'"
    )
    cluster.restart()
    assert refused(cluster, 31).sqlstate == "22003"
    next_id(cluster)
    check = check_of(cluster, "shards")
    assert check.status == "error"
    assert "has no room for shard 31" in check.found
    assert cluster.psql("SELECT state FROM id_gen_stat_shards") == "no room in layout"
    above = int(cluster.psql(check.remedy.rpartition(": ")[2]))
    assert above >= last
    assert check_of(cluster, "shards").status == "ok"


@pytest.mark.any_server
def test_a_layout_without_room_for_the_datacenter_leaves_a_way_out(cluster: Cluster) -> None:
    change(cluster, "datacenter_id", 3)
    cluster.poll_until("SELECT datacenter_id = 3 FROM id_gen_status()")
    take(cluster, SHARD)
    last = next_of(cluster, SHARD)
    change(cluster, "datacenter_id", 0)
    without = NARROW_LAYOUT.replace("datacenter:5 worker:5", "worker:10")
    cluster.psql(f"ALTER SYSTEM SET id_gen.layout = '{without}'")
    cluster.restart()
    next_id(cluster)
    check = check_of(cluster, "shards")
    assert check.status == "error"
    above = int(cluster.psql(check.remedy.rpartition(": ")[2]))
    assert above >= last
    assert check_of(cluster, "shards").status == "ok"


@pytest.mark.any_server
def test_a_server_has_room_for_so_many_and_says_so() -> None:
    layout = "epoch=2024-01-01 tick=1ms time:41 worker:14 sequence:8"
    with Cluster(conf=f"{GENERATING}id_gen.layout = '{layout}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, 2)
        cluster.stop()
        # A file of as many as there is room for, instead of as many writes.
        list_in_file(cluster, *range(2, 8194))
        cluster.start()
        next_of(cluster, 8193)
        error = refusal(cluster, "SELECT id_gen_shard_take(9000, above => 0)")
        assert error.message == "too many shards"
        assert error.detail and "8192" in error.detail
        release(cluster, 5)
        cluster.restart()
        take(cluster, 9000, above=0)
        assert len(owned(cluster)) == 8192


# Clocks, settings


@pytest.mark.any_server
def test_a_clock_that_jumped_is_not_trusted_for_shards_either() -> None:
    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, SHARD)
        with cluster.connect() as connection:
            ask = f"SELECT snowflake_next({SHARD})"
            before = connection.execute(ask).fetchone()
            clock.step(3600)
            with pytest.raises(psycopg.Error, match="the clock jumped forward"):
                connection.execute(ask)
            assert refusal(cluster, f"SELECT id_gen_shard_take({SHARD})").message == "the clock jumped forward"
            connection.execute("SELECT id_gen_clock_accept()")
            assert connection.execute(ask).fetchone() > before


@pytest.mark.any_server
def test_a_clock_that_was_set_back_lets_shards_go_on_above() -> None:
    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, SHARD)
        before = next_of(cluster, SHARD)
        clock.step(-3)
        assert next_of(cluster, SHARD) > before
        clock.step(-3600)
        assert refused(cluster, SHARD).sqlstate == "53400"
        change(cluster, "max_wait", "90s")
        cluster.psql("SELECT id_gen_reservation_reset(above => now())")
        next_of(cluster, SHARD)


@pytest.mark.long
@pytest.mark.any_server
@pytest.mark.parametrize("restarted", [False, True])
def test_a_reset_takes_back_where_a_wrong_clock_let_a_shard_begin(restarted: bool) -> None:
    """The file keeps where a shard begins: here a year ahead."""
    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        clock.step(YEAR)
        cluster.psql("SELECT id_gen_clock_accept()")
        take(cluster, SHARD)
        before = next_of(cluster, SHARD)
        clock.step(-YEAR)
        if restarted:
            cluster.restart()
        error = refused(cluster, SHARD)
        assert error.sqlstate == "53400"
        change(cluster, "max_wait", "90s")
        cluster.psql(hinted(error))
        again = next_of(cluster, SHARD)
        assert time_of(cluster, again) < time_of(cluster, before) - YEAR * 1000 / 2
        cluster.restart()
        assert again < next_of(cluster, SHARD) < before


@pytest.mark.any_server
def test_a_reset_that_cannot_be_written_leaves_where_a_shard_begins() -> None:
    with Cluster(conf=GENERATING + "id_gen.max_lead = '2h'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        above = int(cluster.psql("SELECT snowflake_min(now() + '1 hour')"))
        cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => {above})")
        change(cluster, "max_lead", "1s")
        with Reservation(cluster).disk_full():
            assert refusal(cluster, "SELECT id_gen_reservation_reset(above => now())").sqlstate == "53100"
        cluster.restart("immediate")
        change(cluster, "max_lead", "2h")
        assert first_given(cluster, lambda: next_of(cluster, SHARD), TOO_FAR_AHEAD) > above


@pytest.mark.long
@pytest.mark.any_server
def test_a_full_lead_waits_and_can_be_cancelled(cluster: Cluster) -> None:
    take(cluster, SHARD)
    with Caller(cluster) as caller:
        call = caller.begin(f"SELECT count(snowflake_next({SHARD})) FROM generate_series(1, 100000000)")
        caller.await_wait("Extension")
        cluster.psql(f"SELECT pg_cancel_backend({caller.pid})")
        assert error_of(call).sqlstate == "57014"
    next_of(cluster, SHARD)


@pytest.mark.any_server
def test_a_session_that_loads_in_bulk_sleeps_until_its_share_is_due() -> None:
    """With ticks of a second, whoever asks again and again meanwhile would be seen to run."""
    clock, tick = FakeClock(), "epoch=2024-01-01 tick=1s time:32 worker:5 sequence:13"
    with Cluster(conf=f"{GENERATING}id_gen.layout = '{tick}'\n{PATIENT}", clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        take(cluster, SHARD)
        clock.freeze()
        with Caller(cluster) as caller:
            call = caller.begin(f"SELECT count(snowflake_next({SHARD})) FROM generate_series(1, {7 * 8192})")
            caller.await_wait("Extension")
            seen = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {caller.pid}"
            assert [cluster.psql(seen) for _ in range(10)].count("Extension") > 7
            next_of(cluster, SHARD)  # of what is left to others
            cluster.psql(f"SELECT pg_cancel_backend({caller.pid})")
            assert error_of(call).sqlstate == "57014"


def test_settings_of_a_reload_hold_for_the_next_id(cluster: Cluster) -> None:
    take(cluster, SHARD)
    with cluster.connect() as connection:
        ask = f"SELECT snowflake_next({SHARD})"
        connection.execute(ask)
        change(cluster, "datacenter_id", 3)

        def gone() -> bool:
            try:
                connection.execute(ask)
            except psycopg.Error as error:
                return "does not have shard 7 of datacenter 3" in str(error)
            return False

        cluster.wait_until(gone, "of another datacenter")
        take(cluster, SHARD)
        (snowflake,) = connection.execute(ask).fetchone()
        assert cluster.psql(f"SELECT datacenter_id FROM snowflake_parse({snowflake})") == "3"


# Order, statistics, readers


def test_sessions_at_the_same_time_never_get_the_same(cluster: Cluster) -> None:
    for shard in (SHARD, 8):
        take(cluster, shard)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda n: many_of(cluster, (SHARD, 8)[n % 2], 20_000), range(8)))
    assert all(part == sorted(part) for part in parts)
    everything = [snowflake for part in parts for snowflake in part]
    assert len(set(everything)) == len(everything)


@pytest.mark.any_server
def test_what_shards_make_is_counted(cluster: Cluster) -> None:
    take(cluster, SHARD)
    before = int(cluster.psql("SELECT ids FROM id_gen_stat"))
    last = many_of(cluster, SHARD, 500)[-1]
    assert int(cluster.psql("SELECT ids FROM id_gen_stat")) - before == 500
    assert (
        cluster.psql("SELECT state, assigned_by, last_id, issued FROM id_gen_stat_shards")
        == f"open|declared|{last}|500"
    )


@pytest.mark.any_server
def test_readers_of_the_commit_horizon_miss_no_row_of_a_shard(cluster: Cluster) -> None:
    take(cluster, SHARD)
    cluster.psql(f"CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next({SHARD}))")
    run_ahead(cluster, 3_000)  # the server's own IDs are ahead of the clock, the shard's are not
    with cluster.connect() as open_one:
        open_one.execute("BEGIN")
        (pending,) = open_one.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone()
        later = int(cluster.psql("INSERT INTO t DEFAULT VALUES RETURNING id"))
        assert later > pending
        assert int(cluster.psql("SELECT snowflake_commit_horizon()")) <= pending
        open_one.execute("COMMIT")
    cluster.poll_until(f"SELECT snowflake_commit_horizon() > {later}")
    horizon = int(cluster.psql("SELECT snowflake_commit_horizon()"))
    assert next_of(cluster, SHARD) >= horizon


@pytest.mark.any_server
def test_shards_are_above_what_was_observed(cluster: Cluster) -> None:
    take(cluster, SHARD)
    with cluster.connect() as connection:
        ask = f"SELECT snowflake_next({SHARD})"
        connection.execute(ask)
        for ahead in ("2 s", "1 s"):
            (highest,) = connection.execute(f"SELECT snowflake_max(clock_timestamp() + interval '{ahead}')").fetchone()
            connection.execute(f"SELECT snowflake_advance({highest})")
            assert connection.execute(ask).fetchone()[0] > highest
    take(cluster, 8)
    assert next_of(cluster, 8) > highest
    # An ID of the server's own, which everything else of its own is above, is observed by shards too.
    own = next_id(cluster)
    cluster.psql(f"SELECT snowflake_advance({own})")
    assert next_of(cluster, SHARD) > own


@pytest.mark.any_server
def test_privileges(cluster: Cluster) -> None:
    cluster.psql("CREATE ROLE app LOGIN")
    take(cluster, SHARD)
    cluster.psql(f"SET ROLE app; SELECT snowflake_next({SHARD})")
    for call in ("id_gen_shard_take(8)", f"id_gen_shard_release({SHARD})", "id_gen_shard_reset_all()"):
        assert refusal(cluster, f"SET ROLE app; SELECT {call}").sqlstate == "42501"
    assert refusal(cluster, "SET ROLE app; SELECT * FROM id_gen_stat_shards").sqlstate == "42501"
    cluster.psql("GRANT EXECUTE ON FUNCTION snowflake_next() TO app")
    assert refusal(cluster, "GRANT EXECUTE ON FUNCTION snowflake_next TO app").sqlstate == "42725"
