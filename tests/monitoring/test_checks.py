"""Each check of id_gen_check() is provoked once, names what to type, and is ok again when that has been typed."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path

import psycopg
import pytest

from harness import GENERATING, PRELOAD, PRELOADED, Cluster, FakeClock, SqlError
from harness.checks import CHECKS, CHOSEN_WORKER_ID, STATEMENT, checks, follow, remedy, wait_for
from harness.etcd import Etcd
from harness.fleet import await_number, create_fleet, member_conf, silent
from harness.ids import IMPATIENT, NARROW, PATIENT, PER_MS, array_of, next_id, refusal, run_ahead, stepped
from harness.reservation import Reservation
from harness.shim import compiled

HOUR = 3600
PRELOADING = PRELOAD if PRELOADED else ""

STATE = "SELECT state FROM id_gen_status()"

# On a server with nothing wrong; whether a time service runs is the machine's business.
NOT_OURS = {"clock_synchronized"}


@contextmanager
def server(conf: str, clock: FakeClock | None = None) -> Iterator[Cluster]:
    with Cluster(conf=conf, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen_tools CASCADE")
        yield cluster


# The columns that do not hold the snowflakes which fill them, and what the check says of them.
NARROW_TABLES = """
    CREATE DOMAIN small AS integer;
    CREATE DOMAIN smaller AS small CHECK (VALUE <> 0);
    CREATE TABLE item (id bigint PRIMARY KEY DEFAULT snowflake_next());
    CREATE TABLE part (item integer PRIMARY KEY REFERENCES item, of_part integer REFERENCES part);
    CREATE TABLE base (id integer);
    CREATE TABLE derived () INHERITS (base);
    CREATE TABLE further () INHERITS (derived);
    ALTER TABLE derived ALTER COLUMN id SET DEFAULT snowflake_next();
    CREATE TABLE month (id integer, number integer) PARTITION BY RANGE (number);
    CREATE TABLE january PARTITION OF month (id DEFAULT snowflake_next()) FOR VALUES FROM (0) TO (10);
    CREATE TABLE odd (
        a smaller DEFAULT snowflake_next(), b numeric(12) DEFAULT snowflake_next(),
        c varchar(10) DEFAULT snowflake_next(), d numeric(20, 2) DEFAULT snowflake_next()::numeric,
        e integer DEFAULT coalesce(NULL, snowflake_next()::integer),
        f char(18) DEFAULT CASE WHEN current_user = 'nobody' THEN '0' ELSE snowflake_next()::text END);
"""
NARROW_COLUMNS = [
    "public.base.id is integer",
    "public.month.id is integer",
    "public.odd.a is public.smaller",
    "public.odd.b is numeric(12,0)",
    "public.odd.c is character varying(10)",
    "public.odd.d is numeric(20,2)",
    "public.odd.e is integer",
    "public.odd.f is character(18)",
    "public.part.item is integer",
    "public.part.of_part is integer",
]
SOUND_COLUMNS = """
    CREATE DOMAIN large AS bigint;
    CREATE TABLE sound (
        a integer DEFAULT (snowflake_next() % 10)::integer, b integer DEFAULT abs(hashint8(snowflake_next())),
        c numeric(19) DEFAULT snowflake_next(), d numeric DEFAULT snowflake_next(),
        e varchar(19) DEFAULT snowflake_next(), f text DEFAULT snowflake_next(), g large DEFAULT snowflake_next());
