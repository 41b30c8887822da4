"""A block-level copy of a disk has the identity of its original: a snapshot of a volume or of a virtual machine.

In a fleet the copy gets a new identity, and the original keeps its worker ID and its shards.
"""

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pytest

from harness import Cluster
from harness.etcd import Etcd
from harness.fleet import NO_NUMBER, await_number, create_fleet, member_conf, number_of
from harness.fleet_faults import Client
from harness.ids import refusal
from harness.shards import next_of, take

pytestmark = [
    pytest.mark.any_server,
    pytest.mark.long,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="mounts a file system of a file"
    ),
]

SHARD = 20
NUMBERS = "id_gen.worker_id_range = '0-9'\n"
IMAGE_BYTES = 256 << 20
BECAME_ANOTHER = "this server becomes a new member, without shards"


class OnDevice(Cluster):
    """A server whose data directory is on its own file system, which can be copied as a whole."""

    def init(self) -> None:
        device = self.base / "device"
        device.mkdir()
        self.data = device / "data"
        if isinstance(self._cloned, OnDevice):
            with self._cloned.paused():
                # Everything that was written is on the device.
                subprocess.run(["sync", "--file-system", self._cloned.data], check=True)
                copy = ["cp", "--sparse=always", self._cloned.image, self.image]
                subprocess.run(copy, check=True)
        else:
            with self.image.open("wb") as image:
                image.truncate(IMAGE_BYTES)
            subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
        subprocess.run(["mount", "-o", "loop", self.image, device], check=True)
        shutil.chown(device, self.base.owner(), self.base.group())
        super().init()

    @property
    def image(self) -> Path:
        return self.base / "image"

    def _clone(self, other: Cluster) -> None:
        # On a machine of its own, nobody would take the other's process for this server's.
        (self.data / "postmaster.pid").unlink()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.running:
            self.stop("immediate")
        subprocess.run(["umount", self.data.parent], check=True)
        super().__exit__(kind, error, traceback)


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
            assert f"has the shard, with worker ID {number}" in (
                refusal(copy, f"SELECT snowflake_next({SHARD})").detail or ""
            )
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
        copy = OnDevice("copy", clone_of=original)
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
