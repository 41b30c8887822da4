"""Servers get their numbers from the registry, keep them over restarts, and never share one."""

import os
import re
import signal

import pytest

from harness import Cluster, SqlError
from harness.checks import checks
from harness.cluster import PRELOAD
from harness.etcd import Etcd
from harness.fleet import (
    GRANT_SECONDS,
    NO_NUMBER,
    await_holding,
    await_number,
    await_phase,
    await_trouble,
    create_fleet,
    forget_boot,
    grants,
    name_of,
    number_of,
    phase,
    registrar,
    silent,
    witness_of,
)
from harness.ids import change, next_id, refusal


@pytest.mark.long
def test_servers_that_join_get_numbers_of_their_own(first: Cluster, conf: str) -> None:
    with Cluster("second", conf=conf) as second, Cluster("third", conf=conf) as third:
        for cluster in (second, third):
            cluster.psql("CREATE EXTENSION id_gen")
        numbers = {await_number(cluster) for cluster in (first, second, third)}
        assert len(numbers) == 3
        assert grants(first) == dict.fromkeys(numbers, "held")
        assert first.psql("SELECT count(*) FROM id_gen_fleet_members() WHERE this_server") == "1"
        assert first.psql("SELECT worker_id_source FROM id_gen_status()") == "fleet"


@pytest.mark.long
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_goes_on_with_its_number_at_once(first: Cluster, mode: str) -> None:
    number = await_number(first)
    last = next_id(first)
    first.restart(mode)
    # Also for a call that comes before the registrar has asked.
    assert next_id(first) > last
    assert "waiting" not in first.log().rpartition("database system is ready")[2]
    assert number_of(first) == number
    assert first.psql("SELECT acquisitions FROM id_gen_stat_fleet") == "1"


def test_a_server_that_stops_gives_its_number_back(first: Cluster, conf: str) -> None:
    with Cluster("second", conf=conf) as second:
        second.psql("CREATE EXTENSION id_gen")
        number = await_number(second)
        second.stop()
        assert grants(first)[number] == "released"


def test_without_the_fleet_nothing_is_generated_and_the_error_leads_out(conf: str) -> None:
    with Cluster("early", conf=conf) as early:
        early.psql("CREATE EXTENSION id_gen")
        error = await_trouble(early)
        assert error.message == "the registry does not have this server's fleet"
        assert error.hint and "SELECT id_gen_fleet_create();" in error.hint
        create_fleet(early)
        await_number(early)


@pytest.mark.long
def test_a_copy_of_a_running_server_gets_a_number_of_its_own(first: Cluster, conf: str) -> None:
    number = await_number(first)
    with Cluster("copy", copy_of=first) as copy:
        assert await_number(copy) != number
        assert await_number(first) == number
        assert first.psql("SELECT fencings FROM id_gen_stat_fleet") == "0"


@pytest.mark.long
def test_a_standby_has_a_number_and_generates_with_it_once_promoted(first: Cluster) -> None:
    number = await_number(first)
    with Cluster("standby", standby_of=first) as standby:
        await_holding(standby)
        own = number_of(standby)
        assert own != number
        assert refusal(standby).sqlstate == "25006"
        standby.promote()
        assert await_number(standby) == own
        standby.poll_until("SELECT timeline = 2 FROM id_gen_fleet_members() WHERE this_server")


@pytest.mark.long
def test_a_promoted_standby_makes_ids_above_what_its_primary_observed(first: Cluster) -> None:
    """With a number of its own, which nobody made IDs with."""
    await_number(first)
    with Cluster("standby", standby_of=first) as standby:
        await_holding(standby)
        observe = "snowflake_max(clock_timestamp() + interval '2 s') AS id) x, snowflake_advance(id)"
        observed = int(first.psql(f"SELECT id FROM (SELECT {observe}"))
        first.psql("CREATE TABLE flushed ()")
        first.wait_for_catchup(standby)
        first.stop("immediate")
        standby.promote()
        await_number(standby)
        assert next_id(standby) > observed


@pytest.mark.long
def test_a_released_number_is_fenced_and_another_is_taken(first: Cluster) -> None:
    number = await_number(first)
    first.psql(f"SELECT id_gen_fleet_release({number})")
    first.poll_until("SELECT fencings = 1 FROM id_gen_stat_fleet")
    await_number(first)
    assert "was acquired by another server, or released" in first.log()


