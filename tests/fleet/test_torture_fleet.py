"""Each fault of `make torture-fleet` once."""

import pytest

from torture_fleet import Plan, torture

pytestmark = [pytest.mark.any_server, pytest.mark.long]


def test_each_fault_once() -> None:
    assert torture(Plan(seed=18, minutes=5, each_once=True))
