"""Writes docs/reference.md (`make docs`).

What a person has to say stands in reference.md beside this file. Its tables come from the catalogues of a running
server; the table of errors comes from the sources, which hold every message next to its SQLSTATE. A test renders the
page again and compares.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness import Cluster
from harness.catalog import CREATE_ALL

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "scripts/reference.md"
PAGE = ROOT / "docs/reference.md"

# What has messages of errors.
SOURCES = ("src", "id_gen_mask", "id_gen_tools", "base/src", "core/src")

# Where the template takes a table, and of which extension: of id_gen if it names none.
PLACE = re.compile(r"^<!-- (\w+)(?: of (\w+))? -->$", re.MULTILINE)

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000}

# A session knows the settings once it has loaded the library, and shows a default as it would be typed.
SETTINGS = r"""
LOAD '%(extension)s';
SELECT json_build_object(
           'name', name, 'default', current_setting(name), 'unit', coalesce(unit, ''), 'low', min_val, 'high', max_val,
           'values', enumvals, 'does', concat_ws(' ', short_desc, extra_desc))
  FROM pg_settings
 WHERE split_part(name, '.', 1) = '%(extension)s'
 ORDER BY name
"""

LAYOUTS = """
SELECT json_build_object(
           'name', name, 'about', about, 'layout', layout, 'tick_ms', extract(epoch FROM tick) * 1000,
           'rate', ids_per_second, 'nodes', nodes, 'last', ((exhausted_at - interval '1 ms') AT TIME ZONE 'UTC')::date)
  FROM snowflake_layouts()
"""

# Those that concern the server come last. Beside superusers, the roles that were granted a function may call it, and
# those that were granted a view may read it.
FUNCTIONS = r"""
SELECT json_build_object(
           'name', p.proname,
           'arguments', regexp_replace(pg_get_function_arguments(p.oid), '(^|, )OUT .*', ''),
           'columns', (SELECT string_agg(concat_ws(' ', name, type::regtype), ', ' ORDER BY place)
                         FROM unnest(p.proargnames, p.proallargtypes, p.proargmodes)
                              WITH ORDINALITY AS argument (name, type, mode, place)
                        WHERE mode IN ('o', 't')),
           'type', p.prorettype::regtype,
           'rows', p.proretset,
           'does', obj_description(p.oid, 'pg_proc'),
           'volatility', CASE p.provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
           'strict', p.proisstrict,
           'parallel', CASE p.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END,
           'callers', (SELECT json_agg(CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
                         FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))
                        WHERE grantee <> p.proowner))
  FROM pg_proc p
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = '%(extension)s'
 ORDER BY starts_with(p.proname, 'id_gen'), p.proname, p.pronargs, pg_get_function_arguments(p.oid)
"""

VIEWS = """
SELECT json_build_object(
           'name', c.relname,
           'does', obj_description(c.oid, 'pg_class'),
           'readers', (SELECT json_agg(CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
                         FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner)))
                        WHERE grantee <> c.relowner),
           'columns', (SELECT json_agg(json_build_object(
                                  'name', attname, 'type', format_type(atttypid, atttypmod),
                                  'does', coalesce(col_description(attrelid, attnum), '')) ORDER BY attnum)
                         FROM pg_attribute
                        WHERE attrelid = c.oid AND attnum > 0))
  FROM pg_depend d
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'id_gen'
  JOIN pg_class c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'v'
 WHERE d.refclassid = 'pg_extension'::regclass
 ORDER BY c.relname
