"""Shards of servers: taking them, giving them back, and what makes IDs of them meanwhile."""

import threading
from contextlib import suppress

import psycopg

from harness.cluster import Cluster, SqlError
from harness.ids import refusal

# What refuses an ID of a shard that the server does not have.
NOT_HERE = "55000"
# What a lost server's shards are taken with: as docs/shards.md says, typed as it is.
RECOVER = (
    "SELECT id_gen_shard_take({shard}, above => snowflake_max(clock_timestamp()"
    " + current_setting('id_gen.max_lead')::interval + interval '3 s'))"
)


def take(cluster: Cluster, shard: int, above: int | None = 0) -> None:
    """Takes a shard, above what the server said that gave it back, or none. Its fleet knows that by itself."""
    at_least = "" if above is None else f", above => {above}"
    cluster.psql(f"SELECT id_gen_shard_take({shard}{at_least})")
    await_usable(cluster, shard)


def await_usable(cluster: Cluster, shard: int, database: str = "postgres") -> None:
    """Waits until a server makes IDs of a shard that it has just taken."""
    waits = f"SELECT FROM id_gen_stat_shards WHERE shard = {shard} AND state = 'waiting'"
    cluster.poll_until(f"SELECT NOT EXISTS ({waits})", database)


def release(cluster: Cluster, shard: int) -> int:
    """Gives a shard back; returns what its next server has to go above."""
    return int(cluster.psql(f"SELECT id_gen_shard_release({shard})"))


def next_of(cluster: Cluster, shard: int) -> int:
    return int(cluster.psql(f"SELECT snowflake_next({shard})"))


def many_of(cluster: Cluster, shard: int, count: int) -> list[int]:
    """So many IDs, in the order in which they were made."""
    rows = cluster.psql(f"SELECT snowflake_next({shard}) FROM generate_series(1, {count})")
    return [int(row) for row in rows.splitlines()]


def refused(cluster: Cluster, shard: int) -> SqlError:
    return refusal(cluster, f"SELECT snowflake_next({shard})")


def owned(cluster: Cluster) -> set[int]:
    """The shards that a server has."""
    return {int(row) for row in cluster.psql("SELECT shard FROM id_gen_stat_shards").splitlines()}


class Writer:
    """A client that makes IDs of a shard on whichever of the servers has it, until it is told to stop."""

    # What it asks for, if not for an ID alone.
    statement = ""

    def __init__(self, clusters: list[Cluster], shard: int) -> None:
        self._clusters, self._shard = clusters, shard
        self._stopped = threading.Event()
        self.ids: list[int] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        statement = self.statement or f"SELECT snowflake_next({self._shard})"
        while not self._stopped.is_set():
            for cluster in self._clusters:
                with suppress(psycopg.Error), cluster.connect() as connection:
                    while not self._stopped.is_set():
                        self.ids += connection.execute(statement).fetchone()