def test_a_number_that_nobody_holds_cannot_be_released(first: Cluster) -> None:
    error = refusal(first, "SELECT id_gen_fleet_release(17)")
    assert (error.sqlstate, error.message) == ("42704", "no server of the fleet holds this worker ID")


@pytest.mark.parametrize(("worker", "datacenter"), [(-1, 0), (0, -5)])
def test_a_number_below_zero_is_named_as_it_is(first: Cluster, worker: int, datacenter: int) -> None:
    error = refusal(first, f"SELECT id_gen_fleet_release({worker}, {datacenter})")
    assert (error.sqlstate, error.detail) == ("42704", f"The worker ID is {worker}, the datacenter ID is {datacenter}.")


@pytest.mark.parametrize("name", ["", "a/b", "a" * 64], ids=["empty", "with-slash", "too-long"])
def test_a_name_that_no_fleet_can_have(first: Cluster, name: str) -> None:
    await_number(first)
    first.append_conf(f"id_gen.fleet_name = '{name}'")
    first.reload()
    first.poll_until("SELECT error = 'the name of the fleet is invalid' FROM id_gen_stat_fleet")
    for statement in ("SELECT snowflake_next()", "SELECT id_gen_fleet_create()"):
        error = refusal(first, statement)
        assert (error.sqlstate, error.message) == ("22023", "the name of the fleet is invalid")


@pytest.mark.long
def test_all_numbers_held(first: Cluster, conf: str) -> None:
    change(first, "worker_id_range", "3")
    await_holding(first)
    first.poll_until("SELECT worker_id = 3 FROM id_gen_status()")
    with Cluster("late", conf=conf + "\nid_gen.worker_id_range = '3'") as late:
        late.psql("CREATE EXTENSION id_gen")
        assert await_trouble(late).message == "the fleet has no free worker ID"
        first.stop()
        assert await_number(late) == 3


@pytest.mark.long
def test_a_number_typed_by_hand_that_another_server_holds(first: Cluster, conf: str) -> None:
    number = await_number(first)
    with Cluster("typed", conf=f"{conf}\nid_gen.worker_id = {number}") as typed:
        typed.psql("CREATE EXTENSION id_gen")
        error = await_trouble(typed)
        assert error.message == "the worker ID in id_gen.worker_id belongs to another server of the fleet"
        typed.psql("ALTER SYSTEM RESET id_gen.worker_id")
        typed.append_conf("id_gen.worker_id = -1")
        typed.reload()
        assert await_number(typed) != number


@pytest.mark.long
def test_a_server_that_joins_with_a_number_of_another_stops_making_ids(first: Cluster, conf: str) -> None:
    number = await_number(first)
    with Cluster("typed", conf=f"{PRELOAD}id_gen.worker_id = {number}") as typed:
        typed.psql("CREATE EXTENSION id_gen")
        next_id(typed)
        typed.append_conf(conf.replace(PRELOAD, ""))
        typed.reload()
        typed.poll_until("SELECT error IS NOT NULL FROM id_gen_stat_fleet")
        error = refusal(typed)
        assert error.message == "the worker ID in id_gen.worker_id belongs to another server of the fleet"


@pytest.mark.long
def test_a_server_cut_off_while_it_joins_goes_no_further_than_its_grant(first: Cluster, conf: str, etcd: Etcd) -> None:
    with Cluster("typed", conf=f"{PRELOAD}id_gen.worker_id = 9") as typed:
        typed.psql("CREATE EXTENSION id_gen")
        next_id(typed)
        typed.append_conf(conf.replace(PRELOAD, ""))
        typed.reload()
        typed.poll_until("SELECT state = 'waiting' FROM id_gen_stat_fleet")
        with silent(etcd):
            next_id(typed)
            typed.poll_until("SELECT granted_until < clock_timestamp() FROM id_gen_status()")
            assert refusal(typed).message == "this server's grant has expired"
        await_number(typed)
        assert number_of(typed) == 9


