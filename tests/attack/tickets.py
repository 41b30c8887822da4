"""Tickets beside all that PostgreSQL does with a sequence: nextval(), setval(), ALTER SEQUENCE, TRUNCATE, grants."""

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hypothesis import strategies as st

from attack.action import action, client, pick, use
from attack.explorer import Explorer
from attack.finding import Finding
from attack.world import DATABASE, Node, Refused, Session


@dataclass(frozen=True)
class Sequence:
    """A sequence that every database has, and the table that stores its numbers."""

    name: str
    table: str
    column: str
    has_default: bool = True


SEQUENCES = (
    Sequence("ticket_number", "ticket", "number"),
    Sequence("delivery_id_seq", "delivery", "id"),
    # It may be dropped, as nothing depends on it.
    Sequence("slip", "slip_use", "id", has_default=False),
)

SCHEMA = """
CREATE SEQUENCE ticket_number AS integer;
CREATE TABLE ticket (number bigint PRIMARY KEY DEFAULT ticket_next('ticket_number'), made_by text DEFAULT session_user);
CREATE TABLE delivery (id bigserial PRIMARY KEY, made_by text DEFAULT session_user);
ALTER TABLE delivery ALTER COLUMN id SET DEFAULT ticket_next('delivery_id_seq');
CREATE SEQUENCE slip;
CREATE TABLE slip_use (id bigint PRIMARY KEY, made_by text DEFAULT session_user);
CREATE SCHEMA archive;
CREATE SCHEMA many;
GRANT USAGE ON SCHEMA archive TO clerk;
GRANT SELECT, INSERT ON ticket, delivery, slip_use TO clerk;
GRANT USAGE ON SEQUENCE ticket_number, delivery_id_seq, slip TO clerk;
CREATE FUNCTION tickets_of_plpgsql(sequence regclass, count integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
    DECLARE number bigint;
    BEGIN
        FOR i IN 1..count LOOP
            number := public.ticket_next(sequence);
            RETURN NEXT number;
            SELECT public.ticket_next(sequence) INTO number;
            RETURN NEXT number;
            BEGIN
                SELECT public.ticket_next(sequence) INTO number;
                RAISE EXCEPTION USING errcode = 'T1CKT';
            EXCEPTION WHEN sqlstate 'T1CKT' THEN NULL;
            END;
            RETURN NEXT number;
        END LOOP;
    END$$;
CREATE FUNCTION careless_ticket(sequence regclass) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS $$
    BEGIN RETURN public.ticket_next(sequence); END$$;
"""

# Statements that take tickets, and return them.
FORMS = (
    "SELECT public.ticket_next('{sequence}')",
    "INSERT INTO public.{table} {row} RETURNING {column}",
    "SELECT public.ticket_next('{sequence}') FROM generate_series(1, 50)",
    "INSERT INTO public.{table} ({column}) SELECT public.ticket_next('{sequence}') FROM generate_series(1, 30)"
    " RETURNING {column}",
    "SELECT public.tickets_of_plpgsql('{sequence}', 3)",
    "SELECT public.careless_ticket('{sequence}') FROM generate_series(1, 5)",
    "SELECT public.ticket_next('{sequence}') FROM generate_series(1, 20000)",
)
SOME_FORMS = st.lists(st.sampled_from(FORMS[:4]), max_size=2)
CLIENT_FORMS = (FORMS[1], FORMS[3], FORMS[0])
NEXTVAL = "INSERT INTO public.{table} ({column}) VALUES (nextval('{sequence}')) RETURNING {column}"

# Which sequence it is, and how it is declared.
LOOK = """
SELECT d.oid::bigint, c.oid::bigint, s.seqincrement, s.seqstart, s.seqmax, s.seqcycle, s.seqcache
  FROM pg_database d, pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid
 WHERE d.datname = current_database() AND c.oid = to_regclass(%s)
   AND to_regprocedure('public.ticket_next(regclass)') IS NOT NULL
"""

