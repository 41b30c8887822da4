"""A database goes from an older server to a newer one, by pg_upgrade or by a dump: everything goes on.

pg_upgrade carries tables and the extension's catalog entries, but no file of ours, and makes a cluster with another
system identifier. Every server preloads the library, or only those that cannot do without.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from harness import GENERATING, PRELOAD, Cluster, FakeClock, Server
from harness.catalog import CREATE_ALL, EXTENSIONS, fresh, installed
from harness.clock import ahead_ms
from harness.ids import IMPATIENT, NARROW, TOO_FAR_AHEAD, first_id, next_id, refusal, run_ahead, time_of
from harness.managed import DATABASE, install
from harness.masks import MASKING, write_key_file
from harness.reservation import Reservation

PATH = Server.upgrade_path()
OLDEST, NEWEST = PATH[0], PATH[-1]

MODES = pytest.mark.parametrize("mode", ["preloaded", "not-preloaded"])
NEEDS_NO_PRELOAD_SINCE = 17

IDS = 1_000_000
UUIDS = 1_000
HOUR = 3_600

# What names our functions in every way that a dump carries.
SCHEMA = f"""
    {CREATE_ALL};
    CREATE TABLE item (id bigint PRIMARY KEY DEFAULT snowflake_next());
    CREATE TABLE event (
        id uuid PRIMARY KEY DEFAULT public.uuidv7(),
        version smallint GENERATED ALWAYS AS (public.uuid_extract_version(id)) STORED
    );
    CREATE INDEX ON event (public.uuid_extract_timestamp(id));
    CREATE VIEW event_time AS SELECT public.uuid_extract_timestamp(id) AS at FROM event;
    CREATE VIEW shown AS SELECT id_mask(id, 'item') AS id FROM item;
"""
MASK = "SELECT id_mask(1, 'item')"

# The function behind a column's default, as the dependencies know it, and the default in the words of a dump.
DEFAULT = """
    SET search_path = '';
    SELECT d.refobjid::regprocedure, e.extname, pg_get_expr(a.adbin, a.adrelid)
      FROM pg_attrdef a
      JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid
       AND d.refclassid = 'pg_proc'::regclass
      JOIN pg_depend m ON m.classid = 'pg_proc'::regclass AND m.objid = d.refobjid AND m.deptype = 'e'
      JOIN pg_extension e ON e.oid = m.refobjid
     WHERE a.adrelid = 'public.{table}'::regclass AND a.adnum = 1
