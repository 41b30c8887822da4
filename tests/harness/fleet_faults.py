"""Servers of a fleet under torture: what happens to them, and the clients that keep every ID they were given.

Each server has a port of its own, by which the registry's history tells the servers apart, and its own way to the
registry, which can be cut: a network of its own where those can be made, otherwise a relay. Servers listen on Unix
sockets, so their clients never notice a cut.
"""

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

import numpy as np
import psycopg

from harness import device, network
from harness.clients import array_elements
from harness.clock import FakeClock
from harness.cluster import Cluster, SqlError
from harness.device import OnDevice
from harness.fleet import await_holding, create_fleet, member_conf
from harness.network import Cable, Namespace
from harness.relay import Way
from harness.torture_registries import TorturedRegistry

FLEET = "/id_gen/default/"
BATCH = 2_000
WAYS = (f"SELECT array_send(snowflake_next_array({BATCH}))", "SELECT array_send(ARRAY[snowflake_next()])")
OF_SHARD = "SELECT array_send(array_agg(snowflake_next({shard}))) FROM generate_series(1, 100)"
TICKETS = ("SELECT array_send(ARRAY(SELECT ticket_next('ticket') FROM generate_series(1, 20)))",)
TICKET = "CREATE EXTENSION IF NOT EXISTS id_gen; CREATE SEQUENCE IF NOT EXISTS ticket"
BREATH_SECONDS = 0.02
LIFE_SECONDS = 3.0
HOUR = 3600.0
# Shorter than in other tests, as each fault waits for some of it.
GRANT_SECONDS = 3
LEAD_MS = 500
# Numbers that the registry grants to nobody: shards, of which one moves round the servers all the while.
SHARDS = (30, 31)
NUMBERS = "0-29"
# Twice as long as a shard is waited with that was taken.
MOVE_SECONDS = 4.0
# No grant that a server used when it made an ID reaches further ahead of that ID's time; a little more for the way.
FURTHEST_MS = GRANT_SECONDS * 1000 + LEAD_MS + 100

# Of the layout "default": what is above these bits is time, in milliseconds from its epoch.
TIME_SHIFT, WORKER_SHIFT, WORKER_MASK = 22, 12, 1023
EPOCH_MS = 1_704_067_200_000


# Bounds in Unix milliseconds, by port and worker number.
Bounds = dict[tuple[int, int], list[int]]


class Client(threading.Thread):
    """Asks one server for IDs until it is told to end, and keeps them in a file; its companion does so for tickets."""

    def __init__(self, cluster: Cluster, file: Path, ways: tuple[str, ...] = WAYS) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._ways = ways
        self._companion = Client(cluster, file.with_suffix(".tickets"), TICKETS) if ways is WAYS else None
        self._file = file.open("wb")
        self._ended = threading.Event()
        self.given = 0
        self.refusals: Counter[str] = Counter()

    def start(self) -> None:
        super().start()
        if self._companion:
            self._companion.start()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._cluster.connect() as connection, connection.cursor(binary=True) as cursor:
                    while not self._ended.wait(BREATH_SECONDS) and not connection.closed:
                        try:
                            self._ask(cursor)
                        except psycopg.Error as error:
                            self.refusals[error.sqlstate or "lost"] += 1
            except psycopg.Error:
                self.refusals["lost"] += 1
                self._ended.wait(BREATH_SECONDS)

    def _ask(self, cursor: psycopg.Cursor[tuple[bytes]]) -> None:
        for query in self._ways:
            self._keep(cursor.execute(query))
        for shard in SHARDS if self._companion else ():
            # Another server may have it.
            with suppress(psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.ConfigurationLimitExceeded):
                self._keep(cursor.execute(OF_SHARD.format(shard=shard)))

    def _keep(self, answer: psycopg.Cursor[tuple[bytes]]) -> None:
        for (array,) in answer:
            ids = array_elements(array)
            self._file.write(ids.astype(np.int64).tobytes())
            self.given += ids.size

    def end(self) -> None:
        if self._companion:
            self._companion.end()
        self._ended.set()
        self.join()
        self._file.close()


