"""A registry, and a fleet of its own in it for each test."""

from collections.abc import Iterator

import pytest

from harness import Cluster
from harness.etcd import Etcd
from harness.fleet import create_fleet, member_conf


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with Etcd() as etcd:
        yield etcd


@pytest.fixture
def fleet(request: pytest.FixtureRequest) -> str:
    """The setting that names the test's fleet."""
    return f"id_gen.fleet_name = '{request.node.name[-60:].translate({91: 45, 93: 45, 32: 45})}'"


@pytest.fixture
def conf(etcd: Etcd, fleet: str) -> str:
    return member_conf(etcd.endpoints, fleet)


@pytest.fixture
def first(conf: str) -> Iterator[Cluster]:
    with Cluster("first", conf=conf) as cluster:
        create_fleet(cluster)
        yield cluster
