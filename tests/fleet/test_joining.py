"""A server whose number was typed by hand joins a fleet, and what it made before is not made again."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Cluster
from harness.checks import checks
from harness.cluster import PRELOAD
from harness.etcd import Etcd
from harness.fleet import (
    NO_NUMBER,
    UNREACHABLE,
    await_holding,
    await_number,
    create_fleet,
    member_conf,
    registrar,
    silent,
)
from harness.ids import (
    NARROW_LAYOUT,
    PATIENT,
    TOO_FAR_AHEAD,
    Caller,
    answer_of,
    array_of,
    await_refusal,
    change,
    first_given,
    next_id,
    refusal,
)
from harness.ports import LOOPBACK
from harness.reservation import PAGE, Reservation
from harness.shards import take

pytestmark = pytest.mark.long

NARROW = f"id_gen.layout = '{NARROW_LAYOUT}'\n"
# So far ahead of the clock that no grant of the fleet reaches there.
LEAD_SECONDS = 20


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with Etcd() as etcd:
        yield etcd


@pytest.fixture
def fleet(etcd: Etcd, request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test has a fleet of its own; whoever is to have another number than the typed one has 1."""
    fleet = f"{NARROW}id_gen.fleet_name = '{request.node.name[:60]}'\n"
    with Cluster("first", conf=member_conf(etcd.endpoints, f"{fleet}id_gen.worker_id_range = '1'")) as first:
        create_fleet(first)
        yield fleet


def typed_conf() -> str:
    return f"{PRELOAD}{NARROW}id_gen.max_lead = '{2 * LEAD_SECONDS}s'\nid_gen.worker_id = 9\n"


class Loses:
    """A way to etcd that ends with the first write, or with the answer to it."""

    def __init__(self, port: int, *, answer: bool) -> None:
        self._answer = answer
        self._to = port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.endpoint = f"etcd://{LOOPBACK}:{self._listener.getsockname()[1]}"
        self.cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self.cut.is_set():
                client.close()
                continue
            server = socket.create_connection((LOOPBACK, self._to))
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, requests: bool) -> None:
        while piece := source.recv(65536):
            if requests and b"/v3/kv/txn" in piece:
                self.cut.set()
            if not self.cut.is_set() or requests and self._answer:
                target.sendall(piece)
            elif requests:
                source.close()
                return


@pytest.mark.every_version("the registrar is a background worker, whose interface differs")
def test_an_acquisition_without_an_answer(etcd: Etcd, fleet: str) -> None:
    way = Loses(etcd.members[0].port, answer=True)
    with Cluster("typed", conf=typed_conf()) as typed:
        typed.psql("CREATE EXTENSION id_gen")
        next_id(typed)
        typed.append_conf(f"{fleet}id_gen.registry = '{way.endpoint}'")
        typed.reload()
        typed.wait_until(way.cut.is_set, "asking for its number")
        with Cluster("late", conf=member_conf(etcd.endpoints, f"{fleet}id_gen.worker_id_range = '9'")) as late:
            late.psql("CREATE EXTENSION id_gen")
            assert await_number(late) == 9
            assert refusal(typed).message == "this server's grant has expired"


def test_what_was_made_far_ahead_of_the_clock(etcd: Etcd, fleet: str) -> None:
    with Cluster("typed", conf=typed_conf()) as typed:
        typed.psql("CREATE EXTENSION id_gen")
        last = int(typed.psql(array_of(LEAD_SECONDS * 1000)))
        typed.append_conf(f"{fleet}id_gen.registry = '{etcd.endpoints}'")
        typed.reload()
        typed.poll_until("SELECT state = 'holding' FROM id_gen_stat_fleet")
        typed.stop()
    with Cluster("late", conf=member_conf(etcd.endpoints, f"{fleet}id_gen.worker_id_range = '9'\n{PATIENT}")) as late:
        late.psql("CREATE EXTENSION id_gen")
        assert await_id(late) > last


def test_what_the_primary_made_of_a_standby_that_joins(etcd: Etcd, fleet: str) -> None:
    with Cluster("primary", conf=typed_conf()) as primary:
        primary.psql("CREATE EXTENSION id_gen")
        with Cluster("standby", standby_of=primary) as standby:
            standby.append_conf(f"{fleet}id_gen.registry = '{etcd.endpoints}'")
            standby.restart()
            await_holding(standby)
            last = int(primary.psql(array_of(LEAD_SECONDS * 1000)))
            primary.psql("CREATE TABLE committed ()")
            primary.wait_for_catchup(standby)
            primary.stop("immediate")
            standby.promote()
            assert await_id(standby) > last


