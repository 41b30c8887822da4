"""Whatever a function is given, it answers, or refuses with an SQLSTATE of its own; the session lives on.

The functions are those that the extension has, so that a new one is tried as soon as it exists.
"""

import itertools
import random
from collections import Counter

import pytest
from psycopg import sql

from harness import GENERATING, Cluster, SqlError
from harness.ids import PATIENT, refusal

CALLS_PER_FUNCTION = 3_000
INTERNAL_ERROR = "XX000"
UNDEFINED_OBJECT = "42704"
OUT_OF_RANGE = "22008"

# Values of each type, as SQL without its cast.
LAYOUTS = [
    "NULL",
    "''",
    "' '",
    "'discord'",
    "'DISCORD'",
    "'js'",
    "E'\\x01\\x7f'",
    "'ﬀ😀\u202e'",
    "E'time\\u00a0:41'",
    "'%s %n %1$*2$d'",
    "repeat('x', 1 << 20)",
    "repeat('epoch=2024-01-01 ', 1 << 16)",
    "repeat('time:1 ', 1 << 17)",
    "'epoch=2024-01-01 time:41 sequence:12' || repeat(' ', 1 << 20)",
    "'epoch=2024-01-01 time:1 sequence:1'",
    "'epoch=2024-01-01 unsigned time:1 worker:31 datacenter:1 sequence:31'",
    "'epoch=2024-01-01 tick=3600s time:30 sequence:31'",
    "'epoch=2024-01-01 time:4294967295 sequence:1'",
    "'epoch=2024-01-01 time:99999999999999999999 sequence:1'",
    "'epoch=-009000-01-01 time:41 sequence:12'",
    "'epoch=9223372036854775807ms time:1 sequence:1'",
    "'epoch=-9223372036854775808ms time:1 sequence:1'",
    "'epoch=-377705023201000ms time:48 sequence:12'",
    "'epoch=2024-01-01 tick=-1ms time:41 sequence:12'",
    "'epoch=2024-01-01T00:00:60Z time:41 sequence:12'",
]
VERSIONS_AND_VARIANTS = itertools.product(range(16), repeat=2)
VALUES = {
    "bigint": [
        "NULL", "0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740992", "175928847299117063",
    ],
    "boolean": ["NULL", "false", "true"],
    "double precision": ["NULL", "0", "1", "-0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1e308", "5e-324"],
    "regclass": ["NULL", "0", "4294967295", "'pg_class'", "'pg_stat_activity'", "'pg_attribute_relid_attnam_index'"],
    "integer": ["NULL", "0", "1", "-1", "31", "32", "4096", "2147483647", "-2147483648"],
    "text": LAYOUTS,
    "timestamp with time zone": [
        "NULL", "'infinity'", "'-infinity'", "'4714-11-24 00:00:00+00 BC'", "'294276-12-31 23:59:59.999999+00'",
        "'epoch'", "'1969-12-31 23:59:59.999999+00'", "'2000-01-01'", "'2026-01-01'", "'10889-08-02 05:31:50.655+00'",
        "'10889-08-02 05:31:50.656+00'",
    ],
    "interval": [
        "NULL", "'0'", "'-1 us'", "'178000000 years'", "'-178000000 years'", "'2147483647 days'", "'8870 years'",
        "'-2562047788:00:54.775808'",
    ],
    "uuid": [
        "NULL",
        *(f"'017f22e2-79b0-{version:x}cc3-{variant:x}8c4-dc0c0c07398f'" for version, variant in VERSIONS_AND_VARIANTS),
        "'00000000-0000-0000-0000-000000000000'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "'ffffffff-ffff-1fff-bfff-ffffffffffff'",
        "'ffffffff-ffff-7fff-bfff-ffffffffffff'",
    ],
}  # fmt: skip
INTERVAL_SINCE_17 = ["'infinity'", "'-infinity'"]

FUNCTIONS = """
SELECT p.oid::regproc::text,
       ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a(t, n) ORDER BY n)
  FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
 WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'id_gen')
 ORDER BY 1, 2
"""
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


def calls(name: str, types: list[str], values: dict[str, list[str]]) -> list[str]:
    """Every combination of values, or as many at random as the test has time for."""
    choices = [[f"{value}::{each}" for value in values[each]] for each in types]
    combinations = list(itertools.product(*choices))
    if len(combinations) > CALLS_PER_FUNCTION:
        combinations = random.Random(name).sample(combinations, CALLS_PER_FUNCTION)
    return [f"{name}({', '.join(arguments)})" for arguments in combinations]


def test_hostile_arguments() -> None:
    with Cluster(conf=GENERATING + PATIENT) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        cluster.psql(ATTEMPT)
        with cluster.connect(options="-c client_min_messages=error -c search_path=public,pg_catalog") as connection:
            values = VALUES
            if cluster.server.version >= 17:
                values = VALUES | {"interval": VALUES["interval"] + INTERVAL_SINCE_17}
            functions = connection.execute(FUNCTIONS).fetchall()
            assert len(functions) > 20
            for name, types in functions:
                refusals: Counter[str] = Counter()
                for call in calls(name, types, values):
                    attempted = sql.SQL("SELECT answer, refused, message FROM attempt({})").format(sql.Literal(call))
                    answer, refused, message = connection.execute(attempted).fetchone()
                    assert refused != INTERNAL_ERROR, f"{call[:200]}: {message}"
                    assert refused is None or answer is None
                    refusals[refused] += 1
                assert None in refusals, f"{name}({types}) never answered: {refusals}"
                if "reset_reservation" in name:
                    # It has moved the line out of the clock's reach, and brings it back.
                    connection.execute(f"SELECT {name}(now())")
            assert connection.execute("SELECT snowflake_next() > 0").fetchone() == (True,)
        assert "terminated by signal" not in cluster.log()


# Nothing is preloaded here.
@pytest.mark.any_mode
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
        error = refusal(cluster, "SELECT id_gen_reset_reservation('294276-12-31 23:59:59.999999+00')")
        assert error.sqlstate == OUT_OF_RANGE
        assert int(cluster.psql("SELECT snowflake_next()")) > 0
