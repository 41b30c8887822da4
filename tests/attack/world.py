"""The servers of one exploration, their sessions, and what an administrator knows about them.

The world is a careful administrator's: no worker ID is assigned to two servers, nobody promotes a standby while its
primary generates, and the machines' clocks agree. What the explorer does beyond that (it copies directories, steps the
clock of all machines, kills what it likes) are accidents, which the product must survive.
"""

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg

from attack.action import pick
from attack.finding import Finding
from attack.ledger import Ledger
from harness.clock import FakeClock
from harness.cluster import PRELOAD, PRELOADED, Cluster

# What a column or a parameter of a statement holds.
Value = Any

# A statement that takes longer hangs, and so does a stop. No statement here is allowed to wait for longer than the
# settings of a server let it: some seconds.
HANG_SECONDS = 40
STOP_SECONDS = 30

CONF = f"""{PRELOAD if PRELOADED else ""}
max_prepared_transactions = 10
max_connections = 60
log_checkpoints = off
log_statement = none
jit = on
wal_sender_timeout = 0
wal_receiver_timeout = 0
wal_retrieve_retry_interval = 100ms
statement_timeout = {HANG_SECONDS}s
"""

# What every database of a server has. The tables' keys are an oracle of their own: a value that is stored already is
# refused.
SCHEMA = """
CREATE EXTENSION id_gen_tools CASCADE;
CREATE TABLE item (id bigint PRIMARY KEY DEFAULT snowflake_next(), made_by text DEFAULT session_user);
CREATE TABLE token (id uuid PRIMARY KEY DEFAULT uuidv7(), made_by text DEFAULT session_user);
GRANT SELECT, INSERT ON item, token TO clerk;
CREATE FUNCTION careless() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS $$BEGIN RETURN snowflake_next(); END$$;
CREATE FUNCTION careless_time(bigint) RETURNS timestamptz LANGUAGE plpgsql PARALLEL SAFE
    AS $$BEGIN RETURN snowflake_timestamp($1); END$$;
"""
DATABASE = "shop"
# How many sessions of a server stay open, beside those in a transaction.
MOST_SESSIONS = 15

# What ends a session whose process or server was made to end.
ENDED = ("57P", "08")
# What a server refuses a connection with that begins again after a crash.
IN_RECOVERY = re.compile("not yet accepting connections|in recovery mode|starting up")
# What the server's log may not hold, whatever happens.
DEFECTS = re.compile(
    r"(?:ERROR|FATAL|PANIC): .*(?:XX000|panicked|TRAP)|PANIC: |TRAP: |terminated by signal (?:6|7|11):"
)


class Refused(Exception):
    """A statement that the server refused."""

    def __init__(self, error: psycopg.Error) -> None:
        self.sqlstate = error.sqlstate or "08000"
        self.message = error.diag.message_primary or str(error)
        self.detail = error.diag.message_detail or ""
        self.hint = error.diag.message_hint or ""
        super().__init__(f"{self.sqlstate}: {self.message} ({self.detail}) HINT: {self.hint}")

    @property
    def is_end(self) -> bool:
        """Whether the session is gone."""
        return self.sqlstate.startswith(ENDED)


class Wall:
    """The clock of all machines."""

    def __init__(self) -> None:
        self._clocks: list[FakeClock] = []
        self.ahead_s = 0.0
        self._latest = time.time()

    def new(self) -> FakeClock:
        clock = FakeClock(self.ahead_s)
        self._clocks.append(clock)
        return clock

    def now(self) -> float:
        return time.time() + self.ahead_s

    def step(self, seconds: float) -> None:
        self._latest = max(self._latest, self.now())
        self.ahead_s += seconds
        for clock in self._clocks:
            # That of a server which is gone has no file any more.
            with suppress(FileNotFoundError):
                clock.step(seconds)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        for clock in self._clocks:
            with suppress(FileNotFoundError):
                clock.freeze()
        try:
            yield
        finally:
            self.step(0)

    @property
    def behind_s(self) -> float:
        """By how much it is behind the latest time that it ever showed."""
        return max(0.0, self._latest - self.now())

    def catch_up(self) -> None:
        """Sets it to that time."""
        if self.behind_s:
            self.step(self.behind_s)