"""


def days_ago(days: int) -> date:
    return date.today() - timedelta(days=days)


def test_nothing_is_wrong_with_a_server_set_up_as_the_readme_says() -> None:
    with server(GENERATING) as cluster:
        next_id(cluster)
        wrong = {name for name, check in checks(cluster).items() if check.status != "ok"} - NOT_OURS
        assert wrong == set()


def test_each_check_is_provoked_here() -> None:
    with server(GENERATING) as cluster:
        names = cluster.psql("SELECT name FROM id_gen_check() UNION SELECT name FROM id_gen_check('pg_class', 'oid')")
        assert len(names.split()) > 10
        here = Path(__file__).read_text()
        assert [name for name in names.split() if f'"{name}"' not in here and f"'{name}'" not in here] == []


def test_privileges() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("CREATE ROLE reader")
        as_reader = f"SET ROLE reader; {CHECKS} WHERE name = 'privileges'"
        found = cluster.psql(as_reader).split("|")
        assert found[:2] == ["privileges", "warning"]
        # The rest of what it may see, it sees.
        assert cluster.psql("SET ROLE reader; SELECT count(*) FROM id_gen_check() WHERE status = 'error'") == "0"
        follow(cluster, found[3])
        assert cluster.psql(as_reader).split("|")[1] == "ok"
        assert cluster.psql("SET ROLE reader; SELECT count(*) > 10 FROM id_gen_check()") == "t"


def test_preload() -> None:
    with server("id_gen.worker_id = 1\n") as cluster:
        if cluster.server.version >= 17:
            assert "sessions load the library" in checks(cluster)["preload"].found
        else:
            remedy(cluster, "preload", "error")
        assert next_id(cluster)


def test_settings() -> None:
    """A misspelled name is in no list of parameters, and nobody looks for its one line in the log."""
    with server(f"{GENERATING}Id_Gen.Max_Lead = '4s'\n") as cluster:
        assert checks(cluster)["settings"].status == "ok"
        cluster.append_conf("id_gen.max_laed = '1s'")
        found = wait_for(cluster, "settings", "warning")
        assert f"id_gen.max_laed ({cluster.data}/postgresql.conf:" in found.found
        assert "max_Lead" not in found.found
        (typed,) = STATEMENT.findall(found.remedy or "")
        assert "id_gen.max_lead" in cluster.psql(f"LOAD 'id_gen'; {typed}").split()
        cluster.psql("CREATE ROLE watching IN ROLE pg_monitor")
        as_watching = f"SET ROLE watching; SELECT status FROM ({CHECKS}) c WHERE name = 'settings'"
        may_read = cluster.psql("SET ROLE watching; SELECT has_table_privilege('pg_file_settings', 'SELECT')") == "t"
        assert cluster.psql(as_watching) == ("warning" if may_read else "ok")
        conf = cluster.data / "postgresql.conf"
        conf.write_text(conf.read_text().replace("max_laed", "max_lead"))
        wait_for(cluster, "settings", "ok")


def test_settings_of_the_command_line() -> None:
    """As in containers; what a HINT says to change by ALTER SYSTEM has no effect then."""
    with server(GENERATING) as cluster:
        cluster.arguments = ["-c", "id_gen.worker_id=3"]
        cluster.restart()
        assert checks(cluster)["settings"].status == "ok"
        cluster.psql("ALTER SYSTEM SET id_gen.worker_id = 5")
        found = wait_for(cluster, "settings", "warning")
        assert f"id_gen.worker_id ({cluster.data}/postgresql.auto.conf:" in found.found
        assert cluster.psql("SELECT worker_id FROM id_gen_status()") == "3"


def test_recovery() -> None:
    with server(GENERATING) as cluster, Cluster("standby", standby_of=cluster) as standby:
        cluster.wait_for_catchup(standby)
        wait_for(standby, "recovery", "warning")
        cluster.stop()
        remedy(standby, "recovery", "warning")


def test_worker_unset() -> None:
    with server(PRELOADING) as cluster:
        found = wait_for(cluster, "worker_id", "error")
        assert "from 0 to 31 that no other server uses" in (found.remedy or "")
        # On the next server it would be the same number, so as it stands it is not to be run.
        with pytest.raises(SqlError) as refused:
            cluster.psql((found.remedy or "").partition(": ")[2])
        assert refused.value.sqlstate == "42601"
        remedy(cluster, "worker_id", "error")
        assert next_id(cluster)


def test_worker_out_of_range() -> None:
    with server(f"{PRELOADING}id_gen.worker_id = 32\n") as cluster:
        remedy(cluster, "worker_id", "error")
        assert next_id(cluster)


def test_datacenter_out_of_range() -> None:
    with server(f"{GENERATING}id_gen.datacenter_id = 32\n") as cluster:
        found = wait_for(cluster, "worker_id", "error")
        follow(cluster, (found.remedy or "").replace("<datacenter ID>", "31"))
        wait_for(cluster, "worker_id", "ok")


def test_worker_zero_where_others_copy_the_server() -> None:
    with server(f"{PRELOADING}id_gen.worker_id = 0\n") as cluster:
        assert checks(cluster)["worker_id"].status == "ok"
        cluster.psql("SELECT pg_create_physical_replication_slot('replica')")
        assert "1 replication slot" in remedy(cluster, "worker_id", "warning").found


@pytest.mark.long
def test_a_fleet_whose_registry_is_silent() -> None:
    with Etcd() as etcd, server(member_conf(etcd.endpoints)) as cluster:
        wait_for(cluster, "fleet", "error")
        create_fleet(cluster)
        await_number(cluster)
        assert "renewals" in wait_for(cluster, "fleet", "ok").found
        with silent(etcd):
            assert "does not answer in time" in wait_for(cluster, "fleet", "warning").found
        wait_for(cluster, "fleet", "ok")


def test_layout_that_is_none() -> None:
    with server(f"{GENERATING}id_gen.layout = 'nonsense'\n") as cluster:
        assert "nonsense" in remedy(cluster, "layout", "error").found
        assert next_id(cluster)


def test_layout_that_waits_for_a_restart() -> None:
    with server(GENERATING) as cluster:
        next_id(cluster)
        cluster.psql("ALTER SYSTEM SET id_gen.layout = 'wide'; SELECT pg_reload_conf()")
        remedy(cluster, "layout", "warning")


@pytest.mark.parametrize(("age_days", "status"), [(366, "warning"), (4 * 366, "warning"), (5 * 366, "error")])
def test_layout_end(age_days: int, status: str) -> None:
    """2^37 ms are 4.4 years."""
    layout = f"epoch={days_ago(age_days)} tick=1ms time:37 worker:5 sequence:12"
    with server(f"{GENERATING}id_gen.layout = '{layout}'\n") as cluster:
        before = next_id(cluster) if status == "warning" else 0
        remedy(cluster, "layout_end", status)
        assert next_id(cluster) > before


def test_clock_jump() -> None:
    with stepped(HOUR, GENERATING) as (cluster, _, before):
        remedy(cluster, "clock_jump", "error")
        assert next_id(cluster) > before


def test_clock_jump_beside_an_unset_worker() -> None:
    with stepped(HOUR, GENERATING) as (cluster, _, before):
        cluster.psql("ALTER SYSTEM SET id_gen.worker_id = -1; SELECT pg_reload_conf()")
        wait_for(cluster, "worker_id", "error")
        remedy(cluster, "clock_jump", "error")
        remedy(cluster, "worker_id", "error")
        assert next_id(cluster) > before


@pytest.mark.parametrize(("hours", "name"), [(2, "clock_jump"), (-2, "lead")])
def test_a_clock_that_was_set_while_the_server_was_down(hours: int, name: str) -> None:
    """What the first call will find is reported before it, and the remedy helps before it, too."""
    with stepped(0, GENERATING) as (cluster, clock, before):
        cluster.stop()
        clock.step(hours * HOUR)
        cluster.start()
        state = {"clock_jump": "the clock jumped forward", "lead": "no snowflake is available yet"}[name]
        assert cluster.psql(STATE) == state
        remedy(cluster, name, "error")
        assert cluster.psql(STATE) == "ready"
        assert next_id(cluster) > before


def test_a_server_started_before_the_epoch() -> None:
    clock = FakeClock(-40 * 365 * 24 * HOUR)
    with server(GENERATING, clock) as cluster:
        assert cluster.psql(STATE) == refusal(cluster).message
        assert checks(cluster)["clock_jump"].status == "error"
        # No layout can be set then, whatever its name is.
        refused = refusal(cluster, "LOAD 'id_gen'; ALTER SYSTEM SET id_gen.layout = 'default'")
        hints = [refused.hint or "", *re.findall(r"HINT: .*", cluster.log())]
        assert [hint for hint in hints if "Correct the clock" not in hint] == []
        clock.put_right()
        assert cluster.psql(STATE) == refusal(cluster).message == "the clock jumped forward"
        remedy(cluster, "clock_jump", "error")
        assert cluster.psql(STATE) == "ready"
        assert next_id(cluster)


def test_ordered_uuids() -> None:
    with stepped(0, GENERATING) as (cluster, clock, _):
        clock.step(10 * 365 * 24 * HOUR)
        ahead = cluster.psql("SELECT uuidv7_ordered()")
        clock.put_right()
        assert cluster.psql("SELECT uuidv7_ordered()") > ahead
        found = remedy(cluster, "ordered_uuids", "warning").found
        assert "ahead of the clock, which was set back" in found
        assert cluster.psql("SELECT uuidv7_ordered()") < ahead


def test_test_server() -> None:
    with Cluster(conf=f"{PRELOAD}id_gen.worker_id = 1\nid_gen.test_start = '2024-06-01 00:00:00+00'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        found = wait_for(cluster, "test_server", "warning")
        assert "its test clock shows 2024-06-01T00:00:00" in found.found
        follow(cluster, (found.remedy or "").partition(" and run:")[0])
        remedy(cluster, "test_server", "error")
        next_id(cluster)


def test_clock_steps() -> None:
    with stepped(-3, GENERATING) as (cluster, _, _before):
        next_id(cluster)
        found = remedy(cluster, "clock_steps", "warning").found
        assert re.fullmatch(r"the clock was set back once, by up to \d+ s( \d+ ms)?", found)


def test_clock_synchronized() -> None:
    """What is to be typed is not ours to run here, so the kernel's answer changes as it would then."""
    with Cluster(conf=GENERATING) as cluster:
        unsynchronized = cluster.base / "unsynchronized"
        cluster.stop()
        os.environ |= {
            "LD_PRELOAD": str(compiled(Path(__file__).with_name("adjtimex.c"))),
            "ADJTIMEX_UNSYNC": str(unsynchronized),
        }
        try:
            cluster.start()
        finally:
            del os.environ["LD_PRELOAD"], os.environ["ADJTIMEX_UNSYNC"]
        cluster.psql("CREATE EXTENSION id_gen")
        assert checks(cluster)["clock_synchronized"].status == "ok"
        unsynchronized.touch()
        assert "chrony" in (wait_for(cluster, "clock_synchronized", "warning").remedy or "")
        assert cluster.psql("SELECT clock_synchronized FROM id_gen_status()") == "f"
        unsynchronized.unlink()
        wait_for(cluster, "clock_synchronized", "ok")


