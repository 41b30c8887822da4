"""Tickets that all servers of a fleet share: never one twice, whatever becomes of the registry and the servers."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from harness import Cluster
from harness.checks import follow
from harness.etcd import Etcd
from harness.fleet import create_fleet, registrar, silent
from harness.ids import Caller, await_refusal, change, error_of, first_given, refusal
from harness.tickets import assert_distinct, in_crowd, one, take, take_at_once

# The same with every server.
pytestmark = [pytest.mark.any_server, pytest.mark.long]

# More statements than it takes to use up what a server holds.
ENOUGH = 20_000
NOT_YET = "55000"
DAMAGED = "XX001"
NEXT = "SELECT ticket_next('invoice')"
SHARE = "SELECT ticket_share('invoice')"


@pytest.fixture
def pair(first: Cluster, conf: str) -> Iterator[tuple[Cluster, Cluster]]:
    """Two servers that share a sequence which has counted to 100."""
    first.psql("CREATE SEQUENCE invoice; SELECT setval('invoice', 100)")
    assert first.psql(SHARE) == "101"
    with Cluster("second", conf=conf) as second:
        second.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE invoice")
        yield first, second


def await_ticket(cluster: Cluster) -> int:
    """The first number that is given, as soon as the server has found its fleet."""
    return first_given(cluster, lambda: one(cluster), NOT_YET)


def key_of(etcd: Etcd, ticket: str = "postgres/public.invoice") -> str:
    """The key of the test's fleet that was made last."""
    keys = etcd.ctl("get", "--prefix", "/id_gen/", "--keys-only").split()
    return [key for key in keys if key.endswith(f"/t/{ticket}")][-1]


@contextmanager
def own_pair() -> Iterator[tuple[Etcd, Cluster, Cluster]]:
    """Two servers, with a registry of their own."""
    with Etcd() as etcd:
        conf = f"shared_preload_libraries = 'id_gen'\nid_gen.registry = '{etcd.endpoints}'\n"
        with Cluster("first", conf=conf) as first, Cluster("second", conf=conf) as second:
            create_fleet(first)
            second.psql("CREATE EXTENSION id_gen")
            for cluster in (first, second):
                cluster.psql("CREATE SEQUENCE invoice; CREATE SEQUENCE other")
            first.psql(SHARE)
            first.psql("SELECT ticket_share('other')")
            await_ticket(first)
            await_ticket(second)
            yield etcd, first, second


def test_what_is_not_shared_is_refused_until_it_is(first: Cluster) -> None:
    first.psql('CREATE SEQUENCE "Rech\'nung"')
    call = "SELECT ticket_next('\"Rech''nung\"')"
    error = await_refusal(first, "does not share", call)
    assert error.sqlstate == NOT_YET
    follow(first, error.hint or "")
    assert first.psql(call) == "1"


def test_servers_share_a_ticket(pair: tuple[Cluster, Cluster]) -> None:
    first, second = pair
    numbers = [await_ticket(first), await_ticket(second)]
    numbers += in_crowd([first, second], 6, 2_000)
    assert_distinct(numbers)
    assert min(numbers) == 101
    for cluster in pair:
        # Where a server goes on without the fleet, from a dump or promoted, it is above all that it has used.
        assert int(cluster.psql("SELECT last_value FROM invoice")) >= max(take_at_once(cluster.connect(), 1)), (
            "the sequence is behind"
        )


def test_nobody_but_the_owner_shares(first: Cluster) -> None:
    first.psql("CREATE SEQUENCE invoice; CREATE ROLE clerk; GRANT ALL ON SEQUENCE invoice TO clerk")
    assert refusal(first, f"SET ROLE clerk; {SHARE}").sqlstate == "42501"
    first.psql("GRANT EXECUTE ON FUNCTION ticket_share TO clerk")
    assert "owner" in (refusal(first, f"SET ROLE clerk; {SHARE}").message or "")
    assert refusal(first, "SELECT ticket_share(NULL)").sqlstate == "22004"


