"""The README is run and compared: its SQL on a server set up as it says, its tables with that server, its links.

What a reader copies must work, in the order of the page; what a table states must be what the server does.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Cluster
from harness.page import FENCED, HEADING, Page, in_code

# The server is set up as the README says, which preloads.
pytestmark = pytest.mark.any_mode

ROOT = Path(__file__).parent.parent
PAGE = Page(ROOT / "README.md")
README, blocks, table = PAGE.text, PAGE.blocks, PAGE.table
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
MS_PER_UNIT = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}

# One row for each function: signature, result, volatility, and whether it is not parallel safe.
FUNCTIONS = """
SELECT format('%s(%s)', p.proname, regexp_replace(pg_get_function_arguments(p.oid), '(^|, )OUT .*', '')),
       coalesce((SELECT string_agg(format('%s %s', name, type::regtype), ', ' ORDER BY place)
                   FROM unnest(p.proargnames, p.proallargtypes, p.proargmodes)
                        WITH ORDINALITY AS argument (name, type, mode, place)
                  WHERE mode IN ('o', 't')),
                pg_get_function_result(p.oid)),
       CASE p.provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
       p.proparallel <> 's'
  FROM pg_proc p
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
 WHERE e.extname = 'id_gen'
"""

VIEWS = """
SELECT c.relname, string_agg(a.attname, ' ' ORDER BY a.attnum)
  FROM pg_depend d
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'id_gen'
  JOIN pg_class c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'v'
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
 WHERE d.refclassid = 'pg_extension'::regclass
 GROUP BY c.relname
"""

# A setting's default as SHOW gives it, since this runs where none is set.
SETTINGS = r"""
SELECT name, current_setting(name), coalesce(unit, ''), vartype, coalesce(min_val, ''), coalesce(max_val, ''),
       coalesce(array_to_string(enumvals, ' '), '')
  FROM pg_settings WHERE name LIKE 'id\_gen.%' AND source = 'default' AND context = 'sighup'
"""

LAYOUTS = """
SELECT name, layout, extract(epoch FROM tick) * 1000, ids_per_second, nodes,
       ((runs_out - interval '1 ms') AT TIME ZONE 'UTC')::date
  FROM snowflake_layouts()
"""


def forms(signature: str) -> list[str]:
    """`f(a [, b])` stands for `f(a)` and `f(a, b)`."""
    start, optional, rest = re.fullmatch(r"(.*?)(?: \[(, .*)\])?(\))", signature).groups()  # type: ignore[union-attr]
    return [start + rest, start + optional + rest] if optional else [signature]


def short(types: str) -> str:
    return types.replace("timestamp with time zone", "timestamptz")


def milliseconds(value: str) -> str:
    """A setting's bound as pg_settings has it."""
    number, unit = re.fullmatch(r"(-?\d+)(\w*)", value).groups()  # type: ignore[union-attr]
    return str(int(number) * MS_PER_UNIT[unit]) if unit else number


@pytest.fixture(scope="module")
def untouched() -> Iterator[Cluster]:
    """A server with the library and no setting of it."""
    with Cluster("reference", conf="".join(blocks("ini"))) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        yield cluster


def test_sql_runs_from_top_to_bottom() -> None:
    statements = blocks("sql")
    assert len(statements) > 10
    with Cluster("readme", conf="".join(blocks("ini"))) as cluster:
        for sql in statements:
            before = cluster.psql("SELECT clock_timestamp()")
            cluster.psql(sql)
            if "pg_reload_conf()" in sql:
                cluster.poll_until(f"SELECT pg_conf_load_time() > '{before}'")
        assert cluster.psql("SELECT count(DISTINCT id) FROM customer") == "3"
        assert cluster.psql("SELECT count(DISTINCT id) FROM invoice") == "3"


def test_picture(untouched: Cluster) -> None:
    picture = next(text for text in blocks("text") if text.startswith("snowflake "))
    call = re.search(r"snowflake_inspect\(\d+, '\w+'\)", README)
    assert call
    assert untouched.psql(f"SELECT {call[0]}") == picture.removesuffix("\n")


def test_functions(untouched: Cluster) -> None:
    documented = set()
    for signature, result, volatilities, _errors in table("Functions"):
        for form, volatility in zip(forms(in_code(signature)[0]), in_code(volatilities), strict=True):
            documented.add((form, in_code(result)[0], volatility))

    functions = [short(row).split("|") for row in untouched.psql(FUNCTIONS).splitlines()]
    installed = {(signature, result, volatility) for signature, result, volatility, _ in functions}
    assert documented == installed
    for signature, _, volatility, restricted in functions:
        assert (volatility == "VOLATILE") == (restricted == "t"), signature


def test_views(untouched: Cluster) -> None:
    documented: dict[str, list[str]] = {}
    for view, columns, _ in table("Statistics"):
        if view:
            documented[in_code(view)[0]] = []
        documented[list(documented)[-1]] += in_code(columns)
    assert documented == {
        name: columns.split() for name, columns in (row.split("|") for row in untouched.psql(VIEWS).splitlines())
    }


def test_settings(untouched: Cluster) -> None:
    documented = {}
    for name, default, unit, bounds, _ in table("Settings"):
        limits = in_code(bounds)
        documented[in_code(name)[0]] = [*in_code(default), "".join(in_code(unit)), limits]

    installed = {}
    for row in untouched.psql(SETTINGS).splitlines():
        name, default, unit, kind, low, high, values = row.split("|")
        installed[name] = [default, unit, {"integer": [low, high], "enum": values.split(), "string": []}[kind]]
    for name, (*_, limits) in documented.items():
        if all(re.fullmatch(r"-?\d+\w*", limit) for limit in limits):
            limits[:] = map(milliseconds, limits)
        assert name in installed, f"{name} is in README.md, but no setting of the server"
    assert documented == installed


def test_layouts(untouched: Cluster) -> None:
    documented = set()
    for name, _use, epoch, tick, fields, rate, nodes, last_day in table("Layouts"):
        unsigned = "unsigned " if "64 bits" in fields else ""
        text = f"epoch={epoch} tick={tick.replace(' ', '')} {unsigned}{in_code(fields)[0]}"
        documented.add("|".join([*in_code(name), text, rate.replace(",", ""), nodes.replace(",", ""), last_day]))

    rows = [row.split("|") for row in untouched.psql(LAYOUTS).splitlines()]
    assert documented == {"|".join([name, text, rate, nodes, last]) for name, text, _, rate, nodes, last in rows}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    text = FENCED.sub("", page.read_text())
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}
    for target in (found["target"] for found in LINK.finditer(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        assert (page.parent / path).exists(), f"{page.name} links to {target}, which does not exist"
        assert path or anchor in anchors, f"{page.name} links to its section {target}, which does not exist"


def test_commands() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = "\n".join([*blocks("sh"), *in_code(FENCED.sub("", README))])
    named = set(re.findall(r"\bmake ([a-z-]+)", commands))
    assert named <= targets
    assert {"demo", "test", "test-all", "install"} <= named
    for path in re.findall(r"(?<![\w/.])(?:tests|scripts|demo)/[\w/.]+", commands):
        assert (ROOT / path).exists(), f"README.md names {path}, which does not exist"
    for name in re.findall(r"--package id_gen_core --test (\w+)", commands):
        assert (ROOT / "core" / "tests" / f"{name}.rs").exists()
