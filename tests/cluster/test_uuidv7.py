"""UUIDv7 in bulk: strictly increasing in a session, never ahead of the clock, and hardly behind it."""

import uuid

import numpy as np
import pytest

from harness import Cluster
from harness.clients import INT8, UUID, copy_binary

COUNT = 5_000_000
# The cycle counter, which stands for the clock for a millisecond, is behind by what it takes to read both and a
# thousandth of that time, each at most 1 us, and the fraction of a UUID is rounded down.
BEHIND_US = 3
POSTGRES_EPOCH_US = 946_684_800_000_000


@pytest.mark.long
def test_five_million_in_one_statement() -> None:
    query = f"SELECT clock_timestamp(), public.uuidv7(), clock_timestamp() FROM generate_series(1, {COUNT})"
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        rows = copy_binary(cluster, query, {"before": INT8, "uuid": UUID, "after": INT8})

    assert rows.size == COUNT
    high, low = (rows["uuid"][half].astype(np.uint64) for half in ("high", "low"))
    increasing = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    assert increasing.all(), f"{(~increasing).sum()} UUIDs are not above the one before"

    fraction_us = (high & np.uint64(0xFFF)).astype(np.int64) * 1000 // 4096
    embedded_us = (high >> np.uint64(16)).astype(np.int64) * 1000 + fraction_us
    before_us, after_us = (rows[side].astype(np.int64) + POSTGRES_EPOCH_US for side in ("before", "after"))
    behind_us = (before_us - embedded_us).max()
    assert behind_us <= BEHIND_US, f"a UUID's time lies {behind_us} us behind the clock"
    ahead_us = (embedded_us - after_us).max()
    assert ahead_us <= 0, f"a UUID's time runs {ahead_us} us ahead of the clock"


def test_increasing_across_statements() -> None:
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with cluster.connect() as connection:
            uuids: list[uuid.UUID] = []
            for _ in range(2_000):
                for query in ("SELECT public.uuidv7()", "SELECT public.uuidv7() FROM generate_series(1, 5)"):
                    uuids += [row[0] for row in connection.execute(query)]

    assert uuids == sorted(set(uuids))
    assert all(each.version == 7 and each.variant == uuid.RFC_4122 for each in uuids)
