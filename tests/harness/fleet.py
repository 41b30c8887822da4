"""Servers of a fleet, and what a test wants to know of them.

Terms are short here, so that a grant that is not renewed is used up in seconds; but a server that restarts beside load
has to be back before that.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.cluster import PRELOAD, PRELOADED, Cluster, SqlError
from harness.etcd import Etcd
from harness.ids import refusal
from harness.reservation import Reservation

GRANT_SECONDS = 5

# What refuses a call of a server that has no number, or none any more.
NO_NUMBER = "55000"
UNREACHABLE = "08006"


def member_conf(registry: str, more: str = "") -> str:
    """What makes a server one of the fleet."""
    return f"{PRELOAD if PRELOADED else ''}id_gen.registry = '{registry}'\n{more}\n"


def create_fleet(cluster: Cluster, grant_s: int = GRANT_SECONDS) -> None:
    """Makes the fleet, with terms for tests."""
    cluster.psql("CREATE EXTENSION IF NOT EXISTS id_gen")
    cluster.psql(f"SELECT id_gen_fleet_create({terms(grant_s)})")


def terms(grant_s: int) -> str:
    """How far grants reach, how often they are renewed, and how long a request may take."""
    return f"'{grant_s} s', '500 ms', '500 ms'"


def name_of(fleet: str) -> str:
    """The name in a setting that names a fleet."""
    return fleet.split("'")[1]


def await_number(cluster: Cluster) -> int:
    """Waits until a server has a number and makes IDs; returns the number."""
    found: list[str] = []

    def makes_ids() -> bool:
        # One that has just left a fleet, or joins one, may make IDs and have no number a moment later.
        with suppress(SqlError):
            found[:] = cluster.psql("SELECT worker_id FROM id_gen_status() WHERE snowflake_next() > 0").split()
        return bool(found)

    cluster.wait_until(makes_ids, "making IDs")
    return int(found[0])


def await_trouble(cluster: Cluster) -> SqlError:
    """Waits until a server knows why it has no number; returns what a call is refused with then."""
    found: list[SqlError] = []

    def is_found() -> bool:
        # Without the preload a call is what starts the registrar.
        found[:] = [refusal(cluster)]
        return cluster.psql("SELECT error IS NOT NULL FROM id_gen_stat_fleet") == "t"

    cluster.wait_until(is_found, "in trouble")
    return refusal(cluster)


def accept_clock_ahead(cluster: Cluster) -> None:
    """Lets a server acquire a worker ID whose clock is ahead of those of others that renew their grants."""
    message = "this server's clock is ahead of the clocks of the fleet"
    cluster.wait_until(lambda: refusal(cluster).message == message, "comparing its clock")
    statement = "SELECT id_gen_clock_accept();"
    assert statement in (refusal(cluster).hint or "")
    cluster.psql(statement)


def await_holding(cluster: Cluster) -> None:
    """Waits until a server, which may be a standby, has a number."""
    await_phase(cluster, "holding")


def await_phase(cluster: Cluster, wanted: str) -> None:
    """Waits until a server, which may be a standby, is so far on its way to a number."""

    def is_there() -> bool:
        # Without the preload a call is what starts the registrar.
        with suppress(SqlError):
            cluster.psql("SELECT snowflake_next()")
        return phase(cluster) == wanted

    cluster.wait_until(is_there, wanted)


def number_of(cluster: Cluster) -> int:
    return int(cluster.psql("SELECT worker_id FROM id_gen_status()"))


def phase(cluster: Cluster) -> str:
    return cluster.psql("SELECT state FROM id_gen_stat_fleet")


def registrar(cluster: Cluster) -> int:
    """The registrar's process."""
    [pid] = [pid for pid, title in cluster.processes().items() if title.startswith("id_gen registrar")]
    return pid


def grants(cluster: Cluster) -> dict[int, str]:
    """Each number that was ever held, and its state."""
    rows = cluster.psql("SELECT worker_id, state FROM id_gen_fleet_members() ORDER BY 1").splitlines()
    return {int(worker): state for worker, state in (row.split("|") for row in rows)}


def witness_of(cluster: Cluster) -> Path:
    """What the memory of the boot has of a server's number."""
    directory = cluster.data.stat()
    return Path(f"/dev/shm/id_gen.{directory.st_dev}.{directory.st_ino}")


def forget_boot(cluster: Cluster) -> None:
    """Starts a server as after a start of its machine."""
    cluster.stop("immediate")
    lose_memory(cluster)
    cluster.start()


def lose_memory(cluster: Cluster) -> None:
    """Lets a server that has stopped start as after a start of its machine."""
    witness_of(cluster).unlink()
    Reservation(cluster).forge(boot=f"{1:032x}")


@contextmanager
def silent(etcd: Etcd) -> Iterator[None]:
    """Pauses all members for as long as the block lasts; their connections stay open."""
    for member in etcd.members:
        member.pause()
    try:
        yield
    finally:
        for member in etcd.members:
            member.resume()