def test_what_the_primary_made_of_a_standby_that_gets_its_number(etcd: Etcd, fleet: str) -> None:
    """The primary is in no fleet, so the registry assigns its number to another: its own standby."""
    with Cluster("primary", conf=typed_conf()) as primary:
        primary.psql("CREATE EXTENSION id_gen")
        next_id(primary)
        with Cluster("standby", standby_of=primary) as standby:
            standby.append_conf(f"{fleet}id_gen.registry = '{etcd.endpoints}'\nid_gen.max_lead = 0\n")
            standby.append_conf("id_gen.worker_id = -1\nid_gen.worker_id_range = '8-9'\n")
            with Cluster("other", conf=member_conf(etcd.endpoints, f"{fleet}id_gen.worker_id_range = '8'\n")) as other:
                other.psql("CREATE EXTENSION id_gen")
                await_number(other)
                standby.restart()
                await_holding(standby)
                last = int(primary.psql(array_of(LEAD_SECONDS * 1000)))
                assert_promoted_above(primary, standby, last)


def test_what_the_primary_made_with_its_worker_id_of_before(etcd: Etcd, fleet: str) -> None:
    """The log of the primary, which is in no fleet, names only its last worker ID."""
    with Cluster("primary", conf=typed_conf().replace("= 9", "= 10")) as primary:
        primary.psql("CREATE EXTENSION id_gen")
        next_id(primary)
        with Cluster("standby", standby_of=primary) as standby:
            standby.append_conf(f"{fleet}id_gen.registry = '{etcd.endpoints}'\nid_gen.max_lead = 0\n")
            standby.append_conf("id_gen.worker_id = -1\nid_gen.worker_id_range = '9'\n")
            standby.restart()
            await_holding(standby)
            set_worker_id(primary, 9)
            last = int(primary.psql(array_of(LEAD_SECONDS * 1000)))
            set_worker_id(primary, 10)
            assert_promoted_above(primary, standby, last)


def assert_promoted_above(primary: Cluster, standby: Cluster, last: int) -> None:
    """A standby with worker ID 9, which replaces its primary, starts above the last ID that was committed there."""
    primary.psql("CREATE TABLE committed ()")
    primary.wait_for_catchup(standby)
    primary.stop("immediate")
    standby.promote()
    first = await_id(standby)
    assert standby.psql(f"SELECT worker_id FROM snowflake_parse({first})") == "9"
    assert first > last


def set_worker_id(cluster: Cluster, worker_id: int) -> None:
    """Returns when the server generates with it."""
    change(cluster, "worker_id", worker_id)
    cluster.poll_until("SELECT worker_id FROM snowflake_parse(snowflake_next())", expected=str(worker_id))


def test_a_number_typed_while_the_registry_was_lost(etcd: Etcd, fleet: str) -> None:
    with Cluster("back", conf=member_conf(etcd.endpoints, f"{fleet}id_gen.worker_id_range = '9'")) as back:
        back.psql("CREATE EXTENSION id_gen")
        await_number(back)
        threads = Path(f"/proc/{registrar(back)}/task")
        with silent(etcd):
            back.poll_until("SELECT state <> 'ready' FROM id_gen_status()")
            back.psql("ALTER SYSTEM SET id_gen.worker_id = 9")
            back.psql("ALTER SYSTEM SET id_gen.registry = ''")
            back.reload()
            back.poll_until("SELECT state = 'ready' FROM id_gen_status()")
            back.wait_until(lambda: len(list(threads.iterdir())) == 1, "no longer giving its number back")
        last = next_id(back)
        back.psql("ALTER SYSTEM RESET id_gen.registry")
        back.reload()

        def joined() -> bool:
            nonlocal last
            given = next_id(back)
            assert given > last
            last = given
            return back.psql("SELECT state = 'holding' FROM id_gen_stat_fleet") == "t"

        back.wait_until(joined, "of the fleet again")


def await_id(cluster: Cluster) -> int:
    """The first ID that a server gives, however often it refuses one before."""
    return first_given(cluster, lambda: next_id(cluster), NO_NUMBER, TOO_FAR_AHEAD, UNREACHABLE)


