"""A job that converts a column, and what others do meanwhile: dumps that are restored, sessions with other settings,
schema changes, other roles, locks. Nothing is lost or changes its meaning in silence."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from harness import GENERATING, Cluster
from harness.convert import planned, run, schema_dump, value

# What it asks of the catalogs is the same in every version; test_convert_online.py tries what is not.
pytestmark = pytest.mark.any_server

SHOP = """
    CREATE TABLE customer (id serial PRIMARY KEY, name text NOT NULL DEFAULT 'Ada', CHECK (id > 0));
    CREATE TABLE purchase (number int, customer_id int REFERENCES customer);
    CREATE VIEW named AS SELECT id, name FROM customer;
    INSERT INTO customer (name) SELECT 'name ' || n FROM generate_series(1, 20) n;
    INSERT INTO purchase SELECT n, n FROM generate_series(1, 20) n;
"""
COLUMN = "'public.customer'::regclass, 'id'::text"
UNDO = f"CALL id_gen_convert.undo({COLUMN})"
ROWS = (
    "SELECT string_agg(c.*::text, ',' ORDER BY c.id),"
    " (SELECT string_agg(p.*::text, ',' ORDER BY number) FROM purchase p) FROM customer c"
)
PHASE = "SELECT phase FROM id_gen_convert.job"

Refused = psycopg.errors.ObjectNotInPrerequisiteState


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster("changes", conf=GENERATING + "max_prepared_transactions = 2\n") as cluster:
        yield cluster


def hinted(error: psycopg.Error) -> list[str]:
    """The statements of a hint."""
    return re.findall(r"(?:ALTER|CALL|SELECT)\b[^;]*", error.diag.message_hint or "")


def phases(connection: psycopg.Connection) -> Iterator[str]:
    """Goes through a job and halfway back: yields each time that it has come to another phase."""
    statements = planned(connection, COLUMN)
    run(connection, statements[0])
    phase = ""
    while phase != "ready":
        now = value(connection, PHASE)
        if now != phase:
            phase = str(now)
            yield phase
            if phase == "index":
                run(connection, *[statement for statement in statements if statement.startswith("CREATE")])
        run(connection, f"SELECT id_gen_convert.step({COLUMN})")
    run(connection, *statements[-2:])
    yield "switched"
    run(connection, f"SELECT id_gen_convert.undo_step({COLUMN})")
    yield "returned"


@pytest.mark.long
def test_a_dump_is_restored_in_every_phase(server: Cluster, connection: psycopg.Connection) -> None:
    """By psql, with all tables of users, and the job can be undone there."""
    run(connection, SHOP)
    before = schema_dump(server, "shop"), connection.execute(ROWS.encode()).fetchall()
    seen = []
    for phase in phases(connection):
        seen.append(phase)
        with server.database("restored"):
            server.psql(server.run("pg_dump", dbname="shop"), "restored")
            with server.connect("restored") as restored:
                assert value(restored, PHASE) == phase
                run(restored, UNDO)
                assert restored.execute(ROWS.encode()).fetchall() == before[1], phase
            assert schema_dump(server, "restored") == before[0], phase
    assert seen == ["fill", "check", "index", "attach", "reference", "ready", "switched", "returned"]


def test_a_job_that_is_halfway_back_is_not_verified(connection: psycopg.Connection) -> None:
    run(connection, SHOP)
    assert list(phases(connection))[-1] == "returned"
    with pytest.raises(Refused, match="is in phase returned") as caught:
        run(connection, f"SELECT * FROM id_gen_convert.verify({COLUMN})")
    run(connection, *hinted(caught.value))
    assert value(connection, "SELECT to_regclass('id_gen_convert.job') IS NULL")


TEXTS = """
    CREATE TABLE customer (
        id serial PRIMARY KEY, price float8, day date, at timestamptz, span interval, picture bytea, tags text[],
        cost money,
        CONSTRAINT floats CHECK (id > 0 OR price < 0.12345678901234567::float8),
        CONSTRAINT dates CHECK (id > 0 OR day <> '2024-03-04'::date),
        CONSTRAINT times CHECK (id > 0 OR at <> '2024-03-04 05:06+00'::timestamptz),
        CONSTRAINT spans CHECK (id > 0 OR span <> '-1 day 2 hours'::interval),
        CONSTRAINT bytes CHECK (id > 0 OR picture <> '\\x5c27ff'::bytea),
        CONSTRAINT arrays CHECK (id > 0 OR tags <> '{a,NULL}'::text[]),
        CONSTRAINT costs CHECK (id > 0 OR cost <> '1.50'::money));
    CREATE INDEX late ON customer (id) WHERE day > '2024-03-04'::date AND at > '2024-03-04 05:06+00'::timestamptz;
    CREATE VIEW new AS SELECT id FROM customer WHERE day > '2024-03-04'::date AND price > 0.12345678901234567::float8;
    CREATE POLICY own ON customer USING (id > 0 AND day > '2024-03-04'::date);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER changed BEFORE INSERT ON customer FOR EACH ROW
        WHEN (NEW.id > 0 AND NEW.day > '2024-03-04'::date) EXECUTE FUNCTION note();