# No administrator waits for clients' transactions for long.
LOCK_TIMEOUT = "200ms"
NOT_AVAILABLE = "55P03"
# More than a server has places for.
MANY = 140

ALTERATIONS = (
    "INCREMENT BY 1", "INCREMENT BY 2", "INCREMENT BY 10", "CACHE 20", "CACHE 1", "MAXVALUE {near} NO CYCLE",
    "NO MAXVALUE", "CYCLE NO MAXVALUE", "NO CYCLE", "AS bigint", "AS integer", "START WITH 5",
    "OWNED BY NONE", "OWNED BY public.{table}.{column}", "OWNER TO clerk", "OWNER TO postgres",
    "INCREMENT BY -1 MAXVALUE {far}", "SET UNLOGGED",
)  # fmt: skip
THEN = ("both", "nextval", "nothing", "restart")
SET_TO = ("higher", "returned", "half", "next", "stored", "last value", "first")
AGAIN = ("RESTART", "RESTART WITH 100", "TRUNCATE", "anew")
# What happens while one client counts: it costs no number, but for those that a server holds when it crashes.
EVENTS = (
    ("fast", "immediate"), ("rename", "set schema", "reload"), ("smart", "kill9"), ("other sequence", "smart", "fast"),
    ("immediate", "many"), ("many", "smart"), ("set schema", "smart", "immediate"),
    ("reload", "kill9", "other sequence"),
)  # fmt: skip
WITH_GAP = ("immediate", "kill9")
# How a table goes elsewhere with the sequence that it owns, and comes back; a copy calls the sequence of the original.
MOVES = {
    "schema": (["ALTER TABLE public.{0} SET SCHEMA archive"], "ALTER TABLE archive.{0} SET SCHEMA public"),
    "unlogged": (["ALTER TABLE public.{0} SET UNLOGGED"], "ALTER TABLE public.{0} SET LOGGED"),
    "copy": (
        [
            "CREATE TABLE archive.{0} (LIKE public.{0} INCLUDING ALL)",
            "INSERT INTO archive.{0} SELECT * FROM public.{0}",
        ],
        "DROP TABLE archive.{0}",
    ),
}
REWRITE = ["ALTER TABLE public.{0} SET UNLOGGED", "ALTER TABLE public.{0} SET LOGGED"]
# What a table's default takes there.
FORMS_ELSEWHERE = (FORMS[1], FORMS[1].replace("{row}", "SELECT FROM generate_series(1, 30)"))


@dataclass(frozen=True)
class Looked:
    """What an administrator sees of a sequence."""

    space: str
    increment: int
    start: int
    maximum: int
    cycles: bool
    cache: int

    @property
    def counts_up(self) -> bool:
        return self.increment > 0 and not self.cycles


