"""The script is installed by an ordinary owner, used by everybody, copied with its database, run again, and removed."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from harness import Cluster, SqlError
from harness.ids import TOO_FAR_AHEAD, refusal
from harness.managed import DATABASE, OWNER, SCRIPT, WORKER, as_owner, configure, install, run_script, with_number

pytestmark = pytest.mark.any_server

ROOT = Path(__file__).parents[2]
NEXT = "SELECT snowflake_next()"
NOT_ALLOWED = "42501"
NOT_READY = "55000"
BAD_VALUE = "22023"
OUT_OF_RANGE = "22003"
IS_THERE = "42723"
IS_NEEDED = "2BP01"
NO_TRANSACTION = "25P01"
OBJECTS = """
    SELECT pg_identify_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_namespace'::regclass
       AND refobjid IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'id_gen_managed')) ORDER BY 1
"""

# A caller's schema, put in front of PostgreSQL's own: whatever is called from there would run as the script's owner.
TRAP = """
    CREATE SCHEMA trap AUTHORIZATION clerk;
    GRANT USAGE ON SCHEMA trap TO PUBLIC;
    SET SESSION AUTHORIZATION clerk;
    CREATE FUNCTION trap.caught() RETURNS text LANGUAGE plpgsql
        AS 'BEGIN RAISE EXCEPTION ''caught %'', current_user; END';
    CREATE FUNCTION trap.pg_try_advisory_lock(integer, integer) RETURNS boolean LANGUAGE sql
        AS 'SELECT trap.caught() = ''''';
    CREATE FUNCTION trap.floor(double precision) RETURNS double precision LANGUAGE sql
        AS 'SELECT length(trap.caught())';
    CREATE FUNCTION trap.plus(bigint, integer) RETURNS bigint LANGUAGE sql AS 'SELECT length(trap.caught())';
    CREATE OPERATOR trap.+ (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = trap.plus);
    CREATE FUNCTION trap.generate_series(integer, bigint) RETURNS SETOF bigint LANGUAGE sql
        AS 'SELECT length(trap.caught())';
    CREATE FUNCTION trap.times(numeric, integer) RETURNS numeric LANGUAGE sql AS 'SELECT length(trap.caught())';
    CREATE OPERATOR trap.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = trap.times);
    CREATE FUNCTION trap.bits(bigint, integer) RETURNS bigint LANGUAGE sql AS 'SELECT length(trap.caught())';
    CREATE OPERATOR trap.& (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = trap.bits);
"""

# What is parsed when it is called, by the caller's path unless it has its own.
PARSED_WHEN_CALLED = """
    SELECT p.oid::regprocedure FROM pg_proc p
     WHERE p.pronamespace IN ('public'::regnamespace, 'id_gen_managed'::regnamespace) AND p.prosqlbody IS NULL
       AND 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(p.proconfig, '{}'))
"""


# Who may do what with what the script has made, as far as that was ever granted or revoked.
PRIVILEGES = """
    SELECT nspname, nspacl::text FROM pg_namespace WHERE nspname = 'id_gen_managed'
     UNION ALL
    SELECT oid::regprocedure::text, proacl::text FROM pg_proc
     WHERE pronamespace IN ('public'::regnamespace, 'id_gen_managed'::regnamespace) AND proacl IS NOT NULL
     ORDER BY 1
"""

# What new objects get from it, whoever creates them: the owner, or one who configures the script.
GRANT_BY_DEFAULT = (
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON {0} TO clerk WITH GRANT OPTION;"
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON {0} TO PUBLIC"
)
KINDS = ("SCHEMAS", "TABLES", "SEQUENCES", "FUNCTIONS")
# Of whatever in the script's schema is not for everybody: whom it is open to.
OPENED = """
    SELECT r.name, pg_get_userbyid(x.grantee), x.privilege_type FROM id_gen_managed.restricted() r, aclexplode(r.acl) x
     WHERE x.grantee <> r.owner AND (r.kind, x.grantee, x.privilege_type) <> ('SCHEMA', 0, 'USAGE') ORDER BY 1, 2, 3
"""

# For each function of the script others that fit some calls better: one argument of another type, or without defaults.
PLANT = """
    DO $plant$
    DECLARE
        given record;
        arguments text;
    BEGIN
        FOR given IN
            SELECT p.oid, p.proname, place, other.type,
                   ARRAY(SELECT format('%%I %%s', p.proargnames[n], format_type(p.proargtypes[n - 1], NULL))
                           FROM generate_series(1, p.pronargs) n) AS arguments
              FROM pg_proc p
             CROSS JOIN generate_series(1, p.pronargs) place
             CROSS JOIN unnest('{NULL,smallint,integer,bigint,numeric,float8,text,varchar,name,timestamptz,timestamp,
                                 date,interval,oid,regclass}'::text[]) other (type)
             WHERE p.pronamespace = 'id_gen_managed'::regnamespace AND p.proname ~ '%s'
               AND (other.type IS NOT NULL OR place > p.pronargs - p.pronargdefaults)
        LOOP
            arguments := array_to_string(given.arguments[:given.place - 1], ', ');
            IF given.type IS NOT NULL THEN
                given.arguments[given.place] := split_part(given.arguments[given.place], ' ', 1) || ' ' || given.type;
                arguments := array_to_string(given.arguments, ', ');
            END IF;
            BEGIN
                EXECUTE format('CREATE FUNCTION id_gen_managed.%%I(%%s) RETURNS %%s LANGUAGE plpgsql AS '
                               '$$BEGIN RAISE EXCEPTION ''planted''; END$$',
                               given.proname, arguments, pg_get_function_result(given.oid));
            EXCEPTION WHEN duplicate_function OR invalid_function_definition THEN NULL;
            END;
        END LOOP;
    END
    $plant$
"""
# Code of another role that would run as the owner, where default privileges let that role make it.
CLERKS_OWN = """
    CREATE SCHEMA clerk AUTHORIZATION clerk;
    CREATE FUNCTION clerk.trap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    ALTER FUNCTION clerk.trap() OWNER TO clerk;
"""
PLANTED = (
    "CREATE FUNCTION id_gen_managed.text_of_ms(bigint) RETURNS text LANGUAGE sql RETURN NULL::text",
    "CREATE SEQUENCE id_gen_managed.lane_99",
    "CREATE TRIGGER trap BEFORE UPDATE ON id_gen_managed.installation EXECUTE FUNCTION clerk.trap()",
)
# One object of each kind that a role may create in a schema, also where one depends on another.
OF_EACH_KIND = (
    "CREATE PROCEDURE id_gen_managed.p(INOUT a int, OUT b text) LANGUAGE plpgsql AS 'BEGIN END'",
    """CREATE FUNCTION id_gen_managed.plus(int, int) RETURNS int LANGUAGE sql RETURN 1;
       CREATE AGGREGATE id_gen_managed.a(int ORDER BY int) (SFUNC = id_gen_managed.plus, STYPE = int)""",
    """CREATE FUNCTION clerk.plus(int) RETURNS int LANGUAGE sql RETURN 1;
       CREATE AGGREGATE id_gen_managed.a(*) (SFUNC = clerk.plus, STYPE = int)""",
    """CREATE TABLE id_gen_managed.t (a serial, b int GENERATED ALWAYS AS IDENTITY) PARTITION BY RANGE (a);
       CREATE TABLE id_gen_managed.part PARTITION OF id_gen_managed.t DEFAULT;
       CREATE TRIGGER trap BEFORE INSERT ON id_gen_managed.t FOR EACH ROW EXECUTE FUNCTION clerk.trap();
       ALTER TABLE id_gen_managed.t ADD c serial""",
    "CREATE VIEW id_gen_managed.v AS SELECT 1",
    "CREATE MATERIALIZED VIEW id_gen_managed.m AS SELECT 1",
    "CREATE FOREIGN TABLE id_gen_managed.f () SERVER remote",
    "CREATE TYPE id_gen_managed.c AS (a int)",
    "CREATE TYPE id_gen_managed.e AS ENUM ('a')",
    "CREATE DOMAIN id_gen_managed.d AS int",
    "CREATE TYPE id_gen_managed.r AS RANGE (SUBTYPE = int)",
    "CREATE OPERATOR id_gen_managed.<-> (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)",
    "CREATE OPERATOR id_gen_managed.<-> (RIGHTARG = int, FUNCTION = int4um)",
    """CREATE COLLATION id_gen_managed."Odd" FROM "C" """,
    "CREATE CONVERSION id_gen_managed.c FOR 'UTF8' TO 'LATIN1' FROM utf8_to_iso8859_1",
    "CREATE TEXT SEARCH CONFIGURATION id_gen_managed.c (COPY = simple)",
    "CREATE TEXT SEARCH DICTIONARY id_gen_managed.d (TEMPLATE = simple)",
    # A superuser creates these, and gives them to the role.
    """RESET SESSION AUTHORIZATION;
       CREATE OPERATOR CLASS id_gen_managed.o FOR TYPE int4 USING btree AS OPERATOR 1 <, FUNCTION 1 btint4cmp(int, int);
       ALTER OPERATOR CLASS id_gen_managed.o USING btree OWNER TO clerk;
       ALTER OPERATOR FAMILY id_gen_managed.o USING btree OWNER TO clerk""",
)

# Settings on which texts, and what literals mean, depend.
ODD_SETTINGS = """
    SET quote_all_identifiers = on;
    SET standard_conforming_strings = off;
    SET escape_string_warning = off;
    SET DateStyle = 'SQL, DMY';
    SET IntervalStyle = 'sql_standard';
    SET TimeZone = 'Asia/Kathmandu';
    SET extra_float_digits = -15;
    SET bytea_output = 'escape';
"""
# What differs between two databases alike: positions of lanes, numbers of the database, and a key of each dump.
IN_EACH_DATABASE = re.compile(
    r"^SELECT pg_catalog\.setval\(.*|(?<=^COPY id_gen_managed\.given_to )(.|\n)*?\\\.$", re.MULTILINE
)
DUMP_KEY = re.compile(r"^\\(un)?restrict .*$", re.MULTILINE)
# Calls whose answers do not change from call to call.
ANSWERS = (
    "snowflake_parse(175928847299117063, 'epoch=2015-01-01T00:00:00.5+01:00 unsigned time:42 worker:10 sequence:12')",
    "snowflake_timestamp(1, 'epoch=1420070400000ms tick=10ms time:41 sequence:12')",
    "snowflake_min('2026-03-04 05:06:07.890+00', 'js')",
    "snowflake_layouts()",
    "uuidv7_timestamp('019539f0-1234-7abc-8def-0123456789ab')",
    "uuidv7_max('2026-03-04 05:06:07.890+00')",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("installed") as cluster:
        install(cluster)
        cluster.psql("CREATE ROLE clerk LOGIN")
        yield cluster


def test_everybody_may_call_and_nobody_else_moves_lanes(cluster: Cluster) -> None:
    def as_clerk(sql: str) -> str:
        return f"SET SESSION AUTHORIZATION clerk; {sql}"

    for call in (
        "snowflake_next()", "snowflake_next_array(3)", "snowflake_next_batch(3)", "public.uuidv7()",
        "snowflake_parse(snowflake_next())", "snowflake_min(now(), 'js')", "snowflake_layouts()",
    ):  # fmt: skip
        assert cluster.psql(as_clerk(f"SELECT {call}"), DATABASE)
    for call in (
        "setval('id_gen_managed.lane_0', 1)", "nextval('id_gen_managed.lane_0')", "id_gen_managed.configure(8)",
        "id_gen_managed.begin_session()", "id_gen_managed.raise_lanes(1)", "id_gen_managed.uninstall()",
        "id_gen_managed.use_extension()", "count(*) FROM id_gen_managed.configuration",
    ):  # fmt: skip
        assert refusal(cluster, as_clerk(f"SELECT {call}"), DATABASE).sqlstate == NOT_ALLOWED, call


def test_nothing_of_the_callers_is_called(cluster: Cluster) -> None:
    """Not before PostgreSQL's own, nor after it where its arguments fit better."""
    cluster.psql(TRAP, DATABASE)
    calls = """
        SELECT 1 FROM snowflake_next(), snowflake_next_array(2), snowflake_next_batch(2), public.uuidv7() id,
            public.uuidv7('1 hour'::interval), uuidv7_min(now()), uuidv7_timestamp(id), snowflake_min(now()),
            snowflake_max(now()), snowflake_make(now(), 0, 0, 0), snowflake_parse(1), snowflake_timestamp(1, 'js')
    """
    for path in ("trap, pg_catalog, public", "public, trap"):
        assert {*as_owner(cluster, f"SET search_path = {path}; {calls}").split()} == {"1"}, path
    assert cluster.psql(PARSED_WHEN_CALLED, DATABASE) == ""


def test_it_finds_nothing_of_others_when_it_is_installed(cluster: Cluster) -> None:
    cluster.psql(f"CREATE DATABASE trapped OWNER {OWNER} TEMPLATE template0")
    cluster.psql(TRAP, "trapped")
    path = "SET LOCAL search_path = public, trap;"
    as_owner(cluster, f"BEGIN; {path} {SCRIPT.read_text()} CREATE TABLE item (id bigint); COMMIT", "trapped")
    assert as_owner(cluster, "SELECT uuidv7_min(now()) < uuidv7_max(now())", "trapped") == "t"
    # What comes after it in the same transaction has the path as it was.
    assert cluster.psql("SELECT 'public.item'::regclass", "trapped") == "item"


def test_it_can_be_run_again(cluster: Cluster) -> None:
    objects = cluster.psql(OBJECTS, DATABASE)
    before = int(as_owner(cluster, NEXT))
    run_script(cluster)
    assert cluster.psql(OBJECTS, DATABASE) == objects
    after = int(as_owner(cluster, NEXT))
    assert after != before
    assert as_owner(cluster, f"SELECT worker_id FROM snowflake_parse({after})") == str(WORKER)


def test_running_it_again_grants_nothing(cluster: Cluster) -> None:
    """What the owner has revoked from everybody, and granted to some."""
    install(cluster, "restricted")
    grant = "GRANT USAGE ON SCHEMA id_gen_managed TO clerk; GRANT EXECUTE ON FUNCTION snowflake_next() TO clerk"
    revoke = """
        REVOKE ALL ON SCHEMA id_gen_managed FROM PUBLIC;
        REVOKE EXECUTE ON FUNCTION snowflake_next(), id_gen_managed.allocate(bigint) FROM PUBLIC;
    """
    as_owner(cluster, f"{revoke} {grant}", "restricted")
    before = cluster.psql(PRIVILEGES, "restricted")
    run_script(cluster, "restricted")
    configure(cluster, "restricted", worker_id=9)
    assert cluster.psql(PRIVILEGES, "restricted") == before


def test_default_privileges_open_nothing(cluster: Cluster) -> None:
    """Of none who creates something: the owner with the script, and whoever creates the lanes."""
    cluster.psql("CREATE ROLE deputy LOGIN")
    with cluster.database("opened", OWNER):
        cluster.psql(f"GRANT {OWNER} TO deputy", "opened")
        for role in (OWNER, "deputy", "postgres"):
            for kind in KINDS:
                cluster.psql(f"SET SESSION AUTHORIZATION {role}; {GRANT_BY_DEFAULT.format(kind)}", "opened")
        run_script(cluster, "opened")
        for role in (OWNER, "deputy", "postgres"):
            cluster.psql(f"SET SESSION AUTHORIZATION {role}; SELECT id_gen_managed.configure(worker_id => 9)", "opened")
            assert cluster.psql(OPENED, "opened") == "", role
        for attempt in (
            "SELECT setval('id_gen_managed.lane_0', 1)",
            "SELECT nextval('id_gen_managed.incarnation')",
            "UPDATE id_gen_managed.configuration SET max_lead = '1 day'",
            "CREATE FUNCTION id_gen_managed.configure() RETURNS void LANGUAGE sql AS ''",
            "SELECT id_gen_managed.configure(worker_id => 8)",
        ):
            attacked = refusal(cluster, f"SET SESSION AUTHORIZATION clerk; {attempt}", "opened")
            assert attacked.sqlstate == NOT_ALLOWED, attempt
        assert cluster.psql(f"SET SESSION AUTHORIZATION clerk; {NEXT}", "opened")
        # What was granted since then was meant.
        granted = """
            GRANT SELECT ON id_gen_managed.configuration TO clerk;
            GRANT EXECUTE ON FUNCTION id_gen_managed.uninstall TO clerk;
        """
        as_owner(cluster, granted, "opened")
        opened = cluster.psql(OPENED, "opened")
        assert len(opened.splitlines()) == 2
        run_script(cluster, "opened")
        assert cluster.psql(OPENED, "opened") == opened
        as_owner(cluster, "SELECT id_gen_managed.uninstall()", "opened")
        cluster.psql("DROP OWNED BY deputy; DROP OWNED BY clerk", "opened")
    cluster.psql("DROP ROLE deputy")


def open_by_default(cluster: Cluster, dbname: str) -> None:
    for role in (OWNER, "postgres"):
        for kind in KINDS:
            cluster.psql(f"SET SESSION AUTHORIZATION {role}; {GRANT_BY_DEFAULT.format(kind)}", dbname)


def test_a_schema_that_was_made_before_is_closed(cluster: Cluster) -> None:
    with cluster.database("made_before", OWNER):
        open_by_default(cluster, "made_before")
        as_owner(cluster, "CREATE SCHEMA id_gen_managed", "made_before")
        run_script(cluster, "made_before")
        configure(cluster, "made_before", worker_id=9)
        assert cluster.psql(OPENED, "made_before") == ""
        cluster.psql("CREATE ROLE passer_by")
        assert cluster.psql(f"SET SESSION AUTHORIZATION passer_by; {NEXT}", "made_before")
        cluster.psql("DROP OWNED BY clerk", "made_before")
    cluster.psql("DROP ROLE passer_by")


@pytest.mark.parametrize("again", ["the script", "a worker ID"])
def test_a_restore_opens_nothing(cluster: Cluster, again: str) -> None:
    """The defaults of a database grant on what a dump makes in it; what clerk makes with that is not called."""
    with cluster.database("dumped", OWNER), cluster.database("restored", OWNER):
        run_script(cluster, "dumped")
        configure(cluster, "dumped", worker_id=9)
        revoke = "REVOKE USAGE ON SCHEMA id_gen_managed FROM PUBLIC; GRANT USAGE ON SCHEMA id_gen_managed TO clerk"
        as_owner(cluster, revoke, "dumped")
        open_by_default(cluster, "restored")
        cluster.psql(cluster.run("pg_dump", dbname="dumped"), "restored")
        assert "create_lanes(integer,bigint)|clerk|EXECUTE" in cluster.psql(OPENED, "restored")
        cluster.psql(CLERKS_OWN, "restored")

        def run_again() -> None:
            if again == "the script":
                run_script(cluster, "restored")
            else:
                configure(cluster, "restored", worker_id=10)

        for planted in PLANTED:
            cluster.psql(f"SET SESSION AUTHORIZATION clerk; {planted}", "restored")
            with pytest.raises(SqlError) as refused:
                run_again()
            assert refused.value.sqlstate == NOT_ALLOWED
            assert "clerk" in (refused.value.detail or "")
            cluster.psql(hinted(refused.value), "restored")
        run_again()
        assert cluster.psql(OPENED, "restored") == "id_gen_managed|clerk|USAGE"
        configure(cluster, "restored", worker_id=10)
        assert cluster.psql(f"SET SESSION AUTHORIZATION clerk; {NEXT}", "restored")
        # What is granted from now on is meant.
        as_owner(cluster, "GRANT SELECT ON id_gen_managed.configuration TO clerk", "restored")
        opened = cluster.psql(OPENED, "restored")
        run_script(cluster, "restored")
        configure(cluster, "restored", worker_id=11)
        assert cluster.psql(OPENED, "restored") == opened
        for dbname in ("dumped", "restored"):
            cluster.psql("DROP OWNED BY clerk", dbname)


def hinted(error: SqlError) -> str:
    """The statement at the end of a HINT."""
    return (error.hint or "").partition(": ")[2]


@pytest.fixture
def shared(cluster: Cluster) -> Iterator[str]:
    """A database in which clerk may create schemas and extensions, and the owner has the script."""
    with cluster.database("shared", OWNER):
        run_script(cluster, "shared")
        configure(cluster, "shared", worker_id=9)
        cluster.psql(f"{CLERKS_OWN} GRANT CREATE ON DATABASE shared TO clerk", "shared")
        yield "shared"


def test_an_object_of_each_kind_is_dropped_by_the_hint(cluster: Cluster, shared: str) -> None:
    """Of another role, and by the owner of the schema."""
    remote = "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER remote FOREIGN DATA WRAPPER w; GRANT USAGE ON FOREIGN SERVER"
    cluster.psql(f"{remote} remote TO clerk", shared)
    for made in OF_EACH_KIND:
        cluster.psql("GRANT CREATE ON SCHEMA id_gen_managed TO clerk", shared)
        cluster.psql(f"SET SESSION AUTHORIZATION clerk; {made}", shared)
        refused = None
        while True:
            try:
                as_owner(cluster, "SELECT id_gen_managed.close_schema()", shared)
                break
            except SqlError as error:
                assert error.sqlstate == NOT_ALLOWED, error
                assert "belongs to clerk" in (error.detail or "")
                refused = error
            as_owner(cluster, hinted(refused), shared)
        assert refused, made
    as_owner(cluster, "SELECT id_gen_managed.uninstall()", shared)


def test_what_is_no_code_of_another_role_stops_nothing(cluster: Cluster, shared: str) -> None:
    """PostgreSQL asks for no privilege on the schema when a role sets its defaults or creates a trusted extension."""
    for made in (
        "ALTER DEFAULT PRIVILEGES IN SCHEMA id_gen_managed GRANT SELECT ON TABLES TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA id_gen_managed GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
        "CREATE EXTENSION id_gen_mask SCHEMA id_gen_managed",
        # These need the privilege, if PostgreSQL is up to date.
        """RESET SESSION AUTHORIZATION; GRANT CREATE ON SCHEMA id_gen_managed TO clerk;
            SET SESSION AUTHORIZATION clerk;
            CREATE TYPE clerk.r AS RANGE (SUBTYPE = int, MULTIRANGE_TYPE_NAME = id_gen_managed.m);
            CREATE TABLE clerk.t (a int, b int); CREATE STATISTICS id_gen_managed.s ON a, b FROM clerk.t""",
        "RESET SESSION AUTHORIZATION; CREATE PUBLICATION p FOR TABLES IN SCHEMA id_gen_managed",
    ):  # fmt: skip
        cluster.psql(f"SET SESSION AUTHORIZATION clerk; {made}", shared)
        configure(cluster, shared, worker_id=9)
        run_script(cluster, shared)
        assert cluster.psql(f"SET SESSION AUTHORIZATION clerk; {NEXT}", shared)
    # What stays in the schema is in the way of its removal. The HINT says who can drop it where the owner cannot.
    remove = f"SET SESSION AUTHORIZATION {OWNER}; SELECT id_gen_managed.uninstall()"
    for in_the_way, role, hint in (
        ("extension id_gen_mask", "clerk", "A superuser or role clerk can drop it: DROP EXTENSION id_gen_mask;"),
        ("statistics object id_gen_managed.s", OWNER, "Drop it: DROP STATISTICS id_gen_managed.s;"),
        ("type id_gen_managed.m", "clerk", "A superuser or role clerk can drop it: DROP TYPE clerk.r;"),
    ):
        refused = refusal(cluster, remove, shared)
        assert (refused.sqlstate, refused.detail) == (IS_NEEDED, f"The {in_the_way} is in the schema.")
        assert refused.hint == hint
        if role != OWNER:
            drop_as_owner = f"SET SESSION AUTHORIZATION {OWNER}; {hinted(refused)}"
            assert refusal(cluster, drop_as_owner, shared).sqlstate == NOT_ALLOWED
        cluster.psql(f"SET SESSION AUTHORIZATION {role}; {hinted(refused)}", shared)
    cluster.psql(remove, shared)
    assert cluster.psql("SELECT count(*) FROM pg_namespace WHERE nspname = 'id_gen_managed'", shared) == "0"
    assert cluster.psql("SELECT count(*) FROM pg_default_acl", shared) == "0"


def test_an_object_of_an_extension_is_dropped_with_it(cluster: Cluster, shared: str) -> None:
    """Whether it is code of another role depends on its own owner."""
    cluster.psql("SET SESSION AUTHORIZATION clerk; CREATE EXTENSION id_gen_mask SCHEMA id_gen_managed", shared)
    cluster.psql("ALTER FUNCTION id_gen_managed.id_mask(bigint, text) OWNER TO clerk", shared)
    script = f"SET SESSION AUTHORIZATION {OWNER}; BEGIN; {SCRIPT.read_text()} COMMIT;"
    refused = refusal(cluster, script, shared)
    assert refused.sqlstate == NOT_ALLOWED
    assert refused.hint == "A superuser or role clerk can drop it: DROP EXTENSION id_gen_mask;"
    cluster.psql(f"SET SESSION AUTHORIZATION clerk; {hinted(refused)}", shared)
    run_script(cluster, shared)


def test_no_call_fits_another_function_better(cluster: Cluster) -> None:
    """None of the script's own calls, whether they are parsed when it is installed or when they are made."""
    with cluster.database("overloaded", OWNER):
        run_script(cluster, "overloaded")
        configure(cluster, "overloaded", worker_id=9)
        as_owner(cluster, PLANT % "^(?!(snowflake|uuidv7|published|configure|use_))", "overloaded")
        run_script(cluster, "overloaded")
        as_owner(cluster, PLANT % "^(snowflake|uuidv7|configure$|use_)", "overloaded")
        every = "worker_id => {}, datacenter_id => {}, layout => {}, max_lead => {}, lanes => {}, accept_layout => {}"
        typed = every.format("{}::integer", "{}::integer", "{}::text", "{}::interval", "{}::integer", "{}::boolean")
        configured = "SELECT id_gen_managed.configure(" + typed.format(10, 0, "'js'", "'1 s'", 4, "true") + ")"
        for sql in (
            configured,
            NEXT,
            "SELECT snowflake_next_batch(3000)",
            "SELECT snowflake_next_array(3)",
            "SELECT snowflake_parse(snowflake_next())",
            "SELECT snowflake_timestamp(1), snowflake_worker_id(1), snowflake_datacenter_id(1), snowflake_max(now())",
            "SELECT snowflake_make(now(), 0, 1, 2), snowflake_min(now(), 'js'), snowflake_layouts()",
            "SELECT public.uuidv7(), public.uuidv7('1 h'::interval), uuidv7_min(now()), uuidv7_max(now())",
            "SELECT uuidv7_timestamp(public.uuidv7()), uuidv7_time_decoder(public.uuidv7()::text)",
        ):
            assert as_owner(cluster, sql, "overloaded") or sql == configured
        for sql in (
            "SELECT snowflake_min('1990-01-01')",
            "SELECT snowflake_make(now(), 0, 1000, 2)",
            "SELECT snowflake_timestamp(1, 'nonsense')",
            "SELECT snowflake_timestamp(1, 'time:1')",
            "SELECT id_gen_managed.configure(" + typed.format(1000, 0, "'js'", "'1 s'", 4, "true") + ")",
            "SELECT id_gen_managed.configure(" + typed.format(10, 0, "'js'", "'1 s'", 3, "true") + ")",
            "SELECT id_gen_managed.use_script(1::integer, 0::integer)",
            "SELECT id_gen_managed.refuse(1::bigint, -1::bigint)",
            "SELECT id_gen_managed.refuse(1::bigint, (2^50)::bigint)",
            "SELECT id_gen_managed.refuse((2^30)::bigint, 1::bigint)",
            "SELECT id_gen_managed.refuse_without_number()",
        ):
            refused = refusal(cluster, f"SET SESSION AUTHORIZATION {OWNER}; {sql}", "overloaded")
            assert "planted" not in str(refused), sql
            assert refused.hint, sql


def test_no_setting_of_a_session_changes_what_is_made(cluster: Cluster) -> None:
    """Texts of catalogs, literals with backslashes and times depend on settings."""
    layout = "epoch=2024-05-06T07:08:09.125Z time:41 datacenter:5 worker:5 sequence:12"
    made = []
    for dbname, settings in (("plainly_set", ""), ("oddly_set", ODD_SETTINGS)):
        with cluster.database(dbname, OWNER):
            run_script(cluster, dbname, settings)
            configured = f"SELECT id_gen_managed.configure(worker_id => 5, layout => '{layout}', max_lead => '1.5 s')"
            as_owner(cluster, f"{settings} {configured}; {configured}; {NEXT}", dbname)
            assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())", dbname) == "5"
            dump = cluster.run("pg_dump", dbname=dbname)
            made.append(DUMP_KEY.sub("", IN_EACH_DATABASE.sub("", dump)))
            as_owner(cluster, f"{settings} SELECT id_gen_managed.uninstall()", dbname)
    assert made[0] == made[1]


@pytest.mark.parametrize("call", ANSWERS)
def test_no_setting_of_a_session_changes_an_answer(cluster: Cluster, call: str) -> None:
    plainly, oddly = (
        as_owner(cluster, f"{settings} CREATE TEMP TABLE answer AS SELECT * FROM {call}; RESET ALL; TABLE answer")
        for settings in ("", ODD_SETTINGS)
    )
    assert plainly == oddly


def test_a_schema_that_another_role_made(cluster: Cluster) -> None:
    """Its triggers would run as whoever runs the script."""
    cluster.psql(f"CREATE DATABASE claimed OWNER {OWNER} TEMPLATE template0")
    cluster.psql("GRANT CREATE ON DATABASE claimed TO clerk", "claimed")
    claim = """
        SET SESSION AUTHORIZATION clerk;
        CREATE SCHEMA id_gen_managed;
        CREATE TABLE id_gen_managed.installation (one boolean PRIMARY KEY DEFAULT true, version text);
        CREATE FUNCTION id_gen_managed.caught() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RAISE EXCEPTION ''caught %'', current_user; END';
        CREATE TRIGGER trap BEFORE INSERT ON id_gen_managed.installation FOR EACH ROW
            EXECUTE FUNCTION id_gen_managed.caught();
    """
    cluster.psql(claim, "claimed")
    in_transaction = f"BEGIN; {SCRIPT.read_text()} COMMIT;"
    refused = refusal(cluster, in_transaction, "claimed")
    assert refused.sqlstate == NOT_ALLOWED
    assert "clerk" in (refused.detail or "")
    cluster.psql((refused.hint or "").rpartition(": ")[2], "claimed")
    run_script(cluster, "claimed")
    # Who may do more does not run the code of whom it belongs to.
    refused = refusal(cluster, in_transaction, "claimed")
    assert refused.sqlstate == NOT_ALLOWED
    assert OWNER in (refused.hint or "")
    run_script(cluster, "claimed")


def test_nothing_is_made_nor_called_outside_of_a_transaction(cluster: Cluster) -> None:
    """psql goes on after an error, unless it is told not to."""
    with cluster.database("loose"):
        cluster.psql("GRANT CREATE ON DATABASE loose TO clerk; GRANT CREATE ON SCHEMA public TO clerk", "loose")
        body = "LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''caught %'', current_user; RETURN NULL; END'"
        no_result = body.replace("RETURN NULL; ", "")
        claim = f"""
            SET SESSION AUTHORIZATION clerk;
            CREATE SCHEMA id_gen_managed;
            CREATE FUNCTION public.format(text, name, name) RETURNS text {body};
            CREATE FUNCTION id_gen_managed.publish(boolean) RETURNS void {no_result};
            CREATE FUNCTION id_gen_managed.write_allocate() RETURNS void {no_result};
            CREATE FUNCTION id_gen_managed.is_moved() RETURNS boolean IMMUTABLE {body};
            CREATE TABLE id_gen_managed.installation (one boolean PRIMARY KEY DEFAULT id_gen_managed.is_moved(),
                version text);
        """
        cluster.psql(claim, "loose")
        since = cluster.log_position
        made = "SELECT count(*) FROM pg_class WHERE relname = 'given_to'; SHOW default_transaction_read_only;"
        assert cluster.run("psql", "-XAtq", dbname="loose", stdin=SCRIPT.read_text() + made).split() == ["0", "off"]
        assert refusal(cluster, SCRIPT.read_text(), "loose").sqlstate == NO_TRANSACTION
        # Nor is anything called where there is one.
        assert refusal(cluster, f"BEGIN; {SCRIPT.read_text()} COMMIT;", "loose").sqlstate == NOT_ALLOWED
        assert "caught" not in cluster.log(since)


def test_a_function_of_another_role_is_not_taken_over(cluster: Cluster) -> None:
    """It could be given another body later, which all who use it would run."""
    with cluster.database("planted"):
        cluster.psql("GRANT CREATE ON DATABASE planted TO clerk; GRANT CREATE ON SCHEMA public TO clerk", "planted")
        plant = """
            SET SESSION AUTHORIZATION clerk;
            CREATE SCHEMA clerk;
            CREATE FUNCTION clerk.snowflake_next() RETURNS bigint LANGUAGE sql RETURN 1;
            CREATE FUNCTION public.snowflake_next() RETURNS bigint LANGUAGE sql BEGIN ATOMIC
                SELECT clerk.snowflake_next(); END;
        """
        cluster.psql(plant, "planted")
        refused = refusal(cluster, f"BEGIN; {SCRIPT.read_text()} COMMIT;", "planted")
        assert refused.sqlstate == IS_THERE
        assert "clerk" in (refused.detail or "")


def test_it_can_be_removed(cluster: Cluster) -> None:
    install(cluster, "removed", worker_id=None)
    empty = cluster.psql(OBJECTS, "template1")
    configure(cluster, "removed", worker_id=8)
    remove = f"SET SESSION AUTHORIZATION {OWNER}; SELECT id_gen_managed.uninstall()"
    for use in (
        "CREATE TABLE item (id bigint DEFAULT snowflake_next())",
        "CREATE TABLE item (id bigint DEFAULT id_gen_managed.snowflake_next())",
        "CREATE TABLE item (id bigint); CREATE INDEX ON item (id_gen_managed.snowflake_timestamp(id, 'js'))",
        "CREATE TABLE item AS SELECT; CREATE VIEW numbers AS SELECT FROM id_gen_managed.configuration",
    ):
        as_owner(cluster, use, "removed")
        assert refusal(cluster, remove, "removed").sqlstate == IS_NEEDED, use
        assert as_owner(cluster, "SELECT id_gen_managed.snowflake_next() IS NOT NULL", "removed") == "t"
        as_owner(cluster, "DROP VIEW IF EXISTS numbers; DROP TABLE item", "removed")
    as_owner(cluster, "SELECT id_gen_managed.uninstall()", "removed")
    assert cluster.psql(OBJECTS, "removed") == empty


def test_another_schema(cluster: Cluster) -> None:
    cluster.psql(f"CREATE DATABASE schemas OWNER {OWNER} TEMPLATE template0")
    run_script(cluster, "schemas", "CREATE SCHEMA ids; SET LOCAL search_path = ids;")
    configure(cluster, "schemas", worker_id=3)
    # As logical replication, dumps and autovacuum call it.
    assert as_owner(cluster, "SET search_path = ''; SELECT ids.snowflake_next() IS NOT NULL", "schemas") == "t"
    assert refusal(cluster, NEXT, "schemas").sqlstate == "42883"


@pytest.mark.parametrize("schema", ["ids", "public"])
def test_a_schema_that_is_renamed(cluster: Cluster, schema: str) -> None:
    """The script finds its functions there when it is run again or removed, not in a new one of its name."""
    database = f"renamed_{schema}"
    cluster.psql(f"CREATE DATABASE {database} OWNER {OWNER} TEMPLATE template0")
    run_script(cluster, database, f"CREATE SCHEMA IF NOT EXISTS {schema}; SET LOCAL search_path = {schema};")
    configure(cluster, database, worker_id=4)
    as_owner(cluster, f"CREATE TABLE {schema}.item (id bigint DEFAULT {schema}.snowflake_next())", database)
    as_owner(cluster, f'ALTER SCHEMA {schema} RENAME TO "Odd keys"; CREATE SCHEMA {schema}', database)
    run_script(cluster, database)
    as_owner(cluster, 'INSERT INTO "Odd keys".item DEFAULT VALUES', database)
    homes = (
        "SELECT string_agg(DISTINCT pronamespace::regnamespace::text, ',') FROM pg_proc WHERE proname = 'uuidv7_min'"
    )
    assert cluster.psql(homes, database) == '"Odd keys",id_gen_managed'
    as_owner(cluster, 'DROP TABLE "Odd keys".item; SELECT id_gen_managed.uninstall()', database)
    assert cluster.psql(homes, database) == ""


def test_a_function_of_that_name_is_left_alone(cluster: Cluster) -> None:
    cluster.psql(f"CREATE DATABASE named OWNER {OWNER} TEMPLATE template0")
    as_owner(
        cluster, "CREATE FUNCTION public.uuidv7() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()'", "named"
    )
    with pytest.raises(SqlError) as refused:
        run_script(cluster, "named")
    assert refused.value.sqlstate == IS_THERE
    schema, _, path = (refused.value.hint or "").partition(": ")[2].partition("; ")
    as_owner(cluster, f"{schema};", "named")
    run_script(cluster, "named", path)
    assert as_owner(cluster, "SELECT ids.uuidv7() IS NOT NULL", "named") == "t"


def test_a_temporary_schema_is_refused(cluster: Cluster) -> None:
    """It would take the functions with it when the session ends."""
    with cluster.database("temporary", OWNER):
        for path in ("pg_temp, public", "pg_temp"):
            with pytest.raises(SqlError) as refused:
                run_script(cluster, "temporary", f"SET LOCAL search_path = {path};")
            assert refused.value.sqlstate == "3F000"
            assert "temporary" in refused.value.message
        schema, _, path = (refused.value.hint or "").partition(": ")[2].partition("; ")
        as_owner(cluster, f"{schema};", "temporary")
        run_script(cluster, "temporary", path)
        # Updating it creates nothing there.
        run_script(cluster, "temporary", "SET LOCAL search_path = pg_temp;")


def test_beside_the_extension(cluster: Cluster) -> None:
    cluster.psql(f"CREATE DATABASE beside OWNER {OWNER} TEMPLATE template0")
    as_owner(cluster, "CREATE EXTENSION id_gen", "beside")
    with pytest.raises(SqlError) as refused:
        run_script(cluster, "beside")
    assert refused.value.sqlstate == NOT_READY
    as_owner(cluster, (refused.value.hint or "").partition(": ")[2], "beside")
    run_script(cluster, "beside")


def test_a_number_has_to_be_given(cluster: Cluster) -> None:
    install(cluster, "numberless", worker_id=None)
    refused = refusal(cluster, NEXT, "numberless")
    assert refused.sqlstate == NOT_READY
    as_owner(cluster, with_number(refused.hint, 1), "numberless")
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())", "numberless") == "1"


@pytest.mark.parametrize("rows", ["--schema-only", "--exclude-table-data=id_gen_managed.*"])
def test_a_copy_without_its_rows_has_no_number(cluster: Cluster, rows: str) -> None:
    with cluster.database("without_rows", OWNER) as copy:
        cluster.psql(cluster.run("pg_dump", rows, dbname=DATABASE), copy)
        refused = refusal(cluster, NEXT, copy)
        assert (refused.sqlstate, refused.message) == (NOT_READY, "this database has no worker ID")
        as_owner(cluster, with_number(refused.hint, 1), copy)
        assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())", copy) == "1"


@pytest.mark.parametrize(
    ("settings", "sqlstate"),
    [
        ("worker_id => 32", OUT_OF_RANGE),
        ("worker_id => -1", OUT_OF_RANGE),
        ("datacenter_id => 32", OUT_OF_RANGE),
        ("layout => 'nothing'", "42704"),
        ("layout => 'epoch=2020-01-01 time:41'", BAD_VALUE),
        ("lanes => 3", BAD_VALUE),
        ("lanes => 128", BAD_VALUE),
        ("max_lead => '-1 s'", BAD_VALUE),
        # Its IDs would be below those of the default.
        ("layout => 'js'", NOT_READY),
    ],
)
def test_settings_that_cannot_be(cluster: Cluster, settings: str, sqlstate: str) -> None:
    before = int(as_owner(cluster, NEXT))
    refused = refusal(cluster, f"SELECT id_gen_managed.configure({settings})", DATABASE)
    assert refused.sqlstate == sqlstate
    assert refused.hint
    assert int(as_owner(cluster, NEXT)) != before


@pytest.mark.parametrize("role", ["member", "unset_member", "postgres"])
def test_a_number_given_by_another_than_the_owner(cluster: Cluster, role: str) -> None:
    """By a member of the role that owns the database, or by an administrator: for everybody, as ever."""
    dbname = f"given_by_{role}"
    install(cluster, dbname)
    if role != "postgres":
        cannot_set = "WITH SET FALSE" if role == "unset_member" and cluster.server.version >= 16 else ""
        cluster.psql(f"CREATE ROLE {role} LOGIN; GRANT {OWNER} TO {role} {cannot_set}")
    cluster.psql(f"SET SESSION AUTHORIZATION {role}; SELECT id_gen_managed.configure(worker_id => 9)", dbname)
    for caller in ("clerk", OWNER, role):
        worker = "SELECT worker_id FROM snowflake_parse(snowflake_next())"
        assert cluster.psql(f"SET SESSION AUTHORIZATION {caller}; {worker}", dbname) == "9"
    configure(cluster, dbname, worker_id=10)


def test_a_layout_below_can_be_accepted(cluster: Cluster) -> None:
    install(cluster, "lower")
    as_owner(cluster, NEXT, "lower")
    call = "SELECT id_gen_managed.configure(layout => 'js', lanes => 2)"
    assert "accept_layout => true" in (refusal(cluster, call, "lower").hint or "")
    as_owner(cluster, call.replace(")", ", accept_layout => true)"), "lower")
    assert as_owner(cluster, "SELECT lanes FROM id_gen_managed.configuration WHERE in_use", "lower") == "2"
    assert int(as_owner(cluster, NEXT, "lower")) < 2**53


def test_a_sequence_of_the_lanes_takes_no_call_that_was_under_way(cluster: Cluster) -> None:
    """A session that has seen nothing of another number yet is told to begin again, in old snapshots too."""
    install(cluster, "renumbered")
    with cluster.connect("renumbered") as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT 1")
        configure(cluster, "renumbered", worker_id=8)
        row = session.execute("SELECT worker_id FROM snowflake_parse(snowflake_next())").fetchone()
        assert row == (8,)


@pytest.mark.parametrize(
    ("change", "waiting"),
    [
        ("configure(worker_id => 9)", "configure(worker_id => 8)"),
        ("configure(worker_id => 9)", "configure(max_lead => '2 s')"),
        ("configure(worker_id => 9)", "uninstall()"),
        ("uninstall()", "uninstall()"),
    ],
)
@pytest.mark.parametrize("numbered", [True, False])
def test_a_change_beside_another(cluster: Cluster, change: str, waiting: str, numbered: bool) -> None:
    """One that began before the other ended, and does not see what that has changed, begins again."""
    with cluster.database("raced", OWNER):
        run_script(cluster, "raced")
        if numbered:
            configure(cluster, "raced", worker_id=WORKER)
        with cluster.connect("raced") as first, cluster.connect("raced") as second, ThreadPoolExecutor(1) as pool:
            second.execute("SET default_transaction_isolation = 'repeatable read'")
            first.execute("BEGIN")
            first.execute(f"SELECT id_gen_managed.{change}")
            call = pool.submit(second.execute, f"SELECT id_gen_managed.{waiting}")
            waits = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {second.info.backend_pid}"
            cluster.poll_until(waits, expected="advisory")
            first.execute("COMMIT")
            with pytest.raises(psycopg.errors.SerializationFailure) as refused:
                call.result()
            assert refused.value.diag.message_hint == "Run the transaction again."
            if change != "uninstall()":
                second.execute(f"SELECT id_gen_managed.{waiting}")


@pytest.mark.parametrize("way", ["dump", "template"])
def test_a_copy_refuses(cluster: Cluster, way: str) -> None:
    """Until it has a number of its own; or again the one that it had."""
    copy = f"copied_by_{way}"
    before = int(as_owner(cluster, NEXT))
    if way == "template":
        cluster.psql(f"CREATE DATABASE {copy} OWNER {OWNER} TEMPLATE {DATABASE}")
    else:
        cluster.psql(f"CREATE DATABASE {copy} OWNER {OWNER} TEMPLATE template0")
        cluster.psql(cluster.run("pg_dump", dbname=DATABASE), copy)
    assert as_owner(cluster, "SELECT snowflake_timestamp(0)", copy) == "2024-01-01 00:00:00+00"
    refused = refusal(cluster, NEXT, copy)
    assert refused.sqlstate == NOT_READY
    # Also a session that says it has made some: everybody may set what a session remembers.
    for remembered in ("'3'", "(pg_backend_pid()::bigint << 6 | 3)::text"):
        forged = f"SELECT set_config('id_gen_managed.session', {remembered}, false); {NEXT}"
        for role in ("clerk", OWNER):
            assert refusal(cluster, f"SET SESSION AUTHORIZATION {role}; {forged}", copy).message == refused.message
    as_owner(cluster, with_number(refused.hint, WORKER + 1), copy)
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())", copy) == str(WORKER + 1)
    configure(cluster, copy, worker_id=WORKER)
    assert int(as_owner(cluster, NEXT, copy)) > before


@pytest.mark.parametrize(
    ("own", "offered"),
    [
        (
            "worker_id => 2",
            "a worker ID from 0 to 31 that .*: SELECT id_gen_managed.configure(worker_id => <worker ID>);",
        ),
        (
            "worker_id => 0, layout => 'epoch=2024-01-01 time:41 datacenter:1 sequence:12'",
            "a datacenter ID from 0 to 1 that .*: SELECT "
            "id_gen_managed.configure(worker_id => 0, datacenter_id => <datacenter ID>);",
        ),
        (
            "worker_id => 0, layout => 'epoch=2024-01-01 time:41 sequence:12'",
            "a layout with a worker field, .*: SELECT "
            "id_gen_managed.configure(worker_id => <worker ID>, layout => <layout>);",
        ),
    ],
)
def test_errors_leave_the_number_to_the_administrator(cluster: Cluster, own: str, offered: str) -> None:
    """They give the range that the layout has. A number that they named would be set on every copy alike."""
    expected = ".*".join(map(re.escape, offered.split(".*")))
    install(cluster, "first", worker_id=None)
    as_owner(cluster, f"SELECT id_gen_managed.configure({own}, lanes => 1)", "first")
    cluster.psql(f"CREATE DATABASE second OWNER {OWNER} TEMPLATE first")
    refused = refusal(cluster, NEXT, "second")
    assert re.search(expected, refused.hint or ""), refused.hint
    # A lane that is far ahead.
    lane = "id_gen_managed.lane_0"
    as_owner(cluster, f"SELECT setval('{lane}', last_value + (1::bigint << 32)) FROM {lane}", "first")
    refused = refusal(cluster, NEXT, "first")
    assert refused.sqlstate == TOO_FAR_AHEAD
    assert re.search(f"{expected}$", refused.hint or ""), refused.hint
    for dbname in ("first", "second"):
        cluster.psql(f"DROP DATABASE {dbname}")


@pytest.mark.long
def test_a_copy_goes_on_above_what_the_original_made_ahead_of_the_clock(cluster: Cluster) -> None:
    """Restored on the same start of the same server, whose lanes the dump has as they were."""
    install(cluster, "ahead", max_lead="1 hour")
    as_owner(cluster, NEXT, "ahead")
    dump = cluster.run("pg_dump", dbname="ahead")
    made = as_owner(cluster, "SELECT max(id) FROM unnest(snowflake_next_array(1000000)) id", "ahead")
    cluster.psql("DROP DATABASE ahead")
    cluster.psql(f"CREATE DATABASE ahead OWNER {OWNER} TEMPLATE template0")
    cluster.psql(dump, "ahead")
    configure(cluster, "ahead", worker_id=WORKER)
    assert int(as_owner(cluster, NEXT, "ahead")) > int(made)


def test_a_restore_into_the_same_database_refuses(cluster: Cluster) -> None:
    """Its lanes are set back, on the same start of the same server."""
    install(cluster, "set_back", lanes=1, max_lead="600 s")
    cluster.psql(NEXT, "set_back")
    dump = cluster.base / "set_back.dump"
    cluster.run("pg_dump", "--format=custom", f"--file={dump}", dbname="set_back")
    made = as_owner(cluster, "SELECT max(id) FROM unnest(snowflake_next_array(1000000)) id", "set_back")
    cluster.run("pg_restore", "--clean", "--dbname=set_back", str(dump))
    refused = refusal(cluster, NEXT, "set_back")
    assert refused.sqlstate == NOT_READY
    as_owner(cluster, with_number(refused.hint, WORKER), "set_back")
    assert int(as_owner(cluster, NEXT, "set_back")) > int(made)
    as_owner(cluster, "SELECT id_gen_managed.uninstall()", "set_back")


def test_a_publication_for_all_tables() -> None:
    """Has the script's tables, too. A subscriber keeps its own rows of them, and gets those of all other tables."""
    conf = "wal_level = logical\n"
    with Cluster("publisher", conf=conf) as publisher, Cluster("subscriber", conf=conf) as subscriber:
        for server, worker in ((publisher, WORKER), (subscriber, WORKER + 1)):
            install(server, worker_id=worker)
            as_owner(server, "CREATE TABLE item (id bigint PRIMARY KEY DEFAULT snowflake_next())")
        state = "TABLE id_gen_managed.installation; TABLE id_gen_managed.configuration; TABLE id_gen_managed.given_to"
        before = subscriber.psql(state, DATABASE)
        as_owner(publisher, "INSERT INTO item DEFAULT VALUES")
        publisher.psql("CREATE PUBLICATION everything FOR ALL TABLES", DATABASE)
        subscribe = f"CREATE SUBSCRIPTION everything CONNECTION '{publisher.conninfo(DATABASE)}' PUBLICATION everything"
        subscriber.psql(subscribe, DATABASE)
        copied = "SELECT string_agg(DISTINCT srsubstate::text, '') FROM pg_subscription_rel"
        subscriber.poll_until(copied, DATABASE, "r")
        # A change of the publisher's rows, and of one that only it has.
        for settings in ({"max_lead": "2 s"}, {"worker_id": WORKER + 2}, {"worker_id": WORKER + 1}):
            configure(publisher, **settings)
        as_owner(publisher, "INSERT INTO item DEFAULT VALUES")
        subscriber.poll_until("SELECT count(*) FROM item", DATABASE, "2")
        assert subscriber.psql(state, DATABASE) == before
        made = as_owner(subscriber, "SELECT worker_id FROM snowflake_parse(snowflake_next())")
        assert made == str(WORKER + 1)
        # What would be discarded is refused.
        change = "SET session_replication_role = replica; SELECT id_gen_managed.configure(worker_id => 12)"
        refused = refusal(subscriber, change, DATABASE)
        assert refused.sqlstate == NOT_READY
        subscriber.psql(f"{(refused.hint or '').partition(': ')[2]} {change.partition(';')[2]}", DATABASE)
        subscriber.psql("DROP SUBSCRIPTION everything", DATABASE)


def test_a_snapshot_of_before_a_number_where_the_system_identifier_is_not_shown(cluster: Cluster) -> None:
    """The session goes on with the new number."""
    install(cluster, "unshown")
    cluster.psql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "unshown")
    configure(cluster, "unshown", worker_id=8)
    with cluster.connect("unshown") as session:
        session.execute(f"SET SESSION AUTHORIZATION {OWNER}")
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT 1")
        configure(cluster, "unshown", worker_id=9)
        assert session.execute("SELECT worker_id FROM snowflake_parse(snowflake_next())").fetchone() == (9,)


def test_a_snapshot_of_before_a_copy_has_its_number(cluster: Cluster) -> None:
    """Shows a copy, so the session has to run its transaction again."""
    install(cluster, "copied")
    cluster.psql(f"CREATE DATABASE late_copy OWNER {OWNER} TEMPLATE copied")
    with cluster.connect("late_copy") as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT 1")
        configure(cluster, "late_copy", worker_id=9)
        with pytest.raises(psycopg.errors.SerializationFailure):
            session.execute(NEXT)
        session.execute("ROLLBACK")
        assert session.execute("SELECT worker_id FROM snowflake_parse(snowflake_next())").fetchone() == (9,)


def test_a_copy_on_another_server_refuses_although_its_database_has_the_same_number(cluster: Cluster) -> None:
    """The first database of a server usually has the same as the first of another."""
    create = f"CREATE DATABASE twin OWNER {OWNER} TEMPLATE template0 OID = 99999"
    with Cluster("other") as other:
        cluster.psql(create)
        run_script(cluster, "twin")
        configure(cluster, "twin", worker_id=8)
        other.psql(f"CREATE ROLE {OWNER} LOGIN")
        other.psql(create)
        other.psql(cluster.run("pg_dump", dbname="twin"), "twin")
        assert refusal(other, NEXT, "twin").sqlstate == NOT_READY
        # Also where a service does not show the system identifier.
        for server in (cluster, other):
            server.psql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "twin")
        configure(cluster, "twin", worker_id=9)
        cluster.psql(NEXT, "twin")
        other.psql("DROP DATABASE twin")
        other.psql(create)
        other.psql(cluster.run("pg_dump", dbname="twin"), "twin")
        assert refusal(other, NEXT, "twin").sqlstate == NOT_READY
        configure(other, "twin", worker_id=8)
        other.psql(NEXT, "twin")
    cluster.psql("DROP DATABASE twin")


def test_the_wrapped_script(cluster: Cluster) -> None:
    """What pg_tle is given creates the same; pg_tle itself is not among what is tested with."""
    cluster.psql(f"CREATE DATABASE wrapped OWNER {OWNER} TEMPLATE template0")
    stub = """
        CREATE SCHEMA pgtle;
        CREATE TABLE pgtle.given (name text, version text, script text);
        CREATE FUNCTION pgtle.install_extension(name text, version text, description text, ext text,
            requires text[] DEFAULT NULL) RETURNS boolean LANGUAGE sql
            AS 'INSERT INTO pgtle.given VALUES (name, version, ext) RETURNING true';
    """
    as_owner(cluster, stub, "wrapped")
    wrapped = subprocess.run([SCRIPT.with_name("pg_tle.sh")], check=True, capture_output=True, text=True).stdout
    as_owner(cluster, wrapped, "wrapped")
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert cluster.psql("SELECT name, version FROM pgtle.given", "wrapped") == f"id_gen_managed|{version}"
    script = cluster.psql("SELECT script FROM pgtle.given", "wrapped")
    as_owner(cluster, f"BEGIN; SET LOCAL search_path = public, pg_temp; {script} COMMIT;", "wrapped")
    assert cluster.psql("SELECT version FROM id_gen_managed.installation", "wrapped") == version
    configure(cluster, "wrapped", worker_id=4)
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())", "wrapped") == "4"
