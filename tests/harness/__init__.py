"""Throwaway PostgreSQL servers, and crowds of clients on them, for tests, demo and benchmarks."""

from harness.clock import FakeClock
from harness.cluster import GENERATING, PRELOAD, PRELOADED, Cluster, SqlError
from harness.effort import RELEASE, effort
from harness.server import Server

__all__ = [
    "GENERATING",
    "PRELOAD",
    "PRELOADED",
    "RELEASE",
    "Cluster",
    "FakeClock",
    "Server",
    "SqlError",
    "effort",
]