"""
# All that has a constant in it.
DEFINITIONS = """
    SELECT string_agg(text, E'\\n' ORDER BY text) FROM (
        SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
         WHERE conrelid = 'customer'::regclass AND contype = 'c' AND conname !~ '_old$'
        UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = 'late'::regclass
        UNION ALL SELECT pg_get_viewdef('new'::regclass)
        UNION ALL SELECT pg_get_expr(polqual, polrelid) FROM pg_policy
        UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'changed') AS definition (text)
"""
SESSIONS = [
    "SET datestyle = 'SQL, DMY'; SET extra_float_digits = 0; SET intervalstyle = 'sql_standard';"
    "SET timezone = 'Asia/Tokyo'; SET bytea_output = 'escape'; SET quote_all_identifiers = on",
    "SET datestyle = 'German'; SET extra_float_digits = -10; SET intervalstyle = 'iso_8601';"
    "SET timezone = 'America/Lima'; SET array_nulls = off; SET transform_null_equals = on",
    "SET datestyle = 'Postgres, YMD'; SET intervalstyle = 'postgres_verbose'; SET quote_all_identifiers = on",
]


def test_settings_of_sessions_change_no_definition(server: Cluster, connection: psycopg.Connection) -> None:
    """Each statement runs in a session with other settings, and so does the undo."""
    run(connection, TEXTS)
    before, definitions = schema_dump(server, "shop"), value(connection, DEFINITIONS)
    statements: list[str] = []
    for turn, settings in enumerate([*SESSIONS, *SESSIONS, *SESSIONS, *SESSIONS]):
        with server.connect("shop") as session:
            run(session, settings)
            statements = statements or planned(session, COLUMN)
            if turn < len(statements):
                run(session, statements[turn])
    assert value(connection, PHASE) == "switched"
    assert value(connection, DEFINITIONS) == definitions
    with server.connect("shop") as session:
        run(session, SESSIONS[1], UNDO)
    assert schema_dump(server, "shop") == before


def test_times_of_no_zone_are_those_of_the_session(connection: psycopg.Connection) -> None:
    """The zone of the session that starts the job counts, although definitions are read in another."""
    run(connection, "CREATE TABLE customer (id serial PRIMARY KEY, at timestamp)")
    run(connection, "INSERT INTO customer (at) VALUES ('2025-05-05 12:00')", "SET timezone = 'Asia/Tokyo'")
    run(connection, *planned(connection, f"{COLUMN}, created_at => 'at'"))
    assert value(connection, "SELECT snowflake_timestamp(id) = '2025-05-05 12:00+09' FROM customer") is True


@pytest.mark.parametrize("created_at", [False, True])
def test_stored_values_are_computed_by_the_settings_of_the_database(
    server: Cluster, connection: psycopg.Connection, created_at: bool
) -> None:
    """Of functions that PostgreSQL takes for immutable, such as the date of a time: in columns, indexes and checks."""
    run(connection, "ALTER DATABASE shop SET timezone = 'Asia/Tokyo'; ALTER DATABASE shop SET datestyle = 'German'")
    rows = "SELECT array_agg(ROW(at, day, shown) ORDER BY at)::text FROM customer"
    by_index = "SELECT array_agg(at ORDER BY at)::text FROM customer WHERE day(at) = '04.01.2026'"
    with server.connect("shop") as session:
        run(
            session,
            "CREATE FUNCTION day(timestamptz) RETURNS date IMMUTABLE LANGUAGE sql AS 'SELECT $1::date'",
            "CREATE FUNCTION shown(timestamptz) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'",
            "CREATE TABLE customer (id serial PRIMARY KEY, at timestamptz, CHECK (day(at) > '01.01.2026'),"
            " day date GENERATED ALWAYS AS (day(at)) STORED, shown text GENERATED ALWAYS AS (shown(at)) STORED)",
            "CREATE UNIQUE INDEX by_day ON customer (day(at))",
            "INSERT INTO customer (at) VALUES ('2026-01-01 16:00Z'), ('2026-01-03 03:00Z'), ('2026-01-03 16:00Z')",
        )
        if not created_at:
            run(session, "ALTER TABLE customer ADD CHECK (id > 0 AND day(at) > '01.01.2026')")
        before, found = value(session, rows), value(session, by_index)
        run(session, *planned(session, f"{COLUMN}, created_at => 'at'" if created_at else COLUMN))
        run(session, "SET enable_seqscan = off")
        assert (value(session, rows), value(session, by_index)) == (before, found)
        run(session, UNDO)
        assert (value(session, rows), value(session, by_index)) == (before, found)


GUARDED = f"""
    {SHOP}
    CREATE ROLE reader; GRANT CREATE ON SCHEMA public TO reader;
    CREATE STATISTICS both_of ON id, name FROM customer;
    ALTER TABLE customer ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON customer USING (id > 1);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER noted BEFORE INSERT ON customer FOR EACH ROW WHEN (NEW.id < 0) EXECUTE FUNCTION note();
