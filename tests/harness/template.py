"""New data directories without waiting for initdb: it runs once for a server and its options, then files are copied.

Two clusters must not look like one, so each copy gets a system identifier of its own, as if initdb had made it.
"""

import fcntl
import hashlib
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.server import Server, environment

# A cluster writes little: with segments of 16 MB, two fifths of what is copied would be an empty one.
OPTIONS = (
    "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
    "--wal-segsize=1",
)  # fmt: skip

# Where pg_control begins with the identifier, as a number of the machine's own byte order.
CONTROL = "global/pg_control"
IDENTIFIER_BYTES = 8


def new_data_directory(server: Server, data: Path, options: Sequence[str]) -> None:
    """Makes what `initdb` with these options besides OPTIONS makes, at a path where nothing is yet."""
    # As root it keeps the owner. The names of the files inside are the same in every cluster.
    subprocess.run(["cp", "-a", _template(server, (*OPTIONS, *options)), data], check=True)
    # Less than 2^63, because SQL shows it as a bigint.
    identifier = secrets.randbits(8 * IDENTIFIER_BYTES - 1).to_bytes(IDENTIFIER_BYTES, sys.byteorder)
    with (data / CONTROL).open("r+b") as control:
        control.write(identifier)
    # Writes the file's checksum anew, and a first WAL segment with that identifier.
    _run(server, "pg_resetwal", "--force", data)


def _template(server: Server, options: Sequence[str]) -> Path:
    """The data directory to copy, made again after the server was."""
    program = (server.bindir / "postgres").stat()
    made_by = f"{program.st_mtime_ns} {program.st_size}"
    digest = hashlib.sha256("\0".join([str(server.bindir), *options]).encode()).hexdigest()[:16]
    directory = server.run_directory / f"template-{digest}"
    stamp = directory / "made_by"
    with directory.with_suffix(".lock").open("w") as lock:
        # Tests that run side by side want it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != made_by:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            if owner := server.as_owner.get("user"):
                shutil.chown(directory, owner, owner)
            _run(server, "initdb", "--pgdata", directory / "data", *options)
            stamp.write_text(made_by)
    return directory / "data"


def _run(server: Server, program: str, *arguments: str | Path) -> None:
    done = subprocess.run(
        [server.bindir / program, *arguments],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **server.as_owner,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program} failed:\n{done.stdout}")
