"""In a fleet, the registry says which server has a shard, and a server has it as long as it holds its number."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness import Cluster
from harness.checks import CHOSEN_WORKER_ID, checks, follow
from harness.clock import FakeClock
from harness.etcd import Etcd
from harness.fleet import (
    NO_NUMBER,
    UNREACHABLE,
    accept_clock_ahead,
    await_holding,
    await_number,
    await_phase,
    await_trouble,
    create_fleet,
    member_conf,
    name_of,
    number_of,
    registrar,
    silent,
)
from harness.ids import (
    PATIENT,
    Caller,
    Value,
    answer_of,
    await_refusal,
    change,
    error_of,
    first_given,
    keepers,
    next_id,
    refusal,
)
from harness.page import Page
from harness.relay import Delayed, Way
from harness.reservation import Reservation
from harness.shards import NOT_HERE, RECOVER, Writer, await_usable, many_of, next_of, owned, refused, release, take

# The same with every server.
pytestmark = pytest.mark.any_server

PAGE = Page(Path(__file__).parents[2] / "docs/shards.md")

SHARD = 500
ALONE = ("ALTER SYSTEM SET id_gen.registry = ''", "ALTER SYSTEM SET id_gen.worker_id = 3")
MEMBER = ("ALTER SYSTEM RESET id_gen.registry", "ALTER SYSTEM RESET id_gen.worker_id")
CONF = f"id_gen.worker_id_range = '0-15'\nid_gen.layout = 'leaf'\n{PATIENT}"


@pytest.fixture
def conf(etcd: Etcd, fleet: str) -> str:
    return member_conf(etcd.endpoints, f"{fleet}\n{CONF}")


@pytest.fixture
def second(first: Cluster, conf: str) -> Iterator[Cluster]:
    with Cluster("second", conf=conf) as second:
        second.psql("CREATE EXTENSION id_gen")
        for cluster in (first, second):
            await_number(cluster)
        yield second


def become(server: Cluster, settings: tuple[str, str]) -> None:
    for line in settings:
        server.psql(line)
    server.restart()


def in_registry(cluster: Cluster) -> str:
    return cluster.psql(f"SELECT state, worker_id FROM id_gen_fleet_shards() WHERE shard = {SHARD}")


def test_a_shard_moves_by_two_lines_above_all_that_was_made(first: Cluster, second: Cluster) -> None:
    take(first, SHARD, above=None)
    last = many_of(first, SHARD, 10_000)[-1]
    error = refusal(second, f"SELECT id_gen_shard_take({SHARD})")
    assert error.message == f"this server does not have shard {SHARD}"
    assert error.hint and error.hint.startswith(f"Release it there: SELECT id_gen_shard_release({SHARD});")
    release(first, SHARD)
    assert in_registry(second).startswith("released")
    take(second, SHARD, above=None)
    assert next_of(second, SHARD) > last
    assert in_registry(first) == f"held|{number_of(second)}"
    assert refused(first, SHARD).sqlstate == "55000"
    release(first, SHARD)  # once more, which changes nothing
    next_of(second, SHARD)


def test_a_shard_that_was_just_taken_says_when_it_works(etcd: Etcd, fleet: str) -> None:
    state = f"SELECT state FROM id_gen_stat_shards WHERE shard = {SHARD}"
    is_later = f"SELECT id_gen_shard_take({SHARD}) > clock_timestamp()"
    end = "SELECT id_gen_fleet_report_restore(restored => false);"
    with Cluster("patient", conf=member_conf(etcd.endpoints, f"{fleet}\n{CONF}")) as patient:
        # With these terms all waits last 21 s.
        patient.psql("CREATE EXTENSION id_gen; SELECT id_gen_fleet_create('60 s', '20 s', '500 ms')")
        await_phase(patient, "waiting")
        patient.psql(end)
        await_number(patient)
        assert patient.psql(is_later) == "t"
        error = refused(patient, SHARD)
        assert error.message == f"shard {SHARD} cannot be used yet"
        assert end in (error.hint or "")
        assert patient.psql(state) == "waiting"
        assert checks(patient)["shards"].status == "error"
        # Once more changes nothing, and after a restart it waits, too.
        assert patient.psql(is_later) == "t"
        # Not clean: what the registry is told at a stop may have no answer in time, and a number is waited with then.
        patient.restart("immediate")
        await_holding(patient)
        assert refused(patient, SHARD).message == error.message
        patient.psql(end)
        assert next_of(patient, SHARD) > 0
        assert patient.psql(state) == "open"
        assert checks(patient)["shards"].status == "ok"
        assert patient.psql(is_later) == "f"
        become(patient, ALONE)
        at_once = f"SELECT id_gen_shard_take({SHARD + 1}, above => 0) <= clock_timestamp()"
        assert patient.psql(at_once) == "t", "outside of a fleet nobody waits"
        next_of(patient, SHARD + 1)


@pytest.mark.long
def test_ids_of_a_shard_that_moves_while_clients_write(first: Cluster, second: Cluster) -> None:
    take(first, SHARD, above=None)
    with Writer([first, second], SHARD) as one, Writer([second, first], SHARD) as other:
        for mover, taker in ((first, second), (second, first)) * 3:
            made = len(one.ids) + len(other.ids)
            mover.wait_until(lambda made=made: len(one.ids) + len(other.ids) > made + 100, "making IDs")
            above = release(mover, SHARD)
            take(taker, SHARD, above)
    ids = one.ids + other.ids
    assert len(set(ids)) == len(ids)


@contextmanager
def late_answer(way: Way, cluster: Cluster, statement: str) -> Iterator[tuple[Delayed, Future[Value]]]:
    """A statement that runs, and whose request the registry has carried out, but has not answered yet."""
    with way.delaying_a_shard() as delayed, Caller(cluster) as caller:
        call = caller.begin(statement)
        delayed.await_it()
        yield delayed, call


@pytest.fixture
def apart(etcd: Etcd, fleet: str) -> Iterator[tuple[Way, Cluster]]:
    """A server whose way to the registry is its own, with the shard, of which it has made nothing since it started."""
    with Way(etcd) as way, Cluster("apart", conf=member_conf(way.endpoints, f"{fleet}\n{CONF}")) as apart:
        create_fleet(apart)
        await_number(apart)
        take(apart, SHARD, above=None)
        apart.restart()
        await_holding(apart)
        yield way, apart


@pytest.mark.long
def test_a_late_answer_opens_no_shard_that_was_given_back(apart: tuple[Way, Cluster], conf: str) -> None:
    way, server = apart
    with Cluster("second", conf=conf) as second:
        second.psql("CREATE EXTENSION id_gen")
        await_number(second)
        server.stop()
        with way.delaying_a_shard() as delayed:
            # The registrar asks for all shards.
            server.start()
            server.poll_until("SELECT snowflake_next() > 0")
            delayed.await_it()
            release(server, SHARD)
            take(second, SHARD, above=None)
            next_of(second, SHARD)
            delayed.deliver()
        assert refused(server, SHARD).message == f"this server does not have shard {SHARD}"
        next_of(second, SHARD)


@pytest.mark.long
def test_a_late_answer_takes_no_shard_that_was_forgotten(apart: tuple[Way, Cluster]) -> None:
    way, server = apart
    with late_answer(way, server, f"SELECT id_gen_shard_take({SHARD})") as (delayed, late):
        server.psql("SELECT id_gen_shard_reset_all()")
        delayed.deliver()
        assert error_of(late).diag.message_primary == "the shard was reassigned concurrently"
    assert owned(server) == set()
    assert refused(server, SHARD).sqlstate == NO_NUMBER


@pytest.mark.long
@pytest.mark.parametrize("move", ["take", "release"])
def test_a_take_and_a_release_of_one_server_follow_each_other(apart: tuple[Way, Cluster], move: str) -> None:
    way, server = apart
    other = {"take": "release", "release": "take"}[move]
    with (
        late_answer(way, server, f"SELECT id_gen_shard_{move}({SHARD}) IS NOT NULL") as (delayed, late),
        Caller(server) as waiting,
    ):
        call = waiting.begin(f"SELECT id_gen_shard_{other}({SHARD}) IS NOT NULL")
        waiting.await_wait("Lock")
        delayed.deliver()
        assert answer_of(late)
        assert answer_of(call)
    assert owned(server) == (set() if other == "release" else {SHARD})


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_a_late_release_gives_no_shard_away_that_was_taken_again(
    apart: tuple[Way, Cluster], conf: str, killed: bool
) -> None:
    way, server = apart
    with Cluster("second", conf=conf) as second:
        second.psql("CREATE EXTENSION id_gen")
        await_number(second)
        next_of(server, SHARD)
        with way.holding_a_write() as held:
            assert refusal(server, f"SELECT id_gen_shard_release({SHARD})").sqlstate == UNREACHABLE
            held.await_it()
            if killed:
                server.kill9()
                server.start()
                await_number(server)
            take(server, SHARD, above=None)
            next_of(server, SHARD)
            held.deliver()
            way.await_delivery()
        assert in_registry(second) == f"held|{number_of(server)}"
        error = refusal(second, f"SELECT id_gen_shard_take({SHARD})")
        assert error.message == f"this server does not have shard {SHARD}"


@pytest.mark.long
def test_a_shard_is_above_what_it_was_taken_above_whatever_comes_after(first: Cluster, second: Cluster) -> None:
    take(first, SHARD, above=None)
    next_of(first, SHARD)
    near = int(first.psql("SELECT snowflake_max(clock_timestamp() + interval '2 s')"))
    first.psql(f"SELECT id_gen_shard_take({SHARD}, above => {near})")
    assert next_of(first, SHARD) > near, "it has the shard, and goes on"
    release(first, SHARD)
    ahead = int(first.psql("SELECT snowflake_max(clock_timestamp() + interval '9 s')"))
    first.psql(f"SELECT id_gen_shard_take({SHARD}, above => {ahead}); SELECT id_gen_shard_take({SHARD})")
    await_usable(first, SHARD)
    assert first_given(first, lambda: next_of(first, SHARD), "53400", NO_NUMBER) > ahead
    release(first, SHARD)
    first.psql(f"SELECT id_gen_shard_take({SHARD}, above => {ahead})")
    number = number_of(first)
    first.stop("immediate")
    second.psql(f"SELECT id_gen_fleet_release({number})")
    take(second, SHARD, above=None)
    assert first_given(second, lambda: next_of(second, SHARD), "53400", NO_NUMBER) > ahead


@pytest.mark.long
def test_a_take_whose_file_cannot_be_written_is_waited_with_all_the_same(conf: str) -> None:
    """Of a shard that another member had meanwhile, which the file does not know."""
    end = "SELECT id_gen_fleet_report_restore(restored => false);"

    def await_end_of_wait(server: Cluster) -> None:
        await_phase(server, "waiting")
        server.psql(end)
        await_number(server)

    with Cluster("patient", conf=conf) as patient, Cluster("other", conf=conf) as other:
        # With these terms all waits last 21 s.
        patient.psql("CREATE EXTENSION id_gen; SELECT id_gen_fleet_create('60 s', '20 s', '500 ms')")
        other.psql("CREATE EXTENSION id_gen")
        for server in (patient, other):
            await_end_of_wait(server)
        patient.psql(f"SELECT id_gen_shard_take({SHARD})")
        patient.psql(f"SELECT id_gen_fleet_release({number_of(patient)})")
        other.psql(f"SELECT id_gen_shard_take({SHARD})")
        patient.restart("immediate")
        await_end_of_wait(patient)
        assert refused(patient, SHARD).message == f"this server does not have shard {SHARD}"
        release(other, SHARD)
        blocker = patient.data / "id_gen/pgsql_tmp_shards_writing"
        blocker.mkdir()
        assert refusal(patient, f"SELECT id_gen_shard_take({SHARD})").detail
        patient.kill9()
        blocker.rmdir()
        patient.start()
        await_number(patient)
        assert refused(patient, SHARD).message == f"shard {SHARD} cannot be used yet"
        # Whoever asked at the same time waits as well.
        patient.psql(end)
        next_of(patient, SHARD)
        patient.psql(f"SELECT id_gen_fleet_release({number_of(patient)})")
        await_phase(patient, "waiting")
        patient.psql(end)
        patient.poll_until("SELECT count(snowflake_next()) = 1")
        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda _: refused(patient, SHARD).message, range(8)))
        assert outcomes == [f"shard {SHARD} cannot be used yet"] * 8


def test_a_shard_that_is_raised_by_the_second_try_makes_nothing_below(first: Cluster) -> None:
    """The first one was written to the registry, and not to the disk."""
    await_number(first)
    take(first, SHARD, above=None)
    next_of(first, SHARD)
    near = int(first.psql("SELECT snowflake_max(clock_timestamp() + interval '4 s')"))
    blocker = first.data / "id_gen/pgsql_tmp_shards_writing"
    blocker.mkdir()
    assert refusal(first, f"SELECT id_gen_shard_take({SHARD}, above => {near})").detail
    blocker.rmdir()
    first.psql(f"SELECT id_gen_shard_take({SHARD}, above => {near})")
    assert first_given(first, lambda: next_of(first, SHARD), NOT_HERE, "53400", NO_NUMBER) > near


def test_shards_are_open_again_after_a_reset_without_a_call(first: Cluster) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    first.poll_until("SELECT state = 'open' FROM id_gen_stat_shards")
    first.psql("SELECT id_gen_reservation_reset(above => now())")
    first.poll_until("SELECT state = 'open' FROM id_gen_stat_shards")
    assert checks(first)["shards"].status == "ok"


@pytest.mark.long
def test_a_take_that_asked_before_the_end_of_the_wait_opens_nothing(
    etcd: Etcd, fleet: str, first: Cluster, second: Cluster
) -> None:
    """The registry may have lost the shard since, and the session may have stood still until the wait was over."""
    shards = range(SHARD, SHARD + 4)
    stopped = threading.Event()

    def take_again(connection: psycopg.Connection[Any], shard: int) -> None:
        while not stopped.is_set():
            connection.execute(f"SELECT id_gen_shard_take({shard})")

    with ExitStack() as stack:
        connections = [stack.enter_context(first.connect()) for _ in shards]
        pool = stack.enter_context(ThreadPoolExecutor(len(shards)))
        taking = [pool.submit(take_again, *each) for each in zip(connections, shards, strict=True)]
        first.poll_until(f"SELECT count(*) = {len(shards)} FROM id_gen_stat_shards WHERE state = 'waiting'")
        for connection in connections:
            os.kill(connection.info.backend_pid, signal.SIGSTOP)
        stopped.set()
        etcd.ctl("del", "--prefix", f"/id_gen/{name_of(fleet)}/s/")
        first.poll_until("SELECT count(*) = 0 FROM id_gen_stat_shards WHERE state = 'waiting'")
        for connection in connections:
            os.kill(connection.info.backend_pid, signal.SIGCONT)
        for each in taking:
            each.result()
    # What was taken again since is in the registry.
    known = "SELECT shard FROM id_gen_fleet_shards() WHERE state = 'held'"
    assert first.psql(f"SELECT shard FROM id_gen_stat_shards WHERE state = 'open' EXCEPT {known}") == ""


@pytest.mark.long
def test_a_primary_that_is_the_standby_of_its_successor_keeps_no_shard(first: Cluster) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    last = next_of(first, SHARD)
    with Cluster("successor", standby_of=first) as successor:
        await_holding(successor)
        first.wait_for_catchup(successor)
        first.stop()
        successor.promote()
        await_number(successor)
        first.append_conf(f"primary_conninfo = '{successor.conninfo()}'")
        (first.data / "standby.signal").touch()
        first.start()
        await_holding(first)
        successor.poll_until(f"SELECT id_gen_shard_take({SHARD}) IS NOT NULL")
        await_usable(successor, SHARD)
        assert first_given(successor, lambda: next_of(successor, SHARD), "53400", NO_NUMBER) > last


@pytest.mark.long
def test_a_server_is_told_of_the_grant_of_its_own_former_number(first: Cluster, etcd: Etcd) -> None:
    await_number(first)
    change(first, "worker_id_range", "0-7")
    number = await_number(first)
    take(first, SHARD, above=None)
    with silent(etcd):
        change(first, "worker_id_range", "8-15")
    await_number(first)
    line = f"SELECT id_gen_shard_release({SHARD}) > 0"
    first.wait_until(lambda: first.psql("SELECT worker_id > 7 FROM id_gen_status()") == "t", "another")
    first.poll_until(line)
    assert in_registry(first).startswith("released")
    assert number != number_of(first)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_asks_the_registry_and_goes_on(first: Cluster, mode: str) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    last = many_of(first, SHARD, 10_000)[-1]
    first.restart(mode)
    await_holding(first)
    assert next_of(first, SHARD) > last
    assert first.psql("SELECT state, assigned_by FROM id_gen_stat_shards") == "open|registry"


@pytest.fixture
def lasting(conf: str) -> Iterator[Cluster]:
    """A server with the shard, whose grant does not end while it restarts, however busy the machine is."""
    with Cluster("lasting", conf=conf) as lasting:
        create_fleet(lasting, grant_s=60)
        await_number(lasting)
        take(lasting, SHARD, above=None)
        yield lasting


def test_restarts_move_no_shard_ahead_of_the_clock(lasting: Cluster) -> None:
    """Nor does a call fail that comes before the server has its number. None waits as after an acquisition: whichever
    process leaves last, memory has what the registry acknowledged."""
    for _ in range(10):
        lasting.restart()
        assert lasting.psql(f"SELECT snowflake_timestamp(snowflake_next({SHARD})) <= clock_timestamp()") == "t"


@pytest.mark.parametrize("last_to_leave", ["keeper", "registrar"])
def test_a_clean_stop_reserves_what_shards_have_generated(lasting: Cluster, last_to_leave: str) -> None:
    """Or a server that starts at once would generate the same again, where they lead the clock."""
    processes = {"keeper": keepers(lasting)[0], "registrar": registrar(lasting)}
    generated = f"SELECT max(snowflake_next({SHARD})) AS id FROM generate_series(1, 100000)"
    query = f"SELECT id, extract(epoch FROM snowflake_timestamp(id)) * 1000 FROM ({generated}) _"
    last, time_ms = lasting.psql(query).split("|")
    late = processes.pop(last_to_leave)
    os.kill(late, signal.SIGSTOP)
    lasting.begin_stop()
    for pid in processes.values():
        lasting.wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "stopping")
    os.kill(late, signal.SIGCONT)
    lasting.await_stop()
    assert Reservation(lasting).until_ms > float(time_ms)
    lasting.start()
    assert next_of(lasting, SHARD) > int(last)


def test_a_restart_opens_all_shards_without_a_write(etcd: Etcd, fleet: str, first: Cluster) -> None:
    await_number(first)
    shards = range(SHARD, SHARD + 100)
    are_open = f"SELECT count(*) = {len(shards)} FROM id_gen_stat_shards WHERE state = 'open'"
    for shard in shards:
        first.psql(f"SELECT id_gen_shard_take({shard})")
    # Nobody calls for an ID of any.
    first.poll_until(are_open)
    written = etcd.history(f"/id_gen/{name_of(fleet)}/s/")
    first.restart()
    await_number(first)
    first.poll_until(are_open)
    assert checks(first)["shards"].status == "ok"
    assert etcd.history(f"/id_gen/{name_of(fleet)}/s/") == written
    assert len(written) == len(shards)


def test_the_check_tells_of_a_shard_that_another_server_has_by_now(first: Cluster, second: Cluster) -> None:
    take(first, SHARD, above=None)
    first.psql(f"SELECT id_gen_fleet_release({number_of(first)})")
    second.poll_until(f"SELECT id_gen_shard_take({SHARD}) IS NOT NULL")
    await_number(first)
    first.wait_until(lambda: checks(first)["shards"].status == "error", "in error")
    assert f"snowflake_next({SHARD});" in (checks(first)["shards"].remedy or "")
    assert "Release it there" in (refused(first, SHARD).hint or "")
    release(first, SHARD)
    assert checks(first)["shards"].status == "ok"


def test_of_many_sessions_that_find_a_shard_closed_one_asks(etcd: Etcd, fleet: str, first: Cluster) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    first.restart()
    await_holding(first)
    with ThreadPoolExecutor(40) as pool:
        ids = list(pool.map(lambda _: next_of(first, SHARD), range(40)))
    assert len(set(ids)) == 40
    assert len(etcd.history(f"/id_gen/{name_of(fleet)}/s/")) == 1


@pytest.mark.long
def test_a_server_that_loses_its_number_asks_again(first: Cluster) -> None:
    number = await_number(first)
    take(first, SHARD, above=None)
    last = next_of(first, SHARD)
    first.psql(f"SELECT id_gen_fleet_release({number})")
    first.poll_until("SELECT fencings = 1 FROM id_gen_stat_fleet")
    await_number(first)
    # With another number the registry has to say so, which is waited with.
    assert first_given(first, lambda: next_of(first, SHARD), NO_NUMBER) > last
    assert in_registry(first) == f"held|{number_of(first)}"


@pytest.mark.long
def test_a_paused_owner_makes_nothing_more_once_another_has_the_shard(first: Cluster, second: Cluster) -> None:
    take(first, SHARD, above=None)
    with first.connect() as connection:
        ask = f"SELECT snowflake_next({SHARD})"
        given = [connection.execute(ask).fetchone()[0]]
        with first.paused():
            second.poll_until(f"SELECT id_gen_shard_take({SHARD}) IS NOT NULL")
            await_usable(second, SHARD)
            taken = many_of(second, SHARD, 1_000)
        first.poll_until("SELECT fencings = 1 FROM id_gen_stat_fleet")
        with pytest.raises(Exception, match="does not have shard|number|registry"):
            while True:
                given.append(connection.execute(ask).fetchone()[0])
    await_number(first)
    error = refused(first, SHARD)
    assert error.message == f"this server does not have shard {SHARD}"
    assert error.hint and error.hint.startswith(f"Release it there: SELECT id_gen_shard_release({SHARD});")
    assert min(taken) > max(given)


@pytest.mark.long
def test_a_shard_stays_its_owners_while_another_server_has_the_owners_former_number(
    first: Cluster, second: Cluster, conf: str
) -> None:
    """Its value names a number; whoever takes it looks at the server that has written it."""
    take(first, SHARD, above=None)
    number = number_of(first)
    with Writer([first, second], SHARD) as writer:

        def await_ids() -> None:
            made = len(writer.ids)
            first.wait_until(lambda: len(writer.ids) > made + 100, "making IDs")

        first.psql(f"SELECT id_gen_fleet_release({number})")
        first.poll_until("SELECT fencings = 1 FROM id_gen_stat_fleet")
        with Cluster("third", conf=f"{conf}\nid_gen.worker_id = {number}\n") as third:
            third.psql("CREATE EXTENSION id_gen")
            assert await_number(third) == number != await_number(first)
            await_ids()
            error = refusal(second, f"SELECT id_gen_shard_take({SHARD})")
            assert error.message == f"this server does not have shard {SHARD}"
            first.stop("immediate")
            second.poll_until(f"SELECT id_gen_shard_take({SHARD}) IS NOT NULL")
            await_ids()
            next_id(third)
    assert len(set(writer.ids)) == len(writer.ids)


@pytest.mark.long
def test_a_promoted_standby_takes_all_shards_of_its_primary_by_one_line(first: Cluster) -> None:
    await_number(first)
    shards = [SHARD, SHARD + 1]
    for shard in shards:
        take(first, shard, above=None)
    with Cluster("standby", standby_of=first) as standby:
        await_holding(standby)
        last = max(many_of(first, shard, 10)[-1] for shard in shards)
        [line] = [text for text in PAGE.blocks("text") if "pg_control_system" in text]
        standby.promote()
        await_number(standby)
        for shard in shards:
            assert refused(standby, shard).message == f"this server does not have shard {shard}"
        assert "has the shard, with worker ID" in (refusal(standby, line).detail or "")
        first.stop("immediate")
        standby.poll_until(
            line.rstrip().rstrip(";").replace("id_gen_shard_take(shard)", "count(id_gen_shard_take(shard)) = 2")
        )
        for shard in shards:
            await_usable(standby, shard)
            assert next_of(standby, shard) > last


@pytest.mark.long
def test_the_hint_takes_the_shard_of_a_server_that_left_without_its_registry(
    first: Cluster, second: Cluster, etcd: Etcd
) -> None:
    take(first, SHARD, above=None)
    with first.paused():
        second.poll_until(f"SELECT id_gen_shard_take({SHARD}) IS NOT NULL")
    await_usable(second, SHARD)
    last = next_of(second, SHARD)
    with silent(etcd):
        become(second, ALONE)
    release(second, SHARD)  # which the registry cannot know
    await_number(first)
    hint = refused(first, SHARD).hint or ""
    [line] = re.findall(r"SELECT id_gen_shard_take\([^;]*\)", hint)
    first.poll_until(f"{line} IS NOT NULL")
    await_usable(first, SHARD)
    assert next_of(first, SHARD) > last


@pytest.mark.long
def test_a_silent_registry_ends_in_a_refusal_and_no_session_spins(first: Cluster, etcd: Etcd) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    next_of(first, SHARD)
    with silent(etcd):
        first.poll_until(
            f"DO $$ BEGIN PERFORM snowflake_next({SHARD}); RAISE 'not yet'; EXCEPTION WHEN OTHERS THEN "
            "IF SQLERRM !~ 'grant has expired' THEN RAISE; END IF; END $$; SELECT true"
        )
        error = refused(first, SHARD)
        assert error.message == "this server's grant has expired"
        error = refusal(first, f"SELECT id_gen_shard_take({SHARD + 1})")
        assert error.hint
    await_number(first)
    next_of(first, SHARD)


def test_numbers_for_servers_are_no_shards(first: Cluster) -> None:
    shard = 14 if await_number(first) == 15 else 15
    error = refusal(first, f"SELECT id_gen_shard_take({shard})")
    assert error.message == f"shard {shard} is reserved as a worker ID of servers"
    # The line that leads out leaves this server its number.
    first_one, last_one = map(int, re.findall(r"worker_id_range = '(\d+)-(\d+)'", error.hint or "")[0])
    assert first_one <= number_of(first) <= last_one and not first_one <= shard <= last_one
    change(first, "worker_id_range", "0-7")
    first.poll_until(f"SELECT id_gen_shard_take({shard}) IS NOT NULL")
    await_usable(first, shard)
    next_of(first, shard)
    change(first, "worker_id_range", "1-7")
    first.poll_until("SELECT worker_id > 0 FROM id_gen_status()")
    change(first, "worker_id_range", "0-7")
    take_first = "SELECT id_gen_shard_take(0)"
    reserved = "is reserved as a worker ID of servers"
    hint = await_refusal(first, reserved, take_first).hint
    assert hint and "id_gen.worker_id_range = '1-" in hint


@pytest.mark.long
def test_the_number_of_a_shard_is_for_no_server(first: Cluster, conf: str) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    made = set(many_of(first, SHARD, 1_000))
    with Cluster("late", conf=f"{conf}\nid_gen.worker_id_range = '{SHARD}-{SHARD}'") as late:
        late.psql("CREATE EXTENSION id_gen")
        trouble = await_trouble(late)
        assert trouble.message == "the fleet has no free worker ID"
        assert trouble.detail and f"used by shard {SHARD}" in trouble.detail
        assert trouble.hint and "SELECT * FROM id_gen_fleet_shards();" in trouble.hint
        release(first, SHARD)
        change(late, "worker_id", str(SHARD))
        await_refusal(late, f"ID {SHARD} belongs to a shard")
        take(first, SHARD, above=None)
        late.psql("ALTER SYSTEM RESET id_gen.worker_id")
        change(late, "worker_id_range", f"0-{SHARD}")
        assert await_number(late) != SHARD
    assert made.isdisjoint(many_of(first, SHARD, 1_000))


@pytest.mark.long
def test_a_copy_of_a_member_has_none_of_its_shards(first: Cluster) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    with Cluster("copy", clone_of=first) as copy:
        await_number(copy)
        assert owned(copy) == set()
        error = refused(copy, SHARD)
        assert error.message == f"this server does not have shard {SHARD}"
        line = f"SELECT id_gen_shard_take({SHARD});"
        assert error.hint and error.hint.endswith(line)
        assert f"Release it there: SELECT id_gen_shard_release({SHARD});" in (refusal(copy, line).hint or "")
    next_of(first, SHARD)


@pytest.mark.long
def test_shards_of_a_fleet_do_not_count_outside_of_it_and_declared_ones_are_released_first(
    first: Cluster, second: Cluster
) -> None:
    """Or two servers that know nothing of each other would have one shard."""
    await_number(first)
    take(first, SHARD, above=None)
    last = next_of(first, SHARD)
    become(first, ALONE)
    assert refused(first, SHARD).message == f"shard {SHARD} belongs to another fleet"
    first.psql(RECOVER.format(shard=SHARD))
    assert next_of(first, SHARD) > last
    # More than the clock allows for: nobody but this server knows how far it is.
    first.psql(f"SELECT id_gen_shard_take({SHARD}, above => snowflake_max(clock_timestamp() + '4 s'::interval))")
    take(first, SHARD + 1)
    last, other = max(many_of(first, SHARD, 100)), next_of(first, SHARD + 1)
    become(first, MEMBER)
    declared = "a server with declared shards cannot join a fleet"
    assert refused(first, SHARD).message == refused(first, SHARD + 1).message == declared
    assert refusal(first, f"SELECT id_gen_shard_take({SHARD})").message == declared
    await_refusal(first, declared)
    assert checks(first)["worker_id"].status == "error"
    blocker = first.data / "id_gen/pgsql_tmp_shards_writing"
    blocker.mkdir()
    error = refusal(first, f"SELECT id_gen_shard_release({SHARD})")
    assert error.message.startswith('could not write file "id_gen/pgsql_tmp_shards"')
    first.restart()
    await_refusal(first, declared)
    blocker.rmdir()
    line = refusal(first, "SELECT snowflake_next()").hint
    assert line and line.endswith(";")
    alone = release(first, SHARD + 1)
    released = dict(row.split("|") for row in first.psql(line.split(": ")[1]).splitlines())
    assert released.keys() == {str(SHARD), str(SHARD + 1)}
    assert int(released[str(SHARD)]) >= last and int(released[str(SHARD + 1)]) == alone
    await_number(first)
    take(second, SHARD + 1, int(released[str(SHARD + 1)]))
    assert first_given(second, lambda: next_of(second, SHARD + 1), NO_NUMBER) > other
    take(first, SHARD, int(released[str(SHARD)]))
    assert first_given(first, lambda: next_of(first, SHARD), NO_NUMBER) > last
    become(first, ALONE)
    assert refused(first, SHARD + 1).message == f"this server does not have shard {SHARD + 1}"
    assert refusal(first, f"SELECT id_gen_shard_take({SHARD + 1})").message.endswith("is unknown to this server")


@pytest.mark.long
def test_a_server_that_leaves_its_fleet_is_told_what_number_to_take(first: Cluster) -> None:
    await_number(first)
    first.psql("ALTER SYSTEM SET id_gen.registry = ''; SELECT pg_reload_conf()")
    await_refusal(first, "is not set")
    error = refusal(first, "SELECT snowflake_next()")
    assert error.detail and "The fleet may assign that worker ID to another server." in error.detail
    assert error.hint and "id_gen.worker_id_range" in error.hint
    follow(first, error.hint)
    first.poll_until("SELECT worker_id FROM id_gen_status()", expected=CHOSEN_WORKER_ID)


@pytest.mark.long
def test_what_is_declared_after_a_fleet_outlives_any_clock(first: Cluster) -> None:
    await_number(first)
    become(first, ALONE)
    take(first, SHARD)
    later = time.time() + 3600
    os.utime(first.data / "id_gen/pgsql_tmp_number", (later, later))
    first.restart()
    next_of(first, SHARD)


@pytest.mark.long
def test_a_release_without_an_answer_is_repeated_or_the_shard_taken_again(etcd: Etcd, first: Cluster) -> None:
    await_number(first)
    line = f"SELECT id_gen_shard_release({SHARD})"
    take(first, SHARD, above=None)
    last = next_of(first, SHARD)
    with silent(etcd):
        assert refusal(first, line).sqlstate
        assert owned(first) == set()
    await_number(first)
    assert refused(first, SHARD).message == f"this server does not have shard {SHARD}"
    take(first, SHARD, above=None)
    assert next_of(first, SHARD) > last
    with silent(etcd):
        assert refusal(first, line).sqlstate
    await_number(first)
    assert release(first, SHARD) > last
    assert in_registry(first).startswith("released")
    take(first, SHARD, above=None)
    # All shards are forgotten meanwhile.
    with silent(etcd), ThreadPoolExecutor() as pool:
        file = first.data / "id_gen/pgsql_tmp_shards"
        releasing = pool.submit(refusal, first, f"SELECT id_gen_shard_release({SHARD})")
        first.wait_until(lambda: f"{SHARD} fleet" not in file.read_text(), "giving the shard back")
        first.psql("SELECT id_gen_shard_reset_all()")
        assert releasing.result().sqlstate
        assert owned(first) == set()


@pytest.mark.long
def test_a_shard_of_one_fleet_is_not_had_in_another(first: Cluster) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    last = next_of(first, SHARD)
    first.psql("ALTER SYSTEM SET id_gen.fleet_name = 'another-with-shards'")
    first.restart()
    create_fleet(first)
    await_number(first)
    error = refused(first, SHARD)
    assert (error.sqlstate, error.message) == ("55000", f"shard {SHARD} is unknown to the fleet's registry")
    assert first.psql("SELECT count(*) FROM id_gen_fleet_shards()") == "0"
    assert error.hint
    follow(first, error.hint)
    # It goes on above that, which the grant has to reach first.
    assert first_given(first, lambda: next_of(first, SHARD), NO_NUMBER) > last


def test_a_shard_that_the_registry_took_and_the_disk_did_not(first: Cluster, second: Cluster) -> None:
    blocker = first.data / "id_gen/pgsql_tmp_shards_writing"
    blocker.mkdir()
    assert refusal(first, f"SELECT id_gen_shard_take({SHARD})").detail
    assert refused(first, SHARD).sqlstate == NO_NUMBER
    blocker.rmdir()
    release(first, SHARD)
    take(second, SHARD, above=None)
    next_of(second, SHARD)


@pytest.mark.long
def test_who_is_terminated_in_between_harms_nothing(first: Cluster) -> None:
    await_number(first)
    take(first, SHARD, above=None)
    last = next_of(first, SHARD)
    first.kill9(registrar(first))
    first.poll_until(f"SELECT snowflake_next({SHARD}) > {last}")


@pytest.mark.long
def test_a_shard_of_a_server_whose_clock_was_ahead_is_used_again(first: Cluster, conf: str) -> None:
    """By the statements of the HINT, also where the server has generated no ID with its own number yet."""
    await_number(first)
    clock = FakeClock(3 * 365 * 24 * 3600)
    with Cluster("ahead", conf=conf, clock=clock) as ahead:
        ahead.psql("CREATE EXTENSION id_gen")
        accept_clock_ahead(ahead)
        await_number(ahead)
        take(ahead, SHARD, above=None)
        next_of(ahead, SHARD)
        release(ahead, SHARD)
    take(first, SHARD, above=None)
    change(first, "max_wait", "0")
    first.restart()
    await_holding(first)
    hint = refused(first, SHARD).hint or ""
    change(first, "max_wait", "90s")
    statements = re.findall(r"SELECT [^;]+;", hint)
    assert any("id_gen_fleet_lower(shard => " in statement for statement in statements)
    for statement in statements:
        first.psql(statement)
    # It begins as far ahead as a right clock may have put it, which is beyond this server's grant for some seconds.
    first.poll_until(f"SELECT snowflake_next({SHARD}) > 0")
    assert refusal(first, "SELECT id_gen_fleet_lower(shard => 501)").sqlstate == "42704"
