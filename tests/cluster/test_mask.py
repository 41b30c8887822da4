"""Masked IDs: what they are under a file of keys, what becomes of them when it changes, and that no key is shown."""

import os
import random
import re
import shutil
import stat
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from harness import GENERATING, PRELOADED, Cluster, SqlError
from harness.catalog import CREATE_ALL
from harness.ids import Caller, error_of, refusal
from harness.masks import FIRST_KEYS, KEY_FILE, MASKING, lines, write_key_file
from harness.page import FENCED, Page

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "masks.md"

UNSET = "55000"
NO_FILE = "58P01"
NOT_ALLOWED = "42501"
BAD_FILE = "F0000"
NO_SUCH_KEY = "22023"
NO_MASKED_ID = "22P02"

SECOND_KEY = "F0E0D0C0B0A090807060504030201000f1e1d1c1b1a191817161514131211101"
BOTH_KEYS = FIRST_KEYS | {2: SECOND_KEY}

EXTREMES = (0, 1, -1, 2**63 - 1, -(2**63), 175928847299117063)
EXTREME_UUIDS = (uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=2**128 - 1))
RANDOM_VALUES = 1_000
MUTATED_TEXTS = 10_000
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

MASK = "SELECT id_mask(1, 'orders')"
TEXT = "SELECT id_mask_text(1, 'orders')"
# Made with another implementation of FF1, from the first key.
KNOWN = -5455972975114960709


@pytest.fixture
def server() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING + MASKING) as cluster:
        write_key_file(cluster)
        cluster.psql(CREATE_ALL)
        yield cluster


def change_file(server: Cluster, path: str) -> None:
    """Names another file of keys; a session knows the setting once it has loaded the library."""
    server.psql(f"LOAD 'id_gen_mask'; ALTER SYSTEM SET id_gen_mask.key_file = '{path}'")
    server.reload()


def test_every_value_comes_back(server: Cluster) -> None:
    values = random.Random(1)
    ids = [*EXTREMES, *(values.randrange(-(2**63), 2**63) for _ in range(RANDOM_VALUES))]
    uuids = [*EXTREME_UUIDS, *(uuid.UUID(int=values.getrandbits(128)) for _ in range(RANDOM_VALUES))]
    with server.connect() as connection:
        for table, type_name, given in (("ids", "bigint", ids), ("uuids", "uuid", uuids)):
            connection.execute(f"CREATE TABLE {table} (id {type_name})")
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for each in given:
                    copy.write_row((each,))
        assert (
            connection.execute(
                """
            SELECT bool_and(id_unmask(id_mask(id, 'a'), 'a') = id),
                   bool_and(id_mask(id_unmask(id, 'a'), 'a') = id),
                   bool_and(id_mask(id, 'a', 1) = id_mask(id, 'a')),
                   bool_and(id_unmask_text_bigint(id_mask_text(id, 'a'), 'a') = id),
                   bool_and(id_mask_text(id, 'a') = '1_' || id_encode(id_mask(id, 'a'), 'base58')),
                   count(DISTINCT id_mask(id, 'a')) = count(DISTINCT id),
                   count(*) FILTER (WHERE id_mask(id, 'a') IN (id_mask(id, 'b'), id)) = 0
              FROM ids
            """
            ).fetchone()
            == (True,) * 7
        )
        assert (
            connection.execute(
                """
            SELECT bool_and(id_unmask(id_mask(id, 'a'), 'a') = id),
                   bool_and(id_mask(id_unmask(id, 'a'), 'a') = id),
                   bool_and(id_unmask(id_mask(id, 'a', 1), 'a', 1) = id),
                   bool_and(id_unmask_text_uuid(id_mask_text(id, 'a'), 'a') = id),
                   bool_and(id_mask_text(id, 'a') = '1_' || id_encode(id_mask(id, 'a'), 'base58')),
                   count(DISTINCT id_mask(id, 'a')) = count(DISTINCT id),
                   count(*) FILTER (WHERE id_mask(id, 'a') IN (id_mask(id, 'b'), id)) = 0
              FROM uuids
            """
            ).fetchone()
            == (True,) * 7
        )
        assert connection.execute("SELECT id_unmask(id_mask(7, 'a'), 'b') = 7").fetchone() == (False,)


