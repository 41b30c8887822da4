"""After `snowflake_advance(id)` every snowflake that the server hands out is larger: over servers whose clocks differ,
over sessions that hold IDs, over crashes and changes of the number; what is too far ahead of the clock is refused."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import GENERATING, Cluster, FakeClock
from harness.ids import (
    IMPATIENT,
    NARROW,
    NEXT,
    PATIENT,
    STRICT,
    TOO_FAR_AHEAD,
    Caller,
    change,
    first_id,
    next_id,
    refusal,
)
from harness.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs/causal-order.md")

LOGICAL = "wal_level = logical\n"
# A layout with a tick that a session of a test fits in.
SECONDS = "epoch=2024-01-01 tick=1s time:28 worker:22 sequence:13"
BULK = "SELECT max(snowflake_next()) FROM generate_series(1, 200)"
NOT_READY = "55000"


def observe(cluster: Cluster, snowflake: int | str) -> None:
    cluster.psql(f"SELECT snowflake_advance({snowflake})")


@contextmanager
def standing_still(conf: str) -> Iterator[Cluster]:
    """A server whose clock stands still, in a tick of which it has made one ID."""
    clock = FakeClock()
    with Cluster(conf=conf, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        clock.freeze()
        first_id(cluster)
        yield cluster


def worker(number: int) -> str:
    return GENERATING.replace("worker_id = 1", f"worker_id = {number}")


@pytest.mark.any_server
@pytest.mark.parametrize("conf", ["", "id_gen.max_block_size = 1\n", "id_gen.layout = 'sonyflake'\n"])
def test_every_effect_is_above_its_cause_on_servers_with_clocks_seconds_apart(conf: str) -> None:
    with (
        Cluster("ahead", conf=worker(1) + conf, clock=FakeClock(3)) as ahead,
        Cluster("behind", conf=worker(2) + conf, clock=FakeClock(-1)) as behind,
    ):
        for cluster in (ahead, behind):
            cluster.psql("CREATE EXTENSION id_gen")
        assert next_id(behind) < next_id(ahead), "the clocks differ by less than a call takes"
        with ahead.connect() as one, behind.connect() as other:
            passed = [next_id(ahead)]
            for _ in range(50):
                for session in (other, one):
                    session.execute("SELECT snowflake_advance(%s)", [passed[-1]])
                    row = session.execute(NEXT).fetchone()
                    assert row
                    passed.append(row[0])
        assert passed == sorted(set(passed))


@pytest.mark.any_server
def test_what_is_further_ahead_than_allowed_is_refused_and_the_hint_leads_out() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        far = int(cluster.psql("SELECT snowflake_min(clock_timestamp() + interval '1 min')"))
        error = refusal(cluster, f"SELECT snowflake_advance({far})")
        assert (error.sqlstate, error.message) == (TOO_FAR_AHEAD, f"snowflake {far} is too far ahead of the clock")
        assert re.search(
            r"time is \d.* in the future; id_gen.max_lead allows 5 s and one tick \(1 ms\)", error.detail or ""
        )
        assert next_id(cluster) < far
        assert cluster.psql("SELECT refused_lead FROM id_gen_stat") == "1"
        _, found, command = (error.hint or "").partition("ALTER SYSTEM")
        cluster.psql(found + command)
        cluster.wait_until(lambda: cluster.psql("SHOW id_gen.max_lead") != "5s", "reading its settings")
        observe(cluster, far)
        assert next_id(cluster) > far

        of_another_layout = (1 << 62) + 1
        error = refusal(cluster, f"SELECT snowflake_advance({of_another_layout})")
        assert error.sqlstate == TOO_FAR_AHEAD
        assert str(of_another_layout) in cluster.psql((error.hint or "").partition(": ")[2])


@pytest.mark.any_server
@pytest.mark.parametrize("layout", ["default", "sonyflake", SECONDS])
@pytest.mark.parametrize("patience", ["", IMPATIENT])
def test_without_a_lead_ids_of_this_tick_and_the_next_are_right(layout: str, patience: str) -> None:
    tick = {"default": "1 ms", "sonyflake": "10 ms", SECONDS: "1 s"}[layout]
    with Cluster(conf=f"{GENERATING}{STRICT}{patience}id_gen.layout = '{layout}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        first_id(cluster)
        for bound in ("snowflake_max(clock_timestamp())", f"snowflake_min(clock_timestamp() + interval '{tick}')"):
            observed = int(cluster.psql(f"SELECT id FROM (SELECT {bound} AS id) x, snowflake_advance(id)"))
            assert first_id(cluster) > observed
        far = "snowflake_min(clock_timestamp() + interval '1 minute')"
        error = refusal(cluster, f"SELECT snowflake_advance({far})")
        assert error.sqlstate == TOO_FAR_AHEAD, error


@pytest.mark.any_server
def test_no_more_of_a_tick_is_used_than_it_takes() -> None:
    with standing_still(GENERATING + "id_gen.layout = 'sonyflake'\n") as cluster:
        # In this layout the machine's number comes last.
        last = next_id(cluster)
        lower, higher = ((last & ~0xFFFF) + (sequence << 16) + machine for sequence, machine in ((20, 0), (30, 7)))
        observe(cluster, lower)
        assert next_id(cluster) == lower + 1
        observe(cluster, higher)
        assert next_id(cluster) == higher + (1 << 16) - 6
        assert next_id(cluster) == higher + (2 << 16) - 6


@pytest.mark.parametrize("max_block", [64, 1])
def test_sessions_go_on_above_it_whatever_they_hold(max_block: int) -> None:
    with (
        standing_still(f"{GENERATING}id_gen.layout = '{SECONDS}'\nid_gen.max_block_size = {max_block}\n") as cluster,
        Caller(cluster) as bulk,
        Caller(cluster) as rows,
        bulk.transaction(),
        rows.transaction(),
    ):
        rows._connection.execute("DECLARE batch CURSOR FOR SELECT snowflake_next_batch(1000)")
        before = [bulk.ask(BULK), rows.ask("FETCH batch")]
        observed = int(cluster.psql(f"SELECT snowflake_next() + 100 FROM ({BULK}) x"))
        assert all(id < observed for id in before)
        observe(cluster, observed)
        assert bulk.ask() > observed
        assert rows.ask("FETCH batch") > observed


@pytest.mark.any_server
def test_a_change_of_the_number_does_not_go_below() -> None:
    """The node's bits are above the sequence: an ID of another node of the same tick may be above all of one's own."""
    with standing_still(worker(9)) as cluster:
        observed = next_id(cluster) - (4 << 12)
        cluster.psql("SELECT snowflake_next()")
        observe(cluster, f"({observed} >> 12 << 12)")
        above = next_id(cluster)
        change(cluster, "worker_id", "2")
        cluster.wait_until(lambda: cluster.psql("SELECT worker_id FROM id_gen_status()") == "2", "worker 2")
        assert next_id(cluster) > max(observed, above)


@pytest.mark.parametrize("ahead", ["4 s", "4.999 s"])
@pytest.mark.parametrize("how", ["kill9", "fast"])
def test_it_outlives_the_server(ahead: str, how: str) -> None:
    """Nothing is made between the observation and the end; what is observed is further ahead than was reserved."""
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        observed = f"snowflake_max(clock_timestamp() + interval '{ahead}')"
        observed = cluster.psql(f"SELECT id FROM (SELECT {observed} AS id) x, snowflake_advance(id)")
        if how == "kill9":
            cluster.kill9()
        else:
            cluster.stop("fast")
        cluster.start()
        assert first_id(cluster) > int(observed)


@pytest.mark.any_server
def test_under_a_clock_that_jumped_nothing_is_raised() -> None:
    clock = FakeClock()
    with Cluster(conf=NARROW + IMPATIENT, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        clock.step(3600)
        error = refusal(cluster, "SELECT snowflake_advance(snowflake_min(clock_timestamp()))")
        assert (error.sqlstate, error.message) == (NOT_READY, "the clock jumped forward")
        clock.put_right()
        # An hour ahead it would be refused.
        assert next_id(cluster) > 0


@pytest.mark.any_server
def test_bad_ids_and_servers_that_make_none_are_refused() -> None:
    with Cluster(conf=GENERATING.replace("id_gen.worker_id = 1\n", "")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        error = refusal(cluster, "SELECT snowflake_advance(1)")
        assert (error.sqlstate, error.message) == (NOT_READY, "id_gen.worker_id is not set")
        change(cluster, "worker_id", "1")
        cluster.poll_until("SELECT worker_id FROM id_gen_status()", expected="1")
        # This starts it.
        observe(cluster, 1)
        error = refusal(cluster, "SELECT snowflake_advance(NULL)")
        assert error.sqlstate == "22004"
        assert "WHERE id IS NOT NULL" in (error.hint or "")
        error = refusal(cluster, "SELECT snowflake_advance(-1)")
        assert (error.sqlstate, error.message) == ("22003", "snowflake -1 is out of range for the layout")
        assert (error.hint or "").startswith("Pass an ID of this server's layout.")
        with Cluster("standby", standby_of=cluster) as standby:
            assert refusal(standby, "SELECT snowflake_advance(1)").sqlstate == "25006"
        cluster.psql("CREATE ROLE app LOGIN")
        as_app = "SET ROLE app; SELECT snowflake_advance(1)"
        assert refusal(cluster, as_app).sqlstate == "42501"
        cluster.psql(f"GRANT EXECUTE ON FUNCTION snowflake_advance(bigint) TO app; {as_app}")


@pytest.mark.parametrize("owner", ["postgres", "keeper_of_the_table"])
def test_a_subscriber_observes_the_rows_that_it_applies(owner: str) -> None:
    """As the page has it, also where rows are applied as an owner who may not observe; the first copy included."""
    table, trigger = PAGE.blocks("sql", "Rows that logical replication applies")[0].split("\n\n")
    subscribing = worker(2) + LOGICAL
    with (
        Cluster("publisher", conf=worker(1) + LOGICAL, clock=FakeClock(3)) as publisher,
        Cluster("subscriber", conf=subscribing) as subscriber,
    ):
        for cluster in (publisher, subscriber):
            cluster.psql(f"CREATE EXTENSION id_gen; {table}")
        subscriber.psql(trigger)
        if owner != "postgres":
            subscriber.psql(f"CREATE ROLE {owner}; ALTER TABLE question OWNER TO {owner}")
        ask = "INSERT INTO question (body) VALUES ('really?') RETURNING id"
        asked = [int(publisher.psql(ask))]
        publisher.psql("CREATE PUBLICATION questions FOR TABLE question")
        subscriber.psql(f"CREATE SUBSCRIPTION questions CONNECTION '{publisher.conninfo()}' PUBLICATION questions")
        for _ in range(3):
            subscriber.poll_until(f"SELECT count(*) FROM question WHERE id = {asked[-1]}", expected="1")
            assert next_id(subscriber) > asked[-1]
            asked.append(int(publisher.psql(ask)))
        # A row that is written here was made here.
        before = next_id(subscriber)
        far = "snowflake_min(clock_timestamp() + interval '1 h')"
        subscriber.psql(f"INSERT INTO question VALUES ({far}, 'when?')")
        assert before < next_id(subscriber)
        subscriber.psql("DROP SUBSCRIPTION questions")


@pytest.mark.any_server
def test_a_trigger_on_another_column_says_so() -> None:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("""
            CREATE EXTENSION id_gen;
            CREATE TABLE note (number integer, other bigint);
            CREATE TRIGGER observe AFTER INSERT OR UPDATE ON note
                FOR EACH ROW EXECUTE FUNCTION snowflake_advance_trigger('number')
        """)
        error = refusal(cluster, "INSERT INTO note VALUES (1, 1)")
        assert error.sqlstate == "42703"
        assert "EXECUTE FUNCTION snowflake_advance_trigger('id')" in (error.hint or "")
