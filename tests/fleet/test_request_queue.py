"""Sessions ask the registry through the registrar: what becomes of a request when either goes away or stands still."""

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from harness import Cluster
from harness.etcd import Etcd
from harness.fleet import (
    UNREACHABLE,
    await_number,
    create_fleet,
    member_conf,
    registrar,
    silent,
)
from harness.ids import Caller, answer_of, change, refusal
from harness.relay import Way

MEMBERS = "SELECT count(*) FROM id_gen_fleet_members()"
# How many sessions can ask at a time (src/shared/requests.rs).
PLACES = 16


@contextmanager
def standing_still(cluster: Cluster) -> Iterator[int]:
    """The registrar, which does nothing for as long as the block lasts."""
    pid = registrar(cluster)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def without_threads(cluster: Cluster) -> Iterator[None]:
    """The registrar can start no thread for as long as the block lasts."""
    pid = registrar(cluster)
    # The server has it of this process.
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)

    def set_limit(threads: int) -> None:
        soft = "unlimited" if threads == resource.RLIM_INFINITY else threads
        subprocess.run(["prlimit", f"--pid={pid}", f"--nproc={soft}:"], check=True, **cluster.server.as_owner)

    set_limit(0)
    try:
        yield
    finally:
        set_limit(limit)


def await_request(caller: Caller) -> None:
    caller.await_wait("Extension")


def test_more_sessions_than_places_are_answered_one_after_the_other(first: Cluster) -> None:
    await_number(first)
    with ThreadPoolExecutor(40) as pool:
        with standing_still(first):
            running = [pool.submit(first.psql, MEMBERS) for _ in range(40)]
            first.poll_until(
                "SELECT count(*) = 40 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query ~ 'members'"
            )
        assert [each.result() for each in running] == ["1"] * 40


@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_a_session_that_goes_away_frees_its_place(first: Cluster, how: str) -> None:
    await_number(first)
    for _ in range(2):
        callers = [Caller(first) for _ in range(PLACES)]
        try:
            with standing_still(first):
                answers = [caller.begin(MEMBERS) for caller in callers]
                for caller, answer in zip(callers, answers, strict=True):
                    await_request(caller)
                    first.psql(f"SELECT pg_{how}_backend({caller.pid})")
                    assert isinstance(answer.exception(), psycopg.Error)
        finally:
            for caller in callers:
                caller.__exit__(None, None, None)
        assert first.psql(MEMBERS) == "1"


def test_a_request_outlives_the_registrar_that_has_not_taken_it(first: Cluster) -> None:
    await_number(first)
    with Caller(first) as caller:
        with standing_still(first) as pid:
            answer = caller.begin(MEMBERS)
            await_request(caller)
            first.psql(f"SELECT pg_terminate_backend({pid})")
        # It may have taken the request before it looked at the signal.
        try:
            assert answer_of(answer) == 1
        except psycopg.Error as error:
            assert error.sqlstate == UNREACHABLE


def test_a_registrar_that_stands_still_is_waited_for_so_long_and_no_longer(first: Cluster) -> None:
    await_number(first)
    with standing_still(first):
        assert refusal(first, MEMBERS).sqlstate == UNREACHABLE
    assert first.psql(MEMBERS) == "1"


def test_without_a_registrar_the_error_names_the_setting(conf: str) -> None:
    with Cluster("alone", conf=f"{conf}\nmax_worker_processes = 1\n") as alone:
        alone.psql("CREATE EXTENSION id_gen")
        error = refusal(alone, MEMBERS)
        assert (error.sqlstate, error.message) == ("55000", "this server's registrar process is not running")
        assert "ALTER SYSTEM SET max_worker_processes = 2;" in (error.hint or "")


def test_a_registrar_that_gets_no_thread_says_so_and_goes_on(first: Cluster, etcd: Etcd) -> None:
    await_number(first)
    # Without an answer it connects anew, on another thread.
    with without_threads(first), silent(etcd):
        first.poll_until("SELECT error ~ '^could not send a request to the registry' FROM id_gen_stat_fleet")
        assert refusal(first, MEMBERS).sqlstate == UNREACHABLE
    await_number(first)
    first.poll_until("SELECT error IS NULL FROM id_gen_stat_fleet")


@contextmanager
def member_by(etcd: Etcd, fleet: str) -> Iterator[tuple[Way, Cluster]]:
    """A server of the fleet, and its way to the registry."""
    shards = "id_gen.worker_id_range = '0-15'\nid_gen.layout = 'leaf'\n"
    with Way(etcd) as way, Cluster("apart", conf=member_conf(way.endpoints, f"{fleet}\n{shards}")) as apart:
        yield way, apart


def test_sessions_whose_answers_are_lost_delay_no_renewal(etcd: Etcd, fleet: str) -> None:
    with member_by(etcd, fleet) as (way, apart):
        create_fleet(apart)
        await_number(apart)
        renewals = int(apart.psql("SELECT renewals FROM id_gen_stat_fleet"))
        with way.delaying_a_shard(every=True), ThreadPoolExecutor(2) as pool:
            refusals = [pool.submit(refusal, apart, "SELECT * FROM id_gen_fleet_shards()") for _ in range(8)]
            apart.poll_until(f"SELECT renewals > {renewals + 8} FROM id_gen_stat_fleet")
            assert {each.result().sqlstate for each in refusals} == {UNREACHABLE}
            assert apart.psql("SELECT error IS NULL AND snowflake_next() > 0 FROM id_gen_stat_fleet") == "t"


def test_another_way_to_the_registry_is_used_at_once(etcd: Etcd, fleet: str) -> None:
    """For numbers of a ticket, and for sessions that ask, also where the next renewal is far."""
    with member_by(etcd, fleet) as (_, apart):
        apart.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE invoice")
        apart.psql("SELECT id_gen_fleet_create('60 s', '20 s', '500 ms')")
        await_number(apart)
        apart.psql("SELECT ticket_share('invoice'); SELECT ticket_next('invoice')")
        change(apart, "registry", etcd.endpoints)
        assert apart.psql(MEMBERS) == "1"
        assert apart.psql("SELECT count(ticket_next('invoice')) FROM generate_series(1, 100000)") == "100000"


def test_an_answer_of_many_pieces(conf: str) -> None:
    many = "id_gen.layout = 'instagram'\nid_gen.worker_id_range = '0-15'\n"
    with Cluster("many", conf=f"{conf}\n{many}") as cluster:
        create_fleet(cluster)
        await_number(cluster)
        cluster.psql("SELECT id_gen_shard_take(shard) FROM generate_series(100, 160) shard")
        with ThreadPoolExecutor(4) as pool:
            counts = list(pool.map(cluster.psql, ["SELECT count(*) FROM id_gen_fleet_shards()"] * 8))
        assert counts == ["61"] * 8
