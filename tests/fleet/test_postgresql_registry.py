"""A PostgreSQL server as the registry, which may be one of the fleet's servers itself."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from harness import Cluster
from harness.checks import checks
from harness.fleet import await_holding, await_number, await_trouble, create_fleet, grants, member_conf
from harness.ids import await_refusal, change, next_id, refusal
from harness.ports import LOOPBACK, free_port
from harness.shim import compiled

pytestmark = pytest.mark.long

END_SESSIONS = "pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'id_gen'"
CALLS_EXIT = Path(__file__).with_name("calls_exit.c")
FOREIGN_LIBPQ = Path(__file__).with_name("foreign_libpq.c")


def uri(*servers: Cluster, database: str = "postgres", options: str = "") -> str:
    """Where the registry is, if it is on one of these servers."""
    hosts = ",".join(quote(str(server.socket_dir), safe="") for server in servers)
    return f"postgresql://postgres@{hosts}/{database}{options}"


@pytest.fixture(scope="module")
def registry() -> Iterator[Cluster]:
    """A server without id_gen."""
    with Cluster("registry", conf="max_prepared_transactions = 2") as cluster:
        cluster.psql("CREATE SCHEMA ids")
        yield cluster


def test_servers_get_numbers_and_only_the_registry_has_the_table(registry: Cluster) -> None:
    conf = member_conf(uri(registry, options="?options=-csearch_path%3Dids"))
    with Cluster("first", conf=conf) as first, Cluster("second", conf=conf) as second:
        create_fleet(first)
        second.psql("CREATE EXTENSION id_gen")
        numbers = {await_number(first), await_number(second)}
        assert grants(second) == dict.fromkeys(numbers, "held")
        tables = "SELECT relnamespace::regnamespace FROM pg_class WHERE relname = 'id_gen_registry'"
        assert registry.psql(tables) == "ids"
        assert first.psql(tables) == ""


def test_a_copy_of_the_table_numbers_nobody_before_it_is_adopted(registry: Cluster) -> None:
    with ExitStack() as stack:
        stack.enter_context(registry.database("original"))
        first = stack.enter_context(Cluster("first", conf=member_conf(uri(registry, database="original"))))
        create_fleet(first)
        number = await_number(first)
        first.stop("immediate")
        stack.enter_context(registry.database("copied", template="original"))
        conf = member_conf(uri(registry, database="copied"), f"id_gen.worker_id_range = '{number}'")
        newcomer = stack.enter_context(Cluster("newcomer", conf=conf))
        newcomer.psql("CREATE EXTENSION id_gen")
        error = await_trouble(newcomer)
        assert error.message == "the fleet belongs to another registry"
        assert error.hint and (told := re.search(r"SELECT id_gen_fleet_report_restore\([^;]*;", error.hint))
        assert newcomer.psql(told[0])
        assert await_number(newcomer) == number


REPLACED = "the PostgreSQL server in id_gen.registry was replaced by a promoted standby"


def await_renewal(member: Cluster) -> None:
    renewals = member.psql("SELECT renewals FROM id_gen_stat_fleet")
    member.poll_until(f"SELECT renewals > {renewals} FROM id_gen_stat_fleet")


@contextmanager
def replaced_primary() -> Iterator[tuple[Cluster, Cluster, Cluster]]:
    """One that comes back on its own timeline, and that libpq finds first; its promoted standby; and the member, whose
    registrar asks the standby. No session has asked that yet."""
    with (
        Cluster("primary") as primary,
        Cluster("standby", standby_of=primary) as standby,
        Cluster("member", conf=member_conf(uri(primary, standby))) as member,
    ):
        create_fleet(member)
        await_number(member)
        primary.wait_for_catchup(standby)
        primary.stop("immediate")
        standby.promote()
        await_renewal(member)
        primary.start()
        yield primary, standby, member


def follow_report(member: Cluster, remedy: str | None) -> None:
    told = re.search(r"SELECT (\w+\.)?id_gen_fleet_report_restore\(\);", remedy or "")
    assert told, remedy
    assert member.psql(told[0])


def test_a_session_that_meets_a_replaced_primary_alone_is_refused_and_led_out() -> None:
    with replaced_primary() as (_, standby, member):
        error = refusal(member, "SELECT id_gen_fleet_release(0)")
        assert error.message == REPLACED
        await_renewal(member)
        assert member.psql("SELECT error IS NULL, acquisitions FROM id_gen_stat_fleet") == "t|1"
        follow_report(member, error.hint)
        # From here on the server asks that one, too.
        standby.stop()
        member.poll_until("SELECT error IS NULL AND acquisitions = 2 FROM id_gen_stat_fleet")
        await_number(member)


def test_a_primary_that_was_replaced_is_no_registry() -> None:
    with replaced_primary() as (primary, standby, member):
        standby.psql(f"SELECT {END_SESSIONS}")
        member.poll_until("SELECT error FROM id_gen_stat_fleet", expected=REPLACED)
        assert refusal(member, "SELECT id_gen_fleet_release(0)").message == REPLACED
        # Neither a restart nor another address in between makes it forget anything.
        member.restart("immediate")
        await_refusal(member, REPLACED)
        change(member, "registry", "etcd://127.0.0.1:1")
        member.poll_until("SELECT error FROM id_gen_stat_fleet", expected="the fleet's registry cannot be reached")
        change(member, "registry", uri(primary, standby))
        member.poll_until("SELECT error FROM id_gen_stat_fleet", expected=REPLACED)
        primary.stop()
        await_renewal(member)
        # The other way round, an administrator has decided.
        standby.stop()
        primary.start()
        member.poll_until("SELECT error FROM id_gen_stat_fleet", expected=REPLACED)
        follow_report(member, checks(member)["fleet"].remedy)
        await_number(member)
        member.poll_until("SELECT error IS NULL FROM id_gen_stat_fleet")


def test_default_privileges_do_not_open_the_table(registry: Cluster) -> None:
    with registry.database("opened"):
        registry.psql("CREATE ROLE stranger", "opened")
        registry.psql("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO stranger, PUBLIC", "opened")
        with Cluster("first", conf=member_conf(uri(registry, database="opened"))) as first:
            create_fleet(first)
            await_number(first)
        privileges = "SELECT unnest(relacl) FROM pg_class WHERE relname = 'id_gen_registry'"
        assert re.fullmatch("postgres=[^\n]*", registry.psql(privileges, "opened"))
        registry.psql("DROP OWNED BY stranger", "opened")
    registry.psql("DROP ROLE stranger")


def test_a_library_with_functions_named_like_those_of_libpq(registry: Cluster) -> None:
    library = compiled(FOREIGN_LIBPQ, f"-I{registry.server.directory('includedir-server')}")
    conf = member_conf(uri(registry, database="no_such_database"))
    # Before ours, where that is preloaded; the last line of a setting counts.
    preloaded = f"{library}, id_gen" if "shared_preload_libraries = 'id_gen'" in conf else library
    with Cluster("first", conf=f"{conf}shared_preload_libraries = '{preloaded}'\n") as member:
        member.psql("CREATE EXTENSION id_gen")
        error = str(refusal(member, "SELECT id_gen_fleet_create()"))
        assert 'database "no_such_database" does not exist' in error
        assert "another-library" not in error


def test_the_registry_is_one_of_the_servers(registry: Cluster) -> None:
    with Cluster("own") as own:
        own.append_conf(member_conf(uri(own)))
        own.restart()
        create_fleet(own)
        number = await_number(own)
        last = next_id(own)
        own.restart()
        await_holding(own)
        assert next_id(own) > last
        own.kill9()
        own.start()
        assert await_number(own) == number


def test_a_missing_table_and_a_missing_server_lead_out(registry: Cluster) -> None:
    with Cluster("early", conf=member_conf(uri(registry))) as early:
        early.psql("CREATE EXTENSION id_gen")
        error = await_trouble(early)
        assert error.sqlstate == "42P01"
        assert error.hint and "SELECT id_gen_fleet_create();" in error.hint
        change(early, "fleet_name", "a/b")
        early.poll_until("SELECT error = 'the name of the fleet is invalid' FROM id_gen_stat_fleet")
        assert refusal(early, "SELECT id_gen_fleet_create()").sqlstate == "22023"
        assert registry.psql("SELECT to_regclass('id_gen_registry') IS NULL") == "t"
        change(early, "fleet_name", "default")
        early.poll_until("SELECT error <> 'the name of the fleet is invalid' FROM id_gen_stat_fleet")
        create_fleet(early)
        await_number(early)
        change(early, "registry", "postgresql://nobody@%2Fnowhere/postgres")
        early.poll_until("SELECT error = 'the fleet''s registry cannot be reached' FROM id_gen_stat_fleet")


def test_a_registry_that_fails_over() -> None:
    with Cluster("primary") as primary, Cluster("standby", standby_of=primary) as standby:
        primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.reload()
        with Cluster("member", conf=member_conf(uri(primary, standby))) as member:
            create_fleet(member)
            number = await_number(member)
            last = next_id(member)
            primary.stop("immediate")
            standby.promote()
            member.poll_until("SELECT error IS NULL FROM id_gen_stat_fleet")
            member.poll_until("SELECT granted_until > now() FROM id_gen_status()")
            assert await_number(member) == number
            assert next_id(member) > last
            assert member.psql("SELECT restorations FROM id_gen_stat_fleet") == "0"


def test_a_registry_that_could_forget_is_a_warning() -> None:
    with (
        Cluster("primary") as primary,
        Cluster("standby", standby_of=primary),
        Cluster("member", conf=member_conf(uri(primary))) as member,
    ):
        create_fleet(member)
        await_number(member)
        row = "SELECT status || ': ' || remedy FROM id_gen_check() WHERE name = 'fleet'"
        member.poll_until(f"SELECT ({row}) LIKE 'warning: On the server of the registry, make commits wait%'")


@pytest.mark.parametrize("status", [0, 1])
def test_a_library_that_ends_a_session_which_has_asked_ends_no_other(status: int) -> None:
    with Cluster("first", conf=member_conf(f"postgresql://{LOOPBACK}:1/postgres")) as first:
        library = compiled(CALLS_EXIT, f"-I{first.server.directory('includedir-server')}")
        first.psql(f"CREATE EXTENSION id_gen; CREATE FUNCTION calls_exit(int) RETURNS int LANGUAGE c AS '{library}'")
        with first.connect() as other, first.connect() as session:
            with pytest.raises(psycopg.Error):
                session.execute("SELECT * FROM id_gen_fleet_members()")
            with pytest.raises(psycopg.OperationalError):
                session.execute("SELECT calls_exit(%s)", [status])
            ended = f"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {session.info.backend_pid}"
            first.poll_until(ended)
            other.execute("SELECT 1")


class TlsServer(Cluster):
    """A server that is reached with TLS, which sockets do not have."""

    listens_on = LOOPBACK

    def init(self) -> None:
        super().init()
        files = ["-keyout", self.data / "server.key", "-out", self.data / "server.crt"]
        request = ["openssl", "req", "-new", "-x509", "-nodes", "-subj", "/CN=registry", "-newkey", "rsa:2048"]
        subprocess.run([*request, *files], check=True, capture_output=True, **self.server.as_owner)
        self.append_conf("ssl = on")


@pytest.mark.tls
def test_sessions_that_end_while_they_ask_over_tls_crash_nothing() -> None:
    port = free_port()
    where = f"postgresql://postgres@{LOOPBACK}:{port}/postgres?sslmode=require"
    # Without certificates of the user who runs the tests.
    with TlsServer("registry", port=port), Cluster("first", conf=member_conf(where), env={"HOME": "/"}) as first:
        create_fleet(first)
        await_number(first)
        # Of 300 sessions 7 crashed, when OpenSSL's handler ran beside their thread.
        for ms in list(range(1, 26)) * 12:
            with first.connect() as session, suppress(psycopg.errors.QueryCanceled):
                session.execute(f"SET statement_timeout = {ms}")
                session.execute("SELECT * FROM id_gen_fleet_members()")
        assert "terminated by signal" not in first.log()
