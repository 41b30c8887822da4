"""The servers of a fleet, each with a clock of its own, and what their administrator knows about them.

They are careful: what they number by hand is a number that the registry grants nobody; no two registries are in use at
once; the fleet is told when its registry was restored, and nobody uses one that went back before it knows. Clocks are
wrong only where no registry goes back: see docs/guarantees.md.
"""

import bisect
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from attack.action import pick
from attack.administrator import Administrator
from attack.administrator import is_answer as is_answer_of_server
from attack.finding import Finding
from attack.registry import PASSWORD, Registry
from attack.world import CONF, DATABASE, SCHEMA, Client, Node, Refused, Session, World
from harness import device
from harness.clock import FakeClock, ahead_ms
from harness.cluster import Cluster, SqlError
from harness.device import OnDevice

# Terms by which a server that has acquired a number waits for 1 s, and one that was forgotten is over after 5 s.
GRANT_SECONDS, LEAD_MS = 2.0, 300
TERMS = "'2 s', '250 ms', '250 ms'"
# A condition that a HINT says to wait for comes within the terms of the fleet, and what starts a server takes.
PATIENCE_SECONDS = 60
# No pause lasts longer: a statement that was under way in one may not take longer than the hang oracle lets it.
LONGEST_PAUSE_STEPS, PAUSE_SECONDS = 4, 12

# Further ahead than anything is with right clocks.
LONG_SECONDS = 60

# What the registry grants nobody: shards, and numbers that are typed where a server leaves.
SHARDS = (30, 31)
FIRST_BY_HAND, LAST_BY_HAND = 8, 29
TICKET = "invoice"
TICKETS = "the fleet's tickets"
IDS = "the fleet's snowflakes"
# A restored registry gives tickets from so far above all that were used, those included that a stopped server holds.
MARGIN = 1_000_000

FLEET_CONF = f"""
id_gen.max_lead = '{LEAD_MS} ms'
id_gen.max_wait = '300 ms'
"""
FLEET_SCHEMA = f"{SCHEMA}\nCREATE SEQUENCE {TICKET};"

# Of the layout "default".
TIME_SHIFT, WORKER_SHIFT, WORKER_MASK = 22, 12, 1023
EPOCH_MS = 1_704_067_200_000
UNIQUE_VIOLATION = "23505"


def worker_of(snowflake: int) -> int:
    return snowflake >> WORKER_SHIFT & WORKER_MASK


def time_of(snowflake: int) -> int:
    """In Unix milliseconds."""
    return (snowflake >> TIME_SHIFT) + EPOCH_MS


Call = Callable[[Session], object]


def is_answer(refused: Refused) -> bool:
    """As for any server. The registry's silence has the class of a lost connection, too; that is none."""
    return is_answer_of_server(refused) and not refused.hint


@dataclass(eq=False)
class Member(Node):
    """A server of a fleet."""

    clock: FakeClock = field(default_factory=FakeClock)
    clock_ahead: float = 0.0
    port: int = 0
    pause: ExitStack | None = None
    paused_steps: int = 0
    clock_was_ahead: bool = False
    has_left: bool = False
    made: list[int] = field(default_factory=list)

    @property
    def able(self) -> bool:
        """Whether clients are to be answered."""
        return self.running and not self.is_standby and not self.stands_still

    @property
    def is_member(self) -> bool:
        return self.able and not self.has_left


