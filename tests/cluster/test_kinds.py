"""What every kind of ID promises, asked of each function that the catalog has: a new kind is tried as it is installed.

Generators are the volatile functions that everybody may call and that return one ID; whether theirs are in order, their
comment says. Codecs are pairs of functions named `..._encode` and `..._decode`.
"""

import random
import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psycopg
import pytest

from harness import GENERATING, PRELOAD, PRELOADED, Cluster, FakeClock, effort
from harness.arguments import ORDINARY, SHARD, values
from harness.catalog import Argument, Function, functions
from harness.clients import copy_all, crowd
from harness.ids import refusal
from harness.order import Statement, assert_all_distinct, assert_ordered_across_clients, is_increasing

CLIENTS = 16
DATABASES = ("postgres", "other")
SEATS = [DATABASES[number % len(DATABASES)] for number in range(CLIENTS)]
EACH = effort(1_000_000, 100_000)

# What a comment promises.
IN_ORDER = re.compile("greater than all earlier ones of (this session|.* on this server)")
IN_ORDER_OVER_THE_SERVER = re.compile("greater than all earlier ones of .* on this server")

# Bytes of what a generator returns; of text as many as its first ID has.
WIDTHS = {"bigint": 8, "uuid": 16}
ID_TYPES = (*WIDTHS, "text")

INVALID_TEXT = "22P02"
HOUR = 3600


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster(conf=GENERATING) as cluster:
        create_databases(cluster)
        cluster.psql(f"SELECT id_gen_shard_take({SHARD}, above => 0)")
        yield cluster


def create_databases(cluster: Cluster) -> None:
    cluster.psql("CREATE DATABASE other")
    for dbname in DATABASES:
        cluster.psql("CREATE EXTENSION id_gen", dbname)


def call(function: Function) -> str:
    """A call with ordinary values, in which `i` is the number of the call."""
    return function.call(values(function, ORDINARY, "ORDINARY"))


def is_generator(function: Function) -> bool:
    one_id = function.result in ID_TYPES and not function.returns_set
    return function.is_of_library and function.is_volatile and not function.is_for_superusers and one_id


def generators(server: Cluster, promise: re.Pattern[str] = re.compile("")) -> list[Function]:
    """Those whose comment promises that."""
    every = functions(server)
    found = [function for function in every if is_generator(function) and promise.search(function.comment)]
    assert found
    return found


# Sixteen clients at once


@pytest.mark.long
@pytest.mark.any_server
def test_millions_of_each_are_distinct_and_in_the_order_that_is_promised(server: Cluster) -> None:
    for function in generators(server):
        expression = call(function)
        width = WIDTHS.get(function.result) or int(
            server.psql(f"SELECT octet_length({expression}) FROM generate_series(1::bigint, 1) i")
        )
        query = f"SELECT {expression} FROM generate_series(1::bigint, {EACH}) i"
        answers = copy_all(server, query, {"id": f"S{width}"}, SEATS)
        assert all(rows.size == EACH and (rows["id_bytes"] == width).all() for rows in answers), str(function)
        ids = [rows["id"] for rows in answers]
        if IN_ORDER.search(function.comment):
            assert all(map(is_increasing, ids)), f"{function}: the IDs of one session are not strictly increasing"
        assert_all_distinct(ids)


def test_a_session_s_are_in_the_order_that_is_promised_over_its_statements(server: Cluster) -> None:
    for function in generators(server, IN_ORDER):
        one = f"SELECT {call(function)} FROM generate_series(1::bigint, 1) i"
        some = one.replace(", 1) i", ", 5) i")
        with server.connect() as connection:
            given = [row[0] for _ in range(1_000) for query in (one, some) for row in connection.execute(query)]
        assert given == sorted(set(given)), str(function)


def log_statements(conninfo: str, statements: int, query: str) -> list[Statement]:
    """Asks over and over, noting CLOCK_MONOTONIC (one clock for all processes of a machine) around each statement."""
    log = []
    with psycopg.connect(conninfo, autocommit=True) as connection, connection.cursor() as cursor:
        for _ in range(statements):
            requested = time.monotonic_ns()
            cursor.execute(query)
            returned = time.monotonic_ns()
            given = [row[0] for row in cursor]
            log.append(Statement(requested, returned, min(given), max(given)))
    return log