def test_a_silent_registry() -> None:
    """What is held is used; then calls are refused, and go on as soon as it answers."""
    with own_pair() as (etcd, first, second):
        numbers = [one(cluster) for cluster in (first, second) * 5]
        with silent(etcd):
            with first.connect() as connection, pytest.raises(psycopg.Error) as refused:
                for _ in range(ENOUGH):
                    numbers += take(connection)
            assert refused.value.sqlstate == NOT_YET
            assert "id_gen.max_wait" in (refused.value.diag.message_detail or "")
            # More sequences than places: none is given what others wait for.
            assert refusal(first, NEXT).sqlstate == NOT_YET
        numbers += [await_ticket(cluster) for cluster in (first, second) * 5]
        assert_distinct(numbers)


def beyond(etcd: Etcd, key: str, value: str, cluster: Cluster) -> list[int]:
    """What a server gives until it has taken, and used, ranges that the registry gave after it had a value."""
    numbers: list[int] = []
    with cluster.connect() as connection:
        for _ in range(3):
            while etcd.ctl("get", key, "--print-value-only").strip() == value:
                numbers += take_at_once(connection, 50)
            value = etcd.ctl("get", key, "--print-value-only").strip()
    return numbers


def set_above_all(hint: str, clusters: list[Cluster]) -> None:
    """Does what the hint says on all servers."""
    look, share = re.findall(r"SELECT [^;]*;", hint)
    largest = max(int(cluster.psql(look)) for cluster in clusters)
    clusters[0].psql(share.replace("<largest number>", str(largest)))


@pytest.mark.parametrize("meanwhile", ["SELECT", "ALTER SEQUENCE invoice MAXVALUE 9007199254740991"])
def test_a_registry_that_went_back(meanwhile: str) -> None:
    """Also a server whose own numbers are below is refused, until somebody sets the ticket above all."""
    with own_pair() as (etcd, first, second):
        key = key_of(etcd)
        old = etcd.ctl("get", key, "--print-value-only").strip()
        numbers = [one(second)]
        numbers += beyond(etcd, key, old, second)
        # It takes the mark of a fleet from the sequence's page.
        second.psql(meanwhile)
        etcd.ctl("put", key, old)
        with second.connect() as connection, pytest.raises(psycopg.Error) as refused:
            for _ in range(ENOUGH):
                numbers += take_at_once(connection, 50)
        hint = refused.value.diag.message_hint or ""
        assert "above =>" in hint and "largest" in hint
        assert json.loads(etcd.ctl("get", key, "--print-value-only"))["state"] == "behind"
        with first.connect() as connection, pytest.raises(psycopg.Error, match="behind"):
            for _ in range(ENOUGH):
                numbers += take_at_once(connection, 50)
        set_above_all(hint, [first, second])
        numbers += [await_ticket(cluster) for cluster in (first, second) * 10]
        assert_distinct(numbers)


def test_ranges_of_before_a_registry_went_back_are_dropped_before_it_is_set() -> None:
    """What a server holds in advance shows in no sequence."""
    with own_pair() as (etcd, first, second):
        key = key_of(etcd)
        old = etcd.ctl("get", key, "--print-value-only").strip()
        numbers = [number for cluster in (first, second) * 6 for number in take_at_once(cluster.connect(), 40)]
        etcd.ctl("put", key, old)
        with first.connect() as connection, pytest.raises(psycopg.Error) as refused:
            for _ in range(ENOUGH):
                numbers += take_at_once(connection, 5)
        set_above_all(refused.value.diag.message_hint or "", [second, first])
        numbers += [number for _ in range(30) for cluster in (first, second) for number in (await_ticket(cluster),)]
        for _ in range(30):
            for cluster in (first, second):
                numbers += take_at_once(cluster.connect(), 20)
        assert_distinct(numbers)


