"""Whatever a function is given, it answers, or refuses with an SQLSTATE of its own; the session lives on.

The functions are those that the extension has, so that a new one is tried as soon as it exists.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg
import pytest

from harness import GENERATING, Cluster, SqlError, effort
from harness.arguments import HOSTILE, HOSTILE_SINCE_17, SHARD, fuzzed, values
from harness.catalog import CREATE_ALL, Function, functions
from harness.etcd import Etcd
from harness.fleet import await_number, create_fleet, member_conf
from harness.ids import PATIENT, change, refusal
from harness.masks import MASKING, write_key_file

CALLS_PER_ARGUMENT = effort(3_000, 500)
CALLS_AT_ONCE = 100
# Of a function whose calls are slow, those of this many seconds, in the order of the sample.
SECONDS = effort(60, 2)
INTERNAL_ERROR = "XX000"
UNDEFINED_OBJECT = "42704"
OUT_OF_RANGE = "22008"

TAKE = f"SELECT id_gen_shard_take({SHARD}, above => 0)"

# A set gives its first rows, as text: what prints the answers must take them, too.
ATTEMPT = """
CREATE FUNCTION attempt(call text, OUT answer text, OUT refused text, OUT message text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT string_agg(answer::text, '' '') FROM (SELECT %s AS answer LIMIT 10) answers', call)
       INTO answer;
EXCEPTION WHEN OTHERS THEN
    refused := SQLSTATE;
    message := left(SQLERRM, 200);
END $$
"""


def calls(function: Function, hostile: Mapping[str, list[str]]) -> list[str]:
    """Every combination of values, or as many at random as the test has time for."""
    choices = [
        [f"{value}::{argument.type}" for value in each]
        for argument, each in zip(function.arguments, values(function, hostile, "HOSTILE"), strict=True)
    ]
    combinations = list(itertools.product(*choices))
    at_most = CALLS_PER_ARGUMENT * max(len(choices), 1)
    if len(combinations) > at_most:
        combinations = random.Random(function.bare_name).sample(combinations, at_most)
    return [function.call(arguments) for arguments in combinations]


def attempts(
    connection: psycopg.Connection, every: list[str]
) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    """What comes of each call. Many are one statement, which the server names in its log if it crashes there."""
    statement = "SELECT call, answer, refused, message FROM unnest(%s::text[]) call, attempt(call)"
    until = time.monotonic() + SECONDS
    for first in range(0, len(every), CALLS_AT_ONCE):
        if time.monotonic() > until:
            return
        yield from connection.execute(statement, [every[first : first + CALLS_AT_ONCE]])


@contextmanager
def member() -> Iterator[Cluster]:
    """A server with worker number 1 of a fleet, where the functions about fleets are called."""
    with Etcd() as etcd, Cluster("member", conf=member_conf(etcd.endpoints, "id_gen.worker_id_range = '1'")) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(ATTEMPT)
        create_fleet(cluster)
        assert await_number(cluster) == 1
        yield cluster


@pytest.mark.long
def test_hostile_arguments() -> None:
    with Cluster(conf=GENERATING + PATIENT + MASKING) as cluster, member() as of_fleet:
        write_key_file(cluster)
        cluster.psql(CREATE_ALL)
        cluster.psql(ATTEMPT)
        hostile = HOSTILE_SINCE_17 if cluster.server.version >= 17 else HOSTILE
        options = "-c client_min_messages=error -c search_path=public,pg_catalog"
        with cluster.connect(options=options) as alone, of_fleet.connect(options=options) as fleet:
            cluster.psql("CREATE TABLE uuids (id uuid, made timestamptz)")
            every = [each for each in functions(cluster) if each.is_of_library]
            assert len(every) > 20
            for function in every:
                connection = fleet if function.bare_name.startswith("id_gen_fleet") else alone
                if "shard" in function.bare_name or "shard" in str(function):
                    # It may have been given back, or forgotten, in the turn before.
                    alone.execute(TAKE)
                if function.bare_name == "id_gen_fleet_create":
                    change(of_fleet, "fleet_name", "another")
                    of_fleet.poll_until("SHOW id_gen.fleet_name", expected="another")
                refusals: Counter[str] = Counter()
                for call, answer, refused, message in attempts(connection, calls(function, hostile)):
                    assert refused != INTERNAL_ERROR, f"{call[:200]}: {message}"
                    assert refused is None or answer is None
                    assert answer is None or "NULL::" not in call, f"{call[:200]} answered {answer}"
                    refusals[refused] += 1
                assert None in refusals, f"{function} never answered: {refusals}"
                if function.bare_name == "id_gen_fleet_create":
                    # Others are about its worker ID there.
                    of_fleet.poll_until("SELECT count(*) = 1 FROM id_gen_fleet_members()")
                if function.bare_name == "id_gen_reservation_reset":
                    # It has moved the frontier out of the clock's reach, and brings it back.
                    connection.execute(f"SELECT {function.name}(now())")
            assert alone.execute("SELECT snowflake_next() > 0").fetchone() == (True,)
        assert "terminated by signal" not in cluster.log() + of_fleet.log()


# A member of the extension with an argument that no table of values has.
UNKNOWN = """
CREATE FUNCTION id_gen_distance(place point) RETURNS bigint LANGUAGE sql AS 'SELECT 1';
ALTER EXTENSION id_gen ADD FUNCTION id_gen_distance(point);
"""


def test_a_new_function_without_values_is_noticed() -> None:
    with Cluster() as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        before = functions(cluster)
        cluster.psql(UNKNOWN)
        (added,) = set(functions(cluster)) - set(before)
        with pytest.raises(LookupError, match=r"'place point' to HOSTILE in tests/harness/arguments.py"):
            calls(added, HOSTILE)


def test_every_function_has_values_for_valgrind() -> None:
    """The test under valgrind, which calls them, runs only for a release."""
    with Cluster() as cluster:
        cluster.psql(CREATE_ALL)
        assert len(fuzzed(functions(cluster))) > 20


@pytest.mark.parametrize("encoding", ["UTF8", "EUC_JP", "LATIN1", "SQL_ASCII"])
def test_a_refusal_is_readable_in_every_encoding(encoding: str) -> None:
    """It repeats what was typed, in the encoding of the database: another would end the message, or the session."""
    with Cluster() as cluster:
        cluster.psql(f"CREATE DATABASE other ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        cluster.psql("CREATE EXTENSION id_gen", dbname="other")
        typed = "é" if encoding != "SQL_ASCII" else r"\xff"
        with pytest.raises(SqlError) as refused:
            cluster.psql(f"SET client_encoding = 'UTF8';\nSELECT snowflake_parse(1, E'{typed}')", dbname="other")
        assert refused.value.sqlstate == UNDEFINED_OBJECT
        shown = {"UTF8": "é", "EUC_JP": "???", "LATIN1": "?", "SQL_ASCII": "?"}[encoding]
        assert refused.value.message == f'there is no layout named "{shown}"'


def test_the_latest_timestamp_is_not_taken_for_an_early_one() -> None:
    """No layout has IDs above it."""
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        error = refusal(cluster, "SELECT id_gen_reservation_reset('294276-12-31 23:59:59.999999+00')")
        assert error.sqlstate == OUT_OF_RANGE
        assert int(cluster.psql("SELECT snowflake_next()")) > 0
