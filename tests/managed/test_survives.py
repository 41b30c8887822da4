"""No ID is made again after a crash, a failover or a step of the clock, also one that only a client has seen.

What the clients had seen before is compared with what they are given afterwards, from every lane.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import Cluster, FakeClock, SqlError
from harness.ids import TOO_FAR_AHEAD, refusal
from harness.managed import DATABASE, WORKER, as_owner, configure, ids_of, install, sessions, with_number

pytestmark = pytest.mark.long

LANES = 4
TO_USE_ALL_LANES = 4 * LANES
RECOVERY = "25006"
# What is not committed stays in memory until the server dies.
LAZY = "wal_writer_delay = 10s\nsynchronous_commit = off\nmax_connections = 60\n"
NEXT = "SELECT snowflake_next()"
HOUR = 3600
TICK_S = 0.0011
# So many by each session lead the clock by some ticks.
LEADING = 400


@contextmanager
def under_a_clock(**settings: object) -> Iterator[tuple[Cluster, FakeClock]]:
    clock = FakeClock()
    with Cluster("survives", conf=LAZY, clock=clock) as cluster:
        install(cluster, lanes=LANES, **settings)
        cluster.psql("CHECKPOINT")
        yield cluster, clock


def of_all_lanes(cluster: Cluster, each: int = 20) -> list[int]:
    with sessions(cluster, TO_USE_ALL_LANES) as opened:
        return [id for session in opened for id in ids_of(session, each)]


def await_ids(cluster: Cluster) -> None:
    """Until it makes IDs, however long the clock needs."""

    def gives() -> bool:
        try:
            cluster.psql(NEXT, DATABASE)
        except SqlError as error:
            if error.sqlstate != TOO_FAR_AHEAD:
                raise
            return False
        return True

    cluster.wait_until(gives, "giving an ID")


def crash(cluster: Cluster, end: str) -> None:
    match end:
        case "kill":
            cluster.kill9()
            cluster.start()
        case "backend":
            since = cluster.log_position
            cluster.kill9(int(cluster.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")))
            cluster.wait_for_log("database system is ready", since)
        case _:
            cluster.restart(end)


def test_ids_that_only_clients_have_seen() -> None:
    """In transactions that never ended, or were rolled back; and the server is back within the same milliseconds."""
    with under_a_clock() as (cluster, clock):
        before = of_all_lanes(cluster)
        clock.freeze()
        for end in ("kill", "backend", "immediate", "fast", "kill"):
            with sessions(cluster, TO_USE_ALL_LANES) as opened:
                for session in opened:
                    session.execute("BEGIN")
                    before += ids_of(session, LEADING)
                    session.execute("ROLLBACK; BEGIN")
                # Nothing ends, so nothing has the log written.
                for session in opened:
                    before += ids_of(session, LEADING)
                crash(cluster, end)
            # The tick after the lead is over.
            clock.step(TICK_S)
            after = of_all_lanes(cluster, LEADING)
            assert min(after) > max(before), end
            before = after
            clock.freeze()


@pytest.mark.any_server
@pytest.mark.parametrize("running", [True, False])
def test_a_clock_that_was_set_back(running: bool) -> None:
    """What was committed is not repeated, however far, nor refused for longer than an administrator wants."""
    with under_a_clock() as (cluster, clock):
        of_all_lanes(cluster)
        clock.freeze()
        with sessions(cluster, TO_USE_ALL_LANES) as opened:
            before = []
            for session in opened:
                session.execute("SET synchronous_commit = on")
                # The sequence logs some values ahead, which no commit has waited for.
                session.execute("BEGIN")
                ids_of(session, 2)
                session.execute("ROLLBACK")
                before += ids_of(session)
            if not running:
                cluster.kill9()
        clock.step(-HOUR)
        if not running:
            cluster.start()
        refused = refusal(cluster, NEXT, DATABASE)
        assert refused.sqlstate == TOO_FAR_AHEAD
        wait, lead, number = (refused.hint or "").split("SELECT ")
        assert wait.startswith("Wait 3")
        as_owner(cluster, f"SELECT {lead.partition(';')[0]}")
        after = of_all_lanes(cluster)
        assert min(after) > max(before)
        # The other way out: IDs of the present, with another number.
        as_owner(cluster, with_number(number, WORKER + 1))
        fresh = of_all_lanes(cluster)
        assert not set(fresh) & {*before, *after}
        assert cluster.psql(f"SELECT worker_id FROM snowflake_parse({fresh[0]})", DATABASE) == str(WORKER + 1)
        # And back to the first: above all that it had.
        clock.put_right()
        as_owner(cluster, f"SELECT id_gen_managed.configure(worker_id => {WORKER})")
        assert min(of_all_lanes(cluster)) > max(after)


def test_a_commit_waits_for_the_log() -> None:
    """Also if it stores nothing, and the sequence had logged ahead in a transaction that was rolled back."""
    with under_a_clock(max_lead="60 s") as (cluster, clock):
        clock.freeze()
        with cluster.connect(DATABASE) as session:
            session.execute("SET synchronous_commit = on")
            before = ids_of(session, 20)
            session.execute("BEGIN")
            before += ids_of(session, 30)
            session.execute("ROLLBACK")
            before += ids_of(session)
            cluster.kill9()
        # So far back that the first call, which is refused, can't move the lanes past them.
        clock.step(-HOUR)
        cluster.start()
        assert refusal(cluster, NEXT, DATABASE).sqlstate == TOO_FAR_AHEAD
        # They lead the clock by a minute, as IDs of a new number do at first.
        clock.step(HOUR)
        assert not set(before) & set(of_all_lanes(cluster))


def test_a_promoted_standby() -> None:
    """It has none of the last IDs in its log, and its clock is behind the primary's."""
    clocks = (FakeClock(), FakeClock(-2))
    with Cluster("primary", conf=LAZY, clock=clocks[0]) as primary:
        install(primary, lanes=LANES)
        with Cluster("standby", conf=LAZY, standby_of=primary, clock=clocks[1]) as standby:
            of_all_lanes(primary)
            primary.psql("CHECKPOINT")
            primary.wait_for_catchup(standby)
            assert refusal(standby, NEXT, DATABASE).sqlstate == RECOVERY
            assert standby.psql("SELECT worker_id FROM snowflake_parse(snowflake_min(now()))", DATABASE) == "0"
            assert standby.psql("SELECT public.uuidv7() < public.uuidv7()", DATABASE) == "t"
            standby.psql("ALTER SYSTEM SET primary_conninfo = ''")
            standby.reload()
            standby.poll_until("SELECT count(*) FROM pg_stat_wal_receiver", expected="0")
            for clock in clocks:
                clock.freeze()
            before = of_all_lanes(primary, LEADING)
            primary.stop("immediate")
            standby.promote()
            standby.poll_until("SELECT NOT pg_is_in_recovery()")
            # It runs on, 2 s behind.
            clocks[1].step(0)
            await_ids(standby)
            after = of_all_lanes(standby)
            assert not set(before) & set(after)
            assert min(after) > max(before)


@pytest.mark.any_server
def test_a_restored_base_backup() -> None:
    """The lanes' positions are in the log like the rows."""
    with Cluster("original", conf=LAZY) as original:
        install(original, lanes=LANES)
        before = of_all_lanes(original)
        with Cluster("restored", conf=LAZY, copy_of=original) as restored:
            assert min(of_all_lanes(restored)) > max(before)


@pytest.mark.any_server
def test_two_databases_of_one_number() -> None:
    """They make the same IDs: nothing of one can be seen in the other, so the documentation has to say it."""
    with under_a_clock() as (cluster, clock):
        clock.freeze()
        install(cluster, "twin", lanes=1, worker_id=3, max_lead="60 s")
        configure(cluster, lanes=1, worker_id=3, max_lead="60 s")
        clock.step(TICK_S)
        batch = "SELECT unnest(snowflake_next_array(5000))"
        ones, others = (cluster.psql(batch, dbname).splitlines() for dbname in (DATABASE, "twin"))
        assert set(ones) & set(others)