@pytest.mark.parametrize(("statements", "ids_each"), [(2_000, 1), (500, 100)], ids=["single", "many"])
def test_order_over_the_server(statements: int, ids_each: int) -> None:
    """The clock stands still, or it would be what orders them."""
    clock = FakeClock()
    clock.freeze()
    with Cluster(conf=GENERATING, clock=clock) as cluster:
        create_databases(cluster)
        for function in generators(cluster, IN_ORDER_OVER_THE_SERVER):
            query = f"SELECT {call(function)} FROM generate_series(1::bigint, {ids_each}) i"
            logs = crowd(log_statements, [(cluster.conninfo(dbname), statements, query) for dbname in SEATS])
            assert_ordered_across_clients(statement for log in logs for statement in log)


# Strict order over the server needs shared memory, and nothing else

ORDERED = "SELECT uuidv7_ordered()"
LEAD = "SELECT extract(epoch FROM uuidv7_timestamp(uuidv7_ordered()) - clock_timestamp())::float8"


def test_strict_order_goes_on_when_the_clock_is_set_back() -> None:
    """From the last one, without a worker number: so the time leads the clock by what that was set back, less what has
    passed since."""
    clock = FakeClock()
    with Cluster(conf=PRELOAD if PRELOADED else "", clock=clock) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        with cluster.connect() as one, cluster.connect() as other:
            began = time.monotonic()
            given = [each.execute(ORDERED).fetchone()[0] for each in (one, other)]
            clock.step(-HOUR)
            given += [each.execute(ORDERED).fetchone()[0] for each in (other, one) * 100]
            assert given == sorted(set(given))
            lead = one.execute(LEAD).fetchone()[0]
            passed = time.monotonic() - began
            # The milliseconds of a UUID are rounded down.
            assert HOUR - passed - 0.01 < lead < HOUR

            clock.put_right()
            assert one.execute(LEAD).fetchone()[0] <= 0
            given.append(other.execute(ORDERED).fetchone()[0])
            assert given == sorted(set(given))


def test_strict_order_on_a_standby() -> None:
    """It is the standby's own."""
    with Cluster(conf=PRELOAD if PRELOADED else "") as primary:
        primary.psql("CREATE EXTENSION id_gen")
        with Cluster("standby", standby_of=primary) as standby:
            primary.wait_for_catchup(standby)
            with standby.connect() as one, standby.connect() as other:
                given = [each.execute(ORDERED).fetchone()[0] for each in (one, other) * 100]
            assert given == sorted(set(given))


# Codecs

FORMAT = Argument("format", "text")
EDITS = 10_000
RANDOM_IDS = 10_000
# What comes into a text by accident: what looks alike, what is not to be seen, and what is beyond ASCII.
STRAYS = [*map(chr, range(1, 128)), *"OIlL01oiuU_-", "é", "ß", "ſ", "0", "Ⅰ", "😀", "\u200b", "\u202e"]  # noqa: RUF001

REREAD = """
CREATE FUNCTION pg_temp.reread(given text[])
RETURNS TABLE (text text, refused text, written text) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH text IN ARRAY given LOOP
        refused := NULL;
        written := NULL;
        BEGIN
            written := {written};
        EXCEPTION WHEN OTHERS THEN
            refused := SQLSTATE;
        END;
        RETURN NEXT;
    END LOOP;
END $$
"""


class Codec(NamedTuple):
    """A pair of functions, with the name of a format where they have several."""

    encode: Function
    decode: Function
    format: str | None

    def __str__(self) -> str:
        return f"{self.encode} in {self.format}" if self.format else str(self.encode)

    @property
    def type(self) -> str:
        """Of the IDs."""
        return self.decode.result

    def encoded(self, id: str) -> str:
        return self._call(self.encode, id)

    def decoded(self, text: str) -> str:
        return self._call(self.decode, text)

    def _call(self, function: Function, value: str) -> str:
        """With that value, and the same for what both functions have beside it."""
        options = set(self.encode.arguments) & set(self.decode.arguments)
        ordinary = dict(zip(function.arguments, values(function, ORDINARY, "ORDINARY"), strict=True))
        if self.format:
            ordinary |= {FORMAT: f"'{self.format}'"}
        return function.call(ordinary[argument] if argument in options else value for argument in function.arguments)


def codecs(server: Cluster) -> list[Codec]:
    every = [each for each in functions(server) if each.is_of_library]
    found = []
    for encode in every:
        stem, is_encode, _ = encode.bare_name.partition("_encode")
        if is_encode:
            taken = {argument.type for argument in encode.arguments}
            (decode,) = (each for each in every if each.bare_name.startswith(f"{stem}_decode") and each.result in taken)
            names = formats(server, encode) if FORMAT in encode.arguments else [None]
            found += [Codec(encode, decode, name) for name in names]
    assert found
    return found


