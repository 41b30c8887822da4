"""A block-level copy of a disk has the identity of its original: a snapshot of a volume or of a virtual machine.

In a fleet the copy gets a new identity, and the original keeps its worker ID and its shards.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import Cluster, device
from harness.checks import checks
from harness.device import OnDevice
from harness.etcd import Etcd
from harness.fleet import NO_NUMBER, await_number, create_fleet, member_conf, number_of
from harness.fleet_faults import Client, await_ids, clients
from harness.ids import refusal
from harness.shards import next_of, owned, take

pytestmark = [
    pytest.mark.any_server,
    pytest.mark.long,
    pytest.mark.skipif(not device.are_possible(), reason="mounts a file system of a file"),
]

SHARD = 20
NUMBERS = "id_gen.worker_id_range = '0-9'\n"
USABLE = f"SELECT count(snowflake_next({SHARD}))"
BECAME_ANOTHER = "this server becomes a new member, without shards"


@pytest.fixture
def original(conf: str) -> "OnDevice":
    return OnDevice("original", conf=conf + NUMBERS)


def begin(original: Cluster) -> int:
    """Creates the fleet, and its first member with a shard."""
    create_fleet(original)
    number = await_number(original)
    take(original, SHARD, above=None)
    next_of(original, SHARD)
    return number


def test_a_copy_that_starts_beside_its_original_becomes_another_member(original: OnDevice, tmp_path: Path) -> None:
    with original, ExitStack() as later:
        number = begin(original)
        client = Client(original, tmp_path / "original.ids")
        client.start()
        later.callback(client.end)
        copy = later.enter_context(OnDevice("copy", clone_of=original))
        for time in ("first", "again"):
            assert await_number(copy) != number, time
            assert copy.log().count(BECAME_ANOTHER) == 1
            assert refusal(copy, f"SELECT snowflake_next({SHARD})").sqlstate == NO_NUMBER
            assert owned(copy) == set() and checks(copy)["shards"].status == "ok"
            copy.restart("immediate")
        assert number_of(original) == number
        next_of(original, SHARD)
        assert original.psql("SELECT fencings FROM id_gen_stat_fleet") == "0"
        assert set(client.refusals) <= {NO_NUMBER}


def test_a_copy_that_replaces_its_original_has_its_number_and_shards(
    original: OnDevice, etcd: Etcd, fleet: str
) -> None:
    with (
        original,
        Cluster("other", conf=member_conf(etcd.endpoints, f"{fleet}\n{NUMBERS}")) as other,
        ExitStack() as later,
    ):
        number = begin(original)
        last = next_of(original, SHARD)
        other.psql("CREATE EXTENSION id_gen")
        await_number(other)
        copy = OnDevice("copy", clone_of=original, port=5433)
        later.push(copy)
        copy.init()
        original.stop("immediate")
        copy.start()
        waits = f"The grant of worker ID {number}, which it had before, ends at "
        copy.wait_until(lambda: waits in (refusal(copy).detail or ""), "waiting for its worker ID")
        assert (refusal(copy).hint or "").startswith("Call again in ")
        assert await_number(copy) == number
        assert next_of(copy, SHARD) > last
        # The original now has the identity of a server that runs.
        original.start()
        assert await_number(original) != number
        assert BECAME_ANOTHER in original.log()
        next_of(copy, SHARD)
        # The registry's value of the shard is of before, and has the port of the original.
        where = f"SELECT worker_id, port FROM id_gen_fleet_shards() WHERE shard = {SHARD}"
        assert original.psql(where) == f"{number}|{copy.port}"
        assert f"server at port {copy.port}" in (refusal(original, f"SELECT id_gen_shard_take({SHARD})").detail or "")


def test_a_copy_whose_original_is_paused_has_its_number_and_shards(original: OnDevice, tmp_path: Path) -> None:
    """As after a move of a virtual machine, whose former host comes back later."""
    with original, ExitStack() as later:
        number = begin(original)
        copy = OnDevice("copy", clone_of=original)
        later.push(copy)
        copy.init()
        with original.paused():
            copy.start()
            assert await_number(copy) == number
            next_of(copy, SHARD)
            given = later.enter_context(clients(tmp_path, original, copy))
        assert await_number(original) != number
        original.wait_for_log(BECAME_ANOTHER)
        next_of(copy, SHARD)
        for each in (original, copy):
            await_ids(given[each.name], each)


def test_of_two_that_start_while_the_number_is_free_one_has_it_and_its_shards(original: OnDevice) -> None:
    with original, ExitStack() as later:
        number = begin(original)
        original.stop()
        copy = OnDevice("copy", clone_of=original)
        later.push(copy)
        copy.init()
        for each in (copy, original):
            each.start()
        numbers = {await_number(each): each for each in (copy, original)}
        assert len(numbers) == 2
        owner = numbers.pop(number)
        owner.wait_until(lambda: owner.psql(USABLE) == "1", "having its shard")
        next_of(owner, SHARD)
        [(_, other)] = numbers.items()
        assert refusal(other, f"SELECT snowflake_next({SHARD})").sqlstate == NO_NUMBER
