"""Each fault of `make torture-fleet` once."""

import pytest

from torture_fleet import Plan, torture

pytestmark = [pytest.mark.any_server, pytest.mark.long]


@pytest.mark.parametrize("registry", ["etcd", pytest.param("postgresql", marks=pytest.mark.release)])
def test_each_fault_once(registry: str) -> None:
    assert torture(Plan(seed=18, minutes=5, each_once=True, registry=registry))
