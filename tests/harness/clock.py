"""A wall clock that a test sets while a server looks at it.

    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        clock.step(-3)
        clock.put_right()

libfaketime, preloaded into the server, answers for CLOCK_REALTIME from a file in the cluster's directory that it reads
on every look. The monotonic clocks are left alone, CLOCK_BOOTTIME among them (seen with libfaketime 0.9.10), and
nothing outside that server is touched.
"""

import os
import sysconfig
import time
from datetime import UTC, datetime
from pathlib import Path

from harness.shim import EMULATED, compiled, preloading

PLAIN_SELECT = Path(__file__).with_name("plain_select.c")
LIBRARY = "faketime/libfaketime.so.1"
LIBRARY_DIRECTORIES = (f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}", "/usr/lib64", "/usr/lib", "/usr/local/lib")


class FakeClock:
    """The clock of one cluster: the real one plus an offset in seconds, until it is frozen."""

    def __init__(self, offset: float = 0) -> None:
        self._file: Path | None = None
        self._offset = offset
        self._says = _relative(offset)

    def environment(self, directory: Path) -> dict[str, str]:
        """What puts a server under this clock, whose file will be in that directory."""
        self._file = directory / "clock"
        self._write(self._says)
        return {
            **preloading(compiled(PLAIN_SELECT), _library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TZ": "UTC",
        }

    def step(self, seconds: float) -> None:
        """Sets the clock forward, or back if negative."""
        self._offset += seconds
        self._write(_relative(self._offset))

    def put_right(self) -> None:
        """Lets the clock run as the real one."""
        self._offset = 0
        self._write(_relative(0))

    def freeze(self) -> None:
        """Stops the clock where it is; `step` and `put_right` let it run again."""
        now = datetime.fromtimestamp(time.time() + self._offset, UTC)
        self._write(f"{now:%Y-%m-%d %H:%M:%S.%f}")

    def drift(self, rate: float) -> None:
        """Lets the clock run at another pace; from the server's start, so set it before."""
        self._write(f"{_relative(self._offset)} x{rate}")

    def _write(self, says: str) -> None:
        self._says = says
        if self._file is not None:
            # Renamed into place, so that the server never reads half of it.
            new = self._file.with_suffix(".new")
            new.write_text(f"{says}\n")
            new.chmod(0o644)
            new.rename(self._file)


def _relative(offset: float) -> str:
    return f"{offset:+.6f}"


def _library() -> Path:
    directories = LIBRARY_DIRECTORIES
    if EMULATED:
        # It came with the server.
        directories = (str(Path(os.environ["ID_GEN_PG_CONFIG"]).parents[3] / EMULATED),)
    for directory in directories:
        if (library := Path(directory) / LIBRARY).exists():
            return library
    raise FileNotFoundError(f"{LIBRARY} is in none of {', '.join(directories)}: install faketime")
