"""Actions: steps that the explorer may take, each of a kind, and what is counted of them.

    @action("restart", mode=("fast", "immediate"), when=lambda self: self.has_room)
    def restart(self, which: int, gently: bool, mode: str) -> None: ...

What a step is called with is drawn from the values that are named, or by a strategy; where none is named, an `int` is
a `NUMBER`, and a `bool` either. A step whose `when` does not hold is skipped.

`action` is for what happens to servers and sessions, `use` for what uses a feature. `client` is the simplest use of a
feature, which other sessions repeat beside an action, and which follows an action if `then_use` is drawn. An action has
met a feature when the feature was used before it and after it, in one exploration.
"""

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

# Which server, session or database it is: of those that there are, by the remainder.
NUMBER = st.integers(0, 5)

# An exploration, and what is drawn for one of its steps.
Machine = Argument = Any
Values = Iterable[Any] | st.SearchStrategy[Any]
Condition = Callable[[Machine], object]
Decorator = Callable[[Callable[..., None]], Callable[..., None]]

Found = TypeVar("Found")

# The kind and the name of each step, by the class and the method that takes it.
STEPS: dict[str, tuple[str, str]] = {}
# The simplest use of each feature: the name of its method.
CLIENTS: dict[str, str] = {}
# Which clients are busy meanwhile, and for how long before the action begins.
BESIDE = st.lists(st.deferred(lambda: st.sampled_from(sorted(CLIENTS))), max_size=2)
DELAY_MS = st.sampled_from([0, 1, 5, 30, 300])
# What is drawn where nothing else is named, by a parameter's name or type.
USUAL: dict[Any, st.SearchStrategy[Any]] = {
    "beside": BESIDE, "delay_ms": DELAY_MS, int: NUMBER, bool: st.booleans(),
}  # fmt: skip


class Skipped(Exception):
    """There is nothing here that the step is about."""


def pick(found: Sequence[Found], which: int) -> Found:
    """One of those that there are."""
    if not found:
        raise Skipped
    return found[which % len(found)]


def client(feature: str) -> Decorator:
    """The simplest use of a feature: takes a session, and raises Refused."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        CLIENTS[feature] = function.__name__
        return function

    return decorate


def _always(machine: Machine) -> bool:
    return True


def action(name: str, *, when: Condition = _always, **values: Values) -> Decorator:
    return _step("action", name, when, {**values, "then_use": st.booleans()})


def use(feature: str, *, when: Condition = _always, **values: Values) -> Decorator:
    return _step("use", feature, when, values)


def _step(kind: str, name: str, when: Condition, values: dict[str, Values]) -> Decorator:
    """Hypothesis' own preconditions have to be the same whenever the same steps are taken, but what clients and HINTs
    have done meanwhile is not: so `when` is none of them."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def step(self: Machine, **arguments: Argument) -> None:
            if not when(self):
                return
            self.begin_step(function.__name__, arguments)
            then_use = arguments.pop("then_use", False)
            with suppress(Skipped):
                function(self, **arguments)
                self.meetings.note(kind, name)
                if then_use:
                    self.use_everything()
            self.end_step()

        STEPS[function.__qualname__] = (kind, name)
        return rule(**_strategies(function, values))(step)

    return decorate


def _strategies(function: Callable[..., None], values: dict[str, Values]) -> dict[str, st.SearchStrategy[Any]]:
    of_function = inspect.signature(function).parameters.values()
    usual = {each.name: USUAL.get(each.name, USUAL.get(each.annotation)) for each in of_function}
    given = {name: strategy for name, strategy in {**usual, **values}.items() if strategy is not None}
    return {
        name: each if isinstance(each, st.SearchStrategy) else st.sampled_from(list(each))
        for name, each in given.items()
    }


class Meetings:
    """How often each action met each feature."""

    def __init__(self) -> None:
        self.taken: Counter[tuple[str, str]] = Counter()
        self.met: Counter[tuple[str, str]] = Counter()
        self.explorations = 0
        self._used: set[str] = set()
        self._since: dict[str, set[str]] = {}

    def begin(self) -> None:
        """Another exploration."""
        self.explorations += 1
        self._used, self._since = set(), {}

    def note(self, kind: str, name: str) -> None:
        self.taken[kind, name] += 1
        if kind == "use":
            self._used.add(name)
            for happened in self._since.pop(name, ()):
                self.met[happened, name] += 1
        else:
            for feature in self._used:
                self._since.setdefault(feature, set()).add(name)

    def add(self, other: "Meetings") -> None:
        self.explorations += other.explorations
        self.taken += other.taken
        self.met += other.met

    def __str__(self) -> str:
        """A table: how often each action was taken, and how often it met each feature, whose number is its column's."""
        features = sorted(name for kind, name in self.taken if kind == "use")
        actions = sorted(name for kind, name in self.taken if kind == "action")
        lines = [f"{self.explorations} explorations. Actions, how often each was taken, and how often it met"]
        lines += [
            f"  {number:>2} {name}, used {self.taken['use', name]} times" for number, name in enumerate(features, 1)
        ]
        lines.append(f"{'':<24}{'taken':>6}" + "".join(f"{number:>5}" for number in range(1, len(features) + 1)))
        for name in actions:
            met = "".join(f"{self.met[name, feature] or '.':>5}" for feature in features)
            lines.append(f"{name:<24}{self.taken['action', name]:>6}{met}")
        return "\n".join(lines)
