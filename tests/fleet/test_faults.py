"""What may happen to servers of a fleet while clients take IDs from them: none is ever given twice.

`make torture-fleet` plays such faults at random, for as long as wanted; here each is played at its worst moment.
"""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from harness import Cluster, SqlError
from harness.clock import FakeClock
from harness.etcd import Etcd
from harness.fleet import (
    NO_NUMBER,
    accept_clock_ahead,
    await_holding,
    await_number,
    await_trouble,
    create_fleet,
    forget_boot,
    grants,
    lose_memory,
    member_conf,
    name_of,
    number_of,
    registrar,
)
from harness.fleet_faults import HOUR, await_ids, clients
from harness.ids import change, refusal
from harness.relay import Way
from harness.reservation import Reservation
from harness.shards import next_of, take

# The protocol is the same with every server; how servers join and keep their numbers is tried on each.
pytestmark = [pytest.mark.any_server, pytest.mark.long]

ONLY_FIVE = "id_gen.worker_id_range = '5'\n"
NO_SHARDS = "id_gen.worker_id_range = '0-9'\n"
SHARD = 20
DAY = 24 * HOUR
KEPT_IN_THE_MAKING = "pgsql_tmp_writing"


@contextmanager
def stopped(cluster: Cluster, *titles: str) -> Iterator[None]:
    """Some of a server's processes stand still for as long as the block lasts."""
    found = {pid for pid, title in cluster.processes().items() for wanted in titles if wanted in title}
    assert found
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in found:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "paused",
    [(), ("id_gen registrar",), ("id_gen registrar", "id_gen keeper"), ("id_gen registrar", "[local]")],
    ids=["server", "registrar", "registrar and keeper", "registrar and sessions"],
)
def test_who_is_paused_while_another_server_takes_its_number(
    conf: str, tmp_path: Path, paused: tuple[str, ...]
) -> None:
    with Cluster("first", conf=conf + ONLY_FIVE) as first:
        create_fleet(first)
        assert await_number(first) == 5
        with (
            Cluster("second", conf=conf + ONLY_FIVE) as second,
            clients(tmp_path, first, second) as taking,
        ):
            second.psql("CREATE EXTENSION id_gen")
            assert await_trouble(second).message == "the fleet has no free worker ID"
            await_ids(taking["first"], first)
            with stopped(first, *paused) if paused else first.paused():
                await_ids(taking["second"], second)
            first.poll_until("SELECT fencings = 1 FROM id_gen_stat_fleet")
            for server in (first, second):
                change(server, "worker_id_range", "5-6")
            for server in (first, second):
                await_ids(taking[server.name], server)
            assert {number_of(first), number_of(second)} == {5, 6}


def highest_bound(etcd: Etcd, fleet: str) -> int:
    """The highest bound that etcd ever had for a fleet, whether its answer arrived or not, in Unix milliseconds."""
    return max(json.loads(value)["until_ms"] for _, value in etcd.history(f"/id_gen/{name_of(fleet)}/n/"))


@pytest.mark.parametrize("answers", [False, True], ids=["before the registry has it", "before its answer"])
def test_a_server_killed_while_it_renews_its_grant(etcd: Etcd, fleet: str, tmp_path: Path, answers: bool) -> None:
    with Way(etcd) as way, Cluster("first", conf=member_conf(way.endpoints, fleet)) as first:
        create_fleet(first)
        await_number(first)
        with clients(tmp_path, first) as taking:
            await_ids(taking["first"], first)
            failures = first.psql("SELECT failures FROM id_gen_stat_fleet")
            with way.cut(requests=not answers, answers=answers):
                # One request was given up, and others go where it went.
                first.poll_until(f"SELECT failures > {failures} FROM id_gen_stat_fleet")
                if answers:
                    known = "SELECT extract(epoch FROM granted_until) * 1000 FROM id_gen_status()"
                    first.wait_until(
                        lambda: highest_bound(etcd, fleet) > float(first.psql(known)), "behind its registry"
                    )
                first.kill9()
            first.start()
            await_ids(taking["first"], first)


