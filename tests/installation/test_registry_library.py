"""The library that asks registries lies beside the extension's, and only what asks one loads it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Cluster, Server
from harness.etcd import Etcd
from harness.fleet import await_number, create_fleet, member_conf
from harness.ids import refusal

pytestmark = pytest.mark.any_server

CANNOT_BE_LOADED = "the library id_gen_registry cannot be loaded"


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with Etcd() as etcd:
        yield etcd


def loads_registry(pid: int) -> bool:
    return "id_gen_registry.so" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.long
def test_a_session_that_takes_ids_of_a_fleet_has_no_network_code(etcd: Etcd) -> None:
    with Cluster("member", conf=member_conf(etcd.endpoints, "id_gen.fleet_name = 'of_sessions'")) as member:
        create_fleet(member)
        await_number(member)
        with member.connect() as connection:
            assert connection.execute("SELECT snowflake_next() > 0").fetchone() == (True,)
            assert not loads_registry(connection.info.backend_pid)
        registrar = member.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'id_gen registrar'")
        assert loads_registry(int(registrar))


@pytest.mark.long
def test_without_it_a_fleet_says_what_is_missing_and_goes_on_when_it_is_there(etcd: Etcd) -> None:
    with Server.from_environment().copied() as server:
        library = server.directory("pkglibdir") / "id_gen_registry.so"
        aside = library.rename(library.with_suffix(".aside"))
        conf = member_conf(etcd.endpoints, "id_gen.fleet_name = 'of_files'")
        with Cluster("member", conf=conf, server=server) as member:
            member.psql("CREATE EXTENSION id_gen")
            error = refusal(member, "SELECT id_gen_fleet_create()")
            assert error.sqlstate == "58P01" and error.message == CANNOT_BE_LOADED
            assert "id_gen_registry.so" in (error.detail or "")
            # Unless the library is preloaded, the first session that generates has the registrar started.
            refusal(member)
            member.poll_until(f"SELECT error = '{CANNOT_BE_LOADED}' FROM id_gen_stat_fleet")
            library.write_bytes(b"no library")
            assert refusal(member, "SELECT id_gen_fleet_create()").message == CANNOT_BE_LOADED
            library.unlink()
            aside.rename(library)
            create_fleet(member, grant_s=15)
            await_number(member)
