"""The machines: which features meet which surroundings, and how often each machine's turn comes."""

from attack.action import CLIENTS, STEPS
from attack.converter import Converter
from attack.copies import Copies
from attack.dumps import Dumps
from attack.explorer import Explorer
from attack.fleet import Fleet
from attack.horizon import Horizon
from attack.managed import Managed
from attack.masks import Masks
from attack.offsets import Offsets
from attack.partitions import Partitions
from attack.sessions import Sessions
from attack.shards import Shards
from attack.surroundings import Surroundings
from attack.tickets import Tickets
from attack.ulids import Ulids


class Server(Copies, Dumps, Tickets, Shards, Horizon, Sessions, Masks, Ulids, Partitions):
    """Servers and their copies, with all features that need no other program."""


class Converting(Dumps, Converter, Surroundings):
    """Few servers, whose columns are converted."""


class Managing(Managed):
    """A server of databases with the script for managed services."""


class Dividing(Offsets):
    """Databases as servers, whose sequences are divided."""


MACHINES: dict[str, type[Explorer]] = {each.__name__: each for each in (Server, Fleet, Converting, Managing, Dividing)}

# Whose turn comes, one after the other: most defects there were of servers and fleets.
TURNS = (
    "Server", "Fleet", "Converting", "Server", "Fleet", "Converting", "Server", "Managing", "Server", "Converting",
    "Dividing",
)  # fmt: skip


def steps(machine: type[Explorer], kind: str) -> list[str]:
    """The names of a machine's actions, or of the features that it uses."""
    methods = (f"{mixin.__name__}.{name}" for mixin in machine.__mro__ for name in vars(mixin))
    found = {STEPS[method][1] for method in methods if STEPS.get(method, ("",))[0] == kind}
    clients = {feature for feature, method in CLIENTS.items() if kind == "use" and hasattr(machine, method)}
    return sorted(found | clients)


def overview() -> str:
    """What README.md has of them: a row for each machine."""
    lines = ["| Machine | Actions | Features |", "| --- | --- | --- |"]
    for name, machine in MACHINES.items():
        lines.append(f"| {name} | {', '.join(steps(machine, 'action'))} | {', '.join(steps(machine, 'use'))} |")
    return "\n".join(lines)