class Mover(threading.Thread):
    """Moves shards round the servers, by the two lines that an administrator types, on whichever of them answers."""

    def __init__(self, fleet: "Fleet") -> None:
        super().__init__(daemon=True)
        self._fleet = fleet
        self._dice = random.Random(fleet.dice.random())
        self._ended = threading.Event()
        self.taken: Counter[str] = Counter()

    def run(self) -> None:
        while not self._ended.wait(MOVE_SECONDS * self._dice.random()):
            shard, servers = self._dice.choice(SHARDS), self._dice.sample(self._fleet.members, 2)
            for call, member in zip(("release", "take"), servers, strict=True):
                # The one may not have it; the other may find that somebody else has, who is alive.
                with (
                    suppress(psycopg.Error),
                    member.cluster.connect(options="-c statement_timeout=3000", connect_timeout="2") as connection,
                ):
                    connection.execute(f"SELECT id_gen_shard_{call}({shard})")
                    self.taken[call] += 1

    def end(self) -> None:
        self._ended.set()
        self.join()


class Member:
    """A server, its way to the registry and its client."""

    def __init__(self, cluster: Cluster, way: Cable | Way, client: Client) -> None:
        self.cluster = cluster
        self.way = way
        self.client = client

    def process(self, kind: str) -> int | None:
        """A process of the server by its title."""
        found = [pid for pid, title in self.cluster.processes().items() if kind in title]
        return found[0] if found else None


