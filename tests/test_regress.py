"""Runs each suite in tests/regress/ through the server's own pg_regress, on a cluster of its own.

A suite is a directory with sql/, expected/ and a postgresql.conf that is added to the cluster's. The extensions
id_gen and id_gen_tools are created before its first file runs. With an empty file `standby` beside them it runs on a
hot standby of such a server.
"""

import subprocess
from pathlib import Path

import pytest

from harness import PRELOAD, PRELOADED, Cluster, Server

pytestmark = pytest.mark.every_version("types, errors and catalogs that SQL shows differ between versions")

DBNAME = "regression"
# What suites say that end in this holds only where a library must be preloaded to have shared memory.
BEFORE_17 = "_before_17"
SUITES = sorted(
    path.parent
    for path in Path(__file__).parent.glob("regress/*/sql")
    if Server.from_environment().version < 17 or not path.parent.name.endswith(BEFORE_17)
)


def run_pg_regress(cluster: Cluster, suite: Path, *options: str) -> None:
    output = cluster.base / "regress"
    output.mkdir()
    done = subprocess.run(
        [
            cluster.server.pg_regress,
            f"--bindir={cluster.server.bindir}",
            f"--host={cluster.socket_dir}",
            "--user=postgres",
            f"--dbname={DBNAME}",
            f"--outputdir={output}",
            *options,
            *sorted(path.stem for path in suite.glob("sql/*.sql")),
        ],
        cwd=suite,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        diffs = output / "regression.diffs"
        pytest.fail(
            f"{done.stdout}\n{diffs.read_text() if diffs.exists() else ''}\n"
            f"To accept what was printed: cp {output}/results/*.out {suite}/expected/"
        )


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suite(suite: Path) -> None:
    conf = (suite / "postgresql.conf").read_text()
    if not PRELOADED:
        conf = conf.replace(PRELOAD, "")
    with Cluster(suite.name, conf=conf) as cluster:
        if not (suite / "standby").exists():
            run_pg_regress(cluster, suite, "--load-extension=id_gen", "--load-extension=id_gen_tools")
            return
        cluster.psql(f"CREATE DATABASE {DBNAME}")
        cluster.psql("CREATE EXTENSION id_gen_tools CASCADE", DBNAME)
        with Cluster(f"{suite.name}_standby", standby_of=cluster) as standby:
            cluster.wait_for_catchup(standby)
            run_pg_regress(standby, suite, "--use-existing")
