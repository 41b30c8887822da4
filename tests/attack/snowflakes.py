"""Snowflakes of every form, and UUIDs: generated, stored, decoded."""

from contextlib import suppress

from hypothesis import strategies as st

from attack.action import client, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import Node, Refused, Session

# Statements that generate, and return what they have generated.
FORMS = (
    "SELECT snowflake_next()",
    "SELECT snowflake_next() FROM generate_series(1, 100)",
    "SELECT snowflake_next_batch(70)",
    "SELECT unnest(snowflake_next_array(200))",
    "INSERT INTO item DEFAULT VALUES RETURNING id",
    "INSERT INTO item (made_by) SELECT 'many' FROM generate_series(1, 300) RETURNING id",
    "SELECT unnest(snowflake_next_array(20000))",
    "SELECT careless() FROM generate_series(1, 5)",
)
# One by one, and now and then many at once.
ONE_AND_MANY = """
SELECT CASE WHEN i % 5 = 0 THEN (snowflake_next_array(3))[3] ELSE snowflake_next() END
  FROM generate_series(1, 63) i
"""
# More than the longest tick of the layouts that servers have here.
LONGEST_TICK_S = 0.015


class Snowflakes(Explorer):
    """Uses of snowflakes and UUIDs."""

    @use("snowflakes", form=FORMS)
    def generate(self, which: int, form: str) -> None:
        self.ask(self.world.session(which), lambda session: session.generate(form))

    @client("snowflakes")
    def insert_item(self, session: Session) -> None:
        session.generate("INSERT INTO item DEFAULT VALUES RETURNING id")

    @client("arrays")
    def array(self, session: Session) -> None:
        session.generate("SELECT unnest(snowflake_next_array(1000))")

    @client("bulk")
    def insert_many(self, session: Session) -> None:
        session.generate("INSERT INTO item SELECT FROM generate_series(1, 1500) RETURNING id")

    @use("causal order", ahead_ms=(1, 1000, 4000, 60000), worker=st.integers(0, 3))
    def observe(self, which: int, ahead_ms: int, worker: int) -> None:
        """Once an ID from elsewhere was observed, all sessions' IDs are above it."""
        session = self.world.session(which)

        def call(session: Session) -> None:
            query = "SELECT snowflake_make(clock_timestamp() + %s * interval '1 ms', 0, %s, 0)"
            observed = session.value(query, ahead_ms, worker)
            session.run("SELECT snowflake_advance(%s)", observed)
            other = self.world.idle_session(session.node)
            [(given,)] = other.generate()
            if given <= observed:
                raise Finding("causal order", f"{other} was given {given}, after {session} observed {observed}")

        # One that is too far ahead is refused as it should be.
        with suppress(Refused):
            call(session)

    @use("causal order")
    def observe_within_a_tick(self, which: int) -> None:
        """While the clocks stand still, a session that holds a block goes above what another session observes."""
        node = self.world.session(which).node
        with self.world.passing(node) as session, self.world.passing(node) as other, suppress(Refused):
            session.run("BEGIN")
            with self.world.wall.standing_still():
                session.generate("SELECT snowflake_next() FROM generate_series(1, 20)")
                observed = other.value("SELECT snowflake_make(clock_timestamp() + interval '1 ms', 0, 0, 0)")
                other.run("SELECT snowflake_advance(%s)", observed)
                [(own,)] = session.generate()
            if own <= observed:
                raise Finding("causal order", f"{session} was given {own}, after {other} observed {observed}")

    @use("strict order")
    def generate_in_turn(self, which: int, other: int) -> None:
        """While `id_gen.max_block_size` is 1, what is generated later is larger, in whichever session."""
        last: dict[Node, int] = {}

        def call(session: Session) -> None:
            before = last.get(session.node, 0)
            [(given,)] = session.generate()
            if session.node.in_order and given <= before:
                raise Finding("strict order", f"{session} was given {given}, after {before}")
            last[session.node] = given

        for number in (which, other):
            self.ask(self.world.session(number), call)

    @use("strict order")
    def generate_within_a_tick(self, which: int) -> None:
        """While the clocks stand still, a transaction that generates one by one and many at once goes up; and where
        `id_gen.max_block_size` is 1, so do all sessions together."""
        node = self.world.session(which).node
        with self.world.passing(node) as session, self.world.passing(node) as other, suppress(Refused):
            session.run("BEGIN")
            with self.world.wall.standing_still():
                session.generate(ONE_AND_MANY)
                # Now it may hold a block, which many at once, or the end of the transaction, would have ended.
                session.generate()
                [(theirs,)] = other.generate()
                [(own,)] = session.generate()
            in_order = node.in_order and other.value("SHOW id_gen.max_block_size") == "1"
            if in_order and own <= theirs:
                raise Finding("strict order", f"{session} was given {own}, after {theirs} of {other}")

    @use("order of ticks")
    def generate_across_ticks(self, which: int) -> None:
        """What a transaction generates is above all that others generated more than a tick before, whatever it holds of
        earlier ticks."""

        def call(other: Session) -> None:
            with self.world.passing(other.node, other.database) as session:
                session.run("BEGIN")
                session.generate("SELECT snowflake_next() FROM generate_series(1, 20)")
                other.run("SELECT pg_sleep(%s)", LONGEST_TICK_S)
                [(theirs,)] = other.generate()
                [(own,)] = session.generate()
                session.run("COMMIT")
            if own <= theirs:
                raise Finding("order of ticks", f"{session} was given {own}, after {theirs} of {other}")

        self.ask(self.world.session(which), call)

    @use("UUIDs", count=(1, 100))
    def uuids(self, which: int, count: int, ordered: bool) -> None:
        function = "uuidv7_ordered" if ordered else "uuidv7"
        self.ask(self.world.session(which), lambda session: self._make_uuids(session, function, count))

    def _make_uuids(self, session: Session, function: str, count: int) -> None:
        values = session.values(f"SELECT public.{function}() FROM generate_series(1, {count})")
        if values != sorted(values):
            raise Finding("increasing", f"UUIDs of {session} decrease: {values}")
        self.world.ledger.add("UUIDs", values, str(session))

    @client("UUIDs")
    def insert_token(self, session: Session) -> None:
        self.world.ledger.add("UUIDs", session.values("INSERT INTO token DEFAULT VALUES RETURNING id"), str(session))
        self._make_uuids(session, "uuidv7_ordered", 10)

    @use("decoding")
    def decode(self, which: int) -> None:
        self.ask(self.world.session(which), self.generate_and_decode)

    @client("decoding")
    def generate_and_decode(self, session: Session) -> None:
        """What is generated now tells its server's worker ID, and has one time however it is asked for."""
        worker = session.node.worker
        [(snowflake, found, same)] = session.generate(
            "SELECT id, (snowflake_parse(id)).worker_id, careless_time(id) = snowflake_timestamp(id)"
            " FROM snowflake_next() id"
        )
        if not same:
            raise Finding("decoding", f"{snowflake} has two times on {session.node}")
        if worker is not None and worker == session.node.worker and worker != found:
            raise Finding("decoding", f"{snowflake} of {session.node} is of worker {found}, not {worker}")

    # Oracles after a start

    def look_at_first_ids(self, node: Node) -> None:
        """After any start: the first ID is above each that the server's tables hold, of its own worker ID."""
        for database in node.databases:
            self.insist(self.world.open(node, database), self._look_at_first_id)

    def _look_at_first_id(self, session: Session) -> None:
        [(first,)] = session.generate()
        try:
            stored = session.value(
                "SELECT max(id) FROM item WHERE (snowflake_parse(id)).worker_id ="
                " (SELECT worker_id FROM id_gen_status())"
            )
        except Refused as refused:
            # A dump brought IDs of a server with a larger layout.
            if refused.sqlstate != "22003":
                raise
            return
        if stored is not None and first <= stored:
            raise Finding("start", f"{session.node} begins at {first}, but stores {stored} in {session.database}")
