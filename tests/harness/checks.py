"""Reads id_gen_check() as an administrator does, and types what its remedies say."""

import re
from typing import NamedTuple

from harness.cluster import Cluster

CHECKS = "SELECT name, status, found, remedy FROM id_gen_check()"

# What a remedy says to type.
STATEMENT = re.compile(r"\b(?:ALTER|GRANT|SELECT|UPDATE) [^;]*;")
# What a remedy leaves to the administrator, and what one would choose here: no other server of a test has it.
WORKER_ID, CHOSEN_WORKER_ID = "<worker ID>", "30"
CONF_LINE = re.compile(r"\w+(?:\.\w+)? = '.*'$")


class Check(NamedTuple):
    """A row of id_gen_check()."""

    name: str
    status: str
    found: str
    remedy: str | None


def checks(cluster: Cluster, sql: str = CHECKS) -> dict[str, Check]:
    """What is found, by the check's name."""
    with cluster.connect() as connection:
        found = [Check(*row) for row in connection.execute(sql)]
    for check in found:
        assert check.found, check
        assert (check.remedy is None) == (check.status == "ok"), check
    return {check.name: check for check in found}


def follow(cluster: Cluster, remedy: str) -> None:
    """Does what a remedy says, word for word but for the worker ID, which it does not choose. What needs the time of an
    ID is for another case."""
    assert not re.search(r"id_gen\.worker_id = \d", remedy), f"proposes a worker ID to everybody: {remedy}"
    remedy = remedy.replace(WORKER_ID, CHOSEN_WORKER_ID)
    if "postgresql.conf" in remedy:
        line = CONF_LINE.search(remedy)
        assert line, remedy
        cluster.append_conf(line[0])
    else:
        statements = [each for each in STATEMENT.findall(remedy) if "<time of" not in each]
        assert statements or "restart the server" in remedy.lower(), f"nothing to type: {remedy}"
        for statement in statements:
            cluster.psql(statement)
    if re.search(r"restart( the server)?\b", remedy, re.IGNORECASE):
        cluster.restart()


def wait_for(cluster: Cluster, name: str, status: str, sql: str = CHECKS) -> Check:
    """Waits until a check has that status, as after a reload that sessions have yet to see."""
    latest: dict[str, Check] = {}

    def reached() -> bool:
        latest.update(checks(cluster, sql))
        return name in latest and latest[name].status == status

    cluster.wait_until(reached, f"finding {name} {status}", lambda: f"its last finding: {latest.get(name)}")
    return latest[name]


def remedy(cluster: Cluster, name: str, status: str, sql: str = CHECKS) -> Check:
    """Waits for a finding, does what its remedy says, and waits for the check to be ok. Returns what was found."""
    found = wait_for(cluster, name, status, sql)
    follow(cluster, found.remedy or "")
    wait_for(cluster, name, "ok", sql)
    return found
