"""Settings change under running clients: every session takes them up, and no ID repeats over the change."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from harness import GENERATING, PRELOAD, PRELOADED, Cluster, FakeClock
from harness.ids import (
    NARROW,
    NARROW_LAYOUT,
    PATIENT,
    TOO_FAR_AHEAD,
    Caller,
    answer_of,
    change,
    next_id,
    refusal,
)

CLIENTS = 8
PRELOADING = PRELOAD if PRELOADED else ""
WORKER_OF_NEXT = "SELECT worker_id FROM snowflake_parse(snowflake_next())"


def generate_until(cluster: Cluster, done: threading.Event) -> list[int]:
    """Takes IDs in every way; those refused because the clock has to catch up first are asked for again."""
    ids: list[int] = []
    statements = (
        "SELECT snowflake_next() FROM generate_series(1, 50)",
        "SELECT snowflake_next_batch(50)",
        "SELECT unnest(snowflake_next_array(50))",
    )
    with cluster.connect() as connection:
        while not done.is_set():
            for statement in statements:
                try:
                    ids += [row[0] for row in connection.execute(statement)]
                except psycopg.Error as error:
                    if error.sqlstate != TOO_FAR_AHEAD:
                        raise
    return ids


def test_connected_sessions_take_up_a_new_worker_id() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with Caller(cluster) as first, Caller(cluster) as second:
            for caller in (first, second):
                assert caller.ask(WORKER_OF_NEXT) == 1
            change(cluster, "worker_id", 2)
            cluster.poll_until(WORKER_OF_NEXT, expected="2")
            for caller in (first, second):
                assert caller.ask(WORKER_OF_NEXT) == 2


def the_keeper(cluster: Cluster) -> int:
    """Waits for the keeper, which reads the settings when it starts; without the preload, a call has it started."""
    refusal(cluster)
    cluster.poll_until("SELECT keeper_pid IS NOT NULL FROM id_gen_status()")
    return int(cluster.psql("SELECT keeper_pid FROM id_gen_status()"))


@pytest.mark.parametrize(
    ("number", "call"),
    [
        ("", WORKER_OF_NEXT),
        ("id_gen.worker_id = 99\n", WORKER_OF_NEXT),
        ("", "SELECT snowflake_advance(snowflake_max(now()))::text"),
        ("", "SELECT snowflake_commit_horizon()"),
    ],
)
def test_a_call_right_after_a_reload_waits_for_it(number: str, call: str) -> None:
    """In one script the call begins while the signal is on its way. Here it is, because the keeper stands still."""
    with Cluster(conf=f"{PRELOADING}{number}{PATIENT}") as cluster, Caller(cluster) as caller:
        cluster.psql("CREATE EXTENSION id_gen")
        keeper = the_keeper(cluster)
        os.kill(keeper, signal.SIGSTOP)
        try:
            change(cluster, "worker_id", 1)
            answer = caller.begin(call)
            caller.await_wait("Extension")
        finally:
            os.kill(keeper, signal.SIGCONT)
        answer_of(answer)
        assert caller.ask(WORKER_OF_NEXT) == 1


def test_a_call_waits_no_longer_for_a_reload_that_does_not_come_than_for_the_clock() -> None:
    conf = f"{PRELOADING}id_gen.max_wait = '100ms'\nstatement_timeout = '30s'\n"
    with Cluster(conf=conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        the_keeper(cluster)
        cluster.append_conf("id_gen.worker_id = 1")
        assert refusal(cluster).message == "id_gen.worker_id is not set"


def test_a_fleet_command_waits_a_second_at_most_for_a_reload_that_does_not_come() -> None:
    conf = f"{PRELOADING}id_gen.max_wait = '10min'\nstatement_timeout = '30s'\n"
    with Cluster(conf=conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.append_conf("work_mem = '8MB'")
        error = refusal(cluster, "SELECT * FROM id_gen_fleet_members()")
        assert error.message == "this server does not belong to a fleet"


# Takes so many IDs that a block is left half used; then waits, and takes another.
ACROSS_A_CHANGE = """
CREATE FUNCTION across_a_change() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM snowflake_next() FROM generate_series(1, 70);
    PERFORM pg_advisory_xact_lock(1);
    RETURN (SELECT worker_id FROM snowflake_parse(snowflake_next()));
