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


def by_round(ones: Iterable[float], others: Iterable[float]) -> list[float]:
    """Ratios of two that were measured one after the other: a machine that drifts changes both alike."""
    return [one / other for one, other in zip(ones, others, strict=True)]


def paired(ones: Iterable[float], others: Iterable[float]) -> float:
    """The typical one of these ratios."""
    return median(by_round(ones, others))
