"""Clients of the torture test, which record every ID they receive, and what is checked in their records.

A client asks for IDs in every way there is, over and over, through crashes and restarts. It writes what it receives at
once to a file of 8-byte integers, also the rows of an answer that a crash cut off. A journal beside it says which
connection and which statement received them, and counts refusals. `check_records` reads the records of all clients and
looks for an ID that was given twice, an ID that is not above the one before it in its connection, and a connection that
began below an earlier one.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import psycopg

from harness.clients import INT8, array_elements, copied_rows

TABLE = "CREATE TABLE item (id bigint DEFAULT snowflake_next(), client int)"

RETRY_SECONDS = 0.05
CONNECT_SECONDS = 5
SINGLES = 50

# The largest sequence a tick can hold with the `default` layout, and the node's fields: what is above them is time.
TIME_SHIFT = 22

# About how many IDs may be compared at a time: what fits the memory of a small machine.
SHARE = 50_000_000
# How many examples of each fault are shown.
SHOWN = 5

Keep = Callable[[np.ndarray], None]
Way = Callable[[psycopg.Connection, random.Random, Keep], None]


def streamed(query: str, most: int, columns: int = 1) -> Way:
    """Rows as they arrive, so that those received before a crash are kept."""
    names: dict[str, object] = {f"id{number}": INT8 for number in range(columns)}

    def ask(connection: psycopg.Connection, dice: random.Random, keep: Keep) -> None:
        rows: list[bytes] = []
        statement = query.format(count=some(dice, most))
        try:
            with connection.cursor().copy(f"COPY ({statement}) TO STDOUT (FORMAT binary)") as copy:
                rows.extend(map(bytes, copy))
        finally:
            if content := b"".join(rows):
                received = copied_rows(content, names)
                keep(np.column_stack([received[name] for name in names]).ravel())

    return ask


def as_array(connection: psycopg.Connection, dice: random.Random, keep: Keep) -> None:
    query = "SELECT array_send(snowflake_next_array(%s))"
    with connection.cursor(binary=True) as cursor:
        for (array,) in cursor.execute(query, [some(dice, 10_000)]):
            keep(array_elements(array))


def one_by_one(connection: psycopg.Connection, dice: random.Random, keep: Keep) -> None:
    with connection.cursor(binary=True) as cursor:
        for _ in range(SINGLES):
            keep(np.array(cursor.execute("SELECT snowflake_next()", prepare=True).fetchall()))


def some(dice: random.Random, most: int) -> int:
    """Between 1 and `most`, small numbers as likely as large ones."""
    return round(most ** dice.random())


# How to ask, and how often.
WAYS: dict[str, tuple[Way, int]] = {
    "calls": (streamed("SELECT snowflake_next() FROM generate_series(1, {count})", 20_000), 8),
    "batch": (streamed("SELECT snowflake_next_batch({count})", 20_000), 4),
    "mixed": (streamed("SELECT snowflake_next_batch({count}), snowflake_next()", 2_000, columns=2), 2),
    "inserts": (streamed("INSERT INTO item SELECT FROM generate_series(1, {count}) RETURNING id", 1_000), 3),
    "array": (as_array, 3),
    "singles": (one_by_one, 8),
}


class Journal:
    """One client's record: its IDs, and lines of time, event, number of IDs so far, and detail."""

    def __init__(self, directory: Path, name: str) -> None:
        self._ids = (directory / f"{name}.ids").open("ab", buffering=0)
        self._lines = (directory / f"{name}.journal").open("a", buffering=1)
        self._given = 0

    def keep(self, ids: np.ndarray) -> None:
        self._ids.write(ids.astype(np.int64).tobytes())
        self._given += ids.size

    def note(self, event: str, detail: str = "") -> None:
        self._lines.write(f"{time.time():.6f}\t{event}\t{self._given}\t{detail}\n")

    def note_error(self, error: psycopg.Error) -> None:
        """A refusal by the server with its SQLSTATE, or the loss of a connection."""
        if error.sqlstate:
            self.note("refused", f"{error.sqlstate} {error.diag.message_primary}")
        else:
            self.note("lost", str(error).strip().replace("\n", " ").replace("\t", " "))