@pytest.mark.parametrize(("seconds", "status"), [(-4.6, "warning"), (-60, "error")])
def test_lead(seconds: float, status: str) -> None:
    with stepped(seconds, GENERATING + IMPATIENT) as (cluster, clock, before):
        if status == "error":
            clock.freeze()
            assert refusal(cluster).hint == checks(cluster)["lead"].remedy, "one way out for one cause"
            clock.step(0)
        remedy(cluster, "lead", status)
        assert next_id(cluster) > before


def test_reservation_lost() -> None:
    with server(GENERATING) as cluster:
        next_id(cluster)
        cluster.stop("immediate")
        Reservation(cluster).file.unlink()
        cluster.start()
        remedy(cluster, "reservation", "error")


def test_reservation_that_can_not_be_written() -> None:
    """The administrator removes the cause; the check warns of what has happened until the statistics are reset."""
    with server(GENERATING) as cluster:
        next_id(cluster)
        with Reservation(cluster).read_only():

            def failed() -> bool:
                with suppress(SqlError):
                    next_id(cluster)
                return checks(cluster)["reservation"].status == "error"

            cluster.wait_until(failed, "failing to write")
            found = checks(cluster)["reservation"]
            assert "Permission denied" in found.found
            assert 'directory "id_gen"' in (found.remedy or "")
        remedy(cluster, "reservation", "warning")