def test_a_domain_that_is_not_stored_as_it_is(server: Cluster) -> None:
    """Its bytes count, also where PostgreSQL has them compressed or in another place."""
    server.psql("CREATE TABLE names (name text); INSERT INTO names VALUES (repeat('x', 255)), (repeat('x', 2600))")
    server.psql("ALTER TABLE names ALTER name SET STORAGE EXTERNAL; INSERT INTO names VALUES (repeat('y', 2600))")
    assert server.psql(f"SELECT id_mask(1, name) = id_mask(1, '{'x' * 255}') FROM names LIMIT 1") == "t"
    for letter in "xy":
        error = refusal(
            server, f"SELECT id_mask(1, name) FROM names WHERE name ~ '^{letter}{{2}}' AND length(name) > 255"
        )
        assert (error.sqlstate, error.detail) == (NO_SUCH_KEY, "The domain has 2600 bytes; it must have 1 to 255.")


def test_it_stays_over_sessions_and_restarts_and_on_standbys(server: Cluster) -> None:
    assert int(server.psql(MASK)) == KNOWN
    server.restart()
    assert int(server.psql(MASK)) == KNOWN
    with Cluster("standby", standby_of=server) as standby:
        # The file was in the data directory, so it came with the copy.
        assert int(standby.psql(MASK)) == KNOWN
        assert standby.psql(f"SELECT id_unmask_text_bigint('{server.psql(TEXT)}', 'orders')") == "1"
        (standby.data / KEY_FILE).unlink()
        assert refusal(standby, MASK).sqlstate == NO_FILE


@pytest.fixture(scope="module")
def without_id_gen() -> Iterator[Cluster]:
    """A server that preloads nothing, with a role that may mask, in a schema that nobody has in the path."""
    with Cluster("masks_only", conf=MASKING) as cluster:
        write_key_file(cluster)
        cluster.psql(
            'CREATE SCHEMA "Of masks"; CREATE EXTENSION id_gen_mask SCHEMA "Of masks"; CREATE ROLE ordinary LOGIN'
        )
        cluster.psql('GRANT USAGE ON SCHEMA "Of masks" TO PUBLIC')
        cluster.psql('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "Of masks" TO ordinary')
        yield cluster


MASK_WITH_SCHEMA = MASK.replace("id_mask", '"Of masks".id_mask')


def test_it_needs_neither_id_gen_nor_a_preload(without_id_gen: Cluster) -> None:
    assert int(without_id_gen.psql(MASK_WITH_SCHEMA)) == KNOWN
    assert without_id_gen.psql("SELECT extname FROM pg_extension WHERE extname ~ '^id_gen'") == "id_gen_mask"
    with without_id_gen.connect(user="ordinary") as connection:
        assert connection.execute(MASK_WITH_SCHEMA).fetchone() == (KNOWN,)
        maps = Path(f"/proc/{connection.info.backend_pid}/maps").read_text()
    assert "/id_gen_mask.so" in maps and "/id_gen.so" not in maps


def test_a_preload_hides_the_path() -> None:
    """Until a session has loaded the library, the path is a setting like others."""
    with Cluster(conf=MASKING) as cluster:
        write_key_file(cluster)
        cluster.psql("CREATE EXTENSION id_gen_mask; CREATE ROLE ordinary LOGIN")
        shown = "SET ROLE ordinary; SHOW id_gen_mask.key_file"
        assert cluster.psql(shown) == KEY_FILE
        assert refusal(cluster, f"LOAD 'id_gen_mask'; {shown}").sqlstate == NOT_ALLOWED
        cluster.append_conf("shared_preload_libraries = 'id_gen_mask'")
        cluster.restart()
        assert refusal(cluster, shown).sqlstate == NOT_ALLOWED
        assert int(cluster.psql(MASK)) == KNOWN


