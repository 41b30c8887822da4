"""No function reads memory that is not its own or not initialized, whatever it is called with: a server under valgrind.

The server is a single process that takes statements from a file. What is decoded are the inputs that the fuzzer found
interesting, as the core's own tests replay them: here they come through SQL, as values that PostgreSQL keeps in each of
its ways. A server that is built for valgrind (PG=18-cassert) shows more than another.
"""

import subprocess
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from harness import GENERATING, Cluster
from harness.arguments import FUZZED, fuzzed
from harness.catalog import CREATE_ALL, EXTENSIONS, Function, functions, views
from harness.cluster import environment
from harness.masks import MASKING, write_key_file

CORPUS = Path(__file__).parents[2] / "core/fuzz/corpus"
LIBRARIES = {f"{name}.so" for name in EXTENSIONS}
# As PostgreSQL suppresses it itself (src/tools/valgrind.supp): padding of WAL records is written, but never read. Its
# memory may come from a statement that a function of ours runs.
PADDING = """
{
   padding_XLogRecData_write
   Memcheck:Param
   pwrite64(buf)
   ...
   fun:XLogWrite
}
"""
# In Unix seconds; most layouts hold it.
BEGIN_OF_2026 = 1_767_225_600

# Each input stands in the table three times: as a short value, one in a row of its own and a compressed one.
SPELLINGS = 3
# What every function is called with is in harness/arguments.py. These are more.
IN_BULK = (
    "SELECT snowflake_next(), public.uuidv7(), public.uuidv7(interval '1 day') FROM generate_series(1, 1000)",
    "SELECT snowflake_next_array(1000)",
    "SELECT count(*) FROM snowflake_next_batch(10000)",
    "SELECT snowflake_parse(snowflake_next()), snowflake_inspect(snowflake_next())",
    "SELECT * FROM id_gen_check()",
)


class Report(NamedTuple):
    """What was called, what the server answered, and what valgrind says of it."""

    called: list[Function]
    answers: str
    seen: xml.Element


def corpus(name: str) -> Iterator[tuple[int, bytes]]:
    """The inputs of a kind, taken apart as core/fuzz/laws.rs does it: a number, and the rest."""
    for file in sorted((CORPUS / name).iterdir()):
        content = file.read_bytes()
        yield int.from_bytes(content[:8].ljust(8, b"\0"), "big", signed=True), content[8:]


def fill(cluster: Cluster) -> dict[str, int]:
    """Puts the inputs into tables. Returns how many rows each has."""
    cluster.psql(CREATE_ALL)
    cluster.psql("""
        SELECT id_gen_shard_take(7, above => 0);
        CREATE TABLE given (place serial, number bigint, instant timestamptz, layout text);
        CREATE TABLE uuid_given (place serial, id uuid);
    """)
    with cluster.connect() as connection:
        for number, rest in corpus("layout"):
            text = rest.decode(errors="replace").replace("\0", "")
            within, anywhere = BEGIN_OF_2026 + abs(number) % 1_000_000, number % 10_000_000_000
            for layout, second in ((text, within), (text + " " * 200, within), (text + " " * 2500, anywhere)):
                connection.execute(
                    "INSERT INTO given (number, instant, layout) VALUES (%s, to_timestamp(%s), %s)",
                    (number, second, layout),
                )
        for _, rest in corpus("uuid"):
            if len(rest) >= 16:
                connection.execute("INSERT INTO uuid_given (id) VALUES (encode(%s, 'hex')::uuid)", (rest[:16],))
    return {table: int(cluster.psql(f"SELECT max(place) FROM {table}")) for table in FUZZED}


def calls(function: Function, given: Mapping[str | None, list[str]], rows: Mapping[str, int]) -> Iterator[str]:
    """A statement for each row of each table that has arguments for it: a refusal ends only its own statement."""
    for table, arguments in given.items():
        call = function.call(arguments)
        if table is None:
            yield f"SELECT {call}, '{function}' AS answered"
            if function.returns_set or function.columns:
                # As rows of its own, and also if there are none.
                yield f"SELECT * FROM {call}"
                yield f"SELECT count(*), '{function}' AS answered FROM {call}"
            continue
        # Without its layout, every spelling of an input is the same.
        step = 1 if table != "given" or "layout" in arguments else SPELLINGS
        for place in range(1, rows[table] + 1, step):
            yield f"SELECT {call}, '{function}' AS answered FROM {table} WHERE place = {place}"


@pytest.fixture(scope="module")
def report() -> Report:
    with Cluster(conf=GENERATING + MASKING) as cluster:
        write_key_file(cluster)
        rows = fill(cluster)
        called = fuzzed(functions(cluster))
        statements = [*IN_BULK, *(f"SELECT * FROM {view}" for view in views(cluster))]
        statements += [statement for function, given in called.items() for statement in calls(function, given, rows)]
        cluster.stop()
        seen, suppressions = cluster.base / "valgrind.xml", cluster.base / "suppressions"
        suppressions.write_text(PADDING)
        done = subprocess.run(
            [
                "valgrind", "--quiet", "--xml=yes", f"--xml-file={seen}", "--track-origins=yes", "--num-callers=50",
                "--error-limit=no", f"--suppressions={suppressions}",
                cluster.server.bindir / "postgres", "--single", "-D", cluster.data, "postgres",
            ],
            env=environment(),
            input="".join(f"{statement}\n" for statement in statements),
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **cluster.server.as_owner,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
        return Report(list(called), done.stdout, xml.parse(seen).getroot())


def errors(seen: xml.Element) -> list[xml.Element]:
    """Without what is still allocated at the end: PostgreSQL leaves its memory to the operating system."""
    return [error for error in seen.iter("error") if not error.findtext("kind", "").startswith("Leak_")]


def is_ours(frame: xml.Element) -> bool:
    return Path(frame.findtext("obj", "")).name in LIBRARIES


def described(error: xml.Element) -> str:
    """An error of valgrind's as text, with its stack."""
    lines = [error.findtext("what", "")]
    for part in error:
        if part.tag == "auxwhat":
            lines.append(part.text or "")
        lines += [
            f"    {frame.findtext('fn')} ({Path(frame.findtext('obj', '')).name})" for frame in part.iter("frame")
        ]
    return "\n".join(lines)


def test_the_inputs_got_there(report: Report) -> None:
    for function in report.called:
        assert f'answered = "{function}"' in report.answers
    assert 'count = "10000"' in report.answers
    assert "invalid layout" in report.answers
    assert "terminated" not in report.answers and "TRAP" not in report.answers


def test_valgrind_reports_nothing_of_the_libraries(report: Report) -> None:
    """Of PostgreSQL itself it may; an error with one of ours anywhere on its stack is ours."""
    ours = [described(error) for error in errors(report.seen) if any(is_ours(frame) for frame in error.iter("frame"))]
    assert not ours, "\n\n".join(ours)
