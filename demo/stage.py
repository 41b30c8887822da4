"""What the demos share: the terminal they write to, psql for the visitor, and an end that cleans up."""

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console

from harness import Cluster

console = Console(highlight=False)

# What writing to a terminal, or a pager, that is gone ends with.
GONE = (errno.EIO, errno.EPIPE)


def psql_command(cluster: Cluster, database: str) -> list[str]:
    port = [] if cluster.port is None else [f"--port={cluster.port}"]
    psql = str(cluster.server.bindir / "psql")
    return [psql, f"--host={cluster.socket_dir}", *port, "--username=postgres", database]


def at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def offer_psql(servers: Mapping[str, Cluster], database: str) -> None:
    """The demo waits: its servers, each by the key to type, are the visitor's to play with."""
    keys = ", ".join(servers)
    while True:
        console.print(
            f"[bold]{keys}[/] and Enter opens psql here; Enter alone stops everything and removes it: ", end=""
        )
        try:
            key = input().strip()
        except EOFError:
            console.print()
            return
        if not key:
            return
        if key in servers:
            subprocess.run(psql_command(servers[key], database))


def end_when_terminated() -> None:
    """A closed terminal or a plain kill ends a demo as Ctrl-C does: through the clean-up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)


@contextmanager
def interruptible(farewell: str) -> Iterator[None]:
    """Ends on Ctrl-C, or when the terminal is gone, with a word: no failure whose files anyone would want to see."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(farewell)
    except OSError as error:
        if error.errno not in GONE:
            raise
        sys.exit(farewell)


def _terminated(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)
