"""Draws what a server's snowflakes do: one that runs, a recorded one, or a throwaway one with a made-up load.

Started by `make dashboard`. The page and the recording come to lie in target/dashboard.
"""

import argparse
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from recording import Recording, Sample, add_profile, record
from rich.console import Console

ROOT = Path(__file__).parent.parent
OUTPUT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dashboard"
PICTURE = ROOT / "docs/plots/dashboard.svg"

LIVE_SECONDS = 60.0
MADE_UP_SECONDS = 30.0

console = Console(stderr=True, highlight=False, soft_wrap=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", default="", help="a running server, in libpq's words")
    parser.add_argument("--recording", default="", help="a file recorded before")
    parser.add_argument("--seconds", default="", help="how long to watch")
    parser.add_argument("--profile", default="", help="a column of IDs to look into, as in shop.customer.id")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the directory for the page")
    parser.add_argument("--write", action="store_true", help=f"also replace {PICTURE.relative_to(ROOT)}")
    return parser.parse_args()


def progress(sample: Sample) -> None:
    ids = (sample["stat"] or {}).get("ids", 0)
    console.print(f"\r{sample['at']:4.0f} s  {ids:,} IDs since the last reset", end="")


def watch(dsn: str, file: Path, seconds: float, column: str) -> None:
    with psycopg.connect(dsn, autocommit=True, application_name="id_gen dashboard") as connection:
        if not connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'id_gen'").fetchone():
            sys.exit(f"There is no id_gen in database {connection.info.dbname}: name one that has it, or create it.")
        if column and not connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'id_gen_tools'").fetchone():
            sys.exit(
                f"A profile needs an extension in database {connection.info.dbname}: CREATE EXTENSION id_gen_tools;"
            )
        console.print(f"Watching for {seconds:.0f} s; Ctrl-C draws what there is so far.")
        record(connection, file, seconds, progress if console.is_terminal else lambda _: None)
        if column:
            console.print(f"\nReading {column}; Ctrl-C draws without it.")
            with suppress(KeyboardInterrupt):
                add_profile(connection, file, column)
    console.print()


def recorded(chosen: argparse.Namespace) -> Path:
    """The recording that was named, or a new one."""
    if chosen.recording:
        return Path(chosen.recording)
    seconds = float(chosen.seconds or 0)
    if chosen.dsn:
        file = chosen.output / f"{time.strftime('%Y-%m-%d_%H%M%S')}.jsonl"
        watch(chosen.dsn, file, seconds or LIVE_SECONDS, chosen.profile)
        return file

    # It needs the harness and a prepared server, which the other two don't.
    from load import STORED, made_up_server

    file = chosen.output / "made-up.jsonl"
    seconds = seconds or MADE_UP_SECONDS
    console.print("No server was named (DSN='host=... dbname=...'): a throwaway one starts, under a made-up load.")
    with made_up_server(seconds) as cluster:
        watch(cluster.conninfo(), file, seconds, STORED)
    return file


def main() -> None:
    chosen = arguments()
    chosen.output.mkdir(parents=True, exist_ok=True)
    try:
        source = recorded(chosen)
        recording = Recording(source)
    except (OSError, ValueError, psycopg.Error) as error:
        sys.exit(f"{error}".strip())

    # It takes its time to load, which watching need not wait for.
    from page import figure, html_page

    page = chosen.output / f"{source.stem}.html"
    page.write_text(html_page(recording, source))
    if chosen.write:
        PICTURE.write_text(figure(recording))
    print(page)


main()
