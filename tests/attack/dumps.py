"""Databases that come from others, by dumps that are restored and by templates; the extension, which goes and comes
again; and the roles that own and call it."""

import re
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Literal

from hypothesis import strategies as st

from attack.action import action, pick
from attack.finding import Finding
from attack.snowflakes import Snowflakes
from attack.world import DATABASE, Node, Refused, Session
from harness.cluster import SqlError

# How many databases and servers there are at most.
MOST_DATABASES, MOST_SERVERS = 3, 4
FORM = st.sampled_from(["plain", "custom"])
# Where others hold a lock for longer, an administrator gives up.
PATIENCE = "SET lock_timeout = '3s'"
GIVEN_UP = ("55P03", "40P01", "55006")
# An ordinary role that installs the extension, which is trusted.
BUILDER = "builder"

Form = Literal["plain", "custom"]

# The defaults that the extension takes with it.
DEFAULTS = """
    SELECT format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT ', d.adrelid::regclass, a.attname),
           pg_get_expr(d.adbin, d.adrelid)
      FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.attgenerated = ''
     WHERE d.oid IN (SELECT objid FROM dependent WHERE classid = 'pg_attrdef'::regclass)
"""
DEPENDENT = """
    WITH member AS (SELECT m.classid, m.objid FROM pg_depend m JOIN pg_extension e ON e.oid = m.refobjid
                     WHERE m.refclassid = 'pg_extension'::regclass AND m.deptype = 'e' AND e.extname = 'id_gen'),
         dependent AS (
            SELECT d.classid, d.objid
              FROM pg_depend d JOIN member m ON (m.classid, m.objid) = (d.refclassid, d.refobjid)
             WHERE (d.classid, d.objid) NOT IN (SELECT classid, objid FROM member) AND d.deptype IN ('n', 'a')
               AND d.classid <> 'pg_type'::regclass
               AND NOT EXISTS (SELECT FROM pg_rewrite r JOIN member v ON v.objid = r.ev_class WHERE r.oid = d.objid))
"""
OTHERS = "SELECT pg_describe_object(classid, objid, 0) FROM dependent WHERE classid <> 'pg_attrdef'::regclass"
ROWS = re.compile(r"(?<= FROM stdin;\n)(?:(?!\\\.\n).*\n)*")
MOVED = re.compile(r"(?<!')\bpublic\.")
ROLES_OF = "SELECT quote_ident(rolname) FROM pg_roles WHERE rolname !~ '^pg_'"

NEXT = "FUNCTION snowflake_next()"
# Privileges, and whether the clerk may insert then.
PRIVILEGES = (
    (f"GRANT EXECUTE ON {NEXT} TO PUBLIC; REVOKE EXECUTE ON {NEXT} FROM clerk", True),
    (f"GRANT EXECUTE ON {NEXT} TO clerk; REVOKE EXECUTE ON {NEXT} FROM PUBLIC", True),
    (f"REVOKE EXECUTE ON {NEXT} FROM PUBLIC, clerk", False),
)
# Settings of the whole server, which neither a role nor a database has for itself.
OF_THE_SERVER = (
    ("id_gen.worker_id", "23"), ("id_gen.layout", "js"), ("id_gen.datacenter_id", "3"), ("id_gen.max_lead", "1h"),
    ("id_gen.max_block_size", "1"), ("id_gen.sequence_start", "zero"),
)  # fmt: skip
FOR_WHOM = ("ROLE clerk", "DATABASE {database}", "ROLE clerk IN DATABASE {database}", "ROLE ALL")
NOT_NOW = ("55P02", "42501", "42704", "22023", "42602")


def comparable(written: str) -> str:
    """A dump without the keys of psql's sessions, and with the rows of each table sorted: a restore may put a short row
    where a long one found no room."""
    without_keys = re.sub(r"^\\(un)?restrict .*\n", "", written, flags=re.MULTILINE)
    return ROWS.sub(lambda found: "".join(sorted(found[0].splitlines(keepends=True))), without_keys)


