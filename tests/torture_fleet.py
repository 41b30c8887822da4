"""The fleet's torture: three servers, their registry, and all that could make two servers share a number. The registry
is three members of etcd, or a PostgreSQL server and its synchronous standby.

Clients keep each ID that they were given. Meanwhile processes and servers are paused, killed and restarted; their way
to the registry is cut, in one direction or both; that loses its leader, or can write nothing; servers are copied and
promoted while their originals go on, come with a clock that is wrong by an hour, and lose their numbers by hand; and
the registry is wiped or brought back from an older state. All the while two shards move round the servers, and all take
numbers of one ticket. After each fault, all servers must generate again. In the end no ID and no ticket may have been
given twice, and no ID may lie at or beyond a bound that the registry ever granted to its server.

    make torture-fleet              150 faults and 50 million IDs
    make torture-fleet SEED=7       the same faults as in the run that printed this seed
    make torture-fleet MINUTES=30   as long as wanted
    make torture-fleet REGISTRY=postgresql
"""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from harness import network
from harness.fleet_faults import FAULTS, Fleet, check, check_tickets
from harness.torture_registries import REGISTRIES


@dataclass(frozen=True)
class Plan:
    """How long. It ends when everything is reached, or after `minutes`."""

    seed: int
    faults: int = 150
    ids: int = 50_000_000
    minutes: float = 60.0
    each_once: bool = False
    """One fault of each kind, in an order of the seed's."""
    registry: str = "etcd"

    @classmethod
    def from_environment(cls) -> "Plan":
        seed, minutes = os.environ.get("SEED"), os.environ.get("MINUTES")
        plan = cls(int(seed) if seed else secrets.randbelow(1_000_000), registry=os.environ.get("REGISTRY") or "etcd")
        endless = {"faults": sys.maxsize, "ids": sys.maxsize}
        return replace(plan, minutes=float(minutes), **endless) if minutes else plan


def torture(plan: Plan, tell: Callable[[str], None] = print) -> bool:
    """Runs a plan; returns whether all is well."""
    tell(f"seed {plan.seed}")
    with tempfile.TemporaryDirectory(prefix="id_gen_torture_fleet_") as directory, ExitStack() as stack:
        ways = "networks of their own" if network.are_possible() else "relays"
        tell(f"servers reach the registry, {plan.registry}, over {ways}")
        fleet = Fleet(Path(directory), plan.seed, stack, REGISTRIES[plan.registry])
        started = time.monotonic()
        kinds = list(FAULTS)
        fleet.dice.shuffle(kinds)
        number = 0
        while time.monotonic() - started < plan.minutes * 60:
            if plan.each_once and number == len(kinds):
                break
            if not plan.each_once and number >= plan.faults and fleet.given >= plan.ids:
                break
            kind = kinds[number] if plan.each_once else fleet.dice.choices(list(FAULTS), list(FAULTS.values()))[0]
            story = kind(fleet)
            fleet.await_ids()
            number += 1
            fleet.count[kind.__name__] += 1
            tell(f"{time.monotonic() - started:7.1f} s {fleet.given / 1e6:8.2f} M IDs  #{number:<4} {story}")
        fleet.mover.end()
        for member in fleet.members:
            member.client.end()
        given, of_shards, repeated, beyond = check(Path(directory), fleet.bounds())
        tickets, repeated_tickets = check_tickets(Path(directory))
        tell(", ".join(f"{kind} {times}" for kind, times in sorted(fleet.count.items())))
        moves = fleet.mover.taken
        tell(f"shards taken {moves['take']} times and given back {moves['release']} times")
        found = f"{given:,} IDs, {of_shards:,} of shards, {repeated} duplicates, {beyond} beyond their bound"
        tell(f"seed {plan.seed}: {number} faults, {found}")
        tell(f"{tickets:,} tickets, {repeated_tickets} duplicates")
        if repeated or repeated_tickets or beyond:
            raise AssertionError(
                f"{repeated} and {repeated_tickets} duplicates, {beyond} beyond their bound; SEED={plan.seed}"
            )
        return given > 0 and moves["take"] > 0 and of_shards > 0 and tickets > 0


if __name__ == "__main__":
    sys.exit(not torture(Plan.from_environment(), lambda line: print(line, flush=True)))