def test_keeper_without_a_place() -> None:
    with server(f"{GENERATING}max_worker_processes = 1\n") as cluster:
        next_id(cluster)
        remedy(cluster, "keeper", "error")


@pytest.mark.long
def test_keeper_that_hangs() -> None:
    with server(GENERATING) as cluster:
        next_id(cluster)
        cluster.poll_until("SELECT keeper_pid IS NOT NULL FROM id_gen_status()")
        hanging = int(cluster.psql("SELECT keeper_pid FROM id_gen_status()"))
        os.kill(hanging, signal.SIGSTOP)
        try:
            found = wait_for(cluster, "keeper", "error")
            assert f"process {hanging}" in found.found
            follow(cluster, found.remedy or "")
        finally:
            os.kill(hanging, signal.SIGCONT)
        cluster.poll_until(f"SELECT keeper_pid <> {hanging} FROM id_gen_status()")
        wait_for(cluster, "keeper", "ok")


def test_sequence() -> None:
    """A second at the layout's limit, and the samples on both sides of it."""
    with server(NARROW + PATIENT + "id_gen.max_lead = 0\n") as cluster:

        def saturated() -> bool:
            cluster.psql(array_of(1_500))
            return checks(cluster)["sequence"].status == "warning"

        cluster.wait_until(saturated, "saturated")
        # A layout with other fields is for all servers at once, so none is in a line.
        assert "ALTER SYSTEM" not in (checks(cluster)["sequence"].remedy or "")


def test_shards() -> None:
    """Other findings are in cluster/test_shards.py."""
    with server(GENERATING) as cluster:
        cluster.psql("SELECT id_gen_shard_take(7, above => 0)")
        assert checks(cluster)["shards"].found == "this server has 1 shard"
        cluster.restart()
        assert checks(cluster)["shards"].found == "this server has 1 shard", "before the first ID"
        cluster.stop()
        (cluster.data / "id_gen/pgsql_tmp_shards").write_text("id_gen shards 1\n")
        cluster.start()
        assert checks(cluster)["shards"].status == "error", "before the first ID"
        # Unless it is preloaded, the library lies elsewhere in a process that has taken much memory before: here in the
        # one that finds the damage, and not in those that tell of it.
        with cluster.connect() as elsewhere:
            elsewhere.execute(
                "SET work_mem = '1GB';"
                "DECLARE much CURSOR WITH HOLD FOR SELECT repeat('x', 1000) FROM generate_series(1, 50000)"
            )
            elsewhere.execute("SELECT snowflake_next()")
        found = remedy(cluster, "shards", "error").found
        assert "is damaged" in found


def test_max_lead() -> None:
    with server(NARROW + PATIENT + "id_gen.max_lead = 0\n") as cluster:
        next_id(cluster)
        assert checks(cluster)["max_lead"].status == "ok"
        run_ahead(cluster, 100)
        remedy(cluster, "max_lead", "warning")


def test_column_types() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("""
            CREATE TABLE narrow (
                id integer DEFAULT snowflake_next(), "Odd name" double precision DEFAULT snowflake_next());
            CREATE TABLE wide (id bigint DEFAULT snowflake_next(), note integer DEFAULT 1);
        """)
        found = remedy(cluster, "column_types", "error").found
        assert "public.narrow.id is integer" in found
        assert 'public.narrow."Odd name" is double precision' in found
        cluster.psql("INSERT INTO narrow DEFAULT VALUES")
        # Columns that refer to it, however far, and types that are too small in other ways.
        cluster.psql(NARROW_TABLES)
        found = remedy(cluster, "column_types", "error").found
        assert found.removeprefix("a snowflake needs a bigint: ").split(", ") == NARROW_COLUMNS
        # A domain's own default, which the new type would not have.
        cluster.psql("""
            CREATE DOMAIN filled AS integer DEFAULT snowflake_next(); CREATE DOMAIN filled_too AS filled;
            CREATE TABLE by_domain (id filled_too, n integer);
        """)
        found = remedy(cluster, "column_types", "error").found
        assert found == "a snowflake needs a bigint: public.by_domain.id is public.filled_too"
        cluster.psql("INSERT INTO by_domain (n) VALUES (1); ALTER TABLE by_domain ALTER COLUMN id SET NOT NULL")
        # Neither what is calculated from a snowflake, nor a type that holds all of the layout's, nor what belongs to
        # another session.
        cluster.psql(SOUND_COLUMNS)
        with cluster.connect() as other:
            other.execute("CREATE TEMPORARY TABLE narrow (id integer DEFAULT snowflake_next())")
            assert checks(cluster)["column_types"].status == "ok"


