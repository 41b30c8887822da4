"""The short form of `make torture`: one of each incident, and no ID that its clients were given is repeated."""

import pytest

from harness.torture_schedule import SHORT_ROUND
from torture import Plan, torture

pytestmark = pytest.mark.every_version(
    "one of each incident, in case an interface behaves differently than it is declared"
)

SEED = 3


@pytest.mark.long
def test_one_of_each_incident() -> None:
    report = torture(Plan(SEED, ids=500_000, rounds=1, minutes=2, deck=SHORT_ROUND))

    assert report.clean, str(report)
    assert report.fulfilled, str(report)
    assert report.count["promotions"] == 1
