"""The UUID functions return on every server what the newest PostgreSQL's own functions return."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness import Cluster, Server, SqlError

PATH = Server.upgrade_path()

# Versions 1 to 8, the two without time, other variants, and the ends of what a time can be.
UUIDS = """(VALUES
    ('C232AB00-9414-11EC-B3C8-9F6BDECED846'), ('017F22E2-79B0-7CC3-98C4-DC0C0C07398F'),
    ('5C146B14-3C52-8AFD-938A-375D0DF1FBF6'), ('1EC9414C-232A-6B00-B3C8-9F6BDECED846'),
    ('919108F7-52D1-4320-9BAC-F847DB4148A8'), ('2ED6657D-E927-568B-95E1-2665A8AEA6A2'),
    ('5DF41881-3AED-3515-88A7-2F4A814CF09E'), ('000003E8-CBB9-21EA-B201-00045A86C8A1'),
    ('00000000-0000-0000-0000-000000000000'), ('FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'),
    ('11111111-1111-1111-1111-111111111111'), ('11111111-1111-7111-C111-111111111111'),
    ('00000000-0000-1000-8000-000000000000'), ('FFFFFFFF-FFFF-1FFF-BFFF-FFFFFFFFFFFF'),
    ('00000000-0000-7000-8000-000000000000'), ('FFFFFFFF-FFFF-7FFF-BFFF-FFFFFFFFFFFF'),
    ('13814000-1DD2-11B2-8000-000000000000'), ('13813FFF-1DD2-11B2-BFFF-FFFFFFFFFFFF'),
    (NULL)) AS given (id)"""

# Each is asked with the functions of one schema in place of {schema}.
QUERIES = {
    "versions": "SELECT id, {schema}.uuid_extract_version(id::uuid) FROM " + UUIDS,
    "times": "SELECT id, {schema}.uuid_extract_timestamp(id::uuid) FROM " + UUIDS,
    "result types": """
        SELECT pg_typeof({schema}.uuid_extract_version(NULL)), pg_typeof({schema}.uuid_extract_timestamp(NULL)),
               pg_typeof({schema}.uuidv7()), pg_typeof({schema}.uuidv7('1 day'))
    """,
    "a new one": """
        SELECT {schema}.uuid_extract_version(id),
               {schema}.uuid_extract_timestamp(id) BETWEEN now() - interval '1 minute' AND clock_timestamp()
          FROM {schema}.uuidv7() id
    """,
    "increasing": """
        SELECT bool_and(id > before)
          FROM (SELECT id, lag(id) OVER (ORDER BY place) AS before
                  FROM (SELECT place, {schema}.uuidv7() AS id FROM generate_series(1, 10000) place) made) pairs
    """,
    "shifted": """
        SELECT shift, {schema}.uuid_extract_version(id),
               abs(extract(epoch FROM {schema}.uuid_extract_timestamp(id) - (clock_timestamp() + shift))) < 60
          FROM (VALUES (interval '0'), ('-1 day'), ('1 hour'), ('-3 months'), ('100 years')) shifts (shift),
               LATERAL {schema}.uuidv7(shift) id
    """,
    # The first and the last year that a UUID carries as a whole.
    "shifted to every year": """
        SELECT count(*), count(*) FILTER (WHERE at > before), min(extract(year FROM at)), max(extract(year FROM at))
          FROM (SELECT at, lag(at) OVER (ORDER BY year) AS before
                  FROM generate_series(1970, 10888) year,
                       LATERAL (SELECT (year - extract(year FROM clock_timestamp()))::integer) past (years),
                       LATERAL {schema}.uuid_extract_timestamp({schema}.uuidv7(make_interval(years))) at) times
    """,
    "distinct": """
        SELECT count(DISTINCT id)
          FROM (VALUES ({schema}.uuidv7()), ({schema}.uuidv7()), ({schema}.uuidv7('1 day'))) made (id)
    """,
    "sorted as they were made": """
        SELECT array_agg(place ORDER BY id)
          FROM (SELECT place, {schema}.uuidv7() AS id FROM generate_series(1, 10) place) made
    """,
    "shifted by nothing known": "SELECT {schema}.uuidv7(NULL::interval) IS NULL",
    "promises to the planner": """
        SELECT proname, pronargs, provolatile, proisstrict
          FROM pg_proc
         WHERE pronamespace = '{schema}'::regnamespace
           AND proname IN ('uuidv7', 'uuid_extract_version', 'uuid_extract_timestamp')
         ORDER BY proname, pronargs
    """,
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[list[Cluster]]:
    with ExitStack() as stack:
        started = [stack.enter_context(Cluster(f"pg{server.version}", server=server)) for server in PATH]
        for cluster in started:
            cluster.psql("CREATE EXTENSION id_gen")
        yield started


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_same_answers(clusters: list[Cluster], query: str) -> None:
    asked = "\\pset null NULL\n" + query
    expected = clusters[-1].psql(asked.format(schema="pg_catalog"))
    assert expected
    for cluster in clusters:
        assert cluster.psql(asked.format(schema="public")) == expected, cluster.name


# Times before the first and after the last that a UUID carries, and none.
OUTSIDE = ("-100 years", "8900 years", "infinity", "-infinity")


@pytest.mark.parametrize("shift", OUTSIDE)
def test_same_refusals(clusters: list[Cluster], shift: str) -> None:
    for cluster in clusters:
        schemas = ["public", *(["pg_catalog"] if cluster is clusters[-1] else [])]
        # Before 17, an interval can't be infinite.
        expected = "22008" if cluster.server.version >= 17 or "infinity" not in shift else "22007"
        for schema in schemas:
            with pytest.raises(SqlError) as refused:
                cluster.psql(f"SELECT {schema}.uuidv7('{shift}')")
            assert refused.value.sqlstate == expected, (cluster.name, schema)
