"""A key is moved over, and back, while clients write: no row is lost, none changes, foreign keys stay whole, and no
statement waits long for a lock. Then the same with the server killed at random moments, and resumed
each time."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import psycopg
import pytest

from harness import GENERATING, RELEASE, Cluster, effort

pytestmark = pytest.mark.long

CUSTOMERS = effort(200_000, 15_000)
KILLS = effort(20, 4)
WRITERS = 6
# How long a statement of theirs may wait for a lock. Beside other tests, a processor is waited for, too.
PATIENCE = "1s" if RELEASE else "10s"
ARGUMENTS = "'customer', 'id'"

# Each purchase says whose it is, so that a wrong reference shows, whatever the keys are.
SHOP = f"""
    CREATE TABLE customer (id serial PRIMARY KEY, name text NOT NULL UNIQUE, seen int NOT NULL DEFAULT 0);
    CREATE TABLE purchase (id bigserial PRIMARY KEY, customer_id int NOT NULL REFERENCES customer ON DELETE CASCADE,
        whose text NOT NULL);
    CREATE INDEX ON purchase (customer_id);
    CREATE VIEW named AS SELECT p.id, p.whose, c.id AS customer_id, c.name FROM purchase p JOIN customer c ON c.id =
        p.customer_id;
    INSERT INTO customer (name) SELECT 'old ' || n FROM generate_series(1, {CUSTOMERS}) n;
    INSERT INTO purchase (customer_id, whose) SELECT id, name FROM customer;
