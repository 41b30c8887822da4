"""The script has the extension's functions: each with its signature, and with its answer to the same call, value or
error, for every preset, for layouts of one's own, for edges and for random values.
"""

import json
import random
from collections.abc import Iterator

import pytest

from harness import GENERATING, Cluster
from harness.ids import NARROW_LAYOUT
from harness.managed import DATABASE, as_owner, configure, install

PROMISED = {
    "snowflake_next", "snowflake_next_batch", "snowflake_next_array", "snowflake_parse", "snowflake_timestamp",
    "snowflake_worker_id", "snowflake_datacenter_id", "snowflake_min", "snowflake_max", "snowflake_make",
    "snowflake_layouts",
    "uuidv7", "uuidv7_timestamp", "uuidv7_min", "uuidv7_max", "uuidv7_time_decoder",
}  # fmt: skip
# What takes the library's other functions to be of use.
LACKING = {("snowflake_next", "shard integer")}
# They move sequences or set parameters, which PostgreSQL refuses during a parallel query, in its leader too.
GENERATING_FUNCTIONS = {"snowflake_next", "snowflake_next_batch", "snowflake_next_array", "uuidv7"}

SIGNATURES = """
    SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.provolatile, p.proisstrict,
           p.proparallel, obj_description(p.oid, 'pg_proc') IS NOT NULL
      FROM pg_proc p
     WHERE p.pronamespace = 'public'::regnamespace AND p.proname ~ '^(snowflake|uuidv7)'
     ORDER BY p.proname, 2
"""

# What a statement answers, or how it is refused.
OUTCOME = """
    CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
    DECLARE answer text;
    BEGIN
        EXECUTE statement INTO answer;
        RETURN coalesce(answer, 'NULL');
    EXCEPTION WHEN OTHERS THEN
        RETURN SQLSTATE || ' ' || SQLERRM;
    END $$
"""

