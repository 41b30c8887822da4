"""Rows that are read below the commit horizon: no reader misses a row, whatever transactions, crashes and copies do."""

import itertools
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from attack.action import client, pick, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import DATABASE, Node, Refused, Session

SCHEMA = """
CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_next(), note text);
CREATE TABLE guarded (id bigint PRIMARY KEY DEFAULT snowflake_next(), note text);
GRANT SELECT, INSERT ON outbox, guarded TO clerk;
CREATE FUNCTION polled_outbox(OUT horizon bigint, OUT ids bigint[]) LANGUAGE plpgsql STABLE AS
    $$BEGIN SELECT public.snowflake_commit_horizon(), ARRAY(SELECT id FROM public.outbox
        WHERE id < public.snowflake_commit_horizon()) INTO horizon, ids; END$$;
"""
TABLES = ("outbox", "guarded")

# One statement that reads what is below the horizon, and the horizon with it.
POLLS = (
    "SELECT snowflake_commit_horizon(), ARRAY(SELECT id FROM public.{table} WHERE id < snowflake_commit_horizon())",
    "WITH seen AS MATERIALIZED (SELECT id FROM public.{table} WHERE id < snowflake_commit_horizon())"
    " SELECT snowflake_commit_horizon(), coalesce(array_agg(id), '{{}}') FROM seen",
    "SELECT horizon, ids FROM public.polled_{table}()",
)
# It is made when it is needed: an extension is not dropped as long as a trigger depends on it.
GUARD = """
CREATE OR REPLACE TRIGGER guard AFTER INSERT OR UPDATE ON public.guarded
    FOR EACH ROW EXECUTE FUNCTION public.snowflake_guard_trigger('id')
"""
WRITES = (
    "INSERT INTO public.{table} (note) VALUES ('one') RETURNING id",
    "INSERT INTO public.{table} (note) SELECT 'many' FROM generate_series(1, 100) RETURNING id",
    "INSERT INTO public.{table} (id) SELECT careless() FROM generate_series(1, 3) RETURNING id",
    "WITH a AS (INSERT INTO public.{table} DEFAULT VALUES RETURNING id),"
    " b AS (INSERT INTO public.{table} DEFAULT VALUES RETURNING id) SELECT id FROM a UNION ALL SELECT id FROM b",
)
# What a transaction of a busy client is made of.
SNAPSHOTS = ("of each statement", "of a statement before", "of a poll before")
STEPS = ("write", "SAVEPOINT s", "write", "ROLLBACK TO s", "write", "RELEASE s", "write")
PREPARED = ("COMMIT PREPARED", "ROLLBACK PREPARED")
ENDS = ("COMMIT", "ROLLBACK", "COMMIT PREPARED", "COMMIT", "COMMIT", "ROLLBACK", "ROLLBACK PREPARED", "COMMIT")
# In one poll, or the next, everything is seen that has been committed; a poll may be held up by PostgreSQL's own
# processes for a moment.
POLLS_AT_MOST = 200
# No server has it.
FOREIGN_WORKER = 31
BELOW_HORIZON = "is below the commit horizon"


@dataclass
class Reading:
    """What readers of a table have been told: all rows below the highest horizon."""

    horizon: int = 0
    ids: set[int] = field(default_factory=set)
    space: str | None = None
    """Of a copy: what the server must still be, for its original's readers to go on with it."""


