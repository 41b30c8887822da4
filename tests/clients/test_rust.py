"""The Rust recipe of docs/clients.md, built and run on a server."""

from pathlib import Path

import pytest

from clients.shop import AS_SHOP, shop_server
from harness.recipe import CACHE, assert_keys, run_recipe

pytestmark = pytest.mark.any_server

RECIPE = Path(__file__).parent / "sqlx"


@pytest.mark.long
def test_sqlx() -> None:
    with shop_server("rust") as cluster:
        more = AS_SHOP | {"CARGO_TARGET_DIR": str(CACHE / "rust-clients")}
        printed = run_recipe(cluster, "shop", ("cargo", "run", "--quiet", "--locked"), RECIPE, more)
        assert_keys(cluster, "shop", printed)