def run_client(name: str, directory: Path, where: Path, dbname: str, seed: int, stop: Event) -> None:
    """Asks for IDs until told to stop. The file `where` says, in libpq's words, where the primary is at present."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    journal, dice = Journal(directory, name), random.Random(seed)
    ways, weights = list(WAYS), [weight for _, weight in WAYS.values()]
    while not stop.is_set():
        try:
            with connect(where, dbname) as connection:
                journal.note("connected", f"pid {connection.info.backend_pid} at {connection.info.host}")
                while not stop.is_set() and not connection.closed:
                    way = dice.choices(ways, weights)[0]
                    try:
                        WAYS[way][0](connection, dice, journal.keep)
                        journal.note(way)
                    except psycopg.Error as error:
                        journal.note_error(error)
                        time.sleep(RETRY_SECONDS)
        except psycopg.Error as error:
            journal.note_error(error)
            time.sleep(RETRY_SECONDS)


def connect(where: Path, dbname: str) -> psycopg.Connection:
    return psycopg.connect(
        f"{where.read_text()} dbname={dbname}", autocommit=True, connect_timeout=CONNECT_SECONDS, prepare_threshold=None
    )


@dataclass
class Findings:
    """What the records prove."""

    given: int = 0
    connections: int = 0
    repeated: int = 0
    decreasing: int = 0
    """IDs not above the one before in the same connection."""
    behind: int = 0
    """Connections that began more than a tick below what the same client had been given before."""
    refusals: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    evidence: dict[str, list[str]] = field(default_factory=dict)
    """Examples of each fault: who was given the IDs, and when."""

    @property
    def clean(self) -> bool:
        return not (self.repeated or self.decreasing or self.behind)

    def show(self, fault: str, *circumstances: str) -> None:
        """Keeps an example of a fault, if there are not enough yet."""
        examples = self.evidence.setdefault(fault, [])
        if len(examples) < SHOWN:
            examples.append("\n  ".join(circumstances))


class Record:
    """what one client left behind."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        ids = directory / f"{name}.ids"
        # A file of no bytes can't be mapped.
        self.ids = np.memmap(ids, dtype=np.int64, mode="r") if ids.stat().st_size else np.empty(0, dtype=np.int64)
        lines = (directory / f"{name}.journal").read_text().splitlines()
        self.lines = [line.split("\t") for line in lines]

    def details(self, event: str) -> Iterator[str]:
        return (detail for _, each, _, detail in self.lines if each == event)

    @property
    def connections(self) -> np.ndarray:
        """Where in `ids` each connection begins."""
        return np.array([int(offset) for _, event, offset, _ in self.lines if event == "connected"], dtype=np.int64)

    def circumstances(self, index: int) -> str:
        """Who was given the ID at an index, and when."""
        connection, statement = "", ""
        for when, event, offset, detail in self.lines:
            if event == "connected" and int(offset) <= index:
                connection = f"connected {when} {detail}"
            elif int(offset) > index:
                statement = f"{event} {detail}".strip() + f" that ended {when}"
                break
        return f"{self.ids[index]}: {self.name} ID #{index}, {statement}, {connection}"


def check_records(directory: Path) -> Findings:
    """Reads the records of all clients in a directory."""
    records = [Record(directory, file.stem) for file in sorted(directory.glob("*.ids"))]
    findings = Findings()
    for record in records:
        findings.given += record.ids.size
        findings.refusals.update(detail.split()[0] for detail in record.details("refused"))
        findings.lost += sum(1 for _ in record.details("lost"))
        check_order(record, findings)
    shares = 1 + findings.given // SHARE
    for share in range(shares):
        check_distinct(records, share, shares, findings)
    return findings


def check_order(record: Record, findings: Findings) -> None:
    """Within a connection strictly increasing; from one connection to the next not below by more than a tick."""
    ids, begins = record.ids, record.connections
    findings.connections += begins.size
    begins = begins[(begins > 0) & (begins < ids.size)]
    wrong = np.flatnonzero(ids[1:] <= ids[:-1]) + 1
    wrong = wrong[~np.isin(wrong, begins)]
    findings.decreasing += wrong.size
    for index in wrong[:SHOWN].tolist():
        findings.show("not increasing", record.circumstances(index - 1), record.circumstances(index))

    if begins.size:
        ticks = ids >> TIME_SHIFT
        latest = np.maximum.accumulate(ticks)
        behind = begins[ticks[begins] < latest[begins - 1] - 1]
        findings.behind += behind.size
        for index in behind[:SHOWN].tolist():
            findings.show("begins below", record.circumstances(index - 1), record.circumstances(index))


def check_distinct(records: list[Record], share: int, shares: int, findings: Findings) -> None:
    """No ID twice, among those that leave the remainder `share` when divided by `shares`."""
    ids = np.sort(np.concatenate([record.ids[record.ids % shares == share] for record in records]))
    repeated = np.unique(ids[1:][ids[1:] == ids[:-1]])
    findings.repeated += repeated.size
    for repeated_id in repeated[:SHOWN].tolist():
        places = [(record, at) for record in records for at in np.flatnonzero(record.ids == repeated_id).tolist()]
        findings.show("given more than once", *(record.circumstances(at) for record, at in places))