# Columns whose type ALTER TABLE alone does not change: what makes them, what the remedy says, what drops the obstacle.
OBSTACLES = {
    "a view": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next()); CREATE VIEW v AS SELECT id FROM t",
        "First drop view public.v;",
        "DROP VIEW v",
    ),
    "views of a child": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next()); CREATE TABLE child (note text) INHERITS (t);"
        "CREATE MATERIALIZED VIEW m AS SELECT id FROM child; CREATE VIEW v AS SELECT id FROM child",
        "First drop materialized view public.m, view public.v;",
        "DROP MATERIALIZED VIEW m; DROP VIEW v",
    ),
    "a policy": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next()); CREATE POLICY p ON t USING (id > 0)",
        "First drop policy p on table public.t;",
        "DROP POLICY p ON t",
    ),
    "a trigger": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next()); CREATE TRIGGER g BEFORE UPDATE OF id ON t"
        " FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "First drop trigger g on table public.t;",
        "DROP TRIGGER g ON t",
    ),
    "a generated column": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next(), g integer GENERATED ALWAYS AS (id + 1) STORED)",
        "First drop column g of table public.t;",
        "ALTER TABLE t DROP g",
    ),
    "a publication": (
        "CREATE TABLE t (id integer PRIMARY KEY DEFAULT snowflake_next());"
        "CREATE PUBLICATION sent FOR TABLE t WHERE (id > 1)",
        "First drop publication of table public.t in publication sent;",
        "DROP PUBLICATION sent",
    ),
    "a function": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next());"
        "CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC SELECT max(id) FROM t; END",
        "First drop function public.f();",
        "DROP FUNCTION f()",
    ),
    "a view of a view, and what uses its row type": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next()); CREATE VIEW v AS SELECT id FROM t;"
        "CREATE MATERIALIZED VIEW m AS SELECT id FROM v; CREATE FUNCTION f(v) RETURNS integer LANGUAGE sql RETURN 1;"
        "CREATE DOMAIN d AS v; CREATE TABLE u (v d, n integer)",
        "First drop column v of table public.u, function public.f(public.v), type public.d,"
        " materialized view public.m, view public.v;",
        "ALTER TABLE u DROP v; DROP FUNCTION f; DROP MATERIALIZED VIEW m; DROP DOMAIN d; DROP VIEW v",
    ),
    "columns of its row type": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next()); CREATE TYPE pair AS (a t);"
        "CREATE TABLE u (r t[], s pair); CREATE VIEW v AS SELECT r FROM u;"
        "CREATE FUNCTION f(t) RETURNS integer LANGUAGE sql RETURN 1",
        "First drop view public.v, column r of table public.u, column s of table public.u;",
        "DROP VIEW v; ALTER TABLE u DROP r, DROP s",
    ),
    "another parent": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next()); CREATE TABLE u (id integer);"
        "CREATE TABLE child () INHERITS (u, t)",
        "First drop the inheritance of table public.child from table public.u;",
        "ALTER TABLE child NO INHERIT u",
    ),
    "functions of integers": (
        "CREATE TABLE t (id integer DEFAULT snowflake_next(), EXCLUDE USING gist (int4range(id, id + 1) WITH &&));"
        "CREATE FUNCTION f(integer) RETURNS integer IMMUTABLE LANGUAGE sql RETURN 1;"
        "ALTER TABLE t ADD CONSTRAINT c CHECK (f(id) > 0); CREATE INDEX i ON t (f(id));"
        "CREATE STATISTICS s ON (f(id)) FROM t; CREATE INDEX ON t (abs(id));"
        "CREATE INDEX ON t ((id::bigint)) WHERE id > 0",
        "First drop constraint c on table public.t, constraint t_int4range_excl on table public.t, index public.i,"
        " statistics object public.s;",
        "ALTER TABLE t DROP CONSTRAINT c, DROP CONSTRAINT t_int4range_excl; DROP INDEX i; DROP STATISTICS s",
    ),
    "a type with a view": (
        "CREATE TYPE made AS (id integer); CREATE TABLE t OF made (id DEFAULT snowflake_next());"
        "CREATE TABLE u OF made; CREATE VIEW v AS SELECT id FROM u; CREATE TABLE w (r made)",
        "First drop column r of table public.w, view public.v;",
        "DROP VIEW v; ALTER TABLE w DROP r",
    ),
    "a type": (
        "CREATE TYPE made AS (id integer); CREATE TABLE t OF made (id DEFAULT snowflake_next())",
        "ALTER TYPE",
        "",
    ),
    "a foreign table": (
        "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;"
        "CREATE FOREIGN TABLE t (id integer DEFAULT snowflake_next()) SERVER s",
        "ALTER FOREIGN TABLE",
        "",
    ),
    "an array": ("CREATE TABLE t (id integer DEFAULT (snowflake_next_array(1))[1])", "ALTER TABLE", ""),
}


