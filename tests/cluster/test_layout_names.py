"""A layout that is none is refused with what is wrong with it, and with the names of those that there are."""

from collections.abc import Iterator

import pytest

from harness import GENERATING, Cluster
from harness.ids import refusal

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


def test_an_argument_that_names_no_layout(cluster: Cluster) -> None:
    error = refusal(cluster, "SELECT snowflake_timestamp(0, 'twiter')")
    assert error.sqlstate == UNDEFINED_OBJECT
    assert error.message == 'there is no layout named "twiter"'
    assert error.detail is None
    assert error.hint == f"The named layouts are {names(cluster, 'true')}."
