"""An administrator who reads what a refusal says, and types its HINT as it stands.

What a HINT leaves to a person is decided here: which worker ID is unused, whether the original of a copy is gone, and
whether the clock is right.
"""

import re
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from attack.finding import Finding
from attack.world import Node, Refused, Session, World
from harness.clock import ahead_ms
from harness.cluster import SqlError
from harness.fleet import UNREACHABLE

Result = TypeVar("Result")

# How many HINTs one refusal may take.
HINTS = 3
# How long a condition may take that a HINT says to wait for.
PATIENCE_SECONDS = 15

STATEMENT = re.compile(r"\b(?:ALTER|CREATE|GRANT|SELECT|UPDATE) [^;]*;")
NOTHING_TO_TYPE = re.compile(r"\b(connect again|run (it|the statement) again|restart)\b", re.IGNORECASE)
RESET = re.compile(r"ALTER ROLE \.\.\. RESET ([\w.]+)")
SET_IN_CATALOG = """
    SELECT CASE WHEN setrole = 0 AND setdatabase <> 0 THEN format('ALTER DATABASE %I', datname)
                ELSE 'ALTER ROLE ' || coalesce(quote_ident(rolname), 'ALL')
                     || coalesce(' IN DATABASE ' || quote_ident(datname), '')
           END || ' RESET {0};'
      FROM pg_db_role_setting LEFT JOIN pg_roles r ON r.oid = setrole LEFT JOIN pg_database d ON d.oid = setdatabase
     WHERE EXISTS (SELECT FROM unnest(setconfig) entry WHERE entry LIKE '{0}=%')
"""
CONF_LINE = re.compile(r"shared_preload_libraries = '.*'$")

# Refusals that are answers, and need no way out: of a session that was ended or canceled, of conflicts that a client
# repeats, of a role without privileges, of a standby, and of a parallel worker.
ANSWERS = ("57014", "57P", "08", "40001", "40P01", "42501", "25006", "25000", "25P02", "55P03")

# The extension is in another schema for a while.
MOVED = "42883"
# Checks that warn of what is not at hand on this machine, or of what is somebody else's.
NOT_ILL = {"clock_synchronized", "clock_steps", "preload", "privileges", "ordered_uuids", "column_types", "tickets"}
# The session has a setting that hides the server's.
HIDDEN = ("preload", "error")


def is_answer(refused: Refused) -> bool:
    if refused.message.startswith("nextval: "):
        # PostgreSQL's own, which has no hints.
        return True
    return refused.sqlstate.startswith(ANSWERS) and not refused.sqlstate.startswith("55000")