def test_a_write_of_the_last_process_that_comes_late_is_no_other_servers(etcd: Etcd, fleet: str) -> None:
    """It lands while the server, which its machine has started anew, looks who renews its grant."""
    with Way(etcd) as way, Cluster("first", conf=member_conf(way.endpoints, f"{fleet}\n{NO_SHARDS}")) as first:
        create_fleet(first)
        number = await_number(first)
        take(first, SHARD, above=None)

        def value() -> str:
            return etcd.ctl("get", "--print-value-only", f"/id_gen/{name_of(fleet)}/n/0/{number}")

        with way.cut(answers=False):
            failures = first.psql("SELECT failures FROM id_gen_stat_fleet")
            # A renewal was given up, and is on its way still.
            first.poll_until(f"SELECT failures > {failures} FROM id_gen_stat_fleet")
            before = value()
            first.kill9()
            lose_memory(first)
            first.append_conf(f"id_gen.registry = '{etcd.endpoints}'")
            first.start()
            first.wait_until(lambda: "which it had before" in (refusal(first).detail or ""), "looking")
            assert value() == before
        first.wait_until(lambda: value() != before, "renewed by its last process")
        assert await_number(first) == number
        next_of(first, SHARD)
        assert "becomes a new member" not in first.log()


def test_a_fleet_that_was_down_for_a_day_needs_nobody(etcd: Etcd, conf: str, fleet: str) -> None:
    """Not even where a value is left that a wrong clock has written."""
    clocks = FakeClock(), FakeClock()
    with (
        Cluster("first", conf=conf + NO_SHARDS, clock=clocks[0]) as first,
        Cluster("second", conf=conf + NO_SHARDS, clock=clocks[1]) as second,
    ):
        create_fleet(first)
        second.psql("CREATE EXTENSION id_gen")
        numbers = [await_number(server) for server in (first, second)]
        take(first, SHARD, above=None)
        key = f"/id_gen/{name_of(fleet)}/n/0"
        left = json.loads(etcd.ctl("get", "--print-value-only", f"{key}/{numbers[0]}"))
        poisoned = left | {"until_ms": left["until_ms"] + round(365 * DAY * 1000), "server_id": f"{7:032x}"}
        etcd.ctl("put", f"{key}/{max(numbers) + 1}", json.dumps(poisoned | {"nonce": f"{7:032x}", "tag": f"{7:032x}"}))
        for server, clock in zip((first, second), clocks, strict=True):
            server.stop("immediate")
            lose_memory(server)
            clock.step(DAY)
        for server in (first, second):
            server.start()
        assert [await_number(server) for server in (first, second)] == numbers
        next_of(first, SHARD)


def test_a_server_killed_before_its_number_is_on_disk(etcd: Etcd, conf: str, fleet: str, tmp_path: Path) -> None:
    with Cluster("first", conf=conf) as first, Cluster("second", conf=conf) as second:
        create_fleet(first)
        second.psql("CREATE EXTENSION id_gen")
        number = await_number(first)
        await_number(second)
        with clients(tmp_path, first, second) as taking:
            await_ids(taking["first"], first)
            with Reservation(first).hanging(KEPT_IN_THE_MAKING):
                second.psql(f"SELECT id_gen_fleet_release({number})")
                # It has acquired another, as the registry knows.
                held = "SELECT count(*) FILTER (WHERE state = 'held') FROM id_gen_fleet_members()"
                second.wait_until(lambda: second.psql(held) == "2" and grants(second)[number] != "held", "of two")
                first.kill9(registrar(first))
            for server in (first, second):
                await_ids(taking[server.name], server)


def test_a_primary_that_is_rewound_to_its_successor(conf: str, tmp_path: Path) -> None:
    with Cluster("primary", conf=f"{conf}wal_log_hints = on\nwal_keep_size = '256 MB'\n") as primary:
        create_fleet(primary)
        await_number(primary)
        with Cluster("standby", standby_of=primary) as standby:
            await_holding(standby)
            with clients(tmp_path, primary, standby) as taking:
                await_ids(taking["primary"], primary)
                primary.wait_for_catchup(standby)
                standby.promote()
                await_ids(taking["standby"], standby)
                await_ids(taking["primary"], primary)
                primary.stop()
                primary.rewind_to(standby)
                primary.start()
                await_holding(primary)
                assert number_of(primary) != number_of(standby)
                primary.promote()
                for server in (primary, standby):
                    await_ids(taking[server.name], server)


