"""What it costs to give a column other values while its table is in use: filling old rows, beside the batched UPDATE
that anybody would type, by ranges of the key and with a commit each; and an insert with the trigger that keeps new
rows in step."""

from statistics import median

import psycopg
from report import Section, Target, at_least
from rich.progress import track
from timing import by_round, timed

from harness import Cluster

TABLE = """
    DROP TABLE IF EXISTS stored;
    CREATE TABLE stored (id serial PRIMARY KEY, created_at timestamptz, more text);
    INSERT INTO stored (created_at, more)
    SELECT '2025-01-01Z'::timestamptz + n * interval '7 ms', repeat('x', 40) FROM generate_series(1, {rows}) n;
"""
PLAIN = """
    CREATE OR REPLACE PROCEDURE plain(rows integer) LANGUAGE plpgsql AS $$
    BEGIN
        FOR batch IN 0..(rows - 1) / 10000 LOOP
            {update};
            COMMIT;
        END LOOP;
    END $$
"""
BATCH = "stored.id > batch * 10000 AND stored.id <= (batch + 1) * 10000"
# What is filled: the arguments of the plan, the column, and the same by hand, where rows of one time need numbers of
# their own.
KINDS = {
    "the same values, as `bigint`": ("", "bigint", f"UPDATE stored SET other = id WHERE {BATCH}"),
    "new snowflakes with the time of each row": (
        ", created_at => 'created_at'",
        "bigint UNIQUE",
        f"""
        UPDATE stored SET other = snowflake_make(created_at, 0, 63, number)
          FROM (SELECT id, (row_number() OVER (PARTITION BY snowflake_min(created_at)) - 1)::integer AS number
                  FROM stored WHERE {BATCH}) AS numbered WHERE numbered.id = stored.id AND {BATCH}""",
    ),
}
BOUND = 0.8
INSERT = "INSERT INTO stored (more) SELECT repeat('x', 40) FROM generate_series(1, {rows})"


def make(connection: psycopg.Connection, rows: int) -> None:
    connection.execute(TABLE.format(rows=rows).encode())
    connection.execute("VACUUM (FREEZE, ANALYZE) stored")
    connection.execute("CHECKPOINT")


def plain(connection: psycopg.Connection, rows: int, column: str, update: str) -> float:
    """Rows a second that a batched UPDATE by hand writes."""
    make(connection, rows)
    connection.execute(f"ALTER TABLE stored ADD other {column}".encode())
    connection.execute(PLAIN.format(update=update).encode())
    return rows / timed(connection, f"CALL plain({rows})")


def filled(connection: psycopg.Connection, rows: int, arguments: str) -> float:
    """Rows a second that a job writes, up to where it has filled the table."""
    make(connection, rows)
    steps = connection.execute(
        f"SELECT statement FROM id_gen_convert_plan('stored', 'id'{arguments})".encode()
    ).fetchall()
    for (statement,) in steps:
        connection.execute(statement.encode())
        if statement.startswith("CALL"):
            break
    connection.execute("RESET search_path")
    took = connection.execute("SELECT extract(epoch FROM sum(ended_at - begun_at)) FROM id_gen_convert.fill").fetchone()
    connection.execute("CALL id_gen_convert.undo('stored', 'id')")
    assert took
    return rows / float(took[0])


def inserts(connection: psycopg.Connection, rows: int) -> tuple[float, float]:
    """Microseconds of a row, without the trigger and with it."""
    make(connection, 1)
    without = timed(connection, INSERT.format(rows=rows))
    connection.execute("SELECT id_gen_convert_start('stored', 'id')")
    with_trigger = timed(connection, INSERT.format(rows=rows))
    connection.execute("CALL id_gen_convert.undo('stored', 'id')")
    return without / rows * 1e6, with_trigger / rows * 1e6


def measure(conf: str, rows: int, rounds: int) -> tuple[Section, list[Target]]:
    table, targets = [], []
    with Cluster("moving", conf=conf) as cluster, cluster.connect() as connection:
        connection.execute("CREATE EXTENSION id_gen_tools CASCADE")
        for name, (arguments, column, update) in track(KINDS.items(), description="moving     ", transient=True):
            ours, by_hand = [], []
            for _ in range(rounds):
                by_hand.append(plain(connection, rows, column, update))
                ours.append(filled(connection, rows, arguments))
            table.append((name, f"{median(ours) / 1e3:.0f} k", f"{median(by_hand) / 1e3:.0f} k"))
            targets.append(
                at_least(
                    f"rows filled a second over a plain batched `UPDATE`, {name}",
                    median(by_round(ours, by_hand)),
                    BOUND,
                )
            )
        costs = [inserts(connection, rows) for _ in range(rounds)]
    without, with_trigger = (median(each) for each in zip(*costs, strict=True))
    table.append(("a row inserted with the trigger, and without", f"{with_trigger:.2f} µs", f"{without:.2f} µs"))
    title = f"Moving a table of {rows:,} rows over while it is in use, medians of {rounds} runs"
    return Section(title, ("rows a second", "a job", "a plain batched `UPDATE`"), table), targets