@dataclass(eq=False)
class Node:
    """A server: a data directory, and what the administrator knows about it."""

    name: str
    cluster: Cluster
    worker: int | None
    space: str
    """What its own snowflakes may never repeat, in whichever layout. A standby continues its primary's."""
    databases: list[str] = field(default_factory=lambda: [DATABASE])
    sessions: list["Session"] = field(default_factory=list)
    original: "Node | None" = None
    """Whose copy it is, if that one may still generate."""
    is_standby: bool = False
    stands_still: bool = False
    """Somebody has paused it, or a session: nobody is to be answered."""
    in_order: bool = False
    """Whether its IDs increase across sessions: `id_gen.max_block_size` is 1."""
    highest: int = 0
    """Of its IDs since it was started or set to another number, layout or order."""
    log_seen: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def running(self) -> bool:
        return self.cluster.running


class Session:
    """A client's session. It keeps its last snowflake, as the next one must be above."""

    numbers = count(1)

    def __init__(self, world: "World", node: Node, database: str, role: str, settings: dict[str, str]) -> None:
        self.world, self.node, self.database, self.role = world, node, database, role
        self.settings = settings
        self.name = f"{node}.{next(self.numbers)}"
        self.last: int | None = None
        try:
            self.connection = self._connected()
        except psycopg.OperationalError as error:
            # PostgreSQL may notice a process that was killed a moment later than it is gone.
            if not IN_RECOVERY.search(str(error)):
                raise
            node.cluster.poll_until("SELECT true")
            self.connection = self._connected()
        world.say(f"{self.name}: connects to {database} as {role} with {settings}")

    def _connected(self) -> psycopg.Connection:
        return psycopg.connect(
            self.node.cluster.conninfo(self.database).replace("user=postgres", f"user={self.role}"),
            autocommit=True,
            options=" ".join(f"-c {name}={_escaped(value)}" for name, value in self.settings.items()),
            connect_timeout=HANG_SECONDS,
        )

    def __str__(self) -> str:
        return self.name

    def run(self, sql: str, *parameters: Value) -> list[tuple[Value, ...]]:
        """The rows of a statement; raises Refused."""
        began = time.monotonic()
        try:
            cursor = self.connection.execute(sql.encode(), parameters or None)
            rows = cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            refused = Refused(error)
            self.world.say(f"{self.name}: {sql} -> {refused}")
            # PostgreSQL times statements by the clock, which may have been set.
            took_long = time.monotonic() - began > HANG_SECONDS / 2
            if refused.sqlstate == "57014" and "statement timeout" in refused.message and took_long:
                raise Finding("hang", f"{sql!r} took more than {HANG_SECONDS} s") from error
            if refused.sqlstate.startswith("XX"):
                raise Finding("internal error", f"{sql!r}: {refused}") from error
            raise refused from error
        self.world.say(f"{self.name}: {sql} {parameters or ''} -> {_short(rows)}")
        return rows

    def values(self, sql: str, *parameters: Value) -> list[Value]:
        """Those of the first column."""
        return [row[0] for row in self.run(sql, *parameters)]

    def value(self, sql: str, *parameters: Value) -> Value:
        return self.values(sql, *parameters)[0]

    def generate(self, sql: str = "SELECT snowflake_next()", *parameters: Value) -> list[tuple[Value, ...]]:
        """The rows of a statement whose first column is of new snowflakes, in their order."""
        rows = self.run(sql, *parameters)
        self.world.add_snowflakes(self, [row[0] for row in rows])
        return rows

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    @property
    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    @property
    def is_open(self) -> bool:
        return not self.connection.closed and self.node.running

    def close(self) -> None:
        with suppress(psycopg.Error):
            self.connection.close()
        if self in self.node.sessions:
            self.node.sessions.remove(self)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class Client(threading.Thread):
    """Somebody who uses a server again and again, whatever becomes of that, until he is stopped."""

    def __init__(
        self, world: "World", node: Node, database: str, call: Callable[[Session], object], pause_s: float = 0
    ) -> None:
        super().__init__(daemon=True)
        self._session = lambda: Session(world, node, database, "postgres", {})
        self._node, self._call, self._pause_s = node, call, pause_s
        self._problem: BaseException | None = None
        self._ended = threading.Event()
        self.begun = threading.Event()
        """Whether it has been answered, or refused, once."""
        self.start()

    def run(self) -> None:
        session: Session | None = None
        try:
            while not self._ended.wait(self._pause_s):
                try:
                    if session is None or not session.is_open:
                        session = self._session()
                    self._call(session)
                except Refused as refused:
                    if refused.is_end and session is not None:
                        session.close()
                    self._ended.wait(3 * self._pause_s)
                except psycopg.Error:
                    # The server takes no connections.
                    self._ended.wait(0.02)
                self.begun.set()
        except BaseException as problem:  # noqa: BLE001, the main thread raises it
            self._problem = problem
        finally:
            self.begun.set()
            if session is not None:
                session.close()

    def stop(self) -> None:
        self._ended.set()
        self.join(HANG_SECONDS + 5)

    def judge(self) -> None:
        """Raises what it has found."""
        if self._problem is not None:
            raise self._problem
        if self._ended.is_set() and self.is_alive():
            raise Finding("hang", f"a client of {self._node} is not answered")


