"""A made-up load that shows everything once: bursts, a clock set back, a saturated stretch, and refusals.

The layout has few IDs in a millisecond, so that a small machine can use them up. When things happen is given in shares
of the whole time.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from harness import GENERATING, Cluster, FakeClock
from harness.ids import NARROW_LAYOUT, first_id

IDS_PER_SECOND = 64_000
CONF = f"""{GENERATING}
id_gen.layout = '{NARROW_LAYOUT}'
id_gen.max_wait = '200ms'
"""
# What the steady client takes comes to lie here.
STORED = "made_up.id"

SMALL_LEAD = "400ms"
LARGE_LEAD = "5s"

STORE = "INSERT INTO made_up SELECT unnest(snowflake_next_array(%s))"

PAUSE_SECONDS = 0.05


class Load:
    """Clients that take as many IDs a second as the plan says, one of them without pause."""

    def __init__(self, cluster: Cluster, clock: FakeClock, seconds: float) -> None:
        self._cluster = cluster
        self._clock = clock
        self._seconds = seconds
        self._over = threading.Event()
        self._wanted = 0.0
        self._saturate = False

    def plan(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (0.00, lambda: self._want(0.05)),
            (0.08, lambda: self._want(0.6)),
            (0.18, lambda: self._want(0.1)),
            (0.23, lambda: self._want(2.2)),
            (0.28, lambda: self._want(0.1)),
            (0.38, lambda: self._clock.step(-3)),
            (0.50, self._clock.put_right),
            (0.58, lambda: self._lead(SMALL_LEAD)),
            (0.60, lambda: self._go_all_out(True)),
            (0.77, lambda: self._go_all_out(False)),
            (0.82, lambda: self._clock.step(-2)),
            (0.93, self._clock.put_right),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=each) for each in (self._direct, self._steady, self._greedy)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _direct(self) -> None:
        began = time.monotonic()
        for share, act in self.plan():
            if self._over.wait(max(0.0, began + share * self._seconds - time.monotonic())):
                return
            act()

    def _want(self, share: float) -> None:
        self._wanted = share * IDS_PER_SECOND

    def _go_all_out(self, yes: bool) -> None:
        self._saturate = yes

    def _lead(self, most: str) -> None:
        self._cluster.psql(f"ALTER SYSTEM SET id_gen.max_lead = '{most}'")
        self._cluster.reload()

    def _steady(self) -> None:
        with self._cluster.connect() as connection:
            while not self._over.wait(PAUSE_SECONDS):
                _take(connection, round(self._wanted * PAUSE_SECONDS), STORE)

    def _greedy(self) -> None:
        with self._cluster.connect() as connection:
            while not self._over.is_set():
                if self._saturate:
                    _take(connection, 5000)
                else:
                    self._over.wait(PAUSE_SECONDS)


def _take(connection: psycopg.Connection, count: int, statement: str = "SELECT FROM snowflake_next_array(%s)") -> None:
    """A client that is refused asks again, as real ones do."""
    try:
        connection.execute(statement, [max(1, count)])
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise


@contextmanager
def made_up_server(seconds: float) -> Iterator[Cluster]:
    """A throwaway server under that load."""
    clock = FakeClock()
    with Cluster("dashboard", conf=CONF, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen_tools CASCADE")
        cluster.psql("CREATE UNLOGGED TABLE made_up (id bigint)")
        first_id(cluster)
        with Load(cluster, clock, seconds).running():
            yield cluster