class Tickets(Explorer):
    """Uses of tickets, and actions on their sequences."""

    schema = SCHEMA

    def __init__(self) -> None:
        self._calls = itertools.count()
        self._spaces: dict[tuple[str, int, int], str] = {}
        super().__init__()
        self.world.on_copy.append(self._copy_tickets)

    @use("tickets", sequence=SEQUENCES, form=FORMS)
    def take_tickets(self, which: int, sequence: Sequence, form: str) -> None:
        self.ask(self.world.session(which), self._taking(sequence, form))

    @client("tickets")
    def take_a_ticket(self, session: Session) -> None:
        self._taking(SEQUENCES[0], CLIENT_FORMS[next(self._calls) % len(CLIENT_FORMS)])(session)

    @use("nextval", sequence=SEQUENCES, count=(1, 3))
    def use_nextval(self, which: int, sequence: Sequence, count: int) -> None:
        """Numbers of the sequence itself, in between."""
        session = self.world.session(which)
        looked = self._look(session.node, session.database, sequence)
        # Those would repeat what was returned before, as they are meant to.
        if not looked.counts_up:
            return
        call, node, database = self._counting(sequence, looked, count), session.node, session.database
        if looked.cache > 1:
            # Numbers that a session has in advance would come after what is set later.
            with self.world.passing(node, database) as session:
                self.ask(session, call)
        else:
            self.ask(session, call)
        self._take(node, database, sequence, FORMS[0])

    def _counting(self, sequence: Sequence, looked: Looked, count: int) -> Callable[[Session], None]:
        """A call that takes numbers of the sequence itself, and adds them."""

        def call(session: Session) -> None:
            for _ in range(count):
                try:
                    number = session.value(_sql(NEXTVAL, sequence))
                except Refused as refused:
                    if refused.sqlstate == "2200H" and not session.in_transaction:
                        return
                    raise
                self.world.ledger.add(looked.space, [number], f"nextval() in {session}")

        return call

    @action("setval", sequence=SEQUENCES, to=SET_TO, then=THEN, form=FORMS[:5])
    def set_sequence(self, which: int, sequence: Sequence, to: str, then: str, form: str) -> None:
        """What is set comes next, as with `nextval()`, also after a restart of a server that has numbers of before.
        Rows above it are deleted first."""
        node, database, looked = self._place(which, sequence)
        if looked.increment < 0:
            return
        if then == "restart":
            self._take(node, database, sequence, FORMS[2])
        returned = max(self.world.ledger.values(looked.space), default=0)  # type: ignore[type-var]
        self.end_transactions(node)
        with self.world.passing(node, database) as admin:
            last = admin.value(f"SELECT last_value FROM public.{sequence.name}")
            stored = admin.value(f"SELECT max({sequence.column}) FROM public.{sequence.table}") or 0
            value, is_called = {
                "returned": (returned, True),
                "next": (returned + looked.increment, False),
                "stored": (stored, True),
                "last value": (last, True),
                "higher": (max(last, returned) + 5, True),
                "half": (returned // 2, True),
                "first": (1, False),
            }[to]
            value = max(1, value)
            try:
                admin.run(f"SELECT setval('public.{sequence.name}', {value}, {is_called})")
            except Refused as refused:
                if refused.sqlstate == "22003":
                    return
                raise
            largest = value if is_called else value - 1
            admin.run(f"DELETE FROM public.{sequence.table} WHERE {sequence.column} > {largest}")
        self.world.ledger.forget(looked.space, lambda number: number > largest)  # type: ignore[operator]
        if then == "restart":
            self.world.restart(node)
        taken = self._take(node, database, sequence, form) if then in ("both", "restart") else []
        # A statement that comes to the end has taken numbers before.
        has_room = looked.maximum - largest > 100 * looked.increment
        coming = value + looked.increment if is_called else value
        if taken and has_room and taken[0] != coming:
            what = f"was set to {value} ({is_called}) on {node}, and went on with {taken[0]}, not {coming}"
            raise Finding("setval", f"{sequence.name} {what}")
        if then in ("nextval", "both") and looked.counts_up:
            with self.world.passing(node, database) as session:
                self.ask(session, self._counting(sequence, looked, 1))

    @action("ALTER SEQUENCE", sequence=SEQUENCES, alteration=ALTERATIONS)
    def alter_sequence(self, which: int, sequence: Sequence, alteration: str) -> None:
        node, database, _ = self._place(which, sequence)
        with self.world.passing(node, database) as admin:
            last = admin.value(f"SELECT last_value FROM public.{sequence.name}")
            what = alteration.format(near=last + 10, far=last + 1000, table=sequence.table, column=sequence.column)
            self._administer(admin, [f"ALTER SEQUENCE public.{sequence.name} {what}"])
        if alteration == "SET UNLOGGED":
            # A crash would set it back.
            self.end_transactions(node)
            self._take(node, database, sequence, FORMS[0])

    @action("RESTART", sequence=SEQUENCES, end=("COMMIT", "ROLLBACK"), how=AGAIN, forms=SOME_FORMS)
    def begin_again(self, which: int, sequence: Sequence, how: str, end: str, forms: list[str]) -> None:
        """A sequence and its table begin anew, in one transaction, which may be rolled back."""
        node, database, looked = self._place(which, sequence)
        if not looked.counts_up:
            return
        name, first = f"public.{sequence.name}", looked.start
        statements = [f"TRUNCATE public.{sequence.table}", f"ALTER SEQUENCE {name} {how}"]
        if how == "RESTART WITH 100":
            first = 100
        if how == "TRUNCATE":
            statements = [f"ALTER SEQUENCE {name} OWNED BY public.{sequence.table}.{sequence.column}",
                          f"TRUNCATE public.{sequence.table} RESTART IDENTITY"]  # fmt: skip
        elif how == "anew":
            if sequence.has_default:
                return
            first = 1
            statements = [f"TRUNCATE public.{sequence.table}", f"DROP SEQUENCE {name}", f"CREATE SEQUENCE {name}",
                          f"GRANT USAGE ON SEQUENCE {name} TO clerk"]  # fmt: skip
        numbers: list[int] = []
        with self.world.passing(node, database) as admin:
            admin.run("BEGIN")
            if not self._administer(admin, statements):
                admin.run("ROLLBACK")
                return
            try:
                for form in forms:
                    numbers += [number for (number,) in admin.run(_sql(form, sequence))]
            except Refused as refused:
                if refused.sqlstate != "2200H":
                    raise
                end = "ROLLBACK"
            admin.run(end)
        if end == "ROLLBACK":
            self._take(node, database, sequence, FORMS[0])
            return
        if numbers and numbers[0] != first:
            raise Finding("restart of numbers", f"{name} began with {numbers[0]}, not with {first}")
        self.world.ledger.forget(looked.space, lambda _: True)
        space = self._look(node, database, sequence).space
        self.world.ledger.add(space, numbers, "the transaction that began anew")
        after = numbers[-1] + (1 if how == "anew" else looked.increment) if numbers else first
        taken: list[int] = []
        call = self._taking(sequence, FORMS[0])
        # One that was there before, if there is one.
        idle = self.world.idle_session(node)
        session = idle if idle.database == database else self.world.open(node, database)
        self.insist(session, lambda session: taken.extend(call(session)))
        if taken and taken[0] != after:
            raise Finding("restart of numbers", f"{name} on {node} went on with {taken[0]}, not with {after}")

    @action("rename", sequence=SEQUENCES, how=("RENAME TO renamed", "SET SCHEMA archive"), form=FORMS[:4])
    def rename_sequence(self, which: int, sequence: Sequence, how: str, form: str) -> None:
        """There and back, with tickets in between."""
        node, database, _ = self._place(which, sequence)
        if how.startswith("RENAME"):
            there, back = "public.renamed", f"RENAME TO {sequence.name}"
        else:
            there, back = f"archive.{sequence.name}", "SET SCHEMA public"
        with self.world.passing(node, database) as admin:
            if not self._administer(admin, [f"ALTER SEQUENCE public.{sequence.name} {how}"]):
                return
            try:
                self.insist(admin, self._taking(sequence, form, there))
            finally:
                admin.run(f"ALTER SEQUENCE {there} {back}")

    @action("move table", sequence=SEQUENCES[:2], how=MOVES, form=FORMS_ELSEWHERE)
    def move_table(self, which: int, sequence: Sequence, how: str, form: str, beside: list[str], delay_ms: int) -> None:
        """There and back, with rows that are inserted in between."""
        node, database, _ = self._place(which, sequence)
        there, back = MOVES[how]
        if "archive" in back:
            form = form.replace("public.", "archive.")
        with self.crowd(node, beside, delay_ms, database):
            with self.world.passing(node, database) as admin:
                if not self._administer(admin, ["BEGIN", *(each.format(sequence.table) for each in there), "COMMIT"]):
                    return
                place = admin.value("SELECT relnamespace::regnamespace FROM pg_class WHERE relname = %s", sequence.name)
            try:
                self._take(node, database, sequence, form, f"{place}.{sequence.name}")
            finally:
                # A HINT may have had the server restarted.
                self.world.query(node, back.format(sequence.table), database=database)
        self._take(node, database, sequence, FORMS[1])

    @action("rewrite table", sequence=SEQUENCES[:2], end=("COMMIT", "ROLLBACK"), form=FORMS_ELSEWHERE)
    def rewrite_table(
        self, which: int, sequence: Sequence, end: str, form: str, beside: list[str], delay_ms: int
    ) -> None:
        """The file of a sequence is another one after the transaction, or is not; numbers that were taken from the one
        that is gone may come again."""
        node, database, looked = self._place(which, sequence)
        # What keeps it from taking any is over before the transaction, which a refusal would end.
        self._take(node, database, sequence, FORMS[1])
        if not looked.counts_up:
            return
        with self.crowd(node, beside, delay_ms, database), self.world.passing(node, database) as admin:
            numbers: list[int] = []
            admin.run("BEGIN")
            try:
                if self._administer(admin, [each.format(sequence.table) for each in REWRITE]):
                    numbers = admin.values(_sql(form, sequence))
            except Refused as refused:
                if refused.sqlstate != "2200H":
                    raise Finding("rewrite", f"{sequence.table} on {node}: {refused}") from refused
                end = "ROLLBACK"
            admin.run(end)
            if end == "COMMIT":
                self._add(admin, looked.space, numbers)
        self._take(node, database, sequence, FORMS[1])

    @action("many sequences", rounds=(1, 2))
    def use_many(self, which: int, rounds: int) -> None:
        """More than a server has places for, in turn."""
        node, database, _ = self._place(which)
        self._use_many(node, database, rounds)

    def _use_many(self, node: Node, database: str, rounds: int) -> None:
        with self.world.passing(node, database) as admin:
            if admin.value("SELECT to_regclass('many.s1') IS NULL"):
                create = "EXECUTE 'CREATE SEQUENCE many.s' || i"
                admin.run(f"DO $$BEGIN FOR i IN 1..{MANY} LOOP {create}; END LOOP; END$$")
            database_oid = admin.value("SELECT oid::bigint FROM pg_database WHERE datname = current_database()")
            for _ in range(rounds):
                rows = admin.run(
                    "SELECT c.oid::bigint, public.ticket_next(c.oid) FROM pg_class c"
                    " WHERE relkind = 'S' AND relnamespace = 'many'::regnamespace AND relname <> 'dense'"
                )
                for oid, number in rows:
                    self.world.ledger.add(self._space_of(node, database_oid, oid), [number], str(admin))

    @action("offsets", number=(1, 2, 3), nodes=(3, 5))
    def divide(self, which: int, number: int, nodes: int) -> None:
        """All sequences are divided among servers, of which this is one."""
        node, database, _ = self._place(which)
        if not all(self._look(node, database, sequence).counts_up for sequence in SEQUENCES):
            return
        with self.world.passing(node, database) as admin:
            admin.run(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            try:
                admin.run(f"SELECT * FROM id_gen_offsets_set('public', {number}, {nodes})")
            except Refused as refused:
                if refused.sqlstate in (NOT_AVAILABLE, "55000"):
                    return
                raise
        for sequence in SEQUENCES:
            [taken] = self._take(node, database, sequence, FORMS[0]) or [None]
            if taken is not None and taken % nodes != number % nodes:
                raise Finding("offsets", f"{sequence.name} of node {number} of {nodes} made {taken}")

    @action("crowd", clients=st.integers(1, 3), what=("nextval", "setval", "rename", "increment", "grant", "many"))
    def disturb_takers(self, which: int, clients: int, what: str, delay_ms: int) -> None:
        """Something happens to a sequence that many clients take tickets of."""
        node = self.world.node(which)
        self._take(node, DATABASE, SEQUENCES[0], FORMS[0])
        looked = self._look(node, DATABASE, SEQUENCES[0])
        if not looked.counts_up:
            return
        with self.crowd(node, ["tickets"] * clients, delay_ms):
            self._disturb(node, SEQUENCES[0], looked, what)

    @action("dense", events=EVENTS)
    def count(self, which: int, events: tuple[str, ...]) -> None:
        """The numbers of a new sequence that one client takes follow each other, whatever happens that costs none."""
        node, database, _ = self._place(which)
        with self.world.passing(node, database) as admin:
            admin.run("DROP SEQUENCE IF EXISTS many.dense")
            admin.run("CREATE SEQUENCE many.dense")
        last = 0
        for event in ["nothing", *events]:
            if event == "smart":
                # Somebody sets the sequence, so the server that stops hands nothing back.
                last += 10
                self.world.query(node, f"SELECT setval('many.dense', {last})", database=database)
            held = self._while_counting(node, database, event)
            with self.world.passing(node, database) as client:
                for _ in range(2):
                    number = client.value("SELECT public.ticket_next('many.dense')")
                    if number <= last:
                        raise Finding("unique", f"{node} returned {number} of a new sequence after {last} ({event})")
                    if number > last + 1 + held:
                        raise Finding("gap", f"{node} returned {number} after {last}; it held {held} ({event})")
                    last, held = number, 0

    def at_the_end(self) -> None:
        super().at_the_end()
        for node in self.world.running():
            if not node.is_standby:
                for sequence in SEQUENCES:
                    self.end_transactions(node)
                    self._take(node, node.databases[0], sequence, FORMS[3])

    # What is known

    def _place(self, which: int, sequence: Sequence = SEQUENCES[0]) -> tuple[Node, str, Looked]:
        node = self.world.node(which)
        database = pick(node.databases, which)
        return node, database, self._look(node, database, sequence)

    def _space_of(self, node: Node, database: int, sequence: int) -> str:
        key = (node.name, database, sequence)
        return self._spaces.setdefault(key, f"sequence {sequence} of database {database} of {node}")

    def _look(self, node: Node, database: str, sequence: Sequence) -> Looked:
        """Skips the step if the database has no such sequence, or no tickets."""
        with self.world.passing(node, database) as admin:
            database_oid, oid, *definition = pick(admin.run(LOOK, f"public.{sequence.name}"), 0)
        return Looked(self._space_of(node, database_oid, oid), *definition)

    def _copy_tickets(self, original: Node, copy: Node) -> None:
        """A copy returns none of the numbers that its original had returned by then."""
        for (node, database, sequence), space in list(self._spaces.items()):
            if node == original.name:
                numbers = self.world.ledger.values(space)
                self.world.ledger.add(self._space_of(copy, database, sequence), numbers, f"{original}, before the copy")

    # Taking

    def _taking(self, sequence: Sequence, form: str, name: str = "") -> Callable[[Session], list[int]]:
        """A call that takes tickets, and adds them."""

        def call(session: Session) -> list[int]:
            space = self._named(session, name or f"public.{sequence.name}")
            if space is None:
                return []
            try:
                numbers = [number for (number,) in session.run(_sql(form, sequence, name))]
            except Refused as refused:
                if "ALTER SEQUENCE" in refused.hint and threading.current_thread() is threading.main_thread():
                    # Who does so waits for them.
                    self.end_transactions(session.node)
                raise
            self._add(session, space, numbers)
            return numbers

        return call

    def _named(self, session: Session, name: str) -> str | None:
        query = (
            "SELECT oid::bigint, to_regclass(%s)::bigint FROM pg_database WHERE datname = current_database()"
            " AND to_regprocedure('public.ticket_next(regclass)') IS NOT NULL"
        )
        rows = [row for row in session.run(query, name) if row[1] is not None]
        return self._space_of(session.node, *rows[0]) if rows else None

    def _add(self, session: Session, space: str, numbers: list[int]) -> None:
        if numbers != sorted(numbers):
            raise Finding("increasing", f"{session} was given tickets in another order: {numbers[:100]}")
        self.world.ledger.add(space, numbers, str(session))

    def _take(self, node: Node, database: str, sequence: Sequence, form: str, name: str = "") -> list[int]:
        """Takes tickets in a session of its own; none where the database has none, or the server refuses for good."""
        taken: list[int] = []
        with self.world.passing(node, database) as session:
            call = self._taking(sequence, form, name)
            self.insist(session, lambda session: taken.extend(call(session)))
        return taken

    # Administration

    def _administer(self, admin: Session, statements: list[str]) -> bool:
        """Whether statements were run that lock a sequence: clients' transactions go first, and some make no sense."""
        try:
            admin.run(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            for statement in statements:
                admin.run(statement)
        except Refused as refused:
            if refused.sqlstate in (NOT_AVAILABLE, "22023", "55000", "0A000", "40P01"):
                return False
            raise
        return True

    def _disturb(self, node: Node, sequence: Sequence, looked: Looked, what: str) -> None:
        self.world.say(f"{node}: beside the crowd: {what}")
        name = f"public.{sequence.name}"
        with self.world.passing(node, DATABASE) as admin:
            if what == "nextval":
                for _ in range(20):
                    with suppress(Refused):
                        number = admin.value(f"SELECT nextval('{name}')")
                        self.world.ledger.add(looked.space, [number], f"nextval() in {admin}")
            elif what == "setval":
                # Far above what they take meanwhile.
                with suppress(Refused):
                    admin.run(f"SELECT setval('{name}', last_value + 1000000) FROM {name}")
            elif what == "rename":
                if self._administer(admin, [f"ALTER SEQUENCE {name} RENAME TO renamed"]):
                    admin.run("SET lock_timeout = 0")
                    admin.run(f"ALTER SEQUENCE public.renamed RENAME TO {sequence.name}")
            elif what == "increment":
                for step in (3, looked.increment):
                    self._administer(admin, [f"ALTER SEQUENCE {name} INCREMENT BY {step}"])
            elif what == "grant":
                # In a transaction that is open meanwhile, and takes tickets, too.
                grants = f"GRANT CONNECT ON DATABASE {DATABASE} TO PUBLIC; GRANT USAGE ON SEQUENCE {name} TO clerk"
                admin.run(f"BEGIN; {grants}")
                with suppress(Refused):
                    numbers = [admin.value(f"SELECT public.ticket_next('{name}')") for _ in range(5)]
                    self._add(admin, looked.space, numbers)
                admin.run("COMMIT")
        if what == "many":
            self._use_many(node, DATABASE, 1)

    def _while_counting(self, node: Node, database: str, event: str) -> int:
        """How many numbers it may cost."""
        if event in ("rename", "set schema"):
            there, back = {
                "rename": ("RENAME TO sparse", "many.sparse RENAME TO dense"),
                "set schema": ("SET SCHEMA archive", "archive.dense SET SCHEMA many"),
            }[event]
            with self.world.passing(node, database) as admin:
                admin.run(f"ALTER SEQUENCE many.dense {there}")
                admin.run(f"ALTER SEQUENCE {back}")
        elif event == "many":
            # Of its own database, so that what it holds is handed back.
            self._use_many(node, database, 1)
        elif event == "other sequence":
            self._take(node, database, SEQUENCES[0], FORMS[2])
        elif event == "reload":
            node.cluster.reload()
        elif event in ("fast", "smart", *WITH_GAP):
            with self.world.passing(node, database) as admin:
                rows = admin.run(
                    "SELECT prefetched FROM id_gen_stat_tickets"
                    " WHERE datname = current_database() AND relid = 'many.dense'::regclass"
                )
            self.world.forget_sessions(node)
            self.world.stop(node, event)
            self.world.start(node)
            return rows[0][0] if rows and event in WITH_GAP else 0
        return 0


def _sql(form: str, sequence: Sequence, name: str = "") -> str:
    """A form as a statement; `name` is what the sequence is called just now."""
    name = name or f"public.{sequence.name}"
    row = "DEFAULT VALUES" if sequence.has_default else f"(id) VALUES (public.ticket_next('{name}'))"
    return form.format(sequence=name, table=sequence.table, column=sequence.column, row=row)
