"""Another layout at a restart: taken up if its IDs are above all old ones, otherwise refused until somebody decides."""

import re

from harness import GENERATING, Cluster
from harness.ids import PATIENT, Caller, assert_rest_works, change, next_id, refusal

LAYOUT_BELOW = "55000"
ACCEPT = "SELECT id_gen_layout_accept()"

# The same fields, so the epoch alone decides: the earlier it is, the larger are the IDs of today.
FIELDS = "tick=1ms time:41 datacenter:5 worker:5 sequence:12"
MIDDLE = f"epoch=2024-01-01 {FIELDS}"
HIGHER = f"epoch=2023-01-01 {FIELDS}"
LOWER = f"epoch=2025-01-01 {FIELDS}"

PATIENT_SERVER = GENERATING + PATIENT


def restart_with(cluster: Cluster, layout: str, mode: str = "fast") -> None:
    cluster.psql(f"ALTER SYSTEM SET id_gen.layout = '{layout}'")
    cluster.restart(mode)


def minutes_off(cluster: Cluster, snowflake: int, layout: str) -> float:
    """How far from now an ID was made, if it is of that layout."""
    return float(
        cluster.psql(f"SELECT abs(extract(epoch FROM now() - snowflake_timestamp({snowflake}, '{layout}'))) / 60")
    )


def test_a_proposed_layout_generates() -> None:
    with Cluster(conf=PATIENT_SERVER) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        layout, advice = cluster.psql("SELECT layout, advice FROM id_gen_recommend(10000, 200, 30) LIMIT 1").split("|")
        line = re.search("ALTER SYSTEM [^;]*;", advice)
        assert line
        cluster.psql(line[0])
        cluster.restart()
        assert minutes_off(cluster, next_id(cluster), layout) < 1


def test_a_layout_with_higher_ids_is_taken_up() -> None:
    with Cluster(conf=PATIENT_SERVER) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        old = next_id(cluster)
        for mode, layout in (("fast", HIGHER), ("immediate", f"epoch=2022-01-01 {FIELDS}")):
            restart_with(cluster, layout, mode)
            new = next_id(cluster)
            assert new > old
            assert minutes_off(cluster, new, layout) < 1
            old = new


def test_a_layout_with_lower_ids_is_refused_until_it_is_set_back() -> None:
    with Cluster(conf=PATIENT_SERVER) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        old = next_id(cluster)
        for mode in ("fast", "immediate"):
            restart_with(cluster, LOWER, mode)
            error = refusal(cluster)
            assert (error.sqlstate, error.message) == (
                LAYOUT_BELOW,
                "id_gen.layout was changed to one with lower snowflakes",
            )
            assert ACCEPT in (error.hint or "") and f"restart with: ALTER SYSTEM SET id_gen.layout = '{MIDDLE}'" in (
                error.hint or ""
            )
            assert LOWER in (error.detail or "") and MIDDLE in (error.detail or "")
            assert_rest_works(cluster)
        restart_with(cluster, MIDDLE)
        assert next_id(cluster) > old


def test_an_administrator_accepts_a_layout_with_lower_ids() -> None:
    with Cluster(conf=PATIENT_SERVER) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        old = next_id(cluster)
        restart_with(cluster, LOWER)
        refusal(cluster)
        cluster.psql(ACCEPT)
        new = next_id(cluster)
        assert new < old
        assert minutes_off(cluster, new, LOWER) < 1
        cluster.restart("immediate")
        assert next_id(cluster) > new, "what was accepted is not asked again after a crash"


def test_other_fields_are_compared_by_their_ids() -> None:
    """A coarser layout has smaller IDs, a finer one larger: what counts is the ID, not the width of a field."""
    with Cluster(conf=PATIENT_SERVER) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        restart_with(cluster, "js")
        assert refusal(cluster).sqlstate == LAYOUT_BELOW
        restart_with(cluster, "default")
        old = next_id(cluster)
        restart_with(cluster, "twitter")
        assert next_id(cluster) > old


def test_the_same_layout_in_other_words_is_no_change() -> None:
    with Cluster(conf=PATIENT_SERVER) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        old = next_id(cluster)
        restart_with(cluster, MIDDLE)
        assert next_id(cluster) > old


def test_a_crash_of_a_backend_is_no_restart() -> None:
    """A layout that waits for the restart goes on waiting, whatever else brings all shared memory down."""
    with Cluster(conf=PATIENT_SERVER) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        given = [next_id(cluster)]
        change(cluster, "layout", "js")
        cluster.poll_until("SHOW id_gen.layout", expected="js")
        for _ in range(2):
            began = cluster.log_position
            with Caller(cluster) as victim:
                given.append(victim.ask())
                cluster.kill9(victim.pid)
            cluster.wait_for_log("database system is ready to accept connections", began)
            cluster.poll_until("SELECT true")
            assert cluster.psql("SELECT name FROM snowflake_layouts() WHERE in_use") == "default"
            given.append(next_id(cluster))
        assert given == sorted(set(given))
        cluster.restart()
        assert refusal(cluster).sqlstate == LAYOUT_BELOW
