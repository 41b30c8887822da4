"""The extension can be installed again while a server runs: its files are replaced, and never written to."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import GENERATING, Cluster
from harness.ids import Caller, next_id

# Files are installed in the same way into every server; no other test may change them meanwhile.
pytestmark = [pytest.mark.any_server, pytest.mark.xdist_group("installed files")]

ROOT = Path(__file__).parents[2]
UUID = "SELECT public.uuidv7()"

# The project's own installing, of what a build has left in a directory: a new build would only take longer.
INSTALL = """
source scripts/lib.sh
build_extension() { cp -r "$BUILT/." "$2"; }
install_extension "$ID_GEN_PG_CONFIG"
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


def installed(cluster: Cluster) -> list[Path]:
    """The library first, and then the rest."""
    extension = cluster.server.directory("sharedir") / "extension"
    libraries = sorted(cluster.server.directory("pkglibdir").glob("id_gen*.so"))
    return [*libraries, *sorted(extension.glob("id_gen*"))]


def in_between(files: list[Path]) -> set[Path]:
    """Files beside them that are yet to be renamed. An installation that was killed leaves some."""
    return {path for file in files for path in file.parent.glob(".id_gen*.new")}


def test_a_running_server_survives_an_installation(cluster: Cluster, tmp_path: Path) -> None:
    files = installed(cluster)
    assert len(files) >= 3
    unfinished = in_between(files)
    for file in files:
        copy = tmp_path / file.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    with ExitStack() as opened, Caller(cluster) as before:
        last = before.ask()
        old = [opened.enter_context(file.open("rb")) for file in files]
        found = [os.fstat(each.fileno()) for each in old]
        content = [each.read() for each in old]

        subprocess.run(["bash", "-c", INSTALL], cwd=ROOT, env=os.environ | {"BUILT": str(tmp_path)}, check=True)

        for file, each, was, bytes_before in zip(files, old, found, content, strict=True):
            assert file.stat().st_ino != was.st_ino, f"{file} is still the same file"
            assert os.fstat(each.fileno()).st_mtime_ns == was.st_mtime_ns, f"{file} was written to"
            each.seek(0)
            assert each.read() == bytes_before
            assert file.read_bytes() == bytes_before
            assert file.stat().st_mode == was.st_mode
        assert in_between(files) <= unfinished

        # Sessions from before and after, and the process that all come from.
        given = [last, before.ask(), next_id(cluster), before.ask()]
        assert given == sorted(set(given))
        assert before.ask(UUID).version == 7
        assert cluster.psql(f"SELECT id IS NOT NULL FROM ({UUID} AS id) made") == "t"
    assert "terminated by signal" not in cluster.log()
