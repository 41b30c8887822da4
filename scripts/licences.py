"""Writes what cargo-about has found, its JSON on stdin, as the text of THIRD-PARTY-LICENSES on stdout.

cargo-about has templates for that, but they can't fill in the names that a text leaves open: several crates bring no
text, or one without a name, and say in their sources whose they are.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

Package = dict[str, Any]

INTRODUCTION = """\
The libraries of id_gen hold code of the Rust crates below: they are linked into one, or are macros that have written
some of its code. Each is listed with the licence that it offers, and after the list comes the text of the licence that
is made use of; where a crate leaves the choice, that is MIT. The project's own licence is in the file LICENSE.

The libraries also hold parts of the Rust standard library, which comes with the compiler: Copyright The Rust Project
Developers (see https://thanks.rust-lang.org), licensed as MIT OR Apache-2.0, with parts under licences of their own
that the compiler's documentation names (COPYRIGHT-library.html).

This file is made by `make licences`.
"""

RULE = "-" * 80

# What a text has where a name is to be filled in.
BLANK = "<copyright holders>"
# A line of a source that names a holder of the copyright, with whatever marks it as a comment.
NOTICE = re.compile(
    r"^//(?:LICENSE)?\s*(?:SPDX-FileCopyrightText:\s*(?P<holder>\S.*)|(?P<notice>(?:Portions )?Copyright\b.*\d{4}.*))$",
    re.MULTILINE,
)


def title(package: Package) -> str:
    return f"{package['name']} {package['version']}"


def notices(package: Package) -> list[str]:
    """Whose a crate is, in the words of its sources, or else of its description."""
    found: set[str] = set()
    for source in Path(package["manifest_path"]).parent.rglob("*.rs"):
        for match in NOTICE.finditer(source.read_text()):
            found.add(match["notice"] or f"Copyright {match['holder']}")
    if found:
        return sorted(found)
    if not package["authors"]:
        sys.exit(f"{title(package)} does not say whose it is")
    return [f"Copyright the authors: {', '.join(package['authors'])}"]


def section(licence: dict[str, Any]) -> str:
    """A text, below the crates that it is of."""
    packages = sorted((use["crate"] for use in licence["used_by"]), key=title)
    lines = [RULE, f"{licence['name']} ({licence['id']}), of:", ""]
    for package in packages:
        lines.append(f"  {title(package)}")
        if BLANK in licence["text"]:
            lines += [f"    {notice}" for notice in notices(package)]
    text = "\n".join(line.rstrip() for line in licence["text"].strip("\n").splitlines())
    return "\n".join([*lines, "", text, ""])


found = json.load(sys.stdin)
crates = sorted((f"* {title(each['package'])}: {each['license']}" for each in found["crates"]), key=str.lower)
sections = sorted(map(section, found["licenses"]), key=str.lower)
print("\n".join([INTRODUCTION, *crates, "", *sections]), end="")
