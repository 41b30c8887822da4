"""README.md has the actions and features that there are. Each planted fault has its switch where its list says, and
none is in a library that is meant for use."""

import os
import re

import pytest

from attack.converter import speaks_of_a_job
from attack.faults import LIST, ROOT, Fault, faults, known_oracles
from attack.machines import MACHINES, TURNS, overview
from harness import Server

# What is looked at is the same for every server.
pytestmark = pytest.mark.any_server

FAULTS = faults()
IS_PLANTED = "planted" in os.environ.get("ID_GEN_FEATURES", "")


def test_the_list_is_complete() -> None:
    declared = set(re.findall(r"^    (\w+),$", LIST.read_text(), re.MULTILINE))
    assert declared == {fault.name for fault in FAULTS}
    assert len(FAULTS) >= 24
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_a_switch_and_an_oracle(fault: Fault) -> None:
    """Who moves code must not lose the switch in it: the attack would search for nothing."""
    sources = [
        path
        for place in ("base/src", "core/src", "id_gen_tools/src", "src")
        for path in (ROOT / place).rglob("*.rs")
        if path != LIST
    ]
    switch = f"Fault::{fault.name}.is_planted()"
    assert any(switch in path.read_text() for path in sources), f"no {switch}"
    assert set(fault.oracles) <= known_oracles()


def test_only_a_build_for_tests_has_faults() -> None:
    libraries = Server.from_environment().directory("pkglibdir").glob("id_gen*.so")
    code = b"".join(library.read_bytes() for library in libraries)
    found = {name for name in ("ID_GEN_PLANTED", *(fault.name for fault in FAULTS)) if name.encode() in code}
    assert found == ({"ID_GEN_PLANTED", *(fault.name for fault in FAULTS)} if IS_PLANTED else set())


def test_the_readme_shows_all_actions_and_features() -> None:
    wanted = overview()
    assert wanted in (ROOT / "tests/attack/README.md").read_text(), f"put this into tests/attack/README.md:\n{wanted}"


def test_each_refusal_of_a_conversion_is_known_as_one() -> None:
    messages = re.findall(r"MESSAGE = (?:format\()?'([^']*)'", (ROOT / "id_gen_tools/sql/convert_job.sql").read_text())
    assert len(messages) > 10
    assert not [message for message in messages if not speaks_of_a_job(message)]


def test_each_machine_has_its_turn() -> None:
    assert set(TURNS) == set(MACHINES)