def test_a_session_s_own_setting_is_void(without_id_gen: Cluster) -> None:
    """A name that belongs to no loaded library can be set by anyone."""
    with without_id_gen.connect(user="ordinary") as connection:
        connection.execute("SET id_gen_mask.key_file = '/tmp/own.keys'")
        assert connection.execute(MASK_WITH_SCHEMA).fetchone() == (KNOWN,)


@pytest.mark.parametrize(
    ("statement", "options"),
    [
        ("ALTER ROLE ordinary {} id_gen_mask.key_file{}", {}),
        ("ALTER DATABASE postgres {} id_gen_mask.key_file{}", {}),
        ("", {"options": "-c id_gen_mask.key_file=own.keys"}),
    ],
    ids=["role", "database", "connection"],
)
def test_a_setting_that_replaced_the_files_is_not_followed(
    without_id_gen: Cluster, statement: str, options: dict[str, str]
) -> None:
    """PostgreSQL has then discarded both: nobody masks with keys of their own choice, nor with none."""
    without_id_gen.psql(statement.format("SET", " = 'own.keys'"))
    try:
        with without_id_gen.connect(user="ordinary", **options) as connection:
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(MASK_WITH_SCHEMA)
            assert refused.value.sqlstate == UNSET
            assert (
                refused.value.diag.message_primary == 'parameter "id_gen_mask.key_file" is overridden in this session'
            )
            assert "before id_gen_mask was loaded" in (refused.value.diag.message_detail or "")
            without_id_gen.reload()
            without_id_gen.wait_until(
                lambda: sqlstate_of(connection, MASK_WITH_SCHEMA) is None, "masking after a reload"
            )
    finally:
        without_id_gen.psql(statement.format("RESET", ""))


def test_a_parallel_operation_loads_the_library(without_id_gen: Cluster) -> None:
    """PostgreSQL sets no parameter then, so the next statement is the first that knows the file."""
    without_id_gen.psql(
        "CREATE TABLE item AS SELECT n::bigint AS id FROM generate_series(1, 10000) n; GRANT SELECT ON item TO ordinary"
    )
    without_id_gen.psql(
        """
        CREATE FUNCTION shown(bigint) RETURNS bigint LANGUAGE plpgsql PARALLEL RESTRICTED
            AS $$ BEGIN RETURN "Of masks".id_mask($1, 'orders'); END $$
        """
    )
    with without_id_gen.connect(user="ordinary") as connection:
        for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            connection.execute(f"SET {name} = 0")
        query = "SELECT shown(min(id)) FROM item"
        plan = connection.execute(f"EXPLAIN {query}").fetchall()
        assert any("Gather" in line for (line,) in plan), plan
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(query)
        assert refused.value.sqlstate == UNSET
        assert (
            refused.value.diag.message_primary == "settings of id_gen_mask are unknown during this parallel operation"
        )
        assert connection.execute(query).fetchone() == (KNOWN,)


def versions(connection: psycopg.Connection) -> list[tuple[int, bool]]:
    return connection.execute("SELECT * FROM id_mask_keys()").fetchall()


def await_keys(server: Cluster, connection: psycopg.Connection, expected: list[tuple[int, bool]]) -> None:
    server.wait_until(lambda: versions(connection) == expected, f"masking with {expected}")