def test_a_fleet_is_made_right_after_the_reload_that_names_it(etcd: Etcd) -> None:
    """In one script the call begins while the signal is on its way. Here it is, because the postmaster stands still.
    Also where the session has another fleet's name, which is not to be made then."""
    with (
        Cluster(conf=PRELOAD + PATIENT) as cluster,
        Caller(cluster) as caller,
        Caller(cluster) as watcher,
        cluster.connect() as administrator,
    ):
        cluster.psql("CREATE EXTENSION id_gen")
        waiting = f"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = {caller.pid}"
        for fleet in ("right-after-one", "right-after-two"):
            cluster.psql(f"ALTER SYSTEM SET id_gen.registry = '{etcd.endpoints}'")
            os.kill(cluster.pid, signal.SIGSTOP)
            try:
                administrator.execute(f"ALTER SYSTEM SET id_gen.fleet_name = '{fleet}'")
                cluster.reload()
                answer = caller.begin("SELECT id_gen_fleet_create()::text")
                cluster.wait_until(lambda: watcher.ask(waiting), "waiting for the reload")
            finally:
                os.kill(cluster.pid, signal.SIGCONT)
            answer_of(answer)
            assert caller.ask("SHOW id_gen.fleet_name") == fleet


def test_nor_its_ids_by_another_number_or_as_a_shard(etcd: Etcd) -> None:
    """Worker IDs 18 and 19 have the bits of the original's 9 where the worker ID is one bit longer."""
    wide = "epoch=2024-01-01 tick=1ms time:41 worker:7 sequence:15"
    fleet = f"id_gen.fleet_name = 'wide-copies'\nid_gen.layout = '{wide}'\n"
    with Cluster("original", conf=f"{PRELOAD}{PATIENT}id_gen.layout = 'wide'\nid_gen.worker_id = 9\n") as original:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        with Cluster("copy", clone_of=original) as copy:
            copy.append_conf(f"id_gen.registry = '{etcd.endpoints}'\n{fleet}id_gen.worker_id = -1\n")
            copy.append_conf("id_gen.worker_id_range = '18-19'\n")
            copy.restart()
            create_fleet(copy)
            await_refusal(copy, "the fleet has no free worker ID")
            check = checks(copy)["fleet"]
            assert "excluded for servers that this data directory is a copy of: 2" in check.found
            assert "id_gen_copy_accept" in check.remedy
            change(copy, "worker_id_range", "20-63")
            assert await_number(copy) >= 20
            for shard in (9, 18, 19):
                error = refusal(copy, f"SELECT id_gen_shard_take({shard})")
                assert error.message == f"shard {shard} may be in use outside of the fleet"
            original.stop()
            assert error.hint is not None
            copy.psql(error.hint[error.hint.index("SELECT") :])
            # The registry knows from now on where its IDs end.
            copy.psql("SELECT id_gen_shard_take(19)")
            copy.restart()
            await_number(copy)
            copy.psql("SELECT id_gen_shard_take(19)")
            copy.psql("SELECT id_gen_shard_release(19)")
            take(copy, 19, above=None)
            assert int(copy.psql("SELECT snowflake_next(19)")) > 0
            assert "may be in use outside of the fleet" in refusal(copy, "SELECT id_gen_shard_take(18)").message
            copy.psql("SELECT id_gen_shard_take(17)")
            change(copy, "worker_id", 18)
            await_refusal(copy, "data directory is a copy")
            copy.psql("SELECT id_gen_copy_accept(is_only_one => true)")
            assert await_number(copy) == 18


def test_nor_does_a_standby_of_the_copy(etcd: Etcd, fleet: str) -> None:
    """It asks its fleet for a number before its promotion."""
    with Cluster("original", conf=typed_conf()) as original:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        member = f"{fleet}id_gen.registry = '{etcd.endpoints}'\nid_gen.worker_id = -1\n"
        with Cluster("copy", clone_of=original, conf=f"{member}id_gen.worker_id_range = '9-10'\n") as copy:
            assert await_number(copy) == 10
            with Cluster("standby", standby_of=copy, conf="id_gen.worker_id_range = '9-11'\n") as standby:
                await_holding(standby)
                copy.psql("CREATE TABLE committed ()")
                copy.wait_for_catchup(standby)
                copy.stop()
                with Caller(standby) as caller:
                    standby.promote()
                    # A moment later its registrar would have given another one back.
                    given = first_given(standby, lambda: int(caller.ask()), NO_NUMBER, TOO_FAR_AHEAD)
                assert standby.psql(f"SELECT worker_id FROM snowflake_parse({given})") == "11"


def test_a_number_that_an_original_asked_for_in_vain_stays_its_own(etcd: Etcd, fleet: str) -> None:
    """The registry does not know of it."""
    way = Loses(etcd.members[0].port, answer=False)
    with Cluster("original", conf=f"{typed_conf()}{fleet}") as original:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        change(original, "registry", way.endpoint)
        original.wait_until(way.cut.is_set, "asking for its number")
        reservation = Reservation(original)
        until_ms = reservation.until_ms
        original.wait_until(lambda: reservation.until_ms > until_ms, "reserving more")
        with Cluster("copy", clone_of=original) as copy:
            change(original, "registry", "")
            copy.append_conf("id_gen.worker_id = -1\nid_gen.worker_id_range = '9'\n")
            change(copy, "registry", etcd.endpoints)
            await_refusal(copy, "the fleet has no free worker ID")
            assert first_given(original, lambda: next_id(original), NO_NUMBER) > 0


