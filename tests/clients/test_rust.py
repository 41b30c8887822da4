"""The Rust recipe of docs/clients.md, built and run on a server."""

from pathlib import Path

import pytest

from harness import GENERATING, Cluster
from harness.recipe import CACHE, assert_keys, run_recipe

pytestmark = [pytest.mark.any_server, pytest.mark.any_mode]

RECIPE = Path(__file__).parent / "sqlx"


def test_sqlx() -> None:
    with Cluster(conf=GENERATING) as cluster:
        build = {"CARGO_TARGET_DIR": str(CACHE / "rust-clients")}
        printed = run_recipe(cluster, "postgres", ("cargo", "run", "--quiet", "--locked"), RECIPE, build)
        assert_keys(cluster, "postgres", printed)
