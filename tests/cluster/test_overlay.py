"""A data directory in a layer over another server's, as containers have it: a copy that shows its original's identity
until it is written to."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from types import TracebackType

import pytest

from harness import Cluster
from harness.checks import checks
from harness.ids import NARROW, PATIENT, change, next_id, refusal

pytestmark = [
    pytest.mark.any_server,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system"),
]

SHARD = 9
ACCEPT = "SELECT id_gen_copy_accept(is_only_one => true)"


@pytest.fixture(scope="module")
def original() -> Iterator[Cluster]:
    """A stopped server with a shard."""
    with Cluster("original", conf=NARROW + PATIENT) as original:
        original.psql("CREATE EXTENSION id_gen")
        next_id(original)
        original.psql(f"SELECT id_gen_shard_take({SHARD}, above => 0)")
        original.psql(f"SELECT snowflake_next({SHARD})")
        original.stop()
        yield original


class Layer(Cluster):
    """A server on a layer over the directory of a stopped one."""

    def _clone(self, other: Cluster) -> None:
        upper, work = self.base / "upper", self.base / "work"
        for directory in (upper, work, self.data):
            directory.mkdir(mode=0o700)
            shutil.chown(directory, other.data.owner(), other.data.group())
        where = f"lowerdir={other.data},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", where, self.data], check=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.running:
            self.stop("immediate")
        subprocess.run(["umount", self.data], check=True)
        super().__exit__(kind, error, traceback)


def assert_has_no_shard(copy: Cluster) -> None:
    assert "does not have shard" in refusal(copy, f"SELECT snowflake_next({SHARD})").message
    assert checks(copy)["shards"].status == "warning"


@pytest.mark.parametrize("way_out", ["worker ID", "accepted"])
def test_it_is_refused_as_a_copy_and_has_no_shards(original: Cluster, way_out: str) -> None:
    with Layer("copy", clone_of=original) as copy:
        for _ in range(2):
            refused = refusal(copy)
            assert refused.message == "this data directory is a copy with the worker ID of its original"
            assert "was written by worker 1 of" in (refused.detail or "")
        if way_out == "accepted":
            copy.psql(ACCEPT)
        else:
            change(copy, "worker_id", 3)
            copy.poll_until("SHOW id_gen.worker_id", expected="3")
        last = next_id(copy)
        assert_has_no_shard(copy)
        copy.restart()
        assert next_id(copy) > last


def test_with_another_worker_id_from_the_start_it_is_let_in(original: Cluster) -> None:
    with Layer("copy", clone_of=original, conf="id_gen.worker_id = 2\n") as copy:
        next_id(copy)
        assert_has_no_shard(copy)