def test_the_remedy_for_a_damaged_page_is_named(etcd: Etcd, fleet: str) -> None:
    """The page of a promoted standby, which has no file yet."""
    conf = member_conf(etcd.endpoints, f"{fleet}id_gen.worker_id_range = '9-10'\n")
    with Cluster("primary", conf=conf) as primary:
        primary.psql("CREATE EXTENSION id_gen")
        with Cluster("standby", standby_of=primary, conf="id_gen.registry = ''\n") as standby:
            await_number(primary)
            primary.psql("CREATE TABLE committed ()")
            primary.wait_for_catchup(standby)
            standby.promote()
            standby.stop()
            assert not Reservation(standby).file.exists()
            page = standby.data / PAGE
            page.write_bytes(bytes(page.stat().st_size))
            standby.append_conf(f"id_gen.registry = '{etcd.endpoints}'")
            standby.start()
            error = await_refusal(standby, f'file "{PAGE}" is damaged')
            command = "id_gen_reservation_reset(above => now());"
            assert command in (error.hint or "")
            assert command in (checks(standby)["reservation"].remedy or "")
            standby.psql(f"SELECT {command}")
            assert await_number(standby) in (9, 10)


@pytest.mark.parametrize("trouble", ["damaged", "unreadable", "missing"])
def test_a_copy_gets_no_number_while_it_is_unknown_whose_copy_it_is(etcd: Etcd, trouble: str) -> None:
    """Its file would say so; nothing else does if its original's log is not for standbys."""
    conf = f"{typed_conf()}{PATIENT}wal_level = minimal\nmax_wal_senders = 0\n"
    with Cluster("original", conf=conf) as original:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        with Cluster("copy", clone_of=original, conf="id_gen.worker_id = 10\n") as copy:
            next_id(copy)
            copy.stop()
            file = Reservation(copy).file
            match trouble:
                case "damaged":
                    file.write_bytes(file.read_bytes()[:-20])
                case "unreadable":
                    file.chmod(0)
                case _:
                    file.unlink()
            copy.append_conf(f"id_gen.registry = '{etcd.endpoints}'\nid_gen.fleet_name = 'whose-{trouble}'\n")
            copy.append_conf("id_gen.worker_id = -1\nid_gen.worker_id_range = '9'\n")
            copy.start()
            create_fleet(copy)
            error = await_refusal(copy, 'file "id_gen/reservation"')
            unknown = "SELECT error = 'this server cannot join its fleet before its reservation is known'"
            copy.poll_until(f"{unknown} FROM id_gen_stat_fleet")
            assert checks(copy)["reservation"].status == "error"
            if trouble == "unreadable":
                file.chmod(0o600)
                await_refusal(copy, "the fleet has no free worker ID")
            else:
                assert "SELECT id_gen_reservation_reset(above => now());" in (error.hint or "")
                change(copy, "worker_id_range", "11")
                copy.psql("SELECT id_gen_reservation_reset(above => now())")
                assert await_number(copy) == 11


def test_a_copy_gets_no_number_of_its_original_which_no_registry_knows(etcd: Etcd) -> None:
    fleet = "id_gen.fleet_name = 'copies'\nid_gen.worker_id_range = '9-10'\n"
    with Cluster("original", conf=typed_conf() + PATIENT) as original:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        with Cluster("copy", clone_of=original) as copy:
            copy.append_conf(f"id_gen.registry = '{etcd.endpoints}'\n{fleet}")
            copy.reload()
            create_fleet(copy)
            await_refusal(copy, "data directory is a copy")
            found = "SELECT found LIKE '%server that this data directory is a copy of may have it%' FROM id_gen_check()"
            copy.poll_until(f"{found} WHERE name = 'fleet'")
            change(copy, "worker_id", -1)
            assert await_number(copy) == 10, "it has the other one of two"
            change(copy, "registry", "")
            change(copy, "worker_id", 9)
            await_refusal(copy, "55000: this data directory is a copy with the worker ID of its original")
            original.stop()
            change(copy, "registry", etcd.endpoints)
            await_refusal(copy, "data directory is a copy")
            copy.psql("SELECT id_gen_copy_accept(is_only_one => true)")
            assert await_number(copy) == 9
