"""A wall clock that a test sets while a server looks at it.

    clock = FakeClock()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        clock.step(-3)
        clock.put_right()

A library that is preloaded into the server answers for CLOCK_REALTIME from a file in the cluster's directory. The other
clocks are left alone, and nothing outside that server is touched.
"""

import re
import struct
import time
from pathlib import Path

from harness.shim import compiled, preloading

SOURCE = Path(__file__).with_name("clock.c")
# As in that file: which setting is the latest, then the settings.
LATEST, SETTING, SETTINGS = struct.Struct("=q"), struct.Struct("=qqd"), 64


class FakeClock:
    """The clock of one cluster: the real one plus an offset in seconds, until it is frozen."""

    def __init__(self, offset: float = 0) -> None:
        self._file: Path | None = None
        self._offset = offset
        self._settings = 0
        self._set = _now(offset), 1.0

    def environment(self, directory: Path) -> dict[str, str]:
        """What puts a server under this clock, whose file will be in that directory."""
        self._file = directory / "clock"
        self._file.write_bytes(bytes(LATEST.size + SETTING.size * SETTINGS))
        self._file.chmod(0o644)
        self._write(*self._set)
        return preloading(compiled(SOURCE)) | {"ID_GEN_CLOCK": str(self._file)}

    def step(self, seconds: float) -> None:
        """Sets the clock forward, or back if negative."""
        self._offset += seconds
        self._write(_now(self._offset), 1)

    def put_right(self) -> None:
        """Lets the clock run as the real one."""
        self._offset = 0
        self._write(_now(0), 1)

    def freeze(self) -> None:
        """Stops the clock where it is; `step` and `put_right` let it run again."""
        self._write(_now(self._offset), 0)

    def drift(self, rate: float) -> None:
        """Lets the clock run at another pace from now on."""
        self._write(_now(self._offset), rate)

    def _write(self, at: tuple[int, int], rate: float) -> None:
        self._set = at, rate
        if self._file is not None:
            self._settings += 1
            place = self._settings % SETTINGS
            with self._file.open("r+b", buffering=0) as file:
                file.seek(LATEST.size + SETTING.size * place)
                file.write(SETTING.pack(*at, rate))
                file.seek(0)
                file.write(LATEST.pack(place))


def _now(offset: float) -> tuple[int, int]:
    """The time of the machine, and that of a clock with this offset, in microseconds."""
    real_us = time.time_ns() // 1_000
    return real_us, real_us + round(offset * 1e6)


def milliseconds(text: str) -> int:
    """A length of time as messages show it."""
    units = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
    words = text.split()
    return round(sum(float(count) * units[unit] for count, unit in zip(words[::2], words[1::2], strict=True)))


def ahead_ms(detail: str | None) -> int:
    """About how far the next ID would be ahead of the clock, by a DETAIL; 0 if that is not the reason."""
    found = re.search(r"((?:[\d.]+ (?:d|h|min|s|ms) )+)ahead", detail or "")
    return milliseconds(found[1]) if found else 0