def formats(server: Cluster, encode: Function) -> list[str]:
    """The names that the error for a wrong one tells."""
    wrong = Codec(encode, encode, "none").encoded("NULL")
    error = refusal(server, f"SELECT {wrong} FROM (SELECT 1::bigint AS i) call")
    names = re.fullmatch(r"The formats are (.*)\.", error.detail or "")
    assert names
    return re.split(", | and ", names[1])


def some_ids(type: str, source: random.Random) -> list[object]:
    """The ends, and random ones of every size."""
    bits = {"uuid": 128}.get(type, 64)
    near = [(1 << power) + more for power in range(bits) for more in (-1, 0, 1)]
    numbers = [0, (1 << bits) - 1, *near, *(source.getrandbits(source.randint(1, bits)) for _ in range(RANDOM_IDS))]
    distinct = sorted({number % (1 << bits) for number in numbers})
    return [FORMS[type](number) for number in distinct]


# How SQL writes a value whose bits are a number, so that larger numbers are later in order.
FORMS = {
    "uuid": lambda number: f"{number:032x}",
    "bigint": lambda number: number - (1 << 64 if number >> 63 else 0),
    # Lists of none to three numbers from 0 on.
    "bigint[]": lambda number: [number >> 1 + 20 * place & (1 << 63) - 1 for place in range(number % 4)],
}


def edited(text: str, source: random.Random) -> str:
    """With one to three slips of a hand."""
    letters = list(text)
    for _ in range(source.randint(1, 3)):
        place = source.randrange(len(letters) + 1)
        stray = source.choice(letters) if letters and source.random() < 0.5 else source.choice(STRAYS)
        match source.randrange(5):
            case 0:
                letters[place : place + 1] = [stray]
            case 1:
                letters.insert(place, stray)
            case 2:
                del letters[place : place + 1]
            case 3:
                letters[place : place + 2] = reversed(letters[place : place + 2])
            case 4:
                letters[place : place + 1] = [letter.swapcase() for letter in letters[place : place + 1]]
    return "".join(letters)


def written(connection: psycopg.Connection, codec: Codec, ids: Sequence[object]) -> list[tuple[str, bool]]:
    """The text of each ID, and whether the same ID is read from it."""
    # As text, since unnest() would take the lists of a list apart.
    as_text = [f"{{{','.join(map(str, id))}}}" if isinstance(id, list) else str(id) for id in ids]
    id = f"given::{codec.type}"
    return connection.execute(
        f"SELECT {codec.encoded(id)}, {codec.decoded(codec.encoded(id))} = {id}"
        " FROM unnest(%s::text[]) WITH ORDINALITY AS ids (given, place) ORDER BY place",
        [as_text],
    ).fetchall()


@pytest.mark.long
@pytest.mark.any_server
def test_codecs_read_what_they_write_and_keep_the_order(server: Cluster) -> None:
    for codec in codecs(server):
        ids = some_ids(codec.type, random.Random(str(codec)))
        with server.connect() as connection:
            rows = written(connection, codec, ids)
            texts = [text for text, _ in rows]
            assert len(rows) == len(ids) and all(same for _, same in rows), str(codec)
            if codec.type != "bigint[]":
                in_order = 'SELECT array_agg(text ORDER BY text COLLATE "C") FROM unnest(%s::text[]) AS text'
                assert connection.execute(in_order, [texts]).fetchone() == (texts,), f"{codec} does not keep the order"
                assert len(set(texts)) == len(texts), str(codec)


@pytest.mark.long
@pytest.mark.any_server
def test_codecs_refuse_every_text_that_they_do_not_write(server: Cluster) -> None:
    for codec in codecs(server):
        source = random.Random(str(codec))
        with server.connect() as connection:
            texts = [text for text, _ in written(connection, codec, some_ids(codec.type, source))]
            given = [edited(source.choice(texts), source) for _ in range(EDITS)]
            connection.execute(REREAD.format(written=codec.encoded(codec.decoded("text"))))
            rows = connection.execute("SELECT * FROM pg_temp.reread(%s)", [given]).fetchall()
        assert [text for text, _, _ in rows] == given
        wrong = [row for row in rows if row[1:] not in ((INVALID_TEXT, None), (None, row[0]))]
        assert not wrong, f"{codec}: {len(wrong)} texts, among them {wrong[:3]}"
        # Both happen, or this has tried nothing.
        assert {refused for _, refused, _ in rows} == {None, INVALID_TEXT}, str(codec)