def test_a_server_numbered_by_hand_joins_without_a_gap(etcd: Etcd, conf: str, first: Cluster) -> None:
    with Cluster("typed", conf=f"{PRELOAD}id_gen.worker_id = 9") as typed:
        typed.psql("CREATE EXTENSION id_gen")
        last = next_id(typed)
        typed.append_conf(conf.replace(PRELOAD, ""))
        typed.reload()

        def joined() -> bool:
            nonlocal last
            given = next_id(typed)
            assert given > last
            last = given
            return typed.psql("SELECT worker_id_source FROM id_gen_status()") == "fleet"

        typed.wait_until(joined, "of the fleet")
        typed.append_conf("id_gen.worker_id = -1")
        typed.reload()
        typed.poll_until("SHOW id_gen.worker_id", expected="-1")
        assert next_id(typed) > last
        assert number_of(typed) == 9


@pytest.mark.long
def test_a_silent_registry_is_felt_when_the_grant_is_used_up(first: Cluster, etcd: Etcd) -> None:
    await_number(first)
    until = first.psql("SELECT granted_until FROM id_gen_status()")
    with silent(etcd):
        next_id(first)
        first.poll_until(f"SELECT clock_timestamp() > '{until}'::timestamptz + interval '{GRANT_SECONDS} s'")
        error = refusal(first)
        assert (error.sqlstate, error.message) == (NO_NUMBER, "this server's grant has expired")
        assert error.detail and "registry" in error.detail
        assert first.psql("SELECT status FROM id_gen_check() WHERE name = 'fleet'") == "error"
        first.stop()
        first.start()
        assert refusal(first).sqlstate in ("08006", NO_NUMBER)
    await_number(first)


def test_a_stop_is_not_missed_while_a_number_is_given_back(conf: str, etcd: Etcd) -> None:
    with Cluster("leaving", conf=conf) as leaving:
        leaving.psql("CREATE EXTENSION id_gen")
        # With its usual terms a fleet gives a server a second to give its number back.
        leaving.psql("SELECT id_gen_fleet_create()")
        await_phase(leaving, "waiting")
        with silent(etcd):
            leaving.append_conf("id_gen.registry = ''")
            leaving.reload()
            leaving.poll_until("SHOW id_gen.registry", expected="")
            leaving.stop()


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file of another user")
def test_a_file_of_another_user_in_the_place_of_the_witness(first: Cluster) -> None:
    await_number(first)
    first.stop()
    witness = witness_of(first)
    witness.unlink()
    witness.touch()
    try:
        first.start()
        await_number(first)
        assert "could not write" not in first.log()
        assert witness.read_bytes() == b""
    finally:
        witness.unlink()


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a pipe of another user")
def test_a_pipe_of_another_user_in_the_place_of_the_witness(first: Cluster) -> None:
    await_number(first)
    first.stop()
    witness = witness_of(first)
    witness.unlink()
    os.mkfifo(witness)
    witness.chmod(0o666)
    try:
        first.start()
        await_number(first)
        assert "could not write" not in first.log()
    finally:
        witness.unlink()


@pytest.mark.long
def test_numbers_are_typed_by_hand_while_the_registry_is_lost(first: Cluster, etcd: Etcd) -> None:
    await_number(first)
    last = next_id(first)
    with silent(etcd):
        first.poll_until("SELECT state <> 'ready' FROM id_gen_status()")
        assert refusal(first).message == "this server's grant has expired"
        number = number_of(first)
        first.psql(f"ALTER SYSTEM SET id_gen.worker_id = {number}")
        first.psql("ALTER SYSTEM SET id_gen.registry = ''")
        first.reload()
        first.poll_until("SELECT state = 'ready' FROM id_gen_status()")
        assert next_id(first) > last
        assert number_of(first) == number


def test_another_layout_than_the_fleets(first: Cluster, conf: str) -> None:
    with Cluster("other", conf=f"{conf}\nid_gen.layout = 'discord'") as other:
        other.psql("CREATE EXTENSION id_gen")
        assert await_trouble(other).message == "the fleet has another layout than this server"
        assert other.psql("SELECT answered_at > pg_postmaster_start_time() FROM id_gen_stat_fleet") == "t"


