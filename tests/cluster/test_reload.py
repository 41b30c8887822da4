"""Settings change under running clients: each session takes up the new worker ID, and no ID repeats over the change."""

import threading
from concurrent.futures import ThreadPoolExecutor

from harness import GENERATING, Cluster

CLIENTS = 8
WORKERS = (2, 3, 1, 2)
WORKER_OF_NEXT = "SELECT worker_id FROM snowflake_parse(snowflake_next())"


def generate_until(cluster: Cluster, done: threading.Event) -> list[int]:
    ids: list[int] = []
    with cluster.connect() as connection:
        while not done.is_set():
            ids += [row[0] for row in connection.execute("SELECT snowflake_next_batch(50)")]
    return ids


def test_connected_sessions_take_up_a_new_worker_id() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with cluster.connect() as first, cluster.connect() as second:
            for connection in (first, second):
                assert connection.execute(WORKER_OF_NEXT).fetchone() == (1,)
            cluster.psql("ALTER SYSTEM SET id_gen.worker_id = 2")
            cluster.reload()
            cluster.poll_until(WORKER_OF_NEXT, expected="2")
            for connection in (first, second):
                assert connection.execute(WORKER_OF_NEXT).fetchone() == (2,)


def test_no_duplicate_while_the_worker_id_changes() -> None:
    done = threading.Event()
    with Cluster(conf=GENERATING) as cluster, ThreadPoolExecutor(CLIENTS) as pool:
        cluster.psql("CREATE EXTENSION id_gen")
        try:
            clients = [pool.submit(generate_until, cluster, done) for _ in range(CLIENTS)]
            for worker in WORKERS:
                cluster.psql(f"ALTER SYSTEM SET id_gen.worker_id = {worker}")
                cluster.reload()
                cluster.poll_until(WORKER_OF_NEXT, expected=str(worker))
        finally:
            done.set()
        ids = [id for client in clients for id in client.result()]
        used = cluster.psql(
            f"SELECT DISTINCT worker_id FROM unnest(ARRAY{ids[:: max(1, len(ids) // 10_000)]}) id, snowflake_parse(id)"
        )

    assert len(ids) == len(set(ids))
    assert set(map(int, used.split())) == {1, 2, 3}
