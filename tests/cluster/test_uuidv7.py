"""UUIDv7 in bulk: strictly increasing in a session, and never more than 2 ms away from the clock."""

import uuid

import numpy as np
import pytest

from harness import Cluster
from harness.clients import INT8, UUID, copy_binary

# UUIDs need no shared memory, and nothing is preloaded here.
pytestmark = pytest.mark.any_mode

COUNT = 5_000_000
TOLERANCE_US = 2_000
POSTGRES_EPOCH_US = 946_684_800_000_000


def test_five_million_in_one_statement() -> None:
    query = f"SELECT clock_timestamp(), public.uuidv7(), clock_timestamp() FROM generate_series(1, {COUNT})"
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        rows = copy_binary(cluster, query, {"before": INT8, "uuid": UUID, "after": INT8})

    assert rows.size == COUNT
    high, low = (rows["uuid"][half].astype(np.uint64) for half in ("high", "low"))
    increasing = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    assert increasing.all(), f"{(~increasing).sum()} UUIDs are not above the one before"

    embedded_us = (high >> np.uint64(16)).astype(np.int64) * 1000
    before_us, after_us = (rows[side].astype(np.int64) + POSTGRES_EPOCH_US for side in ("before", "after"))
    assert (embedded_us >= before_us - TOLERANCE_US).all(), "a UUID's time lies behind the clock"
    assert (embedded_us <= after_us + TOLERANCE_US).all(), "a UUID's time runs ahead of the clock"


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