def test_a_fleet_is_made_once(first: Cluster) -> None:
    assert refusal(first, "SELECT id_gen_fleet_create()").message == "the fleet already exists"
    assert refusal(first, "SELECT id_gen_fleet_create(grant_duration => '1 s')").sqlstate == "22023"


@pytest.mark.long
def test_a_restored_registry_is_noticed(first: Cluster, etcd: Etcd) -> None:
    await_number(first)
    etcd.ctl("del", "--prefix", f"/id_gen/{first.psql('SHOW id_gen.fleet_name')}/n/")
    first.poll_until("SELECT restorations = 1 FROM id_gen_stat_fleet")
    assert "was restored to an older state" in first.log()
    first.poll_until("SELECT state = 'holding' FROM id_gen_stat_fleet")
    first.poll_until("SELECT snowflake_next() > 0")


def test_no_registry_no_registrar() -> None:
    with Cluster("alone", conf=f"{PRELOAD}id_gen.worker_id = 1") as alone:
        alone.psql("CREATE EXTENSION id_gen")
        assert not [title for title in alone.processes().values() if "registrar" in title]
        assert alone.psql("SELECT count(*) FROM id_gen_stat_fleet") == "0"
        assert (
            refusal(alone, "SELECT * FROM id_gen_fleet_members()").message == "this server does not belong to a fleet"
        )


@pytest.mark.long
def test_the_registrar_may_be_terminated(first: Cluster) -> None:
    number = await_number(first)
    pid = registrar(first)
    first.psql(f"SELECT pg_terminate_backend({pid})")
    first.wait_until(lambda: registrar_or_none(first) not in (None, pid), "running another registrar")
    assert await_number(first) == number
    assert phase(first) == "holding"


@pytest.mark.long
def test_a_registrar_that_stands_still_is_seen_by_the_check(first: Cluster) -> None:
    """It can note no trouble itself."""
    await_number(first)
    os.kill(registrar(first), signal.SIGSTOP)
    try:
        first.poll_until("SELECT status FROM id_gen_check() WHERE name = 'fleet'", expected="error")
        found, remedy = first.psql("SELECT found, remedy FROM id_gen_check() WHERE name = 'fleet'").split("|")
        error = refusal(first)
        assert error.message and found.startswith(error.message)
        assert remedy.replace("public.", "") == error.hint
    finally:
        os.kill(registrar(first), signal.SIGCONT)
    await_number(first)


def test_a_grant_that_is_used_up_ahead_of_the_clock_is_seen_by_the_check(first: Cluster) -> None:
    await_number(first)
    change(first, "max_lead", "1min")
    first.poll_until("SHOW id_gen.max_lead", expected="1min")
    os.kill(registrar(first), signal.SIGSTOP)
    try:
        for count in (1_000_000, 10_000, 100, 1):
            with pytest.raises(SqlError, match="this server's grant (has expired|ends before the time of its next ID)"):
                while True:
                    first.psql(f"SELECT count(*) FROM snowflake_next_batch({count})")
        assert first.psql("SELECT status FROM id_gen_check() WHERE name = 'fleet'") == "error"
    finally:
        os.kill(registrar(first), signal.SIGCONT)
    await_number(first)


# Of such a fleet nobody waits to the end here.
LONG_GRANTS = "SELECT id_gen_fleet_create('10 min', '5 s', '500 ms')"


def test_a_number_that_cannot_be_used_yet_has_no_grant_that_expired(conf: str) -> None:
    """The first ID is of a later time than the grant so far, which is renewed until then."""
    with Cluster("maker", conf=conf) as maker, Cluster("joining", conf=conf) as joining:
        maker.psql(f"CREATE EXTENSION id_gen; {LONG_GRANTS}")
        joining.psql("CREATE EXTENSION id_gen")
        await_number(maker)
        number = await_number(joining)
        maker.psql(f"SELECT id_gen_fleet_report_restore(), id_gen_fleet_release({number})")
        joining.poll_until("SELECT acquisitions = 2 AND state = 'holding' FROM id_gen_stat_fleet")
        error = refusal(joining)
        assert error.detail and "Snowflakes start at" in error.detail
        assert_cannot_be_used_yet(joining, error)


