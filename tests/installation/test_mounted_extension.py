"""Mounted beside a server that has nothing of it installed, as CloudNativePG mounts an image, the extension works."""

import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import GENERATING, Cluster, Server, SqlError

# One build serves all of them.
pytestmark = [
    pytest.mark.since(18),
    pytest.mark.xdist_group("image tree"),
    pytest.mark.every_version("the parameter extension_control_path exists since version 18"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tree() -> Path:
    """What `make image-tree` makes for this server."""
    server = Server.from_environment()
    env = {**os.environ, "PG": str(server.version)}
    done = subprocess.run([ROOT / "scripts/image-tree"], env=env, check=True, text=True, stdout=subprocess.PIPE)
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def bare() -> Iterator[Server]:
    """A copy of the server without the extension."""
    server = Server.from_environment()
    directories = [server.bindir, server.directory("pkglibdir"), server.directory("sharedir")]
    top = Path(os.path.commonpath([*directories, server.directory("includedir-server")]))
    with tempfile.TemporaryDirectory(dir=server.run_directory) as base:
        Path(base).chmod(0o755)
        # PostgreSQL finds its directories relative to its programs.
        for directory in [*directories, server.directory("includedir-server")]:
            # The compiled bitcode is for a just-in-time compiler, which no test switches on.
            ours = shutil.ignore_patterns("id_gen*", "bitcode")
            shutil.copytree(directory, base / directory.relative_to(top), symlinks=True, ignore=ours)
        yield replace(server, pg_config=base / server.pg_config.relative_to(top))


@pytest.fixture
def mounted(tree: Path, bare: Server) -> Iterator[Path]:
    """The tree where the server's user may read it."""
    with tempfile.TemporaryDirectory(dir=bare.run_directory) as base:
        Path(base).chmod(0o755)
        yield shutil.copytree(tree, Path(base) / "extensions" / "id_gen")


def conf(mounted: Path) -> str:
    """The settings as CloudNativePG writes them."""
    return (
        f"extension_control_path = '$system:{mounted}/share'\n"
        f"dynamic_library_path = '$libdir:{mounted}/lib'\n"
        f"{GENERATING}"
    )


def test_the_server_has_nothing_of_it(bare: Server) -> None:
    assert not list(bare.directory("pkglibdir").rglob("id_gen*"))
    assert not list(bare.directory("sharedir").rglob("id_gen*"))
    with Cluster(server=bare) as cluster, pytest.raises(SqlError, match='extension "id_gen" is not available'):
        cluster.psql("CREATE EXTENSION id_gen")


def test_it_works_where_it_is_mounted(mounted: Path, bare: Server) -> None:
    with Cluster(server=bare, conf=conf(mounted)) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql("CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), u uuid DEFAULT public.uuidv7())")
        cluster.psql("INSERT INTO t SELECT FROM generate_series(1, 1000)")
        library = cluster.psql("SELECT DISTINCT probin FROM pg_proc WHERE proname = 'snowflake_next'")
        assert library == "$libdir/id_gen"
        cluster.restart()
        cluster.psql("INSERT INTO t SELECT FROM generate_series(1, 1000)")
        assert cluster.psql("SELECT count(*), count(DISTINCT id) FROM t") == "2000|2000"
        cluster.psql("CREATE EXTENSION id_gen_mask; LOAD 'id_gen_mask'; CREATE EXTENSION id_gen_tools")
        assert cluster.psql("SELECT ids FROM id_gen_profile('t', 'id') WHERE item = 'rows'") == "2000"
        # The keeper is loaded by its library's name, too.
        cluster.poll_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'id_gen keeper'")


def test_the_tree_is_as_the_image_must_be(tree: Path) -> None:
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert files >= {
        "lib/id_gen.so",
        "lib/id_gen_mask.so",
        "lib/id_gen_registry.so",
        "lib/id_gen_tools.so",
        "share/extension/id_gen.control",
        f"share/extension/id_gen--{version}.sql",
        "share/extension/id_gen_mask.control",
        f"share/extension/id_gen_mask--{version}.sql",
        "share/extension/id_gen_tools.control",
        f"share/extension/id_gen_tools--{version}.sql",
        "licenses/LICENSE",
        "licenses/THIRD-PARTY-LICENSES",
    }
    assert all(file.split("/")[0] in {"lib", "share", "licenses"} for file in files)