class Horizon(Explorer):
    """Writers and readers of an outbox."""

    schema = SCHEMA

    def __init__(self) -> None:
        self._readings: dict[tuple[str, str, str], Reading] = {}
        self._own: dict[tuple[str, str], set[int]] = {}
        self._early: list[int] = []
        self._lock = threading.Lock()
        self._transactions = itertools.count(1)
        super().__init__()
        self.world.on_copy.append(self._copy_readings)

    @use("outbox", table=TABLES, form=WRITES)
    def write(self, which: int, table: str, form: str) -> None:
        self.ask(self.world.session(which), lambda session: self._write(session, table, form))

    @use("readers", table=TABLES, form=(0, 0, 1, 2))
    def read(self, which: int, table: str, form: int) -> None:
        """A session reads, in whatever transaction it is."""
        polled = "outbox" if form == 2 else table
        self.ask(self.world.session(which), lambda session: self._poll(session, polled, POLLS[form]))

    @use("readers")
    def read_within_a_tick(self, which: int) -> None:
        """While the clocks stand still: also what a transaction generates in the tick of others is pending."""
        node = self.world.session(which).node
        with self.world.passing(node) as other, self.world.passing(node) as writer, suppress(Refused):
            with self.world.wall.standing_still():
                other.generate()
                writer.run("BEGIN")
                [(own,)] = writer.generate()
                horizon = other.value("SELECT snowflake_commit_horizon()")
                writer.run("COMMIT")
            if own < horizon:
                raise Finding("readers", f"the horizon was {horizon} while {own} of {writer} was pending")

    @use("readers", table=TABLES, count=(0, 1, 5))
    def read_by_cursor(self, which: int, writer: int, table: str, count: int, hold: bool) -> None:
        """A cursor has one horizon, although others write while it is open."""
        session, other = self.world.session(which), self.world.session(writer)

        def call(session: Session) -> None:
            own = not session.in_transaction
            if own:
                session.run("BEGIN")
            try:
                session.run(
                    f"DECLARE reader CURSOR {'WITH HOLD' if hold and own else ''} FOR"
                    f" SELECT snowflake_commit_horizon(), id FROM public.{table} WHERE id < snowflake_commit_horizon()"
                )
                rows = session.run(f"FETCH {count} FROM reader") if count else []
                if other is not session and other.node is session.node:
                    self.ask(other, lambda other: self._write(other, table))
                if own and hold:
                    session.run("COMMIT")
                rows += session.run("FETCH ALL FROM reader")
                session.run("CLOSE reader")
            finally:
                if own and session.in_transaction:
                    self.roll_back(session)
            if len({horizon for horizon, _ in rows}) > 1:
                raise Finding("readers", f"{session} was told several horizons by one cursor: {rows[:1]} … {rows[-1:]}")
            if rows:
                self._heard(session, table, rows[0][0], [row[1] for row in rows])

        self.ask(session, call)

    @use("outbox", count=(1, 3), ahead_s=(0, 2, 60))
    def take_early(self, which: int, count: int, ahead_s: int) -> None:
        """IDs that are stored later, in another transaction or on another server; or of a server that is ahead."""
        session = self.world.session(which)

        def call(session: Session) -> None:
            for _ in range(count):
                self._early.append(session.generate()[0][0])

        if not ahead_s:
            self.ask(session, call)
        elif (snowflake := self._make_ahead(session.node, ahead_s)) is not None:
            self._early.append(snowflake)

    @use("outbox", first=("outbox", "ahead"), snapshot=SNAPSHOTS, end=("COMMIT", *PREPARED, "ROLLBACK"), table=TABLES)
    def overlap(self, which: int, first: str, snapshot: str, end: str, table: str) -> None:
        """One writes, another one writes and commits, a reader polls; then the first one ends, and the reader polls
        again."""
        node = self.world.node(which)
        with (
            self.world.passing(node, DATABASE) as writer,
            self.world.passing(node, DATABASE) as other,
            self.world.passing(node, DATABASE) as reader,
        ):

            def look(*, is_later: bool = False) -> None:
                """In a transaction of its own, where the reader's snapshot is of before."""
                if snapshot != "of each statement":
                    for statement in (*["COMMIT"] * is_later, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"):
                        reader.run(statement)
                if snapshot == "of a poll before" and not is_later:
                    self._poll(reader, table)
                self._write(other, table)
                self._poll(reader, table)

            for session in (other, writer):
                self.insist(session, lambda session: self._write(session, table))
            try:
                writer.run("BEGIN")
                ahead = self._make_ahead(node, 2) if first == "ahead" and self._has_guard(node) else None
                if ahead is not None:
                    writer.run("INSERT INTO public.guarded (id) VALUES (%s)", ahead)
                # Within the same tick, so that both share a block, if sessions do.
                self._write(other, table)
                self._write(writer, table)
                look()
                self._end(writer, end, table, reader)
                self._poll(reader, table)
                self._poll(other, table)
                # A transaction that has seen the snapshot of one that began before, and polls later.
                look(is_later=True)
                self._poll(other, table)
            except Refused as refused:
                # What is refused may be so for the clock, or an ID that is not above the horizon.
                self.world.say(f"no overlap: {refused}")

    @use("outbox")
    def store_early(self, which: int, number: int, update: bool) -> None:
        """The trigger lets an ID pass that is above the horizon, or refuses it."""
        session, snowflake = self.world.session(which), pick(self._early, number)
        # It does not fire where replication applies rows.
        if session.run("SHOW session_replication_role") == [("replica",)] or not self._has_guard(session.node):
            return
        self._early.remove(snowflake)

        def call(session: Session) -> None:
            try:
                if update:
                    session.run(
                        "UPDATE public.guarded SET id = %s WHERE id = (SELECT max(id) FROM public.guarded) AND id > %s",
                        snowflake, snowflake,
                    )  # fmt: skip
                else:
                    session.run("INSERT INTO public.guarded (id) VALUES (%s)", snowflake)
            except Refused as refused:
                if BELOW_HORIZON not in refused.message or session.in_transaction:
                    raise

        self.ask(session, call)

    @use("readers", table=TABLES)
    def await_all(self, which: int, table: str) -> None:
        """Where no transaction is open, a reader sees all that was written on the server, up to its clock."""
        node = self.world.node(which)
        self.end_transactions(node)
        with self.world.passing(node, DATABASE) as session:
            self.insist(session, lambda session: self._await_all(session, table))

    @client("outbox")
    def write_and_read(self, session: Session) -> None:
        """A transaction of several steps, which ends in one of several ways, and a poll."""
        number = next(self._transactions)
        table = TABLES[number % 2]
        try:
            if number % 3 == 0:
                self._write(session, table)
            else:
                session.run("BEGIN")
                for step in STEPS[: 1 + number % len(STEPS)]:
                    if step == "write":
                        self._write(session, table)
                    else:
                        session.run(step)
                self._end(session, ENDS[number % len(ENDS)], table, session)
        finally:
            if session.in_transaction:
                self.roll_back(session)
        self._poll(session, table)

    # Calls

    def _write(self, session: Session, table: str, form: str = WRITES[0]) -> None:
        ids = session.values(form.format(table=table))
        self.world.add_snowflakes(session, sorted(ids))
        with self._lock:
            self._own.setdefault((session.node.name, session.database), set()).update(ids)

    def _poll(self, session: Session, table: str, form: str = POLLS[0]) -> None:
        [(horizon, ids)] = session.run(form.format(table=table))
        self._heard(session, table, horizon, ids)

    def _end(self, writer: Session, end: str, table: str, reader: Session) -> None:
        """Of a transaction, at once or in two phases."""
        if end in PREPARED:
            gid = f"outbox {writer.name} {next(self._transactions)}"
            writer.run(f"PREPARE TRANSACTION '{gid}'")
            self._poll(reader, table)
            end = f"{end} '{gid}'"
        writer.run(end)

    def _has_guard(self, node: Node) -> bool:
        """Puts the trigger on the table, if no transaction is in the way."""
        with self.world.passing(node, DATABASE) as admin:
            admin.run("SET lock_timeout = '200ms'")
            has_guard = "SELECT FROM pg_trigger WHERE tgrelid = 'public.guarded'::regclass AND tgname = 'guard'"
            try:
                return bool(admin.run(has_guard)) or admin.run(GUARD) == []
            except Refused:
                return False

    def _make_ahead(self, node: Node, ahead_s: int) -> int | None:
        """An ID of a server that has no part in this, and whose clock is ahead; None if the layout has no such."""
        query = "SELECT snowflake_make(clock_timestamp() + %s * interval '1 s', 0, %s, 0)"
        try:
            return self.world.query(node, query, ahead_s, FOREIGN_WORKER)[0][0]
        except Refused:
            return None

    # Oracles

    def _reading(self, node: Node, database: str, table: str) -> Reading:
        reading = self._readings.setdefault((node.name, database, table), Reading())
        if reading.space not in (None, node.space):
            # A copy that was given a worker ID of its own is another server.
            reading.space, reading.horizon, reading.ids = None, 0, set()
        return reading

    def _heard(self, session: Session, table: str, horizon: int, ids: list[int]) -> None:
        """Two readers that were told of horizons have seen the same rows below the lower one."""
        with self._lock:
            reading = self._reading(session.node, session.database, table)
            lower = min(horizon, reading.horizon)
            below, known = {each for each in ids if each < lower}, {each for each in reading.ids if each < lower}
            late, missed = below - known, known - below
            if horizon > reading.horizon:
                reading.horizon, reading.ids = horizon, set(ids)
        if late:
            raise Finding(
                "readers",
                f"{session} sees {sorted(late)[:5]} of {table} below {horizon}; readers were told {reading.horizon}",
            )
        if missed:
            self._look_for(session, table, horizon, missed)

    def _look_for(self, session: Session, table: str, horizon: int, missed: set[int]) -> None:
        """A row that others saw is below the horizon of one who does not see it: it is there, or a crash has lost it,
        or it is that reader's own that was rolled back."""
        try:
            query = f"SELECT id FROM public.{table} WHERE id = ANY (%s)"
            rows = self.world.query(session.node, query, list(missed), database=session.database)
        except psycopg.Error as error:
            # The server takes no connections.
            raise Refused(error) from error
        if rows:
            raise Finding("readers", f"{session} was told {horizon} of {table}, but does not see {rows[:5]}")
        with self._lock:
            self._reading(session.node, session.database, table).ids -= missed

    def _await_all(self, session: Session, table: str) -> None:
        session.value("SELECT snowflake_next()")
        own = self._own.get((session.node.name, session.database), set())
        # Rows that lead the clock are seen when it is past them, as long as the server has shards.
        query = (
            f"{POLLS[0].format(table=table)},"
            f" ARRAY(SELECT id FROM public.{table} WHERE id < snowflake_min(clock_timestamp()))"
        )
        hidden: set[int] = set()
        for _ in range(POLLS_AT_MOST):
            horizon, ids, stored = session.run(query)[0]
            self._heard(session, table, horizon, ids)
            hidden = own.intersection(stored).difference(ids)
            if not hidden:
                return
        blockers = session.run("SELECT pid, gid, database, first_id, state FROM id_gen_stat_horizon")
        raise Finding("readers", f"{session} does not see {sorted(hidden)[:5]} of {table}; blockers: {blockers}")

    def _copy_readings(self, original: Node, copy: Node) -> None:
        """Who continues a primary has told its readers what that has told them."""
        with self._lock:
            for (node, database, table), reading in list(self._readings.items()):
                if node == original.name:
                    copied = Reading(reading.horizon, set(reading.ids), original.space)
                    self._readings[copy.name, database, table] = copied
