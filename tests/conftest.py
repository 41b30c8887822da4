"""Which tests there are on this server, in this mode: those that speak of something it does not have are left out."""

import os

import pytest

from harness import PRELOADED, Server

# Directories of tests that run only where a script asks for them, and has prepared what they need.
ASKED_FOR = {"upgrade": "ID_GEN_UPGRADE_PATH", "valgrind": "ID_GEN_VALGRIND"}
collect_ignore = [directory for directory, variable in ASKED_FOR.items() if variable not in os.environ]


def applies(item: pytest.Item, version: int) -> bool:
    since = item.get_closest_marker("since")
    return (PRELOADED or not item.get_closest_marker("keeper")) and (since is None or version >= since.args[0])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    version = Server.from_environment().version
    left_out = [item for item in items if not applies(item, version)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
