"""ULIDs and TypeIDs: generated, stored, written as text and read again."""

import time
from itertools import count
from uuid import UUID

from hypothesis import strategies as st

from attack.action import client, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import Session

SCHEMA = """
CREATE TABLE parcel (id uuid PRIMARY KEY DEFAULT ulid(), owner text COLLATE "C" UNIQUE DEFAULT typeid('user'),
    made_by text DEFAULT session_user);
GRANT SELECT, INSERT ON parcel TO clerk;
"""
# Statements that generate, and return what they have generated.
ULIDS = (
    "SELECT ulid() AS id",
    "SELECT ulid() AS id FROM generate_series(1, 100)",
    "SELECT ulid_decode(ulid_encode(ulid())) AS id FROM generate_series(1, 20)",
    "INSERT INTO public.parcel DEFAULT VALUES RETURNING id",
    "INSERT INTO public.parcel (made_by) SELECT 'many' FROM generate_series(1, 300) RETURNING id",
)
TYPEIDS = (
    "SELECT typeid('{prefix}') AS id",
    "SELECT typeid('{prefix}') AS id FROM generate_series(1, 100)",
    "INSERT INTO public.parcel (owner) VALUES (typeid('{prefix}')) RETURNING owner AS id",
    "INSERT INTO public.parcel (owner) SELECT typeid('{prefix}') FROM generate_series(1, 300) RETURNING owner AS id",
)
# A default has a prefix of its own: the last form is for "user".
FORMS = (*ULIDS, *TYPEIDS, "INSERT INTO public.parcel DEFAULT VALUES RETURNING owner AS id")
PREFIX = st.sampled_from(["user", "", "of_two_words", "x" * 63])

# Each as a UUID and as text, whether both mean the same, and its time, which no setting of a session writes otherwise.
READ_ULIDS = """
WITH made AS ({form})
SELECT id, ulid_encode(id), ulid_decode(ulid_encode(id)) = id
       AND id BETWEEN ulid_min(ulid_timestamp(id)) AND ulid_max(ulid_timestamp(id)),
       extract(epoch FROM ulid_timestamp(id))
  FROM made
"""
READ_TYPEIDS = """
WITH made AS ({form}), read AS (SELECT id AS written, typeid_decode(id, '{prefix}') AS id FROM made)
SELECT id, written, typeid_prefix(written) = '{prefix}' AND typeid_encode(id, '{prefix}') = written,
       extract(epoch FROM uuidv7_timestamp(id))
  FROM read
"""
# How far a time may be from the clocks.
NEAR_S = 0.1
# A session reads the clock once a millisecond: then it has seen that it was set.
READS_CLOCK_S = 0.02


class Ulids(Explorer):
    """Uses of ULIDs and TypeIDs."""

    schema = SCHEMA

    def __init__(self) -> None:
        self._turns = count()
        self._latest_of_kind: dict[tuple[str, str], tuple[UUID, str]] = {}
        super().__init__()

    @use("ULIDs and TypeIDs", form=FORMS[:-1], prefix=PREFIX)
    def use_ulid_or_typeid(self, which: int, form: str, prefix: str) -> None:
        self.ask(self.world.session(which), lambda session: self._judge(session, form, prefix))

    @client("ULIDs and TypeIDs")
    def use_ulids_and_typeids(self, session: Session) -> None:
        """With each form in turn, as uses of their own are drawn rarely."""
        self._judge(session, FORMS[next(self._turns) % len(FORMS)], "user")

    # Oracles

    def _judge(self, session: Session, form: str, prefix: str) -> None:
        kind, read = ("ULIDs", READ_ULIDS) if form in ULIDS else (f"TypeIDs of {prefix!r}", READ_TYPEIDS)
        query = read.format(form=form.format(prefix=prefix), prefix=prefix)
        if self._far_from_clock(session, kind, query):
            time.sleep(READS_CLOCK_S)
            if far := self._far_from_clock(session, kind, query):
                raise Finding("time", f"{session} was given {far}")

    def _far_from_clock(self, session: Session, kind: str, query: str) -> str | None:
        """Generates, and looks at all but the time; returns how that differs from the clocks, if it does.

        A session whose clock was set back goes on above what it was given before, which is at most the latest time that
        any clock ever showed.
        """
        wall = self.world.wall
        earliest = wall.now() - NEAR_S
        rows = session.run(query)
        latest = wall.now() + wall.behind_s + NEAR_S
        # Texts come as bytes where the client's encoding is none.
        made = [(value, text.decode() if isinstance(text, bytes) else text) for value, text, _, _ in rows]
        self._look_at_order(session, kind, made)
        # TypeIDs are UUIDs of version 7.
        space = "ULIDs" if kind == "ULIDs" else "UUIDs"
        self.world.ledger.add(space, [value for value, _ in made], str(session))
        for value, text, is_same, at in rows:
            if not is_same:
                raise Finding("decoding", f"{value} of the {kind} of {session} is not what {text} means")
            if not earliest <= at <= latest:
                return f"{text} of the {kind}, of the time {at}, between {earliest:.3f} and {latest:.3f}"
        return None

    def _look_at_order(self, session: Session, kind: str, made: list[tuple[UUID, str]]) -> None:
        """Those of a session increase, as UUIDs and as text; TypeIDs do with the same prefix."""
        before = self._latest_of_kind.get((session.name, kind))
        ordered = made if before is None else [before, *made]
        for one, other in zip(ordered, ordered[1:], strict=False):
            if other[0] <= one[0] or other[1] <= one[1]:
                raise Finding("increasing", f"{session} was given {other} of the {kind} after {one}")
        if ordered:
            self._latest_of_kind[session.name, kind] = ordered[-1]
