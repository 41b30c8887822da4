"""What the extension's functions are called with, by the type of an argument or, where that is not enough, by its name.

A new function is called with these values as soon as it exists. If it has an argument of a type that is missing here,
the tests that call every function fail, and name the table to add it to: this is the one place to do that. A key is a
type as `format_type()` writes it, or a name and a type with a space between them, which goes first.
"""

import itertools
from collections.abc import Mapping
from typing import TypeVar

from harness.catalog import Argument, Function

Value = TypeVar("Value")

# Spelled as no preset is, and longer than PostgreSQL stores without compressing once it is repeated or padded.
LAYOUT = "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12"

# What every call answers: SQL in which `i` is the number of the call, a bigint.
ORDINARY = {
    "bigint": "(3 << 22) + i",
    "ids_per_second bigint": "10000",
    "integer": "1",
    "datacenter_id integer": "0",
    "worker_id integer": "1",
    "sequence integer": "2",
    "count integer": "2",
    "boolean": "true",
    "double precision": "0.5",
    "interval": "interval '1 day'",
    "waiting text": "'normal'",
    "grant_length interval": "interval '30 s'",
    "renewal_interval interval": "interval '5 s'",
    "clock_difference interval": "interval '3 s'",
    "timestamp with time zone": "timestamptz '2026-01-01' + i * interval '1 ms'",
    "uuid": "public.uuidv7()",
    "layout text": f"'{LAYOUT}'",
    # A table that the test has made, and a column of it.
    "relation regclass": "'stored'::regclass",
    "column_name text": "'id'",
    "sample_percent double precision": "100",
    "target text": "''",
    "created_at text": "''",
    "workers integer[]": "ARRAY[1]",
    "others regclass[]": "ARRAY[]::regclass[]",
    "id text": "lpad(i::text, 19, '0')",
    "uuid text": "public.uuidv7()::text",
}

# What the fuzzer found, in two tables of the test under valgrind: a function is called with every row of each table
# that has values for its arguments. CONSTANT has values for arguments that no table has.
FUZZED = {
    "given": {
        "bigint": "number",
        "timestamp with time zone": "instant",
        "layout text": "layout",
        "id text": "number::text",
    },
    "uuid_given": {
        "uuid": "id",
        "uuid text": "id::text",
        "timestamp with time zone": "public.uuid_extract_timestamp(id)",
    },
}
CONSTANT = {
    "ids_per_second bigint": "10000",
    "servers integer": "10",
    "years integer": "30",
    "count integer": "1000",
    "integer": "0",
    "boolean": "true",
    "double precision": "0.5",
    "interval": "interval '1 day'",
    "relation regclass": "'given'::regclass",
    "column_name text": "'number'",
    # Few rows, as it is asked for once for each.
    "sample_percent double precision": "0.0001",
    "target text": "''",
    "created_at text": "''",
    "workers integer[]": "'{0,1}'",
    "others regclass[]": "'{}'",
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
VERSIONS_AND_VARIANTS = itertools.product(range(16), repeat=2)
HOSTILE = {
    "bigint": [
        "NULL", "0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740992", "175928847299117063",
    ],
    "boolean": ["NULL", "false", "true"],
    "double precision": ["NULL", "0", "1", "-0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1e308", "5e-324"],
    "regclass": ["NULL", "0", "4294967295", "'pg_class'", "'pg_stat_activity'", "'pg_attribute_relid_attnam_index'"],
    "sample_percent double precision": ["NULL", "0", "100", "100.1", "-1", "'NaN'", "'Infinity'", "1e308", "5e-324"],
    "integer[]": ["NULL", "'{}'", "'{NULL,-1,2147483647}'", "'[5:6]={1,2}'", "'{{1,2},{3,4}}'"],
    "regclass[]": ["NULL", "'{}'", "'{pg_class}'", "'{pg_class,pg_class}'", "'{NULL}'", "'{0}'", "'{4294967295}'"],
    "integer": ["NULL", "0", "1", "-1", "31", "32", "4096", "2147483647", "-2147483648"],
    "text": LAYOUTS,
    "waiting text": ["NULL", "''", "'normal'", "'strict'", "'NORMAL'", "repeat('x', 1 << 20)"],
    "grant_length interval": ["NULL", "'0'", "'-1 us'", "'30 s'", "'1 day'", "'1 month'", "'178000000 years'"],
    "renewal_interval interval": ["NULL", "'0'", "'-1 us'", "'5 s'", "'1 day'", "'-178000000 years'"],
    "clock_difference interval": ["NULL", "'0'", "'-1 us'", "'3 s'", "'2147483647 days'"],
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


def rule(rules: Mapping[str, Value], argument: Argument) -> Value | None:
    """What a table has for an argument."""
    return rules.get(" ".join(argument), rules.get(argument.type))


def values(function: Function, rules: Mapping[str, Value], table: str) -> list[Value]:
    """What a table has for each argument of a function. The error for a missing one names the table."""
    found = []
    for argument in function.arguments:
        value = rule(rules, argument)
        if value is None:
            raise LookupError(
                f"{function} cannot be called: add its argument {' '.join(argument).strip()!r} to {table} in "
                "tests/harness/arguments.py"
            )
        found.append(value)
    return found
