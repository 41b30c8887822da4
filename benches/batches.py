"""Many IDs in one call: arrays against their own size, sets against `generate_series`."""

from statistics import median

import psycopg
from report import Section, Target, at_least, at_most
from rich.progress import track
from timing import timed

ARRAY = 1_000_000


def measure(connection: psycopg.Connection, rows: int, rounds: int) -> tuple[Section, list[Target]]:
    statements = {
        f"`snowflake_next_array({ARRAY:_})`": (f"SELECT cardinality(snowflake_next_array({ARRAY}))", ARRAY),
        f"`snowflake_next_batch({rows:_})`": (f"SELECT count(*) FROM snowflake_next_batch({rows})", rows),
        f"`generate_series(1, {rows:_})`": (f"SELECT count(*) FROM generate_series(1::bigint, {rows})", rows),
    }
    runs: dict[str, list[float]] = {name: [] for name in statements}
    for _ in track(range(rounds), description="batches    ", transient=True):
        for name, (statement, _count) in statements.items():
            runs[name].append(timed(connection, statement))
    took = {name: median(values) for name, values in runs.items()}
    rate = {name: count / took[name] for name, (_statement, count) in statements.items()}
    array, batch, series = rate
    rows_ = [(name, f"{took[name] * 1e3:.1f} ms", f"{rate[name] / 1e6:.1f} M") for name in rate]
    section = Section(f"Many at once, median of {rounds}", ("statement", "time", "a second"), rows_)
    return section, [
        at_least(f"{array}: million IDs a second", rate[array] / 1e6, bound=100),
        at_most("`snowflake_next_batch` over `generate_series`", took[batch] / took[series], bound=1.3),
    ]