"""


def settings(server: Server, mode: str, conf: str = GENERATING) -> str:
    """The settings of a server in that mode, if it has that mode."""
    return conf if mode == "preloaded" or server.version < NEEDS_NO_PRELOAD_SINCE else conf.replace(PRELOAD, "")


@contextmanager
def upgraded(old: Cluster, server: Server, **arguments: object) -> Iterator[Cluster]:
    """A cluster of another version that has taken over from a running one, and runs."""
    with ExitStack() as clusters:
        new = not_started(old, server, clusters, **arguments)
        new.take_over()
        new.start()
        yield new


def not_started(old: Cluster, server: Server, clusters: ExitStack, **arguments: object) -> Cluster:
    """A cluster that is to take over from a running one, which it stops."""
    old.stop()
    new = Cluster(f"on_{server.version}", server=server, upgrade_of=old, **arguments)
    clusters.push(new)
    new.init()
    return new


def insert(cluster: Cluster, ids: int, uuids: int) -> None:
    cluster.psql(f"INSERT INTO item SELECT FROM generate_series(1, {ids})")
    cluster.psql(f"INSERT INTO event SELECT FROM generate_series(1, {uuids})")


def assert_defaults_are_ours(cluster: Cluster) -> None:
    for table, function in (("item", "public.snowflake_next()"), ("event", "public.uuidv7()")):
        assert cluster.psql(DEFAULT.format(table=table)) == f"{function}|id_gen|{function}"


@MODES
@pytest.mark.parametrize("old", [OLDEST, PATH[-2]], ids=lambda server: str(server.version))
def test_a_million_ids_before_and_after(old: Server, mode: str) -> None:
    with Cluster("old", server=old, conf=settings(old, mode) + MASKING) as cluster:
        cluster.psql(SCHEMA)
        write_key_file(cluster)
        masked = cluster.psql(MASK)
        insert(cluster, IDS, UUIDS)
        assert_defaults_are_ours(cluster)
        highest = int(cluster.psql("SELECT max(id) FROM item"))
        with upgraded(cluster, NEWEST, conf=settings(NEWEST, mode) + MASKING) as new:
            write_key_file(new)
            assert new.psql(MASK) == masked
            assert new.psql("SELECT count(DISTINCT id) FROM shown") == str(IDS)
            assert first_id(new) > highest
            insert(new, IDS, UUIDS)
            assert new.psql(f"SELECT count(*) FROM item WHERE id > {highest}") == str(IDS)
            assert new.psql("SELECT count(DISTINCT id) FROM item") == str(2 * IDS)
            assert new.psql("SELECT count(DISTINCT id), sum(version) FROM event") == f"{2 * UUIDS}|{7 * 2 * UUIDS}"
            assert new.psql("SELECT count(*) FROM event_time WHERE at <= clock_timestamp()") == str(2 * UUIDS)
            assert_defaults_are_ours(new)
            assert new.psql("SELECT preloaded FROM id_gen_status()") == ("t" if mode == "preloaded" else "f")


def test_the_script_for_managed_services_goes_on() -> None:
    """The new cluster has another system identifier, and is no copy."""
    with Cluster("old", server=OLDEST) as cluster:
        install(cluster)
        cluster.psql("SELECT snowflake_next()", DATABASE)
        cluster.restart()
        last = int(cluster.psql("SELECT snowflake_next()", DATABASE))
        with upgraded(cluster, NEWEST) as new:
            assert int(new.psql("SELECT snowflake_next()", DATABASE)) > last


@MODES
def test_a_dump_of_the_oldest_in_the_newest(mode: str, tmp_path: Path) -> None:
    """The new server knows nothing of the old IDs: only the time that this takes keeps its own above them."""
    with ExitStack() as clusters:
        old = clusters.enter_context(Cluster("oldest", server=OLDEST, conf=GENERATING))
        old.psql(SCHEMA)
        insert(old, UUIDS, UUIDS)
        new = clusters.enter_context(Cluster("newest", server=NEWEST, conf=settings(NEWEST, mode)))
        dump = tmp_path / "dump"
        new.run("pg_dump", "--format=custom", f"--file={dump}", f"--dbname={old.conninfo()}")
        new.run("pg_restore", "--exit-on-error", "--dbname=postgres", dump)
        for extension in EXTENSIONS:
            assert installed(new, extension=extension) == fresh(new, extension)
        assert_defaults_are_ours(new)
        insert(new, UUIDS, UUIDS)
        for table in ("item", "event"):
            assert new.psql(f"SELECT count(DISTINCT id) FROM {table}") == str(2 * UUIDS)


@MODES
@pytest.mark.parametrize(("old", "new"), list(pairwise(PATH)), ids=lambda server: str(server.version))
def test_ids_that_led_the_clock_are_not_repeated(old: Server, new: Server, mode: str) -> None:
    """The clock stands still while pg_upgrade runs: time that passes is not what makes it safe."""
    clock = FakeClock()
    conf = NARROW + IMPATIENT
    with Cluster("led", server=old, conf=settings(old, mode, conf), clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        clock.freeze()
        last = run_ahead(cluster, 4_900)
        with upgraded(cluster, new, conf=settings(new, mode, conf), clock=clock) as successor:
            successor.psql("ALTER EXTENSION id_gen UPDATE")
            assert installed(successor) == fresh(successor)
            assert refusal(successor).sqlstate == TOO_FAR_AHEAD
            clock.step(4)
            first = first_id(successor)
            assert first > last
            # What the upgrade asked for was asked once.
            assert not Reservation(successor).upgraded.exists()
            successor.restart("immediate")
            assert first_id(successor) > first
            successor.psql("DROP EXTENSION id_gen")
            assert not installed(successor)


def test_an_upgrade_without_the_extension_is_noted() -> None:
    """As by those who drop what may be in the way of pg_upgrade, and create it anew: the keys are in their tables."""
    clock = FakeClock()
    conf = NARROW + IMPATIENT
    with Cluster("led", server=OLDEST, conf=conf, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE TABLE item AS SELECT snowflake_next() AS id")
        clock.freeze()
        last = run_ahead(cluster, 4_900)
        cluster.psql("DROP EXTENSION id_gen")
        with upgraded(cluster, NEWEST, conf=conf, clock=clock) as successor:
            successor.psql("CREATE EXTENSION id_gen")
            assert refusal(successor).sqlstate == TOO_FAR_AHEAD
            clock.step(4)
            assert first_id(successor) > last


@pytest.mark.parametrize("carried", ["reservation", "."], ids=["file", "directory"])
def test_a_carried_file_says_exactly_how_far_ids_went(carried: str) -> None:
    """The old server's clock was an hour fast, which the new one can know from the old one's file alone."""
    conf, clock = f"{NARROW}{IMPATIENT}id_gen.max_clock_jump = '{2 * HOUR}s'\n", FakeClock()
    with ExitStack() as clusters:
        old = clusters.enter_context(Cluster("fast", server=OLDEST, conf=conf, clock=FakeClock(HOUR)))
        old.psql("CREATE EXTENSION id_gen")
        last = run_ahead(old, 100)
        new = not_started(old, NEWEST, clusters, conf=conf, clock=clock)
        new.take_over()
        before, after = Reservation(old), Reservation(new)
        subprocess.run(["cp", "-a", f"{before.directory}/{carried}", after.directory], check=True)
        new.start()
        error = refusal(new)
        assert error.sqlstate == TOO_FAR_AHEAD
        assert ahead_ms(error.detail) > 1000 * HOUR / 2
        clock.step(HOUR)
        assert first_id(new) > last
        # Now it is the new one's own.
        assert after.fields["system"] != before.fields["system"]


@MODES
def test_an_upgrade_that_is_only_checked_leaves_no_trace(mode: str) -> None:
    """pg_upgrade --check starts both servers as the real one does, and then the old one goes on."""
    conf = f"{NARROW}id_gen.max_lead = '24h'\n"
    with ExitStack() as clusters:
        old = clusters.enter_context(Cluster("old", server=OLDEST, conf=conf))
        old.psql("CREATE EXTENSION id_gen")
        last = first_id(old)
        new = not_started(old, NEWEST, clusters, conf=settings(NEWEST, mode, conf))
        new.take_over("--check")
        for cluster in (old, new):
            assert not Reservation(cluster).upgraded.exists()
        old.start()
        assert time_of(old, first_id(old)) - time_of(old, last) < 1000 * HOUR
        assert first_id(old) > last
        # Whose file it is, is noticed as before.
        old.stop()
        Reservation(old).forge(system="1")
        old.start()
        assert "is a copy with the worker ID" in str(refusal(old))


def test_no_upgrade_that_can_not_be_noted() -> None:
    with ExitStack() as clusters:
        old = clusters.enter_context(Cluster("old", server=OLDEST, conf=GENERATING))
        old.psql("CREATE EXTENSION id_gen")
        new = not_started(old, NEWEST, clusters, conf=GENERATING)
        (new.data / "id_gen").write_text("in the way")
        with pytest.raises(RuntimeError, match="pg_upgrade failed"):
            new.take_over()
        assert 'could not write file "id_gen/upgraded"' in "".join(
            log.read_text() for log in new.data.glob("pg_upgrade_output.d/*/log/*.log")
        )