class Fleet:
    """Three servers, their registry, and whoever else comes and goes."""

    def __init__(
        self, directory: Path, seed: int, stack: ExitStack, registry: Callable[[Namespace | None], TorturedRegistry]
    ) -> None:
        self.directory = directory
        self.dice = random.Random(seed)
        self.count: Counter[str] = Counter()
        self.given_by_the_gone = 0
        self._stack = stack
        self._ports = count(7000)
        self._namespace = stack.enter_context(Namespace("registry")) if network.are_possible() else None
        self.registry = stack.enter_context(registry(self._namespace))
        # Their disks may be copied.
        self._kind = OnDevice if device.are_possible() else Cluster
        self.members = [self._join(stack, self._kind) for _ in range(3)]
        create_fleet(self.members[0].cluster, grant_s=GRANT_SECONDS)
        for member in self.members:
            member.cluster.psql(TICKET)
        self.members[0].cluster.psql("SELECT ticket_share('ticket')")
        self.start_clients(self.members)
        self.await_ids()
        self.mover = Mover(self)
        self.mover.start()

    # Servers

    def _join(self, stack: ExitStack, kind: type[Cluster] = Cluster, **options: object) -> Member:
        port = next(self._ports)
        way: Cable | Way = stack.enter_context(Cable(self.registry) if self._namespace else Way(self.registry))
        conf = (
            ""
            if "standby_of" in options
            else member_conf(
                way.endpoints,
                f"id_gen.max_wait = '10s'\nid_gen.max_lead = {LEAD_MS}\nid_gen.worker_id_range = '{NUMBERS}'",
            )
        )
        if "standby_of" in options or "clone_of" in options or "copy_of" in options:
            conf = f"id_gen.registry = '{way.endpoints}'"
        cluster = stack.enter_context(kind(f"s{port}", conf=conf, port=port, namespace=way.namespace, **options))
        return Member(cluster, way, Client(cluster, self.directory / f"{port}.ids"))

    def start_clients(self, members: list[Member]) -> None:
        for member in members:
            member.client.start()

    @property
    def given(self) -> int:
        return self.given_by_the_gone + sum(member.client.given for member in self.members)

    def await_ids(self, members: list[Member] | None = None) -> None:
        """Waits until all servers generate."""
        for member in members or self.members:
            given = member.client.given

            def generates(member: Member = member, given: int = given) -> bool:
                return member.client.given > given + 1

            member.cluster.wait_until(generates, "giving IDs again", lambda m=member: str(m.client.refusals))

    def _visitor(self, what: str, prepare: Callable[[Member], None] | None = None, **options: object) -> str:
        """A server that joins, generates for some seconds, and is gone for good."""
        with ExitStack() as stack:
            visitor = self._join(stack, **options)
            if prepare:
                prepare(visitor)
            with suppress(SqlError):
                visitor.cluster.psql(TICKET)
            visitor.client.start()
            try:
                self.await_ids([visitor, *self.members])
                time.sleep(LIFE_SECONDS * self.dice.random())
            finally:
                visitor.client.end()
                self.given_by_the_gone += visitor.client.given
            visitor.cluster.stop(self.dice.choice(["fast", "immediate"]))
        return what

    # Faults

    def _some(self) -> Member:
        return self.dice.choice(self.members)

    def _long(self) -> float:
        return GRANT_SECONDS * self.dice.choice([0.5, 2])

    def pause_process(self) -> str:
        member, kind = self._some(), self.dice.choice(["id_gen keeper", "id_gen registrar", " [local] "])
        pid, seconds = member.process(kind), self._long()
        if pid is None:
            return "nobody to pause"
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(pid, signal.SIGCONT)
        return f"{kind.strip()} paused for {seconds} s"

    def pause_server(self) -> str:
        seconds = self._long()
        with self._some().cluster.paused():
            time.sleep(seconds)
        return f"server paused for {seconds} s"

    def cut(self) -> str:
        requests, answers = self.dice.choice([(True, True), (True, False), (False, True)])
        seconds = self._long()
        with self._some().way.cut(requests, answers):
            time.sleep(seconds)
        what = "everything" if requests and answers else "requests" if requests else "answers"
        return f"{what} to a server cut for {seconds} s"

    def registry_leader(self) -> str:
        return self.registry.lose_leader(self.dice, self._long())

    def registry_majority(self) -> str:
        return self.registry.lose_majority(self.dice, self._long())

    def crash(self) -> str:
        member = self._some()
        if self.dice.random() < 0.5 and (pid := member.process("id_gen registrar")) is not None:
            position = member.cluster.log_position
            member.cluster.kill9(pid)
            member.cluster.wait_for_log("ready to accept connections", position)
            return "registrar killed"
        member.cluster.kill9()
        member.cluster.start()
        return "server killed"

    def restart(self) -> str:
        mode = self.dice.choice(["fast", "immediate"])
        self._some().cluster.restart(mode)
        return f"server restarted, {mode}"

    def terminate(self) -> str:
        pid = (member := self._some()).process("id_gen registrar")
        member.cluster.psql(f"SELECT pg_terminate_backend({pid or 0})")
        return "registrar terminated"

    def clone(self) -> str:
        original = self._some().cluster
        how = self.dice.choice(["files", "disk", "base backup"])
        if how == "base backup":
            return self._visitor("cloned by a base backup", copy_of=original)
        kind = self._kind if how == "disk" else Cluster
        return self._visitor(f"cloned by a copy of its {how}", kind=kind, clone_of=original)

    def failover(self) -> str:
        def promote(standby: Member) -> None:
            primary.wait_for_catchup(standby.cluster)
            await_holding(standby.cluster)
            standby.cluster.promote()

        primary = self._some().cluster
        return self._visitor("standby promoted while its primary goes on", promote, standby_of=primary)

    def newcomer(self) -> str:
        ahead = self.dice.choice([0.0, HOUR, -HOUR])
        clock = FakeClock(ahead) if ahead else None

        def accept(newcomer: Member) -> None:
            if ahead > 0:
                newcomer.cluster.psql("CREATE EXTENSION IF NOT EXISTS id_gen; SELECT id_gen_clock_accept()")

        return self._visitor(f"newcomer whose clock is {ahead:+.0f} s off", accept, clock=clock)

    def release(self) -> str:
        member = self._some()
        worker = member.cluster.psql("SELECT worker_id FROM id_gen_status()")
        with suppress(SqlError):
            self._some().cluster.psql(f"SELECT id_gen_fleet_release({worker or 0})")
        return "number released by hand"

    def wipe(self) -> str:
        """All grants are gone; or an older state of the registry is back."""
        restored = self.dice.random() < 0.5
        before = self.registry.values(f"{FLEET}n/") if restored else {}
        if restored:
            time.sleep(GRANT_SECONDS * self.dice.random())
        self.registry.exchange(f"{FLEET}n/", before)
        return "registry restored" if restored else "registry wiped"

    # What is found in the end

    def bounds(self) -> Bounds:
        """All bounds of each port and worker number that the registry ever had."""
        found: Bounds = {}
        for key, value in self.registry.history(f"{FLEET}n/"):
            grant = json.loads(value)
            found.setdefault((grant["port"], int(key.rsplit("/", 1)[1])), []).append(grant["until_ms"])
        return found


