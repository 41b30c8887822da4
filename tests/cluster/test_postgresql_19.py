"""What PostgreSQL 19 brings that meets IDs: tables that are repacked while they grow, sequences in logical replication,
and UUIDs as sortable text."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import GENERATING, Cluster

pytestmark = [pytest.mark.since(19), pytest.mark.every_version("looks at features of one version")]

ROWS = 10_000
INSERT = "INSERT INTO item SELECT FROM generate_series(1, 10) RETURNING id"


def insert_until(cluster: Cluster, done: threading.Event) -> list[int]:
    ids: list[int] = []
    with cluster.connect() as session:
        while not done.is_set():
            ids += [row[0] for row in session.execute(INSERT)]
    return ids


def test_a_table_is_repacked_while_ids_are_made() -> None:
    with Cluster(conf=GENERATING) as cluster, ThreadPoolExecutor() as pool:
        cluster.psql(f"""
            CREATE EXTENSION id_gen;
            CREATE TABLE item (id bigint PRIMARY KEY DEFAULT snowflake_next());
            INSERT INTO item SELECT FROM generate_series(1, {ROWS});
        """)
        done = threading.Event()
        inserting = pool.submit(insert_until, cluster, done)
        try:
            cluster.poll_until(f"SELECT count(*) > {ROWS} FROM item")
            before = cluster.psql("SELECT pg_relation_filenode('item')")
            cluster.psql("REPACK (CONCURRENTLY) item USING INDEX item_pkey")
            assert cluster.psql("SELECT pg_relation_filenode('item')") != before
            repacked = int(cluster.psql("SELECT count(*) FROM item"))
            cluster.poll_until(f"SELECT count(*) > {repacked} FROM item")
        finally:
            done.set()
        ids = inserting.result()
        assert sorted(set(ids)) == ids
        assert int(cluster.psql("SELECT count(*) FROM item")) == ROWS + len(ids)


def test_a_switch_to_a_subscriber_synchronizes_nothing() -> None:
    """Where `bigserial` has values of its sequence to carry over, there is nothing of ours."""
    with Cluster("publisher", conf=GENERATING + "wal_level = logical\n") as publisher:
        table = "CREATE EXTENSION id_gen; CREATE TABLE item (id bigint PRIMARY KEY DEFAULT snowflake_next());"
        publisher.psql(f"{table} INSERT INTO item SELECT FROM generate_series(1, {ROWS})")
        publisher.psql("CREATE PUBLICATION everything FOR ALL TABLES, ALL SEQUENCES")
        assert publisher.psql("SELECT schemaname FROM pg_publication_sequences WHERE pubname = 'everything'") == ""
        with Cluster("subscriber", conf="id_gen.worker_id = 2\n") as subscriber:
            subscriber.psql(table)
            subscriber.psql(f"CREATE SUBSCRIPTION all_of_it CONNECTION '{publisher.conninfo()}' PUBLICATION everything")
            subscriber.poll_until(f"SELECT count(*) = {ROWS} FROM item")
            subscriber.psql("ALTER SUBSCRIPTION all_of_it REFRESH SEQUENCES")
            subscriber.psql(f"INSERT INTO item SELECT FROM generate_series(1, {ROWS})")
            assert int(subscriber.psql("SELECT count(*) FROM item")) == 2 * ROWS
            subscriber.psql("DROP SUBSCRIPTION all_of_it")


def test_a_uuid_as_text_that_sorts_as_it_does() -> None:
    with Cluster() as cluster, cluster.connect() as session:
        session.execute("CREATE EXTENSION id_gen")
        made = session.execute("""
            SELECT id, text, decode(text, 'base32hex')::uuid
              FROM (SELECT place, public.uuidv7() AS id FROM generate_series(1, 1000) place) made,
                   LATERAL (SELECT encode(id::bytea, 'base32hex')) encoded (text)
             ORDER BY text COLLATE "C"
        """).fetchall()
        assert [id for id, _, _ in made] == sorted(id for id, _, _ in made)
        assert all(decoded == id for id, _, decoded in made)
