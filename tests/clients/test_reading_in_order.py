"""The worker that docs/reading-in-order.md shows publishes every row of the outbox, in the order of its ID, while
writers commit when they like and the worker's session is ended now and then. Two workers of the projection shown there
add each event once. A reader on a subscriber, as shown there, passes no row either, also while the table is copied."""

import itertools
import json
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness import GENERATING, Cluster
from harness.page import Page

pytestmark = pytest.mark.any_server

PAGE = Page(Path(__file__).parents[2] / "docs/reading-in-order.md")
LOGICAL = "wal_level = logical\n"
WRITERS = 4
TRANSACTIONS = 100
ENDINGS = 3
# A name for each row, which is all that the worker hands on of it.
WRITE = "INSERT INTO outbox (topic, payload) VALUES ('row', to_jsonb(gen_random_uuid())) RETURNING id"


def write(cluster: Cluster, number: int) -> list[int]:
    choose = random.Random(number)
    ids = []
    with cluster.connect() as session:
        for _ in range(TRANSACTIONS):
            with session.transaction():
                for _ in range(choose.randrange(1, 4)):
                    row = session.execute(WRITE).fetchone()
                    assert row is not None
                    ids.append(row[0])
                time.sleep(choose.choice((0, 0.001, 0.01)))
    return ids


def test_the_worker_publishes_every_row() -> None:
    worker: dict[str, Any] = {}
    exec("".join(PAGE.blocks("python")), worker)
    published: list[str] = []
    stop = threading.Event()

    with Cluster(conf=GENERATING) as cluster, ThreadPoolExecutor(WRITERS + 1) as pool:
        cluster.psql("CREATE EXTENSION id_gen")
        for sql in PAGE.blocks("sql"):
            cluster.psql(sql)
        cluster.psql("DELETE FROM outbox; DROP TRIGGER guard ON outbox")

        def work() -> int:
            endings = 0
            while not stop.is_set():
                try:
                    worker["run"](cluster.conninfo(), lambda topic, payload: published.append(payload), stop)
                except psycopg.OperationalError:
                    endings += 1
            return endings

        working = pool.submit(work)
        writing = [pool.submit(write, cluster, number) for number in range(WRITERS)]
        try:
            for _ in range(ENDINGS):
                before = len(published)
                cluster.wait_until(lambda before=before: len(published) > before, "publishing")
                cluster.psql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%outbox_reader%'"
                    " AND pid <> pg_backend_pid()"
                )
            written = sorted(id for each in writing for id in each.result())
            cluster.wait_until(
                lambda: working.done() or cluster.psql(f"SELECT last_id = {written[-1]} FROM outbox_reader") == "t",
                "at the last row",
            )
        finally:
            stop.set()
        working.result()
        with cluster.connect() as session:
            rows = session.execute("SELECT id, payload FROM outbox ORDER BY id").fetchall()
        assert [id for id, _ in rows] == written
        # A session that was ended publishes its last rows again.
        assert list(dict.fromkeys(published)) == [payload for _, payload in rows]


def assert_balanced(cluster: Cluster) -> None:
    paid = "SELECT stream_id, sum(coalesce((data ->> 'paid')::integer, 0)) FROM event GROUP BY stream_id ORDER BY 1"
    assert cluster.psql("SELECT stream_id, paid FROM balance ORDER BY 1") == cluster.psql(paid)


def test_a_worker_of_a_projection_waits_for_the_one_before() -> None:
    tables, step = PAGE.blocks("sql", "An event store")
    begun = step.replace("COMMIT;", "")
    with Cluster(conf=GENERATING) as cluster, cluster.connect() as first, cluster.connect() as second:
        cluster.psql(f"CREATE EXTENSION id_gen; {tables}")
        past_all = "SELECT snowflake_commit_horizon() > max(id) FROM event"
        for session in (first, second):
            cluster.wait_until(lambda session=session: session.execute(past_all).fetchone()[0], "past the events")
        first.execute(begun)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(second.execute, step)
            pid = second.info.backend_pid
            cluster.poll_until(f"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = {pid}")
            first.execute("COMMIT")
            waiting.result()
        assert_balanced(cluster)
        assert cluster.psql("SELECT last_id = (SELECT max(id) FROM event) FROM projection") == "t"