class FleetWorld(World):
    """All of it."""

    _fleets: ClassVar[count] = count(1)

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry.of_process()
        self.registry.put_right()
        self.fleet = f"f{os.getpid()}-{next(self._fleets)}"
        self.worker_ids = "0-3"
        self.busy = False
        # How often the registry may still go back to what it was.
        self.times_left_back = 0
        self.clients: dict[Member, Client] = {}
        self.backup: Path | None = None
        # What is known no more, or not before.
        self.clocks_were_wrong = False
        self.began_with_wrong_clock = False
        self.was_restored = False
        self.gone: list[Member] = []
        self._accepted = 0
        self._ports = count(7000)
        self._by_hand = count(FIRST_BY_HAND)
        self._tops: dict[tuple[int, Node], int] = {}
        self._lock = threading.Lock()

    # Servers

    @property
    def members(self) -> list[Member]:
        return self.nodes  # type: ignore[return-value]

    def new_member(self) -> Member:
        """A server that joins by its settings alone."""
        own = f"id_gen.fleet_name = '{self.fleet}'\nid_gen.worker_id_range = '{self.worker_ids}'\n"
        member = self._add(None, conf=f"{CONF}{FLEET_CONF}{self.registry.conf}{own}")
        self.begin(member, FLEET_SCHEMA)
        return member  # type: ignore[return-value]

    def clone_of(self, original: Node, copies: str = "copy_files") -> Node:
        """With a port of its own."""
        member = super().clone_of(original, copies)
        member.cluster.append_conf(f"port = {member.port}")  # type: ignore[attr-defined]
        return member

    def _new(self, name: str, worker: int | None, original: Node | None, options: dict[str, Any]) -> Node:
        # What the original has reserved is in the copy.
        clock_was_ahead = isinstance(original, Member) and original.clock_was_ahead
        port, clock = next(self._ports), FakeClock()
        # Its disk may be copied.
        kind = OnDevice if device.are_possible() else Cluster
        cluster = kind("attack", clock=clock, port=port, **options)
        return Member(name, cluster, None, IDS, clock=clock, port=port, clock_was_ahead=clock_was_ahead)

    def able(self, which: int, *, besides: Member | None = None) -> Member:
        """One of the members that clients use."""
        return pick([each for each in self.members if each.is_member and each is not besides], which)

    def running(self) -> list[Node]:
        return [each for each in self.members if each.running and not each.stands_still]

    def await_connections(self, member: Member) -> None:
        """Until a server that starts all of its processes anew takes connections again."""

        def takes() -> bool:
            with suppress(psycopg.Error):
                member.cluster.connect().close()
                return True
            return False

        member.cluster.wait_until(takes, "taking connections again")
        self.began_with_wrong_clock |= abs(member.clock_ahead) > LONG_SECONDS

    # Time and clocks

    def halt(self, member: Member, pids: list[int] | None, *, is_asked: bool) -> None:
        """Pauses a server, or some of its processes, until it is resumed. Maybe it is one that is asked."""
        stack = ExitStack()
        member.stands_still = is_asked
        if pids is None:
            stack.enter_context(member.cluster.paused())
        else:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                stack.callback(_continue, pid)
        member.pause, member.paused_steps = stack, 0

    def resume(self, member: Member) -> None:
        if member.pause is not None:
            self.say(f"{member}: is resumed")
            member.pause.close()
            member.pause, member.stands_still = None, False

    def step_clock(self, member: Member, seconds: float) -> None:
        self.clocks_were_wrong = True
        member.clock_ahead += seconds
        member.clock_was_ahead |= member.clock_ahead > LONG_SECONDS
        member.clock.step(seconds)

    def put_clock_right(self, member: Member) -> None:
        self.say(f"{member}: its clock is put right")
        member.clock_ahead = 0.0
        member.clock.put_right()

    # Clients

    def calls(self, member: Member) -> list[Call]:
        """What clients ask a server for."""
        own: list[Call] = [
            snowflakes("SELECT snowflake_next()"),
            snowflakes("SELECT unnest(snowflake_next_array(500))"),
            snowflakes("INSERT INTO item DEFAULT VALUES RETURNING id"),
        ]
        if member.has_left:
            return own
        return [*own, *(ids_of_shard(shard, 20) for shard in SHARDS), tickets(20)]

    def begin_client(self, member: Member) -> None:
        if member not in self.clients and member.able:
            turns = count()

            def use(session: Session) -> None:
                calls = self.calls(member)
                calls[next(turns) % len(calls)](session)

            self.clients[member] = Client(self, member, DATABASE, use, pause_s=0.01)

    def end_client(self, member: Member) -> None:
        if client := self.clients.pop(member, None):
            self.resume(member)
            client.stop()
            client.judge()

    def session(self, which: int) -> Session:
        return self.idle_session(pick([each for each in self.members if each.able], which))

    # Ends

    def start(self, node: Node) -> None:
        assert isinstance(node, Member)
        self.began_with_wrong_clock |= abs(node.clock_ahead) > LONG_SECONDS
        super().start(node)

    def stop(self, node: Node, mode: str) -> None:
        # One that stands still would not see it.
        self.resume(node)  # type: ignore[arg-type]
        super().stop(node, mode)

    def retire(self, node: Node) -> None:
        assert isinstance(node, Member)
        self.end_client(node)
        super().retire(node)
        self.gone.append(node)

    def assign(self, node: Node) -> int:
        """A number that the registry grants nobody, and that no other server ever had."""
        return next(self._by_hand)

    def look_at_log(self, node: Node) -> None:
        seen = node.log_seen
        super().look_at_log(node)
        if node.cluster.logfile.exists() and PASSWORD in node.cluster.log(seen):
            raise Finding("password", f"the log of {node} holds it")

    def close(self) -> None:
        for member in self.members:
            with suppress(Exception):
                self.resume(member)
        for client in self.clients.values():
            client._ended.set()
        super().close()

    # Oracles

    def add_snowflakes(self, session: Session, ids: list[int]) -> None:
        """What a session was given, in its order; of each number they only go up."""
        seen = session.__dict__
        if seen.get("accepted") != self._accepted:
            seen |= {"accepted": self._accepted, "lasts": {}}
        lasts: dict[int, int] = seen["lasts"]
        for snowflake in ids:
            worker = worker_of(snowflake)
            if snowflake <= lasts.get(worker, -1):
                raise Finding("increasing", f"{session} was given {snowflake} after {lasts[worker]}")
            lasts[worker] = snowflake
        self.ledger.add(IDS, ids, f"{session}")
        session.node.made.extend(ids)  # type: ignore[attr-defined]

    def top_of_shard(self, shard: int, node: Node) -> int:
        """The largest ID of a shard; only that of one server if clocks may differ by more than the fleet allows."""
        with self._lock:
            tops = [
                top
                for (of, at), top in self._tops.items()
                if of == shard and (at is node or not self.clocks_were_wrong)
            ]
        return max(tops, default=-1)

    def add_ids_of_shard(self, session: Session, shard: int, ids: list[int], top: int) -> None:
        """IDs of a shard only go up, whoever asks and wherever it is: `top` was given to somebody before they were
        asked for."""
        self.add_snowflakes(session, ids)
        with self._lock:
            self._tops[shard, session.node] = max(self._tops.get((shard, session.node), -1), *ids)
        if min(ids) <= top:
            raise Finding("increasing", f"{session} was given {min(ids)} of shard {shard} after somebody had {top}")
        if {worker_of(each) for each in ids} != {shard}:
            raise Finding("decoding", f"{session} was given {ids}, which is not of shard {shard}")

    def accept_repeated(self, worker: int, after_ms: float) -> None:
        """A superuser has accepted that IDs are generated again: also in sessions of clients, which stay."""
        self._accepted += 1
        self.ledger.forget(IDS, lambda each: worker_of(each) == worker and time_of(each) > after_ms)  # type: ignore[arg-type]
        for member in self.members:
            self.forget_sessions(member)

    def look_at_bounds(self) -> None:
        """No ID lies at or beyond all bounds that the registry granted to its server for that number."""
        if self.was_restored:
            # Bounds of before are gone.
            return
        # Clients go on, so what they were given comes first: each ID was granted before.
        made_by = {member: list(member.made) for member in [*self.members, *self.gone]}
        bounds = self.registry.bounds(self.fleet)
        latest_ms = max((each for granted in bounds.values() for each in granted), default=0)
        if not self.began_with_wrong_clock and latest_ms > (time.time() + LONG_SECONDS) * 1000:
            raise Finding("bound", f"a clock that jumped is written into a bound: {latest_ms}")
        furthest_ms = math.inf if self.clocks_were_wrong else GRANT_SECONDS * 1000 + LEAD_MS + 100
        for member, made in made_by.items():
            for snowflake in made:
                worker, time_ms = worker_of(snowflake), time_of(snowflake)
                if worker in SHARDS or FIRST_BY_HAND <= worker <= LAST_BY_HAND:
                    continue
                # The one that it had then, and none that was granted after a gap.
                granted = bounds.setdefault((member.port, worker), [])
                place = bisect.bisect_right(granted, time_ms)
                bound = granted[place] if place < len(granted) else None
                if bound is None or bound > time_ms + furthest_ms:
                    beside = f"the bounds next to that are {_around(granted, time_ms)}"
                    raise Finding("bound", f"{member} made {snowflake} at {time_ms}, and {beside}")