"""
# What others change, and how it is named.
CHANGES = {
    "ALTER POLICY own ON customer USING (id > 100)": "policy own on table public.customer",
    "DROP POLICY own ON customer": "policy own on table public.customer",
    "CREATE OR REPLACE VIEW named AS SELECT id, upper(name) AS name FROM customer": "view public.named",
    "GRANT SELECT ON named TO reader": "view public.named",
    "COMMENT ON VIEW named IS 'new'": "view public.named",
    "CREATE VIEW late AS SELECT name FROM named": "view public.late",
    "CREATE TRIGGER late INSTEAD OF INSERT ON named FOR EACH ROW EXECUTE FUNCTION note()": "trigger late on view",
    "ALTER TABLE customer ADD CONSTRAINT late CHECK (id <> 70)": "constraint late on table public.customer",
    "CREATE UNIQUE INDEX late ON customer (name, id)": "index public.late",
    "DROP TRIGGER noted ON customer": "trigger noted on table public.customer",
    "ALTER TABLE customer DISABLE TRIGGER noted": "trigger noted on table public.customer",
    "ALTER TABLE customer REPLICA IDENTITY FULL": "replica identity of public.customer",
    "GRANT SELECT (id) ON customer TO reader": "column public.customer.id",
    "ALTER TABLE customer ALTER COLUMN id SET STATISTICS 500": "column public.customer.id",
    "ALTER TABLE customer ALTER COLUMN id SET DEFAULT 5": "column public.customer.id",
    "COMMENT ON COLUMN purchase.customer_id IS 'new'": "column public.purchase.customer_id",
    "COMMENT ON CONSTRAINT customer_id_check ON customer IS 'new'": "constraint customer_id_check on table",
    "ALTER TABLE customer CLUSTER ON customer_pkey": "constraint customer_pkey on table public.customer",
    "COMMENT ON INDEX customer_pkey IS 'new'": "constraint customer_pkey on table public.customer",
    "ALTER INDEX customer_pkey SET (fillfactor = 50)": "constraint customer_pkey on table public.customer",
    "ALTER STATISTICS both_of SET STATISTICS 777": "statistics object public.both_of",
    "ALTER STATISTICS both_of OWNER TO reader": "statistics object public.both_of",
}


@pytest.fixture
def guarded(connection: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """A database with what others may change."""
    run(connection, GUARDED)
    yield connection
    run(connection, "DROP OWNED BY reader; DROP ROLE reader")


def refuses_each_change(connection: psycopg.Connection, call: str) -> None:
    for change, name in CHANGES.items():
        with pytest.raises(Refused) as refused, connection.transaction():
            run(connection, change, call)
        assert name in (refused.value.diag.message_detail or ""), change


def test_a_switch_takes_back_no_change_of_others(guarded: psycopg.Connection) -> None:
    statements = planned(guarded, COLUMN)
    run(guarded, *statements[:-1])
    refuses_each_change(guarded, statements[-1])
    run(guarded, statements[-1])


def test_an_undo_takes_back_no_change_of_others(server: Cluster, guarded: psycopg.Connection) -> None:
    """It says what it would take back, and does so only if it is told to."""
    before = schema_dump(server, "shop")
    run(guarded, *planned(guarded, COLUMN))
    refuses_each_change(guarded, f"SELECT id_gen_convert.undo_step({COLUMN})")
    run(guarded, "ALTER POLICY own ON customer USING (id > 100)", "DROP TRIGGER noted ON customer")
    with pytest.raises(Refused) as refused:
        run(guarded, UNDO)
    forced = (refused.value.diag.message_hint or "").rpartition(": ")[2]
    run(guarded, forced)
    assert schema_dump(server, "shop") == before


def test_triggers_that_were_off_are_missed(connection: psycopg.Connection) -> None:
    """By the switch, also where verify has found them on, and by an undo, unless it is told to go back as it is."""
    run(connection, SHOP)
    statements = planned(connection, COLUMN)
    run(connection, *statements[:-1])
    for call in (statements[-1], UNDO):
        run(connection, "ALTER TABLE purchase DISABLE TRIGGER USER")
        with pytest.raises(Refused, match="missing or disabled") as refused:
            run(connection, call)
        assert "on purchase" in (refused.value.diag.message_detail or "").replace("public.", "")
        run(connection, *[text for text in hinted(refused.value) if "ENABLE ALWAYS" in text or "verify" in text])
        run(connection, call)
    run(connection, *statements)
    run(connection, "DROP TRIGGER zz_id_gen_backward_2_2_insert ON purchase")
    with pytest.raises(Refused, match="missing or disabled") as refused:
        run(connection, UNDO)
    run(connection, (refused.value.diag.message_hint or "").rpartition(": ")[2])
    assert value(connection, "SELECT to_regnamespace('id_gen_convert')") is None


def test_triggers_that_were_off_for_a_while_are_missed(connection: psycopg.Connection) -> None:
    """Also where they are on again when the job switches."""
    run(connection, SHOP, "ALTER TABLE customer ADD at timestamptz DEFAULT now(), DROP CONSTRAINT customer_id_check")
    statements = planned(connection, f"{COLUMN}, created_at => 'at'")
    run(connection, *statements[:-1])
    run(connection, "ALTER TABLE purchase DISABLE TRIGGER USER", "UPDATE purchase SET customer_id = 2 WHERE number = 1")
    with pytest.raises(Refused) as refused:
        run(connection, statements[-1])
    run(connection, *[text for text in hinted(refused.value) if "ENABLE ALWAYS" in text])
    with pytest.raises(Refused, match="after the values were verified") as refused:
        run(connection, statements[-1])
    [verify] = hinted(refused.value)
    run(connection, str(value(connection, f"SELECT remedy FROM ({verify}) v WHERE status = 'error'")), verify)
    run(connection, statements[-1])
    query = "SELECT count(*) FROM purchase p JOIN customer c ON c.id = customer_id WHERE name = 'name 2'"
    assert value(connection, query) == 2


TOUCH = """
    CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.name := ''touched''; RETURN NEW; END';
    CREATE TRIGGER off BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION touch();
    ALTER TABLE customer DISABLE TRIGGER off;
