"""Which tests there are on this server, in this mode, and which of them run one after the other.

Those that speak of something the server does not have are left out, and so is what is for releases.
"""

import os

import pytest

from harness import RELEASE, Server

# Directories of tests that run only where a script asks for them, and has prepared what they need.
ASKED_FOR = {"upgrade": "ID_GEN_UPGRADE_PATH", "valgrind": "ID_GEN_VALGRIND"}
collect_ignore = [directory for directory, variable in ASKED_FOR.items() if variable not in os.environ]


# Instead of the timeout in pytest.ini.
RELEASE_SECONDS = 3600


def applies(item: pytest.Item, server: Server) -> bool:
    since = item.get_closest_marker("since")
    return (
        (since is None or server.version >= since.args[0])
        and (server.has_tls or not item.get_closest_marker("tls"))
        and (RELEASE or not item.get_closest_marker("release"))
    )


def group(item: pytest.Function) -> str | None:
    """Tests of one group run one after the other, in one process: those of a file that share its server."""
    shared = (found[-1].scope == "module" for found in item._fixtureinfo.name2fixturedefs.values())
    return item.path.stem if any(shared) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    server = Server.from_environment()
    left_out = [item for item in items if not applies(item, server)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    # What takes longest begins first, so that nothing is waited for in the end.
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if item.get_closest_marker("release"):
            item.add_marker(pytest.mark.timeout(RELEASE_SECONDS))
        if (name := group(item)) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(name))