"""


class Writer:
    """A client that writes, and knows what it was told."""

    def __init__(self, cluster: Cluster, number: int, done: threading.Event) -> None:
        self._cluster = cluster
        self._number = number
        self._done = done
        # Customers that are there for sure, and those that may be: their transaction got no answer.
        self.added: set[str] = set()
        self.deleted: set[str] = set()
        self.doubtful: set[str] = set()

    def run(self) -> None:
        choose = random.Random(self._number)
        numbers = count()
        while not self._done.is_set():
            try:
                # Plans of a session don't outlive a change of a column's type.
                with self._cluster.connect("shop", prepare_threshold=None) as connection:
                    connection.execute(f"SET lock_timeout = '{PATIENCE}'".encode())
                    for number in numbers:
                        if self._done.is_set():
                            break
                        self._write(connection, f"new {self._number} {number}", choose)
            except psycopg.errors.LockNotAvailable:
                raise
            except psycopg.OperationalError:
                continue  # The server was killed.

    def _write(self, connection: psycopg.Connection, name: str, choose: random.Random) -> None:
        old = f"old {choose.randint(1, CUSTOMERS)}"
        what = choose.random()
        if what < 0.5:
            self.doubtful.add(name)
            with connection.transaction():
                row = connection.execute("INSERT INTO customer (name) VALUES (%s) RETURNING id", (name,)).fetchone()
                assert row
                connection.execute("INSERT INTO purchase (customer_id, whose) VALUES (%s, %s)", (row[0], name))
            self.doubtful.discard(name)
            self.added.add(name)
        elif what < 0.7:
            connection.execute("UPDATE customer SET seen = seen + 1 WHERE name = %s", (old,))
        elif what < 0.85:
            connection.execute(
                "WITH c AS (SELECT id, name FROM customer WHERE name = %s)"
                " UPDATE purchase p SET customer_id = c.id, whose = c.name FROM c WHERE p.id = %s",
                (old, choose.randint(1, CUSTOMERS)),
            )
        elif what < 0.9:
            self.doubtful.add(old)
            connection.execute("DELETE FROM customer WHERE name = %s", (old,))
            self.doubtful.discard(old)
            self.deleted.add(old)
        else:
            connection.execute("SELECT count(*) FROM named WHERE name = %s", (old,)).fetchone()


@contextmanager
def writers(cluster: Cluster) -> Iterator[list[Writer]]:
    """Clients that write while the block runs; then what they were told is compared with what there is."""
    done = threading.Event()
    clients = [Writer(cluster, number, done) for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        running = [pool.submit(client.run) for client in clients]
        try:
            yield clients
        finally:
            done.set()
    for each in running:
        each.result()


def assert_whole(cluster: Cluster, clients: list[Writer]) -> None:
    with cluster.connect("shop") as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM customer")}
        deleted = set().union(*(client.deleted for client in clients))
        doubtful = set().union(*(client.doubtful for client in clients))
        expected = set().union(*(client.added for client in clients), (f"old {n}" for n in range(1, CUSTOMERS + 1)))
        assert expected - deleted - doubtful == names - doubtful
        wrong = "SELECT count(*) FILTER (WHERE name <> whose), count(*) - (SELECT count(*) FROM purchase) FROM named"
        assert connection.execute(wrong).fetchone() == (0, 0)


def statements(connection: psycopg.Connection, query: str) -> list[str]:
    return [statement for (statement,) in connection.execute(query.encode())]


def carry_on(cluster: Cluster) -> None:
    """What an administrator types, also after a crash: up to the switch."""
    with cluster.connect("shop") as connection:
        started = connection.execute("SELECT to_regclass('id_gen_convert.job') IS NOT NULL").fetchone() == (True,)
        query = f"id_gen_convert.todo({ARGUMENTS})" if started else f"id_gen_convert_plan({ARGUMENTS})"
        for statement in statements(connection, f"SELECT statement FROM {query}"):
            connection.execute(statement.encode())


def until_done(cluster: Cluster, work: Callable[[Cluster], None], ended: threading.Event) -> None:
    """Does it again for as long as the server is killed meanwhile, or others hold a lock, while the test runs."""
    while not ended.is_set():
        try:
            return work(cluster)
        except psycopg.OperationalError:
            continue


@pytest.fixture
def shop() -> Iterator[Cluster]:
    with Cluster("load", conf=GENERATING + "max_wal_size = 2GB\n") as cluster, cluster.database("shop"):
        cluster.psql(f"CREATE EXTENSION id_gen_tools CASCADE; {SHOP}", "shop")
        yield cluster


def test_there_and_back_under_load(shop: Cluster) -> None:
    before = shop.run("pg_dump", "--schema-only", dbname="shop")
    with writers(shop) as clients:
        shop.poll_until("SELECT count(*) > 100 FROM customer WHERE name LIKE 'new%'", "shop")
        until_done(shop, carry_on, threading.Event())
        shop.psql("SELECT id_old FROM customer LIMIT 1", "shop")
        added = int(shop.psql("SELECT count(*) FROM customer", "shop"))
        shop.poll_until(f"SELECT max(id) > {2**40} AND count(*) <> {added} FROM customer", "shop")
        shop.psql(f"CALL id_gen_convert.undo({ARGUMENTS})", "shop")
        shop.poll_until("SELECT max(id) < 2 ^ 31 FROM customer", "shop")
    assert_whole(shop, clients)
    after = shop.run("pg_dump", "--schema-only", dbname="shop")
    assert [line for line in after.splitlines() if "restrict" not in line] == [
        line for line in before.splitlines() if "restrict" not in line
    ]


def killed(cluster: Cluster, work: Callable[[Cluster], None], choose: random.Random) -> int:
    """Kills the server at random moments until the work is done, and returns how often that was."""
    ended, moment, kills = threading.Event(), threading.Event(), 0
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(until_done, cluster, work, ended)
        try:
            while not done.done():
                # Later and later, or an index that takes longer would never be made.
                moment.wait(choose.uniform(0.05, 1.0 + kills / 3))
                cluster.kill9()
                cluster.start()
                kills += 1
        finally:
            ended.set()
    done.result()
    return kills


def test_killed_at_random_moments(shop: Cluster) -> None:
    """There and back, until it has been killed often enough."""
    seed, kills = random.randrange(2**32), 0
    choose = random.Random(seed)
    with writers(shop) as clients:
        while kills < KILLS:
            kills += killed(shop, carry_on, choose)
            shop.psql(f"SELECT * FROM id_gen_convert.verify({ARGUMENTS})", "shop")
            kills += killed(shop, undo, choose)
    print(f"seed {seed}, killed {kills} times")
    assert_whole(shop, clients)
    left = (
        "SELECT count(*) FROM pg_attribute WHERE attname ~ '_(old|new)$' AND attrelid IN ('customer'::regclass,"
        " 'purchase'::regclass) AND NOT attisdropped"
    )
    assert shop.psql(left, "shop") == "0"


def undo(cluster: Cluster) -> None:
    with cluster.connect("shop") as connection:
        if connection.execute("SELECT to_regclass('id_gen_convert.job') IS NOT NULL").fetchone() == (True,):
            connection.execute(f"CALL id_gen_convert.undo({ARGUMENTS})".encode())