def test_five_servers_and_four_numbers(conf: str, tmp_path: Path) -> None:
    few = f"{conf}id_gen.worker_id_range = '0-3'\n"
    with ExitStack() as stack:
        servers = [stack.enter_context(Cluster(f"s{number}", conf=few)) for number in range(4)]
        create_fleet(servers[0])
        for server in servers[1:]:
            server.psql("CREATE EXTENSION id_gen")
        assert {await_number(server) for server in servers} == {0, 1, 2, 3}
        late = stack.enter_context(Cluster("late", conf=few))
        late.psql("CREATE EXTENSION id_gen")
        error = await_trouble(late)
        assert (error.sqlstate, error.message) == ("53400", "the fleet has no free worker ID")
        with clients(tmp_path, *servers, late) as taking:
            for server in servers:
                await_ids(taking[server.name], server)
            number = number_of(servers[0])
            servers[0].stop()
            await_ids(taking[late.name], late)
            assert number_of(late) == number


def test_two_fleets_in_one_registry(etcd: Etcd, conf: str, fleet: str) -> None:
    other_fleet = fleet.replace("two", "other")
    with (
        Cluster("first", conf=conf + ONLY_FIVE) as first,
        Cluster("other", conf=member_conf(etcd.endpoints, other_fleet + "\n" + ONLY_FIVE)) as other,
    ):
        for server in (first, other):
            create_fleet(server)
        assert [await_number(server) for server in (first, other)] == [5, 5]
        first.psql("SELECT id_gen_fleet_release(5)")
        first.poll_until("SELECT fencings = 1 FROM id_gen_stat_fleet")
        renewals = other.psql("SELECT renewals FROM id_gen_stat_fleet")
        other.poll_until(f"SELECT renewals > {renewals} FROM id_gen_stat_fleet")
        assert other.psql("SELECT fencings || ' ' || acquisitions FROM id_gen_stat_fleet") == "0 1"
        assert refusal(other, "SELECT id_gen_fleet_release(6)").sqlstate == "42704"
        assert grants(other) == {5: "held"}


def test_an_etcd_whose_disk_is_slow(etcd: Etcd, first: Cluster, tmp_path: Path) -> None:
    await_number(first)
    with clients(tmp_path, first) as taking, etcd.stuttering():
        renewals = first.psql("SELECT renewals FROM id_gen_stat_fleet")
        # Longer than a grant.
        first.poll_until(f"SELECT renewals > {renewals} + 8 FROM id_gen_stat_fleet")
        await_ids(taking["first"], first)
    assert first.psql("SELECT fencings || ' ' || restorations FROM id_gen_stat_fleet") == "0 0"


@pytest.mark.parametrize("restored", [False, True], ids=["wiped", "restored"])
@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "unnoticed"])
def test_a_registry_that_forgets_while_a_holder_is_paused(
    etcd: Etcd, conf: str, fleet: str, tmp_path: Path, noticed: bool, restored: bool
) -> None:
    """Another server notices, and tells the newcomer; where there is none, the newcomer waits for long enough."""
    lead = "id_gen.max_lead = '500 ms'\n"
    numbers = f"/id_gen/{name_of(fleet)}/n/"
    with (
        Cluster("first", conf=conf + lead + ONLY_FIVE) as first,
        Cluster("witness", conf=conf + lead + "id_gen.worker_id_range = '6'\n") as witness,
    ):
        create_fleet(first)
        witness.psql("CREATE EXTENSION id_gen")
        for server in (first, witness):
            await_number(server)
        before = etcd.ctl("get", "--prefix", numbers).splitlines()
        renewals = first.psql("SELECT renewals FROM id_gen_stat_fleet")
        first.poll_until(f"SELECT renewals > {renewals} + 1 FROM id_gen_stat_fleet")
        if not noticed:
            witness.stop()
        with (
            Cluster("newcomer", conf=conf + lead + ONLY_FIVE) as newcomer,
            clients(tmp_path, first, newcomer) as taking,
        ):
            newcomer.psql("CREATE EXTENSION id_gen")
            await_ids(taking["first"], first)
            with first.paused():
                etcd.ctl("del", "--prefix", numbers)
                if restored:
                    for key, value in zip(before[::2], before[1::2], strict=True):
                        etcd.ctl("put", key, value)
                await_ids(taking["newcomer"], newcomer)
                assert number_of(newcomer) == 5
            first.poll_until("SELECT state <> 'holding' FROM id_gen_stat_fleet")
            assert refusal(first).sqlstate in (NO_NUMBER, "53400")