END $$
"""


def test_a_block_in_hand_is_dropped_with_the_worker_id_it_was_made_for() -> None:
    """Also within a statement, whose session has not read the new settings. The clock stands, so it does not end it."""
    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster, Caller(cluster) as first, Caller(cluster) as second:
        cluster.psql(f"CREATE EXTENSION id_gen; {ACROSS_A_CHANGE}")
        clock.freeze()
        first.ask("SELECT pg_advisory_lock(1)")
        answer = second.begin("SELECT across_a_change()")
        second.await_wait("Lock")
        change(cluster, "worker_id", 2)
        cluster.poll_until(WORKER_OF_NEXT, expected="2")
        first.ask("SELECT pg_advisory_unlock(1)")
        assert answer_of(answer) == 2


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("worker_id", (2, 3, 1, 2)),
        ("datacenter_id", (1, 2, 0, 1)),
        ("max_block_size", (1, 65_536, 2, 64)),
        ("max_lead", ("0", "5s", "10ms", "1s")),
    ],
)
def test_no_duplicate_while_a_setting_changes(name: str, values: tuple) -> None:
    """So few IDs in a millisecond that the clients fill them, and run into the lead and its end."""
    done = threading.Event()
    with Cluster(conf=NARROW) as cluster, ThreadPoolExecutor(CLIENTS) as pool:
        cluster.psql("CREATE EXTENSION id_gen")
        try:
            clients = [pool.submit(generate_until, cluster, done) for _ in range(CLIENTS)]
            for value in values:
                change(cluster, name, value)
                if name in ("worker_id", "datacenter_id"):
                    cluster.poll_until(f"SELECT {name} FROM snowflake_parse(snowflake_next())", expected=str(value))
                else:
                    cluster.poll_until("SELECT snowflake_next() > 0")
        finally:
            done.set()
        ids = [id for client in clients for id in client.result()]

    assert len(ids) == len(set(ids)) > 0
    for client in clients:
        assert client.result() == sorted(client.result()), "the IDs of one session are not increasing"


def test_a_new_layout_waits_for_the_restart() -> None:
    wide = "epoch=2023-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12"
    with Cluster(conf=NARROW + PATIENT) as cluster, Caller(cluster) as caller:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [caller.ask()]
        began = cluster.log_position
        change(cluster, "layout", wide)
        cluster.wait_for_log('"id_gen.layout" takes effect when the server is restarted', began)
        given += [caller.ask(), next_id(cluster)]
        assert given == sorted(set(given))
        assert_made_now(cluster, given[-1], NARROW_LAYOUT)
        cluster.restart()
        assert_made_now(cluster, next_id(cluster), wide)


def assert_made_now(cluster: Cluster, snowflake: int, layout: str) -> None:
    assert cluster.psql(f"SELECT snowflake_timestamp({snowflake}, '{layout}') > now() - interval '1 minute'") == "t"
    assert cluster.psql(f"SELECT snowflake_timestamp({snowflake}, '{layout}') < now() + interval '1 minute'") == "t"


# Waits, and then takes this session's first ID.
FIRST_AFTER_A_CHANGE = """
CREATE FUNCTION first_after_a_change() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1);
    RETURN (SELECT worker_id FROM snowflake_parse(snowflake_next()));
END $$
"""


def test_a_session_that_missed_a_reload_does_not_bring_the_old_settings_back() -> None:
    """Not even when the clock was set back meanwhile, so that its reading looks like the latest."""
    clock = FakeClock()
    conf = f"{GENERATING}\nid_gen.max_lead = '1min'"
    with Cluster(conf=conf, clock=clock) as cluster, Caller(cluster) as late, Caller(cluster) as other:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(FIRST_AFTER_A_CHANGE)
        other.ask("SELECT pg_advisory_lock(1)::text")
        answer = late.begin("SELECT first_after_a_change()")
        late.await_wait("Lock")
        change(cluster, "worker_id", 2)
        cluster.poll_until(WORKER_OF_NEXT, expected="2")
        clock.step(-30)
        other.ask("SELECT pg_advisory_unlock(1)::text")
        assert answer.result() == 2
        assert other.ask(WORKER_OF_NEXT) == 2


def test_a_set_that_runs_while_strict_order_is_set_follows_it() -> None:
    """From the moment that `max_block = 1` is in force, every row takes a claim of its own."""
    with Cluster(conf=GENERATING) as cluster, cluster.connect() as reader, cluster.connect() as other:
        cluster.psql("CREATE EXTENSION id_gen")
        reader.execute("BEGIN")
        # In the FROM clause all rows would be made at once.
        reader.execute("DECLARE c NO SCROLL CURSOR FOR SELECT snowflake_next_batch(20000) AS id")

        def fetch(count: int) -> list[int]:
            return [row[0] for row in reader.execute(f"FETCH {count} FROM c")]

        given = fetch(1_000)
        change(cluster, "max_block_size", 1)
        cluster.poll_until("SHOW id_gen.max_block_size", expected="1")
        other.execute("SELECT snowflake_next()")
        claims = f"SELECT claims FROM id_gen_stat_backends WHERE pid = {reader.info.backend_pid}"
        before = int(cluster.psql(claims))
        given += fetch(5_000)
        assert int(cluster.psql(claims)) - before == 5_000
        for _ in range(10):
            (of_other,) = other.execute("SELECT snowflake_next()").fetchone() or (0,)
            assert given[-1] < of_other
            given += [of_other, *fetch(1)]
        assert given == sorted(set(given))