class Administrator:
    """One who looks after all servers of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def insist(self, session: Session, call: Callable[[Session], Result]) -> Result | None:
        """Has a call succeed that may be refused, by the HINTs alone. None if a refusal was its answer."""
        node, database, role, settings = session.node, session.database, session.role, session.settings
        told = ""
        for tries in count():
            try:
                return call(session)
            except Refused as refused:
                if is_answer(refused):
                    return None
                if self.has_tried_enough(tries):
                    raise Finding("way out", f"{node} still refuses after {tries} hints: {refused}") from refused
                if refused.message != told:
                    self._world.say(f"administrator: reads of {node}: {refused}")
                    told = refused.message
                self.examine(node, session)
                if not refused.hint:
                    raise Finding("way out", f"no hint: {refused}") from refused
                if re.search(r"worker_id = \d", refused.hint):
                    raise Finding("way out", f"proposes a worker ID to everybody: {refused}") from refused
                self.follow(node, database, refused)
                if "connect again" in refused.hint.lower():
                    for each in [session, *node.sessions]:
                        if not each.in_transaction:
                            each.close()
            if not session.is_open:
                # One that hides the server's is not set again.
                settings = {name: value for name, value in settings.items() if f'"{name}"' not in told}
                session = self._world.open(node, database, role, **settings)
        raise AssertionError

    def has_tried_enough(self, tries: int) -> bool:
        """Whether a call that was refused so often, and each time its HINT followed, is one without a way out."""
        return tries == HINTS

    def examine(self, node: Node, session: Session) -> None:
        """While a server refuses snowflakes, its checks say why."""
        refusal = ""
        # What is over by itself meanwhile, is no finding.
        for _ in range(3):
            with self._world.passing(node, session.database) as other:
                try:
                    found = other.run("SELECT name, status FROM id_gen_check() WHERE status <> 'ok'")
                except Refused as refused:
                    if refused.sqlstate == MOVED:
                        return
                    raise
                if any(row[0] not in NOT_ILL or row == HIDDEN for row in found):
                    return
                try:
                    other.generate()
                    return
                except Refused as own:
                    if is_answer(own):
                        return
                    refusal = f"{own}"
        raise Finding("check", f"all checks of {node} are ok, but: {refusal}")

    def follow(self, node: Node, database: str, refused: Refused) -> None:
        """Does what the HINT says."""
        hint = refused.hint
        if refused.message == "the clock jumped forward" or "ahead of the clock" in refused.message + refused.detail:
            self.put_clock_right(node, database, refused)
            return
        statements = self.choose(node, hint)
        if line := CONF_LINE.search(hint):
            node.cluster.append_conf(line[0])
        elif not statements and not NOTHING_TO_TYPE.search(hint):
            raise Finding("way out", f"nothing to type: {refused}")
        for statement in statements:
            self.type(node, database, statement)
        # `RESTART WITH` of a sequence is no restart of the server.
        if re.search(r"\brestart( the server)?\b", STATEMENT.sub("", hint), re.IGNORECASE):
            self._world.restart(node)

    def choose(self, node: Node, hint: str) -> list[str]:
        """The statements of the alternative that is true."""
        # What needs the time of an ID is for another case.
        statements = [each for each in STATEMENT.findall(hint) if "<time of" not in each]
        if "id_gen_copy_accept" in hint:
            # Whether its original is gone, only a person knows.
            other = [each for each in statements if "copy_accept" not in each]
            return [each for each in statements if "copy_accept" in each] if node.original is None else other
        if "id_gen_layout_accept" in hint:
            return [each for each in statements if "layout_accept" not in each]
        if found := RESET.search(hint):
            # Of which role or database it is, a person looks up. It may be the connection's own.
            return node.cluster.psql(SET_IN_CATALOG.format(found[1])).splitlines()
        return statements

    def put_clock_right(self, node: Node, database: str, refused: Refused) -> None:
        """All machines' clocks are set to the latest time that they showed, which is the right one here; what says that
        they jumped is accepted."""
        if "jumped" in refused.message:
            for statement in STATEMENT.findall(refused.hint):
                self.type(node, database, statement)
            return
        if not self._world.wall.behind_s and "Or allow the difference: " in refused.hint:
            # They are. Nobody set them back, and somebody asks for more than there are by now.
            for statement in STATEMENT.findall(refused.hint.partition("or choose ")[0]):
                self.type(node, database, statement)
            return
        self._world.say("administrator: puts the clocks right")
        if ahead := ahead_ms(refused.detail):
            # A step that no server takes for a jump.
            self._world.wall.step(min(ahead / 1000, 500))

    def type(self, node: Node, database: str, statement: str) -> None:
        """Runs a statement of a HINT."""
        if "<worker ID>" in statement:
            statement = statement.replace("<worker ID>", str(self._world.assign(node)))
        statement = statement.replace("<datacenter ID>", "0")
        # The registry's address is in the configuration file.
        statement = statement.replace("SET id_gen.registry = '<address>'", "RESET id_gen.registry")
        self._world.say(f"administrator: types on {node}: {statement}")
        try:
            node.cluster.psql(statement, database)
        except SqlError as error:
            if error.sqlstate == UNREACHABLE:
                # The call is refused again then, and the statement typed again.
                return
            raise Finding("way out", f"a hint is refused as typed: {statement}: {error}") from error
        if "pg_reload_conf()" in statement and node.worker is not None:
            # Until the server has read the file, it goes on with the number of before.
            node.cluster.poll_until("SHOW id_gen.worker_id", expected=str(node.worker))
