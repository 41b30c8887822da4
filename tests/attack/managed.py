"""Databases with the script for managed services in place of the extension."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from hypothesis import strategies as st

from attack.action import action, pick, use
from attack.administrator import Administrator
from attack.dumps import Dump, comparable
from attack.explorer import Explorer
from attack.finding import Finding
from attack.session_settings import SETTING
from attack.world import Node, Refused, Session
from harness.cluster import SqlError
from harness.managed import OWNER, SCRIPT

MOST = 3
ACCEPT_CLOCK = "SELECT public.id_gen_clock_accept();"
COPIED = "this database is a copy"
NO_NUMBER = "this database has no worker ID"
AHEAD = "the last snowflake of this database is ahead of the clock"

# What generates, and returns what it has generated.
FORMS = (
    "SELECT public.snowflake_next()",
    "INSERT INTO public.customer DEFAULT VALUES RETURNING id",
    "SELECT public.snowflake_next() FROM generate_series(1, 60)",
    "SELECT public.snowflake_next_batch(70)",
    "SELECT unnest(public.snowflake_next_array(2000))",
    "INSERT INTO public.customer (name) SELECT 'many' FROM generate_series(1, 100) RETURNING id",
)
TABLES = f"""
    CREATE TABLE customer (
        id bigint PRIMARY KEY DEFAULT snowflake_next(), name text, token uuid DEFAULT public.uuidv7());
    ALTER TABLE customer OWNER TO {OWNER};
"""
# What new objects of the owner are open to, unless the script closes them; and what of the script's is open.
DEFAULTS = "; ".join(
    f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} GRANT ALL ON {kind} TO clerk"
    for kind in ("SCHEMAS", "TABLES", "SEQUENCES", "FUNCTIONS")
)
OPENED = """
    SELECT r.name, x.privilege_type FROM id_gen_managed.restricted() r, aclexplode(r.acl) x
     WHERE x.grantee = 'clerk'::regrole
"""
# What of a database an owner may set, in the layout that it has.
LEFT = """
    SELECT oid::regprocedure::text FROM pg_proc
     WHERE (proname ~ '^(snowflake|uuidv7)(_|$)' AND pronamespace <> 'pg_catalog'::regnamespace)
        OR pronamespace = to_regnamespace('id_gen_managed')
