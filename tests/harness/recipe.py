"""Recipes of docs/clients.md: programs in other languages that fill the tables `customer` and `purchase`.

A recipe finds the server by the variables that libpq has for it, and prints one JSON object: the keys that its client
gave back for new rows of each table, in order, as text; the names found by the key of the customer Ada; and what else
its test looks at.
"""

import json
import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cluster import Cluster, environment

CACHE = Path(os.environ.get("ID_GEN_CACHE", ""))
ROWS = 500


def run_program(
    cluster: Cluster, dbname: str, command: Sequence[str | Path], directory: Path, more: Mapping[str, str] | None = None
) -> str:
    """Runs a program in a directory, told where the server is and `more` by its environment; returns what it prints."""
    where = {"PGHOST": str(cluster.socket_dir), "PGUSER": "postgres", "PGDATABASE": dbname}
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment() | where | (more or {}),
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def run_recipe(
    cluster: Cluster, dbname: str, command: Sequence[str | Path], directory: Path, more: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The object that a recipe prints in its last line."""
    return json.loads(run_program(cluster, dbname, command, directory, more).splitlines()[-1])


def assert_keys(cluster: Cluster, dbname: str, printed: Mapping[str, Any]) -> None:
    """One customer and then many, and a purchase of each of the many: what the client said is what is stored."""
    customers, purchases = printed["customers"], printed["purchases"]
    assert len(set(customers)) == ROWS + 1
    assert len(set(purchases)) == ROWS
    assert all(isinstance(key, str) for key in [*customers, *purchases])
    assert customers == cluster.psql("SELECT id FROM customer ORDER BY id", dbname).splitlines()
    assert purchases == cluster.psql("SELECT id FROM purchase ORDER BY id", dbname).splitlines()
    assert all(uuid.UUID(key).version == 7 for key in purchases)
    names = cluster.psql("SELECT name FROM customer ORDER BY id", dbname).splitlines()
    assert names == ["Ada", *(f"customer {number}" for number in range(ROWS))]
    assert printed["found"] == ["Ada"]
    bought = cluster.psql("SELECT customer_id FROM purchase ORDER BY id", dbname).splitlines()
    assert bought == customers[1:]
