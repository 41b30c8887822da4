"""An outbox with readers that go by the commit horizon, for tests of what they may and may not miss."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from harness.cluster import GENERATING, Cluster

CONF = f"{GENERATING}max_prepared_transactions = 20\n"
OUTBOX = "CREATE EXTENSION id_gen; CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_next(), writer int)"
INSERT = "INSERT INTO outbox (writer) VALUES (1) RETURNING id"
HORIZON = "SELECT snowflake_commit_horizon()"
BLOCKERS = "SELECT pid IS NOT NULL, gid, database, first_id, state FROM id_gen_stat_horizon"
NAIVE = "SELECT id FROM outbox WHERE id > %s ORDER BY id"
SAFE = "SELECT id FROM outbox WHERE id > %s AND id < snowflake_commit_horizon() ORDER BY id"
# What becomes of a session that is terminated, or whose server is killed or not up yet.
ENDED = "57P"
# As docs/reading-in-order.md recommends it.
GUARD = "CREATE TRIGGER guard AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION snowflake_guard_trigger(%s)"


def ask(session: psycopg.Connection, sql: str) -> int:
    row = session.execute(sql).fetchone()
    assert row is not None
    return row[0]


@contextmanager
def may_be_ended() -> Iterator[None]:
    """The server may end the session at any point."""
    try:
        yield
    except psycopg.OperationalError as error:
        if error.sqlstate is not None and not error.sqlstate.startswith(ENDED):
            raise


def connect_again(cluster: Cluster, **options: str) -> psycopg.Connection:
    """As soon as the server takes connections."""
    sessions: list[psycopg.Connection] = []

    def connects() -> bool:
        with may_be_ended():
            sessions.append(cluster.connect(**options))
        return bool(sessions)

    cluster.wait_until(connects, "taking connections")
    return sessions[0]


class Reader:
    """Polls, and remembers what it got."""

    def __init__(self, cluster: Cluster, sql: str = SAFE) -> None:
        self.ids: list[int] = []
        self._sql = sql
        self._cluster = cluster
        self._session = cluster.connect()
        # Earlier rows are not for this one.
        self._last = ask(self._session, "SELECT coalesce(max(id), 0) FROM outbox")

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def poll(self) -> list[int]:
        found = [row[0] for row in self._session.execute(self._sql, [self._last])]
        if found:
            self._last = found[-1]
            self.ids += found
        return found

    def poll_until(self, done: threading.Event) -> None:
        """Goes on where it was when the server ends its session."""
        while not done.is_set():
            with may_be_ended():
                self.poll()
                continue
            self.connect_again()

    def connect_again(self) -> None:
        """Goes on where it is, in another session."""
        self._session.close()
        self._session = connect_again(self._cluster)

    def await_all(self, cluster: Cluster, expected: list[int]) -> None:
        """Polls until it has these, and no others."""
        cluster.wait_until(lambda: self.poll() is not None and len(self.ids) >= len(expected), "read")
        assert self.ids == expected
