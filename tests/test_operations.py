"""docs/operations.md is run and compared: its SQL on one server, its lists with what there is to look up in them.

What takes two servers is in cluster/test_operations_of_two_servers.py.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Cluster
from harness.etcd import Etcd
from harness.fleet import await_number
from harness.page import Page, in_code

# The server is set up as the page says, which preloads.
pytestmark = pytest.mark.any_mode

ROOT = Path(__file__).parent.parent
PAGE = Page(ROOT / "docs/operations.md")
RULES = ROOT / "contrib/prometheus/rules.yaml"

# What its examples take for granted.
GIVEN = """
CREATE ROLE exporter;
CREATE PUBLICATION shop;
CREATE TABLE customer (id bigint PRIMARY KEY DEFAULT snowflake_next());
INSERT INTO customer DEFAULT VALUES;
"""
TAKES_TWO_SERVERS = re.compile("pg_promote|SUBSCRIPTION")

# What speaks of a registry that the servers have.
FLEETS = PAGE.chapter("Fleets")
ON_OTHER_HOSTS = re.compile(r"etcd://10\.[^']*")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("operated", conf="".join(PAGE.blocks("ini", "Installing"))) as cluster:
        for sql in PAGE.blocks("sql", "Installing") + PAGE.blocks("sql", "First aid"):
            run(cluster, sql)
        cluster.poll_until("SELECT state FROM id_gen_status()", expected="ready")
        cluster.psql(GIVEN)
        yield cluster


def run(cluster: Cluster, sql: str) -> None:
    before = cluster.psql("SELECT clock_timestamp()")
    cluster.psql(sql)
    if "pg_reload_conf()" in sql:
        cluster.poll_until(f"SELECT pg_conf_load_time() > '{before}'")


def columns(cluster: Cluster, relation: str) -> set[str]:
    return set(cluster.psql(f"SELECT attname FROM pg_attribute WHERE attrelid = '{relation}'::regclass").split())


def test_sql_runs(cluster: Cluster) -> None:
    installed = PAGE.blocks("sql", "Installing")
    elsewhere = installed + FLEETS.blocks("sql")
    statements = [sql for sql in PAGE.blocks("sql") if sql not in elsewhere and not TAKES_TWO_SERVERS.search(sql)]
    assert len(statements) > 15
    for sql in statements:
        run(cluster, sql)
    assert cluster.psql("SELECT snowflake_next() > 0") == "t"


def test_sql_about_fleets_runs() -> None:
    with Etcd() as etcd, Cluster("member", conf="".join(PAGE.blocks("ini", "Installing"))) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        number = 0
        for sql in FLEETS.blocks("sql"):
            if "registry_" in sql or "postgresql://" in sql:
                # What these settings do is tried in tests/fleet; here they are only to be settings.
                cluster.psql(sql.replace("SELECT pg_reload_conf();", ""))
                for setting in re.findall(r"SET (id_gen\.registry\w*)", sql):
                    cluster.psql(f"ALTER SYSTEM RESET {setting}")
                cluster.psql(f"ALTER SYSTEM SET id_gen.registry = '{etcd.endpoints}'")
                continue
            run(cluster, ON_OTHER_HOSTS.sub(etcd.endpoints, sql).replace("worker => 7", f"worker => {number}"))
            if "id_gen_fleet_create" in sql:
                number = await_number(cluster)
        assert cluster.psql("SELECT count(*) > 0 FROM id_gen_fleet() WHERE state = 'released'") == "t"


def test_commands_that_look_at_the_data_directory(cluster: Cluster) -> None:
    for command in PAGE.blocks("sh", "IdGenReservationFailing"):
        subprocess.run(["sh", "-ec", command], env={"PGDATA": str(cluster.data)}, check=True)


def test_every_check_has_its_row(cluster: Cluster) -> None:
    of_server, of_table = ([in_code(row[0])[0] for row in table] for table in PAGE.tables("Checks"))
    assert sorted(of_server) == sorted(cluster.psql("SELECT name FROM id_gen_check()").split())
    assert of_table == cluster.psql("SELECT name FROM id_gen_check('customer', 'id')").split()


def test_what_to_look_at_exists(cluster: Cluster) -> None:
    for look_at, _ in PAGE.table("Monitoring"):
        for name in (name for name in in_code(look_at) if "reset" not in name):
            cluster.psql(f"SELECT * FROM {name}")


def test_every_reason_of_a_refusal_has_its_row(cluster: Cluster) -> None:
    documented = [name for reason, _ in PAGE.table("IdGenRefusing") for name in in_code(reason)]
    refused = {name for name in columns(cluster, "id_gen_stat") if name.startswith("refused_")}
    assert sorted(documented) == sorted(name.removeprefix("refused_") for name in refused)


@pytest.mark.skipif(not RULES.exists(), reason="there are no rules to compare with")
def test_every_alert_has_its_heading() -> None:
    alerts = re.findall(r"^\s*- alert: (\w+)$", RULES.read_text(), re.MULTILINE)
    assert alerts
    assert re.findall(r"^### (IdGen\w+)$", PAGE.text, re.MULTILINE) == alerts
