"""The faults that can be planted in a test build, as `core/src/planted.rs` lists them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
LIST = ROOT / "core/src/planted.rs"

DECLARED = re.compile(r"((?:^    ///.*\n)+)^    (\w+),$", re.MULTILINE)
FIELDS = re.compile(r".* Action: .* Oracle: ([a-z, ]+)\.(?: Server: (\S+)\.)?")
ORACLE = re.compile(r"^//! - `(\w+)`: ", re.MULTILINE)


class Fault(NamedTuple):
    """A fault, and what its comment says of it."""

    name: str
    oracles: tuple[str, ...]
    """What may show it."""
    server: str | None
    """The mode of a server that has it, if a preloaded library has not."""

    def is_of(self, mode: str) -> bool:
        return self.server in (None, mode)


def faults() -> list[Fault]:
    """All of them, in the order of the list."""
    found = []
    for comment, name in DECLARED.findall(LIST.read_text()):
        fields = FIELDS.fullmatch(" ".join(comment.replace("///", "").split()))
        assert fields, f"{LIST.name}: the comment of {name} is not of the form that its head explains"
        found.append(Fault(name, tuple(fields[1].split(", ")), fields[2]))
    return found


def known_oracles() -> set[str]:
    """What the head of the list explains."""
    return set(ORACLE.findall(LIST.read_text()))
