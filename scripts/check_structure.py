"""Imports go one way: in src/ a folder uses those below it in the table of src/lib.rs, never those above, and files use
each other in no circle, there or in another crate. A crate uses those that CRATES gives it, and leaves to others what
OWNED gives to them.

Prints what is wrong, and where; `--list` prints every import instead.
"""

import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent

# The project's other crates that each uses, and of `core` only these modules.
CRATES = {
    "base": {"id_gen_core::clock", "id_gen_core::horizon", "id_gen_core::layout", "id_gen_core::planted",
             "id_gen_core::presets", "id_gen_core::test_server", "id_gen_core::time", "id_gen_core::tsc"},
    "core": set(),
    "id_gen_mask": {"id_gen_base", "id_gen_mask_rules"},
    "id_gen_mask/rules": {"id_gen_core::digits", "id_gen_core::text"},
    "id_gen_tools": {"id_gen_base", "id_gen_core"},
    "registry": {"id_gen_core"},
    ".": {"id_gen_base", "id_gen_core"},
}  # fmt: skip
USED = re.compile(r"(?<![\w:.])(id_gen_\w+)::(\w+|\{)")
# What only one crate may have: a second one would have it a second time, in each process that loads both.
OWNED = {
    "shared memory": (
        ".",
        re.compile(
            r"\b(?:Shmem\w+|RequestAddinShmemSpace|shmem_(?:request|startup)_hook|GetNamedDS\w+|(?:dsa|dsm|dshash)_\w+"
            r"|PgLwLock|PgAtomic|pg_shmem_init)\b"
        ),
    ),
    "settings that begin with id_gen.": (".", re.compile(r'"id_gen\.\w+"')),
    "settings that begin with id_gen_mask.": ("id_gen_mask", re.compile(r'"id_gen_mask\.\w+"')),
    "a connection over a network": ("registry", re.compile(r"\bstd::net\b")),
    "a hook of the log": (".", re.compile(r"\bemit_log_hook\b")),
}
# What another crate asks of id_gen, by SQL; only this file of id_gen_tools knows it.
ASKS = "id_gen_tools/src/server.rs"
ASKED = re.compile(
    r"(?:current_setting|set_config)\('id_gen\.|^\W*(?:SHOW|SET|SET LOCAL) id_gen\."
    r"|\.id_gen_(?:server_info|ready|status|fleet_\w+)\(",
    re.MULTILINE,
)
# What base and the pure crates do not have: a function that SQL calls is one extension's.
EXPORTED = re.compile(r"^(?:sql_function! \{|#\[pg_extern)", re.MULTILINE)
WITHOUT_FUNCTIONS = ("base", "core", "id_gen_mask/rules", "registry")

# The folders of src/, as the table of src/lib.rs lists them.
LISTED = re.compile(r"^//! \| \[`(\w+)`\] \|", re.MULTILINE)
COMMENT = re.compile(r"//.*")
SQL_COMMENT = re.compile(r"--.*")
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*?^\}", re.MULTILINE | re.DOTALL)
# What a folder's mod.rs declares, and so shows to others.
DECLARED = re.compile(r"^(?:pub )?mod (\w+);", re.MULTILINE)
# A path from the crate's root or from the parent module, and the group of names that may end it.
PATH = re.compile(r"\b(?P<root>crate|super)::(?P<path>(?:\w+::)*)(?P<last>\w+|\{[^;]*?\})", re.DOTALL)


def module_file(base: Path, names: list[str]) -> Path | None:
    """The file that a path leads into: the longest prefix of it that is a module."""
    found = None
    for end in range(1, len(names) + 1):
        place = base.joinpath(*names[:end])
        for file in (place.with_suffix(".rs"), place / "mod.rs"):
            if file.exists():
                found = file
    return found


def names_in(group: str) -> Iterator[list[str]]:
    """The paths that a use declaration's group stands for: `{a, b::{c, d}}` for a, b::c and b::d."""
    depth, start = 0, 1
    for position, letter in enumerate(group):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if (letter == "," and depth == 1) or (letter == "}" and depth == 0):
            item = group[start:position].strip()
            start = position + 1
            if "{" in item:
                prefix, _, rest = item.partition("{")
                for names in names_in("{" + rest):
                    yield [*prefix.strip(":").split("::"), *names]
            elif item:
                yield item.split(" as ")[0].split("::")