def test_another_key(server: Cluster) -> None:
    first = server.psql(TEXT)
    assert first.startswith("1_")
    with server.connect() as connection:
        assert versions(connection) == [(1, True)]
        write_key_file(server, f"# the newest first\n\n2\t{SECOND_KEY}  # 2026\r\n{lines(FIRST_KEYS)}")
        # A session that has its keys keeps them until the reload.
        assert connection.execute(TEXT).fetchone() == (first,)
        server.reload()
        await_keys(server, connection, [(2, True), (1, False)])
        (second,) = connection.execute(TEXT).fetchone()
        assert second.startswith("2_")
        assert second[2:] != first[2:]
        for text in (first, second):
            assert connection.execute("SELECT id_unmask_text_bigint(%s, 'orders')", (text,)).fetchone() == (1,)
        assert connection.execute("SELECT id_mask(1, 'orders', 1)").fetchone() == (KNOWN,)
        assert connection.execute(f"SELECT id_unmask({KNOWN}, 'orders', 1)").fetchone() == (1,)
        assert connection.execute(f"SELECT id_unmask({KNOWN}, 'orders') = 1").fetchone() == (False,)
        # Without the first key, nothing of it is read.
        write_key_file(server, lines({2: SECOND_KEY}))
        server.reload()
        await_keys(server, connection, [(2, True)])
    for statement in (f"SELECT id_unmask_text_bigint('{first}', 'orders')", "SELECT id_mask(1, 'orders', 1)"):
        error = refusal(server, statement)
        assert (error.sqlstate, error.message) == (NO_SUCH_KEY, "mask key version 1 does not exist")
        assert "id_mask_keys()" in (error.hint or "")


def clear(path: Path) -> None:
    """Removes what is in the place of the keys."""
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()


def write_again(server: Cluster, content: str = lines(FIRST_KEYS)) -> None:
    """A file of keys in the place of whatever is there."""
    if (path := server.data / KEY_FILE).is_dir():
        path.rmdir()
    write_key_file(server, content)


def bad_files(server: Cluster) -> Iterator[tuple[str, str, str | None]]:
    """Puts files in the place of the keys that can't be used: the SQLSTATE, and what the error tells."""
    path = server.data / KEY_FILE
    own = server.data.stat().st_uid
    key = FIRST_KEYS[1]

    clear(path)
    yield (
        NO_FILE,
        "could not read the file in id_gen_mask.key_file: No such file or directory",
        "IDs cannot be masked or unmasked without its keys.",
    )
    write_key_file(server)
    for mode in (0o644, 0o640, 0o604, 0o610, 0o602):
        write_key_file(server, mode=mode)
        yield BAD_FILE, "has group or world access", f"Its mode is {mode:04o} and its owner is user ID {own}."
    clear(path)
    path.mkdir(mode=0o700)
    shutil.chown(path, own)
    yield BAD_FILE, "the path in id_gen_mask.key_file is not a regular file", None
    clear(path)
    contents: list[tuple[str | bytes, str]] = [
        ("", "The file has no keys."),
        ("# nothing\n\n", "The file has no keys."),
        (f"1 {key[1:]}", "The key in line 1 has 63 characters; it must have 64."),
        (f"\n1 {key}0", "The key in line 2 has 65 characters; it must have 64."),
        (f"1 {key[:-1]}g", "The key in line 1 is not hexadecimal."),
        (f"1 {key}\n2 {SECOND_KEY}\n1 {SECOND_KEY}", "Line 3 has the same version as line 1."),
        (f"0 {key}", "Line 1 must begin with a version from 1 to 32767."),
        (f"32768 {key}", "Line 1 must begin with a version from 1 to 32767."),
        (f"{key} 1", "Line 1 must begin with a version from 1 to 32767."),
        (key, "Line 1 must be a version, a space and a key."),
        (f"1 {key} {SECOND_KEY}", "Line 1 must be a version, a space and a key."),
        (f"1 {key}\n" + "#" * 100_000, "The file has more than 65536 bytes."),
        (random.Random(2).randbytes(4096), "Line 1 "),
        (bytes.fromhex(key), "Line 1 must be a version, a space and a key."),
    ]
    for content, detail in contents:
        write_key_file(server, content)
        yield BAD_FILE, "is invalid", detail


def sqlstate_of(connection: psycopg.Connection, statement: str = MASK) -> str | None:
    """What a session answers that is to mask: nothing, or an SQLSTATE."""
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def test_files_that_cannot_be_used(server: Cluster) -> None:
    with server.connect() as connection:
        connection.execute("SET statement_timeout = '10s'")
        assert connection.execute(MASK).fetchone() == (KNOWN,)
        for sqlstate, message, detail in bad_files(server):
            error = refusal(server, MASK)
            assert error.sqlstate == sqlstate
            assert message in (error.message or "")
            assert detail is None or (error.detail or "").startswith(detail), error
            # Of that version is the key of masks that exist, perhaps.
            assert error.hint and 'echo "1 ' not in error.hint
            # A session with keys refuses as well once it is told to reload, and gives the same reason.
            server.reload()

            server.wait_until(lambda expected=sqlstate: sqlstate_of(connection) == expected, "refusing")
            write_again(server)
            # The next call reads it again, without a reload.
            assert connection.execute(MASK).fetchone() == (KNOWN,)


