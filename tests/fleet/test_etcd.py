"""etcd as the registry: what it asks of its clients, what it suffers, and what a server says of that."""

import re
from collections.abc import Iterator

import pytest

from harness import Cluster
from harness.checks import checks
from harness.etcd import Etcd
from harness.fleet import NO_NUMBER, await_holding, await_number, await_trouble, create_fleet, grants, member_conf
from harness.ids import NEXT, await_refusal, change, next_id, refusal

pytestmark = pytest.mark.long


def files(etcd: Etcd) -> str:
    """The settings that name the files of an etcd with TLS."""
    return f"""
id_gen.registry_ca_file = '{etcd.ca_file}'
id_gen.registry_cert_file = '{etcd.cert_file}'
id_gen.registry_key_file = '{etcd.key_file}'
"""


@pytest.fixture
def three() -> Iterator[Etcd]:
    with Etcd(3) as etcd:
        yield etcd


@pytest.fixture
def first(three: Etcd) -> Iterator[Cluster]:
    with Cluster("first", conf=member_conf(three.endpoints)) as cluster:
        create_fleet(cluster)
        await_number(cluster)
        yield cluster


def renewed(cluster: Cluster) -> None:
    """Waits until a grant is renewed after now."""
    renewals = cluster.psql("SELECT renewals FROM id_gen_stat_fleet")
    cluster.poll_until(f"SELECT renewals > {renewals} FROM id_gen_stat_fleet")


def await_error(cluster: Cluster, error: str) -> None:
    """Waits until a server is in this trouble."""
    cluster.poll_until("SELECT error FROM id_gen_stat_fleet", expected=error)


def test_tls_with_certificates_of_both_sides() -> None:
    with Etcd(tls=True) as etcd, Cluster("secure", conf=member_conf(etcd.endpoints, files(etcd))) as secure:
        create_fleet(secure)
        await_number(secure)
        renewed(secure)
        with Cluster("naked", conf=member_conf(etcd.endpoints, f"id_gen.registry_ca_file = '{etcd.ca_file}'")) as naked:
            naked.psql("CREATE EXTENSION id_gen")
            error = await_trouble(naked)
            assert error.message == "the certificate of the fleet's registry, or of this server, is invalid"
            change(naked, "registry_ca_file", etcd.cert_file.with_name("missing.pem"))
            naked.poll_until("SELECT error LIKE 'the setting of%' FROM id_gen_stat_fleet")
            assert "missing.pem" in (refusal(naked).detail or "")


def test_user_and_password() -> None:
    # Tokens that end while the server goes on.
    with Etcd(flags=["--auth-token-ttl=2"]) as etcd:
        etcd.enable_auth()
        credentials = f"id_gen.registry_user = 'id_gen'\nid_gen.registry_password_file = '{etcd.password_file}'"
        with (
            Cluster("user", conf=member_conf(etcd.endpoints, credentials)) as user,
            Cluster("nobody", conf=member_conf(etcd.endpoints)) as nobody,
        ):
            create_fleet(user)
            await_number(user)
            for _ in range(8):
                renewed(user)
            nobody.psql("CREATE EXTENSION id_gen")
            error = await_trouble(nobody)
            assert (error.sqlstate, error.message) == ("28000", "access to the registry was denied")
            nobody.psql("CREATE ROLE clerk")
            for setting in ("registry", "registry_user", "registry_password_file"):
                # Before the library is loaded, PostgreSQL does not know who may see its parameters.
                loaded = "SELECT count(*) FROM snowflake_layouts()"
                refused = refusal(nobody, f"{loaded}; SET ROLE clerk; SHOW id_gen.{setting}")
                assert refused.sqlstate == "42501"


def test_a_leader_is_killed_and_members_come_and_go(three: Etcd, first: Cluster) -> None:
    for _ in range(2):
        leader = three.leader()
        leader.kill9()
        renewed(first)
        leader.start()
    next_id(first)
    assert first.psql("SELECT restorations + fencings FROM id_gen_stat_fleet") == "0"


def test_the_majority_is_lost(three: Etcd, first: Cluster) -> None:
    number = first.psql("SELECT worker_id FROM id_gen_status()")
    for member in three.members[:2]:
        member.kill9()
    first.poll_until("SELECT error IS NOT NULL FROM id_gen_stat_fleet")
    first.poll_until("SELECT state LIKE '%grant has expired' FROM id_gen_status()")
    error = refusal(first)
    assert error.message == "this server's grant has expired"
    assert error.hint
    for member in three.members[:2]:
        member.begin_start()
    await_holding(first)
    first.poll_until("SELECT snowflake_next() > 0")
    assert first.psql("SELECT worker_id FROM id_gen_status()") == number