def imports(file: Path, base: Path) -> set[Path]:
    """The files whose names a file uses."""
    text = COMMENT.sub("", TESTS.sub("", file.read_text()))
    found = {target for name in DECLARED.findall(text) if (target := module_file(file.parent, [name]))}
    for match in PATH.finditer(text):
        start = base if match["root"] == "crate" else file.parent
        prefix = [name for name in match["path"].split("::") if name]
        last = match["last"]
        for names in names_in(last) if last.startswith("{") else [[last]]:
            target = module_file(start, prefix + names)
            if target is not None and target != file:
                found.add(target)
    return found


def arrows(base: Path) -> dict[Path, set[Path]]:
    return {file: imports(file, base) for file in sorted(base.rglob("*.rs")) if file != base / "lib.rs"}


def upward(source: dict[Path, set[Path]], base: Path, order: list[str]) -> Iterator[str]:
    def rank(file: Path) -> int:
        return order.index(file.relative_to(base).parts[0])

    for file, targets in source.items():
        for target in sorted(targets):
            if rank(target) < rank(file):
                yield f"{file.relative_to(ROOT)} uses {target.relative_to(ROOT)}, which is above it in src/lib.rs"


def circle(graph: dict[Path, set[Path]]) -> Iterator[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "these files use each other in a circle: " + " -> ".join(
            str(file.relative_to(ROOT)) for file in reversed(error.args[1])
        )


def code(crate: str) -> Iterator[tuple[Path, str]]:
    """The files of a crate, without comments and tests."""
    for file in sorted((ROOT / crate / "src").rglob("*.rs")):
        yield file.relative_to(ROOT), COMMENT.sub("", TESTS.sub("", file.read_text()))


def scripts(crate: str) -> Iterator[tuple[Path, str]]:
    """The SQL of an extension."""
    for file in sorted((ROOT / crate / "sql").glob("*.sql")):
        yield file.relative_to(ROOT), SQL_COMMENT.sub("", file.read_text())


def foreign(crate: str, allowed: set[str]) -> Iterator[str]:
    """What a crate uses and should not."""
    for file, text in code(crate):
        for name, module in USED.findall(text):
            if not {name, f"{name}::{module}"} & allowed:
                yield f"{file} uses {name}::{module}, which is not for {crate}"
        for what, (owner, pattern) in OWNED.items():
            if owner != crate and (found := pattern.search(text)):
                yield f"{file} has {what}, which is for {owner} only: {found[0]}"
        if crate in WITHOUT_FUNCTIONS and (found := EXPORTED.search(text)):
            yield f"{file} exports to SQL: {found[0]}"
    for file, text in () if crate == "." else (*code(crate), *scripts(crate)):
        if str(file) != ASKS and (found := ASKED.search(text)):
            yield f"{file} asks id_gen, which is for {ASKS}: {found[0].strip()}"


def main() -> None:
    source, libraries = ROOT / "src", [ROOT / name / "src" for name in CRATES if name != "."]
    order = LISTED.findall((source / "lib.rs").read_text())
    unlisted = {path.stem for path in source.iterdir() if path.name != "lib.rs"} ^ set(order)
    graph = arrows(source)
    if "--list" in sys.argv:
        for each in (graph, *map(arrows, libraries)):
            for file, targets in each.items():
                for target in sorted(targets):
                    print(f"{file.relative_to(ROOT)} -> {target.relative_to(ROOT)}")
        return
    if unlisted:
        sys.exit(f"the table of src/lib.rs and the folders of src/ differ: {', '.join(sorted(unlisted))}")
    circles = (found for each in (graph, *map(arrows, libraries)) for found in circle(each))
    crates = (found for crate, allowed in CRATES.items() for found in foreign(crate, allowed))
    wrong = [*upward(graph, source, order), *circles, *crates]
    if wrong:
        sys.exit("\n".join(wrong))


main()
