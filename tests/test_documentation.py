"""The documents are run and compared: their SQL on a server set up as the README says, the reference with that server,
their commands and links with what there is.

What a reader copies must work, in the order of the page; what a table states must be what the server does.
"""

import re
import runpy
from collections.abc import Iterator
from difflib import unified_diff
from functools import cache
from pathlib import Path

import pytest

from harness import Cluster
from harness.catalog import CREATE_ALL, OURS
from harness.page import FENCED, HEADING, Page, in_code

ROOT = Path(__file__).parent.parent
README = Page(ROOT / "README.md")
CONTRIBUTING = Page(ROOT / "CONTRIBUTING.md")
REFERENCE = Page(ROOT / "docs/reference.md")
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("contrib/**/*.md")})
README_LINES = 350

# Their SQL has a server of its own: test_operations.py, cluster/test_mask.py, clients/ and monitoring/.
RUN_ELSEWHERE = [
    ROOT / name
    for name in (
        "docs/operations.md",
        "docs/masks.md",
        "docs/clients.md",
        "docs/managed-services.md",
        "docs/partitions.md",
        "contrib/README.md",
    )  # fmt: skip
]
WITH_SQL = [path for path in PAGES if Page(path).blocks("sql") and path not in RUN_ELSEWHERE]

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")

# The functions of the extensions, and whether what one does depends on more than its arguments.
FUNCTIONS = f"""
SELECT p.oid::regprocedure, p.provolatile = 'v', p.proparallel = 's'
  FROM pg_proc p
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
 WHERE {OURS}
"""

# The settings that are not as the reference introduces them: at their default here, and the server's alone.
OTHER_SETTINGS = r"""
LOAD 'id_gen_mask';
SELECT name FROM pg_settings WHERE name ~ '^id_gen(_mask)?[.]' AND (source, context) <> ('default', 'sighup')
"""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def untouched() -> Iterator[Cluster]:
    """A server with the extensions and no setting of theirs."""
    with Cluster("reference", conf="".join(README.blocks("ini"))) as cluster:
        cluster.psql(CREATE_ALL)
        yield cluster


@pytest.mark.parametrize("path", WITH_SQL, ids=name)
def test_sql_runs_from_top_to_bottom(path: Path) -> None:
    statements = Page(path).blocks("sql")
    if path.name != "README.md":
        statements = README.blocks("sql", "Getting started") + statements
    with Cluster("reader", conf="".join(README.blocks("ini"))) as cluster:
        for sql in statements:
            before = cluster.psql("SELECT clock_timestamp()")
            cluster.psql(sql)
            if "pg_reload_conf()" in sql:
                cluster.poll_until(f"SELECT pg_conf_load_time() > '{before}'")
        assert cluster.psql("SELECT count(DISTINCT id) FROM customer") == "3"
        assert cluster.psql("SELECT count(DISTINCT id) FROM invoice") == "3"


def test_pages_with_sql() -> None:
    assert {"README.md", "docs/reference.md", "docs/troubleshooting.md"} <= set(map(name, WITH_SQL))


def test_readme_is_short() -> None:
    assert len(README.text.splitlines()) <= README_LINES


def test_picture(untouched: Cluster) -> None:
    picture = next(text for text in README.blocks("text") if text.startswith("snowflake "))
    call = re.search(r"snowflake_inspect\(\d+, '\w+'\)", README.text)
    assert call
    assert untouched.psql(f"SELECT {call[0]}") == picture.removesuffix("\n")


def test_reference_is_current(untouched: Cluster) -> None:
    rendered = runpy.run_path(str(ROOT / "scripts/reference.py"))["reference"](untouched)
    changes = unified_diff(REFERENCE.text.splitlines(), rendered.splitlines(), "docs/reference.md", "as it should be")
    difference = "\n".join(changes)
    assert not difference, f"docs/reference.md is not current: type `make docs`\n{difference}"


def test_reference_is_complete() -> None:
    """A table whose query finds nothing would be current, too."""
    for title in (
        "Settings",
        "Layouts",
        "Functions",
        "Tools",
        "Setting of masks",
        "Functions of masks",
        "`id_gen_stat`",
        "Errors",
    ):
        assert REFERENCE.table(title), title


def test_volatile_functions_are_not_parallel_safe(untouched: Cluster) -> None:
    functions = [row.split("|") for row in untouched.psql(FUNCTIONS).splitlines()]
    assert functions
    others = [signature for signature, volatile, safe in functions if volatile == safe]
    # What reads the horizon takes a snapshot, which no session may while it has parallel workers. What masks goes by a
    # file, which a worker could find changed.
    assert [each for each in others if "mask" not in each] == ["snowflake_commit_horizon()"]


def test_settings_belong_to_the_server(untouched: Cluster) -> None:
    assert untouched.psql(OTHER_SETTINGS) == ""


@cache
def anchors(path: Path) -> set[str]:
    """What a link can name in a page."""
    headings = HEADING.findall(FENCED.sub("", path.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page: Path) -> None:
    for target in (found["target"] for found in LINK.finditer(FENCED.sub("", page.read_text()))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name} links to {target}, which does not exist"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{page.name} links to {target}, which is no section of that page"


def test_commands() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = "\n".join(
        text for page in (README, CONTRIBUTING) for text in (*page.blocks("sh"), *in_code(FENCED.sub("", page.text)))
    )
    named = set(re.findall(r"\bmake ([a-z0-9-]+)", commands))
    assert named <= targets
    assert {"demo", "test", "test-all", "install"} <= named
    for path in re.findall(r"(?<![\w/.])(?:tests|scripts|demo)/[\w/.]+", commands):
        assert (ROOT / path).exists(), f"the documents name {path}, which does not exist"
    for test in re.findall(r"--package id_gen_core --test (\w+)", commands):
        assert (ROOT / "core" / "tests" / f"{test}.rs").exists()


def test_map() -> None:
    documented = {in_code(row[0])[0].rstrip("/") for row in CONTRIBUTING.table("Map")}
    folders = {name(path) for place in (ROOT, ROOT / "src") for path in place.iterdir() if path.is_dir()}
    assert {each for each in folders if each != "target" and not each.startswith(".")} <= documented
