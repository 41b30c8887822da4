"""Whose IDs a member of a fleet takes for foreign: those with a number that no server of the fleet ever had."""

import pytest

from harness import Cluster
from harness.etcd import Etcd
from harness.fleet import await_number, create_fleet, member_conf
from harness.shards import take

WORKERS = """
SELECT item, status, found FROM id_gen_profile('stored', 'id') WHERE section = 'worker' OR item = 'fleet'
"""


def store(cluster: Cluster, *known: int) -> str:
    """Makes a table with IDs of these workers and of another one, and returns that as a profile names it."""
    other = min(set(range(32)) - set(known))
    cluster.psql("CREATE EXTENSION id_gen_tools; CREATE TABLE stored (id bigint)")
    for worker in (*known, other):
        cluster.psql(f"INSERT INTO stored VALUES (snowflake_make(now() - interval '1 h', 0, {worker}, 0))")
    return f"{other} of datacenter 0"


@pytest.mark.long
def test_numbers_of_other_members_are_known(first: Cluster, conf: str) -> None:
    own = await_number(first)
    shard = 4 if own != 4 else 3
    with Cluster("second", conf=f"{conf}id_gen.worker_id_range = '5-31'\n") as second:
        second.psql("CREATE EXTENSION id_gen")
        other = await_number(second)
        # So do those of shards, whichever member has them.
        take(second, shard, above=None)
    # Its number stays known when the server has gone.
    foreign = store(first, own, other, shard)
    with first.connect() as connection:
        assert {item: rest for item, *rest in connection.execute(WORKERS)} == {
            f"{own} of datacenter 0": ["ok", "a worker ID of this fleet"],
            f"{other} of datacenter 0": ["ok", "a worker ID of this fleet"],
            f"{shard} of datacenter 0": ["ok", "a shard of this fleet"],
            foreign: ["warning", "not a worker ID of this fleet"],
        }
        # Who may not see the fleet hears of this server alone.
        connection.execute("CREATE ROLE clerk")
        connection.execute("GRANT SELECT ON stored TO clerk")
        connection.execute("SET ROLE clerk")
        assert {item: status for item, status, _ in connection.execute(WORKERS)} == {
            f"{own} of datacenter 0": "ok",
            f"{other} of datacenter 0": "warning",
            f"{shard} of datacenter 0": "warning",
            foreign: "warning",
        }


def test_a_registry_that_does_not_answer() -> None:
    with Etcd() as etcd, Cluster("lonely", conf=member_conf(etcd.endpoints)) as member:
        create_fleet(member)
        own = await_number(member)
        foreign = store(member, own)
        etcd.leader().stop()
        with member.connect() as connection:
            found = {item: rest for item, *rest in connection.execute(WORKERS)}
    assert found["fleet"][0] == "warning"
    assert found[f"{own} of datacenter 0"] == ["ok", "this server's worker ID"]
    assert found[foreign] == ["warning", "not this server's worker ID"]
