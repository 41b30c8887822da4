"""Waiting for a condition of a test: it is looked at often at first, and less often the longer it takes, so that
waiting leaves the processor to others."""

import time
from collections.abc import Callable
from typing import Any

WAIT_SECONDS = 60.0
# How long a pause is: a share of what was waited, within these limits.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.2
SHARE = 0.05


def wait_until(condition: Callable[[], Any], what: str, more: Callable[[], str] = lambda: "") -> None:
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > WAIT_SECONDS:
            raise TimeoutError(f"not after {WAIT_SECONDS:.0f} s: {what}; {more()}")
        time.sleep(min(max(SHORTEST_PAUSE, SHARE * waited), LONGEST_PAUSE))
