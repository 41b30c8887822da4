"""Django on our IDs, as docs/clients.md shows it: its commands are run as a developer types them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.shop import DIRECTORY, shop_server, stored
from harness import Cluster

pytestmark = pytest.mark.any_server

PROJECT = DIRECTORY / "django"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with shop_server("django") as cluster:
        manage(cluster, "migrate")
        yield cluster


def run(cluster: Cluster, app: str, *command: str | Path) -> str:
    """What a command says that runs in the project's directory, with this environment's Python first on the path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "PGHOST": str(cluster.socket_dir), "APP": app, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=PROJECT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def manage(cluster: Cluster, *arguments: str, app: str = "shop") -> str:
    return run(cluster, app, "python", "manage.py", *arguments)


@pytest.mark.long
def test_commands_of_the_page(cluster: Cluster) -> None:
    said = run(cluster, "shop", "sh", "-e", "commands.sh")
    assert "No changes detected" in said
    assert re.search(r"^Ran [1-9]\d* tests in .*\n\nOK$", said, re.MULTILINE), said


@pytest.mark.long
def test_inspectdb_lists_only_the_applications_tables(cluster: Cluster) -> None:
    said = manage(cluster, "inspectdb")
    # Of a table that the role may not read, there is only a comment.
    assert "id_gen" not in said
    assert re.findall(r"db_table = '(\w+)'", said) == ["django_migrations", "shop_customer", "shop_purchase"]

    said = manage(cluster, "inspectdb", "--include-views")
    assert set(re.findall(r"'(id_gen\w*)'", said)) == {
        "id_gen_stat_horizon",
        "id_gen_stat",
        "id_gen_stat_waits",
        "id_gen_stat_backends",
        "id_gen_stat_fleet",
        "id_gen_stat_shards",
        "id_gen_stat_tickets",
    }


def test_migrations_backwards(cluster: Cluster) -> None:
    extension = "SELECT count(*) FROM pg_extension WHERE extname = 'id_gen'"
    try:
        manage(cluster, "migrate", "shop", "zero")
        assert cluster.psql(extension, "shop") == "0"
    finally:
        manage(cluster, "migrate")
    assert cluster.psql(extension, "shop") == "1"


@pytest.mark.long
def test_an_app_that_has_migrations(cluster: Cluster) -> None:
    create = (
        "from later.models import Customer, Purchase; "
        "print(Purchase.objects.create(customer=Customer.objects.create(name='Ada')).pk)"
    )
    with cluster.database("later", "shop"):
        manage(cluster, "migrate", "shop", "0001", app="later")
        assert "No changes detected" in manage(cluster, "makemigrations", "--check", app="later")
        manage(cluster, "migrate", app="later")
        key = manage(cluster, "shell", "--no-imports", "--command", create, app="later").strip()
        assert stored(cluster, table="shop_purchase", dbname="later") == [key]


@pytest.mark.long
def test_a_schema_of_the_extensions_own(cluster: Cluster) -> None:
    create = "from apart.models import Invoice; print(Invoice.objects.create().pk)"
    with cluster.database("apart", "shop"):
        assert "No changes detected" in manage(cluster, "makemigrations", "--check", app="apart")
        manage(cluster, "migrate", app="apart")
        key = manage(cluster, "shell", "--no-imports", "--command", create, app="apart").strip()
        assert stored(cluster, table="apart_invoice", dbname="apart") == [key]

        manage(cluster, "migrate", "apart", "zero", app="apart")
        assert cluster.psql("SELECT to_regclass('apart_invoice') IS NULL", "apart") == "t"
        assert cluster.psql("SELECT to_regprocedure('ids.uuidv7()') IS NOT NULL", "apart") == "t"
        manage(cluster, "migrate", app="apart")