"""
OPTIONS = (
    "",
    "lanes => 1",
    "lanes => 4",
    "lanes => 64",
    "max_lead => '0'",
    "max_lead => '200 ms'",
    "max_lead => '2 s'",
)
BESIDE = st.lists(st.sampled_from(FORMS[:4]), max_size=3)


@dataclass(eq=False)
class Rented:
    """A database of an ordinary owner."""

    node: Node
    name: str
    worker: int | None = None
    """Its number, if it may generate."""
    has_moved: bool = False
    """Whether the extension makes its IDs."""

    def begin_anew(self) -> None:
        """The next IDs may be below those before."""
        for session in self.node.sessions:
            if session.database == self.name:
                session.last = None


class Owner(Administrator):
    """One who owns databases with the script."""

    def examine(self, node: Node, session: Session) -> None:
        """The script has no checks."""

    def type(self, node: Node, database: str, statement: str) -> None:
        if "clock_accept" in statement:
            # It is about the server, and `use_extension()` may have taken the extension back with it.
            database, statement = "postgres", f"CREATE EXTENSION IF NOT EXISTS id_gen SCHEMA public; {ACCEPT_CLOCK}"
        super().type(node, database, statement)

    def follow(self, node: Node, database: str, refused: Refused) -> None:
        if refused.message.startswith((COPIED, NO_NUMBER)):
            raise Finding("managed", f"{database} has a number: {refused}") from refused
        if AHEAD in refused.message:
            self._world.wall.catch_up()
        else:
            super().follow(node, database, refused)


class Managed(Explorer):
    """Uses of the script, and what happens to its databases. A clock that is set back at the time of a crash is what
    its documents exclude, so stops are those of this class."""

    administrator_type: ClassVar = Owner

    def prepare(self) -> None:
        super().prepare()
        self._names = count(1)
        self._rented: list[Rented] = []
        self.world.nodes[0].cluster.psql(f"CREATE ROLE {OWNER} LOGIN")
        self._install(self.world.nodes[0])

    def _install(self, node: Node) -> Rented:
        rented = Rented(node, f"rented_{next(self._names)}")
        node.cluster.psql(f"CREATE DATABASE {rented.name} OWNER {OWNER} TEMPLATE template0")
        node.cluster.psql(DEFAULTS, rented.name)
        self._run_script(rented)
        self._number(rented, self.world.unused_worker())
        node.cluster.psql(TABLES, rented.name)
        self._rented.append(rented)
        return rented

    def _run_script(self, rented: Rented) -> None:
        self.world.say(f"{rented.name}: the script")
        sql = f"SET SESSION AUTHORIZATION {OWNER};\nBEGIN;\n{SCRIPT.read_text()}\nCOMMIT;"
        try:
            rented.node.cluster.psql(sql, rented.name)
        except SqlError as error:
            raise Finding("managed", f"the script is refused: {error}") from error

    def _number(self, rented: Rented, worker: int, settings: dict[str, str] | None = None) -> None:
        """Gives a database a number."""

        statement = f"SELECT id_gen_managed.configure(worker_id => {worker})"
        self.insist(self._open(rented, settings), lambda session: session.run(statement))
        rented.worker = worker
        rented.begin_anew()

    def _one(self, which: int, *, has_moved: bool = True) -> Rented:
        """One of the databases, also of those that have moved. No two have one number, so no two IDs are the same."""
        return pick([each for each in self._rented if has_moved or not each.has_moved], which)

    def _open(self, rented: Rented, settings: dict[str, str] | None = None, role: str = OWNER) -> Session:
        return self.world.open(rented.node, rented.name, role, **(settings or {}))

    def _session(self, rented: Rented, which: int) -> Session:
        found = [each for each in rented.node.sessions if each.database == rented.name and each.is_open]
        return pick(found, which) if found else self._open(rented)

    # Uses

    @use("managed script", form=FORMS, end=("", "COMMIT", "ROLLBACK"))
    def generate_by_script(self, which: int, session: int, form: str, end: str) -> None:
        rented = self._one(which)
        generator = self._session(rented, session)

        def call(generator: Session) -> None:
            if end:
                generator.run("BEGIN")
            try:
                generator.generate(form)
            except Refused:
                if end and generator.is_open:
                    generator.run("ROLLBACK")
                raise
            if end:
                generator.run(end)
            if end == "ROLLBACK":
                generator.last = None

        self.insist(generator, call)

    @use("managed script", settings=SETTING, role=(OWNER, "clerk", "postgres"), form=FORMS)
    def open_session(self, which: int, settings: dict[str, str], role: str, form: str) -> None:
        """A session with settings and of a role of its own."""
        rented = self._one(which)
        form = FORMS[0] if role == "clerk" and "INSERT" in form else form
        self.insist(self._open(rented, settings, role), lambda session: session.generate(form))

    @use("managed script", settings=SETTING, option=OPTIONS, beside=BESIDE)
    def configure(self, which: int, settings: dict[str, str], option: str, other: bool, beside: list[str]) -> None:
        """Another number, or the same, beside clients."""
        rented = self._one(which, has_moved=False)
        worker = self.world.unused_worker() if other else rented.worker
        arguments = ", ".join([f"worker_id => {worker}", *([option] if option else [])])

        with self._crowd(rented, beside):
            statement = f"SELECT id_gen_managed.configure({arguments})"
            self.insist(self._open(rented, settings), lambda session: session.run(statement))
        rented.worker = worker
        rented.begin_anew()
        self._look_at(rented)

    @use("managed script", settings=SETTING, beside=BESIDE)
    def move(self, which: int, settings: dict[str, str], back: bool, beside: list[str]) -> None:
        """To the extension, or back to the script with another number."""
        rented = self._one(which)
        worker = self.world.unused_worker()
        statement = (
            f"SELECT id_gen_managed.use_script(worker_id => {worker})"
            if rented.has_moved
            else "SELECT id_gen_managed.use_extension()"
        )

        # A clock that is behind what was generated would have to be waited for.
        self.world.wall.catch_up()
        with self._crowd(rented, beside):
            self.insist(self._open(rented, settings), lambda session: session.run(statement))
        moved = "SELECT id_gen_managed.is_moved()"
        [(rented.has_moved,)] = self.world.query(rented.node, moved, database=rented.name)
        if not rented.has_moved:
            rented.worker = worker
            if back:
                self.insist(self._open(rented), lambda session: session.run("DROP EXTENSION IF EXISTS id_gen"))
        rented.begin_anew()
        self._look_at(rented)

    @action("uninstall", settings=SETTING)
    def uninstall(self, which: int, settings: dict[str, str]) -> None:
        """Refused while a table needs it; then it goes, and comes again, with another number."""
        rented = self._one(which, has_moved=False)
        session = self._open(rented, settings)
        self.expect_refusal(session, "SELECT id_gen_managed.uninstall()", "managed", "2BP01")
        session.run("ALTER TABLE public.customer ALTER id DROP DEFAULT, ALTER token DROP DEFAULT")
        session.run("SELECT id_gen_managed.uninstall()")
        if session.value("SELECT count(*) FROM pg_extension WHERE extname = 'id_gen'"):
            # Whose it is after a dump was restored, is the superuser's affair.
            self.world.query(rented.node, "DROP EXTENSION id_gen", database=rented.name)
        if left := session.run(LEFT):
            raise Finding("managed", f"{left} are left")
        self._run_script(rented)
        self._number(rented, self.world.unused_worker())
        session.run("ALTER TABLE public.customer ALTER id SET DEFAULT public.snowflake_next()")
        session.run("ALTER TABLE public.customer ALTER token SET DEFAULT public.uuidv7()")
        self._look_at(rented)

    @action("script again", beside=BESIDE)
    def update(self, which: int, beside: list[str]) -> None:
        """The script is run again, as an update does."""
        rented = self._one(which, has_moved=False)
        with self._crowd(rented, beside):
            self._run_script(rented)
        self._look_at(rented)

    @action("defaults of another role", of=("TABLES", "SEQUENCES", "FUNCTIONS", "TYPES"))
    def set_defaults(self, which: int, of: str) -> None:
        """Another role sets its own defaults in the script's schema, and needs no privilege for that."""
        rented = self._one(which)
        defaults = f"ALTER DEFAULT PRIVILEGES IN SCHEMA id_gen_managed GRANT ALL ON {of} TO PUBLIC"
        self._open(rented, role="clerk").run(defaults)
        self._look_at(rented)

    # Copies

    @action("managed copy", when=lambda self: len(self._rented) < MOST,
            way=("plain", "custom", "template"), settings=SETTING, role=(OWNER, "clerk", "postgres"),
            beside=BESIDE)  # fmt: skip
    def copy(self, which: int, way: str, settings: dict[str, str], same: bool, role: str, beside: list[str]) -> None:
        """A dump that is restored, or a copy by template: it refuses to generate until it has a number."""
        rented = self._one(which, has_moved=False)
        node = rented.node
        copy = Rented(node, f"rented_{next(self._names)}")
        if same:
            # The restore of an earlier state is what the documents exclude.
            beside = []
        if way == "template":
            self.world.forget_sessions(node)
            node.cluster.psql(f"CREATE DATABASE {copy.name} OWNER {OWNER} TEMPLATE {rented.name}")
        else:
            with self._crowd(rented, beside):
                dump = Dump(node, rented.name, way, without_names)
            node.cluster.psql(f"CREATE DATABASE {copy.name} OWNER {OWNER} TEMPLATE template0")
            dump.restore(node, copy.name)
        self.expect_refusal(self._open(copy, settings, role), FORMS[0], "managed", COPIED, NO_NUMBER)
        if same:
            worker = rented.worker
            node.cluster.psql(f"DROP DATABASE {rented.name} WITH (FORCE)")
            self._rented.remove(rented)
            # It begins above the clock; what the original has made may be ahead of one that was set back.
            self.world.wall.catch_up()
        else:
            worker = self.world.unused_worker()
        assert worker is not None
        self._number(copy, worker, settings)
        self._rented.append(copy)
        self._look_at(copy)

    # What happens to the server

    @action("restart", mode=("fast", "immediate", "kill9"), beside=BESIDE)
    def restart_beside_script(self, which: int, mode: str, beside: list[str], delay_ms: int) -> None:
        rented = self._one(which)
        if mode != "fast":
            # A clock that was set back, and a crash, is what the documents exclude.
            self.world.wall.catch_up()
        with self._crowd(rented, beside, delay_ms):
            self.world.stop(rented.node, mode)
        self.world.start(rented.node)
        for each in self._rented:
            self._look_at(each)

    @action("terminate", how=("terminate", "cancel"), beside=BESIDE)
    def terminate_beside_script(self, which: int, how: str, beside: list[str], delay_ms: int) -> None:
        rented = self._one(which)
        with self._crowd(rented, beside, delay_ms):
            self.world.end_sessions(rented.node, how)
        self._look_at(rented)

    @action("clock", seconds=(-0.05, -0.5, -3, -30, 0.5, 3, 900), beside=BESIDE)
    def step_clock_beside_script(self, seconds: float, which: int, beside: list[str]) -> None:
        rented = self._one(which)
        with self._crowd(rented, beside):
            self.world.say(f"the clocks step by {seconds} s")
            self.world.wall.step(seconds)
        self._look_at(rented)

    # How it is done

    def _crowd(self, rented: Rented, forms: list[str], delay_ms: int = 0) -> AbstractContextManager[None]:
        """Clients of a database. Whether a number is changed meanwhile shows in their IDs."""

        def generate(form: str) -> Callable[[Session], None]:
            return lambda session: self._add(session, session.values(form))

        return self.crowd(rented.node, [generate(form) for form in forms], delay_ms, rented.name)

    def _add(self, session: Session, ids: list[int]) -> None:
        self.world.ledger.add(f"the server {session.node.space}", ids, f"{session}")

    def _look_at(self, rented: Rented) -> None:
        """It generates, with its number, and is open to nobody else."""

        def call(session: Session) -> None:
            query = "SELECT id, (public.snowflake_parse(id)).worker_id FROM public.snowflake_next() AS n (id)"
            [(_, worker)] = session.generate(query)
            if worker != (rented.node.worker if rented.has_moved else rented.worker):
                raise Finding("managed", f"{rented.name} generates as worker {worker}, not {rented.worker}")

        self.insist(self._open(rented), call)
        if opened := self.world.query(rented.node, OPENED, database=rented.name):
            raise Finding("managed", f"the clerk has privileges in {rented.name}: {opened}")


def without_names(written: str) -> str:
    """A dump without the names of columns that PostgreSQL chose: it writes them once the dump has been restored."""
    return re.sub(r'(?<=::text) AS "?text"?', "", comparable(written))
