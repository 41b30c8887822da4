"""No function reads memory that is not its own, or that nobody wrote, whatever it is given: valgrind watches a server.

The server is a single process that takes statements from a file. What is decoded are the inputs that the fuzzer found
interesting, as the core's own tests replay them: here they come through SQL, as values that PostgreSQL keeps in each of
its ways. A server built to tell valgrind of its memory (PG=18-cassert) shows more than another.
"""

import subprocess
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import GENERATING, Cluster
from harness.cluster import environment

CORPUS = Path(__file__).parents[2] / "core/fuzz/corpus"
LIBRARY = "id_gen.so"
# In Unix seconds; most layouts hold it.
BEGIN_OF_2026 = 1_767_225_600

# Each for every text that might be a layout, and a number. One that is refused does not keep the next from running.
OF_A_LAYOUT = (
    "snowflake_parse(number, layout)", "snowflake_inspect(number, layout)", "snowflake_timestamp(number, layout)",
    "snowflake_make(instant, 0, 0, 0, layout)", "snowflake_min(instant, layout)", "snowflake_max(instant, layout)",
)  # fmt: skip
OF_A_UUID = (
    "uuidv7_timestamp(id)", "public.uuid_extract_timestamp(id)", "public.uuid_extract_version(id)",
    "uuidv7_min(public.uuid_extract_timestamp(id))", "uuidv7_max(public.uuid_extract_timestamp(id))",
)  # fmt: skip
OF_NOTHING = (
    "SELECT snowflake_next(), public.uuidv7(), public.uuidv7(interval '1 day') FROM generate_series(1, 1000)",
    "SELECT snowflake_next_array(1000)",
    "SELECT count(*) FROM snowflake_next_batch(10000)",
    "SELECT snowflake_parse(snowflake_next()), snowflake_inspect(snowflake_next())",
    "SELECT * FROM snowflake_layouts()",
    "SELECT * FROM id_gen_plan(10000, 10, 30)",
    "SELECT * FROM id_gen_status()",
    "SELECT * FROM id_gen_check()",
    "SELECT * FROM id_gen_stat",
    "SELECT * FROM id_gen_stat_backends",
)


def corpus(name: str) -> Iterator[tuple[int, bytes]]:
    """The inputs of a kind, taken apart as core/fuzz/laws.rs does it: a number, and the rest."""
    for file in sorted((CORPUS / name).iterdir()):
        content = file.read_bytes()
        yield int.from_bytes(content[:8].ljust(8, b"\0"), "big", signed=True), content[8:]


def fill(cluster: Cluster) -> int:
    """Puts the inputs into tables: a layout as a short value, one in a row of its own and a compressed one."""
    cluster.psql("""
        CREATE EXTENSION id_gen;
        CREATE TABLE given (place serial, number bigint, instant timestamptz, layout text);
        CREATE TABLE uuid_given (id uuid);
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
                connection.execute("INSERT INTO uuid_given VALUES (encode(%s, 'hex')::uuid)", (rest[:16],))
        return connection.execute("SELECT max(place) FROM given").fetchone()[0]


def statements(rows: int) -> Iterator[str]:
    yield from OF_NOTHING
    for place in range(1, rows + 1):
        for call in OF_A_LAYOUT:
            yield f"SELECT {call} FROM given WHERE place = {place}"
    for call in OF_A_UUID:
        yield f"SELECT {call} FROM uuid_given"


@pytest.fixture(scope="module")
def report() -> tuple[str, xml.Element]:
    """What the server answered, and what valgrind says of it."""
    with Cluster(conf=GENERATING) as cluster:
        typed = "".join(f"{statement}\n" for statement in statements(fill(cluster)))
        cluster.stop()
        seen = cluster.base / "valgrind.xml"
        done = subprocess.run(
            [
                "valgrind", "--quiet", "--xml=yes", f"--xml-file={seen}", "--track-origins=yes", "--num-callers=50",
                "--error-limit=no",
                cluster.server.bindir / "postgres", "--single", "-D", cluster.data, "postgres",
            ],
            env=environment(),
            input=typed,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **cluster.server.as_owner,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
        return done.stdout, xml.parse(seen).getroot()


def errors(seen: xml.Element) -> list[xml.Element]:
    """Without what is still allocated at the end: PostgreSQL leaves its memory to the operating system."""
    return [error for error in seen.iter("error") if not error.findtext("kind", "").startswith("Leak_")]


def is_ours(frame: xml.Element) -> bool:
    return Path(frame.findtext("obj", "")).name == LIBRARY


def told(error: xml.Element) -> str:
    """An error of valgrind's in its words, with the functions that led to it."""
    lines = [error.findtext("what", "")]
    for part in error:
        if part.tag == "auxwhat":
            lines.append(part.text or "")
        lines += [
            f"    {frame.findtext('fn')} ({Path(frame.findtext('obj', '')).name})" for frame in part.iter("frame")
        ]
    return "\n".join(lines)


def test_the_inputs_got_there(report: tuple[str, xml.Element]) -> None:
    answers, _ = report
    called = {call.partition("(")[0].removeprefix("public.") for call in OF_A_LAYOUT + OF_A_UUID}
    for answer in ("snowflake_next", "uuidv7", "snowflake_next_array", *called):
        assert f"{answer} = " in answers
    assert 'count = "10000"' in answers
    assert "invalid layout" in answers
    assert "terminated" not in answers and "TRAP" not in answers


def test_valgrind_has_nothing_to_say_of_us(report: tuple[str, xml.Element]) -> None:
    """Of PostgreSQL itself it may; what has us anywhere on its way is ours."""
    _, seen = report
    ours = [told(error) for error in errors(seen) if any(is_ours(frame) for frame in error.iter("frame"))]
    assert not ours, "\n\n".join(ours)
