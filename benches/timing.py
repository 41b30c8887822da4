"""How long a statement takes, as its client sees it, and how to compare what was measured in turns."""

import time
from collections.abc import Iterable
from statistics import median

import psycopg


def timed(connection: psycopg.Connection, statement: str) -> float:
    """Seconds."""
    started = time.perf_counter()
    connection.execute(statement)
    return time.perf_counter() - started


def paired(ones: Iterable[float], others: Iterable[float]) -> float:
    """Ratio of two that were measured one after the other, round by round: a machine that drifts changes both alike."""
    return median(one / other for one, other in zip(ones, others, strict=True))
