"""Two versions of the library on one server, as after an upgrade of the package: only one uses the shared memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Cluster, SqlError
from harness.ids import NEXT, assert_rest_works, next_id, refusal
from harness.shim import compiled

# Sessions load the library one by one, and so different ones, only where it is not preloaded.
pytestmark = pytest.mark.since(17)

SOURCE = Path(__file__).with_name("other_version.c")
OTHER_VERSION = "55000"
NOT_THIS_VERSION = 1_000_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server on which no session has used the extension yet."""
    with Cluster(conf="id_gen.worker_id = 1\n") as cluster:
        library = compiled(SOURCE, f"-I{cluster.server.directory('includedir-server')}")
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(f"CREATE FUNCTION add_to_version(bigint) RETURNS boolean AS '{library}' LANGUAGE c")
        yield cluster


def add_to_version(cluster: Cluster, difference: int) -> bool:
    """Returns whether the shared memory was initialized already."""
    return cluster.psql(f"SELECT add_to_version({difference})") == "t"


def assert_refused(error: SqlError) -> None:
    assert error.sqlstate == OTHER_VERSION
    assert error.message == "this session has loaded another version of id_gen than the running server"
    assert error.hint == "Restart the server, so that all sessions load the installed version."


def test_shared_memory_of_another_version_is_refused(cluster: Cluster) -> None:
    assert not add_to_version(cluster, NOT_THIS_VERSION)
    for sql in (NEXT, "SELECT snowflake_next_array(10)", "SELECT count(*) FROM snowflake_next_batch(10)"):
        assert_refused(refusal(cluster, sql))
    assert_rest_works(cluster)
    # As the hint says.
    cluster.restart()
    assert next_id(cluster) > 0


def test_only_the_version_of_shared_memory_counts(cluster: Cluster) -> None:
    given = [next_id(cluster)]
    assert add_to_version(cluster, 1)
    assert_refused(refusal(cluster))
    assert_rest_works(cluster)
    assert add_to_version(cluster, -1)
    given.append(next_id(cluster))
    assert given == sorted(set(given))
