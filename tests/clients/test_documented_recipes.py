"""Every code block of docs/clients.md is part of a file in this directory, which the test of its client runs."""

import re
from textwrap import indent

import pytest

from clients.shop import DIRECTORY
from harness.page import FENCED, Page

pytestmark = pytest.mark.any_server

PAGE = Page(DIRECTORY.parent.parent / "docs/clients.md")
TITLE = "Using id_gen from your framework"
GENERAL = "For every client"
BLOCKS = [found for found in FENCED.finditer(PAGE.text) if found["language"]]
INDENTS = [" " * width for width in (0, 2, 4, 6, 8, 12, 16)]

# What a client's own tools fetch and build.
MADE = {"__pycache__", "node_modules", "target", "build"}


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Every source, after a line's end, so that what is looked for begins a line."""
    files = (path for path in DIRECTORY.rglob("*") if path.is_file())
    ours = (path for path in files if not MADE.intersection(path.relative_to(DIRECTORY).parts))
    return ["\n" + path.read_text(errors="replace") for path in ours]


def test_every_block_names_its_language() -> None:
    assert PAGE.text.count("```") == 2 * len(BLOCKS) > 0


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["text"].strip().splitlines()[0][:50])
def test_block_stands_in_a_file(block: re.Match[str], texts: list[str]) -> None:
    forms = ["\n" + indent(block["text"], prefix) for prefix in INDENTS]
    assert any(form in text for form in forms for text in texts), block["text"]


def test_every_client_has_its_row_and_its_section() -> None:
    sections = re.findall(r"^## (.*)$", FENCED.sub("", PAGE.text), re.MULTILINE)
    clients = [re.match(r"\[(.*?)\]", row[0])[1] for row in PAGE.table(TITLE)]  # type: ignore[index]
    assert [GENERAL, *clients] == sections
