"""The machines: which features meet which surroundings, and how often each machine's turn comes."""

from attack.converter import Converter
from attack.copies import Copies
from attack.dumps import Dumps
from attack.explorer import Explorer
from attack.fleet import Fleet
from attack.horizon import Horizon
from attack.managed import Managed
from attack.masks import Masks
from attack.offsets import Offsets
from attack.sessions import Sessions
from attack.shards import Shards
from attack.surroundings import Surroundings
from attack.tickets import Tickets


class Server(Copies, Dumps, Tickets, Shards, Horizon, Sessions, Masks):
    """Servers and their copies, with all features that need no other program."""


class Converting(Dumps, Converter, Surroundings):
    """Few servers, whose columns are converted."""


class Managing(Managed):
    """A server of databases with the script for managed services."""


class Dividing(Offsets):
    """Databases as servers, whose sequences are divided."""


MACHINES: dict[str, type[Explorer]] = {each.__name__: each for each in (Server, Fleet, Converting, Managing, Dividing)}

# Whose turn comes, one after the other: most defects there were of servers and fleets.
TURNS = ("Server", "Fleet", "Server", "Converting", "Server", "Fleet", "Managing", "Server", "Converting", "Dividing")
