"""docs/managed-services.md is run: its SQL from top to bottom, by the database's owner."""

from pathlib import Path

import pytest

from harness import GENERATING, Cluster
from harness.managed import as_owner, install
from harness.page import Page, in_code

pytestmark = pytest.mark.any_server

PAGE = Page(Path(__file__).parents[2] / "docs/managed-services.md")
ARGUMENTS = "SELECT unnest(proargnames) FROM pg_proc WHERE proname = 'configure'"


def test_the_page() -> None:
    with Cluster("page", conf=GENERATING) as cluster:
        install(cluster, worker_id=None)
        for sql in PAGE.blocks("sql"):
            as_owner(cluster, sql)
        assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())") == "9"
        arguments = {name for row in PAGE.table("Settings") for name in in_code(row[0])}
        assert {*as_owner(cluster, ARGUMENTS).splitlines()} == {*arguments, "accept_layout"}
