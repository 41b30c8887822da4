"""What the extension's functions are called with, by the type of an argument or, where that is not enough, by its name.

A new function is called with these values as soon as it exists. If it has an argument of a type that is missing here,
the tests that call every function fail, and name the table to add it to: this is the one place to do that. A key is a
type as `format_type()` writes it, or a name and a type with a space between them, which goes first; with the function's
name before them it goes before both, for what is a text of another shape in each function.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import TypeVar

from harness.catalog import Argument, Function

Value = TypeVar("Value")

# A shard that the server of a test has.
SHARD = 7

# Spelled as no preset is, and longer than PostgreSQL stores without compressing once it is repeated or padded.
LAYOUT = "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12"

# What every call answers: SQL in which `i` is the number of the call, a bigint.
ORDINARY = {
    "bigint": "(3 << 22) + i",
    "ids_per_second bigint": "10000",
    "integer": "1",
    # Whoever calls such a function takes the shard first.
    "shard integer": str(SHARD),
    "registry text": "NULL",
    "datacenter_id integer": "0",
    "worker_id integer": "1",
    "sequence integer": "2",
    "count integer": "2",
    "boolean": "true",
    "double precision": "0.5",
    "interval": "interval '1 day'",
    "grant_duration interval": "interval '30 s'",
    "renewal_interval interval": "interval '5 s'",
    "max_clock_skew interval": "interval '3 s'",
    "timestamp with time zone": "timestamptz '2026-01-01' + i * interval '1 ms'",
    "uuid": "public.uuidv7()",
    "layout text": f"'{LAYOUT}'",
    # A table that the test has made, and a column of it.
    "relation regclass": "'stored'::regclass",
    # Refused as none; who may ask is told first.
    "sequence regclass": "'pg_catalog.pg_class'::regclass",
    "column_name text": "'id'",
    "sample_percent double precision": "100",
    "target text": "''",
    "created_at text": "''",
    "worker_ids integer[]": "ARRAY[1]",
    "others regclass[]": "ARRAY[]::regclass[]",
    "schema regnamespace": "'public'::regnamespace",
    "node integer": "1",
    "node_count integer": "2",
    "new_node_count integer": "3",
    "regions integer": "2",
    "shards integer": "0",
    "above bigint": "1000000",
    "sequences regclass[]": "NULL::regclass[]",
    "id text": "lpad(i::text, 19, '0')",
    "uuidv7_time_decoder id text": "public.uuidv7()::text",
    "format text": "'base58'",
    "prefix text": "'user'",
    "size integer": "20",
    "alphabet text": "'0123456789ABCDEF'",
    "name text": "'www.example.com/' || i",
    "namespace text": "'dns'",
    "id_decode_bigint id text": "id_encode(i, 'base58')",
    "id_decode_uuid id text": "id_encode(uuidv7_max(to_timestamp(i)), 'base58')",
    "id_random_parse id text": "'user' || lpad(i::text, 20, '0')",
    "typeid_decode id text": "typeid_encode(uuidv7_max(to_timestamp(i)), 'user')",
    "typeid_prefix id text": "typeid_encode(uuidv7_max(to_timestamp(i)), 'user')",
    "typeid_timestamp id text": "typeid_encode(uuidv7_max(to_timestamp(i)), 'user')",
    "ulid_decode id text": "ulid_encode(uuidv7_max(to_timestamp(i)))",
    "uuidv6_timestamp id uuid": "uuidv6()",
    "uuidv8_to_snowflake id uuid": "uuidv8_from_snowflake(i, 1)",
    "numbers bigint[]": "ARRAY[i, 7]",
    "sqids_decode id text": "sqids_encode(ARRAY[i, 7], 1, '0123456789ABCDEF')",
    # Of the keys that harness/masks.py has.
    "domain text": "'orders'",
    "key_version integer": "1",
    "id_unmask_text_bigint masked text": "'1_' || id_encode(i, 'base58')",
    "id_unmask_text_uuid masked text": "'1_' || id_encode(uuidv7_max(to_timestamp(i)), 'base58')",
}

# What the fuzzer found, in two tables of the test under valgrind: a function is called with every row of each table
# that has values for its arguments. CONSTANT has values for arguments that no table has.
FUZZED = {
    "given": {
        "bigint": "number",
        "timestamp with time zone": "instant",
        "layout text": "layout",
        "id text": "number::text",
        "name text": "layout",
        "namespace text": "CASE WHEN place % 2 = 0 THEN 'dns' ELSE layout END",
        "id_decode_bigint id text": "CASE WHEN place % 2 = 0 THEN id_encode(number, 'base62') ELSE layout END",
        "id_random_parse id text": "CASE WHEN place % 2 = 0 THEN 'user' || lpad(place::text, 9, '0') ELSE layout END",
        "typeid_prefix id text": "layout",
        "typeid_timestamp id text": "layout",
        "ulid_decode id text": "layout",
        "numbers bigint[]": "ARRAY[abs(number % 1000), place]",
        "sqids_decode id text": "CASE WHEN place % 2 = 0 THEN sqids_encode('{7}', 0, '0123456789') ELSE layout END",
        "domain text": "layout",
        "id_unmask_text_bigint masked text": (
            "CASE WHEN place % 2 = 0 THEN '1_' || id_encode(number, 'base58') ELSE layout END"
        ),
    },
    "uuid_given": {
        "uuid": "id",
        "uuidv7_time_decoder id text": "id::text",
        "id_decode_uuid id text": "id_encode(id, 'base62')",
        "typeid_decode id text": "typeid_encode(id, 'user')",
        "typeid_prefix id text": "typeid_encode(id, 'user')",
        "typeid_timestamp id text": "typeid_encode(id, 'user')",
        "ulid_decode id text": "ulid_encode(id)",
        "id_unmask_text_uuid masked text": "'1_' || id_encode(id, 'base58')",
        "timestamp with time zone": "public.uuid_extract_timestamp(id)",
    },
}
CONSTANT = {
    "ids_per_second bigint": "10000",
    "servers integer": "10",
    "years integer": "30",
    "count integer": "1000",
    "shard integer": str(SHARD),
    "integer": "0",
    "boolean": "true",
    "double precision": "0.5",
    "interval": "interval '1 day'",
    "relation regclass": "'given'::regclass",
    "column_name text": "'number'",
    # Its values must be below the snowflakes to come.
    "id_gen_convert_plan column_name text": "'place'",
    # Few rows, as it is asked for once for each.
    "sample_percent double precision": "0.0001",
    "target text": "''",
    "created_at text": "''",
    "worker_ids integer[]": "'{0,1}'",
    "others regclass[]": "'{}'",
    "schema regnamespace": "'public'",
    "node integer": "1",
    "node_count integer": "2",
    "new_node_count integer": "3",
    "regions integer": "2",
    "shards integer": "0",
    "above bigint": "1000000",
    "sequences regclass[]": "'{}'",
    "format text": "'base62'",
    "prefix text": "'user'",
    "size integer": "9",
    "alphabet text": "'0123456789'",
    "namespace uuid": "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
    "namespace bigint": "1",
    "domain text": "'orders'",
    "key_version integer": "1",
}

# What nobody should call a function with: SQL without its cast.
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
# What is an ID in one of the formats, or nearly one.
IDS = [
    "'01ARZ3NDEKTSV4RRFFQ69G5FAV'",
    "'01arz3ndektsv4rrffq69g5fav'",
    "'user_2x4y6z8a0b1c2d3e4f5g6h7j8k'",
    "'_2x4y6z8a0b1c2d3e4f5g6h7j8k'",
    "repeat('x', 64) || '_2x4y6z8a0b1c2d3e4f5g6h7j8k'",
    "'user_' || repeat('x', 1 << 20)",
    "repeat('_', 1 << 20)",
    *(f"repeat('{symbol}', {width})" for symbol in "01Zz~" for width in (11, 13, 22, 25, 26)),
    "repeat('é', 13)",
    r"E'\x01\x7f\x01\x7f\x01\x7f\x01\x7f\x01\x7f\x01'",
]
# What is a masked ID as text, or nearly one.
MASKED = [
    "'1_11111111111'",
    "'1_1111111111111111111111'",
    "'2_11111111111'",
    "'01_11111111111'",
    "'32767_11111111111'",
    "'32768_11111111111'",
    "'-1_11111111111'",
    "'1__1111111111'",
    "'1_zzzzzzzzzzz'",
    "'1_zzzzzzzzzzzzzzzzzzzzzz'",
    "'1_0OIl1111111'",
    "'1_' || repeat('1', 1 << 20)",
    "repeat('1', 1 << 20) || '_11111111111'",
]
VERSIONS_AND_VARIANTS = itertools.product(range(16), repeat=2)
HOSTILE = {
    "bigint": [
        "NULL", "0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740992", "175928847299117063",
    ],
    "boolean": ["NULL", "false", "true"],
    # NULL, its default, is a value of its own.
    "sortable boolean": ["false", "true"],
    "double precision": ["NULL", "0", "1", "-0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1e308", "5e-324"],
    "regclass": ["NULL", "0", "4294967295", "'pg_class'", "'pg_stat_activity'", "'pg_attribute_relid_attnam_index'"],
    # In parentheses: a default, with which it may answer.
    "id_gen_check relation regclass": ["(NULL)", "0", "4294967295", "'pg_class'", "'pg_stat_activity'"],
    "id_gen_check column_name text": ["(NULL)", *LAYOUTS[1:], "'oid'", "'ctid'", "repeat('x', 1 << 20)"],
    "id_gen_check newest bigint": ["(NULL)", "0", "-1", "9223372036854775807", "-9223372036854775808"],
    "id_gen_fleet_lower worker_id integer": ["(NULL)", "0", "1", "-1", "31", "2147483647", "-2147483648"],
    "id_gen_fleet_report_restore registry text": ["(NULL)", "''", "'etcd 1'", "repeat('x', 1 << 20)"],
    "id_gen_fleet_lower shard integer": ["(NULL)", str(SHARD), "0", "-1", "31", "2147483647", "-2147483648"],
    "sample_percent double precision": ["NULL", "0", "100", "100.1", "-1", "'NaN'", "'Infinity'", "1e308", "5e-324"],
    "bigint[]": [
        "NULL", "'{}'", "'{1,2,3}'", "'{NULL}'", "'{-1}'", "'{9223372036854775807}'",
        "'[5:6]={1,2}'", "'{{1,2},{3,4}}'",
        "array_fill(1, ARRAY[100])", "array_fill(1, ARRAY[100000])",
    ],
    "integer[]": ["NULL", "'{}'", "'{NULL,-1,2147483647}'", "'[5:6]={1,2}'", "'{{1,2},{3,4}}'"],
    "regclass[]": ["NULL", "'{}'", "'{pg_class}'", "'{pg_class,pg_class}'", "'{NULL}'", "'{0}'", "'{4294967295}'"],
    "schema regnamespace": ["NULL", "0", "4294967295", "'pg_catalog'", "'public'", "'pg_toast'"],
    # These two may be left out.
    "above bigint": ["0", "-1", "9223372036854775807", "-9223372036854775808"],
    "sequences regclass[]": ["'{}'", "'{pg_class}'", "'{NULL}'", "'{0}'", "'{4294967295}'", "'{{0},{0}}'"],
    "node_count integer": ["NULL", "0", "1", "2", "-1", "2147483647", "-2147483648"],
    "integer": ["NULL", "0", "1", "-1", "31", "32", "4096", "2147483647", "-2147483648"],
    "shard integer": ["NULL", str(SHARD), "0", "1", "-1", "31", "32", "2147483647", "-2147483648"],
    "text": LAYOUTS,
    "format text": [
        "NULL", "''", "'crockford'", "'base32hex'", "'base36'", "'base58'", "'base62'", "'BASE62'", "'base6'",
        "' base62'", "E'base62\\x01'", "repeat('base62', 1 << 17)",
    ],
    "id text": [*LAYOUTS, *IDS],
    "ulid_decode id text": [*LAYOUTS, *IDS],
    "sqids_decode id text": [*LAYOUTS, "'86Rf07'"],
    "id_random_parse id text": ["NULL", "''", "'a'", "'usera'", "repeat('a', 1024)", "repeat('a', 1 << 20)"],
    "masked text": [*LAYOUTS, *MASKED],
    "domain text": [
        "NULL", "''", "'orders'", "'é'", "'orders' || repeat(' ', 249)", "repeat('x', 256)", "repeat('x', 1 << 20)",
    ],
    "prefix text": [
        "NULL", "''", "'user'", "'user_'", "'USER'", "'é'", "repeat('x', 64)", "repeat('x', 1 << 20)",
    ],
    "alphabet text": [
        "NULL", "''", "'a'", "'ab'", "'aba'", "'a b'", "'aé'", "repeat('ab', 1 << 19)", "'abcdefghijk'",
    ],
    "size integer": ["NULL", "0", "1", "1024", "1025", "-2147483648"],
    "grant_duration interval": ["NULL", "'0'", "'-1 us'", "'30 s'", "'1 day'", "'1 month'", "'178000000 years'"],
    "renewal_interval interval": ["NULL", "'0'", "'-1 us'", "'5 s'", "'1 day'", "'-178000000 years'"],
    "max_clock_skew interval": ["NULL", "'0'", "'-1 us'", "'3 s'", "'2147483647 days'"],
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
HOSTILE_SINCE_17 = HOSTILE | {"interval": [*HOSTILE["interval"], "'infinity'", "'-infinity'"]}


def rule(rules: Mapping[str, Value], function: Function, argument: Argument) -> Value | None:
    """What a table has for an argument of a function."""
    named = " ".join(argument).strip()
    for key in (f"{function.bare_name} {named}", named, argument.type):
        if key in rules:
            return rules[key]
    return None


def values(function: Function, rules: Mapping[str, Value], table: str) -> list[Value]:
    """What a table has for each argument of a function. The error for a missing one names the table."""
    found = []
    for argument in function.arguments:
        value = rule(rules, function, argument)
        if value is None:
            raise LookupError(
                f"{function} cannot be called: add its argument {' '.join(argument).strip()!r} to {table} in "
                "tests/harness/arguments.py"
            )
        found.append(value)
    return found


def fuzzed(every: Iterable[Function]) -> dict[Function, dict[str | None, list[str]]]:
    """What functions are called with under valgrind: of each table that has something for a function, and together with
    what is constant everything, its columns; only what is constant, if there is no such table.

    Those that change the server's state are not for that.
    """
    found: dict[Function, dict[str | None, list[str]]] = {}
    for function in every:
        if function.is_of_library and not function.is_for_superusers:
            found[function] = {
                table: values(function, CONSTANT | columns, "FUZZED")
                for table, columns in FUZZED.items()
                if takes_from(function, columns)
            } or {None: values(function, CONSTANT, "FUZZED or CONSTANT")}
    return found


def takes_from(function: Function, columns: Mapping[str, str]) -> bool:
    rules = [rule(CONSTANT | columns, function, argument) for argument in function.arguments]
    return None not in rules and not set(columns.values()).isdisjoint(rules)