PRESETS = ["default", "twitter", "discord", "instagram", "sonyflake", "baidu", "leaf", "pgedge", "wide", "js"]
CUSTOM = [
    NARROW_LAYOUT,
    " \\t default\\n",
    "epoch=1969-12-31 time:41 sequence:12",
    "epoch=2010-11-04T02:42:54.657+01 tick=2s unsigned time:30 worker:3 sequence:31",
    "epoch=-86400001ms tick=3600s time:20 datacenter:1 sequence:1",
    "  time:39\\tsequence:8 tick=10ms worker:16\\n epoch=2014-09-01 ",
    "epoch=2024-01-01 unsigned time:33 worker:31",
    "epoch=0ms time:47 worker:4 sequence:12",
    "epoch=1288834974657ms tick=+7ms time:41 worker:+10 sequence:12",
    "epoch=2024-01-01 tick=1s unsigned time:33 sequence:13 worker:18",
]
REFUSED = [
    "", "twiter", "DEFAULT", "default twitter", "time:41 sequence:12", "epoch=2024-01-01 sequence:12",
    "epoch=2024-01-01 time:41", "epoch=2024-01-01 time:41 shard:5 sequence:12", "epoch=2024-01-01 time 41",
    "epoch=soon time:41 sequence:12", "epoch=2024-02-30 time:41 sequence:12", "epoch= time:41 sequence:12",
    "epoch=2024-01-01 epoch=2024-01-01 time:41 sequence:12", "epoch=2024-01-01 time:41 time:41 sequence:12",
    "epoch=2010-11-04T01:42:54 time:41 sequence:12", "epoch=99999999999999999999ms time:41 sequence:12",
    "epoch=2024-01-01 tick=0ms time:41 sequence:12", "epoch=2024-01-01 tick=4000000s time:41 sequence:12",
    "epoch=2024-01-01 tick=5000000000s time:41 sequence:12", "epoch=2024-01-01 tick=1 time:41 sequence:12",
    "epoch=2024-01-01 tick=1ms tick=1ms time:41 sequence:12", "epoch=2024-01-01 time:x sequence:12",
    "epoch=2024-01-01 time:41 worker:-1 sequence:12", "epoch=2024-01-01 time:0 sequence:12",
    "epoch=2024-01-01 time:41 worker:0 sequence:12", "epoch=2024-01-01 time:20 sequence:32",
    "epoch=2024-01-01 time:64 sequence:1", "epoch=2024-01-01 time:4294967296 sequence:1",
    "epoch=2024-01-01 time:41 worker:11 sequence:12", "epoch=2024-01-01 unsigned time:41 worker:12 sequence:12",
    "epoch=2024-01-01 unsigned unsigned time:41 sequence:12", "epoch=2024-01-01 worker:10 time:41 sequence:12",
    "epoch=2024-01-01 tick=3600s time:50 sequence:12", "epoch=9223372036854775807ms time:41 sequence:12",
    "epoch=-9223372036854775808ms time:41 sequence:12", "epoch=2024-01-01 time:41 unsigned:1 sequence:12",
]  # fmt: skip
SAMPLES = 60
TIMES = [
    "'-infinity'", "'infinity'", "'4713-01-01 00:00+00 BC'", "'294276-12-31 23:59:59.999999+00'",
    "'1970-01-01 00:00+00'",
    "'1969-12-31 23:59:59.999999+00'", "'2010-11-04 01:42:54.656999+00'", "'2010-11-04 01:42:54.657+00'",
    "'2023-12-31 23:59:59.999999+00'", "'2024-01-01 00:00+00'", "'2024-01-01 00:00:00.000999+00'",
    "'2093-09-06 15:47:35.551999+00'", "'2093-09-06 15:47:35.552+00'", "'9999-12-30 21:59:59.999999+00'",
    "'10889-08-02 05:31:50.655+00'", "'10889-08-02 05:31:50.656+00'",
]  # fmt: skip
INT8_EDGES = [0, 1, -1, 2**63 - 1, -(2**63), 2**53, 175928847299117063]
INT4_EDGES = [0, 1, -1, 31, 32, 1023, 2**31 - 1, -(2**31)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("alike", conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        install(cluster)
        for dbname in ("postgres", DATABASE):
            cluster.psql(OUTCOME, dbname)
        yield cluster


def text(value: str) -> str:
    return f"E'{value}'"


def calls(draw: random.Random) -> Iterator[str]:
    """Statements that both must answer alike."""
    for layout in map(text, PRESETS + CUSTOM):
        ids = INT8_EDGES + [draw.getrandbits(draw.randint(1, 64)) - 2**63 * draw.randint(0, 1) for _ in range(SAMPLES)]
        for each in (min(max(each, -(2**63)), 2**63 - 1) for each in ids):
            yield f"SELECT snowflake_parse('{each}'::bigint, {layout})"
            yield f"SELECT snowflake_timestamp('{each}'::bigint, {layout})"
            yield f"SELECT snowflake_worker_id('{each}'::bigint, {layout})"
            yield f"SELECT snowflake_datacenter_id('{each}'::bigint, {layout})"
        times = TIMES + [f"to_timestamp({draw.uniform(-1e8, 5e9):.6f})" for _ in range(SAMPLES)]
        for time in times:
            for bound in ("min", "max"):
                yield f"SELECT snowflake_{bound}({time}::timestamptz, {layout})"
            numbers = ", ".join(str(draw.choice([draw.getrandbits(5), draw.choice(INT4_EDGES)])) for _ in range(3))
            yield f"SELECT snowflake_make({time}::timestamptz, {numbers}, {layout})"
    for layout in map(text, REFUSED):
        yield f"SELECT snowflake_parse(1, {layout})"
        yield f"SELECT snowflake_min('2025-01-01', {layout})"
    for each in ("NULL", "1", "-1"):
        for call in (
            "parse({})",
            "timestamp({})",
            "worker_id({})",
            "datacenter_id({})",
            "parse({}, NULL)",
            "timestamp({}, 'default')",
        ):
            yield f"SELECT snowflake_{call.format(each)}"
    for time in TIMES:
        yield f"SELECT snowflake_min({time})"
        yield f"SELECT snowflake_max({time})"
        yield f"SELECT snowflake_make({time}, 0, 1, 2)"
        yield f"SELECT uuidv7_min({time})"
        yield f"SELECT uuidv7_max({time})"
    for count in ("NULL", "0", "-1"):
        yield f"SELECT snowflake_next_batch({count})"
        yield f"SELECT snowflake_next_array({count})"
    for uuid in ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff",
                 "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
                 "017f22e2-79b0-4cc3-98c4-dc0c0c07398f"):  # fmt: skip
        yield f"SELECT uuidv7_timestamp('{uuid}')"
        yield f"SELECT uuidv7_time_decoder('{uuid}')"
    for shift in ("-100 years", "9000 years", "infinity years"):
        yield f"SELECT public.uuidv7(interval '{shift}')"


def outcomes(cluster: Cluster, dbname: str, statements: list[str], zone: str) -> list[str]:
    with cluster.connect(dbname) as connection:
        connection.execute(f"SET TimeZone = '{zone}'".encode())
        rows = connection.execute(
            "SELECT outcome(statement) FROM jsonb_array_elements_text(%s::jsonb)"
            " WITH ORDINALITY AS given (statement, place) ORDER BY place",
            [json.dumps(statements)],
        )
        return [row[0] for row in rows]


def test_signatures(cluster: Cluster) -> None:
    library = {tuple(row.split("|")[:2]): row.split("|")[2:] for row in cluster.psql(SIGNATURES).splitlines()}
    script = {tuple(row.split("|")[:2]): row.split("|")[2:] for row in cluster.psql(SIGNATURES, DATABASE).splitlines()}
    assert {name for name, _ in script} == PROMISED
    # Of these names it has every form.
    assert {key for key in library if key[0] in PROMISED} - LACKING == set(script)
    for key, (*properties, parallel, comment) in script.items():
        assert properties == library[key][:-2], key
        assert parallel == ("u" if key[0] in GENERATING_FUNCTIONS else library[key][-2]), key
        assert comment == "t", key


@pytest.mark.parametrize(("seed", "zone"), [(1, "UTC"), (2, "America/St_Johns")])
def test_answers(cluster: Cluster, seed: int, zone: str) -> None:
    statements = list(calls(random.Random(seed)))
    both = (outcomes(cluster, dbname, statements, zone) for dbname in ("postgres", DATABASE))
    different = [each for each in zip(statements, *both, strict=True) if each[1] != each[2]]
    assert not different, f"{len(different)} of {len(statements)} answers differ, among them {different[:8]}"


def test_layouts(cluster: Cluster) -> None:
    query = "SELECT * FROM snowflake_layouts()"
    assert cluster.psql(query, DATABASE) == cluster.psql(query)


@pytest.mark.any_server
def test_layout_of_ones_own() -> None:
    query = "SELECT * FROM snowflake_layouts() WHERE in_use"
    parse = "SELECT (snowflake_parse(snowflake_make('2026-01-01', 3, 4, 5))).*, snowflake_min('2026-01-01')"
    with Cluster("custom", conf=f"{GENERATING}id_gen.layout = '{NARROW_LAYOUT}'\n") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        install(cluster, layout=NARROW_LAYOUT)
        for each in (query, parse):
            assert cluster.psql(each, DATABASE) == cluster.psql(each)


@pytest.mark.any_server
@pytest.mark.parametrize("layout", [each for each in PRESETS if each != "baidu"] + [CUSTOM[7], CUSTOM[9]])
def test_an_id_has_the_number_and_the_time(cluster: Cluster, layout: str) -> None:
    """Those of the script, as the library takes them apart."""
    has_datacenter = layout in ("default", "twitter", "discord")
    dbname = f"of_{PRESETS.index(layout) if layout in PRESETS else CUSTOM.index(layout) + 10}"
    install(cluster, dbname, layout=layout, datacenter_id=int(has_datacenter), max_lead="4 s", worker_id=5)
    given = as_owner(cluster, "SELECT snowflake_next() UNION ALL SELECT unnest(snowflake_next_array(99))", dbname)
    ids = list(map(int, given.splitlines()))
    assert sorted(set(ids)) == ids
    assert len(ids) == 100
    fields = cluster.psql(
        f"SELECT DISTINCT datacenter_id, worker_id, created_at - clock_timestamp() BETWEEN '-60 s' AND '6 s'"
        f" FROM unnest('{{{', '.join(map(str, ids))}}}'::bigint[]) id, snowflake_parse(id, '{layout}')"
    )
    assert fields == f"{int(has_datacenter)}|5|t"


@pytest.mark.any_server
def test_a_database_without_a_number(cluster: Cluster) -> None:
    install(cluster, "unset", worker_id=None)
    assert as_owner(cluster, "SELECT snowflake_timestamp(0)", "unset") == "2024-01-01 00:00:00+00"
    configure(cluster, "unset", worker_id=9)
    assert as_owner(cluster, "SELECT worker_id FROM snowflake_parse(snowflake_next())", "unset") == "9"
