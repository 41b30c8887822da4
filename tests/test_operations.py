"""docs/operations.md is run and compared: its SQL on one server, its lists with what there is to look up in them.

What takes two servers is in cluster/test_operations_of_two_servers.py.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Cluster
from harness.cluster import PRELOAD
from harness.etcd import Etcd
from harness.fleet import await_number, number_of, terms
from harness.page import Page, blocks_of, in_code

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

# What takes a registry: the chapter about fleets, and remedies elsewhere.
OF_FLEET = blocks_of(PAGE.chapter("Fleets"), "sql")
OF_FLEET += [sql for sql in PAGE.blocks("sql") if "id_gen_fleet" in sql and sql not in OF_FLEET]
ETCD = re.compile(r"etcd://[^']*")
# The server's own worker ID in the examples.
WORKER_ID = re.compile(r"(worker_id => |worker_id = )7")
# What leads elsewhere than to the registry of the test: typed, and taken back.
ELSEWHERE = re.compile(r"SET (id_gen\.registry_\w+|id_gen\.registry(?= = 'postgresql))")


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


def short(sql: str) -> str:
    """A server that releases its own worker ID, as here, waits for a forgotten holder: a minute by default."""
    return sql.replace("id_gen_fleet_create()", f"id_gen_fleet_create({terms(grant_s=15)})")


def columns(cluster: Cluster, relation: str) -> set[str]:
    return set(cluster.psql(f"SELECT attname FROM pg_attribute WHERE attrelid = '{relation}'::regclass").split())


@pytest.mark.long
def test_sql_runs(cluster: Cluster) -> None:
    installed = PAGE.blocks("sql", "Installing")
    elsewhere = installed + OF_FLEET
    statements = [sql for sql in PAGE.blocks("sql") if sql not in elsewhere and not TAKES_TWO_SERVERS.search(sql)]
    assert len(statements) > 15
    for sql in statements:
        run(cluster, sql)
    assert cluster.psql("SELECT snowflake_next() > 0") == "t"


@pytest.mark.long
def test_sql_of_fleets_runs() -> None:
    """From top to bottom, on a server that joins a fleet, numbers itself by hand, and joins again."""
    conf = f"{PRELOAD}id_gen.layout = 'leaf'\n"
    with Etcd() as etcd, Cluster("member", conf=conf) as member:
        member.psql("CREATE EXTENSION id_gen")
        for sql in map(short, OF_FLEET):
            if WORKER_ID.search(sql):
                await_number(member)
            number = member.psql("SELECT worker_id FROM id_gen_status()")
            run(member, WORKER_ID.sub(rf"\g<1>{number}", ETCD.sub(etcd.endpoints, sql)))
            for name in ELSEWHERE.findall(sql):
                run(member, f"ALTER SYSTEM SET {name} = '{etcd.endpoints if name == 'id_gen.registry' else ''}'")
                run(member, "SELECT pg_reload_conf()")
            if member.psql("SHOW id_gen.registry"):
                member.poll_until("SELECT error IS NULL OR error LIKE '%not have this server%' FROM id_gen_stat_fleet")
            if "fleet_create" in sql or "worker_id = " in sql:
                await_number(member)
                assert number in ("", str(number_of(member)))
            if "worker_id = " in sql:
                run(member, f"ALTER SYSTEM SET id_gen.registry = '{etcd.endpoints}'")
                run(member, "SELECT pg_reload_conf()")
                run(member, "ALTER SYSTEM RESET id_gen.worker_id")
                run(member, "SELECT pg_reload_conf()")
        assert member.psql("SELECT worker_id_source FROM id_gen_status()") == "fleet"


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
