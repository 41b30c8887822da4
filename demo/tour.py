"""The guided tour: a throwaway server, real rows, and every statement shown with what it really answered.

The chapters are the SQL files beside this one, run through psql with its echo on; what you read is what was run. The
server listens on a Unix socket only, and is removed at the end, also after Ctrl-C. KEEP=1 leaves it running.
"""

import os
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from harness import GENERATING, Cluster
from stage import at_terminal, console, end_when_terminated, interruptible, offer_psql, psql_command

DATABASE = "shop"
CLIENTS = 8
ROWS_PER_CLIENT = 125_000
ROWS_PER_STATEMENT = 500
INSERT = "INSERT INTO event (client, reading) SELECT %s, random() FROM generate_series(1, %s)"

# How a line that psql echoes is shown: a chapter's title, a comment, SQL. Answers are left plain.
STYLES = {"bold cyan": re.compile(r"-- \d\. "), "cyan": re.compile("--"), "bold": re.compile("")}


def chapter(cluster: Cluster, name: str) -> None:
    """Runs one SQL file and shows statements and answers as psql does, a blank line before each statement."""
    path = Path(__file__).parent / name
    psql = subprocess.Popen(
        [*psql_command(cluster, DATABASE), "--echo-all", "--set=ON_ERROR_STOP=1", "--pset=pager=off"],
        stdin=path.open(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    to_come = [line for line in path.read_text().splitlines() if line]
    after_answer = True
    for line in map(str.rstrip, psql.stdout or ()):
        echoed = to_come[:1] == [line]
        if echoed:
            to_come.pop(0)
            if after_answer:
                console.print()
        if line:
            style = next(style for style, pattern in STYLES.items() if pattern.match(line)) if echoed else None
            console.print(line, style=style, markup=False, soft_wrap=True)
            after_answer = not echoed
    if psql.wait() != 0:
        raise SystemExit(f"demo/{name} failed; the server's last words:\n{cluster.log()[-2000:]}")
    console.print()


def load(cluster: Cluster) -> None:
    """A million rows by eight clients at once; the clients stop early when the tour is interrupted."""
    interrupted = threading.Event()

    def client(number: int) -> None:
        with cluster.connect(DATABASE) as connection:
            for _ in range(ROWS_PER_CLIENT // ROWS_PER_STATEMENT):
                if interrupted.is_set():
                    return
                connection.execute(INSERT, [number, ROWS_PER_STATEMENT])
                progress.advance(rows, ROWS_PER_STATEMENT)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(CLIENTS) as pool:
        rows = progress.add_task(f"{CLIENTS} clients insert into event", total=CLIENTS * ROWS_PER_CLIENT)
        try:
            for done in [pool.submit(client, number) for number in range(1, CLIENTS + 1)]:
                done.result()
        finally:
            interrupted.set()
    console.print()


def keep(cluster: Cluster) -> None:
    cluster.keep()
    stop = f"{cluster.server.bindir / 'pg_ctl'} stop -D {cluster.data}"
    if os.geteuid() == 0:
        stop = f"runuser -u postgres -- {stop}"
    console.print("[bold]The server goes on running.[/] To stop it and remove its files:\n")
    console.print(f"  {stop} && rm -r {cluster.base} {cluster.socket_dir}\n", soft_wrap=True, markup=False)


def tour(cluster: Cluster) -> None:
    cluster.psql(f"CREATE DATABASE {DATABASE}")
    version = cluster.psql("SHOW server_version")
    console.print(f"\nA throwaway PostgreSQL {version} is running, with these lines in postgresql.conf:")
    console.print(GENERATING, style="green", markup=False)

    chapter(cluster, "1_migration.sql")
    load(cluster)
    for name in ("2_no_duplicates", "3_inside_an_id", "4_public_ids", "5_time_range", "6_uuid"):
        chapter(cluster, f"{name}.sql")

    console.print("[bold]That was the tour.[/] To look around yourself, in another terminal:\n")
    console.print(f"  {' '.join(psql_command(cluster, DATABASE))}\n", soft_wrap=True, markup=False)
    if os.environ.get("KEEP"):
        keep(cluster)
    elif at_terminal():
        offer_psql({"p": cluster}, DATABASE)
    else:
        console.print("The server is removed now; with KEEP=1 it would go on running.")


def main() -> None:
    end_when_terminated()
    farewell = "\nInterrupted: the server is stopped and its files are removed."
    with Cluster("demo", conf=GENERATING) as cluster, interruptible(farewell):
        tour(cluster)


main()