def test_a_clock_that_is_not_trusted_is_written_nowhere(etcd: Etcd, conf: str, fleet: str) -> None:
    """Or nothing could be made with the number, or with a shard, until the clock has come so far; also by a server that
    starts with such a clock."""
    clock = FakeClock()
    with Cluster("first", conf=conf + ONLY_FIVE, clock=clock) as first:
        create_fleet(first)
        await_number(first)
        take(first, SHARD, above=None)
        next_of(first, SHARD)
        clock.step(HOUR)
        renewals = int(first.psql("SELECT renewals FROM id_gen_stat_fleet"))
        first.poll_until(f"SELECT renewals > {renewals} + 1 FROM id_gen_stat_fleet")
        first.restart()
        await_holding(first)
        assert refusal(first).message == "the clock jumped forward"
        assert highest_bound(etcd, fleet) < (time.time() + HOUR / 2) * 1000
        clock.put_right()
        assert await_number(first) == 5
        next_of(first, SHARD)


def test_a_clock_that_jumps_before_a_server_has_a_number_takes_none_from_another(
    etcd: Etcd, conf: str, fleet: str
) -> None:
    clock = FakeClock()
    with Cluster("first", conf=conf + ONLY_FIVE) as first, ExitStack() as later:
        create_fleet(first)
        await_number(first)
        second = later.enter_context(Cluster("second", conf=conf + ONLY_FIVE, clock=clock))
        second.wait_until(lambda: "the fleet has no free worker ID" in second.log(), "asking for a number")
        clock.step(HOUR)
        renewals = int(first.psql("SELECT renewals FROM id_gen_stat_fleet"))
        first.poll_until(f"SELECT renewals > {renewals} + 3 FROM id_gen_stat_fleet")
        assert number_of(first) == 5
        assert highest_bound(etcd, fleet) < (time.time() + HOUR / 2) * 1000


def test_a_bound_that_a_wrong_clock_has_set_is_lowered(etcd: Etcd, fleet: str, first: Cluster) -> None:
    number = await_number(first)
    numbers = f"/id_gen/{name_of(fleet)}/n/0"
    value = json.loads(etcd.ctl("get", "--print-value-only", f"{numbers}/{number}"))
    value["until_ms"] += int(24 * HOUR) * 1000
    other = number ^ 1
    etcd.ctl("put", f"{numbers}/{other}", json.dumps(value, separators=(",", ":")))
    with first.connect() as connection:
        notices: list[str | None] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        until = f"SELECT id_gen_fleet_lower({other}) < now() + interval '1 min'"
        assert [connection.execute(until).fetchone() for _ in range(2)] == [(True,), (True,)]
    assert len(notices) == 1 and "its bound is lowered from" in (notices[0] or "")
    assert grants(first)[other] == "released"
    assert refusal(first, "SELECT id_gen_fleet_lower(999)").sqlstate == "42704"
    for arguments in ("", f"{other}, shard => {other}", f"{other}, NULL", f"shard => {other}, datacenter_id => NULL"):
        assert refusal(first, f"SELECT id_gen_fleet_lower({arguments})").sqlstate == "22023"


@pytest.mark.long
def test_a_number_that_was_acquired_with_a_wrong_clock_is_lowered_by_the_hint(etcd: Etcd, conf: str) -> None:
    """A server that acquires it again has to start above the bound."""
    clock = FakeClock(24 * HOUR)
    with Cluster("first", conf=conf + "id_gen.worker_id_range = '6'\n") as first:
        create_fleet(first)
        await_number(first)
        with Cluster("second", conf=conf + ONLY_FIVE, clock=clock) as second:
            second.psql("CREATE EXTENSION id_gen")
            accept_clock_ahead(second)
            await_number(second)
            clock.put_right()
            forget_boot(second)
            await_holding(second)
            error = refusal(second)
            assert (told := re.search(r"SELECT id_gen_fleet_lower\([^;]*;", error.hint or "")), error.hint
            second.stop()
            first.psql(told[0])
            second.start()
            await_holding(second)
            with suppress(SqlError):
                second.psql("SELECT id_gen_reservation_reset(above => now())")
            await_number(second)


def test_an_endless_bound_is_shown_as_infinite(etcd: Etcd, fleet: str, first: Cluster) -> None:
    number = await_number(first)
    numbers = f"/id_gen/{name_of(fleet)}/n/0"
    value = json.loads(etcd.ctl("get", "--print-value-only", f"{numbers}/{number}"))
    value["until_ms"] = 2**63 - 1
    other = number ^ 1
    etcd.ctl("put", f"{numbers}/{other}", json.dumps(value, separators=(",", ":")))
    assert first.psql(f"SELECT granted_until FROM id_gen_fleet_members() WHERE worker_id = {other}") == "infinity"


