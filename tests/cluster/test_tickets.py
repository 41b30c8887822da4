"""Tickets without a registry: dense numbers of an ordinary sequence, and never one twice."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from harness import GENERATING, PRELOADED, Cluster, SqlError
from harness.ids import Caller, answer_of, error_of, refusal
from harness.page import Page
from harness.tickets import assert_distinct, in_crowd, one, take, take_at_once

CLIENTS = 8
CONF = f"{GENERATING}max_prepared_transactions = 5\n"
PAGE = 8192
PLACES = 128

WRONG_KIND = "42809"
NOT_SUPPORTED = "0A000"
DENIED = "42501"
ENDED = "2200H"
DAMAGED = "XX001"
READ_ONLY = "25006"
PARALLEL = "25000"
CANCELED = "57014"
TERMINATED = "57P01"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster(conf=CONF) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


@pytest.fixture
def cluster(server: Cluster) -> Iterator[Cluster]:
    server.psql("CREATE SEQUENCE invoice")
    yield server
    server.psql("DROP SEQUENCE invoice CASCADE")


@contextmanager
def own_cluster(conf: str = CONF, taken: int = 0) -> Iterator[Cluster]:
    """With a session behind it that has taken so many numbers."""
    with Cluster(conf=conf) as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE invoice")
        with cluster.connect() as connection:
            assert take_at_once(connection, taken) == list(range(1, taken + 1))
        yield cluster


def test_numbers_are_dense(cluster: Cluster) -> None:
    numbers = in_crowd([cluster], CLIENTS, 2_000)
    assert_distinct(numbers)
    # What sessions did not use went back, but for what they still held when the others began the next range.
    assert max(numbers) <= len(numbers) * 1.05
    with cluster.connect() as connection:
        assert min(take_at_once(connection, 3_000)) <= max(numbers) + 1


def test_one_session_counts_without_a_gap(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        numbers = take(connection, count=20)
        for count in (1, 2, 63, 64, 1_000, 5, 3_000):
            numbers += take_at_once(connection, count)
    assert numbers == list(range(1, len(numbers) + 1))


def test_nextval_counts_on_above_what_is_held(cluster: Cluster) -> None:
    with cluster.connect() as one_session, cluster.connect() as other:
        numbers = []
        for _ in range(50):
            numbers += take(one_session, count=2)
            numbers += [other.execute("SELECT nextval('invoice')").fetchone()[0]]
            numbers += take_at_once(other, 10)
        assert_distinct(numbers)


def test_an_increment_of_several_servers(cluster: Cluster) -> None:
    cluster.psql("ALTER SEQUENCE invoice INCREMENT BY 4 RESTART WITH 3")
    with cluster.connect() as connection:
        assert take(connection, count=3) == [3, 7, 11]
        assert take_at_once(connection, 1_000) == list(range(15, 4_015, 4))


def test_null_is_null(cluster: Cluster) -> None:
    assert cluster.psql("SELECT ticket_next(NULL) IS NULL") == "t"


def test_a_default_is_dumped_and_restored(cluster: Cluster) -> None:
    with cluster.database("shop"), cluster.database("copy"):
        cluster.psql(
            "CREATE EXTENSION id_gen; CREATE TABLE t (id serial PRIMARY KEY, n int);"
            "ALTER TABLE t ALTER id SET DEFAULT ticket_next('t_id_seq');"
            "INSERT INTO t (n) SELECT generate_series(1, 100)",
            "shop",
        )
        cluster.psql(cluster.run("pg_dump", dbname="shop"), "copy")
        assert cluster.psql("SELECT count(id), min(id), max(id) FROM t", "copy") == "100|1|100"
        assert int(cluster.psql("INSERT INTO t (n) VALUES (0) RETURNING id", "copy")) > 100


def test_what_is_rolled_back_is_given_to_nobody_else(cluster: Cluster) -> None:
    with cluster.connect() as connection, cluster.connect() as other:
        numbers = []
        connection.execute("BEGIN")
        numbers += take_at_once(connection, 10)
        connection.execute("SAVEPOINT middle")
        numbers += take_at_once(connection, 10)
        connection.execute("ROLLBACK TO middle")
        numbers += take_at_once(connection, 10)
        numbers += take_at_once(other, 10)
        connection.execute("ROLLBACK")
        numbers += take_at_once(connection, 100) + take_at_once(other, 100)
        assert_distinct(numbers)


def test_the_lock_of_a_subtransaction_outlives_it(cluster: Cluster) -> None:
    with cluster.connect() as connection, cluster.connect() as owner:
        connection.execute("BEGIN")
        connection.execute("SAVEPOINT middle")
        take(connection)
        connection.execute("ROLLBACK TO middle")
        owner.execute("SET lock_timeout = '1ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            owner.execute("ALTER SEQUENCE invoice RESTART")
        assert take(connection) == [2]
        connection.execute("COMMIT")
        owner.execute("RESET lock_timeout")
        owner.execute("ALTER SEQUENCE invoice RESTART")


def test_a_prepared_transaction(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.execute("BEGIN")
        numbers = take_at_once(connection, 10)
        connection.execute("PREPARE TRANSACTION 'one'")
        numbers += take_at_once(connection, 100)
        numbers.append(one(cluster))
        connection.execute("ROLLBACK PREPARED 'one'")
        numbers += take_at_once(connection, 100)
        assert_distinct(numbers)
        assert max(numbers) == len(numbers)


def test_discarding_a_session(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        numbers = take_at_once(connection, 10)
        connection.execute("DISCARD SEQUENCES")
        numbers += take(connection)
        connection.execute("DISCARD ALL")
        numbers += take(connection)
        assert numbers == list(range(1, 13))


@pytest.mark.parametrize("end", ["terminate", "cancel"])
def test_a_session_that_ends_in_the_midst(cluster: Cluster, end: str) -> None:
    """What it holds goes back, and nothing that it has handed out does."""
    with Caller(cluster) as caller, cluster.connect() as other:
        call = caller.begin(
            "SELECT count(ticket_next('invoice')) FROM generate_series(1, 30000) a, generate_series(1, 30000) b"
        )
        cluster.poll_until("SELECT issued > 0 FROM id_gen_stat_tickets WHERE relid = 'invoice'::regclass")
        numbers = take_at_once(other, 10_000)
        other.execute(f"SELECT pg_{end}_backend(%s)", [caller.pid])
        assert error_of(call).sqlstate in (TERMINATED, CANCELED)
        numbers += take_at_once(other, 10_000)
    assert_distinct(numbers)


def test_privileges_are_those_of_nextval(cluster: Cluster) -> None:
    cluster.psql("CREATE ROLE clerk; CREATE ROLE boss; GRANT boss TO clerk")
    cluster.psql("CREATE VIEW number AS SELECT ticket_next('invoice') AS n; GRANT SELECT ON number TO clerk")
    cluster.psql(
        "CREATE FUNCTION number() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT ticket_next('invoice') $$"
    )
    with cluster.connect() as connection:

        def taken(sql: str = "SELECT ticket_next('invoice')") -> int | str | None:
            try:
                return connection.execute(sql).fetchone()[0]
            except psycopg.Error as error:
                return error.sqlstate

        try:
            assert taken() == 1
            connection.execute("SET ROLE clerk")
            assert taken() == DENIED
            # A view's functions run as who asks it, as they do with nextval().
            assert taken("SELECT n FROM number") == DENIED
            assert taken("SELECT number()") == 2
            assert taken() == DENIED
            for role, privilege in (("clerk", "USAGE"), ("clerk", "UPDATE"), ("boss", "USAGE")):
                cluster.psql(f"GRANT {privilege} ON SEQUENCE invoice TO {role}")
                assert isinstance(taken(), int)
                connection.execute("BEGIN")
                assert isinstance(taken(), int)
                connection.execute("RESET ROLE")
                connection.execute(f"REVOKE {privilege} ON SEQUENCE invoice FROM {role}")
                connection.execute("SET ROLE clerk")
                assert taken() == DENIED
                connection.execute("ROLLBACK")
                cluster.psql(f"REVOKE {privilege} ON SEQUENCE invoice FROM {role}")
                assert taken() == DENIED
            cluster.psql("GRANT USAGE ON SEQUENCE invoice TO boss")
            assert isinstance(taken(), int)
            cluster.psql("REVOKE boss FROM clerk")
            assert taken() == DENIED
        finally:
            connection.execute("RESET ROLE")
            cluster.psql("DROP FUNCTION number(); DROP OWNED BY clerk, boss; DROP ROLE clerk, boss")


def test_a_hint_about_privileges_is_followed(cluster: Cluster) -> None:
    cluster.psql('CREATE ROLE "Kanzlei"; CREATE SCHEMA "Über uns"; CREATE SEQUENCE "Über uns"."Rech\'nung"')
    cluster.psql('GRANT USAGE ON SCHEMA "Über uns" TO "Kanzlei"')
    call = 'SET ROLE "Kanzlei"; SELECT ticket_next(\'"Über uns"."Rech\'\'nung"\')'
    error = refusal(cluster, call)
    assert (error.sqlstate, error.message) == (DENIED, 'permission denied for sequence "Über uns"."Rech\'nung"')
    cluster.psql((error.hint or "").partition(": ")[2])
    assert cluster.psql(call) == "1"
    cluster.psql('DROP OWNED BY "Kanzlei"; DROP ROLE "Kanzlei"; DROP SCHEMA "Über uns" CASCADE')


REFUSED = {
    "a table": ("CREATE TABLE odd (id int)", WRONG_KIND),
    "temporary": ("CREATE TEMPORARY SEQUENCE odd", NOT_SUPPORTED),
    "unlogged": ("CREATE UNLOGGED SEQUENCE odd", NOT_SUPPORTED),
    "counting down": ("CREATE SEQUENCE odd INCREMENT BY -1 MINVALUE -100", NOT_SUPPORTED),
    "counting down to what it was": ("CREATE SEQUENCE odd INCREMENT BY -1 MAXVALUE 1000", NOT_SUPPORTED),
    "counting down from the largest": ("CREATE SEQUENCE odd AS smallint INCREMENT BY -1 MAXVALUE 32767", NOT_SUPPORTED),
    "cycling": ("CREATE SEQUENCE odd MAXVALUE 5000 CYCLE", NOT_SUPPORTED),
    "cycling, begun again": ("CREATE SEQUENCE odd MAXVALUE 2 CYCLE", NOT_SUPPORTED),
    "cycling up to the largest": ("CREATE SEQUENCE odd AS smallint CYCLE", NOT_SUPPORTED),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_and_what_leads_out(server: Cluster, kind: str) -> None:
    made, sqlstate = REFUSED[kind]
    with server.connect() as connection:
        connection.execute(made)
        used = {connection.execute("SELECT nextval('odd')").fetchone()[0] for _ in range(3)} if "SEQ" in made else set()
        with pytest.raises(psycopg.Error) as refused:
            take(connection, "odd")
        assert refused.value.sqlstate == sqlstate
        hint = refused.value.diag.message_hint or ""
        statement = hint.rpartition(": ")[2]
        if statement.startswith(("ALTER", "CREATE")):
            connection.execute(statement)
            name = "invoice" if statement.startswith("CREATE") else "odd"
            assert not used & set(take(connection, name, 2_000)) or name != "odd"
        connection.execute(f"DROP {'TABLE' if kind == 'a table' else 'SEQUENCE'} odd")
        connection.execute("DROP SEQUENCE IF EXISTS invoice")


def test_a_relation_that_is_not_there(server: Cluster) -> None:
    assert refusal(server, "SELECT ticket_next(4000000000::oid::regclass)").sqlstate == "XX000"
    assert refusal(server, "SELECT ticket_next('nowhere')").sqlstate == "42P01"


def test_the_end_is_told_and_left(cluster: Cluster) -> None:
    with cluster.database("short"):
        cluster.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE invoice AS integer START 2147483645", "short")
        for largest in (2_147_483_647, 9_007_199_254_740_991):
            cluster.psql(f"SELECT setval('invoice', {largest} - 2)", "short")
            assert one(cluster, dbname="short") == largest - 1
            assert one(cluster, dbname="short") == largest
            with pytest.raises(SqlError) as refused:
                one(cluster, dbname="short")
            error = refused.value
            assert error.sqlstate == ENDED
            assert str(largest) in (error.message or "")
            cluster.psql((error.hint or "").rpartition(": ")[2], "short")
            assert one(cluster, dbname="short") == largest + 1
        cluster.psql(f"SELECT setval('invoice', {2**63 - 1})", "short")
        with pytest.raises(SqlError, match="No bigint is larger"):
            one(cluster, dbname="short")


def test_what_is_set_after_an_import_is_heeded_by_all_sessions(cluster: Cluster) -> None:
    """Numbers that were held before lie among those that were imported."""
    with cluster.connect() as one_session, cluster.connect() as other:
        # Also to what lies within a range that is held.
        for further, taken in ((1_000, 1), (1, 5), (30_000, 3_000), (10, 3_000), (2_000, 3_000)):
            imported = max(take_at_once(one_session, taken) + take(other, count=5)) + further
            cluster.psql(f"SELECT setval('invoice', {imported})")
            assert take(other) == [imported + 1]
            assert take(one_session) == [imported + 2]
            # Once, and not whenever somebody looks.
            assert take_at_once(other, 3) == [imported + 3, imported + 4, imported + 5]
        cluster.psql("SELECT setval('invoice', 60000, false)")
        assert take(other) == [60_000]


# How a sequence may be set, besides nextval(). `{last}` is the last number that was taken.
SET = (
    "SELECT setval('{name}', {last})",
    "SELECT setval('{name}', {last} + 1, false)",
    "SELECT setval('{name}', {last} - 1)",
    "SELECT setval('{name}', 1, false)",
    "SELECT setval('{name}', {last} + 1)",
    "SELECT setval('{name}', {last} + 1000)",
    "SELECT setval('{name}', {last} + 1000000)",
    "SELECT setval('{name}', 7), setval('{name}', {last})",
    "ALTER SEQUENCE {name} RESTART",
    "ALTER SEQUENCE {name} RESTART WITH 5000",
    "ALTER SEQUENCE {name} OWNED BY NONE",
    "ALTER SEQUENCE {name} SET UNLOGGED; ALTER SEQUENCE {name} SET LOGGED",
    "ALTER SEQUENCE {name} RENAME TO other; ALTER SEQUENCE other RENAME TO {name}",
    "DROP SEQUENCE {name}; CREATE SEQUENCE {name} START 7",
    "GRANT USAGE ON SEQUENCE {name} TO PUBLIC; GRANT CONNECT ON DATABASE postgres TO PUBLIC",
    "BEGIN; ALTER SEQUENCE {name} RESTART WITH 9; ROLLBACK",
    "BEGIN; SELECT setval('{name}', {last} - 1); ROLLBACK",
    "CHECKPOINT",
)


@pytest.mark.parametrize("statements", SET)
def test_setting_a_sequence_means_what_it_means_to_nextval(cluster: Cluster, statements: str) -> None:
    """Two sequences are set in the same way, one of tickets, one of nextval(): the same numbers come everywhere."""
    cluster.psql("CREATE SEQUENCE plain")
    with cluster.connect() as one_session, cluster.connect() as other:
        plain = "SELECT nextval('plain') FROM generate_series(1, %s)"

        def next_of_both(connection: psycopg.Connection, count: int) -> tuple[list[int], list[int]]:
            tickets = take(connection) if count == 1 else take_at_once(connection, count)
            return tickets, [number for (number,) in connection.execute(plain, [count])]

        for count in (3, 1, 300, 3_000, 1):
            tickets, numbers = next_of_both(one_session, count)
            assert tickets == numbers
            for name in ("invoice", "plain"):
                cluster.psql(statements.format(name=name, last=numbers[-1]))
            for connection, later in ((other, 1), (one_session, 1), (other, 10), (one_session, 2)):
                tickets, numbers = next_of_both(connection, later)
                if "UNLOGGED" in statements and tickets[0] > numbers[0]:
                    # It is written to a new file as it is, above what is held.
                    cluster.psql(f"SELECT setval('plain', {tickets[-1]})")
                else:
                    assert tickets == numbers
    cluster.psql("DROP SEQUENCE plain")


def test_a_sequence_is_looked_at_once_in_a_statement(cluster: Cluster) -> None:
    """Also within a transaction that has taken numbers before the sequence was set."""
    with cluster.connect() as connection:
        connection.execute("BEGIN")
        assert take_at_once(connection, 20)[-1] == 20
        cluster.psql("SELECT setval('invoice', 3)")
        assert take(connection, count=2) == [4, 5]
        cluster.psql("SELECT setval('invoice', 1000)")
        assert take(connection) == [1001]
        connection.execute("COMMIT")


def test_what_is_set_while_a_statement_takes_numbers(cluster: Cluster) -> None:
    """It may use up the range that it has begun, and fetches none of before."""
    with cluster.connect() as connection, cluster.connect() as other:
        take_at_once(other, 3_000)
        held = int(cluster.psql("SELECT prefetched FROM id_gen_stat_tickets WHERE sequencename = 'invoice'"))
        query = (
            "SELECT CASE i WHEN 10 THEN setval('invoice', 100000) ELSE ticket_next('invoice') END"
            " FROM generate_series(1, %s) i"
        )
        numbers = [number for (number,) in connection.execute(query, [held + 1_000])]
        del numbers[9]
        assert_distinct(numbers)
        assert len([number for number in numbers if number <= 100_000]) <= held
        assert take(other) == [numbers[-1] + 1]
        assert take(other)[0] > 100_000


def test_a_nextval_after_a_clean_stop_goes_on_densely() -> None:
    """Everything that goes by the sequence alone does: pg_dump, pg_upgrade, another server."""
    with own_cluster(taken=3_000) as cluster:
        cluster.psql("CREATE SEQUENCE gone; CREATE SEQUENCE changed; CREATE TABLE t (id serial)")
        cluster.psql("CREATE DATABASE emptied")
        cluster.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE gone", "emptied")
        with cluster.connect() as connection, cluster.connect("emptied") as other:
            for name in ("gone", "changed", "t_id_seq"):
                take_at_once(connection, 100, name)
            take_at_once(other, 100, "gone")
        # Of a file that is gone, that was made again, whose page is another's; and one of another database.
        cluster.psql("DROP SEQUENCE gone; CREATE SEQUENCE gone; TRUNCATE t RESTART IDENTITY")
        cluster.psql("SELECT setval('changed', 50000)")
        cluster.psql("DROP DATABASE emptied")
        cluster.restart()
        assert cluster.psql("SELECT last_value, is_called FROM invoice") == "3000|t"
        assert cluster.psql("SELECT nextval('invoice'), nextval('changed'), nextval('gone')") == "3001|50001|1"
        assert "ERROR" not in cluster.log()


def test_what_a_clean_stop_hands_back_is_durable() -> None:
    """Numbers that are taken after it are above, also if the server crashes then."""
    with own_cluster(taken=100) as cluster:
        cluster.restart()
        numbers = [one(cluster), one(cluster)]
        assert numbers == [101, 102]
        cluster.kill9()
        cluster.start()
        assert one(cluster) > 102


def test_a_switchover_leaves_no_gap() -> None:
    """The process that sends the log to the standby ends after the keeper, and is not waited for as a session is."""
    with own_cluster(taken=10) as primary, Cluster("standby", standby_of=primary) as standby:
        primary.wait_for_catchup(standby)
        primary.stop()
        standby.promote()
        assert one(standby) == 11


def test_more_sequences_than_a_session_remembers(server: Cluster) -> None:
    """Whatever else a session uses, its numbers follow each other."""
    names = [f"apart.s{number}" for number in range(65)]
    server.psql("CREATE SCHEMA apart; " + "".join(f"CREATE SEQUENCE {name};" for name in names))
    taken: dict[str, list[int]] = {name: [] for name in names}
    with server.connect() as connection:
        for _ in range(3):
            connection.execute("BEGIN")
            for name in names:
                taken[name] += take(connection, name) + take_at_once(connection, 3, name)
            connection.execute("COMMIT")
    server.psql("DROP SCHEMA apart CASCADE")
    assert all(numbers == list(range(1, 13)) for numbers in taken.values())


@pytest.mark.parametrize(
    "change", ["SELECT setval('invoice', 400)", "ALTER SEQUENCE invoice RESTART WITH 401", "SELECT nextval('invoice')"]
)
def test_statements_of_one_message_follow_each_other(cluster: Cluster, change: str) -> None:
    """Also where PL/pgSQL keeps an expression for the whole transaction."""
    cluster.psql(
        "CREATE TABLE bill (id bigint PRIMARY KEY);"
        "CREATE FUNCTION next_invoice() RETURNS bigint LANGUAGE plpgsql AS"
        " 'BEGIN RETURN ticket_next(''invoice''); END'"
    )
    with cluster.connect() as connection:
        take_at_once(connection, 300)
        connection.execute(
            f"SELECT next_invoice(); INSERT INTO bill VALUES (next_invoice()); {change};"
            " INSERT INTO bill VALUES (next_invoice())".encode()
        )
        [first, second] = [number for (number,) in connection.execute("SELECT id FROM bill ORDER BY id")]
        last = connection.execute("SELECT currval('invoice')").fetchone() if "nextval" in change else (400,)
        assert (first, second) == (302, (last or (0,))[0] + 1)
        query = (
            "DO $$ DECLARE number bigint; BEGIN FOR i IN 1..3 LOOP number := ticket_next('invoice');"
            " INSERT INTO bill VALUES (number); PERFORM setval('invoice', i * 100000); END LOOP; END $$"
        )
        connection.execute(query.encode())
        numbers = [number for (number,) in connection.execute("SELECT id FROM bill ORDER BY id OFFSET 3")]
        assert numbers == [100_001, 200_001]
    cluster.psql("DROP FUNCTION next_invoice(); DROP TABLE bill")


def test_a_sequence_is_not_used_up_by_what_is_held(cluster: Cluster) -> None:
    cluster.psql("ALTER SEQUENCE invoice MAXVALUE 1000000")
    check = "SELECT status FROM id_gen_check() WHERE name = 'tickets'"
    used = "SELECT used < 0.35 FROM id_gen_stat_tickets WHERE relid = 'invoice'::regclass"
    with cluster.connect() as connection:
        take_at_once(connection, 300_000)
        assert cluster.psql(used) == "t"
        # The rest of it would last for a moment at this rate, but that is of a whole hour.
        assert "used 30 %" in cluster.psql("SELECT found FROM id_gen_check() WHERE name = 'tickets'")
        cluster.psql("ALTER SEQUENCE invoice NO MAXVALUE")
        assert take(connection)[0] < 300_000 + 700_000 / 16 + 2
    assert cluster.psql(check) == "ok"


def unreadable(cluster: Cluster, name: str) -> tuple[Path, bytes]:
    """Damages the page of a sequence, which the server has to read again."""
    path = cluster.data / cluster.psql(f"SELECT pg_relation_filepath('{name}')")
    cluster.psql("CHECKPOINT")
    cluster.psql(
        "CREATE TABLE crowd AS SELECT repeat('x', 1000) x FROM generate_series(1, 3000); CREATE INDEX ON crowd (x)"
    )
    cluster.psql("SET enable_seqscan = off; SELECT count(ctid) FROM crowd WHERE x > ''; CHECKPOINT; DROP TABLE crowd")
    good = path.read_bytes()
    path.write_bytes(b"\xff" * 24 + good[24:])
    return path, good


def test_a_page_that_cannot_be_read_stops_no_other_sequence() -> None:
    """Neither one that needs its place, nor the others at a clean stop."""
    with own_cluster(f"{CONF}shared_buffers = 1MB\n", taken=3_000) as cluster:
        names = [f"s{number}" for number in range(PLACES)]
        cluster.psql("CREATE SEQUENCE bad; " + "".join(f"CREATE SEQUENCE {name};" for name in names))
        with cluster.connect() as connection:
            take_at_once(connection, 100, "bad")
            for name in names[:-2]:
                take(connection, name)
        path, good = unreadable(cluster, "bad")
        assert take(cluster.connect()) == [3_001]
        with suppress(SqlError):
            one(cluster, names[-2])
        assert [one(cluster, name) for name in names[-2:]] == [1, 1]
        path.write_bytes(good)
        assert one(cluster, "bad") > 100
        path, good = unreadable(cluster, "bad")
        cluster.restart()
        assert one(cluster) == 3_002
        path.write_bytes(good)


def test_a_session_that_outlives_a_stop_is_waited_for() -> None:
    with own_cluster(taken=3_000) as cluster, Caller(cluster) as idle:
        os.kill(idle.pid, signal.SIGSTOP)
        cluster.begin_stop("fast")
        cluster.wait_until(lambda: "received fast shutdown request" in cluster.log(), "stopping")
        assert any("keeper" in title for title in cluster.processes().values())
        os.kill(idle.pid, signal.SIGCONT)
        cluster.await_stop()
        cluster.start()
        assert one(cluster) == 3_001


def test_databases_that_are_gone_have_no_places(server: Cluster) -> None:
    names = [f"many.s{number}" for number in range(PLACES - 20)]
    server.psql("CREATE SCHEMA many; " + "".join(f"CREATE SEQUENCE {name};" for name in names))
    with server.database("shop"):
        create = "".join(f"CREATE SEQUENCE s{number}; SELECT ticket_next('s{number}');" for number in range(30))
        server.psql(f"CREATE EXTENSION id_gen; {create}", "shop")
    with server.connect() as connection:
        before = server.psql("SELECT coalesce(sum(dropped), 0) FROM id_gen_stat_tickets")
        taken = [take(connection, name)[0] for _ in range(4) for name in names]
        assert sorted(set(taken)) == [1, 2, 3, 4]
        shown = "SELECT count(*), min(issued) FROM id_gen_stat_tickets WHERE schemaname = 'many'"
        assert server.psql(shown) == f"{len(names)}|4"
        assert server.psql("SELECT coalesce(sum(dropped), 0) FROM id_gen_stat_tickets") == before
    server.psql("DROP SCHEMA many CASCADE")


def test_a_database_that_is_moved_leaves_no_gap() -> None:
    with own_cluster() as cluster, cluster.database("shop"):
        cluster.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE invoice", "shop")
        with cluster.connect("shop") as connection:
            take_at_once(connection, 3_000)
        cluster.psql("SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION ''")
        cluster.psql("ALTER DATABASE shop SET TABLESPACE elsewhere")
        assert one(cluster, dbname="shop") == 3_001
        cluster.restart()
        assert one(cluster, dbname="shop") == 3_002
        cluster.psql("ALTER DATABASE shop SET TABLESPACE pg_default; DROP TABLESPACE elsewhere")


def test_nextval_beside_repeats_nothing(cluster: Cluster) -> None:
    """Nor where it has used what it had logged: tickets go on above it, and leave what was held."""
    with cluster.connect() as connection, cluster.connect() as other:
        numbers = take_at_once(connection, 3_000)
        for _ in range(150):
            row = other.execute("SELECT nextval('invoice')").fetchone()
            assert row
            numbers += [row[0], *take(connection)]
    assert_distinct(numbers)
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("above", [5, 100_000])
def test_a_nextval_hides_no_setval(cluster: Cluster, above: int) -> None:
    """Neither to a number among those that are held, nor above all of them."""
    with cluster.connect() as connection:
        take_at_once(connection, 300)
        query = "SELECT next_value + %s, last_value FROM id_gen_stat_tickets, invoice WHERE sequencename = 'invoice'"
        row = connection.execute(query, [above]).fetchone()
        assert row
        imported, last = row
        connection.execute("SELECT setval('invoice', %s)", [imported])
        count = max(1, last - imported + 10)
        called = connection.execute("SELECT nextval('invoice') FROM generate_series(1, %s)", [count]).fetchall()
        numbers = [number for (number,) in called] + take_at_once(connection, 400)
    assert_distinct(numbers)
    assert numbers[0] == imported + 1 and numbers == sorted(numbers)


def test_a_sequence_that_is_not_logged_as_it_is_new_repeats_nothing() -> None:
    with Cluster(conf=f"{CONF}wal_level = minimal\nmax_wal_senders = 0\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with cluster.connect() as connection:
            connection.execute("BEGIN")
            connection.execute("CREATE SEQUENCE invoice")
            numbers = take_at_once(connection, 300)
            connection.execute("COMMIT")
            connection.execute("SELECT setval('invoice', 300)")
            numbers += take_at_once(connection, 3000)
        assert_distinct(numbers)


def test_a_first_ticket_while_the_server_stops_leaves_no_gap() -> None:
    with own_cluster(taken=100) as cluster:
        cluster.restart()
        with cluster.connect() as connection:
            cluster.begin_stop("smart")
            cluster.wait_until(lambda: "stopping" in (cluster.data / "postmaster.pid").read_text(), "stopping")
            number = take(connection)[0]
            assert number == 101
        cluster.await_stop()
        cluster.start()
        assert one(cluster) == number + 1


def test_a_sequence_that_is_set_back_begins_anew(cluster: Cluster) -> None:
    cluster.psql("CREATE TABLE t (id bigint DEFAULT ticket_next('invoice')); ALTER SEQUENCE invoice OWNED BY t.id")
    with cluster.connect() as connection, cluster.connect() as other:
        for statement in ("ALTER SEQUENCE invoice RESTART", "TRUNCATE t RESTART IDENTITY"):
            take_at_once(connection, 100)
            connection.execute("BEGIN")
            connection.execute(statement)
            assert take(connection) == [1]
            connection.execute("ROLLBACK")
            # As if nothing had happened, and without a repeat.
            assert take(connection)[0] > 100
            connection.execute(statement)
            assert take(connection) + take(other) == [1, 2]
        take_at_once(other, 100)
        connection.execute("ALTER SEQUENCE invoice INCREMENT BY 10")
        first = take(connection)[0]
        assert take(other) == [first + 10]
    cluster.psql("ALTER TABLE t ALTER id DROP DEFAULT; ALTER SEQUENCE invoice OWNED BY NONE; DROP TABLE t")


def test_more_sequences_than_places(server: Cluster) -> None:
    """What is evicted leaves gaps, and no number is given twice."""
    names = [f"many.s{number}" for number in range(PLACES + 20)]
    server.psql("CREATE SCHEMA many; " + "".join(f"CREATE SEQUENCE {name};" for name in names))
    numbers: dict[str, list[int]] = {name: [] for name in names}
    with server.connect() as one_session, server.connect() as other:
        for connection in (one_session, other) * 3:
            for name in names:
                numbers[name] += take(connection, name) + take_at_once(connection, 5, name)
    for taken in numbers.values():
        assert_distinct(taken)
    check = server.psql("SELECT status, found FROM id_gen_check() WHERE name = 'tickets'")
    assert check.startswith("warning|") and f"it has room for {PLACES}" in check
    server.psql("DROP SCHEMA many CASCADE")


def test_a_sequence_is_looked_at_in_each_assignment(cluster: Cluster) -> None:
    cluster.psql(
        "CREATE FUNCTION next_invoice() RETURNS bigint LANGUAGE plpgsql AS"
        " 'DECLARE number bigint; BEGIN number := ticket_next(''invoice''); RETURN number; END'"
    )
    try:
        with cluster.connect() as connection, connection.transaction():
            take_at_once(connection, 300)
            connection.execute("SELECT next_invoice()")
            connection.execute("SELECT setval('invoice', 100000)")
            assert connection.execute("SELECT next_invoice() > 100000").fetchone() == (True,)
    finally:
        cluster.psql("DROP FUNCTION next_invoice()")


def test_an_open_grant_on_the_database_drops_no_range(cluster: Cluster) -> None:
    with cluster.connect() as granting, cluster.connect() as other:
        granting.execute("BEGIN")
        granting.execute("GRANT CONNECT ON DATABASE postgres TO PUBLIC")
        numbers = []
        for _ in range(10):
            numbers += take_at_once(granting, 100) + take_at_once(other, 100)
        granting.execute("ROLLBACK")
    assert_distinct(numbers)
    assert max(numbers) <= len(numbers) * 1.05


def test_sequences_of_another_database_drop_no_range(cluster: Cluster) -> None:
    with cluster.database("crowded"), cluster.connect() as connection:
        numbers = take_at_once(connection, 3_000)
        names = [f"s{number}" for number in range(PLACES + 7)]
        create = "".join(f"CREATE SEQUENCE {name};" for name in names)
        takes = "".join(f"SELECT ticket_next('{name}');" for name in names)
        cluster.psql(f"CREATE EXTENSION id_gen; {create} {takes}", "crowded")
        assert take(connection) == [numbers[-1] + 1]


def test_a_sequence_of_the_same_transaction(server: Cluster) -> None:
    with server.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE SEQUENCE mine")
        assert take(connection, "mine") == [1]
        connection.execute("ROLLBACK")
        connection.execute("CREATE SEQUENCE mine")
        assert take_at_once(connection, 10, "mine") == list(range(1, 11))
        connection.execute("DROP SEQUENCE mine")


def test_nothing_is_taken_where_nothing_may_be_written(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        take(connection)
        connection.execute("BEGIN READ ONLY")
        with pytest.raises(psycopg.Error) as refused:
            take(connection)
        assert refused.value.sqlstate == READ_ONLY
        connection.execute("ROLLBACK")
        assert take(connection) == [2]


def test_a_query_with_parallel_workers(cluster: Cluster) -> None:
    """As with nextval(), there are no workers; and where a function says that there may be, the call is refused."""
    cluster.psql(
        "CREATE TABLE crowd AS SELECT i FROM generate_series(1, 10000) i;"
        "CREATE FUNCTION number() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS "
        "$$ BEGIN RETURN ticket_next('invoice'); END $$"
    )
    gather = (
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
        "SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;"
    )
    assert (
        cluster.psql(f"{gather} SELECT count(DISTINCT n) FROM (SELECT ticket_next('invoice') n FROM crowd) x")
        == "10000"
    )
    error = refusal(cluster, f"{gather} SELECT count(number()) FROM crowd")
    assert error.sqlstate == PARALLEL
    cluster.psql((error.hint or "").rpartition(": ")[2].replace("name", "number"))
    assert cluster.psql(f"{gather} SELECT count(number()) FROM crowd") == "10000"
    cluster.psql("DROP TABLE crowd; DROP FUNCTION number()")


def test_a_database_made_again_with_the_same_number() -> None:
    with own_cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE invoice", "template1")
        cluster.psql("CREATE DATABASE shop OID 50000 STRATEGY file_copy")
        assert cluster.psql("SELECT ticket_next('invoice') FROM generate_series(1, 100)", "shop").split()[-1] == "100"
        before = cluster.psql("SELECT oid, relfilenode FROM pg_class WHERE relname = 'invoice'", "shop")
        cluster.psql("DROP DATABASE shop")
        cluster.psql("CREATE DATABASE shop OID 50000 STRATEGY file_copy")
        assert cluster.psql("SELECT oid, relfilenode FROM pg_class WHERE relname = 'invoice'", "shop") == before
        assert one(cluster, dbname="shop") == 1


@pytest.mark.parametrize("wal_level", ["replica", "minimal"])
def test_a_crash_leaves_gaps_and_no_repeats(wal_level: str) -> None:
    conf = f"{CONF}wal_level = {wal_level}\nmax_wal_senders = 0\nautovacuum = off\n"
    with own_cluster(conf) as cluster:
        highest = 0
        for count in (1, 100, 3_000):
            with cluster.connect() as connection:
                numbers = take(connection, count=3) + take_at_once(connection, count)
                # Nobody has committed a number.
                connection.execute("BEGIN")
                numbers += take_at_once(connection, count)
                fresh = f"fresh_{count}"
                connection.execute(f"CREATE SEQUENCE {fresh}")
                take(connection, fresh, 3)
                connection.execute("COMMIT")
                connection.execute("CHECKPOINT" if count == 100 else "SELECT")
                numbers += take(connection)
                cluster.kill9()
            assert min(numbers) > highest
            assert_distinct(numbers)
            held = min(numbers) - highest
            assert held <= 2 * highest + 10, "more was lost than two ranges"
            highest = max(numbers)
            cluster.start()
            assert one(cluster) > highest
            highest = one(cluster)
            assert one(cluster, fresh) > 3


def test_a_crash_after_both_functions_were_used() -> None:
    """nextval() writes to the log for 32 calls in advance, which a range puts an end to."""
    with own_cluster() as cluster:
        with cluster.connect() as connection:
            numbers = [connection.execute("SELECT nextval('invoice')").fetchone()[0]]
            numbers += take_at_once(connection, 100)
            numbers += [connection.execute("SELECT nextval('invoice')").fetchone()[0] for _ in range(3)]
            assert_distinct(numbers)
            cluster.kill9()
        cluster.start()
        assert int(cluster.psql("SELECT nextval('invoice')")) > max(numbers)


def test_a_crash_of_a_server_that_has_committed_nothing() -> None:
    """Nobody but who takes a range flushes it: what does so in the background stands still."""
    with own_cluster() as cluster, cluster.connect() as connection:
        [writer] = [pid for pid, title in cluster.processes().items() if title.startswith("walwriter")]
        os.kill(writer, signal.SIGSTOP)
        numbers = take(connection, count=20) + take_at_once(connection, 3_000)
        processes = [Path(f"/proc/{pid}") for pid in cluster.processes()]
        os.kill(cluster.pid, signal.SIGKILL)
        os.kill(writer, signal.SIGKILL)
        cluster.await_stop()
        cluster.wait_until(lambda: not any(process.exists() for process in processes), "rid of its processes")
        cluster.start()
        assert one(cluster) > max(numbers)


def test_a_page_that_is_none(server: Cluster) -> None:
    with own_cluster() as cluster:
        take_numbers = "SELECT ticket_next('invoice') FROM generate_series(1, 10)"
        cluster.psql(take_numbers)
        path = cluster.data / cluster.psql("SELECT pg_relation_filepath('invoice')")
        cluster.stop()
        good = path.read_bytes()
        for damaged in (bytes(PAGE), good[:8000] + bytes(192)):
            path.write_bytes(damaged)
            cluster.append_conf("ignore_checksum_failure = on")
            cluster.start()
            for _ in range(2):
                error = refusal(cluster, take_numbers)
                assert error.sqlstate == DAMAGED, error
            assert refusal(cluster, "SELECT nextval('invoice')")
            cluster.stop()
        path.write_bytes(good)
        cluster.start()
        assert one(cluster) > 10


def hold_the_log(standby: Cluster) -> list[int]:
    """Lets what receives the log stand still, so that it acknowledges nothing."""
    receivers = [pid for pid, title in standby.processes().items() if title.startswith("walreceiver")]
    for pid in receivers:
        os.kill(pid, signal.SIGSTOP)
    return receivers


@pytest.mark.long
def test_a_failover_to_a_synchronous_standby_repeats_nothing() -> None:
    """Numbers that a session saw without a commit are not given again by the standby, which had to have their range."""
    with own_cluster() as primary, Cluster("standby", standby_of=primary) as standby:
        primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.reload()
        primary.poll_until("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        with primary.connect() as connection, Caller(primary) as caller:
            connection.execute("SET synchronous_commit = on")
            numbers = take(connection, count=50)
            receivers = hold_the_log(standby)
            assert receivers
            # With what is held a session goes on; then it waits for the standby.
            call = caller.begin("SELECT max(ticket_next('invoice')) FROM generate_series(1, 100000)")
            primary.poll_until(f"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = {caller.pid}")
            # One that does not wait for standbys goes on, and its range is not taken by one that does.
            hasty = primary.connect()
            hasty.execute("SET synchronous_commit = local")
            take_at_once(hasty, 10_000)
            # One that begins to wait within what it has taken at once does so.
            hasty.execute("BEGIN")
            take_at_once(hasty, 1_000)
            hasty.execute("SET LOCAL synchronous_commit = on; SET LOCAL statement_timeout = '1s'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                take(hasty)
            hasty.close()
            assert primary.psql(f"SELECT pg_cancel_backend({caller.pid})") == "t"
            refused = error_of(call)
            assert refused.sqlstate == CANCELED
            assert "synchronous" in (refused.diag.message_primary or "")
            caller.begin("SELECT ticket_next('invoice')")
            primary.poll_until(f"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = {caller.pid}")
            primary.stop("immediate")
        standby.stop("immediate")
        standby.start()
        standby.promote()
        standby.psql("ALTER SYSTEM SET synchronous_standby_names = ''")
        standby.reload()
        standby.poll_until("SHOW synchronous_standby_names", expected="")
        assert one(standby) > max(numbers)


def test_who_waits_for_standbys_goes_on_when_none_is_needed_any_more() -> None:
    with own_cluster() as primary, Cluster("standby", standby_of=primary) as standby:
        primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.reload()
        primary.poll_until("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        with Caller(primary) as caller:
            assert hold_the_log(standby)
            call = caller.begin("SELECT max(ticket_next('invoice')) FROM generate_series(1, 100000)")
            primary.poll_until(f"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = {caller.pid}")
            primary.psql("ALTER SYSTEM SET synchronous_standby_names = ''")
            primary.reload()
            assert answer_of(call) == 100_000
        standby.stop("immediate")


def test_a_standby_takes_no_numbers() -> None:
    with own_cluster() as primary, Cluster("standby", standby_of=primary) as standby:
        primary.wait_for_catchup(standby)
        error = refusal(standby, "SELECT ticket_next('invoice')")
        assert error.sqlstate == READ_ONLY
        numbers = [one(primary) for _ in range(5)]
        primary.psql("CREATE TABLE bill (number bigint DEFAULT ticket_next('invoice'))")
        primary.wait_for_catchup(standby)
        check = "SELECT status, found FROM id_gen_check() WHERE name = 'tickets'"
        assert standby.psql(check) == "ok|1 sequence with tickets; all have enough numbers left"
        primary.stop()
        standby.promote()
        assert one(standby) > max(numbers)


@pytest.mark.parametrize("mode", ["smart", "fast"])
def test_a_clean_restart_leaves_no_gap(mode: str) -> None:
    with own_cluster() as cluster:
        last = 0
        for count in (1, 100, 3_000):
            with cluster.connect() as connection:
                numbers = take(connection, count=5) + take_at_once(connection, count)
            assert numbers == list(range(last + 1, last + 1 + len(numbers)))
            last = numbers[-1]
            for _ in range(2):  # the second time nobody has asked for a number in between
                cluster.restart(mode)
        assert one(cluster) == last + 1
        cluster.kill9()
        cluster.start()
        assert one(cluster) > last + 1


def test_a_page_that_cannot_be_read_leaves_the_session_as_it_was() -> None:
    with own_cluster(taken=100) as cluster:
        path = cluster.data / cluster.psql("SELECT pg_relation_filepath('invoice')")
        cluster.stop()
        path.write_bytes(b"\xff" * 24 + path.read_bytes()[24:])
        cluster.start()
        with cluster.connect() as connection:
            for _ in range(2):
                with pytest.raises(psycopg.Error, match="invalid page"):
                    take(connection)
            connection.execute("SET statement_timeout = 100")
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute("SELECT pg_sleep(60)")


def terminate_keeper(cluster: Cluster) -> bool:
    keeper = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'id_gen keeper'"
    pid = cluster.psql(keeper)
    cluster.psql(f"SELECT pg_terminate_backend({pid})")
    cluster.wait_until(lambda: cluster.psql(keeper) != pid, "rid of it")
    return True


def test_no_number_comes_twice_over_restarts_under_load() -> None:
    with own_cluster(f"{CONF}restart_after_crash = on\n") as cluster:
        stop = threading.Event()

        def client(number: int) -> list[int]:
            taken: list[int] = []
            while not stop.is_set():
                with suppress(psycopg.Error), cluster.connect() as connection:
                    while not stop.is_set():
                        taken += take(connection, count=3)
                        taken += take_at_once(connection, 1 + number * 7 % 50)
            return taken

        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(client, number) for number in range(CLIENTS)]
            seen = 0
            for end in ("fast", "fast", "immediate", "keeper", "fast"):
                cluster.poll_until(f"SELECT last_value > {seen} + 5000 FROM invoice")
                if end == "keeper":
                    terminate_keeper(cluster)
                else:
                    cluster.restart(end)
                seen = int(cluster.psql("SELECT last_value FROM invoice"))
            stop.set()
            assert_distinct([number for each in clients for number in each.result()])


def test_a_clone_of_a_running_server() -> None:
    """It has the sequence as it was taken ahead, and nothing of what is held in memory."""
    with own_cluster() as cluster:
        numbers = [one(cluster) for _ in range(40)]
        with Cluster("clone", clone_of=cluster) as clone:
            assert one(clone) > max(numbers)


@pytest.mark.skipif(not PRELOADED, reason="is about the first process that attaches")
def test_two_crowds_take_from_one_server(cluster: Cluster) -> None:
    cluster.psql("CREATE TABLE stored (id bigint PRIMARY KEY DEFAULT ticket_next('invoice'), n int)")

    def client(_: int) -> None:
        with cluster.connect() as connection:
            for _ in range(50):
                connection.execute("INSERT INTO stored (n) SELECT generate_series(1, 20)")
                connection.execute("INSERT INTO stored (n) VALUES (0)")

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    assert cluster.psql("SELECT count(*) FROM stored") == str(CLIENTS * 50 * 21)
    cluster.psql("DROP TABLE stored")


def test_what_a_server_holds_is_shown(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        take_at_once(connection, 1_000)
        row = connection.execute(
            "SELECT datname, schemaname, sequencename, next_value, issued, increment_by, max_value, refused,"
            " prefetched > 0, ranges > 1, dropped FROM id_gen_stat_tickets WHERE relid = 'invoice'::regclass"
        ).fetchall()
        assert row == [("postgres", "public", "invoice", 1_001, 1_000, 1, 2**63 - 1, 0, True, True, 0)]
        connection.execute("SELECT setval('invoice', 2000)")
        take(connection)
        dropped = "SELECT next_value, dropped > 0 FROM id_gen_stat_tickets WHERE relid = 'invoice'::regclass"
        assert connection.execute(dropped).fetchone() == (2_002, True)
        connection.execute("ALTER SEQUENCE invoice MAXVALUE 1000000 RESTART WITH 1000000")
        take(connection)
        with pytest.raises(psycopg.Error):
            take(connection)
        assert cluster.psql("SELECT refused FROM id_gen_stat_tickets WHERE relid = 'invoice'::regclass") == "1"


def test_what_was_dropped_is_not_shown(cluster: Cluster) -> None:
    shown = "SELECT count(*) FROM id_gen_stat_tickets WHERE sequencename = 'gone'"
    cluster.psql("CREATE SEQUENCE gone; CREATE DATABASE other")
    cluster.psql("CREATE EXTENSION id_gen; CREATE SEQUENCE gone", "other")
    for dbname, drop in (("postgres", "DROP SEQUENCE gone"), ("other", "DROP DATABASE other")):
        one(cluster, "gone", dbname)
        assert cluster.psql(shown) == "1"
        cluster.psql(drop)
        assert cluster.psql(shown) == "0"


def test_the_pages_way_from_an_identity_and_back_skips_no_number() -> None:
    """Nobody has inserted before it, or somebody has; the way back comes after a clean restart, as the page says."""
    page = Page(Path(__file__).parents[2] / "docs/tickets.md")
    _, there, back = page.blocks("sql", "From a sequence, and back")
    create, there = there.split("\n", 1)
    insert = "INSERT INTO parcel DEFAULT VALUES RETURNING id"
    for before in (0, 2):
        with own_cluster() as cluster:
            cluster.psql(create)
            ids = [cluster.psql(insert) for _ in range(before)]
            cluster.psql(there)
            ids += [cluster.psql(insert) for _ in range(2)]
            cluster.restart()
            cluster.psql(back)
            ids += [cluster.psql(insert) for _ in range(2)]
            assert ids == [str(each) for each in range(1, before + 5)]
            assert cluster.psql("TRUNCATE parcel RESTART IDENTITY; " + insert) == "1"