def _around(bounds: list[int], time_ms: int) -> list[int]:
    return sorted(bounds, key=lambda each: abs(each - time_ms))[:4]


def _is_far(refused: Refused) -> bool:
    """Whether it is for a time so far ahead that a wrong clock has set it."""
    if ahead := ahead_ms(refused.detail):
        return ahead > LONG_SECONDS * 1000
    found = re.search(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", refused.detail)
    return bool(found) and datetime.fromisoformat(found[0]).timestamp() > time.time() + LONG_SECONDS


def _continue(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


# What clients ask for


def run(sql: str) -> Call:
    return lambda session: session.run(sql)


def snowflakes(sql: str) -> Call:
    def call(session: Session) -> None:
        try:
            session.generate(sql)
        except Refused as refused:
            if refused.sqlstate == UNIQUE_VIOLATION:
                raise Finding("unique", f"{session}: {refused}") from refused
            raise

    return call


def ids_of_shard(shard: int, number: int, shown: str = "{}") -> Call:
    """So many, or what is shown of them."""

    def call(session: Session) -> None:
        world = session.world
        assert isinstance(world, FleetWorld)
        top = world.top_of_shard(shard, session.node)
        query = shown.format(f"snowflake_next({shard})")
        ids = session.values(f"SELECT {query} FROM generate_series(1, {number})")
        world.add_ids_of_shard(session, shard, ids, top)

    return call


def furthest_of_shard(shard: int) -> Call:
    """More than fit into the time that a server takes to start."""
    return ids_of_shard(shard, 1_000_000, "max({})")


def tickets(number: int) -> Call:
    def call(session: Session) -> None:
        numbers = session.values(f"SELECT ticket_next('{TICKET}') FROM generate_series(1, {number})")
        session.world.ledger.add(TICKETS, numbers, f"{session}")

    return call


class FleetAdministrator(Administrator):
    """One who looks after all servers of a fleet, by what refusals say."""

    _world: FleetWorld
    # How often the call was refused before, and when it was first.
    _tried = 0
    _began = 0.0

    def has_tried_enough(self, tries: int) -> bool:
        """A HINT may say to wait for a condition, so it is time that counts here."""
        now = time.monotonic()
        if tries == 0:
            self._began = now
        self._tried = tries
        if now - self._began > PAUSE_SECONDS:
            for each in self._world.members:
                self._world.resume(each)
        return now - self._began > PATIENCE_SECONDS

    def follow(self, node: Node, database: str, refused: Refused) -> None:
        member, world = node, self._world
        assert isinstance(member, Member)
        hint, text = refused.hint, f"{refused.message} {refused.detail} {refused.hint}"
        world.resume(member)
        if "shard" in refused.message and "restored => false" not in hint:
            self._shard(member, database, refused)
        elif f"sequence public.{TICKET}" in refused.message:
            if not world.was_restored:
                raise Finding("ticket", f"{member} refuses, and no registry went back: {refused}")
            self.set_ticket()
        elif "the clock jumped forward" in text or "clock is behind" in text:
            if member.clock_ahead:
                world.put_clock_right(member)
            else:
                self.type(member, database, "SELECT id_gen_clock_accept();")
        elif typed := next((what for told, what in self._right().items() if told in text), None):
            self.type(member, database, f"ALTER SYSTEM SET id_gen.{typed}; SELECT pg_reload_conf();")
        elif "cannot be reached" in text or "does not answer in time" in text:
            world.registry.put_right()
        elif "the fleet has no free worker ID" in text:
            self._free_numbers(member, database)
        elif "id_gen.worker_id is not set" in text:
            if member.has_left:
                raise Finding("way out", f"{member} has a number that was typed, and says: {refused}")
            # It has named its registry a moment ago.
        elif member.clock_ahead and (
            "orrect the clock" in hint or "correct it" in hint or "Wait until that time" in hint
        ):
            world.put_clock_right(member)
        elif any(each.clock_was_ahead for each in world.members) and not member.clock_ahead and _is_far(refused):
            if found := re.search(r"SELECT id_gen_fleet_lower\(worker_id => (\d+)[^;]*;", hint):
                self._lower(member, database, int(found[1]), found[0])
            else:
                self._take_back(member, database)
        elif "restored => false" in hint:
            # Whether the registry was restored, only a person knows.
            if not world.was_restored:
                for statement in self.choose(member, hint):
                    self.type(member, database, statement)
        elif not re.search(r"[Cc]all again|Wait |Run the statement again|Connect again|within a few seconds", hint):
            if not (statements := self.choose(member, hint)):
                raise Finding("way out", f"nothing to type, and nothing to wait for: {refused}")
            for statement in statements:
                self.type(member, database, statement)
        time.sleep(0.1)

    def _right(self) -> dict[str, str]:
        """What is set where a refusal tells of a wrong setting."""
        return {
            "the registry does not have this server's fleet": f"fleet_name = '{self._world.fleet}'",
            "belongs to a fleet in another registry": f"registry = '{self._world.registry.etcd.endpoints}'",
            "id_gen.registry names different registries": f"registry = '{self._world.registry.etcd.endpoints}'",
            # The registry that the fleet is in: also where it was moved, and this server has not read that yet.
            "the fleet belongs to another registry": f"registry = '{self._world.registry.etcd.endpoints}'",
            "belongs to another server of the fleet": "worker_id = -1",
        }

    def _take_back(self, member: Member, database: str) -> None:
        """What a wrong clock has reserved is given up, as docs/operations.md says; all that was made for that time may
        come again."""
        world = self._world
        for worker in {worker_of(each) for each in member.made} | set(SHARDS):
            world.accept_repeated(worker, time.time() * 1000 + 1000)
        with world._lock:
            world._tops.clear()
        shards = member.cluster.psql("SELECT shard FROM id_gen_stat_shards", database).split()
        statements = [
            *(
                f"SELECT id_gen_{call}{shard})"
                for shard in shards
                for call in ("shard_release(", "fleet_lower(shard => ")
            ),
            "SELECT id_gen_reservation_reset(above => now())",
            *(f"SELECT id_gen_shard_take({shard})" for shard in shards),
        ]
        for statement in statements:
            world.say(f"administrator: types on {member}: {statement}")
            try:
                member.cluster.psql(statement, database)
            except SqlError as error:
                # It is typed again if the call is refused again.
                if "id_gen_clock_accept" in f"{error}":
                    self.type(member, database, "SELECT id_gen_clock_accept();")
        # A call may have been under way.
        world._accepted += 1

    def _lower(self, member: Member, database: str, worker: int, statement: str) -> None:
        """What a wrong clock of an earlier holder has set is lowered by another server, while this one is stopped."""
        world = self._world
        others = [each for each in world.members if each is not member and each.is_member]
        if not others:
            return
        for each in others:
            world.resume(each)
            world.put_clock_right(each)
        world.stop(member, "fast")
        world.accept_repeated(worker, time.time() * 1000 + 1000)
        with suppress(SqlError):
            world.say(f"administrator: types on {others[0]}: {statement}")
            others[0].cluster.psql(statement, database)
        world.start(member)

    def _free_numbers(self, member: Member, database: str) -> None:
        """A bound that a wrong clock has set is lowered, which is what docs/operations.md says of it; all others are in
        use, or end within seconds."""
        world = self._world
        ahead = (
            "SELECT worker_id FROM id_gen_fleet_members()"
            " WHERE granted_until > now() + interval '1 min' AND NOT this_server"
        )
        with suppress(SqlError):
            for worker in member.cluster.psql(ahead, database).split():
                for other in [each for each in world.members if each.clock_ahead and each.running]:
                    world.put_clock_right(other)
                with suppress(SqlError):
                    member.cluster.psql(f"SELECT id_gen_fleet_lower({worker})", database)
                    world.accept_repeated(int(worker), time.time() * 1000 + 1000)
        if self._tried > 3:
            world.say(f"administrator: {member} may have more numbers")
            self.type(member, database, "ALTER SYSTEM SET id_gen.worker_id_range = '0-5'; SELECT pg_reload_conf();")

    # Shards

    def _shard(self, member: Member, database: str, refused: Refused) -> None:
        """Lets this server have it: gives it back where it is, or waits until the grant of that one has ended."""
        world, hint = self._world, refused.hint
        if member.clock_ahead:
            # When a grant has ended is told by it.
            world.put_clock_right(member)
        released = re.search(r"SELECT id_gen_shard_release\((\d+)\);", hint)
        if released and (at := re.search(r"server at port (\d+)", refused.detail)):
            self._give_back(int(at[1]), released[1], database, member)
        if found := re.search(r"SELECT id_gen_shard_take\([^;<]*;", hint):
            with world.passing(member, database) as session:
                try:
                    session.run(found[0])
                except Refused as again:
                    if again.hint != refused.hint:
                        if not is_answer(again):
                            self.follow(member, database, again)
                    elif not released:
                        raise Finding("way out", f"says how to take the shard, and refuses that: {again}") from again
        elif not released and not re.search(r"[Cc]all again|Wait ", hint):
            raise Finding("way out", f"nothing to type, and nothing to wait for: {refused}")

    def _give_back(self, port: int, shard: str, database: str, asking: Member) -> None:
        world = self._world
        for owner in world.members:
            if owner.port == port and owner is not asking and owner.running and not owner.is_standby:
                world.resume(owner)
                with world.passing(owner, database) as session, suppress(Refused):
                    session.run(f"SELECT id_gen_shard_release({shard})")

    # Tickets

    def set_ticket(self) -> None:
        """Does what the HINT says on all servers; what one that is not at hand may have used counts, too."""
        world = self._world
        able = [each for each in world.members if each.is_member]
        largest = max([0, *world.ledger.values(TICKETS)])  # type: ignore[type-var]
        query = (
            f"SELECT greatest(s.last_value, t.last_prefetched) FROM {TICKET} s"
            f" LEFT JOIN id_gen_stat_tickets t ON t.datname = current_database() AND t.relid = '{TICKET}'::regclass"
        )
        for each in able:
            largest = max(largest, int(each.cluster.psql(query, DATABASE)))
        share = f"SELECT ticket_share('{TICKET}', above => {largest + MARGIN})"
        world.say(f"administrator: {share}")
        for each in able[:1]:
            with suppress(SqlError):
                each.cluster.psql(share, DATABASE)