def first_difference(one: str, other: str) -> str:
    """Where two dumps part, with some lines before it."""
    lines, others = one.splitlines(), other.splitlines()
    for number, (line, again) in enumerate(zip(lines, others, strict=False)):
        if line != again:
            return "\n".join([*lines[max(0, number - 5) : number], f"- {line}", f"+ {again}"])
    return f"{len(lines)} and {len(others)} lines; then {(lines + others)[min(len(lines), len(others)) :][:3]}"


class Dump:
    """What pg_dump says of a database."""

    def __init__(
        self, node: Node, database: str, form: Form = "plain", simplify: Callable[[str], str] = comparable
    ) -> None:
        self._origin, self._form, self._simplify = f"{database} of {node}", form, simplify
        if form == "plain":
            self.text = node.cluster.run("pg_dump", dbname=database)
            return
        self._file = node.cluster.base / f"{database}.dump"
        node.cluster.run("pg_dump", "--format=custom", f"--file={self._file}", dbname=database)
        self.text = node.cluster.run("pg_restore", "--file=-", self._file)

    def restore(self, node: Node, database: str) -> None:
        try:
            if self._form == "plain":
                node.cluster.psql(self.text, database)
            else:
                node.cluster.run("pg_restore", "--exit-on-error", "--jobs=2", f"--dbname={database}", self._file)
        except SqlError as error:
            raise Finding("dump", f"a dump of {self._origin} is not restored: {error}") from error
        self.compare(node, database)

    def compare(self, node: Node, database: str) -> None:
        """A copy of the database is dumped as the database is."""
        before, after = (self._simplify(each) for each in (self.text, Dump(node, database, self._form).text))
        if before != after:
            raise Finding("dump", f"{database} of {node} is another database:\n{first_difference(before, after)}")