def test_a_full_etcd_says_how_to_make_room() -> None:
    with (
        Etcd(flags=["--quota-backend-bytes=200000"]) as etcd,
        Cluster("full", conf=member_conf(etcd.endpoints)) as full,
    ):
        create_fleet(full)
        await_number(full)
        with pytest.raises(RuntimeError, match="database space exceeded"):
            for number in range(200):
                etcd.ctl("put", f"filler{number}", "x" * 20_000)
        full.poll_until("SELECT error = 'etcd''s disk quota is used up' FROM id_gen_stat_fleet")
        row = "SELECT remedy FROM id_gen_check() WHERE name = 'fleet'"
        assert "etcdctl alarm disarm" in full.psql(row)


def test_the_check_warns_before_etcd_is_full() -> None:
    with Etcd(flags=["--quota-backend-bytes=8000000"]) as etcd:
        etcd.fill(6_600_000)
        with Cluster("filling", conf=member_conf(etcd.endpoints)) as filling:
            create_fleet(filling)
            await_number(filling)
            row = "SELECT status || ': ' || found || ': ' || remedy FROM id_gen_check() WHERE name = 'fleet'"
            filling.poll_until(f"SELECT ({row}) LIKE 'warning: %etcd''s disk quota is nearly used up%'")
            assert "etcdctl defrag" in filling.psql(row)


def test_what_is_no_registry_is_named_to_who_may_see_it(first: Cluster) -> None:
    change(first, "registry", "zookeeper://host:1")
    wrong = 'invalid value for parameter "id_gen.registry"'
    first.poll_until("SELECT error FROM id_gen_stat_fleet", expected=wrong)
    # The grant goes on to its end.
    next_id(first)
    first.poll_until("SELECT state LIKE '%grant has expired' FROM id_gen_status()")
    assert "zookeeper" in (refusal(first).detail or "")
    first.psql("CREATE ROLE clerk")
    assert "zookeeper" not in (refusal(first, f"SET ROLE clerk; {NEXT}").detail or "zookeeper")


def test_members_of_two_clusters_in_one_list() -> None:
    """Servers that ask different ones would get the same number."""
    with Etcd() as one, Etcd() as other, Cluster("first", conf=member_conf(one.endpoints)) as first:
        create_fleet(first)
        await_number(first)
        acquired = first.psql("SELECT acquisitions FROM id_gen_stat_fleet")
        change(first, "registry", f"{one.endpoints},{other.endpoints}")
        trouble = "id_gen.registry names different registries, or a different one than before"
        first.poll_until("SELECT error FROM id_gen_stat_fleet", expected=trouble)
        assert trouble in (refusal(first, "SELECT * FROM id_gen_fleet_members()").message or "")
        change(first, "registry", other.endpoints)
        first.poll_until("SELECT error = 'the registry does not have this server''s fleet' FROM id_gen_stat_fleet")
        change(first, "registry", one.endpoints)
        renewed(first)
        # The fleet's registry has forgotten nothing, so nothing is waited for.
        assert next_id(first) > 0
        assert first.psql("SELECT acquisitions FROM id_gen_stat_fleet") == acquired


def test_a_copy_of_a_running_etcd_numbers_nobody_before_it_is_adopted() -> None:
    """A server that reaches the copy alone would get the worker ID of one that continues in the original."""
    with (
        Etcd() as original,
        Etcd() as copy,
        Cluster("first", conf=member_conf(original.endpoints)) as first,
    ):
        create_fleet(first)
        number = await_number(first)
        copy.members[0].restore(original.save())
        only = f"id_gen.worker_id_range = '{number}'"
        with Cluster("newcomer", conf=member_conf(copy.endpoints, only)) as newcomer:
            newcomer.psql("CREATE EXTENSION id_gen")
            error = await_trouble(newcomer)
            assert (error.message, error.sqlstate) == ("the fleet belongs to another registry", "55000")
            before = copy.history("/id_gen/")
            assert refusal(newcomer, "SELECT * FROM id_gen_fleet_members()").message == error.message
            assert error.hint and (told := re.search(r"SELECT id_gen_fleet_report_restore\([^;]*;", error.hint))
            # On a server with another registry, the line does nothing.
            assert "is not" in refusal(first, told[0]).message
            assert refusal(newcomer, "SELECT id_gen_fleet_report_restore()").message == error.message
            assert copy.history("/id_gen/") == before
            renewed(first)
            highest = int(first.psql("SELECT max(snowflake_next()) FROM generate_series(1, 1000)"))
            first.stop()
            original.members[0].stop()
            assert newcomer.psql(told[0])
            assert await_number(newcomer) == number
            assert next_id(newcomer) > highest
            # Who had it comes after.
            first.append_conf(f"id_gen.registry = '{copy.endpoints}'")
            first.start()
            assert await_number(first) != number


ELSEWHERE = "this server belongs to a fleet in another registry"