def test_a_registry_that_went_back_while_the_registrar_restarts() -> None:
    with own_pair() as (etcd, first, second):
        key = key_of(etcd)
        old = etcd.ctl("get", key, "--print-value-only").strip()
        numbers = [one(cluster) for cluster in (first, second)]
        for cluster in (first, second):
            numbers += beyond(etcd, key, etcd.ctl("get", key, "--print-value-only").strip(), cluster)
        pid = registrar(first)
        os.kill(pid, signal.SIGTERM)
        etcd.ctl("put", key, old)
        first.wait_until(lambda: pid not in first.processes(), "rid of the registrar")
        for cluster in (first, second):
            with cluster.connect() as connection, pytest.raises(psycopg.Error):
                for _ in range(ENOUGH):
                    numbers += take_at_once(connection, 50)
        assert_distinct(numbers)


def test_a_ticket_that_is_set_reaches_other_servers(pair: tuple[Cluster, Cluster]) -> None:
    first, second = pair
    dropped = "SELECT dropped > 0 FROM id_gen_stat_tickets WHERE sequencename = 'invoice'"
    await_ticket(second)
    with second.connect() as connection:
        # So that there is much to drop.
        take_at_once(connection, 2_000)
    assert second.psql(dropped) == "f"
    assert int(first.psql("SELECT ticket_share('invoice', above => 10000)")) == 10_001
    assert await_ticket(first) >= 10_001
    with second.connect() as connection:
        numbers = [number for _ in range(ENOUGH) if (number := take(connection)[0]) < 10_001]
        assert len(numbers) < ENOUGH
        # Nothing of before comes after it.
        assert min(take_at_once(connection, 200)) > 10_001
    assert second.psql(dropped) == "t"


@pytest.mark.parametrize("move", ["RENAME TO bill", "SET SCHEMA billing"])
def test_a_sequence_that_is_renamed_is_another_ticket(pair: tuple[Cluster, Cluster], move: str) -> None:
    """Also for sessions that stay connected."""
    first, second = pair
    name = "bill" if "bill" in move.split() else "billing.invoice"
    numbers = [await_ticket(cluster) for cluster in pair]
    with first.connect() as one_session, second.connect() as other:
        # So that much is held ahead.
        numbers += take_at_once(one_session, 5_000) + take_at_once(other, 5_000)
        for cluster in pair:
            cluster.psql(f"CREATE SCHEMA billing; ALTER SEQUENCE invoice {move}")
        first.psql(f"SELECT ticket_share('{name}', above => {max(numbers)})")
        for _ in range(30):
            for connection in (one_session, other):
                numbers += take(connection, name) + take_at_once(connection, 200, name)
        assert_distinct(numbers)
        shown = second.psql("SELECT schemaname || '.' || sequencename FROM id_gen_stat_tickets")
        assert shown == (name if "." in name else f"public.{name}")


def test_a_sequence_that_is_renamed_while_a_session_waits_for_it(pair: tuple[Cluster, Cluster]) -> None:
    """It gets no number of the ticket that the sequence was."""
    _, second = pair
    await_ticket(second)
    with second.connect() as connection, Caller(second) as caller:
        take_at_once(connection, 5_000)
        oid = second.psql("SELECT 'invoice'::regclass::oid")
        taken = f"SELECT ticket_next({oid})"
        assert caller.ask(taken)
        with connection.transaction():
            connection.execute("ALTER SEQUENCE invoice RENAME TO bill")
            call = caller.begin(taken)
            caller.await_wait("Lock")
        assert error_of(call).diag.message_primary == "the fleet does not share sequence public.bill"