def test_column_types_that_alter_table_does_not_change() -> None:
    with server(GENERATING) as cluster:
        for name, (made, said, dropped) in OBSTACLES.items():
            with cluster.database("checked") as database, cluster.connect(database) as session:
                session.execute(f"CREATE EXTENSION id_gen; {made}")

                def found(session: psycopg.Connection = session) -> tuple[str, str]:
                    sql = "SELECT found, remedy FROM id_gen_check() WHERE name = 'column_types'"
                    return session.execute(sql).fetchone()

                wrong, remedy = found()
                assert wrong == "a snowflake needs a bigint: public.t.id is integer", name
                assert said in remedy, name
                (alter,) = STATEMENT.findall(remedy)
                if dropped:
                    with pytest.raises(psycopg.Error):
                        session.execute(alter)
                session.execute(dropped)
                session.execute(alter)
                assert found()[0] == "all columns filled with snowflakes are bigint", name


def test_column_types_of_a_partition_key() -> None:
    with server(GENERATING) as cluster:
        cluster.psql(
            "CREATE TABLE t (id integer DEFAULT snowflake_next()) PARTITION BY RANGE (id);"
            "CREATE TABLE u (id integer DEFAULT snowflake_next()) PARTITION BY RANGE ((id + 1))"
        )
        found = checks(cluster)["column_types"]
        assert STATEMENT.findall(found.remedy or "") == []
        for table in "tu":
            assert f"create a new table in place of public.{table}, with bigint for id" in (found.remedy or "")


def test_column_types_for_javascript() -> None:
    """All IDs of 53 bits are doubles, and have 16 digits at most."""
    with server(f"{GENERATING}id_gen.layout = 'js'\n") as cluster:
        cluster.psql("""
            CREATE TABLE exact (a double precision DEFAULT snowflake_next(), b numeric(16) DEFAULT snowflake_next());
        """)
        assert checks(cluster)["column_types"].status == "ok"
        cluster.psql("CREATE TABLE narrow (a real DEFAULT snowflake_next(), b numeric(15) DEFAULT snowflake_next())")
        found = remedy(cluster, "column_types", "error").found
        assert found == "a snowflake needs a bigint: public.narrow.a is real, public.narrow.b is numeric(15,0)"


def test_columns_shorter_than_a_sequence_of_tickets() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("""
            CREATE SEQUENCE short; CREATE SEQUENCE long; CREATE SEQUENCE halved;
            CREATE DOMAIN number AS integer;
            CREATE TABLE bill (
                id bigint PRIMARY KEY DEFAULT ticket_next('long'), number number DEFAULT ticket_next('short'),
                half integer DEFAULT ticket_next('halved') % 2);
            CREATE TABLE line (bill smallint REFERENCES bill);
            CREATE TABLE page (bill integer REFERENCES bill);
        """)
        found = remedy(cluster, "tickets", "warning").found
        assert found.split("; ") == [
            "column public.bill.number (public.number) ends before its sequence",
            "column public.line.bill (smallint) ends before its sequence",
            "column public.page.bill (integer) ends before its sequence",
        ]
        assert cluster.psql("SELECT seqmax FROM pg_sequence WHERE seqrelid = 'long'::regclass") == "32767"
        # A sequence cannot end below its start or its least number.
        cluster.psql("""
            CREATE SEQUENCE late START 40000; CREATE SEQUENCE later MINVALUE 32767;
            CREATE DOMAIN late_number AS smallint DEFAULT ticket_next('late');
            CREATE TABLE bill_late (number late_number, other smallint DEFAULT ticket_next('later'));
        """)
        # What is only about to end is told beside it.
        cluster.psql("CREATE SEQUENCE next AS bigint; CREATE TABLE next_bill (id integer DEFAULT ticket_next('next'))")
        full, ends = checks(cluster)["tickets"], "column public.next_bill.id (integer) ends before its sequence"
        assert full.status == "error"
        assert full.found.split("; ") == [
            "column public.bill_late.number (public.late_number) is too small for its sequence",
            "column public.bill_late.other (smallint) is too small for its sequence",
            ends,
        ]
        remedies = (full.remedy or "").splitlines()
        for each in remedies[:-1]:
            follow(cluster, each)
        assert remedy(cluster, "tickets", "warning").found == ends
        cluster.psql("INSERT INTO bill_late DEFAULT VALUES")


