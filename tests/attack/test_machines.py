"""README.md shows which actions and features meet, so it has those that there are."""

import pytest

from attack.faults import ROOT
from attack.machines import MACHINES, TURNS, overview

pytestmark = pytest.mark.any_server


def test_the_readme_shows_all_actions_and_features() -> None:
    wanted = overview()
    assert wanted in (ROOT / "tests/attack/README.md").read_text(), f"put this into tests/attack/README.md:\n{wanted}"


def test_each_machine_has_its_turn() -> None:
    assert set(TURNS) == set(MACHINES)