def test_a_bound_is_not_lowered_under_a_server_that_renews_it(etcd: Etcd, fleet: str, first: Cluster) -> None:
    """Its IDs may be of any time up to that bound."""
    number = await_number(first)
    key = f"/id_gen/{name_of(fleet)}/n/0/{number}"
    value = json.loads(etcd.ctl("get", "--print-value-only", key))
    value["until_ms"] += int(24 * HOUR) * 1000
    etcd.ctl("put", key, json.dumps(value, separators=(",", ":")))
    error = refusal(first, f"SELECT id_gen_fleet_lower({number})")
    assert error.sqlstate == "55006" and "renewed its grant" in (error.detail or "")
    assert grants(first)[number] == "held"


def test_nothing_is_lowered_by_a_clock_that_was_set_back(etcd: Etcd, conf: str, fleet: str) -> None:
    """The bound of a server that makes IDs would be taken for one that is too far ahead."""
    clock = FakeClock()
    with Cluster("first", conf=conf, clock=clock) as first, Cluster("second", conf=conf) as second:
        create_fleet(first)
        second.psql("CREATE EXTENSION id_gen")
        await_number(first)
        number = await_number(second)
        clock.step(-HOUR)
        for command in (f"id_gen_fleet_lower({number})", "id_gen_fleet_report_restore()"):
            error = refusal(first, f"SELECT {command}")
            assert error.sqlstate == "55000" and "clock is behind" in error.message
        # After a restart, only its reservation knows what the clock has shown.
        first.stop()
        Reservation(first).file.unlink()
        first.start()
        for command in (f"id_gen_fleet_lower({number})", "id_gen_fleet_report_restore()"):
            error = refusal(first, f"SELECT {command}")
            assert error.message == 'file "id_gen/reservation" is missing'
        assert grants(second)[number] == "held"


YEARS = 3 * 365 * DAY


@pytest.mark.parametrize("numbers", ["5", "0-7"])
def test_a_server_whose_clock_was_ahead_makes_ids_again(conf: str, numbers: str) -> None:
    """By what docs/operations.md says, and over a restart."""
    clock = FakeClock(YEARS)
    wrong = f"{conf}id_gen.worker_id_range = '{numbers}'\n"
    with Cluster("first", conf=f"{conf}id_gen.worker_id_range = '9'\n") as first, ExitStack() as later:
        create_fleet(first)
        await_number(first)
        second = later.enter_context(Cluster("second", conf=wrong, clock=clock))
        second.psql("CREATE EXTENSION id_gen")
        accept_clock_ahead(second)
        number = await_number(second)
        second.stop()
        clock.put_right()
        for _ in range(2):
            lower = f"SELECT id_gen_fleet_lower({number}) < now() + interval '1 min'"
            assert first.psql(lower) == "t"
            second.start()
            await_holding(second)
            second.psql("SELECT id_gen_reservation_reset(above => now())")
            number = await_number(second)
            second.stop()


def test_a_value_that_cannot_be_read_stops_nobody(etcd: Etcd, conf: str, fleet: str, first: Cluster) -> None:
    number = await_number(first)
    free = {0, 1, 2} - {number}
    for key in (f"n/0/{min(free)}", "s/0/31"):
        etcd.ctl("put", f"/id_gen/{name_of(fleet)}/{key}", "{}")
    with Cluster("second", conf=f"{conf}id_gen.worker_id_range = '0-2'\n") as second:
        second.psql("CREATE EXTENSION id_gen")
        assert await_number(second) not in {number, min(free)}
        assert "invalid values of" in second.log()
    assert grants(first)[min(free)] == "unreadable"
    assert first.psql("SELECT shard, state FROM id_gen_fleet_shards()") == "31|unreadable"


def release(server: Cluster) -> None:
    """Releases a server's number, whichever that is by then."""

    def released() -> bool:
        with suppress(SqlError):
            return bool(server.psql("SELECT id_gen_fleet_release(worker_id) FROM id_gen_status()"))
        return False

    server.wait_until(released, "without a number")


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_clocks_an_hour_off(etcd: Etcd, conf: str, first: Cluster, tmp_path: Path, ahead: float) -> None:
    await_number(first)
    with Cluster("off", conf=conf, clock=FakeClock(ahead)) as off, clients(tmp_path, first, off) as taking:
        off.psql("CREATE EXTENSION id_gen")
        if ahead > 0:
            accept_clock_ahead(off)
        for server in (off, first, off):
            await_ids(taking["off"], off)
            # The other one may take it.
            release(server)
            for each in (first, off):
                await_ids(taking[each.name], each)