def test_sequences_that_tickets_cannot_be_of() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("""
            CREATE SEQUENCE round; CREATE SEQUENCE plain;
            CREATE TABLE bill (id bigint DEFAULT ticket_next('round'), number bigint DEFAULT ticket_next('plain'));
            ALTER SEQUENCE round CYCLE;
        """)
        found = remedy(cluster, "tickets", "error").found
        assert found == "sequence public.round has the option CYCLE"
        cluster.psql("INSERT INTO bill DEFAULT VALUES")


def test_stored_ids_of_a_column_that_holds_none() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("CREATE TABLE paid (id uuid)")
        with pytest.raises(SqlError) as error:
            cluster.psql("SELECT * FROM id_gen_check('paid', 'id')")
        assert error.value.sqlstate == "42804"
        assert error.value.message == "column public.paid.id holds no snowflakes"
        for arguments, refused in {
            "'paid', 'No'": ("42703", 'column "No" of relation "paid" does not exist'),
            "0::regclass, 'id'": ("42P01", "relation 0 does not exist"),
            "'paid'": ("22004", "relation and column_name must be passed together"),
            "NULL, 'id'": ("22004", "relation and column_name must be passed together"),
        }.items():
            with pytest.raises(SqlError) as error:
                cluster.psql(f"SELECT * FROM id_gen_check({arguments})")
            assert (error.value.sqlstate, error.value.message) == refused
        cluster.psql("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0")
        cluster.psql('CREATE EXTENSION id_gen; CREATE TABLE t ("größe" bigint)', "bytes")
        assert cluster.psql("SELECT status FROM id_gen_check('t', 'größe')", "bytes") == "ok"


@pytest.mark.parametrize(
    ("newest", "status"),
    [
        ("snowflake_next()", "ok"),
        ("snowflake_make(now() + '1 day', 0, 1, 7)", "error"),
        ("snowflake_make(now() + '1 day', 0, 2, 7)", "warning"),
        ("-1", "warning"),
        ("100", "ok"),
    ],
)
def test_stored_ids(newest: str, status: str) -> None:
    with server(GENERATING) as cluster:
        sql = "SELECT * FROM id_gen_check('\"Order\"', 'Number')"
        cluster.psql('CREATE TABLE "Order" ("Number" bigint)')
        assert checks(cluster, sql)["stored_ids"].status == "ok"
        cluster.psql(f'INSERT INTO "Order" SELECT {newest} FROM snowflake_next()')
        found = checks(cluster, sql)["stored_ids"]
        assert found.status == status
        if found.remedy is not None:
            follow(cluster, found.remedy)
        if status == "error":
            cluster.poll_until("SELECT worker_id FROM id_gen_status()", expected=CHOSEN_WORKER_ID)
            assert checks(cluster, sql)["stored_ids"].status == "warning"
        assert ("as from a sequence" in found.found) == (newest == "100")
        assert cluster.psql('SELECT count(*) FROM "Order"') == "1", "no remedy changes a key"


STORED = "SELECT * FROM id_gen_check('paid', 'id')"
FAR_AHEAD = f"{NARROW}id_gen.max_lead = '60s'\n"
PAID = f"CREATE TABLE paid (id bigint); INSERT INTO paid SELECT unnest(snowflake_next_array({5_000 * PER_MS}))"


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_stored_ids_before_the_first_id_after_a_start(how: str) -> None:
    """A server goes on above what it has reserved, not at its clock, also before it has read what that is."""
    clock = FakeClock()
    with server(FAR_AHEAD, clock) as cluster:
        clock.freeze()
        cluster.psql(PAID)
        if how == "kill":
            cluster.kill9()
            cluster.start()
        else:
            cluster.restart()
        assert checks(cluster, STORED)["stored_ids"].status == "ok"
        assert not checks(cluster)["lead"].found.startswith("IDs are 0 ms")
        assert cluster.psql("SELECT snowflake_next() > max(id) FROM paid") == "t"
        assert checks(cluster, STORED)["stored_ids"].status == "ok"


def test_stored_ids_on_a_standby() -> None:
    """It generates none, whatever its clock shows: nothing is compared before it is promoted."""
    with server(FAR_AHEAD + PATIENT) as cluster, Cluster("standby", standby_of=cluster, clock=FakeClock(-1)) as standby:
        cluster.psql(PAID)
        cluster.wait_for_catchup(standby)
        found = checks(standby, STORED)["stored_ids"]
        assert found.status == "ok" and "a standby generates no snowflakes" in found.found
        profiled = "SELECT status FROM id_gen_profile('paid', 'id') WHERE item = 'stored_ids'"
        assert standby.psql(profiled) == "ok"
        cluster.stop()
        standby.promote()
        standby.poll_until("SELECT NOT pg_is_in_recovery()")
        assert checks(standby, STORED)["stored_ids"].status == "ok"
        assert standby.psql("SELECT snowflake_next() > max(id) FROM paid") == "t"


