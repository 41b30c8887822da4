"""The directory of the reservation: open to whom the cluster is, and durable before anything in it is relied upon."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import GENERATING, Cluster
from harness.ids import first_id, refusal
from harness.reservation import Reservation
from harness.shim import compiled, preloading

SHIM = Path(__file__).with_name("directory_fsync.c")
IO_ERROR = "58030"
UNSET = "55000"
# Flushing is what is tested here.
CONF = GENERATING.replace("id_gen.worker_id = 1", "") + "fsync = on\n"


def mode(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:o}"


@pytest.mark.parametrize(
    ("options", "directory", "file"), [((), "700", "600"), (("--allow-group-access",), "750", "640")]
)
def test_it_is_as_open_as_the_cluster(options: tuple[str, ...], directory: str, file: str) -> None:
    with Cluster(conf=GENERATING, initdb=options) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; SELECT snowflake_next()")
        reservation = Reservation(cluster)
        assert mode(cluster.data) == mode(reservation.directory) == directory
        assert mode(reservation.file) == mode(reservation.marker) == file


@contextmanager
def watched() -> Iterator[tuple[Cluster, Path, Path]]:
    """A server that has never generated, what it has flushed, and where to say that flushing fails."""
    with Cluster(conf=CONF, env=preloading(compiled(SHIM))) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        assert refusal(cluster).sqlstate == UNSET
        yield cluster, cluster.data / "flushed", cluster.data / "fsync_errno"


def generates_once_numbered(cluster: Cluster) -> None:
    # Not by ALTER SYSTEM, which flushes the data directory, too.
    cluster.append_conf("id_gen.worker_id = 1")
    cluster.reload()
    cluster.poll_until("SELECT worker_id FROM id_gen_status()", expected="1")


def flushed_directories(flushed: Path) -> list[str]:
    return flushed.read_text().splitlines() if flushed.exists() else []


def test_its_entry_is_durable_though_the_first_flush_failed() -> None:
    with watched() as (cluster, flushed, fault):
        fault.write_text(str(errno.EIO))
        generates_once_numbered(cluster)
        assert refusal(cluster).sqlstate == IO_ERROR
        assert Reservation(cluster).directory.exists()
        flushed.unlink(missing_ok=True)
        fault.unlink()
        first_id(cluster)
        assert "." in flushed_directories(flushed)


def test_its_entry_is_durable_though_who_made_it_died() -> None:
    with watched() as (cluster, flushed, _):
        directory = Reservation(cluster).directory
        directory.mkdir(mode=0o700)
        shutil.chown(directory, cluster.data.owner(), cluster.data.group())
        flushed.unlink(missing_ok=True)
        generates_once_numbered(cluster)
        first_id(cluster)
        assert "." in flushed_directories(flushed)


@pytest.mark.parametrize("fault", [errno.EINVAL, errno.EBADF], ids=errno.errorcode.get)
def test_a_file_system_that_flushes_no_directories_is_taken_as_postgresql_takes_it(fault: int) -> None:
    with watched() as (cluster, _, fault_file):
        fault_file.write_text(str(fault))
        generates_once_numbered(cluster)
        assert first_id(cluster) > 0
