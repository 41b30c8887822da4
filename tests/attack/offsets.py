"""Sequences of several servers whose numbers never meet: each server here is a database, as nothing of one shows in
another. They are divided, and divided among more of them while clients take numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from attack.action import action, pick, use
from attack.administrator import is_answer
from attack.explorer import Explorer
from attack.finding import Finding
from attack.session_settings import SETTING
from attack.world import Node, Refused, Session

MOST = 5
PARTS = """
    CREATE EXTENSION id_gen_tools CASCADE;
    CREATE SCHEMA part;
    CREATE TABLE part.customer (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);
    CREATE TABLE part.parcel (id serial PRIMARY KEY, n integer);
    CREATE SEQUENCE part.cached CACHE 10;
    ALTER ROLE postgres SET synchronous_commit = on;
"""
# What takes numbers, and of which sequence. All of them end with a commit, which a crash does not undo.
FORMS = {
    "INSERT INTO part.customer (n) VALUES (1) RETURNING id": "customer",
    "INSERT INTO part.parcel (n) SELECT 1 FROM generate_series(1, 40) RETURNING id": "parcel",
    "SELECT nextval('part.cached')": "cached",
    "SELECT nextval('part.cached') FROM generate_series(1, 25)": "cached",
}
FORM = st.sampled_from(list(FORMS))
# Where a sequence has come to its fence.
AT_END = "2200H"


@dataclass
class Growth:
    """The way to more servers."""

    nodes: int
    above: int
    fences: dict[int, int] = field(default_factory=dict)
    """The figure at which each server has its fence."""
    fenced: set[int] = field(default_factory=set)
    """Those that have one at this figure, or keep it at a lower one."""
    divided: set[int] = field(default_factory=set)


class Offsets(Explorer):
    """Uses of divided sequences."""

    def prepare(self) -> None:
        super().prepare()
        self._node: Node = self.world.nodes[0]
        self._growth: Growth | None = None
        self._count = 2
        for number in (1, 2):
            self._make(number)
        # The first has been alone.
        for form in FORMS:
            self._take(form)(self._open(1))
        self._open(1).run("SELECT * FROM public.id_gen_offsets_set('part', 1, 2)")
        highest = self._open(1).value("SELECT max(highest) FROM public.id_gen_offsets_plan('part', 1, 2)")
        self._open(2).run(f"SELECT * FROM public.id_gen_offsets_set('part', 2, 2, above => {highest})")

    def _make(self, number: int) -> None:
        self._node.cluster.psql(f"CREATE DATABASE part_{number} TEMPLATE template0")
        self._node.cluster.psql(PARTS, f"part_{number}")

    def _open(self, number: int, settings: dict[str, str] | None = None) -> Session:
        return self.world.open(self._node, f"part_{number}", **(settings or {}))

    def _take(self, form: str) -> Callable[[Session], None]:
        def call(session: Session) -> None:
            try:
                numbers = session.values(form)
            except Refused as refused:
                growth = self._growth
                number = int(session.database.removeprefix("part_"))
                if refused.sqlstate != AT_END or growth is None or number not in growth.fences.keys() - growth.divided:
                    raise
                return
            self.world.ledger.add(f"sequence {FORMS[form]} of all servers", numbers, f"{session}")

        return call

    def _running(self) -> list[int]:
        """The servers that take numbers already."""
        new = self._growth.divided if self._growth else set()
        return sorted({*range(1, self._count + 1), *new})

    def _one(self, which: int) -> int:
        return pick(self._running(), which)

    def _beside(self, number: int, forms: list[str], delay_ms: int = 0):  # noqa: ANN202, as crowd()
        return self.crowd(self._node, [self._take(form) for form in forms], delay_ms, f"part_{number}")

    @use("offsets", form=FORM, settings=SETTING)
    def take_numbers(self, which: int, form: str, settings: dict[str, str]) -> None:
        number = self._one(which)
        if self._growth is None or number not in self._growth.fences:
            self.insist(self._open(number, settings), self._take(form))
        else:
            # It may have come to its fence.
            self._take(form)(self._open(number, settings))

    @use("offsets", settings=SETTING)
    def check_numbers(self, which: int, settings: dict[str, str]) -> None:
        """Every sequence makes the numbers of its server alone."""
        if self._growth is not None:
            return
        number = self._one(which)
        rows = self._open(number, settings).run(
            f"SELECT sequence::text, status, found FROM public.id_gen_offsets_check('part', {number}, {self._count})"
        )
        if wrong := [row for row in rows if row[1] == "error"]:
            raise Finding("offsets", f"server {number} of {self._count}: {wrong}")

    @use("offsets", room=(1000, 10, 0), more=(1, 2))
    def begin_growth(self, room: int, more: int) -> None:
        """More servers, above what all have come to, and some more."""
        if self._growth is not None or self._count == MOST:
            return
        highest = [
            self._open(number).value(
                f"SELECT max(highest) FROM public.id_gen_offsets_plan('part', {number}, {self._count})"
            )
            for number in self._running()
        ]
        nodes = min(self._count + more, MOST)
        for number in range(self._count + 1, nodes + 1):
            self._make(number)
        self._growth = Growth(nodes, max(highest) + room)

    @use("offsets", settings=SETTING, forms=st.lists(FORM, max_size=2))
    def grow(self, which: int, settings: dict[str, str], forms: list[str], delay_ms: int) -> None:
        """The next step on one of the servers that have it before them, as it is typed out."""
        growth = self._growth
        if growth is None:
            return
        step, left = 2, set(range(1, self._count + 1)) - growth.fenced
        if not left:
            step, left = 3, set(range(1, growth.nodes + 1)) - growth.divided
        number = pick(sorted(left), which)
        # What is typed out names the functions without their schema, and no snapshot may be older than the newest rows.
        needed = {"default_transaction_isolation": "read committed", "search_path": "public"}
        session = self._open(number, settings | needed)
        planned = session.run(
            "SELECT statement FROM public.id_gen_offsets_grow_plan('part', %s, %s, above => %s)"
            " WHERE step = %s AND node = %s",
            self._count,
            growth.nodes,
            growth.above,
            step,
            number,
        )
        if not planned:
            raise Finding("offsets", f"no step {step} for server {number}")
        try:
            with self._beside(number, forms if number <= self._count else [], delay_ms):
                lower = growth.fences.get(number, growth.above)
                if step == 3 and lower < growth.above:
                    # Its fence at a lower figure ends first, in the same transaction.
                    session.run("BEGIN")
                    session.run(f"SELECT * FROM id_gen_offsets_set('part', {number}, {growth.nodes}, above => {lower})")
                for (statement,) in planned:
                    session.run(statement)
                if session.in_transaction:
                    session.run("COMMIT")
        except Refused as refused:
            if is_answer(refused):
                return
            if step == 3:
                raise Finding("offsets", f"server {number} with its fence is not divided: {refused}") from refused
            # It has gone further meanwhile: once more on all, with a higher figure.
            growth.above += 1000
            growth.fenced.clear()
            return
        if step == 2:
            growth.fences.setdefault(number, growth.above)
        (growth.fenced if step == 2 else growth.divided).add(number)
        if len(growth.divided) == growth.nodes:
            self._count, self._growth = growth.nodes, None

    @action("restart", mode=("fast", "immediate", "kill9"), forms=st.lists(FORM, max_size=2))
    def restart_beside_numbers(self, mode: str, which: int, forms: list[str], delay_ms: int) -> None:
        with self._beside(self._one(which), forms, delay_ms):
            self.world.stop(self._node, mode)
        self.world.start(self._node)

    @action("truncate")
    def truncate(self, which: int) -> None:
        """TRUNCATE … RESTART IDENTITY: the numbers begin again, and are those of the server."""
        number = self._one(which)
        if self._growth is not None:
            return
        session = self._open(number)
        session.run("BEGIN")
        session.run("TRUNCATE part.customer RESTART IDENTITY")
        made = session.value("INSERT INTO part.customer (n) VALUES (1) RETURNING id")
        session.run("ROLLBACK")
        if made % self._count != number % self._count:
            raise Finding("offsets", f"server {number} of {self._count} begins again with {made}")