def test_a_pipe_that_nobody_writes_to_holds_up_no_session(server: Cluster) -> None:
    path = server.data / KEY_FILE
    own = path.stat().st_uid
    clear(path)
    os.mkfifo(path, 0o600)
    shutil.chown(path, own)
    with Caller(server) as caller:
        call = caller.begin(MASK)
        try:
            error = error_of(call)
            assert error.sqlstate == BAD_FILE
            assert error.diag.message_primary == "the path in id_gen_mask.key_file is not a regular file"
        finally:
            # Lets go a session that waits for a writer.
            with suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def test_whose_the_file_may_be(server: Cluster) -> None:
    path = server.data / KEY_FILE
    own = path.stat().st_uid
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    shutil.chown(path, "nobody")
    error = refusal(server, MASK)
    # The server's user may not even open it; with a file that it may open, it says why that is not enough.
    assert (error.sqlstate, "Permission denied" in (error.message or "")) == (NOT_ALLOWED, True)
    path.chmod(0o640)
    error = refusal(server, MASK)
    assert error.sqlstate == BAD_FILE
    assert "must be owned by the database user or root" in (error.message or "")
    assert (error.detail or "").endswith(f"and the server runs as user ID {own}.")
    group = server.data.stat().st_gid
    os.chown(path, 0, group)
    path.chmod(0o640)
    assert int(server.psql(MASK)) == KNOWN
    path.chmod(0o660)
    assert "Its mode is 0660 and its owner is user ID 0." in (refusal(server, MASK).detail or "")
    # A link is followed, as for PostgreSQL's own keys.
    write_key_file(server)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    assert int(server.psql(MASK)) == KNOWN


def test_no_file_is_named(server: Cluster) -> None:
    with server.connect() as connection:
        assert connection.execute(MASK).fetchone() == (KNOWN,)
        change_file(server, "")
        server.poll_until("SELECT setting = '' FROM pg_file_settings WHERE name = 'id_gen_mask.key_file' AND applied")
        error = refusal(server, MASK)
        assert (error.sqlstate, error.message) == (UNSET, "id_gen_mask.key_file is not set")
        # Following the hint, as the user that it names.
        make = re.search(
            r"as the user that runs PostgreSQL: (.*?) In SQL, as a superuser: (LOAD .*)$", error.hint or ""
        )
        assert make
        directory = server.base / "elsewhere"
        directory.mkdir()
        subprocess.run(["chown", "--reference", server.data, directory], check=True)
        command, statement = (text.replace("/etc/postgresql", str(directory)) for text in make.groups())
        subprocess.run(["bash", "-c", command], check=True, **server.server.as_owner)
        keys = directory / "mask.keys"
        assert stat.S_IMODE(keys.stat().st_mode) == 0o600
        # Typed again, as where only the setting was lost, it takes no key away.
        first = keys.read_text()
        assert subprocess.run(["bash", "-c", command], check=False, **server.server.as_owner).returncode
        assert keys.read_text() == first
        server.psql(statement)
        server.poll_until("SELECT id_unmask(id_mask(1, 'orders'), 'orders') = 1")
        server.wait_until(lambda: connection.execute(MASK).fetchone() != (KNOWN,), "masking with the new key")


def test_the_error_names_the_schema_where_it_is_needed(server: Cluster) -> None:
    server.psql("DROP EXTENSION id_gen_mask; CREATE SCHEMA app; CREATE EXTENSION id_gen_mask SCHEMA app")
    error = refusal(server, "SELECT app.id_mask(1, 'orders', 9)")
    assert "SELECT * FROM app.id_mask_keys();" in (error.hint or "")


