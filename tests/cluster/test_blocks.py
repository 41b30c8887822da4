"""What a session owns of the shared memory: its block of IDs, which grows and is dropped, and its counts."""

from collections.abc import Iterator

import pytest

from harness import GENERATING, Cluster
from harness.ids import Caller, Value


@pytest.fixture
def caller() -> Iterator[Caller]:
    """A new session of a server that generates."""
    with Cluster(conf=GENERATING) as cluster, Caller(cluster) as caller:
        cluster.psql("CREATE EXTENSION id_gen")
        yield caller


def many(count: int) -> str:
    """A statement that asks without pause, one by one, and returns the last ID."""
    return f"SELECT max(snowflake_next()) FROM generate_series(1, {count})"


def own(columns: str) -> str:
    """A statement that reads from the session's own row of the statistics."""
    return f"SELECT {columns} FROM id_gen_stat_backends WHERE pid = pg_backend_pid()"


def ask_until(caller: Caller, condition: str) -> Value:
    """Asks in bulk until something holds of the session's row, and returns the last ID.

    Blocks grow and last within a tick only, and any tick may end before the row is read, so the next one is tried too.
    """
    for _ in range(1_000):
        last = caller.ask(many(1_000))
        if caller.ask(own(condition)):
            return last
    raise AssertionError(f"never found after a million IDs: {condition}")


def test_a_session_that_asks_without_pause_gets_larger_blocks(caller: Caller) -> None:
    caller.ask()
    assert caller.ask(own("block_size")) == 1
    with caller.transaction():
        ask_until(caller, "block_left > 8")
        assert caller.ask(own("block_size")) > 8


def test_a_block_ends_with_its_transaction(caller: Caller) -> None:
    with caller.transaction():
        ask_until(caller, "block_left > 8")
    assert caller.ask(own("block_left")) == 0


def test_issued_ids_are_counted_without_counting_them_one_by_one(caller: Caller) -> None:
    caller.ask()
    ids, claims = caller.ask(own("ARRAY[ids, claims]"))
    caller.ask(many(10_000))
    ids_after, claims_after = caller.ask(own("ARRAY[ids, claims]"))
    assert ids_after - ids == 10_000
    assert claims_after - claims < 10_000


def test_a_batch_drops_what_is_left_of_a_block(caller: Caller) -> None:
    with caller.transaction():
        last = ask_until(caller, "block_left > 0")
        left, ids = caller.ask(own("ARRAY[block_left, ids]"))
        assert left > 0
        batch = caller.ask("SELECT snowflake_next_array(10)")
        assert [last, *batch] == sorted({last, *batch})
        assert len(batch) == 10
        # What was dropped is not counted as issued.
        assert caller.ask(own("ARRAY[block_left, ids]")) == [0, ids + 10]


def test_a_slot_knows_its_process(caller: Caller) -> None:
    caller.ask()
    assert caller.ask("SELECT array_agg(pid) FROM id_gen_stat_backends WHERE ids = 1") == [caller.pid]