"""
MADE = "CREATE TRIGGER made BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION touch()"
ENABLED = "ALTER TABLE customer ENABLE TRIGGER off"


@pytest.mark.parametrize("late", [MADE, ENABLED, f"{MADE}; ALTER TABLE customer ENABLE ALWAYS TRIGGER made"])
def test_no_row_that_a_job_writes_fires_a_late_trigger(connection: psycopg.Connection, late: str) -> None:
    """One that fires always is refused while rows are written, with its remedy."""
    run(connection, SHOP, TOUCH)
    statements = planned(connection, COLUMN)
    run(connection, statements[0], late)
    if "ALWAYS" in late:
        with pytest.raises(Refused) as refused:
            run(connection, statements[1])
        assert "trigger made of public.customer would fire" in (refused.value.diag.message_detail or "")
        run(connection, *re.findall("ALTER TABLE .* TRIGGER made", refused.value.diag.message_detail or ""))
        run(connection, *hinted(refused.value))
    else:
        run(connection, statements[1])
    assert value(connection, "SELECT count(*) FROM customer WHERE name = 'touched' OR id_new IS NULL") == 0


def test_old_values_of_other_rows_are_missed(connection: psycopg.Connection) -> None:
    """A trigger behind ours has changed a reference and is gone. An undo would let the row refer to another one."""
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN))
    run(
        connection,
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.customer_id := 5; RETURN NEW; END'",
        "CREATE TRIGGER zzz BEFORE INSERT ON purchase FOR EACH ROW EXECUTE FUNCTION late()",
    )
    insert = "INSERT INTO purchase (number, customer_id) VALUES (100, 3)"
    run(connection, insert)
    verify = f"SELECT name, remedy FROM id_gen_convert.verify({COLUMN}) WHERE status <> 'ok'"
    (name, remedy), (losses, _) = connection.execute(verify.encode()).fetchall()
    with pytest.raises(Refused) as refused:
        run(connection, UNDO)
    assert (name, losses) == ("rows of public.purchase", "losses") and remedy.removesuffix(";") in (
        refused.value.diag.message_hint or ""
    )
    run(connection, remedy)
    with pytest.raises(Refused) as refused:
        run(connection, UNDO)
    assert "trigger zzz of public.purchase fires after" in (refused.value.diag.message_detail or "")
    run(connection, "DROP TRIGGER zzz ON purchase", UNDO)
    assert value(connection, "SELECT customer_id FROM purchase WHERE number = 100") == 5


@pytest.mark.parametrize("force", ["", ", force => true"])
def test_rows_that_an_undo_does_not_see_are_not_lost(
    connection: psycopg.Connection, owner: psycopg.Connection, force: str
) -> None:
    """A policy hides rows without an old value from their owner."""
    run(owner, SHOP.replace("id serial PRIMARY KEY", "id int PRIMARY KEY").replace("(name) SELECT", "SELECT n,"))
    run(
        owner,
        *planned(owner, COLUMN),
        "INSERT INTO customer (id) VALUES (1000000000000)",
        "INSERT INTO purchase (number, customer_id) VALUES (100, 1000000000000)",
        "UPDATE customer SET id_old = 100 WHERE id_old IS NULL",
        "CREATE POLICY few ON purchase USING (number < 5)",
        "ALTER TABLE purchase ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    )
    with pytest.raises(Refused, match="row security hides rows"):
        run(owner, UNDO.removesuffix(")") + force + ")")
    assert value(connection, "SELECT customer_id FROM purchase WHERE number = 100") == 1000000000000


def test_a_privilege_that_was_revoked_is_missed(connection: psycopg.Connection, owner: psycopg.Connection) -> None:
    """Before the switch would fail at it."""
    run(owner, SHOP)
    statements = planned(owner, COLUMN)
    run(owner, *statements[:-1])
    run(connection, "REVOKE CREATE ON SCHEMA public FROM owner, PUBLIC")
    with pytest.raises(Refused) as refused:
        run(owner, statements[-1])
    grants = re.findall("GRANT CREATE ON SCHEMA public TO owner", refused.value.diag.message_detail or "")
    run(connection, *grants)
    run(owner, statements[-1], UNDO)


def test_a_job_is_run_by_its_owner_alone(
    server: Cluster, connection: psycopg.Connection, owner: psycopg.Connection
) -> None:
    """Not by a superuser, also with SET ROLE, which a function of the role could reset; nor by a member of the role."""
    run(owner, SHOP)
    run(connection, "CREATE ROLE member LOGIN IN ROLE owner", "SET ROLE owner")
    statements = planned(owner, COLUMN)
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
        run(connection, statements[0])
    assert "SET ROLE owner" in (refused.value.diag.message_hint or "")
    run(owner, statements[0])
    with server.connect("shop") as superuser, server.connect("shop", user="member") as member:
        for session in (connection, superuser, member):
            for call in (UNDO, f"CALL id_gen_convert.run({COLUMN})", f"SELECT * FROM id_gen_convert.todo({COLUMN})"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
                    run(session, call)
                assert "SET ROLE owner" in (refused.value.diag.message_hint or "")
        run(member, "SET ROLE owner", *statements[1:-1])
    run(owner, statements[-1], UNDO)
    run(connection, "RESET ROLE", "DROP ROLE member")


def test_default_privileges_do_not_open_views(connection: psycopg.Connection, owner: psycopg.Connection) -> None:
    """A view of another role is made again with its own privileges, whatever the owner of the job gives by default."""
    run(
        connection,
        "CREATE ROLE keeper; CREATE ROLE stranger; GRANT keeper TO owner",
        "GRANT ALL ON SCHEMA public TO keeper",
    )
    run(owner, SHOP, "ALTER DEFAULT PRIVILEGES GRANT SELECT, UPDATE ON TABLES TO stranger, PUBLIC")
    run(
        owner,
        "GRANT SELECT ON customer TO keeper; SET ROLE keeper",
        "CREATE VIEW kept AS SELECT id FROM customer; GRANT INSERT ON kept TO stranger; RESET ROLE",
        "GRANT USAGE ON SEQUENCE customer_id_seq TO stranger",
    )
    granted = """
        SELECT array_agg(item::text) FROM pg_class, unnest(relacl) AS item
         WHERE relname = 'kept' AND item::text !~ '^keeper='"""
    for statement in ("SELECT 1", *planned(owner, COLUMN), UNDO):
        run(owner, statement)
        assert value(connection, granted) == ["stranger=a/keeper"], statement
    run(connection, "DROP OWNED BY keeper, stranger", "DROP ROLE keeper, stranger")


def test_default_privileges_do_not_open_the_schema(connection: psycopg.Connection, owner: psycopg.Connection) -> None:
    run(
        connection,
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO owner",
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO owner",
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO owner",
        SHOP,
    )
    run(connection, planned(connection, COLUMN)[0])
    granted = """
        SELECT count(*) FROM (
            SELECT nspacl FROM pg_namespace WHERE nspname = 'id_gen_convert'
            UNION ALL SELECT relacl FROM pg_class WHERE relnamespace = 'id_gen_convert'::regnamespace
            UNION ALL SELECT proacl FROM pg_proc WHERE pronamespace = 'id_gen_convert'::regnamespace
                         AND proname !~ '^forward_') AS object (acl),
            aclexplode(acl) AS x WHERE x.grantee <> 'postgres'::regrole"""
    assert value(connection, granted) == 0
    for attempt in (
        "CREATE FUNCTION id_gen_convert.run(text, text) RETURNS int LANGUAGE sql RETURN 1",
        "TABLE id_gen_convert.job",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(owner, attempt)


def test_a_job_that_assigns_a_worker_id_ends_with_its_layout() -> None:
    with Cluster("relaid", conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen_tools CASCADE")
        with cluster.connect() as connection:
            run(connection, SHOP.replace("CHECK (id > 0)", "at timestamptz DEFAULT now()"))
            run(connection, *planned(connection, f"{COLUMN}, created_at => 'at'")[:2])
        cluster.psql("ALTER SYSTEM SET id_gen.layout = 'epoch=2024-01-01 tick=1ms time:39 worker:8 sequence:16'")
        cluster.restart()
        with cluster.connect() as connection:
            with pytest.raises(Refused, match=r"id_gen\.layout has changed since the job") as refused:
                run(connection, f"CALL id_gen_convert.run({COLUMN})")
            run(connection, *hinted(refused.value))
            assert value(connection, "SELECT count(*) FROM customer") == value(
                connection, "SELECT count(*) FROM customer WHERE id < 1000000"
            )


# Functions that fit calls of ours better than what is meant, if an argument has no type or the name has no schema.
PLANTED = {
    "id_gen_convert_start": ["text, text", "regclass, text", "regclass, text, text, text"],
    "id_gen_check": ["text, text", "text, text, bigint", "regclass, text"],
    "snowflake_timestamp": ["integer"],
    "setval": ["text, bigint", "oid, bigint"],
    "format": ["text, oid, bigint, bigint, bigint", "text, regclass, bigint, bigint, bigint"],
}


def test_no_planted_function_is_called(connection: psycopg.Connection) -> None:
    """By none of the statements that a plan consists of, and by nothing that they run."""
    for name, signatures in PLANTED.items():
        for signature in signatures:
            made = f"CREATE FUNCTION {name}({signature}) RETURNS bigint LANGUAGE plpgsql"
            run(connection, f"{made} AS 'BEGIN RAISE ''planted''; END'")
    run(connection, SHOP.replace("CHECK (id > 0)", "at timestamptz DEFAULT now()"))
    run(connection, *planned(connection, f"{COLUMN}, created_at => 'at'"), UNDO)
    for made in ("bigserial", "bigint GENERATED ALWAYS AS IDENTITY"):
        run(
            connection,
            "DROP TABLE IF EXISTS plain",
            f"CREATE TABLE plain (id {made} PRIMARY KEY)",
            "INSERT INTO plain DEFAULT VALUES",
        )
        steps = connection.execute(
            "SELECT statement, undo FROM id_gen_convert_plan('plain', 'id') ORDER BY step"
        ).fetchall()
        run(connection, *[statement for statement, _ in steps], *[undo for _, undo in reversed(steps) if undo])


def test_a_renamed_table_is_missed(server: Cluster, connection: psycopg.Connection) -> None:
    """Neither a switch nor an undo leaves it out."""
    run(connection, SHOP)
    before = schema_dump(server, "shop")
    statements = planned(connection, COLUMN)
    run(connection, *statements[:-1], "ALTER TABLE purchase RENAME TO orders")
    back = "ALTER TABLE orders RENAME TO purchase"
    with pytest.raises(Refused, match="renamed"):
        run(connection, statements[-1])
    run(connection, back, statements[-1], "ALTER TABLE purchase RENAME TO orders")
    with pytest.raises(Refused, match="renamed"):
        run(connection, UNDO)
    run(connection, back, UNDO)
    assert schema_dump(server, "shop") == before


def test_an_insert_by_position_is_refused(connection: psycopg.Connection) -> None:
    """It would put a value into the column with the old values, and NULL or a default into the other."""
    run(connection, SHOP, "ALTER TABLE purchase ALTER COLUMN customer_id SET DEFAULT 3")
    run(connection, *planned(connection, COLUMN))
    for row in ("(21, 5)", "(21, 5, NULL)", "(21, 5, 6)"):
        with pytest.raises(psycopg.errors.GeneratedAlways) as refused:
            run(connection, f"INSERT INTO purchase VALUES {row}")
        assert "customer_id_old" in (refused.value.diag.message_hint or "")
    run(
        connection,
        "INSERT INTO purchase (number, customer_id) VALUES (21, 6), (22, NULL)",
        "INSERT INTO purchase (number) VALUES (23)",
        "INSERT INTO purchase VALUES (24, 7, 7)",
    )
    stored = (
        "SELECT string_agg(concat_ws(' ', customer_id, customer_id_old), ',' ORDER BY number)"
        " FROM purchase WHERE number > 20"
    )
    assert value(connection, stored) == "6 6,,3 3,7 7"
    run(connection, UNDO)
    assert value(connection, stored.replace("_old", "")) == "6 6,,3 3,7 7"


def test_an_undo_names_what_was_added(connection: psycopg.Connection) -> None:
    """By force it would fail at a view; when that is gone, nothing has to be forced."""
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN))
    run(connection, "CREATE VIEW late AS SELECT id FROM customer")
    with pytest.raises(Refused) as refused:
        run(connection, UNDO)
    hint = refused.value.diag.message_hint or ""
    assert "first drop view public.late" in hint and "force" not in hint
    run(connection, "DROP VIEW late", hint.rpartition(": ")[2])
    assert value(connection, "SELECT to_regnamespace('id_gen_convert')") is None


RENAMED = {
    "ALTER VIEW named RENAME TO other": "ALTER VIEW other RENAME TO named",
    "ALTER TABLE customer RENAME CONSTRAINT customer_pkey TO other":
        "ALTER TABLE customer RENAME CONSTRAINT other TO customer_pkey",
}  # fmt: skip


@pytest.mark.parametrize(("change", "back"), RENAMED.items())
def test_an_undo_asks_to_rename_back(server: Cluster, connection: psycopg.Connection, change: str, back: str) -> None:
    """Not to drop what was renamed, nor to force it."""
    run(connection, SHOP)
    before = schema_dump(server, "shop")
    run(connection, *planned(connection, COLUMN), change)
    with pytest.raises(Refused) as refused:
        run(connection, UNDO)
    hint = refused.value.diag.message_hint or ""
    assert "rename back" in hint and "other" in hint and "drop" not in hint and "force" not in hint
    run(connection, back, UNDO)
    assert schema_dump(server, "shop") == before


def test_a_rule_is_not_taken_for_a_view(connection: psycopg.Connection) -> None:
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN))
    run(connection, "CREATE RULE few AS ON DELETE TO customer WHERE OLD.id = 4 DO INSTEAD NOTHING")
    with pytest.raises(Refused) as refused:
        run(connection, UNDO)
    assert "first drop rule few on table public.customer, and" in (refused.value.diag.message_hint or "")


# What the job needs to go back, and how it is named.
LEFT = {
    "DROP INDEX customer_pkey_old": "constraint or index customer_pkey_old of public.customer",
    "ALTER INDEX customer_pkey_old RENAME TO other": "constraint or index customer_pkey_old of public.customer",
    "DROP INDEX pair_old": "constraint or index pair_old of public.customer",
    "ALTER TABLE customer DROP CONSTRAINT customer_id_check_old":
        "constraint or index customer_id_check_old of public.customer",
    "ALTER TABLE customer DROP COLUMN id_old": "column id_old of public.customer",
    "ALTER TABLE customer DROP CONSTRAINT customer_pkey CASCADE":
        "constraint or index customer_pkey of public.customer",
}  # fmt: skip


@pytest.mark.parametrize(("change", "found"), LEFT.items())
def test_a_job_ends_without_what_it_left(connection: psycopg.Connection, change: str, found: str) -> None:
    """An undo names what it needs, also by force, before anything is changed; the job can be finished."""
    run(connection, SHOP, "CREATE INDEX pair ON customer (id, name)")
    run(connection, *planned(connection, COLUMN), change)
    for force in ("", ", force => true"):
        with pytest.raises(Refused) as refused:
            run(connection, UNDO.removesuffix(")") + force + ")")
        hint = refused.value.diag.message_hint or ""
        assert found in (refused.value.diag.message_detail or "") and "force" not in hint
    run(connection, hint.partition(": ")[2].partition(";")[0])
    assert value(connection, "SELECT to_regnamespace('id_gen_convert')") is None


# Of the column with the new values, before it takes the name of the other.
NEW = {
    "a view": ("CREATE VIEW late AS SELECT id_new FROM customer", "DROP VIEW late"),
    "a policy": ("CREATE POLICY late ON purchase USING (customer_id_new > 0)", "DROP POLICY late ON purchase"),
}


@pytest.mark.parametrize(("make", "drop"), NEW.values(), ids=NEW)
def test_what_uses_the_new_column_is_missed(connection: psycopg.Connection, make: str, drop: str) -> None:
    """The switch would rename the column in it, and an undo would fail at it."""
    run(connection, SHOP)
    statements = planned(connection, COLUMN)
    run(connection, *statements[:-1], make)
    with pytest.raises(Refused) as refused:
        run(connection, statements[-1])
    assert "late" in (refused.value.diag.message_detail or "")
    run(connection, drop, statements[-1], UNDO)


LATER = {
    "a view": ("CREATE VIEW late AS SELECT id FROM customer", "DROP VIEW late"),
    "a foreign key": ("CREATE TABLE late (customer_id bigint REFERENCES customer)", "DROP TABLE late"),
    "an index": ("CREATE INDEX late ON customer (id, name)", "DROP INDEX late"),
    "a generated column": (
        "ALTER TABLE customer ADD late bigint GENERATED ALWAYS AS (id + 1) STORED",
        "ALTER TABLE customer DROP late",
    ),
    "a function": (
        "CREATE FUNCTION late() RETURNS bigint BEGIN ATOMIC SELECT max(id) FROM customer; END",
        "DROP FUNCTION late",
    ),
    "a publication": ("CREATE PUBLICATION late FOR TABLE customer (id)", "DROP PUBLICATION late"),
}


@pytest.mark.parametrize(("make", "drop"), LATER.values(), ids=LATER)
def test_an_undo_by_force_asks_for_what_was_added(connection: psycopg.Connection, make: str, drop: str) -> None:
    """It could not be carried on to its end, and nothing is changed before."""
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN), make)
    force = UNDO.removesuffix(")") + ", force => true)"
    with pytest.raises(Refused) as refused:
        run(connection, force)
    hint = refused.value.diag.message_hint or ""
    assert "first drop" in hint and "force" not in hint and value(connection, PHASE) == "switched"
    run(connection, drop, force)


def test_an_undo_by_force_reverts_what_was_dropped(connection: psycopg.Connection) -> None:
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN), "ALTER TABLE purchase DROP CONSTRAINT purchase_customer_id_fkey")
    run(connection, UNDO.removesuffix(")") + ", force => true)")


@pytest.mark.xfail(strict=True, reason="a value for the old key is not told from its default")
def test_an_insert_by_position_into_the_table_of_the_key_is_refused(connection: psycopg.Connection) -> None:
    """It would name the old key, and the row would get another key than the client wrote."""
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN))
    with pytest.raises(psycopg.Error):
        run(connection, "INSERT INTO customer VALUES (500, 'Eve')")


def test_what_belongs_to_others_is_found_in_the_plan(connection: psycopg.Connection, owner: psycopg.Connection) -> None:
    """A switch could not make it again."""
    run(
        connection,
        "CREATE TABLE secret (customer_id int); ALTER TABLE secret ENABLE ROW LEVEL SECURITY; CREATE SCHEMA reports",
    )
    run(connection, "GRANT USAGE ON SCHEMA reports TO owner")
    run(owner, SHOP)
    run(
        connection,
        "CREATE POLICY known ON secret USING (EXISTS (SELECT FROM customer c WHERE c.id = customer_id))",
        "CREATE VIEW reports.named AS SELECT id FROM customer; ALTER VIEW reports.named OWNER TO owner",
        "CREATE STATISTICS reports.both ON id, name FROM customer",
    )
    with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        planned(owner, COLUMN)
    found = refused.value.diag.message_detail or ""
    for name in ("policy known of public.secret", "view reports.named", 'statistics object reports."both"'):
        assert name in found
    run(connection, "DROP TABLE secret; DROP SCHEMA reports CASCADE")
    run(owner, *planned(owner, COLUMN), UNDO)


# What only others may make in a table of `owner`, by what its refusal says.
OTHERS = {
    "trigger t of public.customer has a function in a schema that you cannot use":
        "CREATE SCHEMA audit; CREATE FUNCTION audit.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE TRIGGER t AFTER UPDATE OF id ON customer FOR EACH ROW EXECUTE FUNCTION audit.f()",
    "trigger t of public.customer has a function that you cannot use":
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "REVOKE ALL ON FUNCTION f() FROM PUBLIC;"
        "CREATE TRIGGER t AFTER UPDATE OF id ON customer FOR EACH ROW EXECUTE FUNCTION f()",
    "view public.v is in a schema where its owner cannot create it":
        "CREATE VIEW v AS SELECT id FROM customer; ALTER VIEW v OWNER TO member_of_owner",
    "view public.v reads a schema that you cannot use":
        "CREATE SCHEMA audit; CREATE TABLE audit.log (id int); GRANT SELECT ON audit.log TO owner;"
        "CREATE VIEW v AS SELECT c.id FROM customer c LEFT JOIN audit.log l ON l.id = c.id;"
        "ALTER VIEW v OWNER TO owner",
    "statistics object public.st is in a schema where its owner cannot create it":
        "CREATE STATISTICS st ON id, name FROM customer; ALTER STATISTICS st OWNER TO member_of_owner",
    "sequence public.s belongs to another role":
        "CREATE SEQUENCE s; GRANT USAGE ON SEQUENCE s TO owner; ALTER TABLE customer ALTER id SET DEFAULT nextval('s')",
}  # fmt: skip


@pytest.mark.parametrize("found", OTHERS)
def test_what_others_made_is_refused_with_the_privilege_that_lacks(
    connection: psycopg.Connection, owner: psycopg.Connection, found: str
) -> None:
    """A switch would fail at it."""
    run(owner, SHOP)
    run(connection, "CREATE ROLE member_of_owner; GRANT member_of_owner TO owner")
    try:
        run(connection, OTHERS[found])
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            planned(owner, COLUMN)
        detail = (refused.value.diag.message_detail or "").removeprefix("Obstacles: ").removesuffix(".")
        assert found in detail
        run(connection, *re.findall(r": ((?:ALTER|GRANT) .*?)(?:;|$)", detail))
        run(owner, *planned(owner, COLUMN), UNDO)
    finally:
        run(
            connection,
            "DROP SCHEMA IF EXISTS audit CASCADE; DROP OWNED BY member_of_owner CASCADE; DROP ROLE member_of_owner",
        )


@pytest.mark.parametrize("is_prepared", [False, True], ids=["open", "prepared"])
def test_a_locked_row_is_waited_for_in_the_open(
    server: Cluster, connection: psycopg.Connection, is_prepared: bool
) -> None:
    run(connection, SHOP)
    run(connection, planned(connection, COLUMN)[0])
    progress = "SELECT percent < 100, waiting_for FROM id_gen_convert.progress WHERE filling = 'customer'::regclass"
    with server.connect("shop") as holder:
        run(holder, "BEGIN; UPDATE customer SET name = 'mine' WHERE id = 7")
        who = f"process {value(holder, 'SELECT pg_backend_pid()')}"
        if is_prepared:
            run(holder, "PREPARE TRANSACTION 'long'")
            who = "prepared transaction 'long'"
        while value(connection, f"SELECT id_gen_convert.step({COLUMN})") != 0.2:
            pass
        assert connection.execute(progress.encode()).fetchone() == (
            True,
            f"rows of public.customer, locked by {who}",
        )
        run(holder, "COMMIT PREPARED 'long'" if is_prepared else "COMMIT")
    run(connection, f"CALL id_gen_convert.run({COLUMN})")
    assert value(connection, "SELECT waiting_for IS NULL FROM id_gen_convert.job") is True


def test_two_first_starts_at_once(server: Cluster, connection: psycopg.Connection) -> None:
    """The second waits for the first, and goes on in the schema that the first has made."""
    run(connection, SHOP, "CREATE TABLE other (id serial PRIMARY KEY)")
    first, second = (planned(connection, f"'{table}', 'id'")[0] for table in ("customer", "other"))
    with server.connect("shop") as one, server.connect("shop") as two, ThreadPoolExecutor(1) as pool:
        run(one, "BEGIN", first)
        waiting = pool.submit(run, two, second)
        server.poll_until(f"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = {two.info.backend_pid}")
        run(one, "COMMIT")
        waiting.result()
        run(two, first)
    assert value(connection, "SELECT count(*) FROM id_gen_convert.job") == 2


def test_the_schema_stays_for_who_uses_it(connection: psycopg.Connection) -> None:
    """And a later job finds it whole."""
    run(connection, SHOP)
    run(connection, planned(connection, COLUMN)[0])
    run(connection, "CREATE VIEW watched AS SELECT relation, percent FROM id_gen_convert.progress")
    warnings: list[str] = []
    connection.add_notice_handler(lambda notice: warnings.append(f"{notice.severity} {notice.message_detail}"))
    run(connection, UNDO)
    assert ["watched" in warning for warning in warnings if warning.startswith("WARNING")] == [True]
    assert value(connection, "SELECT count(*) FROM watched") == 0
    run(connection, planned(connection, COLUMN)[0], "DROP VIEW watched", UNDO)
    assert value(connection, "SELECT to_regnamespace('id_gen_convert')") is None


def test_a_policy_of_another_table_waits_for_its_lock(server: Cluster, connection: psycopg.Connection) -> None:
    run(
        connection,
        SHOP,
        "CREATE TABLE other (id integer)",
        "CREATE POLICY known ON other USING (id IN (SELECT id FROM customer))",
    )
    *rest, switch = planned(connection, COLUMN)
    run(connection, *rest)
    with server.connect("shop") as holder:
        for statement in (switch, UNDO):
            holder.execute("BEGIN; LOCK TABLE other IN ACCESS SHARE MODE")
            release = threading.Timer(1.5, holder.execute, ["COMMIT"])
            release.start()
            run(connection, statement)
            release.join()
