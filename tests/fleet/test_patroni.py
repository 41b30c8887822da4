"""Two servers that Patroni fails over, in a fleet whose registry is Patroni's own etcd, with clients that write on.

Each server has a number of its own, also as a standby, so a new primary makes IDs at once, whatever the old one is
doing. Nothing that reached a client repeats, also where the rows were lost.
"""

import threading
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from harness import SqlError
from harness.etcd import Etcd
from harness.fleet import await_holding, await_number, create_fleet, number_of
from harness.ids import NEXT
from harness.patroni import Patroni
from harness.ports import LOOPBACK
from harness.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.any_server, pytest.mark.long]

INSERT = "INSERT INTO customer (name) SELECT 'somebody' FROM generate_series(1, 10) RETURNING id"
RECOVERY = "SELECT pg_is_in_recovery()"

# A server that stands still lets clients connect, and says nothing.
FIND = "target_session_attrs=read-write connect_timeout=2"

# Where the default layout has the worker's number.
SEQUENCE_BITS = 12
WORKERS = 32


class Pair:
    """The primary and the standby that there are at first, and the number of each."""

    def __init__(self, primary: Patroni, standby: Patroni) -> None:
        self.primary = primary
        self.standby = standby
        self.number = number_of(primary)
        self.standbys_number = number_of(standby)

    def conninfo(self, *nodes: Patroni) -> str:
        """Where clients find the primary, if they try the nodes in this order."""
        ports = ",".join(str(node.port) for node in nodes)
        hosts = ",".join(LOOPBACK for _ in nodes)
        return f"host={hosts} port={ports} user=postgres dbname=postgres {FIND}"

    def await_failover(self) -> int:
        """Waits until the standby is the primary, and returns the ID of the one call that is made then, at once."""
        with self.standby.connect() as connection:

            def is_promoted() -> bool:
                return connection.execute(RECOVERY).fetchone() == (False,)

            self.standby.wait_until(is_promoted, "promoted")
            return connection.execute(NEXT).fetchone()[0]

    def await_return(self) -> None:
        """Waits until the old primary is the new one's standby, and has a number again."""
        self.standby.poll_until("SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
        self.primary.poll_until(RECOVERY)
        await_holding(self.primary)
        # pg_rewind removes the file that says which number it had, so it takes one that was never used.
        assert number_of(self.primary) not in (self.number, self.standbys_number)

    def await_one_primary(self) -> Patroni:
        """Waits until only one of them is a primary, and returns it."""
        found: list[Patroni] = []

        def is_found() -> bool:
            found[:] = [node for node in (self.primary, self.standby) if is_primary(node)]
            return len(found) == 1

        self.standby.wait_until(is_found, "one of two, of which one is the primary")
        return found[0]


class Clients:
    """Clients that insert rows, and remember each ID that they were told."""

    def __init__(self, pair: Pair) -> None:
        self._done = threading.Event()
        self._given: list[list[int]] = []
        # In different orders, so that two primaries have clients each. Some keep their session for as long as it
        # lasts, as a pool does; others connect for each statement.
        orders = ((pair.primary, pair.standby), (pair.standby, pair.primary))
        clients = [(pair.conninfo(*order), keeps) for order in orders for keeps in (True, False)]
        self._threads = [threading.Thread(target=self._write, args=client, daemon=True) for client in clients]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)

    def ids(self) -> list[int]:
        return [each for given in self._given for each in given]

    def await_ids(self, cluster: Patroni, *numbers: int) -> None:
        """Waits until clients are told IDs with each of these numbers that are newer than now."""
        before = self._count()

        def came() -> bool:
            now = self._count()
            return all(now[number] > before[number] for number in numbers)

        cluster.wait_until(came, f"making IDs with {numbers}")

    def _count(self) -> Counter[int]:
        return Counter(worker(each) for each in self.ids())

    def _write(self, conninfo: str, keeps: bool) -> None:
        given: list[int] = []
        self._given.append(given)
        while not self._done.is_set():
            # While there is no primary, or it goes away.
            try:
                with psycopg.connect(conninfo, autocommit=True) as connection:
                    while not self._done.is_set():
                        given += [row[0] for row in connection.execute(INSERT)]
                        if not keeps:
                            break
            except psycopg.OperationalError:
                self._done.wait(0.05)


def worker(snowflake: int) -> int:
    """The number of the server that made an ID."""
    return (snowflake >> SEQUENCE_BITS) % WORKERS


def is_primary(node: Patroni) -> bool:
    try:
        return node.psql(RECOVERY) == "f"
    except SqlError:
        return False


def assert_distinct(ids: list[int]) -> None:
    repeated = [each for each, times in Counter(ids).items() if times > 1]
    assert not repeated, f"{len(repeated)} of {len(ids)} IDs reached clients more than once: {repeated[:5]}"


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Etcd() as etcd:
        parameters = {"shared_preload_libraries": "id_gen", "id_gen.registry": etcd.endpoints}
        with Patroni("primary", etcd, parameters) as primary:
            primary.poll_until("SELECT NOT pg_is_in_recovery()")
            create_fleet(primary)
            primary.psql("CREATE TABLE customer (id bigint PRIMARY KEY DEFAULT snowflake_next(), name text NOT NULL)")
            await_holding(primary)
            with Patroni("standby", etcd, parameters) as standby:
                await_holding(standby)
                yield Pair(primary, standby)


def test_a_killed_primary(pair: Pair) -> None:
    assert pair.number != pair.standbys_number
    with Clients(pair) as clients:
        clients.await_ids(pair.primary, pair.number)
        pair.primary.kill9()
        assert worker(pair.await_failover()) == pair.standbys_number
        clients.await_ids(pair.standby, pair.standbys_number)
        pair.primary.start()
        pair.await_return()
        clients.await_ids(pair.standby, pair.standbys_number)
    assert_distinct(clients.ids())


def test_a_paused_primary(pair: Pair) -> None:
    assert pair.number != pair.standbys_number
    with Clients(pair) as clients:
        clients.await_ids(pair.primary, pair.number)
        with pair.primary.unattended():
            with pair.primary.paused():
                assert worker(pair.await_failover()) == pair.standbys_number
                pair.standby.poll_until(
                    f"SELECT granted_until < now() FROM id_gen_fleet_members() WHERE worker_id = {pair.number}"
                )
            # There are two primaries now, and each has clients. The old one's grant was used up.
            assert await_number(pair.primary) == pair.number
            clients.await_ids(pair.standby, pair.number, pair.standbys_number)
        # Patroni 3.0 may take the lead back: it writes the leader's key without a look at who has it.
        primary = pair.await_one_primary()
        clients.await_ids(primary, await_number(primary))
    assert_distinct(clients.ids())
