"""A layout that is none is refused with what is wrong with it, and with the names of those that there are."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from harness import GENERATING, Cluster
from harness.clock import FakeClock
from harness.ids import next_id, refusal

UNDEFINED_OBJECT = "42704"
INVALID_VALUE = "22023"
TEXT = "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12"

# What is wrong with a value of id_gen.layout.
MISTAKES = {
    "twiter": 'There is no layout named "twiter".',
    "": "Epoch is missing.",
    "epoch=2024-01-01 time:41 worker:11 sequence:12": "The fields add up to 64 bits, more than 63.",
    "epoch=2024-01-01 time:0 worker:11 sequence:12": 'Field "time" is zero bits wide.',
    "epoch=2100-01-01 time:41 worker:10 sequence:12": "The epoch 2100-01-01T00:00:00Z is in the future.",
    "baidu": "The layout is exhausted since 2024-11-20T13:24:16Z.",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


def names(cluster: Cluster, condition: str) -> str:
    """The layouts for which it holds, in the order in which the server lists them."""
    listed = cluster.psql(f"SELECT name FROM snowflake_layouts() WHERE {condition}").split()
    assert len(listed) > 5
    return ", ".join(listed)


@pytest.mark.parametrize("layout", MISTAKES)
def test_a_setting_that_is_no_layout(cluster: Cluster, layout: str) -> None:
    """Its hint leaves out layouts that have run out."""
    error = refusal(cluster, f"LOAD 'id_gen'; ALTER SYSTEM SET id_gen.layout = '{layout}'")
    assert error.sqlstate == INVALID_VALUE
    assert error.message == f'invalid value for parameter "id_gen.layout": "{layout}"'
    assert error.detail == MISTAKES[layout]
    usable = names(cluster, "exhausted_at > now()")
    assert error.hint == f'Use a named layout ({usable}) or a layout text such as "{TEXT}".'


@pytest.mark.parametrize("year", [2006, 2096, 2276])
def test_the_layouts_of_a_hint_can_be_set_at_the_time_of_the_clock(year: int) -> None:
    """Also before all named layouts, and after them, where a clock is wrong more often than not."""
    clock = FakeClock((datetime(year, 7, 1, tzinfo=UTC) - datetime.now(UTC)).total_seconds())
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        mistake = "LOAD 'id_gen'; ALTER SYSTEM SET id_gen.layout = 'nonsense'"
        hint = refusal(cluster, mistake).hint or ""
        assert hint.startswith(
            "Use a named layout (" if year == 2096 else f"Correct the clock, which shows {year}-07-01T"
        )
        for layout in re.findall(r'"([^"]+)"', hint):
            cluster.psql(f"LOAD 'id_gen'; ALTER SYSTEM SET id_gen.layout = '{layout}'")
        cluster.restart()
        assert next_id(cluster) > 0
        # In the file, where nothing refuses it.
        cluster.psql("ALTER SYSTEM RESET id_gen.layout")
        cluster.append_conf("id_gen.layout = 'nonsense'")
        cluster.restart()
        assert "ALTER SYSTEM SET id_gen.layout = " in (refusal(cluster).hint or "")


def test_a_clock_before_1970_is_shown_as_it_is() -> None:
    with Cluster(conf=GENERATING, clock=FakeClock(-60 * 365.25 * 86400)) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        year = cluster.psql("SELECT extract(year FROM now())")
        assert year.startswith("196")
        error = refusal(cluster, "LOAD 'id_gen'; ALTER SYSTEM SET id_gen.layout = 'nonsense'")
        assert re.fullmatch(f"Correct the clock, which shows {year}-[^ ]*Z[.]", error.hint or "")
        assert f"The clock shows {year}-" in (refusal(cluster).detail or "")


def test_an_argument_that_names_no_layout(cluster: Cluster) -> None:
    error = refusal(cluster, "SELECT snowflake_timestamp(0, 'twiter')")
    assert error.sqlstate == UNDEFINED_OBJECT
    assert error.message == 'there is no layout named "twiter"'
    assert error.detail is None
    assert error.hint == f"The named layouts are {names(cluster, 'true')}."