def mutated(texts: list[str]) -> Iterator[str]:
    """Texts with a character changed, left out, put in or exchanged with another."""
    chance = random.Random(3)
    letters = ALPHABET + "0OIl_-+ 1234567890\t\né\u202e'"
    for _ in range(MUTATED_TEXTS):
        text = list(chance.choice(texts))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            at = chance.randrange(len(text) + 1)
            end = min(len(text), at + chance.choice((0, 1, 1, 1, 2)))
            text[at:end] = chance.choices(letters, k=chance.choice((0, 1, 1, 1, 2)))
        yield "".join(text)


def test_mutated_texts_are_refused_or_are_texts_of_their_own(server: Cluster) -> None:
    write_key_file(server, lines(BOTH_KEYS | {12: FIRST_KEYS[1]}))
    attempt = """
        CREATE FUNCTION attempt(given text, OUT refused text, OUT again text) LANGUAGE plpgsql AS $$
        BEGIN
            {assignment}
        EXCEPTION WHEN OTHERS THEN
            refused := SQLSTATE;
        END $$
    """
    for type_name in ("bigint", "uuid"):
        server.psql(
            attempt.format(
                assignment=f"""again := split_part(given, '_', 1) || '_' || id_encode(id_mask(
                    id_unmask_text_{type_name}(given, 'a'), 'a', split_part(given, '_', 1)::integer), 'base58');"""
            )
        )
        value = "i::bigint" if type_name == "bigint" else "md5(i::text)::uuid"
        texts = server.psql(f"SELECT id_mask_text({value}, 'a') FROM generate_series(1, 100) i").splitlines()
        texts += [text.replace("12_", f"{version}_") for text in texts for version in (1, 2)]
        refused, read = 0, 0
        with server.connect() as connection:
            given = list(mutated(texts))
            rows = connection.execute("SELECT t, a.* FROM unnest(%s::text[]) t, attempt(t) a", (given,)).fetchall()
        for text, sqlstate, again in rows:
            assert (sqlstate is None) == (again == text), (text, sqlstate, again)
            assert sqlstate in (None, NO_MASKED_ID, NO_SUCH_KEY)
            refused, read = refused + (sqlstate is not None), read + (sqlstate is None)
        assert len(rows) == MUTATED_TEXTS
        assert refused > MUTATED_TEXTS // 3
        assert read > MUTATED_TEXTS // 20
        server.psql("DROP FUNCTION attempt")


