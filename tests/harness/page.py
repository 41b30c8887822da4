"""A page of the documentation, taken apart: its code, its sections, its tables."""

import re
from pathlib import Path

FENCED = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"`([^`]*)`")


class Page:
    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.text = path.read_text()

    def section(self, title: str) -> str:
        """The text below a heading, up to the next one."""
        found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", self.text, re.MULTILINE | re.DOTALL)
        assert found, f"{self.name} has no section {title!r}"
        return found[1]

    def chapter(self, title: str) -> str:
        """The text below a heading of the second level, with all its sections."""
        found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", self.text, re.MULTILINE | re.DOTALL)
        assert found, f"{self.name} has no chapter {title!r}"
        return found[1]

    def blocks(self, language: str, title: str | None = None) -> list[str]:
        """The code in a language, of one section or of the whole page."""
        return blocks_of(self.text if title is None else self.section(title), language)

    def table(self, title: str) -> list[list[str]]:
        """The cells of the first table below a heading, without its head."""
        return self.tables(title)[0]

    def tables(self, title: str) -> list[list[list[str]]]:
        """The cells of every table below a heading, without their heads."""
        tables = re.findall(r"(?:^\|.*\n)+", self.section(title), re.MULTILINE)
        return [[_cells(line) for line in table.splitlines()[2:]] for table in tables]


def blocks_of(text: str, language: str) -> list[str]:
    return [found["text"] for found in FENCED.finditer(text) if found["language"] == language]


def in_code(cell: str) -> list[str]:
    return CODE.findall(cell)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