class World:
    """All of it."""

    def __init__(self) -> None:
        self.transcript: list[str] = []
        self.ledger = Ledger()
        self.wall = Wall()
        self.nodes: list[Node] = []
        self.on_copy: list[Callable[[Node, Node], None]] = []
        """What is told of each copy, before it is made: the original, and the copy."""
        self._workers = count(1)
        self._names = iter("abcdefghijklmnopqrstuvwxyz")

    # Servers

    def new_node(self, conf: str = "", schema: str = SCHEMA) -> Node:
        """A new server, with a worker ID of its own, that clients use already."""
        worker = self.unused_worker()
        node = self._add(worker, conf=f"{CONF}id_gen.worker_id = {worker}\n{conf}")
        self.begin(node, schema)
        return node

    def begin(self, node: Node, schema: str) -> None:
        """Makes a server's directory, starts it, and makes its database."""
        node.cluster.init()
        self.start(node)
        node.cluster.psql(f"CREATE ROLE clerk LOGIN; CREATE DATABASE {DATABASE}")
        node.cluster.psql(schema, DATABASE)

    def copy_of(self, original: Node, *, standby: bool = False) -> Node:
        """A base backup, not started yet."""
        role = {"standby_of": original.cluster} if standby else {"copy_of": original.cluster}
        node = self._add(original.worker, original, **role)
        node.is_standby = standby
        node.cluster.init()
        return node

    def restore_log(self, copy: Node, original: Node) -> None:
        """A base backup that is not started yet gets all segments that its stopped original has."""
        self.say(f"{copy}: gets the log of {original}")
        for segment in (original.cluster.data / "pg_wal").glob("[0-9A-F]" * 24):
            subprocess.run(["cp", "-a", segment, copy.cluster.data / "pg_wal"], check=True)

    def clone_of(self, original: Node, copies: str = "copy_files") -> Node:
        """A copy of the files, or what else the cluster can copy, as it is, not started yet."""
        node = self._add(original.worker, original)
        with original.cluster.paused() if original.running and not original.stands_still else nullcontext():
            getattr(node.cluster, copies)(original.cluster)
        node.is_standby = original.is_standby
        return node

    def _add(self, worker: int | None, original: Node | None = None, conf: str = "", **role: Cluster) -> Node:
        node = self._new(next(self._names), worker, original, {"conf": conf, **role})
        if original is not None:
            node.databases = list(original.databases)
            for tell in self.on_copy:
                tell(original, node)
        self.nodes.append(node)
        return node

    def _new(self, name: str, worker: int | None, original: Node | None, options: dict[str, Any]) -> Node:
        cluster = Cluster("attack", clock=self.wall.new(), **options)
        return Node(name, cluster, worker, original.space if original else name, original=original)

    def cut_off(self, standby: Node) -> None:
        """A standby gets nothing more from its primary."""
        self.say(f"{standby}: is cut off")
        standby.cluster.psql("ALTER SYSTEM SET primary_conninfo = ''")
        standby.cluster.reload()
        standby.cluster.poll_until("SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    def unused_worker(self) -> int:
        return next(self._workers)

    def assign(self, node: Node) -> int:
        """Gives a server a worker ID that no other has: from then on it is nobody's copy."""
        node.worker = self.unused_worker()
        node.original = None
        node.highest = 0
        node.space = f"{node.space}'"
        return node.worker

    def start(self, node: Node) -> None:
        self.say(f"{node}: starts")
        node.highest = 0
        try:
            node.cluster.start()
        except (RuntimeError, TimeoutError) as error:
            raise Finding("start", f"{node} does not start: {error}") from error

    def stop(self, node: Node, mode: str) -> None:
        """`kill9` is a mode, too."""
        self.say(f"{node}: stops ({mode})")
        self.forget_sessions(node)
        if mode == "kill9":
            node.cluster.kill9()
            return
        began = time.monotonic()
        node.cluster.stop(mode)
        if time.monotonic() - began > STOP_SECONDS:
            raise Finding("hang", f"{node} took {time.monotonic() - began:.0f} s to stop ({mode})")

    def restart(self, node: Node, mode: str = "fast") -> None:
        self.stop(node, mode)
        self.start(node)

    def retire(self, node: Node) -> None:
        """A server that is gone for good."""
        if node.running:
            self.stop(node, "immediate")
        self.look_at_log(node)
        self.nodes.remove(node)
        node.cluster.destroy()
        for other in self.nodes:
            if other.original is node:
                other.original = None

    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.running]

    def node(self, which: int) -> Node:
        """One of the servers that generate."""
        able = [node for node in self.running() if not node.is_standby]
        return pick(able, which)

    # Sessions

    def open(self, node: Node, database: str, role: str = "postgres", **settings: str) -> Session:
        idle = [each for each in node.sessions if not each.in_transaction]
        if len(idle) >= MOST_SESSIONS:
            idle[0].close()
        session = Session(self, node, database, role, settings)
        node.sessions.append(session)
        return session

    def session(self, which: int) -> Session:
        """One of the open sessions on servers that generate; the first is opened for whoever comes."""
        found = [each for node in self.nodes for each in node.sessions if each.is_open and not node.is_standby]
        return pick(found, which) if found else self.open(self.node(which), DATABASE)

    def idle_session(self, node: Node) -> Session:
        """A session of a server, which is in no transaction."""
        found = [each for each in node.sessions if each.is_open and not each.in_transaction]
        return found[0] if found else self.open(node, DATABASE)

    def forget_sessions(self, node: Node) -> None:
        for session in list(node.sessions):
            session.close()

    def passing(self, node: Node, database: str | None = None, role: str = "postgres", **settings: str) -> Session:
        """A session for the time of a `with` block, a superuser's where nobody else is named."""
        return Session(self, node, database or node.databases[0], role, settings)

    def query(self, node: Node, sql: str, *parameters: Value, database: str | None = None) -> list[tuple[Value, ...]]:
        """What a superuser is told in a session of its own."""
        with self.passing(node, database) as session:
            return session.run(sql, *parameters)

    def end_sessions(self, node: Node, how: str) -> None:
        """An administrator ends or cancels what sessions do."""
        self.query(
            node,
            f"SELECT pg_{how}_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        )

    def prepared(self, node: Node) -> list[tuple[str, str]]:
        """Transactions that are prepared, and their databases."""
        return self.query(node, "SELECT gid, database FROM pg_prepared_xacts ORDER BY gid")

    def commit_prepared(self, node: Node) -> None:
        for gid, database in self.prepared(node):
            try:
                self.query(node, f"COMMIT PREPARED '{gid}'", database=database)
            except Refused as refused:
                # A client of a crowd has ended its own meanwhile, or is about to.
                if refused.sqlstate not in ("42704", "55000"):
                    raise

    # Oracles that need nothing but the world

    def add_snowflakes(self, session: Session, ids: list[int]) -> None:
        """What a session was given, in its order."""
        if not ids:
            return
        node = session.node
        if node.original is not None and node.worker is not None and node.worker == node.original.worker:
            raise Finding("accepted", f"{node}, a copy of {node.original}, generates although nobody has accepted it")
        ordered = ids if session.last is None else [session.last, *ids]
        for before, after in zip(ordered, ordered[1:], strict=False):
            if after <= before:
                raise Finding("increasing", f"{session} was given {after} after {before}")
        session.last = ids[-1]
        node.highest = max(ids[-1], node.highest)
        self.ledger.add(f"the server {node.space}", ids, f"{session}")

    def look_at_log(self, node: Node) -> None:
        """The log's new lines may not tell of a defect."""
        if not node.cluster.logfile.exists():
            return
        text, node.log_seen = node.cluster.log(node.log_seen), node.cluster.log_position
        if found := DEFECTS.search(text):
            raise Finding("server log", f"{node}: {text[max(0, found.start() - 300) : found.end() + 300]}")

    def say_logs(self) -> None:
        """How each server's log ends."""
        for node in self.nodes:
            if node.cluster.logfile.exists():
                self.say("\n".join([f"{node}: its log ends with:", *node.cluster.log().splitlines()[-200:]]))

    def say(self, line: str) -> None:
        self.transcript.append(f"{self.wall.now():.3f} {line}")

    def close(self) -> None:
        for node in self.nodes:
            self.forget_sessions(node)
            with suppress(Exception):
                if node.running:
                    node.cluster.stop("immediate")
            node.cluster.destroy()


def _escaped(value: str) -> str:
    return re.sub(r"([\\ ])", r"\\\1", value)


def _short(rows: list[tuple[Any, ...]]) -> str:
    text = str(rows)
    return text if len(text) < 200 else f"{text[:190]}… ({len(rows)} rows)"
