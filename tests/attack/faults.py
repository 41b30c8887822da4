"""The faults that can be planted in a test build, as `core/src/planted.rs` lists them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LIST = ROOT / "core/src/planted.rs"

DECLARED = re.compile(r"((?:^    ///.*\n)+)^    (\w+),$", re.MULTILINE)
FIELDS = re.compile(
    r"(?P<about>.*?) Action: (?P<action>.*) Oracle: (?P<oracles>[a-z, ]+)\.(?: Server: (?P<server>\S+)\.)?"
)
ORACLE = re.compile(r"^//! - `(\w+)`: ", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """A fault, and what its comment says of it."""

    name: str
    about: str
    action: str
    oracles: tuple[str, ...]
    """What may show it."""
    server: str | None
    """The mode of a server that has it, if a preloaded library has not."""

    def is_of(self, mode: str) -> bool:
        return self.server in (None, mode)


def faults() -> list[Fault]:
    """All of them, in the order of the list."""
    return [_fault(name, comment) for comment, name in DECLARED.findall(LIST.read_text())]


def known_oracles() -> set[str]:
    """What the head of the list explains."""
    return set(ORACLE.findall(LIST.read_text()))


def _fault(name: str, comment: str) -> Fault:
    text = " ".join(comment.replace("///", "").split())
    found = FIELDS.fullmatch(text)
    if found is None:
        raise ValueError(f"{LIST.name}: the comment of {name} is not of the form that its head explains: {text}")
    oracles = tuple(found["oracles"].split(", "))
    return Fault(name, found["about"], found["action"], oracles, found["server"])