def test_what_roles_may_do(server: Cluster) -> None:
    server.psql("CREATE ROLE ordinary LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
    with server.connect(user="ordinary") as connection:
        # Until a superuser grants it, nobody else masks or unmasks.
        masks = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname ~ '^id_(un)?mask'"
        callable_by = f"{masks} AND has_function_privilege('ordinary', oid, 'EXECUTE')"
        assert len(server.psql(masks).splitlines()) == 13
        assert server.psql(callable_by) == ""
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(MASK)
        assert refused.value.sqlstate == NOT_ALLOWED
        server.psql("GRANT EXECUTE ON FUNCTION id_mask(bigint, text) TO ordinary")
        assert connection.execute(MASK).fetchone() == (KNOWN,)
        for statement in (
            "SHOW id_gen_mask.key_file",
            "SELECT * FROM id_mask_keys()",
            "SET id_gen_mask.key_file = 'own.keys'",
            "ALTER SYSTEM SET id_gen_mask.key_file = 'own.keys'",
            "ALTER ROLE ordinary SET id_gen_mask.key_file = 'own.keys'",
        ):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(statement)
            assert refused.value.sqlstate in (NOT_ALLOWED, "55P02"), statement
        assert connection.execute("SELECT * FROM pg_settings WHERE name = 'id_gen_mask.key_file'").fetchall() == []
        (server.data / KEY_FILE).unlink()
    # The path is no ordinary role's business, so no error has it.
    with server.connect(user="ordinary") as connection:
        change_file(server, "/nowhere/at/all.keys")
        server.poll_until("SHOW id_gen_mask.key_file", expected="/nowhere/at/all.keys")
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(MASK)
        assert refused.value.sqlstate == NO_FILE
        assert "nowhere" not in str(refused.value)
    write_key_file(server)
    change_file(server, KEY_FILE)
    with server.connect(user="watcher") as connection:
        server.wait_until(lambda: connection.execute("SHOW id_gen_mask.key_file").fetchone() == (KEY_FILE,), "reloaded")
        assert versions(connection) == [(1, True)]


def test_an_id_is_found_by_its_primary_key(server: Cluster) -> None:
    server.psql("CREATE TABLE orders (id bigint PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 10000)")
    server.psql("CREATE TABLE accounts (id uuid PRIMARY KEY); VACUUM ANALYZE")
    assert server.psql("SELECT id FROM orders WHERE id = id_unmask(id_mask(77, 'orders'), 'orders')") == "77"
    for statement in (
        "PREPARE found(bigint) AS SELECT * FROM orders WHERE id = id_unmask($1, 'orders');"
        "SET plan_cache_mode = force_generic_plan; EXPLAIN EXECUTE found(1)",
        "EXPLAIN SELECT * FROM orders WHERE id = id_unmask(1, 'orders')",
        "EXPLAIN SELECT * FROM orders WHERE id = id_unmask_text_bigint('1_11111111111', 'orders')",
        "SET enable_seqscan = off; EXPLAIN SELECT * FROM accounts WHERE id = id_unmask(repeat('f', 32)::uuid, 'a')",
    ):
        plan = server.psql(statement)
        assert re.search(r"Index (Only )?Scan using \w+_pkey .*\n +Index Cond: \(id = ", plan), plan


def needles(keys: dict[int, str]) -> list[bytes]:
    """Keys in hexadecimal, also part of one, and as they are."""
    halves = [key[at : at + 32] for key in keys.values() for at in (0, 32)]
    return [*(half.lower().encode() for half in halves), *(bytes.fromhex(half) for half in halves)]


def holds_a_key(content: bytes, keys: dict[int, str]) -> bool:
    # Raw bytes are looked for as they are, hexadecimal digits in either case.
    return any(needle in content or needle in content.lower() for needle in needles(keys))


CONF = """
log_min_messages = debug5
log_min_error_statement = debug5
log_statement = all
log_error_verbosity = verbose
log_duration = on
debug_print_parse = on
debug_print_plan = on
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
auto_explain.log_verbose = on
"""


def test_nothing_shows_a_key(server: Cluster) -> None:
    """Neither log nor views, plans, errors, dumps or files, whatever is asked."""
    # Not every server comes with PostgreSQL's own extensions.
    views = ["pg_stat_activity", "pg_settings", "pg_file_settings", "pg_backend_memory_contexts"]
    there = {path.stem for path in server.server.directory("pkglibdir").glob("*.so")}
    libraries = [*["id_gen"] * PRELOADED, *sorted({"pg_stat_statements", "auto_explain"} & there)]
    server.append_conf(f"{CONF}\nshared_preload_libraries = '{','.join(libraries)}'\npg_stat_statements.track = all")
    server.restart()
    if "pg_stat_statements" in libraries:
        server.psql("CREATE EXTENSION pg_stat_statements")
        views.append("pg_stat_statements")
    server.psql("CREATE TABLE orders (id bigint PRIMARY KEY)")
    server.psql("INSERT INTO orders SELECT generate_series(1, 100)")
    seen: list[str] = []
    for keys in (FIRST_KEYS, BOTH_KEYS):
        write_key_file(server, lines(keys))
        server.reload()
        seen += [
            server.psql("SELECT id_mask(id, 'a'), id_mask_text(id, 'a') FROM orders"),
            server.psql("EXPLAIN (ANALYZE, VERBOSE, SETTINGS) SELECT id_mask(gen_random_uuid(), 'a', 1) FROM orders"),
            server.psql("SELECT * FROM id_mask_keys()"),
        ]
    for _ in bad_files(server):
        seen.append(str(refusal(server, MASK)))
        write_again(server, lines(BOTH_KEYS))
    for statement in ("SELECT id_unmask_text_bigint('3_11111111111', 'a')", "SELECT id_mask(1, '')"):
        seen.append(str(refusal(server, statement)))
    with server.connect() as connection:
        connection.execute(MASK)
        seen += [server.psql(f"SELECT row_to_json(v) FROM {view} v") for view in views]
        seen.append(server.run("pg_dumpall"))
    # What is looked for can be found: in the file itself, and in what was not said.
    file = server.data / KEY_FILE
    assert holds_a_key(file.read_bytes(), FIRST_KEYS)
    assert holds_a_key(b"..." + bytes.fromhex(SECOND_KEY), BOTH_KEYS)
    assert holds_a_key(SECOND_KEY.upper().encode(), BOTH_KEYS)
    assert "id_mask" in server.log()
    assert "row_to_json" in "".join(seen)
    for text in (server.log(), *seen):
        assert not holds_a_key(text.encode(), BOTH_KEYS), text[:500]
    server.psql("CHECKPOINT")
    server.stop()
    others = [path for path in server.data.rglob("*") if path.is_file() and path != file]
    assert len(others) > 500
    assert [path for path in [server.logfile, *others] if holds_a_key(path.read_bytes(), BOTH_KEYS)] == []


def test_the_pictures_of_masks(server: Cluster) -> None:
    pictures = [
        text
        for page in (PAGE, DOCS / "family.md")
        for text in Page(page).blocks("text")
        if "_mask" in text.splitlines()[0]
    ]
    assert len(pictures) == 2
    for picture in pictures:
        for row in picture.splitlines()[1:]:
            id_, masked, text = row.split()
            shown = server.psql(f"SELECT id_mask({id_}, 'orders'), id_mask_text({id_}, 'orders')")
            assert shown == f"{masked}|{text}"


def test_the_page_about_masks() -> None:
    """What it says to type works in its order, and its plan is the one that PostgreSQL makes."""
    text = PAGE.read_text()
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")

        def here(text: str) -> str:
            return text.replace("/etc/postgresql", str(cluster.base))

        answer = ""
        for block in FENCED.finditer(text):
            if block["language"] == "sh":
                subprocess.run(["bash", "-c", here(block["text"])], check=True, **cluster.server.as_owner)
            elif block["language"] == "sql":
                answer = cluster.psql(here(block["text"]))
                if "pg_reload_conf()" in block["text"]:
                    keys = text[: block.end()].count("openssl rand")
                    cluster.poll_until("SELECT count(*) FROM id_mask_keys()", expected=str(keys))
            elif "Index Scan" in block["text"]:
                plan = [line.strip() for line in answer.splitlines()]
                assert plan == [line.strip() for line in block["text"].splitlines()]
        # What it says of roles.
        find = "SELECT count(*) FROM api.order_of((SELECT min(id) FROM seen))"
        cluster.psql("CREATE TABLE seen AS SELECT id FROM api.orders; GRANT SELECT ON seen TO web, application")
        allowed = {
            ("application", "SELECT count(*) FROM api.orders"): "1000",
            ("application", "SELECT count(id) FROM orders"): "1000",
            ("web", find): "1",
        }
        for (role, statement), expected in allowed.items():
            assert cluster.psql(f"SET ROLE {role}; {statement}") == expected
        refused = {
            ("web", "SELECT id FROM api.orders"): "view",
            ("web", "SELECT id_unmask_text_bigint('1_11111111111', 'orders')"): "function id_unmask_text_bigint",
            ("web", "SELECT id_mask_text(1, 'orders')"): "function id_mask_text",
            ("application", find): "function order_of",
        }
        for (role, statement), what in refused.items():
            with pytest.raises(SqlError, match=f"permission denied for {what}"):
                cluster.psql(f"SET ROLE {role}; {statement}")
        cluster.psql("GRANT SELECT ON api.orders TO web")
        assert "function id_mask_text" in (refusal(cluster, "SET ROLE web; SELECT id FROM api.orders").message or "")
