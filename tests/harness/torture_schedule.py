"""Schedule of the torture test: which incidents happen, in which order. The same seed gives the same incidents.

A round is a deck of incidents in random order, each with parameters of its own: so proportions are those of the deck,
and after some rounds everything has happened to servers in every state. Nothing here looks at a server or a clock.
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle

MAX_JUMP_S = 600.0

# One round of each: about ten crashes and as many steps of the clock.
FULL_ROUND = {
    "kill client": 2,
    "kill keeper": 1,
    "kill any process": 2,
    "kill postmaster": 2,
    "immediate stop": 2,
    "restart": 1,
    "terminate client": 1,
    "terminate keeper": 1,
    "reload": 6,
    "clock back": 3,
    "clock forward": 2,
    "clock flutter": 1,
    "clock jump": 1,
    "clock jump while down": 1,
}
SHORT_ROUND = dict.fromkeys(FULL_ROUND, 1) | {"reload": 3, "clock jump while down": 0}

# These two come with every round: a standby, and some time later the failover to it.
NEW_STANDBY = "new standby"
FAILOVER = "failover"

# What reloads set, and to what in turn.
SETTINGS = {
    "max_block_size": ("1", "4096", "64"),
    "max_lead": ("0", "5s"),
    "max_wait": ("0", "1s"),
    "sequence_start": ("zero", "spread"),
    "worker_id": ("2", "1"),
    "datacenter_id": ("3", "0"),
}


@dataclass(frozen=True)
class Incident:
    """One thing that happens, with whatever it may need."""

    kind: str
    pause_s: float
    """How long the load runs before it."""
    hold_s: float
    """How long a wrong clock stays wrong."""
    step_s: float
    """By how much the clock is set: while a server is down forward or back, or not at all."""
    pick: float
    """Which one of several: from 0 to below 1."""
    setting: tuple[str, str] | None
    """A setting and its value, for a reload."""
    agreed: bool
    """Whether the administrator accepts a jump of the clock, or puts the clock right."""


def incidents(seed: int, deck: Mapping[str, int]) -> Iterator[Incident]:
    """The same for the same seed, without end."""
    dice = random.Random(seed)
    values = {name: cycle(turn) for name, turn in SETTINGS.items()}
    while True:
        kinds = [kind for kind, times in deck.items() for _ in range(times)]
        dice.shuffle(kinds)
        first, second = sorted(dice.sample(range(len(kinds) + 1), 2))
        kinds.insert(second, FAILOVER)
        kinds.insert(first, NEW_STANDBY)
        yield from (draw(dice, kind, values) for kind in kinds)


def length(deck: Mapping[str, int]) -> int:
    """How many incidents make a round."""
    return sum(deck.values()) + len((NEW_STANDBY, FAILOVER))


def draw(dice: random.Random, kind: str, values: Mapping[str, Iterator[str]]) -> Incident:
    name = dice.choice(list(values)) if kind == "reload" else ""
    return Incident(
        kind=kind,
        pause_s=dice.uniform(0.2, 1.5),
        hold_s=dice.uniform(0.2, 1.0),
        step_s=step_of(dice, kind),
        pick=dice.random(),
        setting=(name, next(values[name])) if name else None,
        agreed=dice.random() < 0.5,
    )


def step_of(dice: random.Random, kind: str) -> float:
    """From milliseconds to minutes, small steps as likely as large ones."""
    match kind:
        case "clock back":
            return -spread(dice, 0.005, 300)
        case "clock forward":
            return spread(dice, 0.005, 0.9 * MAX_JUMP_S)
        case "clock jump" | "clock jump while down":
            return dice.uniform(1.1 * MAX_JUMP_S, 3600)
        case "kill postmaster" | "immediate stop" | "restart":
            return dice.choice([0.0, -spread(dice, 0.05, 120), spread(dice, 0.05, 0.8 * MAX_JUMP_S)])
        case _:
            return 0.0


def spread(dice: random.Random, low: float, high: float) -> float:
    return math.exp(dice.uniform(math.log(low), math.log(high)))