def test_stored_ids_of_a_shard_of_this_server() -> None:
    """They are its own: below what it makes next, or an ID that it will make again."""
    clock = FakeClock()
    with server(FAR_AHEAD, clock) as cluster:
        clock.freeze()
        cluster.psql("CREATE TABLE paid (id bigint); SELECT id_gen_shard_take(7, above => 0)")
        cluster.psql(f"INSERT INTO paid SELECT snowflake_next(7) FROM generate_series(1, {2_000 * PER_MS})")
        profiled = (
            "SELECT item, status, found FROM id_gen_profile('paid', 'id')"
            " WHERE section = 'worker' OR item = 'stored_ids' ORDER BY section"
        )
        for _ in range(2):
            assert checks(cluster, STORED)["stored_ids"].status == "ok"
            stored, worker = (row.split("|") for row in cluster.psql(profiled).splitlines())
            assert stored[:2] == ["stored_ids", "ok"]
            assert worker == ["7 of datacenter 0", "ok", "a shard of this server"]
            cluster.restart()
        for when, ends in {"30 seconds": "ok", "1 day": "error"}.items():
            cluster.psql(f"INSERT INTO paid SELECT snowflake_make(now() + '{when}', 0, 7, 0)")
            found = checks(cluster, STORED)["stored_ids"]
            assert found.status == "error" and "will generate the same ID" in found.found
            follow(cluster, found.remedy or "")
            assert checks(cluster, STORED)["stored_ids"].status == ends


def test_stored_ids_behind_row_security() -> None:
    """An ID that this role does not see may be one that is yet to come."""
    with server(GENERATING) as cluster:
        cluster.psql(
            "CREATE TABLE paid (id bigint); INSERT INTO paid VALUES (snowflake_make(now() + '1 day', 0, 1, 7));"
            "ALTER TABLE paid ENABLE ROW LEVEL SECURITY; CREATE ROLE clerk LOGIN; GRANT SELECT ON paid TO clerk"
        )
        sql = "SELECT status, found FROM id_gen_check('paid', 'id')"
        assert cluster.psql(sql).startswith("error")
        with cluster.connect(user="clerk") as clerk:
            (status, found) = clerk.execute(sql).fetchone()
        assert status == "warning" and "nothing was checked" in found


def test_tickets_of_a_schema_that_is_closed_to_the_role() -> None:
    with server(GENERATING) as cluster:
        cluster.psql(
            "CREATE SCHEMA hidden; CREATE SEQUENCE hidden.bill; GRANT SELECT ON SEQUENCE hidden.bill TO pg_monitor;"
            "CREATE TABLE hidden.t (id bigint DEFAULT ticket_next('hidden.bill')); INSERT INTO hidden.t DEFAULT VALUES;"
            "CREATE ROLE watcher IN ROLE pg_monitor; GRANT EXECUTE ON FUNCTION id_gen_check TO pg_monitor"
        )
        assert "tickets" in cluster.psql("SET ROLE watcher; SELECT name FROM id_gen_check()").splitlines()


def test_tickets_that_are_used_up() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("CREATE SEQUENCE number AS smallint START 26000")
        cluster.psql("CREATE TABLE t (id bigint DEFAULT ticket_next('number'), n int)")
        assert checks(cluster)["tickets"].status == "ok"
        cluster.psql("INSERT INTO t (n) SELECT generate_series(1, 500)")
        assert "used 8" in wait_for(cluster, "tickets", "warning").found
        with suppress(SqlError):
            cluster.psql("INSERT INTO t (n) SELECT generate_series(1, 10000)")
        assert "no number left" in remedy(cluster, "tickets", "error").found
        assert int(cluster.psql("INSERT INTO t (n) VALUES (0) RETURNING id")) > 32_767


def test_tickets_that_go_on_where_their_column_ends() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("""
            CREATE SEQUENCE "Long"; CREATE SEQUENCE short AS integer; CREATE SEQUENCE of_nextval;
            CREATE TABLE t (id integer DEFAULT ticket_next('"Long"'), a bigint DEFAULT ticket_next('"Long"'),
                            b integer DEFAULT ticket_next('short'), c integer DEFAULT nextval('of_nextval'));
        """)
        found = remedy(cluster, "tickets", "warning").found
        assert found == "column public.t.id (integer) ends before its sequence"


def test_tickets_that_are_past_what_their_column_holds() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("""
            CREATE SEQUENCE number START 40000; CREATE TABLE t (id smallint DEFAULT ticket_next('number'));
        """)
        cluster.psql("SELECT ticket_next('number')")
        found = remedy(cluster, "tickets", "error").found
        assert found == "column public.t.id (smallint) is too small for its sequence"
        cluster.psql("INSERT INTO t DEFAULT VALUES")


def test_temporary_sequences_of_others_are_not_looked_at() -> None:
    with server(GENERATING) as cluster, cluster.connect() as other:
        other.execute("CREATE TEMP SEQUENCE number; CREATE TEMP TABLE t (id int DEFAULT ticket_next('number'))")
        assert checks(cluster)["tickets"].status == "ok"


def test_tickets_that_end_within_90_days() -> None:
    with server(GENERATING) as cluster:
        cluster.psql("CREATE SEQUENCE number AS integer; SELECT ticket_next('number') FROM generate_series(1, 2000000)")
        assert "will be exhausted in" in remedy(cluster, "tickets", "warning").found
