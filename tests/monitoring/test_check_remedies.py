"""A server that refuses to generate generates again once the remedies of id_gen_check() have been followed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from harness import GENERATING, PRELOAD, PRELOADED, Cluster, FakeClock, SqlError
from harness.checks import checks, follow
from harness.ids import IMPATIENT, next_id, refusal
from harness.reservation import Reservation

HOUR = 3600
Broken = tuple[Cluster, Callable[[], None]]


def nothing_else() -> None:
    """All there is to do can be typed."""


@contextmanager
def worker_unset() -> Iterator[Broken]:
    with Cluster(conf=PRELOAD if PRELOADED else "") as cluster:
        yield cluster, nothing_else


@contextmanager
def not_preloaded() -> Iterator[Broken]:
    """Where the server needs the preload; elsewhere this is a server that works, but for its number."""
    with Cluster(conf="") as cluster:
        yield cluster, nothing_else


@contextmanager
def an_hour_ahead_then_back() -> Iterator[Broken]:
    """The clock was wrong when the server started for the first time, so the server trusted it."""
    clock = FakeClock(HOUR)
    with Cluster(conf=GENERATING + IMPATIENT, clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        clock.put_right()
        yield cluster, nothing_else


@contextmanager
def unwritable_data_directory() -> Iterator[Broken]:
    """The administrator makes the directory writable again, as the remedy says."""
    with Cluster(conf=GENERATING) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        next_id(cluster)
        cluster.stop("immediate")
        directory = Reservation(cluster).directory
        directory.chmod(0o500)
        cluster.start()
        yield cluster, lambda: directory.chmod(0o700)


@contextmanager
def layout_ended() -> Iterator[Broken]:
    """2^33 ms are 99 days."""
    conf = "id_gen.layout = 'epoch=2020-01-01 tick=1ms time:33 worker:5 sequence:12'\n"
    with Cluster(conf=GENERATING + conf) as cluster:
        yield cluster, nothing_else


@pytest.mark.parametrize(
    "broken", [worker_unset, not_preloaded, an_hour_ahead_then_back, unwritable_data_directory, layout_ended]
)
def test_the_remedies_are_enough(broken: Callable[[], Iterator[Broken]]) -> None:
    with broken() as (cluster, by_hand):  # type: ignore[attr-defined]
        cluster.psql("CREATE EXTENSION IF NOT EXISTS id_gen")
        refusal(cluster)
        # What stands in the way comes to light one by one.
        for _ in range(3):
            errors = [check for check in checks(cluster).values() if check.status == "error"]
            if not errors:
                break
            for check in errors:
                if "the server's operating-system user" in (check.remedy or ""):
                    by_hand()
                else:
                    follow(cluster, check.remedy or "")

        def generates() -> bool:
            try:
                return next_id(cluster) > 0
            except SqlError:
                return False

        cluster.wait_until(generates, "generating again")
        cluster.wait_until(
            lambda: not any(check.status == "error" for check in checks(cluster).values()), "without an error"
        )
        assert cluster.psql("SELECT state FROM id_gen_status()") == "ready"