@pytest.mark.parametrize("restarted", [False, True], ids=["reload", "restart"])
def test_the_registry_of_another_fleet_gives_a_member_nothing_before_it_joins_that(restarted: bool) -> None:
    """The fleets have the same name, so members of both would get the same worker IDs."""
    with (
        Etcd() as own,
        Etcd() as other,
        Cluster("member", conf=member_conf(own.endpoints)) as member,
        Cluster("stranger", conf=member_conf(other.endpoints, "id_gen.max_lead = '500 ms'")) as stranger,
    ):
        create_fleet(member, grant_s=60)
        create_fleet(stranger)
        number, last = await_number(member), next_id(member)
        await_number(stranger)
        if restarted:
            member.psql(f"ALTER SYSTEM SET id_gen.registry = '{other.endpoints}'")
            # A crash with a request on its way would cost it the number.
            renewed(member)
            member.restart("immediate")
            # Without the preload, a call starts the registrar.
            await_refusal(member, ELSEWHERE)
        else:
            change(member, "registry", other.endpoints)
        await_error(member, ELSEWHERE)
        check = checks(member)["fleet"]
        assert check.status == ("error" if restarted else "warning") and ELSEWHERE in check.found
        if restarted:
            assert (refusal(member).message, refusal(member).sqlstate) == (ELSEWHERE, NO_NUMBER)
        else:
            # The grant goes on to its end.
            assert next_id(member) > last
        for command in ("release(0)", "report_restore()", "members()"):
            assert refusal(member, f"SELECT id_gen_fleet_{command}").message == ELSEWHERE
        assert len(grants(stranger)) == 1

        change(member, "registry", own.endpoints)
        renewed(member)
        assert await_number(member) == number
        assert len(grants(member)) == 1
        counts = "SELECT acquisitions, fencings, restorations, error FROM id_gen_stat_fleet"
        assert member.psql(counts) == "1|0|0|"
        last = next_id(member)

        change(member, "registry", other.endpoints)
        await_error(member, ELSEWHERE)
        # The other fleet is another one by now.
        other.ctl("del", "--prefix", "/id_gen/")
        create_fleet(stranger)
        await_error(member, ELSEWHERE)
        remedy = checks(member)["fleet"].remedy or ""
        assert (told := re.search(r"SELECT (\w+\.)?id_gen_fleet_create\(\);", remedy)), remedy
        member.psql(told[0])
        stranger.wait_until(lambda: len(grants(stranger)) == 2, "joined by the member")
        assert await_number(member) in grants(stranger)
        assert next_id(member) > last
        assert refusal(member, told[0]).message == "the fleet already exists"
        member.restart()
        await_number(member)


def test_a_lost_registry_is_replaced_by_an_empty_one_elsewhere() -> None:
    lead = "id_gen.max_lead = '500 ms'"
    with (
        Etcd() as lost,
        Etcd() as new,
        Cluster("first", conf=member_conf(lost.endpoints, lead)) as first,
        Cluster("second", conf=member_conf(lost.endpoints, lead)) as second,
    ):
        create_fleet(first)
        second.psql("CREATE EXTENSION id_gen")
        for server in (first, second):
            await_number(server)
        lost.members[0].stop()
        for server in (first, second):
            change(server, "registry", new.endpoints)
            await_error(server, "the registry does not have this server's fleet")
        create_fleet(first)
        # As it is typed: the server has joined by now.
        first.psql("SELECT id_gen_fleet_report_restore()")
        await_error(second, ELSEWHERE)
        second.psql("SELECT id_gen_fleet_create()")
        assert await_number(first) != await_number(second)


def test_an_etcd_that_is_restored_in_place() -> None:
    """It keeps its cluster ID, but its revision is lower: the first answer tells, whatever it is about."""
    with Etcd() as etcd, Cluster("first", conf=member_conf(etcd.endpoints)) as first:
        create_fleet(first)
        await_number(first)
        snapshot, began = etcd.save(), first.log_position
        for _ in range(2):
            renewed(first)
        etcd.members[0].restore(snapshot)
        first.wait_for_log("it was restored from an older state", began)
        await_holding(first)
        first.poll_until("SELECT snowflake_next() > 0")
        assert int(first.psql("SELECT acquisitions FROM id_gen_stat_fleet")) > 1


def test_a_restored_etcd_refuses_sessions_once_also_if_the_server_does_not_ask() -> None:
    with Etcd() as etcd, Cluster("first", conf=member_conf(etcd.endpoints)) as first:
        create_fleet(first)
        await_number(first)
        snapshot = etcd.save()
        for _ in range(2):
            renewed(first)
        change(first, "worker_id_range", "5000")
        await_error(first, "a setting of the fleet is invalid")
        grants(first)
        etcd.members[0].restore(snapshot)
        fleet = "SELECT count(*) FROM id_gen_fleet_members()"
        await_refusal(first, "etcd was restored to an older state", fleet)
        assert first.psql(fleet) == "1"


def test_another_way_to_the_same_registry_costs_nothing(three: Etcd, first: Cluster) -> None:
    change(first, "registry", ", ".join(member.endpoint for member in reversed(three.members)))
    first.poll_until("SELECT pg_conf_load_time() > now() - interval '1 minute'")
    for _ in range(2):
        renewed(first)
    assert first.psql("SELECT acquisitions FROM id_gen_stat_fleet") == "1"
    assert first.log().count("has acquired") == 1
