"""A tenant moves from one server to another with its rows and its shard, while clients write: no ID comes twice."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from harness import Cluster
from harness.cluster import GENERATING
from harness.ids import PATIENT
from harness.shards import NOT_HERE, Writer, next_of, refused, release, take

# The same with every server.
pytestmark = pytest.mark.any_server

SHARD = 1341
TENANT = f"""
CREATE TABLE photo (
    id bigint PRIMARY KEY DEFAULT snowflake_next({SHARD}),
    taken_by int
);
"""
INSERT = "INSERT INTO photo (taken_by) VALUES (1) RETURNING id"


@pytest.fixture
def servers() -> Iterator[list[Cluster]]:
    """Two plain servers, each with a number of its own, of the layout that Instagram has."""
    with ExitStack() as stack:
        servers = []
        for number in (1, 2):
            conf = (
                f"{GENERATING}id_gen.layout = 'instagram'\nid_gen.worker_id = {number}\nwal_level = logical\n{PATIENT}"
            )
            server = stack.enter_context(Cluster(f"s{number}", conf=conf))
            server.psql("CREATE EXTENSION id_gen")
            servers.append(server)
        yield servers


class Tenant(Writer):
    """The tenant's clients: they insert rows wherever the tenant is, and keep the IDs that they got."""

    statement = INSERT


def rows(cluster: Cluster) -> set[int]:
    return set(map(int, cluster.psql("SELECT id FROM photo").splitlines()))


@contextmanager
def writing(servers: list[Cluster]) -> Iterator[list[Tenant]]:
    with Tenant(servers, SHARD) as one, Tenant(servers, SHARD) as other:
        yield [one, other]


def await_writes(clients: list[Tenant], server: Cluster) -> None:
    before = [len(client.ids) for client in clients]
    server.wait_until(lambda: all(len(c.ids) > n + 50 for c, n in zip(clients, before, strict=True)), "written to")


def test_a_tenant_moves_by_copy(servers: list[Cluster]) -> None:
    """There and back, three times: the shard is given back, the rows are copied, the shard is taken."""
    old, new = servers
    for server in servers:
        server.psql(TENANT)
    take(old, SHARD)
    with writing(servers) as clients:
        for source, target in ((old, new), (new, old)) * 3:
            await_writes(clients, source)
            # From here on no row gets an ID; those that have one are there once their transactions have ended.
            above = release(source, SHARD)
            with (
                source.connect() as reader,
                target.connect() as writer,
                reader.transaction(),
                writer.transaction(),
            ):
                reader.execute("LOCK TABLE photo IN EXCLUSIVE MODE")
                with (
                    reader.cursor().copy("COPY photo TO STDOUT") as out,
                    writer.cursor().copy("COPY photo FROM STDIN") as into,
                ):
                    for block in out:
                        into.write(block)
                reader.execute("TRUNCATE photo")
            take(target, SHARD, above)
        await_writes(clients, old)
    ids = [snowflake for client in clients for snowflake in client.ids]
    assert len(set(ids)) == len(ids)
    assert rows(old) | rows(new) >= set(ids), "rows that clients were told of"
    assert not rows(old) & rows(new)


def test_a_tenant_moves_by_logical_replication(servers: list[Cluster]) -> None:
    """The rows follow while clients write; only for the last of them is the shard with nobody."""
    old, new = servers
    for server in servers:
        server.psql(TENANT)
    old.psql("CREATE PUBLICATION moving FOR TABLE photo")
    take(old, SHARD)
    with writing(servers) as clients:
        await_writes(clients, old)
        new.psql(f"CREATE SUBSCRIPTION moving CONNECTION '{old.conninfo()}' PUBLICATION moving")
        new.poll_until("SELECT count(*) = 1 FROM pg_subscription_rel WHERE srsubstate = 'r'")
        await_writes(clients, old)
        above = release(old, SHARD)
        last = old.psql("BEGIN; LOCK TABLE photo IN EXCLUSIVE MODE; SELECT max(id), count(*) FROM photo; COMMIT")
        new.poll_until("SELECT max(id) || '|' || count(*) FROM photo", expected=last)
        take(new, SHARD, above)
        await_writes(clients, new)
        new.psql("DROP SUBSCRIPTION moving")
    ids = [snowflake for client in clients for snowflake in client.ids]
    assert len(set(ids)) == len(ids)
    assert rows(new) >= set(ids)
    assert rows(old) < rows(new)
    assert refused(old, SHARD).sqlstate == NOT_HERE


@pytest.mark.long
def test_a_lost_server_is_replaced(servers: list[Cluster]) -> None:
    """The old server is gone with its disk: the new one starts above all that its clock and its lead allowed."""
    old, new = servers
    take(old, SHARD)
    with old.connect() as connection:
        count = "SELECT max(snowflake_next(%s)) FROM generate_series(1, 3000000)"
        (last,) = connection.execute(count, [SHARD]).fetchone() or (0,)
    old.kill9()
    new.psql(f"SELECT id_gen_shard_take({SHARD}, above => snowflake_max(clock_timestamp() + interval '8 s'))")
    assert next_of(new, SHARD) > last
    with pytest.raises(psycopg.OperationalError):
        old.connect()