FAULTS = {
    Fleet.pause_process: 3, Fleet.pause_server: 3, Fleet.cut: 5, Fleet.registry_leader: 2, Fleet.registry_majority: 1,
    Fleet.crash: 3, Fleet.restart: 2, Fleet.terminate: 1, Fleet.clone: 2, Fleet.failover: 1, Fleet.newcomer: 2,
    Fleet.release: 2, Fleet.wipe: 1,
}  # fmt: skip


def check(directory: Path, bounds: Bounds) -> tuple[int, int, int, int]:
    """How many IDs there are, how many of them are of shards, how many were given twice, and how many lie below no
    bound that their server had when it made them: a bound that was granted later lies further ahead."""
    parts, beyond = [], 0
    for file in sorted(directory.glob("*.ids")):
        ids = np.fromfile(file, dtype=np.int64)
        parts.append(ids)
        times, workers = (ids >> TIME_SHIFT) + EPOCH_MS, (ids >> WORKER_SHIFT) & WORKER_MASK
        # A shard's IDs lie below the bound of whichever number its server had then. None comes twice: see below.
        for worker in np.setdiff1d(np.unique(workers), SHARDS):
            granted = np.sort(np.array([*bounds.get((int(file.stem), int(worker)), []), np.iinfo(np.int64).max]))
            of_worker = times[workers == worker]
            lowest = granted[np.searchsorted(granted, of_worker, side="right")]
            beyond += int(np.count_nonzero(lowest > of_worker + FURTHEST_MS))
    union = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    union.sort()
    of_shards = int(np.count_nonzero(np.isin((union >> WORKER_SHIFT) & WORKER_MASK, SHARDS)))
    return union.size, of_shards, int(np.count_nonzero(union[1:] == union[:-1])), beyond


def check_tickets(directory: Path) -> tuple[int, int]:
    """How many tickets there are, and how many of them were given twice."""
    union = np.concatenate([np.fromfile(file, dtype=np.int64) for file in sorted(directory.glob("*.tickets"))])
    union.sort()
    return union.size, int(np.count_nonzero(union[1:] == union[:-1]))


# Clients of single tests


@contextmanager
def clients(directory: Path, *clusters: Cluster) -> Iterator[dict[str, Client]]:
    """A client of each server, by the server's name, which takes IDs all the time; no two of them may be alike."""
    found = {cluster.name: Client(cluster, directory / f"{cluster.name}.ids") for cluster in clusters}
    for client in found.values():
        client.start()
    try:
        yield found
    finally:
        for client in found.values():
            client.end()
    given = np.concatenate([np.fromfile(file, dtype=np.int64) for file in directory.glob("*.ids")])
    assert given.size > 0
    assert np.unique(given).size == given.size


def await_ids(client: Client, cluster: Cluster) -> None:
    """Waits until a client is given IDs that it has asked for from now on."""
    given = client.given
    cluster.wait_until(lambda: client.given > given + 1, "giving IDs", lambda: str(client.refusals))
