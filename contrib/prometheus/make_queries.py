"""Writes the query of view id_gen_stat in queries.yaml anew: a metric for each of its columns.

    scripts/run contrib/prometheus/make_queries.py

The columns come from a throwaway server with today's extension, or from the database of --dsn. The type of a column
says what it is: a bigint counts since the last reset; a double precision is a share if its name ends in _use, and
otherwise milliseconds. A metric's description is the column's comment; without one it stays as it is.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg

QUERIES = Path(__file__).with_name("queries.yaml")
# Everything that belongs to the query is indented.
QUERY = re.compile(r"^id_gen:\n(?: .*\n)+", re.MULTILINE)

# What queries of their own show, all columns alike or as a histogram.
ELSEWHERE = re.compile(r"refused_\w+|steps_\w+|waits|wait_time")
# Metrics that were named before there was a rule.
NAMES = {"largest_step_back": "largest_clock_step_back"}

COLUMNS = """
SELECT attname, format_type(atttypid, NULL), col_description(attrelid, attnum)
  FROM pg_attribute
 WHERE attrelid = 'id_gen_stat'::regclass AND attnum > 0 AND NOT attisdropped
 ORDER BY attnum
"""


class Metric(NamedTuple):
    """A column as the exporter tells it."""

    name: str
    value: str
    usage: str
    comment: str | None


def metric(column: str, kind: str, comment: str | None) -> Metric:
    name = NAMES.get(column, column)
    match kind:
        case "bigint":
            return Metric(f"{name}_total", column, "COUNTER", comment)
        case "double precision" if column.endswith("_use"):
            return Metric(f"{name}_ratio", column, "GAUGE", comment)
        case "double precision":
            return Metric(f"{name}_seconds", f"{column} / 1000", "GAUGE", comment)
        case "timestamp with time zone":
            return Metric(f"{name}_timestamp_seconds", f"extract(epoch FROM {column})::float8", "GAUGE", comment)
    raise SystemExit(f"Column {column} of id_gen_stat is {kind}: say in {__file__} what metric that makes.")


def metrics(connection: psycopg.Connection) -> list[Metric]:
    return [metric(*row) for row in connection.execute(COLUMNS) if not ELSEWHERE.fullmatch(row[0])]


def description(each: Metric, text: str) -> str:
    if each.comment is None:
        before = re.search(rf"- {each.name}:\n +usage: \w+\n +description: (.*)\n", text)
        return before[1] if before else each.name
    # The view has milliseconds, and the metric seconds.
    words = re.sub(r",? in milliseconds$", "", each.comment)
    return words if re.fullmatch(r"\w[^:#]*", words) else json.dumps(words)


def lines(found: list[Metric], describe: Callable[[Metric], str]) -> Iterator[str]:
    columns = (f"{each.value} AS {each.name}" for each in found)
    yield from ("id_gen:", "  master: true", "  query: |")
    yield "    SELECT " + ",\n           ".join(columns)
    yield from ("      FROM id_gen_stat", "  metrics:")
    for each in found:
        yield from (f"    - {each.name}:", f"        usage: {each.usage}", f"        description: {describe(each)}")


def write(connection: psycopg.Connection, output: Path) -> None:
    text = QUERIES.read_text()
    query = "\n".join(lines(metrics(connection), lambda each: description(each, text))) + "\n"
    output.write_text(QUERY.sub(lambda _: query, text, count=1))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--dsn", help="the database to ask, in libpq's words, instead of a throwaway server")
    options.add_argument("--output", type=Path, default=QUERIES, help="where to write, instead of queries.yaml itself")
    chosen = options.parse_args()
    if chosen.dsn is not None:
        with psycopg.connect(chosen.dsn) as connection:
            write(connection, chosen.output)
        return

    from harness import Cluster

    with Cluster("columns") as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with cluster.connect() as connection:
            write(connection, chosen.output)


if __name__ == "__main__":
    main()
