"""What docs/operations.md says of more than one server: typed as it stands there, and then looked at."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg

from harness import Cluster, FakeClock
from harness.ids import NARROW, NEXT, PATIENT, PER_MS, first_id, next_id, run_ahead, time_of
from harness.page import Page

PAGE = Page(Path(__file__).parents[2] / "docs/operations.md")
MOVING = "Moving a worker ID to another server"
CLONING = "Clones and restores"

# The number that the page moves, and those that it gives in first aid and to a copy.
MOVED, FREE, OF_COPY = 7, 17, 8
UNSET = "55000"
EXAMPLE_TIME = re.compile(r"'\d{4}-\d\d-\d\d [^']*'")
WORKER = "SELECT worker_id FROM id_gen_status()"
LEAD_MS = 1_500

CONF = f"{NARROW}{PATIENT}id_gen.max_lead = '2s'\n"


def numbered(worker_id: int) -> str:
    return f"{CONF}id_gen.worker_id = {worker_id}\n"


def shell(cluster: Cluster, command: str) -> str:
    """What a command says that the user types who owns the data directory, with the server's programs."""
    environment = {"PATH": f"{cluster.server.bindir}:{os.environ['PATH']}", "PGDATA": str(cluster.data)}
    done = subprocess.run(
        ["sh", "-ec", command], env=environment, text=True, capture_output=True, **cluster.server.as_owner
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def until_refused(cluster: Cluster) -> list[int]:
    """The IDs of a client that goes on until its server has no number."""
    given = []
    with cluster.connect() as connection:
        try:
            while True:
                given += connection.execute(NEXT).fetchone()
        except psycopg.Error as error:
            assert error.sqlstate == UNSET, error
    return given


class Move:
    """The page's steps between an old server, whose clock is fast and whose IDs lead it, and a new one."""

    def __init__(self, old: Cluster, new: Cluster) -> None:
        self.old, self.new = old, new
        steps = PAGE.blocks("sql", MOVING)
        self._same_layout, self._take_away, self._how_far, self._passed, self._take, self._see = steps

    def see_that_layouts_are_the_same(self) -> None:
        rows = [cluster.psql(self._same_layout).split("|") for cluster in (self.old, self.new)]
        assert rows[0][1:] == [str(MOVED), rows[1][2]]

    def take_it_away(self) -> None:
        self.old.psql(self._take_away)

    def how_far(self) -> str:
        """The time of step 3."""
        answer: list[str] = []

        def gone() -> bool:
            answer[:] = self.old.psql(self._how_far).split("|")
            return answer[0] != str(MOVED)

        self.old.wait_until(gone, "without the number")
        return answer[1]

    def how_far_by_its_file(self) -> str:
        (command,) = PAGE.blocks("sh", MOVING)
        return shell(self.old, command)

    def wait_until_passed(self, reached: str) -> None:
        assert EXAMPLE_TIME.search(self._passed)
        self.new.poll_until(EXAMPLE_TIME.sub(f"'{reached}'", self._passed))

    def take_it(self) -> None:
        self.new.psql(self._take)
        self.new.poll_until(WORKER, expected=str(MOVED))
        assert self.new.psql(self._see) == f"ready|{MOVED}"


def old_and_new(stack: ExitStack, ahead_s: float = 1) -> Move:
    old = stack.enter_context(Cluster("old", conf=numbered(MOVED), clock=FakeClock(ahead_s)))
    new = stack.enter_context(Cluster("new", conf=numbered(2)))
    for cluster in (old, new):
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
    return Move(old, new)


def test_a_moved_number_goes_on_above() -> None:
    """While a client of the old server asks for IDs until the last moment, and the new one has made others."""
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        move = old_and_new(stack)
        given = [run_ahead(move.old, LEAD_MS)]
        client = pool.submit(until_refused, move.old)
        move.see_that_layouts_are_the_same()
        move.take_it_away()
        reached = move.how_far()
        given += client.result()
        move.wait_until_passed(reached)
        move.take_it()
        assert next_id(move.new) > max(given)


def test_the_number_of_a_server_that_died_goes_on_above() -> None:
    with ExitStack() as stack:
        move = old_and_new(stack)
        last = run_ahead(move.old, LEAD_MS)
        last_ms = time_of(move.old, last)
        move.old.kill9()
        reached = move.how_far_by_its_file()
        assert move.new.psql(f"SELECT '{reached}'::timestamptz > to_timestamp({last_ms} / 1000.0)") == "t"
        move.wait_until_passed(reached)
        move.take_it()
        assert next_id(move.new) > last


def test_without_the_wait_a_moved_number_goes_on_below() -> None:
    """What the page's fourth step is for."""
    with ExitStack() as stack:
        move = old_and_new(stack, ahead_s=60)
        last = run_ahead(move.old, LEAD_MS)
        move.take_it_away()
        move.how_far()
        move.take_it()
        assert next_id(move.new) < last


def test_a_clone_has_a_number_of_its_own() -> None:
    take = f"SELECT unnest(snowflake_next_array({LEAD_MS * PER_MS}))"
    give_a_number, see_before_the_start = PAGE.blocks("sh", CLONING)
    see, accept_copy = PAGE.blocks("sql", CLONING)
    with ExitStack() as stack:
        original = stack.enter_context(Cluster("original", conf=CONF))
        original.psql(f"CREATE EXTENSION id_gen; ALTER SYSTEM SET id_gen.worker_id = {MOVED}")
        original.restart()
        before = run_ahead(original, LEAD_MS)
        copy = Cluster("copy", copy_of=original)
        stack.push(copy)
        copy.init()
        assert shell(copy, see_before_the_start) == str(MOVED)
        shell(copy, give_a_number)
        assert shell(copy, see_before_the_start) == str(OF_COPY)
        copy.start()
        state, worker_id, source = copy.psql(see).split("|")
        assert (state, worker_id) == ("ready", str(OF_COPY))
        assert "/postgresql.auto.conf:" in source
        copy.psql(accept_copy)
        assert copy.psql(see).split("|")[1] == str(OF_COPY)
        assert next_id(copy) > before
        of_both = [set(cluster.psql(take).split()) for cluster in (original, copy)]
        assert not of_both[0] & of_both[1]


def test_a_failover() -> None:
    (first_aid,) = [sql for sql in PAGE.blocks("sql", "First aid") if "id_gen_check" in sql]
    promote, checks = PAGE.blocks("sql", "Failover")
    with Cluster("primary", conf=numbered(MOVED)) as primary:
        primary.psql("CREATE EXTENSION id_gen")
        with Cluster("standby", standby_of=primary) as standby:
            last = run_ahead(primary, LEAD_MS)
            primary.wait_for_catchup(standby)
            assert "recovery|warning|" in standby.psql(first_aid)
            primary.stop("immediate")
            standby.psql(promote)
            first = first_id(standby)
            assert first > last
            assert standby.psql(f"SELECT worker_id FROM snowflake_parse({first})") == str(MOVED)
            standby.wait_until(lambda: "|error|" not in standby.psql(checks), "without errors")
            assert "recovery|" not in standby.psql(checks)