def test_two_workers_of_a_projection_add_each_event_once() -> None:
    tables, step = PAGE.blocks("sql", "An event store")
    streams, steps = 5, 100
    enough, stop = threading.Event(), threading.Event()

    with Cluster(conf=GENERATING) as cluster, ThreadPoolExecutor(WRITERS + 2) as pool:
        cluster.psql(f"CREATE EXTENSION id_gen; {tables}")

        def write(number: int) -> None:
            choose = random.Random(number)
            with cluster.connect() as session:
                for version in itertools.count():
                    if enough.is_set():
                        return
                    with session.transaction():
                        for stream in choose.sample(range(streams), 2):
                            event = [10 * number + stream, version, json.dumps({"paid": choose.randrange(100)})]
                            session.execute("INSERT INTO event (stream_id, version, data) VALUES (%s, %s, %s)", event)
                        time.sleep(choose.choice((0, 0.001, 0.01)))

        done = [0, 0]

        def work(worker: int) -> None:
            with cluster.connect() as session:
                while not stop.is_set():
                    results = session.execute(step)
                    # BEGIN, SELECT, UPDATE.
                    assert results.nextset() and results.nextset()
                    done[worker] += results.rowcount

        working = [pool.submit(work, worker) for worker in range(2)]
        writing = [pool.submit(write, 1 + number) for number in range(WRITERS)]
        try:
            cluster.wait_until(lambda: min(done) >= steps or any(each.done() for each in working), "projecting")
            enough.set()
            for each in writing:
                each.result()
            cluster.poll_until("SELECT last_id = (SELECT max(id) FROM event) FROM projection")
        finally:
            enough.set()
            stop.set()
        for each in working:
            each.result()
        assert_balanced(cluster)


def test_a_subscriber_reads_in_order() -> None:
    """Rows are copied as of one moment, and what was committed after that comes later, while other tables are ahead."""
    tables, publish = PAGE.blocks("sql")[0], PAGE.blocks("sql", "Standbys and subscribers")[0]
    read = PAGE.blocks("sql", "Standbys and subscribers")[1]
    read_at_once = read.replace("AND NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r')", "")
    assert read_at_once != read
    update = re.search(r"UPDATE .*;", publish)
    assert update

    with Cluster("publisher", conf=GENERATING + LOGICAL) as publisher, Cluster("subscriber") as subscriber:
        publisher.psql("CREATE EXTENSION id_gen")
        publisher.psql(tables)
        publisher.psql("DELETE FROM outbox")
        publisher.psql(publish)
        publisher.psql("CREATE PUBLICATION outbox FOR TABLE outbox, horizon")
        # A slow subscriber: each row waits until it is let through.
        subscriber.psql("""
            CREATE TABLE outbox (id bigint PRIMARY KEY, topic text, payload jsonb);
            CREATE TABLE horizon (single boolean PRIMARY KEY, id bigint);
            CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_advisory_xact_lock(NEW.id); RETURN NEW; END';
            CREATE TRIGGER wait BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION wait();
            ALTER TABLE outbox ENABLE ALWAYS TRIGGER wait;
        """)
        with publisher.connect() as late, subscriber.connect() as gate, subscriber.connect() as reader:

            def ids(sql: str) -> list[int]:
                return [row[0] for row in reader.execute(sql)]

            late.execute("BEGIN")
            (first,) = late.execute("SELECT snowflake_next()").fetchone() or ()
            after = int(publisher.psql(WRITE))
            gate.execute("SELECT pg_advisory_lock(%s), pg_advisory_lock(%s)", [first, after])
            reader.execute(f"CREATE SUBSCRIPTION outbox CONNECTION '{publisher.conninfo()}' PUBLICATION outbox")
            waits = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            subscriber.poll_until(waits)
            late.execute("INSERT INTO outbox VALUES (%s, 'row', '{}')", [first])
            late.execute("COMMIT")
            publisher.wait_until(
                lambda: publisher.psql(f"{update[0].rstrip(';')} RETURNING id > {after}") == "t", "past the rows"
            )
            subscriber.poll_until(f"SELECT id > {after} FROM horizon")
            gate.execute("SELECT pg_advisory_unlock(%s)", [after])
            subscriber.poll_until("SELECT count(*) = 1 FROM outbox")
            assert ids(read_at_once) == [after]
            assert ids(read) == []
            gate.execute("SELECT pg_advisory_unlock(%s)", [first])
            subscriber.wait_until(lambda: ids(read), "read")
            assert ids(read) == [first, after]
            reader.execute("DROP SUBSCRIPTION outbox")