def test_a_sequence_that_was_set_stops_no_other_server(pair: tuple[Cluster, Cluster]) -> None:
    """Any role that owns a sequence of that name can set it."""
    first, second = pair
    numbers = [await_ticket(cluster) for cluster in pair]
    second.psql("SELECT setval('invoice', 9223372036854770000)")
    error = refusal(second, NEXT)
    assert error.message == "the fleet's registry is behind sequence public.invoice"
    second.psql("CREATE TABLE bill (number bigint DEFAULT ticket_next('invoice'))")
    check = "SELECT status, found FROM id_gen_check() WHERE name = 'tickets'"
    assert second.psql(check).startswith(f"error|{error.message}")
    with first.connect() as connection:
        for _ in range(100):
            numbers += take_at_once(connection, 50)
    assert_distinct(numbers)
    second.psql(f"SELECT setval('invoice', {numbers[0]})")
    assert await_ticket(second) not in numbers


def test_another_fleet(first: Cluster, fleet: str) -> None:
    """What one fleet's registry gave is not used in another."""
    first.psql(f"CREATE SEQUENCE invoice; {SHARE}")
    numbers = [await_ticket(first) for _ in range(20)]
    change(first, "fleet_name", "another")
    first.poll_until("SELECT prefetched = 0 FROM id_gen_stat_tickets")
    create_fleet(first)
    await_refusal(first, "does not share", NEXT)
    first.psql(SHARE)
    assert await_ticket(first) > max(numbers)


def test_a_server_that_leaves_its_fleet(pair: tuple[Cluster, Cluster]) -> None:
    """Others may have used more than it knows of, so somebody has to say from where on it goes by itself."""
    first, second = pair
    numbers = [await_ticket(cluster) for cluster in (first, second) * 5]
    change(first, "registry", "")
    first.restart()
    error = refusal(first, NEXT)
    assert (error.sqlstate, error.message) == (
        NOT_YET,
        "the last numbers of sequence public.invoice came from a fleet's registry",
    )
    first.kill9()
    first.start()
    one(second)
    check = "SELECT status, found FROM id_gen_check() WHERE name = 'tickets'"
    first.psql("CREATE TABLE bill (number bigint DEFAULT ticket_next('invoice'))")
    assert first.psql(check).startswith(f"error|{error.message}")
    with Cluster("standby", standby_of=first) as standby:
        standby.promote()
        assert refusal(standby, NEXT).message == error.message
    assert error.hint
    numbers += [one(second) for _ in range(50)]
    first.psql(error.hint.rpartition(": ")[2].replace("<largest number>", str(max(numbers))))
    numbers += [one(first) for _ in range(50)]
    assert_distinct(numbers)
    first.restart()
    assert one(first) == numbers[-1] + 1


def test_a_damaged_value_stops_nothing_but_its_ticket() -> None:
    with own_pair() as (etcd, first, _):
        etcd.ctl("put", key_of(etcd), "nonsense")
        with first.connect() as connection, pytest.raises(psycopg.Error) as refused:
            for _ in range(ENOUGH):
                take_at_once(connection, 50)
        assert refused.value.sqlstate == DAMAGED
        numbers = [one(first, "other") for _ in range(50)]
        assert_distinct(numbers)
        first.poll_until("SELECT state = 'holding' FROM id_gen_stat_fleet")
        assert refusal(first, SHARE).sqlstate == DAMAGED
        set_above_all(refused.value.diag.message_hint or "", [first])
        assert await_ticket(first)


def test_a_crash_and_a_clone(pair: tuple[Cluster, Cluster], conf: str) -> None:
    first, second = pair
    numbers = [await_ticket(cluster) for cluster in (first, second) * 30]
    with Cluster("clone", clone_of=first) as clone:
        first.kill9()
        first.start()
        numbers += [await_ticket(cluster) for cluster in (first, second, clone) * 30]
    assert_distinct(numbers)


def test_other_increments_are_refused(pair: tuple[Cluster, Cluster]) -> None:
    _, second = pair
    second.psql("ALTER SEQUENCE invoice INCREMENT BY 2")
    await_refusal(second, "increment", NEXT)
    hint = refusal(second, NEXT).hint or ""
    assert (found := re.search(r"ALTER SEQUENCE [^;]*;", hint))
    second.psql(found[0])
    assert await_ticket(second) > 100
