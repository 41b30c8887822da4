"""Writes the queries of views id_gen_stat and id_gen_stat_fleet in queries.yaml anew: a metric for each column.

    scripts/run contrib/prometheus/make_queries.py

The columns come from a throwaway server with today's extension, or from the database of --dsn. The type of a column
says what it is: a bigint counts up; a double precision is a share if its name ends in _use, and otherwise milliseconds.
A metric's description is the column's comment; without one it stays as it is.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psycopg

QUERIES = Path(__file__).with_name("queries.yaml")
# The queries that are made here, and the view that each asks.
VIEWS = {"id_gen": "id_gen_stat", "id_gen_fleet": "id_gen_stat_fleet"}

# What queries of their own show: all columns alike, as a histogram, or as a label.
ELSEWHERE = re.compile(r"refused_\w+|clock_steps_\w+|waits|wait_time|state")

COLUMNS = """
SELECT attname, format_type(atttypid, NULL), col_description(attrelid, attnum)
  FROM pg_attribute
 WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
 ORDER BY attnum
"""


class Metric(NamedTuple):
    """A column as the exporter tells it."""

    name: str
    value: str
    usage: str
    comment: str | None


# Columns of which something else is watched than their value. Spans are told by the server's own clock, so that they
# are right on a server whose clock is wrong.
OWN = {
    "granted_until": Metric(
        "grant_left_seconds",
        "extract(epoch FROM granted_until - clock_timestamp())::float8",
        "GAUGE",
        "how long its grant reaches from now on",
    ),
    "answered_at": Metric(
        "answer_age_seconds",
        "extract(epoch FROM clock_timestamp() - coalesce(answered_at, pg_postmaster_start_time()))::float8",
        "GAUGE",
        "how long ago the registry answered last, or where it never has, this server started",
    ),
    "error": Metric(
        "error",
        "(error IS NOT NULL)::int",
        "GAUGE",
        "whether anything keeps this server from a number, or from renewing its grant (1) or not (0)",
    ),
    "registrar_pid": Metric(
        "registrar_running",
        "(registrar_pid IS NOT NULL)::int",
        "GAUGE",
        "whether the registrar, which asks the registry, runs (1) or not (0)",
    ),
}


def metric(column: str, kind: str, comment: str | None) -> Metric:
    if column in OWN:
        return OWN[column]
    match kind:
        case "bigint":
            return Metric(f"{column}_total", column, "COUNTER", comment)
        case "double precision" if column.endswith("_use"):
            return Metric(f"{column}_ratio", column, "GAUGE", comment)
        case "double precision":
            return Metric(f"{column}_seconds", f"{column} / 1000", "GAUGE", comment)
        case "timestamp with time zone":
            return Metric(f"{column}_timestamp_seconds", f"extract(epoch FROM {column})::float8", "GAUGE", comment)
    raise SystemExit(f"Column {column} is {kind}: say in {__file__} what metric that makes.")


def metrics(connection: psycopg.Connection, view: str) -> list[Metric]:
    return [metric(*row) for row in connection.execute(COLUMNS, [view]) if not ELSEWHERE.fullmatch(row[0])]


def description(each: Metric, text: str) -> str:
    if each.comment is None:
        before = re.search(rf"- {each.name}:\n +usage: \w+\n +description: (.*)\n", text)
        return before[1] if before else each.name
    # The view has milliseconds, and the metric seconds.
    words = re.sub(r",? in milliseconds$", "", each.comment)
    return words if re.fullmatch(r"\w[^:#]*", words) else json.dumps(words)


def lines(key: str, found: list[Metric], describe: Callable[[Metric], str]) -> Iterator[str]:
    columns = (each.value if each.value == each.name else f"{each.value} AS {each.name}" for each in found)
    yield from (f"{key}:", "  master: true", "  query: |")
    yield "    SELECT " + ",\n           ".join(columns)
    yield from (f"      FROM {VIEWS[key]}", "  metrics:")
    for each in found:
        yield from (f"    - {each.name}:", f"        usage: {each.usage}", f"        description: {describe(each)}")


def write(connection: psycopg.Connection, output: Path) -> None:
    text = QUERIES.read_text()
    for key, view in VIEWS.items():
        found = metrics(connection, view)
        query = "\n".join(lines(key, found, partial(description, text=text))) + "\n"
        # Everything that belongs to a query is indented.
        text = re.sub(rf"^{key}:\n(?: .*\n)+", lambda _, query=query: query, text, count=1, flags=re.MULTILINE)
    output.write_text(text)


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
