"""Actions: steps that the explorer may take, each of a kind, and what is counted of them.

    class Stops(Explorer):
        @action("restart", server=NUMBER, mode=st.sampled_from(["fast", "immediate"]))
        def restart(self, server, mode): ...

        @use("tickets", server=NUMBER)
        def take_ticket(self, server): ...

`action` is for what happens to servers and sessions, `use` for what uses a feature. An action has met a feature when the
feature was used before it and after it, in one exploration.
"""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

# Which server, session or database it is: of those that there are, by the remainder.
NUMBER = st.integers(0, 5)


def action(name: str, **parameters: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return _step("action", name, parameters)


def use(feature: str, **parameters: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return _step("use", feature, parameters)


def _step(kind: str, name: str, parameters: dict[str, st.SearchStrategy[Any]]) -> Callable[..., Callable[..., None]]:
    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def step(self: Any, **arguments: Any) -> None:
            self.begin_step(kind, name, function.__name__, arguments)
            function(self, **arguments)
            self.end_step()

        step.step_kind, step.step_name = kind, name  # type: ignore[attr-defined]
        return rule(**parameters)(step)

    return decorate


class Meetings:
    """How often each action met each feature."""

    def __init__(self) -> None:
        self.taken: Counter[tuple[str, str]] = Counter()
        self.met: Counter[tuple[str, str]] = Counter()
        self.begin()

    def begin(self) -> None:
        """Another exploration."""
        self._used: set[str] = set()
        self._since: dict[str, set[str]] = {}

    def note(self, kind: str, name: str) -> None:
        self.taken[kind, name] += 1
        if kind == "use":
            self._used.add(name)
            for happened in self._since.pop(name, ()):
                self.met[happened, name] += 1
        else:
            for feature in self._used:
                self._since.setdefault(feature, set()).add(name)
