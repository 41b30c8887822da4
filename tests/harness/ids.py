"""Asking a server for snowflakes in the ways that tests of crashes and clocks need, and reading its refusals."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg

from harness.clock import FakeClock
from harness.cluster import GENERATING, Cluster, SqlError
from harness.waiting import WAIT_SECONDS

NEXT = "SELECT snowflake_next()"

# A server with so few IDs in a millisecond that seconds of them fit a small array.
NARROW_LAYOUT = "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:6"
NARROW = f"{GENERATING}id_gen.layout = '{NARROW_LAYOUT}'\n"
PER_MS = 64

# What the one column of a statement holds.
Value = Any

TOO_FAR_AHEAD = "53400"

# For calls that shall get their ID however long the clock needs, within what a test may take.
PATIENT = "id_gen.max_wait = '90s'\n"
# For calls that shall get their ID at once or not at all.
IMPATIENT = "id_gen.max_wait = 0\n"
# No ID ahead of the clock.
STRICT = "id_gen.max_lead = 0\n"


@contextmanager
def stepped(seconds: float, conf: str) -> Iterator[tuple[Cluster, FakeClock, int]]:
    """A server that has given one ID before its clock was set, its clock, and that ID."""
    clock = FakeClock()
    with Cluster(conf=conf, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        before = next_id(cluster)
        clock.step(seconds)
        yield cluster, clock, before


def array_of(ms: int) -> str:
    """A statement that takes as many IDs as a NARROW server has in that time, and returns the last."""
    return f"SELECT ids[cardinality(ids)] FROM snowflake_next_array({ms * PER_MS}) ids"


def next_id(cluster: Cluster) -> int:
    return int(cluster.psql(NEXT))


def first_id(cluster: Cluster) -> int:
    """The first ID that is given, asking again for as long as the clock has to catch up or settings to be read."""
    return first_given(cluster, lambda: next_id(cluster), TOO_FAR_AHEAD)


def first_given(cluster: Cluster, give: Callable[[], int], *refusals: str) -> int:
    """The first number that a server gives, however often it refuses one before with one of these SQLSTATEs."""
    given: list[int] = []

    def gave() -> bool:
        try:
            given.append(give())
        except SqlError as error:
            if error.sqlstate not in refusals:
                raise
        return bool(given)

    cluster.wait_until(gave, "giving a number")
    return given[0]


def run_ahead(cluster: Cluster, ms: int) -> int:
    """Takes IDs that lead a NARROW server's clock by about that much, and returns the last."""
    return int(cluster.psql(array_of(ms)))


def time_of(cluster: Cluster, snowflake: int) -> int:
    """When an ID claims to have been made, in Unix milliseconds."""
    return int(cluster.psql(f"SELECT (extract(epoch FROM snowflake_timestamp({snowflake})) * 1000)::bigint"))


def refusal(cluster: Cluster, sql: str = NEXT, dbname: str = "postgres") -> SqlError:
    """The error of a statement that must not succeed."""
    try:
        answer = cluster.psql(sql, dbname)
    except SqlError as error:
        return error
    raise AssertionError(f"not refused: {sql!r} answered {answer!r}")


def await_refusal(cluster: Cluster, part: str, sql: str = NEXT) -> SqlError:
    """The error of a statement, once its report has that part; until then it may succeed, or fail otherwise."""
    errors: list[SqlError] = []

    def refused() -> bool:
        try:
            cluster.psql(sql)
        except SqlError as error:
            errors.append(error)
            return part in str(error)
        return False

    cluster.wait_until(refused, f"refusing with {part!r}", lambda: f"its last error: {errors[-1:]}")
    return errors[-1]


def change(cluster: Cluster, name: str, value: object) -> None:
    """Changes a setting by ALTER SYSTEM and a reload; sessions follow soon."""
    cluster.psql(f"ALTER SYSTEM SET id_gen.{name} = '{value}'")
    cluster.reload()


def await_round(cluster: Cluster) -> None:
    """Awaits that the keeper has gone through a round that began after this call."""
    for _ in range(2):
        seen = cluster.psql("SELECT keeper_heartbeat_at FROM id_gen_status()")
        cluster.poll_until(f"SELECT keeper_heartbeat_at > '{seen}' FROM id_gen_status()")


def keepers(cluster: Cluster) -> list[int]:
    """The keeper's process, if one runs."""
    return [pid for pid, title in cluster.processes().items() if title.startswith("id_gen keeper")]


def assert_rest_works(cluster: Cluster) -> None:
    """What never needs permission to generate: UUIDs, and taking IDs apart."""
    assert cluster.psql("SELECT uuid IS NOT NULL FROM public.uuidv7() uuid") == "t"
    assert cluster.psql("SELECT worker_id FROM snowflake_parse(175928847299117063, 'discord')") == "1"


class Caller:
    """A client with a connection of its own, whose statement runs while the test does something else."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connection = cluster.connect()
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[Value] | None = None
        self.pid = self._connection.info.backend_pid

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        # However the test ended, a statement that still waits must not hold it up.
        if self._last is not None and not self._last.done():
            # A server that was stopped meanwhile has ended it already.
            with suppress(psycopg.OperationalError):
                self._connection.cancel()
        self._thread.shutdown()
        self._connection.close()

    def ask(self, sql: str = NEXT) -> Value:
        """Runs a statement and returns its one value."""
        return self._fetch(sql)

    def transaction(self) -> AbstractContextManager[object]:
        """What is asked for meanwhile is one transaction."""
        return self._connection.transaction()

    def begin(self, sql: str = NEXT) -> Future[Value]:
        """Lets a statement run on its own."""
        self._last = self._thread.submit(self._fetch, sql)
        return self._last

    def begin_wait(self) -> Future[Value]:
        """Asks for an ID, and returns when the call has begun to wait for the clock."""
        answer = self.begin()
        self.await_wait("Extension")
        return answer

    def await_wait(self, kind: str) -> None:
        """Waits until the statement waits, for what pg_stat_activity calls that."""
        self._cluster.poll_until(f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {self.pid}", expected=kind)

    def _fetch(self, sql: str) -> Value:
        return self._connection.execute(sql).fetchone()[0]


def answer_of(call: Future[Value]) -> Value:
    """The answer of a statement begun earlier."""
    return call.result(timeout=WAIT_SECONDS)


def error_of(call: Future[Value]) -> psycopg.Error:
    """The error that ends a statement begun earlier."""
    error = call.exception(timeout=WAIT_SECONDS)
    assert isinstance(error, psycopg.Error), f"not refused: {call}"
    return error


def snowflake_at(connection: psycopg.Connection, time: str) -> int:
    """The smallest snowflake of a time, which is an expression."""
    row = connection.execute(f"SELECT snowflake_min({time})".encode()).fetchone()
    assert row
    return row[0]
