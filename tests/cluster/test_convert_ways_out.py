"""A job that converts a column, and what others change meanwhile: an error names what is in the way, and its hint
leads on."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from harness import GENERATING, Cluster
from harness.convert import planned, run, schema_dump, value

# What it asks of the catalogs is the same in every version; test_convert_online.py tries what is not.
pytestmark = pytest.mark.any_server

SHOP = """
    CREATE TABLE customer (id serial PRIMARY KEY, name text NOT NULL DEFAULT 'Ada');
    CREATE TABLE purchase (number int, customer_id int REFERENCES customer);
    INSERT INTO customer (name) SELECT 'name ' || n FROM generate_series(1, 20) n;
    INSERT INTO purchase SELECT n, n FROM generate_series(1, 20) n;
"""
# Its third partition has no default of its own, as one that was attached.
EVENT = """
    CREATE TABLE customer (id serial, part int NOT NULL, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
    CREATE TABLE part_1 PARTITION OF customer FOR VALUES IN (1);
    CREATE TABLE part_2 PARTITION OF customer FOR VALUES IN (2);
    CREATE TABLE part_3 (id int NOT NULL, part int NOT NULL);
    ALTER TABLE customer ATTACH PARTITION part_3 FOR VALUES IN (3);
    INSERT INTO customer (part) VALUES (1), (2), (3);
"""
COLUMN = "'public.customer'::regclass, 'id'::text"
VERIFY = f"SELECT * FROM id_gen_convert.verify({COLUMN})"
RUN = f"CALL id_gen_convert.run({COLUMN})"
UNDO = f"CALL id_gen_convert.undo({COLUMN})"
FORCE = f"CALL id_gen_convert.undo({COLUMN}, force => true)"
FINISH = f"SELECT id_gen_convert.finish({COLUMN})"
IS_OVER = "SELECT to_regnamespace('id_gen_convert') IS NULL"
HIDE = "ALTER TABLE {} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"

Refused = psycopg.errors.ObjectNotInPrerequisiteState


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster("waysout", conf=GENERATING) as cluster:
        yield cluster


def refusal(connection: psycopg.Connection, statement: str, error: type[psycopg.Error] = Refused) -> psycopg.Error:
    with pytest.raises(error) as refused:
        run(connection, statement)
    return refused.value


def hint(error: psycopg.Error) -> str:
    return error.diag.message_hint or ""


def detail(error: psycopg.Error) -> str:
    return error.diag.message_detail or ""


def not_ok(connection: psycopg.Connection) -> dict[str, tuple[str, str]]:
    """What `verify` finds, with its remedies."""
    return {name: (found, remedy) for name, _, found, remedy in connection.execute(f"{VERIFY} WHERE status <> 'ok'")}


def test_row_security_of_others_is_not_that_of_the_job(
    connection: psycopg.Connection, owner: psycopg.Connection
) -> None:
    """Checks, triggers and their functions read tables as they do without a job."""
    run(
        connection,
        "CREATE TABLE allowed (name text); ALTER TABLE allowed ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY all_of ON allowed USING (true); GRANT SELECT ON allowed TO PUBLIC",
    )
    run(
        owner,
        SHOP,
        "CREATE FUNCTION fine(text) RETURNS boolean LANGUAGE plpgsql AS"
        " 'BEGIN RETURN NOT EXISTS (SELECT FROM public.allowed a WHERE a.name = $1); END';"
        "ALTER TABLE customer ADD CHECK (fine(name))",
    )
    run(owner, *planned(owner, COLUMN), UNDO)


@pytest.mark.parametrize("table", ["customer", "purchase"])
def test_hidden_rows_are_not_left_out(connection: psycopg.Connection, owner: psycopg.Connection, table: str) -> None:
    run(owner, SHOP)
    start, *statements, switch = planned(owner, COLUMN)
    run(owner, start, HIDE.format(table))
    refused = refusal(owner, RUN)
    assert "row security hides rows" in str(refused) and detail(refused) == f"Tables: public.{table}."
    remedy = hint(refused).partition(": ")[2]
    run(owner, remedy, *statements, HIDE.format(table))
    for statement in (VERIFY, switch):
        refusal(owner, statement)
    run(owner, remedy, switch, HIDE.format(table))
    for statement in (VERIFY, UNDO, FORCE):
        assert hint(refusal(owner, statement)).endswith(remedy)
    run(owner, remedy, UNDO, start, HIDE.format(table), UNDO)
    assert value(connection, "SELECT count(*) FROM customer") == 20
    run(owner, remedy, start, *statements, switch, HIDE.format(table), FINISH)


@pytest.mark.parametrize("is_switched", [False, True])
def test_a_trigger_says_that_rows_are_hidden(owner: psycopg.Connection, is_switched: bool) -> None:
    """Not that the referenced row does not exist."""
    run(owner, SHOP, "ALTER TABLE customer ADD at timestamptz")
    statements = planned(owner, f"{COLUMN}, created_at => 'at'")
    run(owner, *statements[: None if is_switched else -1], HIDE.format("customer"))
    known = value(owner, "SELECT customer_id FROM purchase WHERE number = 5")
    insert = f"INSERT INTO purchase (number, customer_id) VALUES (30, {known})"
    refused = refusal(owner, insert, psycopg.errors.InsufficientPrivilege)
    assert "row security hides rows of public.customer" in str(refused)
    run(owner, hint(refused).partition(": ")[2], insert, UNDO)


def test_a_sequence_that_is_used_up_meanwhile(connection: psycopg.Connection) -> None:
    run(
        connection,
        "CREATE SEQUENCE s MAXVALUE 30; CREATE TABLE customer (id int PRIMARY KEY DEFAULT nextval('s'))",
        "INSERT INTO customer SELECT FROM generate_series(1, 20)",
    )
    *statements, switch = planned(connection, COLUMN)
    run(connection, *statements, "SELECT nextval('s') FROM generate_series(1, 10)")
    assert "sequence public.s is used up" in detail(refusal(connection, switch))
    found, remedy = not_ok(connection)["losses"]
    # Without its default, the column would not be that of the job.
    assert "sequence public.s is used up" in found and "DEFAULT" not in found and UNDO in remedy
    run(connection, "ALTER SEQUENCE s MAXVALUE 40", VERIFY, switch, "INSERT INTO customer DEFAULT VALUES")


@pytest.mark.parametrize("kind", ["serial", "int GENERATED BY DEFAULT AS IDENTITY"])
def test_a_row_is_inserted_into_a_partition_without_a_default(
    server: Cluster, connection: psycopg.Connection, kind: str
) -> None:
    """It gets an old value, as one that is inserted into the table does."""
    run(connection, EVENT.replace("serial", kind))
    before = schema_dump(server, "shop")
    statements = planned(connection, COLUMN)
    insert = "INSERT INTO part_3 (id, part) VALUES (1000, 3)"
    run(connection, *statements, insert, UNDO)
    assert schema_dump(server, "shop") == before
    assert value(connection, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM customer") == "1 2 3 4"
    run(connection, *statements, insert, FINISH.replace("text)", "text, keep_old => true)"))
    assert value(connection, "SELECT id_old FROM customer WHERE id = 1000") == 5
    run(connection, "INSERT INTO part_3 (id, part) VALUES (1001, 3)")


def test_an_undo_says_which_old_values_are_missing(connection: psycopg.Connection) -> None:
    run(connection, SHOP, "ALTER TABLE customer ALTER id DROP DEFAULT")
    run(connection, *planned(connection, COLUMN), "INSERT INTO customer (id) VALUES (1000)")
    refused = refusal(connection, UNDO)
    assert "set id_old to the values that they are to have after an undo" in hint(refused)
    listed = re.findall("SELECT .* WHERE .*;", hint(refused))[0]
    assert connection.execute(f"SELECT id FROM ({listed.removesuffix(';')}) AS t".encode()).fetchall() == [(1000,)]
    run(connection, "UPDATE customer SET id_old = 50 WHERE id_old IS NULL", UNDO)
    assert value(connection, "SELECT max(id) FROM customer") == 50


def test_a_partition_that_was_detached_before_the_switch(server: Cluster, connection: psycopg.Connection) -> None:
    """An undo does not leave it with a column and a check of the job."""
    run(connection, EVENT)
    before = schema_dump(server, "shop")
    *statements, switch = planned(connection, COLUMN)
    run(connection, *statements, "ALTER TABLE customer DETACH PARTITION part_1")
    for statement in (UNDO, switch):
        refused = refusal(connection, statement)
        assert "part_1 of public.customer is detached as public.part_1" in detail(refused)
    run(connection, "ALTER TABLE customer ATTACH PARTITION part_1 FOR VALUES IN (1)", UNDO)
    assert schema_dump(server, "shop") == before


def test_a_partition_that_was_created_and_detached_after_the_switch(
    server: Cluster, connection: psycopg.Connection
) -> None:
    """The end of a job does not leave it with both columns. Copies and tables of other jobs are no such partitions."""
    run(connection, EVENT, "CREATE TABLE other (id serial PRIMARY KEY)")
    before = schema_dump(server, "shop")
    run(connection, *planned(connection, COLUMN), "CREATE TABLE copy AS TABLE customer")
    run(connection, *planned(connection, COLUMN.replace("customer", "other")))
    run(
        connection,
        "CREATE TABLE part_4 PARTITION OF customer FOR VALUES IN (4)",
        "INSERT INTO customer (part) VALUES (4)",
    )
    run(connection, "ALTER TABLE customer DETACH PARTITION part_4")
    for statement in (UNDO, FORCE, FINISH):
        refused = refusal(connection, statement)
        assert "public.part_4 has the columns of public.customer and is not one of its partitions" in detail(refused)
        assert not re.search("copy|other", detail(refused)) and "Attach them again" in hint(refused)
    run(
        connection,
        "ALTER TABLE customer ATTACH PARTITION part_4 FOR VALUES IN (4)",
        UNDO,
        UNDO.replace("customer", "other"),
    )
    run(connection, "DROP TABLE part_4, copy")
    assert schema_dump(server, "shop") == before


AGAIN = "DROP TABLE {0}; CREATE TABLE {0} PARTITION OF {1} FOR VALUES IN (1)"


def test_a_new_partition_has_the_name_of_a_dropped_one(connection: psycopg.Connection) -> None:
    run(connection, EVENT)
    run(connection, *planned(connection, COLUMN), AGAIN.format("part_1", "customer"))
    run(connection, "INSERT INTO customer (part) VALUES (1)", UNDO)
    assert value(connection, IS_OVER) is True


def test_a_new_partition_of_a_reference_has_the_name_of_a_dropped_one(connection: psycopg.Connection) -> None:
    """Its index gets no name or comment of the other one."""
    run(connection, SHOP)
    run(
        connection,
        "CREATE TABLE payment (c int REFERENCES customer, n int) PARTITION BY LIST (n); CREATE INDEX ON payment (c);"
        "CREATE TABLE paid PARTITION OF payment FOR VALUES IN (1); COMMENT ON INDEX paid_c_idx IS 'of the first'",
    )
    run(connection, *planned(connection, COLUMN), AGAIN.format("paid", "payment"), UNDO)
    index = "SELECT relname, obj_description(oid) FROM pg_class WHERE relname ~ '^paid_.*idx'"
    assert connection.execute(index.encode()).fetchall() == [("paid_c_idx", None)]


@pytest.mark.parametrize("is_switched", [False, True])
def test_the_table_of_the_key_is_dropped(connection: psycopg.Connection, is_switched: bool) -> None:
    """New values of references cannot be found; the job can be ended."""
    run(connection, SHOP, "ALTER TABLE customer ADD at timestamptz")
    statements = planned(connection, f"{COLUMN}, created_at => 'at'")
    run(connection, *statements[: None if is_switched else -1], "DROP TABLE customer CASCADE")
    insert = "INSERT INTO purchase (number, customer_id) VALUES (30, 3)"
    refused = refusal(connection, insert)
    assert "has been renamed or dropped" in str(refused) and "id_gen_convert.finish()" in hint(refused)
    gone = f"'{value(connection, 'SELECT relation FROM id_gen_convert.job')}'::regclass"
    for statement in (UNDO, FORCE, VERIFY) if is_switched else (RUN, VERIFY, statements[-1]):
        refused = refusal(connection, statement.replace("'public.customer'::regclass", gone))
        assert "has been dropped since the job began" in str(refused)
    run(connection, hint(refused).partition(": ")[2], insert)
    assert value(connection, IS_OVER) is True


RENAMED = {
    "the key": ('ALTER TABLE customer RENAME id TO "the ""(key)"', 'ALTER TABLE customer RENAME "the ""(key)" TO id'),
    "a reference": ("ALTER TABLE purchase RENAME customer_id TO c", "ALTER TABLE purchase RENAME c TO customer_id"),
}


@pytest.mark.parametrize(("rename", "back"), RENAMED.values(), ids=RENAMED)
def test_a_column_is_renamed(server: Cluster, connection: psycopg.Connection, rename: str, back: str) -> None:
    """Rows are written meanwhile; the job requires the name."""
    run(connection, SHOP)
    before = schema_dump(server, "shop")
    start, *statements, switch = planned(connection, COLUMN)
    insert = {
        "customer": "INSERT INTO customer (name) VALUES ('Eve')",
        "purchase": "INSERT INTO purchase SELECT 30, 3",
    }[rename.split()[2]]
    run(connection, start, *statements, rename, insert, "UPDATE customer SET name = 'Eve'")
    for statement in (VERIFY, switch, RUN):
        refused = refusal(connection, statement)
        assert "renamed or dropped" in str(refused) and "ename" in hint(refused)
    run(connection, back)
    assert not_ok(connection) == {}
    run(connection, switch, rename)
    assert "renamed or dropped" in str(refusal(connection, VERIFY))
    run(connection, back, VERIFY, UNDO, start, rename, UNDO, back)
    assert schema_dump(server, "shop") == before


def test_a_trigger_calls_nothing_of_the_search_path_of_a_writer(connection: psycopg.Connection) -> None:
    """What copies the value of a renamed column has functions of PostgreSQL only."""
    run(connection, SHOP, "CREATE SCHEMA lib")
    run(
        connection,
        planned(connection, COLUMN)[0],
        "ALTER TABLE customer RENAME id TO code",
        "CREATE FUNCTION lib.added(text[], text) RETURNS text[] LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END'",
        "CREATE AGGREGATE lib.array_agg(text) (SFUNC = lib.added, STYPE = text[])",
        "SET search_path = public, lib; INSERT INTO customer (name) VALUES ('Eve')",
        "RESET search_path; ALTER TABLE customer RENAME code TO id",
        UNDO,
    )


def test_a_column_that_a_trigger_looks_for_is_renamed(connection: psycopg.Connection) -> None:
    """An insert fails with an error that says so."""
    run(connection, SHOP, "ALTER TABLE customer ADD at timestamptz")
    run(connection, *planned(connection, f"{COLUMN}, created_at => 'at'")[:-1])
    insert = "INSERT INTO purchase VALUES (30, 3)"
    run(connection, "ALTER TABLE customer RENAME id TO code")
    refused = refusal(connection, insert)
    assert "has been renamed or dropped" in str(refused) and "Rename it back" in hint(refused)
    run(connection, "ALTER TABLE customer RENAME code TO id", insert, UNDO)


# What an undo by force needs and others have changed, with the change that helps.
CHANGED = {
    "a role is dropped": (
        "CREATE ROLE reader; CREATE POLICY p ON purchase TO reader USING (customer_id > 0)",
        "DROP POLICY p ON purchase; DROP ROLE reader",
        "CREATE ROLE reader",
    ),
    "a table is renamed": (
        "CREATE TABLE region (n int); CREATE VIEW v AS SELECT id FROM customer JOIN region ON n = id",
        "ALTER TABLE region RENAME TO regions",
        "ALTER TABLE regions RENAME TO region",
    ),
    "a column is renamed": (
        "CREATE TABLE region (n int); CREATE VIEW v AS SELECT id FROM customer JOIN region ON n = id",
        "ALTER TABLE region RENAME n TO m",
        "ALTER TABLE region RENAME m TO n",
    ),
    "a function is renamed": (
        "CREATE FUNCTION ok(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE POLICY p ON purchase USING (ok(customer_id))",
        "ALTER FUNCTION ok RENAME TO fine",
        "ALTER FUNCTION fine RENAME TO ok",
    ),
    "a schema is renamed": (
        "CREATE SCHEMA x; CREATE TABLE x.t (n int); CREATE VIEW v AS SELECT id FROM customer JOIN x.t ON n = id",
        "ALTER SCHEMA x RENAME TO y",
        "ALTER SCHEMA y RENAME TO x",
    ),
}


@pytest.mark.parametrize(("make", "change", "back"), CHANGED.values(), ids=CHANGED)
def test_an_undo_by_force_names_the_statement_that_fails(
    connection: psycopg.Connection, make: str, change: str, back: str
) -> None:
    run(connection, SHOP, make)
    run(connection, *planned(connection, COLUMN), change)
    refused = refusal(connection, FORCE)
    assert "does not exist. " in detail(refused) and re.search("The statement: CREATE (POLICY|VIEW) ", detail(refused))
    assert "Recreate or rename back" in hint(refused) and FINISH in hint(refused)
    run(connection, back, FORCE, "DROP OWNED BY reader; DROP ROLE reader" if "ROLE" in make else "SELECT")
    assert value(connection, IS_OVER) is True


def test_an_undo_by_force_names_the_rows_that_violate_a_key(connection: psycopg.Connection) -> None:
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN), "UPDATE purchase SET customer_id_old = 777 WHERE number = 1")
    refused = refusal(connection, FORCE)
    assert "(777)" in detail(refused) and "VALIDATE CONSTRAINT" in detail(refused)
    assert "Correct the rows" in hint(refused)
    run(connection, "UPDATE purchase SET customer_id = 1 WHERE number = 1", UNDO)
    assert value(connection, IS_OVER) is True


def test_a_sequence_that_the_new_column_owns_is_not_dropped(server: Cluster, connection: psycopg.Connection) -> None:
    run(connection, SHOP)
    before = schema_dump(server, "shop")
    run(connection, *planned(connection, COLUMN), "ALTER SEQUENCE customer_id_seq OWNED BY customer.id")
    refused = refusal(connection, UNDO)
    assert "drop" not in hint(refused)
    run(connection, *re.findall("ALTER SEQUENCE [^,]*", hint(refused)), UNDO)
    assert schema_dump(server, "shop") == before


def test_a_switch_tries_again_to_lock_a_sequence(server: Cluster, connection: psycopg.Connection) -> None:
    run(connection, SHOP)
    *statements, switch = planned(connection, COLUMN)
    run(connection, *statements, "INSERT INTO customer (id) VALUES (500)", VERIFY)
    with server.connect("shop") as holder, ThreadPoolExecutor(1) as pool:
        run(holder, "BEGIN", "SELECT nextval('customer_id_seq')")
        switching = pool.submit(run, connection, switch)
        server.poll_until(
            "SELECT count(*) = 1 FROM pg_stat_activity"
            f" WHERE pid = {connection.info.backend_pid} AND wait_event = 'PgSleep'"
        )
        run(holder, "COMMIT")
        switching.result()
    run(connection, "INSERT INTO customer (name) VALUES ('Eve')", UNDO)
    assert value(connection, "SELECT id FROM customer WHERE name = 'Eve'") == 501


def test_a_reference_to_nothing_keeps_its_old_value(connection: psycopg.Connection) -> None:
    """Also where the hint sets that of another column in the same row."""
    run(
        connection,
        SHOP,
        "ALTER TABLE purchase ADD second int; UPDATE purchase SET second = 999 WHERE number = 1;"
        "ALTER TABLE purchase ADD FOREIGN KEY (second) REFERENCES customer NOT VALID",
    )
    run(connection, *planned(connection, COLUMN), "UPDATE purchase SET customer_id_old = 7 WHERE number = 1")
    remedy = re.findall("UPDATE .*?;", hint(refusal(connection, UNDO)))[0]
    run(connection, remedy, UNDO)
    row = connection.execute("SELECT customer_id, second FROM purchase WHERE number = 1").fetchone()
    assert row == (1, 999)


USERS_OF_OLD = {
    "a view": ("CREATE VIEW v AS SELECT id, id_old FROM customer", "view public.v", "DROP VIEW v"),
    "a foreign key": (
        "CREATE TABLE legacy (c int REFERENCES customer (id_old))", "constraint legacy_c_fkey", "DROP TABLE legacy"
    ),
    "a policy": ("CREATE POLICY p ON customer USING (id_old > 0)", "policy p", "DROP POLICY p ON customer"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "found", "drop"), USERS_OF_OLD.values(), ids=USERS_OF_OLD)
def test_the_end_names_what_uses_an_old_column(
    connection: psycopg.Connection, make: str, found: str, drop: str
) -> None:
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN), make)
    refused = refusal(connection, FINISH)
    assert found in detail(refused) and "keep_old => true" in hint(refused)
    run(connection, drop, FINISH)


def test_a_table_is_given_to_another_role(connection: psycopg.Connection, owner: psycopg.Connection) -> None:
    run(owner, SHOP)
    run(owner, *planned(owner, COLUMN))
    run(connection, "ALTER TABLE purchase OWNER TO CURRENT_USER")
    for statement in (VERIFY, UNDO, FINISH):
        refused = refusal(owner, statement, psycopg.errors.InsufficientPrivilege)
        assert "belong to another role" in str(refused)
    run(connection, hint(refused).partition(": ")[2])
    run(owner, UNDO)


@pytest.mark.parametrize("table, new", [("customer", "id_new"), ("purchase", "customer_id_new")])
@pytest.mark.parametrize("phase", ["fill", "ready", "returned"])
def test_an_undo_leaves_no_renamed_column(
    server: Cluster, connection: psycopg.Connection, table: str, new: str, phase: str
) -> None:
    run(connection, SHOP)
    before = schema_dump(server, "shop")
    start, *rest, switch = planned(connection, COLUMN)
    run(connection, start)
    if phase != "fill":
        run(connection, *rest)
    if phase == "returned":
        run(connection, switch, f"SELECT id_gen_convert.undo_step({COLUMN})")
    run(connection, f"ALTER TABLE {table} RENAME {new} TO other")
    refused = refusal(connection, UNDO)
    assert detail(refused) == f"Renamed columns: {new} of public.{table} to other."
    run(connection, hint(refused).partition("rename them: ")[2], UNDO)
    assert schema_dump(server, "shop") == before
    run(connection, "INSERT INTO customer (name) VALUES ('later')")


@pytest.mark.parametrize("keep_old", ["false", "true"])
def test_a_renamed_old_column_is_not_left_by_the_end(connection: psycopg.Connection, keep_old: str) -> None:
    """It would be NOT NULL, and nothing would fill it."""
    run(connection, SHOP)
    run(connection, "ALTER TABLE purchase ALTER customer_id SET NOT NULL", *planned(connection, COLUMN))
    run(connection, "ALTER TABLE purchase RENAME customer_id_old TO other")
    finish = FINISH.replace(")", f", {keep_old})")
    refused = refusal(connection, finish)
    assert detail(refused) == "Renamed columns: customer_id_old of public.purchase to other."
    assert hint(refused).startswith("Rename the columns back, and run the command again.")
    run(connection, hint(refused).partition("rename them: ")[2], finish, "INSERT INTO customer (name) VALUES ('later')")
    run(connection, "INSERT INTO purchase (number, customer_id) SELECT 21, max(id) FROM customer")


def test_a_renamed_column_of_a_restored_dump_refuses_no_row(server: Cluster, connection: psycopg.Connection) -> None:
    """The undo does not know it there, and leaves it without its check."""
    run(connection, SHOP)
    run(connection, *planned(connection, COLUMN)[:-1], "ALTER TABLE customer RENAME id_new TO other")
    with server.database("restored"):
        server.psql(server.run("pg_dump", dbname="shop"), "restored")
        with server.connect("restored") as restored:
            run(restored, UNDO, "INSERT INTO customer (name) VALUES ('later')")


@pytest.mark.parametrize("is_old_dropped", [False, True], ids=["new", "both"])
@pytest.mark.parametrize("phase", ["fill", "ready"])
@pytest.mark.parametrize("table, name", [("purchase", "seller"), ("customer", "boss")])
def test_an_undo_does_not_miss_a_column_that_was_dropped(
    connection: psycopg.Connection, table: str, name: str, phase: str, is_old_dropped: bool
) -> None:
    """Another column of its table still has the check of the job."""
    run(
        connection,
        SHOP,
        "ALTER TABLE customer ADD boss int REFERENCES customer",
        "ALTER TABLE purchase ADD seller int REFERENCES customer",
    )
    start, *rest, _ = planned(connection, COLUMN)
    run(connection, start, *(rest if phase == "ready" else []))
    names = [f"{name}_new", *([name] if is_old_dropped else [])]
    run(connection, f"ALTER TABLE {table} " + ", ".join(f"DROP COLUMN {each} CASCADE" for each in names))
    if phase == "ready":
        assert UNDO in hint(refusal(connection, VERIFY))
    run(connection, UNDO, "INSERT INTO customer (name) VALUES ('later')")
    run(connection, "INSERT INTO purchase (number, customer_id) VALUES (21, 21)")
    assert value(connection, IS_OVER) is True
    left = "SELECT count(*) FROM pg_attribute WHERE attrelid = '{}'::regclass AND attname ~ '_new$'"
    assert value(connection, left.format(table)) == 0


def test_triggers_that_are_made_later_are_not_missed(connection: psycopg.Connection) -> None:
    """Those of a table that references the key come before its rows are filled."""
    run(connection, SHOP, "ALTER TABLE customer ADD at timestamptz")
    run(connection, planned(connection, f"{COLUMN}, created_at => 'at'")[0])
    assert "writers" not in not_ok(connection)
    assert ("writers", "all triggers that exist so far are enabled") in connection.execute(
        f"SELECT name, found FROM ({VERIFY}) AS row"
    ).fetchall()


def test_the_progress_comes_to_its_end(connection: psycopg.Connection) -> None:
    """With a last line, if there was one before."""
    run(connection, SHOP)
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    run(connection, planned(connection, COLUMN)[0], f"SELECT id_gen_convert.step({COLUMN})")
    run(
        connection,
        "UPDATE id_gen_convert.fill SET told_at = told_at - interval '6 s', begun_at = begun_at - interval '6 s'",
    )
    run(connection, RUN)
    assert [re.findall("[0-9.]+ %", line) for line in notices if line.startswith("public.customer: 20 rows")][-1] == [
        "100.0 %"
    ]
    share = "UPDATE id_gen_convert.part SET blocks = 10000, next_block = 9996"
    run(connection, share, "UPDATE id_gen_convert.fill SET ended_at = NULL")
    assert str(value(connection, "SELECT percent FROM id_gen_convert.progress LIMIT 1")) == "99.9"


@pytest.mark.parametrize(
    ("place", "change", "remedy"),
    [
        ("public", "DROP EXTENSION id_gen CASCADE", "CREATE EXTENSION id_gen SCHEMA public"),
        ("ids", "DROP SCHEMA ids CASCADE", "CREATE SCHEMA ids; CREATE EXTENSION id_gen SCHEMA ids"),
        ("ids", "ALTER SCHEMA ids RENAME TO numbers", "ALTER SCHEMA numbers RENAME TO ids"),
        ("ids", "DROP EXTENSION id_gen CASCADE; CREATE EXTENSION id_gen", None),
    ],
)
@pytest.mark.parametrize("created_at", [False, True])
def test_a_job_needs_the_extension_where_it_was(
    connection: psycopg.Connection, place: str, change: str, remedy: str | None, created_at: bool
) -> None:
    if place != "public":
        run(connection, f"DROP EXTENSION id_gen CASCADE; CREATE SCHEMA {place}; CREATE EXTENSION id_gen SCHEMA {place}")
        run(connection, "CREATE EXTENSION id_gen_tools")
    run(connection, SHOP, "ALTER TABLE customer ADD at timestamptz")
    start, *statements, switch = planned(connection, f"{COLUMN}, created_at => 'at'" if created_at else COLUMN)
    run(connection, start, change)
    for tried in (RUN, VERIFY, f"SELECT id_gen_convert.todo({COLUMN})"):
        refused = refusal(connection, tried)
        assert UNDO in hint(refused)
        assert f"The job needs functions in schema {place}." == detail(refused)
    if remedy is None:
        assert hint(refused) == f"Undo the job: {UNDO};"
        run(connection, UNDO)
        return
    assert hint(refused).startswith(f"Run: {remedy}; or undo the job: ")
    run(connection, remedy, *statements, change)
    refusal(connection, switch)
    run(connection, remedy, switch)


@pytest.mark.parametrize(
    ("target", "change", "back"),
    [
        ("uuidv7", "RENAME at TO made", "RENAME made TO at"),
        ("snowflake", "ALTER at TYPE text", "ALTER at TYPE timestamptz USING at::timestamptz"),
    ],
    ids=["renamed", "of another type"],
)
def test_the_column_of_the_time_is_changed_meanwhile(
    connection: psycopg.Connection, target: str, change: str, back: str
) -> None:
    run(
        connection,
        "CREATE TABLE customer (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz DEFAULT now());"
        "INSERT INTO customer DEFAULT VALUES",
    )
    start, *statements = planned(connection, f"{COLUMN}, '{target}', created_at => 'at'")
    run(connection, start, *[made for made in statements if made.startswith("CREATE")])
    run(connection, f"ALTER TABLE customer {change}")
    refused = refusal(connection, RUN)
    assert "the column with the time of rows of public.customer has been renamed, dropped or changed" in str(refused)
    assert hint(refused).endswith(f"or undo the job: {UNDO};")
    run(connection, f"ALTER TABLE customer {back}", RUN, UNDO)


def test_a_type_whose_schema_may_not_be_used_any_more(
    connection: psycopg.Connection, owner: psycopg.Connection
) -> None:
    run(connection, "CREATE SCHEMA lib; GRANT ALL ON SCHEMA lib TO owner")
    run(owner, SHOP, "CREATE DOMAIN lib.d AS integer; CREATE VIEW v AS SELECT id, '{1}'::lib.d[] AS list FROM customer")
    run(owner, *planned(owner, COLUMN))
    run(connection, "REVOKE USAGE ON SCHEMA lib FROM owner")
    refused = refusal(owner, UNDO)
    assert "permission denied for schema lib" in detail(refused) and "grant the privileges that it needs" in hint(
        refused
    )
    run(connection, "GRANT USAGE ON SCHEMA lib TO owner")
    run(owner, UNDO)