@pytest.mark.parametrize("fenced", [False, True], ids=["stopped", "fenced"])
def test_who_makes_a_fleet_anew_knows_nothing_of_what_was_lost(conf: str, etcd: Etcd, fleet: str, fenced: bool) -> None:
    """So it waits until nobody goes on whom the registry has forgotten, or until it is told that there is nobody."""
    with Cluster("maker", conf=f"{conf}\nid_gen.worker_id_range = '4'") as maker:
        maker.psql(f"CREATE EXTENSION id_gen; {LONG_GRANTS}")
        await_number(maker)
        if fenced:
            maker.psql("SELECT id_gen_fleet_release(4)")
            maker.poll_until("SELECT fencings = 1 AND error IS NOT NULL FROM id_gen_stat_fleet")
        maker.stop()
        etcd.ctl("del", "--prefix", f"/id_gen/{name_of(fleet)}/")
        maker.start()
        await_trouble(maker)
        maker.psql(LONG_GRANTS)
        await_phase(maker, "waiting")
        error = refusal(maker)
        assert error.hint and re.match(r"Call again in 20 min\b", error.hint)
        assert_cannot_be_used_yet(maker, error)
        [told] = re.findall(r"SELECT id_gen_fleet_report_restore\([^;]*;", error.hint)
        assert maker.psql(told)
        await_phase(maker, "holding")
        assert maker.psql(told) == maker.psql(told)


def test_the_check_says_the_same_of_a_worker_id_that_nobody_has_used_yet(conf: str) -> None:
    """Without the preload, a server starts to generate with the first call."""
    with Cluster("first", conf=conf) as first:
        create_fleet(first)
        await_number(first)
        first.psql("SELECT id_gen_fleet_report_restore()")
        # With the preload, a server joins as soon as there is a fleet: it starts when that was restored.
        with Cluster("second", conf=conf) as second:
            second.psql("CREATE EXTENSION id_gen")
            # A call starts the registrar, and no later one the server itself.
            refusal(second)
            second.poll_until("SELECT state = 'holding' FROM id_gen_stat_fleet")
            found = checks(second)["lead"].found
            error = refusal(second)
            assert found == f"{error.message}. {error.detail}"


@pytest.mark.long
def test_after_a_start_of_its_machine_a_server_waits_for_a_renewal_of_another(conf: str) -> None:
    with Cluster("maker", conf=conf) as maker, Cluster("joining", conf=conf) as joining:
        for cluster in (maker, joining):
            cluster.psql("CREATE EXTENSION id_gen")
        maker.psql("SELECT id_gen_fleet_create('8 s', '500 ms', '500 ms')")
        for cluster in (maker, joining):
            await_number(cluster)
        maker.stop("immediate")
        forget_boot(joining)
        await_phase(joining, "waiting")
        # The one that has made the fleet remembers: it has held its number for as long as there was one.
        maker.start()
        await_holding(joining)
        assert joining.psql("SELECT acquisitions || ' ' || restorations FROM id_gen_stat_fleet") == "1 0"


def assert_cannot_be_used_yet(cluster: Cluster, error: SqlError) -> None:
    """So says a call, and so do the server's own reports."""
    assert error.message == "this server's worker ID cannot be used yet"
    assert cluster.psql("SELECT state FROM id_gen_status()") == error.message
    time_left = re.compile(r"Call again in .*?\. ")
    checks = cluster.psql("SELECT found, remedy FROM id_gen_check() WHERE status = 'error'").splitlines()
    assert checks
    for check in checks:
        found, remedy = check.split("|")
        assert found.startswith(error.message)
        assert time_left.sub("", remedy.replace("public.", "")) == time_left.sub("", error.hint or "")


def test_a_range_beyond_the_layout_is_named(first: Cluster) -> None:
    await_number(first)
    change(first, "worker_id_range", "5000")
    first.poll_until("SELECT error FROM id_gen_stat_fleet", expected="a setting of the fleet is invalid")
    error = await_trouble(first)
    assert error.detail and error.detail.startswith('id_gen.worker_id_range is "5000"; layout ')
    assert error.hint and "id_gen.worker_id_range" in error.hint
    change(first, "worker_id_range", "")
    await_number(first)


def registrar_or_none(cluster: Cluster) -> int | None:
    try:
        return registrar(cluster)
    except ValueError:
        return None