"""

# The SQLSTATE that PostgreSQL has for the name of a condition.
SQLSTATE = """
CREATE FUNCTION pg_temp.sqlstate(condition text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = condition;
EXCEPTION WHEN OTHERS OR query_canceled OR assert_failure THEN
    RETURN sqlstate;
END $$;
SELECT json_build_object('condition', condition, 'sqlstate', pg_temp.sqlstate(condition)) FROM unnest(ARRAY%s) condition
"""

TEXT = r'"((?:[^"\\]|\\.)*)"'
# An error, or what a kind of trouble is put into words with: its SQLSTATE, or what the operating system's error is made
# into; then its message.
ERROR = re.compile(r"(?:::new|=> )\(\s*(?P<code>(?:\w+::)*ERRCODE_\w+|\w+\.sqlstate\(\))\s*,\s*")
MESSAGE = re.compile(rf"(?:format!\(\s*)?{TEXT}")
SQLSTATE_OF = re.compile(r"fn sqlstate\b.*?\n    }\n", re.DOTALL)
# Notices and warnings are no errors. Only the constants of classes 39 and 40 name the class too.
CONDITION = re.compile(r"ERRCODE_(?!WARNING|SUCCESSFUL_COMPLETION)(?:E_R_I_E_|T_R_)?(\w+)")
# An error of the pure code whose message is passed on: the variant that was matched last, and what it says.
VARIANT = re.compile(r"\b(\w+Error)::(\w+)")
ENUM = re.compile(r"\benum (\w+)")
SAYS = re.compile(rf"#\[error\({TEXT}[^\]]*\)\]\s*(\w+)")
CONSTANT = re.compile(rf"const ([A-Z_]+): &str = {TEXT};")
INSERTED = re.compile(r"\{(\w*)[^}]*\}")


def asked(cluster: Cluster, query: str) -> list[dict[str, Any]]:
    """The rows of a query that gives one JSON object a row."""
    return [json.loads(row) for row in cluster.psql(query).splitlines()]


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = ([cell.replace("|", r"\|") for cell in line] for line in (heads, ["---"] * len(heads), *rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    return f"`{text.replace('timestamp with time zone', 'timestamptz')}`" if text else ""


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def roles(granted: list[str] | None) -> str:
    return ", ".join(map(code, granted or [])) or "superusers"


def with_unit(value: str, unit: str) -> str:
    """A bound of a setting in its largest whole unit, as one would type it."""
    if unit != "ms" or int(value) == 0:
        return value
    for name, length_ms in UNITS_MS.items():
        if int(value) % length_ms == 0:
            return f"{int(value) // length_ms}{name}"
    return f"{value}ms"


def settings(cluster: Cluster, extension: str) -> str:
    rows = []
    for each in asked(cluster, SETTINGS % {"extension": extension}):
        bounds = ""
        if each["values"]:
            bounds = ", ".join(map(code, each["values"]))
        elif each["low"] is not None:
            bounds = " to ".join(code(with_unit(each[end], each["unit"])) for end in ("low", "high"))
        rows.append([code(each["name"]), code(each["default"]), code(each["unit"]), bounds, each["does"]])
    return table(["Name", "Default", "Unit", "Range", "What it does"], rows)


def layouts(cluster: Cluster, _: str) -> str:
    rows = []
    for each in asked(cluster, LAYOUTS):
        words = each["layout"].split()
        given = dict(word.split("=") for word in words if "=" in word)
        fields = code(" ".join(word for word in words if ":" in word and "=" not in word))
        bits = " (64 bits)" if "unsigned" in words else ""
        rate, nodes = (f"{each[name]:,}" for name in ("rate", "nodes"))
        row = [
            code(each["name"]),
            each["about"],
            given["epoch"],
            given["tick"],
            fields + bits,
            rate,
            nodes,
            each["last"],
        ]
        rows.append(row)
    heads = [
        "Name",
        "For",
        "Epoch",
        "Tick",
        "Fields, from the highest bit",
        "IDs per second and worker",
        "Nodes",
        "Last day",
    ]
    return table(heads, rows)


def functions(cluster: Cluster, extension: str) -> str:
    rows = []
    for each in asked(cluster, FUNCTIONS % {"extension": extension}):
        several = "rows: " if each["rows"] else "row: " if each["columns"] else ""
        strict = " STRICT" if each["strict"] else ""
        rows.append(
            [
                code(f"{each['name']}({each['arguments']})"),
                several + code(each["columns"] or each["type"]),
                sentence(each["does"]),
                code(f"{each['volatility']}{strict} PARALLEL {each['parallel']}"),
                roles(each["callers"]),
            ]
        )
    return table(["Function", "Result", "What it does", "Marked", "Who may call it"], rows)


def views(cluster: Cluster, _: str) -> str:
    parts = []
    for view in asked(cluster, VIEWS):
        rows = [[code(column["name"]), code(column["type"]), column["does"]] for column in view["columns"]]
        columns = table(["Column", "Type", "What it is"], rows)
        about = f"{sentence(view['does'])} Who may read it: {roles(view['readers'])}."
        parts.append(f"### {code(view['name'])}\n\n{about}\n\n{columns}")
    return "\n\n".join(parts)


def errors(cluster: Cluster, _: str) -> str:
    sources = [path.read_text() for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.rs"))]
    messages: dict[str, list[str]] = {}
    for condition, message in messages_in(sources):
        messages.setdefault(condition, []).append(message)
    if unread := {name.lower() for name in CONDITION.findall("".join(sources))} - messages.keys():
        raise ValueError(f"these errors have no message that this program can read: {', '.join(sorted(unread))}")

    names = ", ".join(f"'{condition}'" for condition in messages)
    rows = []
    for each in asked(cluster, SQLSTATE % f"[{names}]"):
        if each["sqlstate"] == "42704" and each["condition"] != "undefined_object":
            raise ValueError(f"PostgreSQL knows no condition {each['condition']}")
        said = "<br>".join(map(code, dict.fromkeys(messages[each["condition"]])))
        rows.append([each["sqlstate"], code(each["condition"]), said])
    return table(["SQLSTATE", "Condition", "Messages"], sorted(rows))


def messages_in(sources: Iterable[str]) -> Iterable[tuple[str, str]]:
    """The condition and the message of every error."""
    constants = {name: text for source in sources for name, text in CONSTANT.findall(source)}
    says = dict(what_errors_say(sources))
    of_file_error = "".join(
        found for source in sources for found in SQLSTATE_OF.findall(source) if "ErrorKind" in found
    )
    for source in sources:
        for error in ERROR.finditer(source):
            text = MESSAGE.match(source, error.end())
            # Otherwise `error.to_string()`, in the arm for that error.
            message = text[1] if text else says[VARIANT.findall(source, 0, error.start())[-1]]
            message = INSERTED.sub(lambda inserted: shown(inserted[1], constants), message).replace('\\"', '"')
            for condition in CONDITION.findall(error["code"] if "ERRCODE" in error["code"] else of_file_error):
                yield condition.lower(), message


def shown(name: str, constants: dict[str, str]) -> str:
    """What stands for a value that a message inserts: a constant's text, or the value's name if it has one."""
    return constants.get(name) or (f"<{name}>" if re.match("[a-z]", name) else "…")


def what_errors_say(sources: Iterable[str]) -> Iterable[tuple[tuple[str, str], str]]:
    """What `Display` gives for the variants of an error: the `#[error("...")]` above each."""
    for source in sources:
        for found in SAYS.finditer(source):
            text, variant = found.groups()
            yield (ENUM.findall(source, 0, found.start())[-1], variant), text


TABLES = {"settings": settings, "layouts": layouts, "functions": functions, "views": views, "errors": errors}


def reference(cluster: Cluster) -> str:
    """The page, by a server that has the extensions and no setting of theirs."""
    return PLACE.sub(lambda place: TABLES[place[1]](cluster, place[2] or "id_gen"), TEMPLATE.read_text())


if __name__ == "__main__":
    with Cluster("reference") as cluster:
        cluster.psql(CREATE_ALL)
        PAGE.write_text(reference(cluster))