class Dumps(Snowflakes):
    """Actions on databases, roles and the extension."""

    def __init__(self) -> None:
        self._databases = count(1)
        super().__init__()

    def _database_of(self, node: Node, which: int) -> str:
        return pick(node.databases, which)

    def _with_room(self) -> list[Node]:
        return [node for node in self.world.running() if not node.is_standby and len(node.databases) < MOST_DATABASES]

    @action("dump into a database", form=FORM)
    def restore_into_database(self, which: int, database: int, form: Form, beside: list[str]) -> None:
        """A dump is restored beside its original."""
        node = pick(self._with_room(), which)
        origin = self._database_of(node, database)
        dump = self._dump_of(node, origin, form, beside)
        name = f"copy_{next(self._databases)}"
        node.cluster.psql(f"CREATE DATABASE {name} TEMPLATE template0")
        node.databases.append(name)
        self._restore_dump(dump, node, origin, node, name)

    @action("dump into a server", when=lambda self: len(self.world.nodes) < MOST_SERVERS, form=FORM)
    def restore_into_server(self, which: int, database: int, form: Form, beside: list[str]) -> None:
        """A dump is restored into a new server, with a worker ID of its own."""
        node = self.world.node(which)
        origin = self._database_of(node, database)
        dump = self._dump_of(node, origin, form, beside)
        [(layout,)] = self.world.query(node, "SELECT layout FROM snowflake_layouts() WHERE in_use", database=origin)
        new = self.world.new_node(f"id_gen.layout = '{layout}'", "")
        there = set(new.cluster.psql(ROLES_OF).splitlines())
        roles = set(node.cluster.psql(ROLES_OF).splitlines()) - there
        new.cluster.psql("; ".join(f"CREATE ROLE {role} LOGIN" for role in sorted(roles)))
        self._restore_dump(dump, node, origin, new, DATABASE)

    @action("template", strategy=("wal_log", "file_copy"))
    def copy_by_template(self, which: int, database: int, strategy: str) -> None:
        node = pick(self._with_room(), which)
        origin = self._database_of(node, database)
        self.world.forget_sessions(node)
        name = f"copy_{next(self._databases)}"
        if not self._has_run(node, f"CREATE DATABASE {name} TEMPLATE {origin} STRATEGY {strategy}"):
            return
        # PostgreSQL logs the page of a copied sequence as it is: after a crash before the next checkpoint, nextval()
        # repeats up to 32 numbers.
        node.cluster.psql("CHECKPOINT")
        node.databases.append(name)
        Dump(node, origin).compare(node, name)
        self.database_copied(node, origin, node, name)
        self.look_at_first_ids(node)

    def _has_run(self, node: Node, statement: str) -> bool:
        """Runs a statement on a database that nobody else may use: whether none, a prepared transaction say, does."""
        try:
            node.cluster.psql(statement)
        except SqlError as error:
            if error.sqlstate not in GIVEN_UP:
                raise
            return False
        return True

    @action("drop database")
    def drop_database(self, which: int) -> None:
        able = [node for node in self.world.running() if not node.is_standby and len(node.databases) > 1]
        node = pick(able, which)
        name = node.databases[1 + which % (len(node.databases) - 1)]
        self.world.forget_sessions(node)
        if not self._has_run(node, f"DROP DATABASE {name} WITH (FORCE)"):
            return
        node.databases.remove(name)
        self.database_dropped(node, name)

    @action("drop extension", schema=("public", "ids"), role=("postgres", BUILDER))
    def renew_extension(
        self, which: int, database: int, schema: str, role: str, together: bool, beside: list[str]
    ) -> None:
        """The extension goes and comes again, in another schema, too, and then in the one that it had; and with it the
        defaults of tables. Open sessions go on."""
        node = self.world.node(which)
        name = self._database_of(node, database)
        if self.is_needed(node, name):
            return
        with self.world.passing(node, name) as admin:
            admin.run("SET search_path = ''")
            if admin.run(f"{DEPENDENT} {OTHERS}") or admin.run("SELECT FROM pg_prepared_xacts"):
                return
            defaults = admin.run(f"{DEPENDENT} {DEFAULTS}")
            with suppress(Refused):
                admin.run(f"CREATE ROLE {BUILDER} LOGIN")
            admin.run(f"GRANT CREATE ON DATABASE {name} TO {BUILDER}")
            for where, who in ((schema, role), ("public", "postgres")):
                self.is_extension_gone = True
                if where == "public":
                    # Nobody may block the way back. A client without the extension leaves its transaction prepared.
                    beside = []
                    self.world.forget_sessions(node)
                    self.world.commit_prepared(node)
                with self.crowd(node, beside):
                    is_renewed = self._renew(admin, where, who, together, defaults)
                self.is_extension_gone = False
                if not is_renewed:
                    return
                self._use_anew(node, name, where)
                if who != "postgres":
                    admin.run(f"REASSIGN OWNED BY {who} TO postgres")
        self.look_at_first_ids(node)

    def _renew(self, admin: Session, schema: str, role: str, together: bool, defaults: list[tuple[str, str]]) -> bool:
        """Drops the extension, and creates it in a schema. Whether nobody was in the way."""
        statements = [
            "DROP EXTENSION id_gen CASCADE",
            *([f"CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {BUILDER}"] if schema != "public" else []),
            f"SET ROLE {role}",
            f"CREATE EXTENSION id_gen_tools SCHEMA {schema} CASCADE",
            "RESET ROLE",
            # The functions move, and not the sequences that stand in quotes.
            *(f"{alter} {MOVED.sub(f'{schema}.', expression)}" for alter, expression in defaults),
        ]
        for statement in ["BEGIN", *statements, "COMMIT"] if together else statements:
            admin.run(PATIENCE if statement.startswith("DROP") else "SET lock_timeout = 0")
            try:
                admin.run(statement)
            except Refused as refused:
                if refused.sqlstate not in GIVEN_UP or not statement.startswith("DROP"):
                    raise Finding("extension", f"{statement}: {refused}") from refused
                if together:
                    admin.run("ROLLBACK")
                return False
        return True

    def _use_anew(self, node: Node, database: str, schema: str) -> None:
        """A session and an insert that find the extension where it is now."""

        def call(session: Session) -> None:
            session.generate(f"SELECT {schema}.snowflake_next()")
            session.generate("INSERT INTO public.item DEFAULT VALUES RETURNING id")

        # Where the path does not lead to the functions, HINTs name their schema.
        with self.world.passing(node, database) as session:
            self.insist(session, call)

    # Roles

    @action("privileges", change=PRIVILEGES)
    def change_privileges(self, which: int, database: int, change: tuple[str, bool]) -> None:
        """What the clerk may call, also where a default of a table calls it."""
        node = self.world.node(which)
        name = self._database_of(node, database)
        statements, is_allowed = change
        with self.world.passing(node, name) as admin:
            for statement in statements.split("; "):
                admin.run(statement)

        def call(session: Session) -> None:
            try:
                session.generate("INSERT INTO item DEFAULT VALUES RETURNING id")
            except Refused as refused:
                if refused.sqlstate != "42501" or is_allowed:
                    # A refusal for want of privileges would count as an answer.
                    if refused.sqlstate == "42501":
                        raise Finding("privileges", f"after {statements}: {refused}") from refused
                    raise
                return
            if not is_allowed:
                raise Finding("privileges", f"the clerk inserts after {statements}")

        self.insist(self.world.open(node, name, "clerk"), call)

    @action("settings of roles", setting=OF_THE_SERVER, whom=FOR_WHOM, by=("ALTER", "SET", "set_config", "options"))
    def set_for_role(self, which: int, database: int, setting: tuple[str, str], whom: str, by: str) -> None:
        """Somebody wants another worker ID, or another layout, for some sessions: refused, or without effect."""
        node = self.world.node(which)
        name = self._database_of(node, database)
        parameter, value = setting
        alter = f"ALTER {whom.format(database=name)}"
        if by == "ALTER":
            with self.world.passing(node, name) as admin:
                self._try_to_set(admin, f"{alter} SET {parameter} = '{value}'")
        options = {parameter: value} if by == "options" else {}
        try:
            session = self.world.open(node, name, "clerk", **options)
        except Exception as error:  # noqa: BLE001, a connection that is refused has no class of its own
            if parameter not in str(error):
                raise
            session = self.world.open(node, name, "clerk")
        if by == "SET":
            self._try_to_set(session, f"SET {parameter} = '{value}'")
        elif by == "set_config":
            self._try_to_set(session, f"SELECT set_config('{parameter}', '{value}', false)")

        def call(session: Session) -> None:
            [(_, worker)] = session.generate("SELECT id, (snowflake_parse(id)).worker_id FROM snowflake_next() id")
            if node.worker is not None and worker != node.worker:
                raise Finding("settings", f"the clerk has worker ID {worker} on {node}, not {node.worker}")

        self.insist(session, call)
        if by == "ALTER":
            with self.world.passing(node, name) as admin:
                self._try_to_set(admin, f"{alter} RESET {parameter}")

    def _try_to_set(self, session: Session, statement: str) -> None:
        try:
            session.run(statement)
        except Refused as refused:
            if refused.sqlstate not in NOT_NOW:
                raise Finding("settings", f"{statement}: {refused}") from refused

    # How it is done

    def _dump_of(self, node: Node, database: str, form: Form, beside: list[str]) -> Dump:
        self.world.say(f"{node}: dump ({form}) of {database}")
        with self.crowd(node, beside):
            return Dump(node, database, form)

    def _restore_dump(self, dump: Dump, node: Node, origin: str, copy: Node, name: str) -> None:
        self.world.say(f"{copy}: restores it into {name}")
        dump.restore(copy, name)
        self.database_copied(node, origin, copy, name)
        self.look_at_first_ids(copy)
